# SPDX-License-Identifier: Apache-2.0
"""Requests and clients for tests of the API's own server, byte for byte."""

import contextlib
import socket
import threading

from zun.api import request
from zun.common import exceptions


def echo(environ, start_response):
    """Reads a body as the API does."""
    try:
        status, body = "200 OK", b"".join(request.body_stream(environ))
    except exceptions.ValidationError:
        status, body = "400 Bad Request", b""
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]


NEXT = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LENGTH = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def dripping(address, count, head, drop, source=None):
    """``count`` clients that each send ``head``, then ``drop`` four times a second."""
    stop = threading.Event()

    def drip():
        while not stop.wait(0.25):
            for each in clients:
                with contextlib.suppress(OSError):
                    each.send(drop)

    with contextlib.ExitStack() as stack:
        from_ = source and (source, 0)
        clients = [stack.enter_context(socket.create_connection(address, 30, from_)) for _ in range(count)]
        for each in clients:
            with contextlib.suppress(OSError):
                each.sendall(head)
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield clients
        finally:
            stop.set()
            thread.join()
