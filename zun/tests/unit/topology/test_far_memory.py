# SPDX-License-Identifier: Apache-2.0
"""Memory is near the CPUs it is for, wherever no more of it is on the cells themselves.

The first two are the examples of the decision (doc/source/contributor/decisions/memory-near-its-cpus.rst).
"""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from zun.tests.unit.topology.build import cell, holding, host, used
from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Usage, plan


def apart(rows) -> list[dict[int, int]]:
    return [dict(enumerate(row)) for row in rows]


def memory(answer: Plan) -> dict[int, int]:
    return {node: share.memory_mib for node, share in answer.cells.items() if share.memory_mib}


def cpus(answer: Plan) -> dict[int, str]:
    return {node: str(share.cpus) for node, share in answer.cells.items() if share.cpus}


ROW = apart([(10, 12, 32), (12, 10, 12), (32, 12, 10)])
LINE = host(*(cell(c, f"{4 * c} {4 * c + 1} {4 * c + 2} {4 * c + 3}", distances=ROW[c]) for c in range(3)))

CLUSTERS = apart([[10 if a == b else 12 if a // 4 == b // 4 else 32 for b in range(8)] for a in range(8)])
TWO_SOCKETS = host(*(cell(c, " ".join(str(8 * c + n) for n in range(8)), distances=CLUSTERS[c]) for c in range(8)))


def test_cpus_are_where_the_memory_is():
    """Four of the five cells whose memory is wanted are on one socket: so are the CPUs, though the fifth has more."""
    taken = {c: CellShare(CpuSet(range(8 * c, 8 * c + 4)), 0 if c in (0, 4, 5, 6, 7) else 1000) for c in range(1, 8)}
    usage = Usage().with_claim("others", Plan(taken))
    answer = plan(TWO_SOCKETS, usage, PlacementRequest(2, 4500, numa_affinity="none"))
    assert cpus(answer) == {4: "36-37"}
    assert memory(answer) == {0: 500, 4: 1000, 5: 1000, 6: 1000, 7: 1000}


def test_the_rest_of_the_memory_is_the_nearest():
    """All three are needed for their memory, the middle one is near both; cell 0 is full of CPUs that others hold."""
    answer = plan(LINE, Usage(), PlacementRequest(2, 2500, numa_affinity="none"))
    assert (cpus(answer), memory(answer)) == ({1: "4-5"}, {0: 1000, 1: 1000, 2: 500})
    usage = Usage().with_claim("others", holding("4-7", LINE)).with_claim("more", holding("0-3", LINE))
    answer = plan(LINE, usage, PlacementRequest(2, 2500, numa_affinity="none"))
    assert (cpus(answer), memory(answer)) == ({2: "8-9"}, {0: 500, 1: 1000, 2: 1000})


@pytest.mark.parametrize("affinity", ["require", "prefer", "none"])
@pytest.mark.parametrize("mempolicy", ["strict", "preferred"])
def test_a_cell_with_near_memory_beside_it(affinity, mempolicy):
    """Two cells that differ only in how far the memory-only node is that belongs to them."""
    rows = apart([(10, 20, 30, 40), (20, 10, 40, 12), (30, 40, 10, 40), (40, 12, 40, 10)])
    topology = host(
        cell(0, "0 1", distances=rows[0]), cell(1, "2 3", distances=rows[1]),
        cell(2, distances=rows[2]), cell(3, distances=rows[3]),
    )
    answer = plan(topology, Usage(), PlacementRequest(2, 1500, numa_affinity=affinity, mempolicy=mempolicy))
    assert (cpus(answer), memory(answer)) == ({1: "2-3"}, {1: 1000, 3: 500})


@pytest.mark.parametrize("affinity", ["require", "none"])
@pytest.mark.parametrize(("mempolicy", "beside", "lender"), [
    pytest.param("preferred", 50, 1, id="the-nearest"),
    pytest.param("preferred", 12, 2, id="of-equals-that-of-no-cpus"),
    pytest.param("strict", 50, 2, id="strict-its-own"),
])
def test_whose_memory_is_next(affinity, mempolicy, beside, lender):
    """Node 2 has no CPUs and belongs to cell 0; cell 1 is 12 from it."""
    rows = apart([(10, 12, beside), (12, 10, 60), (beside, 60, 10)])
    topology = host(cell(0, "0 1", distances=rows[0]), cell(1, "2 3", distances=rows[1]), cell(2, distances=rows[2]))
    usage = Usage().with_claim("others", holding("2-3", topology))
    answer = plan(topology, usage, PlacementRequest(2, 1500, numa_affinity=affinity, mempolicy=mempolicy))
    assert (cpus(answer), memory(answer)) == ({0: "0-1"}, {0: 1000, lender: 500})


@pytest.mark.parametrize("affinity", ["require", "none"])
def test_spilled_memory_is_on_the_next_cell(affinity):
    """None has all of it. The first two are near each other, the third has a neighbour that is full."""
    rows = apart([[10 if a == b else 12 if a // 2 == b // 2 else 32 for b in range(4)] for a in range(4)])
    topology = host(*(cell(c, f"{2 * c} {2 * c + 1}", distances=rows[c]) for c in range(4)))
    usage = Usage().with_claim("others", Plan({0: CellShare(memory_mib=1000)}))
    answer = plan(topology, usage, PlacementRequest(2, 1500, numa_affinity=affinity, mempolicy="preferred"))
    assert (cpus(answer), memory(answer)) == ({2: "4-5"}, {2: 1000, 3: 500})


NO_MEMORY = host(cell(0, "0 1 2 3", 8192), cell(1, "4 5 6 7", 0))


@pytest.mark.parametrize("mempolicy", ["strict", "preferred"])
@pytest.mark.parametrize("affinity", ["require", "prefer", "none"])
def test_a_pool_without_memory_borrows_the_nearest(affinity, mempolicy):
    topology = NO_MEMORY.configured(shared_set=CpuSet("4-7"))
    answer = plan(topology, Usage(), PlacementRequest(1, 64, "shared", numa_affinity=affinity, mempolicy=mempolicy))
    assert (cpus(answer), memory(answer), answer.mems) == ({1: "4-7"}, {0: 64}, CpuSet("0"))


@pytest.mark.parametrize("request_", [
    pytest.param(PlacementRequest(4, 64), id="dedicated"),
    pytest.param(PlacementRequest(4, 64, numa_affinity="none"), id="any-cells"),
    pytest.param(PlacementRequest(3.5, 64, "mixed", dedicated_cpus=3), id="mixed"),
    pytest.param(PlacementRequest(4, 64, page_size=2048), id="huge-pages"),
])
def test_cpus_without_memory_are_of_use(request_):
    topology = host(cell(0, "0 1 2 3", 8192, pages={2048: 64}), cell(1, "4 5 6 7", 0))
    usage = Usage().with_claim("others", holding("0-3", topology))
    answer = plan(topology, usage, request_)
    assert set(cpus(answer)) == {1}
    assert answer.mems == CpuSet("0")
    assert memory(answer) == {0: 64}


def test_cpus_with_memory_are_better():
    assert cpus(plan(NO_MEMORY, Usage(), PlacementRequest(4, 64))) == {0: "0-3"}


def test_equally_near_nodes_lend_together():
    """As a processor of four dies of which two have no memory: all are equally far from each other."""
    topology = host(*(cell(c, f"{2 * c} {2 * c + 1}", 1000 if c in (0, 2) else 0) for c in range(4)))
    usage = Usage().with_claim("others", holding("0-1,4-5", topology, memory_mib=900))
    answer = plan(topology, usage, PlacementRequest(2, 800))
    assert (cpus(answer), memory(answer)) == ({1: "2-3"}, {0: 100, 2: 700})


@pytest.mark.parametrize("node", [pytest.param("8 9", id="with-cpus"), pytest.param("", id="memory-only")])
def test_a_farther_node_does_not_lend(node):
    rows = apart([(10, 20, 40), (20, 10, 30), (40, 30, 10)])
    topology = host(
        cell(0, "0 1", 100, distances=rows[0]), cell(1, "2 3", 0, distances=rows[1]),
        cell(2, node, 8000, distances=rows[2]),
    )
    usage = used(topology, "0-1,8-9" if node else "0-1")
    answer = plan(topology, usage, PlacementRequest(2, 200))
    # A memory-only node belongs to the cell that it is nearest to, also if that has no memory.
    assert memory(answer) == {2: 200} if not node else answer.code == "apart"


@pytest.mark.parametrize(("numa_mem", "expected"), [
    pytest.param((500, 500), {0: 1000}, id="enough-for-both"),
    pytest.param((700, 300), {0: 1000}, id="enough-for-unequal-parts"),
    pytest.param((600, 500), None, id="enough-for-each-alone"),
    pytest.param((600, 600), None, id="enough-for-each-of-equal-parts"),
])
def test_no_node_lends_what_it_has_not(numa_mem, expected):
    topology = host(cell(0, "0 1"), cell(1, "2 3", 0))
    answer = plan(topology, Usage(), PlacementRequest(4, sum(numa_mem), numa_nodes=2, numa_mem=numa_mem))
    if expected is None:
        assert answer.code == "shape"
        assert "cells without memory need that of other cells" in answer.message
        assert answer.nearest.memory_mib == 1000
    else:
        assert memory(answer) == expected


def test_a_cell_leaves_memory_to_one_without_choice():
    """Cell 1 may have memory of nodes 0 and 3, cell 2 only that of node 0."""
    rows = apart([(10, 15, 15, 30), (15, 10, 20, 15), (15, 20, 10, 30), (30, 15, 30, 10)])
    amounts = (1000, 0, 0, 1000)
    topology = host(*(cell(c, f"{2 * c} {2 * c + 1}", amounts[c], distances=rows[c]) for c in range(4)))
    answer = plan(topology, used(topology, "0-1,6-7"), PlacementRequest(4, 1800, numa_nodes=2))
    assert (cpus(answer), memory(answer)) == ({1: "2-3", 2: "4-5"}, {0: 1000, 3: 800})


def test_how_far_the_memory_is_does_not_depend_on_numbers():
    """On one machine with its nodes renumbered, equally much memory is equally far from the CPUs."""
    for seed in range(proof_size(150)):
        rng = random.Random(seed)
        size = rng.randint(3, 4)
        rows = [[10] * size for _ in range(size)]
        for a in range(size):
            for b in range(a):
                rows[a][b] = rows[b][a] = rng.choice((12, 17, 21, 32))
        amounts = [rng.choice((400, 700, 1000)) for _ in range(size)]
        counts = [rng.choice((0, 2, 4)) for _ in range(size)]
        request = PlacementRequest(
            2, rng.randint(600, sum(amounts)), numa_affinity="none", mempolicy=rng.choice(("strict", "preferred"))
        )
        found = set()
        for order in permutations(range(size)):
            topology = HostTopology(tuple(
                cell(
                    place, " ".join(str(4 * place + n) for n in range(counts[kind])), amounts[kind],
                    distances={other: rows[kind][order[other]] for other in range(size)},
                )
                for place, kind in enumerate(order)
            ))
            answer = plan(topology, Usage(), request)
            found.add(_away(topology, answer) if isinstance(answer, Plan) else None)
        assert len(found) == 1 or tied(rows), (seed, found)


def tied(rows) -> bool:
    """Whether some distances are equal, so that places can be equally good that are not alike."""
    far = [row[b] for a, row in enumerate(rows) for b in range(a)]
    return len({*far}) < len(far)


def _away(topology: HostTopology, answer: Plan) -> int:
    """MiB by their distance from the CPUs."""
    (home,) = [node for node, share in answer.cells.items() if share.cpus]
    return sum(mib * topology.cell(home).distance(node) for node, mib in memory(answer).items())
