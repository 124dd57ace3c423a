# SPDX-License-Identifier: Apache-2.0
"""The Podman driver translates Docker's requests to libpod's, and libpod's answers to Docker's."""

from typing import Any

import pytest
import requests

from zun.common.states import Status
from zun.container.docker.client import Settings
from zun.container.docker.create import request_body
from zun.container.docker.errors import advice
from zun.container.docker.facts import engine_facts, host_facts
from zun.container.docker.state import runtime_state
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.container.podman import answers
from zun.container.podman.create import full_name, specification
from zun.container.podman.driver import has_systemd, is_signal
from zun.tests.unit.container.samples import Sample

SETTINGS = Settings(host_label="here")
DOCKERS = {"AUDIT_WRITE", "MKNOD", "NET_RAW"}


def spec(container: Sample | None = None, *, settings: Settings = SETTINGS, **more: Any) -> dict[str, Any]:
    host = more.pop("HostConfig", {})
    body = request_body(
        container or Sample(), cpuset_cpus="1,3", cpuset_mems="0", settings=settings, disk_quota=True, **more
    )
    body["HostConfig"] |= host
    return specification(body, "zun-x")


def test_limits_are_in_the_runtimes_words():
    made = spec(Sample(cpu_policy="shared", cpu=1.5, memory=32))
    assert made["resource_limits"] == {
        "cpu": {"cpus": "1,3", "mems": "0", "shares": 1536},
        "memory": {"limit": 32 << 20, "swap": 32 << 20},
        "pids": {"limit": 4096},
    }


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        pytest.param({"image": "nginx"}, {"image": "docker.io/library/nginx:latest"}, id="image"),
        pytest.param({"command": ["a", "b"]}, {"command": ["a", "b"]}, id="command"),
        pytest.param({"workdir": "/w"}, {"work_dir": "/w", "create_working_dir": True}, id="workdir"),
        pytest.param({"tty": True, "interactive": True}, {"terminal": True, "stdin": True}, id="terminal"),
        pytest.param({"auto_remove": True}, {"remove": True}, id="auto-remove"),
        pytest.param({"runtime": "crun"}, {"oci_runtime": "crun"}, id="runtime"),
        pytest.param({"disk": 3}, {"storage_opts": {"size": "3G"}}, id="disk"),
        pytest.param(
            {"restart_policy": {"Name": "on-failure", "MaximumRetryCount": "3"}},
            {"restart_policy": "on-failure", "restart_tries": 3},
            id="restart",
        ),
        pytest.param({"environment": {"A": "b=c"}},
                     {"env": {"A": "b=c", "ZUN_CPUSET_CPUS": "1,3", "ZUN_CPUSET_MEMS": "0"},
                     "unsetenv": ["ZUN_DEDICATED_CPUS", "ZUN_DEVICES"]}, id="environment"),
        pytest.param({"capabilities": ["NET_RAW"]}, {"cap_add": ["NET_RAW"], "cap_drop": ["AUDIT_WRITE", "MKNOD"]},
                     id="capabilities"),
        pytest.param({"privileged": True}, {"privileged": True, "cap_add": [], "no_new_privileges": False},
                     id="privileged"),
    ],
)  # fmt: skip
def test_a_container_is_as_asked(fields, members):
    made = spec(Sample(**fields))
    assert {name: made[name] for name in members} == members


def test_capabilities_of_docker_that_nobody_drops_are_added():
    made = spec(HostConfig={"CapDrop": ["NET_RAW"]})
    assert (set(made["cap_add"]), made["cap_drop"]) == (DOCKERS - {"NET_RAW"}, ["NET_RAW"])
    assert spec(HostConfig={"CapDrop": ["ALL"]})["cap_add"] == []


def test_devices_come_as_files_and_names():
    nodes = [{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "rw"}]
    named = [{"Driver": "cdi", "DeviceIDs": ["v.com/gpu=0"]}]
    made = spec(HostConfig={"Devices": nodes, "DeviceRequests": named})
    assert made["devices"] == [{"path": "/dev/a:/dev/b:rw"}, {"path": "v.com/gpu=0"}]
    told = {"HostConfig": {}, "Config": {"Annotations": made["annotations"]}}
    assert answers.container({**inspected(), **told})["HostConfig"] == {"Devices": nodes, "DeviceRequests": named}


def test_mounts_of_each_kind():
    mounts = (
        RuntimeMount("bind", "/s", "/t", read_only=True),
        RuntimeMount("volume", "v", "/v"),
        RuntimeMount("tmpfs", "", "/m", size_bytes=4096),
        RuntimeMount("hugetlbfs", "", "/dev/hugepages", size_bytes=1 << 21, page_kib=2048),
    )
    made = spec(mounts=mounts)
    assert made["volumes"] == [{"Name": "v", "Dest": "/v", "Options": []}]
    assert [(each["type"], each["source"], each["destination"]) for each in made["mounts"]] == [
        ("bind", "/s", "/t"),
        ("tmpfs", "tmpfs", "/m"),
        ("hugetlbfs", "none", "/dev/hugepages"),
    ]
    bind, memory, pages = (set(each["options"]) for each in made["mounts"])
    assert {"ro", "rbind"} <= bind and "size=4096" in memory and {"pagesize=2048K", "size=2097152"} <= pages


@pytest.mark.parametrize(
    ("more", "netns", "networks"),
    [
        pytest.param({}, {"nsmode": "bridge"}, {}, id="default"),
        pytest.param({"plug": Plug("none")}, {"nsmode": "none"}, None, id="none"),
        pytest.param({"join": "u"}, {"nsmode": "container", "value": "zun-u"}, None, id="capsule"),
    ],
)
def test_network(more, netns, networks):
    made = spec(**more)
    assert (made["netns"], made.get("networks")) == (netns, networks)


