# SPDX-License-Identifier: Apache-2.0
"""The network driver for Neutron: binds the ports of containers to this host, and lets Docker wire them.

The API made the ports. A network of Neutron is a network of Docker whose driver is ``zun.network.plugin``, so Docker
has a container wired before each start of its first process: also when it restarts the container by itself.
"""

import contextlib
import datetime
import logging
import pathlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

from oslo_config import cfg
from oslo_utils import timeutils

from zun.common import exceptions, metrics
from zun.container.docker.client import Engine, Settings
from zun.container.driver.lifecycle import Plug
from zun.network.docker import DockerNetworks, bridge_name
from zun.network.driver import PortView
from zun.network.plugin import WIRING, Server, Switch, Wires, swept
from zun.network.virtual_functions import VirtualFunctions
from zun.network.wiring import OpenVSwitch
from zun.neutron import ports as rules
from zun.neutron.client import NeutronClient, Record
from zun.neutron.ports import DEVICE_OWNER, Wiring, is_own, misbound

LOG = logging.getLogger(__name__)

#: Age from which a port without a container and a host is nobody's. A request makes ports before its container's row.
ORPHANED = datetime.timedelta(hours=1)
#: How often a host looks for security groups of containers that do not exist.
GROUPS_SECONDS = 3600
_FIELDS = ("id", "name", "device_id", "binding:host_id", "updated_at")


