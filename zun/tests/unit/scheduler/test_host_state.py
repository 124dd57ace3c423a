# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from zun.scheduler.host_state import Aggregate, Held, claim_of
from zun.tests.functional.cloud import machine
from zun.tests.unit.scheduler.hosts import host
from zun.topology import CellShare, CpuSet, Plan, Usage


def test_an_aggregate_may_lower_the_room_for_shared_containers():
    topology, named = machine(), Aggregate("u1", "some", {"ssd": "true"})
    lower = replace(named, metadata={"cpu_allocation_ratio": "0.5", "ram_allocation_ratio": "0.5"})
    first, second, third = (
        host(f"h{number}", topology, aggregates=each) for number, each in enumerate(((), (named,), (lower,)))
    )
    assert first.room == second.room
    room = first.room
    assert third.room == replace(room, shared_room=room.shared_room // 2, memory_shared=room.memory_shared // 2)


PAGED = replace(machine(), cells=tuple(replace(cell, pages={2048: 100}) for cell in machine().cells))
HALF_AGAIN = PAGED.configured(reserved_memory_mib={0: 96}, ram_allocation_ratio=1.5)
HELD = Usage(
    {
        "a": Plan({0: CellShare(memory_mib=1000), 1: CellShare(memory_mib=24)}),
        "b": Plan({0: CellShare(memory_mib=200, pages={2048: 100})}),
        "c": Plan({0: CellShare(memory_mib=76)}, "shared"),
    }
)


@pytest.mark.parametrize(
    ("topology", "usage", "dedicated", "shared"),
    [
        pytest.param(machine(), Usage(), 2 * 4096, 2 * 4096, id="an-empty-machine"),
        pytest.param(PAGED, Usage(), 2 * 3896, 2 * 3896, id="what-huge-pages-leave"),
        pytest.param(PAGED, HELD, 2 * 3896 - 1100, 2 * 3896 - 1100, id="what-others-leave"),
        pytest.param(
            HALF_AGAIN, HELD, 2 * 3896 - 96 - 1100, 3800 * 3 // 2 + 3896 * 3 // 2 - 1100, id="shared-memory-more-often"
        ),
        pytest.param(
            HALF_AGAIN,
            Usage({"a": Plan({0: CellShare(memory_mib=6000)}, "shared")}),
            3896,
            3896 * 3 // 2,
            id="a-cell-that-is-over-full-takes-nothing-from-the-others",
        ),
        pytest.param(
            machine(cells=1, memory_mib=100).configured(reserved_memory_mib=512), Usage(), 0, 0, id="all-is-reserved"
        ),
        pytest.param(
            machine(cells=1, memory_mib=100).configured(ram_allocation_ratio=1.15), Usage(), 100, 115, id="exactly"
        ),
    ],
)
def test_how_much_memory_may_still_be_promised(topology, usage, dedicated, shared):
    room = host("h1", topology, usage=usage).room
    assert (room.memory_dedicated, room.memory_shared) == (dedicated, shared)


@pytest.mark.parametrize(("usage", "free"), [(Usage(), 2 * 4096 - 96), (HELD, 2 * 4096 - 96 - 1100 - 200)])
def test_free_memory_is_in_pages_of_all_sizes(usage, free):
    assert host("h1", HALF_AGAIN, usage=usage).room.free_memory == free


def test_a_host_after_a_container_has_the_rest_as_before():
    claim = Plan({0: CellShare(CpuSet("0"), 64)})
    before = host(disk_used=3, groups={"g": 1}, labels={"a": "b"}, failures=(1.0,), architecture="x86_64")
    after = before.taken("c", Held(claim, 1.0, 64, 5, "g", "image"))
    assert after == replace(
        before, usage=Usage({"c": claim}), disk_used=8, groups={"g": 2}, images={"image": 1}
    )
    assert after.room == host(usage=Usage({"c": claim})).room != before.room


def test_a_claim_does_not_tell_when_its_plan_was_made():
    plan = Plan({0: CellShare(CpuSet("0"), 64, pinned=CpuSet("1"))}, generation=7)
    claim = claim_of(plan)
    assert (claim.generation, claim.cells[0].pinned) == (None, CpuSet())
    assert claim == replace(plan, generation=None)
