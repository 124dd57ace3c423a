# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from zun.topology import PlacementRequest


@pytest.mark.parametrize(("fields", "parts"), [
    pytest.param({"cpus": 4, "memory_mib": 100}, ((4, 100),), id="one-cell"),
    pytest.param({"cpus": 4, "memory_mib": 100, "numa_nodes": 2}, ((2, 50), (2, 50)), id="even"),
    pytest.param({"cpus": 5, "memory_mib": 101, "numa_nodes": 2}, ((3, 51), (2, 50)), id="first-gets-the-rest"),
    pytest.param({"cpus": 8, "memory_mib": 9, "numa_cpus": [1, 3, 4]}, ((1, 3), (3, 3), (4, 3)), id="uneven-cpus"),
    pytest.param(
        {"cpus": 4, "memory_mib": 9, "numa_nodes": 2, "numa_mem": [9, 0]}, ((2, 9), (2, 0)), id="uneven-memory"
    ),
    pytest.param({"cpus": 4.0, "memory_mib": 8.0}, ((4, 8),), id="whole-floats"),
    pytest.param({"cpus": 3, "memory_mib": 0, "numa_cpus": (3,)}, ((3, 0),), id="shape-of-one"),
    pytest.param(
        {"cpus": 1.5, "memory_mib": 5, "cpu_policy": "shared", "numa_nodes": 2},
        ((750_000, 3), (750_000, 2)),
        id="shared-in-millionths",
    ),
    pytest.param({"cpus": 0, "memory_mib": 0, "cpu_policy": "shared"}, ((0, 0),), id="shared-nothing"),
])
def test_parts(fields, parts):
    assert PlacementRequest(**fields).parts == parts


@pytest.mark.parametrize(("fields", "names"), [
    ({"cpus": 0}, "cpus"),
    ({"cpus": 1.5}, "cpus"),
    ({"cpus": -1}, "cpus"),
    ({"cpus": True}, "cpus"),
    ({"cpus": "4"}, "cpus"),
    ({"cpus": None}, "cpus"),
    ({"cpus": float("nan"), "cpu_policy": "shared"}, "cpus"),
    ({"cpus": float("inf"), "cpu_policy": "shared"}, "cpus"),
    ({"cpus": -0.5, "cpu_policy": "shared"}, "cpus"),
    ({"memory_mib": -1}, "memory_mib"),
    ({"memory_mib": 1.5}, "memory_mib"),
    ({"memory_mib": None}, "memory_mib"),
    ({"cpu_policy": "both"}, "cpu_policy"),
    ({"cpu_policy": "mixed"}, "dedicated_cpus"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 0}, "dedicated_cpus"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1.5}, "dedicated_cpus"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 4, "cpus": 4}, "dedicated_cpus"),
    ({"cpu_policy": "dedicated", "dedicated_cpus": 1}, "dedicated_cpus"),
    ({"cpu_policy": "shared", "dedicated_cpus": 1}, "dedicated_cpus"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1, "numa_nodes": 2}, "numa_nodes"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1, "numa_mem": [1, 1]}, "numa_nodes"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1, "numa_cpus": [4]}, "numa_cpus"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1, "numa_affinity": "prefer"}, "numa_affinity"),
    ({"cpu_policy": "mixed", "dedicated_cpus": 1, "isolation": "node"}, "isolation"),
    ({"thread_policy": "avoid"}, "thread_policy"),
    ({"numa_affinity": "maybe"}, "numa_affinity"),
    ({"mempolicy": "interleave"}, "mempolicy"),
    ({"numa_nodes": 0}, "numa_nodes"),
    ({"numa_nodes": 1.5}, "numa_nodes"),
    ({"cpus": 2, "numa_nodes": 3}, "numa_nodes"),
    ({"numa_cpus": [1, 2]}, "numa_cpus"),
    ({"numa_cpus": [4, 0]}, "numa_cpus"),
    ({"numa_cpus": []}, "numa_cpus"),
    ({"numa_cpus": 4}, "numa_cpus"),
    ({"numa_cpus": "22"}, "numa_cpus"),
    ({"numa_cpus": [2, 2], "numa_nodes": 3}, "numa_cpus"),
    ({"numa_cpus": [2, 2], "numa_mem": [3, 3, 4]}, "numa_mem"),
    ({"numa_mem": [5, 4]}, "numa_mem"),
    ({"numa_mem": [11, -1]}, "numa_mem"),
    ({"page_size": "huge"}, "page_size"),
    ({"page_size": 0}, "page_size"),
    ({"page_size": True}, "page_size"),
])
def test_refuses_what_no_host_can_do(fields, names):
    with pytest.raises(ValueError, match=names):
        PlacementRequest(**{"cpus": 4, "memory_mib": 10, **fields})


@pytest.mark.parametrize(("size", "ordinary"), [
    (None, True), ("small", True), ("large", False), ("any", False), (2048, False),
    (4, False),  # on a host whose ordinary pages have 64 KiB this is another size
])
def test_ordinary_pages(size, ordinary):
    assert PlacementRequest(1, 10, page_size=size).ordinary_pages is ordinary


@pytest.mark.parametrize(("fields", "affinity"), [
    ({}, "require"),
    ({"cpu_policy": "shared"}, "prefer"),
    ({"cpu_policy": "shared", "numa_affinity": "require"}, "require"),
    ({"numa_affinity": "none"}, "none"),
])
def test_affinity_when_nothing_is_said(fields, affinity):
    assert PlacementRequest(4, 10, **fields).numa_affinity == affinity


def test_is_a_value():
    request = PlacementRequest(4, 10, numa_cpus=[1, 3], numa_mem=[4, 6], page_size="2048")
    assert request == PlacementRequest(4, 10, numa_nodes=2, numa_cpus=(1, 3), numa_mem=(4, 6), page_size=2048)
    assert hash(request) == hash(PlacementRequest(**json.loads(json.dumps(request.to_dict()))))
    assert PlacementRequest(**request.to_dict()) == request
