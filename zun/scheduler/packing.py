# SPDX-License-Identifier: Apache-2.0
"""The packing rule: the capacity that a dedicated container would strand on each host.

A *hole* is the free CPUs and memory of one cell. Free totals of a host say little: sixteen free CPUs in four holes of
four serve no request for eight, and free CPUs without free memory serve no request. So holes are measured by the
containers that still fit.

The *stranded capacity* of a request on a host is the drop in the number of *usual* containers that the host could
still take if containers of only one kind came, averaged over the kinds. A request strands little if the cell is left
with nothing, or with CPUs and memory in the proportion in which they are asked for. A request that breaks the last hole
for a large container strands much. Containers on several cells are usual kinds too, so cells stay free together as
well. The usual kinds are those that the cloud holds already: see ``usual``.

Devices limit the number of containers like CPUs and memory do: four free GPUs beside two free CPUs serve no kind with a
GPU and four CPUs. The drop in the number of these kinds, worth more the larger they are, is the *fragmentation
gradient* of "Beware of Fragmentation" (USENIX ATC 2023), for whole devices. Devices are counted by host, not by cell.

The present kinds say little about the next large request, so three small costs are added for each CPU that the request
takes: for the free capacity beside the CPU on its cells (``TIGHT``), for the free capacity of the whole host
(``WHOLE``), and for the distance between its cells (``FAR``). If only a few cells of the cloud are large, their upper
part counts more (``Rarity``), because a request for so much room has no other place. Of two hosts with equal losses
the fuller one is better. Fullness is measured in the resource that will run out first.

``losses`` computes the rule for all hosts at once. Its cells are estimated from amounts alone, so room here does not
guarantee that ``plan`` finds a place.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zun.topology import HostTopology, PlacementRequest, Usage
from zun.topology.devices import Device
from zun.topology.holes import Hole, holes
from zun.topology.host_topology import view_of

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Counts = npt.NDArray[np.float32]
"""Numbers of containers: exact on a host with less than 16 TiB, otherwise wrong by at most one in a billion."""

# The tuned constants: seven of the rule, and the number of kinds. The page doc/source/contributor/packing.rst tells how
# they were chosen.

TIGHT = 0.0001
"""Cost of each CPU of a request, in containers that no longer fit, for each CPU that is free on the chosen cells, by
``Rarity``."""

WHOLE = 0.02
"""Cost of each CPU of a request on an empty host, in proportion less on a host that is partly full."""

WHOLE_SEVERAL = 0.3
"""Added to ``WHOLE``, times the share of containers on several cells, because they need holes that are together."""

FAR = 0.0006
"""Cost of each CPU of a request for each unit of distance between its cells."""

EMPTY = -2.0
"""Worth of a kind in an empty cloud: this power of its size. While every kind has room, the containers that still fit
are best counted in small ones: they show whether CPUs and memory are used up together."""

FULL = 1.0
"""Worth of a kind in a full cloud: this power of its size. Small containers find a place anywhere, and large ones are
refused."""

SHARPNESS = 3.0
"""The power by which the resource that runs out sooner, CPUs or memory, counts more; see ``_prices``."""

USUAL_SHAPES = 16
"""Number of kinds of containers that are counted. Each kind costs time on each host."""

# Numbers that only make the arrays work.

MIB = 2.0**28
"""More MiB than any cell has. ``CPUs * MIB + MiB`` compares holes by CPUs first."""

MOST_CPUS = 2.0**12
"""More CPUs than any cell has. ``distance * MIB * MOST_CPUS`` compares cells by distance first."""

SOME_CAPACITY = 2.0**-200
"""Stands for the capacity of a host without any, as a divisor."""

SOME_MEMORY = 2.0**-10
"""MiB that a cell has at least."""

NO_MEMORY = 2.0**-40
"""MiB of a container that wants no memory: far less than ``SOME_MEMORY``, so that memory never limits its number."""


class Shape(NamedTuple):
    """A kind of container, which has these CPUs and MiB on each of ``cells`` cells.

    With ``cells`` 0 these are the totals, on any number of cells. Example: (2, 4, 512) has 8 CPUs and 1024 MiB in all.
    """

    cells: int
    cpus: int
    memory_mib: int
    devices: tuple[tuple[str, int], ...] = ()
    """Number of devices by ``kind_name``, in all."""

    @property
    def device_count(self) -> int:
        """Return the number of devices of all kinds."""
        return sum([count for _, count in self.devices])


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points. Between two points the line is straight."""

    at: Floats
    height: Floats

    def of(self, free: Floats) -> Floats:
        """Return the height of the line at each amount."""
        heights: Floats = np.interp(free, self.at, self.height)
        return heights


