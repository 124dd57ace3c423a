# SPDX-License-Identifier: Apache-2.0
"""Probes, sidecars, volumes in memory and the end of capsules, with real processes and a real network."""

import itertools
import pathlib
import time

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.integration.capsules import container, create, said, settled
from zun.tests.integration.programs import Api

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

LOG = {"name": "log", "mountPath": "/log"}


@pytest.fixture
def api(on_docker):
    made = on_docker(
        compute={"audit_host_processes": "none"},
        capsule={"sandbox_image": "zun-demo", "sandbox_command": "sleep,1000000"},
    )
    made.start()
    api = Api(made.url, "admin", {"OpenStack-API-Version": "container 1.51"})
    yield api
    for each in api.get("/capsules")["capsules"]:
        api.request("DELETE", f"/capsules/{each['uuid']}")
    wait_for(lambda: not api.get("/capsules")["capsules"], 120)


def members(api, uuid_):
    shown = api.get(f"/capsules/{uuid_}")
    return {each["name"].removeprefix("capsule-pod-"): each for each in shown["containers"]}


def detail(api, uuid_, name):
    return members(api, uuid_)[name]["status_detail"] or ""


def test_probes_are_asked_inside_the_network_of_the_capsule(api):
    """Nothing of the host reaches the loopback of the capsule."""
    page = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n' | nc -l -p 8080 >/dev/null; done"
    uuid_ = create(
        api,
        container(page, name="page", readinessProbe={"httpGet": {"port": 8080}, "periodSeconds": 1}),
        container(
            "while :; do nc -l -p 9000 -e true; done",
            name="local",
            readinessProbe={"tcpSocket": {"port": 9000, "host": "localhost"}, "periodSeconds": 1},
        ),
        container(
            "sleep 1000", name="shut", readinessProbe={"tcpSocket": {"port": 9001}, "periodSeconds": 1}, cpu=0.5
        ),
        container(
            "sleep 1000", name="slow", cpu=0.5,
            readinessProbe={"exec": {"command": ["sleep", "77"]}, "periodSeconds": 1, "timeoutSeconds": 1},
        ),
        container(
            "touch /tmp/ok; sleep 1000", name="told", cpu=0.5,
            readinessProbe={"exec": {"command": ["cat", "/tmp/ok"]}, "periodSeconds": 1},
        ),
    )  # fmt: skip
    assert settled(api, uuid_)["status"] == "Running"
    for name in ("page", "local", "told"):
        found: list[str] = []
        wait_for(lambda name=name, found=found: found.append(detail(api, uuid_, name)) or found[-1] == "ready", 60)
    refused = "not ready: readiness probe: connect to capsule:9001: Connection refused"
    wait_for(lambda: detail(api, uuid_, "shut") == refused, 60)
    wait_for(lambda: "sleep 77: The command did not end within 1 s and was killed" in detail(api, uuid_, "slow"))
    slow = members(api, uuid_)["slow"]
    # What did not end in time is killed: else every period would leave a process behind.
    wait_for(lambda: said(api, slow, "ps").count("sleep 77") <= 1, 60)


def test_a_failed_liveness_probe_restarts_the_one_container(api):
    script = "echo begun; touch /tmp/alive; sleep 3; rm /tmp/alive; sleep 1000"
    probe = {"exec": {"command": ["cat", "/tmp/alive"]}, "periodSeconds": 1, "failureThreshold": 2}
    uuid_ = create(
        api,
        container(script, name="web", livenessProbe={**probe, "initialDelaySeconds": 1}),
        container("echo begun; sleep 1000", name="log"),
        terminationGracePeriodSeconds=1,
    )
    assert settled(api, uuid_)["status"] == "Running"
    web, log = (members(api, uuid_)[name] for name in ("web", "log"))
    reason = wait_for(lambda: members(api, uuid_)["web"]["status_reason"], 60)
    assert reason.startswith("Its liveness probe failed 2 times in a row (cat /tmp/alive: exit code 1")
    assert reason.endswith("It was restarted.")
    wait_for(lambda: api.get(f"/containers/{web['uuid']}/logs").count("begun") >= 2, 60)
    assert api.get(f"/containers/{log['uuid']}/logs").count("begun") == 1
    assert api.get(f"/capsules/{uuid_}")["status"] == "Running"


