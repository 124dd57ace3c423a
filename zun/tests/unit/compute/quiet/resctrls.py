# SPDX-License-Identifier: Apache-2.0
"""A made resctrl file system: its files in a folder, and the kernel's rules for groups and masks.

Source: Documentation/arch/x86/resctrl.rst and fs/resctrl/rdtgroup.c of the kernel. The rules: a mask is not empty and
its bits are adjacent; a new control group may use every way; a CPU is in one control group; the CPUs of a removed group
return to the default group; numbers for groups (CLOSID) and for monitoring (RMID) run out.
"""

import errno
import os
import shutil
from pathlib import Path

from zun.compute.quiet.resctrl import Groups
from zun.tests.unit.compute.quiet.kernels import write
from zun.topology import CpuSet
from zun.topology.files import Tree
from zun.topology.resctrl_files import schemata_in

TOP = "sys/fs/resctrl"
FILES = ("schemata", "cpus_list", "tasks")


def caches(root, cpus=("0-3", "4-7"), *, size="20480K"):
    """Make the L3 caches of a machine, with the ids 0, 1, ..."""
    write(root, "sys/devices/system/cpu/online", str(CpuSet(",".join(cpus))))
    for number, shared in enumerate(cpus):
        for cpu in CpuSet(shared):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
            for file, text in (("id", number), ("size", size), ("shared_cpu_list", shared), ("level", 3)):
                write(root, f"{folder}/{file}", str(text))


