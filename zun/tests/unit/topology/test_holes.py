# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.tests.functional.cloud import machine
from zun.tests.unit.scheduler.hosts import holding
from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan
from zun.topology.holes import Hole, holes


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
