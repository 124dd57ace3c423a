# SPDX-License-Identifier: Apache-2.0
"""The ranges of the numbers, texts and lists in records of hosts: of topologies, claims and devices.

A record comes from a message or a row, which a hostile host or a hand may have written. ``from_dict`` of each value
calls one of these for each member, and raises ValueError for a member outside of its range. Each range is far beyond
every real machine, and small enough that no computation with the value overflows or takes long.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What reading, or using, a malformed record can raise."""

_short = reprlib.Repr()
_short.maxstring = 80


def shown(value: object) -> str:
    """Return ``value`` for an error, cut to about a line."""
    return _short.repr(value)[:200]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from ``least`` to ``most``, in JSON's type for it."""

    what: str
    most: int
    least: int = 0

    def __call__(self, value: object) -> int:
        """Return ``value``, or raise ValueError."""
        if type(value) is int and self.least <= value <= self.most:
            return value
        raise ValueError(f"{self.what} must be a whole number from {self.least} to {self.most}, got {shown(value)}")

    def key(self, text: object) -> int:
        """Return the number that the key of a JSON object stands for: ``"2048"`` is 2048."""
        return self(int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 20 else text)

    def or_none(self, value: object) -> int | None:
        """Return ``value``, which may be None."""
        return None if value is None else self(value)


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number from ``least`` to ``most``."""

    what: str
    most: float
    least: float = 0.0

    def __call__(self, value: object) -> float:
        """Return ``value``, or raise ValueError."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and self.least <= value <= self.most:  # type: ignore[operator]  # NaN is in no range
            return float(value)  # type: ignore[arg-type]
        raise ValueError(f"{self.what} must be a number from {self.least} to {self.most}, got {shown(value)}")


def is_storable(text: str) -> bool:
    """Return whether every database and JSON reader takes ``text``: without NUL and halves of surrogate pairs."""
    return "\0" not in text and (text.isascii() or re.search("[\ud800-\udfff]", text) is None)


def cleaned(text: str) -> str:
    """Return ``text`` as ``is_storable`` wants it, with a question mark for each character that is not."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most ``most`` characters, without NUL and halves of surrogate pairs."""

    what: str
    most: int

    def __call__(self, value: object) -> str:
        """Return ``value``, or raise ValueError."""
        if isinstance(value, str) and len(value) <= self.most:
            if is_storable(value):
                return value
            raise ValueError(f"{self.what} must have no NUL and no half of a surrogate pair, got {shown(value)}")
        raise ValueError(f"{self.what} must be a text of at most {self.most} characters, got {shown(value)}")

    def or_none(self, value: object) -> str | None:
        """Return ``value``, which may be None."""
        return None if value is None else self(value)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of at most ``most`` values."""

    what: str
    most: int

    def __call__(self, value: object) -> Sequence[Any]:
        """Return ``value``, or raise ValueError."""
        if isinstance(value, list | tuple) and len(value) <= self.most:
            return value
        raise ValueError(f"{self.what} must be a list of at most {self.most} values, got {shown(value)}")


CELL = Whole("the id of a cell", 8191)
DISTANCE = Whole("a distance", 65_535)
MIB = Whole("MiB of a cell", 2**28)
"""256 TiB. The packing rule relies on it."""
PAGES = Whole("a number of huge pages", 2**36)
PAGE_KIB = Whole("the size of a page in KiB", 2**24, 1)
"""16 GiB, the largest page of any architecture."""
RATIO = Real("an allocation ratio", 1e6)
CPUS = Real("a number of CPUs", 1e6)
AMOUNT = Whole("an amount of other services", 2**40)
GENERATION = Whole("a generation", 2**62)
GROUP = Whole("an IOMMU group", 2**31 - 1)
WAYS = Whole("a number of ways of a cache", 1024)
WAY_KIB = Whole("the size of a way in KiB", 2**24)
PERCENT = Whole("percent of the memory bandwidth", 100)
PARTS = Whole("the number of containers with a part of the caches", 2**16)
SHARES = Whole("the number of containers that share a device", 1000, 1)

NAME = Text("a name", 255)
PATH = Text("a path", 4096)
NOTE = Text("a note", 4096)

CELLS = Listed("cells", 256)
CORES = Listed("groups of CPUs", 8192)
DEVICES = Listed("devices", 8192)
NAMES = Listed("names of a device", 256)
NOTES = Listed("notes", 8192)
KINDS = 256
"""Kinds of devices of one host. The scheduler keeps a number of each kind for every host."""
