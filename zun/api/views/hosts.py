# SPDX-License-Identifier: Apache-2.0
"""Responses about compute hosts: the inventory, and a map of who holds which CPUs and memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, cast

from zun.api import microversion
from zun.api.free_amounts import Amounts, HostAmounts
from zun.api.microversion import Version
from zun.api.views import links, members
from zun.common import traits
from zun.db import models
from zun.db.compute_nodes import HostUsage
from zun.nouns import cloud
from zun.objects.placement import held_plan
from zun.topology import CpuSet, HostTopology, NUMACell, Plan, Usage, devices
from zun.topology.cache_control import CacheControl
from zun.topology.cpuset import NO_CPUS, union
from zun.topology.device_view import DeviceView
from zun.topology.foreign import ForeignShare

NOUN = "hosts"


class Engine(TypedDict):
    """The container engine of a host. A text is empty, and another value null, if the engine does not tell it.

    ``runtime`` is the default runtime and its version, ``storage_driver`` stores the layers of images and containers in
    ``folder``, and ``image_store`` is who keeps images. ``away`` says why the host cannot use its engine and gets no
    containers, or is null.
    """

    name: str
    version: str
    api_version: str
    runtime: str
    cgroup_version: int | None
    live_restore: bool | None
    folder: str
    storage_driver: str
    image_store: str
    away: str | None


Host = Annotated[
    members.Shown, members.Answer(cloud.Host, engine=Engine | None, total=Amounts | None, free=Amounts | None)
]


class Hosts(TypedDict):
    hosts: list[Host]
    next: str | None


class Cell(TypedDict):
    id: int
    cpus: str
    cores: list[str]
    l3: list[str]
    memory_mib: int
    memory_used_mib: int
    memory_reserved_mib: int
    pages: dict[str, int]
    distances: dict[str, int]


class Taken(TypedDict):
    """A container of a host that is down. ``reason`` says why it stays, null if it is taken elsewhere."""

    container: str
    name: str
    runs: bool
    reason: str | None


class Evacuation(TypedDict):
    host: str
    containers: list[Taken]


class Drained(TypedDict):
    """A container of a host that is drained. ``state`` is ``waits``, ``moves``, ``moved`` or ``stays``.

    ``to`` is the host that one has moved to, in a dry run the host that it would get now, or null. ``reason`` says why
    one stays, or is null.
    """

    container: str
    name: str
    state: str
    to: str | None
    reason: str | None


class Drain(TypedDict):
    """``done``: nothing waits and nothing moves. ``since`` is null in a dry run."""

    host: str
    since: str | None
    parallel: int
    discard_layer: bool
    done: bool
    containers: list[Drained]


class Part(TypedDict):
    """The part of a capsule's claim on which one of its containers runs."""

    container: str
    name: str
    cpuset_cpus: str


class Claim(TypedDict):
    """The resources that one container holds, or one capsule, whose ``members`` share them.

    If the caller may not see whose they are, ``container`` is null (empty below version 1.48), and ``name``,
    ``devices`` and ``members`` are empty.
    """

    container: str | None
    name: str
    cpu_policy: str
    cpuset_cpus: str
    withheld: str
    cpuset_mems: str
    memory_mib: dict[str, int]
    cpuset_dedicated: NotRequired[Annotated[str, microversion.MIXED]]
    pages: NotRequired[Annotated[dict[str, dict[str, int]], microversion.MAP]]
    devices: NotRequired[Annotated[list[str], microversion.MAP]]
    members: NotRequired[Annotated[list[Part], microversion.POD_MEMBERS]]


