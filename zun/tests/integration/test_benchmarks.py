# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that need services still run. They are tried with tiny sizes, and no time is looked at."""

import os

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


def test_placement(tmp_path, placement_url):
    sizes = ("--hosts", "2", "--claims", "8", "--rounds", "1", "--trees", "2", "--queries", "2")
    found = run("placement", tmp_path / "json", "--url", placement_url, *sizes)
    assert {mode: len(rounds) for mode, rounds in found["claims"].items()} == {"off": 1, "report": 1, "enforce": 1}
    assert found["claims"]["off"][0]["cpu_ms"] > 0 and found["allocations_per_second"][0] > 0
    assert found["candidates"]["p50_ms"] > 0


@pytest.mark.docker
def test_run_overhead(tmp_path, docker_url):
    found = run("run_overhead", tmp_path / "json", "--pairs", "1", "--batch", "1", "--docker-url", docker_url)
    assert found["one_at_a_time"]["service_ms"]["median"] > 0
    assert found["four_at_a_time"]["service_per_second"] > 0


@pytest.mark.docker
def test_run_overhead_of_the_driver(tmp_path, docker_url):
    found = run("run_overhead", tmp_path / "json", "--engine", "--pairs", "1", "--docker-url", docker_url)["engine"]
    for way in ("docker", "driver", "service"):
        assert found[f"{way}_ms"]["median"] > 0 and found[f"{way}_cpu_ms"]["median"] > 0
    assert found["requests"] == "POST /containers/create, POST /containers/start, GET /containers/json"


@pytest.mark.docker
def test_run_overhead_of_a_capsule(tmp_path, docker_url):
    found = run("run_overhead", tmp_path / "json", "--capsule", "--pairs", "1", "--docker-url", docker_url)
    assert found["capsule"]["capsule_ms"]["median"] > 0 and found["capsule"]["docker_ms"]["median"] > 0
    assert found["exec"]["member_ms"]["median"] > 0 and found["exec"]["container_ms"]["median"] > 0


@pytest.mark.docker
@pytest.mark.slow
def test_run_overhead_with_neutron(tmp_path, docker_url, neutron_url, neutron_ovsdb):
    names = ("ZUN_TEST_KEYSTONE_URL", "ZUN_TEST_NEUTRON_URL", "ZUN_TEST_NEUTRON_OVSDB")
    options = ("--neutron", "--pairs", "1", "--docker-url", docker_url)
    services = {name: os.environ[name] for name in names}
    (figures,) = run("run_overhead", tmp_path / "json", *options, environment=services).values()
    assert figures["with_ms"]["median"] > 0 and figures["active_ms"]["median"] > 0
