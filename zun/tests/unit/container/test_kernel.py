# SPDX-License-Identifier: Apache-2.0
"""The kernel's files, as trees of the two versions of control groups."""

import functools
import os
import pathlib
import shutil
import subprocess
from datetime import datetime
from unittest.mock import Mock

import pytest

from zun.common import exceptions
from zun.common.states import Status
from zun.container.docker import kernel
from zun.container.docker.client import Engine, Settings
from zun.container.docker.kernel import DockerKernel, kernel_view, processes_of, use_all_cpus
from zun.container.driver.inspector import KernelView
from zun.container.driver.state import RuntimeState
from zun.tests.unit.container.samples import Sample
from zun.topology import CpuSet

ID = "5bdd0e182a3835ae9ea6139ebb5482260441a5ee225639a6978757c5dc73abe7"
PID = 4242

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1_GROUPS = f"3:cpuset:/docker/{ID}\n1:cpu,cpuacct:/docker/{ID}\n0::/docker/{ID}\n"
V2_MOUNTS = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V2_GROUP = f"/system.slice/docker-{ID}.scope"


class Machine:
    """A small tree that stands for a host."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def process(self, groups: str, mounts: str, *, cpus: str = "2-3", mems: str = "1", state: str = "S") -> None:
        status = f"Name:\tsleep\nState:\t{state} (x)\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
        self.write(f"proc/{PID}/status", status)
        self.write(f"proc/{PID}/cgroup", groups)
        self.write("proc/self/mountinfo", mounts)

    def v1(self, folder: str, cpus: str, mems: str) -> None:
        self.write(f"{folder}/cpuset.cpus", f"{cpus}\n")
        self.write(f"{folder}/cpuset.mems", f"{mems}\n")

    def v2(self, folder: str, cpus: str, mems: str) -> None:
        # The asked-for list may be empty or wider; what holds is the effective one.
        self.write(f"{folder}/cpuset.cpus", "\n")
        self.write(f"{folder}/cpuset.cpus.effective", f"{cpus}\n")
        self.write(f"{folder}/cpuset.mems.effective", f"{mems}\n")

    def view(self) -> KernelView | None:
        return kernel_view(self.root, PID, ID)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def view(cpus: str, mems: str, group_cpus: str, group_mems: str) -> KernelView:
    return KernelView(CpuSet(cpus), CpuSet(mems), CpuSet(group_cpus), CpuSet(group_mems))


@pytest.mark.parametrize(
    ("engine", "cpus", "inherits"),
    [("0-2", "2", True), ("0-7", "2", False), ("0-1", "2", False), ("0-2", "2-3", False), ("0-2", "3", False)],
)
def test_a_mask_that_is_the_engine_s(machine: Machine, engine: str, cpus: str, inherits: bool) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS, cpus=cpus)
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    status = (machine.root / f"proc/{PID}/status").read_text()
    machine.write(f"proc/{PID}/status", f"{status}PPid:\t77\n")
    machine.write("proc/77/status", f"Name:\tcontainerd-shim\nState:\tS (x)\nCpus_allowed_list:\t{engine}\n")
    seen = machine.view()
    assert seen is not None and (seen.engine, seen.inherits) == (CpuSet(engine), inherits)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_an_inherited_mask_is_lifted() -> None:
    """By a real process, whose group leaves all CPUs of this one."""
    mine = os.sched_getaffinity(0)
    inherits = functools.partial(os.sched_setaffinity, 0, {min(mine)})
    with subprocess.Popen(["sleep", "60"], preexec_fn=inherits) as child:
        try:
            assert os.sched_getaffinity(child.pid) == {min(mine)}
            use_all_cpus("/", child.pid)
            assert os.sched_getaffinity(child.pid) >= mine
        finally:
            child.kill()


def test_version_1(machine: Machine) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS, cpus="2")
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    assert machine.view() == view("2", "1", "2-3", "1")


def test_version_1_of_a_runtime_inside_a_container(machine: Machine) -> None:
    machine.process(
        f"3:cpuset:/docker/outer/docker/{ID}\n",
        "34 31 0:31 /docker/outer /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
    )
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    assert machine.view() == view("2-3", "1", "2-3", "1")


def test_version_1_with_a_mount_point_that_has_a_blank(machine: Machine) -> None:
    machine.process(f"3:cpu,cpuset:/docker/{ID}\n", "34 31 0:31 / /sys/cg\\040one rw - cgroup none rw,cpu,cpuset\n")
    machine.v1(f"sys/cg one/docker/{ID}", "2", "0")
    assert machine.view() == view("2-3", "1", "2", "0")


def test_version_2(machine: Machine) -> None:
    machine.process(f"0::{V2_GROUP}\n", V2_MOUNTS)
    machine.v2(f"sys/fs/cgroup{V2_GROUP}", "2-3", "1")
    machine.v2("sys/fs/cgroup/system.slice", "0-7", "0-1")
    assert machine.view() == view("2-3", "1", "2-3", "1")


def test_version_2_that_was_mounted_with_an_empty_name(machine: Machine) -> None:
    machine.process(f"0::{V2_GROUP}\n", "28 23 0:25 / /mnt rw - cgroup2  rw\n")
    machine.v2(f"mnt{V2_GROUP}", "2-3", "1")
    assert machine.view() == view("2-3", "1", "2-3", "1")


@pytest.mark.parametrize("name", [b"\xff", b"a\rState:\tZ", b"\xc2\x85PPid:\t1", b"\x0b"], ids=ascii)
def test_names_that_others_choose_hide_nothing(machine: Machine, name: bytes) -> None:
    """A process names itself, and anybody with a disk may mount it under any name."""
    machine.process(f"0::{V2_GROUP}\n", V2_MOUNTS)
    machine.v2(f"sys/fs/cgroup{V2_GROUP}", "2-3", "1")
    mounts, status = machine.root / "proc/self/mountinfo", machine.root / f"proc/{PID}/status"
    other = b"99 23 8:1 / /mnt/%s rw - ext4 /dev/a rw\n" % name.replace(b"\t", b"\\011")
    mounts.write_bytes(other + mounts.read_bytes())
    status.write_bytes(status.read_bytes().replace(b"sleep", name))
    machine.write("proc/77/cgroup", "0::/\n")
    (machine.root / "proc/77/cgroup").write_bytes(b"0::/" + name.replace(b"\t", b"") + b"\n")
    assert machine.view() == view("2-3", "1", "2-3", "1")
    assert processes_of(machine.root, ID) == [PID]


def test_v2_group_without_controller_obeys_its_parent(machine: Machine) -> None:
    machine.process(f"0::{V2_GROUP}/init\n", V2_MOUNTS.replace("cgroup2 cgroup2", "cgroup2 none"))
    machine.write(f"sys/fs/cgroup{V2_GROUP}/init/cgroup.procs", str(PID))
    machine.v2("sys/fs/cgroup/system.slice", "2-5", "0-1")
    assert machine.view() == view("2-3", "1", "2-5", "0-1")


def test_a_group_that_was_made_inside_of_the_container(machine: Machine) -> None:
    """A service manager in the container may give a process less than the container was given."""
    machine.process(V1_GROUPS.replace(f"cpuset:/docker/{ID}", f"cpuset:/docker/{ID}/mine"), V1_MOUNTS, cpus="2")
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}/mine", "2", "1")
    assert machine.view() == view("2", "1", "2-3", "1")
    machine.process(f"0::{V2_GROUP}/init.scope\n", V2_MOUNTS, cpus="2")
    machine.v2(f"sys/fs/cgroup{V2_GROUP}", "2-3", "1")
    machine.v2(f"sys/fs/cgroup{V2_GROUP}/init.scope", "2", "1")
    assert machine.view() == view("2", "1", "2-3", "1")


def test_version_2_in_a_private_namespace_of_the_agent(machine: Machine) -> None:
    machine.process(f"0::/../docker-{ID}.scope\n", V2_MOUNTS)
    machine.v2("sys/fs/cgroup", "0-7", "0-1")
    with pytest.raises(ValueError, match="namespace"):
        machine.view()


def test_no_controller_anywhere(machine: Machine) -> None:
    machine.process(f"0::{V2_GROUP}\n", V2_MOUNTS)
    machine.write("sys/fs/cgroup/cgroup.controllers", "memory pids\n")
    with pytest.raises(ValueError, match="subtree_control"):
        machine.view()


@pytest.mark.parametrize("state", ["Z", "X"])
def test_process_that_has_ended(machine: Machine, state: str) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS, state=state)
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    assert machine.view() is None


def test_pid_that_went_to_somebody_else(machine: Machine) -> None:
    machine.process("3:cpuset:/\n", V1_MOUNTS)
    machine.v1("sys/fs/cgroup/cpuset", "0-7", "0-1")
    assert machine.view() is None


@pytest.mark.parametrize("pid", [0, -1])
def test_no_process(machine: Machine, pid: int) -> None:
    assert kernel_view(machine.root, pid, ID) is None


def driver_view(machine: Machine) -> KernelView | None:
    state = RuntimeState(ID, None, None, None, None, None, PID, "", "")
    return DockerKernel(Engine(Settings(root=str(machine.root)))).kernel_view(Sample(), state)


def test_process_that_ends_meanwhile(machine: Machine) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS)
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    assert driver_view(machine) is not None
    shutil.rmtree(machine.root / f"sys/fs/cgroup/cpuset/docker/{ID}")
    assert driver_view(machine) is None
    shutil.rmtree(machine.root / f"proc/{PID}")
    assert driver_view(machine) is None


def test_process_that_ends_while_it_is_read_has_no_view(machine, monkeypatch) -> None:
    """No tree of files does that: reading one of /proc fails with ESRCH."""
    monkeypatch.setattr(kernel, "kernel_view", Mock(side_effect=ProcessLookupError))
    assert driver_view(machine) is None


def test_limits_that_cannot_be_read_are_an_error(machine: Machine) -> None:
    machine.process(f"0::/../docker-{ID}.scope\n", V2_MOUNTS)
    with pytest.raises(exceptions.DockerError, match="namespaces"):
        driver_view(machine)


def test_so_is_a_file_of_the_kernel_that_cannot_be_read(machine: Machine) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS)
    machine.v1(f"sys/fs/cgroup/cpuset/docker/{ID}", "2-3", "1")
    unreadable = machine.root / f"sys/fs/cgroup/cpuset/docker/{ID}/cpuset.mems"
    unreadable.unlink()
    unreadable.mkdir()
    with pytest.raises(exceptions.DockerError, match="namespaces"):
        driver_view(machine)


@pytest.mark.parametrize("groups", [V1_GROUPS, f"0::{V2_GROUP}/init\n"], ids=["version-1", "group-inside-version-2"])
def test_processes_that_docker_does_not_know_are_found(machine: Machine, groups: str) -> None:
    machine.process(groups, V1_MOUNTS)
    container = Sample(container_id=ID, started_at=datetime(2026, 11, 28))
    found = DockerKernel(Engine(Settings(root=str(machine.root)))).left_running(container)
    assert found is not None
    assert (found.status, found.pid, found.started_at) == (Status.UNKNOWN, PID, container.started_at)
    assert f"process {PID})" in str(found.error)


@pytest.mark.parametrize(("container_id", "state"), [(ID, "Z"), (ID[::-1], "S"), (None, "S"), ("", "S")])
def test_other_processes_are_not_left_running(machine: Machine, container_id: str | None, state: str) -> None:
    machine.process(V1_GROUPS, V1_MOUNTS, state=state)
    kernel = DockerKernel(Engine(Settings(root=str(machine.root))))
    assert kernel.left_running(Sample(container_id=container_id)) is None
