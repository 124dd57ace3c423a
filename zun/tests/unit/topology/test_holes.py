# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.tests.functional.cloud import machine
from zun.tests.unit.scheduler.hosts import holding
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan
from zun.topology.holes import Hole, holes, stranded


@pytest.mark.parametrize(
    ("topology", "held", "expected"),
    [
        pytest.param(machine(), [], [(4, 4096), (4, 4096)], id="empty"),
        pytest.param(machine(), [PlacementRequest(3, 96)], [(1, 4000), (4, 4096)], id="a-dedicated-container"),
        pytest.param(
            machine(),
            [Plan({0: CellShare(cpus=CpuSet("0"), withheld=CpuSet("1"))})],
            [(2, 4096), (4, 4096)],
            id="a-withheld-sibling",
        ),
        pytest.param(
            machine().configured(cpu_allocation_ratio=1.0),
            [PlacementRequest(2.5, 96, cpu_policy="shared")],
            [(1, 4000), (4, 4096)],
            id="the-floor-of-a-shared-container",
        ),
        pytest.param(
            machine().configured(reserved_cpus=CpuSet("0"), reserved_memory_mib={0: 100}),
            [],
            [(3, 3996), (4, 4096)],
            id="the-operator-keeps-some",
        ),
        pytest.param(
            HostTopology((NUMACell(0, CpuSet("0-1"), memory_mib=10), NUMACell(7, memory_mib=5))),
            [],
            [(2, 15)],
            id="a-node-of-memory-only",
        ),
        pytest.param(
            machine(memory_mib=50).configured(ram_allocation_ratio=2.0),
            [PlacementRequest(1, 80, cpu_policy="shared"), PlacementRequest(1, 80, cpu_policy="shared")],
            [(3, 0), (3, 0)],
            id="memory-promised-twice",
        ),
    ],
)
def test_holes(topology, held, expected):
    assert holes(topology, holding(topology, *held)) == tuple(Hole(*each) for each in expected)


@pytest.mark.parametrize(
    ("topology", "held", "expected"),
    [
        pytest.param(machine(), [], {0: (0, 0), 1: (0, 0)}, id="empty-host"),
        pytest.param(machine(), [PlacementRequest(2, 96)], {0: (0, 0), 1: (0, 0)}, id="another-one-fits-everywhere"),
        pytest.param(machine(), [PlacementRequest(3, 96)], {0: (1, 4000), 1: (0, 0)}, id="too-few-cpus-left"),
        pytest.param(machine(), [PlacementRequest(1, 4000)], {0: (3, 96), 1: (0, 0)}, id="too-little-memory-left"),
        pytest.param(
            machine(), [PlacementRequest(3, 96), PlacementRequest(1, 1000)], {0: (0, 3000), 1: (0, 0)}, id="no-cpu-left"
        ),
        pytest.param(
            machine(cells=1, cores=8),
            [PlacementRequest(5, 96), PlacementRequest(1, 1000), PlacementRequest(1, 2000)],
            {0: (2 / 3, 2000 / 3)},
            id="for-two-containers-in-three",
        ),
        pytest.param(
            machine(cells=1), [PlacementRequest(2, 4096, cpu_policy="shared")], {0: (2, 0)}, id="no-dedicated-container"
        ),
        pytest.param(machine(cells=1).configured(dedicated_set=CpuSet()), [], {}, id="cell-of-shared-containers-only"),
        pytest.param(
            HostTopology((NUMACell(0, CpuSet("0-1"), memory_mib=10), NUMACell(7, memory_mib=5))),
            [PlacementRequest(2, 8)],
            {0: (0, 7)},
            id="memory-only-node-counts-with-its-cell",
        ),
    ],
)
def test_stranded(topology, held, expected):
    found = stranded(topology, holding(topology, *held))
    assert found == {cell: pytest.approx(amounts) for cell, amounts in expected.items()}
