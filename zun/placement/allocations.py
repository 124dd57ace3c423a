# SPDX-License-Identifier: Apache-2.0
"""A claim as an allocation: what one container takes of which resource provider. Values only, no I/O."""

import math
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zun.objects import Container
from zun.objects.placement import disk_promised, held_plan
from zun.topology import Plan, amounts

CONSUMER_TYPE = "CONTAINER"

PCPU = "PCPU"
VCPU = "VCPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"

_PROVIDERS = uuid.UUID("5f0d5f6e-6f0c-4b5c-9a53-7a756e706c63")

Resources = Mapping[str, int]
Allocations = Mapping[str, Resources]
"""Amounts by resource class, by the uuid of the provider."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations that Placement must have for one container."""

    allocations: Allocations
    project_id: str
    user_id: str


def root_uuid(host: str) -> str:
    """Return the uuid of the root provider of ``host``: the same at each start, without a record of it."""
    return str(uuid.uuid5(_PROVIDERS, host))


def cell_uuid(host: str, cell: int) -> str:
    """Return the uuid of the provider of one cell of ``host``."""
    return str(uuid.uuid5(_PROVIDERS, f"{host}/{cell}"))


def pool_uuid(aggregate: str) -> str:
    """Return the uuid of the provider of the disk pool of an aggregate: the same on each of its hosts."""
    return str(uuid.uuid5(_PROVIDERS, f"pool/{aggregate}"))


def is_cell(uuid_: str, name: str) -> bool:
    """Return whether this service makes a provider of this uuid and name for a cell of any host."""
    host, _, cell = name.rpartition("_NUMA_")
    return cell.isdecimal() and uuid_ == cell_uuid(host, int(cell))


PAGES = "CUSTOM_HUGEPAGES_"


def page_class(kib: int) -> str:
    """Return the resource class of huge pages of one size, counted in pages: CUSTOM_HUGEPAGES_2048KB."""
    return f"{PAGES}{kib}KB"


def resources_of(plan: Plan) -> dict[int | None, dict[str, int]]:
    """Return the amounts of ``plan`` by cell id and resource class. Cells of which it takes nothing are absent.

    Devices are taken from their cells; under None are those of an unknown cell.

    CPUs kept idle for a container are PCPU like its own. Placement counts whole units, so the share of a pool is
    rounded up: 0.5 CPUs are one VCPU, and so are 0.000001. A mixed container takes both of its cell.
    """
    taken: dict[int | None, dict[str, int]] = {}
    for cell, share in plan.cells.items():
        found = {page_class(size): count for size, count in share.pages.items()}
        beside = [part.cells[cell] for part in plan.each if cell in part.cells]
        found[MEMORY_MB] = sum(each.memory_mib for each in beside if not each.pages)
        if plan.dedicated:
            found[PCPU] = len(share.cpus | share.withheld)
        if plan.uses_pool:
            found[VCPU] = math.ceil(amounts.exact(share.shared))
        if left := {name: amount for name, amount in found.items() if amount}:
            taken[cell] = left
    for device in plan.devices:
        if device.counted_as is not None:
            found = taken.setdefault(device.cell, {})
            found[device.counted_as] = found.get(device.counted_as, 0) + 1
    return taken


def allocations_of(host: str, plan: Plan, disk: int, pool: str | None = None) -> dict[str, dict[str, int]]:
    """Return the allocations of a container with ``plan`` and ``disk`` GiB on ``host``.

    The disk is the host's own, or that of ``pool``: the uuid of the provider of the host's disk pool.
    """
    root = root_uuid(host)
    made = {root if cell is None else cell_uuid(host, cell): taken for cell, taken in resources_of(plan).items()}
    if disk:
        made.setdefault(pool or root, {})[DISK_GB] = disk
    return made


def holding_of(host: str, container: Container, plan: Plan, pool: str | None) -> Holding:
    """Return the allocation of the container on ``host`` with ``plan``. See ``allocations_of`` for ``pool``."""
    allocations = allocations_of(host, plan, disk_promised(container), pool)
    return Holding(allocations, container.project_id, container.user_id or container.project_id)


def holdings_of(host: str, rows: Iterable[Container], pool: str | None) -> dict[str, Holding]:
    """Return the allocations on ``host`` of the containers of ``rows``, by uuid; a capsule holds for its members."""
    own = (row for row in rows if row.host == host and row.capsule_uuid is None)
    held = {row.uuid: holding_of(host, row, plan, pool) for row in own if (plan := held_plan(row)) is not None}
    return {uuid: holding for uuid, holding in held.items() if holding.allocations}


def total_of(plans: Iterable[Plan]) -> dict[int | None, Counter[str]]:
    """Return the total amounts of ``plans`` by cell id and resource class, as ``resources_of``."""
    total: dict[int | None, Counter[str]] = {}
    for plan in plans:
        for cell, taken in resources_of(plan).items():
            total.setdefault(cell, Counter()).update(taken)
    return total


def drift(
    wanted: Mapping[str, Holding], seen: Mapping[str, Allocations], own: Iterable[str]
) -> tuple[set[str], set[str]]:
    """Compare the claims of containers with the allocations on the providers ``own``.

    ``seen`` are the allocations there by consumer. Returns the uuids of containers whose allocations differ, and the
    consumers of which no container of this host is known.
    """
    mine = set(own)
    differing = set()
    for consumer, holding in wanted.items():
        if holding.allocations != {rp: taken for rp, taken in seen.get(consumer, {}).items() if rp in mine}:
            differing.add(consumer)
    return differing, seen.keys() - wanted.keys()
