# SPDX-License-Identifier: Apache-2.0
"""A network driver for Docker, which Docker calls before it starts a container and after the container ended.

The protocol is JSON over HTTP on a Unix socket: libnetwork's ``docs/remote.md``. Docker calls CreateEndpoint and Join
before the first process starts, then moves the interface into the container's namespace and sets addresses and routes.
It calls Leave and DeleteEndpoint when the container ended. The wiring comes with CreateEndpoint, from Docker's own
record of the container, so neither the database nor an answer of Neutron is needed to restart a container.
"""

import contextlib
import errno
import itertools
import json
import logging
import os
import pathlib
import socket
import socketserver
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from zun.common import exceptions, metrics
from zun.neutron.client import NeutronClient
from zun.neutron.ports import Wiring

LOG = logging.getLogger(__name__)

#: Docker's option of an endpoint with the port's ``Wiring`` as JSON.
WIRING = "zun.wiring"
POLL_SECONDS = 0.1  # the container's start waits
MAX_BODY = 1 << 20


@contextlib.contextmanager
def swept(what: str) -> Iterator[None]:
    """Log a failure with one item of a sweep, so that the sweep reaches the others. The next sweep tries again."""
    try:
        yield
    except (exceptions.ZunError, ValueError, OSError) as exc:
        LOG.warning("%s stays for now, although no container has it any more: %s", what, exc)


class Switch(Protocol):
    """Makes and removes the interfaces of this host, for ports of one kind of binding.

    ``zun.network.wiring`` has the one for Open vSwitch, ``zun.network.virtual_functions`` the one for SR-IOV.
    """

    def start(self) -> None: ...

    def plug(self, wiring: Wiring) -> str:
        """Make the interface of a container, replacing an old one, and return its name on the host."""
        ...

    def unplug(self, wiring: Wiring) -> None:
        """Remove the interface, if it exists."""
        ...


