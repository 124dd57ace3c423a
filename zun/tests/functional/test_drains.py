# SPDX-License-Identifier: Apache-2.0
"""A host is drained while agents and schedulers are killed: every container is elsewhere or back, and none is lost.

Nothing is held twice at any moment: the ledger is checked after each message.
"""

import os
from collections import Counter

import pytest

from zun.common.departures import DEPARTED
from zun.common.states import Kind
from zun.db import container_actions, drains, services, session
from zun.db import containers as db
from zun.objects.service import COMPUTE_BINARY
from zun.tests.functional.cloud import configuration, machine
from zun.tests.functional.simulation import World

FULL = "host-00"
# CI drains a few containers, twice with room for all of them and once with room for half. ZUN_PROOF_SIZE=20 drains 200.
SIZES = [(24, 4, 10, 1, 1), (24, 4, 10, 1, 2), (24, 4, 4, 1, 3)]
if int(os.environ.get("ZUN_PROOF_SIZE", "1")) >= 20:
    SIZES.append((200, 20, 12, 20, 3))
WHO = {"request_id": "req-drain", "user_id": "root", "project_id": "admin", "client_address": None}
ONE = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 16, "request": {"run": True}}


@pytest.fixture
def worlds(database):
    made = []

    def make(containers, others, seed=1, **how):
        """Return a world whose first host has all containers, and the others room for as many as they have CPUs."""
        machines = {FULL: machine(cells=4, cores=max(4, containers // 4)), **others}
        made.append(World(configuration(), machines, seed, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


def filled(world, admin, containers, others):
    """Run the containers on the first host."""
    for name in others:
        services.update(name, COMPUTE_BINARY, {"disabled": True})
    uuids = [world.submit(admin, name=f"c{number}", **ONE) for number in range(containers)]
    world.settle(admin)
    for name in others:
        services.update(name, COMPUTE_BINARY, {"disabled": False})
    assert {db.get(uuid)["host"] for uuid in uuids} == {FULL}
    return uuids


def drain(world, *, killing, checking):
    """Drain the first host. Every ``killing`` steps a scheduler starts anew; every ``checking`` steps check all."""
    steps = 0
    while True:
        report = drains.report(FULL, drains.wishes()[FULL])
        if all(each["state"] in ("moved", "stays") for each in report) and not world.messages:
            return report
        for _ in range(world.random.randint(1, 8)):
            world.step()
            steps += 1
            if steps % checking == 0:
                world.check()
            if steps % killing == 0:
                world.random.choice(world.schedulers).start()
        scheduler = world.random.choice(world.schedulers)
        scheduler.endpoint.carry_on()
        if not world.messages:  # the search for what was lost: an agent was killed before it read of a container
            for row in db.unplaced():
                scheduler.table.unbook(row["uuid"])
            scheduler.endpoint.sweep(0)
        assert steps < 100 * len(report) + 1000, Counter(each["state"] for each in report)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("containers", "hosts", "cores", "checking", "seed"), SIZES)
def test_everybody_is_elsewhere_or_back_whoever_is_killed(worlds, admin, containers, hosts, cores, checking, seed):
    others = {f"host-{number:02}": machine(cells=1, cores=cores) for number in range(1, hosts)}
    fit = min(containers, cores * len(others))
    world = worlds(containers, others, seed)
    uuids = filled(world, admin, containers, others)
    world._kills = 0.01
    drains.begin(FULL, parallel=10, discard_layer=True, who=WHO)
    report = drain(world, killing=50, checking=checking)
    world.settle(admin)
    for scheduler in world.schedulers:
        scheduler.endpoint.carry_on()
    world.settle(admin)
    world.check()
    rows = db.of_uuids(uuids)
    found = Counter(("back" if row["host"] == FULL else "moved", row["status"]) for row in rows)
    print(f"{world.delivered} messages, {world.killed} agents were killed: {dict(found)}")
    assert world.killed > 5
    assert len(rows) == len(report) == containers
    assert not any(DEPARTED in row["request"] or container_actions.wanted(row["uuid"]) for row in rows)
    assert found["moved", "Running"] >= 0.9 * fit
    assert {status for _, status in found} <= {"Running", "Stopped"}  # back, and its start met a kill
    made = Counter(uuid for name in world.machines for uuid in world.agents[name].driver.list())
    assert made == Counter(uuids)
    assert sum(len(agent.tracker.usage) for agent in world.agents.values()) == containers
    with session.reader() as connection:
        assert not session.rows(connection, db.table.select().where(db.table.c.kind == Kind.LEFTOVER))
