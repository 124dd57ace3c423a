# SPDX-License-Identifier: Apache-2.0
"""Isolation grades: what each keeps, who is kept away, and what a claim that keeps it looks like.

That no later placement breaks a grade is among the laws of the ledger (``test_usage``), that the choice is the best
one is among the cases of ``test_oracle``.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.functional.cloud import without
from zun.tests.unit.common.proof import proof
from zun.tests.unit.topology.build import cell, demanding, holding, host, smt_host, used
from zun.tests.unit.topology.hosts import proof_size, random_case
from zun.topology import (
    CellShare,
    CpuSet,
    HostTopology,
    PlacementRequest,
    Plan,
    Refusal,
    Usage,
    grade_of,
    has_whole_cores,
    kept_up,
    plan,
)

# Two cells of two L3 groups of two cores of two threads: cell 0 has cores 0,8 1,9 | 2,10 3,11.
X = host(
    cell(0, "0,8 1,9 2,10 3,11", l3="0-1,8-9 2-3,10-11"),
    cell(1, "4,12 5,13 6,14 7,15", l3="4-5,12-13 6-7,14-15"),
)
LONE = host(cell(0, "0 1 2 3"))
SOME_SMT = host(cell(0, "0,1 2 3,4 5"))


def asked(cpus: int, isolation: str, **fields) -> PlacementRequest:
    return PlacementRequest(cpus, 10, isolation=isolation, **fields)


@pytest.mark.parametrize(("topology", "usage", "request_", "cpus", "withheld"), [
    pytest.param(X, Usage(), asked(1, "thread"), "0", "", id="thread"),
    pytest.param(X, Usage(), asked(1, "core"), "0", "8", id="core"),
    pytest.param(X, Usage(), asked(3, "core"), "0-1,8", "9", id="core-uses-its-own-siblings"),
    pytest.param(X, Usage(), asked(2, "core", thread_policy="isolate"), "0-1", "8-9", id="core-isolate"),
    pytest.param(X, used(X, "0"), asked(1, "core"), "1", "9", id="core-beside-a-broken-one"),
    pytest.param(LONE, Usage(), asked(2, "core"), "0-1", "", id="core-without-siblings"),
    pytest.param(SOME_SMT, Usage(), asked(3, "core"), "0-2", "", id="cores-of-two-sizes"),
    pytest.param(X, Usage(), asked(2, "l3"), "0,8", "1,9", id="l3"),
    pytest.param(X, used(X, "0"), asked(2, "l3"), "2,10", "3,11", id="l3-beside-a-shared-one"),
    pytest.param(X, Usage(), asked(5, "l3"), "0-2,8-9", "3,10-11", id="two-l3"),
    pytest.param(X, Usage(), asked(2, "l3", thread_policy="isolate"), "0-1", "8-9", id="l3-isolate"),
    pytest.param(LONE, Usage(), asked(2, "l3"), "0-1", "2-3", id="cell-is-one-l3"),
    pytest.param(host(cell(0, "0 1 2", l3="")), Usage(), asked(1, "l3"), "0", "1-2", id="no-l3-told"),
    pytest.param(X, Usage(), asked(2, "node"), "0,8", "1-3,9-11", id="node"),
    pytest.param(X, used(X, "0"), asked(2, "node"), "4,12", "5-7,13-15", id="node-beside-a-shared-one"),
    pytest.param(
        X, Usage(), asked(2, "node", numa_nodes=2), "0,4", "1-3,5-15", id="both-nodes",
    ),
    pytest.param(
        X.configured(reserved_cpus=CpuSet("0")), Usage(), asked(2, "l3"), "1,9", "8",
        id="reserved-cpus-do-not-spoil-an-l3",
    ),
    pytest.param(
        X.configured(reserved_cpus=CpuSet("0,4")), Usage(), asked(6, "node"), "1-3,9-11", "8",
        id="reserved-cpus-are-the-hosts-but-no-siblings",
    ),
    pytest.param(X.beside(CpuSet("0")), Usage(), asked(1, "thread"), "8", "", id="beside-others"),
    pytest.param(X.beside(CpuSet("0")), Usage(), asked(1, "core"), "1", "9", id="core-beside-others"),
    pytest.param(X.beside(CpuSet("0")), Usage(), asked(2, "l3"), "2,10", "3,11", id="l3-beside-others"),
    pytest.param(X.beside(CpuSet("0")), Usage(), asked(2, "node"), "4,12", "5-7,13-15", id="node-beside-others"),
    pytest.param(
        host(cell(0, "0 1 2", l3=""), cell(1, "3 4 5", l3="")).beside(CpuSet("1")), Usage(), asked(1, "l3"), "3", "4-5",
        id="no-l3-told-beside-others",
    ),
    pytest.param(
        X.configured(shared_set=CpuSet("3,11")), Usage(), asked(2, "node", numa_affinity="none"),
        "2,10", "0-1,3,8-9,11",
        id="what-is-set-apart-for-shared-ones-is-kept-from-them",
    ),
    pytest.param(
        replace(X, isolated=CpuSet("1,9")), Usage(), asked(2, "l3"), "0,8", "1,9", id="and-what-the-kernel-isolates",
    ),
    pytest.param(
        replace(X, exposed_l3=CpuSet("0-1,8-9")), Usage(), asked(2, "l3"), "2,10", "3,11", id="l3-beyond-the-cell",
    ),
    pytest.param(
        replace(X, exposed_nodes=CpuSet("0-3,8-11")), Usage(), asked(2, "node"), "4,12", "5-7,13-15",
        id="cell-beyond-our-limits",
    ),
    pytest.param(
        X, Usage().with_claim("s", demanding({0: 1.0})), asked(2, "node"), "4,12", "5-7,13-15",
        id="not-where-shared-containers-would-starve",
    ),
    pytest.param(
        X, Usage().with_claim("s", demanding({0: 4.0, 1: 5.0})), asked(2, "l3"), "0,8", "1,9", id="the-floor-is-kept",
    ),
])
def test_what_a_grade_keeps(topology, usage, request_, cpus, withheld):
    answer = plan(topology, usage, request_)
    assert isinstance(answer, Plan), answer
    assert (str(answer.cpus), str(answer.withheld), answer.isolation) == (cpus, withheld, request_.isolation)
    assert usage.fits(topology, answer) is None
    pool = usage.with_claim("new", answer).shared_pool(topology)
    assert not pool & (answer.cpus | answer.withheld), "kept CPUs are no part of the shared pool"


@pytest.mark.parametrize(("topology", "usage", "request_", "code", "message"), [
    pytest.param(
        X, used(X, "0,2,4,6"), asked(2, "l3"), "isolation",
        "no cell has 2 CPUs free on whole cores in L3 caches that are nobody else's: best is cell 0 with 0", id="l3",
    ),
    pytest.param(
        X, used(X, "0,4"), asked(5, "l3"), "isolation",
        "no cell has 5 CPUs free on whole cores in L3 caches that are nobody else's: best is cell 0 with 4",
        id="l3-too-small",
    ),
    pytest.param(
        X, used(X, "0,4"), asked(1, "node", thread_policy="isolate"), "isolation",
        "no cell has 1 CPU free on cores of their own in cells that are nobody else's: best is cell 0 with 0",
        id="node",
    ),
    pytest.param(
        X, used(X, "0-7"), asked(1, "core"), "cores",
        "no cell has 1 CPU free on whole cores: best is cell 0 with 0", id="core",
    ),
    pytest.param(
        X, Usage().with_claim("s", demanding({0: 1.0, 1: 1.0})), asked(1, "node"), "shared-floor",
        "no cell has 1 CPU free beside those that shared containers need: best is cell 0 with 0", id="floor",
    ),
    pytest.param(
        host(cell(0, "0,1 2,3", l3="0 1,2 3")), Usage(), asked(1, "l3"), "isolation",
        "no cell has 1 CPU free on whole cores in L3 caches that are nobody else's: best is cell 0 with 0",
        id="cores-between-two-caches",
    ),
    pytest.param(
        X, Usage(), asked(1, "isolated"), "no-cpus",
        "the kernel isolates no CPU of this host that is for dedicated containers", id="isolated",
    ),
])
def test_why_a_grade_cannot_be_had(topology, usage, request_, code, message):
    answer = plan(topology, usage, request_)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.message) == (code, message)
    assert isinstance(plan(topology, usage, answer.nearest), Plan)


GRADES = ("thread", "core", "l3", "node")


def test_where_a_grade_fits_so_do_those_below():
    granted = 0
    for seed in range(proof_size(1500)):
        rng = random.Random(seed)
        topology, usage, request = random_case(rng)
        if not request.dedicated:
            continue
        fits = [isinstance(plan(topology, usage, replace(request, isolation=grade)), Plan) for grade in GRADES]
        granted += fits[-1]
        if topology.exposed_l3:
            fits.pop(2)
        assert fits == sorted(fits, reverse=True), seed
    assert granted > proof_size(1500) // 8


def test_a_cell_can_be_had_alone_where_its_l3_reaches_beyond():
    """With sub-NUMA clustering, grade l3 cannot be kept and grade node can."""
    clusters = replace(host(cell(0, "0,4 1,5"), cell(1, "2,6 3,7")), exposed_l3=CpuSet("0-7"))
    answers = [plan(clusters, Usage(), asked(2, grade)) for grade in GRADES]
    assert [isinstance(answer, Plan) for answer in answers] == [True, True, False, True]
    assert [answer.code for answer in answers if isinstance(answer, Refusal)] == ["isolation"]
    whole = answers[-1]
    assert (whole.cpus | whole.withheld, grade_of(clusters, whole)) == (CpuSet("0-1,4-5"), "node")


def test_the_nearest_request_may_be_one_without_the_grade():
    answer = plan(X, used(X, "0,2,4,6"), asked(2, "l3"))
    assert answer.nearest == asked(2, "thread")


@pytest.mark.parametrize("isolation", ["thread", "core", "l3", "node"])
def test_nobody_else_comes_near(isolation):
    """No later request gets a withheld CPU."""
    usage = Usage().with_claim("first", plan(X, Usage(), asked(2, isolation)))
    kept = usage.held_cpus
    for policy in ("prefer", "isolate", "require"):
        for grade in ("thread", "core", "l3", "node"):
            answer = plan(X, usage, asked(2, grade, thread_policy=policy, numa_affinity="none"))
            assert isinstance(answer, Plan)
            assert not (answer.cpus | answer.withheld) & kept
    shared = plan(X, usage, PlacementRequest(4, 10, cpu_policy="shared"))
    assert not shared.cpus & kept


def test_a_plan_that_does_not_keep_its_grade_is_no_claim():
    """A sibling came online, or the operator's sets changed, between the plan and its claim."""
    held = plan(X, Usage(), asked(2, "l3"))
    less = replace(held, cells={0: CellShare(CpuSet("0,8"), 10, CpuSet("1"))})
    assert Usage().fits(X, held) is None
    assert Usage().fits(X, less).code == "isolation"
    assert Usage().fits(replace(X, exposed=CpuSet("8")), held).code == "isolation"
    assert Usage().fits(replace(X, exposed_l3=CpuSet("8")), held).code == "isolation"
    node = plan(X, Usage(), asked(2, "node"))
    assert Usage().fits(replace(X, exposed_nodes=CpuSet("8")), node).code == "isolation"
    assert Usage().fits(replace(X, isolated=CpuSet("1,9")), held) is None
    assert Usage().fits(replace(X, isolated=CpuSet("0")), held).code == "cpus-gone"
    assert used(X, "9").fits(X, held).code == "cpus-taken"
    isolated = replace(X, isolated=CpuSet("0-3"))
    claim = plan(isolated, Usage(), asked(2, "isolated"))
    assert Usage().fits(isolated, claim) is None
    assert Usage().fits(X, claim).code == "cpus-gone"
    assert Usage().fits(isolated, replace(claim, isolation="thread")).code == "cpus-gone"