class Wires:
    """The wired containers of this host. Each endpoint has a file in ``folder``, which outlives this process.

    ``switches`` are by Neutron's kind of binding. ``active_timeout`` is in seconds.

    Calls are numbered as they arrive. A port or a virtual function has at most one file, that of its newest endpoint. A
    call that Docker gave up, because Docker was killed or asked again, may still be under way: it changes nothing that
    a newer call has changed.
    """

    def __init__(
        self, folder: pathlib.Path, switches: Mapping[str, Switch], client: NeutronClient, active_timeout: float
    ) -> None:
        self._folder = folder
        self._switches = switches
        self._neutron = client
        self._active_timeout = active_timeout
        self._turn = threading.Lock()  # held while a file or an interface changes
        self._arrivals = itertools.count()
        self._newest: dict[pathlib.Path, int] = {}  # by file: the newest call that wrote the file or plugged its port

    def start(self) -> None:
        """Raises Misconfigured if this process cannot wire containers."""
        for switch in self._switches.values():
            switch.start()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for half in self._folder.glob("*.new"):  # a killed run wrote it
            half.unlink()

    def answer(self, call: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one of Docker's calls. Raises ZunError, ValueError and OSError."""
        arrival = next(self._arrivals)
        match call:
            case "Plugin.Activate":
                return {"Implements": ["NetworkDriver"]}
            case "NetworkDriver.GetCapabilities":
                return {"Scope": "local", "ConnectivityScope": "global"}
            case "NetworkDriver.CreateEndpoint":
                wiring = Wiring.from_json(str((body.get("Options") or {}).get(WIRING, "")))
                self._note(body["EndpointID"], wiring, arrival)
                return {
                    "Interface": {
                        "Address": wiring.first(4),
                        "AddressIPv6": wiring.first(6),
                        "MacAddress": wiring.mac,
                    }
                }
            case "NetworkDriver.Join":
                return self._join(body["EndpointID"], arrival)
            case "NetworkDriver.EndpointOperInfo":
                return {"Value": {}}
            case "NetworkDriver.DeleteEndpoint":
                self._drop(self._file(body["EndpointID"]))
        return {}

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove the interfaces whose ports ``known`` does not return."""
        found = {}
        for file in self._folder.glob("*.json"):
            with swept(f"The interface of {file.name}"):
                if (wiring := self._read(file)) is not None:
                    found[file] = wiring
        ports = set(known([wiring.port for wiring in found.values()])) if found else set()
        for file, wiring in found.items():
            if wiring.port not in ports:
                with swept(f"The interface of port {wiring.port}"):
                    self._drop(file)
                    LOG.warning("Removed the interface of port %s, which no container has any more", wiring.port)

    def _join(self, endpoint: str, arrival: int) -> dict[str, Any]:
        file = self._file(endpoint)
        with metrics.timed(metrics.PORT_SECONDS, "plug"):
            with self._turn:
                wiring = self._read(file)
                if wiring is None:
                    raise ValueError(f"endpoint {endpoint} does not exist: Docker did not create it, or has deleted it")
                self._refuse_late(arrival, [file])
                self._newest[file] = arrival
                try:
                    name = self._switch(wiring).plug(wiring)
                except exceptions.ZunError:
                    self._unplug_again(wiring)
                    raise
            try:
                self._wait_until_active(wiring)
            except exceptions.ZunError:
                with self._turn:
                    if self._newest.get(file) == arrival:
                        self._unplug_again(wiring)
                raise
        return {
            "InterfaceName": {"SrcName": name, "DstPrefix": "eth"},
            "Gateway": wiring.gateway(4),
            "GatewayIPv6": wiring.gateway(6),
            "StaticRoutes": [{"Destination": to, "RouteType": 0, "NextHop": hop} for to, hop in wiring.routes],
            "DisableGatewayService": True,  # no further bridge that leads to the host
        }

    def _unplug_again(self, wiring: Wiring) -> None:
        with contextlib.suppress(exceptions.ZunError):  # why the port could not be used is told
            self._switch(wiring).unplug(wiring)

    def _refuse_late(self, arrival: int, files: Collection[pathlib.Path]) -> None:
        """Raise ValueError if a newer call than ``arrival`` has changed one of the files or its interface."""
        for file in files:
            if self._newest.get(file, arrival) > arrival:
                raise ValueError(f"this call is too late: a newer call for endpoint {file.stem} has been carried out")

    def _wait_until_active(self, wiring: Wiring) -> None:
        """Wait until Neutron's agent has set the port up. Raises PortUnusable.

        If Neutron does not answer, the container starts: the agent wires the port as soon as it can.
        """
        deadline = time.monotonic() + self._active_timeout
        while True:
            try:
                status = self._neutron.port(wiring.port).get("status")
            except exceptions.PortNotFound:
                raise exceptions.PortUnusable(reason=f"Port {wiring.port} was deleted at Neutron.") from None
            except exceptions.Unavailable as exc:
                LOG.warning("Container %s starts without knowing its port's status: %s", wiring.container, exc)
                return
            if status == "ACTIVE":
                return
            if status == "ERROR" or time.monotonic() >= deadline:
                raise exceptions.PortUnusable(
                    reason=f"Port {wiring.port} is {status} at Neutron and did not become ACTIVE within "
                    f"{self._active_timeout} s. See the log of Neutron's L2 agent on the container's host."
                )
            time.sleep(POLL_SECONDS)

    def _note(self, endpoint: str, wiring: Wiring, arrival: int) -> None:
        """Write the wiring of an endpoint, in the place of an earlier endpoint of the same port or virtual function.

        Docker did not delete the earlier one if Docker was killed or the host lost power. Its port is unplugged: Open
        vSwitch does not see that a new interface has the name of one that vanished.
        """
        file = self._file(endpoint)
        with self._turn:
            found = {each: self._read(each) for each in self._folder.glob("*.json")}
            earlier = {each: old for each, old in found.items() if old is not None and _share(old, wiring)}
            self._refuse_late(arrival, earlier)
            for each, old in earlier.items():
                self._switch(old).unplug(old)
                self._forget(each)
            written = file.with_suffix(".new")
            with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as new:
                new.write(wiring.to_json())
            os.replace(written, file)
            self._newest[file] = arrival

    def _drop(self, file: pathlib.Path) -> None:
        with self._turn:
            wiring = self._read(file)
            if wiring is not None:
                self._switch(wiring).unplug(wiring)
                self._forget(file)

    def _forget(self, file: pathlib.Path) -> None:
        file.unlink(missing_ok=True)
        self._newest.pop(file, None)

    def _switch(self, wiring: Wiring) -> Switch:
        try:
            return self._switches[wiring.binding]
        except KeyError:
            raise ValueError(f"port {wiring.port} has the binding '{wiring.binding}', which is unknown here") from None

    def _file(self, endpoint: str) -> pathlib.Path:
        if not endpoint.isalnum():
            raise ValueError(f"'{endpoint[:64]}' is not the id of an endpoint")
        return self._folder / f"{endpoint}.json"

    @staticmethod
    def _read(file: pathlib.Path) -> Wiring | None:
        try:
            return Wiring.from_json(file.read_text())
        except FileNotFoundError:
            return None
        except ValueError as exc:
            LOG.error("%s: %s. Remove the file; the interface may have to be removed by hand.", file, exc)
            return None


def _share(one: Wiring, other: Wiring) -> bool:
    """Return whether two wirings have the same interface of the host."""
    return one.port == other.port or (one.slot != "" and one.slot == other.slot)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Listener"

    def do_POST(self) -> None:
        call = self.path.strip("/")
        try:
            body = json.loads(self._body() or b"{}")
            answer = self.server.wires.answer(call, body)
        except Exception as exc:  # the top of a thread; Docker and the user get the reason
            known = isinstance(exc, exceptions.ZunError | ValueError | OSError)
            LOG.log(logging.WARNING if known else logging.ERROR, "Docker's call %s failed: %s", call, exc,
                    exc_info=not known)  # fmt: skip
            answer = {"Err": str(exc) or repr(exc)}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.plugins.v1.1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Content-Length") is not None:
            return self.rfile.read(min(int(self.headers["Content-Length"]), MAX_BODY))
        pieces = []
        while size := int(self.rfile.readline(16), 16):  # Docker sends chunks
            pieces.append(self.rfile.read(min(size, MAX_BODY)))
            self.rfile.readline(4)
        self.rfile.readline(4)
        return b"".join(pieces)

    def address_string(self) -> str:
        return "docker"  # a Unix socket's client has no address

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug(format, *args)


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: pathlib.Path, wires: Wires) -> None:
        self.wires = wires
        super().__init__(str(path), _Handler)


class Server:
    """Answers Docker on the socket ``path``, in threads of this process."""

    def __init__(self, path: pathlib.Path, wires: Wires) -> None:
        self._path = path
        self._wires = wires
        self._listener: _Listener | None = None
        self._made = 0

    def start(self) -> None:
        """Listen. Raises Misconfigured if the socket cannot be made."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(self._path.lstat().st_mode):
                    raise FileExistsError("something that is no socket is there. Name another path, or remove it")
                if _answers(self._path):
                    raise OSError(errno.EADDRINUSE, "another process listens there. Stop it, or name another path")
                self._path.unlink()  # of a killed run
            before = os.umask(0o177)
            try:
                self._listener = _Listener(self._path, self._wires)
                self._made = self._path.lstat().st_ino
            finally:
                os.umask(before)
        except OSError as exc:
            raise exceptions.Misconfigured(f"[neutron] plugin_socket = {self._path}: {exc}") from exc
        threading.Thread(target=self._listener.serve_forever, name="docker-plugin", daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.shutdown()
            self._listener.server_close()
            with contextlib.suppress(FileNotFoundError):
                if self._path.lstat().st_ino == self._made:  # else another process has listened there since
                    self._path.unlink()


def _answers(path: pathlib.Path) -> bool:
    """Return whether a process listens on the socket. Raises OSError if that cannot be told."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except ConnectionRefusedError:
            return False
        return True
