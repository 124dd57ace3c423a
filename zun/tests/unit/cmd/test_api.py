# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import contextlib
import http.client
import logging
import os
import re
import resource
import select
import socket
import threading
import time
import tracemalloc

import pytest
from prometheus_client import REGISTRY

from zun.api import access_log, limits, request
from zun.cmd import api, wire
from zun.messaging import rpc
from zun.tests.fixtures import own_conf, wait_for
from zun.tests.functional.cloud import configuration
from zun.tests.integration.programs import free_port
from zun.tests.unit.cmd.requests import CHUNKED, LENGTH, NEXT, dripping, echo


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


TWO = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(LENGTH % 5 + b"hello", [b"200", b"200"], id="length"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", [b"200"], id="chunks"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", [b"200"], id="chunks-with-a-trailer"),
        pytest.param(CHUNKED + b"2\r\nheXX", [b"200"], id="a-broken-chunk"),
        pytest.param(LENGTH % -1 + b"hello", [b"400"], id="a-length-below-nothing"),
        pytest.param(TWO % (0, 46) + b"x" * 46, [b"400"], id="two-lengths"),
        pytest.param(TWO % (46, 0) + b"x" * 46, [b"400"], id="two-lengths-the-other-way"),
        pytest.param(TWO % (5, 5) + b"hello", [b"400"], id="one-length-twice"),
        pytest.param(CHUNKED[:-2] + b"Content-Length: 5\r\n\r\nhello", [b"400"], id="a-length-and-chunks"),
        pytest.param(CHUNKED.replace(b"chunked", b"gzip") + b"hello", [b"501"], id="a-coding-that-is-unknown"),
    ],
)
def test_what_follows_a_body_that_nobody_reads_is_no_part_of_it(served, sent, statuses):
    """Each request is answered once, or the connection closed before the next."""
    # At once: what comes behind the end of a connection may take the answer with it.
    assert exchange(served(answer), sent + NEXT) == statuses


def test_a_small_unread_body_keeps_the_connection(served):
    address, most = served(answer), limits.BODY_BYTES
    assert exchange(address, LENGTH % most + b"x" * most + NEXT) == [b"200", b"200"]
    assert exchange(address, LENGTH % (most + 1) + b"x" * (most + 1) + NEXT) == [b"200"]
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


@pytest.mark.parametrize("pieces", [[b"here"], [b"he", b"", b"re"]])
def test_the_server_ends_the_line_of_the_access_log(served, caplog, pieces):
    caplog.set_level(logging.INFO, logger="zun.access")

    def answer_in_pieces(_environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        return iter(pieces)

    assert exchange(served(access_log.AccessLog(answer_in_pieces)), NEXT) == [b"200"]
    (line,) = wait_for(lambda: [each.getMessage() for each in caplog.records if each.name == "zun.access"])
    assert line.startswith("client=127.0.0.1 user=- project=- method=GET path=/ status=200 bytes=4 seconds=")


@pytest.fixture
def zun(database):
    """The real application on the real server; gives its address."""
    with contextlib.ExitStack() as stack:
        conf = configuration(api__port=free_port(), api__auth_strategy="noauth")
        transport = stack.enter_context(contextlib.closing(_Transport(conf)))
        server = api.Server(conf, api.build(conf, transport.transport))
        server.start()
        stack.callback(server.stop)
        yield "127.0.0.1", conf.api.port


class _Transport:
    def __init__(self, conf):
        self.transport = rpc.get_transport(conf)

    def close(self):
        self.transport.cleanup()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param([], 403, id="none"),
        pytest.param(["X_Roles: admin"], 400, id="role"),
        pytest.param(["X-Roles: reader", "X_Roles: admin"], 400, id="both"),
        pytest.param(["x-Roles_: admin"], 400, id="anywhere"),
        pytest.param(["X_Forwarded_For: 127.0.0.1"], 400, id="another-header"),
        pytest.param(["X-Roles: admin"], 200, id="dashes"),
    ],
)
def test_a_header_with_an_underscore_is_refused(zun, headers, status):
    lines = ["GET /v1/services HTTP/1.1", "Host: localhost", "X-User-Id: alice", "X-Project-Id: demo", *headers]
    with socket.create_connection(zun, timeout=30) as client:
        client.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert (b"'_' in its name" in said) == (status == 400)


