# SPDX-License-Identifier: Apache-2.0
"""Machines, usages and requests for the benchmarks of placement, most of them random from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device


def any_question(seed: int) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Return a machine of up to 8 cells, each of up to 64 CPUs in up to 8 L3 groups, its usage and a request."""
    rng = random.Random(seed)
    topology = configured(rng, any_machine(rng))
    return topology, any_usage(rng, topology), any_request(rng, topology)


def odd_question(seed: int) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Like ``any_question``, but cores have unequal numbers of threads or the operator's CPU sets overlap."""
    rng = random.Random(seed)
    odd = rng.choice(("cores", "sets", "both"))
    topology = configured(rng, any_machine(rng, odd_cores=odd != "sets"))
    if odd != "cores":
        cpus = list(topology.cpus)
        topology = replace(
            topology,
            dedicated_set=CpuSet(rng.sample(cpus, rng.randint(1, len(cpus)))),
            shared_set=CpuSet(rng.sample(cpus, rng.randint(1, len(cpus)))),
        )
    return topology, any_usage(rng, topology), any_request(rng, topology)


def any_machine(rng: random.Random, odd_cores: bool = False) -> HostTopology:
    cells, memory_only = rng.choice((1, 2, 4, 8, 8, 8, rng.randint(1, 8))), rng.choice((0, 0, 0, 1, 8))
    threads = rng.choice((1, 2, 2, 2, 4))
    cores = rng.choice((8, 16, 24, 32, 48, 64, 64)) // threads
    caches, adjacent, mixed = rng.choice((1, 2, 4, 8, 8, rng.randint(1, 8))), rng.random() < 0.3, rng.random() < 0.05
    ids = range(cells + memory_only)
    far = {(a, b): rng.randint(11, 40) for a in ids for b in ids}
    remote = rng.choice(("equal", "sockets", "any"))
    pages = rng.choice(({}, {}, {2048: 1024}, {2048: 512, 1048576: 4}))

    def distance(a: int, b: int) -> int:
        if a == b or remote == "equal":
            return 10 if a == b else 20
        return far[min(a, b), max(a, b)] if remote == "any" else 12 if a // 4 == b // 4 else 32

    def core(number: int) -> CpuSet:
        step, first = (1, number * threads) if adjacent else (cells * cores, number)
        wide = threads if not mixed or number % cores < cores // 2 else 1
        if odd_cores:
            wide = rng.randint(1, threads)
        return CpuSet(first + thread * step for thread in range(wide))

    built = []
    for cell in ids:
        own = range(cell * cores, (cell + 1) * cores) if cell < cells else range(0)
        siblings = tuple(core(number) for number in own)
        step = -(-len(siblings) // caches) or 1
        groups = [siblings[start : start + step] for start in range(0, len(siblings), step)]
        built.append(NUMACell(
            id=cell,
            cpus=CpuSet(cpu for one in siblings for cpu in one),
            siblings=siblings,
            l3=tuple(CpuSet(cpu for one in group for cpu in one) for group in groups),
            memory_mib=65536,
            distances={other: distance(cell, other) for other in ids},
            pages=pages,
        ))
    return HostTopology(tuple(built))


def configured(rng: random.Random, topology: HostTopology) -> HostTopology:
    cpus = list(topology.cpus)
    first_cores = CpuSet(cpu for cell in topology.cells for core in cell.siblings[:1] for cpu in core)
    some = CpuSet(rng.sample(cpus, min(3, len(cpus))))
    return topology.configured(
        reserved_cpus=rng.choice((CpuSet(), CpuSet(), CpuSet(), first_cores, some)),
        shared_set=first_cores if rng.random() < 0.1 else None,
        dedicated_set=CpuSet(rng.sample(cpus, len(cpus) * 3 // 4)) if rng.random() < 0.05 else None,
        cpu_allocation_ratio=rng.choice((1.0, 4.0, 16.0)),
        strategy=rng.choice(("pack", "pack", "spread")),
    )


def any_usage(rng: random.Random, topology: HostTopology) -> Usage:
    """Return a usage with random taken threads, cores or cells, and shared containers."""
    kind, odds = rng.choice(("nothing", "threads", "threads", "cores", "cores", "cells")), rng.random()
    usage, taken, shared = Usage(), {}, {}
    for cell in topology.cells:
        if not cell.cpus:
            continue
        share = odds * rng.random()
        units = {"nothing": (), "threads": [CpuSet([cpu]) for cpu in cell.cpus], "cores": cell.siblings,
                 "cells": (cell.cpus,)}[kind]
        cpus = CpuSet(cpu for unit in units if rng.random() < share for cpu in unit)
        taken[cell.id] = CellShare(cpus, rng.randrange(40000))
        if rng.random() < 0.7:
            shared[cell.id] = CellShare(cell.cpus, rng.randrange(2000), shared=rng.choice((0.5, 1.0, 3.3, 8.0)))
    usage = usage.with_claim("dedicated", Plan(taken))
    return usage.with_claim("shared", Plan(shared, "shared")) if shared and rng.random() < 0.4 else usage


def any_request(rng: random.Random, topology: HostTopology) -> PlacementRequest:
    cells = sum(bool(cell.cpus) for cell in topology.cells)
    nodes, most = rng.randint(1, cells), max(1, int(len(topology.cells[0].cpus) * rng.choice((1, 0.5, 0.25, 0.1))))
    memory = rng.choice((0, 1024, 16384, 65536))
    common = {
        "numa_nodes": nodes,
        "numa_affinity": rng.choice(("require", "require", "prefer", "none")),
        "mempolicy": rng.choice(("strict", "strict", "preferred")),
        "page_size": rng.choice((None, None, None, "large", "any", 2048)),
    }
    if rng.random() < 0.05:
        return PlacementRequest(rng.choice((0.5, 8, 20.25)), memory, cpu_policy="shared", **common)
    sizes = [rng.randint(1, most) for _ in range(nodes)]
    parts = [rng.randrange(20000) for _ in range(nodes)]
    if rng.random() < 0.3:
        common |= {"numa_mem": parts}
        memory = sum(parts)
    if rng.random() < 0.7:
        common |= {"numa_cpus": sizes}
    return PlacementRequest(
        sum(sizes),
        memory,
        thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")),
        isolation=rng.choice(("thread", "thread", "thread", "core", "l3", "node")),
        **common,
    )


def host(
    cells: int, cpus: int, *, smt: int = 2, caches: int = 1, memory_only: int = 0, remote: str = "equal"
) -> HostTopology:
    """``cells`` equal cells of ``cpus`` CPUs, threads numbered as on x86: first every core, then the siblings."""
    cores = cells * cpus // smt
    ids = range(cells + memory_only)
    built = []
    for cell in ids:
        first = cell * cpus // smt
        mine = range(first, first + cpus // smt) if cell < cells else range(0)
        siblings = tuple(CpuSet(core + thread * cores for thread in range(smt)) for core in mine)
        step = max(1, len(siblings) // caches)
        groups = [siblings[start : start + step] for start in range(0, len(siblings), step)]
        built.append(
            NUMACell(
                id=cell,
                cpus=CpuSet(cpu for core in siblings for cpu in core),
                siblings=siblings,
                l3=tuple(CpuSet(cpu for core in group for cpu in core) for group in groups),
                memory_mib=65536,
                distances={other: distance(remote, cell, other) for other in ids},
            )
        )
    return HostTopology(tuple(built))


def equal_cells(cells: int, cpus: int, memory_mib: int, apart: Callable[[int, int], int]) -> HostTopology:
    """Return a host of equal cells, each with one L3 and cores of one thread. ``apart`` has the distance of two."""
    built = []
    for cell in range(cells):
        mine = CpuSet(range(cell * cpus, (cell + 1) * cpus))
        distances = {other: apart(cell, other) for other in range(cells)}
        built.append(NUMACell(id=cell, cpus=mine, l3=(mine,), memory_mib=memory_mib, distances=distances))
    return HostTopology(tuple(built))


def distance(kind: str, a: int, b: int) -> int:
    if a == b:
        return 10
    if kind == "equal":
        return 20
    if kind == "sockets":
        return 12 if a // 4 == b // 4 else 32
    return 11 + random.Random(f"{min(a, b)}-{max(a, b)}").randrange(30)


def half_full(topology: HostTopology, seed: int, share: float = 0.5) -> Usage:
    """Random threads taken, as after many odd-sized containers: the worst case for packing."""
    rng = random.Random(seed)
    shares = {}
    for cell in topology.cells:
        cpus = list(cell.cpus)
        taken = rng.sample(cpus, int(len(cpus) * rng.uniform(0, 2 * share) * 0.999))
        shares[cell.id] = CellShare(CpuSet(taken), rng.randrange(32768))
    return Usage().with_claim("others", Plan(shares))


VENDORS = ("10de", "15b3")


def large_question(seed: int, cells: int, cpus: int, devices: int) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Return a fragmented host and a request of any shape; one in four is for devices, each group on one switch."""
    rng = random.Random(seed)
    topology = host(cells, cpus, caches=rng.choice((1, 2, 4)), remote=rng.choice(("equal", "sockets", "any")))
    topology = replace(topology, devices=behind_switches(rng, cells, devices))
    usage = half_full(topology, seed, rng.choice((0.1, 0.33, 0.5))) if rng.random() < 0.5 else by_cache(rng, topology)
    return topology, usage, large_request(rng, cells, cpus)


def behind_switches(rng: random.Random, cells: int, number: int) -> tuple[Device, ...]:
    """Return devices of two kinds, about four behind a switch; the devices of a switch are of one cell or of any."""
    switches, apart = max(2, number // 4), rng.random() < 0.5
    homes = [rng.randrange(cells) for _ in range(switches)]
    found = []
    for each in range(number):
        switch = rng.randrange(switches)
        found.append(Device(
            f"0000:{each:02x}:00.0",
            vendor_id=VENDORS[each % 2],
            cell=rng.randrange(cells) if apart else homes[switch],
            path=("pci0000:00", "port", f"switch-{switch}", f"down-{each}"),
        ))
    return tuple(found)


def by_cache(rng: random.Random, topology: HostTopology) -> Usage:
    """Return a usage in which others hold a third of the L3 caches whole."""
    shares = {}
    for cell in topology.cells:
        groups = [group for group in cell.l3 if rng.random() < 0.33]
        shares[cell.id] = CellShare(CpuSet(cpu for group in groups for cpu in group), rng.randrange(32768))
    return Usage().with_claim("others", Plan(shares))


def large_request(rng: random.Random, cells: int, cpus: int) -> PlacementRequest:
    nodes = rng.choice((1, 1, 2, 2, 3, 4, 6, 8, rng.randint(1, cells)))
    most = max(1, int(cpus * rng.choice((1, 0.5, 0.25, 0.1))))
    sizes = [rng.randint(1, most) for _ in range(nodes)]
    parts = [rng.randrange(20000) for _ in range(nodes)]
    shape = {"numa_mem": parts} if rng.random() < 0.3 else {}
    memory = sum(parts) if shape else rng.choice((0, 1024, 16384, 65536))
    if rng.random() < 0.6:
        shape["numa_cpus"] = sizes
    devices = some_devices(rng) if rng.random() < 0.25 else ()
    return PlacementRequest(
        sum(sizes),
        memory,
        thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")),
        isolation=rng.choice(("thread", "thread", "core", "l3", "node")),
        numa_nodes=nodes,
        numa_affinity=rng.choice(("require", "require", "prefer", "none")),
        mempolicy=rng.choice(("strict", "strict", "preferred")),
        devices=devices,
        device_same="switch" if devices else "none",
        **shape,
    )


def some_devices(rng: random.Random) -> tuple[DeviceRequest, ...]:
    """Return requests for devices of two kinds, with any policies."""
    any_two = rng.randint(1, 8), rng.randint(1, 8)
    counts = rng.choice(((1, 1), (2, 2), (4, 4), (4, 4), (3, 1), (8, 8), (8, 2), any_two))
    policies = [rng.choice(("preferred", "required", "required", "socket", "none")) for _ in counts]
    return tuple(
        DeviceRequest(name, count, (DeviceMatch(vendor),), numa_policy=policy)
        for name, count, vendor, policy in zip(("aaaa", "bbbb"), counts, VENDORS, policies, strict=True)
    )
