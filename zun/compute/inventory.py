# SPDX-License-Identifier: Apache-2.0
"""What this host has: the machine as discovered, the operator's settings, the runtime's facts."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oslo_config import cfg

from zun.common import exceptions
from zun.container.driver import HostFacts
from zun.objects import Container
from zun.objects.placement import CPU_RATIO_KEY, RAM_RATIO_KEY, held_plan
from zun.topology import CpuSet, HostTopology
from zun.topology.cpuset import NO_CPUS, union


@dataclass(frozen=True, slots=True)
class Inventory:
    topology: HostTopology
    columns: dict[str, Any]
    """Columns of the compute node besides its name and topology."""


def inventory(
    conf: cfg.ConfigOpts, discovered: HostTopology, facts: HostFacts, others: CpuSet = NO_CPUS
) -> Inventory:
    """``others`` are CPUs that somebody else here has for himself.

    Raises Misconfigured, naming the option, for ratios and CPU sets that can be right on no machine. A set of which
    this machine has no CPU now leaves a note: CPUs go offline, and the agent has to start all the same.
    """
    compute = conf.compute
    sets = {name: _cpus(name, compute[name]) for name in ("cpu_dedicated_set", "cpu_shared_set", "reserved_host_cpus")}
    _check(sets)
    ratios = {name: _ratio(name, compute[name]) for name in (CPU_RATIO_KEY, RAM_RATIO_KEY, "disk_allocation_ratio")}
    topology = replace(discovered, notes=(*discovered.notes, *_absent(discovered, sets))).configured(
        reserved_cpus=sets["reserved_host_cpus"] or NO_CPUS,
        dedicated_set=sets["cpu_dedicated_set"],
        shared_set=sets["cpu_shared_set"],
        reserved_memory_mib=compute.reserved_host_memory_mb,
        cpu_allocation_ratio=ratios[CPU_RATIO_KEY],
        ram_allocation_ratio=ratios[RAM_RATIO_KEY],
        strategy=compute.placement_strategy,
    ).beside(others)
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
    }
    return Inventory(topology, columns)


def held_alone(containers: Sequence[Container], there: Collection[str]) -> CpuSet:
    """The CPUs that those of ``containers`` have for themselves of which the runtime has anything: uuids ``there``."""
    holders = {each.capsule_uuid or each.uuid for each in containers if each.uuid in there}
    plans = [plan for each in containers if each.uuid in holders and (plan := held_plan(each)) is not None]
    return union(plan.cpus | plan.withheld for plan in plans if plan.dedicated)


def own_zone(conf: cfg.ConfigOpts) -> str:
    """The zone that this host reports. One of its aggregates may name another: see ``zun.common.zones``."""
    return str(conf.compute.availability_zone or conf.default_availability_zone)


def _cpus(name: str, text: str) -> CpuSet | None:
    if not text.strip():
        return None
    try:
        return CpuSet(text)
    except ValueError as exc:
        raise exceptions.Misconfigured(f"[compute] {name} = {text}: {exc}") from exc


def _ratio(name: str, ratio: float) -> float:
    if math.isnan(ratio):  # the options' own limits let it pass
        raise exceptions.Misconfigured(f"[compute] {name} = {ratio}: it is no number to multiply a host by")
    return ratio


def _check(sets: Mapping[str, CpuSet | None]) -> None:
    for name, cpus in sets.items():
        if cpus is not None and not cpus:
            raise exceptions.Misconfigured(f"[compute] {name} names no CPU that it does not exclude")
    both = (sets["cpu_dedicated_set"] or NO_CPUS) & (sets["cpu_shared_set"] or NO_CPUS)
    if both:
        raise exceptions.Misconfigured(
            f"CPUs {both} are in both cpu_dedicated_set and cpu_shared_set; leave them in one"
        )


def _absent(discovered: HostTopology, sets: Mapping[str, CpuSet | None]) -> Iterator[str]:
    for name, cpus in sets.items():
        if cpus is not None and not cpus & discovered.cpus:
            yield f"[compute] {name} = {cpus}: none of these CPUs is online here ({discovered.cpus} are)"
