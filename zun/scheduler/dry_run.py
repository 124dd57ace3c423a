# SPDX-License-Identifier: Apache-2.0
"""Creates that are not carried out: the same choice from the same hosts, booked on copies of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import Choice, NoValidHost, select


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
    table = Columns(hosts)
    placed: list[tuple[Choice, ...]] = []
    for number in range(count):
        answer = select(table, spec, filters, weights, choices)
        if isinstance(answer, NoValidHost):
            return DryRun(tuple(placed), answer)
        best = answer[0]
        host = table.find(best.hostname)
        assert host is not None, "a host is chosen among those of the table"
        table.put(host.taken(f"{spec.uuid}-{number}", best.held(spec)))
        placed.append(tuple(answer))
    return DryRun(tuple(placed), None)
