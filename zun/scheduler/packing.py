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
Only the numbers of containers know them: a device has no price beside CPUs and memory.

The present kinds say little about the next large request, so three small costs are added for each CPU that the request
takes: for the free capacity beside the CPU on its cells (``TIGHT``), for the free capacity of the whole host
(``WHOLE``), and for the distance between its cells (``FAR``). If only a few cells of the cloud are large, their upper
part counts more (``Rarity``), because a request for so much room has no other place. Of two hosts with equal losses
the fuller one is better. Fullness is measured in the resource that will run out first.

``effects`` computes what the rule needs for many hosts at once; ``zun.scheduler.kept_losses`` keeps the effects and
adds them up. The cells are estimated from amounts alone, so room here does not guarantee that ``plan`` finds a place.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zun.topology import HostTopology, PlacementRequest, Plan, Usage
from zun.topology.devices import Device
from zun.topology.holes import Hole, holes

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

COUNTS = 2
"""Steps of a count of containers from one power of two to the next."""

ODDS = 16
"""Steps of the logarithm of held by free. Example: near half full, a step is 1/64 of the capacity."""

SHARES = 64
"""Steps of a share from 0 to 1."""

WORTHS = 2**14
"""Steps of a worth from 0 to 1. Sums of worths are then exact in 32 bits up to a loss of 1024 containers, so that equal
hosts have equal losses."""

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
        if len(self.at) == 2:  # all cells have one size
            return free
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
    """Worth of one more fitting container of each kind, in steps of 1 / ``WORTHS``; all together are about 1."""
    several: float
    """The share of held capacity that containers on several cells hold, from 0 to 1."""
    cpu: float = 1.0
    mib: float = 0.0
    """Weights of a free CPU and a free MiB in the preference for fuller hosts."""
    rarity: Rarity = field(default=EVEN, compare=False)

    def value(self, hole: Hole) -> float:
        """Return the weight of the CPUs and memory of ``hole`` together."""
        return hole.cpus * self.cpu + hole.memory_mib * self.mib


def capacity(topology: HostTopology) -> Hole:
    """Return all holes of the empty host together."""
    return together(holes(topology, Usage()))


def together(free: Sequence[Hole]) -> Hole:
    """Return one hole with the sum of all CPUs and MiB."""
    return Hole(sum(hole.cpus for hole in free), sum(hole.memory_mib for hole in free))


def shapes(usage: Usage, devices: Mapping[str, Device] | None = None) -> Counter[Shape]:
    """Count the dedicated containers of each kind."""
    return Counter([shape_of(plan, devices) for _, plan in usage if plan.dedicated])


def shape_of(plan: Plan, devices: Mapping[str, Device] | None = None) -> Shape:
    """Return the kind of a dedicated container with this claim. Huge pages count as no memory.

    ``devices`` are the devices of the host by address. A device that the host lost counts as none.
    """
    shares = [share for share in plan.cells.values() if share.cpus]
    shape = _shape([Hole(len(share.cpus), 0 if share.pages else share.memory_mib) for share in shares])
    if not plan.devices or not devices:
        return shape
    held = Counter([kind_name(devices[one.address]) for one in plan.devices if one.address in devices])
    return shape._replace(devices=tuple(sorted(held.items())))


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


class Held:
    """The dedicated containers of a cloud, by kind, with the sums that ``usual`` needs."""

    def __init__(self, counts: Mapping[Shape, int] | None = None) -> None:
        self.cpus = self.mib = self.devices = 0
        self.several_cpus = self.several_mib = 0
        """The CPUs and MiB of containers on several cells."""
        self.version = 0
        """A number that changes with the rounded count of any kind."""
        self._kinds: dict[Shape, _Counted] = {}
        for shape, count in (counts or {}).items():
            self.add(shape, count)

    def add(self, shape: Shape, count: int) -> None:
        """Count ``count`` more containers of this kind; -1 is one fewer."""
        known = self._kinds.get(shape)
        if known is None:
            cells = shape.cells or 1
            known = _Counted(0, cells * shape.cpus, cells * shape.memory_mib, shape.device_count)
        self.cpus += count * known.cpus
        self.mib += count * known.mib
        self.devices += count * known.devices
        if shape.cells != 1:
            self.several_cpus += count * known.cpus
            self.several_mib += count * known.mib
        number = known.number + count
        self.version += rounded(number) != rounded(known.number)
        if number:
            self._kinds[shape] = known._replace(number=number)
        else:
            self._kinds.pop(shape, None)

    def number(self, shape: Shape) -> int:
        """Return the number of containers of this kind."""
        known = self._kinds.get(shape)
        return 0 if known is None else known.number

    def with_one(self, shape: Shape) -> Held:
        """Return the same containers and one more of this kind."""
        more = copy.copy(self)
        more._kinds = dict(self._kinds)
        more.add(shape, 1)
        return more

    def worths(self, power: float, cpu_per_mib: float, cpu_per_device: float) -> list[tuple[float, Shape]]:
        """Return the negative worth of each kind: its rounded number times this power of its size, in CPUs."""
        return [
            (-rounded(number) * (cpus + mib * cpu_per_mib + devices * cpu_per_device) ** power, shape)
            for shape, (number, cpus, mib, devices) in self._kinds.items()
        ]


