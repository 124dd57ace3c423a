# SPDX-License-Identifier: Apache-2.0
"""Read the CPUs and memory nodes that the kernel allows a process, from /proc and /sys and without Docker.

Functions read below a ``root`` that stands for ``/``, so tests can use captured trees.
Sources: proc(5), cgroups(7), Documentation/admin-guide/cgroup-v1/cpusets.rst and cgroup-v2.rst.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from zun.common import exceptions
from zun.common.states import Status
from zun.container.docker.client import OnEngine
from zun.container.driver.container import ContainerView
from zun.container.driver.inspector import KernelView
from zun.container.driver.state import RuntimeState
from zun.container.weights import linear
from zun.topology import CpuSet
from zun.topology.files import text_of
from zun.topology.mounts import mountinfo, mounts_in

LOG = logging.getLogger(__name__)

LEFT_RUNNING = (
    "Docker does not know the container any more, and its processes still run on the host (process {}{}). It keeps "
    "what it holds. Tell the operator of the host, who can bring Docker's former store back, or end the processes."
)


class DockerKernel(OnEngine):
    """Reads the limits of containers back from the kernel."""

    def kernel_view(self, container: ContainerView, state: RuntimeState) -> KernelView | None:
        try:
            return kernel_view(self.settings.root, state.pid, state.container_id)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except (OSError, ValueError) as exc:
            raise exceptions.DockerError(
                f"Cannot read what the kernel allows container {container.uuid}: {exc}. The agent must "
                f"run in the host's pid and cgroup namespaces."
            ) from exc

    def left_running(self, container: ContainerView) -> RuntimeState | None:
        """Return the state of a container that Docker does not know and whose processes run, or None if none runs.

        With live-restore, processes run on while Docker is away. A Docker that comes back with another store, or that
        cannot read its files of the container, does not know them.
        """
        pids = processes_of(self.settings.root, container.container_id)
        if not pids or not container.container_id:
            return None
        reason = LEFT_RUNNING.format(pids[0], "" if len(pids) == 1 else f" and {len(pids) - 1} more")
        return RuntimeState(
            container.container_id,
            Status.UNKNOWN,
            exit_code=None,
            started_at=container.started_at,
            finished_at=None,
            error=reason,
            pid=pids[0],
            cpuset_cpus="",
            cpuset_mems="",
        )

    def use_all_cpus(self, container: ContainerView, state: RuntimeState) -> None:
        try:
            use_all_cpus(self.settings.root, state.pid)
        except OSError as exc:
            LOG.warning("Container %s has only the CPUs of its runtime: %s", container.uuid, exc)


@dataclass(frozen=True, slots=True)
class CgroupMount:
    """A mounted hierarchy. ``top`` is the group at ``mountpoint``; ``unified`` means version 2."""

    mountpoint: PurePosixPath
    top: str
    unified: bool

    def directory(self, root: Path) -> Path:
        return root / str(self.mountpoint).lstrip("/")


def kernel_view(root: str | Path, pid: int, container_id: str) -> KernelView | None:
    """Return the limits of process ``pid``, or None if the process is gone or ``pid`` was reused.

    ``container_id`` reveals a reused ``pid``, because Docker puts the id into the name of the container's group.
    FileNotFoundError or ProcessLookupError if the process ends meanwhile.
    """
    if pid <= 0:
        return None
    proc = Path(root, "proc", str(pid))
    status = _fields(text_of(proc / "status"))
    if status.get("State", "")[:1] in ("Z", "X"):
        return None
    mount, group = locate("cpuset", text_of(proc / "cgroup"), mountinfo(root))
    if container_id and container_id not in group:
        return None
    cpus, mems = group_limits(Path(root), mount, own_group(group, container_id))
    return KernelView(
        engine=cpus_of(root, status.get("PPid", "0")),
        cpus=CpuSet(status["Cpus_allowed_list"]),
        mems=CpuSet(status["Mems_allowed_list"]),
        cgroup_cpus=cpus,
        cgroup_mems=mems,
    )


def processes_of(root: str | Path, container_id: str | None) -> list[int]:
    """Return the living processes in the control groups of a container, the lowest pid first."""
    found = []
    for each in Path(root, "proc").glob("[0-9]*/cgroup") if container_id else ():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if str(container_id) in text_of(each):
                state = _fields(text_of(each.parent / "status")).get("State", "")
                found += [int(each.parent.name)] if state[:1] not in ("Z", "X") else []
    return sorted(found)


def cpus_of(root: str | Path, pid: str) -> CpuSet | None:
    """Return the CPUs of process ``pid``, or None if it is not of this pid namespace, or gone."""
    try:
        status = _fields(text_of(Path(root, "proc", pid, "status")))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return CpuSet(status.get("Cpus_allowed_list", "")) or None


def use_all_cpus(root: str | Path, pid: int) -> None:
    """Lift the mask of each thread of process ``pid``. The kernel then leaves the CPUs of the control group.

    The mask gets all CPUs of the machine, because the kernel keeps a mask when the group gets further CPUs.
    """
    every = range(os.sysconf("SC_NPROCESSORS_CONF"))
    for tid in os.listdir(Path(root, "proc", str(pid), "task")):
        os.sched_setaffinity(int(tid), every)


def locate(controller: str, cgroup_text: str, mountinfo_text: str) -> tuple[CgroupMount, str]:
    """Return the hierarchy of ``controller`` and the process's group in it, from ``cgroup`` and ``mountinfo`` of /proc.

    On a hybrid machine, which mounts both versions, a version 1 hierarchy with the controller wins. ValueError if no
    hierarchy with the controller is mounted.
    """
    groups = groups_of(cgroup_text)
    mounts = list(_mounts(mountinfo_text, controller))
    for controllers, group in groups.items():
        if controller in controllers.split(","):
            for mount in mounts:
                if not mount.unified:
                    return mount, group
    if "" in groups:
        for mount in mounts:
            if mount.unified:
                return mount, groups[""]
    raise ValueError(f"no cgroup hierarchy with the controller {controller} is mounted")


def groups_of(cgroup_text: str) -> dict[str, str]:
    """Return the groups of a process by their controllers: ``4:cpu,cpuset:/a`` is ``{"cpu,cpuset": "/a"}``.

    The key of a version 2 group is "": ``0::/a`` is ``{"": "/a"}``.
    """
    return {controllers: group for _, controllers, group in (line.split(":", 2) for line in cgroup_text.splitlines())}


def group_limits(root: Path, mount: CgroupMount, group: str) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs and memory nodes of ``group``.

    For a version 2 group without the controller, the limits of its nearest ancestor with the controller hold.
    """
    steps, top = steps_below(mount, group), mount.directory(root)
    if not mount.unified:
        return limits_in(top / steps, mount)
    for path in (steps, *steps.parents):
        if (top / path / "cpuset.cpus.effective").exists():
            return limits_in(top / path, mount)
    raise ValueError(f"the cpuset controller is off in {top}: add it to cgroup.subtree_control")


