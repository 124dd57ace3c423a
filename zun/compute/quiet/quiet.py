# SPDX-License-Identifier: Apache-2.0
"""Keep the CPUs of containers quiet: from the claims of the host to the files of its kernel."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from oslo_config import cfg

from zun.common import exceptions, traits
from zun.common.whole_files import place_of
from zun.compute.quiet import profiles, rules
from zun.compute.quiet.irqbalance import Irqbalance
from zun.compute.quiet.kernel_files import KernelFiles
from zun.compute.quiet.partitions import Partitions
from zun.compute.quiet.profiles import Profile
from zun.compute.quiet.resctrl import CacheUse, Resctrl
from zun.compute.quiet.rules import Claimed, Machine
from zun.objects.wishes import Interrupts
from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS
from zun.topology.files import Tree
from zun.topology.interrupts import interrupts

LOG = logging.getLogger(__name__)

FIXED = "fixed"
"""Value of ``[compute] interrupts`` with which the host's interrupts are never moved."""
_IRQ = "proc/irq/"


class Abilities(NamedTuple):
    """The traits of what a host can do for the CPUs of containers, and notes on what it cannot."""

    traits: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


NO_ABILITIES = Abilities()


class Quiet(Protocol):
    """Keeps interrupts, processes of the host, changes of the clock and deep sleep off the CPUs of containers."""

    def settle(self, *, thorough: bool = False) -> None:
        """Give the kernel what the claims of this moment ask for, and what they ask for no more its own values back.

        ``thorough``: also if the claims are those of the last time. Devices come, and others change the files.
        Failures are logged: they must stop no container.
        """

    def abilities(self, cpus: Collection[int], cgroup_driver: str) -> Abilities:
        """Return what this host can do for each of ``cpus``. ``cgroup_driver`` makes the engine's control groups."""

    def problem(self, uuid: str) -> str | None:
        """Return what is wrong with the partition or the caches of a container since the last ``settle``, or None."""

    def monitor_tasks(self, tasks: Mapping[str, Collection[int]]) -> None:
        """Count from now on what the threads of shared containers, by uuid, use of the caches, and of no others."""

    def cache_use(self, uuid: str) -> CacheUse | None:
        """Return what a container uses of the caches, or None if it is not counted."""

    @property
    def stuck(self) -> Mapping[int, str]:
        """The interrupts that the kernel did not let move, with the name of the device and the reason."""


class NoQuiet:
    """For a host whose kernel is not ours: nothing is changed."""

    stuck: Mapping[int, str] = {}

    def settle(self, *, thorough: bool = False) -> None:
        pass

    def abilities(self, cpus: Collection[int], cgroup_driver: str) -> Abilities:
        return NO_ABILITIES

    def problem(self, uuid: str) -> str | None:
        return None

    def monitor_tasks(self, tasks: Mapping[str, Collection[int]]) -> None:
        pass

    def cache_use(self, uuid: str) -> CacheUse | None:
        return None


