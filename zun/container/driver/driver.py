# SPDX-License-Identifier: Apache-2.0
"""The sum of all capabilities of a runtime."""

from typing import Protocol, runtime_checkable

from zun.container.driver.archives import Archives
from zun.container.driver.audit import Auditor
from zun.container.driver.connections import Connections
from zun.container.driver.console import Console
from zun.container.driver.events import EventSource
from zun.container.driver.facts import Facts
from zun.container.driver.hugepages import HugePages
from zun.container.driver.images import Images
from zun.container.driver.inspector import Inspector
from zun.container.driver.lifecycle import Lifecycle
from zun.container.driver.resources import Resources
from zun.container.driver.terminals import Terminals
from zun.container.driver.volumes import Volumes


@runtime_checkable
class ContainerDriver(
    Lifecycle,
    Inspector,
    Auditor,
    Resources,
    HugePages,
    Console,
    Connections,
    Archives,
    Terminals,
    Images,
    Volumes,
    EventSource,
    Facts,
    Protocol,
):
    """All capabilities of a runtime, as an agent uses them."""
