# SPDX-License-Identifier: Apache-2.0
import pathlib
from typing import Any

import pytest

from zun.common import exceptions
from zun.container.docker.client import Engine, Settings
from zun.container.docker.resources import DockerResources, update_arguments
from zun.tests.unit.container.samples import Sample

MIB = 1 << 20
NOTHING: dict[str, Any] = {"cpu": None, "memory": None, "cpuset_cpus": None, "cpuset_mems": None}


@pytest.mark.parametrize(
    ("policy", "hard", "change", "expected"),
    [
        pytest.param("shared", False, {}, {}, id="nothing"),
        pytest.param("shared", False, {"cpu": 2.0}, {"cpu_shares": 2048, "cpu_quota": -1}, id="weight"),
        pytest.param("shared", False, {"cpu": 300.0}, {"cpu_shares": 262_144, "cpu_quota": -1}, id="the-most-shares"),
        pytest.param("mixed", True, {"cpu": 300.0}, {"cpu_shares": 262_144, "cpu_quota": -1}, id="the-most-of-a-mixed"),
        pytest.param(
            "shared",
            True,
            {"cpu": 2.0},
            {"cpu_shares": 1024, "cpu_quota": 200_000, "cpu_period": 100_000},
            id="quota",
        ),
        pytest.param("dedicated", False, {"cpu": 2.0}, {"cpu_shares": 1024, "cpu_quota": -1}, id="dedicated"),
        pytest.param("dedicated", True, {"cpu": 2.0}, {"cpu_shares": 1024, "cpu_quota": -1}, id="dedicated-hard"),
        pytest.param(
            "dedicated", False, {"memory": 64}, {"mem_limit": 64 * MIB, "memswap_limit": -1}, id="memory-and-swap"
        ),
        pytest.param(
            "dedicated",
            True,
            {"cpuset_cpus": "0-3", "cpuset_mems": "0"},
            {"cpuset_cpus": "0-3", "cpuset_mems": "0"},
            id="cpusets-alone-touch-no-weight",
        ),
    ],
)
def test_update_arguments(policy: str, hard: bool, change: dict[str, Any], expected: dict[str, Any]) -> None:
    assert update_arguments(policy, **{**NOTHING, **change}, hard_cpu_limit=hard, swap_mib=-1) == expected


@pytest.mark.parametrize("name", ["cpuset_cpus", "cpuset_mems"])
@pytest.mark.parametrize("empty", ["", " "])
def test_empty_cpuset_is_never_sent(name: str, empty: str) -> None:
    with pytest.raises(exceptions.Invalid, match=f"{name} is empty"):
        update_arguments("shared", **{**NOTHING, "cpu": 1.0, name: empty}, hard_cpu_limit=False, swap_mib=-1)


ID = "5bdd0e182a3835ae9ea6139ebb5482260441a5ee225639a6978757c5dc73abe7"
SCOPE = f"/system.slice/docker-{ID}.scope"
V1 = "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


