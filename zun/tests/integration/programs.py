# SPDX-License-Identifier: Apache-2.0
"""The real programs as processes, and the real client against them."""

import contextlib
import fcntl
import functools
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration import stock_client
from zun.tests.integration.forks import Fork

VERSION = {"OpenStack-API-Version": "container 1.41"}
SETTLED = {"Created", "Running", "Stopped", "Paused", "Error"}


#: Ports below those that Linux gives to connections, in parts: each process of tests has a part of its own.
PORTS, PARTS = range(10_000, 32_000), 22


@functools.cache
def _own_ports() -> tuple[Iterator[int], IO[str]]:
    """Return the ports of this process's part, again and again, and the lock that holds the part."""
    folder = pathlib.Path(tempfile.gettempdir(), "zun-test-ports")
    folder.mkdir(exist_ok=True)
    for part in range(PARTS):
        lock = (folder / str(part)).open("w")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return itertools.cycle(PORTS[part::PARTS]), lock
        lock.close()
    raise RuntimeError(f"{PARTS} processes run tests: each part of the ports is in use (see {folder})")


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free, and that no other process of tests returns."""
    for port in _own_ports()[0]:
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError


class Program:
    """One of the services, run from this interpreter with a configuration file. Its log is ``NAME.log``.

    ``module`` is one of ``zun.cmd``, or the full name of another.
    """

    def __init__(
        self, folder: pathlib.Path, module: str, name: str, words: tuple[str, ...], settings: dict[str, dict[str, Any]]
    ) -> None:
        self.module, self.log = module, folder / f"{name}.log"
        config = str(folder / f"{name}.conf")
        self._program = module if "." in module else f"zun.cmd.{module}"
        self._words = ["--config-file", config, *words]
        if module in ("allinone", "wsproxy"):
            settings = {"websocket_proxy": {"wsproxy_port": free_port()}, **settings}
        if module in ("allinone", "api"):  # what does not fit is asked for again and again, and counts
            settings = {"quota": dict.fromkeys(("containers", "cpu", "memory", "disk"), -1), **settings}
        if module in ("allinone", "compute"):  # only tests of that take the interrupts of this machine
            settings = {**settings, "compute": {"interrupts": "fixed", **settings.get("compute", {})}}
        lines = []
        for group, options in settings.items():
            lines.append(f"[{group}]")
            lines += [f"{option} = {value}" for option, value in options.items()]
        (folder / f"{name}.conf").write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | Fork | None = None
        self.environment: dict[str, str] | None = None  # of another release, else that of the test

    def start(self, until: bytes = b" is ready") -> float:
        """Start it and wait until its log has the bytes ``until``. Returns the seconds that took."""
        began, seen = time.monotonic(), self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = self._run(log)
        wait_for(lambda: self._has_said(until, seen), 120)
        return time.monotonic() - began

    def _run(self, output: IO[bytes]) -> subprocess.Popen[bytes] | Fork:
        if self.environment is None:
            return Fork(self._program, self._words, output.fileno())
        command = [sys.executable, "-m", self._program, *self._words]
        none = subprocess.DEVNULL
        return subprocess.Popen(
            command, stdin=none, stdout=output, stderr=output, start_new_session=True, env=self.environment
        )

    def _has_said(self, text: bytes, seen: int) -> bool:
        said = self.log.read_bytes()[seen:]
        assert self.process is not None
        assert self.process.poll() is None, said.decode()
        return text in said

    def run_to_end(self) -> tuple[int, str]:
        """Run it and wait until it ends by itself: its exit code and what it said."""
        with tempfile.TemporaryFile() as output:
            self.process = self._run(output)
            code, self.process = self.process.wait(60), None
            output.seek(0)
            return code, output.read().decode()

    def kill(self) -> None:
        """kill -9: nothing is cleaned up."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(how)
        return process.wait(60)


def stop_all(programs: Sequence[Program]) -> None:
    """Stop all at once, but conductors last: hosts need them for what they do at their end."""
    conductors = [each for each in programs if each.module == "conductor"]
    others = [each for each in programs if each.module != "conductor"]
    for together in (others, conductors):
        with ThreadPoolExecutor(len(together) or 1) as pool:
            list(pool.map(Program.stop, together))


class Api:
    """The REST API at ``url`` (ending in /v1), as an administrator of ``project``."""

    patience = 60  # seconds for an answer

    def __init__(self, url: str, project: str = "admin", version: dict[str, str] = VERSION) -> None:
        self.url, self.project = url, project
        self._session = requests.Session()
        self._session.headers.update({**version, "X-Project-Id": project, "X-User-Id": project, "X-Roles": "admin"})

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        return self._session.request(method, self.url + path, timeout=self.patience, **kwargs)

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        answer.raise_for_status()
        return answer.json()

    def run(self, **fields: Any) -> str:
        """Ask for a container and return its uuid at once."""
        body = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64, **fields}
        answer = self.request("POST", "/containers?run=true", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def settled(self, uuid: str, seconds: float = 120) -> dict[str, Any]:
        """The container once nothing works on it any more."""

        def look() -> dict[str, Any] | None:
            shown: dict[str, Any] = self.get(f"/containers/{uuid}")
            return shown if shown["status"] in SETTLED and not shown["task_state"] else None

        return wait_for(look, seconds)  # type: ignore[return-value]

    def delete_all(self, seconds: float = 120) -> None:
        """Delete every container of the project, running or not, and wait until they are gone."""
        for each in self.get("/containers")["containers"]:
            self.request("DELETE", f"/containers/{each['uuid']}?force=true")
        wait_for(lambda: not self.get("/containers")["containers"], seconds)

    def held(self) -> dict[str, dict[str, Any]]:
        """Host -> its claims, as the host's topology shows them."""
        hosts = [host["hostname"] for host in self.get("/hosts")["hosts"]]
        return {host: self.get(f"/hosts/{host}/topology")["claims"] for host in hosts}


class TokenApi(Api):
    """The API for the owner of a token of the real keystone."""

    def __init__(self, url: str, token: str, version: str = "1.42") -> None:
        super().__init__(url)
        self._session.headers.clear()
        self._session.headers.update({"X-Auth-Token": token, "OpenStack-API-Version": f"container {version}"})

    def refusal(self, **fields: Any) -> tuple[int, str]:
        """Status and reason of the answer to a request for a container."""
        reply = self.request("POST", "/containers?run=true", json={"image": "zun-demo", "memory": 64, **fields})
        assert reply.status_code >= 400, reply.text
        return reply.status_code, reply.json()["errors"][0]["detail"]


class Client:
    """The stock ``openstack`` client: at ``url`` without keystone, or with the ``OS_`` variables of somebody."""

    def __init__(self, url: str | None, identity: dict[str, str] | None = None) -> None:
        self._identity = identity or {}
        self._endpoint = ["--os-auth-type", "none", "--os-endpoint", url] if url else []

    def __call__(self, *words: str, fails: bool = False) -> str:
        """Run ``openstack WORDS`` and return its output. Check that it succeeds, or fails if ``fails``."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        code, said = stock_client.run([*self._endpoint, *words], {**environment, **self._identity})
        assert (code != 0) == fails, said
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-f", "json"))
