# SPDX-License-Identifier: Apache-2.0
"""zun-api: the REST API on its own HTTP server. For uWSGI or gunicorn use ``zun.wsgi.api:application``."""

import errno
import logging
import math
import socket
import sys
import threading
import time
from typing import Any

import oslo_messaging
from cheroot import server, wsgi
from oslo_config import cfg

from zun.api import app, auth, limits, request
from zun.cmd import framing, program, wire
from zun.common import doors, metrics
from zun.common.tls import ServerContext
from zun.messaging import releases, rpc
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI

LOG = logging.getLogger(__name__)

BROKER_RETRIES = 5
"""Half a minute: oslo.messaging waits two seconds longer each time. A restart of the broker goes unnoticed. Who waits
for longer keeps a thread from those who only read."""


NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
NO_ROOM_SECONDS = 1.0  # until the next attempt to accept a connection


def check_noauth(conf: cfg.ConfigOpts) -> None:
    """Stop the program if noauth is configured on an address that is not loopback."""
    api = conf.api
    if api.auth_strategy != "noauth" or api.allow_noauth_on_any_address or _is_loopback(api.host_ip):
        return
    raise SystemExit(
        f"[api] auth_strategy = noauth on {api.host_ip}: everybody who can reach this address would be an "
        "administrator. Use host_ip = 127.0.0.1 or auth_strategy = keystone; if it really is what you want, set "
        "[api] allow_noauth_on_any_address = true."
    )


def _is_loopback(host: str) -> bool:
    """Return whether every address of ``host`` is a loopback address."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(map(auth.is_loopback, addresses))


def tls(conf: cfg.ConfigOpts) -> ServerContext | None:
    """Return the TLS of the API's server, or None for http. SystemExit with the reason if it cannot be used."""
    cert, key = conf.ssl.cert_file, conf.ssl.key_file
    if not conf.api.enable_ssl_api:
        if cert:
            LOG.warning("[ssl] cert_file has no effect: set [api] enable_ssl_api = true to serve https")
        return None
    if not cert:
        raise SystemExit("[api] enable_ssl_api is set, but [ssl] cert_file is not. Name the certificate, a PEM file.")
    try:
        return ServerContext.of(cert, key)
    except OSError as exc:
        files = f"[ssl] cert_file = {cert}" + (f" and key_file = {key}" if key else ", without key_file,")
        raise SystemExit(f"{files} cannot be used: {exc}. The user of zun-api must be able to read them.") from exc


def url(conf: cfg.ConfigOpts) -> str:
    """Return where the API's server answers, for the log."""
    return f"{'https' if conf.api.enable_ssl_api else 'http'}://{conf.api.host_ip}:{conf.api.port}/v1"


def build(conf: cfg.ConfigOpts, transport: oslo_messaging.Transport) -> Any:
    """Return the WSGI application."""
    levels = conf.upgrade_levels
    compute, scheduler = (releases.pinned(name, levels[name]) for name in ("compute", "scheduler"))
    return app.build(
        conf,
        scheduler_api=SchedulerAPI(transport, retries=BROKER_RETRIES, pin=scheduler),
        compute_api=ComputeAPI(transport, conf.api.rpc_timeout, retries=BROKER_RETRIES, pin=compute),
    )


MOST_CONNECTIONS = 500  # below the 1024 descriptors that a process usually has
REFUSALS_SECONDS = 60.0  # between two lines of the log about refused connections
AHEAD_BYTES = 1 << 26
"""Most bytes of requests that have not arrived completely. Connections with less than a piece do not count."""


class _Chunks(server.ChunkedRFile):  # type: ignore[misc]
    """A reader of a body in chunks that holds at most one piece in memory. Raises ValueError for a malformed chunk, and
    for chunks that are too small.

    cheroot's own reader holds a whole chunk, whose size the client chooses.
    """

    _left = 0  # unread bytes of the current chunk

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._count = framing.ChunkCount()

    def _fetch(self) -> None:
        if self.closed:
            return
        if not self._left:
            self._left = framing.chunk_size(self.rfile.readline(256))
            self._count.add(self._left)
            self.closed = not self._left
            if self.closed:
                return
        piece = self.rfile.read(min(self._left, wire.PIECE))
        self._left -= len(piece)
        self.buffer += piece
        if not piece or (not self._left and self.rfile.read(2) != b"\r\n"):
            raise ValueError("a chunk ends before or behind its end")


class _Gateway(wsgi.Gateway_10):  # type: ignore[misc]
    """A gateway that leaves an unread body to the connection. cheroot would read the whole body into memory."""

    def get_environ(self) -> Any:
        if self.req.chunked_read:
            self.req.rfile = _Chunks(self.req.conn.rfile, 0)
        environ = super().get_environ()
        request.note_header_names(environ, (name.decode("latin-1") for name in self.req.inheaders))
        return environ

    def start_response(self, *arguments: Any) -> Any:
        # An unread rest of the body would pass for the next request, so close the connection after the answer.
        if self.req.chunked_read or self.req.rfile.remaining > len(self.req.conn.wire.buffer):
            self.req.close_connection = True
        else:
            self.req.rfile.read(self.req.rfile.remaining)
        return super().start_response(*arguments)


