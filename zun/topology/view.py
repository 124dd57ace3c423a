# SPDX-License-Identifier: Apache-2.0
"""A host prepared once for many decisions: CPU masks instead of sets, positions of cells instead of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from zun.topology.cache_control import NO_CACHE_CONTROL, CacheControl
from zun.topology.cells import NUMACell, apart, homes, nearest
from zun.topology.cpuset import CpuSet
from zun.topology.foreign import Foreign
from zun.topology.request import MICRO


@dataclass(frozen=True, slots=True, eq=False)
class CacheView:
    """The cores of one cell that share an L3 cache, or all its cores without one."""

    mask: int
    cores: tuple[int, ...]
    """Threads of each core (mask)."""
    whole: tuple[int, ...]
    """The cores that a container can get whole."""
    kept: int
    """Mask of the CPUs that a container holds if it has this L3 to itself: all that any container may get. It is 0 if
    the L3 reaches beyond these cores, so that no container can have it to itself."""
    price: int
    """Number of pool CPUs in ``kept``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuView:
    """The CPUs of one cell."""

    dedicated: int
    """Mask of the CPUs that dedicated containers may get."""
    pool: int
    """Mask of the shared pool if no dedicated container holds any CPU."""
    everyone: int
    """Mask of the CPUs that some container may get, of whatever policy."""
    exposed: bool
    """True if the cell has CPUs outside the limits of this process, so that no container can have it to itself."""
    online: int
    caches: tuple[CacheView, ...]
    """The L3 groups, at least one: a cell without L3 is one group."""
    cache_masks: tuple[int, ...]
    cores: tuple[int, ...]
    widest: int
    """Threads of the largest core."""
    pattern: int
    """The threads of a core relative to its first, if all cores with several threads have the same: 0b11 for 4-5, 0b101
    for 4,6. It is 1 if every core has one thread, and 0 if cores differ."""
    steps: tuple[int, ...]
    """The offsets of the siblings in ``pattern``: (1,) for 0b11."""
    wide_firsts: int
    """Mask of the first thread of each core that has several."""
    whole: tuple[int, ...]
    """The cores that a container can get whole: every thread is for dedicated use and within our limits."""
    whole_firsts: int
    """Mask of the first thread of each core in ``whole``."""
    whole_sizes: tuple[tuple[int, int], ...]
    """Each size of the cores in ``whole``, rising, with the first threads (mask) of the cores of this size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellView(CpuView):
    """One cell that has CPUs."""

    index: int
    id: int
    base: int
    """The lowest CPU id."""
    model: CpuView
    """The cell's CPUs, numbered from 0. Cells that differ only in ``base`` share one model."""
    nodes: tuple[int, ...]
    """Node ids of its memory: the cell itself, then the memory-only nodes attached to it, nearest first. If none of
    these has memory, the cell borrows: then come the nearest nodes with memory, all that are equally near."""
    spill: tuple[int, ...]
    """Every other node, as positions in ``HostView.ways``: ``preferred`` memory comes from them in this order."""
    foreign: int
    """Shared demand of other services on the pool of the cell, in millionths of a CPU."""
    apart: Mapping[int, int]
    """Distance there plus distance back, by node id."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostView:
    """All cells of a host that have CPUs, and the amounts of all its memory nodes."""

    cells: tuple[CellView, ...]
    index: Mapping[int, int]
    """Position in ``cells`` by cell id."""
    distances: tuple[tuple[int, ...], ...]
    """Distance there plus distance back, by positions of two cells."""
    ways: tuple[tuple[int, int], ...]
    """Each (distance there plus back, node id) from a cell to a node, nearest first, memory-only nodes before
    equals."""
    lends: bool
    """True if some cell borrows memory, so that cells may have nodes in common."""
    beyond: int
    """A distance (there plus back) that is more than every known one."""
    peers: tuple[int, ...]
    """By position, a mask of the earlier positions that are as far from every other cell."""
    small_mib: Mapping[int, int]
    """MiB in ordinary pages for containers, by node id."""
    pages: Mapping[int, Mapping[int, int]]
    """Huge pages by node id and size in KiB."""
    with_memory: frozenset[int]
    """Ids of the nodes with memory: the kernel accepts only these in ``cpuset_mems``."""
    dedicated: int
    pool: int
    pool_beyond: int
    """Mask of the pool CPUs of the rest of the host, if this is a part of a host."""
    cpu_ratio: Fraction
    """A fraction, because a floor is a whole number of CPUs and floats would sometimes round it the wrong way."""
    ram_ratio: Fraction
    spread: bool
    cache_control: CacheControl


class Limits(NamedTuple):
    """CPUs (masks) by their use, of a host or of a cell; see the fields of ``HostTopology``."""

    dedicated: int
    pool: int
    everyone: int
    exposed: int
    exposed_l3: int
    exposed_nodes: int


_Cpus = tuple[tuple[int, ...], tuple[int, ...], Limits]
"""Everything that decides a ``CpuView``: cores, L3 caches (masks) and the uses of the CPUs."""


def build_view(
    nodes: Sequence[NUMACell],
    limits: Limits,
    foreign: Foreign,
    reserved_memory_mib: Mapping[int, int],
    *,
    pool_beyond: int,
    cpu_ratio: float,
    ram_ratio: float,
    spread: bool,
    cache_control: CacheControl = NO_CACHE_CONTROL,
) -> HostView:
    """Return a new view of the host that has these ``nodes``.

    The other arguments are explained at the fields of ``HostTopology``, which keeps its views: call ``view_of``
    instead. Building takes about a millisecond.
    """
    working = [node for node in nodes if node.cpus]
    with_memory = frozenset(node.id for node in nodes if node.memory_mib or any(node.pages.values()))
    attached = _attach(nodes, working)
    borrowed = {
        cell.id: nearest(cell, [node for node in nodes if node.id in with_memory])
        for cell in working if with_memory.isdisjoint((cell.id, *attached[cell.id]))
    }
    ways = sorted({_way(cell, node) for cell in working for node in nodes if node is not cell})
    models: dict[_Cpus, CpuView] = {}
    positions = {way: position for position, way in enumerate(ways)}
    cells = tuple(
        _cell_view(
            index, cell, limits, (*attached[cell.id], *borrowed.get(cell.id, ())), nodes, positions, models,
            foreign.share(cell.id).shared * MICRO if foreign else 0,
        )
        for index, cell in enumerate(working)
    )
    distances = tuple(tuple(a.apart[b.id] for b in cells) for a in cells)
    return HostView(
        cells=cells,
        index={cell.id: cell.index for cell in cells},
        distances=distances,
        ways=tuple((distance, node) for distance, _, node in ways),
        lends=any(borrowed.values()),
        beyond=1 + max([distance for cell in cells for distance in cell.apart.values()], default=0),
        peers=tuple(_peers(distances, position) for position in range(len(working))),
        small_mib={node.id: max(0, node.small_mib - reserved_memory_mib.get(node.id, 0)) for node in nodes},
        pages={node.id: _pages(foreign, node) for node in nodes},
        with_memory=with_memory,
        dedicated=limits.dedicated,
        pool=limits.pool,
        pool_beyond=pool_beyond,
        cpu_ratio=Fraction(str(cpu_ratio)),
        ram_ratio=Fraction(str(ram_ratio)),
        spread=spread,
        cache_control=cache_control,
    )


def _pages(foreign: Foreign, node: NUMACell) -> Mapping[int, int]:
    """Return the huge pages of ``node`` that containers may have."""
    if not foreign:
        return node.pages
    taken = foreign.share(node.id).pages
    return {size: max(0, count - taken.get(size, 0)) for size, count in node.pages.items()}


def _peers(distances: tuple[tuple[int, ...], ...], b: int) -> int:
    row = distances[b]
    peers = 0
    for a in range(b):
        other = distances[a]
        if row[:a] == other[:a] and row[a + 1 : b] == other[a + 1 : b] and row[b + 1 :] == other[b + 1 :]:
            peers |= 1 << a
    return peers


def _attach(nodes: Sequence[NUMACell], working: Sequence[NUMACell]) -> dict[int, tuple[int, ...]]:
    """Return memory-only nodes by the cell that they belong to: the nearest one, the lowest id among equals."""
    cells = {cell.id: cell for cell in working}
    attached: dict[int, list[tuple[int, int]]] = {cell.id: [] for cell in working}
    for node in nodes:
        if node.cpus or not working:
            continue
        cell_id = homes(node, working)[0]
        attached[cell_id].append((apart(cells[cell_id], node), node.id))
    return {cell: tuple(node for _, node in sorted(nodes)) for cell, nodes in attached.items()}


_Way = tuple[int, bool, int]
"""Distance of a node, True if the node has CPUs, and its id."""


def _way(cell: NUMACell, node: NUMACell) -> _Way:
    return apart(cell, node), bool(node.cpus), node.id


def _cell_view(
    index: int, cell: NUMACell, limits: Limits, attached: tuple[int, ...], nodes: Sequence[NUMACell],
    positions: Mapping[_Way, int], models: dict[_Cpus, CpuView], foreign: int,
) -> CellView:
    """Return the view of a cell. ``models`` are the models of earlier cells; a new model is added."""
    online = cell.cpus.mask
    base = (online & -online).bit_length() - 1
    key = (
        tuple([core.mask >> base for core in cell.siblings]), tuple([cache.mask >> base for cache in cell.l3]),
        Limits(*[(limit & online) >> base for limit in limits]),
    )
    model = models.get(key)
    if model is None:
        model = models[key] = _cpu_view(*key)
    caches = tuple([_moved(cache, base) for cache in model.caches])
    return CellView(
        index=index,
        id=cell.id,
        base=base,
        model=model,
        nodes=(cell.id, *attached),
        spill=tuple(sorted([positions[_way(cell, node)] for node in nodes if node is not cell])),
        foreign=foreign,
        apart={node.id: apart(cell, node) for node in nodes},
        dedicated=model.dedicated << base,
        pool=model.pool << base,
        everyone=model.everyone << base,
        exposed=model.exposed,
        online=online,
        caches=caches,
        cache_masks=tuple([cache.mask for cache in caches]),
        cores=tuple([core << base for core in model.cores]),
        widest=model.widest,
        pattern=model.pattern,
        steps=model.steps,
        wide_firsts=model.wide_firsts << base,
        whole=tuple([core << base for core in model.whole]),
        whole_firsts=model.whole_firsts << base,
        whole_sizes=tuple([(size, firsts << base) for size, firsts in model.whole_sizes]),
    )


def _moved(cache: CacheView, base: int) -> CacheView:
    return CacheView(
        mask=cache.mask << base,
        cores=tuple([core << base for core in cache.cores]),
        whole=tuple([core << base for core in cache.whole]),
        kept=cache.kept << base,
        price=cache.price,
    )


def _cpu_view(cores: tuple[int, ...], caches: tuple[int, ...], limits: Limits) -> CpuView:
    dedicated, exposed = limits.dedicated, limits.exposed
    whole = tuple(core for core in cores if not core & ~dedicated and not core & exposed)
    pattern = _pattern(cores)
    owner = {cpu: cache for cache in caches for cpu in CpuSet.from_mask(cache)}
    wholes = frozenset(whole)
    groups = tuple(_cache_view(group, wholes, limits, owner) for group in _by_cache(cores, caches, owner))
    return CpuView(
        dedicated=dedicated,
        pool=limits.pool,
        everyone=limits.everyone,
        exposed=limits.exposed_nodes > 0,
        online=sum(cores),
        caches=groups,
        cache_masks=tuple(cache.mask for cache in groups),
        cores=cores,
        widest=max(map(int.bit_count, cores)),
        pattern=pattern,
        steps=tuple(step for step in range(1, pattern.bit_length()) if pattern >> step & 1),
        wide_firsts=sum(core & -core for core in cores if core & (core - 1)),
        whole=whole,
        whole_firsts=sum(core & -core for core in whole),
        whole_sizes=by_size(whole, [core & -core for core in whole]),
    )


def by_size(units: Sequence[int], firsts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return each size of units (masks), rising, with the first CPUs (mask) of the units of this size.

    Example: units 0b11 and 0b100 with firsts 0b1 and 0b100 are ((1, 0b100), (2, 0b1)).
    """
    found: dict[int, int] = {}
    for size, first in zip(map(int.bit_count, units), firsts, strict=True):
        found[size] = found.get(size, 0) | first
    return tuple(sorted(found.items()))


