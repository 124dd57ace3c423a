# SPDX-License-Identifier: Apache-2.0
"""Images of a real Glance in the real Docker: by the stock client, and over HTTP with the tokens of several users."""

import contextlib
import io
import json
import tarfile
import uuid

import docker
import pytest
from keystoneauth1 import adapter
from keystoneauth1 import session as ksa_session

from zun.tests.fixtures import wait_for
from zun.tests.functional.api import who_may
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.programs import SETTLED, VERSION, Client

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

FORMATS = ("--container-format", "docker", "--disk-format", "raw")
PATCH = "application/openstack-images-v2.1-json-patch"


class Person:
    """Sends requests to Glance and to the API with the token of ``who``."""

    def __init__(self, keystone, who, zun_url, glance_url):
        session = ksa_session.Session(keystone.auth(who, who_may.PROJECTS[who]))
        self.glance = adapter.Adapter(session, endpoint_override=f"{glance_url}/v2", raise_exc=False)
        self.zun = adapter.Adapter(session, endpoint_override=zun_url, raise_exc=False, additional_headers=VERSION)

    def upload(self, name, data=None, **properties):
        record = {"name": name, "container_format": "docker", "disk_format": "raw", **properties}
        made = self.glance.post("/images", json=record).json()["id"]
        if data is not None:
            headers = {"Content-Type": "application/octet-stream"}
            assert self.glance.put(f"/images/{made}/file", data=data, headers=headers).status_code == 204
        return made

    def run(self, image, **fields):
        body = {"image": image, "image_driver": "glance", "memory": 64, **fields}
        return self.zun.post("/containers?run=true", json=body)

    def refused(self, image, **fields):
        answer = self.run(image, **fields)
        return answer.status_code, answer.json()["errors"][0]["detail"]

    def settled(self, ident):
        def look():
            shown = self.zun.get(f"/containers/{ident}").json()
            return shown if shown["status"] in SETTLED and not shown["task_state"] else None

        return wait_for(look, 120)

    def runs(self, image, status="Running", **fields):
        """Run a container of the image, and return it as it has become."""
        answer = self.run(image, **fields)
        assert answer.status_code == 202, answer.text
        shown = self.settled(answer.json()["uuid"])
        assert shown["status"] == status, shown["status_reason"]
        return shown

    def delete(self, *containers):
        for each in containers:
            self.zun.delete(f"/containers/{each['uuid']}?stop=true")


@pytest.fixture
def person(catalogued, keystone, glance_url):
    url = keystone.admin.endpoints.list(service=keystone.admin.services.list(type="container")[0])[0].url
    return lambda who: Person(keystone, who, url, glance_url)


@pytest.fixture
def archive(engine, docker_url):
    """A name of its own, and the archive of an image of its own, which Docker does not have any more."""
    name = f"glance-{uuid.uuid4().hex[:8]}"
    dockerfile = f'FROM {IMAGE}\nLABEL only={name}\nSTOPSIGNAL SIGKILL\nCMD ["sleep", "1000"]\n'
    for said in engine.build(fileobj=io.BytesIO(dockerfile.encode()), tag=f"{name}:inside", rm=True, decode=True):
        assert "error" not in said, said
    data = b"".join(engine.get_image(f"{name}:inside"))
    engine.remove_image(f"{name}:inside")
    yield name, data
    for tag in {tag for image in engine.images("zun-glance") for tag in image["RepoTags"]}:
        with contextlib.suppress(docker.errors.APIError):  # a test that failed left a container
            if engine.inspect_image(tag)["Config"]["Labels"].get("only") == name:
                engine.remove_image(tag)


def test_the_stock_clients(archive, catalogued, keystone, engine, person, tmp_path):
    name, data = archive
    client, member = Client(None, keystone.environment("member")), person("member")
    (tmp_path / "tar").write_bytes(data)
    ident = client.json("image", "create", *FORMATS, "--file", str(tmp_path / "tar"), name)["id"]
    client("appcontainer", "run", "--name", name, "--image-driver", "glance", name)
    shown = member.settled(name)
    assert (shown["status"], shown["image"], shown["image_driver"]) == ("Running", name, "glance")
    assert shown["command"] == ["sleep", "1000"]
    assert engine.inspect_image(f"zun-glance:{ident}")["RepoTags"] == [f"zun-glance:{ident}"]
    client("appcontainer", "commit", name, f"{name}-commit:2")
    path = f"/images?name={name}-commit"
    wait_for(lambda: [each["status"] for each in member.glance.get(path).json()["images"]] == ["active"], 120)
    made = member.glance.get(path).json()["images"][0]
    assert (made["tags"], made["visibility"], made["owner"]) == (["2"], "shared", keystone.projects["demo"].id)
    with tarfile.open(fileobj=io.BytesIO(member.glance.get(f"/images/{made['id']}/file").content)) as tar:
        assert json.load(tar.extractfile("manifest.json"))[0]["RepoTags"] == [f"{name}-commit:2"]
    engine.remove_image(f"zun-glance:{made['id']}")
    again = member.runs(f"{name}-commit:2")  # downloaded, as on another host
    member.delete(shown, again)


def test_other_projects_do_not_get_it(archive, person):
    name, data = archive
    member, stranger = person("member"), person("stranger")
    ident = member.upload(name, data)
    member.delete(member.runs(ident))
    for asked in (name, ident):
        status, reason = stranger.refused(asked)
        assert status == 400 and "could not be found in Glance" in reason
    for trick in (f"zun-glance:{ident}", f"docker.io/library/zun-glance:{ident}"):
        stranger.delete(stranger.runs(trick, status="Error", image_driver="docker"))
    shared = [{"op": "replace", "path": "/visibility", "value": "community"}]
    member.glance.patch(f"/images/{ident}", data=json.dumps(shared), headers={"Content-Type": PATCH})
    stranger.delete(stranger.runs(ident))


def test_images_that_cannot_be_used(archive, person):
    name, data = archive
    member, admin = person("member"), person("admin")
    ident = member.upload(name, data)
    admin.glance.post(f"/images/{ident}/actions/deactivate")
    status, reason = member.refused(ident)
    assert status == 409 and "an administrator deactivated it" in reason
    admin.glance.post(f"/images/{ident}/actions/reactivate")
    member.delete(member.runs(ident))
    assert member.refused(member.upload(f"{name}-empty"))[0] == 409
    broken = member.runs(member.upload(f"{name}-text", b"no archive"), status="Error")
    assert "not the archive of an image" in broken["status_reason"]
    member.delete(broken)


def test_the_image_asks_for_dedicated_cpus(archive, person, engine):
    name, data = archive
    member = person("member")
    member.upload(name, data, hw_cpu_policy="dedicated")
    status, reason = member.refused(name)
    assert status == 400 and "The properties of the image ask for cpu_policy dedicated" in reason
    status, reason = member.refused(name, cpu=1, cpu_policy="shared")
    assert status == 400 and "cpu_policy: shared contradicts" in reason and "hw_cpu_policy" in reason
    shown = member.runs(name, cpu=1)
    assert engine.inspect_container(f"zun-{shown['uuid']}")["HostConfig"]["CpusetCpus"].isdecimal()
    member.delete(shown)
