# SPDX-License-Identifier: Apache-2.0
"""Images of a real registry that asks for a password, through the real API and Docker."""

import os
import types
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def registry():
    """``domain``, ``username`` and ``password`` of a real one."""
    if "ZUN_TEST_REGISTRY" not in os.environ:
        message = "ZUN_TEST_REGISTRY is not set: start the services with 'tools/services.sh start' and use its 'env'"
        if os.environ.get("ZUN_REQUIRE_REGISTRY") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return types.SimpleNamespace(
        domain=os.environ["ZUN_TEST_REGISTRY"], username="zun", password=os.environ["ZUN_TEST_REGISTRY_PASSWORD"]
    )


@pytest.fixture
def pushed(registry, engine):
    """Name and tag of an image that only the registry has."""
    name = f"demo-{uuid.uuid4().hex[:8]}"
    whole = f"{registry.domain}/private/{name}"
    engine.tag("zun-demo:latest", whole, "1")
    account = {"username": registry.username, "password": registry.password}
    for step in engine.push(whole, "1", stream=True, decode=True, auth_config=account):
        assert "error" not in step, step
    engine.remove_image(f"{whole}:1")
    yield f"private/{name}:1"
    if here(engine, f"{whole}:1"):
        engine.remove_image(f"{whole}:1", force=True)


def here(engine, name):
    return any(name in (image["RepoTags"] or ()) for image in engine.images())


@pytest.fixture
def allinone(on_docker, registry):
    def start(**docker_options):
        made = on_docker(docker={"allowed_registries": registry.domain} | docker_options)
        made.start()
        return made, Api(made.url)

    return start


def test_a_container_of_a_private_image(allinone, registry, pushed, engine):
    service, api = allinone()

    def account(name, password):
        body = {"domain": registry.domain, "name": name, "username": registry.username, "password": password}
        reply = api.request("POST", "/registries", json={"registry": body})
        assert reply.status_code == 201, reply.text

    account("right", registry.password)
    account("wrong", "not-" + registry.password)
    refused = api.settled(api.run(image=pushed, registry="wrong"))
    assert refused["status"] == "Error" and "could not be pulled" in refused["status_reason"]
    # The name of the registry in the image's name is not enough.
    anonymous = api.settled(api.run(image=f"{registry.domain}/{pushed}"))
    assert anonymous["status"] == "Error" and "registry create" in anonymous["status_reason"]
    assert not here(engine, f"{registry.domain}/{pushed}")
    running = api.settled(api.run(image=pushed, registry="right"))
    assert (running["status"], running["image"]) == ("Running", pushed), running["status_reason"]
    assert engine.inspect_container(f"zun-{running['uuid']}")["Config"]["Image"] == f"{registry.domain}/{pushed}"
    assert api.request("DELETE", "/registries/right").status_code == 409
    api.delete_all()
    assert api.request("DELETE", "/registries/right").status_code == 204
    service.stop()
    assert registry.password not in service.log.read_text()


def test_a_private_image_is_for_those_who_have_an_account(allinone, registry, pushed, engine):
    """On its host as at its registry, after a restart of the service too."""
    service, ours = allinone()
    theirs = Api(ours.url, "theirs")
    whole = f"{registry.domain}/{pushed}"

    def account(api, name, password):
        body = {"domain": registry.domain, "name": name, "username": registry.username, "password": password}
        assert api.request("POST", "/registries", json={"registry": body}).status_code == 201

    def outcome(api, image, **fields):
        container = api.settled(api.run(image=image, **fields))
        return container["status"], container["status_reason"] or ""

    account(ours, "right", registry.password)
    account(theirs, "their-wrong", "not-" + registry.password)
    account(theirs, "their-right", registry.password)
    assert outcome(ours, pushed, registry="right") == ("Running", "")
    inspected = engine.inspect_image(whole)
    (digest,) = (each for each in inspected["RepoDigests"] if each.startswith(registry.domain))
    service.stop()
    service.start()
    assert outcome(ours, whole, image_pull_policy="never") == ("Running", "")
    for image in (whole, digest):
        assert outcome(ours, image) == ("Running", "")
        status, reason = outcome(theirs, image)
        assert (status, "registry create" in reason) == ("Error", True), reason
        status, reason = outcome(theirs, image, image_pull_policy="never")
        assert (status, "with credentials of a project" in reason) == ("Error", True), reason
    # Others have pushed the same from this host, so its id has names of theirs as well.
    assert outcome(theirs, inspected["Id"])[0] == "Error"
    assert outcome(theirs, "zun-demo", image_pull_policy="never") == ("Running", "")
    status, reason = outcome(theirs, pushed, registry="their-wrong")
    assert (status, "could not be pulled" in reason) == ("Error", True), reason
    assert outcome(theirs, whole)[0] == "Error"
    assert outcome(theirs, pushed, registry="their-right") == ("Running", "")
    assert outcome(theirs, whole) == outcome(theirs, digest) == ("Running", "")
    for api in (ours, theirs):
        api.delete_all()
    service.stop()
    assert registry.password not in service.log.read_text()


def test_an_image_for_a_host(allinone, registry, pushed, engine):
    service, api = allinone(
        default_registry=registry.domain,
        default_registry_username=registry.username,
        default_registry_password=registry.password,
    )
    host = api.get("/hosts")["hosts"][0]["hostname"]
    image = api.request("POST", "/images", json={"repo": pushed, "host": host}).json()
    ready = wait_for(lambda: (shown := api.get(f"/images/{image['uuid']}"))["image_id"] and shown, 60)
    (listed,) = engine.images(f"{registry.domain}/{pushed}")  # row image-sizes of reference/engines.csv
    assert (ready["image_id"], ready["size"]) == (listed["Id"], str(listed["Size"]))
    running = api.settled(api.run(image=pushed, image_pull_policy="never"))
    assert running["status"] == "Running", running["status_reason"]
    api.delete_all()
    assert api.request("DELETE", f"/images/{image['uuid']}").status_code == 200
    wait_for(lambda: api.get("/images")["images"] == [], 60)
    assert not here(engine, f"{registry.domain}/{pushed}")
    assert service.stop() == 0
    assert registry.password not in service.log.read_text()
