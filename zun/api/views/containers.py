# SPDX-License-Identifier: Apache-2.0
"""Responses about containers."""

import datetime
import itertools
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, NotRequired, TypedDict, cast

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, times
from zun.api.views.status_detail import status_detail
from zun.objects.container import published_ports
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.ranges import MALFORMED

NOUN = "containers"

# Shown only to whom policy ``container:get_one:<name>`` allows it; absent for others.
RESTRICTED = ("host", "runtime", "image_pull_policy", "privileged")

Columns = Mapping[str, Sequence[Any]]  # of some rows, by name
_Text = str | None
_Placed = Annotated[str | None, microversion.PLACEMENT]
_Amount = Annotated[int | None, microversion.PLACEMENT]
_Amounts = Annotated[list[int] | None, microversion.PLACEMENT]
_Names = Annotated[list[str] | None, microversion.TRAITS]
_Alternatives = Annotated[list[list[str]] | None, microversion.TRAITS]


class Placement(TypedDict):
    """The requested NUMA fields and the held CPUs and memory nodes; null for each that is absent."""

    cpu_thread_policy: NotRequired[_Placed]
    cpu_isolation: NotRequired[_Placed]
    numa_nodes: NotRequired[_Amount]
    numa_affinity: NotRequired[_Placed]
    numa_cpus: NotRequired[_Amounts]
    numa_mem: NotRequired[_Amounts]
    numa_mempolicy: NotRequired[_Placed]
    mem_page_size: NotRequired[Annotated[str | int | None, microversion.PLACEMENT]]
    cpuset_cpus: NotRequired[_Placed]
    cpuset_mems: NotRequired[_Placed]
    cpuset_isolation: NotRequired[_Placed]


class Mixed(TypedDict):
    """The own CPUs of a mixed container: the number asked for, and those that it holds; null for other containers."""

    dedicated_cpus: NotRequired[Annotated[int | None, microversion.MIXED]]
    cpuset_dedicated: NotRequired[Annotated[str | None, microversion.MIXED]]


class Asked(TypedDict):
    """Traits and aggregates (uuids) that the request asks of its host; null without a condition."""

    required_traits: NotRequired[_Names]
    forbidden_traits: NotRequired[_Names]
    any_traits: NotRequired[_Alternatives]
    member_of: NotRequired[_Alternatives]


class GivenDevice(TypedDict):
    """One device of a container, by its name on the host: a PCI address, a file or a CDI name."""

    address: str
    cell: int | None


class RequestedDevice(TypedDict):
    """Devices of one kind, asked for by alias or by resource class, and the devices given so far."""

    alias: NotRequired[str]
    resource_class: NotRequired[str]
    count: int
    traits: list[str]
    numa_policy: str
    given: list[GivenDevice]


class Devices(TypedDict):
    """The requested and the given devices; null for what was not asked."""

    devices: NotRequired[Annotated[list[RequestedDevice] | None, microversion.DEVICE_REQUESTS]]
    device_numa_policy: NotRequired[Annotated[str | None, microversion.DEVICE_REQUESTS]]
    device_same: NotRequired[Annotated[str | None, microversion.DEVICE_REQUESTS]]


class Container(Placement, Mixed, Asked, Devices):
    uuid: str
    name: _Text
    image: _Text
    project_id: _Text
    user_id: _Text
    cpu: float | None
    cpu_policy: _Text
    memory: _Text
    disk: int
    command: list[str] | None
    entrypoint: list[str] | None
    environment: dict[str, str] | None
    labels: dict[str, str] | None
    addresses: dict[str, Any] | None
    ports: list[int] | None
    security_groups: list[str] | None
    restart_policy: dict[str, str] | None
    healthcheck: dict[str, Any] | None
    status: _Text
    task_state: _Text
    status_reason: _Text
    status_detail: _Text
    workdir: _Text
    hostname: _Text
    interactive: bool
    tty: bool
    auto_remove: bool
    auto_heal: bool
    image_driver: _Text
    registry_id: _Text
    created_at: _Text
    updated_at: _Text
    host: NotRequired[str | None]
    runtime: NotRequired[str | None]
    image_pull_policy: NotRequired[str | None]
    privileged: NotRequired[bool]
    group_uuid: NotRequired[Annotated[str | None, microversion.GROUPS]]
    capabilities: NotRequired[Annotated[list[str], microversion.CAPABILITIES]]
    published_ports: NotRequired[Annotated[dict[str, dict[str, Any]], microversion.NETWORKS]]
    links: NotRequired[list[links.Link]]


