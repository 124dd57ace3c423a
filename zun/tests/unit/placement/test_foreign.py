# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from zun.placement.allocations import cell_uuid, page_class, root_uuid
from zun.placement.foreign import Beside, Others, cell_of, foreign_of
from zun.placement.tree import Disk, Inventory, tree
from zun.tests.unit.topology.build import cell, demanding, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import random_topology, random_usage
from zun.topology import CpuSet, Usage
from zun.topology.foreign import NO_FOREIGN, Foreign, ForeignShare

FLAT = flat_host([4, 4])
SMT = smt_host(2, 2)
DIVIDED = FLAT.configured(dedicated_set=CpuSet("4-5"), shared_set=CpuSet("6-7"))
NOBODY = Usage()
PAGED = host(cell(0, "0 1", 1000, pages={2048: 30}), cell(1, "2 3", 1000, pages={2048: 10}))


def nova(total, ratio=1.0, cell=None, **taken):
    """Nova's provider: ``total`` has its own and its shared CPUs."""
    inventories = dict(zip(("PCPU", "VCPU"), (Inventory(total[0]), Inventory(total[1], 0, ratio)), strict=True))
    return Others(beside=(Beside(taken, inventories, cell),))


def shares(topology, others, usage=NOBODY, before=""):
    foreign = foreign_of(topology, usage, others, CpuSet(before))
    return {one.id: foreign.share(one.id) for one in topology.cells if foreign.share(one.id) != ForeignShare()}


def withheld(topology, others, usage=NOBODY, before=""):
    return str(foreign_of(topology, usage, others, CpuSet(before)).withheld)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["host_NUMA_1"], 1, id="ours"),
        pytest.param(["host_NUMA12"], 12, id="nova"),
        pytest.param(["pages", "host_NUMA0"], 0, id="below-a-cell"),
        pytest.param(["host_0000:81:00.0"], None, id="device"),
        pytest.param([], None, id="root"),
    ],
)
def test_cell_of_a_name(names, expected):
    assert cell_of(names) == expected


@pytest.mark.parametrize(
    ("topology", "others", "expected"),
    [
        pytest.param(FLAT, Others(), {}, id="nothing"),
        pytest.param(FLAT, Others({1: {"PCPU": 2, "MEMORY_MB": 5}}), {1: ForeignShare(2, 0, 5)}, id="of-our-cell"),
        pytest.param(FLAT, Others({7: {"PCPU": 2}}), {}, id="of-a-cell-that-is-gone"),
        pytest.param(PAGED, Others({0: {page_class(2048): 3}}), {0: ForeignShare(pages={2048: 3})}, id="pages"),
        pytest.param(
            FLAT, nova((0, 8), MEMORY_MB=101), {0: ForeignShare(0, 0, 50), 1: ForeignShare(0, 0, 51)}, id="memory",
        ),
        pytest.param(
            PAGED, nova((0, 0), CUSTOM_HUGEPAGES_2048KB=8),
            {0: ForeignShare(pages={2048: 6}), 1: ForeignShare(pages={2048: 2})}, id="pages-by-size",
        ),
        pytest.param(FLAT, nova((4, 4), PCPU=2), {0: ForeignShare(1), 1: ForeignShare(1)}, id="undivided-cpus"),
        pytest.param(
            FLAT, nova((0, 8), 4.0, VCPU=8), {0: ForeignShare(0, 1), 1: ForeignShare(0, 1)}, id="shared-by-its-ratio"
        ),
        pytest.param(
            FLAT.configured(cpu_allocation_ratio=2.0), nova((0, 8), 4.0, VCPU=8),
            {0: ForeignShare(0, 2), 1: ForeignShare(0, 2)}, id="shared-at-our-ratio",
        ),
        pytest.param(DIVIDED, nova((2, 2), 16.0, PCPU=2, VCPU=32), {}, id="divided"),
        pytest.param(DIVIDED, nova((2, 3), PCPU=2), {1: ForeignShare(1)}, id="one-cpu-in-common"),
        pytest.param(FLAT, nova((4, 0), cell=1, PCPU=3), {1: ForeignShare(3)}, id="cell-of-nova"),
        pytest.param(FLAT, nova((8, 0), cell=9, PCPU=2), {0: ForeignShare(1), 1: ForeignShare(1)}, id="unknown-cell"),
    ],
)  # fmt: skip
def test_amounts_by_cell(topology, others, expected):
    assert shares(topology, others) == expected


