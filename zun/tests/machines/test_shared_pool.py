# SPDX-License-Identifier: Apache-2.0
"""Shared containers leave CPUs before a dedicated container starts on them, watched from outside the whole time."""

import contextlib
import itertools
import os
import pathlib
import random
import re
import statistics
import threading
import time

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE
from zun.topology import CpuSet


class Watch:
    """A thread that compares, many times a second, what shared containers may run on with what dedicated ones run on.

    A container counts as dedicated as soon as its program runs, and must do so before and after the shared ones were
    looked at. What is in its group before is the runtime (under several names), which has not set the CPUs yet. Groups
    are found in the kernel: nobody tells the watch which CPUs were asked for.
    """

    def __init__(self, shared):
        self._shared = shared
        self._some = [str(each.pid) for each in shared]
        self._folder = shared[0].group.parent  # where Docker keeps its groups
        self._ours = {each.group.name for each in shared}
        self._pattern = re.compile(r"(docker-)?[0-9a-f]{64}(\.scope)?")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.moments, self.violations, self.seen, self.with_dedicated = [], [], set(), 0
        self.pools = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.wait(0.001):
            self.moments.append(time.monotonic())
            before = self._dedicated()
            # Every thread of every process now and then, one of each container always: the emulation has its limits.
            tasks = self._every_task() if len(self.moments) % 10 == 1 else self._some
            allowed = {task: kernel.allowed(task)[0] for task in tasks}
            after = self._dedicated()
            held = {group: cpus for group, cpus in before.items() if after.get(group) == cpus}
            self.with_dedicated += bool(held)
            for group, cpus in held.items():
                self.seen.add((group, str(cpus)))
                self.violations += [(str(cpus), task, str(may)) for task, may in allowed.items() if may & cpus]
            pool = str(CpuSet(cpu for may in allowed.values() for cpu in may))
            if not self.pools or self.pools[-1] != pool:
                self.pools.append(pool)

    def _every_task(self):
        return [task for each in self._shared for pid in kernel.members(each.group) for task in kernel.threads(pid)]

    def _dedicated(self):
        """Name of the group -> CPUs of every container that is not one of ours and whose image runs."""
        found = {}
        with os.scandir(self._folder) as entries:
            names = [each.name for each in entries if self._pattern.fullmatch(each.name)]
        for name in names:
            if name in self._ours:
                continue
            with contextlib.suppress(OSError):
                group = self._folder / name
                pids = kernel.members(group)
                if any(_command(pid) == probes.IDLE[0] for pid in pids):
                    found[name] = kernel.effective(group)[0]
        return found


def _command(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def _settled(homes, taken):
    """Nobody is on ``taken`` now, and everybody is on all else of his node soon: the pool widens after an answer."""
    for each in homes:
        assert kernel.effective(each.group)[0].isdisjoint(taken)
    wait_for(lambda: all(kernel.effective(each.group)[0] == home - taken for each, home in homes.items()), PATIENCE)


def test_no_shared_container_is_ever_on_a_dedicated_cpu(containers, machine, record_property):
    chance = random.Random(20)
    # Each takes more than half the memory of a node, so that there is one on every node.
    half = max(cell.memory_mib for cell in machine.cells) // 2 + 1
    shared = [containers.shared(cpu=0.5, memory=half, command=probes.several(3)) for _ in machine.cells]
    homes = {each: machine.cell(next(iter(each.mems))).cpus for each in shared}
    assert set(homes.values()) == {cell.cpus for cell in machine.cells}
    alive = []
    with Watch(shared) as watch:
        for _ in range(10):
            while len(alive) > 2 or (alive and chance.random() < 0.3):
                containers.delete(alive.pop(chance.randrange(len(alive))).uuid)
            alive.append(containers.dedicated(chance.randint(1, 3), memory=32))
            taken = CpuSet(cpu for each in alive for cpu in each.cpus)
            assert len(taken) == sum(len(each.cpus) for each in alive)
            _settled(homes, taken)
        while alive:
            containers.delete(alive.pop().uuid)
        _settled(homes, CpuSet(""))
    steps = [later - earlier for earlier, later in itertools.pairwise(watch.moments)]
    record_property("samples; with a dedicated container there", f"{len(watch.moments)}; {watch.with_dedicated}")
    record_property(
        "ms between samples: median, longest", f"{statistics.median(steps) * 1e3:.1f}, {max(steps) * 1e3:.0f}"
    )
    record_property("dedicated sets seen", " ".join(cpus for _, cpus in sorted(watch.seen, key=lambda each: each[1])))
    record_property("pools seen", " | ".join(watch.pools))
    record_property("overlaps", f"{len(watch.violations)} {watch.violations[:10] or ''}".strip())
    assert watch.violations == []
    assert len(watch.seen) == 10
