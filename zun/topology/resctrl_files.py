# SPDX-License-Identifier: Apache-2.0
"""Read from the kernel's resctrl file system which L3 caches it divides, and what containers may have of them.

Source: Documentation/arch/x86/resctrl.rst of the kernel (since Linux 6.17 Documentation/filesystems/resctrl.rst).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from zun.topology.cache_control import NO_CACHE_CONTROL, CacheControl
from zun.topology.cpuset import CpuSet
from zun.topology.files import Tree, number_in

TOP = "sys/fs/resctrl"
OWN = "zun-"
"""Prefix of the names of the groups of containers; the uuid follows."""
INFO = f"{TOP}/info"
_CPU = "sys/devices/system/cpu"
_KERNELS = ("info", "mon_data", "mon_groups")
_PERCENT = 100
_LEAST_BANDWIDTH = 20
"""Percent of the memory bandwidth that at least stay for everybody else."""
_LEAST_PART = 8
"""An eighth of the ways at least stays for everybody else."""


@dataclass(frozen=True, slots=True)
class DividedCaches:
    """The L3 caches that the kernel divides, by their ids. All have the same number of ways.

    ``kept`` ways stay for everybody else, at the low or at the high end: where devices write too.
    """

    cpus: Mapping[int, CpuSet]
    way_kib: int
    ways: int
    kept: int
    kept_low: bool
    least_ways: int
    groups: int
    bandwidth: int
    """Percent for containers, 0 if the kernel does not limit bandwidth in percent."""
    bandwidth_step: int
    """Percentages are multiples of it. None is below ``least_bandwidth``."""
    least_bandwidth: int

    @property
    def room(self) -> int:
        """Ways of each L3 for containers, all together."""
        return self.ways - self.kept


def cache_control(tree: Tree) -> CacheControl:
    """Return what containers may have of the caches of this machine. The notes of ``tree`` say why it is nothing.

    A machine without resctrl leaves no note.
    """
    found = divided_caches(tree)
    if found is None:
        return NO_CACHE_CONTROL
    others = [name for name in tree.folders(TOP) if name not in _KERNELS and not name.startswith(OWN)]
    if others:
        tree.note(f"the L3 caches are not divided: /{TOP} has control groups of other programs: {', '.join(others)}")
        return NO_CACHE_CONTROL
    if not found.groups or not (found.room or found.bandwidth):
        return NO_CACHE_CONTROL
    # The least percentage must be a multiple of the step for who books.
    step = -(-max(found.least_bandwidth, 1) // found.bandwidth_step) * found.bandwidth_step
    return CacheControl(
        caches=tuple(found.cpus.values()),
        ways=found.room,
        way_kib=found.way_kib,
        least_ways=found.least_ways,
        bandwidth=found.bandwidth,
        bandwidth_step=step,
        groups=found.groups,
    )


def divided_caches(tree: Tree) -> DividedCaches | None:
    """Return the L3 caches that the kernel divides, or None if it divides none. Then a note of ``tree`` may say why."""
    if not tree.folders(INFO):
        if "resctrl" in tree.folders("sys/fs") and re.search(r"^flags\b.*\bcat_l3\b", _cpuinfo(tree), re.MULTILINE):
            tree.note(
                f"the L3 caches are not divided: to give containers parts of them, mount -t resctrl resctrl /{TOP}"
            )
        return None
    if "L3CODE" in tree.folders(INFO):
        tree.note(f"the L3 caches are not divided: /{TOP} is mounted with the option cdp. Mount it without the option")
        return None
    mask, least = tree.parsed(f"{INFO}/L3/cbm_mask", _mask_in), tree.number(f"{INFO}/L3/min_cbm_bits")
    schemata = tree.parsed(f"{TOP}/schemata", schemata_in)
    if not mask or least is None or schemata is None:
        return None
    cpus, way_kib = _caches(tree, frozenset(schemata.get("L3", ())), mask.bit_length())
    if not cpus or not way_kib:
        tree.note(f"the L3 caches are not divided: /{_CPU} does not name those of /{TOP}/schemata")
        return None
    least = max(least, 1)
    kept, kept_low = _kept(mask.bit_length(), tree.parsed(f"{INFO}/L3/shareable_bits", _mask_in) or 0, least)
    named = (tree.number(f"{INFO}/{name}/num_closids") for name in tree.folders(INFO))
    bandwidth, step, least_bandwidth = _bandwidth(tree, schemata.get("MB", {}), cpus)
    return DividedCaches(
        cpus=cpus,
        way_kib=way_kib,
        ways=mask.bit_length(),
        kept=kept,
        kept_low=kept_low,
        least_ways=least,
        groups=max(min((each for each in named if each is not None), default=0) - 1, 0),
        bandwidth=bandwidth,
        bandwidth_step=step,
        least_bandwidth=least_bandwidth,
    )


def schemata_in(text: str) -> dict[str, dict[int, int]]:
    """Return resource -> id of the cache -> value, of the resources ``L3`` (a mask) and ``MB`` (a number).

    Example: ``L3:0=ff;1=f`` is {"L3": {0: 255, 1: 15}}. Raise ValueError for other text.
    """
    found: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        name, _, values = line.strip().partition(":")
        if name in ("L3", "MB"):
            pairs = [value.partition("=") for value in values.split(";")]
            read = _mask_in if name == "L3" else number_in
            found[name] = {number_in(cache.strip()): read(value.strip()) for cache, _, value in pairs}
    return found


def _mask_in(text: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
        raise ValueError(text)
    return int(text, 16)


def _cpuinfo(tree: Tree) -> str:
    return tree.text("proc/cpuinfo") or ""


def _caches(tree: Tree, ids: frozenset[int], ways: int) -> tuple[dict[int, CpuSet], int]:
    """Return the CPUs of each L3 of ``ids``, and the size of the smallest way in KiB, 0 if it is not known."""
    cpus: dict[int, CpuSet] = {}
    seen, sizes = CpuSet(), []
    for cpu in tree.ids(_CPU, "cpu"):
        folder = f"{_CPU}/cpu{cpu}/cache/index3"
        shared = None if cpu in seen else tree.cpu_list(f"{folder}/shared_cpu_list")
        cache = None if shared is None else tree.number(f"{folder}/id")
        if shared is None or cache not in ids:
            continue
        seen |= shared
        cpus[cache] = shared
        sizes.append(tree.parsed(f"{folder}/size", _kib_in) or 0)
    return dict(sorted(cpus.items())), min(sizes, default=0) // ways


def _kib_in(text: str) -> int:
    return number_in(text.removesuffix("K"))


def _kept(ways: int, shareable: int, least: int) -> tuple[int, bool]:
    """Return how many ways stay for everybody else, and whether they are the lowest ways.

    ``shareable`` are the ways into which devices write: all of them stay.
    """
    kept = max(-(-ways // _LEAST_PART), least)
    if not shareable:
        return min(kept, ways), False
    high, low = ways - (shareable & -shareable).bit_length() + 1, shareable.bit_length()
    return min(max(kept, min(high, low)), ways), low < high


def _bandwidth(tree: Tree, values: Mapping[int, int], caches: Mapping[int, CpuSet]) -> tuple[int, int, int]:
    """Return the percent for containers, the step and the least of percentages; 0 percent if there are none."""
    least, step = tree.number(f"{INFO}/MB/min_bandwidth"), tree.number(f"{INFO}/MB/bandwidth_gran")
    if not values or least is None or not step:
        return 0, 1, 0
    if max(values.values()) > _PERCENT:
        tree.note(
            f"memory bandwidth is not limited: /{TOP}/schemata has no percentages, but MB values up to "
            f"{max(values.values())}"
        )
        return 0, 1, 0
    if not values.keys() >= caches.keys():
        return 0, 1, 0
    return max(_PERCENT - max(least, _LEAST_BANDWIDTH), 0) // step * step, step, least
