# SPDX-License-Identifier: Apache-2.0
"""Guarantees P1 and P10 on hosts that change: hardware comes and goes, and so does what operators say of it.

``ZUN_PROOF_SIZE`` and ``ZUN_PROOF_SEEDS`` as in ``test_simulation``; odd seeds have agents killed as well.
"""

import contextlib
import datetime
import os
from collections import Counter
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.host.inventory import inventory
from zun.compute.host.shared_pool import pool_of
from zun.db import containers as db
from zun.db import services
from zun.objects import Container
from zun.objects.placement import held_plan
from zun.tests.functional import simulation
from zun.tests.functional.cloud import configuration, machine, without
from zun.tests.functional.simulation import World
from zun.topology import CpuSet, Usage

SIZE = int(os.environ.get("ZUN_PROOF_SIZE", "1"))
SEEDS = [int(seed) for seed in os.environ.get("ZUN_PROOF_SEEDS", "1,2").split(",")]
STEPS = 150 * SIZE
OPTIONS = {
    "cpu_dedicated_set": "",
    "cpu_shared_set": "",
    "reserved_host_cpus": "",
    "reserved_host_memory_mb": 0,
    "cpu_allocation_ratio": 4.0,
}
CHANGES = (
    "nothing", "offline", "online", "node gone", "memory", "pages", "no siblings", "isolated",
    "reserved", "sets", "sets", "reserved memory", "ratio", "plain",
)  # fmt: skip


def wish(random):
    """A container somebody might ask for."""
    if random.random() < 0.35:
        return {"cpu": random.choice([0.1, 0.5, 1.0, 2.0]), "memory": random.choice([16, 64, 256])}
    cpu, memory = random.randint(1, 4), random.choice([32, 128, 512])
    placement = {
        "numa_affinity": random.choice([None, None, "prefer", "none"]),
        "numa_mempolicy": random.choice([None, None, "preferred"]),
        "cpu_thread_policy": random.choice([None, None, "isolate", "require"]),
        "cpu_isolation": random.choice([None, None, None, "core", "l3", "node", "isolated"]),
        "mem_page_size": random.choice([None, None, 2048, "any", "large"]),
    }
    if random.random() < 0.3:
        cpu, placement["numa_nodes"] = random.choice([2, 4, 6]), 2
        placement["numa_cpus"] = random.choice([None, [cpu - 1, 1]])
        placement["numa_mem"] = random.choice([None, [memory - 16, 16]])
    asked = {name: value for name, value in placement.items() if value is not None}
    return {"cpu_policy": "dedicated", "cpu": float(cpu), "memory": memory, "placement": asked}


def size(random):
    """Return a random change of a container."""
    return random.choice([
        {"cpu": float(random.randint(1, 4))},
        {"memory": random.choice([16, 96, 400])},
        {"cpu_policy": "dedicated", "cpu": float(random.randint(1, 3))},
        {"cpu_policy": "shared", "cpu": 0.5},
    ])  # fmt: skip


def each_cell(topology, **values):
    return replace(topology, cells=tuple(replace(cell, **values) for cell in topology.cells))


class ChangingAgent(simulation.Agent):
    """It knows the options of its own host."""

    def found(self):
        for name, value in self._world.options[self.name].items():
            self._world.conf.set_override(name, value, group="compute")
        return inventory(self._world.conf, self._world.machines[self.name], self.driver.facts())

    def start(self):
        self._world.short.pop(self.name, None)
        self.found()
        super().start()


