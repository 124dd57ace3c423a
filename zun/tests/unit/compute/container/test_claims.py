# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.compute.container.claims import Claim, Resources, Wanted
from zun.scheduler import filters, select
from zun.scheduler.host_state import Aggregate
from zun.scheduler.request_spec import RequestSpec
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, configuration, holding, placements, used_hosts, without_cpus
from zun.tests.unit.scheduler.hosts import host as state_of
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Refusal, Usage, plan

# Two cells of four CPUs and 4096 MiB.
MACHINE = machine()


def dedicated(cpus, memory=64, **fields):
    return PlacementRequest(cpus, memory, **fields)


def shared(cpus, memory=64):
    return PlacementRequest(cpus, memory, cpu_policy="shared")


def resources(*held, topology=MACHINE, **fields):
    """A host on which each of ``held`` (requests, or exact plans) has been claimed."""
    values = {
        "hostname": "h1",
        "topology": topology,
        "usage": holding(topology, *held),
        "generation": 7,
        "disk_limit": 100.0,
        "disk_used": 90,
        "enable_cpu_pinning": True,
    }
    return Resources(**{**values, **fields})


def claim(host, request, limits=None, disk=0, back=None):
    given_back = [] if back is None else back
    return Claim(host, Wanted("me", request, disk), limits or {}, given_back.append)


def refusal(host, request, limits=None, disk=0):
    """The reason of the refusal, without the words around it."""
    with pytest.raises(exceptions.ClaimRefused) as caught:
        claim(host, request, limits, disk)
    head, _, reason = str(caught.value).partition(": ")
    assert head == "The host refused the claim"
    return reason


def proposal(cpus="0-1", memory=64, cell=0, **fields):
    """Limits with one cell's plan as the scheduler sends it."""
    share = CellShare(cpus=CpuSet(cpus), memory_mib=memory, **fields)
    return {"cpuset": Plan({cell: share}, generation=3).to_dict()}


# what is granted


def test_a_proposal_whose_parts_are_free_is_carried_out_as_it_is():
    # Not what the host itself would choose: these are the highest CPUs of the second cell.
    settled = claim(resources(), dedicated(2), proposal("6-7", 64, cell=1)).plan
    assert settled == Plan({1: CellShare(cpus=CpuSet("6-7"), memory_mib=64)}, generation=7)


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([], id="older-than-the-host"),
        pytest.param([dedicated(2)], id="others-came-and-took-something-else"),
    ],
)
def test_a_stale_proposal_that_is_still_free_is_carried_out(held):
    assert claim(resources(*held), dedicated(2), proposal("6-7", cell=1)).plan.cpus == CpuSet("6-7")


@pytest.mark.parametrize(
    ("held", "limits", "why"),
    [
        pytest.param([dedicated(2)], proposal("0-1"), "its CPUs are taken", id="cpus-taken"),
        pytest.param([dedicated(1)], proposal("0-1"), "one of its CPUs is taken", id="one-cpu-taken"),
        pytest.param([dedicated(1, 4000)], proposal("2-3", 500), "its memory is taken", id="memory-taken"),
        pytest.param([], proposal("8-9", cell=2), "there is no such cell", id="no-such-cell"),
        pytest.param([], proposal("4-5", cell=0), "the CPUs are of another cell", id="another-cell-s-cpus"),
        pytest.param([], proposal("0-1", pages={2048: 1}), "there are no such pages", id="no-such-pages"),
        pytest.param([], {}, "there is no proposal", id="no-proposal"),
        pytest.param([], {"cpuset": None}, "there is no proposal", id="proposal-null"),
    ],
)
def test_a_proposal_that_does_not_hold_is_planned_anew(held, limits, why):
    host = resources(*held)
    answer = plan(host.topology, host.usage, dedicated(2))
    assert claim(host, dedicated(2), limits).plan == replace(answer, generation=7), why


@pytest.mark.parametrize(("policy", "cpus", "idle"), [("prefer", "0", ""), ("isolate", "0", "4")])
def test_a_sibling_that_came_online_is_kept_idle(policy, cpus, idle):
    threads = HostTopology((NUMACell(0, CpuSet("0-7"), tuple(CpuSet((cpu, cpu + 4)) for cpu in range(4)), (), 4096),))
    settled = claim(resources(topology=threads), dedicated(1, thread_policy=policy), proposal("0")).plan
    assert (settled.cpus, settled.withheld) == (CpuSet(cpus), CpuSet(idle))