class Kernel(Groups):
    """The kernel below ``root``. ``writes`` counts changes; after ``left`` of them, ``killed`` ends the agent."""

    def __init__(self, root, *, left=None, watch=lambda: None):
        super().__init__(Path(root))
        self.tree, self.left, self.watch, self.changes = Tree(Path(root)), left, watch, []

    @classmethod
    def mounted(cls, root, *, ways=20, least=2, shareable=0xC0000, closids=4, rmids=12, bandwidth="100", step=10):
        """Mount it on a machine that has ``caches``."""
        every = Tree(Path(root)).cpu_list("sys/devices/system/cpu/online")
        ids = {Tree(Path(root)).number(f"sys/devices/system/cpu/cpu{cpu}/cache/index3/id") for cpu in every}
        for name, text in {
            "L3/cbm_mask": f"{(1 << ways) - 1:x}", "L3/min_cbm_bits": least, "L3/num_closids": closids,
            "L3/shareable_bits": f"{shareable:x}", "last_cmd_status": "ok",
            **({} if rmids is None else {"L3_MON/num_rmids": rmids}),
        }.items():  # fmt: skip
            write(root, f"{TOP}/info/{name}", str(text))
        lines = [f"    L3:{';'.join(f'{each}={(1 << ways) - 1:x}' for each in sorted(ids))}"]
        if bandwidth is not None:
            lines.append(f"    MB:{';'.join(f'{each}={bandwidth:>4}' for each in sorted(ids))}")
            for name, number in {"min_bandwidth": 10, "bandwidth_gran": step, "num_closids": closids}.items():
                write(root, f"{TOP}/info/MB/{name}", str(number))
        kernel = cls(root)
        kernel._fill(TOP, "\n".join(lines), every)
        (Path(root) / TOP / "mon_groups").mkdir()
        return kernel

    def make(self, folder):
        self._change("make", folder)
        monitored = folder.startswith(f"{TOP}/mon_groups/")
        groups = list(self._groups())
        rmids = self.tree.number(f"{TOP}/info/L3_MON/num_rmids")
        if rmids is not None and 1 + len(groups) + len(self.tree.folders(f"{TOP}/mon_groups")) >= rmids:
            self._refuse(errno.ENOSPC, "out of RMIDs")
        if monitored:
            self._fill(folder, None, CpuSet())
            return
        if len(groups) + 1 >= self.tree.number(f"{TOP}/info/L3/num_closids"):
            self._refuse(errno.ENOSPC, "out of CLOSIDs")
        mask = self.tree.text(f"{TOP}/info/L3/cbm_mask")
        text = [f"L3:{';'.join(f'{cache}={mask}' for cache in self._default()['L3'])}"]
        if "MB" in self._default():
            text.append(f"MB:{';'.join(f'{cache}=100' for cache in self._default()['MB'])}")
        self._fill(folder, "\n".join(text), CpuSet())

    def remove(self, folder):
        self._change("remove", folder)
        cpus = self._cpus(folder)
        if not folder.startswith(f"{TOP}/mon_groups/"):
            write(self._root, f"{TOP}/cpus_list", str(self._cpus(TOP) | cpus))
        shutil.rmtree(self._root / folder)

    def write(self, path, line):
        folder, _, file = path.rpartition("/")
        self._change("write", path, line)
        {"schemata": self._schemata, "cpus_list": self._move, "tasks": self._task}[file](folder, line)
        write(self._root, f"{TOP}/info/last_cmd_status", "ok")

    def _schemata(self, folder, text):
        least = self.tree.number(f"{TOP}/info/L3/min_cbm_bits")
        every = int(self.tree.text(f"{TOP}/info/L3/cbm_mask"), 16)
        now = schemata_in(self.tree.text(f"{folder}/schemata"))
        for name, values in schemata_in(text).items():
            for cache, value in values.items():
                if cache not in now.get(name, {}):
                    self._refuse(errno.EINVAL, f"Unknown {name} domain {cache}")
                if name == "L3":
                    low = value & -value
                    if value & ~every or value.bit_count() < least or value + low & value:
                        self._refuse(errno.EINVAL, f"Bits out of range or not adjacent: {value:x}")
                else:
                    step = self.tree.number(f"{TOP}/info/MB/bandwidth_gran")
                    if not self.tree.number(f"{TOP}/info/MB/min_bandwidth") <= value <= 100:
                        self._refuse(errno.EINVAL, f"MB value {value} out of range")
                    value = -(-value // step) * step
                now[name][cache] = value
        lines = [f"    {name}:{';'.join(f'{c}={v:{form}}' for c, v in now[name].items())}"
                 for name, form in (("L3", "x"), ("MB", "4")) if name in now]  # fmt: skip
        write(self._root, f"{folder}/schemata", "\n".join(lines))

    def _move(self, folder, text):
        cpus, before = CpuSet(text), self._cpus(folder)
        if cpus - self.tree.cpu_list("sys/devices/system/cpu/online"):
            self._refuse(errno.EINVAL, "Can only assign online CPUs")
        monitored = [f"{TOP}/mon_groups/{name}" for name in self.tree.folders(f"{TOP}/mon_groups")]
        if folder in monitored and cpus - self._cpus(TOP):
            self._refuse(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent")
        for other in monitored if folder in monitored else [TOP, *self._groups(), *monitored]:
            if other != folder:
                write(self._root, f"{other}/cpus_list", str(self._cpus(other) - cpus))
        if folder not in monitored:
            write(self._root, f"{TOP}/cpus_list", str((self._cpus(TOP) | before) - cpus))
        write(self._root, f"{folder}/cpus_list", str(cpus))

    def _task(self, folder, text):
        if not (self._root / "proc" / text).exists():
            self._refuse(errno.ESRCH, f"No task {text}")
        for name in self.tree.folders(f"{TOP}/mon_groups"):
            other = f"{TOP}/mon_groups/{name}"
            left = [each for each in self.tree.text(f"{other}/tasks").split() if each != text]
            write(self._root, f"{other}/tasks", "\n".join([*left, text] if other == folder else left))

    def _change(self, *what):
        if self.left is not None:
            if not self.left:
                raise Killed
            self.left -= 1
        self.watch()
        self.changes.append(what)

    def _refuse(self, number, why):
        write(self._root, f"{TOP}/info/last_cmd_status", why)
        raise OSError(number, os.strerror(number))

    def _fill(self, folder, schemata, cpus):
        files = {"cpus_list": str(cpus), "tasks": ""} | ({} if schemata is None else {"schemata": schemata})
        for file, text in files.items():
            write(self._root, f"{folder}/{file}", text)
        for cache in self._default()["L3"]:
            for file in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
                write(self._root, f"{folder}/mon_data/mon_L3_{cache:02}/{file}", "0")

    def _groups(self):
        kernels = ("info", "mon_data", "mon_groups")
        return (f"{TOP}/{name}" for name in self.tree.folders(TOP) if name not in kernels)

    def _default(self):
        return schemata_in(self.tree.text(f"{TOP}/schemata"))

    def _cpus(self, folder):
        return self.tree.cpu_list(f"{folder}/cpus_list")


class Killed(BaseException):
    """The agent is killed before a change."""


def state(root):
    """Return path -> text of each file that groups have, counters left out. Groups may come and go meanwhile."""
    tree = Tree(Path(root))
    folders = [TOP, *(f"{place}/{name}" for place in (TOP, f"{TOP}/mon_groups") for name in tree.folders(place))]
    found = {f"{folder}/{name}".removeprefix(f"{TOP}/"): tree.text(f"{folder}/{name}")
             for folder in folders for name in FILES}  # fmt: skip
    return {path: text for path, text in found.items() if text is not None}
