# SPDX-License-Identifier: Apache-2.0
"""A random life of containers with the emulated devices of the layout 4pci: no device twice, and none missing.

It is the life of ``zun/tests/integration/device_life.py``, with real cards in place of stand-ins. ``ZUN_DEVICE_STEPS``
is the number of steps, ``ZUN_DEVICE_SEED`` says which.
"""

import os

import pytest

from zun.tests.integration.device_life import VERSION, Life, Part
from zun.tests.machines import kernel, probes
from zun.tests.machines.cards import (
    DISK,
    FAR_DISK,
    IGB,
    IGB_VF1,
    IGB_VF2,
    NEWER,
    NIC,
    PF,
    SWITCHED_DISK,
    SWITCHED_EDU,
    VF1,
    VF2,
    clock_of,
    files_of,
    group_of,
    interface_of,
)
from zun.tests.machines.containers import IMAGE, PATIENCE, SlowApi, host_topology

STEPS = int(os.environ.get("ZUN_DEVICE_STEPS", "20"))
SEED = int(os.environ.get("ZUN_DEVICE_SEED", "20261128"))
WANTED = (
    *(({"alias": each},) for each in ("vf", "pf", "disk", "far", "edu-vfio", "nic")),
    *(({"alias": each},) for each in ("igb", "igb-vf", "igb-vf") if IGB in NEWER),
    ({"alias": "vf", "count": 2},),
    ({"alias": "edu-vfio"}, {"alias": "disk"}),
)


@pytest.fixture
def parts():
    """The devices, as the kernel's own files show them."""
    found = [
        Part(PF, "pf", frozenset({f"/dev/{kernel.nvme_controller(PF)}"}), rules_out=frozenset({VF1, VF2})),
        *(Part(each, "vf", frozenset(files_of(each)), rules_out=frozenset({PF})) for each in (VF1, VF2)),
        *(Part(each, "disk", frozenset(files_of(each))) for each in (DISK, SWITCHED_DISK)),
        Part(FAR_DISK, "far", frozenset(files_of(FAR_DISK))),
        Part(SWITCHED_EDU, "edu-vfio", frozenset({f"/dev/vfio/{group_of(SWITCHED_EDU)}"})),
        Part(NIC, "nic", frozenset({clock_of(NIC)}), interface_of(NIC)),
    ]
    if IGB in NEWER:
        functions = frozenset({IGB_VF1, IGB_VF2})
        found.append(Part(IGB, "igb", frozenset({clock_of(IGB)}), interface_of(IGB), functions))
        found += (Part(each, "igb-vf", frozenset(), interface_of(each), frozenset({IGB})) for each in functions)
    return {each.address: each for each in found}


def test_no_device_twice_and_none_missing(allinone, api, engine, parts, record_property):
    life = Life(
        SlowApi(allinone.api.url, version=VERSION),
        allinone,
        host_topology(api)["host"],
        engine,
        parts,
        WANTED,
        key="alias",
        fields={"image": IMAGE, "command": probes.IDLE, "memory": 64},
        patience=PATIENCE,
    )
    life.live(STEPS, SEED)
    record_property(f"{STEPS} steps of seed {SEED}", f"{dict(life.done)}; refused: {dict(life.reasons)}")