def by_rarity(cells: Mapping[int, int]) -> Line:
    """Return what a free amount of one cell counts if each unit counts by how few cells are large enough to have it.

    ``cells`` has the number of empty cells by size. Example: 30 cells have 8 CPUs, and 10 have 12. Of 12 free CPUs,
    8 count once, and the other 4 count four times: 24 in all. If all cells have one size, each unit counts once.
    """
    sizes = sorted(size for size in cells if size)
    large = np.cumsum([cells[size] for size in reversed(sizes)])[::-1]
    at = np.array([0.0, *sizes])
    return Line(at, np.concatenate(([0.0], np.cumsum(np.diff(at) * (large[:1] / large)))))


class Rarity(NamedTuple):
    """Weight of the free CPUs and of the free MiB of one cell, by amount; see ``by_rarity``."""

    cpus: Line
    mib: Line

    @classmethod
    def of_cells(cls, cells: Mapping[Hole, int]) -> Rarity:
        """Return the rarity in a cloud with so many empty cells of each size."""
        cpus: Counter[int] = Counter()
        mib: Counter[int] = Counter()
        for size, count in cells.items():
            cpus[size.cpus] += count
            mib[size.memory_mib] += count
        return cls(by_rarity(cpus), by_rarity(mib))


EVEN = Rarity.of_cells({Hole(int(MIB), int(MIB)): 1})
"""Each unit counts once."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The kinds of containers that are expected next."""

    shapes: tuple[Shape, ...]
    worths: tuple[float, ...]
    """Worth of one more fitting container of each kind; all together are 1."""
    several: float
    """The share of held capacity that containers on several cells hold, from 0 to 1."""
    cpu: float = 1.0
    mib: float = 0.0
    """Weights of a free CPU and a free MiB in the preference for fuller hosts."""
    device: float = 0.0
    """The same of a free device; 0 if no container has any."""
    rarity: Rarity = field(default=EVEN, compare=False)

    def value(self, hole: Hole, devices: int = 0) -> float:
        """Return the weight of the CPUs and memory of ``hole``, and of so many devices, together."""
        return hole.cpus * self.cpu + hole.memory_mib * self.mib + devices * self.device


def capacity(topology: HostTopology) -> Hole:
    """Return all holes of the empty host together."""
    return together(holes(topology, Usage()))


def together(free: Sequence[Hole]) -> Hole:
    """Return one hole with the sum of all CPUs and MiB."""
    return Hole(sum(hole.cpus for hole in free), sum(hole.memory_mib for hole in free))


def shapes(usage: Usage, devices: Mapping[str, Device] | None = None) -> Counter[Shape]:
    """Count the dedicated containers of each kind. Huge pages count as no memory.

    ``devices`` are the devices of the host by address. A device that the host lost counts as none.
    """
    found: Counter[Shape] = Counter()
    for _, plan in usage:
        if plan.dedicated:
            shares = [share for share in plan.cells.values() if share.cpus]
            shape = _shape([Hole(len(share.cpus), 0 if share.pages else share.memory_mib) for share in shares])
            if plan.devices and devices:
                held = Counter([kind_name(devices[one.address]) for one in plan.devices if one.address in devices])
                shape = shape._replace(devices=tuple(sorted(held.items())))
            found[shape] += 1
    return found


@lru_cache(maxsize=10_000)
def kind_name(device: Device) -> str:
    """Return a name that devices share if no request tells them apart, but for the cell. Example: ``10de:2684 ...``."""
    return (
        f"{device.vendor_id}:{device.product_id} {device.type} {device.resource_class or '-'} "
        f"{','.join(device.traits) or '-'} {'-' if device.cell is None else 'near'}"
        f"{'' if device.physical_network is None else f' {device.physical_network}'}"
        f"{' shared' if device.shared > 1 else ''}"
    )


