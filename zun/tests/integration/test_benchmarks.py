# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that need services still run. They are tried with tiny sizes, and no time is looked at."""

import pytest

from zun.tests.benchmark import run


@pytest.mark.distributed
def test_scheduler_service(tmp_path, rabbit_url, mysql_url):
    services = {"ZUN_TEST_RABBIT_URL": rabbit_url, "ZUN_TEST_MYSQL_URL": mysql_url}
    options = ("--part", "service", "--hosts", "20", "--count", "40")
    (row,) = run("scheduler", tmp_path / "json", *options, environment=services)["service"]
    assert row["hosts"] == 20
    for loop in ("closed", "open"):
        assert row[loop]["claimed"] == row[loop]["sent"] == 40
    assert {"client", "scheduler", "agents"} <= row["closed"]["cpu_ms"].keys()


@pytest.mark.docker
def test_run_overhead(tmp_path, docker_url):
    found = run("run_overhead", tmp_path / "json", "--pairs", "1", "--batch", "1", "--docker-url", docker_url)
    assert found["one_at_a_time"]["service_ms"]["median"] > 0
    assert found["four_at_a_time"]["service_per_second"] > 0
