# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import Kind, Mount
from zun.db import containers, session, volumes
from zun.tests.unit.db.rows import container, held_volume

pytestmark = pytest.mark.usefixtures("database")

ALICE = RequestContext(user_id="alice", project_id="demo", roles=["member"])
BOB = RequestContext(user_id="bob", project_id="other", roles=["member"])
ROOT = RequestContext(user_id="root", project_id="admin", roles=["admin"], is_admin=True)


def mounting(name, **fields):
    return container(mounts=[Mount(Kind.VOLUME, "/data", name).to_dict()], **fields)


def hold(name, project="demo", host="h1"):
    with session.writer() as connection:
        volumes.hold(connection, project, [name], host)


def test_name_finds_own_volume_and_admin_finds_any_by_uuid():
    uuid = held_volume("demo", "data")
    theirs = held_volume("other", "data")
    assert volumes.find(ALICE, "data")["uuid"] == volumes.find(ALICE, uuid)["uuid"] == uuid
    assert volumes.find(BOB, "data")["uuid"] == theirs
    assert volumes.find(ROOT, uuid)["uuid"] == uuid
    for context, ident in ((ALICE, theirs), (BOB, uuid), (ROOT, "data")):
        with pytest.raises(exceptions.VolumeNotFound):
            volumes.find(context, ident)


def test_pages_are_of_the_project_or_of_all():
    held_volume("demo", "b")
    held_volume("other", "a")
    assert [row["name"] for row in volumes.page(ALICE, limit=9)] == ["b"]
    assert [row["name"] for row in volumes.page(ALICE, limit=9, all_projects=True, sort_key="name")] == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "is_used"),
    [
        ({"status": "Stopped"}, True),
        ({"status": "Error"}, True),
        ({"kind": "capsule"}, True),
        ({"project_id": "other"}, False),
        ({"kind": "leftover"}, False),
    ],
)
def test_what_mounts_a_volume_keeps_it(fields, is_used):
    uuid = held_volume("demo", "data")
    row = mounting("data", **fields)
    mounting("another")
    if not is_used:
        volumes.begin_to_delete(uuid)
        return
    with pytest.raises(exceptions.Conflict, match=f"mounted by {row['name']}"):
        volumes.begin_to_delete(uuid)
    containers.destroy(row["uuid"])
    volumes.begin_to_delete(uuid)


def test_nobody_gets_a_volume_that_is_leaving():
    uuid = held_volume("demo", "data", "h1")
    volumes.begin_to_delete(uuid)
    volumes.begin_to_delete(uuid)
    with pytest.raises(exceptions.VolumeLeaving):
        hold("data")
    assert [row["uuid"] for row in volumes.to_delete("h1")] == [uuid]
    assert volumes.to_delete("h2") == []
    volumes.destroy(uuid)
    volumes.destroy(uuid)
    hold("data", host="h2")
    assert volumes.hosts("demo", ["data"]) == {"data": "h2"}


def test_only_a_volume_that_is_leaving_is_destroyed():
    uuid = held_volume("demo", "data")
    volumes.destroy(uuid)
    assert volumes.find(ALICE, uuid)["deleting"] is False


def test_a_volume_that_is_gone_is_not_found():
    with pytest.raises(exceptions.VolumeNotFound):
        volumes.begin_to_delete("nowhere")
