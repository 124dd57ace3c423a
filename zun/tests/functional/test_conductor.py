# SPDX-License-Identifier: Apache-2.0
"""What a host reaches of the database through zun-conductor: its own rows, and nothing of another host.

Host ``one`` has a container with all that belongs to it. Each operation that an agent can call is done by ``one``,
and tried by ``two``, which knows every id.
"""

import contextlib
import datetime
import itertools
import logging
import math
import sys
from dataclasses import asdict

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_utils import timeutils, uuidutils
from prometheus_client import REGISTRY

from zun import objects
from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.disk_pools import PoolUse
from zun.common.secrets import Cipher
from zun.compute.host.inventory import inventory
from zun.compute.images.images import Accounts
from zun.conductor import rules
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.container.driver.images import RegistryAuth
from zun.container.fake import InMemoryDriver
from zun.db import compute_nodes, container_actions, containers, models, services, session
from zun.db.permits import Permits
from zun.messaging import conductor_api, rpc
from zun.messaging.conductor_api import ConductorAPI
from zun.objects import (
    ComputeNode,
    ConsoleToken,
    Container,
    ContainerActionEvent,
    Image,
    NetworkPort,
    Registry,
    Volume,
    ZunService,
)
from zun.objects.base import ZunObject
from zun.objects.container import Claimed, Claiming
from zun.scheduler import filters, weighers
from zun.scheduler.host_table import HostTable
from zun.scheduler.select import select
from zun.tests.functional.cloud import configuration, machine
from zun.tests.unit.db import rows
from zun.tests.unit.scheduler.hosts import spec

CONTEXT = admin_context("req-1")
CIPHER, PASSWORD = Cipher(["k" * 32]), "s3cret"
NOW = datetime.datetime(2026, 1, 31, 12)
FILTERED = {rules.OWN_ONLY, rules.OWN_TOKEN_ONLY}
HARMLESS = {("NetworkPort", "known")}
LATER = timeutils.utcnow() + datetime.timedelta(days=365)


def insert(table, **values):
    with session.writer() as connection:
        connection.execute(table.insert().values(**values))


class Things:
    """A container of host ``one`` that is being created there, and a row of each kind that belongs to it."""

    def __init__(self):
        rows.node("one")
        rows.node("two")
        self.registry, self.network, self.port, self.image, self.volume = (uuidutils.generate_uuid() for _ in range(5))
        secret = CIPHER.encrypt(PASSWORD, (self.registry, "demo", "example.com", "u"))
        insert(
            models.registries, uuid=self.registry, project_id="demo", name="r", domain="example.com",
            username="u", password=secret, created_at=NOW,
        )  # fmt: skip
        self.container = rows.container(registry_id=self.registry)["uuid"]
        self.waiting = rows.container(project_id="other")["uuid"]
        container_actions.start(self.container, "create", request_id="req-1", user_id="u", project_id="demo")
        step = ("req-1", "create", "compute__do_container_create")
        self.event = containers.claim(self.container, "one", {"cpuset": rows.CPUSET}, step=step).event_id
        self.leaving = rows.container(host="one", status="Running", cpuset=rows.CPUSET)["uuid"]
        who = {"request_id": "req-1", "user_id": "u", "project_id": "demo"}
        container_actions.note_arguments(self.leaving, "leave", {"host": None}, **who)
        self.leave = container_actions.start_event(self.leaving, "req-1", "leave", "e")
        self.action = container_actions.find(self.container, "req-1")[0]["id"]
        insert(
            models.networks, uuid=self.network, name="n", project_id="demo",
            subnets=[{"uuid": self.network, "cidr": "10.0.0.0/24", "gateway": None}], created_at=NOW,
        )  # fmt: skip
        insert(
            models.network_ports, uuid=self.port, network_uuid=self.network, container_uuid=self.container,
            ipv4="10.0.0.2", created_at=NOW,
        )  # fmt: skip
        insert(
            models.images, uuid=self.image, project_id="demo", host="one", repo="r", tag="t", local_name="",
            status="Pulling", created_at=NOW,
        )  # fmt: skip
        insert(models.volumes, uuid=self.volume, project_id="demo", name="v", host="one", deleting=True, created_at=NOW)
        self.token = ConsoleToken.issue(CONTEXT, self.container, None, 600)
        self.hash = ConsoleToken.find(CONTEXT, self.token).token_hash

    def object(self, uuid=None, **changes):
        made = Container.from_row(CONTEXT, containers.get(uuid or self.container))
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def of(self, cls, **fields):
        made = cls(CONTEXT, **fields)
        made.obj_reset_changes()
        return made

    def image_object(self):
        made = self.of(Image, uuid=self.image)
        made.status = "Available"
        return made

    def port_object(self):
        made = self.of(NetworkPort, uuid=self.port)
        made.leaving = True
        return made

    def restored(self):
        lost = containers.get(self.container)
        values = {name: lost[name] for name in Container.fields if name != "id"}
        return Container(CONTEXT, **{**values, "uuid": uuidutils.generate_uuid(), "created_at": NOW})


