# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest

from zun.common import exceptions
from zun.container.docker.client import Settings
from zun.container.docker.create import cpu_limits, endpoint, memory_limits, request_body
from zun.container.docker.profile import Profile
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.tests.unit.container.samples import Sample

MIB = 1 << 20
PROFILE = {
    "PidsLimit": 4096,
    "SecurityOpt": ["no-new-privileges"],
    "CapDrop": ["AUDIT_WRITE", "MKNOD", "NET_RAW"],
}
OPEN = Profile(pids_limit=0, no_new_privileges=False, dropped=(), log_max_size="")


def body(
    container: Sample, *, disk_quota: bool = False, plug: Plug | None = None, **settings: Any
) -> dict[str, Any]:
    chosen = Settings(host_label="h", **settings)
    return request_body(
        container, cpuset_cpus="2-3", cpuset_mems="1", settings=chosen, disk_quota=disk_quota, plug=plug
    )


ABSENT = ("ZUN_CPUSET_CPUS", "ZUN_CPUSET_MEMS", "ZUN_DEDICATED_CPUS", "ZUN_DEVICES")


def test_smallest_body() -> None:
    container = Sample(uuid="u", command=None, memory=None, cpu=None, cpu_policy=None)
    assert body(container) == {
        "Image": "zun-demo",
        "Labels": {"zun.uuid": "u", "zun.host": "h"},
        "Env": [*ABSENT],
        "Tty": False,
        "OpenStdin": False,
        "HostConfig": {"CpusetCpus": "2-3", "CpusetMems": "1", "AutoRemove": False, "Privileged": False, **PROFILE},
    }


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (OPEN, {}),
        (replace(OPEN, pids_limit=7), {"PidsLimit": 7}),
        (replace(OPEN, no_new_privileges=True), {"SecurityOpt": ["no-new-privileges"]}),
        (replace(OPEN, dropped=("ALL",)), {"CapDrop": ["ALL"]}),
        (replace(OPEN, ulimits=(("core", 0, -1),)), {"Ulimits": [{"Name": "core", "Soft": 0, "Hard": -1}]}),
        (Profile(), PROFILE),
    ],
    ids=["none", "pids", "privileges", "capabilities", "ulimits", "all"],
)
def test_profile(profile: Profile, expected: dict[str, Any]) -> None:
    assert profile.host_config(Sample(), log_driver="journald") == expected


@pytest.mark.parametrize(
    ("dropped", "asked", "expected"),
    [
        (("MKNOD", "NET_RAW"), ["NET_RAW"], {"CapDrop": ["MKNOD"], "CapAdd": ["NET_RAW"]}),
        (("NET_RAW",), ["NET_RAW"], {"CapAdd": ["NET_RAW"]}),
        ((), ["SYS_NICE"], {"CapAdd": ["SYS_NICE"]}),
        (("ALL",), ["CHOWN"], {"CapDrop": ["ALL"], "CapAdd": ["CHOWN"]}),
        (("MKNOD",), [], {"CapDrop": ["MKNOD"]}),
        (("MKNOD",), None, {"CapDrop": ["MKNOD"]}),
    ],
)
def test_capabilities(dropped: tuple[str, ...], asked: list[str] | None, expected: dict[str, Any]) -> None:
    assert replace(OPEN, dropped=dropped).host_config(Sample(capabilities=asked), "journald") == expected


@pytest.mark.parametrize("driver", ["json-file", "local"])
def test_logs_in_files_are_rotated(driver: str) -> None:
    profile = replace(OPEN, log_max_size="10m", log_max_files=2)
    expected = {"LogConfig": {"Type": driver, "Config": {"max-size": "10m", "max-file": "2"}}}
    assert profile.host_config(Sample(), driver) == expected
    assert OPEN.host_config(Sample(), driver) == {}


def test_privileged_containers_have_no_limits_but_their_log() -> None:
    assert set(Profile().host_config(Sample(privileged=True), "local")) == {"LogConfig"}


