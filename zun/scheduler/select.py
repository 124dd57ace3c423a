# SPDX-License-Identifier: Apache-2.0
"""The decision: which hosts can hold one request, best first, and exactly what it would get there.

Two stages. Every host passes the filters' cheap tests and is weighed; then the best ones are looked at exactly, one
after the other, until enough of them can really hold it. Every host that drops out leaves a reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from zun.scheduler import weighers
from zun.scheduler.columns import Bools, Columns
from zun.scheduler.explain import Explanation, Rejection, explain
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import Answer, Held, HostState, interned
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Plan, Refusal


@dataclass(frozen=True, slots=True)
class Choice:
    """A host and what the claim there must keep to. ``limits['cpuset']`` is the plan, one record a cell."""

    hostname: str
    limits: Mapping[str, Any]
    claim: Plan | None = field(default=None, compare=False, repr=False)
    """What ``limits['cpuset']`` says, as it is held, where it is at hand."""

    def held(self, spec: RequestSpec) -> Held:
        """What the container will hold there, for the booking."""
        request, group = spec.placement, None if spec.group is None else spec.group.uuid
        claim = interned(Plan.from_dict(self.limits["cpuset"])) if self.claim is None else self.claim
        return Held(claim, request.cpus, request.memory_mib, spec.disk, group, spec.image)


@dataclass(frozen=True, slots=True)
class NoValidHost:
    """Nothing can hold the request. Why is costly to say, so it is worked out at the first look."""

    rejections: tuple[Rejection, ...]
    _explain: Callable[[], Explanation] = field(repr=False, compare=False)
    _known: list[Explanation] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def explanation(self) -> Explanation:
        if not self._known:
            self._known.append(self._explain())
        return self._known[0]


def first(_count: int) -> int:
    """Always the best of the best."""
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
    """Up to ``count`` hosts that can hold ``spec``, best first, or why there is none.

    Each is taken among the best ``subset`` of those that are left: ``draw(n)`` says which, from 0 to n - 1. Of the rows
    of ``own`` every one is tried before any other.
    """
    table = hosts if isinstance(hosts, Columns) else Columns(hosts)
    spec = informed(spec, table)
    admitted, verdicts = _admitted(table, spec, filters)
    limiting = [each for each in filters if type(each).limits is not HostFilter.limits]
    choices: list[Choice] = []
    refused: dict[str, Rejection] = {}
    rows = chain.from_iterable(
        weighers.best_first(table, spec, weights, part) for part in _parts(table, admitted, own)
    )
    for row in rows if subset == 1 else _drawn(rows, subset, draw):
        host = table[row]
        answer = _limits(host, spec, limiting)
        if isinstance(answer, Rejection):
            refused[host.hostname] = answer
            continue
        planned = host.answer(spec.placement) if "cpuset" in answer and not choices else None
        choices.append(Choice(host.hostname, answer, planned.claim if isinstance(planned, Answer) else None))
        if len(choices) == count:
            break
    if choices:
        return choices
    # The hosts may be lent for this call only, and the explanation comes later.
    states = tuple(hosts)
    rejections = tuple(
        refused.get(host.hostname) or _rejection(host, spec, filters, verdicts, table.row(host.hostname))
        for host in states
    )
    return NoValidHost(rejections, partial(explain, states, spec, filters, rejections, partial(_fits, filters)))


def informed(spec: RequestSpec, table: Columns) -> RequestSpec:
    """``spec`` with what the hosts say of its group, and what they hold."""
    if spec.group is None:
        return replace(spec, demand=table.demand) if spec.dedicated else spec
    group = replace(spec.group, members=dict(table.group(spec.group.uuid)))
    return replace(spec, group=group, demand=table.demand)


def _admitted(
    table: Columns, spec: RequestSpec, filters: Sequence[HostFilter]
) -> tuple[Bools, list[tuple[HostFilter, Bools]]]:
    """The hosts that pass every filter, and what each filter lets pass that has something to say.

    Filters without a fast form come last, and see the hosts that passed the others.
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
    """The rows that are admitted, in the parts that are tried one after the other."""
    if own is None:
        yield admitted
        return
    mine = np.zeros(len(table), np.bool_)
    mine[own] = True
    yield admitted & mine
    yield admitted & ~mine


def _drawn(rows: Iterator[int], subset: int, draw: Callable[[int], int]) -> Iterator[int]:
    """``rows``, each drawn among the first ``subset`` of those that are left."""
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
    """The words of the first filter that dropped the host, in the order of the filters."""
    against = {id(each) for each, passing in verdicts if not passing[row]}
    for each in filters:
        if id(each) in against:
            reason = each.reject(host, spec)
            # Time passes between the two looks: a service may have come up. Its drop stands for this request.
            return Rejection(host.hostname, type(each).__name__, reason or "it was not ready")
    raise AssertionError("a host that nobody dropped was not looked at")


def _limits(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> dict[str, Any] | Rejection:
    limits: dict[str, Any] = {"generation": host.generation}
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