CALLS = {
    ("ZunService", "heartbeat"): lambda it: ZunService.heartbeat(CONTEXT, "one", "zun-compute", "nova"),
    ("ComputeNode", "put"): lambda it: ComputeNode.put(CONTEXT, "one", {**rows.NODE, "cpus": 4}),
    ("ComputeNode", "topology"): lambda it: ComputeNode.topology(CONTEXT, "one"),
    ("ComputeNode", "aggregates"): lambda it: ComputeNode.aggregates(CONTEXT, hostname="one"),
    ("ComputeNode", "allocation_ratios"): lambda it: ComputeNode.allocation_ratios(CONTEXT, hostname="one"),
    ("ComputeNode", "disk_pool"): lambda it: ComputeNode.disk_pool(CONTEXT, "one"),
    ("ComputeNode", "pool_use"): lambda it: ComputeNode.pool_use(CONTEXT, "one"),
    ("Container", "get_by_uuid"): lambda it: Container.get_by_uuid(CONTEXT, it.container),
    ("Container", "list_by_host"): lambda it: Container.list_by_host(CONTEXT, "one"),
    ("Container", "list_by_uuids"): lambda it: Container.list_by_uuids(CONTEXT, [it.container]),
    ("Container", "evacuated"): lambda it: Container.evacuated(CONTEXT, "one", [it.container]),
    ("Container", "list_by_capsule"): lambda it: Container.list_by_capsule(CONTEXT, it.container),
    ("Container", "save_claim"): lambda it: it.object(cpuset=rows.CPUSET).save_claim("one"),
    ("Container", "save_changed_claim"): lambda it: it.object(memory=32).save_changed_claim("one"),
    ("Container", "save"): lambda it: it.object(status="Created").save(only_from={"Creating"}),
    ("Container", "save_step"): lambda it: it.object(task_state=None, exit_code=1).save_step(it.event, False),
    ("Container", "save_healing"): lambda it: it.object(exit_code=1).save_healing(["Creating"]),
    ("Container", "end_members"): lambda it: it.object().end_members("failed"),
    ("Container", "destroy"): lambda it: it.object().destroy(),
    ("Container", "layer"): lambda it: it.object().layer(),
    ("Container", "depart"): lambda it: it.object(it.leaving).depart("one", it.leave, True),
    ("Container", "abandon"): lambda it: it.object().abandon(),
    ("Container", "restore"): lambda it: it.restored().restore(),
    ("ContainerActionEvent", "ask"): lambda it: ContainerActionEvent.ask(CONTEXT, it.container, "demo", "rebuild"),
    ("ContainerActionEvent", "wanted"): lambda it: ContainerActionEvent.wanted(CONTEXT, it.container),
    ("ContainerActionEvent", "wanted_on"): lambda it: ContainerActionEvent.wanted_on(CONTEXT, "one"),
    ("ContainerActionEvent", "note_arguments"): lambda it: ContainerActionEvent.note_arguments(
        CONTEXT, it.container, "demo", "create", {"timeout": 5}
    ),
    ("ContainerActionEvent", "end"): lambda it: ContainerActionEvent.end(CONTEXT, it.container, it.action, "e"),
    ("ContainerActionEvent", "start"): lambda it: ContainerActionEvent.start(CONTEXT, it.container, "create", "e"),
    ("ContainerActionEvent", "finish"): lambda it: ContainerActionEvent.finish(
        CONTEXT, it.event, "Error", None, True
    ),
    ("ContainerActionEvent", "go_on"): lambda it: ContainerActionEvent.go_on(CONTEXT, it.event, "e"),
    ("ContainerActionEvent", "prune"): lambda it: ContainerActionEvent.prune(CONTEXT, "one"),
    ("ContainerActionEvent", "end_lost"): lambda it: ContainerActionEvent.end_lost(CONTEXT, "one", LATER, {"x"}),
    ("Image", "get_by_uuid"): lambda it: Image.get_by_uuid(CONTEXT, it.image),
    ("Image", "save"): lambda it: it.image_object().save(),
    ("Image", "destroy"): lambda it: it.image_object().destroy(),
    ("Image", "fail_unfinished"): lambda it: Image.fail_unfinished(CONTEXT, "one", "lost", LATER, {"x"}),
    ("Image", "grant"): lambda it: Image.grant(CONTEXT, "one", "image", "demo"),
    ("Image", "granted_to"): lambda it: Image.granted_to(CONTEXT, "one", ["image"]),
    ("Image", "granted_before"): lambda it: Image.granted_before(CONTEXT, "one", LATER),
    ("Image", "end_grants"): lambda it: Image.end_grants(CONTEXT, "one", ["image"], LATER),
    ("NetworkPort", "save"): lambda it: it.port_object().save(),
    ("NetworkPort", "destroy"): lambda it: it.port_object().destroy(),
    ("NetworkPort", "list_by_container"): lambda it: NetworkPort.list_by_container(CONTEXT, it.container),
    ("NetworkPort", "list_by_host"): lambda it: NetworkPort.list_by_host(CONTEXT, "one"),
    ("NetworkPort", "recorded"): lambda it: NetworkPort.recorded(CONTEXT, it.container),
    ("NetworkPort", "known"): lambda it: NetworkPort.known(CONTEXT, [it.port]),
    ("NetworkPort", "networks_of_host"): lambda it: NetworkPort.networks_of_host(CONTEXT, "one"),
    ("Registry", "get_by_uuid"): lambda it: Registry.get_by_uuid(CONTEXT, it.registry),
    ("Volume", "list_to_delete"): lambda it: Volume.list_to_delete(CONTEXT, "one"),
    ("Volume", "destroy"): lambda it: it.of(Volume, uuid=it.volume).destroy(),
    ("ConsoleToken", "check_quota"): lambda it: ConsoleToken.check_quota(CONTEXT, "demo", {"terminals": 5}),
    ("ConsoleToken", "issue"): lambda it: len(
        ConsoleToken.issue(CONTEXT, it.container, None, 60, ("demo", {"terminals": 5}))
    ),
    ("ConsoleToken", "use"): lambda it: it.of(ConsoleToken, token_hash=it.hash).use(),
    ("ConsoleToken", "forget"): lambda it: it.of(ConsoleToken, token_hash=it.hash).forget(),
    ("ConsoleToken", "keep"): lambda it: ConsoleToken.keep(CONTEXT, [it.hash]),
    ("ConsoleToken", "find"): lambda it: ConsoleToken.find(CONTEXT, it.token),
}  # fmt: skip


