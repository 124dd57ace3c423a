# SPDX-License-Identifier: Apache-2.0
"""Networks as bridges of Docker: one a network, on each host that has a container of it.

A bridge is called ``zun-UUID`` after its network. Docker keeps bridges from reaching one another.
"""

import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Self

from docker import errors as docker_errors
from docker.types import IPAMConfig, IPAMPool
from oslo_config import cfg

from zun.common import exceptions, subnets
from zun.container.docker.client import LABEL_HOST, NAME_PREFIX, Engine, OnEngine, Settings, object_name
from zun.container.driver import LABEL_PROJECT, Plug
from zun.network.driver import Plugged, PortView

LOG = logging.getLogger(__name__)

LABEL_NETWORK = "zun.network"
LABEL_NAME = "zun.name"
#: Docker's network for a container that is in none. Without it, a container that left its last network would be put
#: back into the one it was created with by its next start, with an address that Docker chooses.
NOWHERE = "none"


class DockerNetworks(OnEngine):
    """Threads may share it. It connects at first use."""

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """The entry point of ``[network] driver``."""
        return cls(Engine(Settings.from_conf(conf, connections=8)))

    def prepare(self, port: PortView) -> Plug:
        self._ensure(port)
        return Plug(bridge_name(port.network_uuid), port.ipv4, port.ipv6)

    def plug(self, container: Plugged, ports: Sequence[PortView]) -> None:
        name = object_name(container.uuid)
        with self._engine.translated("change the networks of", container.uuid):
            api = self._engine.api
            now = api.inspect_container(name)["NetworkSettings"]["Networks"] or {}
            wanted = {bridge_name(port.network_uuid): port for port in ports}
            right = {each for each in now.keys() & wanted.keys() if self._agrees(each, now[each], wanted[each])}
            for wrong in now.keys() - right:
                if wrong.startswith(NAME_PREFIX) or (wrong == NOWHERE and wanted):
                    self._disconnect(name, wrong)
            for network, port in wanted.items():
                if network not in right:
                    api.connect_container_to_network(name, network, ipv4_address=port.ipv4, ipv6_address=port.ipv6)
            if not wanted and now and all(each.startswith(NAME_PREFIX) for each in now):
                api.connect_container_to_network(name, NOWHERE)

    def _agrees(self, network: str, endpoint: Mapping[str, Any], port: PortView) -> bool:
        """Whether a container's endpoint is of the bridge of this name that is here now, with the port's addresses."""
        config = endpoint.get("IPAMConfig") or {}
        if (config.get("IPv4Address") or None, config.get("IPv6Address") or None) != (port.ipv4, port.ipv6):
            return False
        # 'docker network prune' removes the bridges of stopped containers; these do not know the new ones.
        return endpoint.get("NetworkID") in ("", None, self._engine.api.inspect_network(network)["Id"])

    def _disconnect(self, container: str, network: str) -> None:
        try:
            self._engine.api.disconnect_container_from_network(container, network, force=True)
        except docker_errors.APIError as exc:
            if "is not connected" not in str(exc.explanation) and not isinstance(exc, docker_errors.NotFound):
                raise

    def present(self) -> set[str]:
        label = f"{LABEL_HOST}={self.settings.host_label}"
        with self._engine.translated("list networks"):
            found = self._engine.api.networks(filters={"label": [label, LABEL_NETWORK]})
        return {each["Labels"][LABEL_NETWORK] for each in found}

    def remove(self, network_uuid: str) -> None:
        with self._engine.translated(f"remove network {network_uuid}"):
            try:
                self._engine.api.remove_network(bridge_name(network_uuid))
            except docker_errors.NotFound:
                return
            except docker_errors.APIError as exc:
                if "has active endpoints" in str(exc.explanation):
                    raise exceptions.Conflict(f"Cannot remove network {network_uuid}: {exc.explanation}") from exc
                raise
        LOG.info("Removed the bridge of network %s", network_uuid)

    def is_free(self, host_ip: str, host_port: int, protocol: str) -> bool:
        family = socket.AF_INET6 if ":" in host_ip else socket.AF_INET
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        with socket.socket(family, kind) as tried:
            if protocol != "udp":  # connections that have ended do not count
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host_ip, host_port))
            except OSError:
                return False
        return True

    def _ensure(self, port: PortView) -> None:
        name = bridge_name(port.network_uuid)
        with self._engine.translated(f"bring network {port.network_uuid} to this host"):
            if self._is_here(name):
                return
            pools = [IPAMPool(subnet=each["cidr"], gateway=each["gateway"]) for each in port.subnets]
            labels = {
                LABEL_HOST: self.settings.host_label,
                LABEL_NETWORK: port.network_uuid,
                LABEL_PROJECT: port.project_id,
                LABEL_NAME: port.network_name or "",
            }
            try:
                self._engine.api.create_network(
                    name,
                    driver="bridge",
                    ipam=IPAMConfig(pool_configs=pools),
                    check_duplicate=True,
                    enable_ipv6=any(subnets.version(each) == 6 for each in port.subnets),
                    labels=labels,
                )
            except docker_errors.APIError as exc:
                if self._is_here(name):  # another agent on this daemon was quicker
                    return
                if "overlaps" in str(exc.explanation):
                    cidrs = ", ".join(each["cidr"] for each in port.subnets)
                    raise exceptions.Conflict(
                        f"Network {port.network_uuid} cannot be on this host: another network of its Docker has "
                        f"addresses of {cidrs}. Remove that network, or create this one anew with another subnet."
                    ) from exc
                raise
        LOG.info("Made the bridge of network %s", port.network_uuid)

    def _is_here(self, name: str) -> bool:
        try:
            self._engine.api.inspect_network(name)
        except docker_errors.NotFound:
            return False
        return True


def bridge_name(network_uuid: str) -> str:
    """What Docker calls the network."""
    return f"{NAME_PREFIX}{network_uuid}"
