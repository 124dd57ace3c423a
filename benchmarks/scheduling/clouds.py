# SPDX-License-Identifier: Apache-2.0
"""Synthetic clouds as rows of a database, and what containers ask of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.db import models, session
from zun.objects.placement import cpuset_record
from zun.scheduler.request_spec import RequestSpec
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, plan

CPU_RATIO = 4.0
PINNED = 0.3
"""The share of each host's CPUs that dedicated containers hold before the measurement."""
KINDS = 64
"""Hosts that differ in what they hold; the cloud repeats them."""


def machine(cells: int = 2, cpus: int = 32, memory_mib: int = 65536) -> HostTopology:
    """``cells`` of ``cpus`` CPUs with two threads a core, numbered as on x86: first every core, then the siblings."""
    cores = cells * cpus // 2
    made = []
    for cell in range(cells):
        first = cell * cpus // 2
        siblings = tuple(CpuSet((core, core + cores)) for core in range(first, first + cpus // 2))
        mine = CpuSet(cpu for core in siblings for cpu in core)
        distances = {other: 10 if other == cell else 20 for other in range(cells)}
        made.append(NUMACell(cell, mine, siblings, (mine,), memory_mib, distances))
    return HostTopology(tuple(made)).configured(cpu_allocation_ratio=CPU_RATIO, ram_allocation_ratio=1.0)


def requests(seed: int) -> Iterator[PlacementRequest]:
    """Yield requests: about two in five are dedicated, some of them with conditions, and the others shared."""
    rng = random.Random(seed)
    while True:
        if rng.random() < 0.4:
            policy = rng.choice(("prefer", "prefer", "prefer", "isolate", "require"))
            nodes = rng.choice((1, 1, 1, 1, 2))
            cpus = rng.choice((2, 4, 8)) if policy == "require" else rng.choice((1, 2, 4, 8))
            cpus = max(cpus, 4) if nodes == 2 else cpus
            yield PlacementRequest(cpus, rng.choice((512, 1024, 4096)), thread_policy=policy, numa_nodes=nodes)
        else:
            yield PlacementRequest(
                rng.choice((0.25, 0.5, 1.0, 2.0)), rng.choice((128, 256, 512)), cpu_policy="shared"
            )


def specs(seed: int, run: str = "") -> Iterator[RequestSpec]:
    for number, request in enumerate(requests(seed)):
        yield RequestSpec(f"{run}{seed}-{number}", request, project_id="demo", image="busybox")


def kinds(
    topology: HostTopology, pinned: float = PINNED, different: int = KINDS
) -> list[list[tuple[PlacementRequest, Plan]]]:
    """Return contents of hosts: mixed requests planned one by one until the share ``pinned`` of the CPUs is pinned."""
    found = []
    for seed in range(different):
        usage, held = Usage(), []
        for number, request in enumerate(requests(1000 + seed)):
            answer = plan(topology, usage, request)
            assert isinstance(answer, Plan), answer
            usage = usage.with_claim(str(number), answer)
            held.append((request, answer))
            if len(usage.held_cpus) >= pinned * len(topology.cpus):
                break
        found.append(held)
    return found


def fill(hosts: Sequence[str], topology: HostTopology, pinned: float = PINNED, different: int = KINDS) -> int:
    """Write the rows of a cloud into the empty configured database. Return the number of containers.

    ``different`` hosts differ in what they hold.
    """
    models.metadata.create_all(session.engine())
    now, record = timeutils.utcnow(), topology.to_dict()
    held = [[(request, cpuset_record(each)) for request, each in kind] for kind in kinds(topology, pinned, different)]
    nodes = [_node(name, record, now, topology, len(held[number % different])) for number, name in enumerate(hosts)]
    services = [
        {"host": name, "binary": "zun-compute", "created_at": now, "last_seen_up": now, "availability_zone": "nova"}
        for name in hosts
    ]
    rows = [
        _container(name, request, cpuset, now)
        for name, kind in zip(hosts, held, strict=False)
        for request, cpuset in kind
    ]
    with session.writer() as connection:
        connection.execute(models.compute_nodes.insert(), nodes)
        connection.execute(models.services.insert(), services)
        connection.execute(models.containers.insert(), rows)
    count = len(rows)
    for first in range(different, len(hosts), different):
        with session.writer() as connection:
            count += connection.execute(_copy(first, different)).rowcount
    return count


def _copy(first: int, different: int) -> sa.Insert:
    """Give the hosts from number ``first`` on the containers of the first ``different`` hosts.

    The rows never leave the database, which writes them ten times as fast as it takes them from a client.
    """
    like, node = models.containers, models.compute_nodes.alias()
    source = models.compute_nodes.alias()
    columns = [each for each in like.c if each.name not in ("id", "uuid", "host")]
    uuid = sa.func.substr(node.c.uuid, 1, 8).concat(sa.func.substr(like.c.uuid, 9))
    joined = like.join(source, source.c.hostname == like.c.host).join(node, node.c.id == source.c.id + first)
    chosen = sa.select(*columns, uuid, node.c.hostname).select_from(joined).where(source.c.id <= different)
    return like.insert().from_select([*(each.name for each in columns), "uuid", "host"], chosen)


def _node(name: str, record: dict[str, Any], now: Any, topology: HostTopology, generation: int) -> dict[str, Any]:
    return {
        "uuid": uuidutils.generate_uuid(),
        "hostname": name,
        "created_at": now,
        "updated_at": now,
        "generation": generation,
        "topology": record,
        "cpus": len(topology.cpus),
        "mem_total": topology.memory_mib,
        "disk_total": 10000,
        "disk_quota_supported": False,
        "disk_allocation_ratio": 1.0,
        "enable_cpu_pinning": True,
        "availability_zone": "nova",
        "labels": {},
        "runtimes": ["runc"],
        "architecture": "x86_64",
        "os_type": "linux",
    }


def _container(name: str, request: PlacementRequest, cpuset: dict[str, Any], now: Any) -> dict[str, Any]:
    return {**row(request, now), "status": "Running", "host": name, "cpuset": cpuset}


def row(request: PlacementRequest, now: Any) -> dict[str, Any]:
    """A container as the API writes it."""
    asked = request.to_dict()
    return {
        "uuid": uuidutils.generate_uuid(),
        "name": "busy",
        "project_id": "demo",
        "image": "busybox",
        "cpu": float(request.cpus),
        "cpu_policy": request.cpu_policy,
        "memory": request.memory_mib,
        "disk": 1,
        "placement": {"numa_nodes": asked["numa_nodes"], "cpu_thread_policy": asked["thread_policy"]}
        if request.dedicated
        else {},
        "request": {"run": True},
        "status": "Creating",
        "created_at": now,
    }
