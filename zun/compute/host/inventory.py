# SPDX-License-Identifier: Apache-2.0
"""Build the inventory of this host from the discovered machine, the options and the runtime's facts."""

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oslo_config import cfg
from oslo_utils import strutils

from zun.common import exceptions, traits
from zun.compute.quiet.quiet import NO_ABILITIES, Abilities
from zun.container.driver.facts import HostFacts
from zun.container.driver.hugepages import PageStock
from zun.objects import Container
from zun.objects.placement import CPU_RATIO_KEY, RAM_RATIO_KEY, held_plan
from zun.topology import CpuSet, HostTopology, Plan, device_spec, ranges
from zun.topology.cpuset import NO_CPUS, union
from zun.topology.devices import Device, DeviceType


@dataclass(frozen=True, slots=True)
class Inventory:
    topology: HostTopology
    columns: dict[str, Any]
    """Columns of the compute node's row besides its name and topology, for example ``mem_total``."""


def inventory(
    conf: cfg.ConfigOpts,
    discovered: HostTopology,
    facts: HostFacts,
    others: Collection[Plan] = (),
    held: Collection[str] = (),
    *,
    neutron: bool = False,
    quiet: Abilities = NO_ABILITIES,
) -> Inventory:
    """Return the inventory.

    ``others`` are plans of containers on this machine that are not this service's, or whose rows are lost: their own
    CPUs and their devices are not offered. ``held`` are the addresses of the devices that this service's containers
    hold. With ``neutron``, the networks of this host are those of Neutron. ``quiet`` tells what the host can do
    for the CPUs of containers.

    Raise Misconfigured, with the name of the option, for a ratio, CPU set or trait that is invalid on every machine. If
    no CPU of a set is online, add a note to the topology instead: CPUs go offline, and the agent must still start.
    """
    compute = conf.compute
    sets = {name: _cpus(name, compute[name]) for name in ("cpu_dedicated_set", "cpu_shared_set", "reserved_host_cpus")}
    _check(sets)
    ratios = {name: _ratio(name, compute[name]) for name in (CPU_RATIO_KEY, RAM_RATIO_KEY, "disk_allocation_ratio")}
    specs = _device_specs(conf.devices.device_spec)
    selected = device_spec.given(discovered.devices, specs)
    usable, used = device_spec.without_used(selected, held)
    sharing, alone = device_spec.shareable(usable, held)
    known, unknown = _known_to_runtime(sharing, facts.cdi_names)
    offered, doubles = device_spec.without_doubles(known, [each for each in discovered.devices if each.address in held])
    foreign = _devices_of_others(replace(discovered, devices=offered), others, held)
    offered = tuple(device for device in offered if device.address not in foreign)
    with _told("[compute] reserved_huge_pages = "):
        kept = reserved_pages(compute.reserved_huge_pages)
    idle = (*_idle(specs, discovered.devices), *_unsized(specs, discovered.devices))
    left_out = (*used, *alone, *unknown, *doubles, *foreign.values())
    lacking = (*_absent(discovered, sets), *lacking_pages(discovered, kept))
    notes = (*discovered.notes, *quiet.notes, *idle, *left_out, *lacking)
    notes = tuple(map(ranges.cleaned, notes))  # a name of a file may have any bytes
    topology = replace(discovered, devices=offered, notes=notes).configured(
        reserved_cpus=sets["reserved_host_cpus"] or NO_CPUS,
        dedicated_set=sets["cpu_dedicated_set"],
        shared_set=sets["cpu_shared_set"],
        reserved_memory_mib=compute.reserved_host_memory_mb,
        cpu_allocation_ratio=ratios[CPU_RATIO_KEY],
        ram_allocation_ratio=ratios[RAM_RATIO_KEY],
        strategy=compute.placement_strategy,
    ).without_pages(kept).beside(union(plan.dedicated_cpus | plan.withheld for plan in others))  # fmt: skip
    columns = {
        "cpus": len(discovered.cpus),
        "mem_total": discovered.memory_mib,
        "disk_total": facts.disk_total_gib,
        "disk_quota_supported": facts.disk_quota_supported,
        "disk_allocation_ratio": ratios["disk_allocation_ratio"],
        "enable_cpu_pinning": compute.enable_cpu_pinning,
        "availability_zone": own_zone(conf),
        "labels": {**facts.labels, **compute.labels},
        "runtimes": facts.runtimes,
        "architecture": facts.architecture,
        "os_type": facts.os_type,
        "os": facts.os,
        "kernel_version": facts.kernel_version,
        "traits": sorted(_traits(conf, discovered, facts, neutron=neutron) | quiet.traits),
    }
    return Inventory(topology, columns)


