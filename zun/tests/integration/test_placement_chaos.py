# SPDX-License-Identifier: Apache-2.0
"""Random creates, resizes and deletes while agents, Placement and the database are killed.

At the end Placement has what the claims are, cell by cell, and nothing after the last delete. API, scheduler, MariaDB,
Placement and two agents, one in mode report and one in mode enforce, are processes. A seed sets the requests and the
kills, but chance decides whether a kill meets a request halfway. ``ZUN_PLACEMENT_SEED`` and ``ZUN_PLACEMENT_STEPS``
change what CI does.
"""

import concurrent.futures
import contextlib
import os
import random
import types
import uuid

import pytest
import requests
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from zun.common import exceptions
from zun.db import session
from zun.placement.client import PlacementClient
from zun.tests.fixtures import wait_for
from zun.tests.integration.beside_placement import ledger, rows
from zun.tests.integration.own_database import own_database
from zun.tests.integration.own_placement import OwnPlacement
from zun.tests.integration.programs import SETTLED, Api, free_port

__all__ = ["own_database"]

SEED = int(os.environ.get("ZUN_PLACEMENT_SEED", "20261124"))
STEPS = int(os.environ.get("ZUN_PLACEMENT_STEPS", "40"))
pytestmark = [pytest.mark.slow, pytest.mark.distributed, pytest.mark.timeout(120 + 10 * STEPS)]

AT_ONCE = 5  # steps between two kills
HASTE = 5  # seconds for which somebody waits for an answer
AGAIN = 120  # seconds for the last repair: Placement is swept once a minute
ASKED = (
    {"cpu_policy": "dedicated", "cpu": 1},
    {"cpu_policy": "dedicated", "cpu": 3, "disk": 1},
    {"cpu_policy": "dedicated", "cpu": 4, "numa_nodes": 2},
    {"cpu_policy": "dedicated", "cpu": 2, "cpu_thread_policy": "isolate"},
    {"cpu": 0.5},
    {"cpu": 1.5, "disk": 2},
)
CHANGES = ({"cpu": 1}, {"cpu": 2}, {"memory": 96}, {"cpu": 3, "memory": 48}, {"cpu_policy": "shared", "cpu": 0.7})