class _Counted(NamedTuple):
    """The number of containers of a kind, and what each of them holds."""

    number: int
    cpus: int
    mib: int
    devices: int


@lru_cache(maxsize=100_000)
def rounded(number: int) -> float:
    """Return a count, rounded so that it seldom changes: above 8 to powers of 2 ** (1 / ``COUNTS``)."""
    return float(number) if number <= 8 else 2.0 ** (round(math.log2(number) * COUNTS) / COUNTS)


class Cloud(NamedTuple):
    """The CPUs, MiB and devices of all hosts, and the rarity of their cells."""

    cpus: int
    mib: int
    devices: int = 0
    rarity: Rarity = EVEN


class Fullness(NamedTuple):
    """The fullness of a cloud, rounded so that it seldom changes."""

    odds: tuple[int, ...]
    """For CPUs, memory and, if containers hold any, devices: the logarithm of held by free, in steps of 1 / ``ODDS``.
    """
    several: int
    """The share of held capacity that containers on several cells hold, in steps of 1 / ``SHARES``."""

    @classmethod
    def of(cls, held: Held, cloud: Cloud) -> Fullness:
        """Return the fullness of ``cloud`` if it holds ``held``."""
        used = [held.cpus / max(1, cloud.cpus), held.mib / max(1, cloud.mib)]
        if held.devices:
            used.append(held.devices / max(1, cloud.devices))
        odds = [round(math.log(max(share, 1e-9) / max(1 - share, 1e-9)) * ODDS) for share in used]
        cpu_per_mib = cloud.cpus / cloud.mib if cloud.mib else 0.0
        both = held.cpus + held.mib * cpu_per_mib
        several = (held.several_cpus + held.several_mib * cpu_per_mib) / both if both else 0.0
        return cls(tuple(odds), round(several * SHARES))


def kind_of_request(request: PlacementRequest, devices: tuple[tuple[str, int], ...] = ()) -> Shape:
    """Return the kind of containers that a dedicated request makes. ``devices`` are its devices by kind."""
    return _shape(parts_of(request))._replace(devices=devices)


def usual(held: Held, kind: Shape, cloud: Cloud, fullness: Fullness) -> Demand:
    """Return the demand: the ``USUAL_SHAPES`` kinds worth most, of ``held`` and one more container of ``kind``.

    The worth of a kind is its count times a power of its size; the power rises from ``EMPTY`` to ``FULL`` as the cloud
    fills. The demand follows from rounded numbers, so that it seldom changes. ``fullness`` is that of ``held`` in
    ``cloud``.
    """
    cpu_per_mib = cloud.cpus / cloud.mib if cloud.mib else 0.0
    cpu_per_device = cloud.cpus / cloud.devices if cloud.devices else 0.0
    power = EMPTY + (FULL - EMPTY) / (1 + math.exp(-max(fullness.odds) / ODDS))
    ranked = heapq.nsmallest(USUAL_SHAPES, held.with_one(kind).worths(power, cpu_per_mib, cpu_per_device))
    whole = sum([worth for worth, _ in ranked])
    cpu, mib = _prices([odds / ODDS for odds in fullness.odds[:2]])
    return Demand(
        tuple([shape for _, shape in ranked]),
        tuple([round(worth / whole * WORTHS) / WORTHS for worth, _ in ranked]),
        fullness.several / SHARES,
        cpu,
        mib * cpu_per_mib,
        cloud.rarity,
    )


