# SPDX-License-Identifier: Apache-2.0
"""After random requests and failures, rows, runtime, claims and actions agree.

CI runs a few seeds. ``ZUN_LIFECYCLES=FIRST-LAST`` names others. Of a seed that fails all that happened is
printed.
"""

import os

import pytest

from zun.tests.functional.cloud import configuration
from zun.tests.functional.lifecycles import World

FIRST, _, LAST = os.environ.get("ZUN_LIFECYCLES", "1-3").partition("-")
STEPS = 250


@pytest.mark.parametrize("kills", [0.0, 0.01])
@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST) + 1))
def test_everything_agrees_in_the_end(database, seed, kills):
    conf = configuration(api__auth_strategy="noauth", api__host_names=["zun.example"], quota__cpu=-1)
    world = World(conf, seed, kills=kills, happenings=0.1)
    try:
        for number in range(STEPS):
            drawn = world.random.random()
            if drawn < 0.3:
                world.ask()
            elif drawn < 0.36:
                world.by_hand()
            elif number % 40 == 39:
                world.compare()
            else:
                world.step()
            world.check()
        world.settle()
        world.check_settled()
    except BaseException:
        print(*world.trace, sep="\n")
        raise
    finally:
        world.close()
    print(f"seed {seed}: {world.happened} happenings, {world.besides} beside a stop, {world.killed} kills")