def plans_there(containers: Sequence[Container], there: Collection[str]) -> list[Plan]:
    """Return the plans of the ``containers`` that exist at the runtime. ``there`` are the uuids it knows."""
    holders = {each.capsule_uuid or each.uuid for each in containers if each.uuid in there}
    return [plan for each in containers if each.uuid in holders and (plan := held_plan(each)) is not None]


def _devices_of_others(topology: HostTopology, others: Iterable[Plan], held: Collection[str]) -> dict[str, str]:
    """Return notes by address on the devices that containers of ``others`` have or rule out, without those of ``held``.

    A shared device is among them as well: how many shares are left is not known.
    """
    claimed = [replace(device, shared=1).held for plan in others for device in plan.devices]
    return {
        address: f"device {address} is not offered: a container on this machine has {holder} and is not one of "
        f"this service. If the database was lost, 'zun-db-manage recover' brings it back; else stop it there"
        for address, holder in sorted(topology.device_view.taken(claimed).items())
        if address in topology.device_view.by_address and address not in held
    }


def own_zone(conf: cfg.ConfigOpts) -> str:
    """Return the zone that this host reports. An aggregate may set another zone; see ``zun.common.zones``."""
    return str(conf.compute.availability_zone or conf.default_availability_zone)


def _traits(conf: cfg.ConfigOpts, discovered: HostTopology, facts: HostFacts, *, neutron: bool) -> frozenset[str]:
    """Return the traits of the machine's CPUs, of its engine, of the services that the host can use, and its own."""
    for name in conf.compute.traits:
        if wrong := traits.problem(name):
            raise exceptions.Misconfigured(f"[compute] traits: {wrong}")
    has = {
        traits.HYPERTHREADING: any(len(core) > 1 for cell in discovered.cells for core in cell.siblings),
        traits.NO_HEALTHCHECKS: not facts.runs_healthchecks,
        traits.CINDER: conf.cinder.enabled,
        traits.NEUTRON: neutron,
    }
    return traits.cpu_traits(facts.cpu_flags) | {name for name, there in has.items() if there} | {*conf.compute.traits}


@contextlib.contextmanager
def _told(option: str) -> Iterator[None]:
    """Raise a ValueError of the body as Misconfigured, with ``option`` before its text."""
    try:
        yield
    except ValueError as exc:
        raise exceptions.Misconfigured(f"{option}{exc}") from exc


def _cpus(name: str, text: str) -> CpuSet | None:
    with _told(f"[compute] {name} = {text}: "):
        return CpuSet(text) if text.strip() else None


def _ratio(name: str, ratio: float) -> float:
    if math.isnan(ratio):  # passes the minimum and maximum of the option
        raise exceptions.Misconfigured(f"[compute] {name} must be a number, got {ratio}")
    return ratio


def _device_specs(texts: Sequence[str]) -> list[device_spec.DeviceSpec]:
    specs: list[device_spec.DeviceSpec] = []
    for text in texts:
        with _told(f"[devices] device_spec = {text}: "):
            specs += device_spec.parse_values(text)
    with _told("[devices] device_spec: "):
        device_spec.check_classes(specs)
    return specs


def _idle(specs: Sequence[device_spec.DeviceSpec], devices: Iterable[Device]) -> tuple[str, ...]:
    """Return a note on each spec that selects no device of the host. Specs are counted over all values."""
    devices = tuple(devices)
    return tuple(
        f"[devices] device_spec: object {number} selects no device of this host ({spec.conditions})"
        for number, spec in enumerate(specs, 1)
        if not any(map(spec.matches, devices))
    )


def _unsized(specs: Iterable[device_spec.DeviceSpec], devices: Iterable[Device]) -> tuple[str, ...]:
    """Return a note on the parts of GPUs whose profile is unknown, if a spec is for parts."""
    unknown = [each.address for each in devices if each.type is DeviceType.PART and each.profile is None]
    if not unknown or all(spec.part is None for spec in specs):
        return ()
    return (
        f"the profile of {', '.join(unknown)} is unknown, so only \"part\": \"*\" of device_spec selects it. NVML "
        "tells the profiles of MIG instances: install nvidia-ml-py beside zun-compute",
    )


