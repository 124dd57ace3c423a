# SPDX-License-Identifier: Apache-2.0
"""Capsules of real containers: one place, one network, shared volumes, init containers first."""

import json
import os

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.capsules import container, create, said, settled
from zun.tests.integration.programs import Api, Client
from zun.topology import CpuSet

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]


@pytest.fixture
def cloud(on_docker):
    made = on_docker(
        # What else runs on the machine of the test is not the test's.
        compute={"audit_host_processes": "none"},
        capsule={"sandbox_image": "zun-demo", "sandbox_command": "sleep,1000000"},
    )
    made.start()
    api = Api(made.url, "admin", {"OpenStack-API-Version": "container 1.42"})
    yield made, api
    for each in api.get("/capsules")["capsules"]:
        api.request("DELETE", f"/capsules/{each['uuid']}")
    wait_for(lambda: not api.get("/capsules")["capsules"], 120)


SHARED = {"name": "shared", "mountPath": "/shared"}


@pytest.mark.alone  # its audit finds nothing
def test_a_dedicated_capsule(cloud, engine):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.fail("this test needs two CPUs")
    program, api = cloud
    uuid_ = create(
        api,
        container("cat /shared/order > /shared/seen; nc -l -p 4000 -e cat", volumeMounts=[SHARED]),
        container("echo here I am; sleep 1000", volumeMounts=[{"name": "shared", "mountPath": "/other"}]),
        inits=[
            container("sleep 0.5; echo first >> /shared/order", volumeMounts=[SHARED]),
            container("echo second >> /shared/order", volumeMounts=[SHARED]),
        ],
        volumes=[{"name": "shared", "local": {"size": "8M"}}],
        placement={"cpu_policy": "dedicated"},
    )
    shown = settled(api, uuid_)
    assert shown["status"] == "Running", shown["status_reason"]
    one, two = shown["containers"]
    assert [each["status"] for each in shown["init_containers"]] == ["Stopped", "Stopped"]
    # One place: each on a CPU of its own, all on the memory node of the capsule, as the kernel says.
    allowed = {}
    for each in (one, two):
        status = said(api, each, "cat", "/proc/self/status")
        cpus, mems = (
            next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}_allowed_list"))
            for name in ("Cpus", "Mems")
        )
        assert (cpus, mems) == (each["cpuset_cpus"], each["cpuset_mems"])
        allowed[each["uuid"]] = CpuSet(cpus)
        assert mems == shown["cpuset_mems"]
    first, second = allowed.values()
    assert len(first) == len(second) == 1 and not first & second
    assert first | second == CpuSet(shown["cpuset_cpus"])
    # Init containers ran in their order and before the others, in the volume that all share. A container runs before
    # its process has come to anything.
    wait_for(lambda: said(api, two, "sh", "-c", "cat /other/seen; true") == "first\nsecond\n")
    assert "ext4" in said(api, one, "sh", "-c", "grep ' /shared ' /proc/mounts")
    assert api.get(f"/containers/{two['uuid']}/logs").strip() == "here I am"
    assert "sleep 1000" in str(api.get(f"/containers/{two['uuid']}/top"))
    assert api.get(f"/containers/{two['uuid']}/get_archive?path=/other/seen")["stat"]["name"] == "seen"
    # One network.
    wait_for(lambda: said(api, two, "sh", "-c", "echo hello | nc 127.0.0.1 4000; true") == "hello\n")
    held = api.held()[shown["host"]]
    assert [claim["container"] for claim in held] == [uuid_], held
    host = shown["host"]
    audit = api.request("POST", f"/hosts/{host}/audit").json()
    assert audit["findings"] == [], audit
    # A new agent finds everything as it is.
    program.kill()
    program.start()
    again = settled(api, uuid_)
    assert (again["status"], again["cpuset_cpus"]) == ("Running", shown["cpuset_cpus"])
    assert said(api, two, "cat", "/other/seen") == "first\nsecond\n"
    assert api.request("POST", f"/hosts/{host}/audit").json()["findings"] == []
    assert api.request("DELETE", f"/capsules/{uuid_}").status_code == 204
    wait_for(lambda: api.request("GET", f"/capsules/{uuid_}").status_code == 404, 120)
    names = {name for each in engine.containers(all=True) for name in each["Names"]}
    assert not names & {f"/zun-{each['uuid']}" for each in (shown, one, two, *shown["init_containers"])}
    assert api.held()[host] == []


