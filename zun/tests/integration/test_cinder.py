# SPDX-License-Identifier: Apache-2.0
"""Volumes of a real Cinder in containers of the real Docker, connected by os-brick over loop devices."""

import os
import pathlib
import subprocess
import uuid

import docker
import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import session as ksa_session

from zun.cinder.client import CinderClient
from zun.common import exceptions
from zun.common.context import RequestContext
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

    def __init__(self, keystone, cinder_url, docker_url, folder):
        self.folder, self.keystone, port = folder, keystone, free_port()
        self.engine = docker.APIClient(docker_url, version="auto")
        self.mounts, self.url = folder / "mounts", f"http://127.0.0.1:{port}/v1"
        self.host = f"test-{uuid.uuid4().hex[:8]}"
        settings = {
            "DEFAULT": {"state_path": folder / "state", "host": self.host, "debug": True},
            "api": {"port": port, "auth_strategy": "keystone", "access_log": False},
            "keystone_authtoken": keystone.settings() | {"token_cache_time": "300"},
            "docker": {"api_url": docker_url},
            "compute": {"reserved_host_memory_mb": 128, "sync_container_state_interval": 2},
            "capsule": {"sandbox_image": IMAGE, "sandbox_command": "sleep,1000000"},
            "network": {"subnet_pool": "10.221.0.0/16"},
            "cinder": keystone.cinder_settings()
            | {"enabled": True, "auth_type": "password", "endpoint_override": cinder_url}
            | {"mount_directory": self.mounts, "my_ip": "127.0.0.1"},
        }
        self.program = Program(folder, "allinone", "allinone", (), settings)
        self.program.start()
        keystone.publish(self.url)
        self.stock = Client(None, keystone.environment("member"))
        self.admin = Client(None, keystone.environment("admin"))
        self.api = TokenApi(self.url, keystone.token("member"), "1.46")
        self.others = TokenApi(self.url, keystone.token("stranger"), "1.46")
        session = ksa_session.Session(keystone.auth("zun-cinder", "service"))
        adapter = ks_adapter.Adapter(session, service_type="block-storage", endpoint_override=cinder_url)
        self.operator = CinderClient(adapter)
        member = RequestContext(project_id=keystone.projects["demo"].id, auth_token=keystone.token("member"))
        self.cinder = self.operator.of_user(member)

    def volume(self, **fields):
        """Make a volume of 1 GiB and return its id."""
        made = self.cinder.create_volume(size=1, **fields)["id"]
        wait_for(lambda: self.cinder.volume(made)["status"] == "available", 60)
        return made

    def free(self, *volumes):
        for each in volumes:
            wait_for(lambda each=each: self.cinder.volume(each)["status"] == "available", 60)
            assert self.cinder.volume(each)["attachments"] == [] == loops(each)
            self.cinder.delete_volume(each)

    def run(self, *mounts, status="Running", **fields):
        shown = self.api.settled(self.api.run(mounts=list(mounts), **fields))
        assert shown["status"] == status, shown["status_reason"]
        return shown

    def inside(self, container, command, code=0):
        path = f"/containers/{container['uuid']}/execute"
        answer = self.api.request("POST", path, params={"command": f"sh -c '{command}'"}).json()
        assert answer["exit_code"] == code, answer
        return answer["output"].strip()

    def directly(self, uuid_, command, code=0):
        """Run a command in a member of a capsule, which the API does not do."""
        made = self.engine.exec_create(f"zun-{uuid_}", ["sh", "-c", command])
        output = self.engine.exec_start(made["Id"]).decode()
        assert self.engine.exec_inspect(made["Id"])["ExitCode"] == code, output
        return output

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
        self.delete(*self.api.get("/containers")["containers"])
        try:
            wait_for(lambda: self.left() == ([], []), 60)
        finally:
            self.program.stop()
            print(self.program.log.read_text()[-6000:])


@pytest.fixture(scope="module")
def site(tmp_path_factory, keystone, cinder_url, docker_url):
    made = Site(keystone, cinder_url, docker_url, tmp_path_factory.mktemp("cinder"))
    yield made
    made.stop()


