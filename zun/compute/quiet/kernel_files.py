# SPDX-License-Identifier: Apache-2.0
"""Change files of the kernel while claims ask for it, and give each file the host's own value back afterwards.

The host's own value of each changed file is on disk before the file is changed. So a killed agent loses no value: the
next ``settle`` goes on with what the claims ask for by then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from zun.common.whole_files import write_whole
from zun.topology import CpuSet
from zun.topology.files import Tree, cpu_map, cpu_map_in
from zun.topology.ranges import MALFORMED

LOG = logging.getLogger(__name__)

BOOT_ID = "proc/sys/kernel/random/boot_id"


class Kind(StrEnum):
    """The form of a file's value."""

    LIST = "list"
    """CPUs as a list: ``0-3,8``."""
    MAP = "map"
    """CPUs as hexadecimal words of 32 bits: ``1,00000003``."""
    TEXT = "text"

    def normal(self, value: str) -> str:
        """Return the one form of equal values: for CPUs the list. Raise ValueError for a value of another form."""
        if self is Kind.LIST:
            return str(CpuSet(value))
        return str(cpu_map_in(value)) if self is Kind.MAP else value

    def written(self, value: str) -> str:
        """Return a normal value in the form of the file."""
        return cpu_map(CpuSet(value)) if self is Kind.MAP else value


@dataclass(frozen=True, slots=True)
class Setting:
    """A file and the value that claims ask for.

    ``wanted`` returns the normal value for the host's own normal value. ``path`` is below the root of the machine.
    ``seen`` is the file to read if that is another one.
    """

    path: str
    kind: Kind
    wanted: Callable[[str], str]
    seen: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A changed file: the host's own value, and the values that may have been written since; all normal."""

    kind: Kind
    before: str
    written: tuple[str, ...]
    seen: str | None = None

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Change:
        return cls(Kind(record["kind"]), str(record["before"]), tuple(map(str, record["written"])), record["seen"])


def own_value(present: str, known: Change | None) -> str:
    """Return the host's own value of a file whose value is ``present``.

    A value that was not written from here is the host's own: somebody else has changed the file since.
    """
    return known.before if known is not None and present in known.written else present


class KernelFiles:
    """The changed files of one machine below ``root``. The file ``record`` keeps the host's own values.

    Not thread-safe.
    """

    def __init__(self, root: Path, record: Path) -> None:
        self._root = root
        self._tree = Tree(root)
        self._record = record
        self._changes: dict[str, Change] | None = None

    @property
    def changed(self) -> Mapping[str, Change]:
        """The files whose value is not the host's own, by path."""
        if self._changes is None:
            self._changes = self._recorded()
        return self._changes

    def settle(self, settings: Iterable[Setting]) -> dict[str, str]:
        """Give each file the value of its setting, and every other changed file the host's own value again.

        Return path -> reason for the files that have another value afterwards. Raise OSError, and change nothing, if
        the record cannot be written.
        """
        asked = {each.path: each for each in settings}
        back = [
            Setting(path, change.kind, _same, change.seen)
            for path, change in self.changed.items()
            if path not in asked
        ]
        changes, due = dict(self.changed), []
        for setting in (*back, *asked.values()):
            present = self._present(setting)
            if present is None:  # the CPU or the device is gone
                changes.pop(setting.path, None)
                continue
            before = own_value(present, changes.get(setting.path))
            value = setting.wanted(before)
            changes[setting.path] = Change(setting.kind, before, (present, value), setting.seen)
            due.append((setting, present, value))
        if any(present != value for _, present, value in due):
            self._keep({path: each for path, each in changes.items() if {*each.written} != {each.before}})
        failed: dict[str, str] = {}
        for setting, present, value in due:
            left: str | None = present
            if present != value:
                reason = self._write(setting, value)
                left = self._present(setting)
                if left != value:
                    failed[setting.path] = reason or f"it has {left} after {value} was written"
            before = changes.pop(setting.path).before
            if left is not None and left != before:
                changes[setting.path] = Change(setting.kind, before, (left,), setting.seen)
        self._keep(changes)
        return failed

    def _present(self, setting: Setting) -> str | None:
        """Return the normal value of the file, or None without a file that can be read and understood."""
        text = self._tree.text(setting.seen or setting.path)
        try:
            return None if text is None else setting.kind.normal(text)
        except ValueError:
            return None

    def _write(self, setting: Setting, value: str) -> str | None:
        """Write a normal value. Return why the kernel refused, or None."""
        try:
            opened = os.open(self._root / setting.path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(opened, setting.kind.written(value).encode())
            finally:
                os.close(opened)
        except OSError as exc:
            return exc.strerror or str(exc)
        return None

    def _keep(self, changes: dict[str, Change]) -> None:
        """Remember the changes, on disk first."""
        if changes == self.changed:
            return
        self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(self._record, orjson.dumps({"boot": self._tree.text(BOOT_ID), "files": changes}))
        self._changes = changes

    def _recorded(self) -> dict[str, Change]:
        """Return what an earlier run has changed since the machine started."""
        try:
            record = orjson.loads(self._record.read_bytes())
            if record["boot"] != self._tree.text(BOOT_ID):
                return {}  # the kernel has its own values since the start
            return {path: Change.from_dict(each) for path, each in record["files"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, *MALFORMED) as exc:
            LOG.warning(
                "%s cannot be read: %s. What it named of the kernel's files keeps its value until the next start of "
                "this machine",
                self._record,
                exc,
            )
            return {}


def _same(value: str) -> str:
    return value
