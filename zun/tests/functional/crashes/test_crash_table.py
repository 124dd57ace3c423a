# SPDX-License-Identifier: Apache-2.0
"""Every action, with every fault at every boundary between two of its outside effects, comes to a good end.

The table is drawn from the actions themselves: each is done once without a fault, and every call of the runtime, of
the networks and volumes, every transaction, message and event is a boundary. In the end the row, the claims of the
agent and of the schedulers' table, the ledger and the runtime agree, nothing is lost, held twice or open, and the
action was done or has ended in an error with a reason. With ``-s`` the table is printed. ``ZUN_CRASH=REGEX`` does only
the cells of which a part matches, as ``^stop: runtime stop, killed$``, and shows what the services log meanwhile.
"""

import os
from collections.abc import Iterator

import pytest

from zun.tests.fixtures import LastingDatabase
from zun.tests.functional.cloud import configuration
from zun.tests.functional.crashes.table import ACTIONS, Action, Table
from zun.tests.functional.crashes.world import CrashWorld

ONLY = os.environ.get("ZUN_CRASH", "")


@pytest.fixture(scope="module")
def table(lasting_database: LastingDatabase) -> Iterator[Table]:
    """Actions in one world. In the end the table is printed."""
    with lasting_database.empty():
        conf = configuration(api__auth_strategy="noauth", api__host_names=["zun.example"], quota__cpu=-1)
        world = CrashWorld(conf, quiet=not ONLY)
        try:
            yield (made := Table(world))
            made.print()
        finally:
            world.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("action", [pytest.param(each, id=each.name) for each in ACTIONS if not each.again])
def test_every_cell_comes_to_a_good_end(table: Table, action: Action) -> None:
    wrong = table.run_all(action, ONLY)
    told = [f"{cell}\n    " + "\n    ".join(why) for cell, why in wrong.items()]
    assert not told, "\n".join(["cells that do not come to a good end:", *told])
