# SPDX-License-Identifier: Apache-2.0
"""Containers and a Cinder that fails at each step, behind real HTTP; hosts that are killed at each step."""

import concurrent.futures
import contextlib
import errno
import functools
import glob
import os
import stat

import pytest
from oslo_utils import uuidutils
from prometheus_client import REGISTRY

from zun.api import app as api_app
from zun.cinder.client import CinderClient
from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.departures import uuid_of_left
from zun.common.mounts import Kind, Mount
from zun.db import compute_nodes, container_actions, containers
from zun.objects import Container
from zun.tests.fixtures import wait_for, written_conf
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.conftest import inventory
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages
from zun.tests.functional.cinder import Drivers, FakeCinder, FakeMachine
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.steps import Before, Killed, Steps
from zun.volume import cinder as module
from zun.volume.cinder import CinderDriver
from zun.volume.filesystems import Content

CONTEXT = admin_context()
HTML = "<html><body>Bad gateway</body></html>"
OVER = {"overLimit": {"code": 413, "message": "VolumeSizeExceedsAvailableQuota"}}
TAKEN = {"conflictingRequest": {"code": 409, "message": "The volume is busy"}}
FAILURES = {
    "slow": ("slow", 503),
    "unauthorized": (401, 503),
    "forbidden": (403, 403),
    "not-found": (404, 404),
    "conflict": ((409, TAKEN), 409),
    "over-quota": ((413, OVER), 403),
    "broken": (500, 503),
    "proxy": ((502, HTML), 503),
    "another-service": ((200, HTML), 503),
    "another-json": ((200, "[]"), 503),
}
OWNER, OTHER = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"


@pytest.fixture
def cinder():
    made = FakeCinder()
    yield made
    made.stop()


@pytest.fixture
def client(cinder):
    return CinderClient(cinder.adapter())


# The API.


@pytest.fixture
def api(database, cinder, tmp_path, request):
    options = {**cinder.options(), **getattr(request, "param", {})}
    lines = "".join(f"{name} = {value}\n" for name, value in options.items())
    text = f"[api]\nauth_strategy = noauth\nhost_names = zun.example\n[cinder]\n{lines}"
    conf = written_conf(tmp_path, text)
    application = api_app.build(conf, scheduler_api=SchedulerMessages(), compute_api=ComputeMessages())
    return Client(application, user="alice", project="demo", roles="member", version="1.46")


def create(api, *mounts, **fields):
    return api.post("/v1/containers", {"image": "demo", "mounts": list(mounts), **fields})


def stored(reply):
    assert reply.status == 202, reply.body
    return Container.get_by_uuid(CONTEXT, reply.json["uuid"])


@pytest.mark.parametrize("step", [("GET", "volumes"), ("POST", "volumes")], ids=" ".join)
@pytest.mark.parametrize("failure", FAILURES)
def test_create_when_cinder_fails(api, cinder, host, step, failure):
    """The caller is told why, and neither a volume nor a row is left. What Cinder does too late goes with a sweep."""
    kept = cinder.volume(name="data")
    cinder.failures[step], status = FAILURES[failure]
    reply = create(api, {"source": kept, "destination": "/a"}, {"size": 1, "destination": "/b"})
    assert reply.status == status and "Cinder" in reply.error["detail"]
    del cinder.failures[step]
    wait_for(lambda: not cinder.under_way)
    host.driver().sweep(lambda uuids: set())
    assert list(cinder.volumes) == [kept] and containers.unplaced() == []


def test_a_second_volume_fails_and_the_first_goes(api, cinder):
    reply = create(api, {"size": 1, "destination": "/a"}, name="one")
    made = list(cinder.volumes)
    assert reply.status == 202 and len(made) == 1
    cinder.failures["POST", "volumes"] = (413, OVER)
    assert create(api, {"size": 1, "destination": "/a"}).refusal == (403, "over-quota")
    del cinder.failures["POST", "volumes"]
    invalid = create(api, {"size": 1, "destination": "/a"}, hints={"group": "none"})
    assert invalid.status == 400 and list(cinder.volumes) == made


def test_cinder_is_down(api, cinder):
    cinder.stop()
    assert create(api, {"size": 1, "destination": "/a"}).refusal == (503, "cinder-unavailable")
    assert create(api).status == 202, "who mounts nothing does not notice"


