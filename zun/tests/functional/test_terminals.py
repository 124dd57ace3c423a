# SPDX-License-Identifier: Apache-2.0
"""Terminals through the proxy, on runtimes in memory whose processes give back what is typed."""

import concurrent.futures
import contextlib
import datetime
import json
import select
import socket
import ssl
import threading
import urllib.parse

import oslo_messaging
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from keystonemiddleware import audit
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus
from websockets.sync.client import connect

from zun.cmd import wsproxy
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.console import listener
from zun.console import proxy as console_proxy
from zun.container.docker.terminals import DockerStream
from zun.db import console_tokens, containers
from zun.objects import ConsoleToken, console_token
from zun.tests import cadf
from zun.tests.fixtures import notifications, wait_for
from zun.tests.functional.cloud import cloud_of, machine

cloud = cloud_of({"host-1": machine()}, websocket_proxy__wsproxy_port=0, websocket_proxy__sessions_per_user=100)


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
    assert refused(proxy, url) == 403
    with session(proxy, issued(context, container, exec_id)) as terminal, pytest.raises(ConnectionClosed) as caught:
        terminal.recv(timeout=60)
    assert (caught.value.rcvd.code, "was started" in caught.value.rcvd.reason) == (1011, True)


@pytest.mark.parametrize(("command", "output", "code"), [(["echo", "hi"], b"hi\n", 0), (["false"], b"", 1)])
def test_a_command_that_ends_at_once(cloud, proxy, context, container, command, output, code):
    """A client connects, tells the size of its terminal, and reads then."""
    exec_id, url = cloud.compute_api.prepare_exec(context, container, command, interactive=True)
    with session(proxy, url) as terminal:
        cloud.compute_api.resize_terminal(context, container, width=80, height=24, exec_id=exec_id)
        heard = b""
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                heard += terminal.recv(timeout=60)
    assert heard == output
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1000, f"exit code {code}")


@pytest.fixture
def audited(cloud):
    """Give the CADF notifications of the cloud's proxies."""
    conf = cloud.conf
    oslo_messaging.get_notification_transport(conf)
    conf.register_opts(audit.list_opts()[0][1], group=cadf.MIDDLEWARE)
    conf.set_override("driver", "log", group=cadf.MIDDLEWARE)
    conf.set_override("enabled", True, group="audit")
    with notifications() as heard:
        yield heard


@pytest.fixture
def told(audited, cloud):
    """Give the CADF notifications of a proxy of its own, and that proxy."""
    made = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    made.start()
    yield audited, made
    made.stop()


def failures(heard):
    """The reasons of all notifications, which all say that a terminal was not opened."""
    assert {(each["event_type"], each["payload"]["outcome"]) for each in heard} <= {
        ("audit.terminal.opened", "failure")
    }
    return [each["payload"]["reason"]["reasonCode"] for each in heard]


def test_a_session_is_told_without_what_is_typed(told, cloud, context, container):
    heard, proxy = told
    exec_id, url = cloud.compute_api.prepare_exec(context, container, ["sh"], interactive=True)
    with session(proxy, url) as terminal:
        terminal.send(b"s3cret")
        assert terminal.recv(timeout=60) == b"s3cret"
    wait_for(lambda: len(heard) == 2)
    for event in heard:
        assert event["payload"]["target"]["name"] == exec_id
        cadf.compare(event["event_type"], event["payload"], container.uuid, exec_id)
    assert "s3cret" not in json.dumps(heard)
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["token"][0] not in json.dumps(heard)


def test_a_session_that_cannot_be_opened_is_told(told, cloud, context, container):
    heard, proxy = told
    url = cloud.compute_api.attach(context, container)
    cloud.drivers["host-1"].attach = lambda container: raised(exceptions.Conflict("not now"))
    with session(proxy, url) as terminal, pytest.raises(ConnectionClosed):
        terminal.recv(timeout=60)
    assert failures(heard) == ["not now"]


def test_a_lost_race_for_a_token_is_told(told, cloud, context, container, monkeypatch):
    heard, proxy = told
    find = console_proxy._find

    def used_meanwhile(token):
        grant = find(token)
        assert find(token).use()
        return grant

    monkeypatch.setattr(console_proxy, "_find", used_meanwhile)
    assert refused(proxy, issued(context, container)) == 403
    assert failures(heard) == [console_proxy.NOT_VALID]


