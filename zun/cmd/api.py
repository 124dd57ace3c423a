# SPDX-License-Identifier: Apache-2.0
"""zun-api: the REST API on its own server. Behind uWSGI or gunicorn use ``zun.wsgi.api:application``."""

import errno
import gc
import logging
import socket
import sys
import threading
import time
from typing import Any

import oslo_messaging
from cheroot import wsgi
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
        self._server = _Server(address, application, numthreads=conf.api.workers, request_queue_size=128)
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
    server = Server(conf, build(conf, transport))
    server.start()
    LOG.info("zun-api is ready on http://%s:%s/v1", conf.api.host_ip, conf.api.port)
    program.wait_for_signal()
    server.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