class ChangingWorld(World):
    """``short`` is, by host, what was promised and is not there any more, and who held something then."""

    def __init__(self, conf, machines, seed, admin, **arguments):
        self.options = {name: dict(OPTIONS) for name in machines}
        self.whole, self.short, self.admin = dict(machines), {}, admin
        super().__init__(conf, machines, seed, **arguments)

    # what happens to hosts

    def change(self, name):
        """Another machine, or other options; they are found with the next look."""
        random, now, options = self.random, self.machines[name], self.options[name]
        cpus = list(self.whole[name].cpus)
        kind = random.choice(CHANGES)
        match kind:
            case "offline":
                now = without(now, CpuSet(random.sample(cpus, random.randint(1, 3))))
            case "online":
                now = self.whole[name]
            case "node gone" if len(now.cells) > 1:
                gone = random.choice(now.cells)
                now = replace(now, cells=tuple(cell for cell in now.cells if cell is not gone))
            case "memory":
                less = random.choice([1, 64, 1000])
                cells = (replace(cell, memory_mib=max(0, cell.memory_mib - less)) for cell in now.cells)
                now = replace(now, cells=tuple(cells))
            case "pages":
                now = each_cell(now, pages=random.choice([{}, {2048: 16}, {2048: 256}, {2048: 0, 1048576: 1}]))
            case "no siblings":
                now = without(now, CpuSet(cpu for cell in now.cells for core in cell.siblings for cpu in [*core][1:]))
            case "isolated":
                now = replace(now, isolated=CpuSet(random.sample(cpus, random.randint(0, 4))))
            case "reserved":
                options["reserved_host_cpus"] = str(CpuSet(random.sample(cpus, random.randint(0, 3))))
            case "sets":
                some = CpuSet(random.sample(cpus, random.randint(1, len(cpus) - 1)))
                dedicated, shared = random.choice([(some, CpuSet(cpus) - some), (some, ""), ("", some)])
                options |= {"cpu_dedicated_set": str(dedicated), "cpu_shared_set": str(shared)}
            case "reserved memory":
                options["reserved_host_memory_mb"] = random.choice([0, 100, 2000])
            case "ratio":
                options["cpu_allocation_ratio"] = random.choice([1.0, 4.0, 16.0])
            case "plain":
                options |= OPTIONS
        self.machines[name] = now
        return kind

    def restart(self, name):
        """The service stops, and starts on what the host is then."""
        quiet = not self._kills and name not in self.down and not any(to == name for to, _ in self.messages)
        quiet &= all(row["status"] in ("Running", "Error") for row in db.of_host(name) if row["cpuset"] is not None)
        before = self.agents[name].tracker.usage
        if self.change(name) != "nothing":
            quiet = False
        self.revive(name)
        assert not quiet or self.agents[name].tracker.usage == before, "a restart changed who holds what"

    def look(self, name):
        """The periodic look at a host that changes while its service works."""
        self.change(name)
        agent = self.agents[name]
        if name in self.down:
            return
        self.short.pop(name, None)
        with self.acting(agent), contextlib.suppress(exceptions.ZunError):
            found = agent.found()
            agent.tracker.update_inventory(self.admin, found.topology, found.columns)
            agent.parts.resizer.keep_up(self.admin)

    def compare(self, name):
        """The periodic comparison, as far as it is about what is held."""
        agent = self.agents[name]
        if name in self.down:
            return
        with self.acting(agent), contextlib.suppress(exceptions.ZunError):
            for uuid in agent.tracker.disagreeing(Container.list_by_host(self.admin, name)):
                agent.parts.resizer.settle(self.admin, uuid)
            agent.pool.settle()

    def set_clock(self, seconds):
        self._calendar.now += datetime.timedelta(seconds=seconds)
        self.heartbeats()

    def heartbeats(self):
        for name in self.machines:
            services.heartbeat(name, "zun-compute", "nova")

    # what must be true

    def _check_books(self, name, topology, usage):
        """Check that claims and free amounts add up to the inventory, and that no claim took a scarce amount."""
        if self._checked.get(name) is usage and name in self.short:
            return
        self._checked[name] = usage
        owners, mib, pages, demand = {}, Counter(), Counter(), Counter()
        for owner, plan in usage:
            uuid = owner.rstrip("+")
            for node, share in plan.cells.items():
                for cpu in share.cpus | share.withheld if plan.dedicated else ():
                    assert owners.setdefault(cpu, uuid) == uuid, f"CPU {cpu} has two owners"
                for kib, count in share.pages.items():
                    pages[node, kib] += count
                mib[node] += 0 if share.pages else share.memory_mib
                demand[node] += 0 if plan.dedicated else share.shared
        free, short = usage.free(topology), Counter()
        for cell in topology.cells:
            left, there = free[cell.id], topology.dedicated_cpus & cell.cpus
            owned = there & CpuSet(owners)
            assert left.cpus == there - owned
            ordinary = max(0, cell.small_mib - topology.reserved_memory_mib.get(cell.id, 0))
            assert left.memory_mib == ordinary - mib[cell.id]
            assert left.pages == {kib: count - pages[cell.id, kib] for kib, count in cell.pages.items()}
            short[cell.id, "MiB"] = max(0, -left.memory_mib)
            for kib, count in left.pages.items():
                short[cell.id, kib] = max(0, -count)
            pool = len((topology.pool_cpus & cell.cpus) - CpuSet(owners)) * topology.cpu_allocation_ratio
            short[cell.id, "pool"] = max(0.0, round(demand[cell.id] - pool, 5)) if cell.cpus else 0.0
        before, holders = self.short.get(name, (short, usage.owners))
        assert all(amount <= before[what] for what, amount in short.items()), f"{name}: {before}, now {short}"
        usable = topology.dedicated_cpus | topology.isolated_cpus
        for owner, plan in usage:
            new = plan.dedicated and owner.rstrip("+") not in holders and not owner.endswith("+")
            assert not new or plan.cpus <= usable, f"{owner} got {plan.cpus} of {usable}"
        self.short[name] = short, {owner.rstrip("+") for owner in usage.owners}

    def _check_runtime(self, name, usage):
        """Check as on other hosts, but not a host without pool CPUs: its shared containers stay where they are."""
        if usage.shared_pool(usage.with_pool(self.agents[name].tracker.topology)):
            super()._check_runtime(name, usage)

    def rest(self):
        """Let everything end: then everybody runs where his row says, and shared ones on all of the pool."""
        self.heartbeats()
        kills = self._kills
        self.settle(self.admin)
        self._kills = kills
        for name, agent in self.agents.items():
            self.compare(name)
            topology, usage, runtime = agent.tracker.topology, agent.tracker.usage, agent.driver.list()
            rows = {row["uuid"]: held_plan(row) for row in db.claims() if row["host"] == name}
            assert runtime.keys() == rows.keys()
            assert usage == Usage(rows)
            for uuid, held in rows.items():
                cpus, mems = CpuSet(runtime[uuid].cpuset_cpus), CpuSet(runtime[uuid].cpuset_mems)
                pool = None if held.dedicated else pool_of(topology, usage.without(uuid), held)
                assert mems == held.mems
                assert cpus == (held.cpus if pool is None else pool) or pool == CpuSet()
        self.check()