def dump():
    """All rows of all tables."""
    with session.reader() as connection:
        tables = models.metadata.sorted_tables
        return {table.name: connection.execute(sa.select(table)).all() for table in tables}


@pytest.fixture
def things(database):
    return Things()


@pytest.fixture
def transport():
    return rpc.get_transport(cfg.CONF, f"inproc:///{uuidutils.generate_uuid()}")


@pytest.fixture
def conductor(transport, things):
    endpoint = ConductorEndpoint(Facts(restoring=True), CIPHER)
    server = rpc.get_server(transport, rpc.CONDUCTORS_TOPIC, "/c1", [endpoint], 2, addressed=True)
    server.start()
    yield endpoint
    server.stop()
    server.wait()


@pytest.fixture
def as_host(transport, conductor, monkeypatch):
    """``with as_host(name):`` calls of objects go to the conductor as those of this host."""

    @contextlib.contextmanager
    def entered(name, **settings):
        with monkeypatch.context() as patch:
            patch.setattr(ZunObject, "indirection_api", ConductorAPI(transport, name, **settings), raising=False)
            yield

    return entered


def names(calls):
    return [".".join(each) for each in calls]


READING = ("get_", "list_", "recorded", "granted", "topology", "pool_", "wanted")
READS = [call for call in CALLS if call[1].startswith(READING) and call != rules.DECRYPTED]


@pytest.mark.parametrize("call", READS, ids=names(READS))
def test_a_host_reads_what_is_in_the_database(call, things, as_host):
    direct = CALLS[call](things)
    with as_host("one"):
        through = CALLS[call](things)
    assert _plain(through) == _plain(direct)


def _plain(value):
    if isinstance(value, ZunObject):
        return value.obj_to_primitive()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("call", CALLS, ids=names(CALLS))
def test_another_host_is_refused_and_named(call, things, as_host, caplog):
    caplog.set_level(logging.WARNING)
    before = dump()
    with as_host("two"):
        if call in HARMLESS:
            CALLS[call](things)
        elif call in FILTERED:
            assert CALLS[call](things) in ([], None)
        else:
            with pytest.raises((exceptions.Forbidden, exceptions.NotFound, exceptions.ImageNotFound)):
                CALLS[call](things)
            assert f"Refused host two {call[0]}.{call[1]}: " in caplog.text
    assert dump() == before


def test_a_container_without_a_host_is_known_only(things, as_host, monkeypatch):
    """For example one whose creation failed. Its environment and mounts are no host's business."""
    containers.update(things.waiting, {"environment": {"KEY": "s3cret"}, "status": "Error"})
    answers, real = [], rpc.ContextSerializer.deserialize_entity

    def seen(self, ctxt, entity):
        if isinstance(entity, list) and entity and isinstance(entity[0], dict):
            answers.append(entity)
        return real(self, ctxt, entity)

    monkeypatch.setattr(rpc.ContextSerializer, "deserialize_entity", seen)
    with as_host("one"):
        found = Container.list_by_uuids(CONTEXT, [things.container, things.waiting])
    assert {each.uuid: each.host for each in found} == {things.container: "one", things.waiting: None}
    told = {each["zun_object.data"]["uuid"]: sorted(each["zun_object.data"]) for each in answers[0]}
    assert (told[things.waiting], len(told[things.container])) == (["host", "uuid"], len(Container.fields))


def test_calls_and_refusals_are_counted(things, as_host, transport, conductor):
    def count(name, **labels):
        return REGISTRY.get_sample_value(f"zun_conductor_{name}_total", labels) or 0

    def counts():
        refused = [count("refused_calls", host="two", method=each) for each in ("get_by_uuid", "other", "evil")]
        return [count("calls", host="one"), count("calls", host="two"), *refused]

    before = counts()
    with as_host("one"):
        Container.get_by_uuid(CONTEXT, things.container)
    with as_host("two"), pytest.raises(exceptions.ZunError):
        Container.get_by_uuid(CONTEXT, things.container)
    with pytest.raises(exceptions.ZunError):
        ConductorAPI(transport, "two").object_class_action_versions(CONTEXT, "Container", "evil", {}, (), {})
    assert [new - old for new, old in zip(counts(), before, strict=True)] == [1, 0, 1, 1, 0]


def claiming(container, permit=None, **changes):
    container.cpuset = rows.CPUSET
    for name, value in changes.items():
        setattr(container, name, value)
    return Claiming(container, ("req-1", "create", "compute__do_container_create"), None, permit)