def _known_to_runtime(
    devices: Iterable[Device], names: Collection[str] | None
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices that the runtime can give, and a note on each CDI device that is unknown to the runtime.

    ``names`` are the CDI devices that the runtime's own CDI found; None if the runtime does not tell.
    """
    devices = tuple(devices)
    if names is None:
        return devices, ()
    unknown = [each for each in devices if each.type is DeviceType.CDI and each.address not in names]
    return tuple(each for each in devices if each not in unknown), tuple(
        f"device {each.address} is not offered: Docker's own CDI has not found it; the warnings of 'docker info' say "
        "why, mostly a cdiVersion that this release of Docker does not read"
        for each in unknown
    )


def _check(sets: Mapping[str, CpuSet | None]) -> None:
    for name, cpus in sets.items():
        if cpus is not None and not cpus:
            raise exceptions.Misconfigured(f"[compute] {name} must name at least one CPU that it does not exclude")
    both = (sets["cpu_dedicated_set"] or NO_CPUS) & (sets["cpu_shared_set"] or NO_CPUS)
    if both:
        raise exceptions.Misconfigured(
            f"CPUs {both} are in both cpu_dedicated_set and cpu_shared_set; leave them in one"
        )


def _absent(discovered: HostTopology, sets: Mapping[str, CpuSet | None]) -> Iterator[str]:
    for name, cpus in sets.items():
        if cpus is not None and not cpus & discovered.cpus:
            yield f"[compute] {name} = {cpus}: none of these CPUs is online here ({discovered.cpus} are)"


Pages = dict[int, dict[int, int]]
"""Number of huge pages by memory node and size in KiB: ``{0: {1048576: 2}}`` is 2 GiB on node 0."""

_EXAMPLE = "node:0,size:1GB,count:2"


def reserved_pages(texts: Sequence[str]) -> Pages:
    """Return the pages that ``[compute] reserved_huge_pages`` keeps for the host's own programs, in Nova's form.

    A line is such as ``node:0,size:1GB,count:2``; a size without a unit is KiB. Raise ValueError, with the line and the
    member, for text of another form and for one size twice on a node.
    """
    found: Pages = {}
    for text in texts:
        pairs = (part.partition(":") for part in text.split(","))
        members = {name.strip(): value.strip() for name, _, value in pairs}
        if sorted(members) != ["count", "node", "size"] or text.count(",") != 2:
            raise ValueError(f"{text!r} must have the members node, size and count, for example {_EXAMPLE}")
        node, count = (_number(text, name, members[name]) for name in ("node", "count"))
        sizes = found.setdefault(node, {})
        size = _size(text, members["size"])
        if size in sizes:
            raise ValueError(f"{text!r}: pages of {size} KiB of node {node} are there already; give one line for them")
        sizes[size] = count
    return found


def _number(text: str, name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value):
        raise ValueError(f"{text!r}: {name} must be a whole number, got {value!r}; an example is {_EXAMPLE}")
    return int(value)


def _size(text: str, value: str) -> int:
    """Return KiB of ``2048``, ``2MB`` or ``1GB``."""
    try:
        kib = int(value) if value.isdecimal() else strutils.string_to_bytes(value, return_int=True) // 1024
    except ValueError:
        kib = 0
    if not 0 < kib < 1 << 40:
        raise ValueError(f"{text!r}: size must be KiB or have a unit, as 2048, 2MB or 1GB, got {value!r}")
    return kib


def lacking_pages(topology: HostTopology, reserved: Pages) -> Iterator[str]:
    """Yield a note on each size of which a node has fewer pages than are to be reserved."""
    for node, sizes in reserved.items():
        for size, count in sizes.items():
            has = next((cell.pages.get(size, 0) for cell in topology.cells if cell.id == node), 0)
            if has < count:
                yield (
                    f"[compute] reserved_huge_pages keeps {count} pages of {size} KiB of memory node {node}, which has "
                    f"{has}"
                )


def pages_of_programs(
    topology: HostTopology, claims: Iterable[Plan], stock: Mapping[int, Mapping[int, PageStock]]
) -> Iterator[str]:
    """Yield a note on each size of which a node has fewer free pages than containers may still be given.

    ``topology`` is the host without reserved pages, ``claims`` are its containers, and ``stock`` has the pages as the
    kernel counts them.
    """
    claims = tuple(claims)
    for cell in topology.cells:
        for size, count in cell.pages.items():
            held = sum(share.pages.get(size, 0) for plan in claims if (share := plan.cells.get(cell.id)) is not None)
            held += topology.foreign.share(cell.id).pages.get(size, 0)
            known = stock.get(cell.id, {}).get(size)
            if known is not None and known.free < count - held:
                yield (
                    f"programs outside of the service use {count - held - known.free} huge pages of {size} KiB on "
                    f"memory node {cell.id} that containers may still be given; keep them for the host with [compute] "
                    "reserved_huge_pages"
                )
