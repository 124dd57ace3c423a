# SPDX-License-Identifier: Apache-2.0
"""The Docker driver: every capability over one connection."""

from typing import Self

from oslo_config import cfg

from zun.container.docker.audit import DockerAudit
from zun.container.docker.client import Engine, Settings
from zun.container.docker.connections import DockerConnections
from zun.container.docker.console import DockerConsole
from zun.container.docker.events import DockerEvents
from zun.container.docker.facts import DockerFacts
from zun.container.docker.hugepages import DockerHugePages
from zun.container.docker.images import DockerImages
from zun.container.docker.inspector import DockerInspector
from zun.container.docker.layers import DockerLayers
from zun.container.docker.lifecycle import DockerLifecycle
from zun.container.docker.resources import DockerResources
from zun.container.docker.terminals import DockerTerminals
from zun.container.docker.volumes import DockerVolumes


class DockerDriver(
    DockerLifecycle,
    DockerInspector,
    DockerAudit,
    DockerResources,
    DockerHugePages,
    DockerConsole,
    DockerConnections,
    DockerLayers,
    DockerTerminals,
    DockerImages,
    DockerVolumes,
    DockerEvents,
    DockerFacts,
):
    """Runs containers on one Docker daemon. Threads may share it; it connects at first use."""

    engine_class = Engine

    def __init__(self, settings: Settings) -> None:
        super().__init__(self.engine_class(settings))

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return the driver that the operator configured: the entry point of ``[compute] container_driver``."""
        # One connection for each worker, and 8 for the event stream, periodic tasks and RPC calls.
        return cls(Settings.from_conf(conf, connections=conf.compute.workers + 8))
