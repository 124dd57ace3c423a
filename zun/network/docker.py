# SPDX-License-Identifier: Apache-2.0
"""The network driver for Docker: each network is a bridge on each host that has a container in the network.

A bridge is named ``zun-UUID`` after its network, or ``zun-default-DIGEST`` for the default network of a project.
Docker isolates bridges from one another; ``zun.network.firewall`` keeps their containers from reaching the host.
"""

import errno
import logging
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from docker import errors as docker_errors
from docker.types import IPAMConfig, IPAMPool
from oslo_config import cfg

from zun.common import exceptions, subnets
from zun.common.subnets import Pool
from zun.container.docker.client import (
    DEFAULT_PREFIX,
    LABEL_HOST,
    LABEL_UUID,
    NAME_PREFIX,
    NOWHERE,
    Engine,
    Settings,
    object_name,
)
from zun.container.docker.errors import says
from zun.container.driver.lifecycle import Plug
from zun.container.driver.volumes import LABEL_PROJECT
from zun.network.bridges import BRIDGE_OPTION, TAKEN
from zun.network.default_networks import DefaultNetworks
from zun.network.driver import Plugged, PortView
from zun.network.firewall import BRIDGE_PREFIX, Firewall

LOG = logging.getLogger(__name__)

LABEL_NETWORK = "zun.network"
LABEL_NAME = "zun.name"
#: Label of networks that have no containers: see ``DockerNetworks.rejoin``.
LABEL_EMPTY = "zun.empty"


