# SPDX-License-Identifier: Apache-2.0
"""Volumes of a real Cinder in containers of the real Docker, connected by os-brick over loop devices."""

import os
import pathlib
import subprocess
import uuid

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.programs import Client, Program, TokenApi, free_port

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root"),
]


class Site:
    """An all-in-one with Cinder, the stock client of a member of a project, and what there is on this machine."""

    def __init__(self, keystone, docker_url, folder):
        self.folder, self.keystone, port = folder, keystone, free_port()
        self.mounts, self.url = folder / "mounts", f"http://127.0.0.1:{port}/v1"
        self.host = f"test-{uuid.uuid4().hex[:8]}"
        settings = {
            "DEFAULT": {"state_path": folder / "state", "host": self.host, "debug": True},
            "api": {"port": port, "auth_strategy": "keystone", "access_log": False},
            "keystone_authtoken": keystone.settings() | {"token_cache_time": "300"},
            "docker": {"api_url": docker_url},
            "compute": {"reserved_host_memory_mb": 128, "sync_container_state_interval": 2},
            "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,1000000"},
            "network": {"subnet_pool": "10.219.0.0/16"},
            "cinder": keystone.cinder_settings()
            | {"enabled": True, "auth_type": "password", "mount_directory": self.mounts, "my_ip": "127.0.0.1"},
        }
        self.program = Program(folder, "allinone", "allinone", (), settings)
        self.program.start()
        keystone.publish(self.url)
        self.stock = Client(None, keystone.environment("member"))
        self.admin = Client(None, keystone.environment("admin"))
        self.api = TokenApi(self.url, keystone.token("member"), "1.46")
        self.others = TokenApi(self.url, keystone.token("stranger"), "1.46")

    def volume(self, *words, name=None):
        """Make a volume of 1 GiB with the stock client, and return its id."""
        made = self.stock.json("volume", "create", "--size", "1", *words, name or f"v-{uuid.uuid4().hex[:6]}")["id"]
        wait_for(lambda: self.show(made)["status"] == "available", 60)
        return made

    def show(self, volume):
        return self.stock.json("volume", "show", volume)

    def free(self, *volumes):
        for each in volumes:
            wait_for(lambda each=each: self.show(each)["status"] == "available", 60)
            assert self.show(each)["attachments"] == []

    def run(self, *mounts, status="Running", **fields):
        shown = self.api.settled(self.api.run(mounts=list(mounts), **fields))
        assert shown["status"] == status, shown["status_reason"]
        return shown

    def inside(self, container, command, code=0):
        path = f"/containers/{container['uuid']}/execute"
        answer = self.api.request("POST", path, params={"command": f"sh -c '{command}'"}).json()
        assert answer["exit_code"] == code, answer
        return answer["output"].strip()

    def delete(self, *containers):
        for each in containers:
            assert self.api.request("DELETE", f"/containers/{each['uuid']}?stop=true").status_code == 204
        for each in containers:
            wait_for(lambda uuid=each["uuid"]: self.api.request("GET", f"/containers/{uuid}").status_code == 404, 60)

    def left(self):
        """What this site has on this machine: mounts, and records."""
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [line.split()[4] for line in lines if line.split()[4].startswith(f"{self.folder}/")]
        return mounts, [str(each) for each in (self.folder / "state/volumes/cinder").glob("*/*")]

    def stop(self):
        if self.program.process is None:
            self.program.start()
        self.api.delete_all()
        try:
            wait_for(lambda: self.left() == ([], []), 60)
        finally:
            self.program.stop()
            print(self.program.log.read_text()[-6000:])


@pytest.fixture(scope="module")
def site(tmp_path_factory, keystone, cinder_url, docker_url):
    made = Site(keystone, docker_url, tmp_path_factory.mktemp("cinder"))
    yield made
    made.stop()


def loops(volume):
    listed = subprocess.run(["losetup", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True)
    return [line for line in listed.stdout.split() if volume in line]


def test_the_stock_clients(site):
    """A volume by its name: shown on both sides, kept with its data, and given back."""
    name = f"data-{uuid.uuid4().hex[:6]}"
    volume = site.volume(name=name)
    mount = ("--mount", f"source={name},destination=/data")
    site.stock("appcontainer", "run", "--name", name, *mount, IMAGE, "sleep", "999")
    container = site.api.settled(name)
    assert container["status"] == "Running", container["status_reason"]
    shown = site.show(volume)
    (attached,) = shown["attachments"]
    assert (shown["status"], attached["server_id"], attached["device"]) == ("in-use", container["uuid"], "/data")
    assert site.admin.json("volume", "show", volume)["attachments"][0]["host_name"] == site.host
    assert len(loops(volume)) == 1
    assert site.inside(container, "echo kept > /data/note; ls /data") == "note"
    status, reason = site.api.refusal(mounts=[{"source": name, "destination": "/data"}])
    assert status == 400 and "it is in-use" in reason
    assert site.others.refusal(mounts=[{"source": volume, "destination": "/data"}])[0] == 404
    site.delete(container)
    site.free(volume)
    assert loops(volume) == []
    again = site.run({"source": volume, "destination": "/again", "read_only": True})
    assert site.inside(again, "cat /again/note") == "kept"
    assert "Read-only" in site.inside(again, "echo x > /again/x", code=1)
    site.delete(again)
    site.free(volume)
    site.stock("volume", "delete", volume)
    assert f"secret-{volume}" not in site.program.log.read_text()
