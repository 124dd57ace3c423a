# SPDX-License-Identifier: Apache-2.0
"""Read single files below the root of a machine, real or recorded, without failing on what they hold."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from zun.topology.cpuset import MAX_ID, CpuSet
from zun.topology.ranges import is_storable

SPACE = " \t\r\n\0"
_MOST = 16 << 20
"""Bytes that are read of a file. The kernel's longest tables, as /proc/interrupts, are a few MiB."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a machine under ``root``. A file that cannot be read or understood gives None and leaves a note."""

    root: Path
    notes: list[str] = field(default_factory=list)

    def note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)

    def text(self, path: str) -> str | None:
        """Return the contents of a file without surrounding space and NUL bytes, or None (no note) without the file."""
        try:
            raw = _contents(self.root / path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self.note(f"/{path} cannot be read: {getattr(error, 'strerror', None) or error}")
            return None
        return raw.decode("ascii", "replace").strip(SPACE)

    def parsed(self, path: str, parse: Callable[[str], _T]) -> _T | None:
        text = self.text(path)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError:
            self.note(f"/{path} is not understood: {text[:40]!r}")
            return None

    def number(self, path: str) -> int | None:
        return self.parsed(path, number_in)

    def cpu_list(self, path: str) -> CpuSet | None:
        return self.parsed(path, CpuSet)

    def cpu_map(self, path: str) -> CpuSet | None:
        return self.parsed(path, cpu_map_in)

    def cpu_sets(self, folder: str, *names: str) -> Iterator[CpuSet]:
        """Yield the CPUs of each file that has any: names ending in list are lists, others are maps."""
        for name in names:
            path = f"{folder}/{name}"
            found = self.cpu_list(path) if name.endswith("list") else self.cpu_map(path)
            if found:
                yield found

    def link(self, path: str) -> str | None:
        """Return where a symbolic link points to, or None if ``path`` is no link. The target need not exist."""
        try:
            target = os.readlink(self.root / path)
        except OSError:
            return None
        return target if is_storable(target) else None

    def names(self, path: str) -> list[str]:
        try:
            return self._readable(path, os.listdir(self.root / path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.note(f"/{path} cannot be listed: {error.strerror}")
            return []

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders in a folder, sorted. A link to a folder is none of them."""
        try:
            with os.scandir(self.root / path) as entries:
                return self._readable(path, [each.name for each in entries if each.is_dir(follow_symlinks=False)])
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.note(f"/{path} cannot be listed: {error.strerror}")
            return []

    def _readable(self, path: str, names: list[str]) -> list[str]:
        """Return the names, sorted, without those that are not UTF-8, as an interface may be called."""
        for name in names:
            if not is_storable(name):
                self.note(f"/{path} has the name {name!a}, which is not UTF-8: it is left out")
        return sorted(filter(is_storable, names))

    def ids(self, path: str, kind: str) -> list[int]:
        """Return the numbers of the entries ``kind<number>`` of a folder, rising: [0, 1] for cpu0 and cpu1."""
        matches = (re.fullmatch(rf"{kind}(0|[1-9][0-9]{{0,6}})", name) for name in self.names(path))
        return sorted(number for match in matches if match and (number := int(match[1])) <= MAX_ID)


def text_of(path: str | Path) -> str:
    """Return the text of a file of /proc, in which others choose names. Raises OSError.

    Bytes that are not UTF-8 are surrogates, as in every path of Python (``os.fsdecode``).
    """
    return os.fsdecode(Path(path).read_bytes())


def _contents(path: Path) -> bytes:
    """Return the first bytes of a regular file.

    OSError for a pipe or a device: some trees are those of containers, which could put one there to block the reader.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(opened, "rb", closefd=False) as file:
            return file.read(_MOST)
    finally:
        os.close(opened)


def number_in(text: str) -> int:
    """Return a count: never negative, of a believable length. Raise ValueError for other text."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError(text)
    return int(text)


def cpu_map_in(text: str) -> CpuSet:
    """Return the CPUs of a kernel bitmap: 32-bit hexadecimal words, the highest first, between commas.

    Example: ``1,00000003`` is ``0-1,32``. Raises ValueError for other text.
    """
    mask = 0
    for word in text.split(","):
        if not re.fullmatch(r"[0-9a-fA-F]{1,8}", word.strip()):
            raise ValueError(text)
        mask = mask << 32 | int(word, 16)
    if mask.bit_length() > MAX_ID + 1:
        raise ValueError(text)
    return CpuSet.from_mask(mask)


def cpu_map(cpus: CpuSet) -> str:
    """Return the kernel bitmap of ``cpus``, which ``cpu_map_in`` reads: ``0-1,32`` is ``00000001,00000003``."""
    digits = f"{cpus.mask:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[start : start + 8] for start in range(0, len(digits), 8))
