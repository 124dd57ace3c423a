# SPDX-License-Identifier: Apache-2.0
"""Isolation grades: what each keeps, who is kept away, and what a claim that keeps it looks like.

That no later placement breaks a grade is among the laws of the ledger (``test_usage``), that the choice is the best
one is among the cases of ``test_oracle``.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from zun.tests.unit.topology.build import cell, demanding, holding, host, used
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
        "no cell has 1 CPUs free on cores of their own in cells that are nobody else's: best is cell 0 with 0",
        id="node",
    ),
    pytest.param(
        X, used(X, "0-7"), asked(1, "core"), "cores",
        "no cell has 1 CPUs free on whole cores: best is cell 0 with 0", id="core",
    ),
    pytest.param(
        X, Usage().with_claim("s", demanding({0: 1.0, 1: 1.0})), asked(1, "node"), "shared-floor",
        "no cell has 1 CPUs free beside those that shared containers need: best is cell 0 with 0", id="floor",
    ),
    pytest.param(
        host(cell(0, "0,1 2,3", l3="0 1,2 3")), Usage(), asked(1, "l3"), "isolation",
        "no cell has 1 CPUs free on whole cores in L3 caches that are nobody else's: best is cell 0 with 0",
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
    """As with sub-NUMA clustering: the promise of l3 could not be kept, that of node can."""
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
    """Whatever is asked for afterwards, it is given none of what is kept."""
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
    """As when a sibling came online, or the operator's sets changed, between the plan and its claim."""
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
    assert Usage().fits(before, held, policy) is None
    assert Usage().fits(after, held, policy).code == "cores"
    assert Usage().fits(after, held) is None, "who takes any threads does not mind"
    elsewhere = Usage().with_claim("c", holding("0,8,16", after))
    assert elsewhere.fits(after, plan(after, elsewhere, asked(2, "thread", thread_policy=policy)), policy) is None


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
