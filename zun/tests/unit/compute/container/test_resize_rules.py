# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.compute.container.resize_rules import Resize, increase, part_of, resized
from zun.tests.unit.common.proof import proof
from zun.tests.unit.compute.container.resizes import (
    IN_PAGES,
    MACHINE,
    PAGES_ALONE,
    SMT,
    TOO_MUCH,
    TOO_MUCH_SHARED,
    TOP_CORE,
    TOP_HALF,
    TWO_CELLS,
    TWO_SMT_CELLS,
    case,
    container,
    dedicated,
    settled,
    shared,
)
from zun.tests.unit.scheduler.hosts import holding, placements, used_hosts
from zun.tests.unit.topology.build import smt_host
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device

# the wish


@pytest.mark.parametrize(
    ("fields", "asked", "request_"),
    [
        pytest.param({}, (None, None, None), PlacementRequest(2, 64), id="nothing"),
        pytest.param({}, (4.0, None, None), PlacementRequest(4, 64), id="cpu"),
        pytest.param({}, (None, 128, None), PlacementRequest(2, 128), id="memory"),
        pytest.param({}, (1.5, 128, "shared"), PlacementRequest(1.5, 128, "shared"), id="to-shared"),
        pytest.param(
            {"cpu": 1.5, "cpu_policy": "shared"}, (3.0, None, "dedicated"), PlacementRequest(3, 64), id="to-dedicated"
        ),
        pytest.param(
            {"placement": {"cpu_thread_policy": "isolate", "numa_nodes": 2}},
            (4.0, None, None),
            PlacementRequest(4, 64, thread_policy="isolate", numa_nodes=2),
            id="conditions-stay",
        ),
    ],
)
def test_a_wish_keeps_what_it_does_not_name(fields, asked, request_):
    wish = Resize.of(container(dedicated(), **fields), *asked)
    cpu, memory, _ = asked
    assert wish.request == request_
    old = replace(dedicated(), whole_cores="placement" in fields)
    assert (wish.old, wish.old_memory, wish.policy) == (old, 64, request_.cpu_policy)
    assert (wish.cpu, wish.memory) == (cpu or wish.old_cpu, memory or 64)


@pytest.mark.parametrize(
    ("fields", "asked", "error", "text"),
    [
        pytest.param(
            {"cpuset": None}, (1.0, None, None), exceptions.Conflict, "holds no resources", id="nothing-is-held"
        ),
        pytest.param(
            {},
            (1.5, None, None),
            exceptions.Invalid,
            "cpu must be a whole number for a dedicated container, not 1.5",
            id="part-of-a-dedicated-cpu",
        ),
        pytest.param(
            {"cpu": 0.5, "cpu_policy": "shared"},
            (None, None, "dedicated"),
            exceptions.Invalid,
            "cpu must be a whole number for a dedicated container, not 0.5",
            id="a-fraction-that-was-shared",
        ),
        pytest.param({}, (0.0, None, None), exceptions.Invalid, "cannot be resized to this: cpus must be", id="no-cpu"),
        pytest.param(
            {"placement": {"numa_cpus": [1, 1]}},
            (4.0, None, None),
            exceptions.Invalid,
            "cannot be resized to this: numa_cpus add up to 2, but cpus is 4",
            id="its-shape-is-fixed",
        ),
        pytest.param(
            {"placement": {"numa_nodes": 2}},
            (1.0, None, None),
            exceptions.Invalid,
            "cannot be resized to this: cpus is 1: fewer than one for each of 2 cells",
            id="fewer-than-its-cells",
        ),
    ],
)
def test_what_no_host_could_do_is_refused_at_once(fields, asked, error, text):
    with pytest.raises(error) as caught:
        Resize.of(container(dedicated(), **fields), *asked)
    assert text in str(caught.value)


# the plan