def test_a_shared_container_is_claimed_on_the_pool():
    host = resources(dedicated(3), topology=MACHINE.configured(cpu_allocation_ratio=2.0))
    settled = claim(host, shared(1.5)).plan
    assert (settled.cpu_policy, settled.memory_mib) == ("shared", 64)
    assert sum(share.shared for share in settled.cells.values()) == 1.5


CAPSULE = PlacementRequest.of_members([
    PlacementRequest(1, 64), PlacementRequest(1.5, 64, "mixed", dedicated_cpus=1), shared(1)
])


def joined(cpus, own, pool=1.0):
    return Plan.joined([
        Plan({0: CellShare(CpuSet(cpus), 64)}),
        Plan({0: CellShare(CpuSet(own), 64, shared=0.5)}, "mixed"),
        Plan({1: CellShare(CpuSet("4-7"), 64, shared=pool)}, "shared"),
    ])


def test_plan_of_a_capsule_is_carried_out_with_its_parts():
    plan_ = joined("3", "2")
    assert claim(resources(), CAPSULE, {"cpuset": plan_.to_dict()}).plan == replace(plan_, generation=7)


@pytest.mark.parametrize("proposed", [
    pytest.param(joined("0", "2").to_dict(), id="a-cpu-is-taken"),
    pytest.param({**joined("3", "2").to_dict(), "parts": []}, id="without-parts"),
    pytest.param(joined("3", "2", pool=5).to_dict(), id="the-pool-is-too-small"),
])
def test_capsule_is_planned_anew_if_its_plan_does_not_hold(proposed):
    host = resources(dedicated(1))
    answer = plan(host.topology, host.usage, CAPSULE)
    assert claim(host, CAPSULE, {"cpuset": proposed}).plan == replace(answer, generation=7)


# what is refused

TWICE = MACHINE.configured(cpu_allocation_ratio=2.0, ram_allocation_ratio=2.0)
ISOLATED = Plan({0: CellShare(cpus=CpuSet("0-1"), withheld=CpuSet("2"))})


