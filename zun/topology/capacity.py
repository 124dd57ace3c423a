# SPDX-License-Identifier: Apache-2.0
"""How many more containers of one shape a host takes: the plans they would get, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator

from zun.topology.allocator import plan
from zun.topology.cells import HostTopology
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage


def fill(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Iterator[Usage | Refusal]:
    """Plan ``request`` again and again, each time beside what was planned before, until it is refused.

    The items are what is held after each plan; the refusal is the last. A request for nothing at all is never refused:
    bound the iteration.
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
        yield usage


def holdings(usage: Usage) -> str:
    """A text that is equal for two usages that hold the same, whoever the owners are: they get the same plans."""
    records = []
    for _, held in usage:
        record = {**held.to_dict(), "generation": None}
        record["cells"] = [{**share, "cpuset_cpu_pinned": None} for share in record["cells"]]
        records.append(json.dumps(record, sort_keys=True))
    return "\n".join(sorted(records))
