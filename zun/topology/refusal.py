# SPDX-License-Identifier: Apache-2.0
"""Why a request does not fit, for programs (code), operators (message) and users (nearest request)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.request import PlacementRequest


class RefusalCode(StrEnum):
    """The closed list of reasons; the first that holds, in this order, is given."""

    NO_CPUS = "no-cpus"
    """No CPU of the host may be given to containers of this policy."""
    TOO_FEW_CELLS = "too-few-cells"
    """The host has fewer cells with CPUs than ``numa_nodes``."""
    NO_SMT = "no-smt"
    """``require`` on a host whose cores have one thread."""
    PAGE_SIZE = "page-size"
    """The host has no pages of that size."""
    CPUS = "cpus"
    """Not enough free CPUs where they are wanted together."""
    CORES = "cores"
    """Enough CPUs, but not on whole cores as the thread policy wants them."""
    ISOLATION = "isolation"
    """Enough whole cores, but not in L3 caches or cells that are nobody else's, as the isolation grade wants."""
    SHARED_FLOOR = "shared-floor"
    """The CPUs are free, but shared containers need them."""
    SHARED_POOL = "shared-pool"
    """The shared pool has no room for the demand."""
    MEMORY = "memory"
    """Not enough free memory where it is wanted together."""
    PAGES = "pages"
    """Not enough free huge pages of the size."""
    APART = "apart"
    """CPUs and memory are free, but not on the same cells."""
    SHAPE = "shape"
    """Each part of an uneven request fits somewhere, but not all of them at once."""
    CPUS_TAKEN = "cpus-taken"
    """A CPU of a plan now belongs to somebody else (``Usage.fits`` only)."""
    CPUS_GONE = "cpus-gone"
    """A CPU or cell of a plan is not, or no longer, for such containers (``Usage.fits`` only)."""


class Dimension(StrEnum):
    """What can be changed about a request, and what counts as the smaller change there."""

    CPUS = "cpus"
    """Fewer CPUs. With ``numa_cpus`` no entry grows, and the fewest are taken off all entries together."""
    MEMORY = "memory"
    """Less memory, counted in the same way."""
    NODES = "nodes"
    """Another ``numa_nodes``, split evenly; the nearest number, of two as near the larger."""
    SHAPE = "shape"
    """As many cells, split evenly instead of by the lists."""
    AFFINITY = "affinity"
    """``numa_nodes`` as a wish (``prefer``)."""
    THREADS = "threads"
    """Thread policy ``prefer``, which takes whatever another one would."""
    ISOLATION = "isolation"
    """The next lower isolation grade."""
    PAGES = "pages"
    """The next smaller pages that the host has."""
    MEMPOLICY = "mempolicy"
    """Memory also from other nodes (``preferred``)."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request that fits and differs from the refused one in one dimension, where no smaller change would do."""

    dimension: Dimension
    request: PlacementRequest


@dataclass(frozen=True, slots=True)
class CellFree:
    """What is left on one cell."""

    cpus: CpuSet = NO_CPUS
    """CPUs a dedicated container could get, the floor of the shared pool not yet taken off."""
    cores: tuple[CpuSet, ...] = ()
    """The whole cores among them."""
    memory_mib: int = 0
    """MiB in ordinary pages."""
    pages: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Free huge pages by size in KiB."""
    shared: float = 0.0
    """CPU demand the shared pool still takes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of one cell."""

    cpus: float
    memory_mib: int
    page_kib: int | None = None
    """Size of the huge pages the memory should come from, None for ordinary pages."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that does not fit. Not an error: the ordinary answer of a full host."""

    code: RefusalCode
    message: str
    wanted: tuple[Wanted, ...] = ()
    """One entry per cell wanted."""
    _free: Callable[[], Mapping[int, CellFree]] | None = field(default=None, repr=False, compare=False)
    _find: Callable[[], PlacementRequest | None] | None = field(default=None, repr=False, compare=False)
    _list: Callable[[], tuple[Change, ...]] | None = field(default=None, repr=False, compare=False)
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    # Most refusals are only counted: what is costly to say is worked out at the first look.

    @property
    def free(self) -> Mapping[int, CellFree]:
        """What is left, by cell id."""
        if "free" not in self._known:
            self._known["free"] = self._free() if self._free else {}
        free: Mapping[int, CellFree] = self._known["free"]
        return free

    @property
    def nearest(self) -> PlacementRequest | None:
        """The nearest request that would have fitted, None when nothing like it would.

        Nearest is, in this order: the largest smaller amount of what is short, CPUs or memory; more cells;
        any cells; no thread policy; no isolation; smaller pages; less of both.
        """
        if "nearest" not in self._known:
            self._known["nearest"] = self._find() if self._find else None
        found: PlacementRequest | None = self._known["nearest"]
        return found

    @property
    def changes(self) -> tuple[Change, ...]:
        """The smallest change in each dimension that would have fitted, in the order of ``Dimension``."""
        if "changes" not in self._known:
            self._known["changes"] = self._list() if self._list else ()
        found: tuple[Change, ...] = self._known["changes"]
        return found

    def __str__(self) -> str:
        return self.message
