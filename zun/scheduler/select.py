# SPDX-License-Identifier: Apache-2.0
"""The decision: which hosts can hold one request, best first, and exactly what it would get there.

Two stages. Every host passes the filters' cheap tests and is weighed; then the best ones are looked at exactly, one
after the other, until enough of them can really hold it. Every host that drops out leaves a reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from zun.scheduler import weighers
from zun.scheduler.explain import Explanation, Rejection, explain
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Refusal


@dataclass(frozen=True, slots=True)
class Choice:
    """A host and what the claim there must keep to. ``limits['cpuset']`` is the plan, one record a cell."""

    hostname: str
    limits: Mapping[str, Any]


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

    @property
    def message(self) -> str:
        """For the request's user: counts by filter and nearest miss, no host names."""
        return self.explanation.message


def select(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    count: int,
) -> list[Choice] | NoValidHost:
    """Up to ``count`` hosts that can hold ``spec``, best first, or why there is none."""
    fit: list[HostState] = []
    rejections: list[Rejection] = []
    for host in hosts:
        rejection = _reject(host, spec, filters)
        if rejection is None:
            fit.append(host)
        else:
            rejections.append(rejection)
    choices: list[Choice] = []
    for host in weighers.order(fit, spec, weights):
        answer = _limits(host, spec, filters)
        if isinstance(answer, Rejection):
            rejections.append(answer)
            continue
        choices.append(Choice(host.hostname, answer))
        if len(choices) == count:
            break
    if choices:
        return choices
    why = partial(explain, tuple(hosts), spec, filters, rejections, partial(_fits, filters))
    return NoValidHost(tuple(rejections), why)


def _reject(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> Rejection | None:
    for each in filters:
        reason = each.reject(host, spec)
        if reason is not None:
            return Rejection(host.hostname, type(each).__name__, reason)
    return None


def _limits(host: HostState, spec: RequestSpec, filters: Sequence[HostFilter]) -> dict[str, Any] | Rejection:
    limits: dict[str, Any] = {"generation": host.generation}
    for each in filters:
        answer = each.limits(host, spec)
        if isinstance(answer, Refusal):
            return Rejection(host.hostname, type(each).__name__, answer.message)
        limits.update(answer)
    return limits


def _fits(filters: Sequence[HostFilter], host: HostState, spec: RequestSpec) -> bool:
    return _reject(host, spec, filters) is None and not isinstance(_limits(host, spec, filters), Rejection)