class _Server(wsgi.Server):  # type: ignore[misc]
    """A server that gives a connection to a thread when its request has arrived."""

    ConnectionClass = wire.Connection
    keep_alive_conn_limit = MOST_CONNECTIONS  # ``doors`` enforces the limits

    doors: doors.Doors[wire.Connection]
    _told = -math.inf

    def process_conn(self, conn: wire.Connection) -> None:
        """Handle a connection that is new or readable. cheroot calls this method."""
        if not conn.counted and not self._entered(conn):
            return
        try:
            step = conn.step()
        except OSError:
            step = wire.Step.GONE
        match step:
            case wire.Step.READY:
                conn.begin()
                self.doors.work(conn)
                super().process_conn(conn)
            case wire.Step.WAIT:
                super().put_conn(conn)
                self._free_memory(conn)
            case _:
                conn.close()

    def put_conn(self, conn: wire.Connection) -> None:
        """Keep a connection whose request was answered. cheroot calls this method."""
        conn.rest()
        self.doors.wait(conn)
        self.process_conn(conn)

    def linger(self, conn: wire.Connection) -> None:
        """Keep a closing connection until the client has sent the rest of its request."""
        self.doors.wait(conn)
        super().put_conn(conn)

    def leave(self, conn: wire.Connection) -> None:
        self.doors.leave(conn)

    def _entered(self, conn: wire.Connection) -> bool:
        conn.counted = True
        client = doors.client_of(conn.remote_addr or "")
        entry = self.doors.enter(conn, client)
        if entry.close is not None:
            entry.close.evict()
        elif not entry.admitted:
            if time.monotonic() - self._told > REFUSALS_SECONDS:
                self._told = time.monotonic()
                LOG.warning("Refusing connections, as from %s: too many. See [api] connections_per_address", client)
            conn.refuse()
        return entry.admitted

    def _free_memory(self, conn: wire.Connection) -> None:
        """Close the large requests that have waited longest until the others fit into AHEAD_BYTES."""
        if len(conn.wire.buffer) < wire.PIECE:
            return
        large = [each for each in self.doors.waiting() if len(each.wire.buffer) >= wire.PIECE]
        held = sum(len(each.wire.buffer) for each in large)
        for each in large:
            if held <= AHEAD_BYTES:
                return
            held -= len(each.wire.buffer)
            self.doors.leave(each)
            each.evict()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Log an error that is being handled. cheroot calls this method; its own version writes to standard error."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            # cheroot tries again at once. Without a pause that is a megabyte of log a second.
            LOG.error("No connection can be accepted, trying again in %g s: %s", NO_ROOM_SECONDS, error)
            time.sleep(NO_ROOM_SECONDS)
        else:
            LOG.log(level, "%s", msg, exc_info=traceback)


class Server:
    """The application on a port, in threads of this process."""

    def __init__(self, conf: cfg.ConfigOpts, application: Any) -> None:
        check_noauth(conf)
        if not 0 <= conf.api.waiting_requests < conf.api.workers:
            LOG.warning(
                "[api] waiting_requests = %d is not below workers = %d: requests of one project that wait for hosts "
                "can hold all threads",
                conf.api.waiting_requests,
                conf.api.workers,
            )
        address = (conf.api.host_ip, conf.api.port)
        self._server = _Server(
            address,
            application,
            numthreads=conf.api.workers,
            server_name=f"[{address[0]}]" if ":" in address[0] else address[0],
            request_queue_size=128,
        )
        self._server.gateway = _Gateway
        context = tls(conf)
        if context is not None:
            self._server.ssl_adapter = wire.TLS(context)
        self._server.doors = doors.Doors(conf.api.connections_per_address, MOST_CONNECTIONS)
        self._server.timeout = wire.SECONDS
        self._server.max_request_header_size = limits.HEAD_BYTES
        self._server.shutdown_timeout = 5
        self._thread = threading.Thread(target=self._server.serve, name="api", daemon=True)

    def start(self) -> None:
        """Listen on the port and serve requests. SystemExit with the reason if the port is taken."""
        try:
            self._server.prepare()
        except OSError as exc:
            raise SystemExit(f"{exc}. See [api] host_ip and port.") from exc
        threads = self._server.requests
        metrics.API_WAITING.labels(self._server.bind_addr[1]).set_function(lambda: threads.qsize)
        self._thread.start()

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-api")
    program.connect_database(conf)
    metrics.serve(conf, conf.metrics.api_port)
    transport = rpc.get_transport(conf)
    served = Server(conf, build(conf, transport))
    served.start()
    program.wait_for_signal("zun-api is ready on %s", url(conf))
    served.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
