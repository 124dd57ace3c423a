# SPDX-License-Identifier: Apache-2.0
"""The connection to a Docker daemon that is replaced by another release."""

import json
import pathlib
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from zun.common import exceptions
from zun.container.docker import DockerDriver
from zun.container.docker.client import Engine, Settings
from zun.container.driver import RESYNC
from zun.network.docker import DockerNetworks
from zun.tests.unit.container.samples import Sample

OLD, NEW = (24, 43), (44, 52)
BEFORE_MINIMUM = (12, 41)  # a release that has every version up to its own


class Daemon(socketserver.ThreadingUnixStreamServer):
    """A Docker that speaks the minor versions ``first`` to ``last`` of its API, and its log driver."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, path: pathlib.Path, versions: tuple[int, int]) -> None:
        self.versions = versions
        self.logs = "json-file"
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        super().__init__(str(path), _Answers)

    @property
    def url(self) -> str:
        return f"unix://{self.server_address!s}"

    def refusal(self, path: str) -> str | None:
        first, last = self.versions
        words = path.split("/")[1]
        asked = int(words.removeprefix("v1.")) if words.startswith("v1.") else last
        if asked < first:
            return (
                f"client version 1.{asked} is too old. Minimum supported API version is 1.{first}, please upgrade "
                "your client to a newer version"
            )
        if asked > last:
            return f"client version 1.{asked} is too new. Maximum supported API version is 1.{last}"
        return None


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Daemon

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if (refusal := self.server.refusal(path)) is not None:
            self._answer(400, {"message": refusal})
        elif path.endswith("/version"):
            self._answer(200, {"ApiVersion": f"1.{self.server.versions[1]}"})
        elif path.endswith("/info"):
            self._answer(200, {"LoggingDriver": self.server.logs})
        elif path.endswith(("/networks", "/containers/json")):
            self._answer(200, [])
        else:
            self._answer(200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if (refusal := self.server.refusal(path)) is not None:
            self._answer(400, {"message": refusal})
            return
        self.server.bodies.append(json.loads(body))
        self._answer(201, {"Id": "made"})

    def do_PUT(self) -> None:
        self.close_connection = True
        self._answer(400, {"message": self.server.refusal(self.path) or "no tar"})

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a client"

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(path: pathlib.Path, versions: tuple[int, int]) -> Iterator[Daemon]:
    server = Daemon(path, versions)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def daemon(tmp_path: pathlib.Path) -> Iterator[Daemon]:
    with serving(tmp_path / "docker.sock", OLD) as server:
        yield server


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(OLD, NEW, id="upgrade"), pytest.param(NEW, BEFORE_MINIMUM, id="back")],
)
def test_other_release_is_spoken_to_in_its_version(
    tmp_path: pathlib.Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    with serving(tmp_path / "docker.sock", before) as daemon:
        driver, networks = DockerDriver(Settings(daemon.url)), DockerNetworks(Engine(Settings(daemon.url)))
        for versions in (before, after, before):
            daemon.versions = versions
            driver.ping()
            assert networks.present() == set() and driver.list() == {}
            container = Sample()
            assert driver.create(container, cpuset_cpus="1", cpuset_mems="0") == "made"
            assert daemon.bodies[-1]["HostConfig"]["CpusetCpus"] == "1"
            assert daemon.asked[-1] == f"/v1.{versions[1]}/containers/create"


def test_same_release_is_asked_for_its_version_once(daemon: Daemon) -> None:
    driver = DockerDriver(Settings(daemon.url))
    for _ in range(3):
        driver.ping()
    assert daemon.asked == ["/version", *["/v1.43/_ping"] * 3]


def test_request_from_a_stream_is_not_sent_twice(daemon: Daemon) -> None:
    driver, container = DockerDriver(Settings(daemon.url)), Sample()
    driver.ping()
    daemon.versions = NEW
    with pytest.raises(exceptions.Unavailable, match=r"replaced by another release\. Try again"):
        driver.put_archive(container, "/", iter([b"a", b"b"]))
    with pytest.raises(exceptions.InvalidValue, match="no tar"):
        driver.put_archive(container, "/", iter([b"a", b"b"]))


def test_daemon_that_refuses_its_own_version_is_away(daemon: Daemon) -> None:
    driver = DockerDriver(Settings(daemon.url))
    driver.ping()
    daemon.refusal = lambda path: None if path == "/version" else "Client Version is too old"  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(exceptions.Unavailable):
            driver.ping()


def test_lost_events_describe_the_daemon_anew(daemon: Daemon) -> None:
    driver, stop = DockerDriver(Settings(daemon.url)), threading.Event()

    def limited() -> bool:
        driver.create(Sample(), cpuset_cpus="", cpuset_mems="")
        return "LogConfig" in daemon.bodies[-1]["HostConfig"]

    assert limited()
    daemon.versions, daemon.logs = (24, 45), "journald"  # both versions are in both ranges
    assert limited(), "nothing told of the other daemon yet"
    events = driver.events(stop)
    for _ in range(2):  # each stream ends at once
        assert next(events).action == RESYNC
    stop.set()
    assert not limited()
    assert daemon.asked[-1] == "/v1.45/containers/create"
