# SPDX-License-Identifier: Apache-2.0
"""Sample values for the tests of ``zun.common``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    uuid: str
    status: str
    name: str = "web"


# Options of ps that must be refused: they show environments, other columns or other processes.
NASTY = [
    "-eouid=PID -oargs f e ww",
    "-eo uid=PID",
    "-o environ",
    "-o pid,args=PID",
    "-o",
    "-eo ,",
    "e",
    "f",
    "auxe",
    "auxeww",
    "-efww e",
    "eww 1",
    "-C sshd",
    "-u root",
    "-N 1",
    "--deselect",
    "--ppid 1",
    "-1",
    "1;2",
    "--format pid",
    "-p -1",
    "1" * 11,
    "\u0661",
]