@pytest.fixture
def cloud(program, own_database, rabbit_url, placement_url, tmp_path, request):
    """``api``, ``hasty``, the ``hosts``, the ``victims`` by name and the ``placement`` client; all is running."""
    name, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    (tmp_path / "placement").mkdir()
    connection = own_database.url.removesuffix("zun") + "placement"
    placement = OwnPlacement(tmp_path / "placement", os.environ["ZUN_TEST_PLACEMENT_PYTHON"], connection)
    request.addfinalizer(placement.kill)
    common = {
        "database": {"connection": own_database.url},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
    }

    def default(host):
        return {"host": host, "transport_url": rabbit_url, "control_exchange": name, "state_path": tmp_path / host}

    told = {"auth_type": "admin_token", "endpoint": placement.url, "token": "admin", "wait": 2}
    compute = {"reserved_host_memory_mb": 0, "sync_container_state_interval": 2, "audit_host_processes": "none"}
    hosts = [f"{name}-{mode}" for mode in ("report", "enforce")]
    agents = [
        program("zun.tests.integration.agent_of_cells", host, DEFAULT=default(host), compute=compute,
                placement=told | {"mode": host.rpartition("-")[2]}, **common)
        for host in hosts
    ]  # fmt: skip
    again = {"sweep_interval": 1, "lost_after": 3, "booking_deadline": 5}
    scheduler = program("scheduler", DEFAULT=default(name), scheduler=again, **common)
    server = program("api", DEFAULT=default(name), api={"port": port, "auth_strategy": "noauth"}, **common)
    upgrade = program("db_manage", words=("upgrade",), DEFAULT=default(name), **common)
    programs = (*agents, scheduler, server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        begun = pool.submit(placement.start)
        code, said = upgrade.run_to_end()
        assert code == 0, said
        list(pool.map(lambda each: each.start(), programs))
        begun.result()
    session.configure(own_database.url)
    client = ksa_session.Session(auth=token_endpoint.Token(placement.url, "admin"))
    hasty = Api(f"http://127.0.0.1:{port}/v1")
    hasty.patience = HASTE
    yield types.SimpleNamespace(
        api=Api(hasty.url),
        hasty=hasty,
        hosts=hosts,
        placement=PlacementClient(ks_adapter.Adapter(client, service_type="placement")),
        victims={"agent in mode report": agents[0], "agent in mode enforce": agents[1], "placement": placement,
                 "database": own_database},
    )  # fmt: skip
    session.dispose()
    for each in programs:  # before what they would wait for is gone
        each.kill()


def something(api, there, dice):
    """Return one step as a function that takes it; answers do not matter while parts of the cloud are away."""
    one = dice.choice(there) if there else None
    what = dice.choices(("create", "resize", "delete"), (5, 4, 1 + len(there) / 4))[0] if there else "create"
    if what == "create":
        fields = {**dice.choice(ASKED), "memory": dice.choice((16, 64)), "auto_heal": True}
        ask = lambda: api.run(**fields)  # noqa: E731
    elif what == "resize":
        change = dice.choice(CHANGES)
        ask = lambda: api.request("PATCH", f"/containers/{one}", json=change)  # noqa: E731
    else:
        ask = lambda: api.request("DELETE", f"/containers/{one}?force=true")  # noqa: E731

    def step():
        with contextlib.suppress(requests.exceptions.RequestException, AssertionError):
            ask()

    return step


def disagreement(cloud):
    """Return why claims and Placement differ yet, or None if they agree cell by cell."""
    try:
        shown = {each["uuid"]: each for each in cloud.api.get("/containers")["containers"]}
        held = cloud.api.held()
        claims = {host: rows(host) for host in cloud.hosts}
        written = {host: ledger(cloud.placement, host) for host in cloud.hosts}
    except (requests.exceptions.RequestException, exceptions.ZunError) as exc:
        return f"no answer: {exc}"
    unsettled = [each for each, row in shown.items() if row["task_state"] or row["status"] not in SETTLED]
    if unsettled:
        return f"still under way: {unsettled}"
    for host in cloud.hosts:
        agents = {each["container"] for each in held.get(host, [])}
        if agents != claims[host].keys():
            return f"{host}: its agent holds {agents}, the rows say {claims[host].keys()}"
        if claims[host] != written[host]:
            return f"{host}: the rows say {claims[host]}, Placement {written[host]}"
    return None


def agree(cloud):
    found = []

    def look():
        found.append(disagreement(cloud))
        return found[-1] is None

    try:
        wait_for(look, AGAIN)
    except AssertionError as exc:
        raise AssertionError(f"seed {SEED}: {found[-1]}") from exc


def test_allocations_equal_claims_after_kills(cloud):
    print(f"ZUN_PLACEMENT_SEED={SEED} ZUN_PLACEMENT_STEPS={STEPS}")
    dice, there = random.Random(SEED), []
    victims = sorted(cloud.victims)
    for _ in range(0, STEPS, AT_ONCE):
        victim = cloud.victims[dice.choice(victims)]
        with contextlib.suppress(requests.exceptions.RequestException):
            there = sorted(each["uuid"] for each in cloud.api.get("/containers")["containers"])
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(something(cloud.hasty, there, dice)) for _ in range(AT_ONCE)]
            concurrent.futures.wait([asked[dice.randrange(AT_ONCE)]])
            victim.kill()
            if dice.random() < 0.5:  # away while the rest is asked
                concurrent.futures.wait(asked)
            victim.start()
    agree(cloud)
    assert any(rows(host) for host in cloud.hosts), "nothing is left to compare"
    cloud.api.delete_all()
    agree(cloud)
    assert all(ledger(cloud.placement, host) == {} for host in cloud.hosts)
