# SPDX-License-Identifier: Apache-2.0
"""``plan`` against brute force: no false refusal, no false grant, the objective equal to the last CPU id."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.tests.unit.topology.hosts import (
    cache_case,
    device_case,
    like_cells,
    link_case,
    mixed_case,
    proof_size,
    random_case,
    short_memory_case,
    short_pool_case,
    strays_case,
)
from zun.tests.unit.topology.oracle import MICRO, Host, best_plan
from zun.topology import CpuSet, HostTopology, PlacementRequest, Plan, Refusal, RefusalCode, Usage, plan
from zun.topology.search import budget


def check(topology: HostTopology, usage: Usage, request: PlacementRequest) -> None:
    answer = plan(topology, usage, request)
    expected = best_plan(topology, usage, request)
    if expected is None:
        assert isinstance(answer, Refusal), "granted what brute force cannot place"
        return
    assert isinstance(answer, Plan), f"refused what brute force places: {answer}, {expected}"
    best, page_kib = expected
    wanted = [each for each in request.devices if each.count]
    assert [(given.name, given.address) for given in answer.devices] == [
        (each.name, address) for each, addresses in zip(wanted, best.devices, strict=True) for address in addresses
    ]
    taken = {cell: share for cell, share in answer.cells.items() if cell in best.cpus}
    assert {cell: set(share.cpus) for cell, share in taken.items()} == {c: set(g) for c, (g, _) in best.cpus.items()}
    assert {cell: set(s.withheld) for cell, s in taken.items()} == {c: set(w) for c, (_, w) in best.cpus.items()}
    if not request.dedicated:
        demand = {cell: round(share.shared * MICRO) for cell, share in taken.items()}
        assert sum(demand.values()) == sum(best.demand.values())
        host = Host(topology, usage, request, page_kib)
        # Unequal demands can stand on the same cells in several equally good ways.
        assert sum(host.shared_choice(c, d)[0][0] for c, d in demand.items()) == best.crowd
    if request.mixed:
        check_mixed(topology, usage, request, answer)
    check_memory(topology, usage, request, answer, best, page_kib)


def check_mixed(topology: HostTopology, usage: Usage, request: PlacementRequest, answer: Plan) -> None:
    """The plan is a claim that fits, its shared part is on the cell of its own CPUs, and the pool has room for all."""
    assert usage.fits(topology, answer) is None
    ((node, share),) = [(node, share) for node, share in answer.cells.items() if share.runs_here]
    assert len(share.cpus) == request.dedicated_cpus
    assert round(share.shared * MICRO) == request.demand
    after = usage.with_claim("this", answer)
    assert share.pool == after.shared_pool(topology, (node,)) != CpuSet()
    assert answer.cpus == share.cpus | share.pool
    assert Plan.from_dict(answer.to_dict()) == answer
    ratio = Fraction(str(topology.cpu_allocation_ratio))
    assert after.demand(node) <= len(share.pool) * MICRO * ratio


def check_memory(topology, usage, request, answer, best, page_kib) -> None:
    host = Host(topology, usage, request, page_kib)
    assert answer.memory_mib == request.memory_mib
    reachable = {node for cell in best.cpus for node in (cell, *host.attached[cell])}
    remote = 0
    for node, share in answer.cells.items():
        units = share.memory_mib if page_kib is None else share.pages.get(page_kib, 0)
        assert units <= host.room[node], f"node {node} has not so much memory"
        assert page_kib is not None or not share.pages
        if node not in best.cpus:
            assert not share.cpus and not share.withheld and units, "a node of the plan without any use"
            assert request.mempolicy == "preferred" or node in reachable, "strict memory from a foreign node"
            remote += units
    # What a cell borrows may be of another cell of the container, and may leave that one less of its own.
    if (request.mempolicy == "strict" and not host.borrows) or len(best.cpus) == 1:
        assert remote == best.remote, "more memory than necessary is not on the cells of the CPUs"
    if best.memory is not None:
        counted = {
            node: share.memory_mib if page_kib is None else share.pages.get(page_kib, 0)
            for node, share in answer.cells.items()
        }
        assert counted == best.memory
    booked = {node for node, share in answer.cells.items() if share.memory_mib}
    if booked:
        assert set(answer.mems) == booked


def check_seeds(number, make) -> None:
    """``check`` what ``make`` makes of so many seeds."""
    for seed in range(proof_size(number)):
        case = make(random.Random(seed))
        try:
            check(*case)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {case}") from error


LIMITS = [
    pytest.param({}, id="any-host"),
    pytest.param({"cells": 2, "smt": (2, 4), "most_cpus": 12, "settings": 0}, id="larger-cells"),
    pytest.param({"cells": 6, "smt": (1,), "most_cpus": 4, "settings": 0}, id="many-small-cells"),
    pytest.param({"cells": 3, "smt": (2,), "settings": 0.15}, id="ordinary-smt"),
    pytest.param({"cells": 2, "most_cpus": 11, "settings": 0}, id="cores-of-many-sizes"),
    pytest.param({"cells": 2, "most_cpus": 9, "settings": 0.5}, id="odd-settings"),
    pytest.param({"make": like_cells}, id="like-cells"),
    pytest.param({"make": like_cells, "smt": (4,), "most_cpus": 12, "cells": 2}, id="four-threads-a-core"),
    pytest.param({"make": like_cells, "smt": (1, 2), "most_cpus": 10, "cells": 3}, id="one-and-two-threads-a-core"),
]


@pytest.mark.parametrize("limits", LIMITS)
def test_seeded_cases(limits):
    check_seeds(600, partial(random_case, **limits))


@pytest.mark.parametrize("many", [0, budget._MANY])
def test_a_short_pool(monkeypatch, many):
    """With as few CPUs as brute force can answer for, ``many`` is what makes some states be dropped early."""
    monkeypatch.setattr(budget, "_MANY", many)
    shorter = []

    def case(rng):
        topology, usage, request = short_pool_case(rng)
        alone = plan(topology, Usage(), request)
        shorter.append(isinstance(alone, Plan) and plan(topology, usage, request) != alone)
        return topology, usage, request

    check_seeds(3000, case)
    assert sum(shorter) > proof_size(3000) // 10, f"the pool was seldom short: {sum(shorter)}"


@pytest.mark.parametrize("limits", [
    *LIMITS,
    pytest.param({"cells": 2, "smt": (1, 2), "most_cpus": 10, "settings": 0.3}, id="overlapping-sets"),
])
def test_mixed_containers(limits):
    check_seeds(600, partial(mixed_case, **limits))


@pytest.mark.parametrize(
    "limits", [{"cells": 3, "most_cpus": 6}, {"make": like_cells, "settings": 0.3}], ids=["any", "like"]
)
def test_parts_of_caches(limits):
    check_seeds(600, partial(cache_case, **limits))


def test_parts_of_caches_decide():
    """Often only because of its part a request is refused, or gets other CPUs."""
    decided = Counter()
    for seed in range(600):
        topology, usage, request = cache_case(random.Random(seed))
        with_part, without = plan(topology, usage, request), plan(topology, usage, request.without_cache())
        if isinstance(without, Plan):
            decided["refused" if isinstance(with_part, Refusal) else with_part.cpus == without.cpus] += 1
            if isinstance(with_part, Refusal):
                assert with_part.code == RefusalCode.CACHE, seed
            else:
                assert usage.fits(topology, with_part) is None
                assert with_part.cache == topology.cache_control.part(request)
        elif isinstance(with_part, Refusal):
            assert with_part.code == without.code, seed
    assert decided["refused"] > 50 and decided[False] > 10, decided


def test_mixed_cases_reach_every_end():
    """The proof is worth something only if many cases fit, and many are refused for the pool alone."""
    answers = [plan(*mixed_case(random.Random(seed))) for seed in range(600)]
    codes = [str(answer.code) for answer in answers if isinstance(answer, Refusal)]
    assert len(codes) < 450
    assert codes.count("shared-pool") > 50


@settings(max_examples=proof_size(60), derandomize=True)
@given(st.randoms(use_true_random=False))
def test_mixed_cases_that_shrink(rng):
    check(*mixed_case(rng))


def test_the_last_cpus_of_the_pool():
    """Dedicated CPUs where shared containers have those of other cells than their own, and no others."""
    check_seeds(3000, strays_case)


def test_short_memory():
    check_seeds(2000, short_memory_case)


@pytest.mark.parametrize("limits", [
    pytest.param({}, id="any-host"),
    pytest.param({"make": short_memory_case}, id="short-memory"),
    pytest.param({"sames": ("switch", "cell", "host")}, id="groups"),
    pytest.param({"cells": 6, "smt": (1,), "most_cpus": 2}, id="many-small-cells"),
    pytest.param(
        {"cells": 6, "smt": (1,), "most_cpus": 2, "sames": ("switch", "cell")}, id="groups-on-many-small-cells"
    ),
    pytest.param({"make": short_memory_case, "sames": ("switch", "cell")}, id="groups-and-short-memory"),
    pytest.param({"sames": ("link",)}, id="links"),
    pytest.param({"cells": 6, "smt": (1,), "most_cpus": 2, "sames": ("link",)}, id="links-on-many-small-cells"),
    pytest.param({"sharing": 0.8}, id="shares"),
    pytest.param({"sharing": 0.6, "sames": ("switch", "cell")}, id="groups-of-shares"),
    pytest.param({"sharing": 0.6, "sames": ("link",)}, id="links-of-shares"),
])
def test_devices(limits):
    check_seeds(1000, partial(device_case, **limits))


def test_links():
    """On most hosts some devices are free, but not all of them are linked."""
    check_seeds(1000, link_case)


def test_shares_are_given_and_refused():
    """The proof is worth something only if many cases give a share of a device that others share already."""
    cases = [device_case(random.Random(seed), sharing=0.8) for seed in range(400)]
    answers = [(usage, plan(topology, usage, request)) for topology, usage, request in cases]
    plans = [(usage, answer) for usage, answer in answers if isinstance(answer, Plan)]
    assert sum(any(usage.holders(each.address) for each in answer.devices) for usage, answer in plans) > 5
    refusals = [answer.message for _, answer in answers if isinstance(answer, Refusal)]
    assert sum("a container has one share" in message for message in refusals) > 20
    assert sum("are for requests that name the resource class" in message for message in refusals) > 5


@settings(max_examples=proof_size(60), derandomize=True)
@given(st.randoms(use_true_random=False))
def test_devices_that_shrink(rng):
    check(*device_case(rng, sames=("none", "link", "switch", "cell"), sharing=0.3))


@settings(max_examples=proof_size(60), derandomize=True)
@given(st.randoms(use_true_random=False))
def test_cases_that_shrink(rng):
    check(*random_case(rng))