def test_first_network_is_joined_at_creation():
    body = request_body(
        Sample(name="web", exposed_ports={"80/tcp": {"host_port": 8080, "host_ip": "10.0.0.1"}}),
        cpuset_cpus="",
        cpuset_mems="",
        settings=SETTINGS,
        disk_quota=False,
        plug=Plug("net"),
    )
    body["NetworkingConfig"] = {"EndpointsConfig": {"net": {"ipv4_address": "10.1.0.5", "aliases": ["web"]}}}
    made = specification(body, "zun-x")
    assert made["networks"] == {"net": {"static_ips": ["10.1.0.5"], "aliases": ["web"]}}
    assert made["portmappings"] == [{"container_port": 80, "protocol": "tcp", "host_port": 8080, "host_ip": "10.0.0.1"}]
    assert made["expose"] == {80: "tcp"}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("a/b:1", "docker.io/a/b:1"),
        ("host:5000/x", "host:5000/x:latest"),
        (f"x@sha256:{'0' * 64}", f"docker.io/library/x@sha256:{'0' * 64}"),
        ("sha256:" + "a" * 64, "sha256:" + "a" * 64),
    ],
)
def test_full_name(name, whole):
    assert full_name(name) == whole


def inspected(status: str = "running", policy: str = "no", **state: Any) -> dict[str, Any]:
    return {
        "Id": "ab" * 32,
        "Image": "cd" * 32,
        "State": {"Status": status, "Pid": 0, "ExitCode": 1, "StartedAt": "2026-11-28T10:00:00Z",
                  "FinishedAt": "2026-11-28T10:00:01Z", **state},
        "HostConfig": {"RestartPolicy": {"Name": policy}},
        "Config": {"Annotations": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (inspected("running"), Status.RUNNING),
        (inspected("paused"), Status.PAUSED),
        (inspected("exited"), Status.STOPPED),
        (inspected("exited", "always"), Status.STOPPED),
        (inspected("stopped"), Status.STOPPED),
        (inspected("stopped", "always"), Status.RESTARTING),
        (inspected("removing"), None),
        (inspected("initialized", StartedAt="0001-01-01T00:00:00Z"), Status.CREATED),
    ],
)
def test_state_in_dockers_words(found, status):
    assert runtime_state(answers.container(found), Status.CREATING).status is status


def test_a_container_without_networks_is_in_none():
    assert answers.container({**inspected(), "NetworkSettings": {"IPAddress": ""}})["NetworkSettings"]["Networks"] == {}


def test_an_error_of_an_earlier_request_is_no_error_of_the_container():
    found = inspected("running", Error="container ab is already running: container state improper")
    assert runtime_state(answers.container(found), None).error is None


@pytest.mark.parametrize(("can_be_removed", "code"), [(True, 3), (False, None)])
def test_a_command_that_goes_on_has_no_exit_code(can_be_removed, code):
    assert answers.command({"ExitCode": 3, "CanRemove": can_be_removed})["ExitCode"] == code


def test_images_have_dockers_names():
    found = answers.image({"Id": "ab", "RepoTags": ["docker.io/library/nginx:1", "quay.io/a:2"], "RepoDigests": None})
    assert found == {"Id": "sha256:ab", "RepoTags": ["nginx:1", "quay.io/a:2"], "RepoDigests": []}


@pytest.mark.parametrize("action", ["start", "die", "pause", "unpause", "rename", "destroy"])
def test_events_there_and_back(action):
    (theirs,) = answers.actions([action])
    assert answers.event({"Action": theirs})["Action"] == action


def test_host_facts_of_podman():
    told = {
        "host": {"memTotal": 1 << 30, "cpus": 4,
                 "ociRuntime": {"name": "crun", "version": "crun version 1.21\ncommit: 1"},
                 "cgroupVersion": "v2", "arch": "amd64", "os": "linux",
                 "distribution": {"distribution": "debian", "version": "13"}, "kernel": "6.12",
                 "logDriver": "journald"},
        "store": {"graphDriverName": "overlay", "graphRoot": "/data", "graphStatus": {"Backing Filesystem": "xfs"}},
        "version": {"Version": "5.4.2", "APIVersion": "5.4.2"},
    }  # fmt: skip
    engine = engine_facts(answers.info(told), answers.version(told), "/none", "Podman")
    facts = host_facts(answers.info(told), name="h", disk_total_gib=1, disk_quota=False, engine=engine)
    assert (engine.name, engine.version, engine.runtime, engine.cgroup_version) == ("Podman", "5.4.2", "crun 1.21", 2)
    assert (facts.runtimes, facts.os, facts.cdi_folders) == (["crun"], "debian 13", ("/etc/cdi", "/var/run/cdi"))


@pytest.mark.parametrize(("first", "there"), [("systemd\n", True), ("init\n", False), ("systemd-none\n", False)])
def test_systemd_is_the_first_process(tmp_path, first, there):
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/comm").write_text(first)
    assert has_systemd(str(tmp_path)) is there


@pytest.mark.parametrize(
    ("text", "known"),
    [
        *(("SIGTERM", True), ("term", True), ("9", True), ("64", True), ("RTMIN+3", True)),
        *(("SIGFOO", False), ("0", False), ("99", False)),
    ],
)
def test_is_signal(text, known):
    assert is_signal(text) is known


def test_advice_names_the_socket_of_podman():
    text = advice(requests.exceptions.ConnectionError("refused"), "unix:///run/podman/podman.sock", "Podman")
    assert "Podman does not answer at unix:///run/podman/podman.sock" in text and "[podman] api_url" in text
