# SPDX-License-Identifier: Apache-2.0
"""Random capsules on a real Docker, broken at random moments and deleted: nothing of them is left.

ZUN_CAPSULE_SEQUENCES and ZUN_CAPSULE_SEED choose how many there are and which. Docker is the test's own.
"""

import contextlib
import glob
import os
import pathlib
import random
import sqlite3
import subprocess
from collections import Counter

import docker
import pytest
from oslo_utils import uuidutils

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.own_daemon import own_daemon
from zun.tests.integration.programs import Api

__all__ = ["own_daemon"]

SEQUENCES = int(os.environ.get("ZUN_CAPSULE_SEQUENCES", "12"))
SEED = int(os.environ.get("ZUN_CAPSULE_SEED", "1"))
VERSION = {"OpenStack-API-Version": "container 1.42"}
SETTLED = {"Running", "Stopped", "Error"}
TOGETHER = 3
"""Capsules that may be on their way out while the next one is made."""

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240 + 12 * SEQUENCES)]

FAILS = "exit 3"
INITS = ("true", "sleep 0.3", FAILS)
SCRIPTS = ("sleep 1000", "trap 'exit 0' TERM; sleep 1000 & wait", "echo done", "exit 4")
MOMENTS = ("asked", "begun", "settled")
FAULTS = ("none", "agent", "member killed", "member removed", "sandbox killed", "sandbox removed")


@pytest.fixture
def cloud(on_docker, own_daemon, tmp_path):
    """The service on a Docker of its own: the program with its ``api``, and ``state``, the folder of its files."""
    made = on_docker(
        docker={"api_url": own_daemon.url},
        compute={"audit_host_processes": "none", "sync_container_state_interval": 2},
        capsule={"sandbox_image": "zun-demo", "sandbox_command": "sleep,1000000"},
    )
    made.start()
    made.api, made.state = Api(made.url, "admin", VERSION), tmp_path / "state"
    yield made
    made.kill()
    for place in mounted(made.state):  # of a test that failed
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def engine(own_daemon):
    client = docker.APIClient(own_daemon.url, version="auto")
    yield client
    client.close()


def template(dice):
    """Return a capsule of one to four members, with init containers and volumes."""
    volumes = [f"v{number}" for number in range(dice.randint(0, 2))]

    def container(script):
        mounts = [{"name": each, "mountPath": f"/{each}"} for each in volumes if dice.random() < 0.7]
        requests = {"cpu": 0.1, "memory": 16}
        made = {"image": "zun-demo", "command": ["sh", "-c", script], "resources": {"requests": requests}}
        return {**made, "volumeMounts": mounts}

    inits = [container(dice.choice(INITS)) for _ in range(dice.choice((0, 0, 1, 2)))]
    members = [container(dice.choice(SCRIPTS)) for _ in range(dice.randint(1, 4))]
    mounted = {mount["name"] for each in (*inits, *members) for mount in each["volumeMounts"]}
    return {
        "kind": "capsule",
        "metadata": {"name": "pod"},
        "spec": {
            "containers": members,
            "initContainers": inits,
            "volumes": [{"name": each, "local": {"size": "8M"}} for each in volumes if each in mounted],
            "restartPolicy": dice.choice(("Always", "OnFailure", "Never")),
        },
    }


class Capsule:
    """One capsule, from its request to its deletion."""

    def __init__(self, cloud, engine, dice):
        self._cloud, self._engine, self._dice = cloud, engine, dice
        given = template(dice)
        spec = given["spec"]
        fails = any(each["command"][-1] == FAILS for each in spec["initContainers"])
        self._tries = fails and spec["restartPolicy"] != "Never"  # for minutes
        answer = cloud.api.request("POST", "/capsules", json={"template": given})
        assert answer.status_code == 202, answer.text
        self.uuid = answer.json()["uuid"]
        self.members = [each["uuid"] for each in self._shown()["containers"]]

    def _shown(self):
        return self._cloud.api.get(f"/capsules/{self.uuid}")

    def await_moment(self, moment):
        if moment == "begun":
            wait_for(lambda: self._objects() or self._shown()["status"] in SETTLED)
        elif moment == "settled" and not self._tries:
            wait_for(lambda: self._shown()["status"] in SETTLED)

    def _objects(self):
        """The names of the capsule's containers that Docker has."""
        wanted = {f"/zun-{each}" for each in (self.uuid, *self.members)}
        return wanted & {name for each in self._engine.containers(all=True) for name in each["Names"]}

    def fail(self, fault):
        """Let the fault happen. A container that Docker does not have, or that does not run, is left alone."""
        if fault == "agent":
            self._cloud.kill()
            self._cloud.start()
        elif fault != "none":
            who, how = fault.split()
            name = f"zun-{self.uuid if who == 'sandbox' else self._dice.choice(self.members)}"
            with contextlib.suppress(docker.errors.APIError):
                if how == "killed":
                    self._engine.kill(name)
                else:
                    self._engine.remove_container(name, force=True)

    def delete(self):
        answer = self._cloud.api.request("DELETE", f"/capsules/{self.uuid}")
        assert answer.status_code == 204, answer.text

    def gone(self):
        return self._cloud.api.request("GET", f"/capsules/{self.uuid}").status_code == 404


def mounted(state):
    listed = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    return [place for place in listed if place.startswith(f"{state}/")]


def left(cloud, engine, daemon):
    """Return the leftovers of capsules by kind: in Docker, in the kernel, on the disk and in the database."""
    state = cloud.state
    paths = map(pathlib.Path, glob.glob(f"{state}/**/*", recursive=True))  # passes over what goes meanwhile
    files = [str(path) for path in paths if uuidutils.is_uuid_like(path.name[:36])]
    loops = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=True).stdout
    with contextlib.closing(sqlite3.connect(f"file:{state}/zun.sqlite?mode=ro", uri=True)) as database:
        counts = {name: f"SELECT count(*) FROM {name}" for name in ("containers", "network_ports")}
        rows = {name: database.execute(count).fetchone()[0] for name, count in counts.items()}
    found = {
        "containers": [name for each in engine.containers(all=True) for name in each["Names"]],
        "volumes": engine.volumes()["Volumes"] or [],
        "namespaces": daemon.namespaces(),
        "claims": [each["container"] for each in cloud.api.held()[cloud.host]],
        "files": files,
        "mounts": mounted(state),
        "loops": [line for line in loops.splitlines() if str(state) in line],
        "rows": [f"{name}: {number}" for name, number in rows.items() if number],
    }
    return {name: values for name, values in found.items() if values}


def test_nothing_is_left_of_random_capsules(cloud, engine, own_daemon):
    dice, done, leaving = random.Random(SEED), Counter(), []
    print(f"ZUN_CAPSULE_SEED={SEED} ZUN_CAPSULE_SEQUENCES={SEQUENCES}")
    for _ in range(SEQUENCES):
        capsule, moment, fault = Capsule(cloud, engine, dice), dice.choice(MOMENTS), dice.choice(FAULTS)
        capsule.await_moment(moment)
        capsule.fail(fault)
        capsule.delete()
        done[f"{fault}, {moment}"] += 1
        leaving.append(capsule)
        if dice.random() < 0.5 or len(leaving) > TOGETHER:  # else the next one meets its deletion
            wait_for(lambda: all(each.gone() for each in leaving), 120)
            leaving.clear()
    wait_for(lambda: all(each.gone() for each in leaving), 120)
    print(done)
    found = []
    try:
        wait_for(lambda: not found.append(left(cloud, engine, own_daemon)) and not found[-1], 60)
    except AssertionError as exc:
        raise AssertionError(found[-1]) from exc
