# SPDX-License-Identifier: Apache-2.0
"""Sets of containers: claims a second, side by side with single containers of the same size in the same run.

``run`` uses RabbitMQ, MariaDB and the processes of ``benchmarks.scheduling.service``. ``burst`` measures from the
request to the API, in process, to the last claim; ``in_process`` is a burst with every service in one process, on
SQLite and the in-process transport.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import timeutils, uuidutils

from benchmarks.scheduling import clouds
from benchmarks.scheduling.service import CONTEXT, Cloud, configuration, own_database
from zun.api import app as api_app
from zun.db import containers as db
from zun.db import models, session
from zun.db import sets as db_sets
from zun.messaging.compute_api import ComputeAPI
from zun.objects import Container
from zun.tests.functional import cloud as in_memory
from zun.tests.functional.api.client import Client
from zun.topology import PlacementRequest

MEMBER = PlacementRequest(2, 512)
"""Small, so that sixteen fit on one host."""
SIZE = 16
IN_FLIGHT = 32
WHO = {"request_id": CONTEXT.request_id, "user_id": "alice", "project_id": "demo", "client_address": None}
BODY = {"image": "busybox", "cpu": 2, "memory": 512, "cpu_policy": "dedicated"}

Figures = dict[str, Any]


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    now = timeutils.utcnow()
    return [{**clouds.row(MEMBER, now), "request": {"run": False}, **more} for _ in range(count)]


def singles(cloud: Cloud, count: int) -> Figures:
    """Measure single containers of the members' size, ``IN_FLIGHT`` under way."""
    made = rows(count)
    with session.writer() as connection:
        connection.execute(models.containers.insert(), made)
    waiting = [Container.from_row(CONTEXT, row) for row in db.of_uuids([row["uuid"] for row in made])]
    return measured(cloud, [[each.uuid] for each in waiting], lambda n: cloud._api.create(CONTEXT, waiting[n]))


def sets(cloud: Cloud, count: int, rules: Mapping[str, Any], size: int = SIZE) -> Figures:
    """Measure ``count`` sets, with ``IN_FLIGHT`` containers or two sets under way, whichever is more."""
    made: list[tuple[str, list[str]]] = []
    for number in range(count):
        uuid = uuidutils.generate_uuid()
        members = [{**row, "set_uuid": uuid, "set_index": index} for index, row in enumerate(rows(size))]
        values = {"uuid": uuid, "name": f"set-{number}", "project_id": "demo", "user_id": "alice", "count": size}
        db_sets.insert({**values, "min_count": size, "rules": dict(rules), "template": {}}, members, WHO)
        made.append((uuid, [row["uuid"] for row in members]))
    return measured(cloud, [uuids for _, uuids in made], lambda n: cloud._api.create_set(CONTEXT, made[n][0]))


def measured(cloud: Cloud, requests: Sequence[Sequence[str]], send: Any) -> Figures:
    """Send the requests, each of which makes the containers of these uuids, and measure until every claim is there."""
    most = max(IN_FLIGHT, 2 * len(requests[0]))
    sent: dict[str, float] = {}
    before, start = cloud._cpu_seconds(), time.monotonic()
    for number, uuids in enumerate(requests):
        while len(sent) + len(uuids) - len(cloud.done) > most and cloud._listen(60):
            pass
        sent |= dict.fromkeys(uuids, time.monotonic())
        send(number)
    cloud._settle(sent)
    spent = {name: 1000 * (now - before[name]) / len(sent) for name, now in cloud._cpu_seconds().items()}
    return {**cloud._figures(sent, start), "cpu_ms": spent}


def burst(cloud: Cloud, count: int, size: int) -> Figures:
    """Measure from the first of ``count`` requests for a set to the API, to the last claim."""
    conf = configuration()
    conf.set_override("auth_strategy", "noauth", group="api")
    conf.set_override("host_names", ["zun.example"], group="api")
    for name in ("containers", "cpu", "memory", "disk"):
        conf.set_override(name, -1, group="quota")
    application = api_app.build(conf, scheduler_api=cloud._api, compute_api=ComputeAPI(cloud.transport))
    client = Client(application, user="alice", project="demo", roles="member", version="1.50")
    before, start, sent = cloud._cpu_seconds(), time.monotonic(), {}
    for number in range(count):
        _post(client, number, size)
    for row in _members():
        sent[row] = start
    cloud._settle(sent)
    spent = {name: 1000 * (now - before[name]) / len(sent) for name, now in cloud._cpu_seconds().items()}
    return {**cloud._figures(sent, start), "cpu_ms": spent}


def _post(client: Client, number: int, size: int) -> None:
    reply = client.post("/v1/containers?run=false", {**BODY, "name": f"burst-{number}", "count": size})
    if reply.status != 202:
        raise RuntimeError(f"the API answered {reply.status}: {reply.body!r}")


def _members() -> list[str]:
    found = db_sets.page(CONTEXT, limit=1000)
    of_burst = [row["uuid"] for row in found if row["name"].startswith("burst-")]
    return [member["uuid"] for members in db_sets.shown_members(of_burst).values() for member in members]


def in_process(folder: str, count: int, size: int, hosts: int = 64) -> Figures:
    """Measure a burst with every service in this process."""
    session.configure(f"sqlite:///{folder}/burst.sqlite")
    models.metadata.create_all(session.engine())
    machine = clouds.machine()
    options = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "compute__audit_interval": 0}
    options |= {f"quota__{name}": -1 for name in ("containers", "cpu", "memory", "disk")}
    with in_memory.Cloud({f"host-{number:03}": machine for number in range(hosts)}, **options) as cloud:
        application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
        client = Client(application, user="alice", project="demo", roles="member", version="1.50")
        before, start = time.process_time(), time.monotonic()
        for number in range(count):
            _post(client, number, size)
        wanted = count * size
        while sum(len(agent.tracker.usage.owners) for agent in cloud.agents.values()) < wanted:
            time.sleep(0.005)
        claimed = time.monotonic() - start
        spent = time.process_time() - before
    session.dispose()
    return {"claimed": wanted, "per_second": wanted / claimed, "cpu_ms": {"process": 1000 * spent / wanted}}


def run(mysql: str, rabbit: str, hosts: int, count: int) -> list[Figures]:
    """Return the figures of single containers, of sets on one host and over hosts, and of a burst."""
    with own_database(mysql) as database:
        cloud = Cloud(database, rabbit, hosts)
        try:
            singles(cloud, min(count, 300))  # warm: connections, agents
            found = [
                {"what": "single containers", **singles(cloud, count)},
                {"what": f"sets of {SIZE} on one host", **sets(cloud, count // SIZE, {"pack": "host"})},
                {"what": f"sets of {SIZE} over {SIZE} hosts", **sets(cloud, count // SIZE, {"spread": "host"})},
                {"what": "burst of 10 sets of 100", **burst(cloud, 10, 100)},
            ]
        finally:
            cloud.stop()
    return found
