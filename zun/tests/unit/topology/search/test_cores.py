# SPDX-License-Identifier: Apache-2.0
"""The CPUs of a cell: sums, tables and costs agree."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from zun.tests.unit.topology import build
from zun.tests.unit.topology.hosts import like_cells, proof_size, random_topology, random_usage
from zun.topology import CpuSet, PlacementRequest
from zun.topology.host_topology import view_of
from zun.topology.search.cores import CellStock, _most, rules_of
from zun.topology.search.cost import PACK, SPREAD
from zun.topology.view import by_size


def test_cells_with_one_model_share_its_stock():
    """A cell is its model moved up, and what the model gives is what the cell gives."""
    shared = 0
    for seed in range(proof_size(200)):
        rng = random.Random(seed)
        topology = (like_cells if seed % 2 else random_topology)(rng, settings=0.1)
        cells = view_of(topology).cells
        shared += len({cell.model for cell in cells}) < len(cells)
        usage = random_usage(rng, topology)
        policy, grade = rng.choice(("prefer", "isolate", "require")), rng.choice(("thread", "core", "l3"))
        rules = rules_of(PlacementRequest(1, 0, thread_policy=policy, isolation=grade))
        for cell in cells:
            for name in ("dedicated", "pool", "everyone", "online", "wide_firsts", "whole_firsts"):
                assert getattr(cell, name) == getattr(cell.model, name) << cell.base, (seed, name)
            assert cell.whole_sizes == by_size(cell.whole, [core & -core for core in cell.whole]), seed
            assert [cache.kept for cache in cell.caches] == [cache.kept << cell.base for cache in cell.model.caches]
            budget = usage.budget(view_of(topology), cell)
            own = CellStock(cell, usage.held_mask, rules, budget)
            model = CellStock(cell.model, (usage.held_mask & cell.online) >> cell.base, rules, budget)
            assert own.capacity() == model.capacity()
            for want in range(1, len(CpuSet.from_mask(cell.online)) + 1):
                one, other = own.pick(want), model.pick(want)
                assert (one is None) == (other is None) == (want > own.capacity()), (seed, want)
                assert one is None or one == (other.cost, other.cpus << cell.base, other.withheld << cell.base)
    assert shared > proof_size(200) // 4


def _overlapping(rng, *shares):
    """One cell too large for brute force; so much of it is for dedicated use, and so much for shared."""
    topology = random_topology(rng, cells=1, smt=(1, 2, 4), most_cpus=40, settings=0)
    sets = [CpuSet(cpu for cpu in topology.cpus if rng.random() < share) for share in shares]
    return replace(topology, dedicated_set=sets[0], shared_set=sets[1])


def test_cost_equals_the_cost_of_the_pick():
    """Also where it is told without looking for the CPUs, because the pool can pay for any of them, or for none."""
    for seed in range(proof_size(600)):
        rng = random.Random(seed)
        topology = _overlapping(rng, 0.5, 0.8)
        policy, grade = rng.choice(("prefer", "isolate", "require")), rng.choice(("thread", "core", "l3"))
        rules = rules_of(PlacementRequest(1, 0, thread_policy=policy, isolation=grade))
        for cell in view_of(topology).cells:
            pool = rng.choice((0, rng.randint(0, cell.pool.bit_count())))
            asked, looked = (CellStock(cell, 0, rules, pool) for _ in range(2))
            for want in range(1, len(CpuSet.from_mask(cell.online)) + 1):
                cost, pick = asked.cost(want), looked.pick(want)
                assert cost == (None if pick is None else pick.cost), (seed, want)


def test_unpaid_first_cpu_decides_among_like_groups():
    """The pool pays for CPU 0 of one core and for CPU 3 of the other, and can pay for neither: 1 is below 2."""
    cell = build.cell(0, "0,2 1,3", l3="0,2 1,3")
    (view,) = view_of(build.host(cell, dedicated_set=CpuSet("0-3"), shared_set=CpuSet("0,3"))).cells
    assert CellStock(view, 0, rules_of(PlacementRequest(1, 0)), 0).pick(1).cpus == 0b0010


def test_sums_choose_the_cpus_that_tables_choose():
    """In cells too large for brute force, whatever decides first, tables over all CPUs choose the same."""
    asked = Counter()
    for seed in range(proof_size(600)):
        rng = random.Random(seed)
        topology = _overlapping(rng, 0.8, 0.5)
        policy, grade = rng.choice(("prefer", "isolate", "require")), rng.choice(("thread", "core", "l3"))
        weights = rng.choice((PACK, SPREAD))
        rules = rules_of(PlacementRequest(1, 0, thread_policy=policy, isolation=grade), weights)
        for cell in view_of(topology).cells:
            budget = rng.randint(0, cell.pool.bit_count() // 2)
            stock, other = CellStock(cell, 0, rules, budget), CellStock(cell, 0, rules, budget)
            for want in range(1, stock.capacity() + 1):
                found = stock.pick(want)
                assert found is not None
                assert found[:2] == other._of_tables(want)[:2], (seed, want)
                asked[rules.policy, weights is PACK] += 1
                asked[rules.keep] += 1
                asked["tables" if stock._tables is not None else "sums"] += 1
            assert stock.pick(stock.capacity() + 1) is None
    assert len(asked) == 12 and min(asked.values()) > proof_size(600) // 12, asked


@pytest.mark.parametrize(("budget", "tables"), [(100, False), (30, True)])
def test_tables_are_made_only_for_a_short_budget(budget, tables):
    """512 CPUs in cores of many kinds, of which the pool pays for the best choice or does not."""
    rng = random.Random(4)
    cores = " ".join(f"{2 * core},{2 * core + 1}" for core in range(256))
    caches = " ".join(f"{64 * cache}-{64 * cache + 63}" for cache in range(8))
    sets = [CpuSet(cpu for cpu in range(512) if rng.random() < share) for share in (0.7, 0.5)]
    cell = build.cell(0, cores, l3=caches)
    (view,) = view_of(build.host(cell, dedicated_set=sets[0], shared_set=sets[1])).cells
    stock = CellStock(view, 0, rules_of(PlacementRequest(1, 0)), budget)
    found = stock.pick(150)
    assert found is not None and found.cpus.bit_count() == 150 and (found.cpus & view.pool).bit_count() <= budget
    assert (stock._tables is not None) is tables


def test_most_is_the_largest_gain_within_the_budget():
    for seed in range(proof_size(200)):
        rng = random.Random(seed)
        goods = [(rng.randint(0, 4), rng.randint(0, 4)) for _ in range(rng.randint(0, 8))]
        budget = rng.randint(0, 20)
        bought = (some for number in range(len(goods) + 1) for some in combinations(goods, number))
        most = max(sum(g for _, g in some) for some in bought if sum(price for price, _ in some) <= budget)
        assert _most(goods, budget) == most, seed