def _shape(parts: Sequence[Hole]) -> Shape:
    if len(set(parts)) == 1:
        return Shape(len(parts), *parts[0])
    return Shape(0, sum(part.cpus for part in parts), sum(part.memory_mib for part in parts))


def usual(
    held: Mapping[Shape, int],
    request: PlacementRequest,
    cpus: int,
    memory_mib: int,
    devices: int = 0,
    wanted_devices: tuple[tuple[str, int], ...] = (),
    rarity: Rarity = EVEN,
) -> Demand:
    """Return the demand: the ``USUAL_SHAPES`` kinds that are worth most, of ``held`` and the kind of ``request``.

    ``cpus``, ``memory_mib`` and ``devices`` are the capacity of all hosts together. The worth of a kind is its count
    times a power of its size; the power rises from ``EMPTY`` to ``FULL`` as the cloud fills. ``wanted_devices`` are the
    devices of the request by kind. ``rarity`` is that of the cells of all hosts.
    """
    wanted = _shape(parts_of(request))
    if wanted_devices:
        wanted = wanted._replace(devices=wanted_devices)
    cpu_per_mib = cpus / memory_mib if memory_mib else 0.0
    cpu_per_device = cpus / devices if devices else 0.0
    counts = dict(held)
    counts[wanted] = counts.get(wanted, 0) + 1
    held_cpus = held_mib = held_devices = several_cpus = several_mib = 0
    sizes: dict[Shape, float] = {}
    for shape, count in counts.items():
        all_cpus, all_mib = count * (shape.cells or 1) * shape.cpus, count * (shape.cells or 1) * shape.memory_mib
        held_cpus += all_cpus
        held_mib += all_mib
        if shape.cells != 1:
            several_cpus += all_cpus
            several_mib += all_mib
        sizes[shape] = (shape.cells or 1) * (shape.cpus + shape.memory_mib * cpu_per_mib)
        if shape.devices:
            held_devices += count * shape.device_count
            sizes[shape] += shape.device_count * cpu_per_device
    used = [held_cpus / max(1, cpus), held_mib / max(1, memory_mib)]
    if held_devices:
        used.append(held_devices / max(1, devices))
    power = EMPTY + (FULL - EMPTY) * min(1.0, max(used))
    worths = {shape: count * sizes[shape] ** power for shape, count in counts.items()}
    ranked = heapq.nsmallest(USUAL_SHAPES, ((-worth, shape) for shape, worth in worths.items()))
    whole = sum(worth for worth, _ in ranked)
    cpu, mib, *device = _prices(used)
    return Demand(
        tuple(shape for _, shape in ranked),
        tuple(worth / whole for worth, _ in ranked),
        (several_cpus + several_mib * cpu_per_mib) / (held_cpus + held_mib * cpu_per_mib),
        cpu,
        mib * cpu_per_mib,
        device[0] * cpu_per_device if device else 0.0,
        rarity,
    )


def _prices(used: Sequence[float]) -> list[float]:
    """Return the weights of a free CPU, of the memory per CPU and of the devices per CPU; together they are 2.

    ``used`` are the shares that are held of CPUs, memory and, if any are, devices: from 0 to 1.
    """
    soon = [(max(share, 1e-9) / max(1 - share, 1e-9)) ** SHARPNESS for share in used]
    return [2 * each / sum(soon) for each in soon]


def parts_of(request: PlacementRequest) -> tuple[Hole, ...]:
    """Return the CPUs and MiB of each part of a dedicated request, largest first. Huge pages count as no memory."""
    counted = request.ordinary_pages
    return tuple(sorted((Hole(int(cpus), mib if counted else 0) for cpus, mib in request.parts), reverse=True))


Distances = Sequence[Sequence[int]]
"""Distances there plus back, by positions of two cells."""

Machine = tuple[Distances, Hole]
"""The distances between the cells of a host, and their CPUs and MiB together."""


def machine_of(topology: HostTopology) -> Machine:
    """Return the machine that ``losses`` needs to know; most clouds have a handful of different ones."""
    return view_of(topology).distances, capacity(topology)


