# SPDX-License-Identifier: Apache-2.0
"""Containers for driver tests: only what a driver reads of one."""

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from zun.common.states import Status


@dataclass(frozen=True, slots=True)
class Sample:
    """A container row, as far as :class:`zun.container.driver.container.ContainerView` goes."""

    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    kind: str = "container"
    name: str | None = "sample"
    container_id: str | None = None
    started_at: datetime | None = None
    status: Status | None = Status.CREATING
    image: str = "zun-demo"
    cpu: float | None = 1.0
    cpu_policy: str | None = "dedicated"
    memory: int | None = 32
    disk: int | None = None
    command: Sequence[str] | None = ("sleep", "1000")
    entrypoint: Sequence[str] | None = None
    workdir: str | None = None
    environment: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    hostname: str | None = None
    restart_policy: Mapping[str, str] | None = None
    interactive: bool | None = False
    tty: bool | None = False
    auto_remove: bool | None = False
    privileged: bool | None = False
    capabilities: Sequence[str] | None = None
    healthcheck: Mapping[str, Any] | None = None
    runtime: str | None = None
    exposed_ports: Mapping[str, Any] | None = None
