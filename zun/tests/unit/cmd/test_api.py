# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.client
import logging
import os
import re
import resource
import socket
import tracemalloc

import pytest

from zun.api import request
from zun.cmd import api
from zun.common import exceptions
from zun.tests.fixtures import own_conf, wait_for
from zun.tests.functional.cloud import configuration
from zun.tests.integration.programs import free_port


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        pytest.param({"host_ip": "127.0.0.1"}, True, id="loopback"),
        pytest.param({"host_ip": "127.1.2.3"}, True, id="another-of-loopback"),
        pytest.param({"host_ip": "::1"}, True, id="loopback-of-ipv6"),
        pytest.param({"host_ip": "::ffff:127.0.0.1"}, True, id="loopback-of-both"),
        pytest.param({"host_ip": "localhost"}, True, id="a-name-of-loopback"),
        pytest.param({"host_ip": "0.0.0.0"}, False, id="everywhere"),
        pytest.param({"host_ip": "::"}, False, id="everywhere-in-ipv6"),
        pytest.param({"host_ip": "192.0.2.7"}, False, id="an-address"),
        pytest.param({"host_ip": "0.0.0.0", "allow_noauth_on_any_address": True}, True, id="as-the-operator-wants"),
        pytest.param({"host_ip": "0.0.0.0", "auth_strategy": "keystone"}, True, id="who-asks-is-checked"),
    ],
)
def test_without_identity_it_listens_on_loopback(settings, starts):
    given = {"auth_strategy": "noauth", **settings}
    conf = own_conf(**{f"api__{option}": value for option, value in given.items()})
    with contextlib.nullcontext() if starts else pytest.raises(SystemExit, match="noauth on"):
        api.check_noauth(conf)


def answer(_environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"here"]


@contextlib.contextmanager
def no_descriptor_left():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_for_which_there_is_no_descriptor_wait(caplog, monkeypatch):
    """They are told of once each time it is tried, and answered when there are descriptors again."""
    monkeypatch.setattr(api, "NO_ROOM_SECONDS", 0.2)
    conf = configuration(api__port=free_port(), api__auth_strategy="noauth")
    server = api.Server(conf, answer)
    server.start()
    address = ("127.0.0.1", conf.api.port)
    caplog.set_level(logging.INFO)

    def said():
        return [each for each in caplog.records if "Too many open files" in each.getMessage()]

    with socket.socket() as kept:
        with no_descriptor_left():
            kept.connect(address)
            wait_for(lambda: len(said()) >= 2)
        first, second = (each.created for each in said()[:2])
        assert second - first >= 0.2
        client = http.client.HTTPConnection(*address)
        client.sock = kept
        client.request("GET", "/")
        assert client.getresponse().read() == b"here"
    server.stop()


@pytest.fixture
def served():
    """Starts a server for an application and gives its address."""
    with contextlib.ExitStack() as stack:

        def start(application):
            conf = configuration(api__port=free_port(), api__auth_strategy="noauth")
            server = api.Server(conf, application)
            server.start()
            stack.callback(server.stop)
            return "127.0.0.1", conf.api.port

        yield start


def exchange(address, *pieces):
    """The status lines of what a server says to that before it closes the connection."""
    with socket.create_connection(address, timeout=30) as client:
        for each in pieces:
            client.sendall(each)
        with contextlib.suppress(OSError):  # the server has closed it already
            client.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: client.recv(65536), b""))
    return re.findall(rb"HTTP/1.1 (\d+)", said)


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


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(LENGTH % 5 + b"hello", [b"200", b"200"], id="length"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", [b"200"], id="chunks"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", [b"200"], id="chunks-with-a-trailer"),
        pytest.param(CHUNKED + b"2\r\nheXX", [b"200"], id="a-broken-chunk"),
        pytest.param(LENGTH % -1 + b"hello", [b"200"], id="a-length-below-nothing"),
    ],
)
def test_what_follows_a_body_that_nobody_reads_is_no_part_of_it(served, sent, statuses):
    """Each request is answered once, or the connection closed before the next."""
    # At once: what comes behind the end of a connection may take the answer with it.
    assert exchange(served(answer), sent + NEXT) == statuses


def test_of_a_body_that_nobody_reads_no_more_than_that_is_waited_for(served, monkeypatch):
    monkeypatch.setattr(api, "DRAINED_BYTES", 1000)
    address = served(answer)
    assert exchange(address, LENGTH % 999 + b"x" * 999 + NEXT) == [b"200", b"200"]
    assert exchange(address, LENGTH % 1001 + b"x" * 1000) == [b"200"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", b"200"),
        (b"5;a=b\r\nhello\r\n1\r\n!\r\n000\r\n\r\n", b"200"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"200"),
        (b"zz\r\nhello\r\n0\r\n\r\n", b"400"),
        (b"-5\r\nhello\r\n0\r\n\r\n", b"400"),
        (b"0x5\r\nhello\r\n0\r\n\r\n", b"400"),
        (b"\r\nhello\r\n0\r\n\r\n", b"400"),
        (b"5\r\nhelloXX0\r\n\r\n", b"400"),
        (b"fffffffffffffff\r\nhello\r\n", b"400"),
        (b"20\r\nhello", b"400"),
        (b"5\r\nhello\r\n", b"400"),
    ],
)
def test_a_body_in_chunks_is_whole_or_none(served, body, status):
    assert exchange(served(echo), CHUNKED + body) == [status]


@pytest.mark.parametrize("form", ["length", "chunk"])
@pytest.mark.parametrize("application", [answer, echo])
def test_a_large_body_is_never_in_memory_as_a_whole(served, form, application):
    """Whoever is not known yet can send one. What ``echo`` reads counts once, and as it is put together."""
    mib = b"x" * (1 << 20)
    head = LENGTH % (40 * len(mib)) if form == "length" else CHUNKED + b"%x\r\n" % (40 * len(mib))
    reads = application is echo
    address = served(application)
    tracemalloc.start()
    try:
        assert exchange(address, head, *[mib] * 40, b"" if form == "length" else b"\r\n0\r\n\r\n") == [b"200"]
        assert tracemalloc.get_traced_memory()[1] < (130 if reads else 5) * len(mib)
    finally:
        tracemalloc.stop()


def test_a_length_below_nothing_is_not_all_that_comes(served):
    address, mib = served(answer), b"x" * (1 << 20)
    tracemalloc.start()
    try:
        with contextlib.suppress(ConnectionError):  # the server does not wait for it
            exchange(address, LENGTH % -1, *[mib] * 40)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(mib)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("head", "status"), [(b"GET /%s HTTP/1.1\r\n\r\n", b"414"), (b"GET / HTTP/1.1\r\nX: %s\r\n\r\n", b"413")]
)
def test_what_is_before_the_body_has_its_limit_too(served, head, status):
    address, long = served(answer), head % (b"x" * (1 << 25))
    tracemalloc.start()
    try:
        # The server does not wait for the rest, and the client may be told so in the middle of it.
        with contextlib.suppress(ConnectionError):
            assert exchange(address, long) == [status]
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()
    assert exchange(address, head % (b"x" * (1 << 19)) + NEXT) == [b"200", b"200"]


def test_links_for_who_names_no_host_lead_to_the_address(served):
    def where(environ, start_response):
        start_response("200 OK", [])
        return [request.base_url(environ).encode()]

    address = served(where)
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.endswith(b"\r\n\r\nhttp://127.0.0.1:%d" % address[1])
