# SPDX-License-Identifier: Apache-2.0
"""Aggregates raise and lower the allocation ratios of their hosts, for schedulers, hosts and Placement alike."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.compute.container.claims import Claim, Resources, Wanted
from zun.db import aggregates
from zun.objects.placement import CPU_RATIO_KEY, RAM_RATIO_KEY
from zun.placement.tree import tree
from zun.scheduler import filters, select
from zun.scheduler.host_state import Aggregate
from zun.scheduler.request_spec import RequestSpec
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import configuration
from zun.tests.unit.scheduler.hosts import host as state_of
from zun.topology import PlacementRequest, Usage
from zun.topology.request import MICRO

SMALL = machine(cells=1, cores=4, memory_mib=1000)


@pytest.fixture
def cloud(database):
    """A host of 4 CPUs and 1000 MiB that promises nothing twice, in an aggregate that says nothing yet."""
    cloud = Cloud({"one": SMALL}, compute__cpu_allocation_ratio=1.0, compute__ram_allocation_ratio=1.0)
    aggregates.insert("busy", {})
    aggregates.add_host("busy", "one")
    yield cloud
    cloud.stop()


def say(cloud, **ratios):
    """Set the ratios in the metadata of the aggregate, and have schedulers see it."""
    aggregates.update("busy", metadata={f"{name}_allocation_ratio": value for name, value in ratios.items()})
    wait_for(lambda: cloud.scheduler.table.refresh() or (
        cloud.scheduler.table.host("one").aggregates[0].metadata == aggregates.find("busy")["metadata"]
    ))  # fmt: skip


def statuses(cloud, context, count, **size):
    return [cloud.run(context, **size).status for _ in range(count)]


@pytest.mark.parametrize(
    ("ratios", "size", "most"),
    [
        pytest.param({}, {"cpu": 2.0, "memory": 10}, 2, id="the-hosts-own"),
        pytest.param({"cpu": "2"}, {"cpu": 2.0, "memory": 10}, 4, id="cpus-raised"),
        pytest.param({"cpu": "0.5"}, {"cpu": 2.0, "memory": 10}, 1, id="cpus-lowered"),
        pytest.param({"ram": "1.5"}, {"cpu": 0.1, "memory": 500}, 3, id="memory-raised"),
        pytest.param({"ram": "0.5"}, {"cpu": 0.1, "memory": 500}, 1, id="memory-lowered"),
        pytest.param({"ram": "3"}, {"cpu": 1.0, "memory": 500, "cpu_policy": "dedicated"}, 2, id="never-dedicated"),
    ],
)
def test_aggregate_replaces_the_ratio_of_its_host(cloud, context, ratios, size, most):
    say(cloud, **ratios)
    assert statuses(cloud, context, most + 1, **size) == ["Running"] * most + ["Error"]


def test_what_is_promised_above_the_hosts_own_ratio_is_kept(cloud, context):
    """Through a restart, a resize, an audit, and the end of the aggregate's ratio."""
    say(cloud, cpu="3", ram="2")
    made = [cloud.run(context, cpu=2.0, memory=300) for _ in range(5)]
    assert {each.status for each in made} == {"Running"}
    cloud.compute_api.update(context, made[0], cpu=4.0, memory=400)
    assert (cloud.settled(made[0]).cpu, cloud.settled(made[0]).status) == (4.0, "Running")
    cloud.stop_agent("one")
    cloud.start_agent("one")
    agent = cloud.agents["one"]
    assert agent.tracker.topology.cpu_allocation_ratio == 3.0
    assert cloud.run(context, cpu=1.0, memory=10).status == "Error"
    say(cloud, cpu=None, ram=None)
    agent._update_inventory()
    assert agent.tracker.topology.cpu_allocation_ratio == 1.0
    assert not agent.tracker.disagreeing([cloud.settled(each) for each in made])
    report = cloud.compute_api.audit(context, "one", repair=False)
    assert (report["containers"], report["findings"]) == ({"ok": 5}, [])
    cloud.compute_api.update(context, made[1], cpu=1.0, memory=200)
    assert cloud.settled(made[1]).cpu == 1.0
    cloud.compute_api.delete(context, made[2], force=True)
    cloud.gone(made[2])
    assert cloud.run(context, cpu=0.5, memory=10).status == "Error"