@pytest.mark.parametrize(
    "case",
    [
        case(dedicated("2-3"), PlacementRequest(2, 900), "2-3", id="memory-moves-nothing"),
        case(dedicated("1-3"), PlacementRequest(2, 64), "1-2", id="fewer-are-some-of-old"),
        case(dedicated("2-3"), PlacementRequest(3, 64), "0,2-3", id="more-are-old-and-one"),
        case(
            dedicated("2-3"), PlacementRequest(3, 64), "1-3", others=[dedicated("0", 0)],
            id="more-are-what-others-left",
        ),
        case(dedicated("4-5", cell=1), PlacementRequest(4, 64), "4-7", id="it-stays-on-its-cell"),
        case(
            dedicated("0,2", withheld="1,3"),
            PlacementRequest(1, 64, thread_policy="isolate"),
            "0",
            withheld="1",
            topology=SMT,
            id="siblings-kept-idle-go-with-their-cpu",
        ),
        case(
            dedicated("0", withheld="1"),
            PlacementRequest(2, 64, thread_policy="isolate"),
            "0,2",
            withheld="1,3",
            topology=SMT,
            id="and-come-with-a-new-one",
        ),
        case(
            dedicated("4-5"), PlacementRequest(4, 64, thread_policy="require"), "0-1,4-5", topology=SMT,
            id="whole-cores-are-added-whole",
        ),
        case(
            dedicated("0", withheld="1"), PlacementRequest(2, 64, isolation="core"), "0-1", topology=SMT,
            id="a-sibling-of-its-own-is-used-first",
        ),
        case(
            dedicated("0", withheld="1"), PlacementRequest(4, 64, isolation="core"), "0-3", topology=SMT,
            id="also-where-others-are-added-to-it",
        ),
        case(
            dedicated("2", withheld="0-1,3"), PlacementRequest(3, 64, isolation="node"), "0-2", withheld="3",
            id="and-what-is-kept-idle-for-it",
        ),
        case(
            dedicated("0-2", withheld="3"), PlacementRequest(1, 64, isolation="l3"), "0", withheld="1-3",
            id="what-isolation-keeps-stays-kept",
        ),
        case(
            dedicated("0-1", withheld="2-3"), PlacementRequest(1, 64, isolation="node"), "0", withheld="1-3",
            topology=MACHINE.configured(dedicated_set=CpuSet("0-2,4-7"), shared_set=CpuSet("3")),
            id="also-of-the-pool",
        ),
        case(
            dedicated("2-3", withheld="0-1"), PlacementRequest(1, 64, isolation="l3"), "2", withheld="0-1,3",
            id="not-what-was-kept-idle-but-what-it-ran-on",
        ),
        case(
            dedicated("7", withheld="0-6"),
            PlacementRequest(3, 64, isolation="node"),
            "0,6-7",
            withheld="1-5",
            topology=SMT,
            id="it-runs-on-what-it-ran-on-and-more",
        ),
        case(
            dedicated("0,2", withheld="1,3"),
            PlacementRequest(2, 32, isolation="core"),
            "0,2",
            withheld="1,3",
            topology=SMT,
            id="less-memory-alone-moves-nothing",
        ),
        case(
            Plan({0: CellShare(CpuSet("1"), 32, CpuSet("0")), 1: CellShare(CpuSet("4-5"), 32)}),
            PlacementRequest(3, 64, thread_policy="require", numa_affinity="none"),
            "1,4-5",
            withheld="0",
            topology=TWO_SMT_CELLS,
            id="the-same-on-any-cells",
        ),
        case(TWO_CELLS, PlacementRequest(3, 64, numa_nodes=2), "0,3,7", id="more-on-several-cells"),
        case(
            Plan({0: CellShare(CpuSet("3")), 1: CellShare(CpuSet("7"))}), PlacementRequest(3, 0, numa_nodes=2), "0,3,7",
            others=[shared(memory=1024), shared(memory=1024, cell=1)], id="also-where-others-have-all-the-memory",
        ),
        case(TWO_CELLS, PlacementRequest(4, 64, numa_cpus=[1, 3]), "3-5,7", id="more-on-one-of-them"),
        case(
            Plan({0: CellShare(CpuSet("2,9"), 64)}), PlacementRequest(3, 64), "0-2",
            id="what-went-offline-is-not-kept",
        ),
        case(
            dedicated("0,2"), PlacementRequest(3, 64), "0-2",
            topology=MACHINE.configured(dedicated_set=CpuSet("1-7")),
            id="more-with-what-is-given-no-more",
        ),
        case(
            dedicated("0,2", withheld="1,3"), PlacementRequest(2, 60, thread_policy="isolate"), "0,2", withheld="1,3",
            topology=TOP_CORE, id="as-many-with-idle-siblings-that-are-given-no-more",
        ),
        case(
            dedicated("0,2", withheld="1,3"), PlacementRequest(1, 64, thread_policy="isolate"), "0", withheld="1",
            topology=TOP_CORE, id="fewer-with-idle-siblings-that-are-given-no-more",
        ),
        case(
            dedicated("0,2", withheld="1,3"), PlacementRequest(3, 64, thread_policy="isolate"), "0,2,6",
            withheld="1,3,7", topology=TOP_CORE, id="more-with-idle-siblings-that-are-given-no-more",
        ),
        case(
            dedicated("0-2", withheld="3"), PlacementRequest(3, 60, isolation="core"), "0-2", withheld="3",
            topology=TOP_CORE, id="an-odd-one-with-its-idle-sibling",
        ),
        case(
            dedicated("0", withheld="1-7"), PlacementRequest(3, 64, isolation="node"), "0-1,6", withheld="2-5,7",
            topology=TOP_CORE, id="not-with-other-cores-that-isolation-keeps-idle",
        ),
        case(
            dedicated("0,2", withheld="1,3"), PlacementRequest(2, 64, thread_policy="isolate"), "2,4", withheld="3,5",
            topology=SMT.configured(reserved_cpus=CpuSet("1")), id="nor-with-an-idle-sibling-that-is-reserved",
        ),
        case(
            TWO_CELLS, PlacementRequest(5, 64, numa_cpus=[3, 2]), "1-4,7",
            topology=MACHINE.configured(dedicated_set=CpuSet("1-2,4-7")),
            id="more-on-several-cells-with-what-is-given-no-more",
        ),
        case(
            dedicated("0,2"), PlacementRequest(3, 64), "1-3",
            topology=MACHINE.configured(reserved_cpus=CpuSet("0")),
            id="more-without-what-is-reserved",
        ),
        case(shared(), PlacementRequest(3, 64), "0-2", id="shared-to-dedicated"),
        case(
            dedicated("0-2"), PlacementRequest(4, 64), "0-3", others=[shared(cell=1)],
            topology=MACHINE.configured(dedicated_set=CpuSet("0-7"), shared_set=CpuSet("8")),
            id="more-where-the-pool-has-lost-its-cpus-and-others-of-another-cell-are-left-to-it",
        ),
        case(
            dedicated("0-2"), PlacementRequest(4, 64), "0-3", others=[dedicated("4-6", 0, cell=1), shared(cell=1)],
            topology=MACHINE.configured(dedicated_set=CpuSet("0-6"), shared_set=CpuSet("7")),
            id="more-where-the-pool-is-on-another-cell",
        ),
        case(
            dedicated("0-2"), PlacementRequest(2, 64), "0-1", others=[shared(3.0)],
            topology=replace(MACHINE, cpu_allocation_ratio=1.0),
            id="fewer-where-the-pool-was-promised-more-than-it-has-now",
        ),
        case(dedicated("0-1"), PlacementRequest(1, 64), "0", others=[TOO_MUCH], id="where-the-cell-has-lost-memory"),
        case(dedicated("0"), PlacementRequest(2, 60), "0-1", others=[TOO_MUCH], id="and-less-of-it"),
        case(
            dedicated("0-1"), PlacementRequest(1, 64), "0", topology=MACHINE.configured(reserved_memory_mib={0: 2000}),
            id="where-all-of-it-is-reserved-now",
        ),
        case(IN_PAGES, PlacementRequest(1, 64, page_size=2048), "0", id="where-the-cell-has-lost-pages"),
        case(
            IN_PAGES, PlacementRequest(1, 64, page_size=2048), "0", others=[replace(IN_PAGES, cells={0: PAGES_ALONE})],
            topology=replace(MACHINE, cells=(replace(MACHINE.cell(0), pages={2048: 40}), MACHINE.cell(1))),
            id="where-it-has-too-few-pages-for-all",
        ),
        case(shared(3.0), PlacementRequest(3, 64, "shared"), "0-3", others=[TOO_MUCH_SHARED], id="a-share-as-it-is"),
        case(shared(3.0), PlacementRequest(2, 60, "shared"), "0-3", others=[TOO_MUCH_SHARED], id="less-of-the-pool"),
        case(
            shared(), PlacementRequest(1, 64, "shared"), "0-3", others=[shared(memory=1500)],
            topology=replace(MACHINE, ram_allocation_ratio=1.5), id="where-shared-memory-is-promised-too-often",
        ),
        case(
            dedicated("0-3"), PlacementRequest(2, 64), "2-3", topology=TOP_HALF,
            id="fewer-without-what-is-given-no-more",
        ),
        case(dedicated("0-3"), PlacementRequest(1, 64), "2", topology=TOP_HALF, id="even-fewer-without-it"),
        case(dedicated("0-3"), PlacementRequest(3, 64), "0,2-3", topology=TOP_HALF, id="or-with-little-of-it"),
        case(dedicated("0-3"), PlacementRequest(4, 32), "0-3", topology=TOP_HALF, id="as-many-are-the-same"),
        case(
            dedicated("0-3"), PlacementRequest(2, 64), "1,3", keep="1,3", topology=TOP_HALF,
            id="what-must-stay-goes-before",
        ),
        case(
            dedicated("0-3"), PlacementRequest(2, 64), "1-2", keep="1", topology=TOP_HALF,
            id="and-what-is-given-comes-with-it",
        ),
        case(
            dedicated("0-5"),
            PlacementRequest(4, 64, thread_policy="require"),
            "2-5",
            topology=SMT.configured(dedicated_set=CpuSet("2-7")),
            id="whole-cores-of-what-is-given",
        ),
        case(
            dedicated("0,2,4", withheld="1,3,5"),
            PlacementRequest(1, 64, isolation="core"),
            "4",
            withheld="5",
            topology=SMT.configured(dedicated_set=CpuSet("4-7")),
            id="a-whole-core-of-what-is-given",
        ),
        case(
            Plan({0: CellShare(CpuSet("0-1"), 32), 1: CellShare(CpuSet("4-5"), 32)}),
            PlacementRequest(2, 64, numa_nodes=2),
            "1,5",
            topology=MACHINE.configured(dedicated_set=CpuSet("1,5-7")),
            id="of-what-is-given-on-each-cell",
        ),
        case(
            Plan({0: CellShare(CpuSet("0-1"), 32), 1: CellShare(CpuSet("4-5"), 32)}),
            PlacementRequest(2, 64, numa_nodes=2),
            "0,4",
            topology=MACHINE.configured(dedicated_set=CpuSet("4-7")),
            id="its-shape-goes-before",
        ),
    ],
)
def test_a_container_stays_where_it_can(case):
    assert settled(case).cells.keys() == case.old.cells.keys()


