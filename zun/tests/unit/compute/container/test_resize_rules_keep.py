# SPDX-License-Identifier: Apache-2.0
"""CPUs that stay when a container is resized, against a search through every choice there is."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.compute.container.resize_rules import Resize, part_of, resized
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.compute.container.resizes import (
    MACHINE,
    SMT,
    TWO_SMT_CELLS,
    case,
    container,
    dedicated,
    settled,
    shared,
)
from zun.tests.unit.scheduler.hosts import placements, used_hosts
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Refusal, Usage, plan

TWO = Plan({0: CellShare(CpuSet("0-3"), 32), 1: CellShare(CpuSet("4-7"), 32)})


@pytest.mark.parametrize(
    "case",
    [
        case(dedicated("0-3"), PlacementRequest(1, 64), "3", keep="3", id="one-of-four"),
        case(dedicated("0-3"), PlacementRequest(2, 64), "0,3", keep="3", id="and-another"),
        case(dedicated("1-2"), PlacementRequest(3, 64), "0-2", keep="2", id="more-are-all-of-old"),
        case(dedicated("1-3"), PlacementRequest(2, 64), "1,3", keep="3", id="beside-old-ones"),
        case(
            dedicated("0-7"), PlacementRequest(4, 64, thread_policy="require"), "2-3,6-7", keep="2,7", topology=SMT,
            id="two-whole-cores-stay",
        ),
        case(TWO, PlacementRequest(2, 64), "4,6", keep="6", id="on-the-cell-it-is-on"),
        case(
            Plan({0: CellShare(CpuSet("0-1"), 32, CpuSet("2-3")), 1: CellShare(CpuSet("4-5"), 32, CpuSet("6-7"))}),
            PlacementRequest(2, 64, numa_nodes=2, isolation="l3"),
            "1,5",
            withheld="0,2-4,6-7",
            keep="1,5",
            id="what-the-grade-keeps-is-not-struck-off",
        ),
        case(
            Plan({0: CellShare(CpuSet("2-3"), 32), 1: CellShare(CpuSet("4"), 32)}),
            PlacementRequest(4, 64, numa_cpus=(3, 1)),
            "1-4",
            keep="3",
            topology=MACHINE.configured(
                dedicated_set=CpuSet("0-7"), shared_set=CpuSet("0,3"), cpu_allocation_ratio=2.0
            ),
            others=[shared(1.0)],
            id="shared-ones-keep-theirs",
        ),
        case(dedicated("0-7"), PlacementRequest(2, 64), "4-5", keep="5", topology=SMT, id="its-sibling-stays-with-it"),
        case(
            dedicated("0,2,4", withheld="1,3,5"),
            PlacementRequest(2, 64, thread_policy="isolate"),
            "0,4",
            withheld="1,5",
            keep="4",
            topology=SMT,
            id="siblings-kept-idle-go-with-it",
        ),
        case(
            dedicated("0-5"), PlacementRequest(2, 64, thread_policy="require"), "2-3", keep="3", topology=SMT,
            id="a-whole-core-stays",
        ),
        case(
            dedicated("0-3"),
            PlacementRequest(1, 64, thread_policy="require"),
            "3",
            withheld="2",
            keep="3",
            topology=SMT,
            id="and-the-other-thread-of-it-becomes-idle",
        ),
        case(TWO, PlacementRequest(2, 64, numa_nodes=2), "2,7", keep="2,7", id="on-each-cell-one"),
        case(
            TWO, PlacementRequest(5, 64, numa_cpus=(4, 1)), "0,4-7", keep="5-7",
            id="the-larger-part-is-where-they-are",
        ),
        case(TWO, PlacementRequest(4, 64, numa_affinity="prefer"), "0-2,7", keep="0,7", id="on-any-cells"),
        case(
            Plan({0: CellShare(CpuSet("0-1"), 32), 1: CellShare(CpuSet("4-7"), 32)}),
            PlacementRequest(3, 64, numa_affinity="none"), "4-5,7", keep="7",
            id="on-no-more-cells-than-need-be",
        ),
        case(
            Plan({0: CellShare(CpuSet("0"), 16, CpuSet("1")), 1: CellShare(CpuSet("4"), 16, CpuSet("5"))}),
            PlacementRequest(2, 32, numa_affinity="none", isolation="core"),
            "0,4",
            withheld="1,5",
            keep="4",
            topology=TWO_SMT_CELLS,
            id="but-old-ones-on-two-cells-go-before-what-was-kept-idle-on-one",
        ),
        case(
            Plan({0: CellShare(CpuSet("0"), 32), 1: CellShare(CpuSet("4-5,9"), 32)}),
            PlacementRequest(5, 64, numa_affinity="none"), "0-2,4-5", keep="4",
            id="and-before-new-ones-where-not-all-are-online-still",
        ),
        case(
            TWO, PlacementRequest(2, 1200, numa_affinity="none"), "0,6", keep="6",
            id="on-two-cells-for-the-memory-of-both",
        ),
        case(
            TWO,
            PlacementRequest(2, 64, numa_affinity="prefer", isolation="core"),
            "1,6",
            withheld="0,7",
            keep="1,6",
            topology=TWO_SMT_CELLS,
            id="on-two-cells-though-one-would-do",
        ),
        case(
            dedicated("0-3"),
            PlacementRequest(2, 64, isolation="core"),
            "0,3",
            withheld="1-2",
            keep="0,3",
            topology=SMT,
            id="with-more-idle-siblings-than-need-be",
        ),
        case(
            dedicated("0-3"),
            PlacementRequest(2, 64),
            "0,3",
            keep="3",
            topology=replace(MACHINE, cpu_allocation_ratio=1.0),
            others=[shared(3.0)],
            id="fewer-where-the-pool-was-promised-more-than-it-has-now",
        ),
    ],
)
def test_what_is_named_stays(case):
    assert settled(case).isolation == case.request.isolation


def test_its_pages_stay_what_they_were():
    paged = replace(MACHINE, cells=tuple(replace(cell, pages={2048: 100}) for cell in MACHINE.cells))
    old = Plan({0: CellShare(CpuSet("0-3"), 64, pages={2048: 32})})
    answer = resized(paged, Usage(), old, PlacementRequest(2, 64, page_size=2048), CpuSet("3"))
    assert answer == Plan({0: CellShare(CpuSet("0,3"), 64, pages={2048: 32})})


@pytest.mark.parametrize(
    ("old", "request_", "keep", "reason"),
    [
        (TWO, PlacementRequest(2, 64, numa_nodes=2), "2-3", "CPUs 2-3 cannot all stay together with what else is"),
        (TWO, PlacementRequest(4, 64), "3-4", "CPUs 3-4 cannot all stay"),
        (dedicated("0-1"), PlacementRequest(5, 64), "0", "no cell has 5 CPUs free"),
        (dedicated("3,9"), PlacementRequest(2, 64), "3,9", "CPUs 9 cannot stay: they are not online"),
        (
            dedicated("3,9"), PlacementRequest(2, 64, numa_affinity="prefer"), "3,9",
            "CPUs 9 cannot stay: they are not online",
        ),
    ],
)
def test_what_cannot_stay_is_said(old, request_, keep, reason):
    answer = resized(MACHINE, Usage(), old, request_, CpuSet(keep))
    assert isinstance(answer, Refusal)
    assert answer.message.startswith(reason)


def test_a_wish_for_cpus_that_are_not_held_is_invalid():
    held = container(dedicated("0-1"))
    assert Resize.of(held, 1.0, None, None, CpuSet("1")).keep == CpuSet("1")
    with pytest.raises(Exception, match="keep_cpus: CPUs 2 are not among those it has, 0-1"):
        Resize.of(held, None, None, None, CpuSet("1-2"))
    with pytest.raises(Exception, match="keep_cpus: only a container that has dedicated CPUs"):
        Resize.of(container(shared(), cpu_policy="shared"), None, None, "dedicated", CpuSet("1"))


def every_choice(topology, others, old, request, keep):
    """Each plan that gives ``request`` with ``keep`` among its CPUs, on the cells of ``old`` that have CPUs."""
    cells = [cell for cell in topology.cells if cell.cpus and (cell.id in old.cells or cell.id in old.mems)]
    free = CpuSet([cpu for cell in cells for cpu in cell.cpus & topology.dedicated_cpus]) - others.held_cpus
    for rest in itertools.combinations(free - keep, int(request.cpus) - len(keep)):
        cpus = keep | CpuSet(rest)
        withheld = idle_siblings(topology, others, cells, cpus, request.thread_policy)
        used = [cell for cell in cells if cell.cpus & cpus]
        if withheld is None or len(used) != len(request.parts):
            continue
        for parts in set(itertools.permutations(request.parts)):
            shares = {
                cell.id: CellShare(cell.cpus & cpus, mib, cell.cpus & withheld)
                for cell, (count, mib) in zip(used, parts, strict=True)
                if len(cell.cpus & cpus) == count
            }
            found = Plan(shares, whole_cores=request.thread_policy != "prefer")
            if len(shares) == len(used) and others.fits(part_of(topology, others, old, request), found) is None:
                yield found


def idle_siblings(topology, others, cells, cpus, policy):
    """The siblings that ``policy`` withholds beside ``cpus``; None when it does not give these CPUs."""
    if policy == "prefer":
        return CpuSet()
    withheld = CpuSet()
    for cell in cells:
        idle = CpuSet()
        cores = [core for core in cell.siblings if core & cpus]
        for core in cores:
            if core & others.held_cpus or not core <= topology.dedicated_cpus:
                return None
            if (policy == "isolate" and len(core & cpus) > 1) or (policy == "require" and len(core) == 1):
                return None
            idle |= core - cpus
        if policy == "require" and cores and len(idle) >= len(cores[0]):
            return None  # fewer cores would do
        withheld |= idle
    return withheld


@proof(120)
@given(data=st.data(), first=placements(), second=placements())
def test_they_stay_whenever_any_choice_has_them(data, first, second):
    assume(first.dedicated and second.dedicated)
    conditions = {"numa_affinity": "require", "mempolicy": "strict", "page_size": None}
    second = replace(second, thread_policy=first.thread_policy, **conditions)
    host = data.draw(used_hosts())
    old = plan(host.topology, host.usage, first)
    assume(isinstance(old, Plan))
    keep = CpuSet(data.draw(st.sets(st.sampled_from(list(old.cpus)), min_size=1, max_size=int(second.cpus))))
    answer = resized(host.topology, host.usage, old, second, keep)
    if isinstance(answer, Plan):
        assert keep <= answer.cpus and len(answer.cpus) == second.cpus
        assert answer.memory_mib == second.memory_mib
        assert answer.whole_cores == (second.thread_policy != "prefer")
        assert answer.cells.keys() <= old.cells.keys() | set(old.mems)
        assert host.usage.fits(part_of(host.topology, host.usage, old, second), answer) is None
    else:
        found = next(every_choice(host.topology, host.usage, old, second, keep), None)
        assert found is None, f"{found} has them, and the answer was: {answer}"


def test_the_search_finds_what_there_is():
    """The oracle is no yes-man, and no nay-sayer."""
    small = machine(cells=1, cores=2, threads=2)
    old = dedicated("0-3")
    found = list(every_choice(small, Usage(), old, PlacementRequest(2, 64), CpuSet("3")))
    assert {str(each.cpus) for each in found} == {"0,3", "1,3", "2-3"}
    isolated = PlacementRequest(2, 64, thread_policy="isolate")
    found = list(every_choice(small, Usage(), old, isolated, CpuSet("3")))
    assert {str(each.cpus) for each in found} == {"0,3", "1,3"}
    assert list(every_choice(small, Usage({"a": dedicated("0")}), old, isolated, CpuSet("3"))) == []
