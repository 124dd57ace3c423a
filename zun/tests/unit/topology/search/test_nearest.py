# SPDX-License-Identifier: Apache-2.0
"""The nearest request by dimension, and the reason of a refusal, compared with trying everything.

CI tries a tenth. The full proof is ZUN_PROOF_SIZE=10: 10,000 random refusals.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from zun.tests.unit.topology.build import cell, demanding, flat_host, host, smt_host, used
from zun.tests.unit.topology.hosts import cache_case, proof_size, random_case, strays_case
from zun.topology import Change, CpuSet, Dimension, PlacementRequest, Plan, Refusal, RefusalCode, Usage, plan

SMT = smt_host(2, 4)  # cells 0-7 and 8-15, cores 0-1, 2-3, ...
TRIES = 40  # of one dimension of one refusal, where there are more smaller changes than that


def changed(topology, usage, request):
    """The changes of a refusal as {dimension: the fields that differ}."""
    refusal = plan(topology, usage, request)
    assert isinstance(refusal, Refusal)
    fields = request.to_dict()
    return {
        str(change.dimension): {
            name: value for name, value in change.request.to_dict().items() if value != fields[name]
        }
        for change in refusal.changes
    }


@pytest.mark.parametrize(("topology", "usage", "request_", "expected"), [
    pytest.param(
        smt_host(2, 6), used(smt_host(2, 6), "0", "12-21"), PlacementRequest(6, 10, thread_policy="isolate"),
        {"cpus": {"cpus": 5}, "affinity": {"numa_affinity": "prefer"}, "threads": {"thread_policy": "prefer"}},
        id="six-cores-on-one-cell",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(2, 1300),
        {"memory": {"memory_mib": 1000}, "nodes": {"numa_nodes": 2}, "affinity": {"numa_affinity": "prefer"},
         "mempolicy": {"mempolicy": "preferred"}},
        id="memory",
    ),
    pytest.param(
        SMT, Usage(), PlacementRequest(3, 9, numa_nodes=3),
        {"nodes": {"numa_nodes": 2}, "affinity": {"numa_affinity": "prefer"}}, id="fewer-cells",
    ),
    pytest.param(
        flat_host([3, 1]), Usage(), PlacementRequest(5, 10, numa_cpus=[3, 2]),
        {"cpus": {"cpus": 4, "numa_cpus": [3, 1]}}, id="only-the-part-that-is-short",
    ),
    pytest.param(
        flat_host([3, 3]), Usage(), PlacementRequest(6, 10, numa_cpus=[2, 4]),
        {"cpus": {"cpus": 5, "numa_cpus": [2, 3]}, "shape": {"numa_cpus": None},
         "affinity": {"numa_affinity": "prefer"}},
        id="an-even-split",
    ),
    pytest.param(
        flat_host([2, 2]).configured(shared_set=CpuSet("0-1")), Usage(), PlacementRequest(1, 1500, cpu_policy="shared"),
        {"memory": {"memory_mib": 1000}}, id="shared-containers-have-no-memory-policy",
    ),
    pytest.param(
        host(cell(0, "0 1", 10), cell(4, "2", 99)), Usage(), PlacementRequest(2, 50),
        {"cpus": {"cpus": 1}, "memory": {"memory_mib": 10}, "affinity": {"numa_affinity": "prefer"},
         "mempolicy": {"mempolicy": "preferred"}},
        id="apart",
    ),
    pytest.param(
        host(cell(0, "0 1", 100, pages={2048: 5, 1048576: 0, 64: 40})), Usage(),
        PlacementRequest(1, 11, page_size=2048),
        {"memory": {"memory_mib": 10}, "pages": {"page_size": None}}, id="the-smaller-huge-pages-do-not-do-either",
    ),
    pytest.param(
        host(cell(0, "0 1", 100, pages={2048: 1, 64: 400})), Usage(), PlacementRequest(1, 11, page_size=2048),
        {"memory": {"memory_mib": 2}, "pages": {"page_size": 64}}, id="the-next-smaller-pages",
    ),
    pytest.param(
        host(cell(0, "0 1", 100, pages={1048576: 1, 2048: 600, 64: 20000})), Usage(),
        PlacementRequest(1, 1025, page_size=1048576),
        {"memory": {"memory_mib": 1024}, "pages": {"page_size": 2048}}, id="the-largest-of-the-smaller-pages",
    ),
    pytest.param(
        host(cell(0, "0 1", 100, pages={2048: 3}), cell(1, "2 3", 100, pages={2048: 2})), Usage(),
        PlacementRequest(2, 15, numa_mem=[8, 7], mempolicy="preferred", page_size=2048),
        {"memory": {"memory_mib": 10, "numa_mem": [4, 6]}, "pages": {"page_size": None}},
        id="half-empty-pages-first",
    ),
    pytest.param(
        SMT, used(SMT, "0-15"), PlacementRequest(1, 10), {}, id="nothing-at-all",
    ),
    pytest.param(
        SMT, used(SMT, "0-11"), PlacementRequest(4.5, 10, cpu_policy="shared"), {"cpus": {"cpus": 4.0}}, id="shared",
    ),
])
def test_the_smallest_change_in_each_dimension(topology, usage, request_, expected):
    assert changed(topology, usage, request_) == expected


# The proof


def smaller(rng, topology, request, change):
    """Requests that differ less than ``change`` in its dimension; without a change, all that differ in it at all."""
    dimension, found = change.dimension, change.request
    even = replace(request, numa_cpus=None, numa_mem=None)
    match dimension:
        case Dimension.CPUS:
            least = found.cpus if found is not request else -1
            return list(_fewer_cpus(rng, request, least))
        case Dimension.MEMORY:
            least = found.memory_mib if found is not request else 0
            if request.numa_mem is None:
                return [replace(request, memory_mib=mib) for mib in range(max(1, least + 1), request.memory_mib)]
            lists = itertools.product(*(range(min(1, mib), mib + 1) for mib in request.numa_mem))
            return [
                replace(request, memory_mib=sum(mem), numa_mem=mem)
                for mem in lists
                if max(0, least) < sum(mem) < request.memory_mib
            ]
        case Dimension.NODES:
            most = len(topology.cells) if not request.dedicated else min(len(topology.cells), int(request.cpus))
            far = 99 if found is request else abs(found.numa_nodes - request.numa_nodes)
            near = (n for n in range(1, most + 1) if 0 < abs(n - request.numa_nodes) < far)
            return [replace(even, numa_nodes=n) for n in near]
        case Dimension.ISOLATION if found is not request and request.isolation != "isolated":
            grades = ["thread", "core", "l3", "node"]
            between = grades[grades.index(found.isolation) + 1 : grades.index(request.isolation)]
            return [replace(request, isolation=grade) for grade in between]
        case Dimension.CACHE | Dimension.BANDWIDTH:
            names = ("cache_ways", "cache_mib") if dimension == Dimension.CACHE else ("memory_bandwidth",)
            name = next((name for name in names if getattr(request, name)), None)
            if name is None:
                return []
            least = -1 if found is request else getattr(found, name)
            return [replace(request, **{name: less}) for less in range(least + 1, getattr(request, name))]
        case Dimension.PAGES if isinstance(request.page_size, int):
            there = {size for each in topology.cells for size in each.pages}
            low = (found.page_size or 0) if found is not request else -1
            sizes = [size for size in (*there, 0) if low < size < request.page_size]
            return [replace(request, page_size=size or None) for size in sizes]
    return []


def _fewer_cpus(rng, request, least):
    step = 1 if request.dedicated else 1e-6
    if request.numa_cpus is None:
        if request.dedicated:
            fewest = max(least + 1, request.numa_nodes)
            yield from (replace(request, cpus=cpus) for cpus in range(int(fewest), int(request.cpus)))
            return
        low = max(0, least)
        for cpus in (low + step, *(low + (request.cpus - low) * part for part in (0.1, 0.3, 0.5, 0.9))):
            if low < round(cpus, 6) < request.cpus:
                yield replace(request, cpus=cpus)
        return
    if request.dedicated:
        lists = itertools.product(*(range(1, int(entry) + 1) for entry in request.numa_cpus))
    else:
        lists = itertools.product(*(_levels(rng, entry, step) for entry in request.numa_cpus))
    for cpus in lists:
        if max(0, least) < round(sum(cpus), 6) < request.cpus:
            yield replace(request, cpus=round(sum(cpus), 6), numa_cpus=cpus)


def _levels(rng, entry, step):
    return {0, entry, entry / 2, max(0, entry - step), *(round(rng.random() * entry, 6) for _ in range(2))}


def conditions(request):
    """Single steps in the dimensions that have no amounts, that must be refused when no change is stated."""
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == "require":
        yield Dimension.AFFINITY, replace(request, numa_affinity="prefer")
        if even != request and (not request.dedicated or request.cpus >= request.numa_nodes):
            yield Dimension.SHAPE, even
    if request.dedicated and request.thread_policy != "prefer":
        yield Dimension.THREADS, replace(request, thread_policy="prefer")
    if request.isolation != "thread":
        yield Dimension.ISOLATION, replace(request, isolation="thread")
    if not request.ordinary_pages and request.page_size != "any":
        yield Dimension.PAGES, replace(request, page_size=None)
    if request.dedicated and request.mempolicy == "strict":
        yield Dimension.MEMPOLICY, replace(request, mempolicy="preferred")


def refused(seed, number, make=random_case):
    """``number`` random refusals, with the seed each was made from."""
    while number:
        topology, usage, request = make(random.Random(seed))
        refusal = plan(topology, usage, request)
        if isinstance(refusal, Refusal):
            yield seed, topology, usage, request, refusal
            number -= 1
        seed += 1


AMOUNTS = (Dimension.CPUS, Dimension.MEMORY, Dimension.NODES, Dimension.CACHE, Dimension.BANDWIDTH)
DIFFERS = {
    Dimension.CPUS: {"cpus", "numa_cpus"},
    Dimension.MEMORY: {"memory_mib", "numa_mem"},
    Dimension.NODES: {"numa_nodes", "numa_cpus", "numa_mem"},
    Dimension.SHAPE: {"numa_cpus", "numa_mem"},
    Dimension.AFFINITY: {"numa_affinity"},
    Dimension.THREADS: {"thread_policy"},
    Dimension.ISOLATION: {"isolation"},
    Dimension.PAGES: {"page_size"},
    Dimension.MEMPOLICY: {"mempolicy"},
    Dimension.CACHE: {"cache_ways", "cache_mib"},
    Dimension.BANDWIDTH: {"memory_bandwidth"},
}


def test_every_stated_change_fits_and_no_smaller_one_does():
    """And a dimension in which nothing is stated has nothing."""
    seen = check_changes(refused(0, proof_size(1000)))
    of_devices = {Dimension.DEVICES, Dimension.DEVICE_POLICY, Dimension.DEVICE_SAME}  # test_devices.py
    others = {*of_devices, Dimension.CACHE, Dimension.BANDWIDTH}
    few = [dimension for dimension in Dimension if not seen[dimension] and dimension not in others]
    assert proof_size(1000) < 1000 or not few, f"never stated, so never proved: {few}"
    assert seen[Dimension.CPUS, "refused"] and seen[Dimension.MEMORY, "refused"]


def test_smallest_changes_of_parts_of_caches():
    seen = check_changes(refused(0, proof_size(500), partial(cache_case, mixed=False)))
    for dimension in (Dimension.CACHE, Dimension.BANDWIDTH):
        assert seen[dimension] and seen[dimension, "refused"], dimension


def test_steps_of_a_refused_part_are_counted():
    """An explanation asks no further host after so many steps."""
    for _, _, _, _, refusal in refused(0, 50, partial(cache_case, mixed=False)):
        assert refusal.steps >= refusal.planned
        if refusal.changes:
            assert refusal.steps > refusal.planned


def test_smallest_changes_beside_shared_containers_of_lost_cells():
    seen = check_changes(refused(0, proof_size(500), strays_case))
    assert seen[Dimension.CPUS, "refused"]


def check_changes(refusals):
    """Count by dimension how often it was stated, and how often a smaller change was refused."""
    seen = Counter()
    for seed, topology, usage, request, refusal in refusals:
        rng = random.Random(seed)
        stated = {change.dimension: change for change in refusal.changes}
        assert len(stated) == len(refusal.changes)
        for dimension, change in stated.items():
            before, after = request.to_dict(), change.request.to_dict()
            differing = {name for name in before if before[name] != after.get(name)}
            assert differing and differing <= DIFFERS[dimension], (seed, change)
            assert isinstance(plan(topology, usage, change.request), Plan), (seed, change)
        unstated = [Change(dimension, request) for dimension in AMOUNTS if dimension not in stated]
        for change in (*stated.values(), *unstated):
            if change.dimension == Dimension.NODES and request.numa_affinity != "require":
                continue
            others = smaller(rng, topology, request, change)
            for other in rng.sample(others, min(TRIES, len(others))):
                assert isinstance(plan(topology, usage, other), Refusal), (seed, change, other)
                seen[change.dimension, "refused"] += 1
        for dimension, other in conditions(request):
            if dimension not in stated:
                assert isinstance(plan(topology, usage, other), Refusal), (seed, dimension)
        seen.update(stated.keys())
    return seen


# Which condition binds: what must hold of a refusal by its code, when memory is no matter.

BY_CPUS = {"no-cpus", "too-few-cells", "no-smt", "cpus", "cores", "isolation", "shared-floor", "shared-pool"}
OF_FITS = {
    RefusalCode.CPUS_TAKEN, RefusalCode.CPUS_GONE, RefusalCode.DEVICES_TAKEN, RefusalCode.DEVICES_GONE,
}
BY_MEMORY = {"memory", "pages", "apart", "shape"}


def test_every_refusal_has_one_code_and_that_condition_binds():
    seen = Counter()
    cases = itertools.chain(
        refused(50_000, proof_size(1000)), refused(50_000, proof_size(500), strays_case)
    )
    for seed, topology, usage, request, refusal in cases:
        assert isinstance(refusal.code, RefusalCode), seed
        assert refusal.message, seed
        seen[refusal.code] += 1
        mem = None if request.numa_mem is None else (0,) * len(request.numa_mem)
        weightless = replace(request, memory_mib=0, numa_mem=mem)
        answer = plan(topology, usage, weightless)
        if refusal.code in BY_CPUS:
            assert isinstance(answer, Refusal) and answer.code == refusal.code, (seed, refusal.code)
        if refusal.code in BY_MEMORY:
            assert isinstance(answer, Plan), (seed, refusal.code)
        if refusal.code == "page-size":
            assert not any(each.pages.get(request.page_size) for each in topology.cells), seed
        if refusal.code == "no-smt":
            mine = topology.cpus_for(request.isolation) - topology.exposed
            assert not any(len(core) > 1 and core <= mine for each in topology.cells for core in each.siblings), seed
        if refusal.code == "cores":
            free = plan(topology, usage, replace(weightless, thread_policy="prefer", isolation="thread"))
            assert isinstance(free, Plan) or free.code not in ("cores", "cpus"), (seed, free.code)
        if refusal.code == "isolation":
            free = plan(topology, usage, replace(weightless, isolation="thread"))
            assert isinstance(free, Plan) or free.code not in ("cpus", "isolation"), (seed, free.code)
        if refusal.code == "shared-floor":
            alone = Usage([(owner, held) for owner, held in usage if held.cpu_policy != "shared"])
            assert isinstance(plan(topology, alone, weightless), Plan), seed
        if refusal.code == "too-few-cells":
            assert sum(1 for each in topology.cells if each.cpus) < request.numa_nodes, seed
        if refusal.code == "no-cpus":
            assert not (topology.cpus_for(request.isolation) if request.dedicated else topology.pool_cpus), seed
    others = {RefusalCode.DEVICES, RefusalCode.UNPROVEN, RefusalCode.CACHE}  # no request is for these here
    never = set(RefusalCode) - seen.keys() - OF_FITS - others
    assert proof_size(1000) < 1000 or not never, f"never given, so never proved: {never}"


def test_a_large_host_is_searched_without_counting_everything():
    """Amounts are bisected: a refusal of terabytes on a wide machine takes some plans, not millions."""
    topology = smt_host(8, 64, memory_mib=4_000_000)
    usage = Usage().with_claim("s", demanding({0: 3, 1: 2}))
    shape = {"numa_cpus": [130, *[1] * 7], "numa_mem": [3_999_999, *[1] * 7]}
    refusal = plan(topology, usage, PlacementRequest(137, 4_000_006, **shape))
    assert {str(change.dimension) for change in refusal.changes} >= {"cpus", "affinity"}
    assert refusal.changes[0].request.numa_cpus == (128, *[1] * 7)


def test_an_offline_host_offers_nothing():
    assert plan(SMT.configured(dedicated_set=CpuSet()), Usage(), PlacementRequest(1, 10)).changes == ()
