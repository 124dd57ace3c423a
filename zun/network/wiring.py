# SPDX-License-Identifier: Apache-2.0
"""Make the interfaces of containers and plug them into Open vSwitch with os-vif."""

import contextlib
import ctypes
import fcntl
import importlib
import logging
import pathlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from zun.common import exceptions
from zun.neutron.ports import Wiring

LOG = logging.getLogger(__name__)

_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
#: The kernel's answers for an interface that does not exist.
_NO_DEVICE = (19, 2)


def host_end(port: str) -> str:
    """Return the name of the host's end: Neutron's agents expect ``tap`` and 11 digits of the port."""
    return f"tap{port[:11]}"


def container_end(port: str) -> str:
    """Return the name that the container's end has until Docker moves it into the container."""
    return f"zun{port[:11]}"


class OpenVSwitch:
    """Plugs veth pairs. ``connection`` is where the switch's database listens, ``tcp:ADDRESS:PORT`` or ``unix:PATH``.

    os-vif and pyroute2 are imported at the start, because hosts without Neutron need not have them.
    """

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._os_vif: Any = None
        self._pyroute2: Any = None

    def start(self) -> None:
        try:
            self._os_vif = importlib.import_module("os_vif")
            self._pyroute2 = importlib.import_module("pyroute2")
            privsep = importlib.import_module("vif_plug_ovs.privsep")
            options = importlib.import_module("vif_plug_ovs.ovs").OvsPlugin.CONFIG_OPTS
        except ImportError as exc:
            raise exceptions.Misconfigured(
                f"[network] driver = neutron needs os-vif: {exc}. Install it with 'pip install zun[neutron]'."
            ) from exc
        # os-vif reads oslo.config's global object when it loads, and would call sudo for a helper process.
        cfg.CONF.register_opts(options, group="os_vif_ovs")
        cfg.CONF.set_override("ovsdb_connection", self._connection, group="os_vif_ovs")
        privsep.vif_plug.set_client_mode(False)
        self._os_vif.initialize()

    def plug(self, wiring: Wiring) -> str:
        mine, other = host_end(wiring.port), container_end(wiring.port)
        with self._translated("plug", wiring):
            with self._pyroute2.IPRoute() as links:
                self._remove(links, mine)
                links.link("add", ifname=mine, kind="veth", peer={"ifname": other})
                _keep_the_host_out(mine)
                for name, more in ((mine, {"state": "up"}), (other, {"address": wiring.mac})):
                    (index,) = links.link_lookup(ifname=name)
                    links.link("set", index=index, mtu=wiring.mtu, **more)
            if wiring.datapath == "netdev":
                _leave_checksums_to_the_sender(other)
            # Until the agent filters the new interface, nobody may reach it: the port of a container that Docker has
            # restarted may still be ACTIVE. os-vif takes no argument for this; the caller plugs one port at a time.
            cfg.CONF.set_override("isolate_vif", wiring.isolated, group="os_vif_ovs")
            self._os_vif.plug(self._vif(wiring), self._owner(wiring))
            if wiring.hybrid:
                for name in (_bridge(wiring), f"qvo{wiring.port[:11]}"):
                    _keep_the_host_out(name)
                with self._pyroute2.IPRoute() as links:
                    (index,), (bridge,) = links.link_lookup(ifname=mine), links.link_lookup(ifname=_bridge(wiring))
                    links.link("set", index=index, master=bridge)
        return other

    def unplug(self, wiring: Wiring) -> None:
        with self._translated("unplug", wiring):
            self._os_vif.unplug(self._vif(wiring), self._owner(wiring))
            with self._pyroute2.IPRoute() as links:
                self._remove(links, host_end(wiring.port))

    def _remove(self, links: Any, name: str) -> None:
        try:
            for index in links.link_lookup(ifname=name):
                links.link("del", index=index)
        except self._pyroute2.NetlinkError as exc:
            if exc.code not in _NO_DEVICE:
                raise

    @contextlib.contextmanager
    def _translated(self, action: str, wiring: Wiring) -> Iterator[None]:
        try:
            yield
        except (self._os_vif.exception.ExceptionBase, self._pyroute2.NetlinkError, OSError, ValueError) as exc:
            why = exc.__context__ if isinstance(exc, self._os_vif.exception.ExceptionBase) else exc
            raise exceptions.PortUnusable(
                reason=f"Could not {action} port {wiring.port} on the container's host: {why}. See the log of "
                "zun-compute there."
            ) from exc

    def _vif(self, wiring: Wiring) -> Any:
        objects = self._os_vif.objects
        network = objects.network.Network(
            id=wiring.network, bridge=wiring.bridge, mtu=wiring.mtu, subnets=objects.subnet.SubnetList(objects=[])
        )
        profile = objects.vif.VIFPortProfileOpenVSwitch(
            interface_id=wiring.port, datapath_type=wiring.datapath, create_port=True
        )
        common = {
            "id": wiring.port,
            "address": wiring.mac,
            "network": network,
            "plugin": "ovs",
            "vif_name": host_end(wiring.port),
            "port_profile": profile,
        }
        if wiring.hybrid:
            return objects.vif.VIFBridge(bridge_name=_bridge(wiring), **common)
        return objects.vif.VIFOpenVSwitch(bridge_name=wiring.bridge, **common)

    def _owner(self, wiring: Wiring) -> Any:
        return self._os_vif.objects.instance_info.InstanceInfo(uuid=wiring.container, name=f"zun-{wiring.container}")


def _bridge(wiring: Wiring) -> str:
    """Return the bridge of a port of its own, on which iptables filters."""
    return f"qbr{wiring.port[:11]}"


def _keep_the_host_out(name: str) -> None:
    """Let the host take no packet from the interface: a switch in user space gets copies, and the host gets them, too.

    Without an IPv6 address the host takes none of IPv6. It answers ARP for none of its addresses, and drops packets of
    IPv4 because no route leads back to their senders. A host without IPv6 has no file for it. Source of the values: the
    kernel's Documentation/networking/ip-sysctl.rst.
    """
    for file, value in (
        ("ipv6/conf/{}/disable_ipv6", 1),
        ("ipv4/conf/{}/arp_ignore", 8),
        ("ipv4/conf/{}/rp_filter", 1),
    ):
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path("/proc/sys/net", file.format(name)).write_text(str(value))


def _leave_checksums_to_the_sender(name: str) -> None:
    """Turn off transmit checksum offload: a switch in user space would pass on packets without a checksum."""
    value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP", name.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        fcntl.ioctl(opened, _SIOCETHTOOL, request)
