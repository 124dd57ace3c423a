# SPDX-License-Identifier: Apache-2.0
"""Heat's engine with its own OS::Zun::Container, against the API with a host, Neutron and Cinder in memory."""

import json
import pathlib
import subprocess

import pytest
import yaml

from zun.api import app as api_app
from zun.cinder.client import CinderClient
from zun.common import exceptions
from zun.common.context import admin_context
from zun.db import containers as db
from zun.network.plugin import Wires
from zun.neutron.client import NeutronClient
from zun.objects import Container
from zun.tests.functional.cinder import Drivers, FakeCinder, FakeMachine
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.neutron import Driver, FakeNeutron, Switch, users_port
from zun.tests.http_servers import serving_application
from zun.tests.integration import foreign
from zun.volume.cinder import CinderDriver

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(900)]  # the first one installs Heat

GUIDE = pathlib.Path(__file__).parents[3] / "doc/source/user/heat/web.yaml"
ENGINE = pathlib.Path(foreign.__file__).with_name("heat_stack.py")
HOST = "host-1"
CREATED = ("CREATE_COMPLETE", "Stack CREATE completed successfully")
UPDATED = ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")
DELETED = ("DELETE_COMPLETE", "Stack DELETE completed successfully")


class Heat:
    """Heat's engine in a process of its own, with a stack of one container: ``web``, with the id ``uuid``."""

    def __init__(self, folder, endpoints, role, log):
        words = [foreign.installed("heat") / "bin/python", ENGINE, folder, json.dumps(endpoints), role]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1)
        self.uuid = None
        self.do("retries", 0)

    def stop(self):
        self._process.stdin.close()
        self._process.wait(30)

    def do(self, *step):
        self._process.stdin.write(json.dumps(step) + "\n")
        answer = json.loads(self._process.stdout.readline())
        assert not (isinstance(answer, dict) and "error" in answer), answer["error"]
        return answer

    def create(self, **properties):
        return self.create_stack(template(properties))

    def create_stack(self, given):
        return self._became(self.do("create", given))

    def update(self, **properties):
        return self._became(self.do("update", template(properties)))

    def act(self, action):
        return self._became(self.do("act", action))

    def attributes(self, *names):
        return self.do("attributes", "web", *names)

    def _became(self, told):
        self.uuid = told["ids"]["web"]
        return told["state"], told["reason"]


def template(properties):
    web = {"type": "OS::Zun::Container", "properties": {"image": "demo", **properties}}
    return {"heat_template_version": "2018-08-31", "resources": {"web": web}}


@pytest.fixture
def neutron():
    made = FakeNeutron()
    made.agents = {HOST}
    yield made
    made.stop()


@pytest.fixture
def cinder():
    made = FakeCinder()
    yield made
    made.stop()


@pytest.fixture
def cloud(database, neutron, cinder, tmp_path):
    services = {"neutron": neutron.options(), "cinder": cinder.options()}
    options = {f"{group}__{name}": value for group, fields in services.items() for name, value in fields.items()}
    with Cloud({}, api__auth_strategy="noauth", network__driver="neutron", **options) as made:
        client = NeutronClient(neutron.adapter())
        wires = Wires(tmp_path / "wires", {"ovs": Switch()}, client, 0.2)
        wires.start()
        made.networks[HOST], made.machines[HOST] = Driver(client, wires, HOST), machine()
        disks = FakeMachine(HOST)
        records, mounts, volumes = tmp_path / "records", tmp_path / "mounts", CinderClient(cinder.adapter())
        made.volumes[HOST] = Drivers(
            CinderDriver(records, mounts, volumes, disks, host=HOST, wait_seconds=1, disks=disks)
        )
        made.start_agent(HOST)
        yield made


@pytest.fixture
def engine(cloud, neutron, cinder, tmp_path):
    """Makes an engine for a user of the role, whose catalogue lacks the service ``without``."""
    application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
    made = []
    with (tmp_path / "heat.log").open("w") as log, serving_application(application) as url:
        catalogue = {"container": url, "network": neutron.url, "volumev3": f"{cinder.url}/v3/demo"}

        def make(role="member", without=None):
            endpoints = {name: value for name, value in catalogue.items() if name != without}
            made.append(Heat(tmp_path, endpoints, role, log))
            return made[-1]

        yield make
        for each in made:
            each.stop()
    print((tmp_path / "heat.log").read_text()[-3000:])


@pytest.fixture
def heat(engine, neutron):
    neutron.network("demo", name="front")
    return engine()


def container(heat):
    return Container.get_by_uuid(admin_context(), heat.uuid)


def addresses(heat, network):
    return [each["addr"] for each in heat.attributes("addresses")["addresses"].get(network, ())]


