# SPDX-License-Identifier: Apache-2.0
"""The client of Glance, over HTTP with a Glance that fails when told to."""

import hashlib
import io
import itertools

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.image.glance import Glance, configured
from zun.tests import fake_glance
from zun.tests.fixtures import own_conf

ALICE = RequestContext(user_id="alice", project_id="demo", auth_token="demo")
BOB = RequestContext(user_id="bob", project_id="other", auth_token="other")
FILE = "/file$"
SHOW = "[0-9a-f]{12}$"


@pytest.fixture
def server():
    with fake_glance.running() as server:
        yield server


@pytest.fixture
def glance(server):
    return Glance.from_conf(own_conf(**server.options))


class Archive(bytes):
    """A SizedArchive of one piece."""

    def __iter__(self):
        yield bytes(self)


def downloaded(glance, image):
    file, told = io.BytesIO(), []
    glance.download(image, file, told.append)
    return file.getvalue(), told


def test_an_image_by_its_id(glance, server):
    uuid = server.add(hw_cpu_policy="dedicated", tags=["1"])
    image = glance.find(ALICE, uuid)
    assert (image.uuid, image.name, image.tags, image.hash_algo) == (uuid, "web", ("1",), "sha512")
    assert image.properties["hw_cpu_policy"] == "dedicated" and image.size == len(server.data[uuid])


def test_only_the_owner_finds_a_private_image(glance, server):
    uuid = server.add()
    for ident in (uuid, "web"):
        assert glance.find(ALICE, ident).uuid == uuid
        with pytest.raises(exceptions.ImageNotFound, match=ident):
            glance.find(BOB, ident)
    server.images[uuid]["visibility"] = "public"
    assert glance.find(BOB, "web").uuid == uuid


@pytest.mark.parametrize(
    ("images", "ident", "expected"),
    [
        pytest.param([("web", [])], "web", 0, id="one"),
        pytest.param([("web", []), ("other", []), ("website", [])], "web", 0, id="exactly"),
        pytest.param([("web", ["1"])], "web:1", 0, id="tag"),
        pytest.param([("web", ["1"]), ("web", ["2"])], "web:2", 1, id="tag-of-two"),
        pytest.param([("web", ["1"])], "web:2", exceptions.ImageNotFound, id="other-tag"),
        pytest.param([("web", [])], "web:2", 0, id="no-tags-match-any"),
        pytest.param([("web", []), ("web", ["2"])], "web:2", 1, id="tagged-before-untagged"),
        pytest.param([("web:2", []), ("web", ["2"])], "web:2", 0, id="name-with-colon-first"),
        pytest.param([("web", ["1"]), ("web", ["latest"]), ("web", ["3"])], "web", 1, id="latest-of-three"),
        pytest.param([("web", []), ("web", [])], "web", exceptions.Conflict, id="two-alike"),
        pytest.param([("web", ["1"]), ("web", ["1"])], "web:1", exceptions.Conflict, id="two-of-a-tag"),
        pytest.param([], "web", exceptions.ImageNotFound, id="none"),
        pytest.param([("a", [])], "in:a,b", exceptions.ImageNotFound, id="operator-of-glance"),
        pytest.param([("My Image", [])], "My Image", 0, id="space"),
    ],
)
def test_an_image_by_its_name(glance, server, images, ident, expected):
    uuids = [server.add(name, tags=tags) for name, tags in images]
    if isinstance(expected, int):
        assert glance.find(ALICE, ident).uuid == uuids[expected]
    else:
        with pytest.raises(expected, match=f"{ident}|{uuids[0] if uuids else ''}"):
            glance.find(ALICE, ident)


def test_the_active_one_of_a_name_counts(glance, server):
    server.add(status="queued")
    uuid = server.add()
    assert glance.find(ALICE, "web").uuid == uuid


@pytest.mark.parametrize("status", ["queued", "saving", "deactivated", "killed", "pending_delete", "new-word"])
def test_an_image_that_is_not_active(glance, server, status):
    uuid = server.add(status=status)
    for ask in (lambda: glance.find(ALICE, uuid), lambda: glance.find(ALICE, "web"), lambda: glance.show(uuid)):
        with pytest.raises(exceptions.Conflict, match=f"{uuid} is {status} in Glance"):
            ask()