@pytest.mark.parametrize("policy", ["isolate", "require"])
def test_a_plan_without_a_sibling_that_is_online_now_is_no_claim(policy):
    before = host(cell(0, "0,8 1,9 2,10"))
    after = host(cell(0, "0,8,16 1,9 2,10"))
    held = plan(before, Usage(), asked(2, "thread", thread_policy=policy))
    assert 0 in held.cpus
    assert Usage().fits(before, held) is None
    assert Usage().fits(after, held).code == "cores"
    assert Usage().fits(after, replace(held, whole_cores=False)) is None, "who takes any threads does not mind"
    elsewhere = Usage().with_claim("c", holding("0,8,16", after))
    assert elsewhere.fits(after, plan(after, elsewhere, asked(2, "thread", thread_policy=policy))) is None


@pytest.mark.parametrize(("claim", "grade"), [
    pytest.param(holding("0", X), "thread", id="thread"),
    pytest.param(holding("0,8", X), "core", id="core-by-chance"),
    pytest.param(holding("0", X, withheld="8"), "core", id="core"),
    pytest.param(holding("0-1,8-9", X), "l3", id="l3-by-chance"),
    pytest.param(holding("0", X, withheld="1,8-9"), "l3", id="l3"),
    pytest.param(holding("0-1,8-9,4", X), "thread", id="the-weakest-cell-counts"),
    pytest.param(holding("0-3,8-11", X), "node", id="node-by-chance"),
    pytest.param(holding("0,99", X), "thread", id="cpu-gone"),
    pytest.param(Plan({0: CellShare(CpuSet("0,8")), 1: CellShare(memory_mib=5)}), "core", id="memory-elsewhere"),
    pytest.param(Plan({5: CellShare(CpuSet("0"))}), "thread", id="cell-gone"),
    pytest.param(demanding({0: 1.0}), None, id="shared"),
])
def test_the_grade_that_is_reached(claim, grade):
    assert grade_of(X, claim) == grade