class Device(TypedDict):
    """One device that the host offers. ``cell`` is null if the machine does not tell where the device is.

    ``nearest_cells`` are the cells with CPUs that are nearest to the device, ``memory_node`` is its own memory. At most
    ``shared`` containers may have the device at the same time, and ``holders`` is how many have it.
    """

    address: str
    vendor_id: str
    product_id: str
    class_id: str
    type: str
    cell: int | None
    switch: str | None
    physical: str | None
    iommu_group: int | None
    driver: str | None
    nodes: list[str]
    interfaces: list[str]
    physical_network: str | None
    trusted: bool
    resource_class: str | None
    traits: list[str]
    links: NotRequired[Annotated[list[str], microversion.DEVICE_LINKS]]
    nearest_cells: NotRequired[Annotated[list[int], microversion.DEVICE_LINKS]]
    memory_node: NotRequired[Annotated[int | None, microversion.DEVICE_LINKS]]
    shared: NotRequired[Annotated[int, microversion.DEVICE_SHARES]]
    holders: NotRequired[Annotated[int, microversion.DEVICE_SHARES]]


class Foreign(TypedDict):
    """The amounts that other services have of one cell. ``cell`` is null for the disk, which no cell has."""

    cell: int | None
    cpus: int
    withheld: str
    shared: int
    memory_mib: int
    pages: dict[str, int]
    disk_gib: int


class Cache(TypedDict):
    """The parts of one L3 cache for containers. Bandwidth is in percent, and 0 if the host does not divide it."""

    cpus: str
    ways: int
    ways_left: int
    way_kib: int
    bandwidth: int
    bandwidth_left: int


class Topology(TypedDict):
    host: str
    uuid: str
    generation: int
    cells: list[Cell]
    offline: str
    reserved: str
    isolated: str
    shared: str
    claims: list[Claim]
    devices: NotRequired[Annotated[list[Device], microversion.DEVICES]]
    foreign: NotRequired[Annotated[list[Foreign], microversion.FOREIGN]]
    sockets: NotRequired[Annotated[list[str], microversion.MAP]]
    caches: NotRequired[Annotated[list[Cache], microversion.QUIET]]


class Traits(TypedDict):
    """``added`` are those of ``traits`` that only administrators gave the host."""

    host: str
    uuid: str
    traits: list[str]
    added: list[str]


class Audit(TypedDict):
    """The host's answer. ``isolation`` has ``stuck``, ``last_minute`` and ``problem`` from 1.51 on."""

    host: str
    findings: list[dict[str, Any]]
    containers: dict[str, int]
    totals: dict[str, int]
    isolation: list[dict[str, Any]]


def audit(answer: Mapping[str, Any], version: Version) -> Audit:
    """Return the answer of a host at ``version``."""
    told = cast(Audit, answer)
    if version >= microversion.QUIET or "isolation" not in answer:  # an older host
        return told
    newer = ("stuck", "last_minute", "problem")
    older = [{name: value for name, value in each.items() if name not in newer} for each in told["isolation"]]
    return {**told, "isolation": older}


class Place(NamedTuple):
    """Where a host is in the cloud, and its amounts, None if its topology cannot be read."""

    zone: str
    aggregates: list[str]
    amounts: HostAmounts | None


def show(row: Mapping[str, Any], usage: HostUsage, base_url: str, version: Version, place: Place | None = None) -> Host:
    """Return the inventory of a host, with memory in MiB and disk in GiB. From 1.48 on it needs the ``place``."""
    zone, aggregates, amounts = place or Place("", [], None)
    total, free = amounts or (None, None)
    return members.show(
        cloud.Host,
        row,
        version,
        links=links.item(base_url, NOUN, row["uuid"]),
        mem_used=usage.memory,
        cpu_used=usage.cpu,
        disk_used=usage.disk,
        total_containers=usage.containers,
        engine=lambda: _engine(row["engine"] or {}),
        availability_zone=zone,
        aggregates=aggregates,
        traits=lambda: sorted(traits.of_node(row)),
        total=total,
        free=free,
    )


