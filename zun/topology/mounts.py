# SPDX-License-Identifier: Apache-2.0
"""Read the kernel's lists of mounts: mountinfo (proc_pid_mountinfo(5)), and /proc/mounts (fstab(5)), which says less.

The kernel writes a space, a tab, a line feed, a backslash and sometimes ``#`` in octal (``\\040`` is a space), and
every other byte of a path as it is. So only a line feed ends a line and only a space ends a field. Paths are as Python
names files: bytes that are not UTF-8 are surrogates (``os.fsdecode``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zun.topology.files import text_of

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


class Mounted(NamedTuple):
    """One mount."""

    place: str
    kind: str
    """The type of the file system."""
    source: str
    options: frozenset[str]
    """Options of the mount and of its file system."""
    details: str = ""
    """Options of the file system, as they are written. Empty in /proc/mounts."""
    root: str = "/"
    """The folder of the file system that is mounted. In a container, a mount may begin at the container's own control
    group: ``/kubepods/pod1``."""
    device: str = ""
    """Major and minor number of the device. Example: ``8:1``. Empty in /proc/mounts."""


def mountinfo(root: str | Path, process: int | str = "self") -> str:
    """Return the list of mounts that a process sees. Raises OSError."""
    return text_of(Path(root, "proc", str(process), "mountinfo"))


def mounts_in(text: str, kind: str = "") -> Iterator[Mounted]:
    """Yield the mounts of mountinfo whose type begins with ``kind``, the oldest first.

    A later mount at the same place hides an earlier one. A line that is not understood is left out.
    """
    for line in lines_of(text):
        # Other types are left out before they are split: a host with many containers has thousands of mounts.
        if line.partition(" - ")[2].startswith(kind):
            found = parsed(line)
            if found is not None:
                yield found


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines that are not empty. ``str.splitlines`` would also end a line at other characters of a path."""
    return filter(None, text.split("\n"))


def parsed(line: str) -> Mounted | None:
    """Return the mount of a line of mountinfo, or None if the line is not understood.

    Line: ``id parent major:minor root place options [tags] - type source options``.
    """
    left, _, right = line.partition(" - ")
    here, there = left.split(" "), right.split(" ")
    if len(here) < 6 or len(there) < 3:
        return None
    options = frozenset(f"{here[5]},{there[2]}".split(","))
    return Mounted(unescaped(here[4]), there[0], unescaped(there[1]), options, there[2], unescaped(here[3]), here[2])


def mounts_in_table(text: str) -> Iterator[Mounted]:
    """Yield the mounts of /proc/mounts. A line that is not understood is left out."""
    for words in (line.split(" ") for line in lines_of(text)):
        if len(words) >= 4:
            yield Mounted(unescaped(words[1]), words[2], unescaped(words[0]), frozenset(words[3].split(",")))


def unescaped(field: str) -> str:
    """Return a field without its escapes. Example: ``/a\\040b`` is ``/a b``."""
    if "\\" not in field:
        return field
    return os.fsdecode(_OCTAL.sub(lambda match: bytes((int(match[1], 8),)), os.fsencode(field)))