def test_a_database_that_goes_away_during_a_login_is_told(told, cloud, context, container, monkeypatch):
    heard, proxy = told
    monkeypatch.setattr(ConsoleToken, "use", lambda grant: raised(exceptions.Unavailable("away")))
    assert refused(proxy, issued(context, container)) == 503
    assert failures(heard) == [console_proxy.NOT_CHECKED]


def test_an_invalid_token_is_not_told(told, cloud, context, container):
    heard, proxy = told
    url = cloud.compute_api.attach(context, container)
    assert refused(proxy, "ws://x/?token=guess&uuid=" + container.uuid) == 403
    assert refused(proxy, url, origin="http://evil.example") == 403
    assert heard == []


def raised(error):
    raise error


def test_sizes(cloud, context, container):
    cloud.compute_api.resize_terminal(context, container, width=132, height=43)
    assert cloud.drivers["host-1"].terminal_sizes == {container.uuid: (132, 43)}
    with pytest.raises(exceptions.InvalidValue, match="has no command"):
        cloud.compute_api.resize_terminal(context, container, width=1, height=1, exec_id="ab" * 32)


def issued(context, container, exec_id=None, seconds=60):
    """A URL with a new token."""
    token = ConsoleToken.issue(context, container.uuid, exec_id, seconds)
    return f"ws://x/?token={token}&uuid={container.uuid}" + (f"&exec_id={exec_id}" if exec_id else "")


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


def test_a_token_opens_one_session(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    with session(proxy, url):
        assert refused(proxy, url) == 403
    assert refused(proxy, url) == 403


def test_of_many_at_once_one_uses_a_token(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    together, first_in = threading.Barrier(20), threading.Event()

    def take(number):
        together.wait(60)
        try:
            with session(proxy, url):
                first_in.wait(1)
                return 101
        except InvalidStatus as exc:
            return exc.response.status_code

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(take, range(20))) == [101, *[403] * 19]


def test_the_wrong_use_leaves_a_token_unused(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    assert refused(proxy, f"{url}&exec_id={'ab' * 32}") == 403
    assert refused(proxy, url, origin="http://evil.example") == 403
    with session(proxy, url):
        pass


@pytest.mark.parametrize(("option", "status"), [("sessions_per_user", 429), ("max_sessions", 503)])
def test_sessions_have_a_limit(cloud, audited, context, container, option, status):
    cloud.conf.set_override(option, 2, group="websocket_proxy")
    proxy = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    proxy.start()
    other = RequestContext(user_id="somebody-else", project_id=context.project_id)
    try:
        with session(proxy, issued(context, container)), session(proxy, issued(context, container)):
            url = issued(context, container)
            wait_for(lambda: len(audited) == 2)
            del audited[:]
            assert refused(proxy, url) == status
            (reason,) = failures(audited)
            assert "sessions" in reason
            theirs = issued(other, container)
            if option == "max_sessions":
                assert refused(proxy, theirs) == status
            else:
                with session(proxy, theirs):
                    pass
        wait_for(lambda: not proxy.running())
        with session(proxy, url):  # the refusal did not use it up
            pass
    finally:
        proxy.stop()


@pytest.fixture
def watchful(monkeypatch):
    monkeypatch.setattr(console_proxy, "WATCH_SECONDS", 0.05)


def ended(terminal):
    """Code and reason that the proxy ends a session with."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            terminal.recv(timeout=60)
    return caught.value.rcvd.code, caught.value.rcvd.reason


def test_an_idle_session_ends(cloud, watchful, context, container):
    cloud.conf.set_override("idle_timeout", 1, group="websocket_proxy")
    proxy = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    proxy.start()
    pause = threading.Event()
    try:
        with session(proxy, issued(context, container)) as terminal:
            for _ in range(8):
                terminal.send(b"x")
                assert terminal.recv(timeout=60) == b"x"
                pause.wait(0.25)
            assert ended(terminal) == (1008, "no byte either way for 1 s; open a new session")
    finally:
        proxy.stop()


def rows():
    with console_tokens.session.reader() as connection:
        return console_tokens.session.rows(connection, console_tokens.table.select())


@pytest.mark.parametrize("how", ["deleted", "abandoned", "revoked"])
def test_a_session_ends_with_its_grant(cloud, watchful, proxy, context, container, monkeypatch, how):
    """Also where the process goes on."""
    with session(proxy, issued(context, container)) as terminal:
        wait_for(proxy.running)
        if how == "deleted":
            containers.destroy(container.uuid)
        elif how == "abandoned":
            containers.abandon(container.uuid)
        else:
            console_tokens.remove(rows()[0]["token_hash"])
        assert ended(terminal) == (1008, "the container is gone, or the session was revoked")
    assert not rows()


def test_a_running_session_outlives_its_token(cloud, watchful, proxy, context, container, monkeypatch):
    monkeypatch.setattr(console_token, "KEPT", datetime.timedelta(seconds=1))
    with session(proxy, issued(context, container)) as terminal:
        used = rows()[0]["expires_at"]
        wait_for(lambda: rows()[0]["expires_at"] > used + datetime.timedelta(seconds=2))
        issued(context, container)  # clears away what has expired
        terminal.send(b"here")
        assert terminal.recv(timeout=60) == b"here"
    wait_for(lambda: len(rows()) == 1)


def test_tokens_go_with_their_container(cloud, context, container):
    issued(context, container)
    containers.destroy(container.uuid)
    assert not rows()


@pytest.fixture
def secure(cloud, tmp_path):
    """A proxy that speaks TLS."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    file = tmp_path / "both.pem"
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form) + certificate)
    cloud.conf.set_override("cert", str(file), group="websocket_proxy")
    proxy = wsproxy.build(cloud.conf, cloud.drivers["host-1"])
    proxy.start()
    yield proxy
    proxy.stop()


