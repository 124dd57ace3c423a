# SPDX-License-Identifier: Apache-2.0
"""Hosts without a database: two zun-compute that reach it through two zun-conductor, over RabbitMQ and MariaDB.

The hosts have the in-memory driver and know no URL of the database.
"""

import concurrent.futures
import itertools
import types
import uuid

import pytest
from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.secrets import Cipher
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.db import conductor, containers, migration, registries, session
from zun.messaging import rpc
from zun.messaging.conductor_api import ConductorAPI
from zun.objects import Container
from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, free_port
from zun.tests.unit.db import rows

pytestmark = pytest.mark.distributed

ROUND = 40
MOST_KILLS = 4


@pytest.fixture
def cloud(program, rabbit_url, database_url):
    name, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    quorum = {"oslo_messaging_rabbit": {"rabbit_quorum_queue": "true", "heartbeat_timeout_threshold": 10}}
    common = {"database": {"connection": database_url}, **quorum}

    def default(host):
        return {"host": host, "transport_url": rabbit_url, "control_exchange": name}

    code, said = program("db_manage", words=("upgrade",), DEFAULT=default(name), **common).run_to_end()
    assert code == 0, said
    # The first has a host's name, as where one machine is controller and host.
    conductors = [program("conductor", f"c-{host}", DEFAULT=default(host), **common) for host in (f"{name}-a", name)]
    computes = {
        host: program(
            "compute",
            host,
            DEFAULT=default(host),
            compute={
                "database": "conductor",
                "container_driver": "fake",
                "reserved_host_memory_mb": 128,
                "cpu_allocation_ratio": 1000,
            },
            **quorum,
        )
        for host in (f"{name}-a", f"{name}-b.example.com")
    }
    scheduler = program("scheduler", DEFAULT=default(name), scheduler={"sweep_interval": 1, "lost_after": 5}, **common)
    server = program("api", DEFAULT=default(name), api={"port": port, "auth_strategy": "noauth"}, **common)
    programs = (*conductors, scheduler, *computes.values(), server)
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as threads:  # agents wait for a conductor
        list(threads.map(lambda each: each.start(), programs))
    api = Api(f"http://127.0.0.1:{port}/v1")
    return types.SimpleNamespace(
        api=api, conductors=conductors, computes=computes, scheduler=scheduler, url=rabbit_url, exchange=name
    )


def run_many(cloud):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda _: cloud.api.run(cpu=0.1, memory=8), range(ROUND)))


def test_killed_conductors_lose_nothing(cloud):
    """Each conductor is killed while containers are made, until a kill has met a call on its way."""
    api, made = cloud.api, []

    def sent_again():
        return sum(each.log.read_text().count("asking again") for each in cloud.computes.values())

    for number, victim in enumerate(itertools.islice(itertools.cycle(cloud.conductors), MOST_KILLS)):
        if number >= len(cloud.conductors) and sent_again():
            break
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            asked = threads.submit(run_many, cloud)
            before = len(made)
            wait_for(lambda before=before: len(api.get("/containers")["containers"]) > before + 5, 60)
            victim.kill()
            made += asked.result()
        shown = [api.settled(each) for each in made]
        victim.start()
    claims = [(host, claim["container"]) for host, claims in api.held().items() for claim in claims]
    assert sorted(claims) == sorted((each["host"], each["uuid"]) for each in shown)
    print(f"{len(made)} requests, {len(shown)} rows, {len(claims)} claims, {sent_again()} calls sent again")
    assert sent_again() > 0
    assert [each["status"] for each in shown] == ["Running"] * len(made)
    assert {each["host"] for each in shown} == set(cloud.computes)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        deleted = threads.submit(api.delete_all)
        wait_for(lambda: len(api.get("/containers")["containers"]) < len(made) - 5, 60)
        cloud.conductors[1].kill()
        deleted.result()
    assert list(api.held().values()) == [[], []]
    services = {each["binary"]: each["state"] for each in api.get("/services")["services"]}
    assert services["zun-conductor"] == "up"


