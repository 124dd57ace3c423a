# SPDX-License-Identifier: Apache-2.0
"""Read where threads and pages really are, the parent groups of containers, and other processes on their CPUs.

Functions read below a ``root`` that stands for ``/``, as in :mod:`zun.container.docker.kernel`. Each thread costs one
read of its status file; equal CPU and memory lists are parsed once.
Sources: proc(5), Documentation/admin-guide/cgroup-v1/{cpusets,memory}.rst, cgroup-v2.rst, mm/numa_memory_policy.rst,
scheduler/sched-bwc.rst.
"""

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import LABEL_UUID, Engine, OnEngine
from zun.container.docker.kernel import (
    CgroupMount,
    cpu_weight,
    cpus_of,
    group_limits,
    groups_of,
    limits_in,
    locate,
    own_group,
    steps_below,
)
from zun.container.driver.audit import Activity, Intruder, ParentGroup, PinningView, ThreadGroup, Throttling
from zun.container.driver.container import ContainerView
from zun.container.driver.state import RuntimeState
from zun.topology import CPUPolicy, CpuSet
from zun.topology.files import text_of
from zun.topology.mounts import lines_of, mountinfo

KTHREADD = b"2"  # the process that is the parent of all other kernel threads
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_NODE = re.compile(rb"\bN(\d+)=(\d+)")
_PAGE_KIB = re.compile(rb"kernelpagesize_kB=(\d+)")
_MIGRATIONS = re.compile(r"^se\.nr_migrations\s*:\s*(\d+)", re.MULTILINE)
_PRESSURE = re.compile(r"^(some|full) .*total=(\d+)", re.MULTILINE)
_ALLOWED = b"Cpus_allowed_list:"
# How the status file of Open vSwitch begins. Each of its threads that polls interfaces (PMD) takes a whole CPU. The
# threads of other processes are not read, because a host may have thousands.
_SWITCH = b"Name:\tovs-vswitchd\n"
_ENDED = (FileNotFoundError, ProcessLookupError)
# Bytes for one read of a status file, which has about 1.5 KB, and more on a host with thousands of CPUs.
_ROOM = 1 << 16


class DockerAudit(OnEngine):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._mounts: str | None = None

    def pinning_view(self, container: ContainerView, state: RuntimeState) -> PinningView | None:
        try:
            counted = container.cpu_policy in (CPUPolicy.DEDICATED, CPUPolicy.MIXED)
            return pinning_view(self.settings.root, state.pid, state.container_id, self._mountinfo(), counted=counted)
        except _ENDED:
            return None
        except (OSError, ValueError) as exc:
            raise exceptions.DockerError(
                f"Cannot read where container {container.uuid} runs: {exc}. The agent must run in the host's pid and "
                f"cgroup namespaces."
            ) from exc

    def intruders(
        self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool = True, unplaced: bool = False
    ) -> Sequence[Intruder]:
        found, ids = [], set()
        with self._engine.translated("list containers"):
            for entry in self._engine.api.containers():
                ids.add(entry["Id"])
                labels = entry.get("Labels") or {}
                if self._engine.owns(labels) and known(labels.get(LABEL_UUID, "")):
                    continue
                with suppress(docker_errors.NotFound):
                    pid = self._engine.api.inspect_container(entry["Id"])["State"]["Pid"]
                    allowed = self._allowed(pid)
                    if allowed is not None and allowed & cpus:
                        name = (entry.get("Names") or [entry["Id"]])[0].lstrip("/")
                        found.append(Intruder("container", entry["Id"][:12], name, allowed))
        if processes:
            try:
                found += other_processes(self.settings.root, cpus, ids, unplaced=unplaced)
            except (OSError, ValueError) as exc:
                raise exceptions.DockerError(f"Cannot read what else runs on this host: {exc}") from exc
        return found

    def _allowed(self, pid: int) -> CpuSet | None:
        """Return the CPUs of the process's control group, or None if the process is gone."""
        root = Path(self.settings.root)
        try:
            cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
            mount, group = locate("cpuset", cgroup_text, self._mountinfo())
            return group_limits(root, mount, group)[0]
        except _ENDED:
            return None
        except (OSError, ValueError) as exc:
            raise exceptions.DockerError(f"Cannot read what process {pid} of a container may use: {exc}") from exc

    def _mountinfo(self) -> str:
        """Return the lines of mountinfo about control groups, read once: they do not change while the agent runs."""
        if self._mounts is None:
            self._mounts = cgroup_mounts(self.settings.root)
        return self._mounts