def limits_in(directory: Path, mount: CgroupMount) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs and memory nodes of the group in ``directory``. FileNotFoundError without the controller."""
    suffix = ".effective" if mount.unified else ""
    cpus, mems = (CpuSet((directory / f"cpuset.{each}{suffix}").read_text()) for each in ("cpus", "mems"))
    return cpus, mems


def cpu_weight(root: Path, cgroup_text: str, mountinfo_text: str, container_id: str) -> tuple[int, bool] | None:
    """Return the weight of the container's group, and whether the group is of version 2. None without a weight.

    Version 1 has shares, 1024 for one CPU, which are returned as the weight that they are by the linear curve: 39.
    """
    try:
        mount, directory = _own_directory(root, "cpu", cgroup_text, mountinfo_text, container_id)
        found = int((directory / ("cpu.weight" if mount.unified else "cpu.shares")).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return (found, True) if mount.unified else (linear(found), False)


def memory_in_use(root: Path, cgroup_text: str, mountinfo_text: str, container_id: str, swap: int) -> int | None:
    """Return the bytes that the kernel could not take from a container whose limit of swap is ``swap``, -1 for none.

    Page cache and free objects of the kernel can be taken, and what fits into swap. None with version 1 of control
    groups, whose kernel itself refuses a limit below what is in use. Version 2 ends processes instead.
    """
    try:
        mount, directory = _own_directory(root, "memory", cgroup_text, mountinfo_text, container_id)
        if not mount.unified:
            return None
        used = int((directory / "memory.current").read_text())
        found = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
        used -= sum(int(found.get(name, 0)) for name in ("inactive_file", "active_file", "slab_reclaimable"))
        if swap:
            free = int(_fields((root / "proc/meminfo").read_text())["SwapFree"].split()[0]) << 10
            left = free if swap < 0 else swap - int((directory / "memory.swap.current").read_text())
            used -= max(0, min(free, left))
    except (FileNotFoundError, ValueError):
        return None
    return used


def let_memory_follow(root: Path, pid: int, container_id: str) -> None:
    """Have the kernel move the container's memory when the memory nodes of its control group change.

    Version 2 of control groups does so by itself.
    """
    cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
    mount, directory = _own_directory(root, "cpuset", cgroup_text, mountinfo(root), container_id)
    if not mount.unified:
        (directory / "cpuset.memory_migrate").write_text("1")


def _own_directory(
    root: Path, controller: str, cgroup_text: str, mountinfo_text: str, container_id: str
) -> tuple[CgroupMount, Path]:
    """Return the mount of the controller and the folder of the container's group. ValueError if it has no group there.
    """
    mount, group = locate(controller, cgroup_text, mountinfo_text)
    if container_id not in group:
        raise ValueError(f"the process is not in a group of container {container_id}, but in {group}")
    return mount, mount.directory(root) / steps_below(mount, own_group(group, container_id))


def own_group(group: str, container_id: str) -> str:
    """Return the container's own group for ``group``, which may be below it: ``/a/ID`` for ``/a/ID/init``."""
    steps = group.split("/")
    last = max(place for place, step in enumerate(steps) if container_id in step)
    return "/".join(steps[: last + 1])


def steps_below(mount: CgroupMount, group: str) -> PurePosixPath:
    """Return the path of ``group`` below the mount point. ValueError if the mount does not contain the group."""
    inside = group
    # For a runtime inside a container, the mount shows only the groups below ``top``.
    if mount.top != "/" and (group == mount.top or group.startswith(mount.top + "/")):
        inside = group[len(mount.top) :]
    steps = PurePosixPath(inside.strip("/"))
    if ".." in steps.parts:
        raise ValueError(f"group {group} is outside of this process's cgroup namespace")
    return steps


def _mounts(mountinfo_text: str, controller: str) -> Iterator[CgroupMount]:
    """Yield the cgroup mounts that can have ``controller``."""
    for mount in mounts_in(mountinfo_text, "cgroup"):
        if mount.kind == "cgroup2" or (mount.kind == "cgroup" and controller in mount.details.split(",")):
            yield CgroupMount(PurePosixPath(mount.place), mount.root, mount.kind == "cgroup2")


def _fields(status_text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in status_text.split("\n"))
    return {name: value.strip() for name, _, value in pairs}
