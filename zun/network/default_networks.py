# SPDX-License-Identifier: Apache-2.0
"""The default network of each project on one Docker daemon, for containers that name no network."""

import contextlib
import ipaddress
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from docker import errors as docker_errors
from docker.types import IPAMConfig, IPAMPool

from zun.common import exceptions, subnets
from zun.common.subnets import Pool
from zun.container.docker.client import DEFAULT_PREFIX, Engine
from zun.container.docker.errors import says
from zun.container.driver.lifecycle import Plug
from zun.container.driver.volumes import LABEL_PROJECT
from zun.network.bridges import TAKEN, Bridges, digest

LOG = logging.getLogger(__name__)

#: Label of default networks.
LABEL_DEFAULT = "zun.default"


class DefaultNetworks(Bridges):
    """``pool`` has their subnets. Without a pool, containers without a network are on ``docker0``."""

    def __init__(self, engine: Engine, pool: Pool | None = None) -> None:
        super().__init__(engine)
        self._pool = pool
        self._choosing = threading.Lock()  # held while a subnet for a default network is chosen

    def default(self, project_id: str) -> Plug | None:
        if self._pool is None:
            return None
        self._ensure_default(project_id, self._pool)
        return Plug(self._default_name(project_id), by_name=True)

    def defaults(self) -> set[str]:
        return {each["Labels"][LABEL_PROJECT] for each in self._listed(LABEL_DEFAULT)}

    def remove_default(self, project_id: str) -> None:
        self._remove(self._default_name(project_id), f"default network of project {project_id}")

    def _ensure_default(self, project_id: str, pool: Pool) -> None:
        name = self._default_name(project_id)
        labels = {LABEL_PROJECT: project_id, LABEL_DEFAULT: "true"}
        taken: set[str] = set()  # subnets that Docker refused

        def create() -> None:
            with self._choosing:
                if self._is_here(name):
                    return
                cidr = self._free_block(pool, taken)
                block = IPAMPool(subnet=cidr, gateway=subnets.first_address(cidr))
                try:
                    self._create(name, labels, ipam=IPAMConfig(pool_configs=[block]))
                except docker_errors.APIError as exc:
                    if says(exc, *TAKEN):
                        taken.add(cidr)
                    raise
            LOG.info("Made the default network of project %s with %s", project_id, cidr)

        with self._engine.translated("make the default network of the project"):
            self._make(name, create)

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
        return f"{DEFAULT_PREFIX}{digest(f'{self.settings.host_label}/{project_id}')}"


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