class Containers(TypedDict):
    containers: list[Container]
    next: str | None


class Executed(TypedDict):
    """Output and exit code, or where to open a terminal."""

    output: str | None
    exit_code: int | None
    exec_id: str | None
    proxy_url: str | None


class Processes(TypedDict):
    Titles: list[str]
    Processes: list[list[str]]


Stats = TypedDict(
    "Stats",
    {
        "CONTAINER": str,
        "CPU %": float,
        "MEM USAGE(MiB)": float,
        "MEM LIMIT(MiB)": float,
        "MEM %": float,
        "BLOCK I/O(B)": str,
        "NET I/O(B)": str,
    },
)


class Archive(TypedDict):
    stat: dict[str, Any]
    data: str


class Committed(TypedDict):
    uuid: str


class Networks(TypedDict):
    """The networks of a container. Below version 1.18 an item is an address, from there on a port."""

    networks: list[dict[str, Any]]


# Members that are columns, in the order of the answer.
_SAME = (
    *("uuid", "name", "image", "project_id", "user_id", "cpu", "cpu_policy", "memory", "disk", "command", "entrypoint"),
    *("environment", "labels", "addresses", "ports", "security_groups", "restart_policy", "healthcheck", "status"),
    *("task_state", "status_reason", "status_detail", "workdir", "hostname", "interactive", "tty", "auto_remove"),
    *("auto_heal", "image_driver", "registry_id", "created_at", "updated_at"),
)

# Of these, what is JSON in a row and in the answer alike, and what a container has that was given none.
_EMPTY: Mapping[str, Any] = {
    "command": [],
    "entrypoint": [],
    "environment": {},
    "labels": {},
    "addresses": {},
    "ports": [],
    "security_groups": [],
    "restart_policy": {},
    "healthcheck": {},
}
_NOT_GIVEN = dict.fromkeys(_EMPTY)
_TIMES = ("created_at", "updated_at")
PASSED_ON = frozenset({*_EMPTY, *_TIMES})
_HELD = ("cpuset_cpus", "cpuset_mems", "cpuset_isolation")
_ASKED = tuple(name for name in Placement.__annotations__ if name not in _HELD)
_TRAITS = tuple(Asked.__annotations__)

# What ``page`` looks at, besides the RESTRICTED members that are visible.
COLUMNS = (
    *(*_SAME, "started_at", "finished_at", "exit_code", "placement", "cpuset", "group_uuid", "exposed_ports"),
    "capabilities",
)


def show(
    row: Mapping[str, Any],
    version: Version,
    *,
    now: datetime.datetime,
    visible: Set[str],
    base_url: str,
    fresh: bool = False,
) -> Container:
    """Return the representation of a row at ``now`` (UTC). ``visible`` are the RESTRICTED members to show.

    A container just created is ``fresh``: members that it was not given are null, and become an empty list or object
    later.
    """
    (shown,) = _shown(columns([row], visible), version, now, visible, _NOT_GIVEN if fresh else _EMPTY)
    shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown


def columns(rows: Collection[Mapping[str, Any]], visible: Set[str]) -> Columns:
    """Return the columns of ``rows`` that ``page`` reads."""
    found = {name: [row[name] for row in rows] for name in (*COLUMNS, *visible)}
    return found | {name: [times.of_resource(moment) for moment in found[name]] for name in _TIMES}


def page(found: Columns, version: Version, *, now: datetime.datetime, visible: Set[str]) -> list[Container]:
    """Return the result of ``show`` for each row, without links. Column by column takes half the time of row by row."""
    return _shown(found, version, now, visible, _EMPTY)


