# SPDX-License-Identifier: Apache-2.0
"""A small Neutron in memory, behind real HTTP, that can fail at any step."""

import contextlib
import ipaddress
import pathlib
import uuid

import pytest

from zun.api import app as api_app
from zun.common import exceptions
from zun.db import containers, network_ports
from zun.network.fake import InMemoryNetworks
from zun.network.neutron import NeutronNetworks
from zun.network.plugin import WIRING, Wires
from zun.network.virtual_functions import VirtualFunctions
from zun.neutron.client import NeutronClient
from zun.tests.fixtures import wait_for, written_conf
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages
from zun.tests.functional.fake_service import PATIENCE, FakeService

RULES = "security-group-rules"


class Docker:
    """The engine of a Docker daemon in memory whose network driver is ``wires``. Its containers run and never end."""

    def __init__(self, wires):
        self.api, self.wires = self, wires
        self.endpoints, self.joined = {}, {}
        self.connected = []

    def translated(self, action, container=None):
        return contextlib.nullcontext()

    def inspect_container(self, name):
        return {"NetworkSettings": {"Networks": self.endpoints.setdefault(name, {})}}

    def inspect_network(self, name):
        return {"Id": name}

    def connect_container_to_network(self, container, network, driver_opt=None):
        assert network not in self.endpoints[container]
        endpoint = uuid.uuid4().hex
        self.connected.append(network)
        if driver_opt:
            options = {WIRING: driver_opt[WIRING]}
            self.wires.answer("NetworkDriver.CreateEndpoint", {"EndpointID": endpoint, "Options": options})
            self.joined[endpoint] = self.wires.answer("NetworkDriver.Join", {"EndpointID": endpoint})
        self.endpoints[container][network] = {"NetworkID": network, "DriverOpts": driver_opt, "EndpointID": endpoint}

    def disconnect_container_from_network(self, container, network, force=False):
        endpoint = self.endpoints[container].pop(network)["EndpointID"]
        if self.joined.pop(endpoint, None):
            self.wires.answer("NetworkDriver.DeleteEndpoint", {"EndpointID": endpoint})

    def gateways(self, container):
        """The default routes of a container."""
        found = (self.joined.get(each["EndpointID"], {}) for each in self.endpoints[container].values())
        return [each["Gateway"] for each in found if each.get("Gateway")]


class FakeNeutron(FakeService):
    """``records`` by collection and id."""

    def __init__(self):
        self.records = {name: {} for name in ("networks", "subnets", "ports", "security-groups", RULES)}
        self.agents = {"host-1"}
        super().__init__()

    def options(self):
        """The group ``[neutron]`` of a service that asks this Neutron."""
        return {
            "auth_type": "none", "endpoint_override": self.url, "timeout": PATIENCE, "connect_retries": 0,
            "status_code_retries": 0, "active_timeout": 1,
        }  # fmt: skip

    def network(self, project, cidr="10.7.0.0/24", **fields):
        made = str(uuid.uuid4())
        base = {"id": made, "name": f"net-{made[:4]}", "project_id": project, "shared": False, "mtu": 1450}
        self.records["networks"][made] = {**base, "created_at": f"{len(self.records['networks']):04}", **fields}
        self.subnet(made, cidr, cidr.replace("0/24", "1"))
        return made

    def subnet(self, network, cidr, gateway):
        made = {"id": str(uuid.uuid4()), "network_id": network, "cidr": cidr, "gateway_ip": gateway}
        more = {"ip_version": 6 if ":" in cidr else 4, "host_routes": [], "dns_nameservers": ["10.7.0.53"]}
        self.records["subnets"][made["id"]] = {**made, **more}

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
            number = kept[ident]["revision_number"]
            if self.headers.get("If-Match") not in (None, f"revision_number={number}"):
                return 412, {"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "stale"}}
            kept[ident] = self._bound({**kept[ident], **body[member], "revision_number": number + 1})
        return 200, {member: kept[ident]}

    def _port(self, uuid_, given):
        subnets = [each for each in self.records["subnets"].values() if each["network_id"] == given["network_id"]]
        free = subnets[0]["cidr"].replace("0/24", str(len(self.ports) + 5))
        addresses = [
            {"subnet_id": each["id"], **chosen}
            for chosen in given.get("fixed_ips") or [{"ip_address": free}]
            for each in subnets
            if ipaddress.ip_address(chosen["ip_address"]) in ipaddress.ip_network(each["cidr"])
        ]
        made = {
            "status": "DOWN", "mac_address": "fa:16:3e:00:00:01", "name": "", "device_id": "", "security_groups": [],
            **given, "id": uuid_, "revision_number": 1, "fixed_ips": addresses,
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


class Switch:
    """Interfaces in memory."""

    def __init__(self):
        self.plugged, self.failure, self.calls = {}, None, []

    def start(self):
        pass

    def plug(self, wiring):
        if self.failure:
            raise exceptions.PortUnusable(reason=self.failure)
        self.calls.append("plug")
        self.plugged[wiring.port] = wiring
        return f"zun{wiring.port[:11]}"

    def unplug(self, wiring):
        self.calls.append("unplug")
        self.plugged.pop(wiring.port, None)


class Driver(NeutronNetworks):
    """The driver, with bridges in memory instead of Docker's networks."""

    def __init__(self, client, wires, host="host-1", root=pathlib.Path("/")):
        socket = pathlib.Path("/run/docker/plugins/zun.sock")
        super().__init__(None, client, host, wires, socket, VirtualFunctions(root))
        self.bridges = InMemoryNetworks()
        self._engine = Docker(wires)

    def start(self):
        self._wires.start()

    def rejoin(self, container, project_id):
        """Do nothing: no container of these tests is on the default network of a project."""

    def ensure(self, port):
        self.bridges.ensure(port)

    def present(self):
        return self.bridges.present()

    def remove(self, network_uuid):
        self.bridges.remove(network_uuid)


@pytest.fixture
def neutron():
    made = FakeNeutron()
    yield made
    made.stop()


@pytest.fixture
def client(neutron):
    return NeutronClient(neutron.adapter())


@pytest.fixture
def conf(neutron, tmp_path):
    lines = [f"{name} = {value}\n" for name, value in neutron.options().items()]
    text = "[api]\nauth_strategy = noauth\nhost_names = zun.example\n[network]\ndriver = neutron\n[neutron]\n"
    return written_conf(tmp_path, text + "".join(lines))


@pytest.fixture
def api(database, conf):
    application = api_app.build(conf, scheduler_api=SchedulerMessages(), compute_api=ComputeMessages())
    return Client(application, user="alice", project="demo", roles="member", version="1.40")


@pytest.fixture
def wires(client, tmp_path):
    made = Wires(tmp_path / "wires", {"ovs": Switch(), "hw_veb": Switch()}, client, 0.2)
    made.start()
    return made


def create(api, **fields):
    return api.post("/v1/containers", {"image": "demo", **fields})


def users_port(neutron, network):
    body = {"port": {"network_id": network, "project_id": "demo", "name": "mine"}}
    return neutron._perform("POST", "ports", "", body, {})[1]["port"]["id"]


def swept(driver, neutron):
    """Sweep as two hours later."""
    wait_for(lambda: not neutron.under_way)
    for each in (*neutron.ports.values(), *neutron.groups.values()):
        each["updated_at"] = "2026-01-01T00:00:00Z"
    driver.sweep(network_ports.known)
    driver._looked_for_groups = None
    driver.sweep_shared(lambda uuids: {each["uuid"] for each in containers.of_uuids(uuids)})
