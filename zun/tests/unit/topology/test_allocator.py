# SPDX-License-Identifier: Apache-2.0
"""The rules of ``plan`` one by one, as whole values."""

from __future__ import annotations

import pytest

from zun.tests.unit.topology.build import cell, demanding, flat_host, holding, host, smt_host, used
from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Refusal, Usage, plan

# Two cells of four cores, siblings as x86 numbers them.
X86 = host(
    cell(0, "0,8 1,9 2,10 3,11", distances={0: 10, 1: 21}), cell(1, "4,12 5,13 6,14 7,15", distances={0: 21, 1: 10})
)


def given(answer: Plan | Refusal) -> dict[int, str] | str:
    """CPUs by cell of an answer, or the code of a refusal."""
    if isinstance(answer, Refusal):
        return str(answer.code)
    return {cell_id: str(share.cpus) for cell_id, share in answer.cells.items()}


@pytest.mark.parametrize(("cpus", "policy", "held", "expected", "withheld"), [
    pytest.param(2, "prefer", "", {0: "0,8"}, "", id="siblings-together"),
    pytest.param(3, "prefer", "", {0: "0-1,8"}, "", id="odd-count-breaks-one-core"),
    pytest.param(1, "prefer", "8", {0: "0"}, "", id="the-broken-core-first"),
    pytest.param(2, "prefer", "8", {0: "1,9"}, "", id="a-whole-core-before-two-broken-ones"),
    pytest.param(3, "prefer", "8", {0: "0-1,9"}, "", id="whole-core-and-the-broken-one"),
    pytest.param(8, "prefer", "", {0: "0-3,8-11"}, "", id="a-whole-cell"),
    pytest.param(9, "prefer", "", "cpus", "", id="never-over-two-cells-unasked"),
    pytest.param(2, "prefer", "0-1,8-9", {0: "2,10"}, "", id="fill-the-cell-already-used"),
    pytest.param(4, "isolate", "", {0: "0-3"}, "8-11", id="isolate-keeps-siblings-idle"),
    pytest.param(4, "isolate", "8", {1: "4-7"}, "12-15", id="isolate-not-on-a-broken-core"),
    pytest.param(5, "isolate", "", "cores", "", id="isolate-one-cpu-a-core"),
    pytest.param(4, "isolate", "8,12", "cores", "", id="isolate-no-cell-has-four-whole-cores"),
    pytest.param(2, "require", "", {0: "0,8"}, "", id="require-whole-cores"),
    pytest.param(3, "require", "", {0: "0-1,8"}, "9", id="require-odd-count-keeps-the-last-thread-idle"),
    pytest.param(2, "require", "0-3,4-7", "cores", "", id="require-not-from-broken-cores"),
])
def test_one_cell(cpus, policy, held, expected, withheld):
    answer = plan(X86, used(X86, held), PlacementRequest(cpus, 100, thread_policy=policy))
    assert given(answer) == expected
    if isinstance(answer, Plan):
        assert str(answer.withheld) == withheld


@pytest.mark.parametrize(("policy", "expected", "withheld"), [
    ("prefer", {0: "0-2"}, ""),
    ("isolate", {0: "0-2"}, ""),
    ("require", "no-smt", ""),
])
def test_without_smt_isolate_is_distinct_cores(policy, expected, withheld):
    answer = plan(flat_host([4]), Usage(), PlacementRequest(3, 10, thread_policy=policy))
    assert given(answer) == expected
    if isinstance(answer, Plan):
        assert str(answer.withheld) == withheld


@pytest.mark.parametrize(("cpus", "policy", "expected", "withheld"), [
    pytest.param(4, "prefer", {0: "0-3"}, "", id="a-core-of-four"),
    pytest.param(6, "prefer", {0: "0-5"}, "", id="one-core-and-half-of-the-next"),
    pytest.param(2, "isolate", {0: "0,4"}, "1-3,5-7", id="isolate-keeps-three-of-four-idle"),
    pytest.param(5, "require", {0: "0-4"}, "5-7", id="require-two-whole-cores"),
])
def test_four_threads_a_core(cpus, policy, expected, withheld):
    answer = plan(smt_host(1, 2, 4), Usage(), PlacementRequest(cpus, 10, thread_policy=policy))
    assert (given(answer), str(answer.withheld)) == (expected, withheld)


