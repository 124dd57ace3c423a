# SPDX-License-Identifier: Apache-2.0
"""What usual programs can do in a container with the default profile, and what they cannot."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import docker
import pytest

from zun.common.states import Status
from zun.container.docker.profile import STANDARD, Profile
from zun.container.driver.driver import ContainerDriver
from zun.tests.fixtures import wait_for
from zun.tests.integration.container import packages
from zun.tests.unit.container.contract import Rig
from zun.tests.unit.container.samples import Sample

pytestmark = pytest.mark.docker
MIB = 1 << 20
PODMAN = "PODMAN_HOST" in os.environ
OPEN = Profile(pids_limit=0, no_new_privileges=False, dropped=(), log_max_size="")
INITDB = packages.POSTGRES.with_name("initdb")
NOBODY = "/usr/bin/setpriv --reuid=nobody --regid=nogroup --clear-groups"
POSTGRES = "/usr/bin/setpriv --reuid=postgres --regid=postgres --init-groups"
#: An echo request as iputils and Alpine's busybox send it without CAP_NET_RAW, in Docker's ping_group_range.
DATAGRAM_PING = (
    "import socket; s = socket.socket(type=socket.SOCK_DGRAM, proto=1); s.settimeout(9); "
    "s.sendto(bytes.fromhex('0800f7fd00010001'), ('127.0.0.1', 0)); print(s.recv(99)[0])"
)

Run = Callable[..., tuple[int | None, str]]


@pytest.fixture(scope="module")
def image(engine: docker.APIClient) -> Iterator[str]:
    name = packages.workloads(engine)
    yield name
    with contextlib.suppress(docker.errors.APIError):
        engine.remove_image(name)


def with_profile(rig: Rig, profile: Profile) -> ContainerDriver:
    return type(rig.driver)(replace(rig.driver.settings, profile=profile))


@pytest.fixture
def run(rig: Rig, image: str) -> Run:
    """Runs a script in a container of its own, and gives its exit code and its output."""

    def of(script: str, profile: Profile = STANDARD, **fields: Any) -> tuple[int | None, str]:
        container = rig.sample(image=image, command=["sh", "-c", script], **{"memory": 256, **fields})
        driver = with_profile(rig, profile)
        driver.create(container, cpuset_cpus="0-1", cpuset_mems="0")
        driver.start(container)
        wait_for(lambda: rig.state(container).status is Status.STOPPED, 120)
        return rig.state(container).exit_code, driver.logs(container).strip()

    return of


WORKLOADS = {
    "nginx": ("/usr/sbin/nginx -c /etc/nginx.conf; wget -qO- http://127.0.0.1; ps -o user,comm", "www-data nginx"),
    "python-as-nobody-on-port-80": (
        f"{NOBODY} /usr/bin/python3 -m http.server -d /etc/security 80 2>/dev/null & "
        "for i in $(seq 100); do wget -qO- http://127.0.0.1 2>/dev/null && break; sleep 0.2; done",
        "limits.conf",
    ),
    "postgres": (
        f"mkdir /d; chown postgres /d; {POSTGRES} {INITDB} -N --no-locale -D /d >/dev/null; "
        f"echo 'select 41 + 1 as n' | {POSTGRES} {packages.POSTGRES} --single -D /d postgres",
        'n = "42"',
    ),
    "su": ("/usr/bin/su -s /bin/sh nobody -c 'id -un'", "nobody"),
    "runuser": ("/usr/sbin/runuser -u nobody -- id -un", "nobody"),
    "setpriv": (f"{NOBODY} id -un", "nobody"),
    "setpriv-bounding-set": ("/usr/bin/setpriv --bounding-set=-all grep CapBnd /proc/self/status", "0000000000000000"),
    "owners-and-setuid-bits": ("touch f; chown nobody:nogroup f; chmod 4755 f; stat -c '%U %a' f", "nobody 4755"),
    "tar-with-owners": (
        "mkdir a b; touch a/f; chown nobody a/f; /usr/bin/tar -C a -cf t f; /usr/bin/tar -C b -xpf t; stat -c %U b/f",
        "nobody",
    ),
    "chroot": ("mkdir -p /c/bin; cp /bin/busybox /c/bin; chroot /c /bin/busybox echo inside", "inside"),
    "signals-to-others": (f"{NOBODY} sleep 99 & kill $! && wait $!; echo $?", "143"),
    "ping-by-datagrams": (f'/usr/bin/python3 -c "{DATAGRAM_PING}"', "0"),
    "ping-by-datagrams-as-nobody": (f'{NOBODY} /usr/bin/python3 -c "{DATAGRAM_PING}"', "0"),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_runs(run: Run, name: str) -> None:
    script, expected = WORKLOADS[name]
    code, output = run(script)
    assert code == 0, output
    assert expected in " ".join(output.split())


REFUSED = {
    # Debian's ping has this file capability. Without it in the bounding set the kernel does not execute the file.
    "ping-with-file-capability": ("/usr/bin/ping -c1 127.0.0.1", "not permitted", "1 packets transmitted, 1"),
    "mknod": ("mknod /tmp/null c 1 3 && echo made", "not permitted", "made"),
    "setuid-program": (f"{NOBODY} /usr/bin/rootid -u", "65534", "0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_workload_is_refused(run: Run, name: str) -> None:
    """And each of the operator's options gives it back."""
    script, hardened, opened = REFUSED[name]
    assert hardened in run(f"{script} 2>&1")[1].splitlines()[-1]
    assert any(line.startswith(opened) for line in run(f"{script} 2>&1", OPEN)[1].splitlines())


