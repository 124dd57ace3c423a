# SPDX-License-Identifier: Apache-2.0
"""A topology worked out once for many decisions: masks instead of sets, positions instead of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from zun.topology.cells import HostTopology, NUMACell
from zun.topology.cost import PACK, SPREAD, Weights


@dataclass(frozen=True, slots=True, eq=False)
class CacheView:
    """The cores of one cell that share an L3 cache, or those that have none."""

    mask: int
    cores: tuple[int, ...]
    whole: tuple[int, ...]
    """The cores that can be had whole."""
    kept: int
    """What a container that has this L3 to itself holds: all of it that any container may get. 0 when the L3
    reaches beyond these cores, so that nobody can have it to himself."""
    price: int
    """CPUs of it that the shared pool must pay for."""


@dataclass(frozen=True, slots=True, eq=False)
class CpuView:
    """The CPUs of one cell."""

    dedicated: int
    """Mask of the CPUs a dedicated container may get."""
    pool: int
    """Mask of the shared pool while nothing is pinned."""
    everyone: int
    """Mask of the CPUs that any container may get."""
    exposed: bool
    """Whether the cell has CPUs outside our limits, so that nobody can have it to himself."""
    online: int
    caches: tuple[CacheView, ...]
    """At least one: a cell without L3 is one group."""
    cache_masks: tuple[int, ...]
    cores: tuple[int, ...]
    widest: int
    """Threads of the largest core."""
    pattern: int
    """The threads of a core, seen from its first, where all cores that have several have them alike; 1 when none has
    several; 0 for everything else."""
    steps: tuple[int, ...]
    """How far the siblings are from the first thread there."""
    wide_firsts: int
    """The first thread of each core that has several."""
    whole: tuple[int, ...]
    """The cores that can be had whole: every thread is for dedicated use and within our limits."""
    whole_firsts: int
    """The first thread of each of them."""
    whole_sizes: tuple[tuple[int, int], ...]
    """Their sizes, rising, and the first threads of those that have it."""


@dataclass(frozen=True, slots=True, eq=False)
class CellView(CpuView):
    """One cell that has CPUs."""

    index: int
    id: int
    base: int
    """The lowest CPU id."""
    model: CpuView
    """The same CPUs with ids from 0 up: one value for all cells of the host that differ in ``base`` only."""
    nodes: tuple[int, ...]
    """Where its memory comes from: the cell itself, then the memory-only nodes attached to it, nearest first."""
    spill: tuple[int, ...]
    """Where ``preferred`` memory goes next: every other node, as a position in the ``ways`` of the host."""
    apart: Mapping[int, int]
    """Distance there plus distance back, by node id."""


@dataclass(frozen=True, slots=True, eq=False)
class HostView:
    cells: tuple[CellView, ...]
    index: Mapping[int, int]
    """Position in ``cells`` by cell id."""
    distances: tuple[tuple[int, ...], ...]
    """Distance there plus distance back, by position."""
    ways: tuple[tuple[int, int], ...]
    """How far some cell is from a node (there plus back) and the node, nearest first, of equals those without CPUs."""
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
    pool_beyond: int
    """Of the host of which this is a part."""
    cpu_ratio: Fraction
    """Exact: a floor is a whole number of CPUs, and floats would sometimes round it the wrong way."""
    ram_ratio: Fraction
    weights: Weights


class _Limits(NamedTuple):
    """Masks of the CPUs of which something is true, of a host or of a cell."""

    dedicated: int
    pool: int
    everyone: int
    exposed: int
    exposed_l3: int
    exposed_nodes: int


_Cpus = tuple[tuple[int, ...], tuple[int, ...], _Limits]
"""All that a ``CpuView`` is made of: cores, L3 caches and what may be done with them."""


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
    ways = sorted({_way(cell, node) for cell in working for node in topology.cells if node is not cell})
    limits = _Limits(
        dedicated,
        pool,
        (topology.dedicated_cpus | topology.isolated_cpus | topology.pool_cpus).mask,
        topology.exposed.mask,
        topology.exposed_l3.mask,
        topology.exposed_nodes.mask,
    )
    models: dict[_Cpus, CpuView] = {}
    positions = {way: position for position, way in enumerate(ways)}
    cells = tuple(
        _cell_view(index, cell, limits, attached[cell.id], topology.cells, positions, models)
        for index, cell in enumerate(working)
    )
    distances = tuple(tuple(a.apart[b.id] for b in cells) for a in cells)
    return HostView(
        cells=cells,
        index={cell.id: cell.index for cell in cells},
        distances=distances,
        ways=tuple((distance, node) for distance, _, node in ways),
        peers=tuple(_peers(distances, position) for position in range(len(working))),
        small_mib={
            cell.id: max(0, cell.small_mib - topology.reserved_memory_mib.get(cell.id, 0))
            for cell in topology.cells
        },
        pages={cell.id: cell.pages for cell in topology.cells},
        with_memory=frozenset(cell.id for cell in topology.cells if cell.memory_mib or any(cell.pages.values())),
        dedicated=dedicated,
        pool=pool,
        pool_beyond=topology.pool_beyond.mask,
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
        distance, cell_id = min((_apart(cell, node), cell.id) for cell in near)
        attached[cell_id].append((distance, node.id))
    return {cell: tuple(node for _, node in sorted(nodes)) for cell, nodes in attached.items()}


_Way = tuple[int, bool, int]
"""How far a node is, whether it has CPUs, and its id."""


def _way(cell: NUMACell, node: NUMACell) -> _Way:
    return _apart(cell, node), bool(node.cpus), node.id


def _apart(a: NUMACell, b: NUMACell) -> int:
    return a.distance(b.id) + b.distance(a.id)


def _cell_view(
    index: int, cell: NUMACell, limits: _Limits, attached: tuple[int, ...], nodes: Sequence[NUMACell],
    positions: Mapping[_Way, int], models: dict[_Cpus, CpuView],
) -> CellView:
    """``models`` are those of the cells before; a new one is added."""
    online = cell.cpus.mask
    base = (online & -online).bit_length() - 1
    key = (
        tuple([core.mask >> base for core in cell.siblings]), tuple([cache.mask >> base for cache in cell.l3]),
        _Limits(*[(limit & online) >> base for limit in limits]),
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
        apart={node.id: _apart(cell, node) for node in nodes},
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


def _cpu_view(cores: tuple[int, ...], caches: tuple[int, ...], limits: _Limits) -> CpuView:
    dedicated, exposed = limits.dedicated, limits.exposed
    whole = tuple(core for core in cores if not core & ~dedicated and not core & exposed)
    pattern = _pattern(cores)
    groups = tuple(
        _cache_view(group, whole, limits, caches) for group in _by_cache(cores, caches)
    )
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
    """Sizes of units, rising, and the first CPUs of those that have it."""
    found: dict[int, int] = {}
    for size, first in zip(map(int.bit_count, units), firsts, strict=True):
        found[size] = found.get(size, 0) | first
    return tuple(sorted(found.items()))


def _cache_view(
    cores: tuple[int, ...], whole: tuple[int, ...], limits: _Limits, caches: tuple[int, ...]
) -> CacheView:
    mask = sum(cores)
    # A core between two caches is in one group only, so neither group is all of its cache.
    apart = any(cache & mask and cache & ~mask for cache in caches)
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


def low_ids(view: HostView, cells: Sequence[CellView]) -> list[int]:
    """What each cell takes off the low end of a key, so that of equal costs the lower ids are less."""
    width = len(view.cells)
    return [1 << (width - 1 - cell.index) for cell in cells]