def test_the_grade_of_isolated_cpus():
    topology = replace(X, isolated=CpuSet("0-3,8-11"))
    assert grade_of(topology, plan(topology, Usage(), asked(2, "isolated"))) == "isolated"
    assert grade_of(replace(X, exposed=CpuSet("0")), holding("0,8", X)) == "thread"
    assert grade_of(replace(X, exposed_l3=CpuSet("0")), holding("0-1,8-9", X)) == "core"
    assert grade_of(replace(X, exposed_nodes=CpuSet("0")), holding("0-3,8-11", X)) == "l3"


def test_the_grade_is_in_the_record():
    held = plan(X, Usage(), asked(2, "l3"))
    record = json.loads(json.dumps(held.to_dict()))
    assert record["isolation"] == "l3"
    assert Plan.from_dict(record) == held
    assert "isolation" not in plan(X, Usage(), asked(2, "thread")).to_dict()


@pytest.mark.parametrize(("request_", "whole"), [
    pytest.param(asked(2, "thread"), False, id="prefer"),
    pytest.param(asked(2, "node"), False, id="a-grade-says-it-itself"),
    pytest.param(asked(2, "thread", thread_policy="isolate"), True, id="isolate"),
    pytest.param(asked(2, "l3", thread_policy="require"), True, id="require"),
    pytest.param(asked(5, "thread", thread_policy="isolate", numa_affinity="none"), True, id="on-any-cells"),
    pytest.param(PlacementRequest(2, 10, "shared", "isolate"), False, id="shared"),
])
def test_a_plan_says_that_its_cores_are_its_own(request_, whole):
    answer = plan(X, Usage(), request_)
    record = json.loads(json.dumps(answer.to_dict()))
    assert (answer.whole_cores, record.pop("whole_cores", False)) == (whole, whole)
    assert Plan.from_dict(record) == replace(answer, whole_cores=False), "as a release that does not know of it"


