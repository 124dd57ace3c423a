# SPDX-License-Identifier: Apache-2.0
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.compute.quiet import rules
from zun.compute.quiet.partitions import Partition, Partitions
from zun.compute.quiet.rules import Claimed
from zun.container.driver.partition import slice_of
from zun.objects.wishes import Wishes
from zun.tests.unit.compute.quiet.kernels import write
from zun.topology import CpuSet

ONE, TWO = "6a0c4a52-0000-0000-0000-000000000001", "6a0c4a52-0000-0000-0000-000000000002"
TOP = "sys/fs/cgroup"


class Systemd:
    """Slices as folders. Like systemd it makes no cpuset files before a slice is started."""

    def __init__(self, root):
        self.root, self.said = root, []

    def __call__(self, verb, *words):
        self.said.append((verb, *words))
        if verb == "set-property":
            _, name, value = words
            cpus = value.removeprefix("AllowedCPUs=")
            for file in ("cpuset.cpus", "cpuset.cpus.effective"):
                write(self.root, f"{TOP}/{name}/{file}", cpus)
            if not (self.root / TOP / name / "cpuset.cpus.partition").exists():
                write(self.root, f"{TOP}/{name}/cpuset.cpus.partition", "member")
                write(self.root, f"{TOP}/{name}/cgroup.events", "populated 0\nfrozen 0")
        elif verb == "stop":
            shutil.rmtree(self.root / TOP / words[0])


@pytest.fixture
def host(tmp_path):
    write(tmp_path, f"{TOP}/cgroup.controllers", "cpuset cpu io")
    write(tmp_path, f"{TOP}/system.slice/cpuset.cpus.partition", "member")
    return tmp_path


def partitions(root):
    return Partitions(root, Systemd(root))


def there(root):
    """Return name -> (kind, CPUs) of the slices of this service."""
    return {
        each.name: tuple((each / f"cpuset.cpus{file}").read_text().strip() for file in (".partition", ""))
        for each in (root / TOP).glob("zunpart_*")
    }


def test_partition_is_made_resized_and_ended(host):
    made = partitions(host)
    assert made.settle({ONE: Partition(CpuSet("4-5"), "isolated"), TWO: Partition(CpuSet("2"), "root")}) == {}
    assert there(host) == {slice_of(ONE): ("isolated", "4-5"), slice_of(TWO): ("root", "2")}
    assert made.settle({ONE: Partition(CpuSet("4-6"), "root")}) == {}
    assert there(host) == {slice_of(ONE): ("root", "4-6")}
    assert made.settle({}) == {} and there(host) == {}


def test_settled_partition_asks_systemd_nothing_more(host):
    made = partitions(host)
    wanted = {ONE: Partition(CpuSet("4,5"), "isolated")}
    made.settle(wanted)
    made._control.said.clear()
    assert made.settle(wanted) == {} and made._control.said == []


def test_ended_partition_gives_its_cpus_back_while_processes_leave(host):
    made = partitions(host)
    made.settle({ONE: Partition(CpuSet("4"), "isolated")})
    events = host / TOP / slice_of(ONE) / "cgroup.events"
    events.write_text("populated 1\n")
    made.settle({})
    assert there(host) == {slice_of(ONE): ("member", "4")}
    events.write_text("populated 0\n")
    partitions(host).settle({})  # by the next run of the agent
    assert there(host) == {}


def test_partition_that_the_kernel_calls_invalid_is_told_and_undone(host):
    class Invalid(Partitions):
        def _read(self, name, file):
            text = super()._read(name, file)
            return f"{text} invalid (Cpu list in cpuset.cpus not exclusive)" if text == "isolated" else text

    made = Invalid(host, Systemd(host))
    failed = made.settle({ONE: Partition(CpuSet("4"), "isolated")})
    assert failed == {ONE: "its partition of CPUs 4 is 'isolated invalid (Cpu list in cpuset.cpus not exclusive)' on "
                           "CPUs 4"}  # fmt: skip
    assert there(host) == {slice_of(ONE): ("member", "4")}


def test_systemd_that_refuses_is_told(host):
    def refuse(*words):
        raise OSError("systemctl set-property: Access denied")

    failed = Partitions(host, refuse).settle({ONE: Partition(CpuSet("4"), "root")})
    assert failed == {ONE: "systemctl set-property: Access denied"}


@pytest.mark.parametrize(
    ("controllers", "driver", "why"),
    [
        ("cpuset cpu", "systemd", None),
        ("cpu", "systemd", "no control groups of version 2"),
        ("cpuset", "cgroupfs", "by cgroupfs, not by systemd"),
        ("cpuset", "", "by an unknown driver"),
    ],
)
def test_machine_that_can_give_partitions(host, controllers, driver, why):
    write(host, f"{TOP}/cgroup.controllers", controllers)
    said = partitions(host).problem(driver)
    assert said is None if why is None else why in said


def test_machine_without_the_files_cannot_give_partitions(host):
    shutil.rmtree(host / TOP / "system.slice")
    assert "no slice has a file cpuset.cpus.partition" in partitions(host).problem("systemd")


def test_resize_keeps_one_partition_of_old_and_new_cpus():
    wishes = Wishes(cpu_partition="root")
    claims = [Claimed(CpuSet("4-5"), wishes, (), ONE, CpuSet("6")), Claimed(CpuSet("7"), wishes, (), ONE),
              Claimed(CpuSet("2"), Wishes(cpu_partition="none"), (), TWO)]  # fmt: skip
    assert rules.partitions(claims) == {ONE: Partition(CpuSet("4-7"), "root")}


KINDS, SETS = st.sampled_from(["root", "isolated"]), st.sampled_from(["1", "2-3"])


@given(st.lists(st.dictionaries(st.sampled_from([ONE, TWO]), st.tuples(SETS, KINDS)), max_size=6))
def test_slices_are_those_of_the_claims_after_each_step(tmp_path_factory, steps):
    root = tmp_path_factory.mktemp("groups")
    for step in [*steps, {}]:
        partitions(root).settle({uuid: Partition(CpuSet(cpus), kind) for uuid, (cpus, kind) in step.items()})
        assert there(root) == {slice_of(uuid): (kind, cpus) for uuid, (cpus, kind) in step.items()}