@pytest.mark.timeout(120 * SIZE)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_held_stays_held_and_nothing_is_promised_twice(database, admin, monkeypatch, seed):
    monkeypatch.setattr(simulation, "Agent", ChangingAgent)
    plain = machine(cells=2, cores=4, threads=2, memory_mib=2560)
    flat = machine(cells=4, cores=4, memory_mib=1280)
    machines = {"host-0": each_cell(plain, pages={2048: 256}), "host-1": plain, "host-2": flat}
    conf = configuration()
    world = ChangingWorld(conf, machines, seed, admin, kills=0.01 * (seed % 2))
    random, alive = world.random, []
    try:
        for _ in range(STEPS):
            drawn, name = random.random(), random.choice([*machines])
            if drawn < 0.4 or not alive:
                alive.append(world.submit(admin, **wish(random)))
            elif drawn < 0.6:
                world.delete(admin, alive.pop(random.randrange(len(alive))))
            elif drawn < 0.75:
                world.resize(admin, random.choice(alive), **size(random))
            elif drawn < 0.85:
                world.restart(name)
            elif drawn < 0.92:
                world.look(name)
            elif drawn < 0.95:
                world.compare(name)
            elif drawn < 0.97:
                world.stop_agent(name)
            elif drawn < 0.98:
                world.rest()
            else:
                world.set_clock(random.choice([-7200, -5, 5, 100, 7200]))
            for _ in range(random.randint(0, 6)):
                world.step()
                world.check()
        world.rest()
        outcome = Counter(db.get(uuid)["status"] for uuid in alive)
        assert set(outcome) <= {"Running", "Error"} and outcome["Running"] > 0
        assert world.avoidable == 0, "a host refused what its own plan would have held"
        world.emptied(admin, alive)
    finally:
        world.close()
    print(f"seed {seed}: {world.delivered} messages, {world.killed} kills, {world.refused} refusals, {dict(outcome)}")
