# SPDX-License-Identifier: Apache-2.0
"""The example in the README of the search: each number on the page comes out of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import zun.topology.search
from zun.tests.unit.topology.build import cell, host, used
from zun.tests.unit.topology.search.counting import calls
from zun.topology import CpuSet, PlacementRequest, plan
from zun.topology.host_topology import view_of
from zun.topology.search.cores import CellStock
from zun.topology.search.cost import CACHES, CORE_LEFT, CORES, DISTANCE, PACK, REMOTE
from zun.topology.search.groups import EvenGroups, groups_of
from zun.topology.search.matching import cheapest_matching, column_bounds
from zun.topology.search.question import Question
from zun.topology.search.threads import threads_of

FOLDER = Path(zun.topology.search.__file__).parent
README = (FOLDER / "README.rst").read_text()
WORDS = " ".join(README.split())

NEAR, FAR = 12, 32
HOST = host(
    cell(0, "0-1 2-3 4-5 6-7", l3="0-3 4-7", distances={0: 10, 1: NEAR, 2: FAR}),
    cell(1, "8-9 10-11 12-13 14-15", l3="8-11 12-15", distances={0: NEAR, 1: 10, 2: FAR}),
    cell(2, "16-17 18-19 20-21 22-23", l3="16-19 20-23", distances={0: FAR, 1: FAR, 2: 10}),
)
USAGE = used(HOST, "3,5", "8-9")
REQUEST = PlacementRequest(6, 600, numa_cpus=[4, 2], numa_mem=[400, 200])
VIEW = view_of(HOST)
FIELDS = (CACHES, CORES, CORE_LEFT, *PACK)


@pytest.fixture
def question():
    return Question(VIEW, USAGE, REQUEST, None, {})


@pytest.fixture
def costs(question):
    return [[question.cost(each, cpus, mib) for each in VIEW.cells] for cpus, mib in REQUEST.parts]


def told(cost: int) -> list[int]:
    """Return the amounts in the fields of a cost, most important first."""
    amounts = []
    for field in FIELDS:
        amount, cost = divmod(cost, field)
        amounts.append(amount)
    return amounts


def drawn(core: CpuSet) -> str:
    """Return a core as the page draws it: 0-1, or 2-x if 3 is held, or xx."""
    free = core - USAGE.held_cpus
    return {0: "xx", 1: f"{free}-x", 2: str(free)}[len(free)]


def test_drawing_shows_the_cores_and_the_held_cpus():
    cores = [drawn(CpuSet.from_mask(core)) for each in VIEW.cells for core in each.cores]
    assert " ".join(cores) in WORDS
    distances = [f"{a} to {b}: {VIEW.distances[a][b]}" for a, b in ((0, 1), (0, 2), (1, 2))]
    assert " ".join(distances) in WORDS


def test_table_shows_the_cost_of_each_part_on_each_cell(question, costs):
    rows = []
    for (cpus, mib), row in zip(REQUEST.parts, costs, strict=True):
        for each, cost in zip(VIEW.cells, row, strict=True):
            given = CpuSet.from_mask(question.offer(each, cpus, mib).cpus)
            caches, cores, core_left, cache_left, cell_left, mem_left = told(cost)
            rows.append(
                f"      {cpus:>4}{each.id:>6}{caches:>11}{cores:>7}{core_left:>15}{cache_left:>11}{cell_left:>9}"
                f"{mem_left:>5}   {given}"
            )
    assert "\n".join(rows) in README


def test_both_groups_of_cell_0_are_bit_16():
    (first, *_), held = VIEW.cells, USAGE.held_mask
    free = first.dedicated & ~held
    threads = threads_of(first, free, "prefer")
    groups = groups_of(first.cache_masks, free, threads)
    assert groups.frees == [3, 3]
    even = EvenGroups(threads, 0, groups, first.dedicated.bit_count() + 1, spread=False)
    assert even._sums(1) == 1 << 16 and even._width == 5
    cores, left, free_there, place = even.best(1, 2, None)
    assert (cores, left, free_there) == (1, 0, 3)
    assert even.unions(1, free_there, place) == [CpuSet("0-3").mask]
    assert "bit 3 * 5 + 1 = 16" in WORDS


def test_matching_without_distances_takes_cells_2_and_1(costs):
    matching = cheapest_matching(costs)
    assert matching.columns == [2, 1]
    assert told(matching.cost)[3] == 0, "something is left in the L3 groups"
    for chosen in ((0, 1), (0, 2), (1, 2)):
        bound = sum(matching.row_prices) + sum(column_bounds(costs, matching)[c] for c in chosen)
        assert bound <= cheapest_matching([[row[c] for c in chosen] for row in costs]).cost


def test_set_0_1_beats_the_distance_of_the_others(costs):
    matching = cheapest_matching([[row[c] for c in (0, 1)] for row in costs])
    assert (matching.columns, told(matching.cost)[0]) == ([1, 0], 2)
    assert told(costs[0][0] + costs[1][1])[0] == 3
    assert matching.cost + VIEW.distances[0][1] * DISTANCE < VIEW.distances[1][2] * DISTANCE < REMOTE


def test_plan_is_the_answer_of_the_page():
    answer = plan(HOST, USAGE, REQUEST)
    assert {node: (str(share.cpus), share.memory_mib) for node, share in answer.cells.items()} == {
        0: ("0-1", 200), 1: ("12-15", 400),
    }
    # The first one is the matching without distances.
    assert calls("cheapest_matching", lambda: plan(HOST, USAGE, REQUEST)) == 1 + 2


def test_page_names_every_module_once():
    modules = {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
    assert sorted(re.findall(r"^``(\w+\.py)`` ", README, re.M)) == sorted(modules)


def test_stock_of_cell_0_needs_both_groups_for_4_cpus(question):
    stock = CellStock(VIEW.cells[0], USAGE.held_mask, question.rules, 8)
    assert (told(stock.cost(3))[0], told(stock.cost(4))[0]) == (1, 2)
