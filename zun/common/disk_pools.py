# SPDX-License-Identifier: Apache-2.0
"""Disk pools: disk that all hosts of an aggregate share. API, schedulers and hosts all decide here what is a pool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = "disk_pool_gb"  # of an aggregate's metadata
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DiskPool:
    """The disk pool of one aggregate, with the uuid and name of the aggregate. ``size`` is in GiB."""

    uuid: str
    name: str
    size: int

    def lacking(self, used: float, wanted: int) -> str | None:
        """Return why the pool cannot give ``wanted`` GiB more, or None. ``used`` counts promised GiB."""
        left = max(0, self.size - used)
        if wanted <= left:
            return None
        return f"disk pool {self.name} has {int(left)} GiB of disk left of the {wanted} that are wanted"


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The disk pools as one host sees them, for Placement."""

    mine: DiskPool | None = None
    """The pool of the host."""
    holders: Mapping[str, int] = field(default_factory=dict)
    """The containers on all hosts of that pool that hold something, with their disk in GiB, by uuid."""
    unused: frozenset[str] = frozenset()
    """The uuids of aggregates that are no pool, or a pool without hosts."""

    @property
    def held(self) -> int:
        """The GiB of the host's pool that containers hold."""
        return sum(self.holders.values())


def pool_of(hostname: str, aggregates: Iterable[Mapping[str, Any]]) -> DiskPool | None:
    """Return the pool of the aggregate that has the host and names a size, or None.

    ``aggregates`` are rows, oldest first. The query module ensures that a host is in one pool at most.
    """
    pools = (pool(row) for row in aggregates if hostname in row["hosts"])
    return next((each for each in pools if each is not None), None)


def pool(aggregate: Mapping[str, Any]) -> DiskPool | None:
    """Return the pool of an aggregate (its row), or None if the aggregate names no size."""
    size = size_of(aggregate["metadata"])
    return None if size is None else DiskPool(aggregate["uuid"], aggregate["name"], size)


def size_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the GiB under ``disk_pool_gb``, or None if there is no such key.

    A value that somebody wrote into the database by hand and that is no size is 0: such a pool gives nothing.
    """
    if KEY not in metadata:
        return None
    try:
        return checked_size(metadata[KEY])
    except ValueError:
        return 0


def checked_size(value: Any) -> int:
    """Return the GiB of a value of ``disk_pool_gb``. Raise ValueError, with the text for the user, if it is no size."""
    text = str(value)
    if text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST)) and 1 <= int(text) <= LARGEST:
        return int(text)
    raise ValueError(f"{KEY} must be a whole number of GiB from 1 to {LARGEST}, got {text!r}")
