# SPDX-License-Identifier: Apache-2.0
"""Look up and make the ports of containers at Neutron, for the API.

Networks, ports and security groups are looked up, and ports are made, with the caller's token: so Neutron itself checks
the caller's rights and quotas. The container's host binds the port later. An API process that dies between making a
port and writing the container's row leaves the port to ``zun.network.neutron``, which removes such ports.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import uuidutils

from zun.api.networks import Given, Wanted, check_one_place, check_twice, no_default
from zun.common import exceptions, naming
from zun.common.context import RequestContext
from zun.common.naming import called, named
from zun.db import containers, network_ports, networks
from zun.neutron import ports as rules
from zun.neutron.client import NeutronClient, Record, StaleRevision
from zun.objects import Container
from zun.topology.device_request import DevicePolicy, DeviceRequest, function_for

LOG = logging.getLogger(__name__)

#: How often the groups of a port are read and written, if somebody changes the port between the two.
TRIES = 5


@dataclass(frozen=True, slots=True)
class _Place:
    """A network that a container is to join, with the user's own port there, if the user named one."""

    network: Record
    port: Record | None
    given: Given


class NeutronNetworks:
    """The networks of Neutron; see ``zun.api.networks.ContainerNetworks``."""

    def __init__(self, client: NeutronClient) -> None:
        self._service = client

    def security_groups(self, context: RequestContext, names: Sequence[str] | None) -> list[str] | None:
        client = self._client(context)
        return list(dict.fromkeys(self._group(client, context, name) for name in names or ())) or None

    @contextlib.contextmanager
    def group_of(
        self, context: RequestContext, container_uuid: str, exposed: Collection[str]
    ) -> Iterator[list[str] | None]:
        if not exposed:
            yield None
            return
        client = self._client(context)
        with self._undone_on_failure() as took:
            group = client.create_security_group(
                name=rules.own_name(container_uuid),
                description=rules.GROUP_DESCRIPTION,
                project_id=str(context.project_id),
            )
            took.append((self._service.delete_security_group, group["id"]))
            client.create_rules(rules.rules(group["id"], exposed))
            yield [group["id"]]

    @contextlib.contextmanager
    def first_ports(
        self,
        context: RequestContext,
        container_uuid: str,
        nets: Sequence[Given] | None = None,
        groups: Sequence[str] | None = None,
    ) -> Iterator[Sequence[Wanted]]:
        client, project_id = self._client(context), str(context.project_id)
        if nets:
            places = [self._place(client, context, project_id, each) for each in nets]
            names = {place.network["id"]: _called(place.network) for place in places}
            check_twice([place.network["id"] for place in places], names.__getitem__)
        else:
            places = [_Place(self._default(client, project_id), None, {})]
        with self._undone_on_failure() as took:
            yield [self._take(client, took, place, container_uuid, project_id, groups) for place in places]

    @contextlib.contextmanager
    def port_to_join(self, context: RequestContext, container: Container, given: Given) -> Iterator[Wanted]:
        check_one_place(given)
        client, project_id = self._client(context), container.project_id
        if "network" in given or "port" in given:
            place = self._place(client, context, project_id, given)
        else:
            place = _Place(self._default(client, project_id), None, given)
        if place.port is not None and rules.needs_function(place.port):
            raise exceptions.InvalidValue(
                f"port: port {place.port['id']} needs a virtual function, which a container gets only when it is "
                "created. Name the port in nets of a new container."
            )
        for port in network_ports.of_container(container.uuid):
            if port["network_uuid"] == place.network["id"] and not port["leaving"]:
                raise exceptions.Invalid(
                    f"Container {named(container)} is in network {_called(place.network)} already."
                )
        with self._undone_on_failure() as took:
            yield self._take(client, took, place, container.uuid, project_id, container.security_groups)

    def network_to_leave(self, context: RequestContext, container: Container, given: Given) -> tuple[str, str]:
        """Only the container's own ports matter, so Neutron is asked for nothing but the name of a network."""
        ports = network_ports.of_container(container.uuid)
        if "port" in given:
            found = [port for port in ports if port["uuid"] == given["port"]]
            if not found:
                raise exceptions.PortNotFound(port=given["port"])
        else:
            ident = given["network"]
            found = [port for port in ports if ident in (port["network_uuid"], port["network_name"])]
            if not found:
                network = self._network(self._client(context), context, ident)
                return network["id"], _called(network)
        return found[0]["network_uuid"], called(found[0]["network_name"], found[0]["network_uuid"])

    def change_group(self, context: RequestContext, container: Container, name: str, *, add: bool) -> None:
        client = self._client(context)
        group, now = self._group(client, context, name), container.security_groups or []
        if add == (group in now):
            state = "has the security group already" if add else "does not have the security group"
            raise exceptions.InvalidValue(f"name: container {named(container)} {state} '{name[:64]}'.")
        for port in network_ports.of_container(container.uuid):
            with contextlib.suppress(exceptions.PortNotFound):  # somebody deleted it at Neutron
                self._change_port(client, port["uuid"], group, add=add)
        container.security_groups = containers.change_group(container.uuid, group, add=add)

    def _change_port(self, client: NeutronClient, uuid: str, group: str, *, add: bool) -> None:
        """Change the groups of a port as they are now: others change them, too. Raises PortNotFound."""
        for attempt in range(TRIES):
            port = client.port(uuid)
            others = [each for each in port.get("security_groups") or () if each != group]
            groups = [*others, group] if add else others
            try:
                client.update_port(uuid, {"security_groups": groups}, revision=port.get("revision_number"))
            except StaleRevision:
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def released(self, ports: Sequence[Mapping[str, Any]]) -> None:
        for port in ports:
            self._quietly(self._unbind if port["preserve"] else self._service.delete_port, port["uuid"])
        for container in {port["container_uuid"] for port in ports}:
            self._quietly(self._service.remove_group_of, container)

    def _client(self, context: RequestContext) -> NeutronClient:
        return self._service.of_user(context.auth_token)

    def _default(self, client: NeutronClient, project_id: str) -> Record:
        found = rules.default_network([*client.networks(project_id=project_id), *client.networks(shared="true")],
                                      project_id)  # fmt: skip
        if found is None:
            raise no_default()
        return found

    def _place(self, client: NeutronClient, context: RequestContext, project_id: str, given: Given) -> _Place:
        if "port" not in given:
            network = self._network(client, context, given["network"])
            if network.get("router:external") and not (network.get("shared") or context.is_admin):
                raise exceptions.ExternalNetworkAttachForbidden(network=_called(network))
            return _Place(network, None, given)
        ident = given["port"]
        port = _one(
            ident, exceptions.PortNotFound(port=ident), client.port, lambda: client.ports(name=ident), project_id
        )
        if port.get("project_id") != project_id:  # who owns a network sees the ports of others there
            raise exceptions.PortNotFound(port=ident)
        if port.get("device_id"):
            raise _in_use(port)
        if (kind := rules.vnic_type(port)) not in rules.USABLE:
            raise exceptions.InvalidValue(
                f"port: port {port['id']} is for an interface of the kind '{kind}', which containers cannot use; they "
                f"can use {', '.join(rules.USABLE)}."
            )
        return _Place(client.network(port["network_id"]), port, given)

    @staticmethod
    def _network(client: NeutronClient, context: RequestContext, ident: str) -> Record:
        missing = exceptions.NetworkNotFound(
            f"Network {ident} could not be found. List them with 'openstack network list'."
        )
        own = str(context.project_id)
        found = _one(ident, missing, client.network, lambda: client.networks(name=ident), own)
        if context.auth_token or context.is_admin or found.get("shared") or found.get("project_id") == own:
            return found
        raise missing  # without keystone the service user asked, who sees every network

    @staticmethod
    def _group(client: NeutronClient, context: RequestContext, name: str) -> str:
        own = str(context.project_id)
        query = {"id": name} if uuidutils.is_uuid_like(name) else {"name": name}
        found = client.security_groups(**query)
        mine = [each for each in found if each.get("project_id") == own] or (list(found) if context.auth_token else [])
        if not mine:
            raise exceptions.InvalidValue(
                f"security_groups: security group '{name[:64]}' could not be found. List them with 'openstack security "
                "group list'."
            )
        if len(mine) > 1:
            ids = naming.listed(str(each["id"]) for each in mine)
            raise exceptions.Conflict(f"Several security groups are called '{name[:64]}'. Name one by its id: {ids}.")
        return str(mine[0]["id"])

    def _take(
        self,
        client: NeutronClient,
        took: list[tuple[Callable[[str], Any], str]],
        place: _Place,
        container_uuid: str,
        project_id: str,
        groups: Sequence[str] | None,
    ) -> Wanted:
        """Make the port, or mark the user's port as used by the container, and note in ``took`` how to undo it."""
        owner = {"device_id": container_uuid, "device_owner": rules.DEVICE_OWNER}
        function = None if place.port is None else self._function(place.port)
        if place.port is not None:
            try:
                port = client.update_port(place.port["id"], owner, revision=place.port.get("revision_number"))
            except StaleRevision:
                raise _in_use(client.port(place.port["id"])) from None
            took.append((self._unbind, port["id"]))
        else:
            more: dict[str, Any] = {"security_groups": list(groups)} if groups else {}
            if chosen := rules.fixed_ips(place.given):
                more["fixed_ips"] = chosen
            name, network = rules.own_name(container_uuid), place.network["id"]
            port = client.create_port(network_id=network, project_id=project_id, name=name, **owner, **more)
            took.append((self._service.delete_port, port["id"]))
        networks.learn(rules.network_row(place.network, self._service.subnets(place.network["id"])))
        return {**rules.wanted(port, preserve=place.port is not None), "function": function}

    def _function(self, port: Record) -> DeviceRequest | None:
        """Return the request of the virtual function that the port needs; None for most ports. Raises InvalidValue.

        Neutron's policy ``legacy`` says nothing that counts here (see ``zun.api.device_aliases.no_legacy``).
        """
        if not rules.needs_function(port):
            return None
        name = rules.physical_network(self._service.network(port["network_id"]))
        if name is None:
            raise exceptions.InvalidValue(
                f"port: port {port['id']} needs a virtual function, and its network has no physical network. Use a "
                "port of a flat or vlan network."
            )
        policy = str(port.get("numa_affinity_policy"))
        return function_for(port["id"], name, policy if policy in [*DevicePolicy] else DevicePolicy.PREFERRED)

    def _unbind(self, port: str) -> None:
        with contextlib.suppress(exceptions.PortNotFound):
            self._service.update_port(port, rules.unbound(self._service.port(port)))

    @contextlib.contextmanager
    def _undone_on_failure(self) -> Iterator[list[tuple[Callable[[str], Any], str]]]:
        took: list[tuple[Callable[[str], Any], str]] = []
        try:
            yield took
        except Exception:
            for undo, uuid in reversed(took):
                self._quietly(undo, uuid)
            raise

    @staticmethod
    def _quietly(undo: Callable[[str], Any], uuid: str) -> None:
        """Call ``undo``. A failure is logged; a host removes such ports and groups later."""
        try:
            undo(uuid)
        except exceptions.ZunError as exc:
            LOG.warning("What Neutron made for %s stays for now: %s", uuid, exc)


def _one(
    ident: str,
    missing: exceptions.ZunError,
    get: Callable[[str], Record],
    by_name: Callable[[], Sequence[Record]],
    project_id: str,
) -> Record:
    """Return what a uuid or a name means. If the project has none of this name, the name means one of another project.

    Raises ``missing``, and Conflict if the name is not unique.
    """
    if uuidutils.is_uuid_like(ident):
        try:
            return get(ident)
        except exceptions.NotFound:
            raise missing from None
    found = by_name()
    found = [each for each in found if each.get("project_id") == project_id] or found
    if not found:
        raise missing
    if len(found) > 1:
        ids = naming.listed(str(each["id"]) for each in found)
        raise exceptions.Conflict(
            f"'{ident[:64]}' is the name of {len(found)} records of Neutron. Name one by its id: {ids}."
        )
    return found[0]


def _in_use(port: Record) -> exceptions.PortInUse:
    return exceptions.PortInUse(
        f"Port {port['id']} is used by device {port.get('device_id') or 'of another request'}. Name another port, or "
        "the network: then a port is made."
    )


def _called(network: Record) -> str:
    return called(network.get("name"), network["id"])
