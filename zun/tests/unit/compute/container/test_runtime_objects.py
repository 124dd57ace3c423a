# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.compute.container.runtime_objects import disagreements
from zun.container.driver.inspector import KernelView
from zun.topology import CpuSet

CPUS, MEMS = CpuSet("2-3"), CpuSet("1")


def view(cpus="2-3", mems="1", cgroup_cpus="2-3", cgroup_mems="1"):
    return KernelView(CpuSet(cpus), CpuSet(mems), CpuSet(cgroup_cpus), CpuSet(cgroup_mems))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view(), [], id="as-planned"),
        pytest.param(view(cpus="2", mems="1"), [], id="a-process-may-narrow-itself"),
        pytest.param(view(cpus="", mems=""), [], id="down-to-nothing"),
        pytest.param(
            view(cgroup_cpus="0-7"), ["its cgroup allows CPUs 0-7, the plan is 2-3"], id="wider"
        ),
        pytest.param(view(cgroup_cpus="2"), ["its cgroup allows CPUs 2, the plan is 2-3"], id="narrower"),
        pytest.param(
            view(cgroup_cpus=""), ["its cgroup allows CPUs none, the plan is 2-3"], id="no-cpus"
        ),
        pytest.param(
            view(cgroup_mems="0-1"), ["its cgroup allows memory nodes 0-1, the plan is 1"], id="more-memory"
        ),
        pytest.param(
            view(cgroup_mems=""), ["its cgroup allows memory nodes none, the plan is 1"], id="no-memory"
        ),
        pytest.param(
            view(cpus="3-4"), ["its first process may run on CPUs 3-4, the plan is 2-3"], id="process-elsewhere"
        ),
        pytest.param(
            view(mems="0"), ["its first process may use memory nodes 0, the plan is 1"], id="process-on-other-memory"
        ),
        pytest.param(
            view("0-7", "0-1", "0-7", "0-1"),
            [
                "its cgroup allows CPUs 0-7, the plan is 2-3",
                "its cgroup allows memory nodes 0-1, the plan is 1",
                "its first process may run on CPUs 0-7, the plan is 2-3",
                "its first process may use memory nodes 0-1, the plan is 1",
            ],
            id="not-confined-at-all",
        ),
    ],
)
def test_every_disagreement_is_told(seen, expected):
    assert disagreements(CPUS, MEMS, seen) == expected
