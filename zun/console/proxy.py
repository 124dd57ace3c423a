# SPDX-License-Identifier: Apache-2.0
"""The server: an event loop until the login, then two threads a session, because reads from a runtime block."""

import asyncio
import concurrent.futures
import contextlib
import functools
import http
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from websockets import exceptions as websocket_errors
from websockets.asyncio import server
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Data, Subprotocol

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.units import MIB
from zun.console.access import granted, origin_refusal
from zun.console.listener import Listener
from zun.container.driver.terminals import Stream, Terminals
from zun.objects import ConsoleToken, Container

LOG = logging.getLogger(__name__)

# The library logs a traceback for each client that disconnects before its login.
LIBRARY_LOG = logging.getLogger("zun.console.websockets")
LIBRARY_LOG.setLevel(logging.CRITICAL)

NORMAL, GOING_AWAY, POLICY, BROKEN = 1000, 1001, 1008, 1011
BINARY = Subprotocol("binary")
CONTROL_FRAME_LIMIT = 123  # bytes of a close frame's reason
OPEN_SECONDS = 10.0  # for TLS, and again for the request and its answer
LOGIN_THREADS = 4  # that look up tokens
END_SECONDS = 5.0  # for one session to close, and for all sessions when the proxy stops
WATCH_SECONDS = 5.0  # between two searches for sessions that are idle or revoked
NOT_VALID = "the token is unknown, used, expired, or for something else; ask the API for a new one"
NOT_CHECKED = "the token cannot be checked; try again, and tell the operator if it stays so"
STOPS = "the websocket proxy stops"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one proxy: sessions of a user, sessions in all, and seconds without a byte. 0: no limit."""

    per_user: int = 0
    total: int = 0
    idle_seconds: int = 0

    def refusal(self, user: str, running: Collection[str]) -> tuple[http.HTTPStatus, str] | None:
        """Return why ``user`` may not open one more session, or None. ``running`` has the user of each session."""
        if self.total and len(running) >= self.total:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, f"this host has {self.total} sessions; try again later"
        if self.per_user and Counter(running)[user] >= self.per_user:
            return http.HTTPStatus.TOO_MANY_REQUESTS, f"you have {self.per_user} sessions at this host; end one first"
        return None


class _Connection(server.ServerConnection):
    """A connection with its token, which is None until the login."""

    grant: ConsoleToken | None = None


class Session:
    """A connection that has logged in, for use by threads. Methods raise OSError after the proxy has stopped."""

    def __init__(self, connection: _Connection, loop: asyncio.AbstractEventLoop) -> None:
        assert connection.grant is not None  # or it would have been refused
        self.connection = connection
        self.grant = connection.grant
        self.active = time.monotonic()
        self._loop = loop

    def send(self, data: bytes) -> None:
        self._run(self.connection.send(data))
        self.active = time.monotonic()

    def __iter__(self) -> Iterator[Data]:
        with contextlib.suppress(websocket_errors.ConnectionClosedOK):
            while True:
                message = self._run(self.connection.recv())
                self.active = time.monotonic()
                yield message

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        self._run(self.connection.close(code, reason))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (RuntimeError, concurrent.futures.CancelledError) as exc:
            work.close()
            raise ConnectionAbortedError("the websocket proxy has stopped") from exc


class Proxy:
    """The websocket proxy of a host. ``base_url`` is its URL for clients; with ``context`` it serves wss:// itself.

    ``opened(grant, address, failure)`` and ``closed(grant, address)`` are called for each session (CADF notifications).
    ``failure`` is None, or why a client with a valid token got no session.
    """

    def __init__(
        self,
        driver: Terminals,
        host: str,
        port: int,
        *,
        base_url: str,
        allowed_origins: Collection[str],
        context: ssl.SSLContext | None,
        limits: Limits,
        opened: Callable[[ConsoleToken, str | None, str | None], None],
        closed: Callable[[ConsoleToken, str | None], None],
    ) -> None:
        self._driver = driver
        self._opened, self._closed = opened, closed
        self._base_url = base_url
        self._allowed_origins = allowed_origins
        self._context = context
        self._limits = limits
        self._users: dict[_Connection, str] = {}  # user of each login; only the event loop's thread uses it
        self._sessions: dict[Session, Stream] = {}
        self._stopped = False
        self._lock = threading.Lock()
        self._listener = Listener.on(host, port)
        self._port: int = self._listener.getsockname()[1]
        self._logins = concurrent.futures.ThreadPoolExecutor(LOGIN_THREADS, "wsproxy-login")
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="wsproxy", daemon=True)

    @property
    def port(self) -> int:
        """Return the port that the proxy listens on; for port 0 the kernel chose it."""
        return self._port

    def start(self) -> None:
        self._thread.start()

    def running(self) -> int:
        """Return the number of running sessions."""
        with self._lock:
            return len(self._sessions)

    def stop(self) -> None:
        """Refuse new sessions and end the running ones within END_SECONDS."""
        with contextlib.suppress(RuntimeError):  # stopped before
            self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread.ident is None:
            self._listener.close()
        else:
            self._thread.join()
        self._logins.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve_until_stopped())

    async def _serve_until_stopped(self) -> None:
        served = await server.serve(
            self._handle,
            sock=self._listener,
            ssl=self._context,
            ssl_handshake_timeout=OPEN_SECONDS if self._context else None,
            open_timeout=OPEN_SECONDS,
            process_request=self._check,
            select_subprotocol=_subprotocol,
            create_connection=_Connection,
            compression=None,
            # After any frame, also a ping, python-zunclient waits for data and does not read its keyboard.
            ping_interval=None,
            close_timeout=END_SECONDS,
            max_size=MIB,
            logger=LIBRARY_LOG,
        )
        watching = asyncio.create_task(self._watch())
        await self._stopping.wait()
        watching.cancel()
        served.close(close_connections=False)
        with self._lock:
            self._stopped = True
            sessions = dict(self._sessions)
        stops = (GOING_AWAY, STOPS)
        closing = [asyncio.create_task(each.connection.close(*stops)) for each in sessions]
        if closing:
            await asyncio.wait(closing, timeout=END_SECONDS)
        # A client or a process that does not read would block its threads, and the program's end, for ever.
        for session, stream in sessions.items():
            stream.close()
            session.connection.transport.abort()
        if closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(served.wait_closed(), END_SECONDS)

    async def _check(self, connection: server.ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, _Connection)
        headers = request.headers
        refusal = origin_refusal(
            headers.get("Origin"),
            headers.get("Host"),
            headers.get("X-Forwarded-Proto"),
            self._base_url,
            self._allowed_origins,
        )
        if refusal is not None:
            return _refused(connection, http.HTTPStatus.FORBIDDEN, refusal)
        try:
            return await self._log_in(connection, request.path)
        except Exception:  # a database that is away
            LOG.exception("Cannot check the token of %s", _peer(connection))
            return _refused(connection, http.HTTPStatus.SERVICE_UNAVAILABLE, NOT_CHECKED)

    async def _log_in(self, connection: _Connection, path: str) -> Response | None:
        """Use up the token in ``path`` and let the connection in, or refuse it."""
        loop = asyncio.get_running_loop()
        grant = await loop.run_in_executor(self._logins, granted, path, _find)
        if grant is not None:
            user = grant.user_id or grant.container_uuid
            self._users = {each: whose for each, whose in self._users.items() if each.state is not State.CLOSED}
            full = self._limits.refusal(user, self._users.values())
            if full is not None:
                await self._tell(connection, grant, full[1])
                return _refused(connection, *full)
            self._users[connection] = user  # before the await, so that concurrent logins count this one
            try:
                if await loop.run_in_executor(self._logins, grant.use):
                    connection.grant = grant
                    self._listener.admit(connection.remote_address)
                    return None
            except Exception:  # ``_check`` answers
                await self._tell(connection, grant, NOT_CHECKED)
                raise
            finally:
                if connection.grant is None:
                    del self._users[connection]
            await self._tell(connection, grant, NOT_VALID)
        return _refused(connection, http.HTTPStatus.FORBIDDEN, NOT_VALID)

    async def _tell(self, connection: _Connection, grant: ConsoleToken, failure: str) -> None:
        """Report that the client did not get the terminal of ``grant``, away from the event loop."""
        report = functools.partial(self._opened, grant, _address(connection), failure)
        await asyncio.get_running_loop().run_in_executor(self._logins, report)

    async def _handle(self, connection: server.ServerConnection) -> None:
        """Wait for the session's thread: the library closes the connection when this method returns."""
        assert isinstance(connection, _Connection)
        session, ended = Session(connection, asyncio.get_running_loop()), asyncio.Event()

        def serve() -> None:
            try:
                self._serve(session)
            finally:
                with contextlib.suppress(RuntimeError):  # the proxy has stopped
                    self._loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=serve, name="terminal", daemon=True).start()
        try:
            await ended.wait()
        finally:
            self._users.pop(connection, None)

    def _serve(self, session: Session) -> None:
        grant = session.grant
        what = grant.container_uuid if grant.exec_id is None else f"{grant.container_uuid} exec {grant.exec_id}"
        try:
            self._talk(session, what)
        except OSError as exc:
            LOG.info("Session with %s ended: %s", what, exc)
        finally:
            grant.forget()

    def _talk(self, session: Session, what: str) -> None:
        try:
            stream = self._open(session.grant)
        except exceptions.ZunError as exc:
            LOG.info("No session with %s: %s", what, exc)
            self._opened(session.grant, _address(session.connection), str(exc))
            session.close(BROKEN, _short(str(exc)))
            return
        LOG.info("Session with %s from %s", what, _peer(session.connection))
        session.connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._sessions[session] = stream
        if stopped:  # the proxy stopped while the session was opened
            stream.close()
            self._opened(session.grant, _address(session.connection), STOPS)
            session.close(GOING_AWAY, STOPS)
            return
        try:
            self._opened(session.grant, _address(session.connection), None)
            relay(session, stream)
        finally:
            with self._lock:
                del self._sessions[session]
            self._closed(session.grant, _address(session.connection))
            LOG.info("Session with %s ended", what)

    def _open(self, grant: ConsoleToken) -> Stream:
        container = Container.get_by_uuid(admin_context(), grant.container_uuid)
        if grant.exec_id is None:
            return self._driver.attach(container)
        return self._driver.open_exec(container, grant.exec_id)

    async def _watch(self) -> None:
        """End sessions that are idle, whose container is gone, or whose token was removed."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with self._lock:
                sessions = list(self._sessions)
            try:
                kept = await asyncio.get_running_loop().run_in_executor(self._logins, _kept, sessions)
            except Exception:  # the database may be away; the next round asks again
                LOG.exception("Cannot look whether sessions may go on; trying again in %g s", WATCH_SECONDS)
                kept = {each.grant.token_hash for each in sessions}
            closing = [
                each.connection.close(POLICY, reason)
                for each in sessions
                if (reason := _end_reason(each, kept, self._limits.idle_seconds)) is not None
            ]
            await asyncio.gather(*closing, return_exceptions=True)


def _end_reason(session: Session, kept: Collection[str], idle_seconds: int) -> str | None:
    """Return why a session must end, or None if it may go on."""
    if session.grant.token_hash not in kept:
        return "the container is gone, or the session was revoked"
    if idle_seconds and time.monotonic() - session.active > idle_seconds:
        return f"no byte either way for {idle_seconds} s; open a new session"
    return None


def relay(session: Session, stream: Stream) -> None:
    """Carry bytes both ways until one side ends; then end the other."""

    def outwards() -> None:
        with contextlib.suppress(websocket_errors.ConnectionClosed, OSError):
            while data := stream.receive():
                session.send(data)
            session.close(NORMAL, farewell(stream.exit_code()))

    reader = threading.Thread(target=outwards, name="terminal", daemon=True)
    reader.start()
    try:
        for message in session:
            stream.send(message.encode() if isinstance(message, str) else message)
    except (websocket_errors.ConnectionClosed, OSError):
        pass  # the client disconnected, or the process ended while the user typed
    finally:
        stream.close()
        reader.join()
        session.close(NORMAL)


def farewell(exit_code: int | None) -> str:
    """Return the reason of the close frame: ``exit code 5`` of a command that has ended, else nothing."""
    return "" if exit_code is None else f"exit code {exit_code}"


def _find(token: str) -> ConsoleToken | None:
    return ConsoleToken.find(admin_context(), token)


def _kept(sessions: Collection[Session]) -> set[str]:
    """Return the token hashes of the sessions that may go on."""
    hashes = [each.grant.token_hash for each in sessions]
    return ConsoleToken.keep(admin_context(), hashes) if hashes else set()


def _refused(connection: _Connection, status: http.HTTPStatus, refusal: str) -> Response:
    LOG.info("Refused a session from %s: %s", _peer(connection), refusal)
    return connection.respond(status, f"{refusal}\n")


def _subprotocol(connection: server.ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return BINARY if BINARY in offered else None


def _peer(connection: server.ServerConnection) -> str:
    return _address(connection) or "a local socket"


def _address(connection: server.ServerConnection) -> str | None:
    return str(connection.remote_address[0]) if connection.remote_address else None


def _short(text: str) -> str:
    return text.encode()[:CONTROL_FRAME_LIMIT].decode(errors="ignore")