def test_every_property_arrives(engine, cloud, neutron, cinder):
    """An administrator sends them, as the pull policy is for administrators. The rest is for everybody."""
    front, volume = neutron.network("demo", name="front"), cinder.volume()
    port = users_port(neutron, neutron.network("demo", "10.8.0.0/24", name="back"))
    heat = engine("admin")
    assert heat.create(
        name="web", command="sh -c 'echo hi'", cpu=0.5, memory=64, environment={"A": "b"}, workdir="/tmp",
        labels={"tier": "front", "rack": 3}, image_pull_policy="always", restart_policy="on-failure:2",
        interactive=True, tty=True, image_driver="docker", hints={"group": "another-service"}, hostname="web-1",
        mounts=[{"volume_id": volume, "mount_path": "/old"}, {"volume_size": 2, "mount_path": "/new"}],
        networks=[{"network": "front", "fixed_ip": "10.7.0.77"}, {"port": port}],
    ) == CREATED  # fmt: skip
    attributes = heat.attributes("name", "addresses", "show")
    shown = attributes["show"]
    wanted = {
        "uuid": heat.uuid, "name": "web", "image": "demo", "command": ["sh", "-c", "echo hi"], "cpu": 0.5,
        "memory": "64", "environment": {"A": "b"}, "workdir": "/tmp", "labels": {"tier": "front", "rack": "3"},
        "restart_policy": {"Name": "on-failure", "MaximumRetryCount": "2"}, "interactive": True, "image_driver":
        "docker", "hostname": "web-1", "status": "Running",
    }  # fmt: skip
    assert {name: shown[name] for name in wanted} == wanted
    assert (attributes["name"], container(heat).image_pull_policy) == ("web", "always")
    assert addresses(heat, "front") == addresses(heat, front) == ["10.7.0.77"]
    assert attributes["addresses"]["back"][0]["port"] == port
    mounted = {each["destination"]: cinder.volumes[each["source"]] for each in db.get(heat.uuid)["mounts"]}
    assert {path: (each["size"], each["status"]) for path, each in mounted.items()} == {
        "/old": (1, "in-use"),
        "/new": (2, "in-use"),
    }
    assert heat.act("delete") == DELETED
    assert list(neutron.ports) == [port] and list(cinder.volumes) == [volume]
    assert cinder.volumes[volume]["status"] == "available" and not cinder.attachments


def test_a_size_and_a_name_change_in_place(heat):
    assert heat.create(name="web", cpu=0.5, memory=64) == CREATED
    first = heat.uuid
    assert heat.update(name="shop", cpu=2, memory=128) == UPDATED
    row = db.get(first)
    assert (row["name"], row["cpu"], row["memory"], heat.uuid) == ("shop", 2.0, 128, first)
    assert heat.update() == UPDATED  # Heat sends null for what the template has no more
    assert (heat.uuid, db.get(first)["cpu"], heat.attributes("name")) == (first, 2.0, {"name": "shop"})


def test_a_refused_update_tells_why_and_the_next_one_replaces(heat):
    assert heat.create(cpu=1) == CREATED
    first = heat.uuid
    state, reason = heat.update(cpu=100)
    assert state == "UPDATE_FAILED" and "cpu: 100 is not between" in reason
    assert (heat.uuid, db.get(first)["cpu"]) == (first, 1.0)
    assert heat.update(cpu=2) == UPDATED
    assert heat.uuid != first and db.of_uuids([first]) == []


def test_networks_change_in_place(heat, neutron):
    neutron.network("demo", "10.8.0.0/24", name="back")
    port = users_port(neutron, neutron.network("demo", "10.9.0.0/24", name="mine"))
    assert heat.create(networks=[{"network": "front"}]) == CREATED
    first, (kept,) = heat.uuid, neutron.ports.keys() - {port}
    assert heat.update(networks=[{"network": "front"}, {"network": "back", "fixed_ip": "10.8.0.9"}]) == UPDATED
    assert addresses(heat, "back") == ["10.8.0.9"] and kept in neutron.ports
    assert heat.update(networks=[{"network": "back", "fixed_ip": "10.8.0.9"}, {"port": port}]) == UPDATED
    assert addresses(heat, "front") == [] and kept not in neutron.ports
    assert addresses(heat, "mine") == [neutron.ports[port]["fixed_ips"][0]["ip_address"]]
    assert heat.update(networks=[{"network": "back", "fixed_ip": "10.8.0.9"}]) == UPDATED
    assert neutron.ports[port]["device_id"] == "" and heat.uuid == first