def test_its_memory_stays_in_pages_of_one_size():
    """Pages that only one of its cells has do not make it a container of two kinds of memory."""
    paged, plain = MACHINE.cells
    topology = replace(MACHINE, cells=(replace(paged, pages={2048: 100}), plain))
    request_ = PlacementRequest(4, 64, numa_nodes=2, page_size="any")
    answer = resized(topology, Usage(), TWO_CELLS, request_)
    assert isinstance(answer, Plan)
    assert TWO_CELLS.cpus <= answer.cpus
    assert {cell: (share.memory_mib, share.pages) for cell, share in answer.cells.items()} == {0: (32, {}), 1: (32, {})}


def test_from_dedicated_to_shared_runs_on_the_cells_pool():
    answer = resized(MACHINE, Usage({"a": dedicated("0")}), dedicated("2-3"), PlacementRequest(2.5, 64, "shared"))
    assert answer == Plan({0: CellShare(cpus=CpuSet("1-3"), memory_mib=64, shared=2.5)}, "shared")


@pytest.mark.parametrize(
    ("others", "old", "request_", "reason"),
    [
        pytest.param(
            [],
            dedicated(),
            PlacementRequest(5, 64),
            "no cell has 5 CPUs free: best is cell 0 with 4",
            id="its-cell-is-small",
        ),
        pytest.param(
            [dedicated("3")],
            dedicated(),
            PlacementRequest(4, 64),
            "no cell has 4 CPUs free: best is cell 0 with 3",
            id="the-other-cell-does-not-help",
        ),
        pytest.param(
            [TOO_MUCH],
            dedicated(),
            PlacementRequest(2, 65),
            "no cell has 65 MiB free: best is cell 0 with 64",
            id="memory-is-taken",
        ),
        pytest.param(
            [TOO_MUCH],
            shared(),
            PlacementRequest(2, 64),
            "no cell has 64 MiB free: best is cell 0 with 24",
            id="shared-memory-is-no-claim-to-dedicated",
        ),
        pytest.param(
            [],
            IN_PAGES,
            PlacementRequest(2, 65, page_size=2048),
            "no cell has 33 pages of 2048 KiB free: best is cell 0 with 32",
            id="pages-are-gone",
        ),
        pytest.param(
            [TOO_MUCH_SHARED],
            shared(3.0),
            PlacementRequest(3.1, 64, "shared"),
            "all cells together have 3 CPUs left in the shared pool: 3.1 are wanted",
            id="the-pool-is-promised",
        ),
        pytest.param(
            [shared(3.0)],
            dedicated("0-1"),
            PlacementRequest(3, 64),
            "no cell has 3 CPUs free beside those that shared containers need: best is cell 0 with 2",
            id="shared-ones-keep-theirs",
        ),
    ],
)
def test_what_does_not_fit_beside_the_others_is_refused(others, old, request_, reason):
    answer = resized(MACHINE, Usage({f"c{number}": held for number, held in enumerate(others)}), old, request_)
    assert isinstance(answer, Refusal)
    assert answer.message == reason


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.5, 16.0])
def test_shared_keeps_its_memory_on_an_overcommitted_cell(ratio):
    topology = replace(MACHINE, ram_allocation_ratio=ratio)
    most = int(1024 * ratio)
    others = Usage({"other": shared(memory=most - 64 + 7)})
    answer = resized(topology, others, shared(), PlacementRequest(1, 64, "shared"))
    assert answer.memory_mib == 64
    assert isinstance(resized(topology, others, shared(), PlacementRequest(1, 65, "shared")), Refusal)


