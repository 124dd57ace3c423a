# SPDX-License-Identifier: Apache-2.0
"""Random hosts, usages and requests: small, but as odd as the machines in the field.

Everything takes a ``random.Random``. A seeded one makes the many cases of a proof cheaply; Hypothesis's own
(``st.randoms``) makes the same cases and shrinks those that fail.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from zun.topology import CellShare, CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage
from zun.topology.cache_control import CacheControl, Part
from zun.topology.cpuset import union
from zun.topology.device_request import DeviceMatch, DevicePolicy, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType

GRADES = ("core", "core", "l3", "l3", "node", "isolated")

PROOF_SIZE = float(os.environ.get("ZUN_PROOF_SIZE", "1"))


def proof_size(number: int) -> int:
    """Return the number of cases to try: ``number`` times ZUN_PROOF_SIZE."""
    return max(1, int(number * PROOF_SIZE))


def cells_in_a_row(cells, cpus, mib=1000, smt=1):
    """Cells with so many CPUs and MiB each; the distance of two cells grows with the difference of their ids."""
    made = []
    for number in range(cells):
        own = range(number * cpus, (number + 1) * cpus)
        siblings = tuple(CpuSet(own[first : first + smt]) for first in range(0, cpus, smt))
        distances = {other: 10 + 10 * abs(other - number) for other in range(cells)}
        made.append(NUMACell(number, CpuSet(own), siblings, memory_mib=mib, distances=distances))
    return HostTopology(tuple(made))


def rarely(rng: random.Random, odds: float = 0.15) -> bool:
    return rng.random() < odds


def some(rng: random.Random, items, least: int = 0, most: int | None = None) -> list:
    items = list(items)
    return rng.sample(items, rng.randint(min(least, len(items)), min(len(items), most or len(items))))


def random_topology(
    rng: random.Random, *, cells: int = 5, smt=(1, 2, 4), most_cpus: int = 8, settings: float = 0.15
) -> HostTopology:
    """A host of up to ``cells`` nodes: sparse ids, holes, unequal parts, memory-only and CPU-less nodes.

    ``settings`` is how likely each of the operator's settings and each limit of the kernel is.
    """
    ids = rng.sample(range(81), max(rng.randint(1, cells), rng.randint(1, cells)))
    widths = [_cores(rng, smt, most_cpus) for _ in ids]
    total = sum(sum(cell) for cell in widths)
    numbers = sorted(rng.sample(range(total + rng.randint(0, 3)), total))
    if rng.random() < 0.5:
        rng.shuffle(numbers)
    distances = _distances(rng, ids)
    memory = rng.choice(((8,), (0, 4, 8, 8, 16), (0, 0, 8)))
    pages = rng.choice((({},), ({}, {}, {2048: 2}, {2048: 1, 4096: 1}, {64: 40, 2048: 0})))
    built = []
    for cell_id, threads in zip(ids, widths, strict=True):
        siblings = tuple(CpuSet([numbers.pop(0) for _ in range(width)]) for width in threads)
        built.append(
            NUMACell(
                id=cell_id,
                cpus=CpuSet(cpu for core in siblings for cpu in core),
                siblings=siblings,
                l3=_caches(rng, siblings),
                memory_mib=rng.choice(memory),
                distances=distances[cell_id],
                pages=rng.choice(pages),
                initiators=CpuSet(some(rng, ids, 0, 1)) if rarely(rng) else CpuSet(),
            )
        )
    topology = HostTopology(tuple(built))
    return _configured(rng, topology, settings)


def like_cells(
    rng: random.Random, *, cells: int = 4, smt=(1, 2, 4), most_cpus: int = 8, settings: float = 0.0
) -> HostTopology:
    """A host of equal cells, numbered as on x86 (first every core, then the siblings) or core by core."""
    cells = rng.randint(min(2, cells), cells)
    widths = sorted(_cores(rng, smt, most_cpus) or [1], reverse=True)
    threads = [(core, thread) for core, width in enumerate(widths) for thread in range(width)]
    slots = [(cell, *thread) for cell in range(cells) for thread in threads]
    if rng.random() < 0.7:
        slots.sort(key=lambda slot: (slot[2], slot[0], slot[1]))
    number = {slot: position for position, slot in enumerate(slots)}
    groups = rng.randint(1, len(widths))
    distances = _distances(rng, [*range(cells)])
    built = []
    for cell in range(cells):
        siblings = tuple(CpuSet(number[cell, c, thread] for thread in range(width)) for c, width in enumerate(widths))
        step = -(-len(siblings) // groups)
        built.append(
            NUMACell(
                id=cell,
                cpus=CpuSet(cpu for core in siblings for cpu in core),
                siblings=siblings,
                l3=tuple(
                    CpuSet(cpu for core in siblings[first : first + step] for cpu in core)
                    for first in range(0, len(siblings), step)
                ),
                memory_mib=8,
                distances=distances[cell],
                pages=rng.choice(({}, {2048: 1})),
            )
        )
    return _configured(rng, HostTopology(tuple(built)), settings)


def _cores(rng: random.Random, smt, most_cpus: int) -> list[int]:
    """Threads of each core of a cell; sometimes the cell has none."""
    left = 0 if rarely(rng) else rng.randint(1, most_cpus)
    same = rng.choice(smt) if rng.random() < 0.7 else None
    widths = []
    while left > 0:
        width = min(left, same or rng.choice(smt))
        widths.append(width)
        left -= width
    return widths


def _caches(rng: random.Random, siblings) -> tuple[CpuSet, ...]:
    """L3 groups of neighbouring cores; sometimes one for all, sometimes none, sometimes some cores have none."""
    kind = rng.random()
    if not siblings or kind < 0.2:
        return ()
    if kind < 0.5:
        return (CpuSet(cpu for core in siblings for cpu in core),)
    cuts = sorted({0, len(siblings), *some(rng, range(1, len(siblings)))})
    groups = [CpuSet(cpu for core in siblings[a:b] for cpu in core) for a, b in pairwise(cuts)]
    return tuple(groups[:-1] if rarely(rng) else groups)


def _distances(rng: random.Random, ids) -> dict[int, dict[int, int]]:
    kind = rng.choice(("none", "equal", "two", "any", "lopsided"))
    if kind == "none":
        return {cell: {} for cell in ids}
    remote = {"equal": (20,), "two": (16, 22)}.get(kind, (11, 12, 16, 20, 32))
    rows = {cell: {cell: 10} for cell in ids}
    for position, a in enumerate(ids):
        for b in ids[position + 1 :]:
            rows[a][b] = rows[b][a] = rng.choice(remote)
            if kind == "lopsided":
                rows[b][a] = rng.choice(remote)
    return rows


def _configured(rng: random.Random, topology: HostTopology, odds: float) -> HostTopology:
    cpus = list(topology.cpus)
    isolated = CpuSet(some(rng, cpus, 0, 3)) if rarely(rng, odds) else CpuSet()
    exposed = CpuSet(some(rng, cpus, 0, 2)) if rarely(rng, odds) else CpuSet()
    exposed_l3 = CpuSet(some(rng, cpus, 0, 2)) if rarely(rng, odds) else CpuSet()
    return HostTopology(topology.cells, isolated=isolated, exposed=exposed, exposed_l3=exposed_l3).configured(
        reserved_cpus=CpuSet(some(rng, cpus, 0, 2)) if rarely(rng, odds) else CpuSet(),
        dedicated_set=CpuSet(some(rng, cpus, len(cpus) * 2 // 3)) if rarely(rng, odds) else None,
        shared_set=CpuSet(some(rng, cpus)) if rarely(rng, odds) else None,
        reserved_memory_mib=rng.randint(0, 4) if rarely(rng, odds) else 0,
        cpu_allocation_ratio=rng.choice((1.0, 1.0, 1.5, 4.0)),
        ram_allocation_ratio=rng.choice((1.0, 1.0, 1.5)),
        strategy=rng.choice(("pack", "pack", "spread")),
    )


def random_usage(rng: random.Random, topology: HostTopology) -> Usage:
    """Claims of any shape, as after a long life: what they hold need not be what a plan would give."""
    usage = Usage()
    left = list(topology.cpus)
    rng.shuffle(left)
    for number in range(rng.choice((0, 0, 1, 2, 3))):
        shared = rng.random() < 0.4
        shares = {}
        for cell in some(rng, topology.cells):
            free = [cpu for cpu in left if cpu in cell.cpus]
            taken = [] if shared else free[: rng.randint(0, len(free))]
            left = [cpu for cpu in left if cpu not in taken]
            idle = rng.choice((0, 0, len(taken) // 2))
            shares[cell.id] = CellShare(
                cpus=cell.cpus if shared and rng.random() < 0.5 else CpuSet(taken[idle:]),
                withheld=CpuSet(taken[:idle]),
                memory_mib=rng.randint(0, 4),
                pages=rng.choice(({}, {}, {2048: 1})),
                shared=rng.choice((0.0, 0.5, 1.0, 2.3)) if shared else 0.0,
            )
        usage = usage.with_claim(f"c{number}", Plan(shares, "shared" if shared else "dedicated"))
    return usage


def random_request(rng: random.Random, *, most_cpus: int = 8, dedicated: bool | None = None) -> PlacementRequest:
    if dedicated is None:
        dedicated = rng.random() < 0.75
    nodes = rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
    common = {
        "cpu_policy": "dedicated" if dedicated else "shared",
        "numa_nodes": nodes,
        "numa_affinity": rng.choice(("require", "require", "prefer", "none")),
        "mempolicy": rng.choice(("strict", "strict", "preferred")),
        "page_size": rng.choice(("small", "large", "any", "any", 2048, 64, 4)) if rarely(rng) else None,
        "thread_policy": rng.choice(("prefer", "prefer", "isolate", "require")) if dedicated else "prefer",
        "isolation": rng.choice(GRADES) if dedicated and rarely(rng, 0.5) else "thread",
    }
    shape = {}
    cpus = rng.randint(nodes, max(nodes, most_cpus)) if dedicated else rng.choice((0, 0.5, 1, 1.7, 3, 5.25))
    if rng.random() < 0.4:
        most = max(1, most_cpus // nodes + 1)
        sizes = [rng.randint(1, most) if dedicated else rng.choice((0, 0.5, 1, 2.25)) for _ in range(nodes)]
        shape["numa_cpus"], cpus = sizes, sum(sizes)
    memory = rng.choice((0, 1, 4, rng.randint(0, 14)))
    if rng.random() < 0.4:
        shape["numa_mem"] = [rng.randint(0, 6) for _ in range(nodes)]
        memory = sum(shape["numa_mem"])
    return PlacementRequest(cpus, memory, **common, **shape)


def random_case(
    rng: random.Random, *, make=random_topology, **limits
) -> tuple[HostTopology, Usage, PlacementRequest]:
    topology = make(rng, **limits)
    return topology, random_usage(rng, topology), random_request(rng)


def short_pool_case(rng: random.Random) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Dedicated CPUs on cells where the operator's sets overlap and shared containers need much of the pool."""
    topology = random_topology(rng, cells=2, most_cpus=9, settings=0)
    cpus = list(topology.cpus)
    topology = topology.configured(
        dedicated_set=CpuSet(some(rng, cpus, len(cpus) * 3 // 4)),
        shared_set=(shared := CpuSet(some(rng, cpus, len(cpus) // 2))),
        strategy=rng.choice(("pack", "spread")),
    )
    needs = {cell.id: rng.randint(0, len(cell.cpus & shared)) for cell in topology.cells}
    shares = {cell: CellShare(shared=need) for cell, need in needs.items() if need}
    request = PlacementRequest(
        rng.randint(2, 8),
        0,
        numa_affinity="prefer",
        thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")),
        isolation=rng.choice(("thread", "thread", "core", "l3")),
    )
    return topology, Usage().with_claim("shared", Plan(shares, "shared")), request


def mixed_case(rng: random.Random, *, make=random_topology, **limits) -> tuple[HostTopology, Usage, PlacementRequest]:
    """CPUs of its own and a share of the pool, on hosts where other mixed and shared containers need the pool."""
    topology = make(rng, **limits)
    usage = random_usage(rng, topology)
    for number in range(rng.choice((0, 1, 2))):
        working = [cell for cell in topology.cells if cell.cpus - usage.held_cpus]
        if working:
            cell = rng.choice(working)
            own = CpuSet(some(rng, cell.cpus - usage.held_cpus, 1, 3))
            share = CellShare(own, rng.randint(0, 2), shared=rng.choice((0.5, 1.0, 2.3)))
            usage = usage.with_claim(f"mixed{number}", Plan({cell.id: share}, "mixed"))
    own = rng.choice((1, 1, 2, 2, 3, 4, rng.randint(1, 8)))
    request = PlacementRequest(
        own + rng.choice((0.5, 1, 1, 1.7, 2, 3.25)),
        rng.choice((0, 1, 4, rng.randint(0, 14))),
        cpu_policy="mixed",
        dedicated_cpus=own,
        mempolicy=rng.choice(("strict", "strict", "preferred")),
        page_size=rng.choice(("large", "any", 2048)) if rarely(rng) else None,
        thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")),
        isolation=rng.choice(("core", "l3", "isolated")) if rarely(rng, 0.5) else "thread",
    )
    return topology, usage, request


def cache_case(
    rng: random.Random, *, mixed: bool = True, make=random_topology, **limits
) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Parts of L3 caches, on hosts where other containers have some; caches may serve cells in common or be left out.
    """
    topology, usage, request = (mixed_case if mixed and rng.random() < 0.5 else random_case)(rng, make=make, **limits)
    groups = [group for cell in topology.cells for group in cell.l3 if not rarely(rng)]
    rng.shuffle(groups)
    if len(groups) > 1 and rng.random() < 0.3:
        groups = [groups[0] | groups[1], *groups[2:]]
    control = CacheControl(
        tuple(groups), rng.randint(1, 12), 1536, rng.choice((1, 1, 2)), rng.choice((0, 80, 90)), rng.choice((1, 10)),
        rng.choice((1, 2, 4, 15, 15)),
    )
    claims = dict(usage)
    for owner, plan in claims.items():
        if plan.dedicated:
            part = Part(rng.randint(0, 6), rng.choice((0, 0, 10, 30, 50)))
            claims[owner] = replace(plan, cache=part)
    wanted = {rng.choice(("cache_ways", "cache_mib")): rng.randint(0, 9)} if not rarely(rng) else {}
    if not wanted or rng.random() < 0.5:
        wanted["memory_bandwidth"] = rng.choice((5, 10, 20, 35, 60, 100))
    if request.dedicated:
        request = replace(request, **wanted)
    return replace(topology, cache_control=control), Usage(claims), request


def strays_case(rng: random.Random) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Most of the CPUs of a host whose shared containers have lost those of their own cells."""
    topology = random_topology(rng, cells=4, most_cpus=4, settings=0.15)
    without = [cell.id for cell in topology.cells if not cell.cpus & topology.pool_cpus]
    homes = some(rng, [*without, 99], 1)
    shares = {node: CellShare(shared=0.5, memory_mib=rng.randint(0, 2)) for node in homes}
    usage = Usage().with_claim("shared", Plan(shares, "shared"))
    cpus = list(topology.dedicated_cpus)
    if cpus and rng.random() < 0.5:
        held = {cell.id: CellShare(cell.cpus & CpuSet(some(rng, cpus, 0, 3))) for cell in topology.cells}
        usage = usage.with_claim("dedicated", Plan(held))
    free = sorted((len(each.cpus) for each in usage.free(topology).values() if each.cpus), reverse=True) or [1]
    nodes = rng.randint(1, len(free))
    shape: dict[str, object] = {}
    if rng.random() < 0.5:  # all of it, or a little less
        shape["numa_cpus"] = [max(1, count - rarely(rng, 0.3)) for count in free[:nodes]]
    total = sum(shape["numa_cpus"]) if shape else max(nodes, sum(free[:nodes]) - rng.choice((0, 0, 1)))
    request = PlacementRequest(
        total,
        0,
        numa_nodes=nodes,
        numa_affinity=rng.choice(("require", "require", "prefer", "none")),
        thread_policy=rng.choice(("prefer", "prefer", "isolate", "require")),
        isolation=rng.choice(("thread", "thread", "core", "l3")),
        page_size="any" if rarely(rng) else None,
        **shape,
    )
    return topology, usage, request


def short_memory_case(rng: random.Random) -> tuple[HostTopology, Usage, PlacementRequest]:
    """Memory that no cell has alone, on cells that are unequally far: it decides how many are needed, or is spilled."""
    nodes = rng.randint(3, 6)
    working = nodes if rng.random() < 0.6 else rng.randint(1, nodes)
    like = rng.random() < 0.5
    firsts = rng.sample(range(nodes), nodes)
    distances = _distances(rng, range(nodes))
    cells = []
    for node, first in enumerate(firsts):
        count = 0 if node >= working else 4 if like else rng.randint(1, 6)
        cpus = CpuSet(range(6 * first, 6 * first + count))
        cores = {CpuSet(cpu for cpu in cpus if cpu // 2 == other // 2) for other in cpus}
        cells.append(
            NUMACell(
                id=node,
                cpus=cpus,
                siblings=tuple(cores) if rng.random() < 0.5 else (),
                memory_mib=rng.choice((8,) if like else (0, 2, 5, 8, 8, 16)),
                distances=distances[node],
                pages=rng.choice(({}, {}, {64: 40})),
            )
        )
    topology = HostTopology(tuple(cells)).configured(strategy=rng.choice(("pack", "spread")))
    dedicated = rng.random() < 0.8
    strict = rng.random() < 0.6
    request = PlacementRequest(
        rng.randint(1, 8),
        rng.randint(4, 6 * nodes),
        cpu_policy="dedicated" if dedicated else "shared",
        numa_affinity=rng.choice(("none", "prefer")),
        mempolicy="strict" if strict else "preferred",
        page_size=rng.choice((None, None, None, "any", 64)),
    )
    return topology, random_usage(rng, topology) if rng.random() < 0.5 else Usage(), request


def device_case(
    rng: random.Random, *, make=None, sames=("none",), sharing=0.1, **limits
) -> tuple[HostTopology, Usage, PlacementRequest]:
    """A request for devices of a host where some are held, or share a switch, a card or an IOMMU group.

    ``make`` makes the rest of the case, without devices. ``sharing`` is how likely devices are shared.
    """
    if make is None:
        topology = random_topology(rng, **{"cells": 4, "most_cpus": 4, "settings": 0.05, **limits})
        usage = random_usage(rng, topology) if rarely(rng, 0.4) else Usage()
        request = random_request(rng, most_cpus=4) if rarely(rng, 0.4) else _modest_request(rng)
    else:
        topology, usage, request = make(rng)
    cpus = list(topology.cpus)
    kind = rng.random()
    sockets = () if kind < 0.3 else (CpuSet(cpus[::2]), CpuSet(cpus[1::2]))
    if kind > 0.6:  # two cells a socket
        cells = topology.cells
        sockets = tuple(union(cell.cpus for cell in cells[first : first + 2]) for first in range(0, len(cells), 2))
    devices = random_devices(rng, topology, sharing=sharing)
    if "link" in sames:
        devices = linked(rng, devices)
    kept = devices
    held = [*[GivenDevice.of("held", device) for device in devices], GivenDevice("held", "0000:99:00.7")]
    most = 6 if sharing > 0.5 else 2
    for number, given in enumerate(some(rng, held, 0, most) if rarely(rng, max(0.6, sharing)) else ()):
        if rarely(rng, 0.1):  # from a time when nobody shared the device
            given = replace(given, shared=1)
        for share in range(rng.randint(1, given.shared)):
            usage = usage.with_claim(f"d{number}-{share}", Plan({}, devices=(given,)))
        if rarely(rng, 0.3):  # the host offers the device no more
            kept = tuple(device for device in kept if device.address != given.address)
        if rarely(rng, 0.1):  # fewer containers may share the device now
            kept = tuple(replace(each, shared=min(2, each.shared)) for each in kept)
    topology = replace(topology, devices=kept, sockets=tuple(socket for socket in sockets if socket))
    asked = tuple(_device_request(rng, f"alias-{number}", sharing) for number in range(rng.choice((1, 1, 2, 2, 3))))
    return topology, usage, replace(request, devices=asked, device_same=rng.choice(sames))


def link_case(rng: random.Random) -> tuple[HostTopology, Usage, PlacementRequest]:
    """A request for two to four linked devices of a host that is otherwise empty, so that the links decide."""
    topology = random_topology(rng, cells=4, most_cpus=4, settings=0)
    devices = random_devices(rng, topology, 8)
    if rng.random() < 0.7:  # no device rules out another
        devices = tuple(replace(each, type=DeviceType.PCI, physical=None, iommu_group=None) for each in devices)
    devices = linked(rng, devices)
    held = some(rng, [GivenDevice.of("held", device) for device in devices], 0, 1) if rarely(rng, 0.3) else ()
    usage = Usage().with_claim("other", Plan({}, devices=tuple(held)))
    counts = rng.choice(((2,), (3,), (4,), (1, 1), (2, 1), (2, 2)))
    asked = tuple(
        DeviceRequest(
            f"alias-{number}", count, (DeviceMatch(vendor_id=rng.choice((None, None, "10de"))),),
            numa_policy=rng.choice([*DevicePolicy, *[DevicePolicy.PREFERRED] * 4]),
        )
        for number, count in enumerate(counts)
    )
    topology = replace(topology, devices=devices)
    return topology, usage, replace(_modest_request(rng), devices=asked, device_same="link")


def random_devices(
    rng: random.Random, topology: HostTopology, most: int = 7, sharing: float = 0.0
) -> tuple[Device, ...]:
    """Devices of two vendors on the cells, on no known cell, or on a cell that the host lacks.

    Some are virtual functions of others, or parts of others (MIG instances).
    """
    cells = [*[cell.id for cell in topology.cells] * 3, None, 99]
    devices: list[Device] = []
    for number in range(rng.randint(2, most)):
        cell = rng.choice(cells)
        switch = rng.choice(("a", "b", "c")) if rng.random() < 0.7 else None
        path = () if switch is None else ("pci0000:80", "0000:80:01.0", f"0000:8{switch}:00.0", f"0000:8{switch}:01.0")
        owners = [device for device in devices if device.physical is None]
        physical = class_ = None
        type_ = rng.choice((DeviceType.PCI, DeviceType.PCI, DeviceType.PF))
        if owners and rng.random() < 0.6 - sharing / 2:
            owner = rng.choice(owners)
            type_ = rng.choice((DeviceType.VF, DeviceType.PART)) if owner.type == DeviceType.PF else DeviceType.PART
            physical, class_ = owner.address, rng.choice((None, "CUSTOM_MIG", "CUSTOM_GPU"))
            if rng.random() < 0.7:  # as in a machine; the rest is what firmware may make up
                cell, path = owner.cell, owner.path
        shared = rng.choice((2, 3, 4)) if rarely(rng, sharing) else 1
        driver = "nvidia" if shared > 1 else rng.choice(("nvidia", "vfio-pci"))  # VFIO has one user
        devices.append(
            Device(
                address=f"0000:{rng.randrange(256):02x}:00.{number}",
                vendor_id=rng.choice(("10de", "8086")),
                cell=cell,
                path=path,
                type=type_,
                physical=physical,
                iommu_group=rng.choice((None, None, None, 1, 2)),
                driver=driver,
                shared=shared,
                resource_class="CUSTOM_SHARED" if shared > 1 else class_ or rng.choice((None, None, "CUSTOM_GPU")),
                traits=tuple(some(rng, ("FAST", "LARGE"), 0, 2)),
            )
        )
    return tuple(devices)


def linked(rng: random.Random, devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices with links as machines have them, told at both ends, at one, or to a device that is hidden.

    Most devices are GPUs, and some have no class. Of a cube mesh, each half is linked all to all, and each device to
    its neighbour in the other half.
    """
    order = rng.sample(range(len(devices)), len(devices))
    half = (len(order) + 1) // 2
    everybody = [*combinations(range(len(order)), 2)]
    shape = rng.choice(("none", "ring", "mesh", "islands", "cube mesh", "any", "any"))
    pairs = {
        "none": [],
        "ring": [(a, (a + 1) % len(order)) for a in range(len(order))],
        "mesh": everybody,
        "islands": [(a, b) for a, b in everybody if (a < half) == (b < half)],
        "cube mesh": [(a, b) for a, b in everybody if (a < half) == (b < half) or b == a + half],
        "any": some(rng, everybody),
    }[shape]
    ends: list[set[str]] = [set() for _ in devices]
    for a, b in pairs:
        one, other = order[a], order[b]
        which = rng.choice(("both", "both", "one", "other"))
        if which != "other":
            ends[one].add(devices[other].address)
        if which != "one":
            ends[other].add(devices[one].address)
    for each in ends:
        if rarely(rng, 0.1):
            each.add("0000:99:00.9")
    classes = rng.choice((("030200",), ("",), ("030200", "120000", "", "020000", "010802")))
    kinds = rng.choice(((None,), (None, None, None, DeviceType.PATH)))
    return tuple(
        replace(device, links=tuple(sorted(each)), class_id=rng.choice(classes), type=rng.choice(kinds) or device.type)
        for device, each in zip(devices, ends, strict=True)
    )


def _modest_request(rng: random.Random) -> PlacementRequest:
    """A request that most hosts can serve, so that its devices decide."""
    nodes, policy = rng.choice((1, 1, 2)), rng.choice(("dedicated", "dedicated", "shared"))
    affinity = rng.choice(("require", "prefer", "none"))
    return PlacementRequest(rng.randint(nodes, 3), rng.choice((0, 1)), policy, "prefer", nodes, affinity)


def _device_request(rng: random.Random, name: str, sharing: float) -> DeviceRequest:
    class_ = rng.choice(("CUSTOM_MIG", "CUSTOM_GPU", "CUSTOM_GPU")) if rarely(rng, 0.3) else None
    class_ = "CUSTOM_SHARED" if rarely(rng, sharing) else class_
    match = DeviceMatch(
        vendor_id=rng.choice((None, None, "10de", "8086")),
        type=rng.choice((None, *DeviceType)) if rarely(rng, 0.4) else None,
        resource_class=class_,
    )
    return DeviceRequest(
        name,
        rng.choice((0, 1, 1, 1, 1, 2, 2, 3)),
        (match,),
        traits=("FAST",) if rarely(rng) else (),
        numa_policy=rng.choice([*DevicePolicy, DevicePolicy.PREFERRED]),
    )