class Used(Engine):
    """An engine with one container, limited to 96 MiB, that uses 40 MiB: 24 of its own, 10 of cache, 6 of slabs.

    On a host with 8 MiB of free swap.
    """

    def __init__(self, root: pathlib.Path, *, group: str, mounts: str, swap_mib: int, pid: int) -> None:
        super().__init__(Settings(root=str(root), memory_swap_mib=swap_mib))
        self.pid, self.limits = pid, (96, 96)
        for path, text in {
            "proc/42/cgroup": f"{group}\n",
            "proc/self/mountinfo": mounts,
            "proc/meminfo": "SwapTotal: 16384 kB\nSwapFree: 8192 kB\n",
            f"sys/fs/cgroup{SCOPE}/memory.current": f"{40 * MIB}\n",
            f"sys/fs/cgroup{SCOPE}/memory.swap.current": f"{1 * MIB}\n",
            f"sys/fs/cgroup{SCOPE}/memory.stat": f"anon {24 * MIB}\nfile {12 * MIB}\nshmem {2 * MIB}\n"
            f"inactive_file {7 * MIB}\nactive_file {3 * MIB}\nslab_reclaimable {6 * MIB}\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

    @property
    def api(self) -> Any:
        return self

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"Id": ID, "State": {"Pid": self.pid}, "HostConfig": {"Memory": self.limits[0] * MIB}}

    def update_container(self, _: str, *, mem_limit: int, memswap_limit: int) -> dict[str, Any]:
        self.limits = (mem_limit // MIB, memswap_limit // MIB)
        return {}


@pytest.mark.parametrize(("memory", "swap_mib", "group", "mounts", "pid", "kept"), [
    pytest.param(24, 0, f"0::{SCOPE}", V2, 42, True, id="what-it-uses-itself"),
    pytest.param(23, 0, f"0::{SCOPE}", V2, 42, False, id="less"),
    pytest.param(23, 0, f"0::{SCOPE}/container", V2, 42, False, id="less-and-a-group-of-crun"),
    pytest.param(16, -1, f"0::{SCOPE}", V2, 42, True, id="the-rest-fits-into-free-swap"),
    pytest.param(15, -1, f"0::{SCOPE}", V2, 42, False, id="more-than-free-swap"),
    pytest.param(20, 25, f"0::{SCOPE}", V2, 42, True, id="the-rest-fits-into-its-swap"),
    pytest.param(20, 24, f"0::{SCOPE}", V2, 42, False, id="more-than-its-swap"),
    pytest.param(8, 0, f"4:memory:/docker/{ID}\n0::/", V1, 42, True, id="version-1-refuses-itself"),
    pytest.param(8, 0, f"0::{SCOPE}", V2, 0, True, id="stopped"),
    pytest.param(8, 0, f"0::{SCOPE}", V2, 43, True, id="has-just-ended"),
    pytest.param(8, 0, "0::/system.slice/other.scope", V2, 42, True, id="its-pid-is-another-s-now"),
])  # fmt: skip
def test_memory_below_use_is_refused(
    tmp_path, memory: int, swap_mib: int, group: str, mounts: str, pid: int, kept: bool
) -> None:
    """Version 2 of control groups would end the processes."""
    engine = Used(tmp_path, group=group, mounts=mounts, swap_mib=swap_mib, pid=pid)
    resources = DockerResources(engine)
    if kept:
        resources.update(Sample(cpu_policy="shared"), memory=memory)
        assert engine.limits[0] == memory
    else:
        with pytest.raises(exceptions.Conflict, match=rf"^memory {memory} is below the \d+ MiB that the processes of"):
            resources.update(Sample(cpu_policy="shared"), memory=memory)
        assert engine.limits == (96, 96)


def test_a_limit_that_does_not_fall_is_not_compared(tmp_path) -> None:
    """The old one may be written back at any time, as after a resize that failed."""
    engine = Used(tmp_path, group=f"0::{SCOPE}", mounts=V2, swap_mib=0, pid=42)
    engine.limits = (16, 16)
    DockerResources(engine).update(Sample(cpu_policy="shared"), memory=16)
    assert engine.limits == (16, 16)


class Moving(Engine):
    """An engine with one container on memory node 0."""

    def __init__(self, root: pathlib.Path, *, group: str, mounts: str, pid: int = 42) -> None:
        super().__init__(Settings(root=str(root)))
        self.pid, self.mems, self.flag_seen = pid, "0", ""
        self.folder = root / "sys/fs/cgroup" / ("cpuset" if "cpuset:" in group else "") / group.rpartition(":")[2][1:]
        self.folder.mkdir(parents=True)
        for path, text in {"proc/42/cgroup": f"{group}\n", "proc/self/mountinfo": mounts}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

    @property
    def flag(self) -> str | None:
        file = self.folder / "cpuset.memory_migrate"
        return file.read_text() if file.exists() else None

    @property
    def api(self) -> Any:
        return self

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"Id": ID, "State": {"Pid": self.pid}, "HostConfig": {"CpusetMems": self.mems}}

    def update_container(self, _: str, *, cpuset_mems: str) -> dict[str, Any]:
        self.flag_seen, self.mems = self.flag, cpuset_mems
        return {}


CPUSETS = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"


@pytest.mark.parametrize(("group", "mounts", "pid", "mems", "flag"), [
    pytest.param(f"3:cpuset:/docker/{ID}", CPUSETS, 42, "1", "1", id="version-1"),
    pytest.param(f"3:cpuset:/docker/{ID}", CPUSETS, 42, "0", None, id="the-same-nodes"),
    pytest.param(f"3:cpuset:/docker/{ID}", CPUSETS, 0, "1", None, id="stopped"),
    pytest.param(f"3:cpuset:/docker/{ID}", CPUSETS, 43, "1", None, id="has-just-ended"),
    pytest.param("3:cpuset:/docker/other", CPUSETS, 42, "1", None, id="its-pid-is-another-s-now"),
    pytest.param(f"0::{SCOPE}", V2, 42, "1", None, id="version-2-does-it-itself"),
])  # fmt: skip
def test_memory_follows_to_other_nodes(tmp_path, group: str, mounts: str, pid: int, mems: str, flag) -> None:
    """The kernel is told before the nodes change. Version 1 leaves memory where it is unless it is told."""
    engine = Moving(tmp_path, group=group, mounts=mounts, pid=pid)
    DockerResources(engine).update(Sample(cpu_policy="dedicated"), cpuset_mems=mems)
    assert (engine.mems, engine.flag_seen) == (mems, flag)