@pytest.mark.parametrize("held", [dedicated(), shared()])
def test_a_node_that_has_lost_all_its_memory_gives_none(held):
    """Docker would refuse it, and to go back to it as well."""
    topology = replace(MACHINE, cells=(replace(MACHINE.cell(0), memory_mib=0), MACHINE.cell(1)))
    answer = resized(topology, Usage(), held, PlacementRequest(1, 64, held.cpu_policy))
    assert isinstance(answer, Refusal) and answer.code == "memory"


@st.composite
def resizes(draw, *, plain=False):
    """A host, what its other containers hold, and one container's plan before and after."""
    host = draw(used_hosts(plain=plain))
    wishes = draw(st.lists(placements(plain=plain), min_size=2, max_size=6))
    if not plain:
        grade = draw(st.sampled_from(("thread", "core", "l3", "node")))
        apart = draw(st.sampled_from((None, CpuSet("0,3"))))
        host = replace(host, topology=replace(host.topology, isolated=CpuSet("1"), shared_set=apart))
        wishes = [replace(wish, isolation=grade) if wish.dedicated else wish for wish in wishes]
    found = [(wish, plan(host.topology, host.usage, wish)) for wish in wishes]
    before, old = next((each for each in found if isinstance(each[1], Plan)), (None, None))
    assume(before is not None)
    answers = [(wish, resized(host.topology, host.usage, old, wish)) for wish in (*wishes[::-1], before)]
    after, new = next(each for each in answers if isinstance(each[1], Plan))
    return host.topology, host.usage, old, new, after


