# SPDX-License-Identifier: Apache-2.0
"""Horizon with zun-ui, unmodified, against the all-in-one with real keystone, Neutron, Glance, Cinder and Docker."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session

from zun.neutron.client import NeutronClient
from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign
from zun.tests.integration.foreign import dashboard
from zun.tests.integration.foreign.dashboard import Dashboard

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.foreign, pytest.mark.timeout(1500)]

BROWSER = pathlib.Path(foreign.__file__).with_name("browser.py")


@pytest.fixture(scope="module")
def horizon(tmp_path_factory, keystone, full_cloud):
    """Horizon, running: its URL."""
    with dashboard.running(tmp_path_factory.mktemp("horizon"), keystone.url) as url:
        yield url


# What the form of zun-ui sends for a container: each field is text but for the few that are no text fields.
FORM = {
    "name": "web",
    "image": "zun-demo",
    "image_driver": "docker",
    "command": "sh -c 'echo hello; exec sleep 1000'",
    "run": True,
    "hostname": "web",
    "cpu": 0.5,
    "memory": 64,
    "restart_policy": "on-failure:2",
    "auto_heal": False,
    "workdir": "/tmp",
    "environment": "A=1,B=2",
    "labels": "tier=front",
    "interactive": True,
    "hints": {},
}
SHOWN = {
    "name": "web",
    "image": "zun-demo",
    "command": ["sh", "-c", "echo hello; exec sleep 1000"],
    "status": "Running",
    "hostname": "web",
    "cpu": 0.5,
    "memory": "64",
    "restart_policy": {"Name": "on-failure", "MaximumRetryCount": "2"},
    "workdir": "/tmp",
    "environment": {"A": "1", "B": "2"},
    "labels": {"tier": "front"},
    "interactive": True,
    "tty": True,
}
DONE = [["null"], None]  # what zun-ui makes of the answer ``null``
ACTIONS = [
    ("pause", None, DONE, "Paused"),
    ("unpause", None, DONE, "Running"),
    ("stop", {"timeout": "1"}, DONE, "Stopped"),
    ("start", None, DONE, "Running"),
    ("restart", {"timeout": "1"}, DONE, "Running"),
    ("rebuild", {"image": "", "image_driver": "docker"}, DONE, "Running"),
    ("execute", {"command": "echo hi there"}, {"output": "hi there\n", "exit_code": 0}, "Running"),
    ("resize", {"width": 80, "height": 24}, None, "Running"),
    ("kill", {"signal": "SIGKILL"}, None, "Stopped"),
]
CAPSULE = """
capsuleVersion: beta
kind: capsule
metadata: {name: pod}
spec:
  containers:
  - image: zun-demo
    command: [sleep, "1000"]
    resources: {requests: {cpu: 0.2, memory: 32}}
    volumeMounts: [{name: new, mountPath: /new}]
  volumes: [{name: new, cinder: {size: 1, autoRemove: true}}]
