# SPDX-License-Identifier: Apache-2.0
"""The ledger: what is taken is gone, what is given back is there, nothing twice."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import fields, replace

import pytest

from zun.tests.unit.topology.build import cell, demanding, holding, host, smt_host, used
from zun.tests.unit.topology.hosts import proof_size, random_request, random_topology, random_usage
from zun.topology import (
    CellShare,
    ClaimConflict,
    CpuSet,
    HostTopology,
    NUMACell,
    PlacementRequest,
    Plan,
    Usage,
    grade_of,
    plan,
)
from zun.topology.cache_control import CacheControl, Part
from zun.topology.devices import Device
from zun.topology.foreign import Foreign, ForeignShare

SMT = smt_host(2, 4)


def test_claims_by_owner():
    isolated = plan(SMT, Usage(), PlacementRequest(2, 10, thread_policy="isolate"))
    usage = Usage().with_claim("a", isolated).with_claim("s", demanding({0: 1.0}))
    assert usage.owners == ("a", "s")
    assert (usage.claim("a"), usage.claim("b")) == (isolated, None)
    assert {cpu: usage.owner_of(cpu) for cpu in (0, 1, 2, 3, 4)} == {0: "a", 1: "a", 2: "a", 3: "a", 4: None}
    assert (usage.owner_of(-1), usage.owner_of(10**6)) == (None, None)
    assert usage.held_cpus == CpuSet("0-3"), "siblings that isolate withholds are held too"
    assert usage.shared_pool(SMT) == CpuSet("4-15")
    assert usage.shared_pool(SMT, [1]) == CpuSet("8-15")
    assert len(usage) == 2


def test_no_cpu_twice():
    usage = used(SMT, "0-3")
    with pytest.raises(ClaimConflict, match="CPUs 3 are held by c0") as caught:
        usage.with_claim("b", holding("3-4", SMT))
    assert (caught.value.owner, caught.value.cpus) == ("c0", CpuSet("3"))
    with pytest.raises(ClaimConflict):
        usage.with_claim("b", holding("4", SMT, withheld="3"))
    with pytest.raises(ClaimConflict):
        Usage([("a", holding("0", SMT)), ("b", holding("0", SMT))])
    assert usage == used(SMT, "0-3"), "a refused claim leaves nothing behind"
    with pytest.raises(ClaimConflict, match="CPUs 3-4 are held by c0"):  # and by another, who has a higher one
        used(SMT, "0-3", "4").with_claim("b", holding("3-4", SMT))


def test_claims_that_overlap_all_the_same():
    claims = {"a": holding("0-2", SMT), "b": holding("2-4", SMT), "c": holding("2", SMT), "d": holding("7", SMT)}
    usage = Usage(claims, overlapping=True)
    assert (usage.held_cpus, usage.held_twice) == (CpuSet("0-4,7"), CpuSet("2"))
    assert usage.with_claim("c", claims["c"]) is usage
    with pytest.raises(ClaimConflict):
        usage.with_claim("e", holding("2", SMT))
    left = usage.without("a")
    assert (left.held_cpus, left.held_twice) == (CpuSet("2-4,7"), CpuSet("2"))
    assert pickle.loads(pickle.dumps(left)).held_twice == CpuSet("2")
    left = left.without("c")
    assert (left.held_cpus, left.held_twice) == (CpuSet("2-4,7"), CpuSet(""))
    assert left == Usage({"b": claims["b"], "d": claims["d"]})
    assert left.without("b").held_cpus == CpuSet("7")
    assert usage.held_twice == CpuSet("2"), "a value does not change"


def test_one_owner_one_claim():
    usage = used(SMT, "0-3")
    assert usage.with_claim("c0", holding("0-3", SMT)) is usage, "the same message twice"
    with pytest.raises(ClaimConflict, match="already holds another claim") as caught:
        usage.with_claim("c0", holding("4", SMT))
    assert (caught.value.owner, caught.value.cpus) == ("c0", CpuSet("0-3"))
    assert usage.without("nobody") is usage
    assert usage.without("c0") == Usage()
    assert usage.without("c0").without("c0") == Usage()


def test_values_do_not_change():
    before = used(SMT, "0-1", memory_mib=10)
    after = before.with_claim("b", holding("8", SMT, memory_mib=5))
    after.without("c0")
    assert before == used(SMT, "0-1", memory_mib=10)
    assert after.owners == ("c0", "b")
    assert pickle.loads(pickle.dumps(after)) == after
    assert dict(iter(after)) == {"c0": after.claim("c0"), "b": after.claim("b")}
    with pytest.raises(TypeError):
        hash(after)


@pytest.mark.parametrize(("claim", "code"), [
    pytest.param(holding("0-1", SMT, memory_mib=1000), None, id="all-free"),
    pytest.param(holding("2-3", SMT), "cpus-taken", id="taken"),
    pytest.param(holding("4", SMT, withheld="3"), "cpus-taken", id="sibling-taken"),
    pytest.param(holding("0", SMT, memory_mib=1001), "memory", id="memory"),
    pytest.param(Plan({0: CellShare(CpuSet("0"), 10, pages={2048: 5})}), "pages", id="pages"),
    pytest.param(Plan({5: CellShare(memory_mib=10)}), "cpus-gone", id="cell-gone"),
    pytest.param(Plan({0: CellShare(CpuSet("99"))}), "cpus-gone", id="cpu-gone"),
    pytest.param(holding("8-14", SMT), "shared-floor", id="needed-by-shared-containers"),
    pytest.param(holding("8-13", SMT), None, id="just-not-needed"),
    pytest.param(demanding({0: 6.0}), None, id="pool-has-room"),
    pytest.param(demanding({0: 6.1}), "shared-pool", id="pool-is-full"),
    pytest.param(demanding({1: 6.0}, 1000), None, id="shared-memory"),
    pytest.param(demanding({1: 1.0}, 1001), "memory", id="shared-memory-gone"),
])
def test_fits_is_whether_every_element_is_free(claim, code):
    usage = used(SMT, "2-3").with_claim("s", demanding({1: 2.0}))
    refusal = usage.fits(SMT, claim)
    assert (refusal and refusal.code) == code
    assert refusal is None or (refusal.nearest is None and refusal.free == usage.free(SMT))


def test_memory_only_claim_fits_beside_an_overcommitted_pool():
    """``plan`` makes such a claim for a container that has CPUs elsewhere and prefers memory there."""
    smaller = SMT.configured(shared_set=CpuSet("0-7"))
    usage = Usage().with_claim("s", demanding({1: 2.0}))
    memory_only = Plan({0: CellShare(cpus=CpuSet("0-7"), shared=1.0), 1: CellShare(memory_mib=10)}, "shared")
    assert usage.fits(smaller, memory_only) is None
    assert usage.fits(smaller, demanding({1: 0.1})).code == "shared-pool"


def test_overcommitted_memory_refuses_no_claim_without_memory():
    assert used(SMT, "0", memory_mib=5000).fits(SMT, holding("1", SMT)) is None


def test_pool_keeps_no_cpu_for_removed_shared_containers():
    memory_only = Plan({0: CellShare(memory_mib=10, shared=1.0), 1: CellShare(memory_mib=10)}, "shared")
    usage = Usage().with_claim("s", memory_only)
    assert plan(SMT, usage, PlacementRequest(8, 10)).cpus == CpuSet("8-15"), "nor for one that has memory there"
    assert plan(SMT, usage.without("s"), PlacementRequest(16, 10, numa_nodes=2)).cpus == CpuSet("0-15")


def test_lost_pool_keeps_a_cpu_and_takes_no_new_containers():
    """The shared containers that used the pool keep at least one CPU of their cell."""
    lost = SMT.configured(dedicated_set=CpuSet("0-15"), shared_set=CpuSet("64"))
    usage = Usage().with_claim("s", demanding({0: 1.0}))
    assert usage.fits(lost, holding("0-7", SMT)).code == "shared-floor"
    assert usage.fits(lost, holding("8-15", SMT)) is None
    assert usage.fits(lost, demanding({1: 1.0})).code == "shared-pool"


def test_container_of_lost_cell_keeps_a_cpu_of_one_other_cell():
    topology = host(cell(0), cell(1, "0 1"), cell(2, "2 3"))
    usage = Usage().with_claim("s", demanding({0: 1.0}))
    assert plan(topology, usage, PlacementRequest(2, 10)).cpus == CpuSet("2-3")


def test_fits_on_a_host_that_changed():
    claim = holding("0", SMT, memory_mib=10)
    without_cpus = host(cell(0, "", 1000), cell(1, "8 9"))
    assert Usage().fits(without_cpus, claim).code == "cpus-gone"
    assert Usage().fits(without_cpus, demanding({0: 1.0})).code == "cpus-gone"
    assert Usage().fits(without_cpus, Plan({0: CellShare(memory_mib=10)})) is None
    assert Usage().fits(SMT.configured(reserved_cpus=CpuSet("0")), claim).code == "cpus-gone"
    shared_with_cpus = Plan({0: CellShare(CpuSet("0"), shared=0.0)}, "shared")
    assert used(SMT, "0-7").fits(SMT, shared_with_cpus).code == "shared-pool"


def test_claims_may_exceed_a_host_that_shrank():
    """The agent must start whatever the rows say: nothing raises, there is just less than nothing free."""
    usage = used(SMT, "0-7,40", memory_mib=5000).with_claim("s", demanding({0: 9.0, 9: 1.0}))
    assert usage.free(SMT)[0].memory_mib == -4000
    assert usage.free(SMT)[0].shared == 0
    assert plan(SMT, usage, PlacementRequest(1, 10)).cpus == CpuSet("8")
    assert plan(SMT, usage, PlacementRequest(1, 10, cpu_policy="shared")).cpus == CpuSet("8-15")


def random_life(rng: random.Random, steps: int = 25):
    """(topology, usage) after each step of random creates, deletes and resizes, all through ``plan``."""
    topology, usage = random_topology(rng, cells=3, most_cpus=12), Usage()
    for number in range(steps):
        before = usage
        if usage.owners and rng.random() < 0.35:
            owner = rng.choice(usage.owners)
            usage = usage.without(owner)
            if rng.random() < 0.5:
                yield topology, before, owner, None, usage
                continue
        else:
            owner = f"c{number}"
        answer = plan(topology, usage, random_request(rng, most_cpus=5))
        if isinstance(answer, Plan):
            assert usage.fits(topology, answer) is None, "a plan fits the usage it was made from"
            usage = usage.with_claim(owner, answer)
        yield topology, before, owner, answer if isinstance(answer, Plan) else None, usage


def check_ledger(topology: HostTopology, usage: Usage) -> None:
    """No CPU twice, claims and free make up the inventory, and nobody's isolation is broken."""
    claims = dict(usage)
    dedicated = {owner: claim for owner, claim in claims.items() if claim.cpu_policy == "dedicated"}
    owned = [cpu for claim in dedicated.values() for cpu in (*claim.cpus, *claim.withheld)]
    assert len(owned) == len(set(owned)), "a CPU in two claims"
    assert set(owned) == set(usage.held_cpus)
    free = usage.free(topology)
    for part in topology.cells:
        mine = [claim.cells[part.id] for claim in claims.values() if part.id in claim.cells]
        taken = {cpu for cpu in owned if cpu in part.cpus}
        assert set(free[part.id].cpus) | (taken & set(topology.dedicated_cpus)) == set(
            part.cpus & topology.dedicated_cpus
        )
        assert not set(free[part.id].cpus) & taken
        ordinary = sum(share.memory_mib for share in mine if not share.pages)
        reserved = topology.reserved_memory_mib.get(part.id, 0)
        assert free[part.id].memory_mib + ordinary == max(0, part.small_mib - reserved)
        for size, count in part.pages.items():
            assert free[part.id].pages[size] + sum(share.pages.get(size, 0) for share in mine) == count
            assert free[part.id].pages[size] >= 0
        if part.cpus:
            pool = usage.shared_pool(topology, [part.id])
            assert not set(pool) & set(owned), "the shared pool runs on somebody's own CPU"
            demand = sum(share.shared for share in mine)
            assert demand <= len(pool) * topology.cpu_allocation_ratio + 1e-6, "shared demand was starved"
            if any(claim.cpu_policy == "shared" and part.id in claim.cpu_cells for claim in claims.values()):
                assert pool, "a shared container has no CPU left on its cell"
        for share in mine:
            assert share.memory_mib >= 0
            assert share.cpus | share.withheld <= part.cpus
    for owner, claim in dedicated.items():
        whole = claim.withheld | claim.cpus if claim.whole_cores else claim.withheld
        strangers = topology.pool_cpus - usage.held_cpus
        for other, theirs in dedicated.items():
            strangers |= CpuSet() if other == owner else theirs.cpus | theirs.withheld
        for part in topology.cells:
            for core in part.siblings:
                if core & whole:
                    assert not core & strangers, "a core that is kept whole has a stranger on it"
        assert not near(topology, claim.cpus, claim.isolation) & strangers, f"{claim.isolation} is broken"
        assert (claim.isolation == "isolated") == (claim.cpus <= topology.isolated), "on CPUs of another kind"
        reached = grade_of(topology, claim)
        assert RANK[reached] >= RANK[claim.isolation]
        assert not near(topology, claim.cpus, reached) & strangers, "the grade that is told is not there"


