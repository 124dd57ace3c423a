# SPDX-License-Identifier: Apache-2.0
"""A sample of the crash table on real Docker: kills, and answers that are lost, around each change of the runtime."""

import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import docker
import pytest

from zun.common.states import Status
from zun.compute.host.machine import discovered
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.fake.runtime import RuntimeObject
from zun.db import containers as db
from zun.tests.functional.cloud import configuration
from zun.tests.functional.crashes.effects import Fault, Part
from zun.tests.functional.crashes.table import Action, delete, post
from zun.tests.functional.crashes.world import CrashWorld
from zun.tests.integration.host import group_of
from zun.topology import discover

pytestmark = [
    pytest.mark.docker,
    pytest.mark.in_turn,
    pytest.mark.skipif(len(discover().cpus) < 2, reason="needs a CPU of its own for a container"),
]

BODY = {"image": "zun-demo", "command": ["sleep", "1000"], "cpu": 1, "cpu_policy": "dedicated", "memory": 32}


def run(world: CrashWorld) -> None:
    world.subject_of(world.request("POST", "containers?run=True", BODY))


RUN = Action("run", None, run)
ACTIONS = [
    RUN,
    Action("stop", "run", post("stop?timeout=0")),
    Action("reboot", "run", post("reboot?timeout=0")),
    Action("pause", "run", post("pause")),
    Action("delete-force", "run", delete("?force=true")),
]


class DockerWorld(CrashWorld):
    """The runtime is the Docker daemon at ``url``. Its containers bear a host's name that nobody else has."""

    def __init__(self, url: str) -> None:
        self.engine, self.name = docker.APIClient(url, version="auto"), f"test-{uuid.uuid4().hex[:8]}"
        options = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "quota__cpu": -1}
        driver = DockerDriver(Settings(url, self.name, network_mode="none"))
        driver.host_facts, driver.runtime = SimpleNamespace(name=self.name), self  # as the invariants read them
        super().__init__(configuration(**options), driver)
        self._nets.own_default = False  # networks are in memory, and Docker knows none of them
        for each in self.nets:
            assert self.api.delete(f"/v1/networks/{each}").status < 300
        self.machine = discovered()
        self.start_agent()

    def seen(self) -> object:
        return self.by_host if self.engine else None

    @property
    def by_host(self) -> dict[str, dict[str, RuntimeObject]]:
        """The objects of Docker as the driver in memory has its own."""
        return {self.name: {uuid: self._object(uuid, state) for uuid, state in self._runtime.list().items()}}

    def _object(self, uuid: str, state) -> RuntimeObject:
        made = RuntimeObject(
            state.container_id, uuid, self.name, (), False, {}, state.cpuset_cpus, state.cpuset_mems, state.cpu,
            state.memory, image="zun-demo", pid=state.pid, paused=state.status == Status.PAUSED,
        )  # fmt: skip
        made.started_at = None if state.never_started else state.started_at or True
        return made

    def clear(self) -> None:
        for each in self.engine.containers(all=True, filters={"label": f"zun.host={self.name}"}):
            self.engine.remove_container(each["Id"], force=True)


@pytest.fixture
def world(docker_url: str, database: str) -> Iterator[DockerWorld]:
    made = DockerWorld(docker_url)
    try:
        yield made
    finally:
        made.close()
        made.clear()
        made.engine.close()


def begin(world: DockerWorld, action: Action) -> None:
    """Remove the container of the cell before, and make what the action needs."""
    world.effects.end()
    if world.subject and (left := world.outcome(world.subject)) is not None:
        if left["status"] == Status.PAUSED:
            post("unpause")(world)
            world.drain()
        delete("?force=true")(world)
        world.drain()
    world.subject = ""
    if action.before is not None:
        RUN.do(world)
        world.drain()
        assert (row := db.get(world.subject))["status"] == "Running", row["status_reason"]


@pytest.mark.parametrize("action", [pytest.param(each, id=each.name) for each in ACTIONS])
def test_docker_and_rows_agree_after_each_fault(world: DockerWorld, action: Action) -> None:
    begin(world, action)
    world.effects.begin()
    action.do(world)
    world.work()
    effects = world.effects.happened
    changes = [at for at, each in enumerate(effects) if each.part is Part.RUNTIME and each.writes]
    assert changes
    for at in [*changes, changes[-1] + 1]:
        for fault in (Fault.KILLED, Fault.UNANSWERED):
            begin(world, action)
            world.effects.begin(at, fault)
            action.do(world)
            world.work()
            world.heal()
            assert not [*world.disagreements()], (at, str(effects[at]) if at < len(effects) else "", fault)
            for found in world.by_host[world.name].values():
                if found.pid:
                    assert (group_of(found.pid) / "cpuset.cpus").read_text().strip() == found.cpuset_cpus