def _engine(told: Mapping[str, Any]) -> Engine | None:
    """Return the engine as its host told it, None if the host has not told it yet."""
    try:
        store = told["store"]
        return {
            "name": str(told["name"]),
            "version": str(told["version"]),
            "api_version": str(told["api_version"]),
            "runtime": str(told["runtime"]),
            "cgroup_version": told["cgroup_version"],
            "live_restore": told["live_restore"],
            "folder": str(store["folder"]),
            "storage_driver": str(store["driver"]),
            "image_store": str(store["images"]),
            "away": told["away"],
        }
    except (KeyError, TypeError):  # not written yet, or by hand
        return None


def drain(host: str, wish: Mapping[str, Any], containers: list[Any]) -> Drain:
    return {
        "host": host,
        "since": wish["since"],
        "parallel": wish["parallel"],
        "discard_layer": wish["discard_layer"],
        "done": all(each["state"] in ("moved", "stays") for each in containers),
        "containers": containers,
    }


def of_traits(row: Mapping[str, Any]) -> Traits:
    own, every = frozenset(row["traits"] or ()), traits.of_node(row)
    return {"host": row["hostname"], "uuid": row["uuid"], "traits": sorted(every), "added": sorted(every - own)}


def _everybody(_row: Mapping[str, Any]) -> bool:
    return True


def topology(
    node: Mapping[str, Any],
    claims: Iterable[Mapping[str, Any]],
    version: Version,
    named: Callable[[Mapping[str, Any]], bool] = _everybody,
    parts: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({}),
) -> Topology:
    """Return the map of a host: its cells, the reserved resources, and each claim. CPU sets are kernel lists, memory is
    MiB. ``named`` tells of the row of a claim whether the caller may see whose it is. ``parts`` are the rows of the
    containers of each capsule.

    ``claims`` are the rows of the containers that hold something there. If two rows wrongly hold the same CPU, the map
    shows both, so that the operator can find them. Raises RowUnreadable.
    """
    anew = "zun-compute of that host writes it anew every [compute] inventory_interval seconds: see that it runs."
    with models.readable(models.compute_nodes.c.topology, node["uuid"], anew):
        host = HostTopology.from_dict(node["topology"])
    plans = [(row, plan) for row in claims if (plan := held_plan(row)) is not None]
    own = union(plan.dedicated_cpus | plan.withheld for _, plan in plans)
    pool = host.pool_cpus - own
    if not pool and any(plan.uses_pool for _, plan in plans):
        pool = host.without_shared_set().pool_cpus - own  # where they run until there is a pool again
    shown: Topology = {
        "host": node["hostname"],
        "uuid": node["uuid"],
        "generation": node["generation"],
        "cells": [_cell(host, cell, plans) for cell in host.cells],
        "offline": str(host.offline),
        "reserved": str(host.reserved),
        "isolated": str(host.isolated),
        "shared": str(pool),
        "claims": [_claim(row, plan, parts.get(row["uuid"], ()), version, named=named(row)) for row, plan in plans],
    }
    if version >= microversion.DEVICES:
        held = Counter([each.address for _, plan in plans for each in plan.devices])
        shown["devices"] = [_device(device, host.device_view, held[device.address], version) for device in host.devices]
    if version >= microversion.FOREIGN:
        shown["foreign"] = list(_foreign(host))
    if version >= microversion.MAP:
        shown["sockets"] = [str(socket) for socket in host.sockets]
    if version >= microversion.QUIET:
        shown["caches"] = list(_caches(host.cache_control, [plan for _, plan in plans]))
    return shown


def _caches(control: CacheControl, plans: Iterable[Plan]) -> Iterator[Cache]:
    usage = Usage(((str(number), plan) for number, plan in enumerate(plans)), overlapping=True)
    for cpus, left in usage.cache_left(control):
        yield {
            "cpus": str(cpus),
            "ways": control.ways,
            "ways_left": left.ways,
            "way_kib": control.way_kib,
            "bandwidth": control.bandwidth,
            "bandwidth_left": left.bandwidth,
        }