def test_a_request_that_ends_with_a_turn_is_answered(served, monkeypatch):
    """A connection's turn ends after some pieces; nothing more comes that would begin another one."""
    monkeypatch.setattr(wire, "_PIECES_AT_ONCE", 1)
    assert exchange(served(echo), LENGTH % 5 + b"hello", NEXT) == [b"200", b"200"]
    assert get(served(answer))[0] == 200


def get(address, source=None):
    """The status of one honest request, and the seconds that it took."""
    start = time.monotonic()
    client = http.client.HTTPConnection(*address, timeout=20, source_address=source and (source, 0))
    with contextlib.closing(client):
        client.request("GET", "/")
        return client.getresponse().status, time.monotonic() - start


DRIPS = [
    pytest.param(b"", b"", id="silence"),
    pytest.param(b"", b"\r\n", id="blank-lines"),
    pytest.param(b"GET / HTTP/1.1\r\n", b"X", id="header"),
    pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, b"X", id="long-header"),
    pytest.param(LENGTH % 1000, b"X", id="small-body"),
    pytest.param(LENGTH % (1 << 30), b"X", id="large-body-nobody-reads"),
    pytest.param(CHUNKED, b"1\r\nX\r\n", id="chunks-nobody-reads"),
    pytest.param(LENGTH[:-2] % 1000 + b"Expect: 100-continue\r\n\r\n", b"X", id="expecting"),
]


@pytest.mark.parametrize("count", [16, 150])
@pytest.mark.parametrize(("head", "drop"), DRIPS)
def test_dripping_clients_take_no_threads(served, head, drop, count):
    """From the same address, also with more connections than an address may have."""
    address = served(answer)
    with dripping(address, count, head, drop):
        # A head of a large body is a request, and is answered. While a hundred of these are at work one more is 503.
        wait_for(lambda: get(address)[0] == 200, wire.SECONDS / 2)
        for _ in range(2):
            status, seconds = get(address)
            assert status == 200 and seconds < 2


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        pytest.param(CHUNKED, b"1\r\n \r\n", id="chunks-of-a-blank"),
        pytest.param(CHUNKED + b"ffff\r\n", b" ", id="one-large-chunk"),
        pytest.param(CHUNKED + b"8000\r\n" + b" " * 0x8000 + b"\r\n", b"1;a=b\r\n \r\n", id="after-a-start"),
        pytest.param(CHUNKED, b"1", id="a-size-without-end"),
        pytest.param(LENGTH % (1 << 20), b" ", id="length"),
    ],
)
def test_dripping_bodies_take_no_threads(served, head, drop):
    """Although the application reads them."""
    address = served(echo)
    with dripping(address, 24, head, drop):
        for _ in range(3):
            assert get(address)[0] == 200


def test_chunks_that_are_too_small_are_refused(served):
    tiny = b"1\r\n \r\n"
    assert exchange(served(echo), CHUNKED + tiny * (limits.CHUNKS - 10) + b"0\r\n\r\n") == [b"200"]
    assert exchange(served(echo), CHUNKED + tiny * (limits.CHUNKS + 100) + b"0\r\n\r\n") == [b"400"]


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(wire, "SECONDS", 1.0)


def closed(client):
    """Whether the server has closed a connection; what it answered before does not count."""
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return not client.recv(65536)
    except ConnectionError:
        return True


@pytest.mark.parametrize(("head", "drop"), DRIPS)
@pytest.mark.parametrize("application", [answer, echo])
def test_a_request_has_a_deadline_as_a_whole(served, hasty, application, head, drop):
    """Bytes that come one by one do not move it."""
    address = served(application)
    with dripping(address, 3, head, drop) as clients:
        for each in clients:
            wait_for(lambda each=each: closed(each), 20)


def test_an_answer_has_a_deadline_as_a_whole(served, hasty):
    """A client that reads a little now and then would hold a thread."""

    def much(environ, start_response):
        start_response("200 OK", [])
        try:
            for _ in range(1000):
                yield bytes(1 << 20)
        finally:
            ended.set()

    ended = threading.Event()
    address = served(much)
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + 20
        while not ended.wait(0.25):
            client.recv(64)
            assert time.monotonic() < deadline


