# SPDX-License-Identifier: Apache-2.0
"""A host's CPUs as the API describes them: rows of a table, and a picture core by core.

Everything here is a function of the document that ``GET /v1/hosts/{host}/topology`` answers.
"""

import dataclasses
import enum
import itertools
import string
from collections.abc import Iterator, Mapping
from typing import Any

from zun.osc.explanation import count
from zun.topology import CPUPolicy, CpuSet
from zun.topology.cpuset import union


class Mark(enum.StrEnum):
    """What one CPU is used for; a dedicated CPU shows its container's letter instead."""

    FREE = "."
    SHARED = "~"
    WITHHELD = "-"
    RESERVED = "#"
    OFFLINE = "x"


MEANINGS = {
    Mark.FREE: "free",
    Mark.SHARED: "shared pool, in use",
    Mark.WITHHELD: "kept idle for a container",
    Mark.RESERVED: "reserved for the host",
    Mark.OFFLINE: "offline",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What one container holds on the host; ``letter`` is empty for a shared one."""

    letter: str
    container: str
    name: str
    cpus: CpuSet
    withheld: CpuSet
    mems: str
    memory_mib: int

    @property
    def title(self) -> str:
        """The container's name, or its uuid when it has none."""
        return self.name or self.container


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One memory node; CPUs in kernel list form are parsed, sizes are MiB, ``pages`` counts by KiB."""

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
        """MiB that a further container could get; never negative."""
        return max(0, self.memory_mib - self.used_mib - self.reserved_mib)


@dataclasses.dataclass(frozen=True, slots=True)
class HostMap:
    """The whole host: its cells, the CPUs that are nobody's to give, and the claims by letter."""

    name: str
    generation: int | None
    cells: tuple[Cell, ...]
    offline: CpuSet
    reserved: CpuSet
    pool: CpuSet
    dedicated: tuple[Claim, ...]
    shared: tuple[Claim, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "HostMap":
        """Read the API's document; letters are given in the order of the containers' lowest CPU."""
        claims = document.get("claims", ())
        dedicated = sorted(
            (claim for claim in claims if claim["cpu_policy"] == CPUPolicy.DEDICATED),
            key=lambda claim: (list(CpuSet(claim["cpuset_cpus"]))[:1], claim["container"]),
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
        )

    @property
    def taken(self) -> CpuSet:
        """CPUs of dedicated containers, with the siblings kept idle for them."""
        return union(claim.cpus | claim.withheld for claim in self.dedicated)

    def free_cpus(self, cell: Cell) -> CpuSet:
        """CPUs of ``cell`` that no dedicated container holds and that work for containers at all."""
        return cell.cpus - self.offline - self.reserved - self.taken

    def marks(self) -> dict[int, str]:
        """What to draw for each CPU of a cell. What keeps a CPU from work wins over who uses it."""
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


def _claim(letter: str, entry: Mapping[str, Any]) -> Claim:
    return Claim(
        letter=letter,
        container=entry["container"],
        name=entry.get("name") or "",
        cpus=CpuSet(entry["cpuset_cpus"]),
        withheld=CpuSet(entry.get("withheld") or ""),
        mems=entry.get("cpuset_mems") or "",
        memory_mib=sum((entry.get("memory_mib") or {}).values()),
    )


def _letters() -> Iterator[str]:
    """A to Z, then AA to ZZ, and so on."""
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
)


def table(host: HostMap) -> list[tuple[Any, ...]]:
    """One row a cell, in the order of COLUMNS."""
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
        )
        for cell in host.cells
    ]


def _pages(pages: Mapping[str, int]) -> str:
    """Each size that has any, as ``512 x 2048 KiB``."""
    return ", ".join(f"{count} x {size} KiB" for size, count in _by_number(pages) if count)


def _by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: int(item[0]))


# The picture.

# Bright colours that are told apart on a dark and on a light background; containers take them in turn.
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
    """The lines of a picture: one box a core, its hardware threads one below the other.

    Boxes of one L3 group stand in a row of at most ``width`` columns and wrap after that.
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
    lines += ["", *_legend(host, marks, paint)]
    return lines


@dataclasses.dataclass(frozen=True, slots=True)
class _Paint:
    """Colours by mark; none without a terminal."""

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
    """Draw cores side by side; every box is as wide as the widest id and mark of the whole host."""
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
    """Name every mark that was drawn, the containers first."""
    width = max((len(claim.letter) for claim in host.dedicated), default=1)
    for claim in host.dedicated:
        kept = f" (kept idle: {claim.withheld})" if claim.withheld else ""
        identity = f"{claim.title} ({claim.container})" if claim.name else claim.container
        yield (
            f"{paint(claim.letter, f'{claim.letter:<{width}}')}  {identity}  CPUs {claim.cpus}{kept}"
            f"  {'cell' if claim.mems.isdigit() else 'cells'} {claim.mems}  {claim.memory_mib} MiB"
        )
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
