# SPDX-License-Identifier: Apache-2.0
"""Guarantee P1: one allocator, and the plan is the claim, whatever happens to messages and agents.

CI runs a few seeds of a small size. The full proof is ZUN_PROOF_SIZE=20: 2,000 requests a seed, of which
ZUN_PROOF_SEEDS names others than the usual (``3,4,5``).
"""

import os
from collections import Counter
from dataclasses import replace

import pytest

from zun.db import containers as db
from zun.tests.functional.cloud import configuration, machine
from zun.tests.functional.simulation import World

SIZE = int(os.environ.get("ZUN_PROOF_SIZE", "1"))
HOSTS = max(4, min(20, 4 * SIZE))
REQUESTS = 100 * SIZE
SEEDS = [int(seed) for seed in os.environ.get("ZUN_PROOF_SEEDS", "1,2").split(",")]


def wish(random):
    """A container somebody might ask for on these machines."""
    kind = random.random()
    if kind < 0.3:
        return {"cpu": random.choice([0.1, 0.5, 1.0, 2.0]), "memory": random.choice([16, 64, 256])}
    fields = {"cpu_policy": "dedicated", "cpu": float(random.randint(1, 4)), "memory": random.choice([32, 128, 512])}
    if kind < 0.45:
        fields |= {"cpu": float(random.choice([2, 4, 6])), "placement": {"numa_nodes": 2}}
    elif kind < 0.6:
        fields["placement"] = {"cpu_thread_policy": random.choice(["isolate", "require"])}
    elif kind < 0.75:
        fields["placement"] = {"mem_page_size": random.choice([2048, "any"])}
    return fields


@pytest.mark.timeout(120 * max(1, SIZE))
@pytest.mark.parametrize("kills", [0.0, 0.02])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_cpu_is_given_twice_and_none_is_lost(database, admin, seed, kills):
    plain = machine(cells=2, cores=4, threads=2, memory_mib=2560)
    paged = replace(plain, cells=tuple(replace(cell, pages={2048: 256}) for cell in plain.cells))
    machines = {f"host-{number:02}": paged for number in range(HOSTS)}
    world = World(configuration(), machines, seed, kills=kills)
    random, alive = world.random, []
    try:
        for _ in range(REQUESTS):
            drawn = random.random()
            if drawn < 0.6 or not alive:
                alive.append(world.submit(admin, **wish(random)))
            elif drawn < 0.85:
                world.delete(admin, alive.pop(random.randrange(len(alive))))
            else:
                size = {"cpu": float(random.randint(1, 4))} if random.random() < 0.7 else {"memory": 96}
                world.resize(admin, random.choice(alive), **size)
            for _ in range(random.randint(0, 6)):
                world.step()
                world.check()
        world.settle(admin)
        world.check()
        outcome = Counter(db.get(uuid)["status"] for uuid in alive)
        assert set(outcome) <= {"Running", "Error"} and outcome["Running"] > 0
        for name, agent in world.agents.items():
            assert set(agent.driver.list()) == set(agent.tracker.usage.owners), f"{name} has objects without claims"
        assert world.avoidable == 0
        if kills:
            assert world.killed > REQUESTS / 20, "the kills did not happen"
        world.emptied(admin, alive)
    finally:
        world.close()
    print(f"seed {seed}: {world.delivered} messages, {world.killed} kills, {world.refused} refusals, {dict(outcome)}")
