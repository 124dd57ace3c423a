# SPDX-License-Identifier: Apache-2.0
"""Named volumes over HTTP."""

import pytest

from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.db import services, volumes
from zun.objects.service import COMPUTE_BINARY
from zun.tests.unit.db.rows import held_volume

DATA = [Mount(Kind.VOLUME, "/data", "data").to_dict()]


@pytest.fixture
def api(api):
    return api.at("1.43")


@pytest.fixture
def admin_api(admin_api):
    return admin_api.at("1.43")


def names(reply):
    return [each["name"] for each in reply.json["volumes"]]


def test_a_volume_is_listed_and_shown(api, admin_api):
    uuid = held_volume("demo", "data")
    held_volume("other", "theirs")
    assert names(api.get("/v1/volumes")) == ["data"]
    shown = api.get("/v1/volumes/data").json
    assert {name: shown[name] for name in ("uuid", "name", "project_id", "status", "host")} == {
        "uuid": uuid,
        "name": "data",
        "project_id": "demo",
        "status": "Available",
        "host": None,
    }
    assert api.get(f"/v1/volumes/{uuid}").json == shown
    assert admin_api.get(f"/v1/volumes/{uuid}").json["host"] == "host-1"
    assert names(admin_api.get("/v1/volumes?all_projects=1")) == ["data", "theirs"]
    assert api.get("/v1/volumes?all_projects=1").refusal == (403, "policy-not-authorized")
    assert api.get("/v1/volumes?sort_key=host").refusal == (403, "policy-not-authorized")
    for ident in ("theirs", "nothing"):
        assert api.get(f"/v1/volumes/{ident}").status == 404


def test_pages_follow_one_another(api):
    for name in ("a1", "b1", "c1"):
        held_volume("demo", name)
    first = api.get("/v1/volumes?limit=2")
    assert names(first) == ["a1", "b1"]
    assert names(api.get(first.json["next"].partition("9517")[2] or first.json["next"])) == ["c1"]


@pytest.mark.usefixtures("host_row", "host_up")
def test_a_deletion_marks_the_volume_and_tells_its_host(api, compute):
    uuid = held_volume("demo", "data")
    for _ in range(2):  # the first message may be lost
        assert api.delete("/v1/volumes/data").status == 204
    assert compute.sent == [("remove_volumes", "", {"host": "host-1"})] * 2
    assert api.get("/v1/volumes/data").json["status"] == "Deleting"
    volumes.destroy(uuid)
    assert api.delete("/v1/volumes/data").status == 404


@pytest.mark.usefixtures("host_row", "host_up")
def test_a_volume_that_is_mounted_is_kept(api, placed, compute):
    held_volume("demo", "data")
    user = placed("Stopped", mounts=DATA, name="web")
    reply = api.delete("/v1/volumes/data")
    assert reply.status == 409 and f"mounted by web ({user.uuid})" in reply.error["detail"]
    held_volume("demo", "free")
    assert api.get("/v1/volumes/data").json["status"] == "In-use"
    listed = {each["name"]: each["status"] for each in api.get("/v1/volumes").json["volumes"]}
    assert (listed, compute.sent) == ({"data": "In-use", "free": "Available"}, [])


@pytest.mark.usefixtures("host_row", "host_up")
def test_a_host_that_cannot_be_told_removes_it_later(api, compute):
    held_volume("demo", "data")
    compute.failure = exceptions.HostUnavailable(host="host-1")
    assert api.delete("/v1/volumes/data").status == 204
    assert api.get("/v1/volumes/data").json["status"] == "Deleting"


@pytest.mark.usefixtures("host_row", "host_up")
def test_the_volume_of_a_host_that_is_given_up_just_goes(api, compute):
    held_volume("demo", "data")
    services.destroy("host-1", COMPUTE_BINARY)
    assert api.delete("/v1/volumes/data").status == 204
    assert (api.get("/v1/volumes/data").status, compute.sent) == (404, [])
