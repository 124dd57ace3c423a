# SPDX-License-Identifier: Apache-2.0
"""A Docker with ``userns-remap``: root of a container is nobody on the host, and all else is as without it."""

import base64
import pathlib
import subprocess
import tempfile

import docker
import pytest

from zun.tests.fake_glance import tar
from zun.tests.integration.container import own_daemon
from zun.tests.integration.programs import Api

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

VERSION = {"OpenStack-API-Version": "container 1.42"}
FIRST = 700_000
"""The user id on the host of a container's root."""


@pytest.fixture
def shared(tmp_path):
    """The folder of the test, whose mounts other mount namespaces see."""
    own_daemon.need_own_daemon()
    for command in ("--bind", tmp_path), ("--make-shared",):
        subprocess.run(["mount", *command, tmp_path], check=True)
    yield
    subprocess.run(["umount", tmp_path], check=True)


@pytest.fixture
def daemon(docker_url, shared):
    with tempfile.TemporaryDirectory(prefix="zun-userns-") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o711)  # containers come through
        (folder / "ids").write_text(f"daemon:{FIRST}:65536\n")
        ids = dict.fromkeys(("/etc/subuid", "/etc/subgid"), folder / "ids")
        with own_daemon.running(folder, "--userns-remap=daemon", sees=ids) as daemon:
            yield daemon


def test_root_of_a_container_is_nobody_on_the_host(on_docker, daemon, tmp_path):
    rules = tmp_path / "policy.yaml"
    rules.write_text('"container:create:privileged": "@"\n')
    service = on_docker(docker={"api_url": daemon.url}, oslo_policy={"policy_file": rules})
    service.start()
    api, engine = Api(service.url, version=VERSION), docker.APIClient(daemon.url, version="auto")
    mounts = [
        {"source": "shared", "destination": "/volume"},
        {"size": "16M", "destination": "/local"},
        {"type": "tmpfs", "size": "4M", "destination": "/fast"},
        {"type": "bind", "source": base64.b64encode(b"told\n").decode(), "destination": "/told"},
    ]
    try:
        shown = api.settled(api.run(cpu_policy="dedicated", cpu=1, memory=64, mounts=mounts))
        assert shown["status"] == "Running", shown["status_reason"]
        path, seen = f"/containers/{shown['uuid']}", engine.inspect_container(f"zun-{shown['uuid']}")
        process = pathlib.Path("/proc", str(seen["State"]["Pid"]))
        assert process.stat().st_uid == FIRST
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        assert status["Cpus_allowed_list"] == seen["HostConfig"]["CpusetCpus"] == shown["cpuset_cpus"]
        assert status["Mems_allowed_list"] == seen["HostConfig"]["CpusetMems"]

        def said(command):
            answer = api.request("POST", f"{path}/execute", params={"command": command}).json()
            assert answer["exit_code"] == 0, answer
            return answer["output"]

        for each in ("/volume", "/local", "/fast"):
            said(f"sh -c 'echo kept > {each}/note'")
        assert said("cat /told /volume/note /local/note /fast/note") == "told\nkept\nkept\nkept\n"
        archive = base64.b64encode(tar({"in": b"x"})).decode()
        assert api.request("POST", f"{path}/put_archive?path=/tmp", json={"data": archive}).ok
        assert said("stat -c %u /tmp/in") == "0\n"
        assert api.get(f"{path}/get_archive?path=/tmp/in")["data"]
        assert api.request("POST", f"{path}/rebuild").status_code == 202
        assert api.settled(shown["uuid"])["status"] == "Running"
        assert said("cat /volume/note /local/note") == "kept\nkept\n"
        privileged = api.settled(api.run(privileged=True))
        assert privileged["status"] == "Error" and "user namespaces" in privileged["status_reason"]
    finally:
        api.delete_all()
        service.stop()
        engine.close()
