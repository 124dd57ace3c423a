# SPDX-License-Identifier: Apache-2.0
"""Guarantees P1 and P10 on real Docker: options change with each start, and everybody runs where his row says.

The whole of ``zun/tests/functional/test_changing_hosts.py`` is on a runtime in memory; this is a part of it.
``ZUN_PROOF_SEEDS`` names other seeds than the usual one.
"""

import os
import random

import pytest

from zun.common import exceptions
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.integration.host import Host, group_of
from zun.topology import CpuSet, discover

CPUS = [*map(str, discover().cpus)]
SEEDS = [int(seed) for seed in os.environ.get("ZUN_PROOF_SEEDS", "1").split(",")]
STEPS = 30
PLAIN = {"cpu_dedicated_set": "", "cpu_shared_set": "", "reserved_host_cpus": "", "reserved_host_memory_mb": 0}
OPTIONS = [
    {},
    {"cpu_dedicated_set": CPUS[0]},
    {"cpu_shared_set": CPUS[0]},
    {"cpu_dedicated_set": CPUS[-1], "cpu_shared_set": CPUS[0]},
    {"reserved_host_cpus": CPUS[0]},
    {"reserved_host_memory_mb": 10**6},
]
SIZES = [
    {"cpu": 0.5},
    {"cpu": 2.0},
    {"memory": 48},
    {"cpu_policy": "dedicated", "cpu": 1.0},
    {"cpu_policy": "shared", "cpu": 0.5},
]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.in_turn,
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs to move between"),
]


@pytest.fixture
def host(docker_url, database):
    made = Host(docker_url)
    yield made
    made.clean()


def agrees(host, containers):
    """Whether ledger, rows and control groups say one thing, and no CPU has two owners."""
    tracker, rows = host.cloud.agents[host.name].tracker, {each.uuid: db.get(each.uuid) for each in containers}
    usage = tracker.usage  # raises when two claims hold one CPU
    agreed = set(usage.owners) == {uuid for uuid, row in rows.items() if row["cpuset"]}
    pool = usage.shared_pool(tracker.topology)
    for each in containers:
        if not agreed or rows[each.uuid]["status"] != "Running":
            continue
        held, group = usage.claim(each.uuid), group_of(host.pid(each))
        allowed, mems = (CpuSet((group / name).read_text().strip()) for name in ("cpuset.cpus", "cpuset.mems"))
        # A host that has lost its pool leaves shared containers where they are.
        agreed = mems == held.mems and allowed == (held.cpus if held.dedicated else pool or allowed)
        agreed = agreed and (held.dedicated or not allowed & usage.held_cpus)
    return agreed


@pytest.mark.parametrize("seed", SEEDS)
def test_everybody_runs_where_his_row_says(host, seed):
    drawn, cloud, alive = random.Random(seed), host.cloud, []
    for _ in range(STEPS):
        kind = drawn.random()
        if kind < 0.35 or not alive:
            sort = drawn.choice([{"cpu": 0.1}, {"cpu": 1.0}, {"cpu": 1.0, "cpu_policy": "dedicated"}])
            alive.append(cloud.run(host.context, memory=16, **sort))
        elif kind < 0.5:
            gone = alive.pop(drawn.randrange(len(alive)))
            if not db.destroy_unplaced(gone.uuid):
                db.update(gone.uuid, {"status": "Deleting"})
                cloud.compute_api.delete(host.context, gone, force=True)
                cloud.gone(gone)
        elif kind < 0.75:
            one = drawn.choice(alive)
            if one.host is None:  # no host had room, and the API would not ask one
                continue
            try:
                cloud.compute_api.update(host.context, one, **drawn.choice(SIZES))
            except exceptions.ZunError as error:
                print(f"not resized: {error}")
        else:
            cloud.stop_agent(host.name)
            for name, value in {**PLAIN, **drawn.choice(OPTIONS)}.items():
                cloud.conf.set_override(name, value, group="compute")
            before = {each.uuid: db.get(each.uuid)["cpuset"] for each in alive}
            cloud.start_agent(host.name)
            assert {each.uuid: db.get(each.uuid)["cpuset"] for each in alive} == before
        wait_for(lambda: agrees(host, alive))
