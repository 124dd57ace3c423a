# SPDX-License-Identifier: Apache-2.0
"""Requests while parts of a cloud are killed: claims, rows, Docker and the kernel agree afterwards.

A seed says what is asked and what is killed when. Docker and MariaDB are the test's own; what a request is answered
while one of them is away does not matter.
"""

import concurrent.futures
import random
import types
import uuid

import docker
import pytest
import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import own_daemon
from zun.tests.integration.host import group_of
from zun.tests.integration.own_database import own_database
from zun.tests.integration.programs import SETTLED, Api, free_port
from zun.tests.integration.sampler import read
from zun.topology import CpuSet, discover

__all__ = ["own_daemon", "own_database"]
pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.distributed]

VICTIMS = ("agent", "database", "docker", "agent", "database")
ASKED_AT_ONCE = 8
HASTE = 5  # seconds that somebody waits whose host was killed
ENDS_AT_ONCE = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]  # when Docker is back it ends what is there
SHARED = {"cpu": 0.5, "command": ENDS_AT_ONCE}
DEDICATED = {"cpu_policy": "dedicated", "cpu": 1, "command": ENDS_AT_ONCE}
CHANGES = ({"cpu": 1}, {"cpu": 2}, {"cpu_policy": "shared"}, {"cpu_policy": "dedicated", "cpu": 1})


@pytest.fixture
def cloud(program, own_daemon, own_database, rabbit_url):
    """``api``, the ``victims`` by name and the ``host`` of the one agent, all running."""
    name, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    common = {
        "DEFAULT": {"host": name, "transport_url": rabbit_url, "control_exchange": name},
        "database": {"connection": own_database.url},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
    }
    code, said = program("db_manage", words=("upgrade",), **common).run_to_end()
    assert code == 0, said
    compute = {"reserved_host_memory_mb": 128, "sync_container_state_interval": 2, "audit_host_processes": "none"}
    agent = program("compute", docker={"api_url": own_daemon.url}, compute=compute, **common)
    # What an agent was given and had not begun when it was killed is given out again after the deadline.
    again = {"sweep_interval": 1, "lost_after": 3, "booking_deadline": 5}
    scheduler = program("scheduler", scheduler=again, **common)
    server = program("api", api={"port": port, "auth_strategy": "noauth"}, **common)
    programs = (agent, scheduler, server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: each.start(), programs))
    victims = {"agent": agent, "database": own_database, "docker": own_daemon}
    url = f"http://127.0.0.1:{port}/v1"
    hasty = Api(url)
    hasty.patience = HASTE
    yield types.SimpleNamespace(api=Api(url), hasty=hasty, victims=victims, host=name)
    for each in programs:  # before what they would wait for is gone
        each.kill()


def something(api, rows, dice):
    """One request, as what to call."""
    one = dice.choice(rows)["uuid"] if rows else ""
    what = dice.choices(("create", "delete", "resize", "start"), (5, 3 + len(rows), 3, 2))[0] if rows else "create"
    if what == "create":
        fields = dice.choice((DEDICATED, DEDICATED, SHARED))
        return lambda: api.run(**fields)
    if what == "resize":
        change = dice.choice(CHANGES)
        return lambda: api.request("PATCH", f"/containers/{one}", json=change)
    way, path = {"delete": ("DELETE", "?force=true"), "start": ("POST", "/start")}[what]
    return lambda: api.request(way, f"/containers/{one}{path}")


def disagreement(cloud, engine):
    """Why claims, rows, Docker and the kernel do not agree yet; None when they do. No CPU may ever have two owners."""
    rows = {each["uuid"]: each for each in cloud.api.get("/containers")["containers"]}
    claims = {each["container"]: each for each in cloud.api.held()[cloud.host]}
    own = {uuid_: CpuSet(each["cpuset_cpus"]) for uuid_, each in claims.items() if each["cpu_policy"] == "dedicated"}
    everybody = sorted(cpu for cpus in own.values() for cpu in cpus)
    assert len(everybody) == len({*everybody}), f"a CPU is claimed twice: {own}"
    there = {each["Labels"]["zun.uuid"]: each for each in engine.containers(all=True, filters={"label": "zun.uuid"})}
    unsettled = {each for each, row in rows.items() if row["task_state"] or row["status"] not in SETTLED}
    if unsettled or not there.keys() <= claims.keys() <= rows.keys():
        return f"{unsettled=}, Docker has {there.keys()}, claims {claims.keys()}, rows {rows.keys()}"
    for uuid_, each in there.items():
        state = engine.inspect_container(each["Id"])["State"]
        if state["Running"] != (rows[uuid_]["status"] == "Running"):
            return f"{uuid_} is {rows[uuid_]['status']}, Docker says {state}"
        if state["Running"]:
            allowed = read(group_of(state["Pid"]))
            if allowed != own.get(uuid_, allowed) or any(allowed & own[other] for other in own if other != uuid_):
                return f"{uuid_} may run on {allowed}; for themselves have {own}"
    audit = cloud.api.request("POST", f"/hosts/{cloud.host}/audit")
    audit.raise_for_status()
    found = audit.json()["findings"]
    return f"the audit tells {found}" if found else None


def agree(cloud, engine):
    found = []

    def look():
        try:
            found.append(disagreement(cloud, engine))
        except requests.exceptions.RequestException as exc:  # 500 and 503 of connections that ended with the database
            found.append(f"the API did not answer: {exc}")
        return found[-1] is None

    try:
        wait_for(look, 120)
    except AssertionError as exc:
        raise AssertionError(found[-1:]) from exc


@pytest.mark.skipif(len(discover().cpus) < 2, reason="needs two CPUs, one for dedicated and one for shared containers")
def test_nothing_is_lost_or_owned_twice_whatever_is_killed(cloud, own_daemon):
    dice = random.Random(20261123)
    engine = docker.APIClient(own_daemon.url, version="auto")
    for victim in VICTIMS:
        rows = cloud.api.get("/containers")["containers"]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(something(cloud.hasty, rows, dice)) for _ in range(ASKED_AT_ONCE)]
            concurrent.futures.wait([asked[dice.randrange(ASKED_AT_ONCE)]])
            cloud.victims[victim].kill()
            cloud.victims[victim].start()
        agree(cloud, engine)
    cloud.api.delete_all()
    agree(cloud, engine)
    assert engine.containers(all=True) == [] and cloud.api.held() == {cloud.host: []}
    whole = cloud.api.settled(cloud.api.run(**DEDICATED | {"cpu": len(discover().cpus)}))
    assert whole["status"] == "Running", whole["status_reason"]
    engine.close()
