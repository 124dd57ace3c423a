# SPDX-License-Identifier: Apache-2.0
"""What engines do where a guess is often wrong: each row of doc/source/reference/engines.csv, tried on the engine here.

``tools/engine.sh`` runs this on the engines of other Debian releases. A row without a word in a special column says the
same there as in the column of the engine's release.
"""

import contextlib
import csv
import io
import json
import pathlib
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.types import IPAMConfig, IPAMPool

import zun
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE
from zun.tests.integration.container.groups import of_group
from zun.tests.integration.container.own_daemon import running

PAGE = pathlib.Path(zun.__file__).parents[1] / "doc" / "source" / "reference" / "engines.csv"
ROWS = {row["Name"]: row for row in csv.DictReader(PAGE.read_text().splitlines())}
MIB = 1 << 20


class Trial:
    """An engine, and the containers and networks that one trial makes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = docker.APIClient(url, version="auto")
        self._containers: list[str] = []
        self._networks: list[str] = []

    def container(self, *command: str, start: bool = True, network: str = "none", **more: Any) -> str:
        """Return the id of a new container. ``more`` are members of the request, ``HostConfig`` among them."""
        host = {"NetworkMode": network, **more.pop("HostConfig", {})}
        body = {"Image": IMAGE, "Cmd": command or ("sleep", "1000"), "HostConfig": host, "StopTimeout": 1, **more}
        answer = self.engine._post_json(self.engine._url("/containers/create"), data=body)
        self.engine._raise_for_status(answer)
        self._containers.append(answer.json()["Id"])
        if start:
            self.engine.start(self._containers[-1])
        return self._containers[-1]

    def network(self, subnet: str | None = None, name: str | None = None, **more: Any) -> str:
        """Return the id of a new network, in a subnet of the test's own if one is named."""
        pool = None if subnet is None else IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
        made = self.engine.create_network(name or f"engines-{uuid.uuid4().hex[:8]}", ipam=pool, **more)
        self._networks.append(made["Id"])
        return self._networks[-1]

    def answer(self, call: Callable[..., Any], *args: Any, **more: Any) -> str:
        """Return ``accepted``, or ``refused`` with the status of HTTP."""
        try:
            call(*args, **more)
        except docker.errors.APIError as exc:
            return f"refused ({exc.status_code})"
        return "accepted"

    def status(self, container: str) -> str:
        """Return the state in Docker's word, as ``running``."""
        return self.engine.inspect_container(container)["State"]["Status"]

    def kernel(self, container: str, controller: str, v1: str, v2: str) -> str:
        """Return the text of a file of the container's control group, whose name depends on the version."""
        return of_group(self.engine.inspect_container(container)["State"]["Pid"], controller, v1, v2)

    def cpus(self, container: str) -> str:
        """Return the CPUs that the kernel lets the container use."""
        return self.kernel(container, "cpuset", "cpuset.cpus", "cpuset.cpus")

    def said(self, container: str, *command: str) -> str:
        """Return what a command in the container prints."""
        return self.engine.exec_start(self.engine.exec_create(container, command)["Id"]).decode().strip()

    def clean(self) -> None:
        """Remove what the trial made."""
        for container in self._containers:
            with contextlib.suppress(docker.errors.NotFound):
                self.engine.remove_container(container, force=True)
        for network in self._networks:
            with contextlib.suppress(docker.errors.NotFound):
                self.engine.remove_network(network)
        self.engine.close()


PROBES: dict[str, Callable[[Trial], str]] = {}


def probe(function: Callable[[Trial], str]) -> Callable[[Trial], str]:
    """Register what finds out the word of a row; the name of the function is the name of the row."""
    PROBES[function.__name__.replace("_", "-")] = function
    return function


@probe
def api_versions(trial: Trial) -> str:
    found = trial.engine.version(api_version=False)
    return f"{found['MinAPIVersion']} to {found['ApiVersion']}"


@probe
def loopback_registries(trial: Trial) -> str:
    return " ".join(sorted(trial.engine.info()["RegistryConfig"]["InsecureRegistryCIDRs"]))


@probe
def first_network(trial: Trial) -> str:
    first, second = trial.network(), trial.network()
    container = trial.container(network=first)
    trial.engine.connect_container_to_network(container, second)
    trial.engine.disconnect_container_from_network(container, first)
    trial.engine.remove_network(first)
    trial.engine.stop(container, timeout=0)
    return trial.answer(trial.engine.start, container)


