# SPDX-License-Identifier: Apache-2.0
"""Podman does what each row of doc/source/reference/engines-podman.csv says. Each row is tried on a real Podman.

``tools/engine.sh SUITE-podman`` starts a Podman for this. The trials ask libpod's own API, without this service.
"""

import csv
import io
import os
import pathlib
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
import requests

import zun
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE, root_of_busybox
from zun.tests.integration.container.groups import of_group

PAGE = pathlib.Path(zun.__file__).parents[1] / "doc" / "source" / "reference" / "engines-podman.csv"
ROWS = {row["Name"]: row for row in csv.DictReader(PAGE.read_text().splitlines())}
FULL = f"docker.io/library/{IMAGE}:latest"
MIB = 1 << 20
TAR = {"Content-Type": "application/x-tar"}
Spec = dict[str, Any]


def cpus(listed: str) -> Spec:
    """Return the runtime's ``LinuxResources`` with these CPUs."""
    return {"cpu": {"cpus": listed}}


def memory(limit: int) -> Spec:
    """Return the runtime's ``LinuxResources`` with this limit in MiB, and no swap."""
    return {"memory": {"limit": limit * MIB, "swap": limit * MIB}}


def _word(response: requests.Response) -> str:
    status = response.status_code
    return f"refused ({status})" if status >= 400 else "nothing to do (304)" if status == 304 else "accepted"


class Trial:
    """A Podman, and the containers and networks that one trial makes."""

    def __init__(self, url: str) -> None:
        self._client = docker.APIClient(url, version="1.41")  # its connection to the socket is what is used
        self._containers: list[str] = []
        self._networks: list[str] = []
        if self.ask("GET", f"/images/{FULL}/exists").status_code == 404:
            self.image(FULL, root_of_busybox(), "ENV PATH=/bin")

    def ask(self, method: str, path: str, body: Any = None, /, **params: Any) -> requests.Response:
        """Return the answer to a request of libpod's API, whatever it is. Bytes are sent as a tar."""
        sent = {"data": body, "headers": TAR} if isinstance(body, bytes) else {"json": body}
        return self._client.request(
            method, f"{self._client.base_url}/v5.0.0/libpod{path}", params=params, timeout=600, **sent
        )

    def answer(self, method: str, path: str, body: Any = None, /, **params: Any) -> str:
        """Return ``accepted``, or ``refused`` with the status of HTTP."""
        return _word(self.ask(method, path, body, **params))

    def told(self, method: str, path: str, body: Any = None, /, **params: Any) -> Any:
        """Return the content of an answer that is no refusal."""
        response = self.ask(method, path, body, **params)
        assert response.status_code < 400, response.text
        return response.json()

    def image(self, name: str, root: bytes, *changes: str) -> None:
        """Make an image of a tar of its files."""
        self.told("POST", "/images/import", root, reference=name, changes=changes)

    def create(self, *command: str, network: str = "", **spec: Any) -> requests.Response:
        """Create a container, of which ``spec`` are members, and return the answer."""
        net: Spec = (
            {"netns": {"nsmode": "bridge"}, "networks": {network: {}}} if network else {"netns": {"nsmode": "none"}}
        )
        body = {"image": FULL, "command": command or ("sleep", "1000"), "stop_timeout": 1, **net, **spec}
        response = self.ask("POST", "/containers/create", body)
        if response.status_code < 400:
            self._containers.append(response.json()["Id"])
        return response

    def container(self, *command: str, start: bool = True, **spec: Any) -> str:
        """Return the path of a new container."""
        response = self.create(*command, **spec)
        assert response.status_code < 400, response.text
        path = f"/containers/{self._containers[-1]}"
        if start:
            assert self.answer("POST", f"{path}/start") == "accepted"
        return path

    def network(self, **more: Any) -> str:
        """Return the name of a new network."""
        name = f"engines-{uuid.uuid4().hex[:8]}"
        self.told("POST", "/networks/create", {"name": name, "driver": "bridge", **more})
        self._networks.append(name)
        return name

    def shown(self, path: str) -> Any:
        return self.told("GET", f"{path}/json")

    def state(self, path: str) -> Any:
        return self.shown(path)["State"]

    def update(self, path: str, resources: Spec, **params: Any) -> str:
        return self.answer("POST", f"{path}/update", resources, **params)

    def kernel(self, path: str, controller: str, v1: str, v2: str) -> str:
        """Return the text of a file of the container's control group."""
        return of_group(self.state(path)["Pid"], controller, v1, v2)

    def cpus(self, path: str) -> str:
        """Return the CPUs that the kernel lets the container use."""
        return self.kernel(path, "cpuset", "cpuset.cpus", "cpuset.cpus")

    def shares(self, path: str) -> str:
        """Return the weight that the container has at the kernel."""
        return self.kernel(path, "cpu", "cpu.shares", "cpu.weight")

    def stop(self, path: str) -> None:
        assert self.answer("POST", f"{path}/stop", timeout=0) == "accepted"

    def logs(self, path: str) -> bytes:
        content: bytes = self.ask("GET", f"{path}/logs", stdout=True, stderr=True).content
        return content

    def ends(self, path: str) -> int:
        """Wait for the end of a container, and return its code."""
        return int(self.told("POST", f"{path}/wait", condition="exited"))

    def command(self, path: str, *command: str, **more: Any) -> tuple[str, requests.Response]:
        """Return the path of a command in the container, and the answer to its start, which has the output."""
        asked = {"Cmd": command, "AttachStdout": True, "AttachStderr": True, **more}
        made = "/exec/" + self.told("POST", f"{path}/exec", asked)["Id"]
        return made, self.ask("POST", f"{made}/start", {"Detach": False})

    def said(self, path: str, *command: str) -> str:
        """Return what a command in the container prints."""
        return self.command(path, *command)[1].text

    def clean(self) -> None:
        """Remove what the trial made."""
        for container in self._containers:
            self.ask("DELETE", f"/containers/{container}", force=True, timeout=0, ignore=True)
        for network in self._networks:
            self.ask("DELETE", f"/networks/{network}", force=True)
        self._client.close()


