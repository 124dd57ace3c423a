# SPDX-License-Identifier: Apache-2.0
"""Images of hosts, for administrators, and the search of registries, for all."""

from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.db import images as db
from zun.db import services

HOST = "host-1"
DIGEST = "sha256:" + "0" * 64

pytestmark = pytest.mark.usefixtures("host_row", "host_up")


@pytest.fixture
def add(admin_api):
    def make(repo="busybox", client=None):
        reply = (client or admin_api).post("/v1/images", {"repo": repo, "host": HOST})
        assert reply.status == 202, reply.json
        return reply.json["uuid"]

    return make


@pytest.mark.parametrize("ident", ["name", "uuid"])
def test_pull(admin_api, host_row, compute, ident):
    reply = admin_api.post("/v1/images/", {"repo": "lib/b:c", "host": HOST if ident == "name" else host_row})
    assert reply.status == 202
    uuid = reply.json["uuid"]
    assert reply.headers["location"] == f"http://zun.example:9517/v1/images/{uuid}"
    assert reply.json == {
        "uuid": uuid,
        "image_id": None,
        "repo": "lib/b",
        "tag": "c",
        "size": None,
        "project_id": "admin",
        "host": HOST,
        "links": [
            {"href": f"http://zun.example:9517/v1/images/{uuid}", "rel": "self"},
            {"href": f"http://zun.example:9517/images/{uuid}", "rel": "bookmark"},
        ],
    }
    assert compute.sent == [("image_pull", uuid, {"host": HOST})]
    db.update(uuid, {"image_id": DIGEST, "size": "1234"})
    shown = {**reply.json, "image_id": DIGEST, "size": "1234"}
    assert admin_api.get(f"/v1/images/{uuid}").json == shown
    assert admin_api.get("/v1/images/").json == {"images": [shown], "next": None}


def test_how_far_a_pull_is_from_its_microversion_on(admin_api, add):
    uuid = add()
    db.update(uuid, {"status_detail": "Pulling the image: 45 %"})
    before = admin_api.at("1.41").get(f"/v1/images/{uuid}").json
    shown = admin_api.at("1.42").get(f"/v1/images/{uuid}").json
    assert shown == before | {"status": "Pulling", "status_detail": "Pulling the image: 45 %"}
    db.fail_unfinished("host-2", "restarted")
    assert admin_api.at("1.42").get(f"/v1/images/{uuid}").json == shown
    db.fail_unfinished(HOST, "restarted")
    failed = admin_api.at("1.42").get("/v1/images").json["images"]
    assert failed == [before | {"status": "Error", "status_detail": "restarted"}]


@pytest.mark.parametrize(
    ("given", "repo", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("host:5000/a:1", "host:5000/a", "1"),
        (f"busybox@{DIGEST}", "busybox", DIGEST),
        (f"busybox:1@{DIGEST}", "busybox", DIGEST),
    ],
)
def test_names(admin_api, given, repo, tag):
    shown = admin_api.post("/v1/images", {"repo": given, "host": HOST, "tag": "ignored", "image_pull_policy": "never"})
    assert (shown.json["repo"], shown.json["tag"]) == (repo, tag)


@pytest.mark.parametrize(
    ("body", "code", "member"),
    [
        ({"host": HOST}, "schema-validation-error", "repo"),
        ({"repo": "busybox"}, "schema-validation-error", "host"),
        ({"repo": None, "host": HOST}, "schema-validation-error", "repo"),
        ({"repo": "Not A Name", "host": HOST}, "schema-validation-error", "repo"),
        ({"repo": "busybox", "host": "x"}, "schema-validation-error", "host"),
        ({"repo": "busybox", "host": "host-9"}, "invalid-value", "host-9"),
        ({"repo": "busybox", "host": HOST, "image_pull_policy": "often"}, "schema-validation-error", "policy"),
        ({"repo": "busybox", "host": HOST, "colour": "red"}, "schema-validation-error", "colour"),
    ],
)
def test_a_bad_member_is_named_and_reaches_no_host(admin_api, compute, body, code, member):
    reply = admin_api.post("/v1/images", body)
    assert reply.refusal == (400, code)
    assert member in reply.error["detail"]
    assert compute.sent == [] and admin_api.get("/v1/images").json["images"] == []


def test_one_of_a_name_on_a_host(admin_api, add):
    add("busybox")
    for repo in ("busybox", "busybox:latest"):
        reply = admin_api.post("/v1/images", {"repo": repo, "host": HOST})
        assert reply.refusal == (409, "image-already-exists")
    add("busybox:1")


