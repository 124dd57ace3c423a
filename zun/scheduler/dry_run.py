# SPDX-License-Identifier: Apache-2.0
"""Simulate creates: choose hosts as a create does, and book the choices on copies of the hosts."""

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
    """The choices for each container: its host first, then the alternates.

    ``refusal`` explains why the first container without a host has none, or is None if every container has a host.
    """

    placed: tuple[tuple[Choice, ...], ...]
    refusal: NoValidHost | None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of the RPC message ``dry_run``, with host names and exact plans whoever asks."""
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
    """Simulate ``count`` creates of ``spec``, one after the other. Each finds ``choices`` hosts and takes the first."""
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
