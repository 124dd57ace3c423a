# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common.disk_pools import DiskPool
from zun.common.traits import HYPERTHREADING
from zun.placement.allocations import (
    allocations_of,
    cell_uuid,
    page_class,
    pool_uuid,
    resources_of,
    root_uuid,
    total_of,
)
from zun.placement.tree import NUMA_ROOT, SHARING, Disk, Inventory, in_pool, tree
from zun.tests.unit.topology.build import cell, demanding, flat_host, holding, host, smt_host, used
from zun.tests.unit.topology.hosts import device_case, random_request, random_topology, random_usage
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType

FLAT = flat_host([4, 4])
SMT = smt_host(2, 2)
EMPTY = Usage()


def inventories(topology, usage=EMPTY, cell_id=0, **options):
    made = {provider.uuid: provider for provider in tree("h1", topology, usage, **options)}
    return made[cell_uuid("h1", cell_id)].inventories


def test_root_and_cells():
    root, first, second = tree("h1", SMT, Usage(), Disk(100, 1.5, 10), traits=["HW_CPU_X86_AVX"], aggregates=["a"])
    assert (root.uuid, root.name, root.parent) == (root_uuid("h1"), "h1", None)
    assert (root.inventories, root.traits) == ({"DISK_GB": Inventory(100, 0, 1.5)}, frozenset())
    assert (first.name, second.name, {first.parent, second.parent}) == ("h1_NUMA_0", "h1_NUMA_1", {root.uuid})
    assert first.traits == {NUMA_ROOT, HYPERTHREADING, "HW_CPU_X86_AVX"}
    assert {root.aggregates, first.aggregates, second.aggregates} == {frozenset("a")}


def test_root_of_another_name():
    root, child, _ = tree("h1", FLAT, Usage(), name="h1_ZUN")
    assert (root.uuid, root.name, child.name) == (root_uuid("h1"), "h1_ZUN", "h1_NUMA_0")


def test_without_disk_the_root_has_nothing():
    assert tree("h1", FLAT, Usage())[0].inventories == {}


def test_devices_are_inventory_of_their_cells():
    """Function 2 has an unknown cell. A held virtual function rules out its physical one, and the other way round."""
    cards = [
        Device("0000:01:00.0", "15b3", "1017", cell=0, type=DeviceType.PF),
        *(Device(f"0000:01:00.{n}", "15b3", "1018", cell=0, physical="0000:01:00.0", resource_class="SRIOV_NET_VF")
          for n in (1, 2)),
        Device("0000:02:00.0", "10de", "2684", cell=None),
    ]  # fmt: skip
    topology = replace(FLAT, devices=tuple(cards))
    classes = "CUSTOM_PCI_15B3_1017", "SRIOV_NET_VF", "CUSTOM_PCI_10DE_2684"

    def told(usage):
        made = [each.inventories.get(name) for each in tree("h1", topology, usage)[:2] for name in classes]
        return [None if each is None else (each.total, each.reserved) for each in made]

    assert told(Usage()) == [None, None, (1, 0), (1, 0), (2, 0), None]
    request = DeviceRequest("vf", 1, (DeviceMatch(resource_class="SRIOV_NET_VF"),))
    given = plan(topology, Usage(), PlacementRequest(1, 64, devices=(request,)))
    assert told(Usage({"c": given})) == [None, None, (1, 0), (1, 1), (2, 0), None]
    assert resources_of(given)[0] == {"MEMORY_MB": 64, "PCPU": 1, "SRIOV_NET_VF": 1}
    gone = replace(topology, devices=())
    assert told(Usage({"c": given}))[4] == (2, 0)
    assert tree("h1", gone, Usage({"c": given}))[1].inventories["SRIOV_NET_VF"] == Inventory(1)
    gpu = plan(topology, Usage(), PlacementRequest(1, 64, devices=(
        DeviceRequest("gpu", 1, (DeviceMatch(vendor_id="10de"),)),)))  # fmt: skip
    assert allocations_of("h1", gpu, 7)[root_uuid("h1")] == {"CUSTOM_PCI_10DE_2684": 1, "DISK_GB": 7}


