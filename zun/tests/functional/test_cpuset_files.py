# SPDX-License-Identifier: Apache-2.0
"""The file that tells a container its CPUs, and the signal after a change, with runtimes in memory."""

import json
import pathlib
import stat

import pytest

from zun.common import exceptions
from zun.compute.host.cpuset_files import TARGET
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.over_api import OPTIONS, PAIR, administrator_of, created
from zun.topology import CpuSet

MIXED = {**PAIR, "cpu": 3, "cpu_policy": "mixed", "dedicated_cpus": 2}


@pytest.fixture
def cloud(database):
    with Cloud({"one": machine()}, **OPTIONS) as cloud:
        yield cloud


@pytest.fixture
def api(cloud):
    return administrator_of(cloud)


def folder_of(cloud, uuid):
    return pathlib.Path(cloud.conf.state_path, "cpusets", "one", uuid)


def told(cloud, uuid):
    """Return what the program reads: the mounted folder is named by the object, not by the service."""
    [mount] = [each for each in cloud.drivers["one"].runtime.objects[uuid].mounts if each.target == TARGET]
    assert (mount.kind, mount.read_only) == ("bind", True)
    return json.loads(pathlib.Path(mount.source, "cpuset.json").read_text())


def signals(cloud, uuid):
    return cloud.drivers["one"].runtime.objects[uuid].signals


def resized(api, uuid, **size):
    reply = api.send("PATCH", f"/v1/containers/{uuid}", size)
    assert reply.status == 200, reply.body
    return reply.json


def test_file_has_the_claim_before_the_first_process_starts(cloud, api):
    seen = []
    cloud.drivers["one"].before("start", lambda container: seen.append(told(cloud, container.uuid)))
    container = created(api)
    cpus = container["cpuset_cpus"]
    assert seen == [{"cpus": cpus, "mems": "0", "dedicated": cpus, "devices": [], "generation": 1}]


def test_file_is_replaced_and_the_signal_sent_after_a_resize(cloud, api):
    container = created(api, cpuset_signal="hup")
    uuid = container["uuid"]
    assert container["cpuset_signal"] == "SIGHUP" and signals(cloud, uuid) == []
    larger = resized(api, uuid, cpu=3)
    assert told(cloud, uuid) == {
        "cpus": larger["cpuset_cpus"], "mems": "0", "dedicated": larger["cpuset_cpus"], "devices": [], "generation": 2,
    }  # fmt: skip
    assert signals(cloud, uuid) == ["SIGHUP"]
    resized(api, uuid, memory=96)  # changes nothing of what it is told
    assert (told(cloud, uuid)["generation"], signals(cloud, uuid)) == (2, ["SIGHUP"])


def test_container_without_the_wish_gets_no_signal(cloud, api):
    container = created(api)
    resized(api, container["uuid"], cpu=3)
    assert told(cloud, container["uuid"])["generation"] == 2 and signals(cloud, container["uuid"]) == []


def test_failed_resize_changes_nothing_and_sends_nothing(cloud, api):
    container = created(api, cpuset_signal="SIGHUP")
    before = told(cloud, container["uuid"])
    cloud.drivers["one"].fail("update", exceptions.DockerError(error="no"))
    assert api.send("PATCH", f"/v1/containers/{container['uuid']}", {"cpu": 3}).status >= 400
    assert told(cloud, container["uuid"]) == before and signals(cloud, container["uuid"]) == []


def test_stopped_container_finds_the_new_cpus_at_its_start(cloud, api):
    container = created(api, cpuset_signal="SIGHUP")
    uuid = container["uuid"]
    api.post(f"/v1/containers/{uuid}/stop", {})
    wait_for(lambda: db.get(uuid)["status"] == "Stopped")
    resized(api, uuid, cpu=3)
    api.post(f"/v1/containers/{uuid}/start", {})
    wait_for(lambda: db.get(uuid)["status"] == "Running")
    assert len(CpuSet(told(cloud, uuid)["cpus"])) == 3
    assert signals(cloud, uuid) == []


def test_mixed_container_follows_the_pool(cloud, api):
    mixed = created(api, **MIXED, cpuset_signal="SIGUSR1")
    uuid = mixed["uuid"]
    before = told(cloud, uuid)
    assert before["dedicated"] == mixed["cpuset_dedicated"] and CpuSet(before["cpus"]) == CpuSet("0-3")
    neighbour = created(api, cpu=1)
    assert told(cloud, uuid)["cpus"] == str(CpuSet(before["cpus"]) - CpuSet(neighbour["cpuset_cpus"]))
    assert told(cloud, uuid)["dedicated"] == before["dedicated"] and signals(cloud, uuid) == ["SIGUSR1"]
    api.delete(f"/v1/containers/{neighbour['uuid']}?force=true")
    wait_for(lambda: told(cloud, uuid)["cpus"] == before["cpus"])


