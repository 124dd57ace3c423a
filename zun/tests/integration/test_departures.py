# SPDX-License-Identifier: Apache-2.0
"""Containers move between two hosts with a Docker of its own each, and come back."""

import contextlib

import docker
import pytest

from zun.common.departures import DEPARTED, uuid_of_left
from zun.compute.host.machine import discovered
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import services
from zun.network.fake import InMemoryNetworks
from zun.objects.placement import held_plan
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud
from zun.tests.integration.container.own_daemon import running
from zun.topology import CpuSet

PERIODS = {"compute__audit_interval": 0, "compute__heartbeat_interval": 1}
MAKE = "mkdir -m 700 /new; chown 7:8 /new; date +%s > /new/a; ln /new/a /new/b; cp /new/a /mark"
WRITES = ["sh", "-c", f"test -e /mark || {{ {MAKE}; }}; exec sleep 1000"]
MUCH = ["sh", "-c", "dd if=/dev/zero of=/much bs=1M count=5; exec sleep 1000"]
ONE = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 16, "request": {"run": True}, "command": WRITES}


class Site:
    """Two hosts, ``one`` and ``two``, on the machine of the test."""

    def __init__(self, daemons):
        self.cloud = Cloud({}, **PERIODS)
        self.engines = {}
        for name, daemon in daemons.items():
            self.engines[name] = docker.APIClient(daemon.url, version="auto")
            self.cloud.drivers[name] = DockerDriver(Settings(daemon.url, name, network_mode="none"))
            self.cloud.networks[name] = InMemoryNetworks(own_default=False)
            self.cloud.machines[name] = discovered()
            self.cloud.start_agent(name)

    def close(self, host, closed):
        services.update(host, "zun-compute", {"disabled": closed})
        with self.cloud.scheduler.table._comparing:
            self.cloud.scheduler.table._compare(None)

    def run_on_one(self, context, **more):
        self.close("two", True)
        container = self.cloud.run(context, **{**ONE, **more})
        assert (container.host, container.status) == ("one", "Running"), container.status_reason
        self.close("two", False)
        return container

    def move(self, context, container, **how):
        """Move the container, and return its row when it is nowhere on its way."""
        self.cloud.compute_api.want(context, container, "leave", run=True, host=None, **how)
        return wait_for(lambda: self._settled(container.uuid), 60)

    def _settled(self, uuid):
        rows = {row["uuid"]: row for row in db.of_uuids([uuid, uuid_of_left(uuid, "one")])}
        row = rows.pop(uuid)
        moving = rows or DEPARTED in row["request"] or row["task_state"] or db_actions.wanted(uuid)
        return None if moving or row["status"] == "Error" else row

    def inspected(self, host, container):
        try:
            return self.engines[host].inspect_container(f"zun-{container.uuid}")
        except docker.errors.NotFound:
            return None

    def stop(self):
        self.cloud.stop()
        for each in self.engines.values():
            each.close()


@pytest.fixture
def site(docker_url, database, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        daemons = {name: stack.enter_context(running(tmp_path_factory.mktemp("d"))) for name in ("one", "two")}
        made = Site(daemons)
        stack.callback(made.stop)
        yield made


def shown(site, host, container):
    """Return what the container has written, as a program in it sees that."""
    engine = site.engines[host]
    look = engine.exec_create(f"zun-{container.uuid}", ["sh", "-c", "stat -c '%n %a %u %g %h' /new /new/a; cat /mark"])
    return engine.exec_start(look["Id"]).decode()


def test_moves_between_two_dockers(site, context):
    container = site.run_on_one(context)
    before = site.inspected("one", container)
    told = wait_for(lambda: shown(site, "one", container))
    assert told.startswith("/new 700 7 8 2\n/new/a 644 0 0 2\n")

    # No host has room: it comes back, as the same object with what it has written.
    site.close("two", True)
    row = site.move(context, container, discard_layer=True)
    assert (row["host"], row["status"]) == ("one", "Running")
    _, (*_, step) = db_actions.find(container.uuid, db_actions.of_container(container.uuid)[0]["request_id"])
    assert "No valid host" in step["traceback"]
    back = site.inspected("one", container)
    assert back["Id"] == before["Id"] and back["State"]["Pid"] not in (0, before["State"]["Pid"])
    assert shown(site, "one", container) == told

    # It is made on the other host, on the CPUs of its claim there, with what it has written, and gone from the first.
    site.close("two", False)
    row = site.move(context, container, discard_layer=False)
    assert (row["host"], row["status"]) == ("two", "Running")
    there = site.inspected("two", container)
    assert site.inspected("one", container) is None
    assert CpuSet(there["HostConfig"]["CpusetCpus"]) == held_plan(row).cpus
    assert there["State"]["Pid"] and shown(site, "two", container) == told
    assert [*site.cloud.agents["two"].tracker.usage.owners] == [container.uuid]
    wait_for(lambda: not site.cloud.agents["one"].tracker.usage.owners)


def test_what_has_written_much_stays(site, context):
    container = site.run_on_one(context, command=MUCH)
    before = site.inspected("one", container)
    wait_for(lambda: site.engines["one"].diff(f"zun-{container.uuid}"))
    row = site.move(context, container, discard_layer=False)
    _, (step,) = db_actions.find(container.uuid, db_actions.of_container(container.uuid)[0]["request_id"])
    assert row["host"] == "one" and "more than 4 MiB" in step["traceback"]
    assert site.inspected("one", container)["State"]["Pid"] == before["State"]["Pid"]
