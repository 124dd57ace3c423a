# SPDX-License-Identifier: Apache-2.0
"""A name means a thing of the own project, for administrators too. An administrator's uuid means a thing of any."""

from typing import Any

import pytest
from oslo_utils import uuidutils

from zun.api import microversion
from zun.api.controllers.v1 import Dependencies
from zun.api.settings import Settings
from zun.common.subnets import Pool
from zun.db import capsules, container_actions, groups, network_ports, networks, registries
from zun.tests.functional.api import who_may
from zun.tests.functional.api.client import Reply

POOL = Pool("10.224.0.0/12", 24)

# Kind of thing that belongs to a project -> the variable of its routes, which is a uuid or a name.
OWNED = {"containers": "ident", "capsules": "capsule", "groups": "group", "registries": "ident", "networks": "network"}
KEYS = [key for key in who_may.CASES if f"{{{OWNED.get(key.split()[1].split('/')[0])}}}" in key]


@pytest.fixture
def make(placed):
    """Add a thing of a kind, a project and a name. Returns its uuid."""

    def made(kind: str, project_id: str, name: str, **more: Any) -> str:
        owned = {"project_id": project_id, "user_id": None, "name": name, **more}
        match kind:
            case "containers":
                uuid = placed("Stopped", **owned).uuid
                container_actions.start(uuid, "stop", request_id="req-1", user_id=None, project_id=project_id)
                return str(uuid)
            case "capsules":
                row = capsules.insert({**who_may.CAPSULE_ROW, **owned, "uuid": uuidutils.generate_uuid()}, [])
            case "groups":
                row = groups.insert({**owned, "policy": "affinity", "rules": {}})
            case "registries":
                row = registries.insert({**owned, "domain": "d"})
            case _:
                row = networks.insert({"shared": False, **owned}, (), POOL)
        return str(row["uuid"])

    return made


@pytest.fixture
def routes(configuration):
    settings = Settings.from_conf(configuration)
    return who_may.routes(Dependencies(scheduler_api=None, compute_api=None, settings=settings))


@pytest.fixture
def ask(admin_api, routes, make):
    """Send the administrator's request ``METHOD path`` about the thing that is called ``ident``."""

    def asked(key: str, ident: str, query: str = "") -> Reply:
        route, case = routes[key], who_may.CASES[key][0]
        names = {"request_id": "req-1", "network": uuidutils.generate_uuid()}
        names[OWNED[route.path.split("/")[0]]] = ident
        queries = [each for each in (case.query.format(**names), query) if each]
        body = {} if case.body is None else {"body": case.body}
        path = f"/v1/{route.path.format(**names)}?{'&'.join(queries)}"
        return admin_api.at(str(min(route.until, microversion.MAX))).send(route.method, path, **body)

    return asked


def missing(reply: Reply, ident: str) -> bool:
    return reply.status == 404 and f"{ident} could not be found" in reply.error["detail"]


def test_every_owned_kind_is_tested(routes):
    variables = {f"{{{name}}}" for name in OWNED.values()}
    assert {route.path.split("/")[0] for route in routes.values() if variables & set(route.path.split("/"))} == {*OWNED}


@pytest.mark.parametrize("key", KEYS)
def test_an_administrators_name_is_of_the_own_project(ask, make, host_up, key):
    kind = key.split()[1].split("/")[0]
    uuid = make(kind, "demo", "foreign")
    assert missing(ask(key, "foreign"), "foreign")
    assert not missing(ask(key, uuid), uuid)
    make(kind, "admin", "foreign")
    assert not missing(ask(key, "foreign"), "foreign")


@pytest.mark.parametrize("kind", ["containers", "capsules"])
def test_all_projects_reaches_a_foreign_name(ask, make, kind):
    key = f"DELETE {kind}/{{{OWNED[kind]}}}"
    make(kind, "demo", "foreign")
    assert ask(key, "foreign", "all_projects=1").status == 204
    for project_id in ("demo", "other"):
        make(kind, project_id, "common")
    assert ask(key, "common", "all_projects=1").refusal == (409, "conflict")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param({"registry": "foreign"}, "Registry foreign", id="registry"),
        pytest.param({"nets": [{"network": "foreign"}]}, "Network foreign", id="network"),
        pytest.param({"hints": {"group": "foreign"}}, "'foreign'", id="group"),
    ],
)
def test_a_body_names_things_of_the_own_project(admin_api, scheduler, make, body, said):
    for kind in ("registries", "networks", "groups"):
        make(kind, "demo", "foreign")
    reply = admin_api.at(str(microversion.MAX)).post("/v1/containers", {"image": "demo", **body})
    assert reply.status in (400, 404) and said in reply.error["detail"]
    assert scheduler.sent == []


def test_an_own_network_hides_a_shared_one_of_its_name(api, admin_api, make):
    shared = make("networks", "other", "wired", shared=True)
    clients = api.at(str(microversion.MAX))
    assert clients.get("/v1/networks/wired").json["uuid"] == shared
    own = make("networks", "demo", "wired")
    assert clients.get("/v1/networks/wired").json["uuid"] == own
    made = clients.post("/v1/containers", {"image": "demo", "nets": [{"network": "wired"}]}).json["uuid"]
    assert [port["network_uuid"] for port in network_ports.of_container(made)] == [own]


def test_a_shared_network_is_deleted_by_uuid_only(admin_api, make):
    shared = make("networks", "other", "wired", shared=True)
    assert admin_api.delete("/v1/networks/wired").refusal == (404, "network-not-found")
    assert admin_api.delete(f"/v1/networks/{shared}").status == 204