def cgroup_mounts(root: str | Path) -> str:
    return "\n".join(line for line in lines_of(mountinfo(root)) if line.partition(" - ")[2].startswith("cgroup"))


def pinning_view(
    root: str | Path, pid: int, container_id: str, mountinfo_text: str, *, counted: bool = False
) -> PinningView | None:
    """Return where the container of process ``pid`` runs, or None if the process is gone or ``pid`` was reused.

    With ``counted``, the view has the activity of the container, at the cost of two more files of each thread.
    FileNotFoundError or ProcessLookupError if the process ends meanwhile.
    """
    if pid <= 0:
        return None
    root = Path(root)
    first = _status(root / "proc", pid)
    if _is_dead(first):
        return None
    cgroup_text = text_of(root / "proc" / str(pid) / "cgroup")
    mount, group = locate("cpuset", cgroup_text, mountinfo_text)
    memory = _controlled("memory", "memory.stat", root, cgroup_text, mountinfo_text, container_id)
    if container_id not in group:
        # Somebody moved the process to another cpuset group of version 1. The memory controller still has its group.
        if memory is None or mount.unified:
            return None
        group = memory.group
    group = own_group(group, container_id)
    cpus, mems = group_limits(root, mount, group)
    weight = cpu_weight(root, cgroup_text, mountinfo_text, container_id)
    # In version 1 each controller has its own copy of the group. A thread that was moved out of the cpuset's copy is
    # still in the memory controller's copy.
    listed = memory.directory if memory is not None and not mount.unified else _directory(root, mount, group)
    tids = list(members(listed))
    pages, anonymous = pages_by_node(root, memory.directory if memory else None, tids)
    pressed = _controlled("cpu", "cpu.pressure", root, cgroup_text, mountinfo_text, container_id) if counted else None
    return PinningView(
        cgroup_cpus=cpus,
        cgroup_mems=mems,
        threads=thread_groups(root, tids),
        parents=tuple(parents(root, mount, group)),
        pages=pages,
        anonymous=anonymous,
        throttling=_throttling(_controlled("cpu", "cpu.stat", root, cgroup_text, mountinfo_text, container_id)),
        engine=cpus_of(root, _value(first, b"PPid:").decode() or "0"),
        weight=None if weight is None else weight[0],
        activity=activity(root, tids, pressed.directory if pressed is not None else None) if counted else None,
        tids=tuple(tids),
    )


def activity(root: Path, tids: Iterable[int], group: Path | None) -> Activity:
    """Return the counters of threads, and the pressure on CPUs of the version 2 ``group`` that has ``cpu.pressure``.

    Sources: proc(5), Documentation/accounting/psi.rst; ``/proc/PID/sched`` needs a kernel with CONFIG_SCHED_DEBUG.
    """
    switches, migrations = {}, {}
    for tid in tids:
        with suppress(OSError, ValueError):  # the thread ended, or the kernel has no /proc/PID/sched
            switches[tid] = int(_value(_status(root / "proc", tid), b"nonvoluntary_ctxt_switches:"))
            found = _MIGRATIONS.search(text_of(root / "proc" / str(tid) / "sched"))
            if found is not None:
                migrations[tid] = int(found[1])
    waited = {}
    if group is not None:
        with suppress(OSError):  # the kernel may have turned it off
            waited = {kind: int(total) / 1e6 for kind, total in _PRESSURE.findall((group / "cpu.pressure").read_text())}
    return Activity(switches, migrations or None, waited.get("some"), waited.get("full"))


@dataclass(frozen=True, slots=True)
class _Controlled:
    group: str
    directory: Path


def _controlled(
    controller: str, file: str, root: Path, cgroup_text: str, mountinfo_text: str, container_id: str
) -> _Controlled | None:
    """Return the container's group in the hierarchy of ``controller``, or None if the group has no ``file`` of it."""
    try:
        mount, group = locate(controller, cgroup_text, mountinfo_text)
        if container_id not in group:
            return None
        group = own_group(group, container_id)
        directory = _directory(root, mount, group)
    except ValueError:
        return None
    return _Controlled(group, directory) if (directory / file).exists() else None


def _throttling(cpu: _Controlled | None) -> Throttling | None:
    return None if cpu is None else throttling((cpu.directory / "cpu.stat").read_text())


