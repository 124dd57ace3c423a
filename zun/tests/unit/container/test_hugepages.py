# SPDX-License-Identifier: Apache-2.0
"""Limits of huge pages in trees of both versions of control groups, with the drivers cgroupfs and systemd."""

import errno
import logging
import os
import pathlib
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest

from zun.common import exceptions
from zun.container.docker import hugepages
from zun.container.docker.client import Engine, Settings
from zun.container.docker.hugepages import DockerHugePages, label, mounted_size
from zun.container.driver.hugepages import HugePageView, PageStock
from zun.container.driver.state import RuntimeState
from zun.tests.unit.container.samples import Sample

ID = "5bdd0e182a3835ae9ea6139ebb5482260441a5ee225639a6978757c5dc73abe7"
PID = 4242
MIB = 1 << 20
UNLIMITED_V1 = "9223372036854771712"
V1_MOUNTS = """\
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
36 31 0:33 / /sys/fs/cgroup/hugetlb rw,relatime - cgroup cgroup rw,hugetlb
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2_MOUNTS = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
NOTHING = "1 0 0:1 / / rw - overlay overlay rw\n"
MOUNTED = "900 899 0:90 / /dev/hugepages rw,relatime - hugetlbfs none rw,mode=1777,pagesize=2M,size=8388608\n"


@dataclass
class Host:
    """A tree of a host with one container, and the driver that reads it."""

    root: pathlib.Path
    unified: bool
    group: str
    sizes: tuple[int, ...] = (2048, 1048576)
    reserved: bool = True
    driver: DockerHugePages = field(init=False)

    def __post_init__(self):
        self.driver = DockerHugePages(Engine(Settings(root=str(self.root))))
        self.write("proc/self/mountinfo", V2_MOUNTS if self.unified else V1_MOUNTS)
        groups = f"0::{self.group}\n" if self.unified else f"5:hugetlb:{self.group}\n3:cpuset:{self.group}\n0::/\n"
        self.write(f"proc/{PID}/cgroup", groups)
        self.write(f"proc/{PID}/mountinfo", NOTHING + MOUNTED)
        self.folder.mkdir(parents=True)
        for kib in self.sizes:
            for file in self.files(kib):
                file.write_text("max\n" if self.unified else f"{UNLIMITED_V1}\n")

    @property
    def folder(self):
        return self.root / "sys/fs/cgroup" / ("" if self.unified else "hugetlb") / self.group.lstrip("/")

    def files(self, kib):
        name = "max" if self.unified else "limit_in_bytes"
        kinds = ("", "rsvd.") if self.reserved else ("",)
        return [self.folder / f"hugetlb.{label(kib)}.{kind}{name}" for kind in kinds]

    def limits(self):
        """Return the limits in the files by page size; every file of a size must have one value."""
        return {kib: {file.read_text().strip() for file in self.files(kib)} for kib in self.sizes}

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def limit(self, pages, pid=PID):
        self.driver.limit_pages(Sample(uuid="c-1"), state(pid), pages)

    def view(self, pid=PID):
        return self.driver.huge_pages(Sample(uuid="c-1"), state(pid))


def state(pid):
    return RuntimeState(ID, None, None, None, None, None, pid, "", "")


LAYOUTS = {
    "v1, cgroupfs": (False, f"/docker/{ID}"),
    "v1, systemd": (False, f"/system.slice/docker-{ID}.scope"),
    "v2, cgroupfs": (True, f"/docker/{ID}"),
    "v2, systemd": (True, f"/system.slice/docker-{ID}.scope"),
}


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS.keys())
def host(request, tmp_path):
    return Host(tmp_path, *request.param)


@pytest.fixture
def v2(tmp_path):
    return Host(tmp_path, *LAYOUTS["v2, systemd"])


@pytest.mark.parametrize(("kib", "expected"), [(64, "64KB"), (2048, "2MB"), (1048576, "1GB"), (16777216, "16GB")])
def test_label_is_the_name_that_the_kernel_uses(kib, expected):
    assert label(kib) == expected


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({2048: 4}, {2048: {str(8 * MIB)}, 1048576: {"0"}}),
        ({1048576: 2}, {2048: {"0"}, 1048576: {str(2 << 30)}}),
        ({}, {2048: {"0"}, 1048576: {"0"}}),
    ],
)
def test_every_size_is_limited(host, pages, expected):
    host.limit(pages)
    assert host.limits() == expected


def test_a_group_below_is_not_the_containers(host):
    """Its process may have made a group of its own; the container's limit is above."""
    text = (host.root / f"proc/{PID}/cgroup").read_text()
    host.write(f"proc/{PID}/cgroup", text.replace(host.group, f"{host.group}/init"))
    host.limit({})
    assert host.limits() == {2048: {"0"}, 1048576: {"0"}}


def test_kernels_without_reservations(tmp_path):
    host = Host(tmp_path, *LAYOUTS["v1, cgroupfs"], reserved=False)
    host.limit({2048: 1})
    assert host.limits() == {2048: {str(2 * MIB)}, 1048576: {"0"}}


