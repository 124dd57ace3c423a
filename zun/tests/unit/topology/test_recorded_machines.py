# SPDX-License-Identifier: Apache-2.0
"""``discover`` against recordings of real machines, where they are at hand.

ZUN_RECORDED_MACHINES names a folder with NAME.tar.xz (a folder NAME with /sys and /proc) and NAME.json: what an
independent program says of it, ``{node id: {cpus, mem_kib, siblings, l3, distances, hugepages}}``.
"""

from __future__ import annotations

import json
import os
import tarfile
from itertools import combinations
from pathlib import Path

import pytest

from zun.topology import CpuSet, HostTopology, PlacementRequest, Plan, Usage, discover, plan

FOLDER = os.environ.get("ZUN_RECORDED_MACHINES")
RECORDINGS = sorted(Path(FOLDER).glob("*.tar.xz")) if FOLDER else []

pytestmark = pytest.mark.skipif(not FOLDER, reason="ZUN_RECORDED_MACHINES does not name a folder of recordings")


@pytest.fixture(scope="module", params=RECORDINGS or ["none"], ids=lambda path: str(path).rpartition("/")[2][:-7])
def recording(request, tmp_path_factory) -> tuple[Path, dict[str, dict]]:
    """The unpacked tree, and the facts."""
    root = tmp_path_factory.mktemp("machine")
    with tarfile.open(request.param) as archive:
        archive.extractall(root, filter="tar")
    name = request.param.name.removesuffix(".tar.xz")
    return root / name, json.loads(request.param.with_name(f"{name}.json").read_text())


def in_order(sets) -> list[list[int]]:
    return sorted(sorted(cpus) for cpus in sets)


def test_agrees_with_the_facts(recording):
    root, facts = recording
    topology = discover(root, process_limits=False)
    assert topology.notes == ()
    assert [part.id for part in topology.cells] == sorted(map(int, facts))
    ids = sorted(map(int, facts))
    for node, fact in facts.items():
        part = topology.cell(int(node))
        assert list(part.cpus) == sorted(fact["cpus"])
        assert part.memory_mib == fact["mem_kib"] // 1024
        assert in_order(part.siblings) == in_order(fact["siblings"])
        assert in_order(part.l3) == in_order(fact["l3"])
        assert part.distances == (dict(zip(ids, fact["distances"], strict=True)) if fact["distances"] else {})
        pages = {int(size): count for size, count in fact.get("hugepages", {}).items()}
        assert {size: part.pages.get(size) for size in pages} == pages
        # The other program takes one size for the machine's ordinary pages and leaves it out.
        assert not any(count for size, count in part.pages.items() if size not in pages)
        if "hwloc_locality" in fact and not part.cpus:
            assert CpuSet(cpu for cell in part.initiators for cpu in topology.cell(cell).cpus) == CpuSet(
                fact["hwloc_locality"]
            )


def test_goes_through_its_record(recording):
    topology = discover(recording[0], process_limits=False)
    assert HostTopology.from_dict(json.loads(json.dumps(topology.to_dict()))) == topology


def test_limits_only_take_away(recording):
    whole, limited = discover(recording[0], process_limits=False), discover(recording[0])
    assert limited.cpus <= whole.cpus
    assert [part.id for part in limited.cells] == [part.id for part in whole.cells]
    assert all(a.memory_mib in (0, b.memory_mib) for a, b in zip(limited.cells, whole.cells, strict=True))


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_takes_the_nearest_cells(recording, nodes):
    topology = discover(recording[0], process_limits=False)
    able = [part.id for part in topology.cells if part.cpus]
    answer = plan(topology, Usage(), PlacementRequest(nodes, 16 * nodes, numa_nodes=nodes))
    if len(able) < nodes:
        assert answer.code == "too-few-cells"
        return
    assert isinstance(answer, Plan)

    def spread(cells) -> int:
        return sum(topology.cell(a).distance(b) + topology.cell(b).distance(a) for a, b in combinations(cells, 2))

    assert spread(answer.cells) == min(spread(chosen) for chosen in combinations(able, nodes))
