# SPDX-License-Identifier: Apache-2.0
"""Checks that need a real daemon: the objects it made, its errors, its connections."""

import contextlib
import pathlib
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import docker
import pytest

from zun.common import exceptions
from zun.common.states import Status
from zun.container.docker import DockerDriver
from zun.container.docker.client import Settings
from zun.container.docker.registries import PUBLIC_ONLY
from zun.container.driver.events import RESYNC, RuntimeEvent
from zun.container.driver.lifecycle import RuntimeMount
from zun.tests.fixtures import wait_for
from zun.tests.integration.container.proxy import proxied
from zun.tests.unit.container.contract import Rig, listening
from zun.tests.unit.container.samples import Sample
from zun.topology import CpuSet

pytestmark = pytest.mark.docker
MIB = 1 << 20


def inspect(engine: docker.APIClient, container: Sample) -> dict[str, Any]:
    return engine.inspect_container(f"zun-{container.uuid}")


def variant(rig: Rig, url: str, **settings: Any) -> DockerDriver:
    """Return a driver for the rig's host with other settings; the rig removes what it makes."""
    return DockerDriver(Settings(url, rig.driver.facts().name, network_mode="none", **settings))


def test_object_has_all_that_was_asked(rig: Rig, engine: docker.APIClient) -> None:
    container = rig.created(
        memory=48,
        command=["-c", "sleep 1000"],
        entrypoint=["/bin/sh"],
        environment={"PATH": "/bin", "TEXT": "a=b c"},
        labels={"team": "blue", "zun.host": "stolen"},
        workdir="/tmp",
        hostname="web-1",
        restart_policy={"Name": "on-failure", "MaximumRetryCount": "3"},
        interactive=True,
        tty=True,
        healthcheck={"test": "true", "interval": 5, "retries": 2, "timeout": "1.5", "start_period": 7},
        exposed_ports={"80/tcp": {}},
        privileged=True,
        runtime="runc",
        disk=5,
    )
    found = inspect(engine, container)
    config, host = found["Config"], found["HostConfig"]
    assert found["Name"] == f"/zun-{container.uuid}"
    assert config["Labels"] == {"team": "blue", "zun.uuid": container.uuid, "zun.host": rig.driver.facts().name}
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/sh"], ["-c", "sleep 1000"])
    assert set(config["Env"]) == {
        "PATH=/bin", "TEXT=a=b c", "ZUN_CPUSET_CPUS=1", "ZUN_CPUSET_MEMS=0", "ZUN_DEDICATED_CPUS", "ZUN_DEVICES",
    }
    assert (config["WorkingDir"], config["Hostname"]) == ("/tmp", "web-1")
    assert (config["OpenStdin"], config["Tty"]) == (True, True)
    assert config["Healthcheck"] == {
        "Test": ["CMD-SHELL", "true"],
        "Interval": 5_000_000_000,
        "Timeout": 1_500_000_000,
        "StartPeriod": 7_000_000_000,
        "Retries": 2,
    }
    assert config["ExposedPorts"] == {"80/tcp": {}}
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
    assert (host["Privileged"], host["Runtime"]) == (True, "runc")
    assert (host["Memory"], host["MemorySwap"]) == (48 * MIB, 48 * MIB)
    assert (host["CpusetCpus"], host["CpusetMems"]) == ("1", "0")
    # Its file system has no quotas here, so a size must not be asked for: Docker would refuse the whole.
    assert not host.get("StorageOpt")


@pytest.mark.parametrize(
    ("policy", "hard", "shares", "quota"),
    [
        ("dedicated", False, 0, 0),
        ("dedicated", True, 0, 0),
        ("shared", False, 512, 0),
        ("shared", True, 0, 50_000),
    ],
)
def test_cpu_limits(
    rig: Rig, engine: docker.APIClient, docker_url: str, policy: str, hard: bool, shares: int, quota: int
) -> None:
    container = rig.sample(cpu=0.5, cpu_policy=policy)
    variant(rig, docker_url, hard_cpu_limit=hard).create(container, cpuset_cpus="0", cpuset_mems="0")
    host = inspect(engine, container)["HostConfig"]
    assert (host["CpuShares"], host["CpuQuota"]) == (shares, quota)