def _prices(odds: Sequence[float]) -> list[float]:
    """Return the weights of a free CPU and of the memory per CPU; together they are 2.

    ``odds`` are the logarithms of held by free, of CPUs and memory. Devices have no weight: if they ran out
    first, they would take nearly all of the 2, and a request could break the largest cells of the cloud at no cost.
    """
    soon = [math.exp(each * SHARPNESS) for each in odds]
    return [2 * each / sum(soon) for each in soon]


def parts_of(request: PlacementRequest) -> tuple[Hole, ...]:
    """Return the CPUs and MiB of each part of a dedicated request, largest first. Huge pages count as no memory."""
    counted = request.ordinary_pages
    return tuple(sorted((Hole(int(cpus), mib if counted else 0) for cpus, mib in request.parts), reverse=True))


Distances = Sequence[Sequence[int]]
"""Distances there plus back, by positions of two cells."""

def cells_of(cpus: npt.NDArray[np.int32], mib: npt.NDArray[np.int64], far: Floats | None) -> Cells:
    """Return the cells of some hosts. ``cpus`` and ``mib`` are free amounts, -1 if the host has fewer cells."""
    free = np.empty((2, *cpus.shape))
    np.maximum(cpus, 0, out=free[0])
    np.minimum(np.maximum(mib, 0), MIB - 1, out=free[1])
    return Cells(free, far, cpus >= 0 if far is not None else None)


class Cells(NamedTuple):
    """The cells of some hosts."""

    free: Floats
    """CPUs and MiB: shape (2, cells, hosts). Example: ``free[0, 1, 7]`` are the CPUs on the second cell of host 7."""
    far: Floats | None
    """Distances between cells, there plus back: shape (cells, cells, hosts). None if the request is for one cell."""
    there: Bools | None
    """True if the host has this cell, because hosts may have different numbers of cells. None if ``far`` is."""

    @property
    def fullness(self) -> Floats:
        """Return a number for each cell that is smaller the fuller the cell is, by CPUs first."""
        fullness: Floats = self.free[0] * MIB
        fullness += self.free[1]
        return fullness


class Devices(NamedTuple):
    """The free devices of some hosts, by ``kind_name``, and what a request for devices takes of them."""

    free: Mapping[str, npt.NDArray[np.int32]]
    wanted: Sequence[tuple[Sequence[str], int]] = ()
    """For each request for devices the kinds that serve, those to take first at the front, and the number."""