@probe
def none_network(trial: Trial) -> str:
    container, network = trial.container(), trial.network()
    before = trial.answer(trial.engine.connect_container_to_network, container, network)
    trial.engine.disconnect_container_from_network(container, "none")
    return f"{before}, later {trial.answer(trial.engine.connect_container_to_network, container, network)}"


@probe
def internal_route(trial: Trial) -> str:
    container = trial.container(network=trial.network(internal=True))
    return "a default route" if "default via" in trial.said(container, "ip", "route") else "none"


@probe
def network_name_twice(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    trial.network(name=name)
    return trial.answer(trial.network, name=name)


@probe
def subnet_with_host_bits(trial: Trial) -> str:
    return trial.answer(trial.network, "10.217.0.5/24")


@probe
def network_in_use(trial: Trial) -> str:
    network = trial.network()
    container = trial.container(network=network)
    running = trial.answer(trial.engine.remove_network, network)
    trial.engine.stop(container, timeout=0)
    return f"{running}, stopped: {trial.answer(trial.engine.remove_network, network)}"


@probe
def absent_network(trial: Trial) -> str:
    container = trial.container(start=False)
    joined = trial.answer(trial.engine.connect_container_to_network, container, uuid.uuid4().hex)
    return f"{joined}, start {trial.answer(trial.engine.start, container)}"


@probe
def mac_of_container(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    network = trial.network(name=name)
    words = []
    for named, address in (network, "02:42:00:00:00:17"), (name, "02:42:00:00:00:18"):
        container = trial.container(network=named, MacAddress=address)
        words.append("applied" if address in trial.said(container, "ip", "link") else "ignored")
    return "by id {}, by name {}".format(*words)


@probe
def mac_by_address(trial: Trial) -> str:
    container = trial.container(network=trial.network())
    (end,) = trial.engine.inspect_container(container)["NetworkSettings"]["Networks"].values()
    numbers = [int(part, 16) for part in end["MacAddress"].split(":")[2:]]
    return "from the IP address" if numbers == [int(part) for part in end["IPAddress"].split(".")] else "drawn"


@probe
def empty_cpuset(trial: Trial) -> str:
    container = trial.container(HostConfig={"CpusetCpus": "0"})
    answer = trial.answer(trial.engine.update_container, container, cpuset_cpus="")
    return f"{answer}, nothing changes" if trial.cpus(container) == "0" else f"{answer}, {trial.cpus(container)}"


@probe
def absent_cpus(trial: Trial) -> str:
    created = trial.answer(trial.container, start=False, HostConfig={"CpusetCpus": "4000"})
    container = trial.container(HostConfig={"CpusetCpus": "0"})
    updated = trial.answer(trial.engine.update_container, container, cpuset_cpus="4000")
    assert trial.engine.inspect_container(container)["HostConfig"]["CpusetCpus"] == trial.cpus(container) == "0"
    return f"{created}, update {updated}"


@probe
def cpuset_while_paused(trial: Trial) -> str:
    container = trial.container(HostConfig={"CpusetCpus": "0"})
    trial.engine.pause(container)
    answer = trial.answer(trial.engine.update_container, container, cpuset_cpus="1")
    return f"{answer}, {'at once' if trial.cpus(container) == '1' else 'later'}"


@probe
def cpuset_while_stopped(trial: Trial) -> str:
    container = trial.container(start=False, HostConfig={"CpusetCpus": "0"})
    answer = trial.answer(trial.engine.update_container, container, cpuset_cpus="1")
    trial.engine.start(container)
    return f"{answer}, {'from the start' if trial.cpus(container) == '1' else 'never'}"


@probe
def shares_out_of_range(trial: Trial) -> str:
    return "; ".join(trial.answer(trial.container, HostConfig={"CpuShares": each}) for each in (1, 300_000))


@probe
def no_shares(trial: Trial) -> str:
    container = trial.container(HostConfig={"CpuShares": 512})
    before = trial.kernel(container, "cpu", "cpu.shares", "cpu.weight")
    answer = trial.answer(trial.engine.update_container, container, cpu_shares=0)
    same = trial.kernel(container, "cpu", "cpu.shares", "cpu.weight") == before
    return f"{answer}, {'nothing changes' if same else 'changed'}"


@probe
def quota_after_nano_cpus(trial: Trial) -> str:
    container = trial.container(HostConfig={"NanoCpus": 500_000_000})
    return trial.answer(trial.engine.update_container, container, cpu_quota=100_000)


@probe
def swap_by_default(trial: Trial) -> str:
    container = trial.container(HostConfig={"Memory": 64 * MIB})
    return f"{trial.engine.inspect_container(container)['HostConfig']['MemorySwap'] // MIB} MiB"


@probe
def memory_below_use(trial: Trial) -> str:
    fill = "dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>&1; echo full; sleep 1000"
    container = trial.container("sh", "-c", fill, HostConfig={"Memory": 64 * MIB, "MemorySwap": 64 * MIB})
    wait_for(lambda: b"full" in trial.engine.logs(container))
    answer = trial.answer(trial.engine.update_container, container, mem_limit=8 * MIB, memswap_limit=8 * MIB)
    assert trial.status(container) == "running"
    return f"{answer}, limit {trial.engine.inspect_container(container)['HostConfig']['Memory'] // MIB} MiB"


@probe
def least_memory(trial: Trial) -> str:
    return "; ".join(trial.answer(trial.container, HostConfig={"Memory": each * MIB}) for each in (5, 6))


@probe
def kernel_memory(trial: Trial) -> str:
    return trial.answer(trial.container, HostConfig={"KernelMemory": 10 * MIB})


@probe
def layer_quota(trial: Trial) -> str:
    return trial.answer(trial.container, start=False, HostConfig={"StorageOpt": {"size": "1G"}})


@probe
def image_sizes(trial: Trial) -> str:
    (listed,) = [each for each in trial.engine.images() if f"{IMAGE}:latest" in (each["RepoTags"] or [])]
    return "one size" if listed["Size"] == trial.engine.inspect_image(IMAGE)["Size"] else "two sizes"


@probe
def image_id(trial: Trial) -> str:
    found = trial.engine.inspect_image(IMAGE)
    own = any(each.endswith(found["Id"]) for each in found["RepoDigests"])
    return "digest of the manifest" if own else "digest of the configuration"


@probe
def virtual_size(trial: Trial) -> str:
    return "there" if "VirtualSize" in trial.engine.inspect_image(IMAGE) else "missing"


@probe
def cdi_device(trial: Trial) -> str:
    wish = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["engines.example/none=none"]}]}
    container = trial.container(start=False, HostConfig=wish)
    try:
        trial.engine.start(container)
    except docker.errors.APIError as exc:
        return "knows no CDI" if "could not select device driver" in exc.explanation else "looks for the device"
    raise AssertionError("a CDI device that does not exist was given")


