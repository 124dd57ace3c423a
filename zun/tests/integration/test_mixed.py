# SPDX-License-Identifier: Apache-2.0
"""A mixed container on real Docker: the kernel allows its own CPUs and the pool, and nobody else its own CPUs."""

import pathlib

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.looks import allowed, inside
from zun.tests.integration.programs import Api
from zun.topology import CpuSet, discover

pytestmark = [pytest.mark.docker, pytest.mark.in_turn, pytest.mark.timeout(300)]
MIXED = {"cpu": 1.5, "memory": 32, "cpu_policy": "mixed", "dedicated_cpus": 1}


@pytest.fixture
def api(on_docker):
    service = on_docker(docker={"execute_timeout": 60})
    service.start()
    api = Api(service.url, version={"OpenStack-API-Version": "container 1.46"})
    yield api
    api.delete_all()


def environment(pid):
    return dict(each.split("=", 1) for each in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if each)


@pytest.mark.skipif(len(discover().cpus) < 2, reason="needs a CPU of its own and one of the pool")
def test_kernel_allows_a_mixed_container_its_cpus_and_the_pool(api, engine):
    everything = discover().cpus
    shared = api.settled(api.run(cpu=0.2, memory=16))
    mixed = api.settled(api.run(**MIXED))
    assert mixed["status"] == "Running", mixed["status_reason"]
    own = CpuSet(mixed["cpuset_dedicated"])
    assert (mixed["dedicated_cpus"], len(own)) == (1, 1)
    pid, cpus = allowed(engine, mixed)
    (cell,) = [each for each in discover().cells if own <= each.cpus]
    assert cpus == cell.cpus
    assert allowed(engine, shared)[1] == everything - own
    assert environment(pid)["ZUN_DEDICATED_CPUS"] == str(own)
    assert inside(api, mixed, "echo $ZUN_DEDICATED_CPUS") == str(own)
    limits = engine.inspect_container(f"zun-{mixed['uuid']}")["HostConfig"]
    assert (limits["CpuShares"], limits["CpuQuota"]) == (1536, 0)

    answer = api.request("PATCH", f"/containers/{mixed['uuid']}", json={"cpu": 1.75, "memory": 48})
    assert answer.status_code == 200, answer.text
    assert allowed(engine, mixed) == (pid, cell.cpus)
    assert engine.inspect_container(f"zun-{mixed['uuid']}")["HostConfig"]["CpuShares"] == 1792
    refused = api.request("PATCH", f"/containers/{mixed['uuid']}", json={"cpu": 1})
    assert refused.status_code == 400 and "cpu: a mixed container" in refused.text

    api.request("DELETE", f"/containers/{mixed['uuid']}?force=true")
    wait_for(lambda: allowed(engine, shared)[1] == everything)


@pytest.mark.skipif(len(discover().cpus) < 3, reason="needs a CPU of the pool that a dedicated container can take")
def test_pool_of_a_mixed_container_narrows_in_the_kernel(api, engine):
    mixed = api.settled(api.run(**MIXED))
    own = CpuSet(mixed["cpuset_dedicated"])
    other = api.settled(api.run(cpu=1, memory=16, cpu_policy="dedicated"))
    taken = CpuSet(other["cpuset_cpus"])
    pid, cpus = allowed(engine, mixed)
    assert own <= cpus and not cpus & taken
    api.request("DELETE", f"/containers/{other['uuid']}?force=true")
    wait_for(lambda: allowed(engine, mixed) == (pid, discover().cpus))
