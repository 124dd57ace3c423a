# SPDX-License-Identifier: Apache-2.0
"""How many more containers of one shape a host takes: the plans they would get, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from zun.topology.allocator import plan
from zun.topology.cells import HostTopology
from zun.topology.placement import Plan
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage


@dataclass(frozen=True, slots=True)
class Filled:
    """A host after one more container of the shape."""

    plan: Plan
    usage: Usage


def fill(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Iterator[Filled | Refusal]:
    """Plan ``request`` again and again, each time beside what was planned before, until it is refused.

    The refusal is the last item. A request for nothing at all is never refused: bound the iteration.
    """
    number = 0
    while True:
        answer = plan(topology, usage, request)
        if isinstance(answer, Refusal):
            yield answer
            return
        while usage.claim(owner := f"one-more-{number}") is not None:
            number += 1
        usage = usage.with_claim(owner, answer)
        yield Filled(answer, usage)


def holdings(usage: Usage) -> str:
    """A text that is equal for two usages that hold the same, whoever the owners are: they get the same plans."""
    records = []
    for _, held in usage:
        record = {**held.to_dict(), "generation": None}
        record["cells"] = [{**share, "cpuset_cpu_pinned": None} for share in record["cells"]]
        records.append(json.dumps(record, sort_keys=True))
    return "\n".join(sorted(records))