class DockerNetworks(DefaultNetworks):
    """The networks of one Docker daemon. Threads may share this object; it connects at first use.

    ``pool`` has the subnets of default networks. Without a pool, containers without a network are on ``docker0``.
    Without a ``firewall``, containers can reach the host.
    """

    publishes = True
    joins_neutron = False

    def __init__(self, engine: Engine, pool: Pool | None = None, firewall: Firewall | None = None) -> None:
        super().__init__(engine, pool)
        self._firewall = firewall

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the networks of ``[docker] api_url``. Entry point of ``[network] driver``; raises Misconfigured."""
        options = conf.network
        pool = Pool(options.default_network_pool, options.default_network_prefix, "default_network")
        if options.default_network == "docker0":
            LOG.warning(
                "[network] default_network = docker0: containers without a network reach containers of other projects "
                "and this host. Set it to project, and rebuild the containers that are on docker0."
            )
        return cls(
            cls.engine(conf),
            None if options.default_network == "docker0" else pool,
            Firewall.from_conf(conf) if options.firewall else None,
        )

    @classmethod
    def engine(cls, conf: cfg.ConfigOpts) -> Engine:
        return Engine(Settings.from_conf(conf, connections=8))

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def prepare(self, port: PortView, *, primary: bool = True) -> Plug:
        self.ensure(port)
        return Plug(bridge_name(port.network_uuid), port.ipv4, port.ipv6)

    def rejoin(self, container: Plugged, project_id: str) -> None:
        """Do as the protocol says, and see that the network exists by which an earlier release created the container.

        That release named the container's first network in the object's ``NetworkMode``, which never changes. Docker
        from 26 on starts the object only if a network of this name exists, although the container has left it.
        """
        network, name = self._default_name(project_id), object_name(container.uuid)
        with self._engine.translated("change the networks of", container):
            found = self._engine.api.inspect_container(name)
            first = found["HostConfig"]["NetworkMode"]
            if _is_ours(first) and not self._is_here(first):
                self._create_empty(first)
            endpoint = (found["NetworkSettings"]["Networks"] or {}).get(network)
            if self._pool is None or endpoint is None:
                return
            self._ensure_default(project_id, self._pool)
            if not self._is_of(network, endpoint):
                self._disconnect(name, network)
                aliases = [each for each in endpoint.get("Aliases") or () if not container.uuid.startswith(each)]
                self._engine.api.connect_container_to_network(name, network, aliases=aliases)

    def isolate(self) -> None:
        if self._firewall is not None:
            # Docker named the bridges of networks that an earlier release created, so BRIDGE_PREFIX does not match
            # them. All agents of the host share the chains, so networks of every agent are listed.
            with self._engine.translated("list networks"):
                found = self._engine.api.networks(filters={"label": LABEL_HOST})
            bridges = map(_interface, found)
            self._firewall.apply(sorted(each for each in bridges if not each.startswith(BRIDGE_PREFIX)))

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        name = object_name(container.uuid)
        with self._engine.translated("change the networks of", container):
            api = self._engine.api
            now = api.inspect_container(name)["NetworkSettings"]["Networks"] or {}
            wanted = {bridge_name(port.network_uuid): port for port in ports}
            first = next(iter(wanted), None)
            right = {
                each
                for each in now.keys() & wanted.keys()
                if self._agrees(each, now[each], wanted[each], primary=each == first)
            }
            # All are asked for before the first change, so that a failure leaves the container as it was.
            missing = {
                each: self._endpoint(port, primary=each == first) for each, port in wanted.items() if each not in right
            }
            for wrong in now.keys() - right:
                if _is_ours(wrong) or (wrong == NOWHERE and wanted):
                    self._disconnect(name, wrong)
            for network, endpoint in missing.items():
                api.connect_container_to_network(name, network, **endpoint)
            # Else the next start would attach a container of an earlier release to its first network again.
            if not wanted and now and all(map(_is_ours, now)):
                api.connect_container_to_network(name, NOWHERE)

    def _endpoint(self, port: PortView, *, primary: bool) -> dict[str, Any]:
        """Return the arguments with which docker-py connects a container to the port's network."""
        return {"ipv4_address": port.ipv4, "ipv6_address": port.ipv6}

    def _agrees(self, network: str, endpoint: Mapping[str, Any], port: PortView, *, primary: bool) -> bool:
        """Return whether the endpoint belongs to the current bridge ``network`` and has the port's addresses."""
        config = endpoint.get("IPAMConfig") or {}
        if (config.get("IPv4Address") or None, config.get("IPv6Address") or None) != (port.ipv4, port.ipv6):
            return False
        return self._is_of(network, endpoint)

    def _is_of(self, network: str, endpoint: Mapping[str, Any]) -> bool:
        """Return whether the endpoint belongs to the current bridge ``network``.

        'docker network prune' removes the bridges of stopped containers. Such a container keeps the id of the removed
        bridge although a new bridge has its name.
        """
        return endpoint.get("NetworkID") in ("", None, self._engine.api.inspect_network(network)["Id"])

    def _disconnect(self, container: str, network: str) -> None:
        try:
            self._engine.api.disconnect_container_from_network(container, network, force=True)
        except docker_errors.APIError as exc:
            if not says(exc, "is not connected") and not isinstance(exc, docker_errors.NotFound):
                raise

    def present(self) -> set[str]:
        found = {each["Labels"][LABEL_NETWORK] for each in self._listed(LABEL_NETWORK)}
        with self._engine.translated("list networks"):
            lacking = {each for each in self._first_networks() if not self._is_here(each)}
        return found | {each.removeprefix(NAME_PREFIX) for each in lacking}  # ``remove`` gives these an empty network

    def _first_networks(self) -> set[str]:
        """Return the names of networks that Docker looks for when it starts containers of an earlier release."""
        with self._engine.translated("list containers"):
            listed = self._engine.api.containers(all=True, filters={"label": LABEL_UUID})
        return {mode for each in listed if _is_ours(mode := each["HostConfig"].get("NetworkMode") or "")}

    def remove(self, network_uuid: str) -> None:
        name = bridge_name(network_uuid)
        needed = name in self._first_networks()
        with self._engine.translated(f"remove network {network_uuid}"):
            found = self._found(name)
            if needed and found is not None and _is_empty(found):
                return
            self._remove(name, f"network {network_uuid}")
            if needed:
                self._create_empty(name)

    def is_free(self, host_ip: str, host_port: int, protocol: str) -> bool:
        family = socket.AF_INET6 if ":" in host_ip else socket.AF_INET
        with _socket(family, protocol) as tried:
            if protocol != "udp":  # ignore connections in TIME_WAIT
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host_ip, host_port))
            except OSError:
                return False
        return True

    def release(self, port: PortView) -> None:
        return  # its row is all there is

    def release_shared(self, container_uuid: str) -> None:
        return

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        return

    def sweep_shared(self, existing: Callable[[Collection[str]], Collection[str]]) -> None:
        return

    def ensure(self, port: PortView) -> None:
        name = bridge_name(port.network_uuid)
        with self._engine.translated(f"bring network {port.network_uuid} to this host"):
            found = self._found(name)
            if found is not None:
                if not (_is_empty(found) and self._engine.owns(found.get("Labels"))):
                    return
                self._engine.api.remove_network(found["Id"])
            labels = {
                LABEL_NETWORK: port.network_uuid,
                LABEL_PROJECT: port.project_id,
                LABEL_NAME: port.network_name or "",
            }
            try:
                self._make(name, lambda: self._create_for(port, name, labels))
            except docker_errors.APIError as exc:
                if says(exc, *TAKEN):
                    cidrs = ", ".join(each["cidr"] for each in port.subnets)
                    raise exceptions.Conflict(
                        f"Network {port.network_uuid} cannot be created on this host: another network of its Docker "
                        f"overlaps with {cidrs}. Remove that network, or create this one again with another subnet."
                    ) from exc
                raise
        LOG.info("Made the bridge of network %s", port.network_uuid)

    def _create_for(self, port: PortView, name: str, labels: Mapping[str, str]) -> None:
        pools = [IPAMPool(subnet=each["cidr"], gateway=each["gateway"]) for each in port.subnets]
        ipv6 = any(subnets.version(each) == 6 for each in port.subnets)
        self._create(name, labels, ipam=IPAMConfig(pool_configs=pools), enable_ipv6=ipv6)

    def _create_empty(self, name: str) -> None:
        """Create a network for its name alone. No container is ever attached to it."""
        labels = {LABEL_NETWORK: name.removeprefix(NAME_PREFIX), LABEL_EMPTY: "true"}
        self._make(name, lambda: self._create(name, labels, internal=True))
        LOG.info("Made an empty network %s, without which Docker would not start a container that left it", name)


