# SPDX-License-Identifier: Apache-2.0
"""How many more containers of one shape the cloud takes: the number of creates that would then succeed.

Where a container goes changes nothing about the other hosts, so the hosts are counted one by one: a group that must be
on one host is counted on that one, or on the one where its first member would go. On each the exact plans are made one
after the other; hosts that are alike share them. The other filters are asked how far they go along, which is bisected:
a host that is too full for a filter does not become less full by taking more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zun.common.groups import Policy
from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.explain import MAX_TEXT, HostCode, code_of, may_hold, refusal_of
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import NoValidHost, informed, select
from zun.topology import HostTopology, Refusal, Usage
from zun.topology.capacity import fill, holdings


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """``code`` and ``reason`` are of the first container that is one too many; None when the counting was stopped."""

    hostname: str
    count: int
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """``complete`` is False when the counting was stopped, so that there may be room for more."""

    hosts: tuple[HostCapacity, ...]
    complete: bool

    @property
    def total(self) -> int:
        return sum(host.count for host in self.hosts)

    def to_dict(self) -> dict[str, Any]:
        """What travels to the API."""
        hosts = [
            {"host": each.hostname, "count": each.count, "code": each.code, "reason": each.reason}
            for each in self.hosts
        ]
        return {"total": self.total, "complete": self.complete, "hosts": hosts}


def capacity(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted] = (),
    *,
    limit: int,
    expired: Callable[[], bool] = lambda: False,
) -> Capacity:
    """How many more containers like ``spec`` fit on ``hosts``, counted up to ``limit`` or until ``expired``."""
    spec = _with_members(hosts, spec, filters, weights)
    known: dict[tuple[HostTopology, str], tuple[list[Usage], Refusal | None]] = {}
    found: list[HostCapacity] = []
    left = limit
    for host in hosts:
        if expired() or left == 0:
            return Capacity(tuple(found), complete=False)
        rejected = _turned_away(host, spec, filters)
        if rejected is not None:
            found.append(_stopped(host.hostname, 0, rejected))
            continue
        key = (host.topology, holdings(host.usage))
        if key not in known:
            known[key] = _filled(host, spec, left, expired)
        usages, refusal = known[key]
        counted = _count(host, spec, filters, usages, refusal, left)
        found.append(counted)
        left -= counted.count
        if counted.code is None:
            return Capacity(tuple(found), complete=False)
    return Capacity(tuple(found), complete=True)


def _with_members(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
) -> RequestSpec:
    """``spec`` with what the hosts say of its group. One that must be on one host, and is on none, begins somewhere."""
    if spec.group is None:
        return spec
    table = Columns(hosts)
    spec = informed(spec, table)
    assert spec.group is not None
    if spec.group.policy == Policy.AFFINITY and not spec.group.members:
        first = select(table, spec, filters, weights, 1)
        if not isinstance(first, NoValidHost):
            return replace(spec, group=replace(spec.group, members={first[0].hostname: 0}))
    return spec


Rejected = tuple[str, str]
"""The code and the reason in words."""


def _stopped(hostname: str, count: int, rejected: Rejected) -> HostCapacity:
    code, reason = rejected
    return HostCapacity(hostname, count, code, reason[:MAX_TEXT])


def _filled(
    host: HostState, spec: RequestSpec, most: int, expired: Callable[[], bool]
) -> tuple[list[Usage], Refusal | None]:
    """The host's usage before and after each further plan, and what refuses one more; None when it was not asked."""
    usages = [host.usage]
    for item in fill(host.topology, host.usage, spec.placement):
        if isinstance(item, Refusal):
            return usages, item
        usages.append(item)
        if len(usages) > most or expired():
            break
    return usages, None


def _count(
    host: HostState,
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    usages: Sequence[Usage],
    refusal: Refusal | None,
    most: int,
) -> HostCapacity:
    """How many of the plans the filters let pass, one after the other."""

    def after(number: int) -> HostState:
        group = None if spec.group is None else spec.group.uuid
        return host.after(usages[number], spec.disk, group, spec.image, number)

    planned = len(usages) - 1
    # With so many on it the host takes one more: true of none, as nothing turned it away.
    low, high = 0, min(planned, most) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _turned_away(after(middle), spec, filters) is None:
            low = middle
        else:
            high = middle - 1
    count = low + 1 if high >= 0 else 0
    if count == most:
        return HostCapacity(host.hostname, count)
    rejected = _turned_away(after(count), spec, filters) if count < planned or refusal is None else None
    if rejected is not None:
        return _stopped(host.hostname, count, rejected)
    if refusal is None:  # the counting of plans was stopped
        return HostCapacity(host.hostname, count)
    return _stopped(host.hostname, count, (str(refusal.code), refusal.message))


def _turned_away(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> Rejected | None:
    """What any filter has against the host, but for the exact plan, which is made apart."""
    for each in filters:
        name = type(each).__name__
        reason = each.reject(host, spec)
        if reason is not None:
            refusal = refusal_of(host, spec) if each.measures_capacity and may_hold(host, spec) else None
            return str(code_of(name, refusal)), reason if refusal is None else refusal.message
        answer = {} if isinstance(each, CpuSetFilter) else each.limits(host, spec)
        if isinstance(answer, Refusal):
            return str(HostCode.OTHER), answer.message
    return None
