# SPDX-License-Identifier: Apache-2.0
"""A cloud of very many hosts: how long a scheduler takes to start, what its table takes, and what a decision costs."""

from __future__ import annotations

import gc
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

from oslo_utils import timeutils

from benchmarks.scheduling import clouds, core
from zun.cmd import program
from zun.db import models, session
from zun.scheduler.host_table import HostTable

CELLS, CPUS, MEMORY_MIB = 2, 64, 262_144
"""The machine: about 20 containers hold the share ``clouds.PINNED`` of its CPUs."""
KINDS = 2000
"""Hosts that differ in what they hold: far more than ``clouds.KINDS``, so that little is equal by chance."""

SCHEDULERS = (1, 4, 16)
"""Numbers of schedulers that divide the hosts."""


def fill(url: str, hosts: int) -> int:
    """Write the cloud into the empty database ``url``. Return the number of containers."""
    session.configure(url)
    names = [f"host-{number:06}" for number in range(hosts)]
    return clouds.fill(names, clouds.machine(CELLS, CPUS, MEMORY_MIB), different=min(KINDS, hosts))


def measure(url: str, decisions: int) -> dict[str, Any]:
    """Return the figures of a scheduler on the database ``url``, in a process of its own, which starts small."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_scheduler, args=(url, decisions, theirs))
    process.start()
    theirs.close()  # so that the end of the process is the end of what it sends
    try:
        found: dict[str, Any] = ours.recv()
    finally:
        process.join()
    return found


def _scheduler(url: str, decisions: int, answer: Connection) -> None:
    session.configure(url)
    program.collect_garbage_seldom()  # as the scheduler does
    table = HostTable(booking_seconds=1e9, fresh_seconds=0)
    before, wall, cpu = core.rss_mib(), time.perf_counter(), time.process_time()
    table.refresh()
    figures: dict[str, Any] = {"start_seconds": time.perf_counter() - wall, "start_cpu": time.process_time() - cpu}
    gc.collect()
    figures["rss_growth_mib"] = core.rss_mib() - before
    with session.writer() as connection:  # every host gives a sign of life
        connection.execute(models.services.update().values(last_seen_up=timeutils.utcnow()))
    cpu = time.process_time()
    table.refresh()
    figures["compare_cpu"] = time.process_time() - cpu
    by_schedulers = {}
    for count in SCHEDULERS:
        own = None if count == 1 else slice(0, None, count)
        by_schedulers[count] = core.decisions(table, decisions, own=own)
    answer.send({**figures, "decisions": by_schedulers})