@pytest.mark.parametrize("change", [{"security_groups": ["mine"]}, {"hostname": "other"}, {"command": "top"}])
def test_what_cannot_change_replaces_the_container(heat, cloud, neutron, change):
    neutron.groups["g-1"] = {"id": "g-1", "name": "mine", "project_id": "demo"}
    assert heat.create(networks=[{"network": "front"}]) == CREATED
    first = container(heat)
    assert heat.update(networks=[{"network": "front"}], **change) == UPDATED
    assert heat.uuid != first.uuid
    cloud.gone(first)
    (port,) = neutron.ports.values()
    assert (port["device_id"], "g-1" in port["security_groups"]) == (heat.uuid, "security_groups" in change)


def test_a_failed_create_tells_the_stack_why(heat, cloud, neutron):
    """Heat makes the container anew as often as ``action_retry_limit`` says."""
    heat.do("retries", 1)
    refusal = exceptions.DockerError(error="exec: no-such-program: not found")
    cloud.drivers[HOST].fail("start", refusal, times=1000)
    state, reason = heat.create(networks=[{"network": "front"}])
    assert state == "CREATE_FAILED" and f"Error in creating container 'web' - {refusal}" in reason, reason
    assert heat.act("delete") == DELETED
    assert neutron.ports == {} and db.of_uuids([heat.uuid]) == []


def test_no_room_on_any_host_tells_the_stack_why(heat, cloud):
    cloud.machines[HOST] = machine(cells=1)
    cloud.stop_agent(HOST)
    cloud.start_agent(HOST)
    state, reason = heat.create(memory=8000)
    assert state == "CREATE_FAILED" and "No valid host was found" in reason, reason


@pytest.mark.parametrize(("interactive", "state"), [(False, "CREATE_COMPLETE"), (True, "CREATE_FAILED")])
def test_a_container_that_ends_at_once_is_complete(heat, cloud, interactive, state):
    """An interactive one was to wait for somebody."""
    driver = cloud.drivers[HOST]
    driver.before("show", lambda view: driver.runtime.objects[view.uuid].pid and driver.exit(view.uuid))
    found, reason = heat.create(interactive=interactive)
    assert (found, "has stopped running" in reason) == (state, interactive), reason
    assert db.get(heat.uuid)["status"] == "Stopped"


def test_a_command_keeps_its_quotes_with_a_tty_only(heat):
    """Without ``tty`` in the template Heat speaks 1.12, where python-zunclient puts each word into quotes."""
    command = "sh -c 'echo \"hi\" there'"
    for properties, text in (({"tty": False}, 'echo "hi" there'), ({}, "echo hi there")):
        assert heat.create(command=command, **properties) == CREATED
        assert db.get(heat.uuid)["command"] == ["sh", "-c", text]
        assert heat.act("delete") == DELETED


def test_a_paused_container_cannot_be_deleted(heat, cloud):
    assert heat.create() == CREATED
    cloud.compute_api.pause(admin_context(), container(heat))
    cloud.settled(container(heat))
    state, reason = heat.act("delete")
    assert state == "DELETE_FAILED" and "unpause" in reason, reason
    cloud.compute_api.unpause(admin_context(), container(heat))
    cloud.settled(container(heat))
    assert heat.act("delete") == DELETED


def test_a_container_that_is_gone_deletes(heat, cloud):
    assert heat.create() == CREATED
    found = container(heat)
    cloud.compute_api.delete(admin_context(), found, force=True)
    cloud.row_gone(found)
    assert heat.act("delete") == DELETED


def test_suspend_resume_and_check_leave_it_alone(heat):
    """Heat's resource has no such actions."""
    assert heat.create() == CREATED
    for action in ("suspend", "resume", "check"):
        assert heat.act(action)[0] == f"{action.upper()}_COMPLETE"
        assert db.get(heat.uuid)["status"] == "Running"


def test_addresses_need_neutron_in_the_catalogue(engine, neutron):
    neutron.network("demo")
    heat = engine(without="network")
    assert heat.create() == CREATED
    with pytest.raises(AssertionError):
        heat.attributes("addresses")
    assert list(heat.attributes("show")["show"]["addresses"]) == list(neutron.records["networks"])


def test_the_template_of_the_guide_runs(heat):
    assert heat.create_stack(yaml.safe_load(GUIDE.read_text())) == CREATED
    assert heat.do("outputs") == {"address": addresses(heat, "front")[0]}
    row = db.get(heat.uuid)
    assert (row["command"], row["cpu"], row["environment"]) == (
        ["sh", "-c", 'echo "starting"; exec nginx -g "daemon off;"'], 2.0, {"WORKERS": "2"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hints", "expected"), [({"label:rack": "7"}, "CREATE_FAILED"), ({"different_host": HOST}, "CREATE_COMPLETE")]
)
def test_only_hints_for_labels_choose_a_host(heat, hints, expected):
    """Others are of later microversions than Heat's, where they are words of other services."""
    assert heat.create(hints=hints)[0] == expected


def test_heat_has_no_resource_for_capsules(heat):
    assert heat.do("types", "OS::Zun::") == ["OS::Zun::Container"]
