# SPDX-License-Identifier: Apache-2.0
"""Fill a host with containers of one shape, to count how many more it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from zun.topology.allocator import plan
from zun.topology.host_topology import HostTopology
from zun.topology.refusal import Refusal
from zun.topology.request import PlacementRequest
from zun.topology.usage import Usage


def fill(topology: HostTopology, usage: Usage, request: PlacementRequest) -> Iterator[Usage | Refusal]:
    """Plan ``request`` again and again until it is refused, each time beside the plans before.

    Yield the usage after each plan, and the refusal last. A request for no CPU and no memory is never refused, so
    bound the iteration.
    """
    number = 0
    while True:
        answer = plan(topology, usage, request)
        if isinstance(answer, Refusal):
            yield answer
            return
        usage = usage.with_claim(free_owner(usage, number), answer)
        number += 1
        yield usage


def free_owner(usage: Usage, number: int) -> str:
    """Return a name that owns nothing in ``usage``, by ``number`` or the first free one above."""
    while usage.claim(owner := f"one-more-{number}") is not None:
        number += 1
    return owner


def holdings(usage: Usage) -> str:
    """Return a text that is equal for two usages with equal claims, whoever the owners are. Both get equal plans."""
    records = []
    for _, held in usage:
        record = {**held.to_dict(), "generation": None}
        record["cells"] = [{**share, "cpuset_cpu_pinned": None} for share in record["cells"]]
        records.append(json.dumps(record, sort_keys=True))
    return "\n".join(sorted(records))
