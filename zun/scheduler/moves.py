# SPDX-License-Identifier: Apache-2.0
"""Find moves of containers within one host after which a request fits: of one host, or the cheapest of many hosts.

``zun.topology.rearrange`` plans the moves of a host. This module says which containers may be moved, asks the hosts,
and puts the moves into their order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zun.common.departures import MOVABLE
from zun.common.states import ALLOWED, Kind
from zun.objects.placement import ASKED_AS, cpuset_record, held_plan, placement_request
from zun.scheduler.host_state import HostState
from zun.topology import Isolation, PlacementRequest, Plan
from zun.topology.ranges import MALFORMED
from zun.topology.rearrange import Fits, Move, Stuck, rearrange

COLUMNS = ("uuid", "name", "host", "cpuset", "cpu", "memory", "cpu_policy", "placement", "status", "kind")
"""The columns of containers that ``movable`` reads."""

COMMAND = "openstack appcontainer host defragment"


@dataclass(frozen=True, slots=True)
class Found:
    """The moves on one host after which the request fits. ``proven`` says that no other moves there are cheaper."""

    hostname: str
    moves: tuple[Move, ...]
    proven: bool
    names: Mapping[str, str]
    """The names of containers by uuid."""

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(each.owner for each in self.moves)

    @property
    def mib(self) -> int:
        """MiB that must be copied."""
        return sum(each.mib for each in self.moves)

    def records(self) -> list[dict[str, Any]]:
        """Return the moves as messages have them."""
        return [
            {
                "uuid": move.owner,
                "name": self.names.get(move.owner, ""),
                "held": cpuset_record(move.old),
                "cpuset": cpuset_record(move.new),
                "mib": move.mib,
                "after": after,
            }
            for move, after in zip(self.moves, before(self.moves), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of the RPC message ``find_moves``."""
        return {"host": self.hostname, "moves": self.records(), "proven": self.proven, "reason": None}

    def told(self, request: PlacementRequest) -> str:
        """Return the moves as a sentence for the user whose request was refused. It names no host."""
        count = len(self.owners)
        which = "1 container of a host was" if count == 1 else f"{count} containers of a host were"
        return (
            f" It would fit if {which} moved on that host ({self.mib} MiB of memory). An administrator can have that "
            f"done: '{command(request)}'."
        )


def command(request: PlacementRequest) -> str:
    """Return the command that moves containers so that the request fits on a host."""
    usual = PlacementRequest(request.cpus, request.memory_mib).to_dict()
    record = request.to_dict()
    more = [
        f" --{field.replace('_', '-')} {_value(record[name])}"
        for name, field in ASKED_AS.items()
        if name in record and record[name] != usual.get(name) and name not in ("cpus", "memory_mib")
    ]
    return f"{COMMAND} --all --for {int(request.cpus)}:{request.memory_mib}{''.join(more)}"


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def movable(rows: Iterable[Mapping[str, Any]], *, by_default: bool) -> dict[str, PlacementRequest]:
    """Return the requests of the containers that may be moved on their host, by uuid. ``rows`` have ``COLUMNS``.

    A container may be moved if it is dedicated, is no capsule, has no devices and no isolated CPUs, is in a status that
    allows a move, and if its user allows it; ``by_default`` is for users who did not say.
    """
    found = {}
    for row in rows:
        try:
            plan, request = held_plan(row), placement_request(row)
            request = request if plan is None else _with_its_pages(request, plan)
        except MALFORMED:  # written by hand
            continue
        allowed = (row["placement"] or {}).get(MOVABLE)
        if (
            plan is not None
            and plan.dedicated
            and not plan.uses_pool
            and not plan.devices
            and not request.devices
            and plan.isolation != Isolation.ISOLATED
            and row["kind"] == Kind.CONTAINER
            and row["status"] in ALLOWED["move"]
            and (by_default if allowed is None else allowed)
        ):
            found[row["uuid"]] = request
    return found


def _with_its_pages(request: PlacementRequest, plan: Plan) -> PlacementRequest:
    """Return ``request`` for pages of the size that ``plan`` has: a move changes no page, whatever was asked for."""
    if request.page_size not in ("any", "large"):
        return request
    sizes = {size for share in plan.cells.values() for size, count in share.pages.items() if count}
    return replace(request, page_size=max(sizes, default="small"))


def cheapest(
    hosts: Iterable[HostState],
    movable_on: Callable[[str], Mapping[str, PlacementRequest]],
    request: PlacementRequest,
    names: Mapping[str, str],
    *,
    steps: int,
    expired: Callable[[], bool] = lambda: False,
) -> Found | str:
    """Return the cheapest moves on one of the hosts, or why there are none.

    The cost is MiB that must be copied, then containers that are moved. ``steps`` bounds the plans on each host; no
    further host is asked when ``expired`` says so. ``movable_on`` puts the names of containers into ``names``.
    """
    best: Found | None = None
    reasons: dict[str, str] = {}
    unknown = False
    for host in sorted(hosts, key=lambda each: -each.room.dedicated_cpus):
        if not _has_enough(host, request):
            reasons[host.hostname] = f"it has {host.room.dedicated_cpus} CPUs and {_free(host)} MiB free in all"
            continue
        if expired():
            unknown = True
            break
        answer = rearrange(host.topology, host.usage, movable_on(host.hostname), Fits(request), steps=steps)
        if isinstance(answer, Stuck):
            reasons[host.hostname] = answer.reason
            continue
        found = Found(host.hostname, answer.moves, answer.proven, names)
        if best is None or (found.mib, len(found.owners)) < (best.mib, len(best.owners)):
            best = found
        if not best.moves:
            break
    if best is not None:
        return best
    if unknown:
        return "there was no time to ask every host; name one"
    if not reasons:
        return "no host could have it, whatever moves"
    told = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items())[:3])
    return told if len(reasons) <= 3 else f"{told}; and {len(reasons) - 3} more hosts"


def _has_enough(host: HostState, request: PlacementRequest) -> bool:
    """Return whether the host has CPUs and memory for the request in all, wherever they are."""
    counted = request.ordinary_pages and request.mempolicy == "strict"
    return host.room.dedicated_cpus >= request.own_cpus and (not counted or _free(host) >= request.memory_mib)


def _free(host: HostState) -> int:
    return host.room.memory_dedicated


def before(moves: Sequence[Move]) -> list[list[str]]:
    """Return for each move the containers whose moves must come before it: they leave cells that it needs."""
    return [
        list(dict.fromkeys(first.owner for first in moves[:place] if first.old.cells.keys() & move.new.cells.keys()))
        for place, move in enumerate(moves)
    ]