@pytest.mark.parametrize(
    ("volume", "refusal"),
    [
        ({"name": "data"}, None),
        ({"name": "data", "status": "in-use", "multiattach": True}, None),
        ({"name": "data", "status": "reserved", "multiattach": True}, None),
        ({"name": "data", "status": "attaching", "multiattach": True}, None),
        ({"name": "other"}, (404, "volume-not-found")),
        ({"name": "data", "project": "others"}, (404, "volume-not-found")),
        ({"name": "data", "status": "in-use"}, (400, "volume-in-use")),
        ({"name": "data", "status": "reserved"}, (400, "volume-in-use")),
        ({"name": "data", "status": "creating"}, (400, "volume-not-usable")),
        ({"name": "data", "status": "error"}, (400, "volume-not-usable")),
        ({"name": "data", "encrypted": True}, (400, "volume-not-usable")),
    ],
    ids=str,
)
def test_which_volumes_can_be_mounted(api, cinder, volume, refusal):
    made = cinder.volume(**volume)
    for source in ("data", made) if volume["name"] == "data" else ("data",):
        reply = create(api, {"source": source, "destination": "/a"})
        if refusal is not None:
            assert reply.refusal == refusal
            continue
        container = stored(reply)
        assert container.mounts == [{"type": "cinder", "source": made, "destination": "/a"}]
        assert container.request["hints"] == {"image:trait:CUSTOM_ZUN_CINDER": "required"}
        assert container.volume_disk == 0


def test_writers_of_a_volume_share_a_host(api, cinder):
    compute_nodes.put("one", inventory())
    volume = cinder.volume(multiattach=True)
    mount = {"source": volume, "destination": "/a"}
    first = stored(create(api, mount)).uuid
    cinder.server(volume, "one", instance=first)
    assert stored(create(api, mount)).request["host"] == "one"
    assert stored(create(api, {**mount, "read_only": True})).request["host"] is None
    cinder.server(volume, "one")
    assert create(api, mount).refusal == (409, "conflict"), "a server of Nova has it"
    assert stored(create(api, {**mount, "read_only": True})), "the host decides"


def test_a_new_volume_of_an_encrypted_type(api, cinder):
    cinder.usual = {"encrypted": True}
    reply = create(api, {"size": 1, "destination": "/a"})
    assert reply.refusal == (400, "volume-not-usable") and "encrypted" in reply.error["detail"]
    assert cinder.volumes == {} and containers.unplaced() == []


def test_a_name_of_two_volumes(api, cinder):
    ids = [cinder.volume(name="data") for _ in range(2)]
    reply = create(api, {"source": "data", "destination": "/a"})
    assert reply.refusal == (409, "conflict") and all(each in reply.error["detail"] for each in ids)


def test_new_volumes_go_with_their_container(api, cinder):
    container = stored(create(api, {"size": 2, "destination": "/a"}))
    (volume,) = cinder.volumes.values()
    assert (volume["size"], volume["metadata"]) == (
        2,
        {"zun": "container", "zun_container": container.uuid, "zun_volume": volume["id"]},
    )
    assert container.mounts == [
        {"type": "cinder", "source": volume["id"], "destination": "/a", "size_mib": 2048, "owned": True}
    ]
    containers.end_unplaced(container.uuid, "no host has room")
    assert api.delete(f"/v1/containers/{container.uuid}").status == 204
    assert cinder.volumes == {}


@pytest.mark.parametrize("api", [{"cross_az_attach": False}], indirect=True)
def test_the_zone_of_a_volume_decides(api, cinder):
    one, two = cinder.volume(availability_zone="z1"), cinder.volume(availability_zone="z2")
    mount, second = ({"source": each, "destination": f"/{each}"} for each in (one, two))
    new = {"size": 1, "destination": "/new"}
    assert stored(create(api, mount, new)).request["availability_zone"] == "z1"
    assert [each["availability_zone"] for each in cinder.volumes.values()] == ["z1", "z2", "z1"]
    assert create(api, mount, second).refusal == (409, "conflict")
    assert create(api, mount, availability_zone="z2").refusal == (409, "conflict")
    assert stored(create(api, new)).request["availability_zone"] == "nova"
    assert stored(create(api, new, availability_zone="z2")).request["availability_zone"] == "z2"


def test_capsules_share_their_volumes(api, cinder):
    kept = cinder.volume()
    template = {
        "kind": "capsule",
        "metadata": {"name": "web"},
        "spec": {
            "containers": [
                {"image": "demo", "volumeMounts": [{"name": "old", "mountPath": "/old", "readOnly": True}]},
                {"image": "demo", "volumeMounts": [{"name": "new", "mountPath": "/new"}]},
            ],
            "volumes": [
                {"name": "old", "cinder": {"volumeID": kept}},
                {"name": "new", "cinder": {"size": 1, "autoRemove": True}},
            ],
        },
    }
    reply = api.post("/v1/capsules", {"template": template})
    assert reply.status == 202, reply.body
    (new,) = cinder.volumes.keys() - {kept}
    capsule = Container.get_by_uuid(CONTEXT, reply.json["uuid"])
    own = {"type": "cinder", "source": new, "size_mib": 1024, "number": 1, "owned": True}
    assert capsule.mounts[1] == {**own, "destination": "/volumes/new"}
    first, second = Container.list_by_capsule(CONTEXT, capsule.uuid)
    assert first.mounts == [{"type": "cinder", "source": kept, "number": 0, "read_only": True, "destination": "/old"}]
    assert second.mounts == [{**own, "destination": "/new"}]
    template["spec"]["volumes"][0]["cinder"]["size"] = 1
    assert api.post("/v1/capsules", {"template": template}).status == 400


