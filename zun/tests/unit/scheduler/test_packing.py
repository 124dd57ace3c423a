# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.scheduler.packing import (
    EMPTY,
    FAR,
    FULL,
    SHARES,
    USUAL_SHAPES,
    WORTHS,
    Cloud,
    Demand,
    Fullness,
    Held,
    Shape,
    capacity,
    kind_name,
    kind_of_request,
    rounded,
    shapes,
    usual,
)
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import holding, used_hosts
from zun.tests.unit.scheduler.packing_oracle import estimate, fitting, stranded
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device
from zun.topology.holes import Hole, holes
from zun.topology.host_topology import view_of

FOUR = PlacementRequest(4, 1024)


def wanting(*kinds, several=0.0, cpu=1.0, mib=0.0):
    """A demand for kinds of containers, all worth the same."""
    return Demand(tuple(Shape(*kind) for kind in kinds), (1 / len(kinds),) * len(kinds), several, cpu, mib)


def demand_of(held, request, cpus, mib, devices=0):
    """The demand if ``request`` comes to a cloud of this size that holds ``held``."""
    cloud = Cloud(cpus, mib, devices)
    return usual(held, kind_of_request(request), cloud, Fullness.of(held, cloud))


@proof(150)
@given(host=used_hosts(), cpus=st.integers(1, 6), mib=st.integers(0, 40))
def test_a_request_for_one_cell_fits_exactly_when_it_fits_a_hole(host, cpus, mib):
    fits = isinstance(plan(host.topology, host.usage, PlacementRequest(cpus, mib)), Plan)
    assert fits == any(Hole(cpus, mib).fits(hole) for hole in holes(host.topology, host.usage))


def test_shapes_count_dedicated_containers_and_no_shared_ones():
    topology = machine(memory_mib=65536)
    usage = holding(
        topology,
        PlacementRequest(1, 8),
        PlacementRequest(1, 8),
        PlacementRequest(2, 32, numa_nodes=2),
        PlacementRequest(2, 31, numa_nodes=2),
        PlacementRequest(1, 8, cpu_policy="shared"),
        Plan({1: CellShare(cpus=CpuSet("7"), memory_mib=4, pages={2048: 2})}),
    )
    assert shapes(usage) == {Shape(1, 1, 8): 2, Shape(2, 1, 16): 1, Shape(0, 2, 31): 1, Shape(1, 1, 0): 1}


@pytest.mark.parametrize(
    ("cpus", "power"),
    [
        pytest.param(24, FULL, id="full"),
        pytest.param(48, (EMPTY + FULL) / 2, id="half-full"),
        pytest.param(24 * 10**9, EMPTY, id="empty"),
        pytest.param(20, FULL, id="more-than-there-is"),
    ],
)
def test_what_is_usual(cpus, power):
    """1 CPU is held 8 times; 2 CPUs are held 4 times and asked now. Worth is the number times a power of the size."""
    held = Counter({Shape(1, 1, 0): 8, Shape(2, 2, 0): 4})
    demand = demand_of(Held(held), PlacementRequest(4, 0, numa_nodes=2), cpus, 100)
    small, large = 8.0, 5 * 4**power
    found = dict(zip(demand.shapes, demand.worths, strict=True))
    assert found == pytest.approx(
        {Shape(1, 1, 0): small / (small + large), Shape(2, 2, 0): large / (small + large)}, abs=1 / WORTHS
    )
    assert demand.several == pytest.approx(16 / 24, abs=1 / SHARES)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, 0), (8, 8), (9, 8), (10, 11.3), (13, 11.3), (14, 16), (100, 90.5), (3000, 2896.3)],
)
def test_a_count_is_rounded_to_half_powers_of_two(number, expected):
    assert rounded(number) == pytest.approx(expected, abs=0.1)


