# SPDX-License-Identifier: Apache-2.0
"""Images of containers over HTTP: making one, and asking for one."""

import dataclasses

import pytest

from zun.common import exceptions
from zun.common.states import ALLOWED, Status
from zun.db import containers as db_containers
from zun.db import images as db
from zun.db import session, volumes

HOST, ELSEWHERE = "host-1", "host-2"

pytestmark = pytest.mark.usefixtures("host_row", "host_up")


def there(uuid):
    db.update(uuid, {"image_id": "sha256:1", "size": "7"})
    return uuid


def made(repo="web", tag="1", host=HOST, project="demo"):
    return there(db.insert_committed({"project_id": project, "host": host, "repo": repo, "tag": tag})["uuid"])


@pytest.mark.parametrize("status", list(Status))
def test_only_some_statuses_allow_it(api, placed, compute, status):
    container = placed(str(status))
    reply = api.post(f"/v1/containers/{container.uuid}/commit?repository=web&tag=1")
    if status in ALLOWED["commit"]:
        uuid = reply.json["uuid"]
        assert (reply.status, reply.json) == (202, {"uuid": uuid})
        assert compute.sent == [("commit", container.uuid, {"image": uuid})]
        row = db.get(uuid)
        assert (row["project_id"], row["host"], row["repo"], row["tag"]) == ("demo", HOST, "web", "1")
        assert (row["image_id"], row["local_name"]) == (None, f"zun-commit:{uuid}")
    else:
        assert reply.refusal == (409, "invalid-state-exception")
        assert compute.sent == []


@pytest.mark.parametrize(
    ("query", "repo", "tag"),
    [
        ("repository=web", "web", "latest"),
        ("repository=reg.io:5000/team/web&tag=1.0", "reg.io:5000/team/web", "1.0"),
    ],
)
def test_a_name_is_kept_as_repository_and_tag(api, placed, query, repo, tag):
    reply = api.post(f"/v1/containers/{placed().uuid}/commit?{query}")
    row = db.get(reply.json["uuid"])
    assert (row["repo"], row["tag"]) == (repo, tag)


@pytest.mark.parametrize(
    ("query", "body", "named"),
    [
        ("", None, "repository"),
        ("repository=", None, "repository"),
        ("repository=Web", None, "repository"),
        ("repository=web:1", None, "repository"),
        ("repository=web:1&tag=2", None, "repository"),
        ("repository=web&tag=a%20b", None, "repository"),
        ("repository=web&tag=1@sha256:" + "0" * 64, None, "no digest"),
        ("repository=reg.io&tag=5000/web", None, "give the tag by itself"),
        ("repository=web@sha256:" + "0" * 64, None, "repository"),
        ("repository=web&colour=red", None, "colour"),
        ("", {"repository": "web"}, "query"),
        ("repository=web", {"tag": "1"}, "query"),
    ],
)
def test_a_bad_request_is_named_and_reaches_no_host(api, placed, compute, query, body, named):
    reply = api.post(f"/v1/containers/{placed().uuid}/commit?{query}", body)
    assert reply.refusal == (400, "schema-validation-error") and named in reply.error["detail"]
    assert compute.sent == []


@pytest.mark.parametrize("changed", [False, True], ids=["not told", "status changed"])
def test_an_image_stays_if_its_commit_is_accepted(api, placed, compute, context, monkeypatch, changed):
    """A host that cannot be told finds the commit by itself."""
    compute.failure = exceptions.Unavailable("the queue")
    container, accept = placed(), db_containers.accept

    def accept_later(*arguments, **named):
        if changed:
            db_containers.update(container.uuid, {"status": "Error"})
        accept(*arguments, **named)

    monkeypatch.setattr(db_containers, "accept", accept_later)
    assert api.post(f"/v1/containers/{container.uuid}/commit?repository=web").status == (409 if changed else 202)
    found = db.page(context, limit=10, marker=None, sort_key="id", sort_dir="asc")
    assert [each["repo"] for each in found] == ([] if changed else ["web"])


def test_the_action_is_recorded(api, placed):
    container = placed()
    reply = api.post(f"/v1/containers/{container.uuid}/commit?repository=web")
    (action,) = api.get(f"/v1/containers/{container.uuid}/container_actions").json["containerActions"]
    assert (action["action"], action["request_id"]) == ("commit", reply.headers["x-openstack-request-id"])


def asked(api, image, **fields):
    """Return the image and the host in the ``request`` of a new container of ``image``."""
    reply = api.post("/v1/containers", {"image": image, **fields})
    assert reply.status == 202, reply.json
    request = db_containers.get(reply.json["uuid"])["request"]
    return request.get("committed"), request["host"]


