# SPDX-License-Identifier: Apache-2.0
"""What follows from the networks and ports of Neutron: decisions only."""

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

Record = Mapping[str, Any]

#: ``compute:`` makes routers and port forwarding treat the port as one of an instance.
DEVICE_OWNER = "compute:zun"
#: Description of the security groups for exposed ports, by which the sweep finds them.
GROUP_DESCRIPTION = "Lets the exposed ports of a container in"
#: What takes a port from its container and host, and leaves it as its owner made it.
UNBOUND = {"device_id": "", "device_owner": "", "binding:host_id": ""}
#: Kinds of binding that a host can plug, by the port's ``binding:vnic_type``.
USABLE = {"normal": "ovs", "direct": "hw_veb"}
#: Members of ``binding:profile`` that name the virtual function of a ``direct`` port.
_FUNCTION = ("pci_vendor_info", "pci_slot", "physical_network")


def own_name(container_uuid: str) -> str:
    """Return the name of what this service makes for a container: its ports, and the group of its exposed ports.

    A port with another name belongs to its user.
    """
    return f"zun-{container_uuid}"


def container_of(name: str) -> str:
    """Return the uuid in a name of ``own_name``, and an empty text for another name."""
    return name.removeprefix("zun-") if name.startswith("zun-") else ""


def is_own(port: Record) -> bool:
    """Return whether this service made the port, and so deletes the port."""
    return bool(port.get("device_id")) and port.get("name") == own_name(str(port["device_id"]))


def vnic_type(port: Record) -> str:
    """Return the kind of interface that the port is for: ``normal``, or ``direct`` for a virtual function (SR-IOV)."""
    return str(port.get("binding:vnic_type") or "normal")


def needs_function(port: Record) -> bool:
    """Return whether the port needs a virtual function (SR-IOV) of its container's host."""
    return vnic_type(port) == "direct"


def physical_network(network: Record) -> str | None:
    """Return the physical network of a network, of its first segment that has one, or None (a tunnel).

    Only administrators see physical networks.
    """
    segments = network.get("segments") or [network]
    return next((str(name) for each in segments if (name := each.get("provider:physical_network"))), None)


def with_function(port: Record, vendor_info: str, slot: str, network: str) -> dict[str, Any]:
    """Return the binding profile of a ``direct`` port on the virtual function at the PCI address ``slot``.

    ``vendor_info`` are the function's vendor and product, ``8086:10ed``; ``network`` is its physical network.
    """
    profile = port.get("binding:profile") or {}
    return {**profile, **dict(zip(_FUNCTION, (vendor_info, slot, network), strict=True))}


def unbound(port: Record) -> dict[str, Any]:
    """Return what takes a user's port from its container and host, and leaves it as its user made it."""
    profile = port.get("binding:profile") or {}
    if "pci_slot" not in profile:
        return UNBOUND
    return {**UNBOUND, "binding:profile": {name: each for name, each in profile.items() if name not in _FUNCTION}}