def test_only_the_commonest_kinds_count_and_the_request_is_one():
    held = Counter({Shape(1, 1, mib): 1 + mib for mib in range(100)})
    demand = demand_of(Held(held), PlacementRequest(2, 7), 1000, 10**9)
    assert [each.memory_mib for each in demand.shapes] == list(range(99, 99 - USUAL_SHAPES, -1))
    assert demand_of(Held(), PlacementRequest(2, 7), 8, 64).shapes == (Shape(1, 2, 7),)
    assert demand_of(Held(), PlacementRequest(2, 64, page_size="large"), 8, 64).shapes == (Shape(1, 2, 0),)
    assert demand_of(Held(), PlacementRequest(5, 9, numa_nodes=2), 8, 64).shapes == (Shape(0, 5, 9),)
    assert demand_of(Held(), PlacementRequest(2, 7), 0, 0).worths == (1.0,), "a cloud without hosts"


@pytest.mark.parametrize(
    ("held", "scarce"),
    [
        pytest.param({Shape(1, 8, 80): 1}, "neither", id="in-proportion"),
        pytest.param({Shape(1, 8, 10): 1}, "cpus", id="cpus-run-out-first"),
        pytest.param({Shape(1, 1, 80): 1}, "memory", id="memory-runs-out-first"),
        pytest.param({Shape(1, 1, 0): 1}, "cpus", id="no-memory-wanted"),
    ],
)
def test_what_runs_out_first_makes_a_host_full(held, scarce):
    """16 CPUs with 10 MiB each: a CPU and its memory count two together."""
    demand = demand_of(Held(held), PlacementRequest(1, 10 if scarce != "cpus" else 0), 16, 160)
    assert demand.cpu + 10 * demand.mib == pytest.approx(2)
    assert {"cpus": demand.cpu > 1.5, "memory": demand.cpu < 0.5, "neither": demand.cpu == pytest.approx(1)}[scarce]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param((1, 4, 0), 2 + 1 + 1, id="on-one-cell"),
        pytest.param((1, 4, 8), 1 + 1 + 0, id="memory-counts-like-cpus"),
        pytest.param((2, 4, 0), 2, id="on-two-cells"),
        pytest.param((2, 8, 0), 0, id="one-cell-is-not-two"),
        pytest.param((2, 1, 0), (9 + 7 + 4) // 2, id="many-small-pairs"),
        pytest.param((3, 4, 0), 1, id="on-three-cells"),
        pytest.param((0, 10, 0), 2, id="wherever"),
        pytest.param((0, 10, 15), 1, id="wherever-with-memory"),
    ],
)
def test_how_many_fit(shape, expected):
    assert fitting(Shape(*shape), [Hole(9, 9), Hole(7, 15), Hole(4, 5)]) == expected


def test_a_kind_on_two_cells_cannot_have_both_parts_on_one():
    assert fitting(Shape(2, 1, 0), [Hole(9, 0), Hole(2, 0)]) == 2
    assert fitting(Shape(2, 1, 0), []) == 0


@pytest.mark.parametrize(
    ("hole", "expected"),
    [
        pytest.param((8, 9), 1, id="breaks-the-last-place-for-eight"),
        pytest.param((7, 9), 0, id="takes-what-serves-nobody"),
        pytest.param((16, 9), 1, id="leaves-one-place-of-two"),
        pytest.param((15, 9), 0, id="leaves-the-only-place"),
    ],
)
def test_the_loss_is_what_no_longer_fits(hole, expected):
    lost = loss(machine(), [hole, (0, 0)], PlacementRequest(1, 0), (1, 8, 0))
    assert lost == pytest.approx(expected, abs=0.3)
    assert lost > expected, "of equal losses the fuller host has the smaller one"


def test_a_broken_pair_is_a_loss():
    one = PlacementRequest(1, 0)
    assert loss(machine(), [(4, 9), (4, 9)], one, (2, 4, 0)) > 1 > loss(machine(), [(4, 9), (3, 9)], one, (2, 4, 0))
    assert loss(machine(), [(4, 9), (4, 9)], one, (0, 8, 0)) > 1 > loss(machine(), [(4, 9), (3, 9)], one, (0, 8, 0))


