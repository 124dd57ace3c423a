# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from zun.api.free_amounts import amounts_left
from zun.tests.unit.topology.build import cell, demanding, holding, host, smt_host
from zun.topology import CellShare, CpuSet, Plan, Usage
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device

TWO = smt_host(2, 2)  # cell 0 has the cores 0-1 and 2-3, cell 1 has 4-5 and 6-7
NONE = host(cell(0, "", 500))
CARDS = replace(
    TWO,
    devices=(
        Device("0000:81:00.0", resource_class="PGPU"),
        Device("0000:82:00.0", resource_class="PGPU"),
        Device("/dev/hwrng", resource_class="CUSTOM_RNG", shared=4),
    ),
)


def amounts(cells, cores, cpus, memory_mib, **devices):
    return {"cells": cells, "cores": cores, "cpus": cpus, "memory_mib": memory_mib, "devices": devices}


def given(*addresses, shared=1):
    devices = tuple(GivenDevice("x", address, shared=shared) for address in addresses)
    return Plan({0: CellShare(shared=0.5)}, "shared", devices=devices)


@pytest.mark.parametrize(("topology", "held", "expected"), [
    pytest.param(TWO, [], amounts(2, 4, 8, 2000), id="nothing-held"),
    pytest.param(TWO, [holding("0", TWO, memory_mib=100)], amounts(1, 3, 7, 1900), id="one-thread"),
    pytest.param(TWO, [holding("0", TWO, withheld="1")], amounts(1, 3, 6, 2000), id="withheld-sibling"),
    pytest.param(TWO, [demanding({0: 0.5})], amounts(1, 4, 8, 2000), id="shared-container-on-one-cell"),
    pytest.param(TWO, [holding("", TWO), Plan({1: CellShare(memory_mib=3000)})], amounts(2, 4, 8, 1000),
                 id="promised-memory-is-gone"),
    pytest.param(replace(TWO, reserved=CpuSet("0")), [], amounts(2, 3, 7, 2000), id="reserved"),
    pytest.param(replace(TWO, offline=CpuSet("8-9")), [], amounts(2, 4, 8, 2000), id="offline"),
    pytest.param(replace(TWO, dedicated_set=CpuSet("4-7"), shared_set=CpuSet("0-3")), [], amounts(1, 2, 4, 2000),
                 id="pool-of-its-own"),
    pytest.param(NONE, [], amounts(0, 0, 0, 500), id="memory-only"),
    pytest.param(CARDS, [], amounts(2, 4, 8, 2000, CUSTOM_RNG=4, PGPU=2), id="devices"),
    pytest.param(CARDS, [given("0000:81:00.0"), given("/dev/hwrng", shared=4)],
                 amounts(1, 4, 8, 2000, CUSTOM_RNG=3, PGPU=1), id="held-devices-and-shares"),
])  # fmt: skip
def test_amounts_that_nobody_holds(topology, held, expected):
    usage = Usage({f"c{number}": plan for number, plan in enumerate(held)})
    assert amounts_left(topology, usage) == expected