# A host.


class Host:
    """The driver of one host, on a machine that outlives it."""

    wait_seconds = 1

    def __init__(self, client, folder, name="one"):
        self.client, self.folder, self.name, self.machine = client, folder / name, name, FakeMachine(name)

    def driver(self, steps=None):
        steps = steps or Steps()
        watched = steps.watch(self.machine)
        return CinderDriver(
            self.folder / "records",
            self.folder / "mounts",
            steps.watch(self.client),
            watched,
            host=self.name,
            wait_seconds=self.wait_seconds,
            disks=watched,
        )

    def empty(self):
        left = glob.glob(f"{self.folder}/records/**/*.*", recursive=True)  # passes over what goes meanwhile
        return not left and self.machine.connected == {} == self.machine.mounts


@pytest.fixture
def host(client, tmp_path):
    return Host(client, tmp_path)


def mount_of(volume, **fields):
    return Mount(Kind.CINDER, "/data", volume, **fields)


def test_a_volume_is_attached_and_given_back(host, cinder):
    volume = cinder.volume()
    driver, mount = host.driver(), mount_of(volume)
    found = driver.prepare(OWNER, "demo", 0, mount)
    assert (found.kind, found.source) == ("bind", str(host.folder / "mounts" / volume / "data"))
    (attachment,) = cinder.attachments.values()
    assert (attachment["status"], attachment["instance"]) == ("attached", OWNER)
    assert attachment["connector"] == {"host": "one", "ip": "127.0.0.1", "mountpoint": "/data"}
    files = [path for path in host.folder.glob("records/**/*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    asked = len(cinder.asked)
    assert driver.prepare(OWNER, "demo", 0, mount) == found and len(cinder.asked) == asked, "nobody is asked again"
    driver.remove(OWNER, 0, mount)
    driver.remove(OWNER, 0, mount)
    assert host.empty() and cinder.attachments == {} and cinder.volumes[volume]["status"] == "available"


@pytest.mark.parametrize("owned", [False, True], ids=["kept", "owned"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["again", "removed", "swept"])
def test_killed_at_each_step_of_attaching(host, cinder, monkeypatch, owned, after, then):
    """After a repetition, a removal or a sweep nothing is left. A half-made file system is never mounted as data."""
    at, killed = 0, True
    while killed:
        at, killed = at + 1, False
        volume, steps = cinder.owned(OWNER) if owned else cinder.volume(), Steps(at, after=after)
        mount = mount_of(volume, owned=owned)
        with monkeypatch.context() as patched:
            write = module._write
            patched.setattr(module, "_write", lambda *args, s=steps, w=write: s.step(w, *args))
            try:
                host.driver(steps).prepare(OWNER, "demo", 0, mount)
            except Killed:
                killed = True
        restarted = host.driver()
        if then == "again":
            restarted.prepare(OWNER, "demo", 0, mount)
            assert [each["status"] for each in cinder.of(volume)].count("attached") >= 1
            assert host.machine.mounts
        if then == "swept":
            restarted.sweep(lambda uuids: set())
        else:
            restarted.remove(OWNER, 0, mount)
        assert host.empty() and cinder.of(volume) == [], at
        assert (volume in cinder.volumes) == (not owned), at
    assert at > 12


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["again", "swept"])
def test_killed_at_each_step_of_detaching(host, cinder, monkeypatch, after, then):
    at, killed = 0, True
    while killed:
        at, killed = at + 1, False
        volume, steps = cinder.volume(), Steps(at, after=after)
        mount = mount_of(volume, owned=True)
        host.driver().prepare(OWNER, "demo", 0, mount)
        with monkeypatch.context() as patched:
            write = module._write
            patched.setattr(module, "_write", lambda *args, s=steps, w=write: s.step(w, *args))
            try:
                host.driver(steps).remove(OWNER, 0, mount)
            except Killed:
                killed = True
        restarted = host.driver()
        if then == "again":
            restarted.remove(OWNER, 0, mount)
        else:
            restarted.sweep(lambda uuids: set())
        assert host.empty() and cinder.of(volume) == [] and volume not in cinder.volumes, at
    assert at > 5


@pytest.mark.parametrize(
    "step",
    [("GET", "volumes/"), ("GET", "attachments"), ("POST", "attachments"), ("PUT", "attachments/"),
     ("POST", "attachments/")],
    ids=["show", "list", "reserve", "connect", "complete"],
)  # fmt: skip
@pytest.mark.parametrize("failure", FAILURES)
def test_each_failure_of_attaching(host, cinder, step, failure):
    """The reason names Cinder and no secret; then nothing is left once Cinder is well."""
    volume = cinder.volume()
    if step == ("POST", "attachments/"):
        cinder.failures["POST", "attachments/"] = FAILURES[failure][0]
    else:
        cinder.failures[step] = FAILURES[failure][0]
    mount, driver = mount_of(volume), host.driver()
    with pytest.raises(exceptions.VolumeError, match=r"Mount /data: .*Cinder") as told:
        driver.prepare(OWNER, "demo", 0, mount)
    assert "tell-nobody" not in str(told.value) and "<" not in str(told.value)
    wait_for(lambda: not cinder.under_way)
    driver.remove(OWNER, 0, mount)
    assert host.machine.connected == {} == host.machine.mounts
    cinder.failures.clear()
    driver.sweep(lambda uuids: set())
    assert host.empty() and cinder.of(volume) == [] and cinder.volumes[volume]["status"] == "available"


@pytest.mark.parametrize("step", [("GET", "attachments"), ("DELETE", "attachments/"), ("DELETE", "volumes/")])
@pytest.mark.parametrize("failure", [each for each in FAILURES if each != "not-found"])
def test_each_failure_of_detaching(host, cinder, step, failure):
    """The container goes; a sweep gives the volume back when Cinder is well."""
    volume = cinder.volume()
    mount, driver = mount_of(volume, owned=True), host.driver()
    driver.prepare(OWNER, "demo", 0, mount)
    cinder.failures[step] = FAILURES[failure][0]
    driver.remove(OWNER, 0, mount)
    assert host.machine.connected == {} == host.machine.mounts
    wait_for(lambda: not cinder.under_way)
    cinder.failures.clear()
    driver.sweep(lambda uuids: set(uuids))
    assert host.empty() and cinder.of(volume) == [] and volume not in cinder.volumes


@pytest.mark.parametrize("failure", FAILURES)
def test_a_deletion_without_a_host_while_cinder_fails(api, cinder, host, failure):
    """The container goes, and a sweep of any host deletes its volume."""
    container = stored(create(api, {"size": 1, "destination": "/a"}))
    containers.end_unplaced(container.uuid, "no host has room")
    cinder.failures["DELETE", "volumes/"] = FAILURES[failure][0]
    assert api.delete(f"/v1/containers/{container.uuid}").status == 204
    wait_for(lambda: not cinder.under_way)
    cinder.failures.clear()
    host.driver().sweep(lambda uuids: set())
    assert cinder.volumes == {}


@pytest.mark.parametrize("step", ["connect", "content", "make", "mount"])
def test_each_failure_of_the_machine(host, cinder, step):
    volume = cinder.volume()
    mount, driver = mount_of(volume), host.driver()
    host.machine.failures = {step}
    with pytest.raises(exceptions.VolumeError, match=f"{step} failed"):
        driver.prepare(OWNER, "demo", 0, mount)
    driver.remove(OWNER, 0, mount)
    assert host.empty() and cinder.volumes[volume]["status"] == "available"
    assert bool(host.machine.made) == (step == "mount"), "what cannot be read is not overwritten"


def test_what_came_after_an_interrupted_make_stays(host, cinder):
    volume = cinder.volume()
    mount, driver = mount_of(volume), host.driver()
    host.machine.failures = {"make"}
    with pytest.raises(exceptions.VolumeError):
        driver.prepare(OWNER, "demo", 0, mount)
    host.machine.failures = set()
    host.machine.contents[f"/dev/{volume}"] = Content("ext4", "theirs")
    assert driver.prepare(OWNER, "demo", 0, mount).source.endswith(volume)
    assert host.machine.made == {}


def test_a_volume_that_was_taken_meanwhile_is_not_made_again(host, cinder):
    """The attempt was interrupted, its attachment was deleted at Cinder, and another server wrote to the volume."""
    volume = cinder.volume()
    driver, host.machine.failures = host.driver(), {"make"}
    with pytest.raises(exceptions.VolumeError):
        driver.prepare(OWNER, "demo", 0, mount_of(volume))
    host.machine.failures, host.machine.damaged = set(), {f"/dev/{volume}"}
    cinder.attachments.clear()
    cinder.volumes[volume]["status"] = "available"
    with pytest.raises(exceptions.VolumeError, match="without a known signature"):
        driver.prepare(OTHER, "demo", 0, mount_of(volume))
    assert host.machine.made == {}


def test_a_volume_that_is_empty_later_is_not_made_again(host, cinder):
    """The storage gives the host another volume, or lost what was on it."""
    volume = cinder.volume()
    mount, driver = mount_of(volume), host.driver()
    driver.prepare(OWNER, "demo", 0, mount)
    host.machine.reboot()
    host.machine.contents.clear()
    for again in (
        lambda: driver.restore(OWNER, 0, mount),
        lambda: driver.prepare(OWNER, "demo", 0, mount),
        lambda: driver.prepare(OWNER, "demo", 0, mount, again=True),
    ):
        with pytest.raises(exceptions.VolumeError, match="is empty and was mounted before"):
            again()
    assert host.machine.made == {f"/dev/{volume}": 1}


def test_a_made_container_gets_no_empty_volume(host, cinder):
    """Its host has no record of the volume any more, because another container took the volume meanwhile."""
    volume = cinder.volume()
    with pytest.raises(exceptions.VolumeError, match="is empty and was mounted before"):
        host.driver().prepare(OWNER, "demo", 0, mount_of(volume), again=True)
    assert host.machine.made == {}


def test_a_damaged_volume_is_not_made_after_its_mount(host, cinder, monkeypatch):
    """The record of the first attempt, which was interrupted, still says that a file system is being made."""
    volume, write = cinder.volume(), module._write
    mount, driver = mount_of(volume), host.driver()

    def fail(path, record):
        return _fail(errno.ENOSPC) if record.get("making") is False else write(path, record)

    with monkeypatch.context() as broken:
        broken.setattr(module, "_write", fail)
        with pytest.raises(exceptions.VolumeError, match="No space left"):
            driver.prepare(OWNER, "demo", 0, mount)
    driver.prepare(OWNER, "demo", 0, mount)
    host.machine.reboot()
    host.machine.damaged = {f"/dev/{volume}"}
    with pytest.raises(exceptions.VolumeError, match="without a known signature"):
        driver.restore(OWNER, 0, mount)
    with pytest.raises(exceptions.VolumeError, match="without a known signature"):
        driver.prepare(OWNER, "demo", 0, mount)
    assert host.machine.made == {f"/dev/{volume}": 1}


def test_a_failing_disk_does_not_disconnect_others(host, cinder, monkeypatch):
    """Who else uses the volume is asked of a folder."""
    volume = cinder.volume(multiattach=True)
    mount, driver = mount_of(volume), host.driver()
    driver.prepare(OWNER, "demo", 0, mount)
    driver.prepare(OTHER, "demo", 0, mount)
    with monkeypatch.context() as broken:
        for name in ("listdir", "scandir"):
            broken.setattr(os, name, functools.partial(_fail, errno.EIO))
        with pytest.raises(exceptions.VolumeError, match="Input/output error"):
            driver.remove(OWNER, 0, mount)
    assert list(host.machine.mounts.values()) == [f"/dev/{volume}"]


def _fail(error, *arguments):
    raise OSError(error, os.strerror(error))


@pytest.mark.parametrize(
    ("failure", "refused"),
    [("forbidden", True), ("conflict", True), ("over-quota", True), ("not-found", True), ("broken", False)],
)
def test_a_refused_volume_is_no_fault_of_the_host(host, cinder, failure, refused):
    cinder.failures["GET", "volumes/"] = FAILURES[failure][0]
    with pytest.raises(exceptions.VolumeError) as told:
        host.driver().prepare(OWNER, "demo", 0, mount_of(cinder.volume()))
    assert isinstance(told.value, exceptions.VolumeRefused) == refused


@pytest.mark.parametrize(
    ("failure", "tells"),
    [(exceptions.VolumeError("mount failed"), 1), (exceptions.VolumeRefused("volume is in-use"), 0)],
    ids=["of-the-host", "of-cinder"],
)
def test_failures_of_a_host_count(database, context, failure, tells):
    with Cloud({"one": machine()}) as cloud:
        cloud.volumes["one"].failure = failure
        container = cloud.run(context, mounts=[mount_of("v").to_dict()])
        assert container.status == "Error"
        # The host tells the scheduler after it has written the row.
        wait_for(lambda: [len(each.failures) for each in cloud.scheduler.table.hosts()] == [tells])


def measured(step, outcome):
    return REGISTRY.get_sample_value("zun_compute_volume_seconds_count", {"step": step, "outcome": outcome}) or 0


def test_times_of_volumes_are_measured(host, cinder):
    before = [measured(*each) for each in (("attach", "done"), ("attach", "failed"), ("detach", "done"))]
    volume = cinder.volume()
    mount, driver = mount_of(volume), host.driver()
    host.machine.failures = {"mount"}
    with pytest.raises(exceptions.VolumeError):
        driver.prepare(OWNER, "demo", 0, mount)
    host.machine.failures = set()
    driver.prepare(OWNER, "demo", 0, mount)
    driver.prepare(OWNER, "demo", 0, mount)  # is attached
    driver.remove(OWNER, 0, mount)
    driver.remove(OWNER, 0, mount)  # is gone
    after = [measured(*each) for each in (("attach", "done"), ("attach", "failed"), ("detach", "done"))]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [(None, "answered"), ("forbidden", "refused"), ("broken", "failed"), ("slow", "unavailable")],
)
def test_requests_are_measured(client, cinder, failure, outcome):
    def count():
        labels = {"service": "cinder", "outcome": outcome}
        return REGISTRY.get_sample_value("zun_service_request_seconds_count", labels) or 0

    before, volume = count(), cinder.volume()
    if failure:
        cinder.failures["GET", "volumes/"] = FAILURES[failure][0]
    with contextlib.suppress(exceptions.ZunError):
        client.volume(volume)
    assert count() == before + 1


@pytest.mark.parametrize("step", ["unmount", "disconnect"])
def test_a_volume_in_use_on_the_machine_stays(host, cinder, step):
    """Cinder must not give a volume to somebody else that this machine still has."""
    volume = cinder.volume()
    mount, driver = mount_of(volume), host.driver()
    driver.prepare(OWNER, "demo", 0, mount)
    host.machine.failures = {step}
    with pytest.raises(exceptions.VolumeError, match=f"{step} failed"):
        driver.remove(OWNER, 0, mount)
    assert cinder.volumes[volume]["status"] == "in-use"
    host.machine.failures = set()
    driver.sweep(lambda uuids: set(uuids))
    assert host.empty() and cinder.volumes[volume]["status"] == "available"


def test_an_encrypted_volume_is_not_touched(host, cinder):
    """Its type may have changed since the request: nothing is reserved."""
    with pytest.raises(exceptions.VolumeRefused, match="the volume is encrypted"):
        host.driver().prepare(OWNER, "demo", 0, mount_of(cinder.volume(encrypted=True)))
    assert host.empty() and cinder.attachments == {}


def test_only_an_empty_volume_gets_a_file_system(host, cinder):
    volume, driver = cinder.volume(), host.driver()
    device = f"/dev/{volume}"
    host.machine.contents[device] = Content("xfs", "theirs")
    found = driver.prepare(OWNER, "demo", 0, mount_of(volume))
    assert host.machine.made == {} and found.source == str(host.folder / "mounts" / volume)
    empty = cinder.volume()
    with pytest.raises(exceptions.VolumeError, match="is empty"):
        driver.prepare(OWNER, "demo", 0, mount_of(empty, read_only=True))
    assert host.machine.made == {}


def test_one_connection_for_many_containers(host, cinder):
    volume, driver = cinder.volume(multiattach=True), host.driver()
    mount = mount_of(volume)
    first, second = (driver.prepare(each, "demo", 0, mount) for each in (OWNER, OTHER))
    assert first == second and len(host.machine.mounts) == 1 and len(cinder.of(volume)) == 2
    driver = host.driver()  # the count of users is taken from the records
    driver.remove(OWNER, 0, mount)
    assert len(host.machine.mounts) == 1 and [each["instance"] for each in cinder.of(volume)] == [OTHER]
    driver.sweep(lambda uuids: set(uuids))
    assert len(host.machine.mounts) == 1
    driver.remove(OTHER, 0, mount)
    assert host.empty() and cinder.attachments == {}


def test_another_host_must_not_write_too(host, client, cinder, tmp_path):
    volume, far = cinder.volume(multiattach=True), Host(client, tmp_path, "two")
    far.machine.contents = host.machine.contents
    host.driver().prepare(OWNER, "demo", 0, mount_of(volume))
    for read_only in (False, True):
        with pytest.raises(exceptions.VolumeError, match="attached on another host"):
            far.driver().prepare(OTHER, "demo", 0, mount_of(volume, read_only=read_only))
    host.driver().remove(OWNER, 0, mount_of(volume))
    for each, owner in ((host, OWNER), (far, OTHER)):
        each.driver().prepare(owner, "demo", 0, mount_of(volume, read_only=True))
    assert {each["attach_mode"] for each in cinder.attachments.values()} == {"ro"}
    with pytest.raises(exceptions.VolumeError, match="attached on another host"):
        host.driver().prepare("third", "demo", 0, mount_of(volume))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("where", ["one", None])
def test_a_server_of_this_host_keeps_its_volume(host, cinder, where, read_only):
    """Its file system may be mounted inside, and its device would go with the container."""
    volume = cinder.volume(multiattach=True)
    cinder.server(volume, where, "ro")
    with pytest.raises(exceptions.VolumeRefused, match="is attached to server"):
        host.driver().prepare(OWNER, "demo", 0, mount_of(volume, read_only=read_only))
    assert host.empty() and len(cinder.attachments) == 1


def test_a_server_of_another_host(host, cinder):
    volume = cinder.volume(multiattach=True)
    cinder.server(volume, "far", "ro")
    with pytest.raises(exceptions.VolumeRefused, match="attached on another host"):
        host.driver().prepare(OWNER, "demo", 0, mount_of(volume))
    host.machine.contents[f"/dev/{volume}"] = Content("ext4", "theirs")
    host.driver().prepare(OWNER, "demo", 0, mount_of(volume, read_only=True))


def test_another_host_attaches_before_the_reservation(host, client, cinder, tmp_path):
    """Cinder lets the second host reserve, which saw the volume when it was free."""
    volume, far = cinder.volume(multiattach=True), Host(client, tmp_path, "two")
    far.machine.contents = host.machine.contents
    steps = Before("reserve", lambda: host.driver().prepare(OWNER, "demo", 0, mount_of(volume)))
    with pytest.raises(exceptions.VolumeRefused, match="attached on another host"):
        far.driver(steps).prepare(OTHER, "demo", 0, mount_of(volume))
    assert host.machine.mounts and not far.machine.mounts
    far.driver().remove(OTHER, 0, mount_of(volume))
    assert far.empty() and [each["instance"] for each in cinder.of(volume)] == [OWNER]


def test_two_hosts_attach_at_the_same_time(host, client, cinder, tmp_path):
    """Whoever completes and sees the other gives the volume back."""
    volume, far = cinder.volume(multiattach=True), Host(client, tmp_path, "two")

    def attach():
        cinder.volumes[volume]["status"] = "in-use"  # as after a third container is detached
        far.driver().prepare(OTHER, "demo", 0, mount_of(volume))

    with pytest.raises(exceptions.VolumeRefused, match="attached on another host"):
        host.driver(Before("complete", attach)).prepare(OWNER, "demo", 0, mount_of(volume))
    assert far.machine.mounts and not host.machine.mounts
    host.driver().remove(OWNER, 0, mount_of(volume))
    assert host.empty() and [each["instance"] for each in cinder.of(volume)] == [OTHER]


@pytest.mark.parametrize("status", ["reserved", "attaching"])
@pytest.mark.parametrize("step", ["volume", "reserve"])
def test_containers_attach_one_after_the_other(host, cinder, status, step):
    """Cinder reserves no volume, not even one of a multiattach type, while another container attaches it."""
    volume, host.wait_seconds = cinder.volume(multiattach=True), 60
    steps = Before(step, lambda: cinder.volumes[volume].update(status=status))
    with concurrent.futures.ThreadPoolExecutor() as threads:
        attached = threads.submit(host.driver(steps).prepare, OWNER, "demo", 0, mount_of(volume))
        asked = ("GET", f"volumes/{volume}")
        wait_for(lambda: cinder.asked.count(asked) > 2 or attached.done())
        assert not attached.done() and [each["status"] for each in cinder.of(volume)] == []
        cinder.volumes[volume]["status"] = "in-use"
        attached.result()
    assert host.machine.mounts and cinder.volumes[volume]["status"] == "in-use"


@pytest.mark.parametrize(
    ("multiattach", "told"), [(True, "is reserved after 1 s"), (False, "is reserved, and must be available")]
)
def test_a_volume_that_stays_reserved(host, cinder, multiattach, told):
    volume = cinder.volume(multiattach=multiattach, status="reserved")
    with pytest.raises(exceptions.VolumeRefused, match=told):
        host.driver().prepare(OWNER, "demo", 0, mount_of(volume))
    assert host.empty()


def test_after_a_reboot(host, cinder):
    volume = cinder.volume()
    mount = mount_of(volume)
    host.driver().prepare(OWNER, "demo", 0, mount)
    host.machine.reboot()
    cinder.failures["GET", ""] = 500  # it may be down
    host.driver().restore(OWNER, 0, mount)
    assert len(host.machine.mounts) == 1 and host.machine.made == {f"/dev/{volume}": 1}
    with pytest.raises(exceptions.VolumeError, match="no record"):
        host.driver().restore(OTHER, 0, mount)


def test_orphans_are_deleted_when_they_are_old(host, cinder):
    orphan, known, foreign = cinder.owned(OWNER), cinder.owned(OTHER), cinder.volume()
    young = cinder.owned(OWNER, created_at="2999-01-01T00:00:00.000000")
    used = cinder.owned(OWNER, status="in-use")
    unanswered = cinder.volume(metadata={"zun": "container", "zun_container": OWNER, "zun_volume": "new"})
    host.driver().sweep(lambda uuids: {OTHER} & set(uuids))
    assert set(cinder.volumes) == {young, known, used, foreign} and not {orphan, unanswered} & set(cinder.volumes)


@pytest.mark.parametrize("failure", ["forbidden", "conflict", "broken", "slow"])
def test_an_orphan_that_stays_hides_no_other(host, cinder, caplog, failure):
    """It has a snapshot, for example. One line says so."""
    orphans = sorted(cinder.owned(OWNER) for _ in range(3))
    cinder.failures["DELETE", f"volumes/{orphans[0]}"] = FAILURES[failure][0]
    with caplog.at_level("INFO", module.__name__):
        host.driver().sweep(lambda uuids: set())
    lines = [each.getMessage() for each in caplog.records]
    assert [each for each in lines if orphans[0] in each and "stays for now" in each and "Cinder" in each] == lines[:1]
    assert len(lines) == 3
    wait_for(lambda: not cinder.under_way)
    assert orphans[0] in cinder.volumes or failure == "slow"
    assert not cinder.volumes.keys() & set(orphans[1:])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_orphans_beyond_the_first_page(host, cinder, count):
    cinder.page = 2
    for _ in range(count):
        cinder.owned(OWNER)
    host.driver().sweep(lambda uuids: set())
    assert cinder.volumes == {}


@pytest.mark.parametrize("marks", [
    pytest.param({"zun_volume": OTHER}, id="restored-from-a-backup"),
    pytest.param({}, id="of-an-earlier-release"),
    pytest.param({"zun_volume": ""}, id="written-by-hand"),
])  # fmt: skip
def test_a_volume_with_the_marks_of_another_one_is_kept(host, cinder, marks):
    """Cinder copies the metadata into a volume that it restores from a backup. Its container may be gone long since."""
    kept = cinder.volume(metadata={"zun": "container", "zun_container": OWNER, **marks})
    host.driver().sweep(lambda uuids: set())
    assert list(cinder.volumes) == [kept]


def test_a_name_beyond_the_first_page(client, cinder):
    cinder.page = 2
    made = [cinder.volume(name="data") for _ in range(5)]
    assert [each["id"] for each in client.volumes(name="data")] == made


# A whole cloud.


def test_containers_of_a_cloud(database, context, cinder, client, tmp_path):
    """A container runs with its volume, survives an agent's restart, and goes while Cinder is away."""
    host = Host(client, tmp_path)
    options = {f"cinder__{name}": value for name, value in cinder.options().items()}
    with Cloud({"one": machine()}, **options, cinder__mount_directory=str(tmp_path)) as cloud:
        cloud.stop_agent("one")
        cloud.volumes["one"] = Drivers(host.driver())
        agent = cloud.start_agent("one")
        volume = cinder.volume()
        record = [mount_of(volume).to_dict()]
        hints = {"image:trait:CUSTOM_ZUN_CINDER": "required"}
        container = cloud.run(context, mounts=record, request={"run": True, "hints": hints})
        assert (container.status, cinder.volumes[volume]["status"]) == ("Running", "in-use")
        second = cloud.run(context, mounts=record, request={"run": True})
        assert second.status == "Error" and f"volume {volume} is in-use" in second.status_reason
        assert second.cpuset is None, "it holds nothing"
        cloud.stop_agent("one")
        host.machine.reboot()
        cloud.volumes["one"] = Drivers(host.driver())
        agent = cloud.start_agent("one")
        assert len(host.machine.mounts) == 1
        cinder.failures["GET", ""] = cinder.failures["DELETE", ""] = 503
        cloud.compute_api.delete(context, container, force=True)
        cloud.gone(container)
        assert host.machine.connected == {} and cinder.volumes[volume]["status"] == "in-use"
        cinder.failures.clear()
        wait_for(lambda: agent._compare() or host.empty())
        assert cinder.volumes[volume]["status"] == "available"


@pytest.mark.parametrize("fails", ["", "start", "attach", "detach", "empty"])
@pytest.mark.parametrize("owned", [False, True])
def test_a_volume_moves_to_another_host_and_comes_back(database, context, cinder, client, tmp_path, fails, owned):
    """Its data is where the container is, and a volume that was made with the container outlives a failure."""
    uuid = uuidutils.generate_uuid()
    hosts = {name: Host(client, tmp_path / name, name) for name in ("one", "two")}
    disks = hosts["two"].machine.contents = hosts["one"].machine.contents  # what is on the volume
    options = {f"cinder__{name}": value for name, value in cinder.options().items()}
    with Cloud({}, **options) as cloud:
        for name, host in hosts.items():
            cloud.machines[name], cloud.volumes[name] = machine(), Drivers(host.driver())
        cloud.start_agent("one")
        volume = cinder.owned(uuid) if owned else cinder.volume()
        record = [{**mount_of(volume).to_dict(), "owned": owned}]
        container = cloud.run(context, uuid=uuid, mounts=record, request={"run": True})
        assert (container.status, container.host) == ("Running", "one"), container.status_reason
        cloud.start_agent("two")
        with cloud.scheduler.table._comparing:
            cloud.scheduler.table._compare(None)
        if fails == "start":
            cloud.drivers["two"].fail("start", exceptions.DockerError(error="no"))
        elif fails == "attach":
            hosts["two"].machine.failures = {"connect"}
        elif fails == "empty":  # its storage gives the new host a wrong volume, which gets no file system
            hosts["two"].machine.contents = {}
        elif fails == "detach":
            hosts["one"].machine.failures = {"unmount"}
            cloud.drivers["one"].before("start", lambda _: hosts["one"].machine.failures.clear())
        cloud.compute_api.want(context, container, "leave", discard_layer=True, run=True, host=None)
        wait_for(lambda: container_actions.of_container(uuid)[0]["finish_time"])
        left = uuid_of_left(uuid, "one")
        now = wait_for(lambda: not containers.of_uuids([left]) and not container_actions.wanted(uuid)
                       and (row := containers.get(uuid))["status"] == "Running" and row)  # fmt: skip
        here, other = ("one", "two") if fails else ("two", "one")
        assert now["host"] == here
        assert len(hosts[here].machine.mounts) == 1 and hosts[other].machine.mounts == {}
        (attachment,) = cinder.of(volume)
        assert attachment["connector"]["host"] == here and cinder.volumes[volume]["status"] == "in-use"
        assert len(disks) == 1 and sum(sum(host.machine.made.values()) for host in hosts.values()) == 1
        cloud.compute_api.delete(context, Container.get_by_uuid(CONTEXT, uuid), force=True)
        wait_for(lambda: not containers.of_uuids([uuid]))
        assert (volume in cinder.volumes) != owned and not cinder.attachments
