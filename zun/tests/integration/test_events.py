# SPDX-License-Identifier: Apache-2.0
"""Changes by Docker and its users, as the API shows them. With ``-s`` the tests print how long each took.

Nothing is compared periodically here: what is seen, the event stream brought.
"""

import os
import shutil
import signal
import time

import pytest

from zun.compute.container.observed import GONE
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.driver.state import OUT_OF_MEMORY
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import own_daemon
from zun.tests.integration.container.proxy import proxied
from zun.tests.integration.host import Host
from zun.tests.integration.programs import Api

__all__ = ["own_daemon"]

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

NEVER = 10_000  # seconds
SECONDS = 60  # the promise is two, on a machine that has nothing else to do
END_WHEN_TOLD = "rm -f /go; while [ ! -e /go ]; do sleep 0.1; done; exit 1"
EAT_MEMORY = "while [ ! -e /go ]; do sleep 0.1; done; exec tail /dev/zero"


@pytest.fixture
def api(on_docker):
    made = on_docker(compute={"sync_container_state_interval": NEVER})
    made.start()
    api = Api(made.url)
    yield api
    api.delete_all()


def run(api, **fields):
    shown = api.settled(api.run(cpu=0.2, **fields))
    assert shown["status"] == "Running", shown["status_reason"]
    return shown["uuid"]


def seen(what, shown, **expected):
    """Wait until ``shown()`` has what is expected, and print how long that took from now on. Gives what is shown."""
    began = time.monotonic()
    found = wait_for(lambda: (now := shown()) and expected.items() <= now.items() and now, SECONDS)
    print(f"\n{what:<24}{time.monotonic() - began:6.2f} s", end="")
    return found


def test_what_is_done_behind_our_back_is_seen(api, engine):
    uuid_ = run(api)
    name = f"zun-{uuid_}"

    def shown():
        return api.get(f"/containers/{uuid_}")

    engine.kill(name)
    found = seen("docker kill", shown, status="Stopped")
    assert found["status_detail"] is None or found["status_detail"].startswith("Exited(137)")
    engine.start(name)
    seen("docker start", shown, status="Running")
    engine.pause(name)
    seen("docker pause", shown, status="Paused")
    engine.unpause(name)
    seen("docker unpause", shown, status="Running")
    engine.stop(name, timeout=0)
    seen("docker stop", shown, status="Stopped")
    engine.restart(name, timeout=0)
    seen("docker restart", shown, status="Running")
    engine.rename(name, f"elsewhere-{uuid_}")
    found = seen("docker rename", lambda: engine.inspect_container(object_id(engine, uuid_)), Name=f"/{name}")
    assert found["State"]["Running"] and shown()["status"] == "Running"
    engine.remove_container(name, force=True)
    seen("docker rm -f", shown, status="Error", status_reason=GONE)
    hungry = run(api, memory=16, command=["sh", "-c", EAT_MEMORY])
    engine.exec_start(engine.exec_create(f"zun-{hungry}", ["touch", "/go"])["Id"])
    expected = {"status": "Stopped", "status_reason": OUT_OF_MEMORY}
    seen("out of memory", lambda: api.get(f"/containers/{hungry}"), **expected)


def object_id(engine, uuid_):
    (entry,) = engine.containers(all=True, filters={"label": f"zun.uuid={uuid_}"})
    return entry["Id"]