@pytest.mark.parametrize(("cpus", "policy", "expected", "withheld"), [
    pytest.param(2, "isolate", {0: "4-5"}, "", id="isolate-takes-cores-that-have-no-sibling-first"),
    pytest.param(3, "isolate", {0: "0,4-5"}, "1", id="then-a-core-with-a-sibling"),
    pytest.param(4, "require", {0: "0-3"}, "", id="require-has-no-use-for-single-threads"),
    pytest.param(5, "prefer", {0: "0-4"}, "", id="prefer-takes-pairs-first"),
    pytest.param(6, "require", "cores", "", id="require-finds-four-threads-on-paired-cores"),
])
def test_cores_with_one_and_with_two_threads(cpus, policy, expected, withheld):
    answer = plan(host(cell(0, "0,1 2,3 4 5")), Usage(), PlacementRequest(cpus, 10, thread_policy=policy))
    assert given(answer) == expected
    if isinstance(answer, Plan):
        assert str(answer.withheld) == withheld


@pytest.mark.parametrize(("cpus", "held", "expected"), [
    pytest.param(2, "", {0: "0-1"}, id="inside-one-cache"),
    pytest.param(4, "0", {0: "4-7"}, id="a-cache-that-has-them-all"),
    pytest.param(3, "0", {0: "1-3"}, id="the-cache-already-used"),
    pytest.param(5, "", {0: "0-4"}, id="two-caches-when-one-is-too-small"),
    pytest.param(6, "0-1,4", {0: "2-3,8-11"}, id="the-two-caches-of-which-least-is-left"),
])
def test_l3_groups(cpus, held, expected):
    topology = host(cell(0, "0 1 2 3 4 5 6 7 8 9 10 11", l3="0-3 4-7 8-11"))
    assert given(plan(topology, used(topology, held), PlacementRequest(cpus, 10))) == expected


@pytest.mark.parametrize(("free", "wanted", "expected"), [
    pytest.param([8, 3, 2], [1, 3, 4], {0: 4, 1: 3, 2: 1}, id="fits-in-one-order-only"),
    pytest.param([4, 4, 2, 0], [2, 2, 5], "cpus", id="no-cell-for-the-five"),
    pytest.param([6, 2, 1], [1, 5], {0: 5, 2: 1}, id="five-on-the-large-cell"),
    pytest.param([6, 2, 0], [1, 5], {0: 5, 1: 1}, id="one-on-the-only-other-cell"),
    pytest.param([3, 3], [2, 4], "cpus", id="each-part-in-one-cell"),
])
def test_unequal_parts(free, wanted, expected):
    """Hosts on which Nova, which tries cells in their order, refuses what fits or grants what does not."""
    topology = flat_host(free)
    answer = plan(topology, Usage(), PlacementRequest(sum(wanted), 100, numa_cpus=wanted))
    if isinstance(expected, str):
        assert given(answer) == expected
        return
    assert {cell_id: len(share.cpus) for cell_id, share in answer.cells.items()} == expected
    assert all(share.cpus <= topology.cell(cell_id).cpus for cell_id, share in answer.cells.items())


def test_unequal_memory_goes_with_its_cpus():
    topology = host(cell(0, "0 1 2 3", 100), cell(5, "4 5 6 7", 900))
    answer = plan(topology, Usage(), PlacementRequest(4, 800, numa_cpus=[3, 1], numa_mem=[750, 50]))
    assert {c: (len(share.cpus), share.memory_mib) for c, share in answer.cells.items()} == {0: (1, 50), 5: (3, 750)}