RANK = {"thread": 0, "core": 1, "l3": 2, "node": 3, "isolated": 0}


def near(topology: HostTopology, cpus: CpuSet, grade: str) -> CpuSet:
    """CPUs on which nobody else may be, by the words of the grade."""
    found = cpus
    for part in topology.cells:
        groups = {"core": part.siblings, "l3": part.l3 or (part.cpus,), "node": (part.cpus,)}.get(grade, ())
        for group in groups:
            found |= group if group & cpus else CpuSet()
    return found


@pytest.mark.parametrize("block", range(5))
def test_laws_of_the_ledger(block):
    placed = 0
    for seed in range(block * 1000, block * 1000 + proof_size(24)):
        for topology, before, owner, answer, after in random_life(random.Random(seed)):
            check_ledger(topology, after)
            if answer is not None:
                placed += 1
                assert after.without(owner) == before.without(owner), "giving back undoes taking"
                assert after.without(owner).free(topology) == before.without(owner).free(topology)
            shuffled = list(after)
            random.Random(seed).shuffle(shuffled)
            again = Usage(shuffled)
            assert again == after
            assert again.free(topology) == after.free(topology), "totals depend on the claims, not on their order"
    assert placed > 20


def test_everything_goes_through_json_and_comes_back():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        topology = random_topology(rng)
        assert HostTopology.from_dict(json.loads(json.dumps(topology.to_dict()))) == topology
        for _, claim in random_usage(rng, topology):
            assert Plan.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim
        answer = plan(topology, random_usage(rng, topology), random_request(rng))
        if isinstance(answer, Plan):
            answer = replace(answer, generation=seed)
            back = Plan.from_dict(json.loads(json.dumps(answer.to_dict())))
            assert (back, back.mems, back.generation) == (answer, answer.mems, seed)
            assert back.to_dict() == answer.to_dict(), "what is for information only comes back too"


