# SPDX-License-Identifier: Apache-2.0
"""Every action, with every fault at every boundary between two of its outside effects, comes to a good end.

The table is drawn from the actions themselves: each is done once without a fault, and every call of the runtime, of
the networks and volumes, every transaction, message and event is a boundary. In the end the row, the claims of the
agent and of the schedulers' table, the ledger and the runtime agree, nothing is lost, held twice or open, and the
action was done or has ended in an error with a reason. With ``-s`` the table is printed. ``ZUN_CRASH=REGEX`` does only
the cells of which a part matches, as ``^stop: runtime stop, killed$``, and shows what the services log meanwhile.
"""

import os
import re
from collections.abc import Iterator

import pytest

from zun.tests.fixtures import LastingDatabase
from zun.tests.functional.cloud import configuration
from zun.tests.functional.crashes.table import ACTIONS, Action, Table
from zun.tests.functional.crashes.world import CrashWorld

ONLY = os.environ.get("ZUN_CRASH", "")
#: Cells that may come to another end, as patterns, with the reason.
KNOWN = {
    r"^vanish-auto-heal: database (ContainerActionEvent\.ask|Container\.save), ": (
        "A healing is recorded as an action before the row says Rebuilding. The first is ended as too late, the next "
        "look records a second one, which heals."
    ),
    r"^(rebuild|rebuild-image|vanish-auto-heal): (runtime start|database [A-Za-z.]+), exception$": (
        "An error that nobody expects, between the two halves of a rebuild, leaves the container Created or in Error."
    ),
    r"^rebuild-image: runtime create, unanswered$": (
        "The row goes on naming the image before, and the runtime has an object of the new one."
    ),
    r"^create-capsule: (runtime|network) [a-z_]+, away$": (
        "The capsule is in Error with the reason, and keeps its claim and its sandbox until somebody deletes it."
    ),
}


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
    new = {cell: why for cell, why in wrong.items() if not any(re.search(each, cell) for each in KNOWN)}
    told = [f"{cell}\n    " + "\n    ".join(why) for cell, why in new.items()]
    assert not told, "\n".join(["cells that do not come to a good end:", *told])
