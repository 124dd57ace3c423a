# SPDX-License-Identifier: Apache-2.0
"""The kernel's files about threads, parents, pages and other processes, as trees of both versions of control groups."""

import pathlib

import pytest

from zun.container.docker.audit import (
    cgroup_mounts,
    members,
    numa_maps,
    numa_stat,
    other_processes,
    pinning_view,
    throttling,
)
from zun.container.driver.audit import Activity, Intruder, ParentGroup, PinningView, ThreadGroup, Throttling
from zun.topology import CpuSet

ID = "5bdd0e182a3835ae9ea6139ebb5482260441a5ee225639a6978757c5dc73abe7"
PID = 4242

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1 = f"4:memory:/docker/{ID}\n3:cpuset:/docker/{ID}\n0::/docker/{ID}\n"
V2_MOUNTS = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
SCOPE = f"/system.slice/docker-{ID}.scope"
NUMA_STAT_V1 = "total=3 N0=1 N1=2\nfile=1 N0=1 N1=0\nhierarchical_total=4 N0=1 N1=3\nhierarchical_file=1 N0=1 N1=0\n"
NUMA_STAT_V2 = "anon N0=4096 N1=8192\nfile N0=0 N1=4096\nkernel_stack N0=65536 N1=0\nanon_thp N0=0 N1=2097152\n"
NUMA_MAPS = """\
55a0 default file=/bin/busybox mapped=2 N0=2 kernelpagesize_kB=4
7f00 bind:1 anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4
7f80 bind:1 huge anon=1 dirty=1 N1=1 kernelpagesize_kB=2048
7fff default
"""


