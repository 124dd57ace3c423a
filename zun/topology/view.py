# SPDX-License-Identifier: Apache-2.0
"""A topology worked out once for many decisions: masks instead of sets, positions instead of ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from zun.topology.cells import HostTopology, NUMACell
from zun.topology.cost import PACK, SPREAD, Weights


@dataclass(frozen=True, slots=True, eq=False)
class CacheView:
    """The cores of one cell that share an L3 cache, or those that have none."""

    mask: int
    cores: tuple[int, ...]
    kept: int
    """What a container that has this L3 to itself holds: all of it that any container may get. 0 when the L3
    reaches beyond these cores, so that nobody can have it to himself."""


@dataclass(frozen=True, slots=True, eq=False)
class CellView:
    """One cell that has CPUs."""

    index: int
    id: int
    dedicated: int
    """Mask of the CPUs a dedicated container may get."""
    pool: int
    """Mask of the shared pool while nothing is pinned."""
    everyone: int
    """Mask of the CPUs that any container may get."""
    online: int
    caches: tuple[CacheView, ...]
    """At least one: a cell without L3 is one group."""
    cache_masks: tuple[int, ...]
    cores: tuple[int, ...]
    widest: int
    """Threads of the largest core."""
    stride: int
    """How far a sibling is from its core's first thread when all cores are pairs with one such distance;
    0 when all cores have one thread; -1 for everything else."""
    firsts: int
    """The first thread of each core."""
    whole: frozenset[int]
    """The cores that can be had whole: every thread is for dedicated use and within our limits."""
    whole_firsts: int
    """The first thread of each of them."""
    smt: bool
    """Some core of ``whole`` has more than one thread."""
    nodes: tuple[int, ...]
    """Where its memory comes from: the cell itself, then the memory-only nodes attached to it, nearest first."""
    spill: tuple[int, ...]
    """Every other node, nearest first: where ``preferred`` memory goes next."""


@dataclass(frozen=True, slots=True, eq=False)
class HostView:
    cells: tuple[CellView, ...]
    index: Mapping[int, int]
    """Position in ``cells`` by cell id."""
    distances: tuple[tuple[int, ...], ...]
    """Distance there plus distance back, by position."""
    peers: tuple[int, ...]
    """By position, a mask of the earlier positions that are equally far from every other cell."""
    small_mib: Mapping[int, int]
    """MiB in ordinary pages that containers may have, by node id."""
    pages: Mapping[int, Mapping[int, int]]
    """Huge pages by node id and size in KiB."""
    with_memory: frozenset[int]
    """Nodes that have any memory at all: only these may stand in ``cpuset_mems``."""
    dedicated: int
    pool: int
    cpu_ratio: Fraction
    """Exact: a floor is a whole number of CPUs, and floats would sometimes round it the wrong way."""
    ram_ratio: Fraction
    weights: Weights


def view_of(topology: HostTopology, isolation: str = "thread") -> HostView:
    """The view of ``topology`` for requests of this grade, built at the first call and kept with it.

    Only ``isolated`` sees other CPUs than the rest.
    """
    isolated = isolation == "isolated"
    view: HostView | None = topology._views.get(isolated)
    if view is None:
        view = topology._views[isolated] = _build(topology, topology.cpus_for(isolation).mask)
    return view


def _build(topology: HostTopology, dedicated: int) -> HostView:
    pool = topology.pool_cpus.mask
    working = [cell for cell in topology.cells if cell.cpus]
    attached = _attach(topology, working)
    cells = tuple(
        _cell_view(index, cell, topology, dedicated, pool, attached[cell.id])
        for index, cell in enumerate(working)
    )
    distances = tuple(tuple(a.distance(b.id) + b.distance(a.id) for b in working) for a in working)
    return HostView(
        cells=cells,
        index={cell.id: cell.index for cell in cells},
        distances=distances,
        peers=tuple(_peers(distances, position) for position in range(len(working))),
        small_mib={
            cell.id: max(0, cell.small_mib - topology.reserved_memory_mib.get(cell.id, 0))
            for cell in topology.cells
        },
        pages={cell.id: cell.pages for cell in topology.cells},
        with_memory=frozenset(cell.id for cell in topology.cells if cell.memory_mib or any(cell.pages.values())),
        dedicated=dedicated,
        pool=pool,
        cpu_ratio=Fraction(str(topology.cpu_allocation_ratio)),
        ram_ratio=Fraction(str(topology.ram_allocation_ratio)),
        weights=SPREAD if topology.strategy == "spread" else PACK,
    )


def _peers(distances: tuple[tuple[int, ...], ...], b: int) -> int:
    row = distances[b]
    peers = 0
    for a in range(b):
        other = distances[a]
        if row[:a] == other[:a] and row[a + 1 : b] == other[a + 1 : b] and row[b + 1 :] == other[b + 1 :]:
            peers |= 1 << a
    return peers


def _attach(topology: HostTopology, working: list[NUMACell]) -> dict[int, tuple[int, ...]]:
    """Memory-only nodes by the cell they belong to: its nearest, the lowest id among equals.

    What the firmware says of initiators goes before distances, which are often all equal for such nodes.
    """
    attached: dict[int, list[tuple[int, int]]] = {cell.id: [] for cell in working}
    for node in topology.cells:
        if node.cpus or not working:
            continue
        near = [cell for cell in working if cell.id in node.initiators] or working
        distance, cell_id = min((node.distance(cell.id) + cell.distance(node.id), cell.id) for cell in near)
        attached[cell_id].append((distance, node.id))
    return {cell: tuple(node for _, node in sorted(nodes)) for cell, nodes in attached.items()}


def _cell_view(
    index: int, cell: NUMACell, topology: HostTopology, dedicated: int, pool: int, attached: tuple[int, ...]
) -> CellView:
    exposed = topology.exposed.mask
    everyone = cell.cpus.mask & (topology.dedicated_cpus | topology.isolated_cpus | topology.pool_cpus).mask
    cores = tuple(core.mask for core in cell.siblings)
    whole = frozenset(core for core in cores if not core & ~dedicated and not core & exposed)
    caches = tuple(
        _cache_view(group, everyone, topology.exposed_l3.mask, tuple(cache.mask for cache in cell.l3))
        for group in _by_cache(cores, tuple(cache.mask for cache in cell.l3))
    )
    return CellView(
        index=index,
        id=cell.id,
        dedicated=cell.cpus.mask & dedicated,
        pool=cell.cpus.mask & pool,
        everyone=everyone,
        online=cell.cpus.mask,
        caches=caches,
        cache_masks=tuple(cache.mask for cache in caches),
        cores=cores,
        widest=max(map(int.bit_count, cores)),
        stride=_stride(cores),
        firsts=sum(core & -core for core in cores),
        whole=whole,
        whole_firsts=sum(core & -core for core in whole),
        smt=any(core & (core - 1) for core in whole),
        nodes=(cell.id, *attached),
        spill=tuple(
            node.id
            for node in sorted(topology.cells, key=lambda node: (cell.distance(node.id), node.id))
            if node.id != cell.id
        ),
    )


def _cache_view(cores: tuple[int, ...], everyone: int, exposed: int, caches: tuple[int, ...]) -> CacheView:
    mask = sum(cores)
    # A core between two caches is in one group only, so neither group is all of its cache.
    apart = any(cache & mask and cache & ~mask for cache in caches)
    return CacheView(
        mask=mask,
        cores=cores,
        kept=0 if mask & exposed or apart else mask & everyone,
    )


def _stride(cores: tuple[int, ...]) -> int:
    sizes = {core.bit_count() for core in cores}
    if sizes == {1}:
        return 0
    strides = {core.bit_length() - (core & -core).bit_length() for core in cores}
    return strides.pop() if sizes == {2} and len(strides) == 1 else -1


def _by_cache(cores: tuple[int, ...], caches: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The cores of each L3, then those without one as a last group. A core belongs with its lowest CPU."""
    groups = []
    left = list(cores)
    for cache in caches:
        inside = tuple(core for core in left if core & -core & cache)
        left = [core for core in left if not core & -core & cache]
        groups.append(inside)
    groups.append(tuple(left))
    return tuple(group for group in groups if group)




def id_bits(view: HostView) -> tuple[int, int]:
    """Width of the cell ids and of the CPU ids at the low end of a key."""
    return len(view.cells), max(1, (view.dedicated | view.pool).bit_length())