def test_a_record_has_every_field():
    cpus = CpuSet("0-1")
    there = NUMACell(3, cpus, (cpus,), (cpus,), 5, {3: 11}, {2048: 1}, initiators=CpuSet("3"))
    sets = {name: CpuSet(str(cpu)) for cpu, name in enumerate(
        ("offline", "isolated", "exposed", "exposed_l3", "exposed_nodes", "reserved", "dedicated_set", "shared_set")
    )}
    whole = host(
        there, sockets=(CpuSet("0"),), page_kib=64, notes=("odd",), devices=(Device("0000:81:00.0", "1", "2", "3"),),
        reserved_memory_mib={3: 1}, cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5, strategy="spread", **sets,
        foreign=Foreign({3: ForeignShare(1, 2, 3, {2048: 4})}, {3: ForeignShare(5)}, CpuSet("0-1"), 6, 7),
        cache_control=CacheControl((cpus,), 9, 1024, 2, 80, 10, 15),
    )
    assert HostTopology.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    untold = [each.name for each in fields(whole) if getattr(whole, each.name) == getattr(host(), each.name)]
    assert untold == ["pool_beyond"]
    share = CellShare(CpuSet("0"), 5, CpuSet("1"), {2048: 2}, 1.5, CpuSet("7"))
    claim = Plan({3: share}, "shared", 7, CpuSet("4"), "core", cache=Part(3, 20))
    again = Plan.from_dict(json.loads(json.dumps(claim.to_dict())))
    assert (again, again.mems, again.cells[3].pages, again.cells[3].pinned) == (
        claim, CpuSet("4"), {2048: 2}, CpuSet("7")
    )


