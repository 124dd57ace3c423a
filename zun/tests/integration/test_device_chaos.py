# SPDX-License-Identifier: Apache-2.0
"""Real devices of real containers while their agent is killed: no two containers ever have the same one.

Random creates, deletes and kills of the agent, with files of this machine. After each step no two containers of Docker
may have a device in common. Now and then all is left to settle; then rows, claims, Docker and, with cgroup version 1,
the rules of the kernel must name the same devices.

``ZUN_DEVICE_STEPS`` is the number of steps, ``ZUN_DEVICE_SEED`` says which.
"""

import json
import os
import pathlib
import random
import re
import types
import uuid
from collections import Counter

import docker
import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.host import group_of
from zun.tests.integration.programs import SETTLED, Api, free_port

STEPS = int(os.environ.get("ZUN_DEVICE_STEPS", "40"))
SEED = int(os.environ.get("ZUN_DEVICE_SEED", "20261124"))
SETTLE = 10  # steps between two comparisons
pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.distributed, pytest.mark.timeout(240 + 10 * STEPS)]

RNG, LOOPS = "/dev/hwrng", [f"/dev/loop{number}" for number in range(4)]
FILES = {path: os.stat(path).st_rdev for path in (RNG, *LOOPS) if os.path.exists(path)}
SPECS = [
    {"path": RNG, "resource_class": "CUSTOM_RNG"},
    {"path": "/dev/loop[0-3]", "resource_class": "CUSTOM_LOOP"},
]
CLASSES = {each["resource_class"] for each in SPECS}
WANTED = (
    ({"resource_class": "CUSTOM_LOOP"},),
    ({"resource_class": "CUSTOM_LOOP", "count": 2},),
    ({"resource_class": "CUSTOM_RNG"},),
    ({"resource_class": "CUSTOM_RNG"}, {"resource_class": "CUSTOM_LOOP"}),
)
VERSION = {"OpenStack-API-Version": "container 1.45"}


@pytest.fixture
def cloud(program, docker_url, rabbit_url, database_url):
    """``api``, the ``agent`` of the one ``host`` and an ``engine`` beside it."""
    if len(FILES) < 3:
        pytest.skip(f"the machine has fewer than three of {RNG}, {', '.join(LOOPS)}")
    name, port = f"test-{uuid.uuid4().hex[:8]}", free_port()
    common = {
        "DEFAULT": {"host": name, "transport_url": rabbit_url, "control_exchange": name},
        "database": {"connection": database_url},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
    }
    code, said = program("db_manage", words=("upgrade",), **common).run_to_end()
    assert code == 0, said
    agent = program(
        "compute",
        docker={"api_url": docker_url},
        compute={"reserved_host_memory_mb": 128, "sync_container_state_interval": 2, "audit_host_processes": "none"},
        devices={"device_spec": "\ndevice_spec = ".join(map(json.dumps, SPECS))},
        **common,
    )
    again = {"sweep_interval": 1, "lost_after": 3, "booking_deadline": 5}
    scheduler = program("scheduler", scheduler=again, **common)
    server = program("api", api={"port": port, "auth_strategy": "noauth"}, **common)
    for each in (agent, scheduler, server):
        each.start()
    engine = docker.APIClient(docker_url, version="auto")
    api = Api(f"http://127.0.0.1:{port}/v1", version=VERSION)
    yield types.SimpleNamespace(api=api, agent=agent, host=name, engine=engine)
    for each in (agent, scheduler, server):
        each.kill()
    for each in engine.containers(all=True, filters={"label": f"zun.host={name}"}):
        engine.remove_container(each["Id"], force=True)
    engine.close()


def configured(cloud):
    """The devices of each container that Docker has, running or not, by uuid."""
    found = {}
    for each in cloud.engine.containers(all=True, filters={"label": f"zun.host={cloud.host}"}):
        try:
            config = cloud.engine.inspect_container(each["Id"])
        except docker.errors.NotFound:
            continue
        devices = config["HostConfig"]["Devices"] or []
        found[each["Labels"]["zun.uuid"]] = [device["PathOnHost"] for device in devices], config["State"]["Pid"]
    return found


def check_once(cloud):
    """No device may be in two containers at any time."""
    there = configured(cloud)
    counts = Counter(path for paths, _ in there.values() for path in paths)
    twice = [path for path, count in counts.items() if count > 1]
    assert not twice, f"{twice} is in two containers: {there}"


def allowed(pid):
    """The devices of ``FILES`` that the container's control group lets it use; None with cgroup version 2."""
    rules = pathlib.Path(group_of(pid, "devices"), "devices.list")
    if not rules.exists():
        return None
    numbers = set(re.findall(r" (\d+):(\d+) ", rules.read_text()))
    return {path for path, number in FILES.items() if (str(os.major(number)), str(os.minor(number))) in numbers}


def disagreement(cloud):
    """Why rows, claims, Docker and the kernel do not agree yet; None when they do."""
    rows = {each["uuid"]: each for each in cloud.api.get("/containers")["containers"]}
    unsettled = [each for each, row in rows.items() if row["task_state"] or row["status"] not in SETTLED]
    there = configured(cloud)
    claims = {each["container"] for each in cloud.api.held().get(cloud.host, ())}
    live = {each for each, row in rows.items() if row["status"] == "Running"}
    if unsettled or live != there.keys() or live != claims:
        return f"{unsettled=}, rows {sorted(live)}, Docker {sorted(there)}, claims {sorted(claims)}"
    for each in live:
        entries = rows[each]["devices"] or ()
        given = sorted(device["address"] for entry in entries for device in entry["given"])
        paths, pid = there[each]
        assert given == sorted(paths), f"{each} holds {given}, Docker gave {paths}"
        assert len(given) == sum(entry["count"] for entry in entries)
        seen = allowed(pid) if pid else set(paths)
        assert seen is None or seen == set(paths), f"{each} holds {paths}, the kernel allows {seen}"
    everything = [path for paths, _ in there.values() for path in paths]
    assert len(everything) == len(set(everything))
    return None


def agree(cloud):
    found = []

    def look():
        found.append(disagreement(cloud))
        return found[-1] is None

    try:
        wait_for(look, 120)
    except AssertionError as exc:
        raise AssertionError(found[-1:]) from exc


def test_no_two_containers_get_one_device(cloud):
    dice, done, kept = random.Random(SEED), Counter(), 0
    for number in range(STEPS):
        rows = cloud.api.get("/containers")["containers"]
        what = dice.choices(("create", "delete", "kill"), (10, 4 + len(rows), 1))[0] if rows else "create"
        if number == SETTLE // 2:  # at least once, whatever the seed
            what = "kill"
        if what == "create":
            cloud.api.run(cpu=0.1, memory=16, devices=dice.choice(WANTED))
        elif what == "delete":
            cloud.api.request("DELETE", f"/containers/{dice.choice(rows)['uuid']}?force=true")
        else:
            cloud.agent.kill()
            cloud.agent.start()
        done[what] += 1
        check_once(cloud)
        if number % SETTLE == SETTLE - 1:
            agree(cloud)
            kept += len(configured(cloud))
    cloud.api.delete_all()
    agree(cloud)
    assert configured(cloud) == {}
    assert kept, "no container ever had a device"
    print(f"{STEPS} steps of seed {SEED}: {dict(done)}; {kept} containers compared")
