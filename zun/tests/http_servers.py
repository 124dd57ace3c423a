# SPDX-License-Identifier: Apache-2.0
"""HTTP servers in a thread of a test. A test has a handler of its own, with what the service answers."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from cheroot import wsgi

S = TypeVar("S", bound=socketserver.BaseServer)


class Server(ThreadingHTTPServer):
    """A server on a free port of the loopback, with a thread for each connection."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers without writing a log. A subclass has ``do_GET`` and the like."""

    def body(self) -> bytes:
        """Return the body of the request, fewer bytes than announced if the caller broke off."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, content: Any = b"", kind: str = "application/json", **headers: str) -> None:
        """Send ``content``: bytes as they are, any other value as JSON.

        Names of ``headers`` have an underscore for each hyphen: ``X_Subject_Token``.
        """
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        return "a client"  # the address of a UNIX socket is empty

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Let ``server`` answer in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_application(application: Any) -> Iterator[str]:
    """Serve the API as WSGI application on a free port until the block ends. Gives its URL."""
    server = wsgi.Server(("127.0.0.1", 0), application, numthreads=2)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield f"http://127.0.0.1:{server.bind_addr[1]}/v1"
    server.stop()
    thread.join()
