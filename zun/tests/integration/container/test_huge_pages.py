# SPDX-License-Identifier: Apache-2.0
"""Huge pages on a real daemon and a real kernel: limits, the mount, and what a program gets of both."""

import pathlib
from collections.abc import Callable, Iterator

import docker
import pytest

from zun.common import exceptions
from zun.compute.container.runtime_objects import page_mounts
from zun.container.docker.audit import cgroup_mounts
from zun.container.docker.kernel import locate
from zun.tests.unit.container.contract import Rig
from zun.tests.unit.container.samples import Sample
from zun.topology import CellShare, CpuSet, Plan

pytestmark = [pytest.mark.docker, pytest.mark.alone]  # other agents see the machine's pages
MIB = 1 << 20
SIZE = 2048
RESERVED = pathlib.Path(f"/sys/kernel/mm/hugepages/hugepages-{SIZE}kB/nr_hugepages")
PLAN = Plan({0: CellShare(CpuSet("1"), 8, pages={SIZE: 4})})


@pytest.fixture
def stock() -> Iterator[None]:
    """Reserve eight huge pages more than there are during the test."""
    if not RESERVED.exists():
        pytest.skip(f"this kernel has no huge pages of {SIZE} KiB ({RESERVED} is missing)")
    before = int(RESERVED.read_text())
    try:
        RESERVED.write_text(f"{before + 8}\n")
    except OSError as exc:
        pytest.skip(f"huge pages cannot be reserved: {exc}")
    if int(RESERVED.read_text()) < before + 8:
        RESERVED.write_text(f"{before}\n")
        pytest.skip("the machine has no memory for eight huge pages in one piece")
    yield
    RESERVED.write_text(f"{before}\n")


@pytest.fixture
def controller(stock: None) -> None:
    try:
        mount, _ = locate("hugetlb", pathlib.Path("/proc/self/cgroup").read_text(), cgroup_mounts("/"))
    except ValueError as exc:
        pytest.skip(f"{exc}: mount -t cgroup -o hugetlb none /sys/fs/cgroup/hugetlb")
    # Beside hierarchies of version 1, Docker has no groups in the unified one.
    if mount.unified and "hugetlb" not in pathlib.Path(str(mount.mountpoint), "cgroup.subtree_control").read_text():
        pytest.skip("no group has the hugetlb controller: mount -t cgroup -o hugetlb none /sys/fs/cgroup/hugetlb")


@pytest.fixture
def started(rig: Rig) -> Callable[..., Sample]:
    def start(plan: Plan | None) -> Sample:
        container = rig.sample(memory=64)
        mounts = [] if plan is None else page_mounts(plan)
        rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0", mounts=mounts, memory=32)
        rig.driver.start(container)
        return container

    return start


def take(rig: Rig, container: Sample, mib: int, name: str = "file") -> bool:
    """Return whether a program of the container gets ``mib`` MiB of huge pages."""
    _, code = rig.driver.execute(container, ["fallocate", "-l", f"{mib}M", f"/dev/hugepages/{name}"], 10)
    return code == 0


def free() -> int:
    return int(RESERVED.with_name("free_hugepages").read_text())


def test_program_gets_its_pages_and_no_more(
    rig: Rig, engine: docker.APIClient, controller: None, started: Callable[..., Sample]
) -> None:
    before, container = free(), started(PLAN)
    rig.driver.limit_pages(container, rig.state(container), PLAN.pages)
    assert engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]["Memory"] == 32 * MIB
    view = rig.driver.huge_pages(container, rig.state(container))
    assert view is not None and view.limits is not None
    assert (view.limits[SIZE], view.mounted) == (8 * MIB, SIZE)
    assert {limit for size, limit in view.limits.items() if size != SIZE} <= {0}
    assert take(rig, container, 8)
    view = rig.driver.huge_pages(container, rig.state(container))
    assert view is not None and view.used in (None, {0: {size: 4 * (size == SIZE) for size in view.limits or ()}})
    assert not take(rig, container, 2, "more")
    assert free() == before - 4
    assert {node: sizes[SIZE].free for node, sizes in rig.driver.page_stock().items()} == {0: before - 4}
    with pytest.raises(exceptions.Conflict, match="more huge pages"):
        rig.driver.limit_pages(container, rig.state(container), {SIZE: 3})
    view = rig.driver.huge_pages(container, rig.state(container))
    assert view is not None and view.limits is not None and view.limits[SIZE] == 8 * MIB


def test_limit_is_lost_with_the_process(rig: Rig, controller: None, started: Callable[..., Sample]) -> None:
    """For this reason the agent sets the limits after each start."""
    container = started(PLAN)
    rig.driver.limit_pages(container, rig.state(container), {})
    assert not take(rig, container, 2)
    rig.driver.reboot(container, 0)
    view = rig.driver.huge_pages(container, rig.state(container))
    assert view is not None and view.limits is not None and view.limits[SIZE] is None


def test_limit_without_the_mount(rig: Rig, controller: None, started: Callable[..., Sample]) -> None:
    container = started(None)
    rig.driver.limit_pages(container, rig.state(container), {})
    view = rig.driver.huge_pages(container, rig.state(container))
    assert view is not None and view.limits is not None
    assert (set(view.limits.values()), view.mounted) == ({0}, None)


def test_mount_is_emptied_by_a_stop_and_removed(
    rig: Rig, engine: docker.APIClient, stock: None, started: Callable[..., Sample]
) -> None:
    before, container = free(), started(PLAN)
    (mount,) = engine.inspect_container(f"zun-{container.uuid}")["Mounts"]
    assert take(rig, container, 8)
    assert not take(rig, container, 2, "more")  # the size of the mount, whatever the controller says
    assert free() == before - 4
    rig.driver.stop(container, 0)
    assert free() == before
    rig.driver.start(container)
    assert rig.driver.execute(container, ["ls", "/dev/hugepages"], 10) == ("", 0)
    rig.driver.delete(container, force=True)
    assert mount.get("Name") not in {each["Name"] for each in engine.volumes()["Volumes"] or ()}