def test_claims_are_written_together_as_their_rules_allow(things, as_host, caplog):
    more = [rows.container()["uuid"] for _ in range(4)]
    permitted = {uuid: Permits().permit("one", uuid) for uuid in more}
    asked = [
        claiming(things.object(more[0]), permitted[more[0]]),
        claiming(things.object(things.waiting), permitted[more[0]]),
        claiming(things.object(more[1]), permitted[more[1]], memory=9999),
        claiming(things.object(more[2]), permitted[more[2]]),
        claiming(things.object(more[3]), permitted[more[3]], project_id="other"),
        claiming(Container(CONTEXT, uuid=uuidutils.generate_uuid(), project_id="demo")),
    ]
    with as_host("one"):
        found = Container.save_claims(CONTEXT, "one", asked)
    done = [0, 3]
    for number, (each, outcome) in enumerate(zip(asked, found, strict=True)):
        if number in done:
            assert isinstance(outcome, Claimed) and each.container.host == "one"
        else:
            assert isinstance(outcome, exceptions.ContainerNotFound), "a host learns nothing more"
    assert found[3].generation == found[0].generation + 1
    assert {row["uuid"] for row in containers.claims(["one"])} >= {more[0], more[2]}
    assert {containers.get(uuid)["host"] for uuid in (things.waiting, more[1], more[3])} == {None}
    for reason in (f"no scheduler sent container {things.waiting} there", "it wrote memory", "it wrote project_id"):
        assert reason in caplog.text


def test_claims_of_another_host_are_refused(things, as_host):
    uuids = [rows.container()["uuid"] for _ in range(2)]
    asked = [claiming(things.object(uuid), Permits().permit("two", uuid)) for uuid in uuids]
    with as_host("one"):
        found = Container.save_claims(CONTEXT, "two", asked)
    assert [type(each) for each in found] == [exceptions.ContainerNotFound] * 2
    assert {containers.get(uuid)["host"] for uuid in uuids} == {None}


@pytest.mark.parametrize(
    "claims",
    [
        [{"key": "a"}, {"key": "a"}],
        [{"changes": {}}, {"key": 1}],
        [{"key": "a", "changes": 1}, {"key": "b", "changes": {"cpuset": 1}, "permit": 5}],
        [1, 2],
        [{"key": "a", "changes": {}, "step": ["x"] * 9}] * 2,
    ],
    ids=["twice", "no-keys", "no-changes", "no-claims", "strange-steps"],
)
def test_malformed_claims_write_nothing(claims, things, transport, conductor):
    before = dump()
    api = ConductorAPI(transport, "one")
    for each in claims:
        if isinstance(each, dict) and each.get("key") in ("a", "b"):
            each["key"] = {"a": things.waiting, "b": things.container}[each["key"]]
    try:
        found = api._ask(CONTEXT, "save_claims", hostname="one", claims=claims)
    except exceptions.ZunError:
        pass
    else:
        assert all("$error" in each for each in found)
    assert dump() == before


def remotable():
    for name in objects.__all__:
        cls = getattr(objects, name)
        yield from ((name, each) for each in dir(cls) if getattr(getattr(cls, each, None), "remotable", False))


def test_every_remotable_method_has_a_rule():
    assert set(remotable()) == rules.RULES.keys() | rules.NOT_CALLED.keys()
    assert CALLS.keys() == rules.RULES.keys()


@pytest.mark.parametrize("call", rules.NOT_CALLED, ids=names(rules.NOT_CALLED))
def test_what_no_host_calls_is_refused(call, things, transport, conductor):
    with pytest.raises(exceptions.ZunError, match=r"no rule allows it|could not be found"):
        ConductorAPI(transport, "one").object_class_action_versions(CONTEXT, *call, {}, ("x",), {})


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "two"},
        {"project_id": "other"},
        {"privileged": True},
        {"capabilities": ["SYS_ADMIN"]},
        {"mounts": []},
        {"registry_id": "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"},
        {"kind": "leftover"},
    ],
    ids=str,
)
def test_a_host_does_not_write_what_users_asked(changes, things, as_host):
    before = dump()
    with as_host("one"), pytest.raises(exceptions.ContainerNotFound):
        things.object(**changes).save()
    assert dump() == before


@pytest.mark.parametrize("values", [
    {"hostname": "two"}, {"id": 9}, {"uuid": "two"}, {"generation": 9}, {"added_traits": ["CUSTOM_SAFE"]},
    {"updated_at": None}, {"cpus": 0.5}, {"cpus": None}, {"traits": "CUSTOM_X"}, {"labels": {"a": 1}}, {"topology": []},
], ids=str)  # fmt: skip
def test_a_host_writes_its_inventory_only(values, things, as_host, caplog):
    before = dump()
    with as_host("one"), pytest.raises(exceptions.Forbidden):
        ComputeNode.put(CONTEXT, "one", {**rows.NODE, **values})
    assert f"Refused host one ComputeNode.put: it wrote {next(iter(values))}" in caplog.text
    assert dump() == before


def test_the_inventory_of_an_agent_is_written(things, as_host):
    told = InMemoryDriver().facts()
    found = inventory(configuration(), machine(cells=2, cores=2), told)
    engine = {**asdict(told.engine), "away": None}
    with as_host("one"):
        ComputeNode.put(CONTEXT, "one", {**found.columns, "topology": found.topology.to_dict()})
        ComputeNode.put(CONTEXT, "one", {"engine": engine})
    assert compute_nodes.find("one")["engine"] == engine
    assert {*found.columns, "topology", "engine"} == rules.INVENTORY


