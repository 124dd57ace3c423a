# SPDX-License-Identifier: Apache-2.0
"""Claims that are brought nearer: what must be true of every answer, and cases that are known."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.tests.unit.topology.hosts import cells_in_a_row as host
from zun.tests.unit.topology.hosts import proof_size
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.nearer import nearer, remoteness

SPREAD = PlacementRequest(4, 400, numa_affinity="prefer")


def claim(cells):
    """A claim with these CPUs by cell, and 100 MiB for each CPU."""
    return Plan({node: CellShare(CpuSet(cpus), 100 * len(cpus)) for node, cpus in cells.items()}, "dedicated",
                mems=CpuSet(cells))  # fmt: skip


@pytest.mark.parametrize(
    ("held", "movable", "cells", "proven"),
    [
        pytest.param({"a": {0: [0, 1], 1: [4, 5]}}, "a", {"a": [2]}, True, id="a-free-cell"),
        pytest.param(
            {"a": {0: [0, 1], 1: [4, 5]}, "b": {2: [8]}}, "ab", {"a": [2], "b": [0]}, True, id="another-moves-first"
        ),
        pytest.param({"a": {0: [0, 1], 1: [4, 5]}, "b": {2: [8]}}, "a", {"a": [0, 1], "b": [2]}, False, id="no-room"),
        pytest.param({"a": {0: [0, 1, 2, 3]}}, "a", {"a": [0]}, True, id="is-near"),
    ],
)
def test_where_containers_are_then(held, movable, cells, proven):
    topology = host(3, 4)
    usage = Usage({owner: claim(parts) for owner, parts in held.items()})
    requests = {"a": SPREAD, "b": PlacementRequest(1, 100)}
    found = nearer(topology, usage, {owner: requests[owner] for owner in movable})
    assert found.proven is proven
    if proven:
        assert sum(remoteness(topology, held) for _, held in found.usage) == 0
    assert {len(each.cells) for _, each in found.usage} == {len(each) for each in cells.values()}


@settings(max_examples=proof_size(100), deadline=None)
@given(st.integers(0, 2**32))
def test_each_move_is_valid_and_all_are_nearer_then(seed):
    rng = random.Random(seed)
    topology = host(rng.randint(2, 4), rng.choice([4, 6]))
    usage, requests = Usage(), {}
    for number in range(rng.randint(2, 8)):
        request = PlacementRequest(rng.randint(1, 6), 100, numa_affinity="prefer")
        placed = plan(topology, usage, request)
        if isinstance(placed, Plan):
            usage = usage.with_claim(f"c{number}", placed)
            requests[f"c{number}"] = request
    for owner in rng.sample(sorted(requests), len(requests) // 2):  # which leaves room
        usage = usage.without(owner)
        if rng.random() < 0.7:
            del requests[owner]
    before = dict(usage)
    found = nearer(topology, usage, requests)
    now = usage
    for move in found.moves:
        assert now.claim(move.owner) == move.old and now.fits(topology, move.new) is None
        now = now.without(move.owner).with_claim(move.owner, move.new)
    assert dict(now) == dict(found.usage)
    assert all(found.usage.claim(owner) == held for owner, held in before.items() if owner not in requests)
    old, new = (sum(remoteness(topology, held) for _, held in each) for each in (usage, found.usage))
    assert new < old if found.moves else new == old
    assert not found.proven or all(not remoteness(topology, found.usage.claim(each)) for each in requests
                                   if found.usage.claim(each) is not None)  # fmt: skip