PROBES: dict[str, Callable[[Trial], str]] = {}


def probe(function: Callable[[Trial], str]) -> Callable[[Trial], str]:
    """Register what finds out the word of a row; the name of the function is the name of the row."""
    PROBES[function.__name__.replace("_", "-")] = function
    return function


def _created(trial: Trial, response: requests.Response) -> str:
    """Return how a create, and if it is accepted the start, was answered."""
    if response.status_code >= 400:
        return _word(response)
    path = f"/containers/{response.json()['Id']}/start"
    return f"created, start {trial.answer('POST', path)}"


def files(name: str = "plain", content: bytes = b"x", mode: int = 0o755) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.mode, member.size = mode, len(content)
        tar.addfile(member, io.BytesIO(content))
    return target.getvalue()


# CPUs and memory


@probe
def absent_cpus(trial: Trial) -> str:
    return _created(trial, trial.create(resource_limits=cpus("4000")))


@probe
def refused_update(trial: Trial) -> str:
    made = trial.container(resource_limits=cpus("0"))
    first = trial.update(made, cpus("4000"))
    assert trial.cpus(made) == "0"
    shown = trial.shown(made)["HostConfig"]["CpusetCpus"]
    shares = trial.update(made, {"cpu": {"shares": 512}})
    trial.stop(made)
    again = trial.answer("POST", f"{made}/start")
    good = trial.update(made, cpus("0"))
    last = trial.answer("POST", f"{made}/start")
    return f"{first}, inspect shows {shown}; other update {shares}, start {again}; good list {good}, start {last}"


@probe
def cpuset_while_stopped(trial: Trial) -> str:
    made = trial.container(resource_limits=cpus("0"))
    trial.stop(made)
    answer = trial.update(made, cpus("1"))
    shown = trial.shown(made)["HostConfig"]["CpusetCpus"]
    trial.answer("POST", f"{made}/start")
    return f"{answer}, inspect shows {shown}; after the start the kernel has {trial.cpus(made)}"