def test_a_container_of_it_goes_to_its_host(api, admin_api):
    uuid = made()
    assert asked(api, "web:1") == asked(api, uuid) == (uuid, HOST)
    assert asked(api, "web:2") == (None, None)
    assert asked(admin_api, "web:1") == (None, None)  # of another project
    newer = made()
    assert asked(api, "web:1") == (newer, HOST)


def test_a_registry_is_a_registry(api):
    made()
    registry = api.post("/v1/registries", {"registry": {"domain": "reg.io", "name": "reg"}})
    assert registry.status == 201
    assert asked(api.at("1.40"), "web:1", registry="reg") == (None, None)


@pytest.mark.parametrize("by", ["name", "uuid"])
def test_an_administrator_asks_for_a_host(admin_api, host_row, by):
    host = HOST if by == "name" else host_row
    here = made(project="admin")
    made("other", host=ELSEWHERE, project="admin")
    assert asked(admin_api, "web:1", host=host) == (here, HOST)
    reply = admin_api.post("/v1/containers", {"image": "other:1", "host": host})
    assert reply.refusal == (409, "conflict")


def rebuilt(api, container, image):
    reply = api.post(f"/v1/containers/{container.uuid}/rebuild?image={image}")
    row = db_containers.get(container.uuid)
    wanted = row["request"].get("rebuild", {"image": row["image"], **row["request"]})
    return reply, (wanted["image"], wanted.get("committed"), row["status"])


def test_rebuild(api, placed):
    uuid, _ = made(), made("far", host=ELSEWHERE)
    assert rebuilt(api, placed(), "web:1")[1] == ("web:1", uuid, "Rebuilding")
    container = placed(request={"run": True, "committed": uuid}, image="web:1")
    assert rebuilt(api, container, "")[1] == ("web:1", uuid, "Rebuilding")
    container = placed(request={"run": True, "committed": uuid}, image="web:1")
    assert rebuilt(api, container, "zun-demo")[1] == ("zun-demo", None, "Rebuilding")
    reply, row = rebuilt(api, placed(), "far:1")
    assert reply.refusal == (409, "conflict") and row == ("zun-demo", None, "Running")


def test_search(api, admin_api, compute):
    uuid = made("team/web")
    (own, theirs) = api.get("/v1/images/web/search").json
    assert own == {
        "id": uuid,
        "name": "team/web",
        "tags": ["1"],
        "status": "available",
        "size": 7,
        "description": "",
        "metadata": {"is_official": False, "star_count": 0},
    }
    assert theirs["name"] == "web"
    assert len(admin_api.get("/v1/images/web/search").json) == 1

    def names(query):
        return [each["name"] for each in api.get(f"/v1/images/{query}").json]

    assert names("web/search?exact_match=true") == ["web"]
    assert names("team/web/search?exact_match=true") == ["team/web", "team/web"]
    assert names("team/web:1/search") == ["team/web", "team/web:1"]
    assert names("team/web:2/search") == ["team/web:2"]
    compute.failure = exceptions.Unavailable("no registry")
    assert names("web/search") == ["team/web"]
    assert api.get("/v1/images/other/search").refusal == (503, "unavailable")


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("member", 200), ("admin", 200)])
def test_members_may_delete_what_their_project_made(api, host_up, compute, role, status):
    """And nothing else of hosts, where other projects' containers may use it."""
    who = dataclasses.replace(api, roles=role)
    uuid, theirs = made(), made(project="other")
    assert who.delete(f"/v1/images/{uuid}").status == status
    assert compute.sent == ([("image_delete", uuid, {"host": HOST})] if status == 200 else [])
    if role == "member":
        pulled = db.insert({"project_id": "demo", "host": HOST, "repo": "web", "tag": "1"})["uuid"]
        assert who.delete(f"/v1/images/{pulled}").status == 403
        assert who.delete(f"/v1/images/{theirs}").refusal == (400, "image-not-found")
        assert who.get(f"/v1/images/{uuid}").status == 403  # it says which host


def test_an_image_and_a_volume_of_two_hosts(api):
    """Each is where it is, and the container can be on one host only."""
    made(host=ELSEWHERE)
    with session.writer() as connection:
        volumes.hold(connection, "demo", ["data"], HOST)
    body = {"image": "web:1", "mounts": [{"source": "data", "destination": "/data"}]}
    refused = api.post("/v1/containers", body)
    assert refused.refusal == (409, "conflict") and "web:1" in refused.error["detail"]
    here = made()
    uuid = api.post("/v1/containers", body).json["uuid"]
    request = db_containers.get(uuid)["request"]
    assert (request["host"], request["committed"]) == (HOST, here)
