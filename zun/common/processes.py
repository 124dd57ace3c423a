# SPDX-License-Identifier: Apache-2.0
"""The process list of a container (``top``): the columns that exist, and the selection that a request may make.

``ps_args`` comes from clients and never reaches ``ps``. ``selection`` reads the columns and process ids from it. A
driver lists every process of the container with every field of ``FIELDS``; ``Selection.of`` cuts the answer out of the
list.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

#: Field -> its title. ``pid`` is first; ``args`` is last, because command lines hold blanks and no other value does.
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "pid": "PID",
        "ppid": "PPID",
        "user": "USER",
        "uid": "UID",
        "c": "C",
        "stime": "STIME",
        "tty": "TTY",
        "time": "TIME",
        "etime": "ELAPSED",
        "pcpu": "%CPU",
        "pmem": "%MEM",
        "vsz": "VSZ",
        "rss": "RSS",
        "stat": "STAT",
        "ni": "NI",
        "nlwp": "NLWP",
        "args": "COMMAND",
    }
)
_ALIASES = {"cmd": "args", "command": "args", "%cpu": "pcpu", "%mem": "pmem", "start": "stime", "tt": "tty"}

Column = tuple[str, str]  # field, title

_FULL: tuple[Column, ...] = (("user", "UID"), *((each, FIELDS[each]) for each in ("pid", "ppid", "c", "stime", "tty")))
FULL: tuple[Column, ...] = (*_FULL, ("time", "TIME"), ("args", "CMD"))  # as ``ps -ef``, the answer of old
_LONG = ("user", "pid", "pcpu", "pmem", "vsz", "rss", "tty", "stat", "stime", "time", "args")
LONG: tuple[Column, ...] = tuple((each, FIELDS[each]) for each in _LONG)  # as ``ps aux``
_FORMS = {"-e": FULL, "-A": FULL, "ax": FULL, "-ax": FULL, "-f": FULL, "-ef": FULL, "aux": LONG, "-aux": LONG}

_COLUMN_OPTION = re.compile(r"-e?o(.*)\Z")
_PIDS = re.compile(r"[0-9]{1,10}(,[0-9]{1,10})*\Z")
_HELP = f"Give process ids, 'aux', '-ef', or '-o' with some of {','.join(FIELDS)}."


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns to show, in their order, and the process ids to show; no ids: every process of the container."""

    columns: tuple[Column, ...] = FULL
    pids: frozenset[int] = frozenset()

    def of(self, processes: Iterable[Mapping[str, str]]) -> dict[str, Any]:
        """Return the answer of ``top``: ``{"Titles": [str], "Processes": [[str, ...], ...]}``."""
        shown = [each for each in processes if not self.pids or int(each["pid"]) in self.pids]
        return {
            "Titles": [title for _, title in self.columns],
            "Processes": [[each[field] for field, _ in self.columns] for each in shown],
        }


def selection(ps_args: str | None) -> Selection:
    """Return what ``ps_args`` selects: ``-o pid,args 17`` is two columns of process 17.

    Raises ValueError, with a text for the client, for everything else than process ids, the forms ``-ef`` and ``aux``
    and column lists.
    """
    columns: tuple[Column, ...] | None = None
    pids: set[int] = set()
    words = iter((ps_args or "").split())
    for word in words:
        option = _COLUMN_OPTION.match(word)
        if option is not None:
            columns = (*(columns or ()), *_columns(option[1] or next(words, "")))
        elif word in _FORMS:
            columns = _FORMS[word]
        elif _PIDS.match(word):
            pids |= {int(each) for each in word.split(",")}
        elif word not in ("-p", "--pid"):
            raise ValueError(f"'{word}' selects nothing that can be shown. {_HELP}")
    return Selection(columns or FULL, frozenset(pids))


def _columns(names: str) -> Sequence[Column]:
    found = []
    for name in names.split(","):
        field = _ALIASES.get(name, name)
        if field not in FIELDS:
            raise ValueError(f"'{name}' is not a column. {_HELP}")
        found.append((field, FIELDS[field] if name != "cmd" else "CMD"))
    return found