def _cache_view(
    cores: tuple[int, ...], whole: frozenset[int], limits: Limits, owner: Mapping[int, int]
) -> CacheView:
    """Return the view of a group of ``cores``. ``owner`` has the L3 (mask) of each CPU."""
    mask = sum(cores)
    # A core between two caches is in one group only, so neither group is all of its cache.
    apart = any(owner.get(cpu, 0) & ~mask for cpu in CpuSet.from_mask(mask))
    kept = 0 if mask & limits.exposed_l3 or apart else mask & limits.everyone
    return CacheView(
        mask=mask,
        cores=cores,
        whole=tuple(core for core in cores if core in whole),
        kept=kept,
        price=(kept & limits.pool).bit_count(),
    )


def _pattern(cores: tuple[int, ...]) -> int:
    patterns = {core // (core & -core) for core in cores if core & (core - 1)}
    return patterns.pop() if len(patterns) == 1 else 0 if patterns else 1


def _by_cache(
    cores: tuple[int, ...], caches: tuple[int, ...], owner: Mapping[int, int]
) -> tuple[tuple[int, ...], ...]:
    """Return the cores of each L3, then the cores without one. A core belongs to the L3 of its lowest CPU.

    ``owner`` has the L3 (mask) of each CPU.
    """
    groups: dict[int, list[int]] = {cache: [] for cache in (*caches, 0)}
    for core in cores:
        groups[owner.get((core & -core).bit_length() - 1, 0)].append(core)
    return tuple(tuple(group) for group in groups.values() if group)