@pytest.mark.parametrize("status", ["Creating", "Stopped", None])
def test_a_claimed_container_goes_to_no_other_host(status, things, as_host, caplog):
    """A scheduler would send the container as the host left it."""
    before, changes = dump(), {} if status is None else {"status": status}
    with as_host("one"):
        for method, *arguments in (("save",), ("save_changed_claim", "one"), ("save_step", things.event, True)):
            made = things.object(task_state="container_creating", **changes)
            made.host = None
            with pytest.raises(exceptions.ContainerNotFound):
                getattr(made, method)(*arguments)
            assert f"Refused host one Container.{method}: it gave the container up without an error" in caplog.text
    assert dump() == before
    with as_host("one"):
        things.object(host=None, status="Error").save()
    assert containers.unplaced() == [containers.get(things.waiting)]


REBUILT = {"image": "new", "image_driver": "docker", "committed": "c"}
REQUEST = {"run": True, "hints": {}, "committed": "b", "rebuild": REBUILT}


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "evil"},
        {"image_driver": None},
        {"command": ["evil"]},
        {"entrypoint": ["evil"]},
        {"hostname": "evil"},
        {"cpu": 9.0},
        {"memory": 9},
        {"disk": 9},
        {"placement": {"devices": []}},
        {"request": {}},
        {"request": {**REQUEST, "hints": {"group": "x"}}},
        {"request": {**REQUEST, "more": 1}},
        {"request": {**REQUEST, "rebuild": {**REBUILT, "image": "evil"}}},
        {"request": {**REQUEST, "committed": "evil"}},
    ],
    ids=str,
)
def test_a_host_does_not_change_what_was_asked(changes, things, as_host, caplog):
    asked = {"image_driver": "glance", "command": ["c"], "entrypoint": ["e"], "hostname": "h", "disk": 1}
    containers.update(things.container, {**asked, "request": REQUEST})
    before = dump()
    with as_host("one"), pytest.raises(exceptions.ContainerNotFound):
        things.object(**changes).save()
    assert f"Refused host one Container.save: it wrote {next(iter(changes))} " in caplog.text
    assert dump() == before


def test_a_host_completes_what_was_asked(things, as_host):
    """The image has the command, the runtime the host name, and a rebuild brings its image."""
    containers.update(things.container, {"request": REQUEST})
    done = {"image": "new", "image_driver": "docker", "request": {"run": False, "hints": {}, "committed": "c"}}
    done |= {"command": ["c"], "entrypoint": ["e"], "hostname": "h"}
    with as_host("one"):
        things.object(**done).save()
        things.object(cpu=2.0, memory=32, cpu_policy="dedicated").save_changed_claim("one")
    assert {name: containers.get(things.container)[name] for name in done} == done


@pytest.mark.parametrize(
    ("placement", "is_taken"),
    [
        ({"numa_nodes": 1, "devices": [{"name": "b"}]}, True),
        ({"numa_nodes": 1, "devices": []}, True),
        ({"numa_nodes": 2, "devices": []}, False),
        ({"numa_nodes": 1, "devices": [{"name": "c"}]}, False),
        ({"numa_nodes": 1, "devices": 0}, False),
        ({"numa_nodes": 1}, False),
    ],
    ids=str,
)
def test_a_host_takes_virtual_functions_back(placement, is_taken, things, as_host):
    """And changes nothing else of the placement that was asked for."""
    asked = {"numa_nodes": 1, "devices": [{"name": "a"}, {"name": "b"}]}
    containers.update(things.container, {"placement": asked})
    with as_host("one"), contextlib.nullcontext() if is_taken else pytest.raises(exceptions.ContainerNotFound):
        things.object(placement=placement).save_changed_claim("one")
    assert containers.get(things.container)["placement"] == (placement if is_taken else asked)


@pytest.mark.parametrize("changes", [{"uuid": "w"}, {"token_hash": "w"}], ids=str)
def test_a_changed_key_reaches_no_other_row(changes, things, transport, conductor):
    before = dump()
    mine = ConductorAPI(transport, "two")
    for name, method in (("Container", "destroy"), ("ConsoleToken", "forget"), ("Volume", "destroy")):
        with contextlib.suppress(exceptions.ZunError):
            mine._ask(
                CONTEXT, "object_action", name=name, function=method, key="nothing",
                changes=dict.fromkeys(changes, things.container), args=[], kwargs={},
            )  # fmt: skip
    assert dump() == before


ODD = [0, -1, 0.5, True, None, [], [0], {}, {"a": 0}, [["x"]], {"$set": [0]}, {"$time": 0}]


def places(value, path=()):
    """Where in the arguments of a message is a text."""
    if isinstance(value, str) and "$time" not in path:
        yield path
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


