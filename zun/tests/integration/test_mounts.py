# SPDX-License-Identifier: Apache-2.0
"""Mounts of real containers: sizes that the kernel enforces, volumes that stay within their project."""

import base64
import os
import pathlib
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Api, Client
from zun.volume.runtime import volume_name

pytestmark = pytest.mark.docker

MIB = 1 << 20


@pytest.fixture
def cloud(on_docker, tmp_path):
    """The all-in-one, and its API for two projects with names of this test's own."""
    made = on_docker()
    made.start()
    version = {"OpenStack-API-Version": "container 1.42"}
    apis = [Api(made.url, f"{name}-{uuid.uuid4().hex[:8]}", version) for name in ("a", "b")]
    yield made, *apis
    for api in apis:
        api.delete_all()
    assert loops_below(tmp_path) == []


@pytest.fixture
def volumes(engine):
    """Notes volumes of projects, and removes them at the end."""
    made = []
    yield made
    for name in made:
        engine.remove_volume(name)


def loops_below(folder):
    """Return the mounts below ``folder``."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{folder}/")]


def running(api, *mounts, **fields):
    shown = api.settled(api.run(mounts=list(mounts), **fields))
    assert shown["status"] == "Running", shown["status_reason"]
    return shown["uuid"]


def said(api, uuid_, command, code=0):
    answer = api.request("POST", f"/containers/{uuid_}/execute", params={"command": command}).json()
    assert answer["exit_code"] == code, answer
    return answer["output"]


def fill(api, uuid_, folder, most):
    """Write zeros until nothing more goes. Returns how many bytes there are; it must have ended for want of space."""
    output = said(api, uuid_, f"dd if=/dev/zero of={folder}/zeros bs=64k count=4096", code=1)
    assert "No space left on device" in output
    size = int(said(api, uuid_, f"stat -c %s {folder}/zeros"))
    assert most / 2 < size <= most
    return size


def test_a_local_mount_is_as_large_as_it_was_asked_for(cloud, tmp_path):
    program, api, _ = cloud
    container = running(api, {"size": "16M", "destination": "/scratch"})
    fill(api, container, "/scratch", 16 * MIB)
    assert said(api, container, "sh -c 'rm /scratch/zeros; echo kept > /scratch/note'") == ""
    (place,) = loops_below(tmp_path)
    # It is there as before after the agent is killed, and after the machine forgot it.
    program.kill()
    os.system(f"docker kill zun-{container} >/dev/null; umount {place}")
    assert loops_below(tmp_path) == []
    program.start()
    assert loops_below(tmp_path) == [place]
    wait_for(lambda: api.get(f"/containers/{container}")["status"] == "Stopped")
    assert api.request("POST", f"/containers/{container}/start").status_code == 202
    wait_for(lambda: api.get(f"/containers/{container}")["status"] == "Running")
    assert said(api, container, "cat /scratch/note") == "kept\n"
    fill(api, container, "/scratch", 16 * MIB)
    # A container whose file system is not there is not started on the host's disk.
    assert api.request("POST", f"/containers/{container}/stop?timeout=0").status_code == 202
    wait_for(lambda: api.get(f"/containers/{container}")["status"] == "Stopped")
    os.system(f"umount {place}")
    assert api.request("POST", f"/containers/{container}/start").status_code == 202
    wait_for(lambda: api.get(f"/containers/{container}")["status"] == "Error")
    assert "bind source path does not exist" in api.get(f"/containers/{container}")["status_reason"]
    api.delete_all()
    assert list((tmp_path / "state" / "volumes" / "local").iterdir()) == []


def test_a_tmpfs_is_as_large_as_it_was_asked_for(cloud):
    _, api, _ = cloud
    container = running(api, {"type": "tmpfs", "size": "4M", "destination": "/fast"})
    assert fill(api, container, "/fast", 4 * MIB) == 4 * MIB
    assert "tmpfs /fast tmpfs" in said(api, container, "cat /proc/mounts")


def test_a_volume_is_shared_within_its_project(volumes, cloud):
    _, api, other = cloud
    volumes += [volume_name(owner, "data") for owner in (api.project, other.project)]
    data = {"source": "data", "destination": "/data"}
    writer = running(api, data)
    said(api, writer, "sh -c 'echo ours > /data/note'")
    assert said(api, running(api, data), "cat /data/note") == "ours\n"
    assert said(other, running(other, data), "ls /data") == ""
    # It outlives its containers.
    api.delete_all()
    assert said(api, running(api, data), "cat /data/note") == "ours\n"
    assert not volumes[0].startswith(api.project)


def test_the_stock_client_brings_a_file(cloud, tmp_path):
    _, api, _ = cloud
    (tmp_path / "settings").write_bytes(b"\x00\xffkey = value\n")
    client = Client(api.url)  # of project and user "admin"
    mounts = ("--mount", f"type=bind,source={tmp_path}/settings,destination=/etc/app/settings")
    words = ("--memory", "64", "--name", "configured", *mounts, "--mount", "size=1,destination=/big")
    client("appcontainer", "run", *words, "zun-demo", "sleep", "1000")
    mine = Api(api.url)
    try:
        found = mine.get("/containers?name=configured")["containers"][0]["uuid"]
        assert mine.settled(found)["status"] == "Running"
        assert said(mine, found, "base64 /etc/app/settings").strip() == base64.b64encode(
            b"\x00\xffkey = value\n"
        ).decode()
        said(mine, found, "sh -c 'echo x >> /etc/app/settings'", code=1)
        assert "/big ext4" in said(mine, found, "cat /proc/mounts")
    finally:
        client("appcontainer", "delete", "--force", "configured")
        mine.delete_all()
