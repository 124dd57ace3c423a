# SPDX-License-Identifier: Apache-2.0
"""CPU weights: the curves of runtimes, and a container's weight beside a runtime that is simulated on a small tree."""

import logging
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.container.docker.client import Engine, Settings
from zun.container.docker.weighing import DockerWeights
from zun.container.weights import (
    CURVES,
    Curve,
    curve_of,
    linear,
    may_be,
    plain_shares,
    quadratic,
    shares_for,
    weight_of,
)
from zun.tests.unit.container.samples import Sample

ID = "5bdd0e182a3835ae9ea6139ebb5482260441a5ee225639a6978757c5dc73abe7"
PID = 4242
GROUP = f"/system.slice/docker-{ID}.scope"
V1_MOUNTS = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V2_MOUNTS = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(("shares", "older", "newer"), [
    # measured with crun 1.8.1 and 1.28
    (102, 4, 17), (1024, 39, 100), (4096, 157, 303),
    # the ends of both ranges, and what is beyond
    (2, 1, 1), (262_144, 10_000, 10_000), (0, 1, 1), (263_168, 10_000, 10_000),
])  # fmt: skip
def test_curves(shares: int, older: int, newer: int) -> None:
    assert (linear(shares), quadratic(shares)) == (older, newer)


@pytest.mark.parametrize(("cpu", "plain", "weight", "newer"), [
    (0.001, 2, 1, 2), (0.1, 102, 4, 10), (1.0, 1024, 39, 295), (1.5, 1536, 59, 511), (8.0, 8192, 313, 4260),
    (256.0, 262_144, 10_000, 262_115), (257.0, 262_144, 10_000, 262_115), (300.0, 262_144, 10_000, 262_115),
    (1e300, 262_144, 10_000, 262_115),
])  # fmt: skip
def test_shares_of_a_container(cpu: float, plain: int, weight: int, newer: int) -> None:
    assert (plain_shares(cpu), weight_of(cpu)) == (plain, weight)
    assert (shares_for(cpu, linear), shares_for(cpu, quadratic)) == (plain, newer)


@given(st.floats(0.01, 256))
def test_weights_are_in_proportion_by_every_curve(cpu: float) -> None:
    for curve in CURVES:
        shares = shares_for(cpu, curve)
        assert 2 <= shares <= 262_144
        assert abs(curve(shares) - cpu * 10_000 / 256) <= 1
        assert may_be(shares, cpu)


@pytest.mark.parametrize(("shares", "weight", "curve"), [
    (1024, 39, linear), (1024, 100, quadratic), (1024, 77, None), (2, 1, None), (262_144, 10_000, None),
])  # fmt: skip
def test_curve_of_a_weight(shares: int, weight: int, curve: Curve | None) -> None:
    assert curve_of(shares, weight) is curve


class Runtime(Engine):
    """An engine whose runtime writes the weight of its one container by a curve, as at a start and at an update."""

    def __init__(self, root: pathlib.Path, curve: Curve, shares: int) -> None:
        super().__init__(Settings(root=str(root)))
        self.root, self.curve, self.shares, self.updates = root, curve, shares, 0
        self.file(f"proc/{PID}/cgroup", f"0::{GROUP}\n")
        self.file("proc/self/mountinfo", V2_MOUNTS)
        self.write()

    @property
    def api(self) -> Any:
        return self

    @property
    def weight(self) -> int:
        return int((self.root / f"sys/fs/cgroup{GROUP}/cpu.weight").read_text())

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def write(self) -> None:
        self.file(f"sys/fs/cgroup{GROUP}/cpu.weight", f"{self.curve(self.shares)}\n")

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"Id": ID, "State": {"Pid": PID}, "HostConfig": {"CpuShares": self.shares}}

    def update_container(self, _: str, *, cpu_shares: int) -> None:
        self.shares, self.updates = cpu_shares, self.updates + 1
        self.write()


SHARED = Sample(cpu=1.0, cpu_policy="shared")


@pytest.mark.parametrize(("asked", "curve", "shares", "updates"), [
    pytest.param(1024, linear, 1024, 0, id="as-asked"),
    pytest.param(1024, quadratic, 295, 1, id="a-newer-runtime"),
    pytest.param(295, quadratic, 295, 0, id="a-newer-runtime-that-is-known"),
    pytest.param(295, linear, 1024, 1, id="an-older-runtime-again"),
])  # fmt: skip
def test_a_runtime_s_curve_is_read_back(tmp_path, asked: int, curve: Curve, shares: int, updates: int) -> None:
    runtime = Runtime(tmp_path, curve, asked)
    weights = DockerWeights(runtime)
    weights.weigh(SHARED, 1.0)
    assert (runtime.shares, runtime.weight, runtime.updates) == (shares, 39, updates)
    assert weights.curve(SHARED) is (curve if updates else linear)
    assert weights.curve(Sample(runtime="other")) is linear


def test_a_container_of_eight_cpus_weighs_eight_times_one(tmp_path) -> None:
    runtime = Runtime(tmp_path, quadratic, 1024)
    weights = DockerWeights(runtime)
    weights.weigh(SHARED, 1.0)
    one = runtime.weight
    runtime.update_container("", cpu_shares=shares_for(8.0, weights.curve(SHARED)))
    weights.weigh(SHARED, 8.0)
    assert (one, runtime.weight) == (39, 313)


def test_a_weight_that_was_written_over_is_given_back(tmp_path, caplog) -> None:
    """Its curve is none that is known: nothing is learned, and the operator reads of it."""
    runtime = Runtime(tmp_path, lambda _: 77, 1024)
    weights = DockerWeights(runtime)
    with caplog.at_level(logging.WARNING):
        weights.weigh(SHARED, 1.0)
    assert (runtime.updates, weights.curve(SHARED)) == (0, linear)
    assert "makes weight 77 of 1024 CPU shares, by no curve that is known" in caplog.text


@pytest.mark.parametrize(("container", "cpu"), [
    (SHARED, None), (Sample(cpu=4.0, cpu_policy="dedicated"), 4.0),
])  # fmt: skip
def test_a_container_without_a_weight_is_left_alone(tmp_path, container: Sample, cpu: float | None) -> None:
    runtime = Runtime(tmp_path, quadratic, 1024)
    DockerWeights(runtime).weigh(container, cpu)
    assert runtime.updates == 0


def test_shares_of_version_1_are_weights(tmp_path) -> None:
    runtime = Runtime(tmp_path, quadratic, 1024)
    runtime.file(f"proc/{PID}/cgroup", f"1:cpu,cpuacct:/docker/{ID}\n")
    runtime.file("proc/self/mountinfo", V1_MOUNTS + V2_MOUNTS.replace("/cgroup rw", "/cgroup/unified rw"))
    runtime.file(f"sys/fs/cgroup/cpu/docker/{ID}/cpu.shares", "1024\n")
    DockerWeights(runtime).weigh(SHARED, 1.0)
    assert runtime.updates == 0
