# SPDX-License-Identifier: Apache-2.0
"""Guarantee P8: a dry run on an idle cloud says exactly what the create gets then.

CI tries a tenth. The full proof is ZUN_PROOF_SIZE=10: 1,000 dry runs, each followed by its create.
"""

import os
import random
from collections import Counter

import pytest

from zun.db import compute_nodes
from zun.db import containers as db
from zun.objects.placement import cpuset_record
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.topology import HostTopology, NUMACell, Plan

SIZE = int(os.environ.get("ZUN_PROOF_SIZE", "1"))
DRY_RUNS = 100 * SIZE


def with_pages(topology, pages):
    cells = (NUMACell(c.id, c.cpus, c.siblings, c.l3, c.memory_mib, c.distances, pages) for c in topology.cells)
    return HostTopology(tuple(cells))


@pytest.fixture
def cloud(database):
    machines = {
        "even": machine(cells=2, cores=4, threads=2, memory_mib=2048),
        "many": machine(cells=4, cores=2, threads=1, memory_mib=512),
        "huge": with_pages(machine(cells=2, cores=3, threads=2, memory_mib=4096), {2048: 256}),
        "tiny": machine(cells=1, cores=2, threads=1, memory_mib=256),
    }
    made = Cloud(machines)
    yield made
    made.stop()


def wish(rng):
    """Fields of a container somebody might ask for on these machines, some of them too much."""
    if rng.random() < 0.25:
        return {"cpu": rng.choice((0.1, 0.5, 1.0, 2.5)), "memory": rng.choice((16, 64, 256))}
    nodes = rng.choice((1, 1, 1, 2, 3))
    placement = {
        "cpu_thread_policy": rng.choice(("prefer", "prefer", "isolate", "require")),
        "numa_nodes": nodes,
        "numa_affinity": rng.choice(("require", "prefer", "none")),
        "numa_mempolicy": rng.choice(("strict", "preferred")),
    }
    cpu = rng.randint(nodes, 6)
    if nodes == 2 and cpu > 2 and rng.random() < 0.5:
        placement["numa_cpus"] = [cpu - 1, 1]
    memory = rng.choice((32, 128, 600))
    if rng.random() < 0.15:
        placement["mem_page_size"] = rng.choice(("any", 2048))
    return {"cpu_policy": "dedicated", "cpu": float(cpu), "memory": memory, "placement": placement}


def be_idle(cloud):
    """Wait until the scheduler knows all that the hosts have done."""
    table = cloud.scheduler.table

    def idle():
        known = {host.hostname: host.generation for host in table.hosts()}
        return known == {name: each.generation for name, each in compute_nodes.generations().items()}

    wait_for(idle)


def test_the_plan_of_the_dry_run_is_the_claim_of_the_create(cloud, context):
    rng = random.Random(20_260)
    alive, seen = [], Counter()
    cloud.scheduler.table.refresh()
    for _ in range(DRY_RUNS):
        fields = {**wish(rng), "disk": rng.choice((0, 0, 1)), "request": {"run": False}}
        be_idle(cloud)
        imagined = new_container(context, **fields, status="Error")
        answer = cloud.scheduler_api.dry_run(context, imagined, count=1)
        db.destroy_unplaced(imagined.uuid)
        created = cloud.run(context, **fields)
        if answer["refusal"] is None:
            (placed,) = answer["placed"]
            assert (created.status, created.host) == ("Created", placed["host"]), fields
            # The whole record, but for the generation, which counts the claim itself.
            topology = cloud.agents[placed["host"]].tracker.topology
            expected = cpuset_record(Plan.from_dict(placed["cpuset"]), topology)
            assert {**expected, "generation": created.cpuset["generation"]} == created.cpuset
            alive.append(created)
            seen[created.host] += 1
        else:
            assert (created.status, created.status_reason) == ("Error", answer["refusal"]["reason"]), fields
            seen["refused"] += 1
            db.destroy_unplaced(created.uuid)
        while alive and (len(alive) > 14 or rng.random() < 0.3):
            gone = alive.pop(rng.randrange(len(alive)))
            db.update(gone.uuid, {"status": "Deleting"})
            cloud.compute_api.delete(context, gone, force=True, stop_timeout=None)
            cloud.gone(gone)
    assert seen.keys() >= {"even", "many", "huge", "refused"}, seen