def test_message_alone_raises_no_ratio(cloud, context):
    """Whoever can send a message to a host would otherwise have it promise its CPUs any number of times."""
    agent = cloud.agents["one"]
    wanted = new_container(context, cpu=5.0, memory=10)
    for limits in ({CPU_RATIO_KEY: "9"}, {CPU_RATIO_KEY: "9", RAM_RATIO_KEY: "9", "cpu": 99}):
        with pytest.raises(exceptions.ClaimRefused):
            agent.tracker.container_claim(wanted, limits)
    aggregates.update("busy", metadata={CPU_RATIO_KEY: "2"})
    agent.tracker.container_claim(wanted, {CPU_RATIO_KEY: "2"})


def test_host_that_leaves_the_aggregate_has_its_own_ratio(cloud, context):
    say(cloud, cpu="4")
    assert statuses(cloud, context, 2, cpu=4.0, memory=10) == ["Running"] * 2
    aggregates.remove_host("busy", "one")
    table = cloud.scheduler.table
    wait_for(lambda: table.refresh() or table.host("one").aggregates == ())
    assert table.host("one").topology.cpu_allocation_ratio == 1.0
    assert cloud.run(context, cpu=1.0, memory=10).status == "Error"


def test_placement_has_room_for_what_is_promised(cloud, context):
    say(cloud, cpu="3", ram="2")
    assert statuses(cloud, context, 3, cpu=4.0, memory=600) == ["Running"] * 3
    agent = cloud.agents["one"]
    (_, cell) = agent._inventory.providers("one", ())
    vcpu, memory = cell.inventories["VCPU"], cell.inventories["MEMORY_MB"]
    assert (vcpu.total, vcpu.allocation_ratio, memory.total, memory.allocation_ratio) == (4, 3.0, 1000, 2.0)


RATIOS = st.sampled_from(["0.5", "1", "1.5", "2", "7/3", "16", "x"])


@proof(100)
@given(
    st.lists(st.dictionaries(st.sampled_from([CPU_RATIO_KEY, RAM_RATIO_KEY]), RATIOS), max_size=3),
    st.lists(st.tuples(st.sampled_from([0.3, 1.0, 2.5]), st.integers(1, 700)), max_size=12),
)
def test_scheduler_and_host_agree_and_promise_no_more(named, wanted):
    """A host grants the plan of a scheduler unchanged, and both apply the same ratio."""
    chosen = filters.load(["CPUFilter", "RamFilter", "CpuSetFilter"], configuration())
    machines = tuple(Aggregate(str(number), str(number), each) for number, each in enumerate(named))
    topology = machine(cells=2, cores=2, memory_mib=700).configured(cpu_allocation_ratio=1.5)
    host, usage = state_of("h1", topology, aggregates=machines), Usage()
    for number, (cpus, memory) in enumerate(wanted):
        request = PlacementRequest(cpus, memory, cpu_policy="shared")
        answer = select.select([replace(host, usage=usage)], RequestSpec("me", request), chosen, [], 1)
        resources = Resources("h1", host.topology, usage, 1, None, 0, True)
        limits = answer[0].limits if isinstance(answer, list) else {}
        plan = None
        with contextlib.suppress(exceptions.ClaimRefused):
            plan = Claim(resources, Wanted("me", request, 0), limits, lambda uuid: None).plan
        assert (plan is not None) == isinstance(answer, list)
        if plan is not None:
            assert plan.to_dict()["cells"] == limits["cpuset"]["cells"]
            usage = usage.with_claim(str(number), plan)
    view = host.topology.view
    for cell in view.cells:
        assert usage.demand(cell.id) <= cell.pool.bit_count() * MICRO * view.cpu_ratio
        assert usage.free_memory(view, cell.id, None, overcommit=True) >= 0
    for provider in tree("h1", host.topology, usage)[1:]:
        assert provider.inventories["VCPU"].allocation_ratio == host.topology.cpu_allocation_ratio