@pytest.mark.alone  # its audit finds nothing
def test_containers_that_differ_run_on_their_parts_in_the_kernel(cloud, engine):
    """A dedicated container and one of the pool, which leaves CPUs that another capsule takes and gets them back."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.fail("this test needs two CPUs")
    program, _ = cloud
    api = Api(program.url, "admin", {"OpenStack-API-Version": "container 1.51"})
    own = {"placement": {"cpu_policy": "dedicated"}}
    uuid_ = create(api, container("sleep 1000", **own), container("sleep 1000", cpu=0.2))
    shown = settled(api, uuid_)
    assert shown["status"] == "Running", shown["status_reason"]
    one, two = shown["containers"]
    assert [each["cpu_policy"] for each in (shown, one, two)] == ["mixed", "dedicated", "shared"]

    def allowed(each):
        status = said(api, each, "cat", "/proc/self/status")
        return CpuSet(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))

    mine, pool = allowed(one), allowed(two)
    assert mine == CpuSet(one["cpuset_cpus"]) and len(mine) == 1 and pool and not mine & pool
    assert [claim["container"] for claim in api.held()[shown["host"]]] == [uuid_]
    assert api.request("POST", f"/hosts/{shown['host']}/audit").json()["findings"] == []
    if len(pool) > 1:
        other = settled(api, create(api, container("sleep 1000", **own)))
        taken = allowed(other["containers"][0])
        assert allowed(two) == pool - taken and allowed(one) == mine
        api.request("DELETE", f"/capsules/{other['uuid']}")
        wait_for(lambda: allowed(two) == pool, 120)
    program.kill()
    program.start()
    settled(api, uuid_)
    assert (allowed(one), allowed(two)) == (mine, pool)
    assert api.request("POST", f"/hosts/{shown['host']}/audit").json()["findings"] == []


@pytest.mark.alone  # its audit finds nothing
def test_mixed_container_beside_one_of_the_pool_in_the_kernel(cloud, engine):
    program, _ = cloud
    api = Api(program.url, "admin", {"OpenStack-API-Version": "container 1.51"})
    mixed = container("sleep 1000", cpu=1.5, placement={"cpu_policy": "mixed", "dedicated_cpus": 1})
    shown = settled(api, create(api, mixed, container("sleep 1000", cpu=0.2)))
    assert shown["status"] == "Running", shown["status_reason"]
    one, two = shown["containers"]

    def allowed(each):
        status = said(api, each, "cat", "/proc/self/status")
        return CpuSet(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))

    own = CpuSet(said(api, one, "sh", "-c", "echo $ZUN_DEDICATED_CPUS").strip())
    assert len(own) == 1 and not own & allowed(two)
    assert allowed(one) == own | allowed(two)
    assert said(api, two, "sh", "-c", "echo $ZUN_DEDICATED_CPUS").strip() == ""
    assert api.request("POST", f"/hosts/{shown['host']}/audit").json()["findings"] == []


def test_a_failed_init_container(cloud, engine):
    _, api = cloud
    uuid_ = create(api, container("sleep 1000"), inits=[container("exit 3")], restartPolicy="Never")
    shown = settled(api, uuid_)
    assert shown["status"] == "Error" and "exit code 3" in shown["status_reason"]
    assert shown["containers"][0]["status"] == "Error"
    assert api.request("DELETE", f"/capsules/{uuid_}").status_code == 204


def test_a_sandbox_that_was_removed_by_hand(cloud, engine):
    """The capsule says what to do, and nothing is left when that is done."""
    _, api = cloud
    shown = settled(api, create(api, container("sleep 1000"), placement={"cpu_policy": "dedicated"}))
    assert shown["status"] == "Running", shown["status_reason"]
    engine.remove_container(f"zun-{shown['uuid']}", force=True)
    wait_for(lambda: settled(api, shown["uuid"])["status"] == "Error")
    assert "Delete the capsule, and create it anew" in settled(api, shown["uuid"])["status_reason"]
    assert [claim["container"] for claim in api.held()[shown["host"]]] == [shown["uuid"]], "its member runs"
    assert api.request("DELETE", f"/capsules/{shown['uuid']}").status_code == 204
    wait_for(lambda: api.request("GET", f"/capsules/{shown['uuid']}").status_code == 404, 120)
    names = {name for each in engine.containers(all=True) for name in each["Names"]}
    assert f"/zun-{shown['containers'][0]['uuid']}" not in names
    assert api.held()[shown["host"]] == []


def test_the_stock_client(cloud, tmp_path):
    _, api = cloud
    client = Client(api.url)
    (tmp_path / "capsule.yaml").write_text(
        "capsuleVersion: beta\n"
        "kind: capsule\n"
        "metadata:\n"
        "  name: web\n"
        "  labels:\n"
        "    app: web\n"
        "spec:\n"
        "  restartPolicy: Always\n"
        "  containers:\n"
        "  - image: zun-demo\n"
        "    command: ['sleep']\n"
        "    args: ['1000']\n"
        "    resources:\n"
        "      requests:\n"
        "        cpu: 0.5\n"
        "        memory: 32\n"
    )
    made = json.loads(client("appcontainer", "capsule", "create", "--file", f"{tmp_path}/capsule.yaml", "-f", "json"))
    assert made["name"] == "web"
    assert settled(api, made["uuid"])["status"] == "Running"
    listed = client.json("appcontainer", "capsule", "list")
    assert [(each["name"], each["status"]) for each in listed] == [("web", "Running")]
    assert client.json("appcontainer", "capsule", "show", "web")["uuid"] == made["uuid"]
    client("appcontainer", "capsule", "delete", "web")
    wait_for(lambda: not client.json("appcontainer", "capsule", "list"), 120)


def act(api, uuid_, action, then, **query):
    """Have one container of a capsule do something, and wait for its end and its status."""
    answer = api.request("POST", f"/containers/{uuid_}/{action}", params=query)
    assert answer.status_code == 202, answer.text

    def ended():
        found = api.get(f"/containers/{uuid_}/container_actions")["containerActions"]
        return next(each for each in found if each["action"] == action)["finish_time"]

    wait_for(ended, 60)
    found = api.get(f"/containers/{uuid_}/container_actions")["containerActions"]
    assert next(each for each in found if each["action"] == action)["message"] is None, found
    wait_for(lambda: _container(api, uuid_)["status"] == then, 60)


def _container(api, uuid_):
    every = (each for capsule in api.get("/capsules")["capsules"] for each in capsule["containers"])
    return next(each for each in every if each["uuid"] == uuid_)


def _echoes(api, uuid_):
    """Return whether a command in the container reaches its server at the capsule's own address."""
    command = "sh -c 'echo hi | nc 127.0.0.1 4000'"
    answer = api.request("POST", f"/containers/{uuid_}/execute", params={"command": command})
    return answer.status_code == 200 and answer.json()["output"] == "hi\n"