@pytest.mark.parametrize(("held", "expected"), [
    pytest.param((), [(1, 0), (2, 0)], id="nothing"),
    pytest.param(("0000:01:00.0",), [(1, 0), (2, 2)], id="the-gpu"),
    pytest.param(("0000:01:00.0/gi1/ci0",), [(1, 1), (2, 0)], id="a-part"),
])
def test_gpu_and_its_parts_are_not_both_free(held, expected):
    """The unit that is held is in the allocation of its holder, and is not reserved."""
    gpu = Device("0000:01:00.0", "10de", "2330", cell=0)
    parts = (replace(gpu, address=f"{gpu.address}/gi{n}/ci0", type=DeviceType.PART, physical=gpu.address,
                     resource_class="CUSTOM_MIG_1G_10GB") for n in (1, 2))  # fmt: skip
    topology = replace(FLAT, devices=(gpu, *parts))
    claimed = tuple(GivenDevice.of("x", topology.device_view.by_address[each]) for each in held)
    provider = tree("h1", topology, Usage({"c": Plan({}, devices=claimed)}))[1]
    found = [provider.inventories[name] for name in ("CUSTOM_PCI_10DE_2330", "CUSTOM_MIG_1G_10GB")]
    assert [(each.total, each.reserved) for each in found] == expected


@pytest.mark.parametrize(("holders", "shared", "total", "reserved"), [
    pytest.param(0, 4, 4, 0, id="free"),
    pytest.param(3, 4, 4, 0, id="some-held"),
    pytest.param(3, 6, 6, 0, id="more-shares-now"),
    pytest.param(3, 2, 3, 0, id="fewer-shares-than-holders"),
    pytest.param(1, 1, 1, 0, id="not-shared-any-more"),
])
def test_a_device_has_as_many_units_as_shares(holders, shared, total, reserved):
    """A claim takes one of them. Beside the virtual function no share is left for anybody."""
    card = Device("0000:01:00.0", "10de", "2684", cell=0, type=DeviceType.PF, resource_class="CUSTOM_SLICE", shared=4)
    part = Device("0000:01:00.1", "10de", "2685", cell=0, physical=card.address)
    claim = Plan({}, devices=(GivenDevice.of("slice", card),))
    usage = Usage({f"c{number}": claim for number in range(holders)})
    topology = replace(FLAT, devices=(replace(card, shared=shared), part))
    made = inventories(topology, usage)
    assert made["CUSTOM_SLICE"] == Inventory(total, reserved)
    assert made["CUSTOM_PCI_10DE_2685"] == Inventory(1, 1 if holders else 0)
    assert resources_of(claim) == {0: {"CUSTOM_SLICE": 1}}
    beside = Usage({"v": Plan({}, devices=(GivenDevice.of("part", part),))})
    assert inventories(topology, beside)["CUSTOM_SLICE"] == Inventory(shared, shared)


@given(st.integers(0, 2**32))
def test_inventories_of_held_devices(seed):
    """Whatever containers hold fits, and as many units are free as devices and shares are."""
    topology, usage, _ = device_case(random.Random(seed), sharing=0.5)
    held = total_of(claim for _, claim in usage)
    for place in {None, *(each.id for each in topology.cells)}:
        root, *cells = tree("h1", topology, usage)
        made = (root if place is None else next(each for each in cells if each.name.endswith(f"_{place}"))).inventories
        for name in {device.counted_as for device in topology.devices if device.cell == place}:
            free = [each for each in usage.free_devices(topology) if (each.cell, each.counted_as) == (place, name)]
            taken = held.get(place, {}).get(name, 0)
            assert 0 <= made[name].reserved <= made[name].total
            assert made[name].capacity == taken + sum(map(usage.shares_left, free))


@pytest.mark.parametrize(("held", "total"), [(0, 128), (128, 128), (140, 140)])
def test_pool_gives_the_disk_of_its_hosts(held, total):
    providers = tree("h1", FLAT, Usage(), Disk(100), aggregates=["a"])
    *own, pool = in_pool(providers, DiskPool("u", "ceph", 128), held)
    assert [each.inventories for each in own] == [{}, *(each.inventories for each in providers[1:])]
    assert (pool.uuid, pool.name, pool.parent) == (pool_uuid("u"), "DISK_POOL_u", None)
    assert (pool.inventories, pool.traits, pool.aggregates) == ({"DISK_GB": Inventory(total)}, {SHARING}, {"u"})


