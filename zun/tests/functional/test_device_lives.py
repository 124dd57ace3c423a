# SPDX-License-Identifier: Apache-2.0
"""No device is given twice, in random lives of containers with devices and of the agent.

CI runs a few seeds. ``ZUN_DEVICE_LIVES=FIRST-LAST`` names others. Of a seed that fails all that happened is printed.
"""

import os

import pytest

from zun.tests.functional.cloud import configuration
from zun.tests.functional.device_lives import FILES, SPEC, DeviceWorld

FIRST, _, LAST = os.environ.get("ZUN_DEVICE_LIVES", "1-2").partition("-")
STEPS = 250


@pytest.mark.parametrize("kills", [0.0, 0.01])
@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST) + 1))
def test_no_device_is_given_twice(database, seed, kills):
    conf = configuration(
        api__auth_strategy="noauth", api__host_names=["zun.example"], devices__device_spec=[SPEC], quota__cpu=-1
    )
    world = DeviceWorld(conf, seed, kills=kills, happenings=0.1)
    try:
        for number in range(STEPS):
            drawn = world.random.random()
            if drawn < 0.3:
                world.ask()
            elif drawn < 0.36:
                world.by_hand()
            elif drawn < 0.38:
                world.lose()
            elif number % 40 == 39:
                world.compare()
            else:
                world.step()
            world.check()
        world.offer(FILES)
        world.settle()
        world.check()
    except BaseException:
        print(*world.trace, sep="\n")
        raise
    finally:
        world.close()
    assert world.holders
    print(f"seed {seed}: {len(world.holders)} containers with devices, {world.killed} kills of the agent")
