# SPDX-License-Identifier: Apache-2.0
"""Terminals through the proxy, on runtimes in memory whose processes give back what is typed."""

import concurrent.futures
import contextlib
import select
import socket
import threading
import urllib.parse

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from zun.cmd import wsproxy
from zun.common import exceptions
from zun.console import proxy as console_proxy
from zun.container.docker.terminals import DockerStream
from zun.db import console_tokens
from zun.objects import ConsoleToken
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine


@pytest.fixture
def cloud(database):
    made = Cloud({"host-1": machine()}, websocket_proxy__wsproxy_port=0)
    yield made
    made.stop()


@pytest.fixture
def proxy(cloud):
    made = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    made.start()
    yield made
    made.stop()


@pytest.fixture
def container(cloud, context):
    return cloud.run(context, interactive=True, tty=True)


def session(proxy, url, **options):
    """Connect as the URL says, to the port there is."""
    query = urllib.parse.urlsplit(url).query
    return connect(f"ws://127.0.0.1:{proxy.port}/?{query}", open_timeout=60, **options)


def test_attach(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    with session(proxy, url, subprotocols=["binary", "base64"]) as terminal:
        assert terminal.subprotocol == "binary"
        every_byte = bytes(each for each in range(256) if each != 4)
        terminal.send(every_byte)
        assert terminal.recv(timeout=60) == every_byte
        terminal.send("täxt")  # a text frame
        assert terminal.recv(timeout=60) == "täxt".encode()


def test_a_token_is_looked_up_once(cloud, proxy, context, container, monkeypatch):
    asked, find = [], console_proxy._find
    monkeypatch.setattr(console_proxy, "_find", lambda token: asked.append(token) or find(token))
    url = cloud.compute_api.attach(context, container)
    with session(proxy, url) as terminal:
        terminal.send(b"hello")
        assert terminal.recv(timeout=60) == b"hello"
    assert len(asked) == 1 and asked[0] in url


def test_the_end_of_the_process_ends_the_session(cloud, proxy, context, container):
    with session(proxy, cloud.compute_api.attach(context, container)) as terminal:
        terminal.send(b"last\x04")
        assert terminal.recv(timeout=60) == b"last"
        with pytest.raises(ConnectionClosed) as caught:
            terminal.recv(timeout=60)
        assert caught.value.rcvd.code == 1000


def test_a_command(cloud, proxy, context, container):
    exec_id, url = cloud.compute_api.prepare_exec(context, container, ["sh"], interactive=True)
    cloud.compute_api.resize_terminal(context, container, width=80, height=24, exec_id=exec_id)
    assert cloud.drivers["host-1"].commands[exec_id].size == (80, 24)
    with session(proxy, url) as terminal:
        terminal.send(b"hello")
        assert terminal.recv(timeout=60) == b"hello"
    with session(proxy, url) as terminal, pytest.raises(ConnectionClosed) as caught:  # it runs once
        terminal.recv(timeout=60)
    assert (caught.value.rcvd.code, "was started" in caught.value.rcvd.reason) == (1011, True)


def test_sizes(cloud, context, container):
    cloud.compute_api.resize_terminal(context, container, width=132, height=43)
    assert cloud.drivers["host-1"].terminal_sizes == {container.uuid: (132, 43)}
    with pytest.raises(exceptions.InvalidValue, match="has no command"):
        cloud.compute_api.resize_terminal(context, container, width=1, height=1, exec_id="ab" * 32)


def refused(proxy, url, **options):
    with pytest.raises(InvalidStatus) as caught, session(proxy, url, **options):
        pass
    return caught.value.response.status_code


def test_a_token_is_for_one_container_and_one_purpose(cloud, proxy, context, container):
    other = cloud.run(context, interactive=True)
    url = cloud.compute_api.attach(context, container)
    assert refused(proxy, url.replace(container.uuid, other.uuid)) == 403
    assert refused(proxy, f"{url}&exec_id={'ab' * 32}") == 403
    assert refused(proxy, "ws://x/?token=guess&uuid=" + container.uuid) == 403
    assert refused(proxy, url, origin="http://evil.example") == 403
    with session(proxy, url):
        pass


def test_a_token_expires(cloud, proxy, context, container):
    token = ConsoleToken.issue(context, container.uuid, None, -1)
    assert refused(proxy, f"ws://x/?token={token}&uuid={container.uuid}") == 403
    cloud.compute_api.attach(context, container)  # a new one clears the old ones away
    with console_tokens.session.reader() as connection:
        assert len(console_tokens.session.rows(connection, console_tokens.table.select())) == 1


def test_a_token_dies_with_its_container(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    assert refused(proxy, url) == 403


def test_the_database_does_not_hold_what_opens_a_terminal(cloud, context, container):
    url = cloud.compute_api.attach(context, container)
    token = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["token"]
    with console_tokens.session.reader() as connection:
        (row,) = console_tokens.session.rows(connection, console_tokens.table.select())
    assert token not in str(dict(row))


def test_a_hundred_sessions_at_once(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    all_there = threading.Barrier(100)

    def talk(number):
        with session(proxy, url) as terminal:
            all_there.wait(60)
            said = f"session {number}".encode() * 1000
            terminal.send(said)
            heard = b""
            while len(heard) < len(said):
                heard += terminal.recv(timeout=60)
            return heard == said

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        assert all(pool.map(talk, range(100)))


def test_a_stop_ends_the_sessions(cloud, context, container):
    proxy = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    proxy.start()
    with contextlib.ExitStack() as stack:
        terminal = stack.enter_context(session(proxy, cloud.compute_api.attach(context, container)))
        terminal.send(b"x")
        terminal.recv(timeout=60)
        proxy.stop()
        with pytest.raises(ConnectionClosed) as caught:
            terminal.recv(timeout=60)
        assert caught.value.rcvd.code == 1001
    wait_for(lambda: "terminal" not in {thread.name for thread in threading.enumerate()})


@pytest.fixture
def process(cloud, monkeypatch):
    """The other end of a terminal as Docker gives it: what is not read stays in the way."""
    ours, theirs = socket.socketpair()
    made = DockerStream(ours, b"", framed=False, input_seconds=1)
    monkeypatch.setattr(cloud.drivers["host-1"], "attach", lambda container: made)
    yield theirs
    theirs.close()
    ours.close()


def flood(send):
    def run():
        with contextlib.suppress(OSError, ConnectionClosed):
            while True:
                send(bytes(1 << 16))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def hasty(monkeypatch):
    """Who does not read would be waited for as long as it takes a session to end well."""
    monkeypatch.setattr(console_proxy, "END_SECONDS", 0.2)


def test_a_process_that_reads_nothing_ends_its_session(cloud, hasty, proxy, context, container, process):
    """Or who sends it much and goes would leave threads and connections behind."""
    with session(proxy, cloud.compute_api.attach(context, container)) as terminal:
        sending = flood(terminal.send)
        sending.join(60)
        assert not sending.is_alive()
    wait_for(lambda: not proxy.running())


@pytest.mark.parametrize("side", ["client", "process"])
def test_who_does_not_read_keeps_no_proxy_from_stopping(cloud, hasty, context, container, process, side):
    proxy = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    proxy.start()
    with session(proxy, cloud.compute_api.attach(context, container), ping_interval=None, close_timeout=1) as terminal:
        wait_for(proxy.running)
        full = flood(terminal.send if side == "process" else process.sendall)
        if side == "client":  # the proxy is stuck in what it sends
            wait_for(lambda: not any(select.select([], [process], [], 0.01)[1] for _ in range(20)))
        stopping = threading.Thread(target=proxy.stop, daemon=True)
        stopping.start()
        stopping.join(60)
        full.join(60)
        assert not stopping.is_alive() and not full.is_alive()
        wait_for(lambda: not proxy.running())