@pytest.mark.parametrize("isolation", ["core", "l3", "node", "isolated", "socket"])
def test_only_dedicated_cpus_are_isolated(isolation):
    with pytest.raises(ValueError, match="isolation"):
        PlacementRequest(1, 10, cpu_policy="shared", isolation=isolation)


def test_topologies_of_an_older_record_have_no_exposed_cache():
    record = X.to_dict()
    del record["exposed_l3"], record["exposed_nodes"], record["strategy"]
    assert HostTopology.from_dict(record) == X


# What comes online later


@pytest.mark.parametrize(("isolation", "usage", "withheld", "reached"), [
    pytest.param("core", Usage(), "8", "core", id="core"),
    pytest.param("l3", Usage(), "1,8-9", "l3", id="l3"),
    pytest.param("node", Usage(), "1-3,8-11", "node", id="node"),
    pytest.param("thread", Usage(), "", "thread", id="thread-keeps-nothing"),
    pytest.param("core", used(X, "8"), "", "thread", id="somebody-was-quicker"),
    pytest.param("core", Usage().with_claim("s", demanding({0: 7.5})), "", "thread", id="shared-containers-need-it"),
])
def test_a_grade_keeps_what_comes_online(isolation, usage, withheld, reached):
    """The claim is of a time when all siblings were offline."""
    before = host(cell(0, "0 1 2 3", l3="0-1 2-3"), cell(1, "4 5 6 7", l3="4-5 6-7"))
    held = plan(before, Usage(), asked(1, isolation))
    usage = usage.with_claim("c", held)
    kept = kept_up(X, usage, held)
    assert (str(kept.cpus), str(kept.withheld)) == ("0", withheld)
    assert grade_of(X, kept) == reached
    assert kept_up(X, usage.without("c").with_claim("c", kept), kept) is kept