def test_labels_of_the_service_cannot_be_taken() -> None:
    labels = body(Sample(uuid="u", labels={"zun.host": "other", "zun.uuid": "x", "a": "b"}))["Labels"]
    assert labels == {"a": "b", "zun.uuid": "u", "zun.host": "h"}


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        ("dedicated", None, ["ZUN_CPUSET_CPUS=2-3", "ZUN_CPUSET_MEMS=1", "ZUN_DEDICATED_CPUS", "ZUN_DEVICES"]),
        ("mixed", None, ["ZUN_DEDICATED_CPUS=2-3", "ZUN_CPUSET_MEMS=1", "ZUN_CPUSET_CPUS", "ZUN_DEVICES"]),
        (
            "dedicated",
            {"A": "b=c", "ZUN_CPUSET_CPUS": "all"},
            ["A=b=c", "ZUN_CPUSET_CPUS=2-3", "ZUN_CPUSET_MEMS=1", "ZUN_DEDICATED_CPUS", "ZUN_DEVICES"],
        ),
        ("shared", {"A": "b"}, ["A=b", *ABSENT]),
        ("shared", None, [*ABSENT]),
        ("shared", {"ZUN_DEVICES": "x=/dev/sda", "ZUN_DEDICATED_CPUS": "0", "ZUN_CPUSET_CPUS": "0"}, [*ABSENT]),
        (None, None, [*ABSENT]),
    ],
)
def test_a_container_is_told_its_own_cpus(
    policy: str | None, given: dict[str, str] | None, expected: list[str]
) -> None:
    """A bare name takes the variable of this name away that an image brings."""
    assert body(Sample(cpu_policy=policy, environment=given))["Env"] == expected


@pytest.mark.parametrize(
    ("policy", "cpu", "hard", "expected"),
    [
        ("dedicated", 4.0, False, {}),
        ("dedicated", 4.0, True, {}),
        ("mixed", 4.0, True, {"CpuShares": 4096}),
        ("mixed", 4.0, False, {"CpuShares": 4096}),
        ("shared", 1.5, False, {"CpuShares": 1536}),
        (None, 1.5, False, {"CpuShares": 1536}),
        ("shared", 0.001, False, {"CpuShares": 2}),
        ("shared", 257.0, False, {"CpuShares": 262_144}),
        ("mixed", 300.0, True, {"CpuShares": 262_144}),
        ("shared", 1.5, True, {"CpuPeriod": 100_000, "CpuQuota": 150_000}),
        ("shared", None, True, {}),
    ],
)
def test_cpu_limits(policy: str | None, cpu: float | None, hard: bool, expected: dict[str, int]) -> None:
    assert cpu_limits(policy, cpu, hard=hard) == expected


@pytest.mark.parametrize(
    ("memory", "swap", "expected"),
    [
        (None, -1, {}),
        (64, -1, {"Memory": 64 * MIB, "MemorySwap": -1}),
        (64, 0, {"Memory": 64 * MIB, "MemorySwap": 64 * MIB}),
        (64, 32, {"Memory": 64 * MIB, "MemorySwap": 64 * MIB}),
        (64, 100, {"Memory": 64 * MIB, "MemorySwap": 100 * MIB}),
    ],
)
def test_memory_limits(memory: int | None, swap: int, expected: dict[str, int]) -> None:
    assert memory_limits(memory, swap) == expected


@pytest.mark.parametrize(
    ("disk", "quota", "expected"),
    [(5, True, {"size": "5G"}), (5, False, None), (None, True, None), (0, True, None)],
)
def test_disk_size_only_where_it_is_enforced(disk: int | None, quota: bool, expected: dict[str, str] | None) -> None:
    assert body(Sample(disk=disk), disk_quota=quota)["HostConfig"].get("StorageOpt") == expected


@pytest.mark.parametrize("runtime", [None, "kata"])
def test_runtime(runtime: str | None) -> None:
    assert body(Sample(runtime=runtime))["HostConfig"].get("Runtime") == runtime


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"Name": "on-failure", "MaximumRetryCount": "5"}, ("on-failure", 5)),
        ({"Name": "on-failure"}, ("on-failure", 0)),
        ({"Name": "always", "MaximumRetryCount": "5"}, ("always", 0)),
        ({"Name": "no", "MaximumRetryCount": "0"}, ("no", 0)),
    ],
)
def test_restart_policy(policy: dict[str, str], expected: tuple[str, int]) -> None:
    found = body(Sample(restart_policy=policy))["HostConfig"]["RestartPolicy"]
    assert (found["Name"], found["MaximumRetryCount"]) == expected


@pytest.mark.parametrize(("kind", "expected"), [("member", "unless-stopped"), ("capsule", "always")])
def test_stopped_member_is_not_started_by_the_engine(kind: str, expected: str) -> None:
    sample = Sample(kind=kind, restart_policy={"Name": "always", "MaximumRetryCount": "0"})
    assert body(sample)["HostConfig"]["RestartPolicy"]["Name"] == expected


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ({"test": "stat /x", "interval": 2, "retries": 3, "timeout": 1}, (["CMD-SHELL", "stat /x"], 2, 3, 1)),
        ({"test": "stat /x", "interval": "2", "retries": "3", "timeout": "1"}, (["CMD-SHELL", "stat /x"], 2, 3, 1)),
        ({"test": "stat /x"}, (["CMD-SHELL", "stat /x"], 0, 0, 0)),
        ({"interval": 9}, ([], 9, 0, 0)),
    ],
)
def test_healthcheck(check: dict[str, Any], expected: tuple[list[str], int, int, int]) -> None:
    test, interval, retries, timeout = expected
    assert body(Sample(healthcheck=check))["Healthcheck"] == {
        "Test": test,
        "Interval": interval * 10**9,
        "Retries": retries,
        "Timeout": timeout * 10**9,
    }


