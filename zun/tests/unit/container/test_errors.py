# SPDX-License-Identifier: Apache-2.0
import re
import ssl
from collections.abc import Callable
from typing import Any

import docker.errors
import pytest
import requests
import urllib3.exceptions

from zun.common import exceptions
from zun.container.docker import DockerDriver
from zun.container.docker.archives import _path_error, in_memory
from zun.container.docker.client import Settings
from zun.container.docker.errors import (
    ENDING,
    SILENCE_SECONDS,
    Adviser,
    failure_in,
    memory_blamed,
    translate,
    translated,
    unbroken,
)
from zun.container.docker.registries import Registries
from zun.tests.unit.container.daemon import Daemon
from zun.tests.unit.container.samples import Sample

URL = "unix:///x.sock"


def api_error(status: int, text: str, kind: type[docker.errors.APIError] = docker.errors.APIError) -> Exception:
    response = requests.Response()
    response.status_code = status
    return kind("message", response=response, explanation=text)


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (
            api_error(404, "No such image: x:1", docker.errors.ImageNotFound),
            exceptions.ImageNotFound,
            "x:1.*docker pull",
        ),
        (
            api_error(404, "No such container: zun-u", docker.errors.NotFound),
            exceptions.ContainerVanished,
            "container u any more: No such container: zun-u. Rebuild the container, or delete it",
        ),
        (api_error(409, "You cannot remove a running container"), exceptions.Conflict, "Cannot stop container u"),
        (api_error(500, "Container abc is not paused"), exceptions.Conflict, "not paused"),
        (api_error(500, "container abc is not running"), exceptions.Conflict, "not running"),
        (api_error(500, "layer does not exist"), exceptions.DockerError, "could not stop container u: layer"),
        (api_error(500, "mkdir /a: no space left on device"), exceptions.Unavailable, r"/a: no.* device\. .*make room"),
        (api_error(500, "transport is closing: unavailable"), exceptions.Unavailable, r"closing.*Try again once"),
        (api_error(400, "bind source path does not exist: /x/fs/data"), exceptions.DockerError, "/x/fs.*restart zun"),
        (
            api_error(400, "Requested CPUs are not available - requested 77, available: 0-1"),
            exceptions.DockerError,
            "requested 77, available: 0-1. Some went offline: try again",
        ),
        (api_error(400, "Minimum memory limit"), exceptions.DockerError, "Minimum memory limit"),
        (requests.exceptions.ConnectionError("refused"), exceptions.Unavailable, "does not answer"),
        (requests.exceptions.ReadTimeout("slow"), exceptions.Unavailable, "did not stop container u in time"),
        (urllib3.exceptions.ProtocolError("broken"), exceptions.Unavailable, "does not answer"),
        (ConnectionRefusedError("refused"), exceptions.Unavailable, "does not answer"),
        (docker.errors.InvalidVersion("too old"), exceptions.DockerError, "too old"),
        (docker.errors.StreamParseError(ValueError("half")), exceptions.DockerError, "half|StreamParse"),
    ],
)
def test_translated(error: Exception, expected: type[exceptions.ZunError], text: str) -> None:
    with pytest.raises(expected, match=text) as caught, translated("stop", "u", URL, Adviser()):
        raise error
    assert type(caught.value) is expected
    assert caught.value.__cause__ is error


# As Docker 20.10 says them over containerd 1.6, but for two that stand in their sources and those of later ones.
ENDED = [
    (500, "Cannot update container 5d: cannot update a stopped container: unknown"),
    (500, "Cannot update container 5d: cannot update a deleted process: unknown"),
    (500, "Cannot update container 5d: runc did not terminate successfully: exit status 1: container not running\n"),
    (500, "Cannot update container 5d: ttrpc: closed: unknown"),
    (500, "Cannot update container 5d: container not created: not found"),
    (500, "Cannot update container 5d: task 5d not found: not found"),
    (500, "Cannot pause container 5d: cannot pause a stopped container: unknown"),
    (500, "Cannot pause container 5d: OCI runtime pause failed: container not running: unknown"),
    (500, "runc did not terminate successfully: exit status 1: container does not exist\n: unknown"),
    (500, "cannot exec in a stopped state: unknown"),
    (404, "container is not running"),
    (404, "no such container"),
]


@pytest.mark.parametrize(("status", "text"), ENDED)
def test_a_process_that_is_just_ending_is_no_failure(status: int, text: str) -> None:
    error = api_error(status, text, docker.errors.NotFound if status == 404 else docker.errors.APIError)
    expected = pytest.raises(exceptions.Conflict, match=r"Cannot pause container u: .*(has just ended|is not running)")
    with expected, translated("pause", "u", URL, Adviser()):
        raise error
    assert ENDING.search(text), "so it is updated once more"