@pytest.mark.parametrize(
    ("held", "wanted", "other"),
    [
        (dedicated("2-3"), PlacementRequest(2, 64), dedicated("0-1", 960)),
        (shared(2.5), PlacementRequest(2.5, 64, "shared"), shared(5.5, 960)),
    ],
)
def test_to_stay_as_it_is_is_possible_on_a_full_host(held, wanted, other):
    assert resized(MACHINE, Usage({"other": other}), held, wanted) == held


@proof(60)
@given(case=resizes())
def test_a_resize_stays_on_its_cells_beside_others(case):
    topology, others, old, new, request = case
    assert new.cells.keys() <= old.cells.keys() | set(old.mems)
    assert others.fits(part_of(topology, others, old, request), new) is None
    assert new.memory_mib == request.memory_mib
    if request.dedicated:
        assert len(new.cpus) == request.cpus
        assert not (new.cpus | new.withheld) & others.held_cpus
    else:
        assert round(sum(share.shared for share in new.cells.values()), 6) == request.cpus


@proof(50)
@given(case=resizes(plain=True))
def test_on_one_cell_old_cpus_are_kept(case):
    _, _, old, new, _ = case
    assume(old.cpu_policy == new.cpu_policy == "dedicated")
    assert new.cpus <= old.cpus or old.cpus <= new.cpus