@pytest.mark.parametrize(("affinity", "nodes", "cpus", "expected"), [
    pytest.param("require", 2, 4, {0: "0,8", 1: "4,12"}, id="require-is-exact"),
    pytest.param("require", 3, 6, "too-few-cells", id="more-cells-than-there-are"),
    pytest.param("prefer", 2, 4, {0: "0,8", 1: "4,12"}, id="prefer-has-its-shape-if-it-fits"),
    pytest.param("prefer", 3, 6, {0: "0-2,8-10"}, id="else-as-few-cells-as-possible"),
    pytest.param("prefer", 1, 10, {0: "0-3,8-11", 1: "4,12"}, id="all-of-one-cell-and-the-rest"),
    pytest.param("none", 2, 4, {0: "0-1,8-9"}, id="none-is-best-by-the-key"),
    pytest.param("none", 1, 17, "cpus", id="not-more-than-there-is"),
])
def test_affinity(affinity, nodes, cpus, expected):
    request = PlacementRequest(cpus, 100, numa_nodes=nodes, numa_affinity=affinity)
    assert given(plan(X86, Usage(), request)) == expected


@pytest.mark.parametrize(("held", "cpus", "expected"), [
    ("", 2, "4-5"),  # an L3 group of its own, where cell 0 would be left with half of one
    ("0,4", 1, "5"),  # likewise, of two broken cores
    ("4-7", 2, "0-1"),
])
def test_of_cells_with_as_many_cpus_those_give_that_give_best(held, cpus, expected):
    """Memory needs both cells, either has the CPUs."""
    topology = host(cell(0, "0-1 2-3", 500), cell(1, "4-5 6-7", 500, l3="4-5 6-7"))
    usage = used(topology, held, memory_mib=0) if held else Usage()
    answer = plan(topology, usage, PlacementRequest(cpus, 1000, numa_affinity="none"))
    assert (answer.cpus, answer.memory_mib) == (CpuSet(expected), 1000)
    assert [share.memory_mib for share in answer.cells.values()] == [500, 500]


def test_cells_that_are_equal_as_a_whole_only():
    topology = host(cell(0, "0 1 2 3", l3="0-1 2-3"), cell(1, "4 5 6 7", l3="4-6 7"))
    answers = [plan(topology, Usage(), PlacementRequest(cpus, 10, numa_affinity="none")) for cpus in (3, 4)]
    assert [given(answer) for answer in answers] == [{1: "4-6"}, {0: "0-3"}]


def test_memory_over_cells_follows_the_cpus():
    answer = plan(X86, Usage(), PlacementRequest(10, 1000, numa_affinity="prefer"))
    assert {c: share.memory_mib for c, share in answer.cells.items()} == {0: 800, 1: 200}
    assert answer.mems == CpuSet("0-1")


@pytest.mark.parametrize(("memory", "expected"), [
    pytest.param(1000, {0: 1000}, id="its-own-memory-is-enough"),
    pytest.param(1400, {0: 1000, 7: 400}, id="then-the-attached-node"),
    pytest.param(1700, {0: 1000, 7: 500, 9: 200}, id="nearest-attached-node-first"),
    pytest.param(2001, "memory", id="not-the-other-cell"),
])
def test_memory_only_nodes_serve_their_nearest_cell(memory, expected):
    topology = host(
        cell(0, "0 1", distances={0: 10, 1: 20, 7: 17, 9: 25}),
        cell(1, "2 3", distances={0: 20, 1: 10, 7: 28, 9: 30}),
        cell(7, memory_mib=500, distances={0: 17, 1: 28, 7: 10, 9: 20}),
        cell(9, memory_mib=500, distances={0: 25, 1: 30, 7: 20, 9: 10}),
    )
    answer = plan(topology, Usage(), PlacementRequest(2, memory))
    if isinstance(answer, Refusal):
        assert answer.code == expected
        return
    assert {node: share.memory_mib for node, share in answer.cells.items()} == expected
    assert answer.mems == CpuSet(expected)
    assert answer.cpus == CpuSet("0-1")


