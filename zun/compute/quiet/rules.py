# SPDX-License-Identifier: Apache-2.0
"""Say which value each file of the kernel is to have while containers hold their claims. No I/O.

Sources: Documentation/core-api/irq/irq-affinity.rst, core-api/workqueue.rst, admin-guide/pm/cpufreq.rst, cpuidle.rst
and ABI/testing/sysfs-devices-power of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from zun.compute.quiet.kernel_files import Kind, Setting
from zun.compute.quiet.partitions import Partition
from zun.compute.quiet.profiles import Profile
from zun.objects.wishes import Interrupts, Wishes
from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS, union

DEFAULT_AFFINITY = "proc/irq/default_smp_affinity"
"""The CPUs of interrupts that a device gets later, for example when it is plugged in."""
WORKERS = "sys/devices/virtual/workqueue/cpumask"
"""The CPUs of kernel workers that belong to no CPU."""
WORKERS_ASKED = "sys/devices/virtual/workqueue/cpumask_requested"
"""The mask that was last written to ``WORKERS``, which itself lacks the CPUs of isolated partitions. Since Linux 6.7.
"""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The own CPUs of a container with what it wishes of them, and the PCI addresses of its devices.

    ``kept`` are CPUs that nothing runs on while it has its own. ``cache_ways`` and ``memory_bandwidth`` (percent) are
    its part of each L3 that one of ``cpus`` uses.
    """

    cpus: CpuSet
    wishes: Wishes
    devices: tuple[str, ...] = ()
    uuid: str = ""
    kept: CpuSet = NO_CPUS
    cache_ways: int = 0
    memory_bandwidth: int = 0

    @property
    def all_cpus(self) -> CpuSet:
        return self.cpus | self.kept


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the machine. ``irqs`` are the numbers of its device interrupts, ``of_device`` those of each PCI address.

    ``clocks`` maps CPU -> the folder that sets its clock; several CPUs may have one clock. ``latencies`` maps CPU ->
    name of a sleep state -> microseconds until the CPU runs again.
    """

    online: CpuSet
    irqs: CpuSet = NO_CPUS
    of_device: Mapping[str, CpuSet] = field(default_factory=dict)
    separate_workers: bool = False
    clocks: Mapping[int, str] = field(default_factory=dict)
    latencies: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


def quiet_cpus(claims: Iterable[Claimed], default: Interrupts) -> CpuSet:
    """Return the CPUs that interrupts are to leave. ``default`` is for containers that wish nothing."""
    return union(each.all_cpus for each in claims if (each.wishes.interrupts or default) != Interrupts.ANY)


def own_interrupts(claims: Iterable[Claimed], machine: Machine) -> dict[int, CpuSet]:
    """Return interrupt -> the CPUs of the container whose device it belongs to and that wants it there."""
    return {
        irq: each.cpus
        for each in claims
        if each.wishes.interrupts == Interrupts.OWN
        for address in each.devices
        for irq in machine.of_device.get(address, ())
    }


def interrupt_settings(claims: Iterable[Claimed], away: CpuSet, machine: Machine) -> Iterator[Setting]:
    """Yield the settings that keep interrupts and kernel workers off the CPUs ``away``, those of ``quiet_cpus``.

    If no CPU of an interrupt is left, it goes to all others. If containers have every CPU of the machine, interrupts
    stay, because they must arrive somewhere.
    """
    if not away:
        return
    own = own_interrupts(claims, machine)
    off = partial(_off, away & machine.online, machine.online - away)
    yield Setting(DEFAULT_AFFINITY, Kind.MAP, off)
    for irq in machine.irqs:
        there = own.get(irq, NO_CPUS) & machine.online
        wanted = off if not there else partial(_always, str(there))
        yield Setting(f"proc/irq/{irq}/smp_affinity_list", Kind.LIST, wanted)
    yield Setting(WORKERS, Kind.MAP, off, WORKERS_ASKED if machine.separate_workers else None)


def power_settings(claims: Iterable[Claimed], profiles: Mapping[str, Profile], machine: Machine) -> Iterator[Setting]:
    """Yield the settings of the power profiles that containers wish, for each of their CPUs."""
    for each in claims:
        profile = profiles.get(each.wishes.power_profile or "")
        if profile is not None:
            for cpu in each.all_cpus & machine.online:
                yield from _of_profile(profile, cpu, machine)


def partitions(claims: Iterable[Claimed]) -> dict[str, Partition]:
    """Return uuid -> the partition of each container that asks for one, with the CPUs that its resize adds.

    CPUs that are kept idle for it are part of it: then processes of the host are off these too.
    """
    found: dict[str, Partition] = {}
    for each in claims:
        kind = each.wishes.partition
        if kind is not None:
            before = found.get(each.uuid)
            cpus = each.all_cpus if before is None else each.all_cpus | before.cpus
            found[each.uuid] = Partition(cpus, kind)
    return found


def _of_profile(profile: Profile, cpu: int, machine: Machine) -> Iterator[Setting]:
    """Yield the settings of one CPU, in an order that drivers accept: the governor decides what else may be set."""
    clock = machine.clocks.get(cpu)
    values = {
        f"{clock}/scaling_governor": profile.governor,
        f"{clock}/scaling_min_freq": None if profile.min_mhz is None else str(profile.min_mhz * 1000),
        f"{clock}/energy_performance_preference": profile.energy_preference,
    }
    latency = profile.latency(machine.latencies.get(cpu, {}))
    sleep = {f"sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us": latency}
    for path, value in {**(values if clock is not None else {}), **sleep}.items():
        if value is not None:
            yield Setting(path, Kind.TEXT, partial(_always, value))


def _off(away: CpuSet, others: CpuSet, before: str) -> str:
    """Return the CPUs of ``before`` without ``away``, or else all ``others``; ``before`` if there are no others."""
    own = CpuSet(before)
    return str(own - away or others or own)


def _always(value: str, before: str) -> str:
    return value