def test_view(host):
    # Version 1 has a second line, which includes the groups below.
    both = f"total=0 N0=0 N1=0\nhierarchical_total={6 * MIB} N0={4 * MIB} N1={2 * MIB}\n"
    text = f"total={6 * MIB} N0={4 * MIB} N1={2 * MIB}\n" if host.unified else both
    (host.folder / "hugetlb.2MB.numa_stat").write_text(text)
    (host.folder / "hugetlb.1GB.numa_stat").write_text("total=0 N0=0 N1=0\n")
    used = {0: {2048: 2, 1048576: 0}, 1: {2048: 1, 1048576: 0}}
    assert host.view() == HugePageView({2048: None, 1048576: None}, used, 2048)
    host.limit({2048: 4})
    assert host.view() == HugePageView({2048: 8 * MIB, 1048576: 0}, used, 2048)


def test_the_smaller_limit_counts(v2):
    v2.limit({2048: 4})
    v2.files(2048)[1].write_text("0\n")
    assert v2.view().limits == {2048: 0, 1048576: 0}


def test_kernels_that_do_not_count_by_node(host):
    assert host.view().used is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NOTHING, None),
        (MOUNTED, 2048),
        (MOUNTED.replace("pagesize=2M", "pagesize=1024M"), 1048576),
        (MOUNTED.replace("pagesize=2M", "pagesize=1G"), 1048576),
        (MOUNTED.replace("/dev/hugepages", "/mnt"), None),
        (MOUNTED + "901 900 0:91 / /dev/hugepages rw - tmpfs tmpfs rw\n", None),
    ],
)
def test_mounted_size(text, expected):
    assert mounted_size(text) == expected


@pytest.mark.parametrize("pid", [0, 4243])
def test_no_process_is_no_error(host, pid):
    host.limit({2048: 4}, pid)
    assert host.view(pid) is None
    assert host.limits()[2048] in ({"max"}, {UNLIMITED_V1})


def test_another_process_of_the_same_number(host):
    other = (host.root / f"proc/{PID}/cgroup").read_text().replace(ID, "f" * 64)
    host.write(f"proc/{PID}/cgroup", other)
    host.limit({})
    assert host.view() is None
    assert host.limits()[2048] in ({"max"}, {UNLIMITED_V1})


def stock(host, node, free, total=16):
    folder = f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
    host.write(f"{folder}/nr_hugepages", f"{total}\n")
    host.write(f"{folder}/free_hugepages", f"{free}\n")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_controller_is_told_once(tmp_path, caplog, layout):
    host = Host(tmp_path, *LAYOUTS[layout], sizes=())
    host.limit({})
    assert caplog.records == []  # without huge pages nobody misses it
    stock(host, 0, free=16)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            host.limit({2048: 4})
    (record,) = caplog.records
    assert "counted and not limited" in record.getMessage()
    assert host.view() == HugePageView(None, None, 2048)


def test_version_1_without_the_hierarchy(tmp_path):
    host = Host(tmp_path, *LAYOUTS["v1, cgroupfs"], sizes=())
    host.write("proc/self/mountinfo", V1_MOUNTS.replace("hugetlb", "pids"))
    host.write(f"sys/fs/cgroup/cpuset{host.group}/cpuset.cpus", "0\n")
    host.limit({})
    assert host.view().limits is None


class Busy(type(pathlib.Path())):
    """A path of a limit that the kernel does not lower below what is in use."""

    def write_text(self, data, *args, **kwargs):
        if self.name == "hugetlb.2MB.max" and data == "0\n":
            raise OSError(16, "Device or resource busy")
        return super().write_text(data, *args, **kwargs)


def test_pages_in_use_keep_both_limits(v2):
    v2.limit({2048: 4})
    group = hugepages.page_group(Busy(v2.root), PID, ID, V2_MOUNTS)
    with pytest.raises(OSError, match="busy"):
        hugepages.set_limits(group, {})
    assert v2.limits()[2048] == {str(8 * MIB)}


@pytest.mark.parametrize(
    ("code", "error"), [(errno.EBUSY, exceptions.Conflict), (errno.EIO, exceptions.DockerError), (errno.EACCES, None)]
)
def test_errors_of_the_kernel(v2, monkeypatch, caplog, code, error):
    def refuse(group, pages):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(hugepages, "set_limits", refuse)
    stock(v2, 0, free=16)
    with nullcontext() if error is None else pytest.raises(error):
        v2.limit({2048: 4})
    assert ("may not write" in caplog.text) is (error is None)


def test_an_unknown_size_is_an_error(v2):
    with pytest.raises(exceptions.DockerError, match="64 KiB"):
        v2.limit({64: 4})


def test_page_stock(v2):
    assert v2.driver.page_stock() == {}
    stock(v2, 0, free=3)
    stock(v2, 1, free=16)
    stock(v2, 2, free=0, total=0)
    assert v2.driver.page_stock() == {0: {2048: PageStock(16, 3)}, 1: {2048: PageStock(16, 16)}}


def test_page_stock_without_nodes(v2):
    v2.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n")
    v2.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "8\n")
    assert v2.driver.page_stock() == {0: {2048: PageStock(8, 8)}}