class Machine:
    """A tree that stands for a host. Its first process may run on CPUs 0-7."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.thread(1, "0-7", "0-1", group="0::/init.scope\n")

    def write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def thread(self, tid, cpus, mems="1", *, state="S", name="sleep", parent=1, tgid=None, group=None, task_of=None):
        fields = {
            "Name": name, "State": f"{state} (x)", "Tgid": tgid or tid, "PPid": parent,
            "Cpus_allowed": "ff", "Cpus_allowed_list": cpus, "Mems_allowed_list": mems,
        }  # fmt: skip
        place = f"proc/{tid}" if task_of is None else f"proc/{task_of}/task/{tid}"
        self.write(f"{place}/status", "".join(f"{key}:\t{value}\n" for key, value in fields.items()))
        self.write(f"proc/{tid}/comm", f"{name}\n")
        if group is not None:
            self.write(f"proc/{tid}/cgroup", group)

    def v1(self, group: str, cpus: str, mems: str = "1", tasks: tuple[int, ...] = ()) -> None:
        self.write(f"sys/fs/cgroup/cpuset{group}/cpuset.cpus", f"{cpus}\n")
        self.write(f"sys/fs/cgroup/cpuset{group}/cpuset.mems", f"{mems}\n")
        self.write(f"sys/fs/cgroup/cpuset{group}/tasks", "".join(f"{tid}\n" for tid in tasks))

    def v1_memory(self, group: str, tasks: tuple[int, ...], stat: str = NUMA_STAT_V1) -> None:
        self.write(f"sys/fs/cgroup/memory{group}/memory.stat", "cache 0\n")
        self.write(f"sys/fs/cgroup/memory{group}/memory.numa_stat", stat)
        self.write(f"sys/fs/cgroup/memory{group}/tasks", "".join(f"{tid}\n" for tid in tasks))

    def v2(self, group: str, cpus: str, mems: str = "1", threads: tuple[int, ...] = ()) -> None:
        self.write(f"sys/fs/cgroup{group}/cpuset.cpus", "\n")
        self.write(f"sys/fs/cgroup{group}/cpuset.cpus.effective", f"{cpus}\n")
        self.write(f"sys/fs/cgroup{group}/cpuset.mems.effective", f"{mems}\n")
        self.write(f"sys/fs/cgroup{group}/cgroup.threads", "".join(f"{tid}\n" for tid in threads))

    def view(self, mounts: str) -> PinningView | None:
        return pinning_view(self.root, PID, ID, mounts)

    def counted(self, mounts: str) -> PinningView | None:
        return pinning_view(self.root, PID, ID, mounts, counted=True)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def v1(machine):
    """A container on CPUs 2-3 with a thread that chose CPU 3."""
    machine.thread(PID, "2-3", group=V1)
    machine.thread(4243, "2-3", tgid=PID)
    machine.thread(4244, "3", tgid=PID, name="worker")
    machine.v1(f"/docker/{ID}", "2-3", tasks=(PID, 4243, 4244))
    machine.v1("/docker", "0-3", "0-1")
    machine.v1("", "0-7", "0-1")
    machine.v1_memory(f"/docker/{ID}", (PID, 4243, 4244))
    return machine


@pytest.fixture
def v2(machine):
    machine.thread(PID, "2-3", group=f"0::{SCOPE}\n")
    machine.thread(4244, "3", tgid=PID, name="worker")
    machine.v2(SCOPE, "2-3", threads=(PID, 4244))
    machine.v2("/system.slice", "0-3", "0-1")
    machine.v2("", "0-7", "0-1")
    machine.write(f"sys/fs/cgroup{SCOPE}/memory.stat", "anon 0\n")
    machine.write(f"sys/fs/cgroup{SCOPE}/memory.numa_stat", NUMA_STAT_V2)
    return machine


def group(cpus, count, tid, name, mems="1"):
    return ThreadGroup(CpuSet(cpus), CpuSet(mems), count, tid, name)


def test_version_1(v1):
    seen = v1.view(V1_MOUNTS)
    assert (seen.cgroup_cpus, seen.cgroup_mems) == (CpuSet("2-3"), CpuSet("1"))
    assert seen.threads == (group("2-3", 2, PID, "sleep"), group("3", 1, 4244, "worker"))
    assert seen.parents == (
        ParentGroup("/sys/fs/cgroup/cpuset/docker", CpuSet("0-3"), CpuSet("0-1")),
        ParentGroup("/sys/fs/cgroup/cpuset", CpuSet("0-7"), CpuSet("0-1")),
    )
    assert {node: size // 4096 for node, size in seen.pages.items()} == {0: 1, 1: 3}


@pytest.mark.parametrize("missing", [["memory"], ["memory", "cgroup2"]])
def test_version_1_on_a_kernel_that_counts_no_memory(v1, missing):
    v1.write(f"proc/{PID}/numa_maps", NUMA_MAPS)
    seen = v1.view("".join(line for line in V1_MOUNTS.splitlines(True) if not any(each in line for each in missing)))
    assert seen.threads == (group("2-3", 2, PID, "sleep"), group("3", 1, 4244, "worker"))
    assert seen.pages == {0: 3 * 4096, 1: 2 * 4096 + (2 << 20)}


def test_version_2(v2):
    seen = v2.view(V2_MOUNTS)
    assert (seen.cgroup_cpus, seen.cgroup_mems) == (CpuSet("2-3"), CpuSet("1"))
    assert seen.threads == (group("2-3", 1, PID, "sleep"), group("3", 1, 4244, "worker"))
    assert [(each.path, str(each.cpus)) for each in seen.parents] == [
        ("/sys/fs/cgroup/system.slice", "0-3"),
        ("/sys/fs/cgroup", "0-7"),
    ]
    assert seen.pages == {0: 4096, 1: 12288}


CPU_STAT_V1 = "nr_periods 90\nnr_throttled 3\nthrottled_time 1500000000\n"
CPU_STAT_V2 = "usage_usec 9\nuser_usec 9\nsystem_usec 0\nnr_periods 90\nnr_throttled 3\nthrottled_usec 1500000\n"


def test_throttling_in_version_1(v1):
    mounts = V1_MOUNTS + "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    v1.thread(PID, "2-3", group=f"5:cpu,cpuacct:/docker/{ID}\n{V1}")
    v1.write(f"sys/fs/cgroup/cpu,cpuacct/docker/{ID}/cpu.stat", CPU_STAT_V1)
    assert v1.view(mounts).throttling == Throttling(3, 1.5)
    assert v1.view(V1_MOUNTS).throttling is None, "the controller is not mounted"


def test_throttling_in_version_2(v2):
    assert v2.view(V2_MOUNTS).throttling is None
    v2.write(f"sys/fs/cgroup{SCOPE}/cpu.stat", CPU_STAT_V2)
    assert v2.view(V2_MOUNTS).throttling == Throttling(3, 1.5)


def test_weight_in_version_1(v1):
    """Its shares, as the weight that they are by the linear curve."""
    mounts = V1_MOUNTS + "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    v1.thread(PID, "2-3", group=f"5:cpu,cpuacct:/docker/{ID}\n{V1}")
    assert v1.view(mounts).weight is None
    v1.write(f"sys/fs/cgroup/cpu,cpuacct/docker/{ID}/cpu.shares", "1536\n")
    assert v1.view(mounts).weight == 59
    assert v1.view(V1_MOUNTS).weight is None, "the controller is not mounted"


def test_weight_in_version_2(v2):
    assert v2.view(V2_MOUNTS).weight is None
    v2.write(f"sys/fs/cgroup{SCOPE}/cpu.weight", "100\n")
    assert v2.view(V2_MOUNTS).weight == 100


def test_throttling_of_a_process_of_another_group(v1):
    mounts = V1_MOUNTS + "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    v1.thread(PID, "2-3", group=f"5:cpu:/\n{V1}")
    v1.write("sys/fs/cgroup/cpu/cpu.stat", CPU_STAT_V1)
    assert v1.view(mounts).throttling is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(CPU_STAT_V1, Throttling(3, 1.5), id="version-1"),
        pytest.param(CPU_STAT_V2, Throttling(3, 1.5), id="version-2"),
        pytest.param("usage_usec 9\nuser_usec 9\nsystem_usec 0\n", None, id="version-2-without-the-controller"),
        pytest.param("", None, id="empty"),
    ],
)
def test_throttling(content, expected):
    assert throttling(content) == expected


def test_a_parent_that_lacks_a_cpu_is_shown_with_what_it_has(v1):
    v1.v1("/docker", "0-2", "0-1")
    assert str(v1.view(V1_MOUNTS).parents[0].cpus) == "0-2"


def test_groups_inside_of_the_container_belong_to_it(v2):
    v2.thread(PID, "2-3", group=f"0::{SCOPE}/init\n")
    v2.v2(f"{SCOPE}/init", "2", threads=(PID,))
    v2.v2(SCOPE, "2-3")
    seen = v2.view(V2_MOUNTS)
    assert str(seen.cgroup_cpus) == "2-3"
    assert [each.tid for each in seen.threads] == [PID]
    assert [each.path for each in seen.parents] == ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"]


def test_thread_outside_its_cpu_group_is_found_by_memory_group(v1):
    v1.thread(PID, "0-7", mems="0-1", group=V1.replace(f"3:cpuset:/docker/{ID}", "3:cpuset:/"))
    v1.v1(f"/docker/{ID}", "2-3", tasks=(4243, 4244))
    seen = v1.view(V1_MOUNTS)
    assert str(seen.cgroup_cpus) == "2-3"
    assert group("0-7", 1, PID, "sleep", "0-1") in seen.threads


def test_threads_that_end_meanwhile_are_left_out(v1):
    v1.v1_memory(f"/docker/{ID}", (PID, 4243, 4244, 9999))
    v1.thread(4243, "0-7", state="Z", tgid=PID)
    assert v1.view(V1_MOUNTS).threads == (group("2-3", 1, PID, "sleep"), group("3", 1, 4244, "worker"))


def test_a_name_that_is_not_utf_8_is_spelt(v1):
    """A program names its threads itself, and the audit is stored."""
    v1.v1_memory(f"/docker/{ID}", (PID,))
    (v1.root / f"proc/{PID}/comm").write_bytes(b"\xffa\n")
    assert v1.view(V1_MOUNTS).threads == (group("2-3", 1, PID, "\\xffa"),)


@pytest.mark.parametrize("change", ["pid of another", "zombie"])
def test_a_process_that_is_not_there_any_more(v1, change):
    v1.thread(PID, "2-3", state="Z" if change == "zombie" else "S", group="4:memory:/\n3:cpuset:/\n")
    assert v1.view(V1_MOUNTS) is None
    assert pinning_view(v1.root, 0, ID, V1_MOUNTS) is None


def test_no_file_for_it_is_an_end(machine):
    with pytest.raises(FileNotFoundError):
        machine.view(V1_MOUNTS)


def test_pages_come_from_processes_without_group_counters(v1):
    (v1.root / f"sys/fs/cgroup/memory/docker/{ID}/memory.numa_stat").unlink()
    v1.write(f"proc/{PID}/numa_maps", NUMA_MAPS)
    v1.write("proc/4243/numa_maps", NUMA_MAPS)  # a thread shows the pages of its process once more
    assert v1.view(V1_MOUNTS).pages == {0: 3 * 4096, 1: 2 * 4096 + (2 << 20)}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (NUMA_STAT_V1, {0: 4096, 1: 3 * 4096}),
        (NUMA_STAT_V2, {0: 4096, 1: 12288}),
        ("", {}),
    ],
)
def test_numa_stat(content, expected):
    assert numa_stat(content.encode(), 4096) == expected


def test_numa_maps():
    assert numa_maps(NUMA_MAPS.encode()) == {0: 3 * 4096, 1: 2 * 4096 + (2 << 20)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "7f1c40000000 bind:0,33 anon=7 dirty=7 active=0 N0=4 N33=3 kernelpagesize_kB=4",
            {0: 4 * 4, 33: 3 * 4},
            id="anonymous-on-sparse-nodes",
        ),
        pytest.param(
            "7f1c3c9d2000 default file=/usr/lib/x86_64-linux-gnu/libc.so.6 mapped=312 mapmax=94 active=290 N0=60 "
            "N1=252 kernelpagesize_kB=4",
            {0: 60 * 4, 1: 252 * 4},
            id="a-file-that-others-map-too",
        ),
        pytest.param(
            "7f1bc0000000 prefer:2 file=/dev/shm/ring dirty=65536 N2=65000 N10=536 kernelpagesize_kB=4",
            {2: 65000 * 4, 10: 536 * 4},
            id="shared-memory",
        ),
        pytest.param(
            "7f1b80000000 bind:1 file=/dev/hugepages/rtemap_0 huge dirty=12 mapmax=2 N0=2 N1=10 kernelpagesize_kB=2048",
            {0: 2 * 2048, 1: 10 * 2048},
            id="huge-pages-of-a-file",
        ),
        pytest.param(
            "7f0000000000 bind:3 file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N3=2 kernelpagesize_kB=1048576",
            {3: 2 << 20},
            id="gigantic-pages",
        ),
        pytest.param(
            "7f1c00000000 interleave:0-3 anon=2048 dirty=2048 swapcache=1 N0=512 N1=512 N2=512 N3=512 "
            "kernelpagesize_kB=4",
            dict.fromkeys(range(4), 512 * 4),
            id="transparent-huge-pages-count-as-small-ones",
        ),
        pytest.param("7ffd1a2f3000 default stack anon=5 dirty=5 N1=5 kernelpagesize_kB=4", {1: 20}, id="stack"),
        pytest.param("55d0c0a3e000 default heap", {}, id="nothing-touched-yet"),
        pytest.param(  # the kernel writes spaces and equal signs of names in octal
            "55d0 default file=/data/x\\040N5\\0757 mapped=1 N0=1 kernelpagesize_kB=4", {0: 4}, id="an-odd-name"
        ),
    ],
)
def test_a_line_of_numa_maps(line, expected):
    assert numa_maps(f"{line}\n".encode()) == {node: kib << 10 for node, kib in expected.items()}
    twice = numa_maps(f"{line}\n{line}\n".encode())
    assert twice == {node: kib << 11 for node, kib in expected.items()}


def test_members_of_a_group_that_may_hold_none(machine):
    machine.write("sys/fs/cgroup/x/y/cgroup.threads", "7\n8\n")
    assert sorted(members(machine.root / "sys/fs/cgroup/x")) == [7, 8]
    assert list(members(machine.root / "sys/fs/cgroup/gone")) == []


def test_only_the_mounts_of_control_groups_are_kept(machine):
    machine.write("proc/self/mountinfo", "1 0 0:1 / / rw - overlay o rw\n" * 3 + V1_MOUNTS)
    assert [line.split()[4] for line in cgroup_mounts(machine.root).splitlines()] == [
        "/sys/fs/cgroup/cpuset",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/unified",
    ]


@pytest.fixture
def busy(machine):
    """Processes of every kind."""
    machine.thread(2, "0-7", parent=0, name="kthreadd", group="0::/\n")
    machine.thread(30, "3", parent=2, name="ksoftirqd/3", group="0::/\n")
    machine.thread(100, "0-7", name="sshd", group="0::/system.slice/ssh.service\n")
    machine.thread(101, "3", name="dd", group="0::/user.slice\n")
    machine.thread(102, "3", name="dd", group="0::/user.slice\n")
    machine.thread(103, "0-1", name="cron", group="0::/system.slice/cron.service\n")
    machine.thread(104, "3", name="in", group=f"0::{SCOPE}\n")
    machine.thread(105, "2-3", name="podman", group=f"0::/machine.slice/libpod-{'e' * 64}.scope\n")
    machine.thread(106, "3", name="old", state="Z", group="0::/user.slice\n")
    machine.write("proc/uptime", "1\n")
    return machine


PLACED = [
    Intruder("process", f"/machine.slice/libpod-{'e' * 64}.scope", "podman (105)", CpuSet("2-3")),
    Intruder("process", "/user.slice", "dd (101)", CpuSet("3"), 2),
]
UNPLACED = [
    Intruder("process", "/init.scope", "sleep (1)", CpuSet("0-7")),
    Intruder("process", "/system.slice/ssh.service", "sshd (100)", CpuSet("0-7")),
]


@pytest.mark.parametrize(("unplaced", "expected"), [(False, PLACED), (True, PLACED + UNPLACED)])
def test_other_processes(busy, unplaced, expected):
    seen = other_processes(busy.root, CpuSet("3"), [ID], unplaced=unplaced)
    assert sorted(seen, key=str) == sorted(expected, key=str)


def test_no_process_is_on_a_cpu_nobody_chose(busy):
    assert other_processes(busy.root, CpuSet("6"), [ID], unplaced=False) == []


def test_threads_of_open_vswitch_have_cpus_of_their_own(busy):
    """Those that poll interfaces (PMD). Threads in containers are read with their container."""
    busy.thread(200, "0-7", name="ovs-vswitchd", group="0::/system.slice/ovs.service\n")
    busy.thread(210, "0-7", name="ovs-vswitchd", group=f"0::{SCOPE}\n")
    for pid, tid, cpus in ((200, 200, "0-7"), (200, 201, "3"), (200, 202, "3"), (200, 203, "5"), (210, 211, "3")):
        busy.thread(tid, cpus, name="ovs-vswitchd" if tid == pid else f"pmd-{tid}", task_of=pid)
    expected = Intruder("process", "/system.slice/ovs.service", "pmd-201 (201)", CpuSet("3"), 2)
    seen = other_processes(busy.root, CpuSet("3"), [ID], unplaced=False)
    assert sorted(seen, key=str) == sorted([*PLACED, expected], key=str)
    whole = Intruder("process", "/system.slice/ovs.service", "ovs-vswitchd (200)", CpuSet("0-7"))
    assert whole in other_processes(busy.root, CpuSet("3"), [ID], unplaced=True)


def test_version_1_names_the_unit_of_a_process(machine):
    machine.thread(101, "3", name="dd", group="9:name=systemd:/system.slice/a.service\n3:cpuset:/\n0::/\n")
    (seen,) = other_processes(machine.root, CpuSet("3"), [], unplaced=False)
    assert seen.id == "/system.slice/a.service"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            "total=9 N0=4 N1=5\nfile=3 N0=3 N1=0\nanon=6 N0=1 N1=5\nhierarchical_total=9 N0=4 N1=5\n"
            "hierarchical_file=3 N0=3 N1=0\nhierarchical_anon=5 N0=1 N1=4\nhierarchical_unevictable=1 N0=0 N1=1\n",
            {0: 4096, 1: 5 * 4096},
            id="version-1-with-locked-pages",
        ),
        pytest.param(NUMA_STAT_V2, {0: 4096, 1: 8192}, id="version-2"),
    ],
)
def test_anonymous_pages_of_a_group(content, expected):
    assert numa_stat(content.encode(), 4096, anonymous=True) == expected


def test_anonymous_pages_of_processes():
    lines = (
        "7f1 default file=/bin/python3 mapped=3 N0=3 kernelpagesize_kB=4\n"
        "7f2 default anon=2 dirty=2 N1=2 kernelpagesize_kB=4\n"
        "7f3 default file=/lib/libc.so anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n"
    )
    assert numa_maps(lines.encode(), anonymous=True) == {0: 4096, 1: 8192}


def test_activity_in_version_2(v2):
    for tid, forced, moved in ((PID, 3, 1), (4244, 4, 0)):
        status = v2.root / f"proc/{tid}/status"
        status.write_text(f"{status.read_text()}nonvoluntary_ctxt_switches:\t{forced}\n")
        v2.write(f"proc/{tid}/sched", f"app ({tid}, #threads: 2)\nse.nr_migrations      :          {moved}\n")
    assert v2.counted(V2_MOUNTS).activity == Activity({PID: 3, 4244: 4}, {PID: 1, 4244: 0})
    pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n"
    v2.write(f"sys/fs/cgroup{SCOPE}/cpu.pressure", pressure)
    assert v2.counted(V2_MOUNTS).activity == Activity({PID: 3, 4244: 4}, {PID: 1, 4244: 0}, 1.5, 2e-6)
    assert v2.view(V2_MOUNTS).activity is None, "nobody asked"


def test_activity_of_a_kernel_that_tells_little(v1):
    """Version 1 has no pressure, the kernel no file sched, and one thread ends while it is looked at."""
    status = v1.root / f"proc/{PID}/status"
    status.write_text(f"{status.read_text()}nonvoluntary_ctxt_switches:\t3\n")
    assert v1.counted(V1_MOUNTS).activity == Activity({PID: 3}, None)