def cells_of(
    cpus: npt.NDArray[np.int32], mib: npt.NDArray[np.int64], machines: Sequence[Machine], codes: Rows, *, apart: bool
) -> Cells:
    """Return the cells of all hosts, for ``losses``.

    ``cpus`` and ``mib`` are free amounts, shape (cells, hosts), -1 if the host has fewer cells. ``codes`` has the
    position in ``machines`` for each host. ``apart`` adds the distances, which requests on one cell do not need.
    """
    return Cells(
        np.maximum(cpus, 0).astype(np.float64),
        np.minimum(np.maximum(mib, 0), MIB - 1).astype(np.float64),
        cpus >= 0,
        np.array([machine[1] for machine in machines], np.float64)[codes].T,
        _far(machines, len(cpus), codes) if apart else None,
    )


def _far(known: Sequence[Machine], depth: int, machines: Rows) -> Floats:
    """Return the distances between cells, there plus back: shape (cells, cells, hosts)."""
    far = np.zeros((len(known), depth, depth))
    for code, (distances, _) in enumerate(known):
        count = min(depth, len(distances))
        far[code, :count, :count] = [row[:count] for row in distances[:count]]
    return far.transpose(1, 2, 0)[:, :, machines]


class Cells(NamedTuple):
    """The free CPUs and MiB on the cells of all hosts: shape (cells, hosts). Example: ``cpus[1, 7]`` is of host 7."""

    cpus: Floats
    mib: Floats
    there: Bools
    """True if the host has this cell. Hosts may have different numbers of cells."""
    capacity: Floats
    """CPUs and MiB of the empty host: shape (2, hosts)."""
    far: Floats | None
    """Distances between cells, there plus back: shape (cells, cells, hosts). None if the request is for one cell."""


class Devices(NamedTuple):
    """The devices of all hosts, by ``kind_name``, and what a request for devices takes of them."""

    free: Mapping[str, npt.NDArray[np.int32]]
    capacity: Floats
    """The devices of each host, free or not."""
    wanted: Sequence[tuple[Sequence[str], int]] = ()
    """For each request for devices the kinds that serve, those to take first at the front, and the number."""


