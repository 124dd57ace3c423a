# SPDX-License-Identifier: Apache-2.0
"""Every route, for everybody, as the table in ``who_may`` has it."""

import bcrypt
import pytest

from zun.api import app as api_app
from zun.api.controllers.v1 import Dependencies
from zun.api.settings import Settings
from zun.tests.functional.api import who_may
from zun.tests.functional.api.client import Client, basic

HOST, HOST_USER = "host", ("service", "service")
"""The user in a host's zun.conf, with its project and its only role."""


@pytest.fixture
def routes(configuration):
    settings = Settings.from_conf(configuration)
    return who_may.routes(Dependencies(scheduler_api=None, compute_api=None, settings=settings))


@pytest.fixture
def guarded(database, configuration, scheduler, compute, tmp_path):
    """The application with the passwords of all; each is the name."""
    users, projects = tmp_path / "htpasswd", tmp_path / "projects"
    people = {who: (who_may.PROJECTS[who], who_may.ROLES[who]) for who in who_may.PEOPLE} | {HOST: HOST_USER}
    hashes = {who: bcrypt.hashpw(who.encode(), bcrypt.gensalt(4)).decode() for who in people}
    users.write_text("".join(f"{who}:{hashed}\n" for who, hashed in hashes.items()))
    projects.write_text("".join(f"{who}:{project}:{role}\n" for who, (project, role) in people.items()))
    configuration.set_override("auth_strategy", "http_basic", group="api")
    configuration.set_override("http_basic_user_file", str(users), group="api")
    configuration.set_override("http_basic_project_file", str(projects), group="api")
    for resource in ("containers", "cpu"):  # who may is not how much
        configuration.set_override(resource, -1, group="quota")
    return Client(api_app.build(configuration, scheduler_api=scheduler, compute_api=compute))


def person(client, who):
    def ask(method, path, headers, **kwargs):
        return client.send(method, path, headers={**headers, **basic(who, who)}, **kwargs)

    return ask


def test_every_route_is_in_the_table(routes):
    assert routes.keys() == who_may.CASES.keys()


@pytest.mark.parametrize("name", who_may.CASES)
def test_who_may(guarded, routes, placed, host_up, host_row, scheduler, compute, name):
    for case in who_may.CASES[name]:
        answers = {}
        for who in who_may.PEOPLE:
            container = placed(case.status, interactive=True)
            before = len(scheduler.sent), len(compute.sent)
            reply = who_may.send(person(guarded, who), routes[name], case, container.uuid)
            answers[who] = reply.status
            if reply.status >= 400:
                assert (len(scheduler.sent), len(compute.sent)) == before, f"{who} was refused and it was done"
            if who == "stranger":
                assert container.uuid not in reply.body.decode().replace(f"Container {container.uuid} could not", "")
                assert container.name not in reply.body.decode()
        assert answers == dict(zip(who_may.PEOPLE, case.answers, strict=True)), case


@pytest.mark.parametrize("name", who_may.CASES)
def test_nobody_in_particular(guarded, routes, placed, host_up, host_row, scheduler, compute, name):
    """Nor does a wrong password help, or saying who one is in the headers of keystone's middleware."""
    forged = {"X-User-Id": "admin", "X-Project-Id": "demo", "X-Roles": "admin", "X-Identity-Status": "Confirmed"}
    for proof in ({}, basic("admin", "guess"), forged):

        def ask(method, path, headers, proof=proof, **kwargs):
            return guarded.send(method, path, headers={**headers, **proof}, **kwargs)

        reply = who_may.send(ask, routes[name], who_may.CASES[name][0], placed(who_may.CASES[name][0].status).uuid)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="zun", charset="UTF-8"')
        assert reply.json["error"]["code"] == 401
    assert (scheduler.sent, compute.sent) == ([], [])


def test_a_name_of_another_project_is_no_name(guarded, placed):
    theirs = placed(name="web")
    ask = person(guarded, "stranger")
    by_name, by_uuid, nothing = (
        ask("GET", f"/v1/containers/{ident}", {}).status for ident in ("web", theirs.uuid, "nothing")
    )
    assert (by_name, by_uuid, nothing) == (404, 404, 404)


def test_a_refusal_is_logged_with_who_and_what_and_no_password(guarded, placed, caplog):
    caplog.set_level("INFO")
    container = placed("Stopped")
    assert person(guarded, "reader")("DELETE", f"/v1/containers/{container.uuid}", {}).status == 403
    assert guarded.get("/v1/containers", headers=basic("member", "the-wrong-secret")).status == 401
    records = [each for each in caplog.records if each.name.startswith("zun.") and each.name != "zun.access"]
    said = "\n".join(record.getMessage() for record in records)
    assert said.splitlines() == [
        "Refused container:delete to user reader of project demo with roles reader, on what project demo owns",
        "Refused the password of user member from 127.0.0.1",
    ]
    for secret in ("the-wrong-secret", basic("member", "the-wrong-secret")["Authorization"].split()[1]):
        assert secret not in caplog.text


@pytest.mark.parametrize("name", who_may.CASES)
def test_the_user_of_a_host_enters_nowhere(guarded, routes, placed, host_up, host_row, scheduler, compute, name):
    """Whoever takes a host over has its user, whose role is for Placement and Neutron."""
    for case in who_may.CASES[name]:
        reply = who_may.send(person(guarded, HOST), routes[name], case, placed(case.status, interactive=True).uuid)
        assert reply.status == 403 or reply.status == case.answers[0] >= 400, case  # as a stranger is refused
    assert (scheduler.sent, compute.sent) == ([], [])
