# SPDX-License-Identifier: Apache-2.0
"""Limit the huge pages of containers in the hugetlb controller, and read them back.

Docker's API has no such limit, so the files of the container's control group are written directly. The group exists as
long as the container runs. Functions read and write below a ``root`` that stands for ``/``.
Sources: Documentation/admin-guide/cgroup-v1/hugetlb.rst, cgroup-v2.rst and mm/hugetlbpage.rst.

A file of the controller is named after the page size, for example ``hugetlb.2MB.max``. Two limits are set, both in
bytes: one counts pages in use, the other (``rsvd``) counts pages that a mapping reserves before their first use. A
program beyond the second limit gets an error from mmap; beyond the first limit the kernel ends the program by SIGBUS.
"""

import errno
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zun.common import exceptions
from zun.container.docker.audit import cgroup_mounts
from zun.container.docker.client import Engine, OnEngine
from zun.container.docker.kernel import locate, own_group, steps_below
from zun.container.driver.container import ContainerView
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, HugePageView, PageStock
from zun.container.driver.state import RuntimeState
from zun.topology.files import text_of
from zun.topology.mounts import mountinfo, mounts_in

LOG = logging.getLogger(__name__)

_UNITS = {"KB": 1, "MB": 1024, "GB": 1024 * 1024}
_SUFFIXES = {"K": 1, "M": 1024, "G": 1024 * 1024}
_NODE = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_SIZE = re.compile(r"\bpagesize=(\d+)([KMG])\b")
#: Limits above this number of bytes are no limits: version 1 shows the largest number of pages that it can count.
_NO_LIMIT = 1 << 60
_ENDED = (FileNotFoundError, ProcessLookupError)
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class PageGroup:
    """The control group of a container with the hugetlb controller, at ``directory``. ``unified`` means version 2."""

    directory: Path
    unified: bool

    def limit_files(self, kib: int) -> tuple[Path, ...]:
        """Return the files of the limits of one page size, the reserved pages first. Kernels before 5.7 have one."""
        name = "max" if self.unified else "limit_in_bytes"
        files = (self.directory / f"hugetlb.{label(kib)}.{kind}{name}" for kind in ("rsvd.", ""))
        return tuple(file for file in files if file.exists())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The page sizes that the controller knows, in KiB, rising."""
        name = "max" if self.unified else "limit_in_bytes"
        found = (re.fullmatch(rf"hugetlb\.(\d+)([KMG]B)\.{name}", file.name) for file in self.directory.iterdir())
        return tuple(sorted(int(each[1]) * _UNITS[each[2]] for each in found if each))


class DockerHugePages(OnEngine):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._told = threading.Event()
        self._hierarchies: str | None = None

    def limit_pages(self, container: ContainerView, state: RuntimeState, pages: Mapping[int, int]) -> None:
        root = Path(self.settings.root)
        try:
            group = page_group(root, state.pid, state.container_id, self._cgroups())
            if group is None:
                return
            if not group.sizes:
                self._tell("the hugetlb controller is missing in the control groups of containers")
                return
            set_limits(group, pages)
        except _ENDED:
            return
        except OSError as exc:
            if exc.errno == errno.EBUSY:
                wanted = ", ".join(f"{count} of {size} KiB" for size, count in sorted(pages.items())) or "none"
                raise exceptions.Conflict(
                    f"Container {container.uuid} uses more huge pages than it may have ({wanted}). Let the program "
                    "give pages back, or stop the container."
                ) from exc
            if exc.errno not in _FORBIDDEN:
                raise _unreadable(container, exc) from exc
            self._tell(f"the agent may not write the control groups of containers ({exc})")
        except ValueError as exc:
            raise _unreadable(container, exc) from exc

    def huge_pages(self, container: ContainerView, state: RuntimeState) -> HugePageView | None:
        try:
            return huge_page_view(Path(self.settings.root), state.pid, state.container_id, self._cgroups())
        except _ENDED:
            return None
        except (OSError, ValueError) as exc:
            raise _unreadable(container, exc) from exc

    def page_stock(self) -> Mapping[int, Mapping[int, PageStock]]:
        try:
            return page_stock(Path(self.settings.root))
        except (OSError, ValueError) as exc:
            raise exceptions.DockerError(f"Cannot read the huge pages of this host: {exc}") from exc

    def _cgroups(self) -> str:
        """Return the lines of mountinfo about control groups, read once: they do not change while the agent runs."""
        if self._hierarchies is None:
            self._hierarchies = cgroup_mounts(self.settings.root)
        return self._hierarchies

    def _tell(self, why: str) -> None:
        """Log once that nothing limits huge pages, if this host has any."""
        if self._told.is_set() or not self.page_stock():
            return
        self._told.set()
        LOG.warning(
            "Huge pages of containers are counted and not limited, since %s. Every container of this host can use "
            "pages that are promised to others.",
            why,
        )


def label(kib: int) -> str:
    """Return the page size as the kernel names files: 2048 is ``2MB``, 1048576 is ``1GB``, 64 is ``64KB``."""
    unit = next(name for name in ("GB", "MB", "KB") if kib >= _UNITS[name])
    return f"{kib // _UNITS[unit]}{unit}"


def page_group(root: Path, pid: int, container_id: str, mountinfo_text: str) -> PageGroup | None:
    """Return the group of the container whose first process is ``pid``, or None if the process is gone.

    The group has no ``sizes`` without the controller. FileNotFoundError or ProcessLookupError if the process ends
    meanwhile.
    """
    if pid <= 0:
        return None
    cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
    # Without a hierarchy that has the controller, the cpuset's shows whether the process is the container's.
    for controller in ("hugetlb", "cpuset"):
        with suppress(ValueError):
            mount, group = locate(controller, cgroup_text, mountinfo_text)
            if container_id in group:
                steps = steps_below(mount, own_group(group, container_id))
                return PageGroup(mount.directory(root) / steps, mount.unified)
    return None  # the kernel gave the number of the process to another process


def set_limits(group: PageGroup, pages: Mapping[int, int]) -> None:
    """Set the limit of each page size, in bytes, and read the limits back. ``pages`` are numbers by size in KiB.

    OSError with EBUSY if more is in use; the limits are then as they were. ValueError if the kernel shows other limits.
    """
    before: list[tuple[Path, str]] = []
    for kib in group.sizes:
        size = pages.get(kib, 0) * kib * 1024
        for file in group.limit_files(kib):
            old = file.read_text().strip()
            if old == str(size):
                continue
            try:
                file.write_text(f"{size}\n")
            except OSError:
                for changed, value in reversed(before):
                    changed.write_text(f"{value}\n")
                raise
            before.append((file, old))
            if (seen := file.read_text().strip()) != str(size):
                raise ValueError(f"{file.name} is {seen} after {size} was written")
    if missing := sorted(kib for kib, count in pages.items() if count and kib not in group.sizes):
        raise ValueError(f"the hugetlb controller does not know pages of {missing[0]} KiB")


def limits_of(group: PageGroup) -> dict[int, int | None] | None:
    """Return the bytes that the group may use by page size, the smaller of both limits; None without the controller."""
    sizes = group.sizes
    if not sizes:
        return None
    return {kib: _smallest(file.read_text().strip() for file in group.limit_files(kib)) for kib in sizes}


def _smallest(limits: Iterator[str]) -> int | None:
    numbers = [int(each) for each in limits if each != "max"]
    return min((each for each in numbers if each < _NO_LIMIT), default=None)


def used_of(group: PageGroup) -> dict[int, dict[int, int]] | None:
    """Return the pages in use by memory node and size, None if the kernel (before 5.16) does not count by node.

    Line of both versions for two pages of 2 MiB: ``total=4194304 N0=2097152 N1=2097152``.
    """
    used: dict[int, dict[int, int]] = {}
    for kib in group.sizes:
        try:
            lines = (group.directory / f"hugetlb.{label(kib)}.numa_stat").read_text().splitlines()
        except FileNotFoundError:
            return None
        # Version 1 has a second line that includes the groups below; version 2 always includes them.
        last = next((line for line in lines if line.startswith("hierarchical_total=")), "".join(lines[:1]))
        for node, size in _NODE.findall(last):
            used.setdefault(int(node), {})[kib] = int(size) // (kib * 1024)
    return used


def mounted_size(mountinfo_text: str) -> int | None:
    """Return the page size in KiB of the hugetlbfs that a container sees at ``/dev/hugepages``, None without one."""
    found = None
    for mount in mounts_in(mountinfo_text):
        if mount.place == HUGE_PAGES_TARGET:
            # A later mount hides an earlier one.
            size = _PAGE_SIZE.search(mount.details) if mount.kind == "hugetlbfs" else None
            found = int(size[1]) * _SUFFIXES[size[2]] if size else None
    return found


def huge_page_view(root: Path, pid: int, container_id: str, mountinfo_text: str) -> HugePageView | None:
    """Return the huge pages of the container whose first process is ``pid``, or None if the process is gone."""
    group = page_group(root, pid, container_id, mountinfo_text)
    if group is None:
        return None
    mounted = mounted_size(mountinfo(root, pid))
    limits = limits_of(group)
    return HugePageView(limits, None if limits is None else used_of(group), mounted)


def page_stock(root: Path) -> dict[int, dict[int, PageStock]]:
    """Return the huge pages by memory node and size in KiB. On a machine without nodes everything is node 0."""
    nodes = {int(path.name[4:]): path / "hugepages" for path in (root / "sys/devices/system/node").glob("node[0-9]*")}
    if len(nodes) < 2 and not any(path.exists() for path in nodes.values()):
        nodes = {min(nodes, default=0): root / "sys/kernel/mm/hugepages"}
    stock: dict[int, dict[int, PageStock]] = {}
    for node, folder in sorted(nodes.items()):
        for path in folder.glob("hugepages-*kB"):
            total, free = (int((path / f"{kind}_hugepages").read_text()) for kind in ("nr", "free"))
            if total:
                stock.setdefault(node, {})[int(path.name[10:-2])] = PageStock(total, free)
    return stock


def _unreadable(container: ContainerView, exc: Exception) -> exceptions.DockerError:
    return exceptions.DockerError(
        f"Cannot limit or read the huge pages of container {container.uuid}: {exc}. The agent must run in the host's "
        f"pid and cgroup namespaces."
    )
