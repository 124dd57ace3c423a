# SPDX-License-Identifier: Apache-2.0
"""Creates that are not carried out: the same choice from the same hosts, booked on copies of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zun.scheduler import weighers
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import Choice, NoValidHost, select
from zun.topology import Plan


@dataclass(frozen=True, slots=True)
class DryRun:
    """Where each container would go: its host first, then the alternates. ``refusal`` is that of the first without."""

    placed: tuple[tuple[Choice, ...], ...]
    refusal: NoValidHost | None

    def to_dict(self) -> dict[str, Any]:
        """What travels to the API: host names and exact plans, whoever asked."""
        return {
            "placed": [
                {
                    "host": choices[0].hostname,
                    "cpuset": dict(choices[0].limits["cpuset"]),
                    "alternates": [choice.hostname for choice in choices[1:]],
                }
                for choices in self.placed
            ],
            "refusal": None if self.refusal is None else dict(self.refusal.explanation.record),
        }


def dry_run(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[HostFilter],
    weights: Sequence[weighers.Weighted],
    *,
    count: int,
    choices: int,
) -> DryRun:
    """``count`` creates of ``spec``, one after the other; each looks for ``choices`` hosts and takes the first."""
    states: Mapping[str, HostState] = {host.hostname: host for host in hosts}
    placed: list[tuple[Choice, ...]] = []
    for number in range(count):
        answer = select(list(states.values()), spec, filters, weights, choices)
        if isinstance(answer, NoValidHost):
            return DryRun(tuple(placed), answer)
        best = answer[0]
        plan = Plan.from_dict(best.limits["cpuset"])
        states = {**states, best.hostname: taken(states[best.hostname], f"{spec.uuid}-{number}", plan, spec.disk)}
        placed.append(tuple(answer))
    return DryRun(tuple(placed), None)


def taken(host: HostState, owner: str, plan: Plan, disk: int) -> HostState:
    """``host`` once ``owner`` has taken ``plan`` and ``disk`` GiB there."""
    return replace(host, usage=host.usage.with_claim(owner, plan), disk_used=host.disk_used + disk)
