# SPDX-License-Identifier: Apache-2.0
"""The answer if a request does not fit: a code for programs, words for operators, a nearest request for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.request import PlacementRequest


class RefusalCode(StrEnum):
    """The closed list of reasons. A refusal has the first reason, in this order, that holds."""

    NO_CPUS = "no-cpus"
    """No CPU of the host may be given to containers of this policy."""
    TOO_FEW_CELLS = "too-few-cells"
    """The host has fewer cells with CPUs than ``numa_nodes``."""
    NO_SMT = "no-smt"
    """Thread policy ``require`` on a host whose cores have one thread."""
    PAGE_SIZE = "page-size"
    """The host has no pages of the size."""
    CPUS = "cpus"
    """Too few free CPUs on one cell, or on the cells together that must serve the request."""
    CORES = "cores"
    """Enough free CPUs, but too few on whole cores as the thread policy asks."""
    ISOLATION = "isolation"
    """Enough whole cores, but too few in L3 caches or cells without other containers, as the isolation grade asks."""
    SHARED_FLOOR = "shared-floor"
    """Enough free CPUs, but the shared containers need them."""
    SHARED_POOL = "shared-pool"
    """The shared pool has no room for the demand."""
    MEMORY = "memory"
    """Too little free memory on one cell, or on the cells together that must serve the request."""
    PAGES = "pages"
    """Too few free huge pages of the size."""
    APART = "apart"
    """CPUs and memory are free, but not on the same cells."""
    SHAPE = "shape"
    """Each part of an uneven request fits somewhere, but not all of them at once."""
    DEVICES = "devices"
    """CPUs and memory are free, but too few devices that serve with them."""
    CACHE = "cache"
    """CPUs, memory and devices are free, but not on L3 caches with the wanted part of cache and memory bandwidth."""
    UNPROVEN = "unproven"
    """The search for cells with the devices, or with memory in common, ended at its limit of steps and found none."""
    CPUS_TAKEN = "cpus-taken"
    """Another container now holds a CPU of the plan (``Usage.fits`` only)."""
    CPUS_GONE = "cpus-gone"
    """A CPU or cell of the plan is gone, or not for such containers (``Usage.fits`` only)."""
    DEVICES_TAKEN = "devices-taken"
    """Another container now holds a device of the plan, or a device that rules it out (``Usage.fits`` only)."""
    DEVICES_GONE = "devices-gone"
    """The host no longer offers a device of the plan (``Usage.fits`` only)."""


class Dimension(StrEnum):
    """The ways in which a refused request can be changed, each with its smallest change."""

    CPUS = "cpus"
    """Fewer CPUs. No entry of ``numa_cpus`` grows, and the total falls as little as possible."""
    MEMORY = "memory"
    """Less memory, counted in the same way."""
    NODES = "nodes"
    """Another ``numa_nodes``, split evenly: the nearest number, the larger of two equally near ones."""
    SHAPE = "shape"
    """An even split over as many cells as the lists name."""
    AFFINITY = "affinity"
    """``numa_nodes`` as a wish (``prefer``)."""
    THREADS = "threads"
    """Thread policy ``prefer``, which accepts any free threads."""
    ISOLATION = "isolation"
    """The next lower isolation grade."""
    PAGES = "pages"
    """The next smaller pages of the host."""
    MEMPOLICY = "mempolicy"
    """Memory also from other nodes (``preferred``)."""
    CACHE = "cache"
    """Fewer ways, or less MiB, of each L3 cache; it may fall to 0."""
    BANDWIDTH = "bandwidth"
    """Less of the memory bandwidth; it may fall to 0."""
    DEVICE_POLICY = "device-policy"
    """Weaker NUMA policies of devices (``required``, ``socket``, ``preferred``, ``none``), as few steps as possible."""
    DEVICE_SAME = "device-same"
    """The next larger part of the host that the devices of a group share; after ``link``, the host."""
    DEVICES = "devices"
    """Fewer devices. The total falls as little as possible; it may fall to 0."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request that fits and differs from the refused one in one dimension, by the smallest change that helps."""

    dimension: Dimension
    request: PlacementRequest


@dataclass(frozen=True, slots=True)
class CellFree:
    """The free CPUs and memory of one cell."""

    cpus: CpuSet = NO_CPUS
    """Free CPUs for dedicated containers, including CPUs that the shared containers need."""
    cores: tuple[CpuSet, ...] = ()
    """The whole cores among them."""
    memory_mib: int = 0
    """MiB in ordinary pages."""
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Free huge pages by size in KiB."""
    shared: float = 0.0
    """CPU demand that the shared pool can still take."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The CPUs and memory that a request wants of one cell."""

    cpus: float
    memory_mib: int
    page_kib: int | None = None
    """Size of the huge pages for the memory, None for ordinary pages."""


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that does not fit. A refusal is no error: a full host answers with one.

    Most refusals are only counted, so costly details (``free``, ``nearest``, ``changes``) are computed at the first
    look. They follow from the immutable arguments of ``plan()`` alone.
    """

    code: RefusalCode
    message: str
    wanted: tuple[Wanted, ...] = ()
    """One entry per cell wanted."""
    _free: Callable[[], Mapping[int, CellFree]] | None = field(default=None, repr=False, compare=False)
    planned: int = field(default=0, repr=False, compare=False)
    """The steps of search after which the plan was refused."""
    _spent: Callable[[], int] | None = field(default=None, repr=False, compare=False)
    _find: Callable[[], PlacementRequest | None] | None = field(default=None, repr=False, compare=False)
    _list: Callable[[], tuple[Change, ...]] | None = field(default=None, repr=False, compare=False)

    @property
    def steps(self) -> int:
        """The steps of search that this refusal has taken so far, with those for ``nearest`` and ``changes``."""
        return self._spent() if self._spent else 0

    @cached_property
    def free(self) -> Mapping[int, CellFree]:
        """The free CPUs and memory by cell id."""
        return self._free() if self._free else {}

    @cached_property
    def nearest(self) -> PlacementRequest | None:
        """The nearest request that would have fitted, or None.

        The first of these that is found to fit is nearest: a smaller part of caches or memory bandwidth; weaker
        policies of devices; a larger part of the host for groups of devices; fewer devices; fewer CPUs or less memory,
        whichever gives up less; more cells; any cells; no thread policy; no isolation; smaller pages; no part of the
        caches; less of both, and no devices.
        """
        return self._find() if self._find else None

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The smallest change in each dimension that is found to fit, in the order of ``Dimension``."""
        return self._list() if self._list else ()

    def __str__(self) -> str:
        return self.message