@pytest.mark.parametrize(
    ("free", "request_", "expected"),
    [
        pytest.param([(3, 4096), (3, 4096)], FOUR, False, id="in-pieces"),
        pytest.param([(3, 4096), (4, 1024)], FOUR, True, id="exactly"),
        pytest.param([(4, 1023), (3, 4096)], FOUR, False, id="cpus-and-memory-apart"),
        pytest.param([(3, 4096), (3, 4096)], replace(FOUR, numa_affinity="prefer"), True, id="in-pieces-if-need-be"),
        pytest.param([(2, 4096), (1, 4096)], replace(FOUR, numa_affinity="prefer"), False, id="too-few-in-all"),
        pytest.param([(2, 4096), (2, 512)], replace(FOUR, numa_nodes=2), True, id="two-parts"),
        pytest.param([(4, 4096), (1, 512)], replace(FOUR, numa_nodes=2), False, id="two-parts-on-one-cell"),
    ],
)
def test_no_loss_without_room(free, request_, expected):
    free = [Hole(*each) for each in free]
    found = stranded(machine(), free, request_, demand_of(Held(), request_, 8, 8192))
    assert (found is not None) == expected


def loss(topology, free, request, *kinds):
    return stranded(topology, [Hole(*each) for each in free], request, wanting(*kinds or ((1, 9, 0),)))


def test_of_equals_the_fuller_host_is_taken():
    one = PlacementRequest(1, 0)
    assert loss(machine(), [(1, 9), (4, 9)], one) < loss(machine(), [(2, 9), (4, 9)], one)
    assert loss(machine(), [(1, 9), (3, 9)], one) < loss(machine(), [(1, 9), (4, 9)], one)


def test_of_empty_hosts_the_one_of_smaller_cells_is_taken():
    """The number of hosts does not matter: only large cells can serve a request that needs one."""
    one, nothing = PlacementRequest(1, 0), (1, 99, 0)
    large, small = (
        HostTopology(tuple(NUMACell(cell, CpuSet(range(8 * cell, 8 * cell + cpus))) for cell in range(count)))
        for count, cpus in ((2, 6), (4, 4))
    )
    assert loss(small, [(4, 0)] * 4, one, nothing) < loss(large, [(6, 0)] * 2, one, nothing)
    assert loss(small, [(4, 0)] * 3 + [(3, 0)], one, nothing) < loss(small, [(4, 0)] * 4, one, nothing)


def test_what_takes_more_pays_more_for_what_is_free_beside_it():
    """Nothing of what is usual is lost, so this is the price of the holes alone."""
    nothing = (1, 99, 0)
    one, three = (loss(machine(), [(4, 9), (4, 9)], PlacementRequest(cpus, 0), nothing) for cpus in (1, 3))
    assert three == pytest.approx(3 * one)


def test_capacity_is_what_an_empty_host_gives():
    assert capacity(machine().configured(reserved_cpus=CpuSet("0"), reserved_memory_mib={0: 100})) == (7, 8092)


@pytest.mark.parametrize(
    ("held", "cpus", "mib", "expected"),
    [
        pytest.param([], 6, 3000, {0: (4, 2000), 1: (2, 1000)}, id="memory-beside-its-cpus"),
        pytest.param([(2, 3096)], 6, 3000, {0: (2, 1000), 1: (4, 2000)}, id="the-fuller-cell-gives-less"),
        pytest.param([(2, 3996)], 6, 3000, {0: (2, 100), 1: (4, 2900)}, id="as-far-as-it-goes"),
        pytest.param([(3, 96)], 5, 8000, {0: (1, 3904), 1: (4, 4096)}, id="and-where-there-is-any"),
    ],
)
def test_over_several_cells_it_is_known_what_each_will_give(held, cpus, mib, expected):
    topology, request = machine(), PlacementRequest(cpus, mib, numa_affinity="prefer")
    usage = holding(topology, *(PlacementRequest(*each) for each in held))
    found = estimate(view_of(topology).distances, holes(topology, usage), request)
    assert {cell: tuple(part) for cell, part in found} == expected
    answer = plan(topology, usage, request)
    assert {cell: (len(share.cpus), share.memory_mib) for cell, share in answer.cells.items()} == expected


