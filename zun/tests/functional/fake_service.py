# SPDX-License-Identifier: Apache-2.0
"""A service of the cloud in memory, behind real HTTP, that can fail at any step."""

import json
import socket
import threading
import urllib.parse
from contextlib import ExitStack

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import noauth
from keystoneauth1 import session as ksa_session

from zun.tests.http_servers import Handler, Server, serving

PATIENCE = 1.0
"""The timeout of clients in seconds: short, because tests wait for it, and long enough for a busy machine."""


class FakeService:
    """``failures`` maps a method and the start of a path to what is answered there: a status, a status with a body, or
    ``slow``: the request is served when the caller has given up. ``asked`` has the method and path of each request,
    and ``under_way`` counts those that are not answered yet.

    A subclass has ``found``, which returns status and body of an answer.
    """

    def __init__(self):
        self.failures = {}
        self.asked = []
        self.under_way = 0
        self._of_thread = threading.local()
        outer = self

        class Requests(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an answer would take 40 ms

            def do_GET(self):
                outer.answer(self)

            do_POST = do_PUT = do_DELETE = do_GET

        self._running = ExitStack()
        self.url = self._running.enter_context(serving(Server(Requests))).url

    def adapter(self):
        """Return keystoneauth's adapter for a client of this service, without keystone."""
        session = ksa_session.Session(noauth.NoAuth(endpoint=self.url), timeout=PATIENCE)
        return ks_adapter.Adapter(session, endpoint_override=self.url)

    @property
    def headers(self):
        """The headers of the request that this thread answers."""
        return getattr(self._of_thread, "headers", {})

    def stop(self):
        self._running.close()

    def path(self, given):
        """Return the path of a request without the part that every path has."""
        return given.removeprefix("/v2.0/")

    def found(self, method, path, query, body):
        raise NotImplementedError

    def answer(self, request):
        path, _, query = self.path(request.path).partition("?")
        body = json.loads(request.body() or "{}")
        self.asked.append((request.command, path))
        self._of_thread.headers = dict(request.headers)
        failure = next((each for (method, start), each in list(self.failures.items())
                        if request.command == method and path.startswith(start)), None)  # fmt: skip
        self.under_way += 1
        try:
            if failure == "slow":
                request.connection.recv(1, socket.MSG_PEEK)  # until the caller hangs up
            if failure in (None, "slow"):
                status, told = self.found(request.command, path, dict(urllib.parse.parse_qsl(query)), body)
            else:
                status, told = failure if isinstance(failure, tuple) else (failure, {})
        finally:
            self.under_way -= 1
        if isinstance(told, str):
            request.answer(status, told.encode(), "text/html")
        else:
            request.answer(status, told)
