# SPDX-License-Identifier: Apache-2.0
"""Time the decisions of a peer, in the peer's own Python. The module imports neither this project nor the peer."""

import json
import time
from collections.abc import Callable
from typing import Any


def tell(cloud: dict[str, Any], prepare: Callable[[Any], Any], decide: Callable[[Any], object]) -> None:
    """Print in JSON how long ``decide`` takes for what ``prepare`` makes of a request, and how often a host is found.

    Microseconds of CPU time. It ends with the requests, or when the seconds of the cloud are over.
    """
    times, begun, found = [], time.monotonic(), 0
    for request in cloud["requests"]:
        wanted = prepare(request)
        start = time.process_time_ns()
        answer = decide(wanted)
        times.append((time.process_time_ns() - start) / 1000)
        found += bool(answer)
        if time.monotonic() - begun > cloud["seconds"]:
            break
    times.sort()
    print(
        json.dumps(
            {
                "decisions": len(times),
                "with_host": found,
                "per_second": 1e6 * len(times) / sum(times),
                "p50_us": times[len(times) // 2],
                "p99_us": times[int(len(times) * 0.99)],
            }
        )
    )
