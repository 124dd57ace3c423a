# SPDX-License-Identifier: Apache-2.0
"""The server: one thread a direction and session, because streams of a runtime block."""

import contextlib
import http
import logging
import socket
import ssl
import threading
import time
from collections.abc import Collection, Sequence

from websockets import exceptions as websocket_errors
from websockets.http11 import Request, Response
from websockets.sync import server
from websockets.typing import Subprotocol

from zun.common import exceptions
from zun.common.context import admin_context
from zun.common.units import MIB
from zun.console.access import granted, origin_refusal
from zun.container.driver import Stream, Terminals
from zun.objects import ConsoleToken, Container

LOG = logging.getLogger(__name__)

NORMAL, GOING_AWAY, BROKEN = 1000, 1001, 1011
BINARY = Subprotocol("binary")
CONTROL_FRAME_LIMIT = 123  # bytes of a close frame's reason
END_SECONDS = 5.0  # for a session to end well, and for all of them when the proxy stops


class _Session(server.ServerConnection):
    """A connection, and what its token opens."""

    grant: ConsoleToken | None = None


class Proxy:
    """Listens from ``start`` to ``stop``. ``base_url`` is how clients reach it; ``context`` serves wss:// itself."""

    def __init__(
        self,
        driver: Terminals,
        host: str,
        port: int,
        *,
        base_url: str,
        allowed_origins: Collection[str],
        context: ssl.SSLContext | None,
    ) -> None:
        self._driver = driver
        self._base_url = base_url
        self._allowed_origins = allowed_origins
        self._sessions: dict[server.ServerConnection, Stream] = {}
        self._stopped = False
        self._lock = threading.Lock()
        self._server = server.serve(
            self._serve,
            host,
            port,
            ssl=context,
            process_request=self._check,
            select_subprotocol=_subprotocol,
            create_connection=_Session,
            compression=None,
            # The client in use stops reading its keyboard while it waits for data after any frame, and a ping is one.
            ping_interval=None,
            close_timeout=END_SECONDS,
            max_size=MIB,
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="wsproxy", daemon=True)

    @property
    def port(self) -> int:
        """The one listened on, also if 0 was asked for."""
        port: int = self._server.socket.getsockname()[1]
        return port

    def start(self) -> None:
        self._thread.start()

    def running(self) -> int:
        """How many sessions there are."""
        with self._lock:
            return len(self._sessions)

    def stop(self) -> None:
        """Refuse new sessions and end those that run, within END_SECONDS."""
        # Newer releases of the library wait here until every session has ended, also one that is stuck in its client.
        threading.Thread(target=self._server.shutdown, name="wsproxy-stop", daemon=True).start()
        self._thread.join()
        with self._lock:
            self._stopped = True
            sessions = dict(self._sessions)
        closing = [threading.Thread(target=_leave, args=(session,), daemon=True) for session in sessions]
        for each in closing:
            each.start()
        deadline = time.monotonic() + END_SECONDS
        for each in closing:
            each.join(max(0.0, deadline - time.monotonic()))
        # A client or a process that does not read would hold its threads, and with them the program, for ever.
        for session, stream in sessions.items():
            stream.close()
            with contextlib.suppress(OSError):  # it has ended
                session.socket.shutdown(socket.SHUT_RDWR)

    def _check(self, session: server.ServerConnection, request: Request) -> Response | None:
        headers = request.headers
        refusal = origin_refusal(
            headers.get("Origin"),
            headers.get("Host"),
            headers.get("X-Forwarded-Proto"),
            self._base_url,
            self._allowed_origins,
        )
        if refusal is None:
            assert isinstance(session, _Session)
            session.grant = granted(request.path, _find)
            if session.grant is None:
                refusal = "the token is unknown, expired, or for something else; ask the API for a new one"
        if refusal is None:
            return None
        LOG.info("Refused a session from %s: %s", _peer(session), refusal)
        return session.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n")

    def _serve(self, session: server.ServerConnection) -> None:
        assert isinstance(session, _Session) and session.grant is not None  # or it would have been refused
        grant = session.grant
        what = grant.container_uuid if grant.exec_id is None else f"{grant.container_uuid} exec {grant.exec_id}"
        try:
            stream = self._open(grant)
        except exceptions.ZunError as exc:
            LOG.info("No session with %s: %s", what, exc)
            session.close(BROKEN, _short(str(exc)))
            return
        LOG.info("Session with %s from %s", what, _peer(session))
        session.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._sessions[session] = stream
        if stopped:  # it came in the last moment
            stream.close()
            _leave(session)
            return
        try:
            relay(session, stream)
        finally:
            with self._lock:
                del self._sessions[session]
            LOG.info("Session with %s ended", what)

    def _open(self, grant: ConsoleToken) -> Stream:
        container = Container.get_by_uuid(admin_context(), grant.container_uuid)
        if grant.exec_id is None:
            return self._driver.attach(container)
        return self._driver.open_exec(container, grant.exec_id)


def _leave(session: server.ServerConnection) -> None:
    session.close(GOING_AWAY, "the websocket proxy stops")


def relay(session: server.ServerConnection, stream: Stream) -> None:
    """Carry bytes both ways until one side ends; then end the other."""

    def outwards() -> None:
        try:
            while data := stream.receive():
                session.send(data)
        except websocket_errors.ConnectionClosed:
            return
        session.close(NORMAL)

    reader = threading.Thread(target=outwards, name="terminal", daemon=True)
    reader.start()
    try:
        for message in session:
            stream.send(message.encode() if isinstance(message, str) else message)
    except (websocket_errors.ConnectionClosed, OSError):
        pass  # the client went without a word, or the process as something was typed: the same to us
    finally:
        stream.close()
        reader.join()
        session.close(NORMAL)


def _find(token: str) -> ConsoleToken | None:
    return ConsoleToken.find(admin_context(), token)


def _subprotocol(session: server.ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return BINARY if BINARY in offered else None


def _peer(session: server.ServerConnection) -> str:
    return str(session.remote_address[0]) if session.remote_address else "a local socket"


def _short(text: str) -> str:
    return text.encode()[:CONTROL_FRAME_LIMIT].decode(errors="ignore")