@probe
def execute_with_cdi(trial: Trial) -> str:
    folders = trial.engine.info().get("CDISpecDirs")
    if not folders:
        return "knows no CDI"
    kind = f"engines.example/card{uuid.uuid4().hex[:8]}"
    written = pathlib.Path(folders[-1], f"{kind.replace('/', '-')}.json")
    written.parent.mkdir(parents=True, exist_ok=True)
    edits = {"env": ["CARD=told"], "deviceNodes": [{"path": "/dev/card", "hostPath": "/dev/null"}]}
    device = {"name": "0", "containerEdits": edits}
    written.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": [device]}))
    try:
        wish = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"{kind}=0"]}]}
        made = trial.container("sh", "-c", "echo $CARD; sleep 1000", start=False, HostConfig=wish)
        wait_for(lambda: trial.answer(trial.engine.start, made) == "accepted")  # the engine reads the file in its time
        wait_for(lambda: b"told" in trial.engine.logs(made))
        seen = trial.said(made, "sh", "-c", "ls /dev/card; echo $CARD").split()
    finally:
        written.unlink()
    words = {"the device": "/dev/card" in seen, "its variables": "told" in seen}
    return ", ".join(f"{name} {'seen' if there else 'not seen'}" for name, there in words.items())


def _device(path: str, start: bool = True) -> dict[str, Any]:
    given = {"PathOnHost": path, "PathInContainer": "/dev/given", "CgroupPermissions": "rwm"}
    return {"start": start, "HostConfig": {"Devices": [given]}}


@probe
def absent_device(trial: Trial) -> str:
    container = trial.container(**_device(f"/dev/{uuid.uuid4().hex}", start=False))
    return f"created, start {trial.answer(trial.engine.start, container)}"