def test_a_stolen_host_reaches_its_own_rows_only(cloud, oslo_client):
    """A probe with the broker's account of one host, which sends as that host."""
    api, (mine, other) = cloud.api, cloud.computes
    theirs = api.settled(api.run(cpu=0.1, memory=8, host=other))
    own = api.settled(api.run(cpu=0.1, memory=8, host=mine))
    assert {theirs["status"], own["status"]} == {"Running"}
    context = admin_context()
    thief = ConductorAPI(oslo_client, mine, timeout=20)

    def ask(name, function, *arguments):
        return thief.object_class_action_versions(context, name, function, {}, arguments, {})

    stolen = ask("Container", "get_by_uuid", own["uuid"])
    assert stolen.host == mine
    with pytest.raises(exceptions.ContainerNotFound):
        ask("Container", "get_by_uuid", theirs["uuid"])
    with pytest.raises(exceptions.Forbidden, match=f"of host {mine}: hostname is {other}"):
        ask("Container", "list_by_host", other)
    cloud.scheduler.stop()
    waiting = Api(api.url, "theirs").run(cpu=0.1, memory=8)
    claimed = Container(context, uuid=waiting)
    claimed.obj_reset_changes()
    with pytest.raises(exceptions.ContainerNotFound):
        thief.object_action(context, claimed, "save_claim", (mine,), {})
    cloud.scheduler.start()
    assert Api(api.url, "theirs").settled(waiting)["status"] == "Running"
    logs = "".join(each.log.read_text() for each in cloud.conductors)
    assert f"Refused host {mine} Container.get_by_uuid: container {theirs['uuid']} is on host {other}" in logs
    assert f"Refused host {mine} Container.save_claim: no scheduler sent container {waiting} there" in logs


@pytest.fixture
def oslo_client(cloud):
    rpc.register_opts(cfg.CONF)
    cfg.CONF.set_override("control_exchange", cloud.exchange)
    cfg.CONF.set_override("rabbit_quorum_queue", True, group="oslo_messaging_rabbit")
    transport = rpc.get_transport(cfg.CONF, cloud.url)
    yield transport
    transport.cleanup()
    cfg.CONF.clear_override("control_exchange")
    cfg.CONF.clear_override("rabbit_quorum_queue", group="oslo_messaging_rabbit")


@pytest.fixture
def mariadb(database_url):
    session.configure(database_url)
    migration.upgrade()
    yield
    session.dispose()


def test_a_number_is_no_uuid_on_mariadb(mariadb, caplog):
    """There 0 equals each uuid that begins with a letter: the rules alone would find that the rows are the host's."""
    cipher, registry = Cipher(["k" * 32]), f"a{str(uuid.uuid4())[1:]}"
    secret = cipher.encrypt("s3cret", (registry, "theirs", "example.com", "u"))
    registries.insert(
        {"uuid": registry, "project_id": "theirs", "domain": "example.com", "username": "u", "password": secret}
    )
    theirs = rows.container(uuid=f"b{str(uuid.uuid4())[1:]}", environment={"KEY": "theirs"})["uuid"]
    rows.container(host="mine", registry_id=registry)
    assert (registries.get(0)["uuid"], conductor.pulls_with("mine", 0)) == (registry, True)
    assert theirs in [each["uuid"] for each in containers.of_uuids([0])]
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{uuid.uuid4()}")
    endpoint = ConductorEndpoint(Facts(), cipher)
    server = rpc.get_server(transport, rpc.CONDUCTORS_TOPIC, "/c1", [endpoint], 1, addressed=True)
    server.start()
    try:
        thief = ConductorAPI(transport, "mine")
        for name, method, argument in [
            ("Registry", "get_by_uuid", 0),
            ("Container", "get_by_uuid", 0),
            ("Container", "list_by_uuids", [0]),
            ("Container", "list_by_capsule", 0),
            ("NetworkPort", "known", [0]),
            ("NetworkPort", "recorded", 0),
        ]:
            with pytest.raises(exceptions.Forbidden, match="must be"):
                thief.object_class_action_versions(admin_context(), name, method, {}, (argument,), {})
            assert f"Refused host mine {name}.{method}: " in caplog.text
    finally:
        server.stop()
        server.wait()
