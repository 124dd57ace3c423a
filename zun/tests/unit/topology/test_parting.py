# SPDX-License-Identifier: Apache-2.0
"""The containers of a capsule on what was planned for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.unit.common.proof import proof
from zun.tests.unit.topology.build import smt_host, used
from zun.tests.unit.topology.hosts import random_topology
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.parting import parted, resized_part

SMT = smt_host(2, 4)  # cells of four cores with two threads: 0-7 and 8-15, siblings side by side; 1000 MiB


@pytest.mark.parametrize(("request_", "wanted", "expected"), [
    pytest.param(PlacementRequest(4, 400), [(2, 200), (2, 200)], [("0-1", "0"), ("2-3", "0")], id="cores-stay-whole"),
    pytest.param(PlacementRequest(4, 400), [(1, 300), (3, 100)], [("3", "0"), ("0-2", "0")], id="largest-first"),
    pytest.param(PlacementRequest(2, 400), [(1, 0), (1, 0)], [("0", "0"), ("1", "0")], id="a-core-for-two"),
    pytest.param(
        PlacementRequest(2, 400, thread_policy="isolate"), [(1, 200), (1, 200)], [("0", "0"), ("2", "0")], id="isolate"
    ),
    pytest.param(
        PlacementRequest(12, 1200, numa_nodes=2), [(6, 600), (6, 600)], [("0-5", "0"), ("8-13", "1")],
        id="a-cell-each",
    ),
    pytest.param(
        PlacementRequest(12, 1200, numa_nodes=2), [(10, 600), (2, 600)],
        [("0-5,8-11", "0-1"), ("12-13", "0-1")], id="memory-that-does-not-fit-beside",
    ),
])
def test_dedicated(request_, wanted, expected):
    whole = plan(SMT, Usage(), request_)
    assert isinstance(whole, Plan)
    assert [(str(part.cpus), str(part.mems)) for part in parted(SMT, whole, wanted)] == expected


def test_others_on_the_host_do_not_matter():
    usage = used(SMT, "0-5")
    whole = plan(SMT, usage, PlacementRequest(2, 100))
    assert [part.cpus for part in parted(SMT, whole, [(1, 50), (1, 50)])] == [CpuSet("6"), CpuSet("7")]


@pytest.mark.parametrize(("isolated", "isolation", "settings"), [
    pytest.param("", "thread", {"dedicated_set": CpuSet("4-15")}, id="another-dedicated-set"),
    pytest.param("", "thread", {"shared_set": CpuSet("0-3")}, id="in-the-shared-set"),
    pytest.param("", "thread", {"reserved_cpus": CpuSet("0")}, id="reserved"),
    pytest.param("0-3", "thread", {}, id="isolated-by-the-kernel"),
    pytest.param("", "isolated", {}, id="isolated-no-longer"),
])
def test_parts_keep_cpus_that_the_operator_has_withdrawn(isolated, isolation, settings):
    host = replace(SMT, isolated=CpuSet(isolated)).configured(**settings)
    whole = Plan({0: CellShare(CpuSet("0-3"), 100)}, isolation=isolation)
    assert [part.cpus for part in parted(host, whole, [(2, 50), (2, 50)])] == [CpuSet("0-1"), CpuSet("2-3")]


def test_without_memory_of_its_own_it_has_the_nodes_of_all():
    whole = Plan({0: CellShare(CpuSet("0-1")), 1: CellShare(CpuSet("8-9"), 100)}, mems=CpuSet("1"))
    parts = parted(SMT, whole, [(2, 100), (2, 0)])
    assert [(str(part.cpus), str(part.mems)) for part in parts] == [("8-9", "1"), ("0-1", "1")]


@pytest.mark.parametrize(("cpus", "memory"), [(1, 300), (1, 0), (0, 300)])
def test_shared(cpus, memory):
    whole = plan(SMT, Usage(), PlacementRequest(3 * cpus, 3 * memory, cpu_policy="shared"))
    one, two = parted(SMT, whole, [(cpus, memory), (2 * cpus, 2 * memory)])
    assert one.cpu_cells == two.cpu_cells == whole.cpu_cells and one.mems == two.mems == whole.mems
    amounts = [(sum(share.shared for share in each.cells.values()), each.memory_mib) for each in (one, two)]
    assert amounts == [(cpus, memory), (2 * cpus, 2 * memory)]


@proof(300)
@given(rng=st.randoms(use_true_random=False))
def test_parts_never_overlap_and_never_leave_the_whole(rng):
    topology = random_topology(rng)
    shares = [(rng.randint(1, 4), rng.choice([0, rng.randint(0, 200)])) for _ in range(rng.randint(1, 5))]
    request = PlacementRequest(
        sum(cpus for cpus, _ in shares),
        sum(memory for _, memory in shares),
        numa_affinity=rng.choice(["require", "prefer", "none"]),
        thread_policy=rng.choice(["prefer", "isolate", "require"]),
        isolation=rng.choice(["thread", "core", "l3", "node", "isolated"]),
    )
    whole = plan(topology, Usage(), request)
    if not isinstance(whole, Plan):
        return
    parts = parted(topology, whole, shares)
    seen = CpuSet()
    for part, (cpus, memory) in zip(parts, shares, strict=True):
        assert len(part.cpus) == cpus and part.memory_mib == memory
        assert part.cpus <= whole.cpus and not part.cpus & seen
        assert part.mems <= whole.mems
        seen |= part.cpus
    for node in whole.cells:
        assert sum(part.cells[node].memory_mib for part in parts if node in part.cells) <= whole.cells[node].memory_mib
    assert parted(topology, whole, shares) == parts
    if len(whole.cells) == 1:
        assert all(part.mems == whole.mems for part in parts)


@pytest.mark.parametrize(("cpus", "free", "size", "expected"), [
    pytest.param("0-3", "", (2, 100), "0-1", id="fewer-are-some-of-them"),
    pytest.param("0-1", "2-3,8", (3, 100), "0-2", id="more-are-these-and-others-of-the-cell"),
    pytest.param("0-1", "8-9", (4, 100), "0-1,8-9", id="of-other-cells-if-need-be"),
    pytest.param("0,2", "1,3", (3, 100), "0-2", id="not-better-ones-instead"),
    pytest.param("0-1", "", (2, 300), "0-1", id="more-memory"),
])
def test_resized_part_keeps_its_cpus(cpus, free, size, expected):
    cells = {node: CellShare(CpuSet(f"{cpus},{free},4-5".replace(",,", ",")) & SMT.cell(node).cpus, 500)
             for node in (0, 1)}
    whole = Plan({node: share for node, share in cells.items() if share.cpus})
    old, other = Plan({0: CellShare(CpuSet(cpus), 100)}), Plan({0: CellShare(CpuSet("4-5"), 100)})
    found = resized_part(SMT, whole, [other], old, *size)
    assert (str(found.cpus), found.memory_mib) == (expected, size[1])


@pytest.mark.parametrize(("share", "size", "expected"), [
    pytest.param(CellShare(CpuSet("0-1"), 100, shared=2.0), (2.5, 60), CellShare(CpuSet("0-1"), 60, shared=0.5),
                 id="mixed"),
    pytest.param(CellShare(CpuSet("0-1"), 64, pages={2048: 32}, shared=2.0), (3, 15),
                 CellShare(CpuSet("0-1"), 15, pages={2048: 8}, shared=1.0), id="mixed-in-pages"),
    pytest.param(CellShare(CpuSet("0-3"), 64, pages={2048: 32}), (2, 16), CellShare(CpuSet("0-1"), 16, pages={2048: 8}),
                 id="pages"),
])  # fmt: skip
def test_resized_part_that_is_alone(share, size, expected):
    """A part that was made smaller can become as large as before."""
    whole = Plan({0: share}, "mixed" if share.shared else "dedicated")
    found = resized_part(SMT, whole, [], whole, *size)
    assert found == replace(whole, cells={0: expected})
    again = len(share.cpus) + share.shared, share.memory_mib
    assert resized_part(SMT, whole, [], found, *again) == whole


@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(0, 3), st.integers(1, 6))
def test_resized_part_never_takes_of_others(sizes, number, size):
    number %= len(sizes)
    whole = plan(SMT, Usage(), PlacementRequest(sum(sizes) + 1, 500, numa_affinity="prefer"))
    parts = list(parted(SMT, whole, [(each, 100) for each in sizes]))
    old = parts.pop(number)
    if size > sizes[number] + 1:
        with pytest.raises(ValueError, match="not left"):
            resized_part(SMT, whole, parts, old, size, 100)
        return
    found = resized_part(SMT, whole, parts, old, size, 100)
    assert len(found.cpus) == size and found.cpus <= whole.cpus
    assert not any(found.cpus & each.cpus for each in parts)
    assert found.cpus <= old.cpus or old.cpus <= found.cpus
