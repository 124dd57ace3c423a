# SPDX-License-Identifier: Apache-2.0
"""The decision alone, on one core: filters, weighers, exact plans of the host and its alternates, booking."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from benchmarks.scheduling import clouds
from zun import conf as zun_conf
from zun.cmd import program
from zun.db import session
from zun.scheduler import filters, select, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Held
from zun.scheduler.host_table import HostTable

DECISIONS_HELD = 256
"""Choices that stay booked; older ones are given back, as when their containers end."""


def rss_mib() -> float:
    """Return the resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def loaded(folder: str, hosts: int, cells: int, cpus: int, pinned: float) -> tuple[HostTable, dict[str, Any]]:
    """Return a table that has read a cloud of ``hosts``, and the time and memory that the read took."""
    session.configure(f"sqlite:///{folder}/{hosts}-{cells}-{pinned}-{os.getpid()}.sqlite")
    names = [f"host-{number:05}" for number in range(hosts)]
    containers = clouds.fill(names, clouds.machine(cells, cpus), pinned)
    program.collect_garbage_seldom()  # as the scheduler does
    table = HostTable(booking_seconds=1e9, fresh_seconds=1e9)
    gc.collect()
    before, start = rss_mib(), time.perf_counter()
    table.refresh()
    seconds = time.perf_counter() - start
    gc.collect()
    return table, {"containers": containers, "load_seconds": seconds, "rss_growth_mib": rss_mib() - before}


SPREADING = (
    "FreeCPUWeigher=1.0", "FreeRAMWeigher=1.0", "SoftAffinityWeigher=1.0", "SoftAntiAffinityWeigher=1.0",
    "DeviceWeigher=3.0", "FailureWeigher=10.0",
)  # fmt: skip
PACKING = ("StrandedWeigher=1000000.0", *SPREADING[:-1], "FailureWeigher=10000000.0")


def decisions(table: HostTable, count: int, seed: int = 1, own: slice | None = None) -> dict[str, float]:
    """Return the CPU time of ``count`` decisions in microseconds, and the decisions a second of one core.

    ``own`` are the rows that the scheduler searches first, as one of several schedulers does.
    """
    return _measured([_Run(table, None, seed, own)], count)[0]


def compared(tables: Sequence[HostTable], count: int, seed: int = 1) -> dict[str, Any]:
    """Return the same with the weighers that spread and with those that pack, and the ratio of decisions a second.

    Each has one of two equal ``tables``, and the decisions are made in turns.
    """
    spread, pack = _measured([_Run(tables[0], SPREADING, seed), _Run(tables[1], PACKING, seed)], count)
    return {"spreading": spread, "packing": pack, "ratio": pack["per_second"] / spread["per_second"]}


class _Run:
    """Decisions on one table; ``settings`` are of the weighers, None for the default."""

    def __init__(self, table: HostTable, settings: Sequence[str] | None, seed: int, own: slice | None = None) -> None:
        conf = zun_conf.register_opts(cfg.ConfigOpts())
        conf([], project="zun", default_config_files=[], default_config_dirs=[])
        conf.set_default("service_down_time", 86400)  # nobody gives a sign of life here
        self._filters = filters.load(conf.scheduler.enabled_filters, conf)
        self._weights = weighers.load(conf.scheduler.weighers if settings is None else settings, conf)
        self._wanted = 1 + conf.scheduler.alternates
        self._own = own
        self._table, self._specs, self._held = table, clouds.specs(seed), deque[str]()

    def decide(self) -> tuple[float, bool]:
        """Make one decision. Return its CPU time in microseconds, and whether there is a host."""
        spec = next(self._specs)

        def choose(hosts: Columns) -> tuple[str, Held] | None:
            answer = select.select(hosts, spec, self._filters, self._weights, self._wanted, own=self._own)
            if isinstance(answer, select.NoValidHost):
                return None
            return answer[0].hostname, answer[0].held(spec)

        start = time.process_time_ns()
        self._table.choose_and_book(spec.uuid, choose)
        spent = time.process_time_ns() - start
        found = self._table.is_booked(spec.uuid)
        self._held.append(spec.uuid)
        if len(self._held) > DECISIONS_HELD:
            self._table.unbook(self._held.popleft())
        return spent / 1000, found


def _measured(runs: Sequence[_Run], count: int) -> list[dict[str, float]]:
    for _ in range(200):  # warm up caches
        for run in runs:
            run.decide()
    by_run = list(zip(*[[run.decide() for run in runs] for _ in range(count)], strict=True))
    return [_summary([spent for spent, _ in made], sum(not found for _, found in made)) for made in by_run]


def _summary(times: list[float], failed: int) -> dict[str, float]:
    times = sorted(times)
    return {
        "mean_us": sum(times) / len(times),
        "p50_us": times[len(times) // 2],
        "p99_us": times[int(len(times) * 0.99)],
        "per_second": 1e6 * len(times) / sum(times),
        "without_host": failed,
    }
