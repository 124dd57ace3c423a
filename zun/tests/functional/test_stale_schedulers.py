# SPDX-License-Identifier: Apache-2.0
"""Schedulers that have not heard yet what has become of hosts: nothing is refused that has room.

The words of the hosts are lost, and no table is compared with the database unless there is a reason.
"""

from dataclasses import replace

import pytest

from zun.compute.container.creation import Order
from zun.compute.host.inventory import inventory
from zun.db import containers as db
from zun.objects import Container
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import configuration, machine
from zun.tests.functional.simulation import World

SMALL = machine(cells=1, cores=8, memory_mib=1000)
LARGE = machine(cells=1, cores=16, memory_mib=2000)


class Deaf(World):
    """One scheduler that hears nothing of hosts, and has seen them all once."""

    def __init__(self, machines, **options):
        conf = configuration(**{f"compute__{name}": value for name, value in options.items()})
        super().__init__(conf, machines, 1, schedulers=1, losses=1.0, fresh_seconds=1e9)
        self.schedulers[0].table.refresh()

    def change(self, name, topology, context, **options):
        """The host has something else from now on, and says so to the database alone."""
        for option, value in options.items():
            self.conf.set_override(option, value, group="compute")
        self.machines[name] = topology
        agent = self.agents[name]
        found = inventory(self.conf, topology, agent.driver.facts())
        agent.tracker.update_inventory(context, found.topology, found.columns)

    def create_on(self, name, context, **fields):
        """Let another scheduler make a choice that this scheduler does not hear of."""
        container = new_container(context, **fields)
        self.agents[name].parts.creation.create([Order(context, container, {}, [], {})])
        assert db.get(container.uuid)["status"] == "Running"
        return container

    def run(self, context, **fields):
        """A container as it has become once every message is delivered."""
        uuid = self.submit(context, **fields)
        while self.step():
            pass
        return Container.from_row(context, db.get(uuid))


def dedicated(cpu, memory=64):
    return {"cpu_policy": "dedicated", "cpu": float(cpu), "memory": memory}


def shared(cpu, memory=64):
    return {"cpu": float(cpu), "memory": memory}


@pytest.fixture
def deaf(database):
    worlds = []

    def begin(machines, **options):
        worlds.append(Deaf(machines, **options))
        return worlds[-1]

    yield begin
    for world in worlds:
        world.close()


GROWTHS = [
    pytest.param(LARGE, {}, dedicated(8), dedicated(4), id="dedicated-cpus"),
    pytest.param(LARGE, {}, shared(8), shared(4), id="shared-cpus"),
    pytest.param(LARGE, {}, dedicated(1, 900), dedicated(1, 900), id="dedicated-memory"),
    pytest.param(LARGE, {}, shared(1, 900), shared(1, 900), id="shared-memory"),
    pytest.param(SMALL, {"cpu_allocation_ratio": 2.0}, shared(8), shared(4), id="cpu-ratio"),
    pytest.param(SMALL, {"ram_allocation_ratio": 2.0}, shared(1, 900), shared(1, 900), id="memory-ratio"),
    pytest.param(SMALL, {"disk_allocation_ratio": 2.0}, {"disk": 80}, {"disk": 80}, id="disk-ratio"),
]


@pytest.mark.parametrize(("grown", "options", "first", "second"), GROWTHS)
def test_claim_on_grown_host_does_not_mislead_stale_scheduler(deaf, admin, grown, options, first, second):
    before = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0}
    world = deaf({"host": SMALL}, **before)
    world.change("host", grown, admin, **options)
    world.create_on("host", admin, **first)
    found = world.run(admin, **second)
    assert (found.status, found.status_reason) == ("Running", None)


@pytest.mark.parametrize("wanted", [dedicated(12), shared(12), dedicated(1, 1500), shared(1, 1500)])
def test_stale_scheduler_does_not_refuse_newly_added_resources(deaf, admin, wanted):
    world = deaf({"host": SMALL}, cpu_allocation_ratio=1.0)
    world.change("host", LARGE, admin)
    found = world.run(admin, **wanted)
    assert (found.status, found.status_reason) == ("Running", None)


def test_shrunken_hosts_are_not_tried_one_after_another(deaf, admin):
    """There are more of them than a request is tried on."""
    shrinking = [f"host-{number}" for number in range(7)]
    world = deaf(dict.fromkeys([*shrinking, "small"], LARGE))
    world.change("small", replace(SMALL), admin)
    world.create_on("small", admin, **dedicated(1))
    for name in shrinking:
        world.change(name, machine(cells=1, cores=2, memory_mib=1000), admin)
    found = world.run(admin, **dedicated(4))
    assert (found.status, found.host, found.status_reason) == ("Running", "small", None)
    assert world.refused <= 1