def test_ping_runs_with_the_capability(run: Run) -> None:
    assert "1 packets received" in run("/usr/bin/ping -c1 127.0.0.1", capabilities=["NET_RAW"])[1]


def test_fork_bomb_ends_at_the_limit(run: Run) -> None:
    bomb = "for i in $(seq 200); do sleep 100 & done; echo forked"
    assert "an't fork" in run(bomb, Profile(pids_limit=50))[1]
    assert run(bomb, OPEN)[1] == "forked"


def test_ulimits(run: Run) -> None:
    assert run("ulimit -Sn; ulimit -Hn", Profile(ulimits=(("nofile", 512, 1024),))) == (0, "512\n1024")


def test_log_is_rotated(run: Run, rig: Rig, engine: docker.APIClient) -> None:
    """Podman keeps one file, and begins it anew."""
    _, output = run("seq 20000; echo end", Profile(log_max_size="50k", log_max_files=2))
    found = engine.inspect_container(f"zun-{rig.made[-1].uuid}")
    path = pathlib.Path(found["HostConfig"]["LogConfig"]["Path"] if PODMAN else found["LogPath"])
    if path.parent.exists():  # the engine's files are here
        sizes = [each.stat().st_size for each in path.parent.glob(f"{path.name}*")]
        assert len(sizes) == (1 if PODMAN else 2) and sum(sizes) < 110_000
    assert output.endswith("end") and len(output) < 100_000


def test_inspect_of_a_default_container(rig: Rig, engine: docker.APIClient) -> None:
    container = rig.running(memory=48, cpu_policy="shared", cpu=1.0)
    found = engine.inspect_container(f"zun-{container.uuid}")
    host = {name: found["HostConfig"].get(name) or None for name in EXPECTED}
    assert host == EXPECTED
    assert _log(found["HostConfig"]) == LOG

    def seen() -> dict[str, str]:
        lines = pathlib.Path(f"/proc/{found['State']['Pid']}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        return {name: status[name] for name in ("CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")}

    wait_for(lambda: seen()["Seccomp"] != "0")  # Podman's start does not wait for the program
    assert seen() == {
        "CapEff": "00000000800405fb",
        "CapBnd": "00000000800405fb",
        "CapAmb": "0000000000000000",
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }


EXPECTED = {
    "Privileged": None,
    "CapAdd": None,
    # Podman tells what differs from its own capabilities, and always its own limits of open files.
    **({"CapDrop": None} if PODMAN else {"CapDrop": ["AUDIT_WRITE", "MKNOD", "NET_RAW"], "Ulimits": None}),
    "SecurityOpt": ["no-new-privileges"],
    "PidsLimit": 4096,
    "Memory": 48 * MIB,
    "MemorySwap": 48 * MIB,
    "UsernsMode": None,
    "PidMode": "private" if PODMAN else None,
    "IpcMode": "private",
    "UTSMode": "private" if PODMAN else None,
    "Devices": None,
    "Binds": None,
}
LOG = ("k8s-file", "52.43MB") if PODMAN else ("json-file", {"max-size": "50m", "max-file": "3"})


def _log(host: dict[str, Any]) -> tuple[str, Any]:
    """Return the log driver of a description, and the limits that it has: Podman has one file of a size."""
    log = host["LogConfig"]
    return log["Type"], log["Size"] if PODMAN else log["Config"]


@pytest.mark.parametrize("memory", [64, 256])
def test_new_size_keeps_the_profile(rig: Rig, engine: docker.APIClient, memory: int) -> None:
    container = rig.running(memory=128)
    rig.driver.update(container, memory=memory, cpu=2.0, cpuset_cpus="0-1")
    found = engine.inspect_container(f"zun-{container.uuid}")
    host = found["HostConfig"]
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (4096, memory * MIB, memory * MIB)
    for path in ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"):  # cgroup version 2, version 1
        told, _ = rig.driver.execute(container, ["sh", "-c", f"cat {path} 2>/dev/null"], 60)
        if told:
            assert told == "4096\n"
            break
    else:
        pytest.fail("the container has no group of processes")


def test_privileged_container_has_the_rights_of_the_host(rig: Rig, engine: docker.APIClient) -> None:
    container: Sample = rig.created(privileged=True)
    host = engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]
    assert host["Privileged"] and host["PidsLimit"] in (None, 0, -1)
    # Podman tells each capability that this machine lacks as dropped.
    assert {name.removeprefix("CAP_") for name in host["CapDrop"] or ()}.isdisjoint(STANDARD.dropped)
    assert _log(host) == LOG
