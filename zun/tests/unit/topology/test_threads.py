# SPDX-License-Identifier: Apache-2.0
"""The short cuts of the allocator one by one, each against every choice there is."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import accumulate, combinations, permutations, product

import pytest

from zun.tests.unit.topology import build
from zun.tests.unit.topology.hosts import like_cells, proof_size, random_topology, random_usage
from zun.topology import CpuSet, PlacementRequest, budget, plan
from zun.topology.cores import CellStock, _most, rules_of
from zun.topology.cost import PACK, SPREAD
from zun.topology.groups import MixedGroups, _part
from zun.topology.lowest import lowest_matching
from zun.topology.matching import cheapest_matching
from zun.topology.threads import Regular, Units, doublings, threads_of, units_of, with_some
from zun.topology.view import by_size, view_of

POLICIES = ("prefer", "whole", "require", "isolate")


def cheapest(units: list[int], want: int, policy: str) -> tuple[int, int, set[tuple[int, ...]]] | None:
    """Cores, threads left over, and the CPUs of each such choice."""
    found: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for number in range(1, len(units) + 1):
        for chosen in combinations(units, number):
            union = sum(chosen)
            firsts = [unit & -unit for unit in chosen]
            cpus = firsts if policy == "isolate" else [1 << cpu for cpu in _ids(union)][:want]
            if len(cpus) == want and number <= want:
                left = union.bit_count() - want
                found.setdefault((number, left), set()).add(tuple(_ids(sum(cpus))))
    return (*min(found), found[min(found)]) if found else None


def _ids(mask: int) -> list[int]:
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("smt", [(1,), (2,), (1, 2), (4,), (1, 4), (1, 2, 4)], ids=str)
def test_cpus_of_a_cell_are_the_fewest_cores_and_the_lowest_ids(policy, smt):
    forms = set()
    for seed in range(proof_size(40)):
        rng = random.Random(seed)
        make = like_cells if seed % 2 else random_topology
        topology = make(rng, cells=1, smt=smt, most_cpus=11, settings=0.1)
        for cell in view_of(topology).cells:
            free = cell.dedicated & rng.getrandbits(cell.dedicated.bit_length()) | cell.dedicated * (seed % 3 == 0)
            threads = threads_of(cell, free, policy)
            forms.add(type(threads))
            units = units_of(cell, free, policy)
            for want in range(1, free.bit_count() + 1):
                expected = cheapest(units, want, policy)
                price = threads.price(want)
                if expected is None:
                    assert price is None, (seed, want)
                    continue
                cores, left, choices = expected
                assert price == (cores, left), (seed, want)
                cpus, withheld = threads.take(want, cores, left)
                assert tuple(_ids(cpus)) == min(choices), (seed, want)
                assert not cpus & withheld
                assert withheld.bit_count() == (0 if policy == "prefer" else left)
    assert Regular in forms
    assert Units in forms or max(smt) < 4, "nothing here was a mix"


def test_like_cells_share_what_they_have():
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


def test_a_cost_is_that_of_the_pick():
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


def test_the_lowest_cores_that_the_pool_can_pay_for():
    found = 0
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        ids = rng.sample(range(24), 24)
        units = [sum(1 << ids.pop() for _ in range(rng.randint(1, 3))) for _ in range(7)]
        (cell,) = view_of(build.host(build.cell(0, " ".join(str(CpuSet.from_mask(unit)) for unit in units)))).cells
        pool, budget = rng.getrandbits(24), rng.randint(0, 6)
        choices: dict[tuple[int, int], list[list[int]]] = {}
        for number in range(1, len(units) + 1):
            for chosen in combinations(units, number):
                if (sum(chosen) & pool).bit_count() <= budget:
                    choices.setdefault((number, sum(chosen).bit_count()), []).append(_ids(sum(chosen)))
        for (cores, want), able in choices.items():
            cpus, withheld = Units(cell, cell.dedicated, "prefer").take(want, cores, 0, -1, pool, budget)
            assert (_ids(cpus), withheld) == (min(able), 0), (seed, cores, want)
            found += len(able) > 1
    assert found > proof_size(300)


def test_of_like_groups_the_first_is_not_the_lowest_where_its_first_cpu_is_not_paid_for():
    """The pool pays for CPU 0 of one core and for CPU 3 of the other, and can pay for neither: 1 is below 2."""
    cell = build.cell(0, "0,2 1,3", l3="0,2 1,3")
    (view,) = view_of(build.host(cell, dedicated_set=CpuSet("0-3"), shared_set=CpuSet("0,3"))).cells
    assert CellStock(view, 0, rules_of(PlacementRequest(1, 0)), 0).pick(1).cpus == 0b0010


def test_a_choice_that_the_pool_can_pay_for_is_the_best_of_all():
    """In cells too large for brute force, what is chosen by sums is what tables over all CPUs find."""
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
            if stock._hard and not stock._many:
                for want in range(1, stock.capacity() + 1):
                    found = stock.pick(want)
                    assert found is not None
                    assert found[:2] == stock._of_tables(want)[:2] == other._of_many(want)[:2], (seed, want)
                    asked[rules.policy, weights is PACK] += 1
                    asked[rules.keep] += 1
                    asked["tables"] += other._budgeted is not None
                assert stock.pick(stock.capacity() + 1) is other._of_many(stock.capacity() + 1) is None
    assert len(asked) == 11 and min(asked.values()) > proof_size(600) // 12, asked


@pytest.mark.parametrize(("budget", "tables"), [(100, False), (30, True)])
def test_many_cpus_that_the_pool_must_pay_for_are_not_summed_up(budget, tables):
    """512 CPUs in cores of many kinds: their sums would be many megabits each."""
    rng = random.Random(4)
    cores = " ".join(f"{2 * core},{2 * core + 1}" if core % 3 else f"{2 * core}" for core in range(256))
    caches = " ".join(f"{64 * cache}-{64 * cache + 63}" for cache in range(8))
    sets = [CpuSet(cpu for cpu in range(512) if rng.random() < share) for share in (0.7, 0.5)]
    cell = build.cell(0, cores, l3=caches)
    (view,) = view_of(build.host(cell, dedicated_set=sets[0], shared_set=sets[1])).cells
    stock = CellStock(view, 0, rules_of(PlacementRequest(1, 0)), budget)
    found = stock.pick(150)
    assert found is not None and found.cpus.bit_count() == 150 and (found.cpus & view.pool).bit_count() <= budget
    assert (stock._budgeted is not None) is tables
    assert not any(isinstance(each, MixedGroups) and each._row > 1 for each in stock._tables)


def test_what_is_dropped_early_was_no_part_of_the_best(monkeypatch):
    """In cells too large for brute force, a short pool pays for the same whether states are dropped early or never."""
    worth, calls = budget._worth, Counter()

    def picks(topology, rules, many):
        monkeypatch.setattr(budget, "_MANY", many)
        monkeypatch.setattr(budget, "_worth", lambda *args: (calls.update([many]), worth(*args))[1])
        stocks = [CellStock(cell, 0, rules, pool) for cell in view_of(topology).cells for pool in (10, 20)]
        return [stock.pick(want) for stock in stocks for want in range(1, stock.capacity() + 1, 7)]

    usual, never = budget._MANY, 10**9
    for seed in range(proof_size(40)):
        rng = random.Random(seed)
        topology = random_topology(rng, cells=1, smt=(2, 4, 8), most_cpus=150, settings=0)
        cpus = list(topology.cpus) or [0]
        sets = [CpuSet(rng.sample(cpus, -(-2 * len(cpus) // 3))) for _ in range(2)]
        topology = replace(topology, dedicated_set=sets[0], shared_set=sets[1])
        rules = rules_of(PlacementRequest(1, 0, thread_policy=rng.choice(("prefer", "isolate", "require"))))
        expected = picks(topology, rules, never)
        assert picks(topology, rules, usual) == expected, seed
        assert picks(topology, rules, 0) == expected, seed
    assert calls[never] < calls[usual] < calls[0], "nothing was dropped early"


def test_sums_of_amounts():
    for seed in range(proof_size(200)):
        rng = random.Random(seed)
        amounts = [rng.randint(1, 4) for _ in range(rng.randint(0, 9))]
        sums = {sum(some) for number in range(len(amounts) + 1) for some in combinations(amounts, number)}
        assert set(_ids(with_some(1, doublings(amounts)))) == sums


def test_the_most_that_a_budget_buys():
    for seed in range(proof_size(200)):
        rng = random.Random(seed)
        goods = [(rng.randint(0, 4), rng.randint(0, 4)) for _ in range(rng.randint(0, 8))]
        budget = rng.randint(0, 20)
        bought = (some for number in range(len(goods) + 1) for some in combinations(goods, number))
        most = max(sum(g for _, g in some) for some in bought if sum(price for price, _ in some) <= budget)
        assert _most(goods, budget) == most, seed


def test_a_matching_that_begins_from_prices():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        size = rng.randint(1, 5)
        costs = [[None if rng.random() < 0.2 else rng.randint(-9, 9) for _ in range(size)] for _ in range(size)]
        of_columns = [rng.randint(-9, 9) for _ in range(size)]
        of_rows = [
            min([cost - price for cost, price in zip(row, of_columns, strict=True) if cost is not None], default=0)
            for row in costs
        ]
        found, expected = cheapest_matching(costs, (of_rows, of_columns)), cheapest_matching(costs)
        assert (found is None) == (expected is None), seed
        assert found is None or found.cost == expected.cost, seed


def test_the_lowest_of_the_matchings():
    for seed in range(proof_size(400)):
        rng = random.Random(seed)
        size = rng.randint(2, 5)
        numbers = rng.sample(range(size * 6), size * 6)
        if rng.random() < 0.5:
            numbers.sort()
        cells = [numbers[c::size] if rng.random() < 0.8 else numbers[c * 6 : c * 6 + 6] for c in range(size)]
        taken: set[int] = set()
        for c, cell in enumerate(cells):
            cells[c] = [cpu for cpu in cell if cpu not in taken]
            taken |= set(cells[c])
        wants = [rng.randint(0, 3) for _ in range(size)]
        given = {
            (want, c): sum(1 << cpu for cpu in rng.sample(cell, min(want, len(cell))))
            for want in range(4) for c, cell in enumerate(cells)
        }
        order = rng.sample(range(size), size)
        ways = [sorted({order[row], *(c for c in range(size) if rng.random() < 0.7)}) for row in range(size)]

        def cpus(row, column, given=given, wants=wants):
            return given[wants[row], column]

        found = lowest_matching(ways, order, wants, [sum(1 << cpu for cpu in cell) for cell in cells], cpus)
        assert sorted(found) == list(range(size)), seed
        assert all(column in ways[row] for row, column in enumerate(found)), seed
        every = [way for way in permutations(range(size)) if all(c in ways[row] for row, c in enumerate(way))]
        unions = [sum(cpus(row, column) for row, column in enumerate(way)) for way in [found, *every]]
        # The set that holds the lowest CPU in which two differ is the lower one.
        width = size * 6
        assert all(f"{unions[0]:0{width}b}"[::-1] >= f"{union:0{width}b}"[::-1] for union in unions), seed


@pytest.mark.parametrize(("l3", "held", "expected"), [
    pytest.param("0-1 2-3,8-9 4-5", "2-3", "0-1,4-5", id="the-second-lies-above-the-third"),
    pytest.param("0-1 2-3 4-5,8-9", "4-5", "0-3", id="the-second-lies-below-the-third"),
    pytest.param("0-1 2-3,8-9 4-5", "3,8", "0-2,9", id="the-second-lies-around-the-third"),
])
def test_the_lower_of_two_choices_that_begin_alike(l3, held, expected):
    topology = build.host(build.cell(0, "0 1 2 3 4 5 8 9", l3=l3))
    answer = plan(topology, build.used(topology, held), PlacementRequest(4, 10))
    assert str(answer.cpus) == expected


@pytest.mark.parametrize("bits", [20, 32, 33, 60])
def test_choices_of_groups_are_listed_alike_however_long_their_codes_are(bits):
    """Groups of one kind are taken in order: one of them, two of them, and so on."""
    for seed in range(proof_size(20)):
        rng = random.Random(seed)
        lengths = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
        # The longest sum of all has so many bits.
        largest = (1 << bits) // sum(lengths)
        chains = [list(accumulate([rng.randint(largest // 2 + 1, largest) for _ in range(each)])) for each in lengths]
        codes, picks = _part(chains)
        wanted: dict[int, list[int]] = {}
        for taken in product(*[range(each + 1) for each in lengths]):
            code = sum([(0, *chain)[each] for chain, each in zip(chains, taken, strict=True)])
            wanted.setdefault(sum(taken), []).append(code)
        assert {number: sorted(pick(codes)) for number, pick in enumerate(picks)} == {
            number: sorted(some) for number, some in wanted.items()
        }, seed