@pytest.mark.parametrize(
    ("host", "request_", "limits", "disk", "reason"),
    [
        pytest.param(
            resources(dedicated(1, 3000), shared(1, 1000)),
            dedicated(1, 200),
            {"memory": 4100},
            0,
            "free memory 100 MiB < requested 200 MiB",
            id="memory-of-all-containers-together",
        ),
        pytest.param(
            resources(dedicated(1, 3000)),
            dedicated(1, 200),
            {"memory": 2000},
            0,
            "free memory 0 MiB < requested 200 MiB",
            id="never-less-than-nothing-free",
        ),
        pytest.param(
            resources(dedicated(1, 3000), topology=MACHINE.configured(ram_allocation_ratio=0.5)),
            dedicated(1, 200),
            {"memory": 3100},
            0,
            "free memory 100 MiB < requested 200 MiB",
            id="what-is-held-counts-also-where-less-than-all-is-promised",
        ),
        pytest.param(
            resources(dedicated(3), shared(2)),
            dedicated(2),
            {"cpu": 4.0},
            0,
            "free dedicated CPUs 1 CPUs < requested 2 CPUs",
            id="dedicated-cpus-are-counted-apart",
        ),
        pytest.param(
            resources(ISOLATED),
            dedicated(2),
            {"cpu": 4.0},
            0,
            "free dedicated CPUs 1 CPUs < requested 2 CPUs",
            id="cpus-kept-idle-count",
        ),
        pytest.param(
            resources(dedicated(2), shared(2.5), topology=TWICE),
            shared(2),
            {"cpu": 4.0},
            0,
            "free shared CPUs 1.5 CPUs < requested 2 CPUs",
            id="shared-cpus-are-counted-apart",
        ),
        pytest.param(
            resources(), dedicated(1), {"disk": 95.0}, 6, "free disk 5 GiB < requested 6 GiB", id="disk-by-limit"
        ),
        pytest.param(resources(), dedicated(1), {}, 11, "free disk 10 GiB < requested 11 GiB", id="disk-without-limit"),
        pytest.param(
            resources(shared(5), topology=TWICE),
            shared(5),
            {"cpu_allocation_ratio": "1", "ram_allocation_ratio": "1"},
            0,
            "free shared CPUs 4 CPUs < requested 5 CPUs",
            id="an-aggregate's-ratio-of-cpus",
        ),
        pytest.param(
            resources(shared(1, 5000), topology=TWICE),
            shared(1, 3073),
            {"cpu_allocation_ratio": "9", "ram_allocation_ratio": "3/4"},
            0,
            "free memory 3072 MiB < requested 3073 MiB",
            id="an-aggregate's-ratio-of-memory",
        ),
        pytest.param(
            resources(shared(5)),
            shared(4),
            {"cpu_allocation_ratio": "9"},
            0,
            "free shared CPUs 3 CPUs < requested 4 CPUs; all cells together have 3 CPUs left in the shared pool: "
            "4 are wanted",
            id="the-host's-own-ratio-if-it-is-lower",
        ),
        pytest.param(
            resources(topology=TWICE),
            CAPSULE,
            {"cpu_allocation_ratio": "1/5", "ram_allocation_ratio": "1/100"},
            0,
            "free shared CPUs 1.2 CPUs < requested 1.5 CPUs; free memory 40 MiB < requested 64 MiB",
            id="a-capsule-has-the-ratio-of-its-shared-containers",
        ),
        pytest.param(
            resources(enable_cpu_pinning=False),
            dedicated(1),
            {},
            0,
            "the host takes no dedicated containers ([compute] enable_cpu_pinning)",
            id="no-pinning-here",
        ),
        pytest.param(
            resources(dedicated(3), dedicated(3)),
            dedicated(2),
            proposal("0-1"),
            0,
            "no cell has 2 CPUs free: best is cell 0 with 1",
            id="cpuset-cpu",
        ),
        pytest.param(
            resources(dedicated(1, 4000), dedicated(1, 4000)),
            dedicated(2, 200),
            proposal("2-3", 200),
            0,
            "no cell has 200 MiB free: best is cell 0 with 96",
            id="cpuset-mem",
        ),
        pytest.param(
            resources(dedicated(4)),
            dedicated(5, 9000),
            {"memory": 8192.0, "cpu": 8.0},
            11,
            "free memory 8128 MiB < requested 9000 MiB; free dedicated CPUs 4 CPUs < requested 5 CPUs; "
            "free disk 10 GiB < requested 11 GiB; no cell has 5 CPUs free: best is cell 1 with 4",
            id="every-reason-at-once",
        ),
    ],
)
def test_a_refusal_says_what_is_lacking(host, request_, limits, disk, reason):
    assert refusal(host, request_, limits, disk) == reason


@pytest.mark.parametrize(
    ("limits", "request_", "disk"),
    [
        pytest.param({"memory": 4064}, dedicated(1, 1000), 0, id="memory"),
        pytest.param({"cpu": 4.0}, dedicated(1), 0, id="dedicated-cpu"),
        pytest.param({"cpu": 1.5}, shared(0.5), 0, id="shared-cpu"),
        pytest.param({"disk": 95.0}, dedicated(1), 5, id="disk"),
        pytest.param({}, dedicated(1), 10, id="all-the-disk"),
        pytest.param({"cpu_allocation_ratio": "1/2"}, shared(2), 0, id="cpus-by-ratio"),
        pytest.param({"ram_allocation_ratio": "1/2"}, shared(1, 2048), 0, id="memory-by-ratio"),
        pytest.param({"cpu_allocation_ratio": "1/9", "ram_allocation_ratio": "1/9"}, dedicated(1), 0, id="not-for-all"),
    ],
)
def test_what_comes_to_exactly_the_limit_is_granted(limits, request_, disk):
    host = resources(dedicated(3, 3000), shared(1, 64))
    assert claim(host, request_, limits, disk).plan.generation == 7


def test_shared_containers_count_by_demand_not_memory():
    """The second of two cells gives only memory, so no demand is booked there."""
    two_cells = Plan(
        {
            0: CellShare(cpus=CpuSet("0-3"), memory_mib=4096, shared=1.0),
            1: CellShare(cpus=CpuSet("4-7"), memory_mib=904, shared=0.0),
        },
        "shared",
    )
    assert plan(MACHINE, Usage(), shared(1, 5000)).cells.keys() == two_cells.cells.keys()
    assert claim(resources(two_cells), shared(4), {"cpu": 8.0}).plan.cpu_policy == "shared"


