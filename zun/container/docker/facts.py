# SPDX-License-Identifier: Apache-2.0
"""Docker's facts about its host."""

import logging
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from docker import APIClient

from zun.common.units import GIB, MIB
from zun.container.docker.client import LABEL_HOST, LABEL_UUID, OnEngine, ask
from zun.container.driver.facts import NO_ENGINE, EngineFacts, HostFacts, Judge, Store
from zun.topology.mounts import mountinfo, mounts_in

LOG = logging.getLogger(__name__)

#: Storage drivers that can limit the size of a container on any file system.
_QUOTA_DRIVERS = frozenset({"devicemapper", "btrfs", "zfs", "windowsfilter"})
#: The type of a storage driver that is a snapshotter of containerd.
_SNAPSHOTTER = "io.containerd.snapshotter.v1"
#: How the socket of the containerd ends that Docker itself has started, as /run/docker/containerd/containerd.sock.
_OWN_SOCKET = "/docker/containerd/containerd.sock"

#: Seconds for the answer to a ping, for which Docker needs neither a lock nor the disk. A slower daemon hangs.
PING_SECONDS = 10


class DockerFacts(OnEngine):
    def facts(self) -> HostFacts:
        with self._engine.translated("describe itself"):
            info, version = self._engine.api.info(), self._engine.api.version()
        settings = self.settings
        return host_facts(
            info,
            engine=engine_facts(info, version, settings.root, self._engine.name),
            name=settings.host_label,
            disk_total_gib=_disk_total_gib(settings.root, containers_folder(info, settings.root)),
            disk_quota=disk_quota_supported(info, settings.root),
            cpu_flags=_cpu_flags(settings.root),
        )

    def judged_by(self, judge: Judge) -> None:
        def check(client: APIClient) -> None:
            made = engine_facts(client.info(), client.version(), self.settings.root, self._engine.name)
            judge(made, lambda: uuids_of(client))

        def uuids_of(client: APIClient) -> set[str]:
            labels = [f"{LABEL_HOST}={self.settings.host_label}", LABEL_UUID]
            return {each["Labels"][LABEL_UUID] for each in client.containers(all=True, filters={"label": labels})}

        self._engine.checked_by(check)

    def ping(self) -> None:
        with self._engine.translated("answer a ping"):
            ask(self._engine.api, "GET", "/_ping", timeout=PING_SECONDS)  # docker-py's ping() takes no timeout


def host_facts(
    info: Mapping[str, Any],
    *,
    name: str,
    disk_total_gib: int,
    disk_quota: bool,
    cpu_flags: frozenset[str] = frozenset(),
    engine: EngineFacts = NO_ENGINE,
) -> HostFacts:
    labels = (label.partition("=") for label in info.get("Labels") or ())
    return HostFacts(
        name=name,
        mem_total_mib=info["MemTotal"] // MIB,
        cpus=info["NCPU"],
        disk_total_gib=disk_total_gib,
        disk_quota_supported=disk_quota,
        labels={key: value for key, _, value in labels},
        runtimes=sorted(info.get("Runtimes") or ()),
        architecture=info["Architecture"],
        os_type=info["OSType"],
        os=info["OperatingSystem"],
        kernel_version=info["KernelVersion"],
        cpu_flags=cpu_flags,
        cdi_folders=tuple(info.get("CDISpecDirs") or ()),
        cdi_names=cdi_names(info),
        engine=engine,
        cgroup_driver=str(info.get("CgroupDriver") or ""),
    )


def engine_facts(
    info: Mapping[str, Any], version: Mapping[str, Any], root: str | Path, name: str = "Docker"
) -> EngineFacts:
    """Return the engine of Docker's answers to ``/info`` and ``/version``."""
    folder = str(info.get("DockerRootDir") or "")
    runtime = str(info.get("DefaultRuntime") or "")
    versions = {part["Name"]: part["Version"] for part in version.get("Components") or ()}
    cgroups = str(info.get("CgroupVersion") or "")
    return EngineFacts(
        name=name,
        version=str(version.get("Version") or ""),
        api_version=str(version.get("ApiVersion") or ""),
        runtime=f"{runtime} {versions.get(runtime, '')}".strip(),  # Docker knows the version of runc only
        cgroup_version=int(cgroups) if cgroups.isdecimal() else None,
        live_restore=info.get("LiveRestoreEnabled"),
        store=Store(
            engine_id=str(info.get("ID") or ""),
            folder=folder,
            inode=_inode(root, folder),
            driver=str(info.get("Driver") or ""),
            images="containerd" if in_containerd(info) else name,
        ),
    )


def _inode(root: str | Path, folder: str) -> int | None:
    """Return the number of ``folder``, None if this agent does not see the files of its machine."""
    try:
        return Path(root, folder.lstrip("/")).stat().st_ino
    except OSError:
        return None


