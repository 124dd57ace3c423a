# SPDX-License-Identifier: Apache-2.0
"""Guarantees P5 and P6 on real Docker: dedicated CPUs stay dedicated while everything around them changes.

CI takes a tenth of the steps. The full proof is ZUN_PROOF_SIZE=10: 200 steps and 100 resizes of each kind.
"""

import os
import random

import pytest

from zun.tests.integration.looks import allowed, inside
from zun.tests.integration.programs import Api
from zun.tests.integration.sampler import Sampler
from zun.topology import CpuSet, discover

SIZE = int(os.environ.get("ZUN_PROOF_SIZE", "1"))
pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(300 * SIZE)]
SHARED = {"cpu": 0.2, "memory": 16}
DEDICATED = {"cpu": 1, "memory": 16, "cpu_policy": "dedicated", "labels": {"kind": "dedicated"}}


@pytest.fixture
def api(on_docker):
    service = on_docker(docker={"execute_timeout": 60})
    service.start()
    api = Api(service.url)
    api.host = service.host
    yield api
    api.delete_all()


@pytest.mark.skipif(len(discover().cpus) < 2, reason="needs a CPU to share and one to dedicate")
def test_nobody_else_is_ever_allowed_on_a_dedicated_cpu(api, engine):
    drawn = random.Random(5)
    sampler = Sampler(engine, api.host)
    sampler.start()
    alive = []
    try:
        for _ in range(20 * SIZE):
            if len(alive) > 3 or (alive and drawn.random() < 0.4):
                gone = alive.pop(drawn.randrange(len(alive)))
                api.request("DELETE", f"/containers/{gone}?force=true")
                continue
            shown = api.settled(api.run(**drawn.choice([SHARED, DEDICATED])))
            if shown["status"] == "Running":
                alive.append(shown["uuid"])
            else:
                assert "No valid host" in shown["status_reason"]
                api.request("DELETE", f"/containers/{shown['uuid']}")
    finally:
        sampler.stop()
    assert sampler.violations == []
    assert sampler.samples > 50 * SIZE, "the dedicated containers were hardly looked at"


@pytest.mark.skipif(len(discover().cpus) < 2, reason="needs two CPUs to resize between")
def test_resized_container_runs_on_its_new_claim(api, engine):
    drawn = random.Random(6)
    others = [api.settled(api.run(**SHARED)) for _ in range(2)]
    made = api.settled(api.run(**DEDICATED))
    pid, _ = allowed(engine, made)
    everything = discover().cpus
    for _ in range(10 * SIZE):
        policy = drawn.choice(["dedicated", "shared"])
        wish = {"cpu_policy": policy, "cpu": drawn.choice([1, 2]), "memory": drawn.choice([16, 32, 48])}
        answer = api.request("PATCH", f"/containers/{made['uuid']}", json=wish)
        shown = api.get(f"/containers/{made['uuid']}")
        if answer.status_code == 200:
            assert (shown["cpu_policy"], shown["cpu"], shown["memory"]) == (
                policy,
                float(wish["cpu"]),
                str(wish["memory"]),
            )
        else:  # two dedicated CPUs would leave the shared containers none on a small machine
            assert answer.status_code == 409 and policy == "dedicated", answer.text
        now, cpus = allowed(engine, made)
        assert now == pid
        if shown["cpu_policy"] == "dedicated":
            assert str(cpus) == shown["cpuset_cpus"] and len(cpus) == shown["cpu"]
            pool = everything - cpus
        else:
            pool = everything
            assert cpus == pool
        assert [allowed(engine, other)[1] for other in others] == [pool, pool]
        limit = engine.inspect_container(f"zun-{made['uuid']}")["HostConfig"]["Memory"]
        assert limit == int(shown["memory"]) << 20


LIVE = "cat /sys/fs/cgroup/cpuset/cpuset.cpus 2>/dev/null || cat /sys/fs/cgroup/cpuset.cpus.effective"


@pytest.mark.skipif(len(discover().cpus) < 2, reason="needs two CPUs to resize between")
def test_the_cpus_that_are_named_stay(api, engine):
    """And the container can read which it has: at its start in its environment, later in its control group."""
    drawn = random.Random(7)
    most = min(4, len(discover().cpus))
    shown = api.settled(api.run(**{**DEDICATED, "cpu": most}))
    assert shown["status"] == "Running", shown["status_reason"]
    pid, cpus = allowed(engine, shown)
    assert inside(api, shown, "echo $ZUN_CPUSET_CPUS $ZUN_CPUSET_MEMS") == f"{cpus} {shown['cpuset_mems']}"
    for _ in range(10 * SIZE):
        count = drawn.randint(1, most)
        keep = CpuSet(drawn.sample(list(cpus), drawn.randint(1, min(count, len(cpus)))))
        wish = {"cpu": count, "memory": drawn.choice([16, 32]), "keep_cpus": str(keep)}
        answer = api.request("PATCH", f"/containers/{shown['uuid']}", json=wish)
        assert answer.status_code == 200, answer.text
        now, cpus = allowed(engine, shown)
        assert now == pid and keep <= cpus and len(cpus) == count
        shown = api.get(f"/containers/{shown['uuid']}")
        assert str(cpus) == shown["cpuset_cpus"]
    assert inside(api, shown, LIVE) == str(cpus)
