# SPDX-License-Identifier: Apache-2.0
"""The decision alone, on one core: filters, weighers, exact plans of the host and its alternates, booking."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections import deque
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


def decisions(table: HostTable, count: int, seed: int = 1, own: slice | None = None) -> dict[str, float]:
    """Return the CPU time of ``count`` decisions in microseconds, and the decisions a second of one core.

    ``own`` are the rows that the scheduler searches first, as one of several schedulers does.
    """
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    conf.set_default("service_down_time", 86400)  # nobody gives a sign of life here
    chosen_filters = filters.load(conf.scheduler.enabled_filters, conf)
    weights = weighers.load(conf.scheduler.weighers, conf)
    wanted = 1 + conf.scheduler.alternates
    times, held, failed = [], deque[str](), 0
    for number, spec in zip(range(count + 200), clouds.specs(seed), strict=False):

        def choose(hosts: Columns, spec: Any = spec) -> tuple[str, Held] | None:
            answer = select.select(hosts, spec, chosen_filters, weights, wanted, own=own)
            if isinstance(answer, select.NoValidHost):
                return None
            return answer[0].hostname, answer[0].held(spec)

        start = time.process_time_ns()
        table.choose_and_book(spec.uuid, choose)
        spent = time.process_time_ns() - start
        if number >= 200:  # the first ones warm up caches
            times.append(spent / 1000)
            failed += not table.is_booked(spec.uuid)
        held.append(spec.uuid)
        if len(held) > DECISIONS_HELD:
            table.unbook(held.popleft())
    times.sort()
    return {
        "mean_us": sum(times) / len(times),
        "p50_us": times[len(times) // 2],
        "p99_us": times[int(len(times) * 0.99)],
        "per_second": 1e6 * len(times) / sum(times),
        "without_host": failed,
    }