def throttling(cpu_stat: str) -> Throttling | None:
    """Return what a ``cpu.stat`` of either version says, or None if the cpu controller is off.

    Version 1 has ``throttled_time`` in nanoseconds, version 2 ``throttled_usec`` in microseconds.
    """
    values = dict(line.split() for line in cpu_stat.splitlines())
    if "nr_throttled" not in values:
        return None
    if "throttled_usec" in values:
        seconds = int(values["throttled_usec"]) / 1e6
    else:
        seconds = int(values["throttled_time"]) / 1e9
    return Throttling(int(values["nr_throttled"]), seconds)


def _directory(root: Path, mount: CgroupMount, group: str) -> Path:
    return mount.directory(root) / steps_below(mount, group)


def members(directory: Path) -> Iterator[int]:
    """Yield the ids of the threads in a group and in every group below."""
    for path, _, files in os.walk(directory):
        name = "tasks" if "tasks" in files else "cgroup.threads"
        try:
            with open(os.path.join(path, name), "rb") as file:
                yield from map(int, file.read().split())
        except OSError as exc:
            # The group was removed, or is a group of version 2 that cannot hold threads.
            if exc.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
                raise


def thread_groups(root: Path, tids: Iterable[int]) -> tuple[ThreadGroup, ...]:
    """Return the live threads, grouped by their CPUs and memory nodes."""
    proc = root / "proc"
    seen: dict[tuple[bytes, bytes], list[int]] = {}
    for tid in tids:
        try:
            status = _status(proc, tid)
        except _ENDED:
            continue
        if not _is_dead(status):
            key = (_value(status, _ALLOWED), _value(status, b"Mems_allowed_list:"))
            seen.setdefault(key, []).append(tid)
    return tuple(
        ThreadGroup(CpuSet(cpus.decode()), CpuSet(mems.decode()), len(alike), alike[0], _name(proc, alike[0]))
        for (cpus, mems), alike in sorted(seen.items())
    )


def parents(root: Path, mount: CgroupMount, group: str) -> Iterator[ParentGroup]:
    """Yield the groups above ``group`` that limit CPUs, the nearest first, up to the top of the mount.

    A partition has its CPUs from no group above.
    """
    for steps in steps_below(mount, group).parents:
        directory = mount.directory(root) / steps
        try:
            limits = limits_in(directory, mount)
        except FileNotFoundError:
            continue
        yield ParentGroup("/" + str(directory.relative_to(root)), *limits)
        with suppress(FileNotFoundError):
            if (directory / "cpuset.cpus.partition").read_text().strip() in ("root", "isolated"):
                return