def test_agent_that_died_before_it_told_does_so_at_its_next_start(cloud, api):
    container = created(api, cpuset_signal="SIGHUP")
    uuid = container["uuid"]
    resized(api, uuid, cpu=3)
    right = told(cloud, uuid)
    cloud.stop_agent("one")
    file = folder_of(cloud, uuid) / "seen" / "cpuset.json"
    file.write_text(json.dumps({**right, "cpus": "0", "generation": 1}))
    signals(cloud, uuid).clear()
    cloud.start_agent("one")
    wait_for(lambda: told(cloud, uuid) == right)
    wait_for(lambda: signals(cloud, uuid) == ["SIGHUP"])


def test_signal_that_could_not_be_sent_is_sent_later(cloud, api):
    container = created(api, cpuset_signal="SIGHUP")
    uuid = container["uuid"]
    cloud.drivers["one"].fail("kill", exceptions.DockerError(error="no answer"))
    resized(api, uuid, cpu=3)
    assert signals(cloud, uuid) == []
    cloud.agents["one"]._compare()
    wait_for(lambda: signals(cloud, uuid) == ["SIGHUP"])


def test_paused_container_gets_the_signal_after_the_pause(cloud, api):
    container = created(api, cpuset_signal="SIGHUP")
    uuid = container["uuid"]
    cloud.drivers["one"].pause(_Named(uuid))
    resized(api, uuid, cpu=3)
    assert signals(cloud, uuid) == [] and len(CpuSet(told(cloud, uuid)["cpus"])) == 3
    cloud.drivers["one"].unpause(_Named(uuid))
    cloud.agents["one"]._compare()
    wait_for(lambda: signals(cloud, uuid) == ["SIGHUP"])


class _Named:
    def __init__(self, uuid):
        self.uuid = uuid


def test_shared_container_has_no_file(cloud, api):
    container = created(api, cpu_policy="shared", cpu=1)
    assert cloud.drivers["one"].runtime.objects[container["uuid"]].mounts == ()
    assert not folder_of(cloud, container["uuid"]).exists()


def test_only_root_of_the_host_enters_and_any_user_inside_reads(cloud, api):
    folder = folder_of(cloud, created(api)["uuid"])
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "seen").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "seen" / "cpuset.json").stat().st_mode) == 0o644


def test_folder_goes_with_the_container(cloud, api):
    uuid = created(api)["uuid"]
    assert folder_of(cloud, uuid).exists()
    api.delete(f"/v1/containers/{uuid}?force=true")
    wait_for(lambda: not folder_of(cloud, uuid).exists())


def test_folder_that_a_crash_left_is_swept_and_others_stay(cloud, api):
    uuid, gone = created(api)["uuid"], "7f1d0d58-6e0f-4f10-9f5c-5a3c4e1c8a11"
    (folder_of(cloud, gone) / "seen").mkdir(parents=True)
    (folder_of(cloud, "notes")).mkdir()
    cloud.agents["one"]._compare()
    wait_for(lambda: not folder_of(cloud, gone).exists())
    assert folder_of(cloud, uuid).exists() and folder_of(cloud, "notes").exists()


def test_folder_that_is_lost_is_made_again_before_a_start(cloud, api):
    uuid = created(api)["uuid"]
    before = told(cloud, uuid)
    api.post(f"/v1/containers/{uuid}/stop", {})
    wait_for(lambda: db.get(uuid)["status"] == "Stopped")
    cloud.agents["one"]._pool.cpuset_files.remove(uuid)
    api.post(f"/v1/containers/{uuid}/start", {})
    wait_for(lambda: db.get(uuid)["status"] == "Running")
    assert told(cloud, uuid) == before


def test_container_starts_without_the_file_if_it_cannot_be_written(cloud, api, caplog):
    pathlib.Path(cloud.conf.state_path, "cpusets").write_text("")
    container = created(api)
    assert container["status"] == "Running"
    assert "has no /run/zun/cpuset.json" in caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"cpu_policy": "shared", "cpuset_signal": "SIGHUP"}, id="shared"),
        pytest.param({"cpuset_signal": "SIGKILL"}, id="cannot-be-handled"),
        pytest.param({"cpuset_signal": "hello"}, id="no-signal"),
    ],
)
def test_wrong_signal_is_a_400_that_names_the_field(api, fields):
    reply = api.post("/v1/containers", {**PAIR, **fields})
    assert reply.status == 400 and "cpuset_signal" in reply.error["detail"]


def test_signal_is_unknown_below_1_51(cloud, api):
    assert api.at("1.50").post("/v1/containers", {**PAIR, "cpuset_signal": "SIGHUP"}).status == 400
