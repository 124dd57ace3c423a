# SPDX-License-Identifier: Apache-2.0
"""Two hosts, and containers that move from one to the other."""

import pytest

from zun.api import app as api_app
from zun.common.departures import DEPARTED, uuid_of_left
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import services
from zun.scheduler import service
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine

NOAUTH = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"]}
NEVER = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 3600, "quota__cpu": -1}
PAIR = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512, "request": {"run": True}}


@pytest.fixture
def cloud(database, monkeypatch):
    monkeypatch.setattr(service, "MOVES_INTERVAL", 0.05)
    with Cloud({"one": machine(cells=1, cores=4), "two": machine(cells=1, cores=4)}, **NOAUTH, **NEVER) as cloud:
        yield cloud


@pytest.fixture
def api(cloud):
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    return Client(application, user="root", project="admin", roles="admin", version="1.49")


@pytest.fixture
def container(cloud, context):
    return running_on(cloud, context, "one")


def running_on(cloud, context, host, **more):
    """Run a container on the host, without its row saying that it was asked for there."""
    close(cloud, other_than(cloud, host), True)
    container = cloud.run(context, **{**PAIR, **more})
    assert container.host == host, container.status_reason
    close(cloud, other_than(cloud, host), False)
    return container


def other_than(cloud, host):
    return next(name for name in cloud.machines if name != host)


def close(cloud, host, closed):
    services.update(host, "zun-compute", {"disabled": closed})
    with cloud.scheduler.table._comparing:
        cloud.scheduler.table._compare(None)  # as it does by itself within seconds


def leaves(cloud, context, container, **arguments):
    cloud.compute_api.want(context, container, "leave", **{"discard_layer": True, "run": True, **arguments})


def settled(cloud, container):
    """Return the container's row once it is nowhere on its way, and what it left is gone."""

    def seen():
        rows = {row["uuid"]: row for row in db.of_uuids([container.uuid, uuid_of_left(container.uuid, "one")])}
        row = rows.pop(container.uuid, None)
        if row is None or rows or DEPARTED in row["request"] or row["task_state"] or db_actions.wanted(row["uuid"]):
            return None
        row = db.get(container.uuid)  # its last action may have ended since
        return row if row["status"] in ("Running", "Stopped", "Created") else None

    return wait_for(seen)


def holders(cloud, host):
    return {uuid: plan.cpus for uuid, plan in cloud.agents[host].tracker.usage}


def actions(container):
    return [(each["action"], each["message"]) for each in reversed(db_actions.of_container(container.uuid))]