def test_a_host_that_is_down(admin_api, compute):
    admin_api.put(f"/v1/services/force_down?host={HOST}&binary=zun-compute&forced_down=True")
    assert admin_api.post("/v1/images", {"repo": "busybox", "host": HOST}).refusal == (503, "host-unavailable")
    assert admin_api.get("/v1/images/busybox/search").refusal == (503, "unavailable")
    assert compute.sent == []


def test_a_message_that_is_not_sent_leaves_nothing(admin_api, compute):
    compute.failure = exceptions.HostUnavailable(host=HOST)
    assert admin_api.post("/v1/images", {"repo": "busybox", "host": HOST}).status == 503
    assert admin_api.get("/v1/images").json["images"] == []


def test_delete(admin_api, add, compute):
    uuid = add()
    reply = admin_api.delete(f"/v1/images/{uuid}")
    assert (reply.status, reply.body) == (200, b"null")
    assert compute.sent[1:] == [("image_delete", uuid, {"host": HOST})]
    assert db.get(uuid)["host"] == HOST, "its host removes it"


def test_of_a_host_that_is_given_up_it_is_gone_at_once(admin_api, add, compute):
    uuid = add()
    services.destroy(HOST, "zun-compute")
    assert admin_api.delete(f"/v1/images/{uuid}").status == 200
    assert compute.sent[1:] == [] and admin_api.get("/v1/images").json["images"] == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("ident", ["busybox", "b2a1a1f4-9a43-4f4e-9c3e-0e4d3f1c1a11"])
def test_what_is_no_image_is_not_found(admin_api, method, ident):
    assert admin_api.send(method, f"/v1/images/{ident}").refusal == (400, "image-not-found")


def test_only_administrators(api, add):
    uuid = add()
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{uuid}"), ("DELETE", f"/{uuid}")):
        reply = api.send(method, f"/v1/images{path}", {"repo": "busybox", "host": HOST})
        assert reply.status == (400 if path else 403)  # a foreign one does not exist


def test_the_list_is_of_the_own_project(admin_api, add):
    uuids = [add(f"a{number}") for number in range(3)]
    theirs = add("theirs", admin_api.in_project("other"))

    def listed(query):
        return [image["repo"] for image in admin_api.get(f"/v1/images?{query}").json["images"]]

    assert listed("") == ["a0", "a1", "a2"]
    assert listed("sort_key=repo&sort_dir=desc") == ["a2", "a1", "a0"]
    assert listed(f"limit=1&marker={uuids[0]}") == ["a1"]
    assert uuids[1] in admin_api.get("/v1/images?limit=2").json["next"]
    assert admin_api.get(f"/v1/images?marker={theirs}").refusal == (400, "image-not-found")
    assert admin_api.get("/v1/images?sort_key=colour").refusal == (400, "invalid-parameter-value")
    assert admin_api.get(f"/v1/images/{theirs}").status == 200


@pytest.mark.parametrize(
    ("path", "name", "exact"),
    [
        ("busybox/search", "busybox", False),
        ("busybox/search?exact_match=True", "busybox", True),
        ("busybox/search/?exact_match=False&image_driver=docker", "busybox", False),
        ("busybox/search?image_driver=None&colour=red", "busybox", False),
        ("library/busybox/search", "library/busybox", False),
        ("library%2Fbusybox/search", "library/busybox", False),
        ("registry.example:5000/team/app:1.2/search", "registry.example:5000/team/app:1.2", False),
        ("[::1]:5000/a/b/c@sha256:12/search?exact_match=True", "[::1]:5000/a/b/c@sha256:12", True),
        ("Busy%20Box/search", "Busy Box", False),  # no name of an image, so the project has none of it
    ],
)
def test_search(api, compute, path, name, exact):
    reply = api.send("GET", f"/v1/images/{path}", None)
    assert reply.status == 200
    assert [item["name"] for item in reply.json] == [name]
    assert compute.sent == [("image_search", name, {"host": HOST, "exact": exact})]


@pytest.mark.parametrize(
    ("role", "names"), [("reader", ["box"]), ("member", ["private/box", "box"]), ("admin", ["private/box", "box"])]
)
def test_a_reader_learns_no_name_from_a_host(api, compute, role, names):
    compute.images_of_host = ["private/box"]
    found = replace(api, roles=role).get("/v1/images/box/search").json
    assert [each["name"] for each in found] == names


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("exact_match=1", "schema-validation-error"),
        ("image_driver=colour", "schema-validation-error"),
        ("image_driver=glance", "schema-validation-error"),
    ],
)
def test_a_bad_search_reaches_no_host(api, compute, query, code):
    assert api.get(f"/v1/images/busybox/search?{query}").refusal == (400, code)
    assert compute.sent == []


@pytest.mark.parametrize("version", ["1.1", "1.41"])
def test_every_version_has_them(admin_api, version):
    assert admin_api.at(version).get("/v1/images").status == 200
