# SPDX-License-Identifier: Apache-2.0
"""Speed and memory of the scheduler.

    python benchmarks/scheduler.py [--json FILE] [--part NAME ...] [--hosts N ...]

Parts: ``core`` is the decision alone on one core (CPU time); ``memory`` is what the table of hosts takes.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # before anything imports oslo.messaging

from benchmarks.scheduling import core

GOALS = {1000: (5000, 500), 10000: (2000, 1000)}


def run_core(hosts: list[int], folder: str) -> list[dict[str, Any]]:
    print(f"{'hosts':>6} {'decisions/s':>12} {'p50 us':>8} {'p99 us':>8}   goal")
    rows = []
    for count in hosts:
        table, _ = core.loaded(folder, count, 2, 32, 0.3)
        row = {"hosts": count, **core.decisions(table, 3000)}
        rows.append(row)
        goal = GOALS.get(count)
        told = "" if goal is None else f"{goal[0]}/s, p99 {goal[1]} us"
        print(f"{count:>6} {row['per_second']:>12.0f} {row['p50_us']:>8.0f} {row['p99_us']:>8.0f}   {told}")
    return rows


def run_memory(folder: str) -> list[dict[str, Any]]:
    print(f"\n{'hosts':>6} {'machine':>12} {'pinned':>7} {'containers':>11} {'read in s':>10} {'MiB more':>9}   goal 150")
    rows = []
    for pinned in (0.0, 0.3):
        _, found = core.loaded(folder, 10000, 8, 64, pinned)
        rows.append({"hosts": 10000, "pinned": pinned, **found})
        print(
            f"{10000:>6} {'8 x 64 CPUs':>12} {pinned:>7.0%} {found['containers']:>11} "
            f"{found['load_seconds']:>10.1f} {found['rss_growth_mib']:>9.0f}"
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", action="append", choices=("core", "memory"))
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10000])
    options = parser.parse_args()
    logging.disable(logging.INFO)
    parts = options.part or ["core", "memory"]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "core" in parts:
            results["core"] = run_core(options.hosts, folder)
        if "memory" in parts:
            results["memory"] = run_memory(folder)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