def test_cell_with_the_memory_precedes_one_that_must_borrow():
    topology = host(cell(0, "0 1", 100), cell(1, "2 3 4 5", 1000), cell(2, memory_mib=1000))
    assert given(plan(topology, Usage(), PlacementRequest(2, 500))) == {1: "2-3"}


def test_firmware_names_the_cell_of_a_memory_only_node():
    """All distances are equal here, so without it the node would be attached to cell 0."""
    far = {0: 20, 1: 20, 2: 20}
    node = cell(2, memory_mib=500, distances={**far, 2: 10})
    attached = type(node)(node.id, memory_mib=500, distances=node.distances, initiators=CpuSet("1"))
    topology = host(cell(0, "0", 100, distances={**far, 0: 10}), cell(1, "1", 100, distances={**far, 1: 10}), attached)
    assert given(plan(topology, Usage(), PlacementRequest(1, 300))) == {1: "1", 2: ""}


def test_preferred_memory_spills_to_the_nearest_node():
    topology = host(
        cell(0, "0", 100, distances={0: 10, 1: 31, 2: 21}),
        cell(1, "1", 100, distances={0: 31, 1: 10, 2: 21}),
        cell(2, "2", 100, distances={0: 21, 1: 21, 2: 10}),
    )
    request = PlacementRequest(1, 250, mempolicy="preferred")
    for usage, expected in (
        (Usage(), {2: ("2", 100), 0: ("", 100), 1: ("", 50)}),
        (used(topology, "2"), {0: ("0", 100), 2: ("", 100), 1: ("", 50)}),
    ):
        answer = plan(topology, usage, request)
        assert {node: (str(share.cpus), share.memory_mib) for node, share in answer.cells.items()} == expected
    assert given(plan(topology, Usage(), PlacementRequest(1, 301, mempolicy="preferred"))) == "memory"
    assert given(plan(topology, Usage(), PlacementRequest(1, 101))) == "memory"


PAGED = host(
    cell(0, "0 1", 5000, pages={2048: 512, 1048576: 1}), cell(1, "2 3", 5000, pages={2048: 1024}), cell(2, "4 5", 5000)
)


@pytest.mark.parametrize(("page_size", "memory", "expected"), [
    pytest.param(None, 2952, {0: {}}, id="ordinary-pages-beside-the-pools"),
    pytest.param("small", 2953, {2: {}}, id="pools-are-not-ordinary-memory"),
    pytest.param(4, 2952, {0: {}}, id="the-size-of-ordinary-pages"),
    pytest.param(2048, 1024, {0: {2048: 512}}, id="by-size"),
    pytest.param(2048, 1025, {1: {2048: 513}}, id="rounded-up-to-whole-pages"),
    pytest.param("large", 1024, {0: {1048576: 1}}, id="large-is-the-largest-that-serves"),
    pytest.param("large", 1500, {1: {2048: 750}}, id="large-in-smaller-huge-pages"),
    pytest.param("large", 2049, "pages", id="large-is-never-small"),
    pytest.param("any", 2049, {0: {}}, id="any-may-be-small"),
    pytest.param(65536, 10, "page-size", id="the-host-has-none-of-that-size"),
])
def test_huge_pages(page_size, memory, expected):
    answer = plan(PAGED, Usage(), PlacementRequest(1, memory, page_size=page_size))
    if isinstance(answer, Refusal):
        assert answer.code == expected
        return
    assert {node: dict(share.pages) for node, share in answer.cells.items()} == expected
    assert answer.memory_mib == memory


@pytest.mark.parametrize("affinity", ["prefer", "none"])
@pytest.mark.parametrize(("page_size", "paged"), [("any", [False]), ("large", [True, True])])
def test_fewer_cells_go_before_larger_pages(affinity, page_size, paged):
    answer = plan(PAGED, Usage(), PlacementRequest(2, 2500, page_size=page_size, numa_affinity=affinity))
    assert [bool(share.pages) for share in answer.cells.values()] == paged