def put(value, path, new):
    """Return ``value`` with ``new`` at ``path``."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize("call", CALLS, ids=names(CALLS))
def test_another_type_than_text_is_refused(call, things, as_host, monkeypatch, caplog):
    """MariaDB finds that 0 equals most uuids."""
    sent = []
    with monkeypatch.context() as patch, as_host("one"), contextlib.suppress(TypeError):  # of the missing answer
        patch.setattr(ConductorAPI, "_ask", lambda self, context, message, **asked: sent.append((message, asked)))
        CALLS[call](things)
    [(message, asked)] = sent
    before = dump()
    found = list(places({name: value for name, value in asked.items() if name in ("key", "args", "kwargs")}))
    with as_host("one"):
        for path, odd in itertools.product(found, ODD):
            if path == ("args", 1, "availability_zone") and odd is None:
                continue
            caplog.clear()
            with pytest.raises(exceptions.ZunError):
                ZunObject.indirection_api._ask(CONTEXT, message, **put(asked, path, odd))
            assert f"Refused host one {call[0]}.{call[1]}: " in caplog.text, (path, odd)
    assert dump() == before


def nested(depth):
    """A list in a list in a list."""
    return [nested(depth - 1)] if depth else []


SIZES = [10**30, -1, math.nan, "x" * 10**6, nested(200), {"junk": 1}, None]


class Placing:
    """A scheduler's table of hosts, among them ``good``, which nobody writes."""

    def __init__(self):
        compute_nodes.put("good", {**rows.NODE, "topology": machine(cells=1, cores=4).to_dict()})
        services.heartbeat("good", "zun-compute", "nova")
        conf = configuration()
        self.usual = filters.load(conf.scheduler.enabled_filters, conf), weighers.load(conf.scheduler.weighers, conf)
        self.table = HostTable(booking_seconds=60, fresh_seconds=0)

    def goes_on(self):
        """Return whether a container finds the good host, and a refused one its refusal."""
        self.table.refresh()
        self.table.catch_up(0)
        answer = select(self.table.hosts(), spec(1, 64), *self.usual, 5)
        return isinstance(answer, list) and "good" in [choice.hostname for choice in answer]


def members(value, path=()):
    """Every member of the arguments of a message, of whatever type, by its path."""
    if path:
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from members(each, (*path, key))


def send(message, asked):
    """Send a message as it is. Return the refusal; the host must not be told of a defect."""
    try:
        ZunObject.indirection_api._ask(CONTEXT, message, **asked)
    except exceptions.ZunError as exc:
        assert not str(exc).startswith("Host zun-conductor failed"), exc
        return str(exc)
    return None


@pytest.mark.parametrize("call", CALLS, ids=names(CALLS))
def test_no_size_of_a_member_stops_other_hosts(call, things, as_host, monkeypatch):
    """Of every member that a call has: the members are not listed here."""
    sent = []
    with monkeypatch.context() as patch, as_host("one"), contextlib.suppress(TypeError):  # of the missing answer
        patch.setattr(ConductorAPI, "_ask", lambda self, context, message, **asked: sent.append((message, asked)))
        CALLS[call](things)
    [(message, asked)] = sent
    placing, before = Placing(), dump()
    found = list(members({name: asked.get(name) for name in ("key", "changes", "args", "kwargs") if name in asked}))
    with as_host("one"):
        for path, odd in itertools.product(found, SIZES):
            send(message, put(asked, path, odd))
            now = dump()
            assert now == before or placing.goes_on(), (path, str(odd)[:40])
            before = now


WRITES = [(name, column) for name, columns in rules.WRITABLE.items() for column in sorted(columns)]
WRITES += [("ComputeNode", column) for column in sorted(rules.INVENTORY)]


@pytest.mark.parametrize(("name", "column"), WRITES, ids=names(WRITES))
def test_no_size_of_a_column_stops_other_hosts(name, column, things, as_host, caplog):
    """Of every column that a host writes. A size that is beyond the column is refused, and the host is named."""
    placing = Placing()
    for odd in SIZES:
        caplog.clear()
        if name == "ComputeNode":
            values = {**rows.NODE, column: odd}
            asked = {"name": name, "function": "put", "args": ["one", values], "kwargs": {}}
        else:
            key = {"Container": things.container, "Image": things.image, "NetworkPort": things.port}[name]
            asked = {"name": name, "function": "save", "key": key, "changes": {column: odd}, "args": [], "kwargs": {}}
        message = "object_class_action" if name == "ComputeNode" else "object_action"
        with as_host("one"):
            refused = send(message, asked)
        if isinstance(odd, float) or odd in (10**30, nested(200)):
            assert refused is not None, (column, str(odd)[:40])
        assert refused is None or f"Refused host one {name}." in caplog.text
        assert placing.goes_on(), str(odd)[:40]


@pytest.mark.parametrize("field", ["request_id", "user"])
@pytest.mark.parametrize("odd", [1, [0], {"a": 0}], ids=str)
def test_a_context_of_another_type_is_refused(field, odd, things, as_host, caplog, monkeypatch):
    sent = {**CONTEXT.to_message(), field: odd}
    monkeypatch.setattr(type(CONTEXT), "to_message", lambda self: sent)
    with as_host("one"), pytest.raises(exceptions.Forbidden):
        ContainerActionEvent.start(CONTEXT, things.container, "create", "e")
    assert "Refused host one ContainerActionEvent.start: " in caplog.text


@pytest.mark.parametrize(
    "changes", [{"cpuset": [1]}, {"ports": {"a": 1}}, {"started_at": 0}, {"cpu": []}, {"exit_code": "x"}], ids=str
)
def test_a_field_of_another_type_is_refused(changes, things, transport, conductor, caplog):
    before = dump()
    with pytest.raises((exceptions.Forbidden, exceptions.ContainerNotFound)):
        ConductorAPI(transport, "one")._ask(
            CONTEXT, "object_action", name="Container", function="save", key=things.container, changes=changes,
            args=[], kwargs={},
        )  # fmt: skip
    (refused,) = [line for line in caplog.messages if line.startswith("Refused host one Container.save: ")]
    assert next(iter(changes)) in refused
    assert dump() == before


