# SPDX-License-Identifier: Apache-2.0
"""zun-api: the REST API on its own server. Behind uWSGI or gunicorn use ``zun.wsgi.api:application``."""

import errno
import gc
import logging
import re
import socket
import sys
import threading
import time
from typing import Any

import oslo_messaging
from cheroot import server, wsgi
from oslo_config import cfg

from zun.api import app, auth
from zun.cmd import program
from zun.common import rpc
from zun.compute.rpcapi import ComputeAPI
from zun.scheduler.rpcapi import SchedulerAPI

LOG = logging.getLogger(__name__)

BROKER_RETRIES = 5
"""Half a minute: oslo.messaging waits two seconds longer each time. A restart of the broker goes unnoticed. Who waits
for longer keeps a thread from those who only read."""


NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
NO_ROOM_SECONDS = 1.0  # until the next attempt to accept a connection


def check_noauth(conf: cfg.ConfigOpts) -> None:
    """Stop the program rather than let strangers in: noauth is for loopback."""
    api = conf.api
    if api.auth_strategy != "noauth" or api.allow_noauth_on_any_address or _is_loopback(api.host_ip):
        return
    raise SystemExit(
        f"[api] auth_strategy = noauth on {api.host_ip}: everybody who can reach this address would be an "
        "administrator. Use host_ip = 127.0.0.1 or auth_strategy = keystone; if it really is what you want, set "
        "[api] allow_noauth_on_any_address = true."
    )


def _is_loopback(host: str) -> bool:
    """Whether all addresses of a name are."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(map(auth.is_loopback, addresses))


def build(conf: cfg.ConfigOpts, transport: oslo_messaging.Transport) -> Any:
    """The WSGI application."""
    made = app.build(
        conf,
        scheduler_api=SchedulerAPI(transport, retries=BROKER_RETRIES),
        compute_api=ComputeAPI(transport, conf.api.rpc_timeout, retries=BROKER_RETRIES),
    )
    gc.freeze()  # what is there now stays, so the collector need not walk through it in the middle of a large page
    return made


MAX_HEADER_BYTES = 1 << 20
"""Of the first line and all headers: a command for execute may be in the URL. Without a limit the library takes all."""
DRAINED_BYTES = 1 << 26
"""At most of a body that nobody wanted, as that of a refused request: who sends it reads the answer when it is sent."""
_PIECE = 1 << 16
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(;.*)?\r\n", re.DOTALL)


class _Chunks(server.ChunkedRFile):  # type: ignore[misc]
    """A body in chunks, of which no more than a piece is in memory at once. The library's own takes a whole chunk in,
    as large as the client likes. Raises ValueError for what is no chunk.
    """

    _left = 0  # bytes of this chunk that were not read yet

    def _fetch(self) -> None:
        if self.closed:
            return
        if not self._left:
            size = _CHUNK.fullmatch(self.rfile.readline(256))
            if size is None:
                raise ValueError("what should be the size of a chunk is none")
            self._left = int(size[1], 16)
            self.closed = not self._left
            if self.closed:
                return
        piece = self.rfile.read(min(self._left, _PIECE))
        self._left -= len(piece)
        self.buffer += piece
        if not piece or (not self._left and self.rfile.read(2) != b"\r\n"):
            raise ValueError("a chunk ends before or behind its end")


class _Gateway(wsgi.Gateway_10):  # type: ignore[misc]
    """Throws away, piece by piece, what a client sends and nobody reads: the library would read it all at once."""

    def get_environ(self) -> Any:
        if self.req.chunked_read:
            self.req.rfile = _Chunks(self.req.conn.rfile, 0)
        elif self.req.rfile.remaining < 0:  # the library takes "Content-Length: -1" for all that ever comes
            self.req.rfile.remaining = 0
            self.req.close_connection = True
        return super().get_environ()

    def start_response(self, *arguments: Any) -> Any:
        # Behind a body in chunks may be more, which the library would take for the next request.
        if not self._drained() or self.req.chunked_read:
            self.req.close_connection = True
        return super().start_response(*arguments)

    def _drained(self) -> bool:
        left = DRAINED_BYTES
        try:
            while left > 0 and (piece := self.req.rfile.read(min(left, _PIECE))):
                left -= len(piece)
        except (OSError, ValueError):  # it ends too early, or is none
            return False
        return left > 0


class _Server(wsgi.Server):  # type: ignore[misc]
    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Called while what went wrong is being handled. The library's own writes to standard error."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            # It is tried again at once: without a pause that is a megabyte of log a second.
            LOG.error("No connection can be accepted, trying again in %g s: %s", NO_ROOM_SECONDS, error)
            time.sleep(NO_ROOM_SECONDS)
        else:
            LOG.log(level, "%s", msg, exc_info=traceback)


class Server:
    """The application on a port, in threads of this process."""

    def __init__(self, conf: cfg.ConfigOpts, application: Any) -> None:
        check_noauth(conf)
        address = (conf.api.host_ip, conf.api.port)
        self._server = _Server(
            address,
            application,
            numthreads=conf.api.workers,
            server_name=f"[{address[0]}]" if ":" in address[0] else address[0],
            request_queue_size=128,
        )
        self._server.gateway = _Gateway
        self._server.max_request_header_size = MAX_HEADER_BYTES
        self._server.shutdown_timeout = 5
        self._thread = threading.Thread(target=self._server.serve, name="api", daemon=True)

    def start(self) -> None:
        """Listen. SystemExit with the reason when the port is taken."""
        try:
            self._server.prepare()
        except OSError as exc:
            raise SystemExit(f"{exc}. See [api] host_ip and port.") from exc
        self._thread.start()

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-api")
    program.connect_database(conf)
    transport = rpc.get_transport(conf)
    served = Server(conf, build(conf, transport))
    served.start()
    LOG.info("zun-api is ready on http://%s:%s/v1", conf.api.host_ip, conf.api.port)
    program.wait_for_signal()
    served.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
