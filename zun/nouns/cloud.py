# SPDX-License-Identifier: Apache-2.0
"""The nouns of operators: hosts, services, aggregates of hosts, and the actions of containers with their steps."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

from zun.nouns import (
    BIG,
    INVENTORY,
    KEY,
    LINKS,
    PROSE,
    UNIQUE,
    UNSTORED,
    UUID,
    WRITTEN,
    Noun,
    Range,
    Readable,
    Shown,
    Text,
)
from zun.nouns.container import DISK, MEMORY
from zun.topology import HostTopology, ranges
from zun.topology.ranges import NAME, Listed, Whole

_NAME = Text(255)
_MAP = Shown(since=48)

LABELS, LABEL = Listed("labels", 1000), ranges.Text("a label", 4096)
RUNTIMES, TRAITS = Listed("runtimes", 100), Listed("traits", 2000)
REASON = ranges.Text("a reason", 4096)


def _read_labels(value: Mapping[str, Any]) -> None:
    for name in LABELS(list(value)):
        NAME(name), LABEL(value[name])


def _read_runtimes(value: list[Any]) -> None:
    for name in RUNTIMES(value):
        NAME(name)


def _read_traits(value: list[Any]) -> None:
    for name in TRAITS(value):
        NAME(name)


def _read_engine(value: Mapping[str, Any]) -> None:
    if value["away"] is not None:
        REASON(value["away"])
    for each in (value["name"], value["version"], value["api_version"], value["runtime"]):
        NAME(each)


class Host(Noun):
    """A compute host: its inventory, and the sums of what its containers hold."""

    id: Annotated[int, KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    hostname: Annotated[str, "The name.", _NAME, UNIQUE, Shown()]
    mem_total: Annotated[int, "MiB of memory.", BIG, MEMORY, INVENTORY, Shown()]
    mem_used: Annotated[int, "MiB that its containers hold.", UNSTORED, Shown()]
    cpus: Annotated[int, "The number of CPUs.", Range(Whole("cpus", 8192)), INVENTORY, Shown()]
    cpu_used: Annotated[float, "CPUs that its containers hold.", UNSTORED, Shown()]
    disk_total: Annotated[int, "GiB of disk.", DISK, INVENTORY, Shown()]
    disk_used: Annotated[int, "GiB that its containers hold.", UNSTORED, Shown()]
    disk_quota_supported: Annotated[bool, "Whether containers can have a limit of disk.", INVENTORY, Shown()]
    total_containers: Annotated[int, "The number of its containers.", UNSTORED, Shown()]
    architecture: Annotated[str | None, "The architecture of its CPUs.", Text(32), INVENTORY, Shown()]
    os_type: Annotated[str | None, "The type of the operating system.", Text(32), INVENTORY, Shown()]
    os: Annotated[str | None, "The operating system.", _NAME, INVENTORY, Shown()]
    kernel_version: Annotated[str | None, "The version of the kernel.", Text(128), INVENTORY, Shown()]
    labels: Annotated[dict[str, str], "Labels of the engine.", Readable(_read_labels), INVENTORY, Shown()]
    runtimes: Annotated[list[str], "Names of the engine's runtimes.", Readable(_read_runtimes), INVENTORY, Shown()]
    enable_cpu_pinning: Annotated[bool, "Whether it takes dedicated containers.", INVENTORY, Shown()]
    engine: Annotated[
        dict[str, Any] | None,
        "The container engine, and why it is away.",
        Readable(_read_engine, 8192),
        INVENTORY,
        Shown(since=47),
    ]
    availability_zone: Annotated[str | None, "The zone.", _NAME, INVENTORY, Shown(str, since=48)]
    aggregates: Annotated[list[str], "The aggregates that it is in.", UNSTORED, _MAP]
    traits: Annotated[  # stored: as its agent found them
        list[str] | None, "Its traits.", Readable(_read_traits), INVENTORY, Shown(list[str], since=48)
    ]
    total: Annotated[dict[str, Any] | None, "The amounts that it has for containers.", UNSTORED, _MAP]
    free: Annotated[dict[str, Any] | None, "The amounts that are free.", UNSTORED, _MAP]

    created_at: Annotated[datetime.datetime | None, "When its agent first told of it.", WRITTEN]
    updated_at: Annotated[datetime.datetime | None, "When its inventory was written last."]
    generation: Annotated[int, "Grows with each claim and change.", BIG, Range(ranges.GENERATION)] = 0
    topology: Annotated[dict[str, Any], "The HostTopology.", Readable(HostTopology.from_dict, 4 * 2**20), INVENTORY]
    disk_allocation_ratio: Annotated[float, "How often it promises its disk.", Range(ranges.RATIO), INVENTORY]
    added_traits: Annotated[list[str] | None, "Traits that administrators gave it."]


class Service(Noun):
    """A service of a host."""

    id: Annotated[int, "The number of the service.", KEY, Shown()]
    host: Annotated[str, "The host that it runs on.", _NAME, Shown()]
    binary: Annotated[str, "The name of its program.", _NAME, Shown()]
    disabled: Annotated[bool, "Whether its host gets no new containers.", Shown()] = False
    disabled_reason: Annotated[str | None, "Why it was disabled.", _NAME, Shown()]
    forced_down: Annotated[bool, "Whether an operator said that it is down.", Shown()] = False
    last_seen_up: Annotated[datetime.datetime | None, "When it was heard of last.", Shown()]
    report_count: Annotated[int, "How often it was heard of.", Shown()] = 0
    state: Annotated[str, "up or down.", UNSTORED, Shown()]
    availability_zone: Annotated[str | None, "The zone of its host.", _NAME, Shown(str)]
    drain: Annotated[dict[str, Any] | None, "How its containers are moved to other hosts, see zun.db.drains."]
    created_at: Annotated[datetime.datetime | None, "When it was first heard of.", WRITTEN, Shown()]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", Shown()]


class Aggregate(Noun):
    """A set of hosts that have something in common."""

    id: Annotated[int, KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    name: Annotated[str, "The name, once in the cloud.", _NAME, UNIQUE, Shown()]
    availability_zone: Annotated[str | None, "The zone of its hosts, if it is one.", UNSTORED, Shown()]
    hosts: Annotated[list[str], "Names of its hosts, sorted.", Shown()]
    metadata: Annotated[dict[str, str], "Texts by name; the zone is among them.", Shown()]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, Shown()]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", Shown()]


class Action(Noun):
    """A request to a container, or to its host by a service."""

    id: Annotated[int, KEY]
    action: Annotated[str, "The name of the action.", _NAME, Shown()]
    container_uuid: Annotated[str, "The container.", Text(36), Shown()]
    request_id: Annotated[str, "The request that asked for it.", _NAME, Shown()]
    user_id: Annotated[str | None, "The user who asked; null for a service.", _NAME, Shown()]
    project_id: Annotated[str, "The project that asked.", _NAME, Shown()]
    start_time: Annotated[datetime.datetime | None, "When it was asked for.", WRITTEN, Shown()]
    finish_time: Annotated[datetime.datetime | None, "When it ended.", Shown()]
    message: Annotated[str | None, "Error, if it failed.", _NAME, Shown()]
    client_address: Annotated[  # null: a service, or a unix socket
        str | None,
        "Where the request came from; null for a service, and for a caller who may not see it.",
        Text(64),
        Shown(since=42),
    ]
    arguments: Annotated[dict[str, Any] | None, "Those of an action that its host takes from here, else null."]


class Event(Noun):
    """A step of an action. The host of the container writes the row."""

    id: Annotated[int, KEY]
    action_id: Annotated[int, "The action.", KEY]
    event: Annotated[str, "The name of the step.", _NAME, Shown()]
    start_time: Annotated[datetime.datetime | None, "When it began.", WRITTEN, Shown()]
    finish_time: Annotated[datetime.datetime | None, "When it ended.", Shown()]
    result: Annotated[str | None, "Success or Error.", Text(32), Shown()]
    traceback: Annotated[str | None, "Why it failed, for operators.", PROSE, Shown()]
