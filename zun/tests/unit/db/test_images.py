# SPDX-License-Identifier: Apache-2.0
"""Images that projects made of their containers: which is meant by a name, and by whom."""

import pytest

from zun.common import exceptions
from zun.db import images

pytestmark = pytest.mark.usefixtures("database")


def made(repo="web", tag="1", *, project="demo", host="h1", there=True, **more):
    row = images.insert_committed({"project_id": project, "host": host, "repo": repo, "tag": tag}, **more)
    if there:
        images.update(row["uuid"], {"image_id": "sha256:1", "size": "7", "status": "Available"})
    return row["uuid"]


def meant(name, project="demo", host=None):
    found = images.committed(project, name, host)
    return found and found["uuid"]


def test_the_newest_of_a_name_is_meant():
    first, second = made(), made()
    assert first != second and meant("web:1") == second
    assert meant(first) == first
    made(there=False)  # not yet
    assert meant("web:1") == second


@pytest.mark.parametrize("name", ["web", "web:2", "Web:1", "lib/web:1", "Not A Name", "web:1@sha256:" + "0" * 64])
def test_another_name_is_another_image(name):
    made()
    assert meant(name) is None


def test_latest_is_the_tag_of_a_name_without_one():
    uuid = made(tag="latest")
    assert meant("web") == meant("web:latest") == uuid


def test_other_projects_and_pulled_images_are_not_meant():
    uuid = made(project="other")
    pulled = images.insert({"project_id": "demo", "host": "h1", "repo": "web", "tag": "1"})
    images.update(pulled["uuid"], {"image_id": "sha256:2"})
    assert meant("web:1") is None and meant(uuid) is None and meant(pulled["uuid"]) is None
    with pytest.raises(exceptions.ImageAlreadyExists):
        images.insert({"project_id": "demo", "host": "h1", "repo": "web", "tag": "1"})


def test_on_a_host():
    here, there = made(), made(host="h2")
    assert (meant("web:1"), meant("web:1", host="h1"), meant("web:1", host="h3")) == (there, here, None)


def test_local_names_tell_them_apart():
    rows = [images.get(made()) for _ in range(2)]
    assert [row["local_name"] for row in rows] == [f"zun-commit:{row['uuid']}" for row in rows]


def test_what_nobody_makes_any_more_has_failed():
    """Only images of this host fail, and only those that nobody makes and that are unfinished."""
    lost, busy, elsewhere = made(there=False), made(there=False), made(host="h2", there=False)
    done = made()
    uploaded = made(there=False, keeper="zun-glance")
    assert images.fail_unfinished("h1", "restarted", busy=[busy]) == [uploaded]
    found = {uuid: images.get(uuid) for uuid in (lost, busy, elsewhere, done)}
    assert (found[lost]["status"], found[lost]["status_detail"]) == ("Error", "restarted")
    assert {found[uuid]["status"] for uuid in (busy, elsewhere)} == {found[busy]["status"]} != {"Error"}
    assert found[done]["status"] == "Available"


def test_search():
    uuids = [made("team/web"), made("team/web", "2"), made("b_b")]
    made("team/web", project="other")
    made("team/web", there=False)

    def found(term):
        return [row["uuid"] for row in images.search_committed("demo", term)]

    assert found("web") == found("team/web") == uuids[:2]
    assert found("b_b") == [uuids[2]] and found("_w") == found("%") == []
