# SPDX-License-Identifier: Apache-2.0
"""The cores of a cell, against every choice of cores."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from zun.tests.unit.topology import build
from zun.tests.unit.topology.hosts import like_cells, proof_size, random_topology
from zun.tests.unit.topology.search.counting import ids
from zun.topology import CpuSet
from zun.topology.host_topology import view_of
from zun.topology.search.threads import Regular, Units, doublings, threads_of, units_of, with_some

POLICIES = ("prefer", "whole", "require", "isolate")


def cheapest(units: list[int], want: int, policy: str) -> tuple[int, int, set[tuple[int, ...]]] | None:
    """Cores, threads left over, and the CPUs of each such choice."""
    found: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for number in range(1, len(units) + 1):
        for chosen in combinations(units, number):
            union = sum(chosen)
            firsts = [unit & -unit for unit in chosen]
            cpus = firsts if policy == "isolate" else [1 << cpu for cpu in ids(union)][:want]
            if len(cpus) == want and number <= want:
                left = union.bit_count() - want
                found.setdefault((number, left), set()).add(tuple(ids(sum(cpus))))
    return (*min(found), found[min(found)]) if found else None


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("smt", [(1,), (2,), (1, 2), (4,), (1, 4), (1, 2, 4)], ids=str)
def test_fewest_cores_then_lowest_ids(policy, smt):
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
                assert tuple(ids(cpus)) == min(choices), (seed, want)
                assert not cpus & withheld
                assert withheld.bit_count() == (0 if policy == "prefer" else left)
    assert Regular in forms
    assert Units in forms or max(smt) < 4, "nothing here was a mix"


def test_units_take_the_lowest_cores_of_a_price():
    found = 0
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        left = rng.sample(range(24), 24)
        units = [sum(1 << left.pop() for _ in range(rng.randint(1, 3))) for _ in range(7)]
        (cell,) = view_of(build.host(build.cell(0, " ".join(str(CpuSet.from_mask(unit)) for unit in units)))).cells
        choices: dict[tuple[int, int], list[list[int]]] = {}
        for number in range(1, len(units) + 1):
            for chosen in combinations(units, number):
                choices.setdefault((number, sum(chosen).bit_count()), []).append(ids(sum(chosen)))
        for (cores, want), able in choices.items():
            cpus, withheld = Units(cell, cell.dedicated, "prefer").take(want, cores, 0)
            assert (ids(cpus), withheld) == (min(able), 0), (seed, cores, want)
            found += len(able) > 1
    assert found > proof_size(300)


def test_doublings_reach_every_sum():
    for seed in range(proof_size(200)):
        rng = random.Random(seed)
        amounts = [rng.randint(1, 4) for _ in range(rng.randint(0, 9))]
        sums = {sum(some) for number in range(len(amounts) + 1) for some in combinations(amounts, number)}
        assert set(ids(with_some(1, doublings(amounts)))) == sums