class _TakenDevices(NamedTuple):
    """The free devices of the hosts by kind, before and after a request took some."""

    free: Mapping[str, Floats]
    left: Mapping[str, Floats]
    room: Bools

    def containers(self, kinds: Sequence[Shape], *, after: bool) -> Counts:
        """Return the number of containers of each kind that have enough devices: shape (kinds, hosts)."""
        free, none = self.left if after else self.free, np.zeros(len(self.room))
        return np.array(
            [np.min([free.get(name, none) // count for name, count in kind.devices], axis=0) for kind in kinds],
            np.float32,
        )


def _take_devices(devices: Devices, hosts: int) -> _TakenDevices:
    """Return what the request leaves of the devices of each host, if it takes the first kinds that serve."""
    free = {name: np.asarray(count, np.float64) for name, count in devices.free.items()}
    left = dict(free)
    room: Bools = np.ones(hosts, np.bool_)
    for names, count in devices.wanted:
        lacking = np.full(hosts, float(count))
        for name in names:
            given = np.minimum(lacking, left[name])
            left[name] = left[name] - given
            lacking = lacking - given
        room &= lacking == 0
    return _TakenDevices(free, left, room)


class _Taken(NamedTuple):
    """The cells that each host would give, with the amounts."""

    cells: Rows
    """The positions of the cells: shape (cells taken, hosts)."""
    given: Floats
    """CPUs and MiB: shape (2, cells taken, hosts), or one column if every host gives the same amounts."""
    room: Bools
    """True for hosts with room; the columns of other hosts have no meaning."""


class Effects(NamedTuple):
    """The amounts that a request takes from each host, one column per host. The demand gives their worth.

    In the columns of hosts without room, only ``apart`` has a meaning.
    """

    apart: Floats
    """The sum of the distances between the cells that give CPUs; infinite without room."""
    rare_cpus: Floats
    """The free CPUs of the cells that give, by ``Rarity``."""
    rare_mib: Floats
    free: Floats
    """The free CPUs and MiB of the whole host: shape (2, hosts)."""
    fewer: Counts
    """The containers of each kind that no longer fit: shape (kinds, hosts)."""

    def where(self, room: Bools, other: Effects) -> Effects:
        """Return these effects for the hosts with ``room``, and the ``other`` ones for all others."""
        return Effects(
            np.where(room, self.apart, other.apart),
            np.where(room, self.rare_cpus, other.rare_cpus),
            np.where(room, self.rare_mib, other.rare_mib),
            self.free,
            np.where(room, self.fewer, other.fewer),
        )


def effects(
    cells: Cells, request: PlacementRequest, kinds: Kinds, rarity: Rarity, devices: Devices | None = None
) -> Effects:
    """Return the effects of ``request`` on every host, and on the kinds of containers ``kinds``.

    ``devices`` is None if neither the request nor a kind has any.
    """
    parts = parts_of(request)
    given = None if devices is None else _take_devices(devices, cells.free.shape[-1])
    taken = _one(cells, parts[0]) if len(parts) == 1 else _near(cells, parts)
    found = _effects(cells, taken, given, kinds, rarity)
    if request.numa_affinity != "require" and not taken.room.all():
        other = _effects(cells, _over_cells(cells, parts), given, kinds, rarity)
        found = found.where(taken.room, other)
    return found


def _fits(cells: Cells, part: Hole) -> Bools:
    """Return the cells with room for the part. A cell that the host lacks has no CPU for it."""
    fits: Bools = cells.free[0] >= part.cpus
    fits &= cells.free[1] >= part.memory_mib
    return fits


def _one(cells: Cells, part: Hole) -> _Taken:
    """Return the fullest cell that has room for the only part."""
    fullness = np.where(_fits(cells, part), cells.fullness, np.inf)
    chosen = fullness.argmin(0)[np.newaxis]
    return _Taken(chosen, _amounts([part]), fullness.min(0) < np.inf)


def _amounts(parts: Sequence[Hole]) -> Floats:
    """Return the CPUs and MiB of the parts: shape (2, parts, 1)."""
    return np.array(parts, np.float64).T[:, :, np.newaxis]


def _near(cells: Cells, parts: Sequence[Hole]) -> _Taken:
    """Return a cell for each part: around some cell, so that they are nearest to each other and then fullest."""
    assert cells.far is not None and cells.there is not None
    _, depth, count = cells.free.shape
    fullness, hosts = cells.fullness, np.arange(count)
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
    return _Taken(best, _amounts(parts), np.isfinite(least_far))


def _over_cells(cells: Cells, parts: Sequence[Hole]) -> _Taken:
    """Return the whole request over the largest holes, with the memory beside the CPUs as far as it goes."""
    order = np.argsort(-cells.fullness, axis=0, kind="stable")
    wanted_cpus, wanted_mib = sum(part.cpus for part in parts), sum(part.memory_mib for part in parts)
    free_cpus, free_mib = (np.take_along_axis(free, order, 0) for free in cells.free)
    cpus = _from_first(wanted_cpus, free_cpus)
    beside = np.minimum(wanted_mib * cpus // wanted_cpus, free_mib)
    mib = beside + _from_first(wanted_mib - beside.sum(0), free_mib - beside)
    return _Taken(order, np.array((cpus, mib)), (free_cpus.sum(0) >= wanted_cpus) & (free_mib.sum(0) >= wanted_mib))


def _from_first(wanted: int | Floats, room: Floats) -> Floats:
    """Return the amount that each cell gives if each in turn gives all it can. Example: 5 of [3, 4, 1] is [3, 2, 0]."""
    given: Floats = np.clip(wanted - (room.cumsum(0) - room), 0, room)
    return given


class Kinds:
    """Kinds of containers, with their numbers as arrays."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.shapes = tuple(shapes)
        places = sorted(range(len(shapes)), key=lambda place: shapes[place].cells == 0)
        self.on_cells = _Sizes([shapes[place] for place in places if shapes[place].cells])
        self.anywhere = _Sizes([shapes[place] for place in places if not shapes[place].cells])
        self.order = np.argsort(places) if self.anywhere.count else None
        """The places of the kinds if those ``anywhere`` follow those ``on_cells``; None if all are on cells."""
        self.limited = [place for place, shape in enumerate(shapes) if shape.devices]
        """The places of the kinds with devices."""


class _Sizes:
    """The sizes of some kinds of containers. Axis -3 is kinds."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.count = len(shapes)
        parts = [(shape.cpus, shape.memory_mib or NO_MEMORY) for shape in shapes]
        self._parts: Counts = np.array(parts, np.float32).reshape(-1, 2).T[:, :, np.newaxis, np.newaxis]
        self._cells: Counts = np.array([shape.cells for shape in shapes], np.float32)[:, np.newaxis]
        self._others = np.maximum(self._cells - 1, 1)
        self._several: Counts = (self._cells > 1).astype(np.float32)
        self._any_several = any(shape.cells > 1 for shape in shapes)

    def fitting(self, free: Floats) -> Counts:
        """Return the number of parts of each kind that fit each of the amounts: shape (kinds, cells, hosts)."""
        amounts: Counts = np.maximum(free, _LEAST, dtype=np.float32)
        by_both = amounts[:, np.newaxis] / self._parts
        fitting: Counts = np.minimum(by_both[0], by_both[1], out=by_both[0])
        return np.floor(fitting, out=fitting)

    def together(self, parts: Counts) -> Counts:
        """Return the number of containers if each cell fits ``parts``; axis -2 is cells. Parts have a cell each."""
        total: Counts = parts.sum(-2)
        if self._any_several:
            beside = total - parts.max(-2) * self._several
            beside /= self._others
            total /= self._cells
            np.minimum(total, beside, out=total)
            np.floor(total, out=total)
        return total


_LEAST = np.array([0.0, SOME_MEMORY]).reshape(2, 1, 1)


def _effects(cells: Cells, taken: _Taken, devices: _TakenDevices | None, kinds: Kinds, rarity: Rarity) -> Effects:
    """Return the effects on every host if it gives ``taken`` and the devices that ``devices`` tells."""
    _, depth, count = cells.free.shape
    hosts = np.arange(count)
    free = cells.free[:, taken.cells, hosts]
    before_after = np.concatenate((cells.free, free - taken.given), axis=1)
    number = kinds.on_cells.count
    fitting = kinds.on_cells.fitting(before_after)
    parts = np.empty((2, number, depth, count), np.float32)
    parts[:] = fitting[:, :depth]
    parts[1][:, taken.cells, hosts] = fitting[:, depth:]
    counts, whole = kinds.on_cells.together(parts), cells.free.sum(1)
    if kinds.order is not None:
        rest = whole - np.broadcast_to(taken.given, free.shape).sum(1)
        anywhere = kinds.anywhere.fitting(np.stack((whole, rest), axis=1))
        counts = np.concatenate((counts, anywhere.swapaxes(0, 1)), axis=1)[:, kinds.order]
    room = taken.room
    if devices is not None:
        room = room & devices.room
        if kinds.limited:
            some = [kinds.shapes[place] for place in kinds.limited]
            limits = np.array((devices.containers(some, after=False), devices.containers(some, after=True)))
            counts[:, kinds.limited] = np.minimum(counts[:, kinds.limited], limits)
    rare_cpus, rare_mib = rarity.cpus.of(free[0]), rarity.mib.of(free[1])
    if len(taken.cells) > 1:  # some may give nothing
        used = (taken.given > 0).any(0)
        rare_cpus, rare_mib = used * rare_cpus, used * rare_mib
    far: Floats | float = 0.0
    if cells.far is not None:
        far = _distance(cells.far, taken.cells, np.broadcast_to(taken.given[0] > 0, free[0].shape))
    apart = np.where(room, far, np.inf)
    return Effects(apart, _added(rare_cpus), _added(rare_mib), whole, counts[0] - counts[1])


def _added(rows: Floats) -> Floats:
    """Return the sum of the rows, added in their order however many columns there are: equal hosts get equal sums."""
    total: Floats = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def _distance(far: Floats, cells: Rows, given: Bools) -> Floats:
    """Return the sum of the distances between every two of ``cells`` that give CPUs."""
    hosts = np.arange(cells.shape[1])
    total = np.zeros(len(hosts))
    for index in range(len(cells)):
        for other in range(index):
            total += far[cells[index], cells[other], hosts] * (given[index] & given[other])
    return total