@pytest.mark.parametrize(
    ("others", "usage", "before", "expected"),
    [
        pytest.param(Others({0: {"PCPU": 1}}), Usage(), "", "2", id="last-core"),
        pytest.param(Others({0: {"PCPU": 2}}), Usage(), "", "2-3", id="whole-core"),
        pytest.param(Others({0: {"PCPU": 2}}), used(SMT, "2"), "", "0,3", id="free-ones-first"),
        pytest.param(Others({0: {"PCPU": 2}}), Usage(), "0-1", "0-1", id="the-same-as-before"),
        pytest.param(Others({0: {"PCPU": 1}}), Usage(), "0-1", "0", id="fewer-than-before"),
        pytest.param(Others({0: {"PCPU": 2}}), used(SMT, "0-2"), "", "2-3", id="held-ones-too"),
        pytest.param(Others({0: {"PCPU": 4}}), Usage({"s": demanding({0: 2.0})}), "", "2-3", id="pool-keeps-its-floor"),
        pytest.param(Others({0: {"PCPU": 9}}), Usage(), "", "0-3", id="more-than-there-are"),
        pytest.param(nova((8, 0), PCPU=2), Usage(), "", "2,6", id="one-of-each-cell"),
    ],
)
def test_withheld_cpus(others, usage, before, expected):
    assert withheld(SMT, others, usage, before) == expected


def test_disk_of_both_roots():
    others = Others({None: {"DISK_GB": 3}}, (Beside({"DISK_GB": 4}),))
    found = foreign_of(FLAT, Usage(), others)
    assert (found.disk_here, found.disk_beside, found.disk) == (3, 4, 7)
    assert foreign_of(FLAT, Usage(), Others()) is NO_FOREIGN


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        pytest.param({"here": ForeignShare(1), "withheld": "3"}, {"PCPU": (4, 0), "VCPU": (3, 0)}, id="own-here"),
        pytest.param({"beside": ForeignShare(1), "withheld": "3"}, {"PCPU": (4, 1), "VCPU": (3, 0)}, id="own-beside"),
        pytest.param({"here": ForeignShare(0, 2)}, {"PCPU": (4, 2), "VCPU": (4, 0)}, id="shared-here"),
        pytest.param({"beside": ForeignShare(0, 2)}, {"PCPU": (4, 2), "VCPU": (4, 2)}, id="shared-beside"),
    ],
)
def test_inventories_of_cpus(foreign, expected):
    """Allocations of others on our provider are in its inventory; those on other providers are reserved there."""
    parts = {name: {0: share} for name, share in foreign.items() if name != "withheld"}
    topology = FLAT.shared_with(Foreign(**parts, withheld=CpuSet(foreign.get("withheld", ""))))
    _, first, _ = tree("h1", topology, Usage())
    found = {name: (each.total, each.reserved) for name, each in first.inventories.items() if name != "MEMORY_MB"}
    assert found == expected


def test_inventories_of_memory_pages_and_disk():
    share = ForeignShare(memory_mib=100, pages={2048: 5})
    topology = PAGED.shared_with(Foreign({0: share}, {0: share}, disk_here=3, disk_beside=4))
    root, first, _ = tree("h1", topology, Usage(), Disk(100))
    assert root.inventories == {"DISK_GB": Inventory(100, 4)}
    assert first.inventories["MEMORY_MB"] == Inventory(940, 100)
    assert first.inventories[page_class(2048)] == Inventory(30, 5)


@pytest.mark.parametrize("seed", range(60))
def test_placement_has_room_for_others_and_all_that_fits(seed):
    """No inventory grows for others, and each cell keeps room for what the planner may still give."""
    rng = random.Random(seed)
    topology = random_topology(rng)
    usage = random_usage(rng, topology)
    some = {one.id: {"PCPU": rng.randint(0, 2), "MEMORY_MB": rng.randint(0, 9)} for one in topology.cells}
    foreign = foreign_of(topology, usage, Others(some, nova((9, 9), VCPU=rng.randint(0, 3)).beside))
    before = {each.uuid: each for each in tree("h1", topology, usage)}
    shared = topology.shared_with(foreign)
    for each in tree("h1", shared, usage):
        if each.uuid == root_uuid("h1"):
            continue
        for name in ("PCPU", "MEMORY_MB"):
            now, then = (found.inventories.get(name, Inventory(0)) for found in (each, before[each.uuid]))
            assert (now.total, now.reserved >= 0) == (then.total, True)
    left = usage.free(shared)
    for one in topology.cells:
        provider = next(each for each in tree("h1", shared, usage) if each.uuid == cell_uuid("h1", one.id))
        room = max(0, left[one.id].memory_mib)
        assert provider.inventories.get("MEMORY_MB", Inventory(0)).capacity >= room