def test_an_image_of_virtual_machines(glance, server):
    uuid = server.add(container_format="bare")
    with pytest.raises(exceptions.InvalidValue, match="container_format is bare"):
        glance.find(ALICE, uuid)
    with pytest.raises(exceptions.ImageNotFound):
        glance.find(ALICE, "web")


ANSWERS = [
    (401, exceptions.Forbidden, "token"),
    (403, exceptions.Forbidden, "does not let|may not delete"),
    (404, exceptions.ImageNotFound, "could not be found"),
    (409, exceptions.Conflict, "in use in Glance|there already"),
    (413, exceptions.Forbidden, "larger than"),
    (400, exceptions.Invalid, "answers 400"),
    (302, exceptions.GlanceUnavailable, "302"),
    (500, exceptions.GlanceUnavailable, "500"),
    (503, exceptions.GlanceUnavailable, "503"),
    ("dropped", exceptions.GlanceUnavailable, "Glance does not answer"),
]
CALLS = {
    "list": ("GET", "/images$", lambda glance, uuid: glance.find(ALICE, "web")),
    "show": ("GET", SHOW, lambda glance, uuid: glance.find(ALICE, uuid)),
    "check": ("GET", FILE, lambda glance, uuid: glance.find(ALICE, uuid)),
    "search": ("GET", "/images$", lambda glance, uuid: glance.search(ALICE, "w", exact=False)),
    "create": ("POST", "/images$", lambda glance, uuid: glance.create(ALICE, uuid, "web", "1")),
    "show as service": ("GET", SHOW, lambda glance, uuid: glance.show(uuid)),
    "download": ("GET", FILE, lambda glance, uuid: downloaded(glance, glance.show(uuid))),
    "look before upload": ("GET", SHOW, lambda glance, uuid: glance.upload(uuid, Archive(b"abc"))),
    "upload": ("PUT", FILE, lambda glance, uuid: glance.upload(uuid, Archive(b"abc"))),
    "delete": ("DELETE", SHOW, lambda glance, uuid: glance.delete(uuid)),
    "look before delete": ("GET", SHOW, lambda glance, uuid: glance.delete_unfinished(uuid)),
}
HARMLESS = {("create", 409), ("delete", 404), ("look before delete", 404)}  # done before, and gone already


@pytest.mark.parametrize(("call", "answer"), list(itertools.product(CALLS, ANSWERS)), ids=str)
def test_each_error_at_each_step(glance, server, call, answer):
    uuid = server.add()
    (method, pattern, ask), (status, error, text) = CALLS[call], answer
    server.fail(method, pattern, status)
    if (call, status) in HARMLESS:
        ask(glance, uuid)
        return
    with pytest.raises(error, match=text) as raised:
        ask(glance, uuid)
    assert "<" not in str(raised.value) and server.failures == []


@pytest.mark.parametrize("call", ["list", "show", "search", "show as service"])
def test_a_page_that_is_not_glance(glance, server, call):
    uuid = server.add()
    method, pattern, ask = CALLS[call]
    server.fail(method, pattern, "page")
    with pytest.raises(exceptions.GlanceUnavailable, match="not JSON"):
        ask(glance, uuid)


def test_an_image_without_data(glance, server):
    uuid = server.add()
    image = glance.show(uuid)
    for ask in (lambda: glance.find(ALICE, uuid), lambda: downloaded(glance, image)):
        server.fail("GET", FILE, 204)
        with pytest.raises(exceptions.Conflict, match="no data yet"):
            ask()


def test_a_verified_download(glance, server):
    data = b"0123456789" * 300_000
    data, told = downloaded(glance, glance.show(server.add(data=data)))
    assert data == data and told[-1] == len(data) and len(told) > 1


@pytest.mark.parametrize("algo", [None, "sha256", "md5"])
def test_the_hash_of_an_older_glance(glance, server, algo):
    value = None if algo is None else hashlib.new(algo, b"abc", usedforsecurity=False).hexdigest()
    uuid = server.add(data=b"abc", os_hash_algo=algo, os_hash_value=value)
    assert downloaded(glance, glance.show(uuid))[0] == b"abc"


def test_an_image_without_any_hash(glance, server):
    uuid = server.add(os_hash_value=None, checksum=None)
    with pytest.raises(exceptions.Conflict, match="no hash"):
        glance.find(ALICE, uuid)


def test_a_hash_that_this_host_does_not_know(glance, server):
    with pytest.raises(exceptions.ImageCorrupt, match="does not know md7"):
        downloaded(glance, glance.show(server.add(os_hash_algo="md7")))