def test_an_upload_ends_at_its_latest_time(served, monkeypatch):
    """Although the client keeps the rate."""
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 1.0)
    address, pause = served(echo), threading.Event()
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(LENGTH % (1 << 30))
        with pytest.raises(OSError):
            for _ in range(200):
                client.sendall(bytes(1 << 16))
                pause.wait(0.1)
                if closed(client):
                    raise ConnectionError


@pytest.mark.parametrize("head", [LENGTH % (1 << 20), LENGTH % (1 << 22), CHUNKED + b"%x\r\n" % (1 << 22)])
def test_a_slow_upload_within_the_rate_is_whole(served, hasty, monkeypatch, head):
    """It takes longer than the time that a silent client has."""
    monkeypatch.setattr(wire, "RATE", 1 << 17)
    address, size = served(echo), 1 << (20 if head == LENGTH % (1 << 20) else 22)
    pause = threading.Event()
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(head)
        start = time.monotonic()
        for _ in range(0, size, size // 16):
            client.sendall(bytes(size // 16))
            pause.wait(0.15)
        client.sendall(b"" if b"Length" in head else b"\r\n0\r\n\r\n")
        assert time.monotonic() - start > wire.SECONDS
        assert client.recv(12) == b"HTTP/1.1 200"


def test_clients_that_read_after_they_sent_get_the_answer(served):
    """Closing at once would reset the connection in the middle of what they send."""
    address = served(answer)
    for _ in range(5):
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(LENGTH % (1 << 25))
            for _ in range(32):
                client.sendall(bytes(1 << 20))
            assert client.recv(12) == b"HTTP/1.1 200"


def test_a_client_that_expects_to_be_asked_is_asked(served):
    with socket.create_connection(served(echo), timeout=30) as client:
        client.sendall(LENGTH[:-2] % 5 + b"Expect: 100-continue\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 100"
        client.sendall(b"hello")
        said = b""
        while b"hello" not in said:
            said += client.recv(65536)
        assert b"HTTP/1.1 200" in said


@pytest.mark.parametrize(("limit", "statuses"), [(3, {200, 503}), (0, {200})])
def test_connections_of_one_address_are_limited(limit, statuses):
    """With 0 they are not. What waits for its request gives way; what has one does not."""
    release, started = threading.Event(), threading.Semaphore(0)

    def held(environ, start_response):
        started.release()
        assert release.wait(30)
        return answer(environ, start_response)

    conf = configuration(api__port=free_port(), api__auth_strategy="noauth", api__connections_per_address=limit)
    server, address = api.Server(conf, held), ("127.0.0.1", conf.api.port)
    server.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            working = [pool.submit(get, address) for _ in range(3)]
            for _ in working:
                assert started.acquire(timeout=30)
            more = [pool.submit(get, address) for _ in range(2)]
            elsewhere = pool.submit(get, address, "127.0.0.2")
            for _ in range(1 if limit else 3):
                assert started.acquire(timeout=30)
            release.set()
            assert {each.result()[0] for each in (*working, *more)} == statuses
            assert elsewhere.result()[0] == 200
    finally:
        release.set()
        server.stop()


def test_requests_that_wait_for_a_thread_are_counted():
    release = threading.Event()

    def held(environ, start_response):
        assert release.wait(30)
        return answer(environ, start_response)

    def waiting():
        return REGISTRY.get_sample_value("zun_api_requests_waiting", {"port": str(conf.api.port)})

    conf = configuration(api__port=free_port(), api__auth_strategy="noauth", api__workers=2)
    server, address = api.Server(conf, held), ("127.0.0.1", conf.api.port)
    server.start()
    try:
        assert waiting() == 0
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            asked = [pool.submit(get, address) for _ in range(5)]
            wait_for(lambda: waiting() == 3)
            release.set()
            assert [each.result()[0] for each in asked] == [200] * 5
        assert waiting() == 0
    finally:
        release.set()
        server.stop()


def test_requests_that_arrive_have_a_memory_limit(served, monkeypatch):
    monkeypatch.setattr(api, "AHEAD_BYTES", 1 << 20)
    address = served(answer)
    with dripping(address, 20, LENGTH % (1 << 20) + bytes(1 << 19), b"") as clients:
        wait_for(lambda: sum(map(closed, clients)) >= 17, 5)
        assert get(address)[0] == 200