@pytest.mark.parametrize("memory", [4, 5])
def test_memory_below_dockers_minimum(rig: Rig, memory: int) -> None:
    with pytest.raises(exceptions.Invalid, match=f"memory {memory} is too little .*6MB.* Give it 16 MiB"):
        rig.created(memory=memory)


def test_create_and_start_are_three_requests(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    """The first container of a driver needs more, because the driver also asks what the engine is."""
    with proxied(tmp_path / "docker.sock", docker_url) as proxy:
        driver = variant(rig, proxy.url)
        for _ in range(2):
            proxy.requests.clear()
            container = rig.sample()
            driver.create(container, cpuset_cpus="1", cpuset_mems="0")
            driver.start(container)
            state = driver.show(container)
            assert state is not None and driver.kernel_view(container, state) is not None
        sent = [re.sub(r"/v[0-9.]+/containers/|zun-[0-9a-f-]+|[?].*", "", each) for each in proxy.requests]
        assert sent == ["POST create", "POST /start", "GET /json"]


@pytest.mark.parametrize("started", [True, False])
def test_archives_do_not_reach_a_tmpfs(rig: Rig, started: bool) -> None:
    container = rig.sample()
    mounts = [RuntimeMount("tmpfs", "", "/fast", size_bytes=MIB)]
    rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0", mounts=mounts)
    if started:
        rig.driver.start(container)
    for path in ("/fast", "/fast/a", "/dev/shm"):
        with pytest.raises(exceptions.InvalidValue, match=r"archives do not reach.*execute"):
            rig.driver.put_archive(container, path, iter([b"\0" * 1024]))
        with pytest.raises(exceptions.InvalidValue, match="archives do not reach"):
            rig.driver.get_archive(container, path)


@pytest.mark.parametrize("hard", [True, False])
def test_dedicated_loses_its_quota(rig: Rig, engine: docker.APIClient, docker_url: str, hard: bool) -> None:
    """Also where quotas were given up since it was made."""
    driver = variant(rig, docker_url, hard_cpu_limit=True)
    container = rig.sample(cpu=0.5, cpu_policy="shared")
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    driver.start(container)
    group = pathlib.Path("/sys/fs/cgroup/cpu/docker", inspect(engine, container)["Id"], "cpu.cfs_quota_us")
    assert not group.exists() or group.read_text() == "50000\n"
    driver.update(container, cpu=1.5)
    assert inspect(engine, container)["HostConfig"]["CpuQuota"] == 150_000
    later = variant(rig, docker_url, hard_cpu_limit=hard)
    later.update(replace(container, cpu_policy="dedicated"), cpu=2.0, cpuset_cpus="0-1")
    assert inspect(engine, container)["HostConfig"]["CpuQuota"] == -1
    assert not group.exists() or group.read_text() == "-1\n"


@pytest.mark.parametrize(("swap", "expected"), [(-1, -1), (0, 32 * MIB), (128, 128 * MIB)])
def test_swap_limit(rig: Rig, engine: docker.APIClient, docker_url: str, swap: int, expected: int) -> None:
    container = rig.sample(memory=32)
    variant(rig, docker_url, memory_swap_mib=swap).create(container, cpuset_cpus="0", cpuset_mems="0")
    assert inspect(engine, container)["HostConfig"]["MemorySwap"] == expected


def test_memory_can_grow_beyond_the_old_swap_limit(rig: Rig, engine: docker.APIClient, docker_url: str) -> None:
    driver = variant(rig, docker_url, memory_swap_mib=64)
    container = rig.sample(memory=32)
    driver.create(container, cpuset_cpus="0", cpuset_mems="0")
    driver.start(container)
    driver.update(container, memory=256)
    host = inspect(engine, container)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (256 * MIB, 256 * MIB)


def test_name_taken_by_a_stranger(rig: Rig, engine: docker.APIClient) -> None:
    container = rig.sample()
    stranger = engine.create_container("zun-demo", ["true"], name=f"zun-{container.uuid}")["Id"]
    try:
        with pytest.raises(exceptions.ContainerAlreadyExists, match="rename it"):
            rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None
        assert engine.inspect_container(stranger)["State"]["Status"] == "created"
    finally:
        engine.remove_container(stranger, force=True)


def test_start_that_fails_tells_why(rig: Rig) -> None:
    container = rig.created(command=["no-such-program"])
    with pytest.raises(exceptions.Invalid, match="no-such-program"):
        rig.driver.start(container)
    state = rig.state(container)
    assert (state.status, state.exit_code, state.pid) == (Status.CREATED, 127, 0)
    assert "no-such-program" in (state.error or "")


def test_auto_remove_with_a_restart_policy(rig: Rig) -> None:
    container = rig.sample(auto_remove=True, restart_policy={"Name": "always", "MaximumRetryCount": "0"})
    with pytest.raises((exceptions.DockerError, exceptions.Conflict), match="AutoRemove"):
        rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")


def test_one_that_ends_all_the_time_is_updated(rig: Rig) -> None:
    """Docker fails in the moment of an end, and starts it again where it was."""
    container = rig.running(command=["true"], restart_policy={"Name": "always"})
    for number in range(150):
        wanted = ("0", "0-1")[number % 2]
        rig.driver.update(container, cpuset_cpus=wanted)
        assert rig.state(container).cpuset_cpus == wanted
        if number % 15 == 0:
            rig.driver.reboot(container, 0)  # or Docker lets more and more time pass between two starts


def test_restart_policy_always_ignores_a_count(rig: Rig, engine: docker.APIClient) -> None:
    container = rig.created(restart_policy={"Name": "always", "MaximumRetryCount": "4"})
    assert inspect(engine, container)["HostConfig"]["RestartPolicy"] == {"Name": "always", "MaximumRetryCount": 0}


def test_anonymous_volumes_go_along(rig: Rig, engine: docker.APIClient) -> None:
    container = rig.sample()
    body = {
        "Image": "zun-demo",
        "Cmd": ["true"],
        "Volumes": {"/data": {}},
        "Labels": {"zun.uuid": container.uuid, "zun.host": rig.driver.facts().name},
    }
    engine.create_container_from_config(body, f"zun-{container.uuid}")
    volume = inspect(engine, container)["Mounts"][0]["Name"]
    rig.driver.delete(container)
    with pytest.raises(docker.errors.NotFound):
        engine.inspect_volume(volume)


# Console


def test_output_of_quick_commands_is_complete(rig: Rig) -> None:
    container = rig.running()
    for number in range(15):
        assert rig.driver.execute(container, ["echo", str(number)], 60) == (f"{number}\n", 0)


def test_long_output(rig: Rig) -> None:
    output, code = rig.driver.execute(rig.running(), ["seq", "200000"], 60)
    assert code == 0
    assert output == "".join(f"{number}\n" for number in range(1, 200001))


def test_output_without_end(rig: Rig) -> None:
    container = rig.running(memory=64)
    with pytest.raises(exceptions.Conflict, match="file"):
        rig.driver.execute(container, ["yes", "x" * 4000], 60)
    assert rig.driver.execute(container, ["echo", "alive"], 60) == ("alive\n", 0)


def test_both_streams_and_bytes_that_are_no_text(rig: Rig) -> None:
    container = rig.running()
    script = r"echo out; echo err >&2; printf '\377\n'; exit 3"
    output, code = rig.driver.execute(container, ["sh", "-c", script], 60)
    assert code == 3
    assert sorted(output.splitlines()) == ["err", "out", "\ufffd"]


@pytest.mark.parametrize("host", [None, "localhost"])
def test_connection_to_a_port_of_a_container(rig: Rig, host: str | None) -> None:
    container = rig.running(command=["sh", "-c", "while :; do nc -l -p 7 -e echo hello; done"])
    heard = []

    def connects() -> bool:
        try:
            with rig.driver.connect(container, host, 7, 5) as connection:
                heard.append(connection.recv(10))
        except OSError:  # between two runs of nc
            return False
        return True

    wait_for(connects)
    assert heard == [b"hello\n"]


def test_command_that_closes_its_output_early(rig: Rig) -> None:
    container = rig.running()
    assert rig.driver.execute(container, ["sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 7"], 60) == ("", 7)


def test_command_that_does_not_exist(rig: Rig) -> None:
    output, code = rig.driver.execute(rig.running(), ["no-such-program"], 60)
    assert code in (126, 127)
    assert "no-such-program" in output


def test_log_streams(rig: Rig) -> None:
    container = rig.running(command=["sh", "-c", "echo out; echo err >&2; echo last"])
    wait_for(lambda: rig.state(container).status is Status.STOPPED)
    assert rig.driver.logs(container, stdout=False) == "err\n"
    assert rig.driver.logs(container, stderr=False) == "out\nlast\n"


def test_tail_of_a_log(rig: Rig) -> None:
    # One stream: the daemon copies each stream in its own thread and counts the lines of both,
    # so which line is the last of two streams is a race.
    container = rig.running(command=["sh", "-c", "echo first; echo middle; echo last"])
    wait_for(lambda: rig.state(container).status is Status.STOPPED)
    assert rig.driver.logs(container, tail="1") == "last\n"
    assert rig.driver.logs(container, stderr=False, tail="2") == "middle\nlast\n"


def test_log_of_a_terminal(rig: Rig) -> None:
    container = rig.running(command=["echo", "tty"], tty=True)
    wait_for(lambda: rig.state(container).status is Status.STOPPED)
    assert rig.driver.logs(container) == "tty\r\n"


@pytest.mark.parametrize("tty", [False, True])
def test_log_that_is_too_large(rig: Rig, tty: bool) -> None:
    script = "head -c 17000000 /dev/zero | tr '\\0' x; echo; echo last"
    container = rig.running(command=["sh", "-c", script], tty=tty)
    wait_for(lambda: rig.state(container).status is Status.STOPPED)
    with pytest.raises(exceptions.Conflict, match="larger than 16 MiB"):
        rig.driver.logs(container)
    assert rig.driver.logs(container, tail="1").splitlines() == ["last"]


def test_top_shows_what_the_kernel_has_inside(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    """Docker's own list is checked: a process that the kernel has elsewhere is not shown."""
    container = rig.running(command=["sh", "-c", "sleep 1000; true"])
    wait_for(lambda: len(rig.driver.top(container)) == 2)
    shell, sleep = sorted(int(each["pid"]) for each in rig.driver.top(container))
    for pid, owner in ((shell, rig.state(container).container_id), (sleep, "f" * 64)):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "cgroup").write_text(f"0::/system.slice/docker-{owner}.scope\n")
    found = variant(rig, docker_url, root=str(tmp_path)).top(container)
    assert [each["pid"] for each in found] == [str(shell)]


# Kernel


def test_process_that_pinned_itself_is_told_from_its_group(rig: Rig) -> None:
    container = rig.sample(command=["taskset", "1", "sleep", "1000"])
    rig.driver.create(container, cpuset_cpus="0-1", cpuset_mems="0")
    rig.driver.start(container)
    state = rig.state(container)

    def pinned() -> CpuSet | None:
        view = rig.driver.kernel_view(container, state)
        return view.cgroup_cpus if view is not None and view.cpus == CpuSet("0") else None

    assert wait_for(pinned) == CpuSet("0-1")


def test_pid_of_another_process_is_not_ours(rig: Rig) -> None:
    container = rig.running()
    state = rig.state(container)
    assert rig.driver.kernel_view(container, replace(state, pid=1)) is None


# Connections


def test_no_daemon(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = DockerDriver(Settings(f"unix://{tmp_path}/none.sock", "host"))
    with pytest.raises(exceptions.Unavailable, match="does not answer"):
        driver.facts()
    assert re.search("none.sock.*systemctl start docker.*api_url", caplog.text)
    with pytest.raises(exceptions.Unavailable):
        driver.show(Sample())


def test_daemon_that_went_and_came_back(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    container = rig.running()
    with proxied(tmp_path / "docker.sock", docker_url) as proxy:
        driver = variant(rig, proxy.url)
        assert driver.show(container) == rig.driver.show(container)
        proxy.cut()
        with pytest.raises(exceptions.Unavailable):
            driver.show(container)
        proxy.open()
        assert driver.show(container) == rig.driver.show(container)


def test_connection_is_used_again(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    with proxied(tmp_path / "docker.sock", docker_url) as proxy:
        driver = variant(rig, proxy.url)
        container = rig.sample()
        driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        driver.start(container)
        for _ in range(10):
            driver.show(container)
        driver.delete(container, force=True)
        assert proxy.accepted == 1


def test_daemon_that_takes_too_long(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    container = rig.created()
    with proxied(tmp_path / "docker.sock", docker_url) as proxy:
        driver = variant(rig, proxy.url, default_timeout=5.0)
        assert driver.show(container) is not None
        proxy.hold()
        with pytest.raises(exceptions.Unavailable, match="in time"):
            driver.show(container)


def test_events_after_a_lost_connection(rig: Rig, docker_url: str, tmp_path: pathlib.Path) -> None:
    container = rig.created()
    with proxied(tmp_path / "docker.sock", docker_url) as proxy, listening(variant(rig, proxy.url)) as inbox:
        proxy.cut()
        rig.driver.start(container)
        proxy.open()
        assert inbox.get(timeout=60) == RuntimeEvent("", RESYNC)
        # What happened meanwhile is told as well, as long as Docker remembers it.
        assert inbox.get(timeout=60) == RuntimeEvent(container.uuid, "start")
        rig.driver.kill(container)
        assert inbox.get(timeout=60) == RuntimeEvent(container.uuid, "die")


def test_events_stop_without_a_daemon(tmp_path: pathlib.Path) -> None:
    driver = DockerDriver(Settings(f"unix://{tmp_path}/none.sock", "host"))
    stop = threading.Event()
    thread = threading.Thread(target=lambda: list(driver.events(stop)), daemon=True)
    thread.start()
    stop.set()
    thread.join(timeout=60)
    assert not thread.is_alive()


# Images


class Banner:
    """Something on the host that is no registry: it counts connections, and says what it is."""

    TEXT = b"SSH-2.0-banner\r\n"

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                with connection:
                    connection.sendall(self.TEXT)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def banner() -> Iterator[Banner]:
    made = Banner()
    yield made
    made.close()


ASKED: list[Callable[[DockerDriver, str], object]] = [
    lambda driver, registry: driver.pull_image(f"{registry}/zun-demo:1"),
    lambda driver, registry: driver.image_digest(f"{registry}/zun-demo:1"),
    lambda driver, registry: driver.search_images(f"{registry}/zun-demo"),
]


@pytest.mark.parametrize("ask", ASKED, ids=["pull", "digest", "search"])
def test_docker_is_not_sent_to_loopback(
    docker_url: str, rig: Rig, banner: Banner, ask: Callable[[DockerDriver, str], object]
) -> None:
    driver = variant(rig, docker_url, registries=PUBLIC_ONLY)
    for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
        with pytest.raises(exceptions.InvalidValue, match="no images may come from"):
            ask(driver, f"{host}:{banner.port}")
    assert banner.connections == 0


@pytest.mark.parametrize("ask", ASKED, ids=["pull", "digest", "search"])
def test_words_of_an_allowed_registry_are_for_the_log(
    rig: Rig, banner: Banner, ask: Callable[[DockerDriver, str], object], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(exceptions.ZunError) as raised:
        ask(rig.driver, f"127.0.0.1:{banner.port}")
    assert banner.connections > 0
    assert "banner" not in str(raised.value) and "malformed" not in str(raised.value)
    assert "could not be" in caplog.text


def test_a_pull_does_not_fall_back(rig: Rig, engine: docker.APIClient) -> None:
    engine.tag("zun-demo", "127.0.0.1:9/zun-demo", "1")
    try:
        assert rig.driver.find_image("127.0.0.1:9/zun-demo:1") is not None
        with pytest.raises(exceptions.DockerError):
            rig.driver.pull_image("127.0.0.1:9/zun-demo:1")
    finally:
        engine.remove_image("127.0.0.1:9/zun-demo:1")


def test_image_facts_are_the_images_own(rig: Rig, engine: docker.APIClient) -> None:
    made = engine.create_container("zun-demo", ["true"])["Id"]
    try:
        changes = ['ENTRYPOINT ["/bin/sh"]', 'CMD ["-c", "true"]']
        engine.commit(made, "zun-demo-facts", "1", changes=changes)
        facts = rig.driver.find_image("zun-demo-facts:1")
        assert facts is not None and (facts.entrypoint, facts.command) == (("/bin/sh",), ("-c", "true"))
        engine.remove_image("zun-demo-facts:1")
    finally:
        engine.remove_container(made)


def test_an_image_of_a_container(rig: Rig, engine: docker.APIClient) -> None:
    name = f"zun-commit:{uuid.uuid4()}"
    container = rig.running(command=["sh", "-c", "echo kept > /kept; exec sleep 1000"], environment={"MINE": "1"})
    wait_for(lambda: rig.driver.execute(container, ["cat", "/kept"], 60) == ("kept\n", 0))
    try:
        facts = rig.driver.commit(container, name)
        assert facts.command[:2] == ("sh", "-c") and facts.size > 0
        assert rig.state(container).status is Status.RUNNING  # it goes on
        made = rig.sample(image=name, command=["cat", "/kept"], cpu_policy="shared")
        rig.driver.create(made, cpuset_cpus="0", cpuset_mems="0")
        rig.driver.start(made)
        wait_for(lambda: rig.driver.logs(made) == "kept\n")
        assert rig.driver.find_images("zun-commit") == []
        # A stranger's container of it is not taken for one of this host, and knows nothing of CPUs.
        stranger = engine.create_container(name, ["true"])["Id"]
        try:
            assert set(rig.driver.list()) == {container.uuid, made.uuid}
            assert set(engine.inspect_container(stranger)["Config"]["Env"]) == {
                "PATH=/bin", "MINE=1", "ZUN_CPUSET_CPUS=", "ZUN_CPUSET_MEMS=", "ZUN_DEDICATED_CPUS=", "ZUN_DEVICES=",
            }
        finally:
            engine.remove_container(stranger, force=True)
        rig.driver.pause(container)
        rig.driver.commit(container, name)
        assert rig.state(container).status is Status.PAUSED
    finally:
        rig.clean()
        rig.driver.remove_image(name)


def test_an_image_tells_no_claim(rig: Rig, engine: docker.APIClient) -> None:
    """An image with the service's own variables gives none of them to a container, and the agent reads none."""
    name, value = f"zun-commit:{uuid.uuid4()}", 'a "b" $PATH \\d #'
    made = engine.create_container("zun-demo", ["true"])["Id"]
    try:
        variables = ["ZUN_DEVICES=x=/dev/sda", "ZUN_DEDICATED_CPUS=0", "ZUN_CPUSET_CPUS=0", "MINE=1"]
        engine.commit(made, *name.split(":"), changes=[f"ENV {each}" for each in variables])
        container = rig.running(image=name, cpu_policy="shared", environment={"MINE": "of a device"})
        told = rig.driver.execute(container, ["env"], 60)[0]
        assert "MINE=of a device" in told and "ZUN_" not in told
        assert (rig.state(container).devices, rig.state(container).dedicated_cpus) == ((), "")
        rig.driver.commit(replace(container, environment={"MINE": value}), name)
        assert f"MINE={value}" in engine.inspect_image(name)["Config"]["Env"]
    finally:
        engine.remove_container(made)
        rig.clean()
        rig.driver.remove_image(name)


def test_local_images_are_found_and_absent_registry_told(rig: Rig) -> None:
    assert "latest" in {tag for each in rig.driver.find_images("zun-demo") for tag in each.tags}
    assert rig.driver.find_images("zun-no-such-image") == []
    with pytest.raises(exceptions.Unavailable, match="registry could not be asked"):
        rig.driver.search_images("127.0.0.1:9/zun-demo")  # nothing listens there


def test_a_renamed_object_is_found_and_named_again(rig: Rig, engine: docker.APIClient) -> None:
    container, name = rig.running(), f"other-{uuid.uuid4()}"
    found = inspect(engine, container)["Id"]
    engine.rename(found, name)
    assert rig.state(container).container_id == found
    assert inspect(engine, container)["Id"] == found  # by the name it had
    engine.rename(found, name)
    stranger = engine.create_container("zun-demo", ["true"], name=f"zun-{container.uuid}")["Id"]
    try:
        assert rig.state(container).container_id == found
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None
        assert engine.inspect_container(stranger)["State"]["Status"] == "created"
    finally:
        engine.remove_container(stranger, force=True)


def test_facts_of_the_machine(rig: Rig, engine: docker.APIClient) -> None:
    facts, info = rig.driver.facts(), engine.info()
    assert facts.mem_total_mib == info["MemTotal"] // MIB
    assert (facts.cpus, facts.kernel_version, facts.architecture) == (
        info["NCPU"],
        info["KernelVersion"],
        info["Architecture"],
    )
    assert facts.disk_total_gib > 0


@pytest.mark.parametrize("named", [True, False], ids=["our-name", "other-name"])
def test_a_container_of_a_committed_image_is_a_strangers(rig: Rig, engine: docker.APIClient, named: bool) -> None:
    """'docker commit' copies our labels into the image, and containers that somebody runs from the image have them."""
    container, image = rig.created(), f"zun-test-{uuid.uuid4().hex[:8]}"
    engine.commit(inspect(engine, container)["Id"], image)
    rig.driver.delete(container, force=True)
    name = f"zun-{uuid.uuid4()}" if named else f"theirs-{uuid.uuid4()}"
    stranger = engine.create_container(image, ["true"], name=name)["Id"]
    try:
        owner = replace(container, uuid=name.removeprefix("zun-")) if named else container
        assert rig.driver.show(owner) is None
        rig.driver.delete(owner, force=True)
        assert engine.inspect_container(stranger)["Name"] == f"/{name}"
    finally:
        engine.remove_container(stranger, force=True)
        engine.remove_image(image)


def test_a_volume_without_our_label_stays(rig: Rig, engine: docker.APIClient) -> None:
    name = f"zun-{uuid.uuid4().hex}-data"
    engine.create_volume(name)
    try:
        with pytest.raises(exceptions.Conflict, match=f"Volume {name} of Docker was not made by this service"):
            rig.driver.remove_volume(name)
        assert engine.inspect_volume(name)["Name"] == name
    finally:
        engine.remove_volume(name)
    rig.driver.remove_volume(name)  # it is gone
    engine.create_volume(name, labels={"zun.volume": "data"})
    rig.driver.remove_volume(name)
    assert name not in {each["Name"] for each in engine.volumes()["Volumes"] or ()}
