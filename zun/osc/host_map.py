# SPDX-License-Identifier: Apache-2.0
"""Show the CPUs of a host as rows of a table, and as a picture core by core.

Each function takes the document that ``GET /v1/hosts/{host}/topology`` returns.
"""

import dataclasses
import enum
import itertools
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zun.osc.explanation import count
from zun.topology import CPUPolicy, CpuSet
from zun.topology.cpuset import union


class Mark(enum.StrEnum):
    """The mark of one CPU in the picture. A dedicated CPU shows the letter of its container instead."""

    FREE = "."
    SHARED = "~"
    WITHHELD = "-"
    RESERVED = "#"
    OFFLINE = "x"


#: The holder of a claim whose container the API does not tell.
OTHERS = "another project"

MEANINGS = {
    Mark.FREE: "free",
    Mark.SHARED: "shared pool, in use",
    Mark.WITHHELD: "kept idle for a container",
    Mark.RESERVED: "reserved for the host",
    Mark.OFFLINE: "offline",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one container on the host. ``letter`` is empty for a shared container.

    A mixed container has two: its own CPUs under a letter, and all CPUs where it runs without one.
    """

    letter: str
    container: str
    name: str
    cpus: CpuSet
    withheld: CpuSet
    mems: str
    memory_mib: int
    members: tuple[tuple[str, CpuSet], ...] = ()
    """Names of the containers of a capsule, each with its CPUs."""

    @property
    def title(self) -> str:
        """Return the container's name, or its uuid if the name is empty, or that it is one of another project."""
        return self.name or self.container or OTHERS


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One cell. Sizes are in MiB. ``pages`` counts pages by their size in KiB, for example ``{"2048": 512}``."""

    id: int
    cpus: CpuSet
    cores: tuple[CpuSet, ...]
    l3: tuple[CpuSet, ...]
    memory_mib: int
    used_mib: int
    reserved_mib: int
    pages: Mapping[str, int]
    distances: Mapping[str, int]

    @property
    def free_mib(self) -> int:
        """Return the MiB for further containers, at least 0."""
        return max(0, self.memory_mib - self.used_mib - self.reserved_mib)


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One device that the host offers; ``cell`` is None if it is unknown where the device is."""

    address: str
    cell: int | None
    words: str
    links: frozenset[str] = frozenset()
    """Addresses of the devices that a GPU link joins to this one."""
    nearest: tuple[int, ...] = ()
    """The cells with CPUs that are nearest."""
    switch: str = ""
    memory_node: int | None = None
    """The node that is the device's own memory."""
    type: str = ""
    resource_class: str = ""
    held: str = ""
    """Number of containers that have the device, and that may: ``3 of 4``. Empty if the server does not tell."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostMap:
    """The whole host: its cells, its offline and reserved CPUs, and its claims."""

    name: str
    generation: int | None
    cells: tuple[Cell, ...]
    offline: CpuSet
    reserved: CpuSet
    pool: CpuSet
    dedicated: tuple[Claim, ...]
    shared: tuple[Claim, ...]
    devices: tuple[Device, ...] = ()
    foreign: Mapping[int | None, str] = dataclasses.field(default_factory=dict)
    """The amounts of other services in words, by cell id, and None for the disk."""

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "HostMap":
        """Read the API's document. Containers get letters in the order of their lowest CPU."""
        claims = document.get("claims", ())
        dedicated = sorted(
            (_own(claim) for claim in claims if claim["cpu_policy"] != CPUPolicy.SHARED),
            key=lambda claim: (list(CpuSet(claim["cpuset_cpus"]))[:1], claim["container"] or ""),
        )
        shared = [claim for claim in claims if claim["cpu_policy"] != CPUPolicy.DEDICATED]
        return cls(
            name=document["host"],
            generation=document.get("generation"),
            cells=tuple(_cell(entry) for entry in sorted(document["cells"], key=lambda entry: entry["id"])),
            offline=CpuSet(document.get("offline", "")),
            reserved=CpuSet(document.get("reserved", "")),
            pool=CpuSet(document.get("shared", "")),
            dedicated=tuple(_claim(letter, claim) for letter, claim in zip(_letters(), dedicated, strict=False)),
            shared=tuple(_claim("", claim) for claim in shared),
            devices=tuple(_device(entry) for entry in document.get("devices", ())),
            foreign={entry["cell"]: _foreign(entry) for entry in document.get("foreign", ())},
        )

    @property
    def taken(self) -> CpuSet:
        """Return the CPUs of dedicated containers, with the siblings that are kept idle for them."""
        return union(claim.cpus | claim.withheld for claim in self.dedicated)

    def free_cpus(self, cell: Cell) -> CpuSet:
        """Return the CPUs of ``cell`` that are online, not reserved and held by no dedicated container."""
        return cell.cpus - self.offline - self.reserved - self.taken

    def marks(self) -> dict[int, str]:
        """Return the mark of each CPU. Offline and reserved win over the user of the CPU."""
        drawn = union(cpus for cell in self.cells for cpus in (cell.cpus, *cell.cores))
        layers: list[tuple[CpuSet, str]] = [
            (drawn, Mark.FREE),
            (self.pool & union(claim.cpus for claim in self.shared), Mark.SHARED),
            *((claim.withheld, Mark.WITHHELD) for claim in self.dedicated),
            *((claim.cpus, claim.letter) for claim in self.dedicated),
            (self.reserved, Mark.RESERVED),
            (self.offline, Mark.OFFLINE),
        ]
        return {cpu: mark for cpus, mark in layers for cpu in cpus & drawn}


def _cell(entry: Mapping[str, Any]) -> Cell:
    return Cell(
        id=entry["id"],
        cpus=CpuSet(entry["cpus"]),
        cores=tuple(CpuSet(core) for core in entry["cores"]),
        l3=tuple(CpuSet(group) for group in entry.get("l3", ())),
        memory_mib=entry["memory_mib"],
        used_mib=entry.get("memory_used_mib", 0),
        reserved_mib=entry.get("memory_reserved_mib", 0),
        pages=entry.get("pages", {}),
        distances=entry.get("distances", {}),
    )


def _own(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claim with the container's own CPUs only: a server names those of a mixed container from 1.46 on."""
    return {**claim, "cpuset_cpus": claim.get("cpuset_dedicated", claim["cpuset_cpus"])}


def _device(entry: Mapping[str, Any]) -> Device:
    cell, nearest, memory_node = entry["cell"], entry.get("nearest_cells", ()), entry.get("memory_node")
    kind, switch = entry["type"].removeprefix("type-"), entry["switch"] or ""
    held = f"{entry['holders']} of {entry['shared']}" if "shared" in entry else ""
    told = (
        entry["vendor_id"] and f"{entry['vendor_id']}:{entry['product_id']}",
        entry["class_id"] and f"class {entry['class_id']}",
        entry["resource_class"],
        kind,
        switch and f"switch {switch}",
        memory_node is not None and f"memory node {memory_node}",
        nearest not in ((), [], [cell]) and f"nearest to CPUs of {_cells(nearest)}",
        entry.get("shared", 1) > 1 and f"{held} shares held",
        entry["physical_network"],
        *entry["interfaces"],
        *entry["nodes"],
    )
    return Device(
        address=entry["address"],
        cell=cell,
        words=", ".join(filter(None, told)),
        links=frozenset(entry.get("links", ())),
        nearest=tuple(nearest),
        switch=switch,
        memory_node=memory_node,
        type=kind,
        resource_class=entry["resource_class"] or "",
        held=held,
    )


def _cells(ids: Sequence[int]) -> str:
    return f"{'cell' if len(ids) == 1 else 'cells'} {', '.join(map(str, ids))}"


def _claim(letter: str, entry: Mapping[str, Any]) -> Claim:
    return Claim(
        letter=letter,
        container=entry["container"] or "",
        name=entry.get("name") or "",
        cpus=CpuSet(entry["cpuset_cpus"]),
        withheld=CpuSet(entry.get("withheld") or ""),
        mems=entry.get("cpuset_mems") or "",
        memory_mib=sum((entry.get("memory_mib") or {}).values()),
        members=tuple((each["name"], CpuSet(each["cpuset_cpus"])) for each in entry.get("members") or ()),
    )


def _letters() -> Iterator[str]:
    """Yield A to Z, then AA to ZZ, and so on."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_uppercase, repeat=length):
            yield "".join(letters)


# The table.

COLUMNS = (
    "Cell",
    "CPUs",
    "Cores",
    "L3",
    "Memory MiB",
    "Used MiB",
    "Free MiB",
    "Huge Pages",
    "Free CPUs",
    "Distances",
    "Held By",
)


def table(host: HostMap) -> list[tuple[Any, ...]]:
    """Return one row for each cell, in the order of COLUMNS."""
    return [
        (
            cell.id,
            str(cell.cpus),
            " ".join(map(str, cell.cores)),
            " ".join(map(str, cell.l3)),
            cell.memory_mib,
            cell.used_mib,
            cell.free_mib,
            _pages(cell.pages),
            str(host.free_cpus(cell)),
            " ".join(f"{node}:{distance}" for node, distance in _by_number(cell.distances)),
            "; ".join(_holders(host, cell)),
        )
        for cell in host.cells
    ]


DEVICE_COLUMNS = (
    "Address", "Type", "Resource Class", "Held", "Cell", "Nearest Cells", "Switch", "Memory Node", "Links",
)  # fmt: skip


def device_table(host: HostMap) -> list[tuple[Any, ...]]:
    """Return one row for each device, in the order of DEVICE_COLUMNS. What is unknown or missing is empty."""
    return [
        (
            device.address,
            device.type,
            device.resource_class,
            device.held,
            "" if device.cell is None else device.cell,
            " ".join(map(str, device.nearest)),
            device.switch,
            "" if device.memory_node is None else device.memory_node,
            " ".join(sorted(device.links)),
        )
        for device in host.devices
    ]


def _holders(host: HostMap, cell: Cell) -> Iterator[str]:
    """Yield the containers that hold CPUs or memory of ``cell``: dedicated ones with their CPUs, then shared ones."""
    for claim in host.dedicated:
        cpus = (claim.cpus | claim.withheld) & cell.cpus
        if cpus:
            yield f"{claim.title} {cpus}"
        elif cell.id in CpuSet(claim.mems):
            yield f"{claim.title} (memory)"
    for claim in host.shared:
        if claim.cpus & cell.cpus or cell.id in CpuSet(claim.mems):
            yield f"{claim.title} (shared)"


def _pages(pages: Mapping[str, int]) -> str:
    """Return the pages of each size, for example ``512 x 2048 KiB``."""
    return ", ".join(f"{count} x {size} KiB" for size, count in _by_number(pages) if count)


def _by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: int(item[0]))


# The picture.

# Colours that are readable on dark and light backgrounds. Containers take them in turn.
_PALETTE = (32, 33, 34, 35, 36, 91, 92, 94, 95, 96)
_MARK_CODES: Mapping[str, str] = {
    Mark.FREE: "2",
    Mark.SHARED: "36",
    Mark.WITHHELD: "2",
    Mark.RESERVED: "31",
    Mark.OFFLINE: "2",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Border:
    """The characters of a box: line, bar, and the corners and joints of top, middle and bottom."""

    line: str
    bar: str
    top: tuple[str, str, str]
    bottom: tuple[str, str, str]


BOX = Border("─", "│", ("┌", "┬", "┐"), ("└", "┴", "┘"))
ASCII = Border("-", "|", ("+", "+", "+"), ("+", "+", "+"))


def picture(host: HostMap, *, width: int = 80, border: Border = BOX, colour: bool = False) -> list[str]:
    """Return the lines of a picture with one box for each core, whose hardware threads are one below the other.

    The boxes of one L3 group stand side by side and wrap at ``width`` columns.
    """
    marks = host.marks()
    codes = dict(_MARK_CODES)
    for claim, code in zip(host.dedicated, itertools.cycle(_PALETTE), strict=False):
        codes[claim.letter] = f"1;{code}"
    paint = _Paint(codes if colour else {})
    generation = "" if host.generation is None else f", generation {host.generation}"
    lines = [f"{host.name}: {count(len(host.cells), 'cell')}{generation}"]
    for cell in host.cells:
        lines += ["", *_cell_lines(cell, marks, width, border, paint)]
        lines += [*_foreign_lines(host, cell.id), *_device_lines(host, cell.id)]
    lines += _foreign_lines(host, None)
    if unknown := list(_device_lines(host, None)):
        lines += ["", "devices whose cell is unknown", *unknown]
    lines += _link_lines([device for device in host.devices if device.links])
    lines += ["", *_legend(host, marks, paint)]
    return lines


def _foreign(entry: Mapping[str, Any]) -> str:
    withheld = f" ({entry['withheld']} withheld)" if entry["withheld"] else ""
    amounts = [
        (entry["cpus"], f"CPUs{withheld}"),
        (entry["shared"], "shared CPUs"),
        (entry["memory_mib"], "MiB"),
        *((count, f"pages of {size} KiB") for size, count in _by_number(entry["pages"])),
        (entry["disk_gib"], "GiB of disk"),
    ]
    return ", ".join(f"{amount} {unit}" for amount, unit in amounts if amount)


def _foreign_lines(host: HostMap, cell: int | None) -> list[str]:
    words = host.foreign.get(cell)
    return [f"  other services have {words}"] if words else []


def _device_lines(host: HostMap, cell: int | None) -> Iterator[str]:
    return (f"  device {device.address}  {device.words}" for device in host.devices if device.cell == cell)


def _link_lines(devices: list[Device]) -> Iterator[str]:
    """Yield a table of the GPU links between devices: a row for each device, and its number as a column."""
    if not devices:
        return
    numbers = range(1, len(devices) + 1)
    wide, name = len(str(len(devices))), max(len(device.address) for device in devices)
    yield from ("", "GPU links: x joins two devices")
    yield f"  {'':{wide}}  {'':{name}}  " + " ".join(f"{number:>{wide}}" for number in numbers)
    for number, device in zip(numbers, devices, strict=True):
        marks = ("-" if other is device else "x" if other.address in device.links else "." for other in devices)
        yield f"  {number:>{wide}}  {device.address:{name}}  " + " ".join(f"{mark:>{wide}}" for mark in marks)


@dataclasses.dataclass(frozen=True, slots=True)
class _Paint:
    """The colour codes by mark, empty without a terminal."""

    codes: Mapping[str, str]

    def __call__(self, mark: str, text: str) -> str:
        code = self.codes.get(mark)
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _cell_lines(cell: Cell, marks: Mapping[int, str], width: int, border: Border, paint: _Paint) -> Iterator[str]:
    reserved = f", {cell.reserved_mib} reserved" if cell.reserved_mib else ""
    yield (
        f"cell {cell.id}  CPUs {cell.cpus or 'none'}  "
        f"memory {cell.memory_mib} MiB: {cell.used_mib} used{reserved}, {cell.free_mib} free"
    )
    if pages := _pages(cell.pages):
        yield f"  huge pages {pages}"
    if cell.distances:
        yield "  distance " + " ".join(f"{node}:{far}" for node, far in _by_number(cell.distances))
    groups = [(group, [core for core in cell.cores if core and core <= group]) for group in cell.l3]
    grouped = {core for _, cores in groups for core in cores}
    rest = [core for core in cell.cores if core and core not in grouped]
    for group, cores in groups:
        if cores:
            yield f"  L3 {group}"
            yield from _boxes(cores, marks, width, border, paint)
    if rest:
        yield from _boxes(rest, marks, width, border, paint)


def _boxes(cores: list[CpuSet], marks: Mapping[int, str], width: int, border: Border, paint: _Paint) -> Iterator[str]:
    """Draw cores side by side. Every box fits the widest id and the widest mark of the host."""
    id_width = max(len(str(cpu)) for cpu in marks)
    mark_width = max(len(mark) for mark in marks.values())
    inner = id_width + mark_width + 3
    per_row = max(1, (width - 3) // (inner + 1))
    for start in range(0, len(cores), per_row):
        row = cores[start : start + per_row]
        yield "  " + _edge(border.top, border.line * inner, len(row))
        for threads in itertools.zip_longest(*row):
            texts = (
                " " * inner
                if cpu is None
                else f" {cpu:>{id_width}} {paint(marks[cpu], f'{marks[cpu]:<{mark_width}}')} "
                for cpu in threads
            )
            yield "  " + border.bar + border.bar.join(texts) + border.bar
        yield "  " + _edge(border.bottom, border.line * inner, len(row))


def _edge(corners: tuple[str, str, str], line: str, boxes: int) -> str:
    left, joint, right = corners
    return left + joint.join([line] * boxes) + right


def _legend(host: HostMap, marks: Mapping[int, str], paint: _Paint) -> Iterator[str]:
    """Yield a line for every mark in the picture, the containers first."""
    width = max((len(claim.letter) for claim in host.dedicated), default=1)
    for claim in host.dedicated:
        kept = f" (kept idle: {claim.withheld})" if claim.withheld else ""
        identity = f"{claim.title} ({claim.container})" if claim.name else claim.title
        yield (
            f"{paint(claim.letter, f'{claim.letter:<{width}}')}  {identity}  CPUs {claim.cpus}{kept}"
            f"  {'cell' if claim.mems.isdigit() else 'cells'} {claim.mems}  {claim.memory_mib} MiB"
        )
        for name, cpus in claim.members:
            yield f"{'':<{width}}    {name}  CPUs {cpus}"
    drawn = set(marks.values())
    for mark, meaning in MEANINGS.items():
        if mark not in drawn:
            continue
        users = ""
        if mark is Mark.SHARED:
            users = f": CPUs {host.pool}: " + ", ".join(sorted(claim.title for claim in host.shared))
        yield f"{paint(mark, f'{mark:<{width}}')}  {meaning}{users}"
    if stray := host.offline - CpuSet(marks):
        yield f"{Mark.OFFLINE:<{width}}  {MEANINGS[Mark.OFFLINE]}, of no cell: {stray}"
