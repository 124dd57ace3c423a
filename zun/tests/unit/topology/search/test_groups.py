# SPDX-License-Identifier: Apache-2.0
"""Equally good choices of L3 groups."""

from __future__ import annotations

import pytest

from zun.tests.unit.topology import build
from zun.topology import PlacementRequest, plan


@pytest.mark.parametrize(("l3", "held", "expected"), [
    pytest.param("0-1 2-3,8-9 4-5", "2-3", "0-1,4-5", id="the-second-lies-above-the-third"),
    pytest.param("0-1 2-3 4-5,8-9", "4-5", "0-3", id="the-second-lies-below-the-third"),
    pytest.param("0-1 2-3,8-9 4-5", "3,8", "0-2,9", id="the-second-lies-around-the-third"),
])
def test_equal_choices_of_groups_take_the_lowest_cpus(l3, held, expected):
    topology = build.host(build.cell(0, "0 1 2 3 4 5 8 9", l3=l3))
    answer = plan(topology, build.used(topology, held), PlacementRequest(4, 10))
    assert str(answer.cpus) == expected