@probe
def cpuset_while_paused(trial: Trial) -> str:
    made = trial.container(resource_limits=cpus("0"))
    trial.answer("POST", f"{made}/pause")
    answer = trial.update(made, cpus("1"))
    now = trial.cpus(made)
    trial.answer("POST", f"{made}/unpause")
    return f"{answer}, {'at once' if now == '1' else 'later' if trial.cpus(made) == '1' else 'never'}"


@probe
def empty_cpuset(trial: Trial) -> str:
    made = trial.container(resource_limits=cpus("0"))
    answer = trial.update(made, cpus(""))
    return f"{answer}, {'nothing changes' if trial.cpus(made) == '0' else trial.cpus(made)}"


@probe
def empty_update(trial: Trial) -> str:
    made = trial.container(resource_limits={"cpu": {"cpus": "0", "shares": 512}, **memory(64)})
    before = trial.cpus(made), trial.shares(made)
    answer = trial.update(made, {})
    return f"{answer}, {'nothing changes' if before == (trial.cpus(made), trial.shares(made)) else 'changed'}"


@probe
def shares_out_of_range(trial: Trial) -> str:
    words = []
    for number in (1, 300_000):
        made = trial.container(start=False, resource_limits={"cpu": {"shares": number}})
        words.append(trial.answer("POST", f"{made}/start"))
    return "; ".join(words)


@probe
def no_shares(trial: Trial) -> str:
    made = trial.container(resource_limits={"cpu": {"shares": 512}})
    before = trial.shares(made)
    answer = trial.update(made, {"cpu": {"shares": 0}})
    return f"{answer}, {'nothing changes' if trial.shares(made) == before else 'changed'}"


@probe
def swap_by_default(trial: Trial) -> str:
    shown = trial.shown(trial.container(resource_limits={"memory": {"limit": 64 * MIB}}))
    return f"{shown['HostConfig']['MemorySwap'] // MIB} MiB"


@probe
def memory_below_use(trial: Trial) -> str:
    fill = "dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>&1; echo full; sleep 1000"
    made = trial.container("sh", "-c", fill, resource_limits=memory(64))
    wait_for(lambda: b"full" in trial.logs(made))
    answer = trial.update(made, memory(8))
    shown = trial.shown(made)["HostConfig"]["Memory"] // MIB
    real = int(trial.kernel(made, "memory", "memory.limit_in_bytes", "memory.max")) // MIB
    return f"{answer}, inspect shows {shown} MiB, the kernel {real} MiB"


@probe
def least_memory(trial: Trial) -> str:
    made = trial.container("sleep", "1000", start=False, resource_limits=memory(4))
    return f"created, start {trial.answer('POST', f'{made}/start')}"


@probe
def processes_by_default(trial: Trial) -> str:
    made = trial.container()
    return trial.kernel(made, "pids", "pids.max", "pids.max")