"""


@pytest.fixture(scope="module")
def neutron(keystone, full_cloud):
    session = ksa_session.Session(keystone.auth("member", "demo"))
    return NeutronClient(ks_adapter.Adapter(session, service_type="network"))


@pytest.fixture(scope="module")
def offered(keystone, neutron):
    """What the member has at Neutron and Cinder for the tabs of the form: an id by name.

    The port ``port`` is in the network ``second``.
    """
    session = ksa_session.Session(keystone.auth("member", "demo"))
    cinder = ks_adapter.Adapter(session, service_type="block-storage")
    made = {}
    for name, cidr in (("first", "10.7.20.0/24"), ("second", "10.7.21.0/24")):
        made[name] = neutron._one("networks", "network", "POST", {"network": {"name": name}})["id"]
        subnet = {"network_id": made[name], "name": f"{name}-subnet", "cidr": cidr, "ip_version": 4}
        neutron._one("subnets", "subnet", "POST", {"subnet": subnet})
    made["port"] = neutron.create_port(network_id=made["second"], name="port")["id"]
    made["web"] = neutron.create_security_group(name="web")["id"]
    made["data"] = cinder.post("/volumes", json={"volume": {"size": 1, "name": "data"}}).json()["volume"]["id"]
    path = f"/volumes/{made['data']}"
    wait_for(lambda: cinder.get(path).json()["volume"]["status"] == "available", 60)
    return made


def test_containers(horizon, keystone, neutron, offered):
    """Everything that the panel of containers asks for, in the names of its functions."""
    member = Dashboard(horizon, keystone.named("member"))
    assert member.title("project/container/containers/") == "Containers - OpenStack Dashboard"
    assert member.ask("GET", "availability_zones/") == (200, {"items": [{"availability_zone": "nova"}]})
    assert member.ask("GET", "containers/") == (200, {"items": []})
    tabs = [
        ("neutron", "networks/", {"first", "second"}),
        ("neutron", f"ports/?network_id={offered['second']}", {"port"}),
        ("network", "securitygroups/", {"default", "web"}),
        ("cinder", "volumes/", {"data"}),
    ]
    for service, path, names in tabs:
        status, found = member.ask("GET", path, service=service)
        assert status == 200 and names <= {each["name"] for each in found["items"]}, found
    mounts = [{"source": offered["data"], "destination": "/a"}, {"source": "", "size": "1", "destination": "/b"}]
    nets = [{"network": offered["first"]}, {"port": offered["port"]}]
    chosen = {"nets": nets, "mounts": mounts, "security_groups": ["web"]}
    status, made = member.ask("POST", "containers/", {**FORM, **chosen})
    assert status == 201, made
    path = f"containers/{made['uuid']}"
    shown = member.container(made["uuid"])
    assert {name: shown[name] for name in SHOWN} == SHOWN, shown["status_reason"]
    assert shown["security_groups"] == [offered["web"]]
    ports = {network: [each["port"] for each in items] for network, items in shown["addresses"].items()}
    (port,) = ports.pop(offered["first"])
    assert ports == {offered["second"]: [offered["port"]]}
    volumes = member.ask("GET", "volumes/", service="cinder")[1]["items"]
    assert {each["name"]: each["status"] for each in volumes} == {"data": "in-use", f"zun-{made['uuid']}": "in-use"}
    groups = {"port": port, "security_groups": []}
    assert member.ask("POST", f"{path}/port_update_security_groups", groups)[0] == 200
    assert neutron.port(port)["security_groups"] == []
    assert [each["id"] for each in member.ask("GET", "containers/")[1]["items"]] == [made["uuid"]]
    wait_for(lambda: member.ask("GET", f"{path}/logs") == (200, "hello\r\n"), 30)
    changes = {"name": "front", "cpu": 0.5, "memory": 128}
    assert member.ask("PATCH", path, changes) == (200, {"name": "front", "memory": 128})
    status, console = member.ask("POST", f"{path}/attach")
    assert status == 200 and console.startswith("ws://127.0.0.1:")
    for action, body, expected, after in ACTIONS:
        status, answer = member.ask("POST", f"{path}/{action}", body)
        assert status == (204 if expected is None else 200), (action, answer)
        assert answer == expected if expected in (DONE, None) else expected.items() <= answer.items()
        assert member.container(made["uuid"])["status"] == after, action
    assert member.ask("DELETE", f"{path}/stop", [made["uuid"]]) == (204, None)
    wait_for(lambda: member.ask("GET", "containers/") == (200, {"items": []}), 60)


@pytest.mark.parametrize("action", ["network_attach", "network_detach"])
def test_what_fails_before_it_reaches_the_api(horizon, keystone, action):
    """zun-ui calls zunclient with an argument too many."""
    member = Dashboard(horizon, keystone.named("member"))
    status, answer = member.ask("POST", f"containers/any/{action}", {"network": "any"})
    assert status == 500 and "takes 2 positional arguments but 3 were given" in answer


def test_capsules(horizon, keystone, offered):
    member = Dashboard(horizon, keystone.named("member"))
    assert member.title("project/container/capsules/") == "Capsules - OpenStack Dashboard"
    assert member.ask("GET", "capsules/") == (200, {"items": []})
    status, made = member.ask("POST", "capsules/", {"template": CAPSULE})
    assert status == 201, made
    wait_for(lambda: member.ask("GET", f"capsules/{made['uuid']}")[1]["status"] != "Creating", 120)
    status, shown = member.ask("GET", f"capsules/{made['uuid']}")
    assert (status, shown["id"], shown["name"], shown["status"]) == (200, made["uuid"], "pod", "Running"), shown
    assert [each["status"] for each in shown["containers"]] == ["Running"]
    assert list(shown["addresses"]) == [offered["first"]]
    assert "in-use" in [each["status"] for each in member.ask("GET", "volumes/", service="cinder")[1]["items"]]
    assert [each["uuid"] for each in member.ask("GET", "capsules/")[1]["items"]] == [made["uuid"]]
    assert member.ask("DELETE", "capsules/", [made["uuid"]]) == (204, None)
    wait_for(lambda: member.ask("GET", "capsules/") == (200, {"items": []}), 60)


def test_the_panels_of_an_administrator(horizon, keystone):
    admin = Dashboard(horizon, keystone.named("admin"))
    for panel in ("images", "hosts", "containers"):
        assert admin.title(f"admin/container/{panel}/") == f"{panel.title()} - OpenStack Dashboard"
    status, hosts = admin.ask("GET", "hosts/")
    assert status == 200 and [each["hostname"] for each in hosts["items"]] == ["catalogued"]
    host = hosts["items"][0]["id"]
    status, shown = admin.ask("GET", f"hosts/{host}")
    assert (status, shown["id"], shown["hostname"]) == (200, host, "catalogued")
    assert admin.ask("GET", "images/") == (200, {"items": []})
    status, pulled = admin.ask("POST", "images/", {"repo": "zun-demo", "host": host})
    assert status == 201, pulled
    assert [each["id"] for each in admin.ask("GET", "images/")[1]["items"]] == [pulled["uuid"]]
    assert admin.ask("DELETE", "images/", [pulled["uuid"]]) == (204, None)
    wait_for(lambda: admin.ask("GET", "images/") == (200, {"items": []}), 60)


def test_what_a_member_may_not(horizon, keystone):
    """zun-ui shows these panels to administrators. It has no word for a refusal and says 500, with our text."""
    member = Dashboard(horizon, keystone.named("member"))
    for path, rule in (("images/", "image:get_all"), ("hosts/", "host:get_all")):
        status, answer = member.ask("GET", path)
        next_step = "Ask the operator of the cloud if you need it. (HTTP 403)"
        assert status == 500 and f"Policy doesn't allow {rule} to be performed. {next_step}" in answer


def test_in_a_browser(horizon, keystone, full_cloud, offered, tmp_path):
    """The form makes a container with all its tabs, the pages show it, and its console is a terminal."""
    if os.environ.get("ZUN_TEST_BROWSER") != "1":
        pytest.skip("tools/clients.sh runs it: it needs Chromium")
    for program in ("chromium", "chromedriver"):
        assert shutil.which(program), f"{program} is not installed"
    folder = pathlib.Path(os.environ.get("ZUN_TEST_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [foreign.installed("horizon") / "bin/python", BROWSER, horizon, keystone.named("member"), folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=900,
    )
    assert done.returncode == 0, f"pictures are in {folder}"
    seen = json.loads(done.stdout)
    assert seen["errors"] == []
    assert seen["row"][0].split()[:3] == ["from-the-form", "zun-demo", "Running"]
    expected = {"Name": "from-the-form", "Status": "Running", "Command": "sh", "Interactive": "Yes", "CPU": "0.5"}
    assert expected.items() <= seen["details"].items()
    member = Dashboard(horizon, keystone.named("member"))
    shown = member.container(seen["details"]["ID"])
    assert set(shown["addresses"]) == {offered["first"], offered["second"]}
    assert offered["web"] in shown["security_groups"] and shown["labels"] == {"tier": "front"}
    volumes = member.ask("GET", "volumes/", service="cinder")[1]["items"]
    assert {each["name"]: each["status"] for each in volumes} == {"data": "in-use", f"zun-{shown['id']}": "in-use"}
    full_cloud("appcontainer", "delete", "--force", "--all-projects", seen["details"]["ID"])
