# SPDX-License-Identifier: Apache-2.0
"""What the API accepts is done once, whatever becomes of the messages: over HTTP, with a runtime in memory."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from zun.api import app as api_app
from zun.common import exceptions
from zun.compute.container.operations import key_of
from zun.container.driver.images import ImageFacts
from zun.db import container_actions as db
from zun.db import containers as db_containers
from zun.db import models, network_ports, session
from zun.messaging import releases
from zun.messaging.compute_api import ComputeAPI
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.networks import network

NOAUTH = {"api__auth_strategy": "noauth", "api__host_names": ["zun.example"], "quota__cpu": -1}
NEVER = {"compute__audit_interval": 0, "compute__sync_container_state_interval": 3600}


@dataclass(frozen=True)
class Case:
    """A request, what goes before it, the calls of the runtime that it must cause once, and the status afterwards."""

    ask: str
    calls: tuple = ()
    status: str | None = "Running"
    before: tuple = ()
    row: dict = field(default_factory=dict)


CASES = {
    "start": Case("start", ("start",), before=("stop",)),
    "stop": Case("stop?timeout=5", ("stop",), "Stopped"),
    "reboot": Case("reboot", ("reboot",)),
    "rebuild": Case("rebuild", ("create", "start")),
    "pause": Case("pause", ("pause",), "Paused"),
    "unpause": Case("unpause", ("unpause",), before=("pause",)),
    "kill": Case("kill?signal=SIGHUP", ("kill",)),
    "resize_container": Case("resize_container?memory=128", ("update",), row={"memory": 128}),
    "commit": Case("commit?repository=web&tag=1", ("commit",)),
    "network_attach": Case("network_attach?network={network}"),
    "network_detach": Case("network_detach?network={network}", before=("network_attach?network={network}",)),
    "delete": Case("DELETE", ("delete",), None, before=("stop",)),
    "delete_after_stop": Case("DELETE?stop=true", ("stop", "delete"), None),
}


class Wire(ComputeAPI):
    """Sends ``copies`` of each hint. With ``kept`` the messages wait there until the test sends them."""

    copies = 1
    kept = None

    def act(self, *message):
        for _ in range(self.copies):
            if self.kept is None:
                super().act(*message)
            else:
                self.kept.append(message)

    def send_kept(self):
        messages, self.kept = self.kept, None
        for message in messages:
            self.act(*message)


class Users:
    """Of an API before the cloud. ``calls`` counts what the runtime was asked to do."""

    def __init__(self, cloud, compute_api):
        self.cloud, self.wire = cloud, compute_api
        application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=compute_api)
        self.api = Client(application, user="root", project="admin", roles="admin", version="1.40")
        self.calls = Counter()
        for name in ("create", "start", "stop", "reboot", "pause", "unpause", "kill", "update", "commit", "delete"):
            cloud.drivers["one"].before(name, lambda _, name=name: self.calls.update([name]))

    def run(self):
        body = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64, "cpu": 1}
        made = self.api.post("/v1/containers?run=true", body)
        assert made.status == 202, made.body
        uuid = made.json["uuid"]
        wait_for(lambda: db_containers.get(uuid)["status"] == "Running" and self.quiet(uuid))
        return uuid

    def ask(self, uuid, what):
        """Send a request that must be accepted; return the id of the action, None if its container is gone already."""
        method, path = ("DELETE", what[6:]) if what.startswith("DELETE") else ("POST", f"/{what}")
        reply = self.api.send(method, f"/v1/containers/{uuid}{path}")
        assert reply.status in (200, 202, 204), reply.body
        found = db.of_container(uuid)
        return found[0]["id"] if found else None

    def quiet(self, uuid):
        return key_of(uuid) not in self.cloud.agents["one"].queue.busy()

    def done(self, uuid, ident):
        """Wait until the action has ended and nothing works on the container; return the action's message."""

        def ended():
            found = [each for each in db.of_container(uuid) if each["id"] == ident]
            over = all(each["finish_time"] for each in found) and self.quiet(uuid) and not exists_still(uuid, found)
            return (found[0]["message"] if found else None,) if over else None

        return wait_for(ended)[0]


def exists_still(uuid, found):
    """Return whether the row stays although its action is gone: it is being removed."""
    return not found and bool(db_containers.of_uuids([uuid]))


def served(hosts=None, **options):
    cloud = Cloud(hosts or {"one": machine(cells=1, cores=4)}, **NOAUTH, **NEVER, **options)
    cloud.drivers["one"].images = {}
    cloud.drivers["one"].registry = {"zun-demo": ImageFacts("sha256:1")}
    return cloud


@pytest.fixture
def users(database):
    with served() as cloud:
        yield Users(cloud, Wire(cloud.transport))


