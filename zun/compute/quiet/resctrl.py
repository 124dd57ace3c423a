# SPDX-License-Identifier: Apache-2.0
"""Give containers parts of the L3 caches and of the memory bandwidth, and read what each container uses of them.

A container with a part has a control group ``/sys/fs/resctrl/zun-UUID`` with its own CPUs, so that no task has to be
followed. Every other container has a monitoring group ``/sys/fs/resctrl/mon_groups/zun-UUID``: with its own CPUs, or
with the tasks of a shared container. The groups are the only record, so a killed agent goes on with what it reads.

Source: Documentation/arch/x86/resctrl.rst of the kernel.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zun.compute.quiet import ways
from zun.compute.quiet.rules import Claimed
from zun.compute.quiet.ways import EVERYBODY, Values, Wanted, apart
from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS
from zun.topology.files import Tree
from zun.topology.masks import mirrored
from zun.topology.resctrl_files import INFO, OWN, TOP, DividedCaches, divided_caches, schemata_in

LOG = logging.getLogger(__name__)

_MONITORED = f"{TOP}/mon_groups"
_NO_RMID = frozenset({errno.ENOSPC, errno.EBUSY})
"""The processor has no number left for a group to monitor, or the last one was given back only just now."""


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The bytes that a container has in the L3 caches now, and those that it moved between these caches and memory.

    ``total`` and ``local`` are by cache, and count since the group was made; ``local`` is the memory of the node of the
    cache. What the processor does not tell is None or left out.
    """

    occupancy: int | None = None
    total: Mapping[str, int] | None = None
    local: Mapping[str, int] | None = None