class NeutronNetworks(DockerNetworks):
    """The networks of Neutron on one Docker daemon. ``host`` is the host's name at Neutron."""

    publishes = False  # containers have addresses of their own, and a security group lets the ports in
    joins_neutron = True

    def __init__(
        self,
        engine: Engine,
        client: NeutronClient,
        host: str,
        wires: Wires,
        socket: pathlib.Path,
        functions: VirtualFunctions,
    ) -> None:
        super().__init__(engine)
        self._neutron = client
        self._host = host
        self._wires = wires
        self._socket = socket
        self._functions = functions
        self._server: Server | None = None
        self._looked_for_groups: float | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the networks of group ``[neutron]``. Entry point of ``[network] driver``; raises Misconfigured."""
        options, client = conf.neutron, NeutronClient.from_conf(conf)
        if options.active_timeout >= conf.docker.default_timeout:
            raise exceptions.Misconfigured(
                f"[neutron] active_timeout = {options.active_timeout} must be below [docker] default_timeout = "
                f"{conf.docker.default_timeout}: Docker starts a container when its port is active."
            )
        folder = pathlib.Path(conf.state_path) / "neutron"
        functions = VirtualFunctions()
        switches: dict[str, Switch] = {"ovs": OpenVSwitch(options.ovsdb_connection), "hw_veb": functions}
        wires = Wires(folder, switches, client, options.active_timeout)
        engine = Engine(Settings.from_conf(conf, connections=8))
        socket = pathlib.Path(options.plugin_socket)
        return cls(engine, client, options.agent_host or conf.host, wires, socket, functions)

    def start(self) -> None:
        self._wires.start()
        self._server = Server(self._socket, self._wires)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def prepare(self, port: PortView, *, primary: bool = True) -> Plug:
        self.ensure(port)
        wiring = self._bound(port, primary=primary)
        return Plug(bridge_name(port.network_uuid), options={WIRING: wiring.to_json()}, dns=wiring.dns)

    def default(self, project_id: str) -> Plug | None:
        """Return no network at all: the API gives each container a port."""
        return Plug("none")

    def defaults(self) -> set[str]:
        return set()

    def isolate(self) -> None:
        """Set no rules: Neutron's security groups say what reaches a container, and the host is in no network."""

    def release(self, port: PortView) -> None:
        self._give_back(port.uuid, port.container_uuid, own=not port.preserve)

    def release_shared(self, container_uuid: str) -> None:
        self._neutron.remove_group_of(container_uuid)

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        self._wires.sweep(known)
        ours = {"device_owner": DEVICE_OWNER, "fields": list(_FIELDS)}
        found = {each["id"]: each for each in self._neutron.ports(**ours, **{"binding:host_id": self._host})}
        for each in self._neutron.ports(**ours, status="DOWN"):
            if not each.get("binding:host_id") and _is_old(each):
                found[each["id"]] = each
        lost = found.keys() - set(known(list(found)))
        for uuid in lost:
            with swept(f"Port {uuid}"):
                self._give_back(uuid, found[uuid]["device_id"], own=is_own(found[uuid]))
                LOG.warning("Gave port %s back, which no container has any more", uuid)
        for container in {found[uuid]["device_id"] for uuid in lost}:
            with swept(f"The security group of container {container}"):
                self._neutron.remove_group_of(container)

    def sweep_shared(self, existing: Callable[[Collection[str]], Collection[str]]) -> None:
        """Delete old security groups of containers that do not exist: Neutron was away when they were to go."""
        if self._looked_for_groups is not None and time.monotonic() - self._looked_for_groups < GROUPS_SECONDS:
            return
        self._looked_for_groups = time.monotonic()
        fields = ["id", "name", "updated_at"]
        found = self._neutron.security_groups(description=rules.GROUP_DESCRIPTION, fields=fields)
        groups = {each["id"]: uuid for each in found if _is_old(each) and (uuid := rules.container_of(each["name"]))}
        there = set(existing(set(groups.values()))) if groups else set()
        for group in (group for group, container in groups.items() if container not in there):
            # A conflict: its user gave it to other ports.
            with swept(f"Security group {group}"), contextlib.suppress(exceptions.Conflict):
                self._neutron.delete_security_group(group)
                LOG.warning("Deleted security group %s of a container that does not exist", group)

    def _give_back(self, uuid: str, container: str, *, own: bool) -> None:
        """Delete a port that this service made, and leave a user's port as the user made it.

        A user's port that is not ``container``'s any more was given back before, and may have another container.
        """
        if own:
            self._neutron.delete_port(uuid)
            return
        with contextlib.suppress(exceptions.PortNotFound):
            if (record := self._neutron.port(uuid)).get("device_id") == container:
                self._neutron.update_port(uuid, rules.unbound(record))

    def _bound(self, port: PortView, *, primary: bool) -> Wiring:
        """Bind the port to this host and return its wiring. Raises PortUnusable, PortNotFound, NeutronUnavailable."""
        network = self._neutron.network(port.network_uuid)
        with metrics.timed(metrics.PORT_SECONDS, "bind"):
            record = self._to_this_host(port, network)
        return Wiring.of(record, network, self._neutron.subnets(port.network_uuid), primary=primary)

    def _to_this_host(self, port: PortView, network: Record) -> Record:
        host = {"binding:host_id": self._host}
        # Most ports are new, and binding them at once saves a request. A function must be in the profile before.
        record = self._neutron.update_port(port.uuid, host) if port.slot is None else self._neutron.port(port.uuid)
        profile = self._profile(port, record, network)
        other = profile is not None and record.get("binding:profile") != profile
        if misbound(record, self._host) is not None or other:
            if record.get("binding:host_id") == self._host:  # Neutron binds again only if the host changes
                self._neutron.update_port(port.uuid, {"binding:host_id": ""})
            more = {} if profile is None else {"binding:profile": profile}
            record = self._neutron.update_port(port.uuid, {**host, **more})
        reason = misbound(record, self._host)
        if reason is not None:
            raise exceptions.PortUnusable(reason=f"Port {port.uuid} cannot be used on this host: {reason}.")
        return record

    def _profile(self, port: PortView, record: Record, network: Record) -> dict[str, Any] | None:
        """Return the binding profile that the port needs; None for a port without a virtual function."""
        if not rules.needs_function(record):
            return None
        if port.slot is None:
            raise exceptions.PortUnusable(
                reason=f"Port {port.uuid} needs a virtual function, and the container holds none for it. Name such a "
                "port when you create a container."
            )
        vendor_info = self._functions.vendor_info(port.slot)
        return rules.with_function(record, vendor_info, port.slot, rules.physical_network(network) or "")

    def _create_for(self, port: PortView, name: str, labels: Mapping[str, str]) -> None:
        # Addresses come with the port.
        self._create(name, labels, driver=self._socket.stem, options=None, ipam={"Driver": "null"})

    def _endpoint(self, port: PortView, *, primary: bool) -> dict[str, Any]:
        return {"driver_opt": {WIRING: self._bound(port, primary=primary).to_json()}}

    def _agrees(self, network: str, endpoint: Mapping[str, Any], port: PortView, *, primary: bool) -> bool:
        """Return whether the endpoint has the port's wiring, and the port is bound to this host.

        A port that became primary, because the container left another network, was wired without the default route. A
        port is bound to another host if its container could not run there and came back.
        """
        try:
            wiring = Wiring.from_json((endpoint.get("DriverOpts") or {}).get(WIRING, ""))
        except ValueError:
            return False
        if wiring.port != port.uuid or (primary and wiring.lacks_gateway(port.subnets)):
            return False
        return self._is_of(network, endpoint) and self._is_bound_here(port)

    def _is_bound_here(self, port: PortView) -> bool:
        """Return whether the port is bound to this host, as far as Neutron answers: a start does not wait for it."""
        try:
            return bool(self._neutron.port(port.uuid).get("binding:host_id") == self._host)
        except exceptions.ZunError:
            return True


def _is_old(record: Record) -> bool:
    try:
        changed = timeutils.normalize_time(timeutils.parse_isotime(str(record.get("updated_at"))))
    except ValueError:
        return False
    return timeutils.utcnow() - changed > ORPHANED
