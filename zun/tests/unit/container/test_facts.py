# SPDX-License-Identifier: Apache-2.0
import pathlib
from typing import Any

import pytest

from zun.container.docker.facts import (
    cdi_names,
    containers_folder,
    disk_quota_supported,
    engine_facts,
    has_project_quota,
    host_facts,
    shared_flags,
)
from zun.container.driver.facts import EngineFacts, HostFacts, Store

INFO = {
    "MemTotal": 25276514304,
    "NCPU": 2,
    "Labels": ["rack=r1", "ssd"],
    "Runtimes": {"runc": {}, "kata": {}},
    "Architecture": "x86_64",
    "OSType": "linux",
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "KernelVersion": "6.1.0",
    "Name": "the-machines-own-name",
}
MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:2 / /var/lib/docker rw,relatime - xfs /dev/sdb rw,attr2,{}
3 1 8:3 / /var/lib/docker2 rw,relatime - xfs /dev/sdc rw,prjquota
4 1 8:4 / /srv/with\\040blank rw,relatime - xfs /dev/sdd rw,prjquota
"""


def test_host_facts() -> None:
    told = host_facts(INFO, name="agent-1", disk_total_gib=50, disk_quota=True, cpu_flags=frozenset({"avx2"}))
    assert told == HostFacts(
        name="agent-1",
        mem_total_mib=24105,
        cpus=2,
        disk_total_gib=50,
        disk_quota_supported=True,
        labels={"rack": "r1", "ssd": ""},
        runtimes=["kata", "runc"],
        architecture="x86_64",
        os_type="linux",
        os="Debian GNU/Linux 12 (bookworm)",
        kernel_version="6.1.0",
        cpu_flags=frozenset({"avx2"}),
    )


VERSION = {
    "Version": "28.5.2",
    "ApiVersion": "1.51",
    "Components": [{"Name": "Engine", "Version": "28.5.2"}, {"Name": "runc", "Version": "1.3.6"}],
}
ENGINE = {"ID": "4995abdc", "Driver": "overlay2", "DefaultRuntime": "runc", "CgroupVersion": "2"}


@pytest.mark.parametrize(("info", "expected"), [
    pytest.param(
        {**ENGINE, "DriverStatus": [["Backing Filesystem", "extfs"]], "LiveRestoreEnabled": True},
        {"runtime": "runc 1.3.6", "cgroup_version": 2, "live_restore": True, "images": "Docker"},
        id="overlay2",
    ),
    pytest.param(
        {**ENGINE, "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "DefaultRuntime": "crun"},
        {"runtime": "crun", "cgroup_version": 2, "live_restore": None, "images": "containerd"},
        id="store-of-containerd",
    ),
    pytest.param(
        {**ENGINE, "CgroupVersion": ""},
        {"runtime": "runc 1.3.6", "cgroup_version": None, "live_restore": None, "images": "Docker"},
        id="no-cgroup-version",
    ),
])  # fmt: skip
def test_engine_facts(tmp_path: pathlib.Path, info: dict[str, Any], expected: dict[str, Any]) -> None:
    folder = tmp_path / "var/lib/docker"
    folder.mkdir(parents=True)
    images = expected.pop("images")
    store = Store("4995abdc", "/var/lib/docker", folder.stat().st_ino, "overlay2", images)
    told = engine_facts({**info, "DockerRootDir": "/var/lib/docker"}, VERSION, tmp_path)
    assert told == EngineFacts("Docker", "28.5.2", "1.51", store=store, **expected)


def test_engine_that_tells_nothing_has_empty_facts(tmp_path: pathlib.Path) -> None:
    assert engine_facts({}, {}, tmp_path / "none").store == Store(images="Docker")


FOUND = [{"Source": "cdi", "ID": "a.com/b=c"}, {"Source": "other", "ID": "x"}]


@pytest.mark.parametrize(("info", "names"), [
    ({}, None),
    ({"CDISpecDirs": ["/etc/cdi"]}, None),
    ({"CDISpecDirs": [], "DiscoveredDevices": FOUND}, None),
    ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": FOUND}, {"a.com/b=c"}),
    ({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": None}, set()),
])  # fmt: skip
def test_cdi_names(info: dict[str, Any], names: set[str] | None) -> None:
    assert cdi_names(info) == names
    facts = host_facts(INFO | info, name="agent-1", disk_total_gib=1, disk_quota=False)
    assert (facts.cdi_folders, facts.cdi_names) == (tuple(info.get("CDISpecDirs", ())), names)


@pytest.mark.parametrize(
    ("options", "directory", "expected"),
    [
        ("prjquota", "/var/lib/docker", True),
        ("pquota", "/var/lib/docker", True),
        ("noquota", "/var/lib/docker", False),
        ("noquota", "/var/lib/docker2/x", True),
        ("prjquota", "/srv", False),
        ("prjquota", "/srv/with blank/docker", True),
    ],
)
def test_has_project_quota(options: str, directory: str, expected: bool) -> None:
    assert has_project_quota(MOUNTS.format(options), directory) is expected


@pytest.mark.parametrize(
    ("driver", "backing", "options", "expected"),
    [
        ("btrfs", None, "noquota", True),
        ("overlay2", "xfs", "prjquota", True),
        ("overlay2", "xfs", "noquota", False),
        ("overlay2", "extfs", "prjquota", False),
        ("vfs", None, "prjquota", False),
    ],
)
def test_disk_quota_supported(
    tmp_path: pathlib.Path, driver: str, backing: str | None, options: str, expected: bool
) -> None:
    mountinfo = tmp_path / "proc/self/mountinfo"
    mountinfo.parent.mkdir(parents=True)
    mountinfo.write_text(MOUNTS.format(options))
    info = {
        "Driver": driver,
        "DriverStatus": [["Backing Filesystem", backing]] if backing else None,
        "DockerRootDir": "/var/lib/docker",
    }
    assert disk_quota_supported(info, tmp_path) is expected


SNAPSHOTS = [["driver-type", "io.containerd.snapshotter.v1"]]


@pytest.mark.parametrize("driver", ["overlayfs", "overlay2", "btrfs", "zfs", "native", "devicemapper"])
def test_snapshotters_limit_no_disk(tmp_path: pathlib.Path, driver: str) -> None:
    """They have the names of drivers that limit the disk, and take no size."""
    mountinfo = tmp_path / "proc/self/mountinfo"
    mountinfo.parent.mkdir(parents=True)
    mountinfo.write_text(MOUNTS.format("prjquota"))
    status = [["Backing Filesystem", "xfs"], *SNAPSHOTS]
    info = {"Driver": driver, "DriverStatus": status, "DockerRootDir": "/var/lib/docker"}
    assert disk_quota_supported(info, tmp_path) is False


OWN, SERVICE = "/srv/docker/containerd/daemon", "/var/lib/containerd"
DATA = "io.containerd.snapshotter.v1.overlayfs"


@pytest.mark.parametrize(("status", "socket", "files", "expected"), [
    pytest.param([["Backing Filesystem", "xfs"]], None, {}, "/srv/docker", id="a-driver-of-docker"),
    pytest.param(None, None, {}, "/srv/docker", id="no-status"),
    pytest.param(SNAPSHOTS, "/run/docker/containerd/containerd.sock", {}, OWN, id="docker-s-own"),
    pytest.param(SNAPSHOTS, "/run/containerd/containerd.sock", {f"{OWN}/{DATA}/x": ""}, SERVICE, id="a-service"),
    pytest.param(SNAPSHOTS, None, {f"{OWN}/{DATA}/x": ""}, OWN, id="an-older-docker-with-its-own"),
    pytest.param(SNAPSHOTS, None, {f"{OWN}/{DATA[:-2]}/x": ""}, SERVICE, id="own-data-of-another-snapshotter"),
    pytest.param(SNAPSHOTS, None, {}, SERVICE, id="an-older-docker-with-a-service"),
    pytest.param(SNAPSHOTS, None, {"/etc/containerd/config.toml": 'root = "/big"\n'}, "/big", id="a-folder-of-choice"),
    pytest.param(SNAPSHOTS, None, {"/etc/containerd/config.toml": "version = 2\n"}, SERVICE, id="no-folder-named"),
    pytest.param(SNAPSHOTS, None, {"/etc/containerd/config.toml": "root = "}, SERVICE, id="a-broken-configuration"),
])  # fmt: skip
def test_the_disk_of_the_containers(tmp_path: pathlib.Path, status, socket, files, expected) -> None:
    for path, text in files.items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(text)
    info = {"Driver": "overlayfs", "DriverStatus": status, "DockerRootDir": "/srv/docker"}
    if socket is not None:
        info["Containerd"] = {"Address": socket}
    assert containers_folder(info, tmp_path) == expected


CPU = "processor\t: {}\nmodel name\t: flags : of a kind\nflags\t\t: {}\nvmx flags\t: vnmi\nbugs\t\t: spectre_v1\n\n"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        pytest.param("", "", id="no-file-of-ours"),
        pytest.param(CPU.format(0, "fpu sse avx2"), "fpu sse avx2", id="one-cpu"),
        pytest.param(CPU.format(0, "fpu sse avx512f") + CPU.format(1, "fpu sse"), "fpu sse", id="what-all-have"),
        pytest.param(CPU.format(0, "fpu") + CPU.format(1, ""), "", id="one-has-none"),
        pytest.param("processor\t: 0\nfeatures\t: esan3 zarch stfle\n", "", id="s390"),
        pytest.param(
            "processor\t: 0\nFeatures\t: fp asimd sve\n\nprocessor\t: 1\nFeatures\t: fp asimd\n", "fp asimd", id="arm"
        ),
        pytest.param(
            "cpu\t\t: POWER9 (architected), altivec supported\nclock\t\t: 2500MHz\n", "power9", id="power"
        ),
    ],
)
def test_shared_flags(text: str, flags: str) -> None:
    assert shared_flags(text) == frozenset(flags.split())