def test_pages_that_are_held_are_gone():
    first = plan(PAGED, Usage(), PlacementRequest(1, 2000, page_size=2048))
    usage = Usage().with_claim("a", first)
    assert usage.free(PAGED)[1].pages == {2048: 24}
    assert usage.free(PAGED)[1].memory_mib == 2952, "memory in huge pages is not booked twice"
    assert given(plan(PAGED, usage, PlacementRequest(1, 1025, page_size=2048))) == "pages"


@pytest.mark.parametrize(("settings", "dedicated", "pool"), [
    pytest.param({}, "0-15", "0-15", id="everything-is-for-both"),
    pytest.param({"reserved_cpus": CpuSet("0,8")}, "1-7,9-15", "1-7,9-15", id="reserved-for-nobody"),
    pytest.param({"shared_set": CpuSet("0-3")}, "4-15", "0-3", id="what-is-shared-is-not-dedicated"),
    pytest.param({"dedicated_set": CpuSet("4-7")}, "4-7", "0-15", id="unused-dedicated-cpus-are-shared"),
    pytest.param(
        {"dedicated_set": CpuSet("4-7"), "shared_set": CpuSet("0-3"), "reserved_cpus": CpuSet("4")},
        "5-7", "0-3", id="both-configured",
    ),
    pytest.param({"dedicated_set": CpuSet("40-50")}, "", "0-15", id="cpus-that-are-not-there"),
])
def test_operator_sets(settings, dedicated, pool):
    topology = X86.configured(**settings)
    assert (str(topology.dedicated_cpus), str(topology.pool_cpus)) == (dedicated, pool)
    assert str(Usage().shared_pool(topology)) == pool
    assert topology.without_shared_set().dedicated_cpus == topology.dedicated_cpus
    answer = plan(topology, Usage(), PlacementRequest(1, 10))
    assert answer.cpus <= CpuSet(dedicated) if dedicated else answer.code == "no-cpus"


@pytest.mark.parametrize("settings", [
    pytest.param({}, id="as-discovered"),
    pytest.param({"dedicated_set": CpuSet("0-15")}, id="named-by-the-operator"),
])
def test_isolated_cpus_only_for_who_asks(settings):
    """The kernel does not balance on them, so they are no place for a container that did not ask."""
    topology = HostTopology(X86.cells, isolated=CpuSet("0-3,8-11")).configured(**settings)
    assert given(plan(topology, Usage(), PlacementRequest(2, 10))) == {1: "4,12"}
    assert given(plan(topology, Usage(), PlacementRequest(2, 10, isolation="isolated"))) == {0: "0,8"}
    assert given(plan(topology, Usage(), PlacementRequest(9, 10))) == "cpus"
    assert given(plan(topology, Usage(), PlacementRequest(9, 10, isolation="isolated"))) == "cpus"
    assert Usage().shared_pool(topology) == CpuSet("4-7,12-15")


def test_isolated_wants_cpus_that_the_kernel_isolates():
    assert given(plan(X86, Usage(), PlacementRequest(1, 10, isolation="isolated"))) == "no-cpus"
    elsewhere = HostTopology(X86.cells, isolated=CpuSet("0-3")).configured(dedicated_set=CpuSet("4-15"))
    assert given(plan(elsewhere, Usage(), PlacementRequest(1, 10, isolation="isolated"))) == "no-cpus"


@pytest.mark.parametrize("cores", ["0 1,5 2,6", "0,4 1,5 2,6", "0,4,8 1,5 2,6"])
@pytest.mark.parametrize(("policy", "wanted"), [("isolate", 3), ("require", 5)])
def test_a_core_with_threads_outside_our_limits_is_never_whole(cores, policy, wanted):
    topology = host(cell(0, cores), exposed=CpuSet("0"))
    answer = plan(topology, Usage(), PlacementRequest(wanted, 10, thread_policy=policy))
    assert given(answer) == "cores"
    assert isinstance(plan(topology, Usage(), PlacementRequest(wanted - 1, 10, thread_policy=policy)), Plan)
    every = PlacementRequest(len(topology.cpus), 10)
    assert given(plan(topology, Usage(), every)) == {0: str(topology.cpus)}