def rules(group: str, exposed: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rules that let everybody reach the exposed ports (``80/tcp``) of the containers in a security group.
    """
    return [
        {
            "security_group_id": group,
            "direction": "ingress",
            "ethertype": family,
            "protocol": protocol,
            "port_range_min": int(number),
            "port_range_max": int(number),
        }
        for number, _, protocol in (port.partition("/") for port in exposed)
        for family in ("IPv4", "IPv6")
    ]


def default_network(networks: Sequence[Record], project_id: str) -> Record | None:
    """Return the oldest network of the project, else the oldest shared network, else None. External ones are not meant.
    """
    inner = [each for each in networks if not each.get("router:external")]
    inner.sort(key=lambda each: (each.get("project_id") != project_id, str(each.get("created_at") or ""), each["id"]))
    usable = [each for each in inner if each.get("project_id") == project_id or each.get("shared")]
    return usable[0] if usable else None


def fixed_ips(given: Record) -> list[dict[str, str]]:
    """Return the member ``fixed_ips`` of a new port for an item of ``nets`` or the arguments of ``network_attach``."""
    chosen = (given.get("v4-fixed-ip"), given.get("v6-fixed-ip"), given.get("fixed_ip"))
    return [{"ip_address": address} for address in chosen if address]


def wanted(port: Record, *, preserve: bool) -> dict[str, Any]:
    """Return the port in the form that ``zun.db.network_ports`` stores. ``preserve``: its user made it and keeps it."""
    addresses = [
        {"subnet_id": each["subnet_id"], "ip_address": each["ip_address"]} for each in port.get("fixed_ips") or ()
    ]
    return {"network": port["network_id"], "uuid": port["id"], "fixed_ips": addresses, "preserve": preserve}


def network_row(network: Record, subnets: Sequence[Record]) -> dict[str, Any]:
    """Return the network in the form that ``zun.db.networks`` stores."""
    return {
        "uuid": network["id"],
        "neutron_net_id": network["id"],
        "project_id": network.get("project_id") or network.get("tenant_id") or "",
        "name": network.get("name") or None,
        "shared": bool(network.get("shared")),
        "subnets": [
            {"uuid": each["id"], "cidr": each["cidr"], "gateway": each.get("gateway_ip") or ""} for each in subnets
        ],
    }


@dataclass(frozen=True, slots=True)
class Wiring:
    """All that a host needs to wire a container to a port, without asking Neutron again.

    ``addresses`` have the prefix of their subnet: ``10.7.0.9/24``. ``gateways`` are the next hops of the default route,
    at most one for each family. ``routes`` are pairs of destination and next hop. ``binding`` is Neutron's kind of
    binding with its details. ``isolated`` is whether Neutron's agent for Open vSwitch lets the port out of the VLAN in
    which all packets are dropped; other agents leave it there. ``slot`` is the PCI address of the virtual function of a
    port that has one, and ``vlan`` the VLAN of its traffic outside, 0 for none.
    """

    port: str
    container: str
    network: str
    mac: str
    mtu: int
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    dns: tuple[str, ...] = ()
    binding: str = "ovs"
    bridge: str = "br-int"
    hybrid: bool = False
    datapath: str = "system"
    isolated: bool = False
    slot: str = ""
    vlan: int = 0

    @classmethod
    def of(cls, port: Record, network: Record, subnets: Sequence[Record], *, primary: bool) -> Self:
        """Return the wiring of a bound port. The default route of a container is that of its ``primary`` port."""
        by_id = {each["id"]: each for each in subnets}
        mine = [(each["ip_address"], by_id[each["subnet_id"]]) for each in port.get("fixed_ips") or ()
                if each["subnet_id"] in by_id]  # fmt: skip
        gateways = {each["ip_version"]: each["gateway_ip"] for _, each in reversed(mine) if each.get("gateway_ip")}
        details = port.get("binding:vif_details") or {}
        routes = {(route["destination"], route["nexthop"]): None for _, each in mine
                  for route in each.get("host_routes") or ()}  # fmt: skip
        return cls(
            port=port["id"],
            container=port["device_id"],
            network=port["network_id"],
            mac=port["mac_address"],
            mtu=int(network.get("mtu") or 1500),
            addresses=tuple(
                f"{address}/{ipaddress.ip_network(subnet['cidr']).prefixlen}" for address, subnet in mine
            ),
            gateways=tuple(gateways[version] for version in sorted(gateways)) if primary else (),
            routes=tuple(routes),
            dns=tuple(dict.fromkeys(server for _, each in mine for server in each.get("dns_nameservers") or ())),
            binding=str(port.get("binding:vif_type")),
            bridge=details.get("bridge_name") or "br-int",
            hybrid=bool(details.get("ovs_hybrid_plug")),
            datapath=details.get("datapath_type") or "system",
            isolated="openvswitch" in (details.get("bound_drivers") or {}).values(),
            slot=str((port.get("binding:profile") or {}).get("pci_slot") or ""),
            vlan=int(details.get("vlan") or 0),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the wiring that ``to_json`` wrote. Raises ValueError."""
        try:
            values = json.loads(text)
            lists = {name: tuple(values[name]) for name in ("addresses", "gateways", "dns")}
            routes = tuple((each[0], each[1]) for each in values["routes"])
            return cls(**{**values, **lists, "routes": routes})
        except (TypeError, KeyError, IndexError, ValueError) as exc:
            raise ValueError(f"'{text[:64]}' is not the wiring of a port: {exc!r}") from None

    def first(self, version: int) -> str:
        """Return the first address of this family with its prefix, or an empty text."""
        return next((each for each in self.addresses if ipaddress.ip_interface(each).version == version), "")

    def gateway(self, version: int) -> str:
        """Return the gateway of this family, or an empty text."""
        return next((each for each in self.gateways if ipaddress.ip_address(each).version == version), "")

    def lacks_gateway(self, subnets: Sequence[Record]) -> bool:
        """Return whether the wiring has no gateway, and a subnet of its addresses has one.

        ``subnets`` are in the form of ``network_row``.
        """
        mine = {ipaddress.ip_interface(each).network for each in self.addresses}
        return not self.gateways and any(
            each["gateway"] and ipaddress.ip_network(each["cidr"]) in mine for each in subnets
        )


def misbound(port: Record, host: str) -> str | None:
    """Return why ``host`` cannot use the port in the present binding, or None if the host can."""
    kind = port.get("binding:vif_type")
    if port.get("binding:host_id") != host:
        return f"it is bound to host '{port.get('binding:host_id') or ''}'"
    if kind == "binding_failed":
        return (
            f"Neutron cannot bind it to host '{host}': no L2 agent of exactly this name is alive there and has the "
            "network's physical network. See 'openstack network agent list' and [neutron] agent_host"
        )
    if kind != USABLE.get(vnic_type(port)):
        return (
            f"its binding is of the kind '{kind}' for an interface of the kind '{vnic_type(port)}', which containers "
            f"cannot use; they can use {', '.join(f'{each} for {name}' for name, each in USABLE.items())}"
        )
    return None
