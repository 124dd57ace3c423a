# SPDX-License-Identifier: Apache-2.0
"""The network driver for Docker: each network is a bridge on each host that has a container in the network.

A bridge is named ``zun-UUID`` after its network, or ``zun-default-DIGEST`` for the default network of a project.
Docker isolates bridges from one another; ``zun.network.firewall`` keeps their containers from reaching the host.
"""

import contextlib
import errno
import hashlib
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    OnEngine,
    Settings,
    object_name,
)
from zun.container.docker.errors import says
from zun.container.driver.lifecycle import Plug
from zun.container.driver.volumes import LABEL_PROJECT
from zun.network.driver import Plugged, PortView
from zun.network.firewall import BRIDGE_PREFIX, Firewall

LOG = logging.getLogger(__name__)

LABEL_NETWORK = "zun.network"
LABEL_NAME = "zun.name"
#: Label of default networks.
LABEL_DEFAULT = "zun.default"
#: Label of networks that have no containers: see ``DockerNetworks.rejoin``.
LABEL_EMPTY = "zun.empty"
BRIDGE_OPTION = "com.docker.network.bridge.name"
#: Largest number of further subnets tried for a default network if another process took the chosen subnet.
TRIES = 8
#: Texts of Docker and of Podman about a subnet that is in use.
_TAKEN = ("overlap", "is already used on the host")