@probe
def folder_of_devices(trial: Trial) -> str:
    folder = pathlib.Path("/dev") / f"engines-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    try:
        subprocess.run(["mknod", folder / "null", "c", "1", "3"], check=True)
        (folder / "link").symlink_to("/dev/zero")
        return "gives: " + trial.said(trial.container(**_device(str(folder))), "ls", "/dev/given")
    finally:
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()


@probe
def paused(trial: Trial) -> str:
    container = trial.container()
    trial.engine.pause(container)
    calls: dict[str, Callable[[], Any]] = {
        "execute": lambda: trial.engine.exec_create(container, "true"),
        "start": lambda: trial.engine.start(container),
        "top": lambda: trial.engine.top(container),
        "remove": lambda: trial.engine.remove_container(container),
        "stop": lambda: trial.engine.stop(container, timeout=0),
    }
    return ", ".join(f"{name} {trial.answer(call)}" for name, call in calls.items())


@probe
def unpause_running(trial: Trial) -> str:
    return trial.answer(trial.engine.unpause, trial.container())


@probe
def ended(trial: Trial) -> str:
    container = trial.container("true")
    trial.engine.wait(container)
    return f"stop {trial.answer(trial.engine.stop, container)}, kill {trial.answer(trial.engine.kill, container)}"


@probe
def signal_to_first_process(trial: Trial) -> str:
    container = trial.container("sh", "-c", "echo up; exec sleep 1000")
    wait_for(lambda: b"up" in trial.engine.logs(container))  # before, it is a process of the runtime, which ends
    trial.engine.kill(container, "TERM")
    trial.engine.top(container)  # the engine has seen the signal when it answers this
    return trial.status(container)


@probe
def removed_while_waited_for(trial: Trial) -> str:
    container, told = trial.container(), []
    waiter = docker.APIClient(trial.url, version="auto")
    thread = threading.Thread(target=lambda: told.append(waiter.wait(container)["StatusCode"]))
    thread.start()
    trial.engine.remove_container(container, force=True)
    thread.join(30)
    return f"ends with {told[0]}"


def _files() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, mode, content in (("plain", 0o644, b"x"), ("broken", 0o755, b"#!/no/such/shell\n")):
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, len(content)
            tar.addfile(member, io.BytesIO(content))
    return target.getvalue()


def _ends(trial: Trial, command: str) -> str:
    container = trial.container(command, start=False)
    trial.engine.put_archive(container, "/etc", _files())
    answer = trial.answer(trial.engine.start, container)
    if answer == "accepted":
        trial.engine.wait(container)
    return f"{answer}, code {trial.engine.inspect_container(container)['State']['ExitCode']}"


@probe
def command_missing(trial: Trial) -> str:
    return _ends(trial, "/no/such/program")


@probe
def command_not_executable(trial: Trial) -> str:
    return _ends(trial, "/etc/plain")


@probe
def command_without_interpreter(trial: Trial) -> str:
    return _ends(trial, "/etc/broken")


@probe
def execute_missing(trial: Trial) -> str:
    return _executed(trial, "no-such-program")


@probe
def execute_folder(trial: Trial) -> str:
    return _executed(trial, "/tmp")


def _executed(trial: Trial, command: str, **more: Any) -> str:
    made = trial.engine.exec_create(trial.container(), [command], **more)["Id"]
    trial.engine.exec_start(made)
    return f"code {trial.engine.exec_inspect(made)['ExitCode']}"


@probe
def execute_as_nobody_known(trial: Trial) -> str:
    try:
        return _executed(trial, "true", user="no-such-user")
    except docker.errors.APIError as exc:
        return f"refused ({exc.status_code})"


@probe
def member_out_of_memory(trial: Trial) -> str:
    limits = {"Memory": 32 * MIB, "MemorySwap": 32 * MIB, "ShmSize": 100 * MIB}
    container = trial.container("sh", "-c", "dd if=/dev/zero of=/dev/shm/x bs=1M count=60; exit 0", HostConfig=limits)
    return f"code {trial.engine.wait(container)['StatusCode']}"


@probe
def archive_into_read_only(trial: Trial) -> str:
    container = trial.container(start=False, HostConfig={"ReadonlyRootfs": True})
    return trial.answer(trial.engine.put_archive, container, "/etc", _files())


