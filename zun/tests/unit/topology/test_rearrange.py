# SPDX-License-Identifier: Apache-2.0
"""``rearrange`` against a brute force over the cells, and what must be true of every answer."""

import heapq
import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.tests.unit.topology.hosts import cells_in_a_row as host
from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.rearrange import Fits, Free, Rearrangement, Stuck, rearrange


def crowded(rng, topology, sizes, *, most=12):
    """Claims of containers of a random size on random cells, and the requests of those that may be moved."""
    usage, movable = Usage(), {}
    for number in range(rng.randint(most // 2, most)):
        cpus, mib = rng.choice(sizes)
        request = PlacementRequest(cpus, mib)
        cell = rng.choice(topology.cells)
        placed = plan(replace(topology, dedicated_set=cell.cpus), usage, request)
        if isinstance(placed, Plan):
            usage = usage.with_claim(f"c{number}", placed)
            if rng.random() < 0.8:
                movable[f"c{number}"] = request
    return usage, movable


def cheapest(topology, usage, movable, reached):
    """MiB and number of moved containers by brute force over all moves from cell to cell, or None.

    CPUs of one cell are all alike, as no request has conditions on cores. ``reached`` is asked with the free CPUs and
    MiB of each cell.
    """
    fixed = {cell.id: (len(cell.cpus), cell.memory_mib) for cell in topology.cells}
    where = {}
    for owner, held in usage:
        ((node, share),) = held.cells.items()
        if owner in movable:
            where[owner] = node
        else:
            fixed[node] = (fixed[node][0] - len(share.cpus), fixed[node][1] - share.memory_mib)

    def free(places):
        left = dict(fixed)
        for owner, node in places:
            request = movable[owner]
            left[node] = (left[node][0] - int(request.cpus), left[node][1] - request.memory_mib)
        return left

    start = tuple(sorted(where.items()))
    waiting, best = [(0, 0, start, frozenset())], {}
    while waiting:
        mib, count, places, moved = heapq.heappop(waiting)
        if best.get((places, moved), (mib + 1,)) <= (mib, count):
            continue
        best[places, moved] = (mib, count)
        left = free(places)
        if reached(left):
            return mib, count
        for owner, node in places:
            request = movable[owner]
            for other in fixed:
                if other != node and left[other][0] >= request.cpus and left[other][1] >= request.memory_mib:
                    after = tuple(sorted({**dict(places), owner: other}.items()))
                    owners = moved | {owner}
                    heapq.heappush(waiting, (mib + request.memory_mib, len(owners), after, owners))
    return None


def check(topology, usage, movable, answer):
    """Every move is valid when it is made."""
    for move in answer.moves:
        assert usage.claim(move.owner) == move.old
        assert move.owner in movable
        assert usage.fits(topology, move.new) is None
        beside = usage.with_claim("beside", move.new)  # raises if anything is held twice
        assert not beside.held_twice
        usage = usage.without(move.owner).with_claim(move.owner, move.new)
    assert usage == answer.usage
    return usage


SIZES = ((1, 10), (1, 40), (2, 20), (2, 100), (3, 30))


@pytest.mark.parametrize("seed", range(4))
def test_the_cheapest_moves_for_a_request(seed):
    found = moved = 0
    for number in range(proof_size(60)):
        rng = random.Random(f"{seed}.{number}")
        topology = host(rng.randint(2, 4), rng.randint(3, 4), mib=rng.choice((150, 1000)), smt=rng.choice((1, 2)))
        usage, movable = crowded(rng, topology, SIZES, most=7)
        request = PlacementRequest(rng.randint(2, 3), rng.choice((0, 50)))
        expected = cheapest(
            topology, usage, movable,
            lambda left, request=request: any(c >= request.cpus and m >= request.memory_mib for c, m in left.values()),
        )  # fmt: skip
        answer = rearrange(topology, usage, movable, Fits(request), steps=100_000)
        assert isinstance(answer, Stuck) is (expected is None), (seed, number)
        assert answer.proven
        if isinstance(answer, Rearrangement):
            assert isinstance(plan(topology, check(topology, usage, movable, answer), request), Plan)
            assert (answer.mib, len(answer.owners)) == expected, (seed, number, answer.moves)
            found += 1
            moved += bool(answer.moves)
            hurried = rearrange(topology, usage, movable, Fits(request), steps=rng.randint(1, 60))
            if isinstance(hurried, Rearrangement):
                check(topology, usage, movable, hurried)
                cost = (hurried.mib, len(hurried.owners))
                assert cost == expected if hurried.proven else cost >= expected, (seed, number, hurried.moves)
            else:
                assert not hurried.proven
    assert found > 10 and moved > 3, "the hosts are too empty or too full to prove anything"


def test_the_cheapest_moves_for_a_request_for_two_cells():
    moved = 0
    for number in range(proof_size(60)):
        rng = random.Random(f"two cells {number}")
        topology = host(rng.randint(2, 4), 4, mib=rng.choice((150, 1000)))
        usage, movable = crowded(rng, topology, SIZES, most=7)
        parts = rng.choice(((2, 2), (3, 3), (1, 3), (2, 3)))
        request = PlacementRequest(sum(parts), 40, numa_cpus=parts)

        def reached(left, parts=parts):
            pairs = itertools.permutations(left.values(), 2)
            return any(a[0] >= parts[0] and b[0] >= parts[1] and a[1] >= 20 and b[1] >= 20 for a, b in pairs)

        expected = cheapest(topology, usage, movable, reached)
        answer = rearrange(topology, usage, movable, Fits(request), steps=100_000)
        assert isinstance(answer, Stuck) is (expected is None), number
        if isinstance(answer, Rearrangement):
            check(topology, usage, movable, answer)
            assert (answer.mib, len(answer.owners)) == expected, (number, answer.moves)
            moved += bool(answer.moves)
    assert moved > 3


@pytest.mark.parametrize("seed", range(3))
def test_the_cheapest_moves_that_free_a_cell(seed):
    moved = 0
    for number in range(proof_size(40)):
        rng = random.Random(f"{seed}.{number}")
        topology = host(rng.randint(2, 4), 4)
        usage, movable = crowded(rng, topology, SIZES, most=6)
        cell = rng.choice(topology.cells).id
        expected = cheapest(topology, usage, movable, lambda left, cell=cell: left[cell] == (4, 1000))
        answer = rearrange(topology, usage, movable, Free(cell), steps=100_000)
        assert isinstance(answer, Stuck) is (expected is None), (seed, number)
        assert answer.proven
        if isinstance(answer, Rearrangement):
            after = check(topology, usage, movable, answer)
            assert not any(cell in held.cells for _, held in after)
            assert (answer.mib, len(answer.owners)) == expected, (seed, number, answer.moves)
            moved += bool(answer.moves)
    assert moved > 5


@settings(max_examples=proof_size(60))
@given(st.randoms(use_true_random=False))
def test_moves_are_valid_whatever_the_containers_are(rng):
    """Cores with siblings, containers on two cells, whole cores, and steps that are used up."""
    topology = host(rng.randint(2, 4), rng.choice((4, 8)), smt=2)
    usage, movable = Usage(), {}
    for number in range(rng.randint(1, 10)):
        fields = rng.choice(({}, {"thread_policy": "isolate"}, {"isolation": "core"}, {"numa_nodes": 2}))
        request = PlacementRequest(rng.choice((2, 2, 4)), rng.choice((10, 100)), **fields)
        placed = plan(topology, usage, request)
        if isinstance(placed, Plan):
            usage = usage.with_claim(f"c{number}", placed)
            if rng.random() < 0.8:
                movable[f"c{number}"] = request
    wanted = PlacementRequest(rng.choice((2, 4, 6)), 50, numa_affinity=rng.choice(("require", "prefer", "none")))
    answer = rearrange(topology, usage, movable, Fits(wanted), steps=rng.choice((20, 400)))
    fits = isinstance(plan(topology, usage, wanted), Plan)
    if isinstance(answer, Stuck):
        assert not fits
        return
    assert isinstance(plan(topology, check(topology, usage, movable, answer), wanted), Plan)
    assert not fits or not answer.moves


def test_a_request_that_needs_no_move_gets_none():
    topology = host(2, 4)
    assert rearrange(topology, Usage(), {}, Fits(PlacementRequest(4, 0))).moves == ()


def test_a_chain_of_moves():
    """c0 must leave cell 0 for cell 1, and there is room for it only after c1 has left cell 1 for cell 2."""
    topology = host(3, 4)
    usage, movable = Usage(), {}
    for owner, cell, cpus, fixed in (
        ("c0", 0, 2, False), ("f0", 0, 1, True), ("c1", 1, 1, False), ("f1", 1, 2, True), ("f2", 2, 3, True),
    ):  # fmt: skip
        request = PlacementRequest(cpus, 10)
        usage = usage.with_claim(owner, plan(replace(topology, dedicated_set=topology.cell(cell).cpus), usage, request))
        if not fixed:
            movable[owner] = request
    answer = rearrange(topology, usage, movable, Fits(PlacementRequest(3, 10)))
    assert [(each.owner, each.new.cpu_cells) for each in answer.moves] == [("c1", (2,)), ("c0", (1,))]
    assert answer.mib == 20


@pytest.mark.parametrize("seed", range(3))
def test_twelve_containers_are_moved_at_the_least_cost(seed):
    moved = 0
    for number in range(proof_size(8)):
        rng = random.Random(f"twelve {seed}.{number}")
        topology = host(2, 12, mib=500)
        usage, movable = crowded(rng, topology, SIZES, most=36)
        for gone in rng.sample(usage.owners, 3):
            usage = usage.without(gone)
            movable.pop(gone, None)
        movable = dict(list(movable.items())[:12])
        free = sum(len(cell.cpus) for cell in usage.free(topology).values())
        request = PlacementRequest(max(1, free - rng.randint(0, 1)), 50)
        expected = cheapest(
            topology, usage, movable,
            lambda left, request=request: any(c >= request.cpus and m >= 50 for c, m in left.values()),
        )  # fmt: skip
        answer = rearrange(topology, usage, movable, Fits(request))
        assert isinstance(answer, Stuck) is (expected is None), (seed, number)
        assert answer.proven
        if isinstance(answer, Rearrangement):
            check(topology, usage, movable, answer)
            assert (answer.mib, len(answer.owners)) == expected, (seed, number, answer.moves)
            moved += bool(answer.moves)
    assert moved > 1


def test_a_request_for_many_cells_that_the_host_lacks_cpus_for_is_refused_at_once():
    topology = host(2, 4)
    usage = Usage().with_claim("c0", plan(topology, Usage(), PlacementRequest(3, 10)))
    wanted = PlacementRequest(6, 10, numa_affinity="none")
    answer = rearrange(topology, usage, {"c0": PlacementRequest(3, 10)}, Fits(wanted))
    assert answer == Stuck("6 CPUs are wanted: the host has 5 free", proven=True)


def test_a_container_moves_on_its_cell_to_join_cores():
    """c0 and c1 have half a core each: one of them joins the other, and a core is free."""
    topology = host(1, 4, smt=2)
    cpu = PlacementRequest(1, 10)
    usage = Usage({f"c{n}": Plan({0: CellShare(CpuSet([2 * n]), 10)}) for n in range(2)})
    wanted = PlacementRequest(2, 0, thread_policy="require")
    answer = rearrange(topology, usage, {"c0": cpu, "c1": cpu}, Fits(wanted))
    assert (len(answer.moves), answer.mib, answer.proven) == (1, 0, True)


def test_what_does_not_help_is_refused_at_once():
    """Too few CPUs in all, whatever moves."""
    topology = host(2, 4)
    usage, movable = Usage(), {}
    for number, cell in itertools.product(range(3), topology.cells):
        request = PlacementRequest(1, 10)
        placed = plan(replace(topology, dedicated_set=cell.cpus), usage, request)
        usage = usage.with_claim(f"{number}-{cell.id}", placed)
        movable[f"{number}-{cell.id}"] = request
    answer = rearrange(topology, usage, movable, Fits(PlacementRequest(3, 10)))
    assert answer == Stuck("3 CPUs are wanted: the host has 2 free", proven=True)
    answer = rearrange(topology, usage, movable, Fits(PlacementRequest(5, 10)))
    assert answer == Stuck("5 CPUs are wanted on one cell: cell 0 can have 4 free, whatever moves", proven=True)