def pages_by_node(root: Path, directory: Path | None, tids: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the bytes of a container on each memory node, for example ``{0: 8192, 1: 4096}``, all and anonymous ones.

    The memory group in ``directory`` has the totals. Without such a group, the function reads ``numa_maps`` of every
    process, which takes longer the more memory the process has.
    """
    if directory is not None:
        with suppress(FileNotFoundError):
            content = (directory / "memory.numa_stat").read_bytes()
            page_size = os.sysconf("SC_PAGE_SIZE")
            return numa_stat(content, page_size), numa_stat(content, page_size, anonymous=True)
    total: Counter[int] = Counter()
    anonymous: Counter[int] = Counter()
    for tid in tids:
        with suppress(*_ENDED):
            process = Path(root, "proc", str(tid))
            if _value(_status(process.parent, tid), b"Tgid:") == str(tid).encode():
                content = (process / "numa_maps").read_bytes()
                total.update(numa_maps(content))
                anonymous.update(numa_maps(content, anonymous=True))
    return dict(total), dict(anonymous)


def numa_stat(content: bytes, page_size: int, *, anonymous: bool = False) -> dict[int, int]:
    """Return bytes by node from a ``memory.numa_stat`` of either version.

    Version 1 counts pages, for example ``hierarchical_total=3 N0=2 N1=1``, with the groups below included, and locked
    pages as unevictable ones. Version 2 counts bytes with one line for each kind, for example ``anon N0=8192 N1=4096``.
    """
    lines = content.splitlines()
    kinds: tuple[bytes, ...] = (b"hierarchical_total=",)
    unit = page_size
    if not any(line.startswith(kinds) for line in lines):
        kinds, unit = ((b"anon ",) if anonymous else (b"anon ", b"file ")), 1
    elif anonymous:
        kinds = (b"hierarchical_anon=", b"hierarchical_unevictable=")
    total: dict[int, int] = {}
    for line in lines:
        if line.startswith(kinds):
            for node, amount in _NODE.findall(line):
                total[int(node)] = total.get(int(node), 0) + int(amount) * unit
    return total


def numa_maps(content: bytes, *, anonymous: bool = False) -> dict[int, int]:
    """Return bytes by node from a ``numa_maps``, whose lines end in ``N0=2 N1=1 kernelpagesize_kB=4``.

    A line about ``anonymous`` pages has their number: ``anon=3``.
    """
    total: dict[int, int] = {}
    for line in content.splitlines():
        size = _PAGE_KIB.search(line)
        if size is not None and (not anonymous or b" anon=" in line):
            for node, pages in _NODE.findall(line):
                total[int(node)] = total.get(int(node), 0) + int(pages) * int(size[1]) * 1024
    return total


def other_processes(root: str | Path, cpus: CpuSet, container_ids: Iterable[str], *, unplaced: bool) -> list[Intruder]:
    """Return processes outside of the given containers that may run on ``cpus``.

    Processes with the same group and CPUs are one Intruder. Kernel threads are left out. Processes with the CPUs of
    process 1 are left out, unless ``unplaced``. Threads of Open vSwitch with CPUs of their own count as processes.
    """
    proc, ids = Path(root, "proc"), frozenset(container_ids)
    everywhere = _value(_status(proc, 1), _ALLOWED)
    relevant: dict[bytes, bool] = {} if unplaced else {everywhere: False}
    alike: dict[tuple[str, bytes], list[int]] = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        pid = int(name)
        with suppress(*_ENDED):
            status = _status(proc, pid)
            found = [(pid, _value(status, _ALLOWED))]
            if status.startswith(_SWITCH):
                found += _placed_threads(proc / name / "task", found[0][1])
            for tid, allowed in found:
                if allowed not in relevant:
                    relevant[allowed] = bool(CpuSet(allowed.decode()) & cpus)
                if not relevant[allowed] or name == KTHREADD.decode() or _value(status, b"PPid:") == KTHREADD:
                    continue
                if _is_dead(status):
                    continue
                group = _cpu_group(_told(proc / name / "cgroup"))
                if ids.isdisjoint(_CONTAINER_ID.findall(group)):
                    alike.setdefault((group, allowed), []).append(tid)
    return [
        Intruder("process", group, f"{_name(proc, min(pids))} ({min(pids)})", CpuSet(allowed.decode()), len(pids))
        for (group, allowed), pids in sorted(alike.items())
    ]


def _placed_threads(tasks: Path, process: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield id and CPUs of the threads that have other CPUs than their process."""
    for name in os.listdir(tasks):
        with suppress(*_ENDED):
            allowed = _value(_status(tasks, int(name)), _ALLOWED)
            if allowed != process:
                yield int(name), allowed


def _cpu_group(cgroup_text: str) -> str:
    """Return the most telling group of a process: the cpuset's, systemd's or version 2's, the first that is not /."""
    groups = groups_of(cgroup_text)
    named = [groups.get(name, "/") for name in ("cpuset", "name=systemd", "")]
    return next((group for group in named if group != "/"), "/")


def _status(proc: Path, tid: int) -> bytes:
    file = os.open(f"{proc}/{tid}/status", os.O_RDONLY)
    try:
        return os.read(file, _ROOM)
    finally:
        os.close(file)


def _value(status: bytes, name: bytes) -> bytes:
    """Return the value of the line ``name`` of a status file, or b"": ``b"0-3"`` for ``b"Cpus_allowed_list:"``."""
    start = status.find(b"\n" + name)
    if start < 0:
        return b""
    start += len(name) + 1
    end = status.find(b"\n", start)
    return status[start : len(status) if end < 0 else end].strip()


def _is_dead(status: bytes) -> bool:
    """Return whether the process is a zombie (Z) or is being removed by the kernel (X)."""
    return _value(status, b"State:")[:1] in (b"Z", b"X")


def _name(proc: Path, tid: int) -> str:
    with suppress(OSError):
        return _told(proc / str(tid) / "comm").strip()
    return "?"


def _told(path: Path) -> str:
    """Return the text of a file for people. Bytes that are not UTF-8 are spelt, because the text is stored."""
    return path.read_bytes().decode(errors="backslashreplace")
