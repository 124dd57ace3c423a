# SPDX-License-Identifier: Apache-2.0
"""Sets of CPU ids or memory node ids, read and printed like the kernel's lists: ``0-3,8``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

from zun.topology.ranges import shown

MAX_ID = 8_191
"""Largest id a set may hold: no kernel can be built with more CPUs. A larger id, in a configuration file or in the
record of a hostile host, is an error and not gigabytes of masks."""

MOST_TEXT = 65_536
"""Characters of the longest list that is read. Every CPU by itself takes fewer."""

_RANGE = re.compile(r"(\^)?\s*(\d+)(?:\s*-\s*(\d+))?(?::(\d+)(?:/(\d+))?)?", re.ASCII)


class CpuSet:
    """Immutable set of logical CPU ids (or memory node ids) on an integer bitmask.

    ``CpuSet("0-3,8")`` reads the kernel's list form, including strides (``0-31:2/8``). As in the configuration of
    OpenStack services, ``^`` excludes a CPU (``0-15,^3``), wherever in the list it stands. ``CpuSet([8, 0, 1])`` takes
    any iterable of ints. ``str()`` gives the list form. ``<=`` and ``<`` mean subset, as with frozenset; iteration is
    in rising order.
    """

    __slots__ = ("mask",)

    mask: int

    def __init__(self, source: str | Iterable[int] | CpuSet = ()) -> None:
        """Raise ValueError for text that is not a list, and TypeError for elements that are not integers."""
        if isinstance(source, CpuSet):
            mask = source.mask
        elif isinstance(source, str):
            mask = _parse(source)
        else:
            mask = 0
            for cpu in source:
                mask |= 1 << _checked(cpu)
        _set_mask(self, mask)

    @classmethod
    def from_mask(cls, mask: int) -> Self:
        """Return the set whose ids are the bits of ``mask``: 0b101 is CPUs 0 and 2."""
        if mask < 0:
            raise ValueError(f"a CPU mask cannot be negative: {mask}")
        new = object.__new__(cls)
        _set_mask(new, mask)
        return new

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"CpuSet is immutable, cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"CpuSet is immutable, cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_mask, (self.mask,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __str__(self) -> str:
        mask, start, parts = self.mask, 0, []
        while mask:
            zeros = (mask & -mask).bit_length() - 1
            mask >>= zeros
            ones = (~mask & (mask + 1)).bit_length() - 1
            mask >>= ones
            first = start + zeros
            start = first + ones
            parts.append(str(first) if ones == 1 else f"{first}-{start - 1}")
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        mask = self.mask
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.mask >> cpu & 1)

    def __hash__(self) -> int:
        return hash((CpuSet, self.mask))

    def __eq__(self, other: object) -> bool:
        return self.mask == other.mask if isinstance(other, CpuSet) else NotImplemented

    def __le__(self, other: CpuSet) -> bool:
        return not self.mask & ~other.mask if isinstance(other, CpuSet) else NotImplemented

    def __lt__(self, other: CpuSet) -> bool:
        return self != other and self <= other if isinstance(other, CpuSet) else NotImplemented

    def __ge__(self, other: CpuSet) -> bool:
        return not other.mask & ~self.mask if isinstance(other, CpuSet) else NotImplemented

    def __gt__(self, other: CpuSet) -> bool:
        return self != other and self >= other if isinstance(other, CpuSet) else NotImplemented

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask | other.mask) if isinstance(other, CpuSet) else NotImplemented

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & other.mask) if isinstance(other, CpuSet) else NotImplemented

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & ~other.mask) if isinstance(other, CpuSet) else NotImplemented

    def __xor__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask ^ other.mask) if isinstance(other, CpuSet) else NotImplemented

    def isdisjoint(self, other: CpuSet) -> bool:
        """Return whether the two sets have no id in common."""
        return not self.mask & other.mask


# The slot itself: the way past __setattr__, and the quickest one.
_set_mask = CpuSet.__dict__["mask"].__set__

NO_CPUS = CpuSet()


def union(sets: Iterable[CpuSet]) -> CpuSet:
    """Return the ids that are in any of ``sets``."""
    mask = 0
    for each in sets:
        mask |= each.mask
    return CpuSet.from_mask(mask)


def _checked(cpu: object) -> int:
    # bool is an int: CpuSet([True]) is a mistake, not CPU 1.
    if not isinstance(cpu, int) or isinstance(cpu, bool):
        raise TypeError(f"a CPU id is an integer, not {cpu!r}")
    if not 0 <= cpu <= MAX_ID:
        raise ValueError(f"CPU id {cpu} is not between 0 and {MAX_ID}")
    return cpu


def _parse(text: str) -> int:
    """Return the mask of a list. Some kernels end such files in NUL bytes, which count as space."""
    included = excluded = 0
    if len(text) > MOST_TEXT:
        raise ValueError(f"the CPU list {shown(text)} has {len(text)} characters: at most {MOST_TEXT} are read")
    cleaned = text.replace("\0", " ").strip()
    if not cleaned:
        return 0
    for part in cleaned.split(","):
        mask = _parse_range(part.strip(), cleaned)
        if part.lstrip().startswith("^"):
            excluded |= mask
        else:
            included |= mask
    return included & ~excluded


def _parse_range(part: str, text: str) -> int:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(_problem(part, text))
    _, first_text, last_text, used_text, group_text = match.groups()
    first = _number(first_text)
    last = first if last_text is None else _number(last_text)
    if last < first:
        raise ValueError(f"the range {shown(part)} in the CPU list {shown(text)} ends before it begins")
    width = last - first + 1
    if used_text is None:
        return ((1 << width) - 1) << first
    used = _number(used_text)
    if group_text is None and used:  # as lscpu and taskset write "every second one"
        kernel = f"{first}-{last}:1/{used}"
        raise ValueError(
            f"the stride of {shown(part)} in the CPU list {shown(text)} names one number: write it like {kernel}"
        )
    group = _number(group_text or "0")
    if not 0 < used <= group:
        raise ValueError(f"the stride of {shown(part)} in the CPU list {shown(text)} needs 0 < used <= group")
    groups = -(-width // group)
    firsts = ((1 << groups * group) - 1) // ((1 << group) - 1)  # the first CPU of each group
    return (firsts * ((1 << used) - 1) & ((1 << width) - 1)) << first


def _number(digits: str) -> int:
    digits = digits.lstrip("0") or "0"
    if len(digits) > 32:  # int() refuses thousands of digits in words of its own
        raise ValueError(f"CPU id {shown(digits)} is not between 0 and {MAX_ID}")
    return _checked(int(digits))


def _problem(part: str, text: str) -> str:
    """Return why ``part`` of the CPU list ``text`` cannot be read."""
    if part:
        return f"cannot read {shown(part)} in the CPU list {shown(text)}: write it like 0-3,8,^2"
    where = "ends" if text.endswith(",") else "begins" if text.startswith(",") else None
    if where is not None:
        return f"the CPU list {shown(text)} {where} with a comma: remove the comma, or name the CPU that is missing"
    return f"the CPU list {shown(text)} has two commas in a row: remove one, or name the CPU that is missing"