def test_tenths_of_a_cpu_add_up_to_what_they_are():
    host = resources(shared(1.6), shared(2.7), shared(2.9), topology=machine(cells=1, cores=8))
    assert claim(host, shared(0.8), {"cpu": 8.0}).plan.cpu_policy == "shared"


# giving back


def test_what_raises_inside_gives_everything_back():
    back = []
    with pytest.raises(exceptions.Conflict), claim(resources(), dedicated(1), back=back) as taken:
        assert (taken.uuid, back) == ("me", [])
        raise exceptions.Conflict("no")
    assert back == ["me"]


def test_what_may_be_committed_is_kept():
    back = []
    with pytest.raises(ZeroDivisionError), claim(resources(), dedicated(1), back=back):
        raise ZeroDivisionError
    assert back == []


def test_what_ends_well_is_kept():
    back = []
    with claim(resources(), dedicated(1), back=back):
        pass
    assert back == []


def test_a_refused_claim_has_nothing_to_give_back():
    back = []
    with pytest.raises(exceptions.ClaimRefused):
        claim(resources(), dedicated(5), back=back)
    assert back == []


# the scheduler and the host agree

FILTERS = filters.load([name for name in ALL_FILTERS if name != "ComputeFilter"], configuration())


@proof(120)
@given(
    host=used_hosts(),
    wanted=placements(),
    disk=st.integers(0, 12),
    disk_used=st.integers(85, 100),
    ratio=st.sampled_from(("0.5", "1", "9")),
    overcommit=st.sampled_from((0.9, 1.0, 1.5)),
)
def test_a_plan_for_an_unchanged_host_is_not_refused(
    host, wanted, disk, disk_used, ratio, overcommit
):
    """Also where an aggregate lowers a ratio below what is promised."""
    lowered = {"cpu_allocation_ratio": ratio, "ram_allocation_ratio": ratio}
    aggregates = (Aggregate("u", "name", lowered),)
    host = replace(host, disk_used=disk_used, disk_allocation_ratio=overcommit, aggregates=aggregates)
    answer = select.select([host], RequestSpec("me", wanted, disk=disk), FILTERS, [], 1)
    assume(isinstance(answer, list))
    here = Resources("h1", host.topology, host.usage, host.generation, host.disk_total * overcommit, disk_used, True)
    settled = claim(here, wanted, answer[0].limits, disk).plan
    assert settled == Plan.from_dict(answer[0].limits["cpuset"])


@pytest.mark.parametrize(
    ("topology", "held"),
    [
        pytest.param(
            # The host keeps 512 MiB back, more than its huge pages leave of the cell.
            HostTopology((replace(MACHINE.cell(0), pages={2048: 2000}),)).configured(reserved_memory_mib=512),
            [dedicated(1, 3000, page_size=2048)],
            id="the-reserve-is-not-taken-from-huge-pages",
        ),
        pytest.param(
            HostTopology((replace(MACHINE.cell(0), pages={2048: 500}),)).configured(ram_allocation_ratio=2.0),
            [shared(1, 5000)],
            id="overcommitted-memory-is-no-huge-page",
        ),
    ],
)
def test_free_huge_pages_are_claimed_on_overcommitted_memory(topology, held):
    wanted = dedicated(1, 1000, page_size=2048)
    host = resources(*held, topology=topology)
    assert isinstance(plan(topology, host.usage, wanted), Plan)
    limits = {"memory": sum(cell.small_mib for cell in topology.cells)}
    assert claim(host, wanted, limits).plan.cells[0].pages == {2048: 500}


def test_overcommit_of_one_cell_takes_from_no_other():
    """Another shared container came since the scheduler looked."""
    topology = machine(cells=2, memory_mib=1000).configured(ram_allocation_ratio=2.0)
    before = state_of("h1", topology, usage=holding(topology, shared(1, 1500)))
    wanted = dedicated(1, 900)
    answer = select.select([before], RequestSpec("me", wanted), FILTERS, [], 1)
    now = resources(shared(1, 1500), shared(1, 300), topology=topology)
    assert claim(now, wanted, answer[0].limits).plan.cells[1].memory_mib == 900


