# SPDX-License-Identifier: Apache-2.0
"""Tables over counts of CPUs: early drops lose nothing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from zun.tests.unit.topology.hosts import proof_size, random_topology
from zun.topology import CpuSet, PlacementRequest
from zun.topology.host_topology import view_of
from zun.topology.search import budget
from zun.topology.search.cores import CellStock, rules_of


def test_dropped_states_were_no_part_of_the_best(monkeypatch):
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
