# SPDX-License-Identifier: Apache-2.0
"""The API behind a real keystone: real tokens, the catalogue, and the stock client with a password."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import types
import uuid

import kombu
import pytest
import requests
from keystoneauth1 import session as ksa_session
from keystoneauth1.identity import v3
from keystoneclient.v3 import client as keystone_client
from oslo_config import cfg

from zun import conf as zun_conf
from zun.api import app as api_app
from zun.api.controllers.v1 import Dependencies
from zun.api.settings import Settings
from zun.db import compute_nodes, quotas, services
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.api import who_may
from zun.tests.functional.api.client import Client as WsgiClient
from zun.tests.functional.api.conftest import inventory
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages
from zun.tests.integration.programs import Client, TokenApi, free_port


@pytest.fixture
def cached():
    """Settings beside the usual ones."""
    return {}


@pytest.fixture
def guarded(database, keystone, tmp_path, cached):
    """The application in this process: ``client`` as of the functional tests, ``routes`` and messages that end here."""
    file = tmp_path / "zun.conf"
    lines = [f"{name} = {value}\n" for name, value in {**keystone.settings(), **cached}.items()]
    unlimited = "".join(f"{name} = -1\n" for name in quotas.RESOURCES)  # one project makes what all cases ask for
    file.write_text("[keystone_authtoken]\n" + "".join(lines) + "[quota]\n" + unlimited)
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    scheduler, compute = SchedulerMessages(), ComputeMessages()
    application = api_app.build(conf, scheduler_api=scheduler, compute_api=compute)
    dependencies = Dependencies(scheduler_api=None, compute_api=None, settings=Settings.from_conf(conf))
    services.heartbeat(who_may.HOST, "zun-compute", "nova")
    compute_nodes.put(who_may.HOST, inventory())
    return types.SimpleNamespace(
        client=WsgiClient(application),
        routes=who_may.routes(dependencies),
        sent=lambda: [*scheduler.sent, *compute.sent],
    )


@pytest.fixture
def container(keystone, context):
    """Makes containers of the project whose member and reader there are."""
    context.project_id = keystone.projects["demo"].id
    return lambda status="Running", **fields: new_container(context, status=status, host=who_may.HOST, **fields)


TOKEN_CACHE = pytest.mark.parametrize("cached", [{"token_cache_time": "300"}], ids=["cached"])


@TOKEN_CACHE
def test_who_may_with_real_tokens(guarded, keystone, container):
    """The table of the functional tests, route by route, with tokens that a real keystone gave and checks."""
    assert guarded.routes.keys() == who_may.CASES.keys()
    tokens = {who: {"X-Auth-Token": keystone.token(who)} for who in who_may.PEOPLE}
    wrong = []
    for name, cases in who_may.CASES.items():
        for case in cases:
            for who, expected in zip(who_may.PEOPLE, case.answers, strict=True):

                def ask(method, path, headers, proof=tokens[who], **kwargs):
                    return guarded.client.send(method, path, headers={**headers, **proof}, **kwargs)

                reply = who_may.send(ask, guarded.routes[name], case, container(case.status, interactive=True).uuid)
                if reply.status != expected:
                    wrong.append((who, name, case, reply.status))
    assert wrong == []


@TOKEN_CACHE
@pytest.mark.parametrize(
    "proof",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"X-Project-Id": "demo", "X-Roles": "admin", "X-Identity-Status": "Confirmed"}, id="forged"),
    ],
)
def test_nobody_in_particular(guarded, keystone, container, proof):
    for name, cases in who_may.CASES.items():

        def ask(method, path, headers, **kwargs):
            return guarded.client.send(method, path, headers={**headers, **proof}, **kwargs)

        reply = who_may.send(ask, guarded.routes[name], cases[0], container(cases[0].status).uuid)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, f'Keystone uri="{keystone.url}"'), name
    assert guarded.sent() == []


def status(guarded, token, **headers):
    return guarded.client.get("/v1/containers", headers={"X-Auth-Token": token, **headers}).status


def _now():
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def test_an_invented_token(guarded):
    assert status(guarded, "gAAAAABinvented") == 401


def test_a_revoked_token(guarded, keystone):
    token = keystone.token("member")
    assert status(guarded, token) == 200
    keystone.admin.tokens.revoke_token(token)
    assert status(guarded, token) == 401


def test_a_disabled_user(guarded, keystone):
    leaver = keystone.user("leaver", "demo", "member")
    token = str(ksa_session.Session(keystone.auth("leaver", "demo")).get_token())
    assert status(guarded, token) == 200
    keystone.admin.users.update(leaver, enabled=False)
    assert status(guarded, token) == 401


def test_an_expired_token_passes_only_beside_a_service_token(guarded, keystone):
    """The token ends with the application credential it was made with."""
    mine = keystone_client.Client(session=ksa_session.Session(keystone.auth("member", "demo")), interface="public")
    # In whole seconds, as keystone counts; as many as a busy machine needs to make a token and show it.
    ends = _now().replace(microsecond=0) + datetime.timedelta(seconds=20)
    credential = mine.application_credentials.create(
        uuid.uuid4().hex, user=keystone.users["member"].id, expires_at=ends
    )
    try:
        plugin = v3.ApplicationCredential(
            keystone.url, application_credential_id=credential.id, application_credential_secret=credential.secret
        )
        token = str(ksa_session.Session(plugin).get_token())
        assert status(guarded, token) == 200
        wait_for(lambda: status(guarded, token) == 401, 90)
        assert _now() >= ends
        assert status(guarded, token, **{"X-Service-Token": keystone.token("admin")}) == 401
        service = str(ksa_session.Session(keystone.auth("zun", "service")).get_token())
        assert status(guarded, token, **{"X-Service-Token": service}) == 200
    finally:  # SQLite would give its id, and what is left of its roles, to the next one
        mine.application_credentials.delete(credential)


def test_a_token_for_no_project(guarded, keystone):
    name = keystone.named("member")
    plugin = v3.Password(keystone.url, username=name, password=name, user_domain_id="default", unscoped=True)
    assert status(guarded, str(ksa_session.Session(plugin).get_token())) == 403


def test_a_token_for_the_system(guarded, keystone):
    ruler = keystone.user("ruler")
    keystone.admin.roles.grant(keystone.roles["admin"], user=ruler, system="all")
    name = keystone.named("ruler")
    plugin = v3.Password(keystone.url, username=name, password=name, user_domain_id="default", system_scope="all")
    assert status(guarded, str(ksa_session.Session(plugin).get_token())) == 403


@pytest.fixture
def audited(rabbit_url):
    """The exchange of audit events at a real RabbitMQ: its name, and what came there since the test began."""
    name, events = f"audit-{uuid.uuid4().hex[:8]}", []
    with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
        exchange = kombu.Exchange(name, "topic", durable=False)
        queue = kombu.Queue("", exchange, f"{name}.info", exclusive=True)(connection.channel())
        queue.declare()

        def heard():
            while (message := queue.get(no_ack=True)) is not None:
                event = json.loads(message.payload["oslo.message"])
                if event["event_type"] == "audit.http.response":
                    events.append(event["payload"])
            return events

        yield types.SimpleNamespace(name=name, url=rabbit_url, heard=heard)
        exchange(connection.channel()).delete()


@pytest.fixture
def allinone(program, tmp_path, keystone, audited):
    """The all-in-one with runtimes in memory, asked for by the catalogue alone. Gives clients by person."""
    port = free_port()
    made = program(
        "allinone",
        DEFAULT={"state_path": tmp_path / "state", "host": "test", "control_exchange": audited.name},
        api={"port": port, "auth_strategy": "keystone"},
        keystone_authtoken=keystone.settings(),
        compute={"container_driver": "fake", "reserved_host_memory_mb": 128},
        audit={"enabled": "true"},
        audit_middleware_notifications={"driver": "messagingv2", "topics": audited.name, "transport_url": audited.url},
    )
    made.start()
    made.url = f"http://127.0.0.1:{port}/v1"
    keystone.publish(made.url)
    yield made
    made.stop()


def test_cadf_events_of_real_tokens(allinone, keystone, audited):
    """Who did what to which container, with which outcome: over RabbitMQ, without secrets."""
    token = keystone.token("member")
    member, reader = TokenApi(allinone.url, token), TokenApi(allinone.url, keystone.token("reader"))
    web = member.run(image="busybox", interactive=True, tty=True, environment={"PASSWORD": "s3cret"})
    member.settled(web)
    done = []
    for who, api, method, path, status in (
        ("member", member, "POST", "/execute?command=echo%20s3cret", 200),
        ("member", member, "GET", "/attach", 200),
        ("member", member, "POST", "/put_archive?path=/s3cret", 200),
        ("member", member, "GET", "/get_archive?path=/s3cret", 200),
        ("reader", reader, "POST", "/kill", 403),
        ("member", member, "DELETE", "?force=true", 403),
        ("member", member, "DELETE", "?stop=true", 204),
    ):
        data = {"data": "czNjcmV0"} if "put_archive" in path else None
        answer = api.request(method, f"/containers/{web}{path}", json=data)
        assert answer.status_code == status, answer.text
        done.append((who, status, answer.headers["X-Openstack-Request-Id"]))
    wait_for(lambda: [each for each in audited.heard() if each["reason"]["reasonCode"] == "204"])
    changes = [each for each in audited.heard() if each["action"] not in ("read", "read/list")]
    assert [(each["action"], each["outcome"], each["reason"]["reasonCode"]) for each in changes] == [
        ("create", "success", "202"),
        ("update/execute", "success", "200"),
        ("update/attach", "success", "200"),
        ("update/put_archive", "success", "200"),
        ("read/get_archive", "success", "200"),
        ("update/kill", "failure", "403"),
        ("delete", "failure", "403"),
        ("delete", "success", "204"),
    ]
    assert {each["target"]["id"] for each in changes} == {web}
    project = keystone.projects["demo"].id
    for (who, status, request_id), event in zip(done, changes[1:], strict=True):
        initiator = event["initiator"]
        told = (initiator["id"], initiator["project_id"], initiator["name"], initiator["request_id"])
        assert told == (keystone.users[who].id, project, keystone.named(who), request_id), status
    host = TokenApi(allinone.url, str(ksa_session.Session(keystone.auth("zun", "service")).get_token()))
    for method, path in (
        ("GET", "containers"),
        ("POST", "containers"),
        ("GET", "hosts"),
        ("DELETE", f"containers/{web}"),
    ):
        answer = host.request(method, f"/{path}", json={"image": "busybox"} if method == "POST" else None)
        assert answer.status_code in (403, 404), answer.text  # the role "service" is for Placement and Neutron
    text = json.dumps(audited.heard())
    assert not [secret for secret in ("s3cret", "czNjcmV0", token) if secret in text]


def test_the_stock_client_with_a_password(allinone, keystone):
    member, reader, stranger, admin = (
        Client(None, keystone.environment(who)) for who in ("member", "reader", "stranger", "admin")
    )
    uuid_ = json.loads(member("appcontainer", "run", "-f", "json", "--name", "web", "busybox", "sleep", "9"))["uuid"]
    assert reader.json("appcontainer", "show", "web")["project_id"] == keystone.projects["demo"].id
    assert "container:delete" in reader("appcontainer", "delete", "--force", "web", fails=True)
    assert "zun-service:get_all" in member("appcontainer", "service", "list", fails=True)
    assert "could not be found" in stranger("appcontainer", "show", uuid_, fails=True)
    assert [row["uuid"] for row in admin.json("appcontainer", "list", "--all-projects")] == [uuid_]
    member("appcontainer", "delete", "--stop", "web")
    wait_for(lambda: member.json("appcontainer", "list") == [], 60)


def test_under_gunicorn(program, tmp_path, keystone):
    """The module for WSGI servers, which finds its configuration in the environment."""
    connection = {"connection": f"sqlite:///{tmp_path}/zun.sqlite"}
    code, said = program("db_manage", words=("upgrade",), database=connection).run_to_end()
    assert code == 0, said
    lines = [f"{name} = {value}" for name, value in keystone.settings().items()]
    text = ["[DEFAULT]", "transport_url = inproc:///", "[database]", *[f"connection = {connection['connection']}"]]
    (tmp_path / "api.conf").write_text("\n".join([*text, "[keystone_authtoken]", *lines]) + "\n")
    port = free_port()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--worker-class", "gthread"),
            *("--threads", "4", "--no-control-socket", "zun.wsgi.api:application"),
        ],
        env={**os.environ, "ZUN_CONFIG_FILES": str(tmp_path / "api.conf")},
        stdin=subprocess.DEVNULL,
        stdout=(log := (tmp_path / "gunicorn.log").open("wb")),
        stderr=log,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: server.poll() is not None or _answers(url), 60)
        assert server.poll() is None, pathlib.Path(log.name).read_text()
        member, admin = ({"X-Auth-Token": keystone.token(who)} for who in ("member", "admin"))
        assert requests.get(f"{url}/v1/containers", timeout=60).status_code == 401
        listed = requests.get(f"{url}/v1/containers", headers=member, timeout=60).json()
        assert listed == {"containers": [], "next": None}
        assert requests.get(f"{url}/v1/services", headers=member, timeout=60).status_code == 403
        assert requests.get(f"{url}/v1/services", headers=admin, timeout=60).json() == {"services": []}
    finally:
        server.terminate()
        server.wait(60)
        log.close()


def _answers(url):
    try:
        return requests.get(f"{url}/healthcheck", timeout=60).ok
    except requests.ConnectionError:
        return False
