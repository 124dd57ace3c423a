# SPDX-License-Identifier: Apache-2.0
"""Responses about containers."""

import datetime
import functools
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, NotRequired, TypedDict

from zun import nouns
from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, members, times
from zun.api.views.status_detail import status_detail
from zun.nouns import container as noun
from zun.objects.container import published_ports
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.ranges import MALFORMED

NOUN = "containers"

Columns = Mapping[str, Sequence[Any]]  # of some rows, by name


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


Container = Annotated[members.Shown, members.Answer(noun.Container, devices=list[RequestedDevice] | None)]


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
        "last_minute": NotRequired[Annotated[dict[str, Any] | None, microversion.QUIET]],
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


_MEMBERS = members.shown_in(noun.Container, microversion.MAX)

# Shown only to whom policy ``container:get_one:<name>`` allows it; absent for others.
RESTRICTED = tuple(each.name for each in _MEMBERS if each.mark(nouns.Shown).restricted)

# Members that are JSON in a row and in the answer alike, and what stands there for a container that was given none.
_EMPTY: Mapping[str, Any] = {
    each.name: [] if each.base is list else {} for each in _MEMBERS if each.is_stored and each.base in (list, dict)
}
_TIMES = tuple(each.name for each in _MEMBERS if each.kind is datetime.datetime)
PASSED_ON = frozenset({*(each.name for each in _MEMBERS if each.name in _EMPTY and each.may_be_null), *_TIMES})

# What ``page`` looks at, besides the RESTRICTED members that are visible: columns, and those that the rules need.
_NEEDED = ("started_at", "finished_at", "exit_code", "exposed_ports", "placement", "cpuset")
COLUMNS = (*(each.name for each in _MEMBERS if each.is_stored and each.name not in RESTRICTED), *_NEEDED)


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
    (shown,) = _shown(columns([row], visible), version, now, visible, fresh)
    shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown


def columns(rows: Collection[Mapping[str, Any]], visible: Set[str]) -> Columns:
    """Return the columns of ``rows`` that ``page`` reads."""
    found = {name: [row[name] for row in rows] for name in (*COLUMNS, *visible)}
    return found | {name: [times.of_resource(moment) for moment in found[name]] for name in _TIMES}


def page(found: Columns, version: Version, *, now: datetime.datetime, visible: Set[str]) -> list[Container]:
    """Return the result of ``show`` for each row, without links. Column by column takes half the time of row by row."""
    return _shown(found, version, now, visible, fresh=False)


def _shown(found: Columns, version: Version, now: datetime.datetime, visible: Set[str], fresh: bool) -> list[Container]:
    chosen = _chosen(version, frozenset(visible))
    names = [name for name, _ in chosen]
    values = [_values(name, column, found, now, fresh) for name, column in chosen]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@functools.lru_cache(maxsize=1000)
def _chosen(version: Version, visible: frozenset[str]) -> tuple[tuple[str, str | None], ...]:
    """Return the members that are shown, each with the JSON column that has it, or None."""
    shown = (each for each in members.shown_in(noun.Container, version) if nouns.LINKS not in each.marks)
    chosen = [each for each in shown if each.name in visible or each.name not in RESTRICTED]
    return tuple((each.name, inside.column if (inside := each.mark(nouns.In)) else None) for each in chosen)


def _values(name: str, column: str | None, found: Columns, now: datetime.datetime, fresh: bool) -> Iterable[Any]:
    """Return a member's values, one for each row."""
    if column is not None:
        return [(value or {}).get(name) for value in found[column]]
    if name in _RULES:
        return _RULES[name](found, now)
    if name in _EMPTY:
        nothing = None if fresh and name in PASSED_ON else _EMPTY[name]
        return [value or nothing for value in found[name]]
    return found[name]


def _memory(found: Columns, now: datetime.datetime) -> Iterable[str | None]:
    return [None if memory is None else str(memory) for memory in found["memory"]]


def _status_detail(found: Columns, now: datetime.datetime) -> Iterable[str | None]:
    told = (found[name] for name in ("status_detail", "status", "started_at", "finished_at", "exit_code"))
    return map(status_detail, *told, itertools.repeat(now))


def _devices(found: Columns, now: datetime.datetime) -> Iterable[list[RequestedDevice] | None]:
    return map(devices, [value or {} for value in found["placement"]], found["cpuset"])


def _published_ports(found: Columns, now: datetime.datetime) -> Iterable[dict[str, Any]]:
    return map(published_ports, found["exposed_ports"])


_RULES: Mapping[str, Callable[[Columns, datetime.datetime], Iterable[Any]]] = {
    "memory": _memory,
    "status_detail": _status_detail,
    "devices": _devices,
    "published_ports": _published_ports,
}


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