class Groups:
    """The folders and files of resctrl below ``root``. A refusal of the kernel is an OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, folder: str) -> None:
        os.mkdir(self._root / folder)

    def remove(self, folder: str) -> None:
        os.rmdir(self._root / folder)

    def write(self, path: str, line: str) -> None:
        """Write a line. The kernel wants it whole, in one call."""
        opened = os.open(self._root / path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(opened, f"{line}\n".encode())
        finally:
            os.close(opened)


class Resctrl:
    """The groups of one machine, by the uuid of the container. Not thread-safe, but ``cache_use`` is."""

    def __init__(self, root: Path, groups: Groups | None = None) -> None:
        self._root = root
        self._tree = Tree(root)
        self._groups = groups or Groups(root)
        self._said: set[str] = set()

    def settle(self, claims: Sequence[Claimed]) -> dict[str, str]:
        """Give each container of ``claims`` its part, and everybody else the rest. Return uuid -> what is wrong.

        Then each of them is monitored.
        """
        asked = {each.uuid for each in claims if each.cache_ways or each.memory_bandwidth}
        online, counted = self._online(), dict[str, CpuSet]()
        for each in claims:
            if each.uuid and each.uuid not in asked and (cpus := each.all_cpus & online):
                counted[each.uuid] = counted.get(each.uuid, NO_CPUS) | cpus
        for uuid in self._own(_MONITORED):  # first, because other groups take the CPUs of these
            if uuid not in counted and (uuid in asked or self._cpus(_monitored(uuid))):
                self._end_monitored(uuid)
        failed = self._divide(claims, asked)
        self._monitor_cpus(counted)
        return failed

    def monitor_tasks(self, tasks: Mapping[str, Collection[int]]) -> None:
        """Monitor the threads of shared containers, by uuid, and no other shared containers.

        A thread that is monitored hands this on to the threads that it starts.
        """
        if not self._monitors():
            return
        for uuid in self._own(_MONITORED):
            if uuid not in tasks and not self._cpus(_monitored(uuid)):
                self._end_monitored(uuid)
        for uuid, threads in tasks.items():
            if threads and self._make_monitored(uuid):
                known = set(map(int, (self._tree.text(f"{_monitored(uuid)}/tasks") or "").split()))
                for thread in sorted(set(threads) - known):
                    try:
                        self._groups.write(f"{_monitored(uuid)}/tasks", str(thread))
                    except OSError as exc:
                        if exc.errno != errno.ESRCH:  # it ended meanwhile
                            self._say(f"not every container is monitored: {self._reason(exc)}")
                            break

    def cache_use(self, uuid: str) -> CacheUse | None:
        """Return what a container uses, or None if it is not monitored."""
        for folder in (f"{_group(uuid)}/mon_data", f"{_monitored(uuid)}/mon_data"):
            caches = [name for name in self._tree.folders(folder) if name.startswith("mon_L3_")]
            if caches:
                found = {
                    file: {name: int(text) for name in caches if (text := self._told(f"{folder}/{name}/{file}"))}
                    for file in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
                }
                occupancy, total, local = found.values()
                return CacheUse(sum(occupancy.values()) if occupancy else None, total or None, local or None)
        return None

    def _told(self, path: str) -> str | None:
        """Return the digits of a counter. Instead of these, the kernel may say ``Unavailable`` or ``Error``."""
        text = self._tree.text(path)
        return text if text is not None and text.isascii() and text.isdecimal() else None

    def _divide(self, claims: Sequence[Claimed], asked: Collection[str]) -> dict[str, str]:
        there = self._own(TOP)
        if not asked and not there:
            return {}
        tree = Tree(self._root)
        caches = divided_caches(tree)
        if caches is None:
            why = tree.notes[-1] if tree.notes else f"the L3 caches are not divided: /{TOP} is not mounted"
            return dict.fromkeys(asked, why)
        parts, failed, why = ways.wanted(claims, caches), dict[str, str](), ""
        try:
            self._end([uuid for uuid in there if uuid not in parts], caches, last=parts.keys().isdisjoint(there))
            for uuid in sorted(parts.keys() - set(there)):
                try:
                    self._groups.make(_group(uuid))
                except OSError as exc:
                    failed[uuid] = f"it has no group in /{TOP}: {self._reason(exc)}"
            parts = {uuid: part for uuid, part in parts.items() if uuid not in failed}
            if parts:
                self._write(caches, parts, [*parts])
            for uuid, part in parts.items():
                cpus = part.cpus & self._online()
                if self._cpus(_group(uuid)) != cpus:
                    self._groups.write(f"{_group(uuid)}/cpus_list", str(cpus))
        except OSError as exc:
            why = f". The kernel refused: {self._reason(exc)}"
            self._say(f"the L3 caches are not divided as claimed{why}")
        present = self._values(caches, [*parts])
        for uuid, part in parts.items():
            if (wrong := self._wrong(uuid, part, caches, parts, present)) is not None:
                failed[uuid] = wrong + why
        return failed

    def _end(self, uuids: Sequence[str], caches: DividedCaches, *, last: bool) -> None:
        """Remove the groups of containers without a part.

        While there is a group, the default group may lack ways. So before the ``last`` ones go, it gets back all.
        """
        if uuids and last:
            self._write(caches, {}, uuids)
        for uuid in uuids:
            self._groups.remove(_group(uuid))

    def _write(self, caches: DividedCaches, parts: Mapping[str, Wanted], uuids: Sequence[str]) -> None:
        for name, values in ways.writes(caches, parts, self._values(caches, uuids)):
            lines = []
            if values.ways:
                masks = (f"{cache}={_mask(each, caches):x}" for cache, each in values.ways.items())
                lines.append(f"L3:{';'.join(masks)}")
            if values.bandwidth:
                lines.append(f"MB:{';'.join(f'{cache}={value}' for cache, value in values.bandwidth.items())}")
            self._groups.write(f"{_group(name)}/schemata", "\n".join(lines))

    def _values(self, caches: DividedCaches, uuids: Sequence[str]) -> dict[str, Values]:
        """Return what the default group and the groups of containers have now."""
        found = {}
        for name in (EVERYBODY, *uuids):
            read = self._tree.parsed(f"{_group(name)}/schemata", schemata_in) or {}
            masks = {cache: _ways(mask, caches) for cache, mask in read.get("L3", {}).items() if cache in caches.cpus}
            percent = {cache: value for cache, value in read.get("MB", {}).items() if cache in caches.cpus}
            found[name] = Values(masks, percent)
        return found

    def _wrong(
        self, uuid: str, part: Wanted, caches: DividedCaches, parts: Mapping[str, Wanted], present: Mapping[str, Values]
    ) -> str | None:
        """Return what the group of a container lacks of its part, or None."""
        if part.bandwidth and not caches.bandwidth:
            return "the kernel does not limit memory bandwidth in percent"
        if not part.ways and not part.bandwidth:
            return f"the kernel divides no L3 cache of its CPUs {part.cpus}"
        values, group = present[uuid], f"its group /{_group(uuid)}"
        for cache, count in part.ways.items():
            own, others = values.of(cache), (other.of(cache) for name, other in present.items() if name != uuid)
            if len(own) != count or not all(apart(own, other) for other in others):
                return f"{group} does not have {count} ways of L3 {cache} for itself"
        for cache, percent in ways.bandwidth(caches, parts, uuid).items():
            if cache in part.bandwidth and values.bandwidth.get(cache) != percent:
                return f"{group} has {values.bandwidth.get(cache)} of {percent} % of the bandwidth of L3 {cache}"
        cpus, has = part.cpus & self._online(), self._cpus(_group(uuid))
        return None if has == cpus else f"{group} has CPUs {has or 'none'}, not {cpus}"

    def _monitor_cpus(self, counted: Mapping[str, CpuSet]) -> None:
        """Monitor the own CPUs of the containers that have no control group."""
        if not counted or not self._monitors():
            return
        for uuid, cpus in counted.items():
            if self._make_monitored(uuid) and self._cpus(_monitored(uuid)) != cpus:
                try:
                    self._groups.write(f"{_monitored(uuid)}/cpus_list", str(cpus))
                except OSError as exc:
                    self._say(f"not every container is monitored: {self._reason(exc)}")

    def _make_monitored(self, uuid: str) -> bool:
        """Make the monitoring group of a container unless it has one. Return False if there can be none.

        Each group needs a number of the processor (RMID), a control group too: enough for these are left.
        """
        if self._tree.text(f"{_monitored(uuid)}/cpus_list") is not None:
            return True
        most = self._tree.number(f"{INFO}/L3_MON/num_rmids") or 0
        most -= self._tree.number(f"{INFO}/L3/num_closids") or 1
        try:
            if len(self._own(_MONITORED)) >= most:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._groups.make(_monitored(uuid))
        except OSError as exc:
            if exc.errno in _NO_RMID:
                self._say("the processor cannot monitor the caches of more containers")
            else:
                self._say(f"not every container is monitored: {self._reason(exc)}")
            return False
        return True

    def _end_monitored(self, uuid: str) -> None:
        try:
            self._groups.remove(_monitored(uuid))
        except OSError as exc:
            self._say(f"/{_monitored(uuid)} cannot be removed: {self._reason(exc)}")

    def _monitors(self) -> bool:
        return self._tree.number(f"{INFO}/L3_MON/num_rmids") is not None

    def _own(self, folder: str) -> list[str]:
        """Return the uuids of the containers that have groups in a folder."""
        return [name.removeprefix(OWN) for name in self._tree.folders(folder) if name.startswith(OWN)]

    def _cpus(self, folder: str) -> CpuSet:
        return self._tree.cpu_list(f"{folder}/cpus_list") or NO_CPUS

    def _online(self) -> CpuSet:
        return self._tree.cpu_list("sys/devices/system/cpu/online") or NO_CPUS

    def _reason(self, exc: OSError) -> str:
        """Return why the kernel refused. It says ``ok`` if it has nothing to add to the error."""
        said = self._tree.text(f"{INFO}/last_cmd_status")
        return f"{exc.strerror or exc}" + (f" ({said})" if said and said != "ok" else "")

    def _say(self, words: str) -> None:
        """Log a warning once."""
        if words not in self._said:
            self._said.add(words)
            LOG.warning("resctrl: %s", words)


def _group(uuid: str) -> str:
    return TOP if uuid == EVERYBODY else f"{TOP}/{OWN}{uuid}"


def _monitored(uuid: str) -> str:
    return f"{_MONITORED}/{OWN}{uuid}"


def _ways(mask: int, caches: DividedCaches) -> range:
    """Return the ways of a mask of the kernel, an empty range if they are not adjacent.

    If the low ways stay for everybody else, the ways are counted from the high end.
    """
    if caches.kept_low:
        mask = mirrored(mask, caches.ways)
    found = range((mask & -mask).bit_length() - 1, mask.bit_length()) if mask else range(0)
    return found if len(found) == mask.bit_count() else range(0)


def _mask(adjacent: range, caches: DividedCaches) -> int:
    """Return the mask of ways: 0b11100 of ``range(2, 5)``."""
    mask = (1 << len(adjacent)) - 1 << adjacent.start
    return mirrored(mask, caches.ways) if caches.kept_low else mask