def cdi_names(info: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the devices that Docker's own CDI found, None if there is none or Docker does not tell.

    Docker 28.2 and later tell. Which versions of CDI files Docker reads depends on its release.
    """
    if not info.get("CDISpecDirs") or "DiscoveredDevices" not in info:
        return None
    return frozenset(each["ID"] for each in info["DiscoveredDevices"] or () if each.get("Source") == "cdi")


def disk_quota_supported(info: Mapping[str, Any], root: str | Path) -> bool:
    """Return whether Docker can limit the disk of a container. overlay2 needs XFS with project quotas for it.

    containerd's image store limits nothing, also where its snapshotter has the name of a driver that can.
    """
    driver = info.get("Driver")
    if in_containerd(info):
        return False
    if driver in _QUOTA_DRIVERS:
        return True
    backing = dict(info.get("DriverStatus") or ()).get("Backing Filesystem")
    if driver not in ("overlay2", "overlay") or backing != "xfs":
        return False
    try:
        mounts = mountinfo(root)
    except OSError as exc:
        LOG.warning("Cannot read mounts to look for disk quotas, so there are none: %s", exc)
        return False
    return has_project_quota(mounts, info["DockerRootDir"])


def in_containerd(info: Mapping[str, Any]) -> bool:
    """Return whether images and containers are in containerd's image store, the default of Docker 29."""
    return dict(info.get("DriverStatus") or ()).get("driver-type") == _SNAPSHOTTER


def containers_folder(info: Mapping[str, Any], root: str | Path) -> str:
    """Return the folder on whose disk Docker keeps images and the files of containers.

    In containerd's image store this is the folder of containerd: of Docker's own one below Docker's folder, or of a
    service of the machine. Docker tells which from release 27 on. Of an earlier release, the containerd with data of
    the snapshotter is taken.
    """
    docker = str(info["DockerRootDir"])
    if not in_containerd(info):
        return docker
    own, service = f"{docker}/containerd/daemon", _containerd_folder(root)
    socket = (info.get("Containerd") or {}).get("Address")
    if socket is not None:
        return own if str(socket).endswith(_OWN_SOCKET) else service
    data = f"{_SNAPSHOTTER}.{info.get('Driver')}"
    return own if Path(root, own.lstrip("/"), data).exists() else service


def _containerd_folder(root: str | Path) -> str:
    """Return the folder of the machine's containerd, from its configuration if that names another."""
    try:
        options = tomllib.loads(Path(root, "etc/containerd/config.toml").read_text())
    except (OSError, ValueError) as exc:
        if not isinstance(exc, FileNotFoundError):
            LOG.warning("Cannot read containerd's configuration, so its default folder counts: %s", exc)
        options = {}
    return str(options.get("root") or "/var/lib/containerd")


def has_project_quota(mountinfo_text: str, directory: str) -> bool:
    """Return whether the file system of ``directory`` is mounted with the option ``pquota`` or ``prjquota``."""
    best, options = -1, frozenset[str]()
    for mount in mounts_in(mountinfo_text):
        place = PurePosixPath(mount.place)
        # A later mount at the same place hides the earlier one.
        if PurePosixPath(directory).is_relative_to(place) and len(place.parts) >= best:
            best, options = len(place.parts), mount.options
    return not options.isdisjoint(("pquota", "prjquota"))


def _disk_total_gib(root: str, directory: str) -> int:
    try:
        return shutil.disk_usage(Path(root, directory.lstrip("/"))).total // GIB
    except OSError as exc:
        LOG.warning("Cannot measure the disk at %s, so it counts as 0 GiB: %s", directory, exc)
        return 0


def _cpu_flags(root: str) -> frozenset[str]:
    try:
        return shared_flags(Path(root, "proc/cpuinfo").read_text(errors="replace"))
    except OSError as exc:
        LOG.warning("Cannot read the flags of the CPUs, so this host has no traits of CPUs: %s", exc)
        return frozenset()


def shared_flags(cpuinfo_text: str) -> frozenset[str]:
    """Return the flags that every CPU of /proc/cpuinfo has: a container may run on each.

    x86 calls them ``flags`` and ARM ``Features``. POWER has none there: the model counts as one, ``power9`` of the line
    ``cpu : POWER9 (architected), altivec supported``.
    """
    found = ((name.strip(), value) for name, _, value in (line.partition(":") for line in cpuinfo_text.splitlines()))
    sets = [
        frozenset(value.split() if name != "cpu" else re.findall(r"power\d+", value.lower()))
        for name, value in found
        if name in ("flags", "Features", "cpu")
    ]
    return frozenset.intersection(*sets) if sets else frozenset()