class _TakenDevices(NamedTuple):
    """The free devices of all hosts by kind, before and after a request took some."""

    free: Mapping[str, Floats]
    left: Mapping[str, Floats]
    capacity: Floats
    room: Bools

    @property
    def all_free(self) -> Floats:
        """The number of free devices of each host, before the request."""
        return sum(self.free.values(), np.zeros(len(self.capacity)))

    def containers(self, kinds: Sequence[Shape], *, after: bool) -> Counts:
        """Return the number of containers of each kind that have enough devices: shape (kinds, hosts)."""
        free, none = self.left if after else self.free, np.zeros(len(self.capacity))
        return np.array(
            [np.min([free.get(name, none) // count for name, count in kind.devices], axis=0) for kind in kinds],
            np.float32,
        )


def _take_devices(devices: Devices) -> _TakenDevices:
    """Return what the request leaves of the devices of each host, if it takes the first kinds that serve."""
    free = {name: np.asarray(count, np.float64) for name, count in devices.free.items()}
    left = dict(free)
    room: Bools = np.ones(len(devices.capacity), np.bool_)
    for names, count in devices.wanted:
        lacking = np.full(len(devices.capacity), float(count))
        for name in names:
            given = np.minimum(lacking, left[name])
            left[name] = left[name] - given
            lacking = lacking - given
        room &= lacking == 0
    return _TakenDevices(free, left, devices.capacity, room)


class _Taken(NamedTuple):
    """The cells that each host would give, with the amounts: shape (cells taken, hosts).

    ``cpus`` and ``mib`` have one column only if every host gives the same amounts.
    """

    cells: Rows
    cpus: Floats
    mib: Floats
    room: Bools
    """True for hosts with room; the columns of other hosts have no meaning."""


def losses(cells: Cells, request: PlacementRequest, demand: Demand, devices: Devices | None = None) -> Floats:
    """Return the stranded capacity of ``request`` on every host, in containers that no longer fit.

    The loss of a host without room is infinite. ``devices`` is None if neither the request nor a usual kind has any.
    """
    parts = parts_of(request)
    taken = _one(cells, parts[0]) if len(parts) == 1 else _near(cells, parts)
    given = None if devices is None else _take_devices(devices)
    size = demand.value(together(parts), 0 if devices is None else sum([count for _, count in devices.wanted]))
    losses = _loss(cells, taken, given, demand, size)
    if request.numa_affinity != "require" and not taken.room.all():
        losses = np.where(taken.room, losses, _loss(cells, _over_cells(cells, parts), given, demand, size))
    return losses if given is None else np.where(given.room, losses, np.inf)


def _fits(cells: Cells, part: Hole) -> Bools:
    return (cells.cpus >= part.cpus) & (cells.mib >= part.memory_mib) & cells.there


def _one(cells: Cells, part: Hole) -> _Taken:
    """Return the fullest cell that has room for the only part."""
    fullness = np.where(_fits(cells, part), cells.cpus * MIB + cells.mib, np.inf)
    chosen = fullness.argmin(0)[np.newaxis]
    room: Bools = np.isfinite(fullness.min(0))
    return _Taken(chosen, *_amounts([part]), room)


def _amounts(parts: Sequence[Hole]) -> tuple[Floats, Floats]:
    return (
        np.array([[part.cpus] for part in parts], np.float64),
        np.array([[part.memory_mib] for part in parts], np.float64),
    )


def _near(cells: Cells, parts: Sequence[Hole]) -> _Taken:
    """Return a cell for each part: around some cell, so that they are nearest to each other and then fullest."""
    assert cells.far is not None
    depth, count = cells.cpus.shape
    fullness, hosts = cells.cpus * MIB + cells.mib, np.arange(count)
    fits = {part: _fits(cells, part) for part in parts}
    best = np.zeros((len(parts), count), np.intp)
    least_far, least_full = np.full(count, np.inf), np.full(count, np.inf)
    alike = len(parts) == depth and len(fits) == 1  # every anchor then takes all cells
    for anchor in range(1 if alike else depth):
        key = cells.far[anchor] * (MIB * MOST_CPUS) + fullness
        room: Bools = cells.there[anchor].copy()
        chosen: list[Rows] = []
        for part in parts:
            usable = np.where(fits[part], key, np.inf)
            for cell in chosen:
                usable[cell, hosts] = np.inf
            chosen.append(usable.argmin(0))
            room &= np.isfinite(usable).any(0)
        around = np.array(chosen)
        far = np.where(room, _distance(cells.far, around, np.ones_like(around, np.bool_)), np.inf)
        full = fullness[around, hosts].sum(0)
        better = (far < least_far) | ((far == least_far) & room & (full < least_full))
        best = np.where(better, around, best)
        least_far, least_full = np.where(better, far, least_far), np.where(better, full, least_full)
    return _Taken(best, *_amounts(parts), np.isfinite(least_far))


def _over_cells(cells: Cells, parts: Sequence[Hole]) -> _Taken:
    """Return the whole request over the largest holes, with the memory beside the CPUs as far as it goes."""
    order = np.argsort(-(cells.cpus * MIB + cells.mib), axis=0, kind="stable")
    wanted_cpus, wanted_mib = sum(part.cpus for part in parts), sum(part.memory_mib for part in parts)
    free_cpus, free_mib = (np.take_along_axis(free, order, 0) for free in (cells.cpus, cells.mib))
    cpus = _from_first(wanted_cpus, free_cpus)
    beside = np.minimum(wanted_mib * cpus // wanted_cpus, free_mib)
    mib = beside + _from_first(wanted_mib - beside.sum(0), free_mib - beside)
    return _Taken(order, cpus, mib, (free_cpus.sum(0) >= wanted_cpus) & (free_mib.sum(0) >= wanted_mib))


def _from_first(wanted: int | Floats, room: Floats) -> Floats:
    """Return the amount that each cell gives if each in turn gives all it can. Example: 5 of [3, 4, 1] is [3, 2, 0]."""
    given: Floats = np.clip(wanted - (room.cumsum(0) - room), 0, room)
    return given


def _loss(cells: Cells, taken: _Taken, devices: _TakenDevices | None, demand: Demand, size: float) -> Floats:
    """Return the loss of every host if it gives ``taken`` and the devices that ``devices`` tells.

    ``size`` is the value of the request in ``demand``.
    """
    hosts = np.arange(cells.cpus.shape[1])
    cpus, mib = cells.cpus[taken.cells, hosts], cells.mib[taken.cells, hosts]
    after_cpus, after_mib = cpus - taken.cpus, mib - taken.mib
    all_cpus, all_mib = cells.cpus.sum(0), cells.mib.sum(0)
    used = (taken.cpus > 0) | (taken.mib > 0)
    rare = demand.cpu * demand.rarity.cpus.of(cpus) + demand.mib * demand.rarity.mib.of(mib)
    loss: Floats = TIGHT * (used * rare).sum(0)
    at_most = demand.cpu * cells.capacity[0] + demand.mib * cells.capacity[1]
    all_free = demand.cpu * all_cpus + demand.mib * all_mib
    if devices is not None:
        at_most = at_most + demand.device * devices.capacity
        all_free = all_free + demand.device * devices.all_free
    whole = all_free / np.maximum(at_most, SOME_CAPACITY)
    loss += (WHOLE + WHOLE_SEVERAL * demand.several) * whole
    if cells.far is not None and len(taken.cells) > 1:
        loss += FAR * _distance(cells.far, taken.cells, np.broadcast_to(taken.cpus > 0, cpus.shape))
    loss *= size
    worths, groups = np.array(demand.worths), [(shape.cells, bool(shape.devices)) for shape in demand.shapes]
    for number, limited in set(groups):
        which = [index for index, each in enumerate(groups) if each == (number, limited)]
        kinds = [demand.shapes[index] for index in which]
        before: Counts | None = None
        if number == 1:
            both = _times(kinds, np.stack((cpus, after_cpus)), np.stack((mib, after_mib)))
            fewer = (both[:, 0] - both[:, 1]).sum(1)
            if limited:
                before = _times(kinds, cells.cpus, cells.mib).sum(1)
        elif number == 0:
            rest_cpus = all_cpus - np.broadcast_to(taken.cpus, cpus.shape).sum(0)
            rest_mib = all_mib - np.broadcast_to(taken.mib, mib.shape).sum(0)
            both = _times(kinds, np.stack((all_cpus, rest_cpus)), np.stack((all_mib, rest_mib)))
            before, fewer = both[:, 0], both[:, 0] - both[:, 1]
        else:
            each = _times(kinds, cells.cpus, cells.mib)
            after = each.copy()
            after[:, taken.cells, hosts] = _times(kinds, after_cpus, after_mib)
            before = _sets(each, number)
            fewer = before - _sets(after, number)
        if limited and devices is not None and before is not None:
            at_first = np.minimum(before, devices.containers(kinds, after=False))
            fewer = at_first - np.minimum(before - fewer, devices.containers(kinds, after=True))
        loss += worths[which] @ fewer
    return np.where(taken.room, loss, np.inf)


def _times(kinds: Sequence[Shape], cpus: Floats, mib: Floats) -> Counts:
    """Return the number of containers of each kind that fit the amounts, with one more axis in front for the kinds."""
    shape = (len(kinds),) + (1,) * cpus.ndim
    each_cpus = np.array([kind.cpus for kind in kinds], np.float32).reshape(shape)
    each_mib = np.array([kind.memory_mib or NO_MEMORY for kind in kinds], np.float32).reshape(shape)
    by_cpus: Counts = cpus.astype(np.float32) / each_cpus
    by_mib: Counts = np.maximum(mib, SOME_MEMORY).astype(np.float32) / each_mib
    return np.floor(np.minimum(by_cpus, by_mib, out=by_cpus), out=by_cpus)


def _sets(counts: Counts, number: int) -> Counts:
    """Return the number of containers on ``number`` cells if each cell fits ``counts`` parts; axis 1 is cells."""
    total = counts.sum(1)
    apart: Counts = np.minimum(total / np.float32(number), (total - counts.max(1)) / np.float32(number - 1))
    return np.floor(apart, out=apart)


def _distance(far: Floats, cells: Rows, given: Bools) -> Floats:
    """Return the sum of the distances between every two of ``cells`` that give CPUs."""
    hosts = np.arange(cells.shape[1])
    total = np.zeros(len(hosts))
    for index in range(len(cells)):
        for other in range(index):
            total += far[cells[index], cells[other], hosts] * (given[index] & given[other])
    return total