def test_what_docker_and_we_do_by_ourselves(api, engine):
    """A restart by policy, an auto_remove, an auto_heal: the claim is kept or given back."""
    policy = {"Name": "always"}
    restarts = run(api, restart_policy=policy, command=["sh", "-c", END_WHEN_TOLD])
    before = engine.inspect_container(f"zun-{restarts}")["State"]["Pid"]
    engine.exec_start(engine.exec_create(f"zun-{restarts}", ["touch", "/go"])["Id"])
    wait_for(lambda: engine.inspect_container(f"zun-{restarts}")["State"]["Pid"] not in (0, before), SECONDS)
    seen("restart policy", lambda: api.get(f"/containers/{restarts}"), status="Running")

    healed = run(api, auto_heal=True)
    old = object_id(engine, healed)
    ((claim,),) = [[each for each in api.held().popitem()[1] if each["container"] == healed]]
    engine.remove_container(old, force=True)
    began = time.monotonic()
    wait_for(lambda: made_anew(engine, healed, old), SECONDS)
    print(f"\n{'auto_heal':<24}{time.monotonic() - began:6.2f} s", end="")
    shown = api.settled(healed)
    assert (shown["status"], shown["status_reason"]) == ("Running", None)
    assert claim in api.held().popitem()[1]

    leaves = run(api, auto_remove=True, command=["sleep", "1000"])
    engine.kill(f"zun-{leaves}")
    seen("auto_remove", lambda: api.get(f"/containers/{leaves}"), status="Deleted")
    wait_for(lambda: leaves not in [each["container"] for each in api.held().popitem()[1]], SECONDS)


def made_anew(engine, uuid_, old):
    found = engine.containers(filters={"label": f"zun.uuid={uuid_}"})
    return found and found[0]["Id"] != old


# A daemon that is gone for a while.


NO_COMPARISONS = {"compute__sync_container_state_interval": NEVER}


def row(container):
    return db.get(container.uuid)


def test_after_a_crash_of_docker_everything_is_compared(database, own_daemon):
    host = Host(own_daemon.url, **NO_COMPARISONS)
    try:
        plain = host.run(cpu=0.2)
        paused = host.run(cpu=0.2)
        always = host.run(cpu=0.2, restart_policy={"Name": "always", "MaximumRetryCount": "0"})
        lost = host.run(cpu=0.2)
        healed = host.run(cpu_policy="dedicated", cpu=1.0, auto_heal=True)
        host.driver.pause(paused)
        wait_for(lambda: row(paused)["status"] == "Paused", SECONDS)
        started = row(always)["started_at"]
        ids = [lost.container_id, healed.container_id]
        pids = {each: host.engine.inspect_container(each)["State"]["Pid"] for each in ids}
        own_daemon.kill()
        for container_id, pid in pids.items():
            os.kill(pid, signal.SIGKILL)  # a process that runs on would keep what the container holds
            shutil.rmtree(own_daemon.data / "containers" / container_id)
        own_daemon.start()
        seen("daemon restart: stopped", lambda: row(plain), status="Stopped")
        seen("daemon restart: paused", lambda: row(paused), status="Stopped")
        wait_for(lambda: row(always)["started_at"] != started, SECONDS)
        seen("daemon restart: always", lambda: row(always), status="Running")
        seen("daemon restart: lost", lambda: row(lost), status="Error", status_reason=GONE)
        wait_for(lambda: row(healed)["container_id"] != healed.container_id, SECONDS)
        after = seen("daemon restart: healed", lambda: row(healed), status="Running", task_state=None)
        assert after["cpuset"] == healed.cpuset
        assert host.config(healed) == healed.cpuset["cpuset_cpus"]
        host.engine.kill(f"zun-{healed.uuid}")  # and the new stream is followed
        seen("after it: docker kill", lambda: row(healed), status="Stopped")
    finally:
        host.clean()


def test_after_a_lost_connection_everything_is_compared(database, docker_url, tmp_path):
    with proxied(tmp_path / "docker.sock", docker_url) as proxy:
        host = Host(proxy.url, **NO_COMPARISONS)
        behind = DockerDriver(Settings(docker_url, host.name, network_mode="none"))
        try:
            killed, removed = host.run(cpu=0.2), host.run(cpu=0.2)
            proxy.cut()
            behind.kill(killed)
            behind.delete(removed, force=True)
            proxy.open()
            seen("connection: killed", lambda: row(killed), status="Stopped", exit_code=137)
            gone = seen("connection: removed", lambda: row(removed), status="Error")
            assert gone["status_reason"] == GONE
        finally:
            host.clean()
