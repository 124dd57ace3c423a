# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients beside the stock one: openstacksdk on a real port, others by the requests that they send."""

import keystoneauth1.session
import pytest
from keystoneauth1 import noauth

from zun.db import containers as db
from zun.tests.http_servers import serving_application

openstack = pytest.importorskip("openstack")
zun_client = pytest.importorskip("zunclient.client")

HEADERS = ("OpenStack-API-Version", "OpenStack-API-Minimum-Version", "OpenStack-API-Maximum-Version")


@pytest.fixture
def url(application):
    with serving_application(application) as served:
        yield served


@pytest.fixture
def sdk(url):
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, auth_type="none", auth={"endpoint": url}, region_name="RegionOne"
    )


@pytest.mark.parametrize("version", ["1.1", "1.12", "1.40", "1.48"])
def test_openstacksdk_speaks_a_microversion(sdk, version):
    """It calls the service by the official type, and expects its own word back."""
    made = sdk.application_container.post("/containers", json={"name": "web", "image": "demo"}, microversion=version)
    assert made.status_code == 202
    listed = sdk.application_container.get("/containers", microversion=version)
    assert [each["name"] for each in listed.json()["containers"]] == ["web"]
    for reply in (made, listed):
        assert reply.request.headers["OpenStack-API-Version"] == f"application-container {version}"
        assert reply.headers["OpenStack-API-Version"] == f"application-container {version}"
        assert all(reply.headers[name].startswith("application-container ") for name in HEADERS)
        assert "OpenStack-API-Version" in reply.headers["Vary"]


def test_openstacksdk_without_a_microversion_speaks_1_1(sdk):
    reply = sdk.application_container.get("/containers")
    assert (reply.status_code, reply.headers["OpenStack-API-Version"]) == (200, "container 1.1")


def test_openstacksdk_is_told_a_version_out_of_range(sdk):
    reply = sdk.application_container.get("/containers", microversion="1.99")
    assert (reply.status_code, reply.headers["OpenStack-API-Version"]) == (406, "application-container 1.99")
    assert "maximum is 1.51" in reply.json()["errors"][0]["detail"]


# Heat calls python-zunclient with the service type ``container``, at 1.12 and, with a tty, at 1.36 (openstack-heat
# 27.0.1). Its hints may be meant for other services of the stack.

HINTS = {"group": "g-1", "same_host": "web", "different_host": ["a", "b"], "image:trait:HW_CPU_X86_AVX2": "required"}


def heat(url, version):
    session = keystoneauth1.session.Session(auth=noauth.NoAuth(endpoint=url))
    return zun_client.Client(
        version, session=session, service_type="container", interface="public", region_name="RegionOne"
    )


@pytest.mark.parametrize(("version", "more"), [("1.12", {}), ("1.36", {"tty": True, "command": ["sleep", "9"]})])
def test_heat_creates_a_container_with_hints(url, version, more):
    args = {"name": "web", "image": "demo", "cpu": 0.1, "memory": "64", "environment": {"A": "b"}, "labels": {"c": "d"}}
    args |= {"interactive": False, "image_driver": "docker", "hints": {**HINTS, "label:rack": "3"}, **more}
    client = heat(url, version)
    made = client.containers.run(**args)
    assert client.containers.get(made.uuid).status == "Creating"
    row = db.get(made.uuid)
    assert (row["request"]["hints"], row["group_uuid"]) == ({"label:rack": "3"}, None)


@pytest.mark.parametrize("noun", ["containers", "capsules", "services"])
def test_pages_of_skyline_for_administrators(admin_api, host_row, noun):
    """Skyline sends ``all_projects`` to every list, also where it is no parameter, and names no version.

    Without a version its list of hosts is refused, as by the reference: hosts came with 1.4.
    """
    reply = admin_api.at(None).get(f"/v1/{noun}?all_projects=true", headers={"Content-Type": "application/json"})
    assert (reply.status, noun in reply.json) == (200, True)


# Lists with parameters that are not the service's own, as a dashboard may send them.
DASHBOARD = {
    "hosts": "limit=10&sort_key=hostname&sort_dir=asc&all_projects=true&withDetail=true",
    "services": "limit=10&all_projects=true&binary=zun-compute",
    "images": "limit=10&all_projects=true&all_tenants=1",
    "availability_zones": "all_projects=true",
    "containers": "limit=10&sort_key=created_at&sort_dir=desc&all_projects=true&project_name=demo",
    "capsules": "limit=10&all_projects=true&all_tenants=1",
    "registries": "limit=10&all_projects=true&tenant=demo",
}


@pytest.mark.parametrize("noun", DASHBOARD)
@pytest.mark.parametrize("word", ["container", "application-container"])
def test_lists_with_parameters_of_other_services(admin_api, host_row, noun, word):
    headers = {"OpenStack-API-Version": f"{word} 1.40", "Content-Type": "application/json"}
    reply = admin_api.at(None).get(f"/v1/{noun}?{DASHBOARD[noun]}", headers=headers)
    assert (reply.status, noun in reply.json) == (200, True)