def test_version_1_refuses_memory_below_use_as_conflict() -> None:
    text = "unable to set memory limit to 8388608 (current usage: 22020096, peak usage: 22999040): unknown"
    expected = pytest.raises(exceptions.Conflict, match=r"below what the processes of container web \(u\) use: .*stop")
    with expected, translated("update", "u", URL, Adviser(), name="web"):
        raise api_error(500, text)
    with pytest.raises(exceptions.DockerError), translated("start", "u", URL, Adviser()):
        raise api_error(500, text)


@pytest.mark.parametrize("write", [str.upper, str.lower, str.capitalize])
@pytest.mark.parametrize(
    ("action", "text"),
    [
        *(("pause", text) for _, text in ENDED),
        ("unpause", "Container abc is not paused"),
        ("kill", "Container abc is restarting, wait until the container is running"),
        ("start", "No such container: 243b35c8"),
        ("start", 'container process: exec: "nope": executable file not found in $PATH'),
        ("create", "mkdir /a: no space left on device"),
        ("start", "transport is closing: unavailable"),
        ("update", "unable to set memory limit to 8388608"),
        ("update", "Requested CPUs are not available - requested 77, available: 0-1"),
        ("create", "bind source path does not exist: /x/fs/data"),
        ("stop", "layer does not exist"),
    ],
)
def test_capitals_of_a_reason_decide_nothing(action: str, text: str, write: Callable[[str], str]) -> None:
    first, second = (translate(api_error(500, each), action, "7e0aa171") for each in (text, write(text)))
    assert type(first) is type(second)
    assert str(first).lower() == str(second).lower()


@pytest.mark.parametrize("text", ["Invalid signal: SIGFOO", "cannot kill container: x: invalid signal: SIGFOO",
                                  "The Linux daemon does not support signal 99"])  # fmt: skip
def test_unknown_signal_is_an_invalid_value(daemon: Daemon, text: str) -> None:
    daemon.answers["/kill"] = 400, {"message": text}
    with pytest.raises(exceptions.InvalidValue, match="'SIGFOO' is no signal"):
        DockerDriver(Settings(daemon.url)).kill(Sample(), "SIGFOO")


@pytest.mark.parametrize(
    ("status", "text", "theirs"),
    [
        (500, "extraction point is not a directory", True),
        (500, "Extraction point is Not a Directory", True),
        (500, "Error processing tar file(exit status 1): archive/tar: invalid tar header", True),
        (404, "Could not find the file /x in container abc", True),
        (404, "no such container: abc", False),
        (404, "No such container: abc", False),
        (500, "container abc is restarting", False),
    ],
)
def test_whose_fault_a_failed_copy_is(status: int, text: str, theirs: bool) -> None:
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    error = api_error(status, text, kind)
    assert isinstance(error, docker.errors.APIError)
    assert isinstance(_path_error(error, "/x"), exceptions.InvalidValue) is theirs


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"status": "Pulling from x", "errorDetail": None}, None),
        ({"error": "old"}, "old"),
        ({"errorDetail": {"message": "new"}}, "new"),
        ({"errorDetail": {"code": 1, "message": "new"}, "error": "old"}, "new"),
        ({"errorDetail": {"code": 1}, "error": "old"}, "old"),
        ({"errorDetail": {"code": 1}}, "{'code': 1}"),
        ({"errorDetail": "text"}, "text"),
    ],
)
def test_error_in_a_stream(message: dict[str, Any], expected: str | None) -> None:
    assert failure_in(message) == expected


STREAMS = [
    pytest.param(b'{"status": "Pulling"}{"errorDetail": {"message": "toomanyrequests: limit"}}', id="detail"),
    pytest.param(b'{"error": "TOOMANYREQUESTS: limit"}', id="old-member-in-capitals"),
]


@pytest.mark.parametrize("stream", STREAMS)
def test_pull_that_fails_in_its_stream(daemon: Daemon, stream: bytes) -> None:
    daemon.answers["/images/create"] = 200, stream
    driver = DockerDriver(Settings(daemon.url, registries=Registries.of(["127.0.0.0/8"])))
    with pytest.raises(exceptions.DockerError, match="its registry limits pulls"):
        driver.pull_image("127.0.0.1:9/web:1")


def test_load_that_fails_in_its_stream(daemon: Daemon) -> None:
    daemon.answers["/images/load"] = 200, b'{"errorDetail": {"message": "No space left on device"}}'
    with pytest.raises(exceptions.DockerError, match="the disk of Docker is full"):
        DockerDriver(Settings(daemon.url)).load_image([b"tar"])