def test_damaged_data_is_refused(glance, server):
    uuid = server.add()
    server.fail("GET", FILE, "corrupt")
    with pytest.raises(exceptions.ImageCorrupt, match=f"{uuid} does not have its sha512"):
        downloaded(glance, glance.show(uuid))


def test_more_data_than_promised_is_refused(glance, server):
    uuid = server.add(data=b"abcdef", size=3)
    with pytest.raises(exceptions.ImageCorrupt):
        downloaded(glance, glance.show(uuid))


def test_a_download_that_breaks_off_begins_again(glance, server):
    uuid = server.add(data=b"a" * 1000)
    server.fail("GET", FILE, "truncated", times=2)
    data, _ = downloaded(glance, glance.show(uuid))
    assert data == b"a" * 1000
    server.fail("GET", FILE, "truncated", times=3)
    with pytest.raises(exceptions.GlanceUnavailable, match=r"broke off|arrived"):
        downloaded(glance, glance.show(uuid))


def test_a_download_has_a_deadline(server):
    glance = Glance.from_conf(own_conf(**server.options, glance__transfer_timeout=1))
    glance._transfer_seconds = -1
    with pytest.raises(exceptions.GlanceUnavailable, match="transfer_timeout"):
        downloaded(glance, glance.show(server.add()))


def test_a_glance_that_hangs(server):
    glance = Glance.from_conf(own_conf(**{**server.options, "glance__timeout": 1}))
    server.release.clear()
    with pytest.raises(exceptions.GlanceUnavailable, match="timed out"):
        glance.show("0" * 36)


def test_nobody_is_there(server):
    options = {**server.options, "glance__endpoint_override": "http://127.0.0.1:9/v2/"}
    with pytest.raises(exceptions.GlanceUnavailable, match="Glance does not answer"):
        Glance.from_conf(own_conf(**options)).show("0" * 36)


def test_an_endpoint_with_its_version(server):
    options = {**server.options, "glance__endpoint_override": f"{server.url}/v2/"}
    uuid = server.add()
    assert Glance.from_conf(own_conf(**options)).show(uuid).uuid == uuid


def test_a_short_outage_goes_unnoticed(server):
    options = {**server.options, "glance__status_code_retries": 2, "glance__status_code_retry_delay": 0.01}
    uuid = server.add()
    server.fail("GET", SHOW, 503, times=2)
    assert Glance.from_conf(own_conf(**options)).show(uuid).uuid == uuid


def test_a_new_image_gets_its_data(glance, server):
    uuid = "11111111-2222-3333-4444-555555555555"
    glance.create(ALICE, uuid, "team/web", "2")
    made = server.images[uuid]
    assert (made["owner"], made["name"], made["tags"], made["status"]) == ("demo", "team/web", ["2"], "queued")
    assert (made["container_format"], made["disk_format"]) == ("docker", "raw")
    glance.upload(uuid, Archive(b"abc"))
    assert server.data[uuid] == b"abc"
    glance.delete(uuid)
    glance.delete(uuid)
    assert server.images == {}


def test_an_upload_has_a_deadline(glance, server):
    uuid = server.add(status="queued")
    glance._transfer_seconds = -1
    with pytest.raises(exceptions.GlanceUnavailable, match=r"not uploaded within -1 s, which is .*transfer_timeout"):
        glance.upload(uuid, Archive(b"abc"))
    assert server.images[uuid]["status"] == "queued"


@pytest.mark.parametrize(
    ("status", "deleted"),
    [("queued", True), ("saving", True), ("killed", True), ("active", False), ("deactivated", False)],
)
def test_an_image_with_its_data_is_not_unfinished(glance, server, status, deleted):
    uuid = server.add(status=status)
    assert glance.delete_unfinished(uuid) == deleted == (uuid not in server.images)


def test_search_by_part_and_by_name(glance, server):
    for name in ("web", "web-1", "db"):
        server.add(name)
    server.add("web", owner="other")

    def names(term, exact):
        return sorted(each["name"] for each in glance.search(ALICE, term, exact=exact))

    assert (names("web", False), names("web", True), names("x", False)) == (["web", "web-1"], ["web"], [])


def test_without_the_driver_there_is_no_client():
    assert configured(own_conf()) is None
    with pytest.raises(exceptions.Misconfigured, match=r"image_driver_list with glance needs \[glance\] auth_type"):
        configured(own_conf(image_driver_list=["glance"]))