@proof(50)
@given(case=resizes(plain=True), data=st.data())
def test_fewer_cpus_prefer_those_the_host_still_gives(case, data):
    topology, others, old, _, _ = case
    assume(old.cpu_policy == "dedicated" and len(old.cpus) > 1)
    left = data.draw(st.integers(1, len(old.cpus) - 1))
    given_still = CpuSet(data.draw(st.sets(st.sampled_from(sorted(topology.cpus)))))
    topology = replace(topology, dedicated_set=given_still)
    answer = resized(topology, others, old, PlacementRequest(left, old.memory_mib))
    assert isinstance(answer, Plan)
    assert answer.cpus < old.cpus
    assert len(answer.cpus & given_still) == min(left, len(old.cpus & given_still))


# on the way


def room(topology, usage):
    """Return every remaining amount in a fixed order."""
    found = []
    for _, cell in sorted(usage.free(topology).items()):
        found += [cell.memory_mib, *(count for _, count in sorted(cell.pages.items())), round(cell.shared * 10**6)]
    return found


@proof(80)
@given(case=resizes())
def test_in_a_resize_old_and_new_are_both_held(case):
    topology, others, old, new, _ = case
    with_old, with_new = others.with_claim("me", old), others.with_claim("me", new)
    both = with_old.with_claim("me+", increase(old, new))
    assert both.held_cpus == with_old.held_cpus | with_new.held_cpus
    for left, before, after in zip(*(room(topology, each) for each in (both, with_old, with_new)), strict=True):
        assert left <= min(before, after)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(dedicated("0-3", 100), dedicated("0-1", 50), dedicated("", 0), id="less-is-nothing-more"),
        pytest.param(dedicated("0-1", 50), dedicated("0-3", 100), dedicated("2-3", 50), id="more-is-the-difference"),
        pytest.param(dedicated("0-1", 50), dedicated("2-3", 20), dedicated("2-3", 0), id="others-are-all-of-them"),
        pytest.param(
            dedicated("0", 50, withheld="1"),
            dedicated("0-1", 50),
            dedicated("", 0),
            id="a-sibling-kept-idle-is-held-already",
        ),
        pytest.param(shared(1.0, 50), dedicated("0-1", 50), dedicated("0-1", 0), id="shared-held-no-cpu"),
    ],
)
def test_what_a_new_plan_takes_beyond_the_old(old, new, expected):
    assert increase(old, new) == expected