# All but the first threads of two cores are offline at the claim, and the rest of the cell.
WIDE = host(cell(0, "0,8,16,24 1,9,17,25 2,10 3"))
NARROW = host(cell(0, "0 1 2 3"))


@pytest.mark.parametrize(("topology", "usage", "isolation", "withheld", "whole"), [
    pytest.param(WIDE, Usage(), "thread", "8-9,16-17,24-25", True, id="all"),
    pytest.param(WIDE, Usage(), "core", "8-9,16-17,24-25", True, id="grade-core"),
    pytest.param(WIDE, Usage(), "l3", "2-3,8-10,16-17,24-25", True, id="grade-l3"),
    pytest.param(WIDE, used(WIDE, "8,17"), "thread", "9,16,24-25", False, id="somebody-was-quicker"),
    pytest.param(WIDE, used(WIDE, "8,17"), "core", "9,16,24-25", False, id="so-it-is-for-grade-core"),
    pytest.param(WIDE, used(WIDE, "10"), "l3", "8-9,16-17,24-25", True, id="its-cores-where-the-l3-has-another"),
    pytest.param(
        WIDE, Usage().with_claim("s", demanding({0: 6.0})), "thread", "8-9,16", False, id="what-shared-ones-can-spare",
    ),
    pytest.param(WIDE, Usage().with_claim("s", demanding({0: 10.0})), "thread", "", False, id="they-can-spare-none"),
    pytest.param(
        WIDE.configured(shared_set=CpuSet("8-25")), Usage(), "thread", "", False, id="siblings-are-for-shared-ones",
    ),
    pytest.param(
        WIDE.configured(shared_set=CpuSet("16-25")), Usage(), "core", "8-9", False, id="some-are-for-shared-ones",
    ),
    pytest.param(
        WIDE.configured(dedicated_set=CpuSet("0-7,16-25")), Usage(), "thread", "16-17,24-25", False,
        id="some-are-not-for-dedicated-ones",
    ),
    pytest.param(
        WIDE.configured(reserved_cpus=CpuSet("8-9")), Usage(), "thread", "16-17,24-25", False, id="reserved",
    ),
    pytest.param(
        replace(WIDE, isolated=CpuSet("8-15,24-31")), Usage(), "thread", "16-17", False, id="the-kernel-isolates-some",
    ),
    pytest.param(
        replace(WIDE, isolated=CpuSet("0-1,8-9,24-25")), Usage(), "isolated", "8-9,24-25", False, id="not-all-isolated",
    ),
    pytest.param(replace(WIDE, isolated=CpuSet("0-31")), Usage(), "isolated", "8-9,16-17,24-25", True, id="isolated"),
    pytest.param(
        replace(WIDE, exposed=CpuSet("0,8,16,24")), Usage(), "thread", "8-9,16-17,24-25", False, id="beyond-our-limits",
    ),
    pytest.param(host(cell(0), cell(1, "4 5")), Usage(), "thread", "", True, id="the-cell-has-no-cpus-any-more"),
    pytest.param(host(cell(1, "4 5")), Usage(), "thread", "", True, id="the-cell-is-gone"),
])
def test_whole_cores_keep_what_comes_online(topology, usage, isolation, withheld, whole):
    """The claim is of a time when all siblings were offline."""
    before = replace(NARROW, isolated=NARROW.cpus) if isolation == "isolated" else NARROW
    held = plan(before, Usage(), asked(2, isolation, thread_policy="isolate"))
    assert held.cpus == CpuSet("0-1")
    held = replace(held, cells={0: replace(held.cells[0], withheld=CpuSet())})  # l3 keeps 2-3 at once
    usage = usage.with_claim("c", held)
    kept = kept_up(topology, usage, held)
    assert (kept.cpus, str(kept.withheld), kept.whole_cores) == (held.cpus, withheld, True)
    assert has_whole_cores(topology, kept) == whole
    usage = usage.without("c").with_claim("c", kept)
    assert kept_up(topology, usage, kept) is kept