def test_of_equally_good_mixes_of_cores_the_lowest_ids():
    """3 + 3 threads and 4 + 2 threads both fill two cores."""
    topology = host(cell(0, "0,1,2 3,4,5 6,7,8,9 10,11"))
    assert given(plan(topology, Usage(), PlacementRequest(6, 10))) == {0: "0-5"}
    assert given(plan(topology, used(topology, "0"), PlacementRequest(6, 10))) == {0: "1-2,6-9"}


@pytest.mark.parametrize(("cores", "others", "apart", "demand", "request_", "expected"), [
    pytest.param("0 1 2 3", "4 5 6 7 8", "3", 2.0, PlacementRequest(2, 10), {0: "0,3"}, id="prefer"),
    pytest.param("0,1 2,3 4,5", "6,7 8,9 10,11 12,13", "4-5", 2.0,
                 PlacementRequest(2, 10, thread_policy="isolate"), {0: "0,4"}, id="isolate"),
    pytest.param("0,1 2,3 4,5", "6,7 8,9 10,11 12,13", "4-5", 2.0,
                 PlacementRequest(4, 10, thread_policy="require"), {0: "0-1,4-5"}, id="require"),
])
def test_cpus_the_pool_does_not_miss_when_it_can_give_no_more(cores, others, apart, demand, request_, expected):
    """CPUs outside of the operator's shared set starve nobody when they are taken; the tighter cell still wins."""
    topology = host(cell(0, cores), cell(1, others))
    topology = topology.configured(dedicated_set=topology.cpus, shared_set=topology.cpus - CpuSet(apart))
    usage = Usage().with_claim("s", demanding({0: demand}))
    assert given(plan(topology, usage, request_)) == expected


@pytest.mark.parametrize(("cpus", "expected"), [
    (1, {0: "5"}), (2, {0: "0-1"}), (3, {0: "3-5"}), (4, {0: "0-1,3-4"}), (5, {0: "0-1,3-5"}), (6, "shared-floor"),
])
def test_single_thread_kept_by_the_pool_is_in_no_l3_group(cpus, expected):
    topology = host(cell(0, "0,1 2 3,4 5", l3="0-2 3-5"))
    topology = topology.configured(dedicated_set=topology.cpus, shared_set=CpuSet("2"))
    usage = Usage().with_claim("s", demanding({0: 1.0}))
    assert given(plan(topology, usage, PlacementRequest(cpus, 10))) == expected


def test_memory_beside_a_pool_that_promised_more_than_it_has():
    """Its CPUs went offline, or the ratio is a lower one by now: it gives memory to who has CPUs elsewhere."""
    topology = host(cell(0, "0 1"), cell(1, "2"))
    usage = Usage().with_claim("before", demanding({1: 1.6}))
    answer = plan(topology, usage, PlacementRequest(1.5, 1600, cpu_policy="shared"))
    assert isinstance(answer, Plan)
    assert {node: share.shared for node, share in answer.cells.items()} == {0: 1.5, 1: 0}
    assert sum(share.memory_mib for share in answer.cells.values()) == 1600
    assert usage.fits(topology, answer) is None


@pytest.mark.parametrize(("reserved", "expected"), [
    (100, {0: 50, 1: 50}), (2000, {0: 1000, 1: 1000}), ({1: 30}, {1: 30}), (0, {}),
])
def test_reserved_memory(reserved, expected):
    topology = X86.configured(reserved_memory_mib=reserved)
    assert topology.reserved_memory_mib == expected
    assert {c: free.memory_mib for c, free in Usage().free(topology).items()} == {
        c: 1000 - expected.get(c, 0) for c in (0, 1)
    }


