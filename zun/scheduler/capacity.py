# SPDX-License-Identifier: Apache-2.0
"""Count how many more containers like one request would find a host.

A container changes only its own host and the disk pool of the host, so each host is counted alone, beside what the
hosts before it take of the pool. A group with the policy affinity is counted on the host of its members, or on the host
that its first member would get. On each host, exact plans are made one after the other until one is refused. Equal
hosts with equal claims share these plans. A bisection then finds how many plans the filters let pass: a host that is
too full for a filter stays too full with more containers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zun.common.groups import Policy
from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.explain import MAX_TEXT, HostCode, code_of, may_hold, refusal_of, shortage
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import NoValidHost, informed, select
from zun.topology import HostTopology, Refusal, Usage
from zun.topology.filling import fill, holdings


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """The number of containers that fit on one host.

    ``code`` and ``reason`` tell why the host refuses one more. They are None if the counting stopped before.
    """

    hostname: str
    count: int
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of containers that fit, by host. ``complete`` is False if the counting stopped early."""

    hosts: tuple[HostCapacity, ...]
    complete: bool

    @property
    def total(self) -> int:
        return sum(host.count for host in self.hosts)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of the RPC message ``capacity``, for the API."""
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
    """Count the containers like ``spec`` that fit on ``hosts``. Stop at ``limit`` containers or once ``expired``."""
    spec = replace(_with_members(hosts, spec, filters, weights), pools_used=_pools_used(hosts))
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
        spec = after(spec, host, counted.count)
        if counted.code is None:
            return Capacity(tuple(found), complete=False)
    return Capacity(tuple(found), complete=True)


def _with_members(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
) -> RequestSpec:
    """Return ``spec`` with the members of its group.

    If the group has the policy affinity and no member yet, choose the host of its first member.
    """
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


def _pools_used(hosts: Sequence[HostState]) -> Counter[str]:
    """Return the promised GiB of each disk pool by the uuid of its aggregate."""
    used: Counter[str] = Counter()
    for host in hosts:
        if host.disk_pool is not None:
            used[host.disk_pool.uuid] += host.disk_used
    return used


def after(spec: RequestSpec, host: HostState, count: int) -> RequestSpec:
    """Return ``spec`` after ``count`` containers on ``host`` have taken what they want of its disk pool."""
    pool = host.disk_pool
    if pool is None or not spec.disk:
        return spec
    return replace(
        spec, pools_used={**spec.pools_used, pool.uuid: spec.pools_used[pool.uuid] + count * spec.disk}
    )


Rejected = tuple[str, str]
"""The code of a rejection and the reason as a sentence."""


def _stopped(hostname: str, count: int, rejected: Rejected) -> HostCapacity:
    code, reason = rejected
    return HostCapacity(hostname, count, code, reason[:MAX_TEXT])


def _filled(
    host: HostState, spec: RequestSpec, most: int, expired: Callable[[], bool]
) -> tuple[list[Usage], Refusal | None]:
    """Return the host's usage before and after each further plan, and the refusal of one more plan.

    The refusal is None if the counting stopped before.
    """
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
    """Count how many of the plans the filters let pass, at most ``most``. ``usages[n]`` is the usage after n plans."""

    def rejected_after(number: int) -> Rejected | None:
        group = None if spec.group is None else spec.group.uuid
        state = host.after(usages[number], count=number, disk=spec.disk, group=group, image=spec.image)
        return _turned_away(state, after(spec, host, number), filters)

    planned = len(usages) - 1
    # ``low``: the host takes one more container beside this many. It holds for 0, because the filters passed the host.
    low, high = 0, min(planned, most) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rejected_after(middle) is None:
            low = middle
        else:
            high = middle - 1
    count = low + 1 if high >= 0 else 0
    if count == most:
        return HostCapacity(host.hostname, count)
    rejected = rejected_after(count) if count < planned or refusal is None else None
    if rejected is not None:
        return _stopped(host.hostname, count, rejected)
    if refusal is None:  # the counting of plans stopped
        return HostCapacity(host.hostname, count)
    return _stopped(host.hostname, count, (str(refusal.code), shortage(refusal, host)))


def _turned_away(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> Rejected | None:
    """Return the first rejection of the host by a filter, or None. The exact plan is left out; ``_filled`` makes it."""
    for each in filters:
        name = type(each).__name__
        reason = each.reject(host, spec)
        if reason is not None:
            refusal = refusal_of(host, spec) if each.measures_capacity and may_hold(host, spec) else None
            return str(code_of(name, refusal)), reason if refusal is None else shortage(refusal, host)
        answer = {} if isinstance(each, CpuSetFilter) else each.limits(host, spec)
        if isinstance(answer, Refusal):
            return str(HostCode.OTHER), answer.message
    return None