@pytest.mark.parametrize(("cells", "settings", "words"), [
    ([NUMACell(1), NUMACell(1)], {}, "the same id"),
    ([NUMACell(1, CpuSet("0-1")), NUMACell(2, CpuSet("1"))], {}, "CPUs 1 are in two cells"),
    ([], {"cpu_allocation_ratio": 0.0}, "cpu_allocation_ratio must be a positive number"),
    ([], {"ram_allocation_ratio": float("inf")}, "ram_allocation_ratio must be a positive number"),
])
def test_what_contradicts_itself_is_no_host(cells, settings, words):
    with pytest.raises(ValueError, match=words):
        host(*cells, **settings)


@pytest.mark.parametrize(("values", "words"), [
    ((-1,), "is negative"),
    ((0, CpuSet("0-2"), (CpuSet("0-1"), CpuSet("1-2"))), "CPUs 1 of cell 0 are in two cores"),
    ((0, CpuSet(), (), (), -1), "negative amount"),
    ((0, CpuSet(), (), (), 5, {}, {0: 1}), "negative amount"),
    ((0, CpuSet(), (), (), 5, {}, {2048: -1}), "negative amount"),
])
def test_what_contradicts_itself_is_no_cell(values, words):
    with pytest.raises(ValueError, match=words):
        NUMACell(*values)


def test_missing_fields_of_a_host_record_take_their_defaults():
    least = {"cells": [{"id": 3, "cpus": "0-1", "memory_mib": 5}]}
    assert HostTopology.from_dict(least) == host(NUMACell(3, CpuSet("0-1"), memory_mib=5))


def test_the_record_of_a_plan():
    topology = smt_host(1, 4)
    answer = plan(topology, used(topology, "6"), PlacementRequest(2, 100, thread_policy="isolate"))
    assert replace(answer, generation=7).to_dict() == {
        "cpu_policy": "dedicated",
        "generation": 7,
        "cells": [{
            "node": 0, "cpuset_cpu": "0,2", "cpuset_cpu_pinned": "6", "cpuset_mem": 100,
            "withheld": "1,3", "pages": {}, "shared": 0.0,
        }],
        "whole_cores": True,
    }
    extra = {**answer.to_dict(), "cpuset_cpus": "0,2", "cpuset_mems": "0"}
    assert Plan.from_dict(extra) == answer
    least = {"cpu_policy": "dedicated", "cells": [{"node": 0, "cpuset_cpu": "0,2", "cpuset_mem": 100}]}
    assert Plan.from_dict(least) == Plan({0: CellShare(CpuSet("0,2"), 100)})