def test_a_sidecar_is_first_and_last(api, engine):
    """Each container writes into a volume in memory when it begins."""

    def noting(name, more=""):
        script = f"echo +{name} >> /log/order; {more} trap 'exit 0' TERM; "
        return script + "while :; do sleep 0.1; done"

    side = {"restartPolicy": "Always", "name": "side", "volumeMounts": [LOG]}
    ready = {"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 60}
    uuid_ = create(
        api,
        container(noting("main"), name="main", volumeMounts=[LOG]),
        inits=[
            container("echo init >> /log/order", name="init", volumeMounts=[LOG]),
            container(noting("side", "sleep 1; echo up >> /log/order; touch /tmp/up;"), **side, startupProbe=ready),
            container("cat /log/order > /log/seen", name="late", volumeMounts=[LOG]),
        ],
        volumes=[{"name": "log", "emptyDir": {"medium": "Memory", "sizeLimit": "8M"}}],
        terminationGracePeriodSeconds=20,
    )
    shown = settled(api, uuid_)
    assert shown["status"] == "Running", shown["status_reason"]
    main = members(api, uuid_)["main"]
    assert said(api, main, "cat", "/log/seen").split() == ["init", "+side", "up"]
    wait_for(lambda: said(api, main, "cat", "/log/order").split() == ["init", "+side", "up", "+main"])
    mounted = said(api, main, "sh", "-c", "grep ' /log ' /proc/mounts")
    assert mounted.startswith("zun /log tmpfs ") and "size=8192k" in mounted
    assert int(shown["memory"]) == 32 * 2 + 8  # the volume is claimed beside the containers
    side = members(api, uuid_)["side"]
    since = int(time.time())
    assert api.request("DELETE", f"/capsules/{uuid_}").status_code == 204
    wait_for(lambda: api.request("GET", f"/capsules/{uuid_}").status_code == 404, 120)
    told = engine.events(since=since, until=int(time.time()) + 1, decode=True, filters={"event": "die"})
    ends = [(each["Actor"]["Attributes"]["name"], each["Actor"]["Attributes"]["exitCode"]) for each in told]
    own = [each for each in ends if each[0] in (f"zun-{main['uuid']}", f"zun-{side['uuid']}")]
    assert own == [(f"zun-{main['uuid']}", "0"), (f"zun-{side['uuid']}", "0")]  # by SIGTERM, one after the other
    assert not [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if uuid_ in line]


def test_a_volume_in_memory_ends_at_its_size(api):
    """A write beyond the size fails. The other container reads the data that was written."""
    uuid_ = create(
        api,
        container("dd if=/dev/zero of=/log/big bs=1M count=9; echo $? > /log/code; sleep 1000", name="writer",
                  volumeMounts=[LOG], memory=64),
        container("sleep 1000", name="reader", volumeMounts=[{**LOG, "readOnly": True}]),
        volumes=[{"name": "log", "emptyDir": {"medium": "Memory", "sizeLimit": "8M"}}],
    )  # fmt: skip
    assert settled(api, uuid_)["status"] == "Running"
    reader = next(each for each in api.get(f"/capsules/{uuid_}")["containers"] if each["name"].endswith("reader"))
    wait_for(lambda: said(api, reader, "sh", "-c", "ls /log; true").split() == ["big", "code"])
    size = int(said(api, reader, "stat", "-c", "%s", "/log/big"))
    assert size <= 8 * 2**20
    assert "Read-only" in said(api, reader, "sh", "-c", "touch /log/new 2>&1; true")


def test_a_sidecar_ends_when_its_containers_have(api):
    inits = [container("trap 'exit 0' TERM; while :; do sleep 0.1; done", name="side", restartPolicy="Always")]
    uuid_ = create(
        api,
        container("sleep 1", name="one"),
        container("sleep 2; exit 4", name="two"),
        inits=inits,
        restartPolicy="Never",
    )
    shown = wait_for(lambda: (found := api.get(f"/capsules/{uuid_}"))["status"] == "Stopped" and found, 60)
    assert shown["status_reason"] == "capsule-pod-two ended with exit code 4"
    wait_for(lambda: members(api, uuid_)["side"]["status"] == "Stopped", 60)


def test_restart_policies_are_of_each_container(api, engine):
    policies = {"always": "Always", "failing": "OnFailure", "never": "Never"}
    uuid_ = create(
        api, *(container("sleep 1000", name=name, restartPolicy=policy, cpu=0.3) for name, policy in policies.items())
    )
    assert settled(api, uuid_)["status"] == "Running"
    found = {
        name: engine.inspect_container(f"zun-{each['uuid']}")["HostConfig"]["RestartPolicy"]["Name"]
        for name, each in members(api, uuid_).items()
    }
    # A container that its user has stopped must not come back with Docker itself, as with "always".
    assert found == {"always": "unless-stopped", "failing": "on-failure", "never": "no"}
    assert len(set(itertools.chain(found.values()))) == 3