@probe
def capabilities_by_default(trial: Trial) -> str:
    pid = trial.state(trial.container())["Pid"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = [int(line.split()[1], 16) for line in status if line.startswith("CapEff")]
    names = {"NET_RAW": 13, "MKNOD": 27, "AUDIT_WRITE": 29}
    return "without " + ", ".join(name for name, bit in names.items() if not mask >> bit & 1)


@probe
def layer_quota(trial: Trial) -> str:
    return _created(trial, trial.create(storage_opts={"size": "1G"}))


# Life


@probe
def start_running(trial: Trial) -> str:
    made = trial.container()
    answer = trial.answer("POST", f"{made}/start")
    return f"{answer}, state {trial.state(made)['Status']}, error {'kept' if trial.state(made)['Error'] else 'none'}"


@probe
def error_after_success(trial: Trial) -> str:
    made = trial.container("/etc/program", start=False)
    refused = trial.answer("POST", f"{made}/start")
    trial.ask("PUT", f"{made}/archive", files("program", b"#!/bin/sh\nexec sleep 1000\n"), path="/etc")
    later = trial.answer("POST", f"{made}/start")
    return f"{refused}, later {later}, error {'kept' if trial.state(made)['Error'] else 'gone'}"


@probe
def stop_of_a_loop(trial: Trial) -> str:
    made = trial.container("false", restart_policy="always")

    def between() -> bool:
        answer = trial.answer("POST", f"{made}/stop", timeout=0)
        if answer == "accepted":  # while a process ran, so the loop has ended
            trial.answer("POST", f"{made}/start")
        return answer == "nothing to do (304)"

    wait_for(between)
    before = trial.shown(made)["RestartCount"]
    wait_for(lambda: trial.shown(made)["RestartCount"] > before + 1)
    changed = trial.answer("POST", f"{made}/update", {}, restartPolicy="no")
    wait_for(lambda: trial.state(made)["Status"] == "exited")
    return f"between two attempts: nothing to do (304), the loop goes on; policy ``no`` {changed}, the loop ends"


@probe
def restart_with_auto_remove(trial: Trial) -> str:
    return _created(trial, trial.create("true", remove=True, restart_policy="always"))


@probe
def paused(trial: Trial) -> str:
    made = trial.container()
    trial.answer("POST", f"{made}/pause")
    calls = {
        "execute": ("POST", f"{made}/exec", {"Cmd": ["true"]}),
        "start": ("POST", f"{made}/start", None),
        "top": ("GET", f"{made}/top", None),
        "stop": ("POST", f"{made}/stop", None),
        "kill": ("POST", f"{made}/kill", None),
    }
    return ", ".join(f"{name} {trial.answer(*call)}" for name, call in calls.items())


@probe
def remove_running(trial: Trial) -> str:
    return trial.answer("DELETE", trial.container())


@probe
def unpause_running(trial: Trial) -> str:
    return trial.answer("POST", f"{trial.container()}/unpause")


@probe
def ended(trial: Trial) -> str:
    made = trial.container("true")
    trial.ends(made)
    return f"stop {trial.answer('POST', f'{made}/stop')}, kill {trial.answer('POST', f'{made}/kill')}"


@probe
def unknown_signal(trial: Trial) -> str:
    return trial.answer("POST", f"{trial.container()}/kill", signal="NONSENSE")


@probe
def removed_while_waited_for(trial: Trial) -> str:
    made, told = trial.container(), []
    waiter = Trial(os.environ["PODMAN_HOST"])
    thread = threading.Thread(target=lambda: told.append(waiter.ask("POST", f"{made}/wait", condition="stopped")))
    thread.start()
    trial.ask("DELETE", made, force=True, timeout=0)
    thread.join(30)
    waiter.clean()
    return f"ends with {told[0].text.strip()}"


def _start(trial: Trial, command: str, archive: bytes | None = None) -> str:
    made = trial.container(command, start=False)
    if archive is not None:
        assert trial.answer("PUT", f"{made}/archive", archive, path="/etc") == "accepted"
    answer = trial.answer("POST", f"{made}/start")
    code = trial.ends(made) if answer == "accepted" else trial.state(made)["ExitCode"]
    return f"{answer}, code {code}"


@probe
def command_missing(trial: Trial) -> str:
    return _start(trial, "/no/such/program")


@probe
def command_not_executable(trial: Trial) -> str:
    return _start(trial, "/etc/plain", files(mode=0o644))


@probe
def command_without_interpreter(trial: Trial) -> str:
    return _start(trial, "/etc/plain", files(content=b"#!/no/such/shell\n"))


def _executes(trial: Trial, *command: str, **more: Any) -> str:
    made, response = trial.command(trial.container(), *command, **more)
    return f"{_word(response)}, code {trial.told('GET', made + '/json')['ExitCode']}"


@probe
def execute_missing(trial: Trial) -> str:
    return _executes(trial, "no-such-program")


@probe
def execute_as_nobody_known(trial: Trial) -> str:
    return _executes(trial, "true", User="no-such-user")


@probe
def code_while_running(trial: Trial) -> str:
    made = trial.container()
    asked = trial.told("POST", f"{made}/exec", {"Cmd": ["sleep", "1000"]})
    command = f"/exec/{asked['Id']}"
    trial.ask("POST", f"{command}/start", {"Detach": True})
    told = trial.told("GET", f"{command}/json")
    return f"code {told['ExitCode']}, Running {told['Running']}, CanRemove {told['CanRemove']}"


@probe
def health_without_systemd(trial: Trial) -> str:
    check = {"Test": ["CMD-SHELL", "touch /checked"], "Interval": 1_000_000_000, "Timeout": 1_000_000_000}
    made = trial.container(healthconfig=check)
    try:
        wait_for(lambda: trial.said(made, "ls", "/checked").strip() == "/checked", 5)
    except AssertionError:
        return f"never, {trial.state(made).get('Health', {}).get('Status')}"
    return f"checked, {trial.state(made)['Health']['Status']}"


@probe
def top_by_default(trial: Trial) -> str:
    made = trial.container()
    told = trial.told("GET", f"{made}/top", stream=False)
    row = dict(zip(told["Titles"], told["Processes"][0], strict=True))
    return "the id inside" if row["PID"] == "1" else "the id of the host"


# Files


@probe
def absent_device(trial: Trial) -> str:
    response = trial.create(devices=[{"path": f"/dev/{uuid.uuid4().hex}"}])
    return _created(trial, response)


@probe
def absent_cdi_device(trial: Trial) -> str:
    response = trial.create(devices=[{"path": "engines.example/none=none"}])
    return _created(trial, response)


@probe
def missing_bind_source(trial: Trial) -> str:
    source = f"/tmp/engines-{uuid.uuid4().hex[:8]}"
    mount = {"type": "bind", "source": source, "destination": "/x", "options": ["rbind"]}
    response = trial.create(mounts=[mount])
    return _created(trial, response)


@probe
def archive_into_tmpfs(trial: Trial) -> str:
    mount = {"type": "tmpfs", "source": "tmpfs", "destination": "/fast"}
    running = trial.container(mounts=[mount])
    answer = trial.answer("PUT", f"{running}/archive", files(), path="/fast")
    found = "there" if "plain" in trial.said(running, "ls", "/fast") else "not there"
    made = trial.container(start=False, mounts=[mount])
    before = trial.answer("PUT", f"{made}/archive", files(), path="/fast")
    trial.answer("POST", f"{made}/start")
    later = "there" if "plain" in trial.said(made, "ls", "/fast") else "not there"
    return f"{answer}, files {found}; not started: {before}, files {later}"


@probe
def archive_into_read_only(trial: Trial) -> str:
    made = trial.container(start=False, read_only_filesystem=True)
    return trial.answer("PUT", f"{made}/archive", files(), path="/etc")


@probe
def unfinished_line(trial: Trial) -> str:
    made = trial.container("sh", "-c", "echo first; printf half; exec sleep 1000")
    wait_for(lambda: b"first" in trial.logs(made))
    trial.said(made, "true")
    running = "shown" if b"half" in trial.logs(made) else "not shown"
    trial.stop(made)
    return f"running: {running}, ended: {'shown' if b'half' in trial.logs(made) else 'not shown'}"


@probe
def log_rotation(trial: Trial) -> str:
    log = {"driver": "k8s-file", "size": 50_000}
    made = trial.container("seq", "20000", log_configuration=log)
    trial.ends(made)
    path = pathlib.Path(trial.shown(made)["HostConfig"]["LogConfig"]["Path"])
    files, lines = list(path.parent.glob(f"{path.name}*")), trial.logs(made).splitlines()
    kept = "the last lines kept" if lines[-1].endswith(b"20000") and len(lines) < 20_000 else f"{len(lines)} lines"
    return f"{len(files)} file, {kept}"


@probe
def unused_volume_made_twice(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    trial.told("POST", "/volumes/create", {"Name": name})
    try:
        return trial.answer("POST", "/volumes/create", {"Name": name})
    finally:
        trial.ask("DELETE", f"/volumes/{name}")


@probe
def image_in_use(trial: Trial) -> str:
    name = f"docker.io/library/engines-{uuid.uuid4().hex[:8]}:1"
    trial.image(name, files(), "CMD true")
    made = trial.container(start=False, image=name)
    plain = trial.answer("DELETE", f"/images/{name}")
    forced = trial.answer("DELETE", f"/images/{name}", force=True)
    gone = trial.ask("GET", f"{made}/exists").status_code == 404
    return f"{plain}; by force {forced}, the container {'goes too' if gone else 'stays'}"


@probe
def short_names(trial: Trial) -> str:
    name = f"engines-{uuid.uuid4().hex[:8]}"
    trial.image(f"{name}:1", files(), "CMD true")
    (listed,) = [tag for each in trial.told("GET", "/images/json") for tag in each["RepoTags"] or () if name in tag]
    trial.ask("DELETE", f"/images/{listed}")
    return listed.replace(name, "NAME")


@probe
def image_id(trial: Trial) -> str:
    found = trial.told("GET", f"/images/{FULL}/json")["Id"]
    return f"{len(found)} digits, {'with' if found.startswith('sha256:') else 'without'} ``sha256:``"


# Networks


@probe
def network_in_use(trial: Trial) -> str:
    name = trial.network()
    made = trial.container(network=name)
    by_name = trial.answer("DELETE", f"/networks/{name}")
    number = trial.told("GET", f"/networks/{name}/json")["id"]
    by_id = trial.answer("DELETE", f"/networks/{number}")
    trial.answer("POST", f"{made}/stop", timeout=0)
    return f"by name {by_name}, by id {by_id}; then start {trial.answer('POST', f'{made}/start')}"


@probe
def none_network(trial: Trial) -> str:
    name = trial.network()
    made = trial.container(start=False)
    return trial.answer("POST", f"/networks/{name}/connect", {"container": made.rpartition("/")[2]})


@probe
def absent_network(trial: Trial) -> str:
    response = trial.create(network=f"engines-{uuid.uuid4().hex[:8]}")
    return _created(trial, response)


@probe
def first_network(trial: Trial) -> str:
    first, second = trial.network(), trial.network()
    made = trial.container(network=first)
    container = made.rpartition("/")[2]
    trial.ask("POST", f"/networks/{second}/connect", {"container": container})
    trial.ask("POST", f"/networks/{first}/disconnect", {"container": container})
    removed = trial.answer("DELETE", f"/networks/{first}")
    trial.stop(made)
    return f"removal {removed}, start {trial.answer('POST', f'{made}/start')}"


@probe
def addresses_of_a_stopped(trial: Trial) -> str:
    made = trial.container(network=trial.network())
    running = [each["IPAddress"] for each in trial.shown(made)["NetworkSettings"]["Networks"].values()]
    trial.stop(made)
    stopped = [each["IPAddress"] for each in trial.shown(made)["NetworkSettings"]["Networks"].values()]
    return f"running: {'shown' if any(running) else 'not shown'}, stopped: {'shown' if any(stopped) else 'not shown'}"


@probe
def network_name_twice(trial: Trial) -> str:
    return trial.answer("POST", "/networks/create", {"name": trial.network(), "driver": "bridge"})


@probe
def subnet_with_host_bits(trial: Trial) -> str:
    name = trial.network(subnets=[{"subnet": "10.217.0.5/24"}])
    (found,) = trial.told("GET", f"/networks/{name}/json")["subnets"]
    return f"accepted as {found['subnet']}"


@probe
def internal_route(trial: Trial) -> str:
    made = trial.container(network=trial.network(internal=True))
    return "a default route" if "default via" in trial.said(made, "ip", "route") else "none"


@pytest.fixture
def trial() -> Iterator[Trial]:
    made = Trial(os.environ["PODMAN_HOST"])
    yield made
    made.clean()


def column(trial: Trial, name: str) -> str:
    """Return the word of the row for this Podman; an empty one is that of the release before."""
    row = ROWS[name]
    release = ".".join(trial.told("GET", "/info")["version"]["Version"].split(".")[:2])
    assert f"Podman {release}" in row, f"{PAGE.name} has no column for Podman {release}: add one, from what this finds"
    return row[f"Podman {release}"] or row["Podman 5.4"]


@pytest.mark.skipif("PODMAN_HOST" not in os.environ, reason="PODMAN_HOST names no Podman")
@pytest.mark.parametrize("name", PROBES)
def test_podman_does_what_the_page_says(name: str, trial: Trial) -> None:
    assert PROBES[name](trial) == column(trial, name)


def test_each_row_of_the_page_is_tried() -> None:
    assert set(ROWS) == set(PROBES)