class DockerNetworks(OnEngine):
    """The networks of one Docker daemon. Threads may share this object; it connects at first use.

    ``pool`` has the subnets of default networks. Without a pool, containers without a network are on ``docker0``.
    Without a ``firewall``, containers can reach the host.
    """

    publishes = True
    joins_neutron = False

    def __init__(self, engine: Engine, pool: Pool | None = None, firewall: Firewall | None = None) -> None:
        super().__init__(engine)
        self._pool = pool
        self._firewall = firewall
        self._choosing = threading.Lock()  # held while a subnet for a default network is chosen

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

    def default(self, project_id: str) -> Plug | None:
        if self._pool is None:
            return None
        self._ensure_default(project_id, self._pool)
        return Plug(self._default_name(project_id), by_name=True)

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

    def defaults(self) -> set[str]:
        return {each["Labels"][LABEL_PROJECT] for each in self._listed(LABEL_DEFAULT)}

    def remove_default(self, project_id: str) -> None:
        self._remove(self._default_name(project_id), f"default network of project {project_id}")

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

    def _listed(self, *labels: str) -> list[dict[str, Any]]:
        """Return Docker's networks that this host's agent created and that have all of ``labels``."""
        label = f"{LABEL_HOST}={self.settings.host_label}"
        with self._engine.translated("list networks"):
            found: list[dict[str, Any]] = self._engine.api.networks(filters={"label": [label, *labels]})
        return found

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

    def _remove(self, name: str, what: str) -> None:
        with self._engine.translated(f"remove {what}"):
            found = self._found(name)
            if found is None:
                return
            if not self._engine.owns(found.get("Labels")):
                LOG.warning("Network %s of Docker stays: this host's agent did not make it", name)
                return
            try:
                self._engine.api.remove_network(found["Id"])
            except docker_errors.NotFound:
                return
            except docker_errors.APIError as exc:
                if says(exc, "has active endpoints", "network is being used"):
                    raise exceptions.Conflict(f"Cannot remove {what}: {exc.explanation}") from exc
                raise
        LOG.info("Removed the bridge of %s", what)

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
                LABEL_HOST: self.settings.host_label,
                LABEL_NETWORK: port.network_uuid,
                LABEL_PROJECT: port.project_id,
                LABEL_NAME: port.network_name or "",
            }
            try:
                self._create_for(port, name, labels)
            except docker_errors.APIError as exc:
                if self._is_here(name):  # another agent of this daemon created it meanwhile
                    return
                if says(exc, *_TAKEN):
                    cidrs = ", ".join(each["cidr"] for each in port.subnets)
                    raise exceptions.Conflict(
                        f"Network {port.network_uuid} cannot be created on this host: another network of its Docker "
                        f"overlaps with {cidrs}. Remove that network, or create this one again with another subnet."
                    ) from exc
                raise
        LOG.info("Made the bridge of network %s", port.network_uuid)

    def _create_for(self, port: PortView, name: str, labels: Mapping[str, str]) -> None:
        pools = [IPAMPool(subnet=each["cidr"], gateway=each["gateway"]) for each in port.subnets]
        self._create(name, pools, labels, ipv6=any(subnets.version(each) == 6 for each in port.subnets))

    def _create(self, name: str, pools: Iterable[IPAMPool], labels: Mapping[str, str], *, ipv6: bool = False) -> None:
        self._engine.api.create_network(
            name,
            driver="bridge",
            options={BRIDGE_OPTION: interface_name(name)},
            ipam=IPAMConfig(pool_configs=list(pools)),
            check_duplicate=True,
            enable_ipv6=ipv6,
            labels=dict(labels),
        )

    def _ensure_default(self, project_id: str, pool: Pool) -> None:
        name = self._default_name(project_id)
        labels = {LABEL_HOST: self.settings.host_label, LABEL_PROJECT: project_id, LABEL_DEFAULT: "true"}
        taken: set[str] = set()
        with self._engine.translated("make the default network of the project"), self._choosing:
            while not self._is_here(name):
                cidr = self._free_block(pool, taken)
                try:
                    self._create(name, [IPAMPool(subnet=cidr, gateway=subnets.first_address(cidr))], labels)
                except docker_errors.APIError as exc:
                    # Another agent of this daemon may have created this network, or one with these addresses.
                    if self._is_here(name):
                        return
                    if not says(exc, *_TAKEN) or len(taken) == TRIES:
                        raise
                    taken.add(cidr)
                else:
                    LOG.info("Made the default network of project %s with %s", project_id, cidr)

    def _free_block(self, pool: Pool, taken: Iterable[str]) -> str:
        used = {block for each in self._engine.api.networks() for block in routed(each)}
        try:
            return subnets.free_block(pool, used.union(taken))
        except exceptions.Conflict as exc:
            raise exceptions.Conflict(
                f"Every subnet for default networks of projects on this host is in use ({pool.cidr}). Name a network "
                "for the container, or ask the operator of the host to enlarge [network] default_network_pool."
            ) from exc

    def _default_name(self, project_id: str) -> str:
        """Return Docker's name of the project's default network. Each agent of a daemon has names of its own."""
        return f"{DEFAULT_PREFIX}{_digest(f'{self.settings.host_label}/{project_id}')}"

    def _create_empty(self, name: str) -> None:
        """Create a network for its name alone. No container is ever attached to it."""
        uuid = name.removeprefix(NAME_PREFIX)
        self._engine.api.create_network(
            name,
            driver="bridge",
            options={BRIDGE_OPTION: interface_name(name)},
            internal=True,
            check_duplicate=True,
            labels={LABEL_HOST: self.settings.host_label, LABEL_NETWORK: uuid, LABEL_EMPTY: "true"},
        )
        LOG.info("Made an empty network %s, without which Docker would not start a container that left it", name)

    def _is_here(self, name: str) -> bool:
        return self._found(name) is not None

    def _found(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._engine.api.inspect_network(name)
        except docker_errors.NotFound:
            return None
        return found


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


def interface_name(network: str) -> str:
    """Return the name of the bridge's interface, ``zun-`` and 11 digits: the kernel allows 15 characters."""
    return f"{BRIDGE_PREFIX}{_digest(network)[:11]}"


def routed(network: Mapping[str, Any]) -> set[str]:
    """Return the subnets whose addresses Docker gives to the containers of a network, from its description.

    A network of the IPAM driver ``null`` gives no addresses, and Docker lists ``0.0.0.0/0`` for it. A network that is
    ``ConfigOnly`` is a template for others. Docker 20.10 lists ``10.1.2.7/24`` as its user wrote it: 10.1.2.0/24.
    """
    ipam = network.get("IPAM") or {}
    if network.get("ConfigOnly") or str(ipam.get("Driver") or "").lower() == "null":
        return set()
    found = set()
    for config in ipam.get("Config") or ():
        with contextlib.suppress(ValueError):  # a driver of somebody else may list any text
            block = ipaddress.ip_network((config or {}).get("Subnet") or "", strict=False)
            if block.prefixlen:
                found.add(str(block))
    return found


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
