# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from zun.common import exceptions
from zun.container.docker.resources import update_arguments

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