def test_a_whole_core_is_taken_up_when_the_other_has_left():
    held = plan(NARROW, Usage(), asked(1, "thread", thread_policy="isolate"))
    usage = used(WIDE, "16").with_claim("c", held)
    kept = kept_up(WIDE, usage, held)
    assert (str(kept.withheld), has_whole_cores(WIDE, kept)) == ("8,24", False)
    kept = kept_up(WIDE, Usage().with_claim("c", kept), kept)
    assert (str(kept.withheld), has_whole_cores(WIDE, kept)) == ("8,16,24", True)


def siblings_that_can_be_kept(topology, usage, held):
    """By cell, the CPUs beside ``held`` on its cores that are for it and free, and how many of them the pool loses at
    most; told in sets from the words of the documentation.
    """
    usable = set(topology.cpus) - set(topology.reserved)
    dedicated = usable - set(topology.shared_set or ()) if topology.dedicated_set is None else (
        usable & set(topology.dedicated_set)
    )
    isolated = set(topology.isolated)
    dedicated = dedicated & isolated if held.isolation == "isolated" else dedicated - isolated
    pool = usable - isolated if topology.shared_set is None else (usable - isolated) & set(topology.shared_set)
    taken, claims = set(), [claim for _, claim in usage]
    for claim in claims:
        if claim.cpu_policy == "dedicated":
            taken |= {*claim.cpus, *claim.withheld}
    found = {}
    for part in topology.cells:
        cpus = set()
        for core in part.siblings:
            if core & held.cpus:
                cpus |= set(core)
        demand = sum(claim.cells[part.id].shared for claim in claims if part.id in claim.cells)
        sharers = any(not claim.dedicated and part.id in claim.cells for claim in claims)
        least = max(1, math.ceil(round(demand / topology.cpu_allocation_ratio, 6))) if sharers else 0
        left = len((pool & set(part.cpus)) - taken) - least
        found[part.id] = (cpus & dedicated) - taken, pool, max(0, left)
    return found


