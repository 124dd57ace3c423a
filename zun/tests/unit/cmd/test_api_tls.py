# SPDX-License-Identifier: Apache-2.0
"""https of zun-api's own server."""

import contextlib
import http.client
import re
import select
import socket
import ssl
import time

import pytest

from zun.api import request
from zun.cmd import api, wire
from zun.tests.certificates import Authority, common_name, put
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import configuration
from zun.tests.integration.programs import free_port
from zun.tests.unit.cmd.requests import CHUNKED, LENGTH, NEXT, dripping, echo

AUTHORITY = Authority()
MIB = 1 << 20


@pytest.fixture
def files(tmp_path):
    """Certificate and key of ``first``."""
    cert, key = AUTHORITY.issue("first")
    return put(tmp_path / "cert.pem", cert), put(tmp_path / "key.pem", key)


@pytest.fixture
def served(files):
    """Starts a server for an application and gives its address."""
    with contextlib.ExitStack() as stack:

        def start(application, **options):
            cert, key = map(str, files)
            given = {"api__auth_strategy": "noauth", "ssl__cert_file": cert, "ssl__key_file": key, **options}
            conf = configuration(api__port=free_port(), api__enable_ssl_api=True, **given)
            server = api.Server(conf, application)
            server.start()
            stack.callback(server.stop)
            return "127.0.0.1", conf.api.port

        yield start


def trusting(authority=AUTHORITY):
    return ssl.create_default_context(cadata=authority.pem.decode())


def connected(address, context=None):
    """A TLS connection that does not take an end of TCP for the end of an answer."""
    plain = socket.create_connection(address, timeout=30)
    return (context or trusting()).wrap_socket(plain, server_hostname=address[0], suppress_ragged_eofs=False)


def exchange(address, *pieces):
    """All that the server says to ``pieces`` until it ends the connection."""
    with connected(address) as client:
        for each in pieces:
            client.sendall(each)
        return b"".join(iter(lambda: client.recv(65536), b""))


def statuses(said):
    return re.findall(rb"HTTP/1.1 (\d+)", said)


def peer(client):
    return common_name(client.getpeercert(binary_form=True))


def where(environ, start_response):
    url = request.base_url(environ).encode()
    start_response("200 OK", [("Content-Length", str(len(url)))])
    return [url]


def much(_environ, start_response):
    start_response("200 OK", [])
    for _ in range(8):
        yield bytes(MIB)


CLOSING = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        pytest.param([LENGTH[:-2] % 5 + CLOSING + b"hello"], b"hello", id="small"),
        pytest.param([LENGTH[:-2] % MIB + CLOSING, bytes(MIB)], bytes(MIB), id="full-records"),
        pytest.param([LENGTH[:-2] % (257 << 12) + CLOSING, *[bytes(257)] * 4096], bytes(257 << 12), id="many-records"),
        pytest.param([CHUNKED[:-2] + CLOSING + b"5\r\nhello\r\n", b"0\r\n\r\n"], b"hello", id="chunks"),
        pytest.param([bytes([each]) for each in LENGTH[:-2] % 2 + CLOSING + b"ok"], b"ok", id="byte-by-byte"),
    ],
)
def test_bodies_arrive_whole(served, pieces, body):
    head, _, said = exchange(served(echo), *pieces).partition(b"\r\n\r\n")
    assert statuses(head) == [b"200"]
    assert said == body


def test_a_connection_takes_more_than_one_request(served):
    """The second one is in the same record as the first, and in a record of its own."""
    address, first = served(echo), LENGTH % 5 + b"hello"
    assert statuses(exchange(address, first + NEXT)) == [b"200", b"200"]
    assert statuses(exchange(address, first, first, NEXT)) == [b"200", b"200", b"200"]


def test_the_end_of_an_answer_without_length_is_told(served):
    """A client of HTTP/1.0 reads until the end, which could else be somebody's who cuts the connection."""
    said = exchange(served(much), b"GET / HTTP/1.0\r\n\r\n")
    assert said.endswith(b"\r\n\r\n" + bytes(8 * MIB))


def test_links_begin_with_https(served):
    address = served(where)
    assert exchange(address, NEXT.replace(b"Host: x", b"Host: cloud")).endswith(b"\r\n\r\nhttps://cloud")


def test_a_new_certificate_counts_without_a_restart(served, files):
    address = served(echo)
    with connected(address) as kept:
        for path, data in zip(files, AUTHORITY.issue("second"), strict=True):
            put(path, data)
        with connected(address) as client:
            assert (peer(kept), peer(client)) == ("first", "second")
        kept.sendall(NEXT)  # it goes on with what it began with
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")


def test_plain_text_is_refused_with_a_reason(served):
    address = served(echo)
    client = http.client.HTTPConnection(*address, timeout=30)
    with contextlib.closing(client):
        client.request("POST", "/", body=bytes(MIB))
        answer = client.getresponse()
        assert (answer.status, b"https" in answer.read()) == (400, True)
    with socket.create_connection(address, timeout=30) as other:
        other.sendall(b"SSH-2.0-client\r\n")
        assert other.recv(100) in (b"", b"\x15\x03\x01\x00\x02\x02\x46")  # closed, perhaps after an alert


def test_a_client_of_another_authority_does_not_connect(served):
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        connected(served(echo), trusting(Authority("another")))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused(served):
    context = trusting()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"(?i)version|protocol"):
        connected(served(echo), context)


def hello():
    """The first bytes of a client."""
    sent = ssl.MemoryBIO()
    made = trusting().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        made.do_handshake()
    return sent.read()


SLOW = [
    pytest.param(b"", id="silence"),
    pytest.param(hello()[:100], id="half-a-hello"),
    pytest.param(hello(), id="a-hello-and-no-more"),
]


def status_of(address):
    client = http.client.HTTPSConnection(*address, timeout=20, context=trusting())
    with contextlib.closing(client):
        client.request("GET", "/")
        return client.getresponse().status


@pytest.mark.parametrize("head", SLOW)
def test_slow_handshakes_hold_nobody(served, head):
    address = served(echo)
    with dripping(address, 150, head, b""):
        start = time.monotonic()
        assert status_of(address) == 200
        assert time.monotonic() - start < 2


@pytest.mark.parametrize("head", SLOW)
def test_a_handshake_has_a_deadline(served, monkeypatch, head):
    monkeypatch.setattr(wire, "SECONDS", 1.0)

    def ended(client):
        while select.select([client], [], [], 0)[0]:
            try:
                if not client.recv(65536):
                    return True
            except ConnectionError:
                return True
        return False

    with dripping(served(echo), 3, head, b"") as clients:
        for each in clients:
            wait_for(lambda each=each: ended(each), 20)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"ssl__cert_file": None}, "enable_ssl_api is set, but .* cert_file is not", id="no-certificate"),
        pytest.param({"ssl__key_file": None}, "without key_file, cannot be used", id="no-key"),
        pytest.param({"ssl__cert_file": "/none"}, "cert_file = /none and .* cannot be used: .*No such", id="no-file"),
    ],
)
def test_files_that_cannot_be_used_end_the_start(served, settings, said):
    with pytest.raises(SystemExit, match=said):
        served(echo, **settings)


def test_a_certificate_without_effect_is_told(caplog):
    assert api.tls(configuration(ssl__cert_file="/etc/zun/cert.pem")) is None
    assert "set [api] enable_ssl_api = true" in caplog.text
