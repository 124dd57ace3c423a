# SPDX-License-Identifier: Apache-2.0
"""Hosts and claims in few words, for tables of examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, Plan, Usage


def cell(
    cell_id: int,
    cores: str = "",
    memory_mib: int = 1000,
    *,
    l3: str | None = None,
    distances: Mapping[int, int] | None = None,
    pages: Mapping[int, int] | None = None,
) -> NUMACell:
    """``cores`` and ``l3`` are CPU lists with spaces between: ``"0,8 1,9"`` is two cores of two threads."""
    siblings = tuple(CpuSet(core) for core in cores.split())
    cpus = CpuSet(cpu for core in siblings for cpu in core)
    caches = (cpus,) if l3 is None and cpus else tuple(CpuSet(cache) for cache in (l3 or "").split())
    return NUMACell(cell_id, cpus, siblings, caches, memory_mib, distances or {}, pages or {})


def host(*cells: NUMACell, **fields) -> HostTopology:
    return HostTopology(cells, **fields)


def smt_host(cells: int, cores: int, threads: int = 2, memory_mib: int = 1000) -> HostTopology:
    """Equal cells, siblings next to each other: with two threads cell 0 has cores 0-1, 2-3, ..."""
    numbers = iter(range(cells * cores * threads))
    return host(*(
        cell(c, " ".join(",".join(str(next(numbers)) for _ in range(threads)) for _ in range(cores)), memory_mib)
        for c in range(cells)
    ))


def flat_host(free: Sequence[int], memory_mib: int = 1000) -> HostTopology:
    """Cells without SMT that have so many CPUs."""
    numbers = iter(range(sum(free)))
    return host(*(
        cell(number, " ".join(str(next(numbers)) for _ in range(count)), memory_mib)
        for number, count in enumerate(free)
    ))


def holding(cpus: str, topology: HostTopology, *, memory_mib: int = 0, withheld: str = "") -> Plan:
    """A dedicated claim of just these CPUs, the memory on the first cell they are on."""
    shares: dict[int, CellShare] = {}
    for part in topology.cells:
        mine, idle = CpuSet(cpus) & part.cpus, CpuSet(withheld) & part.cpus
        if mine or idle:
            shares[part.id] = CellShare(mine, memory_mib, idle)
            memory_mib = 0
    return Plan(shares)


def demanding(demand: Mapping[int, float], memory_mib: int = 0) -> Plan:
    """A shared claim of so much CPU on these cells."""
    # What is in ``cpus`` of a shared claim is of no account, but that it ran there is.
    shares = {node: CellShare(CpuSet("0"), memory_mib, shared=cpus) for node, cpus in demand.items()}
    return Plan(shares, "shared")


def used(topology: HostTopology, *held: str, **fields) -> Usage:
    usage = Usage()
    for number, cpus in enumerate(held):
        usage = usage.with_claim(f"c{number}", holding(cpus, topology, **fields))
    return usage
