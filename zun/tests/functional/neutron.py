# SPDX-License-Identifier: Apache-2.0
"""A small Neutron in memory, behind real HTTP, that can fail at any step."""

import uuid

from zun.tests.functional.fake_service import FakeService

RULES = "security-group-rules"


class FakeNeutron(FakeService):
    """``records`` by collection and id."""

    def __init__(self):
        self.records = {name: {} for name in ("networks", "subnets", "ports", "security-groups", RULES)}
        self.agents = {"host-1"}
        super().__init__()

    def options(self):
        """The group ``[neutron]`` of a service that asks this Neutron."""
        return {
            "auth_type": "none", "endpoint_override": self.url, "timeout": 0.5, "connect_retries": 0,
            "status_code_retries": 0, "active_timeout": 1,
        }  # fmt: skip

    def network(self, project, cidr="10.7.0.0/24", **fields):
        made = str(uuid.uuid4())
        base = {"id": made, "name": f"net-{made[:4]}", "project_id": project, "shared": False, "mtu": 1450}
        self.records["networks"][made] = {**base, "created_at": f"{len(self.records['networks']):04}", **fields}
        subnet = {"id": str(uuid.uuid4()), "network_id": made, "cidr": cidr, "ip_version": 4}
        more = {"gateway_ip": cidr.replace("0/24", "1"), "host_routes": [], "dns_nameservers": ["10.7.0.53"]}
        self.records["subnets"][subnet["id"]] = {**subnet, **more}
        return made

    @property
    def ports(self):
        return self.records["ports"]

    @property
    def groups(self):
        return self.records["security-groups"]

    @property
    def rules(self):
        return self.records[RULES]

    def found(self, method, path, query, body):
        collection, _, ident = path.partition("/")
        missing = {"NeutronError": {"type": "NotFound", "message": "not here", "detail": ""}}
        return self._perform(method, collection, ident, body, query) or (404, missing)

    def _perform(self, method, collection, ident, body, query):
        kept, member = self.records[collection], collection.replace("-", "_").removesuffix("s")
        if collection == RULES:
            made = [{**rule, "id": str(uuid.uuid4())} for rule in body["security_group_rules"]]
            kept.update({rule["id"]: rule for rule in made})
            return 201, {"security_group_rules": made}
        if collection == "security-groups" and method == "POST":
            group = {**body[member], "id": str(uuid.uuid4())}
            kept[group["id"]] = group
            return 201, {member: group}
        if collection == "security-groups" and method == "DELETE":
            if any(ident in port["security_groups"] for port in self.ports.values()):
                return 409, {"NeutronError": {"type": "SecurityGroupInUse", "message": "in use", "detail": ""}}
            self.records[RULES] = {
                name: rule for name, rule in self.records[RULES].items() if rule["security_group_id"] != ident
            }
        if method == "POST":
            kept[made] = self._port(made := str(uuid.uuid4()), body[member])
            return 201, {member: kept[made]}
        if not ident:
            wanted = {name: value for name, value in query.items() if name != "fields"}
            same = [each for each in kept.values()
                    if all(str(each.get(name)).lower() == value.lower() for name, value in wanted.items())]  # fmt: skip
            return 200, {collection.replace("-", "_"): same}
        if ident not in kept:
            return None
        if method == "DELETE":
            del kept[ident]
            return 204, ""
        if method == "PUT":
            kept[ident] = self._bound({**kept[ident], **body[member]})
        return 200, {member: kept[ident]}

    def _port(self, uuid_, given):
        (subnet,) = (each for each in self.records["subnets"].values() if each["network_id"] == given["network_id"])
        addresses = given.get("fixed_ips") or [{"ip_address": subnet["cidr"].replace("0/24", str(len(self.ports) + 5))}]
        made = {
            "status": "DOWN", "mac_address": "fa:16:3e:00:00:01", "name": "", "device_id": "", "security_groups": [],
            **given, "id": uuid_, "fixed_ips": [{"subnet_id": subnet["id"], **each} for each in addresses],
        }  # fmt: skip
        return self._bound(made)

    def _bound(self, port):
        host = port.get("binding:host_id")
        kind = "unbound" if not host else "ovs" if host in self.agents else "binding_failed"
        details = {}
        if kind == "ovs" and port.get("binding:vnic_type") == "direct":
            kind = "hw_veb" if "pci_slot" in port.get("binding:profile", {}) else "binding_failed"
            details = {"vlan": "101", "port_filter": False, "connectivity": "l2"}
        status = "ACTIVE" if kind in ("ovs", "hw_veb") else "DOWN"
        return {**port, "binding:vif_type": kind, "binding:vif_details": details, "status": status}
