# SPDX-License-Identifier: Apache-2.0
"""Give containers cpuset partitions of control groups of version 2: CPUs that nothing else can run on.

Each container that asks for one has a systemd slice of its own at the top of the tree, for example
``zunpart_6a0c....slice``, and its processes are in a scope below. The slice is the partition, not the scope: an engine
makes a new scope at each start, and the partition lasts as long as the claim. At the top no group above has to give
CPUs away first, and a neighbour that names one of the CPUs runs on its others and leaves the partition valid.

Source: Documentation/admin-guide/cgroup-v2.rst, section Cpuset.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zun.container.driver.partition import slice_of
from zun.topology import CpuSet
from zun.topology.files import Tree
from zun.topology.sysfs import PARTITION

LOG = logging.getLogger(__name__)

_TOP = "sys/fs/cgroup"
_SECONDS = 30
KIND = "cpuset.cpus.partition"
MEMBER = "member"
"""The content of ``KIND`` of a group that is no partition."""

Control = Callable[..., None]
"""Runs systemctl with words. Raises OSError if it fails."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition of one claim. ``kind`` is ``root`` (balanced inside) or ``isolated``."""

    cpus: CpuSet
    kind: str


def systemctl(*words: str) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.SubprocessError as exc:
        raise OSError(f"systemctl {words[0]}: {exc}") from exc
    if done.returncode:
        raise OSError(f"systemctl {words[0]}: {done.stderr.strip() or done.returncode}")


class Partitions:
    """The partitions of one machine, by the uuid of the container. Not thread-safe."""

    def __init__(self, root: Path, control: Control = systemctl) -> None:
        self._top = root / _TOP
        self._tree = Tree(root)
        self._control = control

    def problem(self, cgroup_driver: str) -> str | None:
        """Return why this machine cannot give partitions to containers of an engine with this driver, or None."""
        if "cpuset" not in (self._tree.text(f"{_TOP}/cgroup.controllers") or "").split():
            return "the host has no control groups of version 2 with the cpuset controller"
        if cgroup_driver != "systemd":
            return f"the engine makes control groups by {cgroup_driver or 'an unknown driver'}, not by systemd"
        if not any(self._top.glob(f"*.slice/{KIND}")):
            return "no slice has a file cpuset.cpus.partition: switch the cpuset controller on for slices"
        return None

    def settle(self, wanted: Mapping[str, Partition]) -> dict[str, str]:
        """Make the partitions ``wanted`` by uuid, and end all others of this service. Return uuid -> what is wrong.

        Nothing else may be on the CPUs. A slice that has processes yet stays until they are gone.
        """
        names = {slice_of(uuid): uuid for uuid in wanted}
        failed: dict[str, str] = {}
        for name in self._tree.folders(_TOP):
            if name.startswith(PARTITION) and name not in names:
                try:
                    self._end(name)
                except OSError as exc:
                    LOG.warning("Control group %s could not be removed: %s", name, exc)
        for name, uuid in names.items():
            try:
                why = self._make(name, wanted[uuid])
            except OSError as exc:
                why = exc.strerror or str(exc)
            if why is not None:
                failed[uuid] = why
        return failed

    def _make(self, name: str, partition: Partition) -> str | None:
        """Let the slice be this partition. Return what the kernel says instead, or None."""
        file = self._top / name / KIND
        if self._tree.cpu_list(f"{_TOP}/{name}/cpuset.cpus") != partition.cpus:
            self._control("set-property", "--runtime", name, f"AllowedCPUs={partition.cpus}")
            self._control("start", name)
        if self._read(name, KIND) != partition.kind:
            file.write_text(partition.kind)
        said, reached = self._read(name, KIND), self._tree.cpu_list(f"{_TOP}/{name}/cpuset.cpus.effective")
        if (said, reached) == (partition.kind, partition.cpus):
            return None
        if said != partition.kind:  # an invalid partition would lose its CPUs when its group is removed
            with contextlib.suppress(OSError):
                file.write_text(MEMBER)
        return f"its partition of CPUs {partition.cpus} is '{said}' on CPUs {reached or 'none'}"

    def _end(self, name: str) -> None:
        """Return the CPUs of a slice to everybody, and remove the slice once nothing runs in it."""
        if self._read(name, KIND) != MEMBER:
            (self._top / name / KIND).write_text(MEMBER)
        if "populated 0" in self._read(name, "cgroup.events"):
            self._control("stop", name)
            self._control("revert", name)

    def _read(self, name: str, file: str) -> str:
        return self._tree.text(f"{_TOP}/{name}/{file}") or ""
