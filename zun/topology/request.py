# SPDX-License-Identifier: Apache-2.0
"""What one container asks of a host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MICRO = 1_000_000
"""Shared CPU demand is counted in millionths of a CPU, so that adding and giving back is exact."""


class CPUPolicy(StrEnum):
    DEDICATED = "dedicated"
    SHARED = "shared"


class ThreadPolicy(StrEnum):
    """What becomes of the sibling threads (Nova's ``hw:cpu_thread_policy``)."""

    PREFER = "prefer"
    ISOLATE = "isolate"
    REQUIRE = "require"


class NUMAAffinity(StrEnum):
    REQUIRE = "require"
    PREFER = "prefer"
    NONE = "none"


class MemPolicy(StrEnum):
    STRICT = "strict"
    PREFERRED = "preferred"


class Isolation(StrEnum):
    """What must be nobody else's beside a dedicated container's own CPUs, each grade more than the one before.

    There is one exception: an L3 cache that reaches over several cells can be nobody's, though each of these cells can.

    Others are containers, on CPUs of their own or in the shared pool; what the operator reserved is the host's.
    """

    THREAD = "thread"
    """Nothing: siblings and caches may be shared."""
    CORE = "core"
    """The siblings: each is the container's own or idle."""
    L3 = "l3"
    """Every CPU that shares an L3 cache with one of the container's."""
    NODE = "node"
    """Every CPU of the cells it runs on."""
    ISOLATED = "isolated"
    """As ``thread``, on CPUs that the kernel isolates (``isolcpus``), which no other grade gets."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One container's wishes. ``memory_mib`` in MiB; ``cpus`` whole CPUs, or a demand (1.5) when shared.

    ``numa_cpus`` and ``numa_mem`` have one entry per cell and fix ``numa_nodes``; without them CPUs and
    memory are split evenly, the first cells getting one more when it does not come out even.
    ``page_size`` is None or ``small`` (ordinary pages), ``large``, ``any``, or a size in KiB.
    ``numa_affinity`` None means ``require`` for dedicated and ``prefer`` for shared containers, which need
    no promise of one cell and must not fail because they are larger than one.
    """

    cpus: float
    memory_mib: int
    cpu_policy: str = "dedicated"
    thread_policy: str = "prefer"
    numa_nodes: int = 1
    numa_affinity: str | None = None
    numa_cpus: tuple[float, ...] | None = None
    numa_mem: tuple[int, ...] | None = None
    mempolicy: str = "strict"
    page_size: str | int | None = None
    isolation: str = "thread"

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a request no host could ever satisfy."""
        self._set("cpu_policy", _one_of(CPUPolicy, "cpu_policy", self.cpu_policy))
        self._set("thread_policy", _one_of(ThreadPolicy, "thread_policy", self.thread_policy))
        default = NUMAAffinity.REQUIRE if self.dedicated else NUMAAffinity.PREFER
        affinity = default if self.numa_affinity is None else self.numa_affinity
        self._set("numa_affinity", _one_of(NUMAAffinity, "numa_affinity", affinity))
        self._set("mempolicy", _one_of(MemPolicy, "mempolicy", self.mempolicy))
        self._set("page_size", _page_size(self.page_size))
        self._set("isolation", _one_of(Isolation, "isolation", self.isolation))
        if not self.dedicated and self.isolation != "thread":
            raise ValueError(f"isolation {self.isolation} is for dedicated CPUs: a shared container has none")
        self._set("cpus", self._cpu_count("cpus", self.cpus))
        self._set("memory_mib", _whole("memory_mib", self.memory_mib, least=0))
        self._check_shape()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def dedicated(self) -> bool:
        return self.cpu_policy == "dedicated"

    @property
    def whole_cores(self) -> bool:
        """Whether the thread policy asks for cores that are nobody else's."""
        return self.dedicated and self.thread_policy != "prefer"

    @property
    def ordinary_pages(self) -> bool:
        """Whether ordinary pages are asked for on any host; a size in KiB can be theirs on some."""
        return self.page_size in (None, "small")

    def _cpu_count(self, name: str, value: object) -> float:
        if self.dedicated:
            return _whole(name, value, least=1)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise ValueError(f"{name} of a shared container must be a number from 0 up, not {value!r}")
        return round(value, 6)

    def _check_shape(self) -> None:
        nodes = _whole("numa_nodes", self.numa_nodes, least=1)
        for name in ("numa_cpus", "numa_mem"):
            entries = getattr(self, name)
            if entries is None:
                continue
            if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
                raise ValueError(f"{name} must be a list with one entry per cell, not {entries!r}")
            entries = tuple(entries)
            if not entries:
                raise ValueError(f"{name} must have one entry per cell, not none")
            if nodes == 1:
                nodes = len(entries)
            if len(entries) != nodes:
                raise ValueError(f"{name} has {len(entries)} entries for {nodes} cells")
            self._set(name, entries)
        self._set("numa_nodes", nodes)
        self._check_entries()

    def _check_entries(self) -> None:
        if self.numa_cpus is not None:
            cpus = tuple(self._cpu_count("numa_cpus", entry) for entry in self.numa_cpus)
            if round(sum(cpus), 6) != self.cpus:
                raise ValueError(f"numa_cpus add up to {sum(cpus)}, but cpus is {self.cpus}")
            self._set("numa_cpus", cpus)
        elif self.dedicated and self.cpus < self.numa_nodes:
            raise ValueError(f"cpus is {self.cpus}: fewer than one for each of {self.numa_nodes} cells (numa_nodes)")
        if self.numa_mem is not None:
            mem = tuple(_whole("numa_mem", entry, least=0) for entry in self.numa_mem)
            if sum(mem) != self.memory_mib:
                raise ValueError(f"numa_mem adds up to {sum(mem)}, but memory_mib is {self.memory_mib}")
            self._set("numa_mem", mem)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """(CPUs, MiB) wanted of each of ``numa_nodes`` cells; CPUs in millionths for a shared container."""
        unit = 1 if self.dedicated else MICRO
        if self.numa_nodes == 1:
            return ((int(self.cpus) if unit == 1 else round(self.cpus * unit), self.memory_mib),)
        if self.numa_cpus is None:
            cpus = even_split(round(self.cpus * unit), self.numa_nodes)
        else:
            cpus = tuple(round(entry * unit) for entry in self.numa_cpus)
        mem = even_split(self.memory_mib, self.numa_nodes) if self.numa_mem is None else self.numa_mem
        return tuple(zip(cpus, mem, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form with the constructor's names."""
        return {
            "cpus": self.cpus,
            "memory_mib": self.memory_mib,
            "cpu_policy": str(self.cpu_policy),
            "thread_policy": str(self.thread_policy),
            "numa_nodes": self.numa_nodes,
            "numa_affinity": str(self.numa_affinity),
            "numa_cpus": None if self.numa_cpus is None else list(self.numa_cpus),
            "numa_mem": None if self.numa_mem is None else list(self.numa_mem),
            "mempolicy": str(self.mempolicy),
            "page_size": self.page_size,
            "isolation": str(self.isolation),
        }


def even_split(total: int, count: int) -> tuple[int, ...]:
    """``total`` in ``count`` integers that differ by one at most, larger ones first."""
    share, rest = divmod(total, count)
    return (share + 1,) * rest + (share,) * (count - rest)


def _one_of(choices: type[StrEnum], name: str, value: str) -> str:
    try:
        # The plain string: comparing and hashing it costs nothing in the search.
        return choices(value).value
    except ValueError:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}") from None


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up, not {value!r}")
    return value


def _page_size(value: str | int | None) -> str | int | None:
    if value is None or value in ("small", "large", "any"):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError(f"page_size must be small, large, any or a size in KiB, not {value!r}")
