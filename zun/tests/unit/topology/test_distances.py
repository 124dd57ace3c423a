# SPDX-License-Identifier: Apache-2.0
"""Requests over several cells take the nearest ones, by the whole matrix."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from zun.tests.unit.topology.build import cell, host, used
from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan

# A four-socket Opteron with two dies a socket and sparse node ids.
IDS = (0, 1, 2, 33, 34, 45, 72, 73)
ROWS = (
    (10, 16, 16, 22, 16, 22, 16, 22),
    (16, 10, 22, 16, 16, 22, 22, 16),
    (16, 22, 10, 16, 16, 16, 16, 16),
    (22, 16, 16, 10, 16, 16, 22, 22),
    (16, 16, 16, 16, 10, 16, 16, 22),
    (22, 22, 16, 16, 16, 10, 22, 16),
    (16, 22, 16, 22, 16, 22, 10, 16),
    (22, 16, 16, 22, 22, 16, 16, 10),
)
OPTERON = host(*(
    cell(node, " ".join(str(6 * place + core) for core in range(6)), distances=dict(zip(IDS, row, strict=True)))
    for place, (node, row) in enumerate(zip(IDS, ROWS, strict=True))
))


def spread(topology: HostTopology, nodes) -> int:
    return sum(topology.cell(a).distance(b) + topology.cell(b).distance(a) for a, b in combinations(nodes, 2))


@pytest.mark.parametrize("nodes", range(1, 9))
@pytest.mark.parametrize("full", ["", "0-5", "0-5,12-17", "6-11,24-29", "0-4,6-10,12-16"])
def test_nearest_cells_of_an_opteron(nodes, full):
    usage = used(OPTERON, full)
    cpus = 2 * nodes
    able = [part.id for part in OPTERON.cells if len(usage.free(OPTERON)[part.id].cpus) >= 2]
    answer = plan(OPTERON, usage, PlacementRequest(cpus, 90, numa_nodes=nodes))
    if len(able) < nodes:
        assert answer.code == "cpus"
        return
    assert spread(OPTERON, answer.cells) == min(spread(OPTERON, chosen) for chosen in combinations(able, nodes))


@pytest.mark.parametrize("shape", [[1, 5], [6, 2, 4], [3, 3, 1]])
def test_nearest_cells_for_unequal_parts(shape):
    usage = used(OPTERON, "0-3,12-13,24-28")
    free = {part.id: len(usage.free(OPTERON)[part.id].cpus) for part in OPTERON.cells}
    answer = plan(OPTERON, usage, PlacementRequest(sum(shape), 90, numa_cpus=shape))
    fitting = [
        chosen for chosen in combinations(IDS, len(shape))
        if all(have >= want for have, want in zip(sorted(free[c] for c in chosen), sorted(shape), strict=True))
    ]
    assert spread(OPTERON, answer.cells) == min(spread(OPTERON, chosen) for chosen in fitting)


@pytest.mark.parametrize(("cpus", "cells"), [(6, 1), (7, 2), (12, 2), (13, 3), (48, 8)])
def test_fewest_and_nearest_cells_for_any_shape(cpus, cells):
    answer = plan(OPTERON, Usage(), PlacementRequest(cpus, 90, numa_affinity="prefer"))
    assert len(answer.cells) == cells
    assert spread(OPTERON, answer.cells) == min(spread(OPTERON, chosen) for chosen in combinations(IDS, cells))


def test_distance_before_fit():
    """A far pair of nearly full cells is no match for a near pair of empty ones."""
    usage = used(OPTERON, "2-5,20-23")  # nodes 0 and 33, 22 apart
    answer = plan(OPTERON, usage, PlacementRequest(4, 90, numa_nodes=2))
    assert spread(OPTERON, answer.cells) == 32
    assert set(answer.cells) != {0, 33}


def test_random_matrices_of_many_cells():
    """Twelve cells, more than the whole-key brute force can try: the distances are still the smallest."""
    for seed in range(proof_size(40)):
        rng = random.Random(seed)
        ids = sorted(rng.sample(range(100), 12))
        far = {
            (a, b): 10 if a == b else rng.choice(rng.choice(((11, 21), (20,), (11, 12, 17, 31, 40))))
            for a in ids for b in ids
        }
        topology = HostTopology(tuple(
            NUMACell(node, CpuSet(range(4 * i, 4 * i + 4)), memory_mib=100, distances={b: far[node, b] for b in ids})
            for i, node in enumerate(ids)
        ))
        taken = {
            node: CellShare(CpuSet(list(topology.cell(node).cpus)[: rng.randint(0, 4)]), rng.choice((0, 0, 95)))
            for node in ids
        }
        usage = Usage().with_claim("others", Plan(taken))
        count = rng.randint(2, 7)
        sizes = [rng.randint(1, 3) for _ in range(count)] if seed % 2 else [2] * count
        request = PlacementRequest(sum(sizes), 8 * count, numa_cpus=sizes, numa_mem=[8] * count)
        free = usage.free(topology)
        have = {node: len(free[node].cpus) if free[node].memory_mib >= 8 else 0 for node in ids}
        fitting = [
            spread(topology, chosen) for chosen in combinations(ids, count)
            if all(a >= b for a, b in zip(sorted(have[c] for c in chosen), sorted(sizes), strict=True))
        ]
        answer = plan(topology, usage, request)
        assert isinstance(answer, Plan) == bool(fitting), seed
        if fitting:
            assert spread(topology, answer.cells) == min(fitting), seed