@st.composite
def hosts_that_grew(draw):
    """A host, its usage and who has a claim there from a time when it had fewer CPUs."""
    whole = smt_host(draw(st.integers(1, 2)), draw(st.integers(2, 3)), draw(st.sampled_from((2, 2, 4))))
    cpus = [*whole.cpus]
    siblings = [cpu for part in whole.cells for core in part.siblings for cpu in [*core][1:]]

    def some(of=cpus, least=0, most=None):
        return CpuSet(draw(st.sets(st.sampled_from(of), min_size=least, max_size=most)))

    def seldom(found):
        return found() if draw(st.integers(0, 3)) == 3 else None

    # Shared containers keep one CPU in each cell, so that none of them has lost its own.
    offline = (some(siblings, 1) | some(most=2)) - CpuSet(max(part.cpus) for part in whole.cells)
    whole = replace(whole, isolated=seldom(some) or CpuSet()).configured(
        reserved_cpus=seldom(lambda: some(most=2)) or CpuSet(), dedicated_set=seldom(some), shared_set=seldom(some),
        cpu_allocation_ratio=draw(st.sampled_from((1.0, 1.5, 4.0))),
    )
    before, usage = without(whole, offline), Usage()
    grades = ("thread", "thread", "isolated", "core", "l3", "node")
    for number in range(draw(st.integers(2, 7))):
        early = number < 2 or draw(st.integers(0, 2)) == 0
        policy = draw(st.sampled_from(("isolate", "isolate", "require") if early else ("prefer", "prefer", "isolate")))
        if number != 1 and draw(st.integers(0, 3)) == 0:
            request = PlacementRequest(draw(st.integers(1, 30)) / 10, 1, "shared")
        else:
            cpus, grade = draw(st.integers(1, 2)), draw(st.sampled_from(grades))
            request = PlacementRequest(cpus, 1, thread_policy=policy, isolation=grade, numa_affinity="prefer")
        answer = plan(before if early else whole, usage, request)
        if isinstance(answer, Plan):
            usage = usage.with_claim(f"c{number}", answer)
    return whole, usage


@proof(400)
@given(case=hosts_that_grew())
def test_whoever_asked_for_whole_cores_has_them_as_far_as_can_be(case):
    whole, usage = case
    for owner in usage.owners:
        held = usage.claim(owner)
        can = siblings_that_can_be_kept(whole, usage, held)
        kept = kept_up(whole, usage, held)
        usage = usage.without(owner).with_claim(owner, kept)  # raises ClaimConflict for a CPU that is held
        assert kept.cpus == held.cpus and held.withheld <= kept.withheld
        if not held.whole_cores:
            assert held.isolation not in ("thread", "isolated") or kept is held
            continue
        for node, (siblings, pool, budget) in can.items():
            mine = set(kept.cells[node].withheld - held.cells[node].withheld) if node in held.cells else set()
            missed = siblings - mine
            assert not missed - pool, "nobody would have missed it"
            assert not missed or len(mine & pool) == budget, "the pool could have given more"
            assert len(mine & pool) <= budget, "shared containers need it"
            assert held.isolation in ("l3", "node") or mine <= siblings
        assert kept_up(whole, usage, kept) is kept
        assert has_whole_cores(whole, kept) or usage.without(owner).fits(whole, kept) is not None


# Pack and spread


SPREAD = X.configured(strategy="spread")


@pytest.mark.parametrize(("usage", "request_", "pack", "spread"), [
    pytest.param(used(X, "0"), PlacementRequest(2, 10), "1,9", "4,12", id="emptiest-cell"),
    pytest.param(used(X, "0,4,5"), PlacementRequest(2, 10), "1,9", "2,10", id="emptiest-l3-then-cell"),
    pytest.param(used(X, "0,8,4-6"), PlacementRequest(2, 10), "1,9", "2,10", id="emptiest-l3"),
    pytest.param(used(X, "0"), PlacementRequest(1, 10), "8", "8", id="broken-cores-are-used-up-by-both"),
    pytest.param(used(X, "0"), PlacementRequest(10, 10, numa_affinity="prefer"), "1,4-7,9,12-15",
                 "2,4-7,10,12-15", id="wide"),
    pytest.param(
        Usage().with_claim("m", holding("", X)).with_claim("n", Plan({0: CellShare(memory_mib=5)})),
        PlacementRequest(2, 10), "0,8", "4,12", id="most-memory-left",
    ),
    pytest.param(
        Usage().with_claim("s", demanding({0: 1.0})), PlacementRequest(1, 10, cpu_policy="shared"),
        "0-3,8-11", "4-7,12-15", id="shared",
    ),
])
def test_pack_and_spread(usage, request_, pack, spread):
    assert str(plan(X, usage, request_).cpus) == pack
    assert str(plan(SPREAD, usage, request_).cpus) == spread


def test_a_strategy_is_one_of_two():
    with pytest.raises(ValueError, match="strategy must be pack or spread"):
        X.configured(strategy="scatter")
    assert HostTopology.from_dict(json.loads(json.dumps(SPREAD.to_dict()))) == SPREAD
