# SPDX-License-Identifier: Apache-2.0
"""The network driver for Podman: the bridges of the Docker driver, made by Podman's netavark."""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from zun.container.podman.client import PodmanEngine
from zun.container.podman.driver import podman_settings
from zun.network.docker import DockerNetworks
from zun.network.driver import PortView


class PodmanNetworks(DockerNetworks):
    """The networks of one Podman service. Threads may share this object; it connects at first use."""

    @classmethod
    def engine(cls, conf: cfg.ConfigOpts) -> PodmanEngine:
        return PodmanEngine(podman_settings(conf, connections=8))

    def _agrees(self, network: str, endpoint: Mapping[str, Any], port: PortView, *, primary: bool) -> bool:
        """Return whether the endpoint has the port's addresses. Podman tells those of a running container alone."""
        told = endpoint.get("IPAddress") or None, endpoint.get("GlobalIPv6Address") or None
        return all(wanted in (None, has) for wanted, has in zip((port.ipv4, port.ipv6), told, strict=True))