def _socket(family: int, protocol: str) -> socket.socket:
    """Return a socket of ``tcp``, ``udp`` or ``sctp``. Raise Conflict if the kernel does not know the protocol."""
    if protocol == "sctp":
        kind, number = socket.SOCK_STREAM, socket.IPPROTO_SCTP
    else:
        kind, number = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM, 0
    try:
        return socket.socket(family, kind, number)
    except OSError as exc:
        if exc.errno not in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
            raise
        raise exceptions.Conflict(
            f"The kernel of the container's host has no {protocol.upper()}, so its port cannot be published. Load the "
            f"module there (modprobe {protocol}), or expose another port."
        ) from exc


def bridge_name(network_uuid: str) -> str:
    """Return Docker's name of the network."""
    return f"{NAME_PREFIX}{network_uuid}"


def _interface(network: Mapping[str, Any]) -> str:
    """Return the bridge interface of a network in Docker's description of it."""
    return str((network.get("Options") or {}).get(BRIDGE_OPTION) or f"br-{network['Id'][:12]}")


def _is_ours(network: str) -> bool:
    """Return whether the Docker network named ``network`` belongs to a network of this service's API.

    Default networks do not: containers have no port for them.
    """
    return network.startswith(NAME_PREFIX) and not network.startswith(DEFAULT_PREFIX)


def _is_empty(network: Mapping[str, Any]) -> bool:
    return LABEL_EMPTY in (network.get("Labels") or {})