class QuietKernel:
    """Changes the kernel's files below ``root``. Thread-safe."""

    def __init__(
        self,
        root: Path,
        record: Path,
        claims: Callable[[], Sequence[Claimed]],
        *,
        interrupts: str = Interrupts.AWAY,
        offered: Mapping[str, Profile] | None = None,
    ) -> None:
        """``claims`` returns the claims of this moment, ``interrupts`` is the option, ``offered`` the profiles."""
        self._root, self._tree = root, Tree(root)
        self._files = KernelFiles(root, record)
        self._claims = claims
        self._option = interrupts
        self._profiles = offered or {}
        self._irqbalance = Irqbalance(root / "proc/net/unix")
        self._partitions = Partitions(root)
        self._resctrl = Resctrl(root)
        self._broken: Mapping[str, str] = {}
        self._turn = threading.Lock()
        self._settled: Sequence[Claimed] | None = None
        self.stuck: Mapping[int, str] = {}
        self._failed: Mapping[str, str] = {}

    def settle(self, *, thorough: bool = False) -> None:
        with self._turn:
            claims = self._claims()
            if claims == self._settled and not thorough:
                return
            self._part(claims)
            try:
                self._settle(claims)
            except OSError as exc:
                LOG.warning("The CPUs of containers are not kept quiet: %s. Nothing was changed", exc)
                return
            self._settled = claims

    def problem(self, uuid: str) -> str | None:
        return self._broken.get(uuid)

    def monitor_tasks(self, tasks: Mapping[str, Collection[int]]) -> None:
        with self._turn:
            self._resctrl.monitor_tasks(tasks)

    def cache_use(self, uuid: str) -> CacheUse | None:
        return self._resctrl.cache_use(uuid)

    def _part(self, claims: Sequence[Claimed]) -> None:
        """Give containers what they do not share with others: CPUs, and parts of the caches."""
        partitions = self._partitions.settle(rules.partitions(claims))
        caches = self._resctrl.settle(claims)
        broken = {**caches, **partitions}
        for uuid, why in broken.items():
            if self._broken.get(uuid) != why:
                LOG.warning("Container %s has no %s: %s", uuid, "partition" if uuid in partitions else "caches", why)
        self._broken = broken

    def _settle(self, claims: Sequence[Claimed]) -> None:
        if not claims and not self._files.changed:
            return
        known = self._files.changed.get(rules.DEFAULT_AFFINITY)
        before = NO_CPUS if known is None else CpuSet(known.before) - CpuSet(known.written[-1])
        machine = self._machine(claims)
        settings = list(rules.power_settings(claims, self._profiles, machine))
        away = NO_CPUS
        if self._option != FIXED:
            away = rules.quiet_cpus(claims, Interrupts(self._option))
            settings += rules.interrupt_settings(claims, away, machine)
        failed = self._files.settle(settings)
        self._irqbalance.ban(away, before)
        if failed != self._failed:
            self._tell(failed)

    def _tell(self, failed: Mapping[str, str]) -> None:
        """Keep the interrupts that could not be moved, and log once what could not be changed."""
        stuck = {}
        for path, why in sorted(failed.items()):
            irq, new = _irq_of(path), self._failed.get(path) != why
            if irq is not None:
                stuck[irq] = f"{self._name(irq)}: {why}"
                if new:
                    LOG.info("Interrupt %d cannot be moved: %s", irq, stuck[irq])
            elif new:
                LOG.warning("/%s could not be changed: %s", path, why)
        self.stuck, self._failed = dict(sorted(stuck.items())), failed

    def _name(self, irq: int) -> str:
        """Return the devices of an interrupt, as the kernel names them."""
        return ", ".join(self._tree.folders(f"{_IRQ}{irq}")) or "no device"

    def _machine(self, claims: Sequence[Claimed]) -> Machine:
        tree = self._tree
        asked = {cpu for each in claims if each.wishes.power_profile for cpu in each.all_cpus}
        own = {address for each in claims if each.wishes.interrupts == Interrupts.OWN for address in each.devices}
        return Machine(
            online=tree.cpu_list("sys/devices/system/cpu/online") or NO_CPUS,
            irqs=CpuSet(interrupts(self._root).allowed),
            of_device={address: CpuSet(self._irqs_of(address)) for address in own},
            separate_workers=tree.text(rules.WORKERS_ASKED) is not None,
            clocks=dict(self._clocks(asked)),
            latencies={cpu: profiles.latencies(tree, cpu) for cpu in asked},
        )

    def _clocks(self, cpus: Collection[int]) -> Iterator[tuple[int, str]]:
        for cpu in cpus:
            folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            target = self._tree.link(folder)
            if target is not None:
                folder = os.path.normpath(os.path.join(os.path.dirname(folder), target))
            if self._tree.text(f"{folder}/scaling_governor") is not None:
                yield cpu, folder

    def _irqs_of(self, address: str) -> Iterator[int]:
        folder = f"sys/bus/pci/devices/{address}"
        yield from self._tree.ids(f"{folder}/msi_irqs", "")
        if line := self._tree.number(f"{folder}/irq"):
            yield line

    def abilities(self, cpus: Collection[int], cgroup_driver: str) -> Abilities:
        can, notes = set(), []
        why = self._partitions.problem(cgroup_driver)
        if why is None:
            can.add(traits.CPU_PARTITIONS)
        else:
            notes.append(f"CPUs cannot be partitions: {why}")
        if self._option != FIXED:
            if os.access(self._root / rules.DEFAULT_AFFINITY, os.W_OK):
                can.add(traits.MOVES_INTERRUPTS)
            else:
                notes.append(f"interrupts stay where they are: /{rules.DEFAULT_AFFINITY} cannot be written")
        for profile in self._profiles.values():
            why = profiles.problem(profile, self._tree, cpus)
            if why is None:
                can.add(traits.of_profile(profile.name))
            else:
                notes.append(f"power profile {profile.name} is not offered: {why}")
        return Abilities(frozenset(can), tuple(notes))


def quiet_of(
    conf: cfg.ConfigOpts, hostname: str, root: str | None, claims: Callable[[], Sequence[Claimed]]
) -> Quiet:
    """Return what keeps the CPUs of ``claims`` quiet on the machine below ``root``; None changes nothing.

    The host's own values are kept in ``state_path``/quiet while they are changed. Raise Misconfigured for a power
    profile that cannot be read.
    """
    try:
        offered = profiles.parsed(conf.compute.power_profiles)
    except ValueError as exc:
        raise exceptions.Misconfigured(f"[compute] power_profiles = {exc}") from None
    if root is None:
        return NoQuiet()
    record = place_of(conf.state_path, "quiet", hostname, ".json")
    return QuietKernel(Path(root), record, claims, interrupts=conf.compute.interrupts, offered=offered)


def _irq_of(path: str) -> int | None:
    """Return the interrupt that ``proc/irq/24/smp_affinity_list`` is of, None for another file."""
    number = path.removeprefix(_IRQ).partition("/")[0]
    return int(number) if path.startswith(_IRQ) and number.isdecimal() else None