def loops(volume):
    listed = subprocess.run(["losetup", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True)
    return [line for line in listed.stdout.split() if volume in line]


def test_the_stock_clients(site):
    """A volume by its name: shown on both sides, kept with its data, and given back."""
    name = f"data-{uuid.uuid4().hex[:6]}"
    volume = site.stock.json("volume", "create", "--size", "1", name)["id"]
    wait_for(lambda: site.stock.json("volume", "show", name)["status"] == "available", 60)
    mount = ("--mount", f"source={name},destination=/data")
    site.stock("appcontainer", "run", "--name", name, *mount, IMAGE, "sleep", "999")
    container = site.api.settled(name)
    assert container["status"] == "Running", container["status_reason"]
    shown = site.stock.json("volume", "show", volume)
    (attached,) = shown["attachments"]
    assert (shown["status"], attached["server_id"], attached["device"]) == ("in-use", container["uuid"], "/data")
    assert site.admin.json("volume", "show", volume)["attachments"][0]["host_name"] == site.host
    assert len(loops(volume)) == 1
    assert site.inside(container, "echo kept > /data/note; ls /data") == "note"
    status, reason = site.api.refusal(mounts=[{"source": name, "destination": "/data"}])
    assert status == 400 and "it is in-use" in reason
    assert site.others.refusal(mounts=[{"source": volume, "destination": "/data"}])[0] == 404
    site.delete(container)
    again = site.run({"source": volume, "destination": "/again", "read_only": True})
    assert site.inside(again, "cat /again/note") == "kept"
    assert "Read-only" in site.inside(again, "echo x > /again/x", code=1)
    site.delete(again)
    site.free(volume)
    assert f"secret-{volume}" not in site.program.log.read_text()


def test_a_new_volume_outlives_kill_minus_9(site):
    """It is as large as asked for, stays mounted while the agent is dead, and is deleted with its container."""
    mounts = ({"size": 1, "destination": "/new"}, {"type": "local", "size": "8M", "destination": "/local"})
    container = site.run(*mounts)
    (volume,) = (each["id"] for each in site.cinder.volumes() if each["name"] == f"zun-{container['uuid']}")
    site.inside(container, "echo kept > /new/note; echo x > /local/x")
    assert int(site.inside(container, "df -m /new | tail -n 1").split()[1]) > 900
    site.program.kill()
    (place,) = (each for each in site.left()[0] if volume in each)
    os.system(f"docker kill zun-{container['uuid']} >/dev/null; umount {place}")
    site.program.start()
    assert place in site.left()[0]
    wait_for(lambda: site.api.get(f"/containers/{container['uuid']}")["status"] == "Stopped", 60)
    site.api.request("POST", f"/containers/{container['uuid']}/start")
    wait_for(lambda: site.api.get(f"/containers/{container['uuid']}")["status"] == "Running", 60)
    assert site.inside(container, "cat /new/note") == "kept"
    site.delete(container)
    with pytest.raises(exceptions.VolumeNotFound):
        wait_for(lambda: site.cinder.volume(volume)["status"] == "never", 60)
    assert loops(volume) == []


def test_one_connection_serves_a_multiattach_volume(site):
    """Of two containers, and of a capsule of which one container only reads."""
    name = f"multi-{uuid.uuid4().hex[:6]}"
    specs = {"multiattach": "<is> True"}
    site.operator._send("POST", "types", {"volume_type": {"name": name, "extra_specs": specs}})
    volume = site.volume(volume_type=name)
    mount = {"source": volume, "destination": "/data"}
    first = site.run(mount)
    second = site.run(mount)
    site.inside(first, "echo kept > /data/note")
    assert site.inside(second, "cat /data/note") == "kept"
    assert len(loops(volume)) == 1 and len([each for each in site.left()[0] if volume in each]) == 1
    assert len(site.cinder.volume(volume)["attachments"]) == 2
    site.delete(first)
    site.inside(second, "echo more >> /data/note")
    mounts = [{"name": "vol", "mountPath": "/v", "readOnly": only} for only in (False, True)]
    members = [{"image": IMAGE, "command": ["sleep", "999"], "volumeMounts": [each]} for each in mounts]
    spec = {"containers": members, "volumes": [{"name": "vol", "cinder": {"volumeID": volume}}]}
    template = {"kind": "capsule", "metadata": {"name": name}, "spec": spec}
    reply = site.api.request("POST", "/capsules", json={"template": template})
    assert reply.status_code == 202, reply.text
    path = f"/capsules/{reply.json()['uuid']}"
    shown = wait_for(lambda: (now := site.api.get(path))["status"] == "Running" and now, 120)
    writer, reader = (each["uuid"] for each in shown["containers"])
    site.directly(writer, "echo capsule >> /v/note")
    assert site.directly(reader, "cat /v/note").split() == ["kept", "more", "capsule"]
    site.directly(reader, "echo x > /v/x", code=1)
    site.delete(second)
    site.directly(reader, "cat /v/note")
    assert site.api.request("DELETE", path).status_code == 204
    wait_for(lambda: site.api.request("GET", path).status_code == 404, 60)
    site.free(volume)


@pytest.mark.parametrize("step", ["reserved", "attaching", "in-use", "deleting"])
def test_killed_while_it_attaches_and_detaches(site, step):
    """kill -9 when Cinder shows the step: the creation goes on, or the deletion, and nothing is left."""
    volume = site.volume()
    container = site.api.run(mounts=[{"source": volume, "destination": "/data"}])
    later = {"reserved": ("reserved", "attaching", "in-use"), "attaching": ("attaching", "in-use")}
    wait_for(lambda: site.cinder.volume(volume)["status"] in later.get(step, ("in-use",)), 60)
    if step == "deleting":
        site.api.settled(container)
        site.api.request("DELETE", f"/containers/{container}?stop=true")
    site.program.kill()
    site.program.start()
    if step != "deleting":
        assert site.api.settled(container)["status"] == "Running"
        site.delete({"uuid": container})
    site.free(volume)