def _foreign(host: HostTopology) -> Iterator[Foreign]:
    nothing = ForeignShare()
    whole: list[tuple[int | None, CpuSet, ForeignShare, int]] = [
        (cell.id, host.foreign.withheld & cell.cpus, host.foreign.share(cell.id), 0) for cell in host.cells
    ]
    for cell, withheld, share, disk in [*whole, (None, NO_CPUS, nothing, host.foreign.disk)]:
        if share != nothing or disk:
            yield {
                "cell": cell,
                "cpus": share.cpus,
                "withheld": str(withheld),
                "shared": share.shared,
                "memory_mib": share.memory_mib,
                "pages": {str(size): count for size, count in share.pages.items()},
                "disk_gib": disk,
            }


def _device(device: devices.Device, view: DeviceView, holders: int, version: Version) -> Device:
    shown: Device = {
        "address": device.address,
        "vendor_id": device.vendor_id,
        "product_id": device.product_id,
        "class_id": device.class_id,
        "type": device.type,
        "cell": device.cell,
        "switch": device.switch,
        "physical": device.physical,
        "iommu_group": device.iommu_group,
        "driver": device.driver,
        "nodes": list(device.nodes),
        "interfaces": list(device.interfaces),
        "physical_network": device.physical_network,
        "trusted": device.trusted,
        "resource_class": device.resource_class,
        "traits": list(device.traits),
    }
    if version >= microversion.DEVICE_LINKS:
        shown["links"] = sorted(view.linked.get(device.address, ()))
        shown["nearest_cells"] = [] if device.cell is None else list(view.homes.get(device.cell, ()))
        shown["memory_node"] = device.memory_node
    if version >= microversion.DEVICE_SHARES:
        shown["shared"], shown["holders"] = device.shared, holders
    return shown


def _cell(host: HostTopology, cell: NUMACell, plans: Iterable[tuple[Any, Plan]]) -> Cell:
    shares = [plan.cells[cell.id] for _, plan in plans if cell.id in plan.cells]
    return {
        "id": cell.id,
        "cpus": str(cell.cpus),
        "cores": [str(core) for core in cell.siblings],
        "l3": [str(group) for group in cell.l3],
        "memory_mib": cell.memory_mib,
        "memory_used_mib": sum(share.memory_mib for share in shares),
        "memory_reserved_mib": host.reserved_memory_mib.get(cell.id, 0),
        "pages": {str(size): count for size, count in cell.pages.items()},
        "distances": {str(other): distance for other, distance in cell.distances.items()},
    }


def _claim(
    row: Mapping[str, Any], plan: Plan, parts: Sequence[Mapping[str, Any]], version: Version, *, named: bool
) -> Claim:
    held = row["cpuset"]
    nobody = None if version >= microversion.MAP else ""
    claim: Claim = {
        "container": row["uuid"] if named else nobody,
        "name": row["name"] if named else "",
        "cpu_policy": plan.cpu_policy,
        "cpuset_cpus": held.get("cpuset_cpus", str(plan.cpus)),
        "withheld": str(plan.withheld),
        "cpuset_mems": held.get("cpuset_mems", str(plan.mems)),
        "memory_mib": {str(cell): share.memory_mib for cell, share in plan.cells.items()},
    }
    if version >= microversion.MIXED and plan.dedicated and plan.uses_pool:
        claim["cpuset_dedicated"] = str(plan.dedicated_cpus)
    if version >= microversion.MAP:
        claim["pages"] = {
            str(cell): {str(size): count for size, count in share.pages.items()}
            for cell, share in plan.cells.items()
            if share.pages
        }
        claim["devices"] = [device.address for device in plan.devices] if named else []
    if version >= microversion.POD_MEMBERS:
        claim["members"] = [_part(each) for each in parts if each["cpuset"]] if named else []
    return claim


def _part(row: Mapping[str, Any]) -> Part:
    return {"container": row["uuid"], "name": row["name"] or "", "cpuset_cpus": row["cpuset"].get("cpuset_cpus", "")}