@pytest.mark.parametrize(("lost", "wanted"), [
    pytest.param({"memory_mib": 100}, dedicated(1, 950), id="memory"),
    pytest.param({"pages": {2048: 450}}, dedicated(1, 950), id="memory-to-huge-pages"),
    pytest.param({"cpus": CpuSet(""), "siblings": (), "l3": ()}, shared(4), id="cpus"),
])
def test_a_smaller_cells_promises_take_from_no_other(lost, wanted):
    before = machine(cells=2, memory_mib=1000)
    usage = holding(before, shared(2, 800))
    now = replace(before, cells=(replace(before.cell(0), **lost), before.cell(1)))
    answer = select.select([state_of("h1", now, usage=usage)], RequestSpec("me", wanted), FILTERS, [], 1)
    host = replace(resources(topology=now), usage=usage)
    whole = {"memory": sum(cell.small_mib for cell in now.cells)}  # as schedulers of earlier releases send it
    for limits in (answer[0].limits, {**answer[0].limits, **whole}):
        assert [*claim(host, wanted, limits).plan.cells] == [1]


FLOOR = "no cell has 4 CPUs free beside those that shared containers need: best is cell 1 with 3"


@pytest.mark.parametrize(("held", "cpus", "reason"), [
    pytest.param([shared(1)], 4, FLOOR, id="all"),
    pytest.param([shared(1)], 3, None, id="all-but-one"),
    pytest.param([dedicated(1)], 4, None, id="no-shared-ones"),
])
def test_who_has_lost_the_cpus_of_his_cell_keeps_one_of_another(held, cpus, reason):
    """The scheduler sees that as well, also where it planned before."""
    usage = holding(MACHINE, *held)
    host = replace(resources(topology=without_cpus(MACHINE, 0)), usage=usage)
    answer = select.select(
        [state_of("h1", host.topology, usage=usage)], RequestSpec("me", dedicated(cpus)), FILTERS, [], 1
    )
    proposed = proposal("4-7" if cpus == 4 else "4-6", cell=1)
    if reason is None:
        assert Plan.from_dict(answer[0].limits["cpuset"]).cells == claim(host, dedicated(cpus), proposed).plan.cells
    else:
        assert refusal(host, dedicated(cpus), proposed) == reason
        message = answer.explanation.message
        assert reason in message and "A request for 3 CPUs and 64 MiB would fit now." in message


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("policy", ["prefer", "isolate"])
def test_a_plan_of_an_earlier_scheduler_lacks_whole_cores(policy, threads):
    """It is taken where it keeps them so, and the claim says it."""
    host = resources(topology=machine(threads=threads))
    proposed = proposal("2")
    assert "whole_cores" not in proposed["cpuset"]
    settled = claim(host, dedicated(1, thread_policy=policy), proposed).plan
    taken = policy == "prefer" or threads == 1
    assert (settled.cpus == CpuSet("2"), settled.whole_cores) == (taken, policy == "isolate")
    assert settled.withheld == CpuSet("" if taken else "1")


@proof(60)
@given(host=used_hosts(), first=placements(), second=placements())
def test_a_claim_never_takes_what_another_holds(host, first, second):
    """Both were planned from the same usage; the second claim comes when the first is taken."""
    answers = [plan(host.topology, host.usage, wanted) for wanted in (first, second)]
    assume(all(isinstance(answer, Plan) for answer in answers))
    usage = host.usage.with_claim("first", answers[0])
    here = Resources("h1", host.topology, usage, 0, 100, 0, True)
    again = plan(host.topology, usage, second)
    if isinstance(again, Refusal):
        if usage.fits(host.topology, answers[1]) is not None:
            with pytest.raises(exceptions.ClaimRefused):
                claim(here, second, {"cpuset": answers[1].to_dict()})
        return
    settled = claim(here, second, {"cpuset": answers[1].to_dict()}).plan
    assert usage.fits(host.topology, settled) is None
    usage.with_claim("second", settled)  # raises ClaimConflict for a CPU that is held


def test_a_cell_without_cpus_gives_memory_only():
    topology = HostTopology((*machine(cells=1, memory_mib=64).cells, NUMACell(4, memory_mib=512)))
    settled = claim(resources(topology=topology), dedicated(2, 300)).plan
    assert {node: share.memory_mib for node, share in settled.cells.items()} == {0: 64, 4: 236}
    reason = refusal(resources(topology=topology), dedicated(2, 577))
    assert reason == "no cell has 577 MiB free: best is cell 0 with 576"