@pytest.mark.parametrize("way", ["told", "lost", "doubled", "late", "agent away", "release before"])
@pytest.mark.parametrize("name", CASES)
def test_an_accepted_action_is_done_once(users, name, way):
    case, uuid = CASES[name], users.run()
    place = {"network": network("blue", project_id="admin")}
    for what in case.before:
        users.done(uuid, users.ask(uuid, what.format(**place)))
    users.calls.clear()
    agent = users.cloud.agents["one"]
    if way == "doubled":
        users.wire.copies = 3
    elif way in ("lost", "late"):
        users.wire.kept = []
    elif way == "release before":
        users.wire._client = ComputeAPI(users.cloud.transport, pin=releases.RELEASES["1.0"])._client
    elif way == "agent away":
        users.cloud.stop_agent("one")
    ident = users.ask(uuid, case.ask.format(**place))
    if way == "agent away":
        users.cloud.start_agent("one")
    elif way in ("lost", "late"):
        users.cloud.compared("one", lambda: not db.wanted(uuid))
    message = users.done(uuid, ident)
    if way == "late":
        users.wire.send_kept()
        wait_for(lambda: users.quiet(uuid))
    assert message is None
    assert {call: users.calls[call] for call in case.calls} == dict.fromkeys(case.calls, 1)
    found = db_containers.of_uuids([uuid])
    assert [row["status"] for row in found] == ([case.status] if case.status else [])
    assert all(row[column] == value for row in found for column, value in case.row.items())
    assert db.wanted(uuid) == []
    if name.startswith("network"):
        assert len(network_ports.of_container(uuid)) == (name == "network_attach")
    if name == "commit":
        with session.reader() as connection:
            assert connection.execute(sa.select(models.images.c.status)).scalars().all() == ["Available"]
    assert agent is users.cloud.agents["one"] or way == "agent away"


def test_messages_in_another_order_change_nothing(users):
    """What was accepted is done in the order in which it was accepted."""
    uuid, users.wire.kept, order = users.run(), [], []
    # A look of the host may find the actions before their messages arrive.
    for name in ("kill", "pause", "commit"):
        users.cloud.drivers["one"].before(name, lambda _, name=name: order.append(name))
    asked = [users.ask(uuid, what) for what in ("kill?signal=SIGHUP", "pause", "commit?repository=web&tag=1")]
    users.wire.kept.reverse()
    users.wire.send_kept()
    assert [users.done(uuid, ident) for ident in asked] == [None] * 3
    assert order == ["kill", "pause", "commit"]


def test_what_waits_for_an_agent_is_done_at_its_return(users):
    """The messages of every second container are lost as well."""
    uuids = [users.run() for _ in range(4)]
    users.cloud.stop_agent("one")
    asked = []
    for number, uuid in enumerate(uuids):
        users.wire.kept = [] if number % 2 else None
        asked.append((uuid, users.ask(uuid, "stop"), users.ask(uuid, "kill?signal=SIGHUP")))
    users.calls.clear()
    users.cloud.start_agent("one")
    assert [users.done(uuid, stop) for uuid, stop, _ in asked] == [None] * len(uuids)
    assert {db_containers.get(uuid)["status"] for uuid in uuids} == {"Stopped"}
    assert users.calls["stop"] == len(uuids)


def test_a_broker_that_is_away_refuses_nothing(users, caplog):
    uuid = users.run()

    def away(*_message):
        raise exceptions.HostUnavailable(host="one")

    users.wire.act = away
    ident = users.ask(uuid, "stop?timeout=5")
    assert f"Host one will find stop of container {uuid} later" in caplog.text
    users.cloud.compared("one", lambda: not db.wanted(uuid))
    assert (users.done(uuid, ident), users.calls["stop"]) == (None, 1)


def test_a_database_that_is_away_delays_what_is_wanted(users, monkeypatch):
    uuid = users.run()
    asked = []
    read = db.wanted

    def away(container_uuid):
        asked.append(container_uuid)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(db, "wanted", away)
    ident = users.ask(uuid, "stop")
    wait_for(lambda: asked)
    monkeypatch.setattr(db, "wanted", read)
    users.cloud.compared("one", lambda: not db.wanted(uuid))
    assert (users.done(uuid, ident), users.calls["stop"]) == (None, 1)


def test_looks_during_a_stop_send_a_kill_once(users):
    """A kill runs beside a long stop. Each look finds both open."""
    driver, uuid, go_on = users.cloud.drivers["one"], users.run(), threading.Event()
    driver.before("stop", lambda _: go_on.wait(60))
    users.wire.copies = 3
    try:
        users.ask(uuid, "stop?timeout=3600")
        wait_for(lambda: db_containers.get(uuid)["task_state"] == "container_stopping")
        kill = users.ask(uuid, "kill?signal=SIGHUP")
        wait_for(lambda: db.of_container(uuid)[0]["finish_time"])
        users.cloud.agents["one"].queue.put(key_of(uuid))
    finally:
        go_on.set()
    assert users.done(uuid, kill) is None
    wait_for(lambda: not db.wanted(uuid) and users.quiet(uuid))
    assert (users.calls["kill"], users.calls["stop"]) == (1, 1)


def test_a_rebuild_that_is_given_up_is_an_error(users):
    uuid = users.run()
    users.wire.kept = []
    ident = users.ask(uuid, "rebuild")
    users.cloud.agents["one"].parts.road.gave_up(uuid, RuntimeError("no such thing"))
    row = db_containers.get(uuid)
    assert (row["status"], row["status_reason"]) == ("Error", "Unexpected error of the compute service: no such thing")
    assert users.done(uuid, ident) == "Error"
