# SPDX-License-Identifier: Apache-2.0
"""Draw the growth of the figures as a picture for the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(target: Path, found: dict[str, Any]) -> None:
    """Write the picture. Raise ImportError without matplotlib: pip install -r benchmarks/requirements.txt."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, flight = found["by_hosts"], found.get("by_in_flight", [])
    figure, axes = pyplot.subplots(1, 2 if flight else 1, figsize=(11 if flight else 6, 4), squeeze=False)
    left = axes[0][0]
    hosts = [row["hosts"] for row in rows]
    left.plot(hosts, [row["p50_us"] for row in rows], "o-", label="median")
    left.plot(hosts, [row["p99_us"] for row in rows], "s--", label="99th percentile")
    left.set(xscale="log", xlabel="hosts", ylabel="CPU time of one decision (us)", title="Decision", ylim=(0, None))
    left.legend()
    if flight:
        right, delays = axes[0][1], axes[0][1].twinx()
        counts = [row["in_flight"] for row in flight]
        right.plot(counts, [row["per_second"] for row in flight], "o-", label="claims a second")
        delays.plot(counts, [row["p99_ms"] for row in flight], "s--", color="tab:red", label="p99 delay (ms)")
        right.set(xscale="log", xlabel="requests in flight", ylabel="claims a second", title="Service, 1000 hosts")
        delays.set(ylabel="99th percentile of the delay (ms)", ylim=(0, None))
        right.set_ylim(0, None)
    figure.tight_layout()
    figure.savefig(target, dpi=110)