def test_near_cells_go_before_far_ones():
    cells = [
        NUMACell(
            id=cell,
            cpus=CpuSet(range(4 * cell, 4 * cell + 4)),
            memory_mib=9,
            distances={other: 10 if other == cell else 12 if other // 2 == cell // 2 else 32 for other in range(4)},
        )
        for cell in range(4)
    ]
    topology, pair = HostTopology(tuple(cells)), PlacementRequest(4, 0, numa_nodes=2)
    near = loss(topology, [(2, 9), (2, 9), (0, 9), (0, 9)], pair)
    far = loss(topology, [(2, 9), (0, 9), (2, 9), (0, 9)], pair)
    assert far - near == pytest.approx(4 * FAR * 2 * (32 - 12))
    spread = replace(pair, numa_nodes=1, numa_affinity="prefer")
    assert loss(topology, [(4, 9), (0, 9), (0, 9), (0, 9)], spread) < loss(topology, [(2, 9), (2, 9), (0, 9)], spread)


@proof(100)
@given(host=used_hosts(), cpus=st.integers(1, 4), nodes=st.sampled_from((1, 2)), mib=st.integers(0, 20))
def test_host_that_fits_a_request_is_never_said_to_lack_room(host, cpus, nodes, mib):
    for affinity in ("require", "prefer", "none"):
        request = PlacementRequest(max(cpus, nodes), mib, numa_nodes=nodes, numa_affinity=affinity)
        if isinstance(plan(host.topology, host.usage, request), Plan):
            free = holes(host.topology, host.usage)
            demand = demand_of(Held(shapes(host.usage)), request, 8, 64)
            assert stranded(host.topology, free, request, demand) is not None


def test_devices_of_a_container_belong_to_its_kind():
    gpu, nic = (Device(f"0000:0{n}:00.0", vendor_id=vendor, cell=0) for n, vendor in enumerate(("10de", "15b3")))
    given = tuple(GivenDevice("any", address) for address in (gpu.address, nic.address, "0000:99:00.0"))
    usage = Usage().with_claim("a", Plan({0: CellShare(CpuSet("0"), 8)}, devices=given))
    kinds = tuple(sorted([(kind_name(gpu), 1), (kind_name(nic), 1)]))
    assert shapes(usage, {each.address: each for each in (gpu, nic)}) == {Shape(1, 1, 8, kinds): 1}
    assert shapes(usage) == {Shape(1, 1, 8): 1}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param({"gpu": 5}, 2, id="devices-limit"),
        pytest.param({"gpu": 99}, 4, id="cpus-limit"),
        pytest.param({"nic": 9}, 0, id="another-kind"),
    ],
)
def test_containers_with_devices_that_fit(devices, expected):
    for cells, cpus in ((1, 4), (0, 4), (2, 2)):
        shape = Shape(cells, cpus, 0, (("gpu", 2),))
        assert fitting(shape, [Hole(8, 0), Hole(8, 0)], devices) == expected


@pytest.mark.parametrize("held", [1, 4, 8])
def test_held_devices_leave_the_price_of_cpus_and_memory(held):
    """Eight GPUs among 640 CPUs: if all are held, they are far scarcer than CPUs and memory."""
    with_gpu, without = Counter({Shape(1, 8, 8, (("gpu", 1),)): held}), Counter({Shape(1, 8, 8): held})
    found = demand_of(Held(with_gpu), PlacementRequest(1, 1), 640, 640, 8)
    expected = demand_of(Held(without), PlacementRequest(1, 1), 640, 640)
    assert (found.cpu, found.mib) == (expected.cpu, expected.mib)


def test_an_empty_usage_has_no_shapes():
    assert shapes(Usage()) == Counter()