TAR = b"header" + b"\0" * 2048


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (b"", None),
        (b'{"errorDetail":{"message":"open /x: I/O error"},"error":"open /x: I/O error"}\r\n', "open /x"),
        (b'{"error":"open /x: input/output error"}', "open /x"),
        (b'{"message":"open /x: input/output error"}\n', "open /x"),
        (b'{"message":"a file that ends so"}' + b"\0" * 1024, None),
        (b'{"message": half', None),
        pytest.param(b'{"error":' + b"[" * 8000 + b"\0" * 1024, None, id="a file of brackets"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_tar_that_ends_with_an_error(end: bytes, reason: str | None, size: int) -> None:
    whole, got = TAR + end, bytearray()
    pieces = (whole[at : at + size] for at in range(0, len(whole), size))
    if reason is None:
        assert b"".join(unbroken(pieces)) == whole
        return
    with pytest.raises(exceptions.DockerError, match=f"could not read all of the files: {reason}"):
        for piece in unbroken(pieces):
            got += piece
    assert bytes(got) == whole


def test_saved_image_that_ends_with_an_error(daemon: Daemon) -> None:
    daemon.answers["/get"] = 200, TAR + b'{"errorDetail":{"message":"layer is gone"}}'
    with pytest.raises(exceptions.DockerError, match="layer is gone"):
        list(DockerDriver(Settings(daemon.url)).save_image("web:1"))


def test_removal_that_fails_while_it_is_awaited(daemon: Daemon) -> None:
    container = Sample()
    name = f"/containers/zun-{container.uuid}"
    labels = {"zun.host": "localhost", "zun.uuid": container.uuid}
    daemon.answers |= {
        f"{name}/json": (200, {"Id": "abc", "Name": f"/zun-{container.uuid}", "Config": {"Labels": labels}}),
        "/abc/wait": (200, {"StatusCode": 0, "Error": {"Message": "device or resource busy"}}),
        "/containers/abc": (409, {"message": "Removal of container abc is already in progress"}),
    }
    with pytest.raises(exceptions.DockerError, match="device or resource busy"):
        DockerDriver(Settings(daemon.url)).delete(container)


@pytest.mark.parametrize("action", ["create", "start", "restart", "update"])
def test_what_brings_the_process_or_was_tried_again_has_failed(action: str) -> None:
    with pytest.raises(exceptions.DockerError, match="ttrpc") as caught, translated(action, "u", URL, Adviser()):
        raise api_error(500, "failed to create shim task: ttrpc: closed: unknown")
    assert type(caught.value) is exceptions.DockerError


@pytest.mark.parametrize(
    "text",
    [
        "Minimum memory limit allowed is 6MB",
        "Requested CPUs are not available - requested 7, available: 0-1",
        'Cannot update container 5d: failed to write "3": open /x/cpuset.cpus: permission denied: unknown',
        "Cannot update container 5d: container is marked for removal and cannot be \"update\"",
        "No such container: zun-u",
        "layer does not exist",
    ],
)
def test_other_refusals_do_not_pass(text: str) -> None:
    assert not ENDING.search(text)


@pytest.mark.parametrize(("status", "action"), [(404, "start"), (500, "restart")])
def test_a_sandbox_that_is_missing_is_not_its_member(status: int, action: str) -> None:
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    expected = pytest.raises(exceptions.ContainerVanished, match=r"was removed on the host\. Delete the capsule")
    with expected, translated(action, "7e0aa171", URL, Adviser()):
        raise api_error(status, "No such container: 243b35c8", kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('container process: exec: "nope": executable file not found in $PATH', exceptions.Invalid),
        ('container process: exec: "/etc": permission denied', exceptions.Invalid),
        ("executable file `nope` not found in $PATH", exceptions.Invalid),
        ("OCI runtime create failed: the path `/etc/x` exists but it is not executable", exceptions.Invalid),
        ("OCI runtime create failed: the path `/etc` is not a regular file", exceptions.Invalid),
        ('failed to write "3": open /x/cpuset.cpus: permission denied', exceptions.DockerError),
    ],
)
def test_a_command_that_is_none_is_no_failure_of_the_host(text: str, expected: type[exceptions.ZunError]) -> None:
    with pytest.raises(expected) as caught, translated("start", "u", URL, Adviser()):
        raise api_error(400, text)
    assert type(caught.value) is expected and str(caught.value) == f"Docker could not start container u: {text}"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (FileNotFoundError("no socket"), "no socket.*systemctl start docker.*api_url"),
        (PermissionError("denied"), "denied.*group of the socket"),
        (ssl.SSLError("unknown ca"), "unknown ca.*ca_file, cert_file and key_file.*tlscacert"),
        (requests.exceptions.ReadTimeout("slow"), "default_timeout"),
        (api_error(500, "mkdir /a: no space left on device"), "/a: no space.*docker system df"),
    ],
)
def test_only_the_operator_sees_the_daemon_address(
    reason: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(exceptions.Unavailable) as caught, translated("connect", "", URL, Adviser()):
        raise unconnected(reason) if type(reason) in (FileNotFoundError, PermissionError, ssl.SSLError) else reason
    (line,) = caplog.messages
    assert re.search(told, line) and URL in line
    assert not any(word in str(caught.value) for word in (URL, "[docker]", "systemctl"))


def test_the_same_is_told_again_after_a_while_only(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    adviser = Adviser(lambda: now)
    for text in ("away", "away", "slow", "slow"):
        adviser.tell(text)
    assert told(caplog) == ["away", "slow"]
    now += SILENCE_SECONDS
    adviser.tell("slow")
    adviser.tell("slow")
    assert told(caplog) == ["away", "slow", "slow"]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def unconnected(reason: Exception) -> Exception:
    error = requests.exceptions.ConnectionError("Connection aborted")
    error.__cause__ = reason
    return error


@pytest.mark.parametrize("error", [KeyError("defect"), exceptions.InvalidValue("ours")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, translated("stop", "u", URL, Adviser()):
        raise error
    assert caught.value is error


def test_errors_name_the_container_as_users_do():
    error = docker.errors.APIError("", explanation="it is already paused")
    text = r"Cannot pause container web \(u\): it is already paused"
    with pytest.raises(exceptions.Conflict, match=text), translated("pause", "u", URL, Adviser(), name="web"):
        raise error


# Of Docker 20.10 to 28.5, and of runc 1.1.15 and 1.3, at the start of a container whose memory is below START_MIB.
TOO_LITTLE = [
    (400, "Minimum memory limit allowed is 6MB"),
    (
        500,
        "OCI runtime create failed: runc create failed: unable to start container process: error during container "
        "init: error setting cgroup config for procHooks process: unable to set memory limit to 6291456 (current "
        "usage: 6938624, peak usage: 7200768): unknown",
    ),
    (500, "container init was OOM-killed (memory limit too low?): unknown"),
    (500, "cannot start a stopped process: unknown"),
    (500, "OCI runtime start failed: cannot start a container that has stopped: unknown"),
]


@pytest.mark.parametrize(("status", "text"), TOO_LITTLE)
@pytest.mark.parametrize(
    ("memory", "expected"),
    [(6, exceptions.Invalid), (15, exceptions.Invalid), (16, exceptions.DockerError), (None, exceptions.DockerError)],
)
def test_too_little_memory_is_the_requests_fault(
    status: int, text: str, memory: int | None, expected: type[exceptions.ZunError]
) -> None:
    error = api_error(status, text)
    with pytest.raises(exceptions.ZunError) as caught, translated("start", "u", URL, Adviser()), memory_blamed(memory):
        raise error
    assert type(caught.value) is expected and text in str(caught.value)
    assert (f"memory {memory} is too little" in str(caught.value)) == (expected is exceptions.Invalid)


def test_little_memory_is_not_blamed_for_other_errors() -> None:
    error = api_error(500, "layer does not exist")
    with pytest.raises(exceptions.DockerError), translated("start", "u", URL, Adviser()), memory_blamed(6):
        raise error


MOUNTED = {
    "HostConfig": {"Tmpfs": {"/old": ""}},
    "Mounts": [
        {"Type": "tmpfs", "Destination": "/tmp"},
        {"Type": "volume", "Destination": "/tmp/data"},
        {"Type": "volume", "Destination": "/dev/hugepages"},
        {"Type": "bind", "Destination": "/etc/app.conf"},
    ],
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/tmp", "/tmp"),
        ("tmp/a/", "/tmp"),
        ("/var/../tmp/./a", "/tmp"),
        ("/tmp/data", None),
        ("/tmp/data/../x", "/tmp"),
        ("/tmpfs", None),
        ("/old/a", "/old"),
        ("/dev/shm", "/dev"),
        ("/dev/hugepages/a", None),
        ("/proc/1", "/proc"),
        ("//sys", "/sys"),
        ("/", None),
        ("", None),
        ("/etc/app.conf", None),
    ],
)
def test_paths_in_memory_are_not_reached_by_archives(path: str, place: str | None) -> None:
    assert in_memory(MOUNTED, path) == place