def test_actions_on_one_container(cloud, engine):
    """One that was stopped stays so when the capsule gets a new network; the kernel has the CPUs of the others."""
    program, api = cloud
    uuid_ = create(
        api,
        container("while :; do nc -l -p 4000 -e cat; done"),
        container("trap 'exit 0' TERM; while :; do sleep 0.1; done"),
        restartPolicy="Always",
    )
    shown = settled(api, uuid_)
    one, two = (each["uuid"] for each in shown["containers"])
    act(api, two, "pause", "Paused")
    act(api, two, "unpause", "Running")
    act(api, two, "reboot", "Running", timeout=5)
    act(api, two, "stop", "Stopped", timeout=5)
    assert settled(api, uuid_)["status"] == "Running"
    engine.restart(f"zun-{uuid_}")
    began = engine.inspect_container(f"zun-{uuid_}")["State"]["StartedAt"]
    wait_for(lambda: engine.inspect_container(f"zun-{one}")["State"]["StartedAt"] > began, 60)  # it has joined it
    wait_for(lambda: _echoes(api, one), 60)
    assert _container(api, two)["status"] == "Stopped"
    program.kill()
    program.start()
    assert settled(api, uuid_)["status"] == "Running" and _container(api, two)["status"] == "Stopped"
    assert engine.inspect_container(f"zun-{two}")["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    act(api, two, "start", "Running")
    act(api, one, "kill", "Stopped")
    act(api, two, "kill", "Stopped")
    wait_for(lambda: settled(api, uuid_)["status"] == "Stopped")
    act(api, one, "start", "Running")
    wait_for(lambda: settled(api, uuid_)["status"] == "Running")
    answer = api.request("POST", f"/containers/{one}/commit", params={"repository": "of-capsule", "tag": "1"})
    assert answer.status_code == 202, answer.text
    wait_for(lambda: api.get(f"/containers/{one}/container_actions")["containerActions"][0]["finish_time"])
    assert api.request("DELETE", f"/containers/{one}").status_code == 409


def test_deletion_beside_a_stop_of_one_container(cloud, engine):
    _, api = cloud
    uuid_ = create(api, container("trap '' TERM; while :; do sleep 1; done"))
    (only,) = settled(api, uuid_)["containers"]
    answer = api.request("POST", f"/containers/{only['uuid']}/stop", params={"timeout": 600})
    assert answer.status_code == 202
    wait_for(lambda: _container(api, only["uuid"])["task_state"] == "container_stopping")
    assert api.request("DELETE", f"/capsules/{uuid_}").status_code == 204
    wait_for(lambda: api.request("GET", f"/capsules/{uuid_}").status_code == 404, 60)


def test_a_capsule_that_does_not_run_is_started_with_its_container(cloud, engine):
    """As after a boot of the host, when the restart policy keeps Docker from starting the containers."""
    _, api = cloud
    shown = settled(api, create(api, container("while :; do nc -l -p 4000 -e cat; done"), restartPolicy="Never"))
    (only,) = shown["containers"]
    for each in (only["uuid"], shown["uuid"]):
        engine.stop(f"zun-{each}")
    wait_for(lambda: settled(api, shown["uuid"])["status"] == "Stopped")
    act(api, only["uuid"], "start", "Running")
    wait_for(lambda: settled(api, shown["uuid"])["status"] == "Running")
    wait_for(lambda: _echoes(api, only["uuid"]), 60)


def test_logs_of_a_capsule(cloud, engine):
    """Of the real client and Docker: ordered by time, long lines in one piece, followed to the end."""
    _, api = cloud
    script = "for n in 1 2 3; do echo {} $n; sleep 1; done"
    uuid_ = create(
        api,
        container(script.format("first")),
        container("sleep 0.5; head -c 40000 /dev/zero | tr '\\0' x; echo; " + script.format("second")),
        restartPolicy="Never",
    )
    lines = Client(api.url)("appcontainer", "capsule", "logs", uuid_, "--follow").splitlines()
    texts = [line.partition(" | ")[2] for line in lines]
    assert "x" * 40000 in texts
    others = [text for text in texts if not text.startswith("x")]
    assert sorted(others) == [f"{name} {n}" for name in ("first", "second") for n in (1, 2, 3)]
    assert len({line.partition(" | ")[0].strip() for line in lines}) == 2
    stamped = Client(api.url)("appcontainer", "capsule", "logs", uuid_, "--timestamps").splitlines()
    times = [line.partition(" | ")[2].partition(" ")[0] for line in stamped]
    assert times == sorted(times) and len(times) == 7