@pytest.mark.parametrize(("had", "wanted", "more"), [(0, 4, 4), (4, 4, 0), (4, 6, 2), (4, 3, 0)])
def test_of_huge_pages_the_difference_is_taken(had, wanted, more):
    old, new = (Plan({0: CellShare(CpuSet("0"), 8, pages={2048: n} if n else {})}) for n in (had, wanted))
    assert increase(old, new).cells[0].pages == {2048: more}


def test_growing_demand_is_booked_beside_the_old():
    more = increase(shared(1.0, 50), shared(2.5, 60))
    assert more.cells[0].shared == 1.5 and more.cells[0].memory_mib == 10
    both = holding(MACHINE).with_claim("me", shared(1.0, 50)).with_claim("me+", more)
    assert both.free(MACHINE)[0].shared == 8 - 2.5


def test_memory_that_leaves_huge_pages_is_taken_anew():
    old = Plan({0: CellShare(cpus=CpuSet("0"), memory_mib=8, pages={2048: 4})})
    new = Plan({0: CellShare(cpus=CpuSet("0"), memory_mib=12)})
    both = Usage().with_claim("me", old).with_claim("me+", increase(old, new))
    assert both.free(MACHINE)[0].memory_mib == 1024 - 12


DEVICES = tuple(Device(f"0000:0{node}:00.0", cell=node) for node in (0, 1))


@pytest.mark.parametrize("keep", ["", "0"])
@pytest.mark.parametrize(("policy", "cpus", "cells"), [
    pytest.param("preferred", 2, {0}, id="shrinks-away-from-a-device-that-need-not-be-near"),
    pytest.param("required", 6, {0, 1}, id="grows-on-both-cells"),
])
def test_a_resize_keeps_the_devices(policy, cpus, cells, keep):
    topology = replace(smt_host(2, 2), devices=DEVICES)
    request = PlacementRequest(
        4, 10, numa_affinity="none", devices=(DeviceRequest("nic", 2, (DeviceMatch(),), numa_policy=policy),)
    )
    old = plan(topology, Usage(), request)
    assert isinstance(old, Plan) and len(old.devices) == 2
    new = resized(topology, Usage(), old, replace(request, cpus=cpus), CpuSet(keep) & old.cpus)
    assert isinstance(new, Plan)
    assert new.devices == old.devices
    assert set(new.cells) <= set(old.cells) | cells


@pytest.mark.parametrize(("policy", "node"), [("required", 2), ("socket", 2), ("socket", 1), ("preferred", 1)])
def test_a_resize_knows_where_devices_are(policy, node):
    """The device is on another cell than the container: of the same socket, or a node without CPUs."""
    cells = (*smt_host(2, 2).cells, NUMACell(2))
    topology = HostTopology(
        cells, (CpuSet("0-7"),), devices=(Device("0000:01:00.0", cell=node),), shared_set=CpuSet("0-3")
    )
    asked = (DeviceRequest("nic", 1, (DeviceMatch(),), numa_policy=policy),)
    request = PlacementRequest(1, 10, "shared", devices=asked)
    old = plan(topology, Usage(), request)
    assert isinstance(old, Plan)
    assert set(old.cells) == {0}
    new = resized(topology, Usage(), old, replace(request, cpus=2))
    assert isinstance(new, Plan)
    assert new.devices == old.devices
    assert set(new.cells) == {0}


def test_a_resize_keeps_a_device_that_vanished():
    topology = replace(smt_host(2, 2), devices=DEVICES)
    request = PlacementRequest(2, 10, devices=(DeviceRequest("nic", 1, (DeviceMatch(),), numa_policy="required"),))
    old = plan(topology, Usage(), request)
    assert isinstance(old, Plan)
    new = resized(replace(topology, devices=()), Usage(), old, replace(request, cpus=3, devices=()))
    assert isinstance(new, Plan)
    assert new.devices == old.devices
    assert increase(old, new).devices == ()
    Usage().with_claim("old", old).with_claim("growth", increase(old, new))