@pytest.mark.parametrize(("demand", "ratio", "cpus", "expected"), [
    pytest.param({}, 1.0, 8, {0: "0-3,8-11"}, id="nobody-needs-the-pool"),
    pytest.param({0: 2.0}, 1.0, 6, {0: "0-2,8-10"}, id="two-cpus-stay"),
    pytest.param({0: 2.0}, 1.0, 7, {1: "4-7,12-14"}, id="else-another-cell"),
    pytest.param({0: 2.0, 1: 2.0}, 1.0, 7, "shared-floor", id="else-refused"),
    pytest.param({0: 2.0, 1: 2.0}, 2.0, 7, {0: "0-3,8-10"}, id="by-the-allocation-ratio"),
    pytest.param({0: 2.1, 1: 2.1}, 2.0, 7, "shared-floor", id="rounded-up"),
    pytest.param({0: 0.0, 1: 0.0}, 4.0, 8, "shared-floor", id="one-cpu-stays-even-for-no-demand"),
    pytest.param({0: 0.3, 1: 0.3}, 0.1, 5, {0: "0-2,8-9"}, id="ratios-are-exact"),
])
def test_floor_of_the_shared_pool(demand, ratio, cpus, expected):
    topology = X86.configured(cpu_allocation_ratio=ratio)
    usage = Usage().with_claim("s", demanding(demand)) if demand else Usage()
    assert given(plan(topology, usage, PlacementRequest(cpus, 10))) == expected


def test_withheld_siblings_count_against_the_floor():
    usage = Usage().with_claim("s", demanding({0: 2.0, 1: 2.0}))
    request = PlacementRequest(4, 10, thread_policy="isolate")
    answer = plan(X86, usage, request)
    assert given(answer) == "shared-floor"
    assert answer.nearest == PlacementRequest(3, 10, thread_policy="isolate")


def test_a_separate_shared_set_needs_no_floor():
    topology = X86.configured(shared_set=CpuSet("0,8"))
    usage = Usage().with_claim("s", demanding({0: 2.0}))
    assert given(plan(topology, usage, PlacementRequest(6, 10))) == {0: "1-3,9-11"}


@pytest.mark.parametrize(("cpus", "memory", "demand", "expected"), [
    pytest.param(1.5, 300, {}, {0: ("0-3,8-11", 1.5, 300)}, id="the-pool-of-one-cell"),
    pytest.param(0, 0, {}, {0: ("0-3,8-11", 0.0, 0)}, id="no-demand-at-all"),
    pytest.param(8, 10, {0: 1.0}, {1: ("4-7,12-15", 8.0, 10)}, id="where-there-is-room"),
    pytest.param(2, 10, {0: 7.0}, {1: ("4-7,12-15", 2.0, 10)}, id="before-it-is-crowded"),
    pytest.param(9, 90, {}, {0: ("0-3,8-11", 8.0, 45), 1: ("4-7,12-15", 1.0, 45)}, id="larger-than-a-cell"),
    pytest.param(17, 10, {}, "shared-pool", id="larger-than-the-host"),
    pytest.param(1, 2001, {}, "memory", id="memory-of-the-host"),
])
def test_shared_containers(cpus, memory, demand, expected):
    usage = Usage().with_claim("s", demanding(demand)) if demand else Usage()
    answer = plan(X86, usage, PlacementRequest(cpus, memory, cpu_policy="shared"))
    if isinstance(answer, Refusal):
        assert answer.code == expected
        return
    shares = {c: (str(share.cpus), share.shared, share.memory_mib) for c, share in answer.cells.items()}
    assert shares == expected
    assert answer.cpu_policy == "shared"


def test_shared_containers_may_overcommit():
    topology = X86.configured(cpu_allocation_ratio=4, ram_allocation_ratio=1.5)
    request = PlacementRequest(20, 1500, cpu_policy="shared", numa_affinity="require")
    assert given(plan(topology, Usage(), request)) == {0: "0-3,8-11"}
    dedicated = PlacementRequest(1, 1500)
    assert given(plan(topology, Usage(), dedicated)) == "memory", "dedicated memory is never promised twice"