def test_the_sender_cannot_say_another_address(things, transport, conductor):
    mine = ConductorAPI(transport, "two")
    with pytest.raises(exceptions.ContainerNotFound):
        mine._ask(
            CONTEXT, "object_class_action", address="zun.conductor.one", name="Container", function="get_by_uuid",
            args=[things.container], kwargs={},
        )  # fmt: skip


def test_a_host_claims_what_a_scheduler_sent_there(things, as_host):
    permit = Permits().permit("two", things.waiting)
    with as_host("two"):
        claimed = things.object(things.waiting, cpuset=rows.CPUSET).save_claim("two", permit=permit)
    assert claimed.generation == compute_nodes.find("two")["generation"]
    assert containers.get(things.waiting)["host"] == "two"


PERMITS = {
    "none": lambda it: None,
    "malformed": lambda it: "é",
    "of-another-container": lambda it: Permits().permit("two", it.container),
    "of-another-host": lambda it: Permits().permit("one", it.waiting),
}


@pytest.mark.parametrize("permit", PERMITS.values(), ids=PERMITS)
def test_a_claim_that_no_scheduler_sent_is_refused(permit, things, as_host, caplog):
    """The host even knows the uuid."""
    made, wrong = things.object(things.waiting, cpuset=rows.CPUSET), permit(things)
    before = dump()
    with as_host("two"), pytest.raises(exceptions.ContainerNotFound):
        made.save_claim("two", permit=wrong)
    assert f"Refused host two Container.save_claim: no scheduler sent container {things.waiting} there" in caplog.text
    with as_host("two"), pytest.raises(exceptions.ContainerNotFound):
        Container.get_by_uuid(CONTEXT, things.waiting)
    after = dump()
    assert {name for name, found in after.items() if found != before[name]} <= {"service_keys"}


@pytest.fixture
def given_up(things):
    """The container when its creation has failed: in Error without a host, with an open step of another request."""
    container_actions.start(things.container, "stop", request_id="req-2", user_id="u", project_id="demo")
    things.step = container_actions.start_event(things.container, "req-2", "stop", "compute__do_container_stop")
    containers.update(things.container, {"status": "Error", "host": None})
    return things


def test_a_host_ends_what_it_was_asked(given_up, as_host):
    """The message came when the container was given up. Its host only knows the request."""
    with as_host("two"):
        step = ContainerActionEvent.start(admin_context("req-2"), given_up.container, "stop", "e")
        ContainerActionEvent.finish(admin_context("req-2"), step, "Error", "too late", True)
    action, steps = container_actions.find(given_up.container, "req-2")
    assert (action["message"], [each["result"] for each in steps]) == ("Error", ["Error", "Error"])


