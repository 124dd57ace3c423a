# SPDX-License-Identifier: Apache-2.0
"""The decision: the hosts that can hold one request, best first, with an exact plan on each.

There are two stages. First every host is tested by the filters, and the rest is weighed: that is cheap. Then an exact
plan is made on the best hosts, one after the other, until enough hosts have a plan. Every host that drops out leaves a
reason.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from zun.db.permits import Permits
from zun.objects.placement import ATTEMPT_KEY, PERMIT_KEY
from zun.scheduler import weighers
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.explain import Explanation, Rejection, explain
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import Answer, Held, HostState, claim_of
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Plan, Refusal
from zun.topology.ranges import MALFORMED

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """A host, and the limits of the claim there. ``limits['cpuset']`` is the plan, with one record per cell."""

    hostname: str
    limits: Mapping[str, Any]
    claim: Plan | None = field(default=None, compare=False, repr=False)
    """The plan of ``limits['cpuset']`` as a claim, or None if nobody has made it yet."""

    def permitted(
        self, permits: Permits, uuid: str, tried: Mapping[str, str], alternates: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the limits with the scheduler's permits: for the claim of container ``uuid``, and for its refusal."""
        return {
            **self.limits,
            PERMIT_KEY: permits.permit(self.hostname, uuid),
            ATTEMPT_KEY: permits.attempt(self.hostname, uuid, [tried, alternates]),
        }

    def held(self, spec: RequestSpec) -> Held:
        """Return the resources that the container will hold on the host, for the booking."""
        request, group = spec.placement, None if spec.group is None else spec.group.uuid
        claim = claim_of(Plan.from_dict(self.limits["cpuset"])) if self.claim is None else self.claim
        return Held(claim, request.cpus, request.memory_mib, spec.disk, group, spec.image)


@dataclass(frozen=True)
class NoValidHost:
    """The answer if no host can hold the request, with one rejection per host."""

    rejections: tuple[Rejection, ...]
    _explain: Callable[[], Explanation] = field(repr=False, compare=False)

    @cached_property
    def explanation(self) -> Explanation:
        """The reasons for users and programs. They are costly, so they are computed at the first look."""
        return self._explain()


def first(_count: int) -> int:
    """Return 0: always the best host."""
    return 0


def select(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    count: int,
    *,
    subset: int = 1,
    draw: Callable[[int], int] = first,
    own: slice | None = None,
) -> list[Choice] | NoValidHost:
    """Return up to ``count`` hosts that can hold ``spec``, best first, or why there is none.

    Each host is drawn from the best ``subset`` hosts that are left: ``draw(n)`` returns a position from 0 to n - 1. All
    rows of ``own`` are tried before any other row.
    """
    table = hosts if isinstance(hosts, Columns) else Columns(hosts)
    spec = informed(spec, table)
    admitted, verdicts = admitted_by(table, spec, filters)
    limiting = [each for each in filters if type(each).limits is not HostFilter.limits]
    choices: list[Choice] = []
    refused: dict[str, Rejection] = {}
    rows = chain.from_iterable(
        weighers.best_first(table, spec, weights, part) for part in _parts(table, admitted, own)
    )
    for row in rows if subset == 1 else _drawn(rows, subset, draw):
        host = table[row]
        try:
            answer = _limits(host, spec, limiting)
        except MALFORMED:  # one host must not refuse everybody
            LOG.exception("Host %s is left out for container %s: it cannot be planned there", host.hostname, spec.uuid)
            answer = Rejection(host.hostname, "plan", "the container cannot be planned there: see the scheduler's log")
        if isinstance(answer, Rejection):
            refused[host.hostname] = answer
            continue
        planned = host.answer(spec.placement) if "cpuset" in answer and not choices else None
        choices.append(Choice(host.hostname, answer, planned.claim if isinstance(planned, Answer) else None))
        if len(choices) == count:
            break
    if choices:
        return choices
    # The explanation comes later, when the table may have changed.
    states = tuple(hosts)
    rejections = tuple(
        refused.get(host.hostname) or _rejection(host, spec, filters, verdicts, table.row(host.hostname))
        for host in states
    )
    return NoValidHost(rejections, partial(explain, states, spec, filters, rejections, partial(_fits, filters)))


def informed(spec: RequestSpec, table: Columns) -> RequestSpec:
    """Return ``spec`` with the members of its group, and with ``pools_used`` of the table."""
    group = spec.group
    if group is not None:
        group = replace(group, members=dict(table.group(group.uuid)))
    return replace(spec, group=group, pools_used=table.pools_used)


def admitted_by(
    table: Columns, spec: RequestSpec, filters: Sequence[HostFilter]
) -> tuple[Bools, list[tuple[HostFilter, Bools]]]:
    """Return the hosts that pass every filter, and for each filter that dropped any host the hosts that it admits.

    Filters without a fast form come last and see only the hosts that passed the others.
    """
    admitted, verdicts, slow = table.everything, [], []
    for each in filters:
        if type(each).admit is HostFilter.admit:
            slow.append(each)
            continue
        passing = each.admit(table, spec)
        if passing is table.everything:
            continue
        verdicts.append((each, passing))
        admitted = passing if admitted is table.everything else admitted & passing
    for each in slow:
        passing = np.ones(len(table), np.bool_)
        for row in np.flatnonzero(admitted):
            passing[row] = each.reject(table[int(row)], spec) is None
        verdicts.append((each, passing))
        admitted = admitted & passing
    return admitted, verdicts


def _parts(table: Columns, admitted: Bools, own: slice | None) -> Iterator[Bools]:
    """Yield the admitted rows in the order in which they are tried: first the rows of ``own``, then the others."""
    if own is None:
        yield admitted
        return
    mine = np.zeros(len(table), np.bool_)
    mine[own] = True
    yield admitted & mine
    yield admitted & ~mine


def _drawn(rows: Iterator[int], subset: int, draw: Callable[[int], int]) -> Iterator[int]:
    """Yield all ``rows``, each drawn from the first ``subset`` rows that are left."""
    window: list[int] = []
    for row in rows:
        window.append(row)
        if len(window) == subset:
            yield window.pop(draw(subset))
    while window:
        yield window.pop(draw(len(window)))


def _rejection(
    host: HostState,
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    verdicts: Sequence[tuple[HostFilter, Bools]],
    row: int | None,
) -> Rejection:
    """Return the reason of the first filter that dropped the host, in the order of the filters."""
    against = [each for each, passing in verdicts if not passing[row]]
    for each in filters:
        if each in against:
            reason = each.reject(host, spec)
            # A service may have come up since ``admit``. The host stays dropped for this request.
            return Rejection(host.hostname, type(each).__name__, reason or "it was not ready")
    raise AssertionError(f"no filter dropped host {host.hostname}, but it was not tried")


def _limits(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> dict[str, Any] | Rejection:
    limits: dict[str, Any] = {}
    for each in filters:
        answer = each.limits(host, spec)
        if isinstance(answer, Refusal):
            return Rejection(host.hostname, type(each).__name__, answer.message)
        limits.update(answer)
    return limits


def _fits(filters: Sequence[HostFilter], host: HostState, spec: RequestSpec) -> bool:
    if any(each.reject(host, spec) is not None for each in filters):
        return False
    return not isinstance(_limits(host, spec, filters), Rejection)