def test_a_shared_container_runs_on_what_is_not_dedicated():
    usage = used(X86, "0-2,8-10")
    answer = plan(X86, usage, PlacementRequest(2, 10, cpu_policy="shared"))
    assert given(answer) == {0: "3,11"}
    assert given(plan(X86, used(X86, "0-15"), PlacementRequest(0, 0, cpu_policy="shared"))) == "shared-pool"


@pytest.mark.parametrize(("topology", "expected"), [
    pytest.param(HostTopology(()), "no-cpus", id="no-cells"),
    pytest.param(host(cell(0, memory_mib=1000)), "no-cpus", id="memory-only"),
    pytest.param(host(cell(0, "0 1", 0)), "memory", id="no-memory"),
    pytest.param(X86.configured(reserved_cpus=CpuSet("0-15")), "no-cpus", id="all-reserved"),
    pytest.param(X86.configured(reserved_memory_mib=9999), "memory", id="all-memory-reserved"),
])
@pytest.mark.parametrize("policy", ["dedicated", "shared"])
def test_hosts_with_nothing_to_give(topology, expected, policy):
    answer = plan(topology, Usage(), PlacementRequest(1, 1, cpu_policy=policy))
    assert answer.code == expected
    assert answer.nearest is None or isinstance(plan(topology, Usage(), answer.nearest), Plan)


def test_no_memory_asked_of_a_cell_without_memory():
    topology = host(cell(0, "0 1", 0), cell(3, memory_mib=10))
    answer = plan(topology, Usage(), PlacementRequest(1, 0))
    assert answer == Plan({0: CellShare(CpuSet("0"))}, mems=CpuSet())
    assert plan(topology, Usage(), PlacementRequest(1, 5)).mems == CpuSet("3")


@pytest.mark.parametrize("memory", [cell(0, "0 1"), cell(0, "0 1", 0, pages={2048: 1})])
def test_whoever_asks_for_no_memory_has_that_of_its_cell(memory):
    assert plan(host(memory, cell(3, "2 3")), used(host(memory), "0"), PlacementRequest(1, 0)).mems == CpuSet("0")


@pytest.mark.parametrize("request_", [
    PlacementRequest(10**9, 1),
    PlacementRequest(1, 10**18),
    PlacementRequest(10**9, 10**18, numa_nodes=10**9),
    PlacementRequest(10**9, 1, numa_nodes=10**9, numa_affinity="prefer"),
    PlacementRequest(1e8, 1, cpu_policy="shared"),
    PlacementRequest(1, 10**18, page_size="any"),
], ids=str)
def test_absurd_requests_are_refused_quickly(request_):
    answer = plan(X86, Usage(), request_)
    assert isinstance(answer, Refusal)
    assert isinstance(plan(X86, Usage(), answer.nearest), Plan)


def test_ids_are_never_positions():
    topology = host(cell(73, "42 43", distances={5: 20, 73: 10}), cell(5, "7 900", distances={5: 10, 73: 20}))
    assert given(plan(topology, Usage(), PlacementRequest(4, 10, numa_nodes=2))) == {5: "7,900", 73: "42-43"}
    assert given(plan(topology, used(topology, "7"), PlacementRequest(2, 10))) == {73: "42-43"}


def test_equal_arguments_get_equal_answers():
    topology = smt_host(3, 4)
    usage = used(topology, "1,8,9", "20")
    request = PlacementRequest(6, 90, numa_nodes=3, thread_policy="isolate")
    again = HostTopology.from_dict(topology.to_dict())
    assert plan(topology, usage, request) == plan(again, Usage(list(usage)[::-1]), request)


def test_the_plan_says_who_else_is_there():
    answer = plan(X86, used(X86, "0,8", "9"), PlacementRequest(1, 10))
    assert str(answer.cells[0].pinned) == "0,8-9"


def test_holding_is_what_it_says():
    assert holding("0,4", X86).cells == {0: CellShare(CpuSet("0")), 1: CellShare(CpuSet("4"))}
