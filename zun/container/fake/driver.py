# SPDX-License-Identifier: Apache-2.0
"""A container runtime in memory, for tests and measurements.

``InMemoryDriver`` implements the Protocols of ``zun.container.driver``, and one set of tests compares it and the
Docker driver. Tests of the service use it instead of mocks, with up to thousands of containers: the cost of an
operation on one container does not depend on their number.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from oslo_config import cfg

from zun.container.driver.facts import HostFacts
from zun.container.driver.images import ImageFacts
from zun.container.fake.archives import InMemoryArchives
from zun.container.fake.audit import InMemoryAudit
from zun.container.fake.connections import InMemoryConnections
from zun.container.fake.console import InMemoryConsole
from zun.container.fake.facts import DEFAULT_FACTS, InMemoryFacts
from zun.container.fake.hugepages import InMemoryHugePages
from zun.container.fake.images import InMemoryImages
from zun.container.fake.inspector import InMemoryInspector
from zun.container.fake.lifecycle import InMemoryLifecycle
from zun.container.fake.resources import InMemoryResources
from zun.container.fake.runtime import InMemoryRuntime
from zun.container.fake.terminals import InMemoryTerminals
from zun.container.fake.volumes import InMemoryVolumes
from zun.topology import CpuSet


class InMemoryDriver(
    InMemoryLifecycle,
    InMemoryInspector,
    InMemoryAudit,
    InMemoryResources,
    InMemoryHugePages,
    InMemoryConsole,
    InMemoryConnections,
    InMemoryArchives,
    InMemoryTerminals,
    InMemoryImages,
    InMemoryVolumes,
    InMemoryFacts,
):
    """A driver whose containers exist only in memory. Threads may share one driver.

    ``cpus`` and ``mems`` are the ids that the kernel knows. If they are given, the driver refuses other ids as Docker
    does. Several drivers with one ``runtime`` stand for several agents on one daemon.

    Beyond the Protocols, for tests:

    - :meth:`fail` and :meth:`before` disturb an operation, :meth:`disobey` lets the kernel show other sets.
    - :meth:`cut_events` and :meth:`join_events` interrupt the stream of events, :meth:`heard` tells whether every
      event was processed.
    - :meth:`exit` ends a process, :meth:`answer` opens a port.
    - ``kernel`` has the further findings of an audit; ``updates`` and ``pulls`` record the calls.
    """

    def __init__(
        self,
        host_facts: HostFacts = DEFAULT_FACTS,
        *,
        images: Mapping[str, ImageFacts] | None = None,
        registry: Mapping[str, ImageFacts] | None = None,
        cpus: CpuSet | None = None,
        mems: CpuSet | None = None,
        runtime: InMemoryRuntime | None = None,
    ) -> None:
        super().__init__(
            images=images,
            registry=registry,
            cpus=cpus,
            mems=mems,
            host_facts=host_facts,
            runtime=runtime or InMemoryRuntime(),
        )

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return a driver without containers for this host: the entry point of ``container_driver = fake``."""
        return cls(replace(DEFAULT_FACTS, name=conf.host))