def _shown(
    found: Columns, version: Version, now: datetime.datetime, visible: Set[str], empty: Mapping[str, Any]
) -> list[Container]:
    members: dict[str, Iterable[Any]] = {name: found[name] for name in _SAME}
    for name, nothing in empty.items():
        members[name] = [value or nothing for value in found[name]]
    members["memory"] = [None if memory is None else str(memory) for memory in found["memory"]]
    told = (found[name] for name in ("status_detail", "status", "started_at", "finished_at", "exit_code"))
    members["status_detail"] = map(status_detail, *told, itertools.repeat(now))
    for name in RESTRICTED:
        if name in visible:
            members[name] = found[name]
    if version >= microversion.PLACEMENT:
        asked = _ASKED if version < microversion.TRAITS else (*_ASKED, *_TRAITS)
        for column, names in (("placement", asked), ("cpuset", _HELD)):
            whole = [value or {} for value in found[column]]
            members |= {name: [value.get(name) for value in whole] for name in names}
    if version >= microversion.DEVICE_REQUESTS:
        whole = [value or {} for value in found["placement"]]
        members["devices"] = map(devices, whole, found["cpuset"])
        members |= {name: [value.get(name) for value in whole] for name in ("device_numa_policy", "device_same")}
    if version >= microversion.MIXED:
        for column, name in (("placement", "dedicated_cpus"), ("cpuset", "cpuset_dedicated")):
            members[name] = [(value or {}).get(name) for value in found[column]]
    if version >= microversion.GROUPS:
        members["group_uuid"] = found["group_uuid"]
    if version >= microversion.NETWORKS:
        members["published_ports"] = map(published_ports, found["exposed_ports"])
    if version >= microversion.CAPABILITIES:
        members["capabilities"] = [value or [] for value in found["capabilities"]]
    return [cast(Container, dict(zip(members, row, strict=True))) for row in zip(*members.values(), strict=True)]


def placement(row: Mapping[str, Any]) -> Placement:
    asked, held = row["placement"] or {}, row["cpuset"] or {}
    return cast(
        Placement, {**{name: asked.get(name) for name in _ASKED}, **{name: held.get(name) for name in _HELD}}
    )


def traits(row: Mapping[str, Any]) -> Asked:
    asked = row["placement"] or {}
    return cast(Asked, {name: asked.get(name) for name in _TRAITS})


def devices(asked: Mapping[str, Any], held: Mapping[str, Any] | None) -> list[RequestedDevice] | None:
    """Return the devices of the column ``placement`` with those that the column ``cpuset`` has; None without any."""
    if not asked.get("devices"):
        return None
    given = deque((held or {}).get("devices") or ())  # in the order of the request
    shown: list[RequestedDevice] = []
    for record in asked["devices"]:
        try:
            request = DeviceRequest.from_dict(record)
            own = [_given(given.popleft()) for _ in range(min(request.count, len(given)))]
        except MALFORMED:  # written by hand: one must not hide every other container
            continue
        by_class = request.matches == (DeviceMatch(resource_class=request.name),)
        entry: RequestedDevice = {
            "count": request.count,
            "traits": list(request.traits),
            "numa_policy": request.numa_policy,
            "given": own,
        }
        entry["resource_class" if by_class else "alias"] = request.name
        shown.append(entry)
    return shown


def _given(record: Mapping[str, Any]) -> GivenDevice:
    return {"address": record["address"], "cell": record.get("cell")}


def networks(addresses: Mapping[str, Any], version: Version) -> list[dict[str, Any]]:
    """Return ``addresses`` as a list of networks: one item a port, below version 1.18 one item an address."""
    if version < microversion.v1(18):
        return [
            {
                "net_id": network,
                "subnet_id": each["subnet_id"],
                "port_id": each["port"],
                "version": each["version"],
                "ip_address": each["addr"],
            }
            for network, items in addresses.items()
            for each in items
        ]
    return [
        {
            "net_id": network,
            "port_id": items[0]["port"],
            "fixed_ips": [
                {"subnet_id": each["subnet_id"], "version": each["version"], "ip_address": each["addr"]}
                for each in items
            ],
        }
        for network, items in addresses.items()
        if items
    ]