@probe
def archive_into_tmpfs(trial: Trial) -> str:
    mount = {"Type": "tmpfs", "Target": "/fast"}
    running = trial.container(HostConfig={"Mounts": [mount]})
    answer = trial.answer(trial.engine.put_archive, running, "/fast", _files())
    found = "there" if "plain" in trial.said(running, "ls", "/fast") else "not there"
    created = trial.container(start=False, HostConfig={"Mounts": [mount]})
    return f"{answer}, files {found}; not started: {trial.answer(trial.engine.put_archive, created, '/fast', _files())}"


@probe
def missing_bind_source(trial: Trial) -> str:
    source = pathlib.Path("/tmp") / f"engines-{uuid.uuid4().hex[:8]}"
    mount = {"Type": "bind", "Source": str(source), "Target": "/x"}
    as_mount = trial.answer(trial.container, start=False, HostConfig={"Mounts": [mount]})
    as_bind = trial.answer(trial.container, start=False, HostConfig={"Binds": [f"{source}:/x"]})
    return f"as Mounts {as_mount}, as Binds {as_bind}"


@probe
def unfinished_line(trial: Trial) -> str:
    container = trial.container("sh", "-c", "echo first; printf half; exec sleep 1000")
    wait_for(lambda: b"first" in trial.engine.logs(container))
    trial.said(container, "true")
    running = "shown" if b"half" in trial.engine.logs(container) else "not shown"
    trial.engine.stop(container, timeout=0)
    ended = "shown" if b"half" in trial.engine.logs(container) else "not shown"
    return f"running: {running}, ended: {ended}"


@probe
def variable_without_value(trial: Trial) -> str:
    container = trial.container(Env=["ALONE", "EMPTY="])
    shown = trial.said(container, "env").splitlines()
    return f"ALONE {'set' if any(each.startswith('ALONE') for each in shown) else 'not set'}"


@probe
def unused_volume_made_twice(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    trial.engine.create_volume(name)
    try:
        return trial.answer(trial.engine.create_volume, name, driver_opts={"type": "tmpfs", "device": "tmpfs"})
    finally:
        trial.engine.remove_volume(name)


@probe
def image_in_use(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    trial.engine.import_image_from_data(_files(), name, "1", changes=["CMD true"])
    trial.container(start=False, Image=f"{name}:1")
    plain = trial.answer(trial.engine.remove_image, f"{name}:1")
    return f"{plain}, by force {trial.answer(trial.engine.remove_image, f'{name}:1', force=True)}"


@pytest.fixture
def trial(docker_url: str) -> Iterator[Trial]:
    made = Trial(docker_url)
    yield made
    made.clean()


def column(engine: docker.APIClient, name: str) -> str:
    """Return the word of the row for this engine, its runtime and its store of images."""
    row, info = ROWS[name], engine.info()
    release = ".".join(engine.version(api_version=False)["Version"].split(".")[:2])
    words = {key.removeprefix("Docker "): word for key, word in row.items() if key.startswith("Docker ")}
    assert release in words, f"engines.csv has no column for Docker {release}: add one, from what this test finds"
    if info["DefaultRuntime"] == "crun":
        only, _, word = row["crun"].rpartition(": ")  # "28.5: code 128" is of this release alone
        if word and only in ("", release):
            return word
    if ["driver-type", "io.containerd.snapshotter.v1"] in (info["DriverStatus"] or []) and row["containerd's store"]:
        return row["containerd's store"]
    return words[release]


@pytest.mark.docker
@pytest.mark.parametrize("name", PROBES)
def test_the_engine_does_what_the_page_says(name: str, trial: Trial) -> None:
    assert PROBES[name](trial) == column(trial.engine, name)


def test_each_row_of_the_page_is_tried() -> None:
    assert set(ROWS) == set(PROBES) | {"restart-policies"}


@pytest.mark.docker
def test_restart_policies_after_a_restart(docker_url: str, short_path: pathlib.Path) -> None:
    with running(short_path) as daemon:
        trial = Trial(daemon.url)
        made = {
            (policy, stopped): trial.container(HostConfig={"RestartPolicy": {"Name": policy}})
            for policy in ("always", "unless-stopped", "on-failure")
            for stopped in (False, True)
        }
        for (_, stopped), container in made.items():
            if stopped:
                trial.engine.stop(container, timeout=0)
        expected = column(trial.engine, "restart-policies")
        daemon.stop()
        daemon.start()
        came = {which for which, container in made.items() if trial.status(container) == "running"}
        trial.clean()
    words = {False: "ran before", True: "was stopped"}
    assert ", ".join(sorted(f"{policy}: {words[stopped]}" for policy, stopped in came)) == expected
