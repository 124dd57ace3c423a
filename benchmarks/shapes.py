# SPDX-License-Identifier: Apache-2.0
"""Random machines, usages and requests from a seed, for the search for worst cases."""

from __future__ import annotations

import random
from dataclasses import replace

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage


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