def test_start_period_of_a_healthcheck() -> None:
    made = body(Sample(healthcheck={"test": "true", "start_period": 90}))["Healthcheck"]
    assert made["StartPeriod"] == 90 * 10**9


@pytest.mark.parametrize(
    "container",
    [
        Sample(healthcheck={"test": "x", "interval": "soon"}),
        Sample(restart_policy={"Name": "on-failure", "MaximumRetryCount": "often"}),
    ],
)
def test_numbers_that_are_none(container: Sample) -> None:
    with pytest.raises(exceptions.InvalidValue, match="no number"):
        body(container)


def test_network_of_the_host() -> None:
    assert "NetworkMode" not in body(Sample())["HostConfig"]
    assert body(Sample(), network_mode="none")["HostConfig"]["NetworkMode"] == "none"


@pytest.mark.parametrize("plug", [Plug("net"), Plug("net", "10.1.0.2", "fd00::2"), Plug("none")])
def test_no_network_is_named_for_ever(plug: Plug) -> None:
    made = body(Sample(), plug=plug, network_mode="bridge")
    assert (made["HostConfig"]["NetworkMode"], "NetworkingConfig" in made) == ("none", False)


@pytest.mark.parametrize(
    ("name", "plug", "expected"),
    [
        ("web", Plug("net"), (None, None, {}, [])),
        ("web", Plug("net", "10.1.0.2", "fd00::2"), ("10.1.0.2", "fd00::2", {}, [])),
        ("web", Plug("net", options={"zun.wiring": "x"}), (None, None, {"zun.wiring": "x"}, [])),
        ("web", Plug("net", by_name=True), (None, None, {}, ["web"])),
        (None, Plug("net", by_name=True), (None, None, {}, [])),
    ],
)
def test_how_the_first_network_is_connected(name: str | None, plug: Plug, expected: tuple[Any, ...]) -> None:
    names = ("ipv4_address", "ipv6_address", "driver_opt", "aliases")
    assert endpoint(Sample(name=name), plug) == dict(zip(names, expected, strict=True))


def test_ports_are_published_where_that_was_decided() -> None:
    where = {"host_ip": "127.0.0.1", "host_port": 30080}
    made = body(Sample(exposed_ports={"80/tcp": where, "53/udp": {}}))
    assert made["ExposedPorts"] == {"80/tcp": {}, "53/udp": {}}
    assert made["HostConfig"]["PortBindings"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "30080"}]}


def test_mounts() -> None:
    asked = [
        RuntimeMount("bind", "/var/lib/zun/x", "/etc/x", read_only=True),
        RuntimeMount("volume", "zun-v", "/data", labels={"zun.project": "p"}),
        RuntimeMount("tmpfs", "", "/tmp", size_bytes=MIB),
        RuntimeMount("hugetlbfs", "", "/dev/hugepages", size_bytes=4 * MIB, page_kib=2048),
    ]
    settings = Settings(host_label="h")
    made = request_body(
        Sample(), cpuset_cpus="0", cpuset_mems="0", settings=settings, disk_quota=False, mounts=asked
    )
    assert made["HostConfig"]["Mounts"] == [
        {"Type": "bind", "Target": "/etc/x", "ReadOnly": True, "Source": "/var/lib/zun/x"},
        {
            "Type": "volume",
            "Target": "/data",
            "ReadOnly": False,
            "Source": "zun-v",
            "VolumeOptions": {"Labels": {"zun.project": "p", "zun.host": "h"}},
        },
        {"Type": "tmpfs", "Target": "/tmp", "ReadOnly": False, "TmpfsOptions": {"SizeBytes": MIB}},
        {
            "Type": "volume",
            "Target": "/dev/hugepages",
            "ReadOnly": False,
            "VolumeOptions": {
                "NoCopy": True,
                "DriverConfig": {
                    "Name": "local",
                    "Options": {"type": "hugetlbfs", "device": "none", "o": "pagesize=2048K,size=4194304,mode=1777"},
                },
            },
        },
    ]


def test_ordinary_memory_beside_huge_pages() -> None:
    made = request_body(
        Sample(memory=64), cpuset_cpus="0", cpuset_mems="0", settings=Settings(), disk_quota=False,
        memory=16,
    )  # fmt: skip
    assert (made["HostConfig"]["Memory"], made["HostConfig"]["MemorySwap"]) == (16 * MIB, 16 * MIB)