def strangers(stack, proxy, count, said):
    for _ in range(count):
        each = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), 30))
        with contextlib.suppress(OSError):
            each.sendall(said)
        yield each


@pytest.mark.parametrize("said", [b"", b"GET /?token=x HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01\x02"])
@pytest.mark.parametrize("kind", ["proxy", "secure"])
def test_strangers_take_no_thread(request, cloud, context, container, kind, said):
    """And a client of the same address gets in."""
    proxy = request.getfixturevalue(kind)
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        held = list(strangers(stack, proxy, 400, said))
        wait_for(lambda: sum(map(closed, held)) >= 400 - listener.WAITING_OF_CLIENT)
        assert threading.active_count() <= before + console_proxy.LOGIN_THREADS
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE

        def entered():
            """Return a terminal, or None if one of the strangers came in only now and took the place."""
            url = issued(context, container)
            try:
                if kind == "proxy":
                    return session(proxy, url)
                query = urllib.parse.urlsplit(url).query
                return connect(f"wss://127.0.0.1:{proxy.port}/?{query}", ssl=unchecked, open_timeout=20)
            except InvalidMessage:
                return None

        with wait_for(entered) as terminal:
            terminal.send(b"hello")
            assert terminal.recv(timeout=60) == b"hello"


def closed(client):
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return not client.recv(65536)
    except OSError:
        return True


@pytest.mark.parametrize("kind", ["proxy", "secure"])
def test_a_login_has_a_deadline_as_a_whole(request, monkeypatch, kind):
    monkeypatch.setattr(console_proxy, "OPEN_SECONDS", 1.0)
    proxy = request.getfixturevalue(kind)
    with contextlib.ExitStack() as stack:
        (client,) = strangers(stack, proxy, 1, b"GET / HTTP/1.1\r\n" if kind == "proxy" else b"\x16\x03\x01\x02")

        def drip():
            with contextlib.suppress(OSError):
                client.send(b"X")
            return closed(client)

        wait_for(drip, 20)


def test_a_token_expires(cloud, proxy, context, container):
    token = ConsoleToken.issue(context, container.uuid, None, -1)
    assert refused(proxy, f"ws://x/?token={token}&uuid={container.uuid}") == 403
    cloud.compute_api.attach(context, container)  # a new one clears the old ones away
    assert len(rows()) == 1


def test_a_token_dies_with_its_container(cloud, proxy, context, container):
    url = cloud.compute_api.attach(context, container)
    cloud.compute_api.delete(context, container, force=True)
    cloud.gone(container)
    assert refused(proxy, url) == 403


def test_the_database_does_not_hold_what_opens_a_terminal(cloud, context, container):
    url = cloud.compute_api.attach(context, container)
    token = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["token"]
    (row,) = rows()
    assert token not in str(dict(row))


def test_a_hundred_sessions_at_once(cloud, proxy, context, container):
    all_there = threading.Barrier(100)

    def talk(number):
        with session(proxy, issued(context, container)) as terminal:
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