FORGED = {
    "start": lambda it: ContainerActionEvent.start(CONTEXT, it.container, "stop", "e"),
    "start-waiting": lambda it: ContainerActionEvent.start(admin_context("req-3"), it.waiting, "create", "e"),
    "finish": lambda it: ContainerActionEvent.finish(CONTEXT, it.step, "Success", None, True),
    "go_on": lambda it: ContainerActionEvent.go_on(admin_context("req-2"), it.step, "e"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_no_host_writes_records_of_a_container_without_one(forge, given_up, as_host):
    """The ids of steps are numbers in a row. The id of a request is a secret."""
    container_actions.start(given_up.waiting, "create", request_id="req-3", user_id="u", project_id="other")
    before = dump()
    for host in ("one", "two"):
        with as_host(host), pytest.raises(exceptions.Forbidden):
            forge(given_up)
    assert dump() == before


def test_no_host_ends_what_was_asked_of_a_container_without_one(given_up, as_host):
    before = dump()
    with as_host("one"):
        assert ContainerActionEvent.end_lost(CONTEXT, "one", LATER) == []
    assert dump() == before


def test_a_moment_in_the_future_ends_nothing_of_now(things, as_host, monkeypatch):
    containers.update(things.container, {"status": "Running"})
    soon = timeutils.utcnow() + datetime.timedelta(seconds=60)
    with monkeypatch.context() as patch:
        patch.setattr(timeutils, "utcnow", lambda: soon)
        container_actions.start(things.container, "stop", request_id="req-2", user_id="u", project_id="demo")
    with as_host("one"):
        ended = ContainerActionEvent.end_lost(CONTEXT, "one", LATER)
    assert [each["request_id"] for each in ended] == ["req-1"]


def test_a_host_needs_no_key_for_a_pull(things, as_host):
    container = things.object()
    with as_host("one"):
        source = Accounts(None, None).source(CONTEXT, container)
    assert source.auth == RegistryAuth("u", PASSWORD)


def test_a_secret_is_told_during_a_pull_only(things, as_host):
    containers.update(things.container, {"status": "Running"})
    with as_host("one"), pytest.raises(exceptions.RegistryNotFound):
        Registry.get_by_uuid(CONTEXT, things.registry)


@pytest.mark.parametrize("status", ["Rebuilding", "Rebuilding ", "Creating", "Creating ", "x"])
def test_a_host_begins_no_pull(status, things, as_host, caplog):
    containers.update(things.container, {"status": "Running"})
    with as_host("one"):
        things.object(task_state="container_rebuilding").save()
        for save in (Container.save, Container.save_healing):
            with pytest.raises(exceptions.ZunError):
                save(things.object(status=status), only_from=["Running"])
        with pytest.raises(exceptions.RegistryNotFound):
            Registry.get_by_uuid(CONTEXT, things.registry)
    assert f"Refused host one Registry.get_by_uuid: no pull with registry {things.registry} is under way" in caplog.text
    assert containers.get(things.container)["status"] == "Running"


@pytest.mark.parametrize("begins", ["user", "auto_heal"])
def test_a_host_pulls_for_a_rebuild(begins, things, as_host):
    """That a user asked for, or of a container that its host says is gone."""
    values = {"auto_heal": True, "status": "Running"} if begins == "auto_heal" else {"status": "Running"}
    containers.update(things.container, values)
    if begins == "user":
        things.object(status="Rebuilding").save()
    with as_host("one"):
        if begins == "auto_heal":
            things.object(status="Rebuilding").save_healing(["Running"])
        assert Registry.get_by_uuid(CONTEXT, things.registry).password == PASSWORD


def test_a_password_of_another_key_is_named(things, as_host, conductor):
    conductor._cipher = Cipher(["x" * 32])
    with as_host("one"), pytest.raises(exceptions.Conflict, match="cannot be read with the keys"):
        Registry.get_by_uuid(CONTEXT, things.registry)


def test_rows_are_restored_only_when_the_operator_says_so(things, as_host, conductor):
    conductor._facts = Facts()
    with as_host("one"), pytest.raises(exceptions.Forbidden, match="accept_restored is off"):
        things.restored().restore()


@pytest.mark.parametrize("call", CALLS, ids=names(CALLS))
def test_a_call_that_is_sent_again_does_no_more(call, things, transport, conductor, as_host, monkeypatch):
    """The first conductor does the call and dies before its answer: the next one gets it again."""
    with as_host("one", timeout=20, sign=1):
        monkeypatch.setattr(conductor_api, "PAUSE_SECONDS", (0, 0))
        api, lost = ZunObject.indirection_api, []
        real = api._client.call

        def call_and_lose(context, message, **arguments):
            answer = real(context, message, **arguments)
            if not lost:
                lost.append((answer, dump()))
                raise exceptions.HostUnavailable(host="zun-conductor")
            return answer

        monkeypatch.setattr(api._client, "call", call_and_lose)
        with contextlib.suppress(exceptions.ContainerAlreadyExists):  # restore: the row is there
            CALLS[call](things)
    assert lost, "the answer was lost"
    first, second = lost[0][1], dump()
    assert {name: len(found) for name, found in second.items()} == {
        name: len(found) + (call == ("ConsoleToken", "issue") and name == "console_tokens")
        for name, found in first.items()
    }
    if call[0] == "Container":
        written = ([{**row._asdict(), "revision": None} for row in found["containers"]] for found in (second, first))
        assert next(written) == next(written)  # the same values, written once more


def test_no_conductor_is_an_outage_of_the_database(things, transport, monkeypatch):
    monkeypatch.setattr(ZunObject, "indirection_api", ConductorAPI(transport, "one", timeout=0.1), raising=False)
    with pytest.raises(db_exc.DBConnectionError, match=r"No zun-conductor answers to ComputeNode\.topology"):
        ComputeNode.topology(CONTEXT, "one")


def test_the_log_names_zun_conductor_and_nobody_else(things, as_host, monkeypatch):
    """oslo.log adds the text of an exception that is being handled, and that one is about zun-compute."""
    monkeypatch.setattr(conductor_api, "PAUSE_SECONDS", (0, 0))
    lines, handler, log = [], logging.Handler(), logging.getLogger(conductor_api.__name__)
    handler.emit = lambda record: lines.append((record.getMessage(), sys.exc_info()[0]))
    log.addHandler(handler)
    with as_host("one"):
        real, outage = ZunObject.indirection_api._client.call, [exceptions.HostUnavailable(host="zun-conductor")]

        def lose_the_first(context, message, **arguments):
            if outage:
                raise outage.pop()
            return real(context, message, **arguments)

        monkeypatch.setattr(ZunObject.indirection_api._client, "call", lose_the_first)
        try:
            ComputeNode.pool_use(CONTEXT, "one")
        finally:
            log.removeHandler(handler)
    assert lines == [("No zun-conductor answers to ComputeNode.pool_use; asking again. Check that one runs.", None)]


def test_the_end_of_its_members_leaves_a_capsule_to_be_saved(things, as_host):
    """Else a capsule that cannot be made stayed in Creating, and its host tried again for ever."""
    with as_host("one"):
        capsule = things.object(status="Error", status_reason="broken")
        capsule.end_members("broken")
        capsule.save()
    assert containers.get(things.container)["status_reason"] == "broken"


def test_pool_use_arrives_as_it_was_sent(things, as_host):
    with as_host("one"):
        assert ComputeNode.pool_use(CONTEXT, "one") == PoolUse()


def test_an_outage_over_there_is_one_here(things, as_host, conductor):
    def away(uuid):
        raise db_exc.DBConnectionError(Exception("gone"))

    conductor._facts = Facts(container=away)
    with as_host("one"), pytest.raises(db_exc.DBConnectionError, match="gone"):
        Container.get_by_uuid(CONTEXT, things.container)
