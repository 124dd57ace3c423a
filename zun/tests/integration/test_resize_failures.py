# SPDX-License-Identifier: Apache-2.0
"""Guarantee P6 on real Docker: whichever step of a resize fails, the ledger and the kernel agree afterwards."""

import itertools
import threading

import pytest

from zun.common import exceptions
from zun.db import containers as db
from zun.objects import Container
from zun.tests.integration.host import Host
from zun.topology import CpuSet, discover

pytestmark = [
    pytest.mark.docker,
    pytest.mark.in_turn,
    pytest.mark.skipif(len(discover().cpus) < 2, reason="needs two CPUs to resize between"),
]

SHARED = {"cpu": 0.5, "memory": 32}
STEPS = ("update", "show", "kernel_view")


class Failing:
    """A driver whose ``place``-th step fails, or fails after it was done. Only steps of this thread count."""

    def __init__(self, driver):
        self._driver = driver
        self.place = self.seen = 0
        self.afterwards = False
        self._thread = threading.get_ident()

    def fail(self, place, afterwards):
        self.place, self.seen, self.afterwards = place, 0, afterwards

    def __getattr__(self, name):
        work = getattr(self._driver, name)
        if name not in STEPS:
            return work

        def step(*words, **settings):
            if threading.get_ident() != self._thread:
                return work(*words, **settings)
            self.seen += 1
            failing = self.seen == self.place
            if failing and not self.afterwards:
                raise exceptions.DockerError(error="injected")
            answer = work(*words, **settings)
            if failing:
                raise exceptions.DockerError(error="injected, after it was done")
            return answer

        return step


@pytest.fixture
def host(docker_url, database):
    made = Host(docker_url, Failing)
    yield made
    made.clean()


def check(host, containers):
    """Row, memory, Docker's configuration and the control group say one thing of each container."""
    agent, everything = host.cloud.agents[host.name], discover().cpus
    rows = {each.uuid: db.get(each.uuid) for each in containers}
    assert set(agent.tracker.usage.owners) == rows.keys(), "something is held for nobody"
    own = {
        uuid: CpuSet(row["cpuset"]["cpuset_cpus"]) if row["cpu_policy"] == "dedicated" else CpuSet()
        for uuid, row in rows.items()
    }
    pool = everything
    for cpus in own.values():
        pool -= cpus
    for each in containers:
        row, held = rows[each.uuid], agent.tracker.usage.claim(each.uuid)
        assert (row["cpu_policy"], row["cpuset"]["cpu_policy"]) == (held.cpu_policy, held.cpu_policy)
        right = own[each.uuid] or pool
        assert str(held.cpus if own[each.uuid] else right) == str(right)
        assert host.cpus_file(each).read_text().strip() == host.config(each) == str(right)
        config = host.engine.inspect_container(f"zun-{each.uuid}")["HostConfig"]
        assert config["Memory"] == row["memory"] << 20 == held.memory_mib << 20
    # The runtime's event of a start is looked at when it comes, and that may write the same once more.
    return {uuid: {name: value for name, value in row.items() if name != "updated_at"} for uuid, row in rows.items()}


@pytest.mark.parametrize(
    ("first", "wish", "beside", "steps"),
    [
        pytest.param({"cpu_policy": "dedicated", "cpu": 1.0}, {"cpu": 2.0, "memory": 48}, [], 3, id="grow"),
        pytest.param({"cpu_policy": "dedicated", "cpu": 2.0}, {"cpu": 1.0}, [], 3, id="shrink"),
        pytest.param({"cpu": 1.0}, {"cpu_policy": "dedicated", "memory": 48}, [SHARED], 6, id="to-dedicated"),
        pytest.param({"cpu_policy": "dedicated", "cpu": 1.0}, {"cpu_policy": "shared"}, [SHARED], 3, id="to-shared"),
    ],
)
@pytest.mark.parametrize("afterwards", [False, True], ids=["instead", "afterwards"])
def test_ledger_and_kernel_agree_whichever_step_fails(host, first, wish, beside, steps, afterwards):
    others = [host.run(**each) for each in beside]
    container = host.run(**{"memory": 32, **first})
    agent, pid = host.cloud.agents[host.name], host.pid(container)
    before = check(host, [container, *others])
    keep = CpuSet([max(CpuSet(container.cpuset["cpuset_cpus"]))]) if wish.keys() == {"cpu"} else CpuSet()
    for place in itertools.count(1):
        host.driver.fail(place, afterwards)
        try:
            agent.parts.resizer.update(host.context, container, **wish, keep_cpus=str(keep))
        except exceptions.DockerError:
            host.driver.fail(0, False)
            assert check(host, [container, *others]) == before, f"after a failure of step {place}"
            assert host.pid(container) == pid
            continue
        break
    host.driver.fail(0, False)
    assert place > steps, f"only {place - 1} steps could fail"
    # A failure after the commit keeps others on fewer CPUs than they might have, until the pool changes again.
    agent._pool.settle()
    after = check(host, [container, *others])
    assert after != before and host.pid(container) == pid
    assert keep <= CpuSet(after[container.uuid]["cpuset"]["cpuset_cpus"])


def test_a_commit_that_fails_takes_the_container_back(host, monkeypatch):
    container, other = host.run(cpu_policy="dedicated", cpu=1.0, memory=32), host.run(**SHARED)
    before, pid = check(host, [container, other]), host.pid(container)

    def broken(*_):
        raise exceptions.Unavailable("the database is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Container, "save_changed_claim", broken)
        with pytest.raises(exceptions.Unavailable):
            host.cloud.agents[host.name].parts.resizer.update(host.context, container, cpu_policy="shared", memory=48)
    assert check(host, [container, other]) == before
    assert host.pid(container) == pid