@pytest.mark.parametrize(
    ("topology", "usage", "expected"),
    [
        pytest.param(FLAT, Usage(), {"PCPU": (4, 0), "VCPU": (4, 0)}, id="empty"),
        pytest.param(FLAT, used(FLAT, "0-1"), {"PCPU": (4, 0), "VCPU": (2, 0)}, id="dedicated-leave-the-pool"),
        pytest.param(FLAT, used(FLAT, "0-3"), {"PCPU": (4, 0)}, id="no-pool-is-left-out"),
        pytest.param(
            FLAT, Usage({"s": demanding({0: 1.5})}), {"PCPU": (4, 2), "VCPU": (5, 0)}, id="shared-keep-a-floor"
        ),
        pytest.param(
            FLAT.configured(shared_set=CpuSet("0"), dedicated_set=CpuSet("1-3")), Usage(),
            {"PCPU": (3, 0), "VCPU": (1, 0)}, id="sets-are-disjoint",
        ),
        pytest.param(FLAT.configured(reserved_cpus=CpuSet("0")), Usage(), {"PCPU": (3, 0), "VCPU": (3, 0)}, id="kept"),
        pytest.param(
            FLAT.configured(dedicated_set=CpuSet("2-3"), shared_set=CpuSet("1")), used(FLAT, "0"),
            {"PCPU": (3, 0), "VCPU": (1, 0)}, id="held-outside-of-the-set",
        ),
    ],
)  # fmt: skip
def test_cpus_follow_the_pool(topology, usage, expected):
    made = inventories(topology, usage)
    assert {name: (each.total, each.reserved) for name, each in made.items() if "CPU" in name} == expected


def test_without_pinning_nothing_dedicated():
    assert "PCPU" not in inventories(FLAT, pinning=False)
    assert inventories(FLAT, used(FLAT, "0-1"), pinning=False)["PCPU"] == Inventory(2)


def test_memory_and_pages():
    topology = host(cell(0, "0 1", 1000, pages={2048: 100, 1048576: 0}))
    topology = topology.configured(reserved_memory_mib=50, ram_allocation_ratio=1.5)
    made = inventories(topology)
    assert made["MEMORY_MB"] == Inventory(800, 50, 1.5)
    assert made[page_class(2048)] == Inventory(100)
    assert page_class(1048576) not in made


def test_memory_only_cell():
    _, _, child = tree("h1", host(cell(0, "0"), cell(2, memory_mib=64)), Usage(), traits=["HW_CPU_X86_AVX"])
    assert (child.inventories, child.traits) == ({"MEMORY_MB": Inventory(64)}, {NUMA_ROOT})


def test_lost_cell_stays_while_it_is_held():
    lost = Plan({1: CellShare(CpuSet("4-5"), 100, pages={2048: 50})})
    made = tree("h1", flat_host([4]), Usage({"a": lost}))
    assert made[2].inventories == {"PCPU": Inventory(2), page_class(2048): Inventory(50)}
    assert len(tree("h1", flat_host([4]), Usage())) == 2


def test_smaller_than_held():
    made = inventories(flat_host([2], 100), Usage({"a": holding("0-3", FLAT, memory_mib=150)}))
    assert "PCPU" in made
    assert made["MEMORY_MB"] == Inventory(150)


@given(st.integers(0, 2**32))
def test_whatever_is_held_fits(seed):
    rng = random.Random(seed)
    topology = random_topology(rng)
    usage = random_usage(rng, topology)
    for cell_id, taken in total_of(claim for _, claim in usage).items():
        made = inventories(topology, usage, cell_id)
        for name, amount in taken.items():
            assert made[name].capacity >= amount, name


@given(st.integers(0, 2**32))
def test_inventories_are_what_placement_takes(seed):
    rng = random.Random(seed)
    topology = random_topology(rng)
    for provider in tree("h1", topology, random_usage(rng, topology), Disk(rng.randint(0, 9), 1.1, rng.randint(0, 20))):
        for each in provider.inventories.values():
            assert isinstance(each.total, int) and each.total > 0
            assert isinstance(each.reserved, int) and 0 <= each.reserved <= each.total


@given(st.integers(0, 2**32))
def test_a_plan_fits_the_inventories_before_it(seed):
    """Only for containers of grade ``thread``: higher grades withhold CPUs from other uses."""
    rng = random.Random(seed)
    topology = random_topology(rng)
    usage = random_usage(rng, topology)
    request = random_request(rng)
    answer = plan(topology, usage, request)
    if isinstance(answer, Refusal) or answer.isolation != "thread" or usage.with_pool(topology) is not topology:
        return
    held = total_of(claim for _, claim in usage)
    for cell_id, taken in resources_of(answer).items():
        made = inventories(topology, usage, cell_id)
        for name, amount in taken.items():
            assert made[name].capacity >= held.get(cell_id, {}).get(name, 0) + amount, name
