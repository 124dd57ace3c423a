# SPDX-License-Identifier: Apache-2.0
"""Raw streams from a server that answers as a Docker daemon does."""

import contextlib
import socket
import ssl
import struct
import threading
from types import SimpleNamespace

import pytest
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import TLS, Engine, Settings
from zun.container.docker.hijack import hijack
from zun.tests.certificates import Authority, put
from zun.tests.fixtures import own_conf
from zun.tests.http_servers import Handler, Server, serving


def answered(tmp_path, *parts):
    """Return what ``hijack`` does when the daemon answers ``parts`` and ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "docker.sock"))
    listener.listen()

    def serve():
        with listener, listener.accept()[0] as client:
            client.recv(65536)
            for part in parts:
                client.sendall(part)

    thread = threading.Thread(target=serve)
    thread.start()
    url = f"unix://{tmp_path}/docker.sock"
    engine = SimpleNamespace(base="/v1.41", settings=Settings(url, default_timeout=60))
    try:
        return hijack(engine, "/exec/1/start", {"Tty": False})
    finally:
        thread.join()


@pytest.mark.parametrize("status", [b"101 UPGRADED", b"200 OK"])
def test_bytes_behind_the_header_are_kept(tmp_path, status):
    connection, rest = answered(tmp_path, b"HTTP/1.1 " + status + b"\r\nA: b\r\n\r\nfirst", b" second")
    with connection:
        stream = rest
        while part := connection.recv(100):
            stream += part
    assert stream == b"first second"


@pytest.mark.parametrize(("status", "error"), [(404, docker_errors.NotFound), (409, docker_errors.APIError)])
def test_a_refusal_is_docker_py_s_error(tmp_path, status, error):
    with pytest.raises(error) as caught:
        answered(tmp_path, b'HTTP/1.1 %d No\r\n\r\n{"message": "gone"}' % status)
    assert (caught.value.status_code, caught.value.explanation) == (status, "gone")


def test_a_daemon_that_ends_before_its_header(tmp_path):
    with pytest.raises(ConnectionError, match="before it answered"):
        answered(tmp_path, b"HTTP/1.1 200 OK\r\n")


def test_a_url_without_a_raw_stream():
    engine = SimpleNamespace(base="/v1.41", settings=Settings("ssh://host"))
    with pytest.raises(exceptions.Unavailable, match="unix:// or tcp://"):
        hijack(engine, "/exec/1/start")


@pytest.fixture
def files(tmp_path):
    """The files of a client, and a context of a server that wants its certificate."""
    authority = Authority()
    ca = put(tmp_path / "ca.pem", authority.pem)
    for name in ("server", "client"):
        for kind, data in zip(("cert", "key"), authority.issue(name), strict=True):
            put(tmp_path / f"{name}-{kind}.pem", data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server-cert.pem", tmp_path / "server-key.pem")
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return SimpleNamespace(
        context=context, tls=TLS(str(ca), str(tmp_path / "client-cert.pem"), str(tmp_path / "client-key.pem"))
    )


@contextlib.contextmanager
def stream(files, serve, tls=None):
    """A stream from a daemon with TLS that answers and then does ``serve``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run():
            with contextlib.suppress(OSError), files.context.wrap_socket(listener.accept()[0], server_side=True) as one:
                one.recv(65536)
                one.sendall(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
                serve(one)

        thread = threading.Thread(target=run)
        thread.start()
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        settings = Settings(url, default_timeout=60, tls=tls or files.tls)
        engine = SimpleNamespace(base="/v1.41", settings=settings)
        try:
            connection, _ = hijack(engine, "/exec/1/start")
            with connection:
                yield connection
        finally:
            thread.join()


def test_a_tls_stream_is_read_and_written_at_once(files):
    """The daemon sends back what it gets, while the sender does not read: only another thread can."""
    size, got = 1 << 23, bytearray()

    def back(one):
        while data := one.recv(16384):
            one.sendall(data)

    with stream(files, back) as connection:

        def read():
            while len(got) < size:
                got.extend(connection.recv(65536))

        reader = threading.Thread(target=read)
        reader.start()
        for start in range(0, size, 1000):
            connection.sendall(bytes([start // 1000 % 256]) * min(1000, size - start))
        reader.join(60)
        assert not reader.is_alive()
        connection.shutdown(socket.SHUT_RDWR)
    assert got == b"".join(bytes([start // 1000 % 256]) * min(1000, size - start) for start in range(0, size, 1000))


def test_a_close_ends_a_waiting_reader(files):
    started, ended = threading.Event(), threading.Event()

    def read(connection):
        started.set()
        with contextlib.suppress(OSError):
            assert connection.recv(100) == b""
        ended.set()

    with stream(files, lambda one: one.recv(1)) as connection:
        threading.Thread(target=read, args=(connection,)).start()
        assert started.wait(30)
        connection.shutdown(socket.SHUT_RDWR)
        assert ended.wait(30)


def test_a_tls_stream_gives_up_in_time(files):
    """Neither a daemon that sends nothing nor one that reads nothing holds a thread."""
    done = threading.Event()
    with stream(files, lambda one: done.wait(30)) as connection:
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 1, 0))
        with pytest.raises(TimeoutError):
            connection.sendall(bytes(1 << 26))
        done.set()


class Version(Handler):
    def do_GET(self):
        self.answer(200, {"ApiVersion": "1.41"})


@pytest.fixture
def daemon(files):
    """The address of a daemon that knows its version."""
    server = Server(Version)
    # In the thread of a connection: a client that is refused must not end the server.
    server.finish_request = lambda sock, address: Version(
        files.context.wrap_socket(sock, server_side=True), address, server
    )
    server.handle_error = lambda *_: None
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("scheme", ["tcp", "https"])
def test_the_client_of_docker_uses_tls(daemon, files, scheme):
    engine = Engine(Settings(f"{scheme}://{daemon}", default_timeout=60, tls=files.tls))
    assert engine.api.base_url == f"https://{daemon}"
    with engine.patient() as patient:
        assert patient.version(api_version=False) == {"ApiVersion": "1.41"}


@pytest.mark.parametrize("change", [{"ca": None}, {"cert": None, "key": None}])
def test_the_client_of_docker_tells_distrust(daemon, files, change, caplog):
    ours = {"ca": files.tls.ca, "cert": files.tls.cert, "key": files.tls.key} | change
    with pytest.raises(exceptions.Unavailable):
        _ = Engine(Settings(f"tcp://{daemon}", default_timeout=60, tls=TLS(**ours))).api
    assert daemon in caplog.text and ("certificate verify failed" in caplog.text) == (ours["ca"] is None)


@pytest.mark.parametrize(
    "change", [pytest.param({"ca": None}, id="unknown-authority"), pytest.param({"cert": None}, id="no-certificate")]
)
def test_both_sides_must_be_trusted(files, change):
    ours = {"ca": files.tls.ca, "cert": files.tls.cert, "key": files.tls.key} | change
    with pytest.raises((ssl.SSLError, ConnectionResetError)), stream(files, lambda one: None, TLS(**ours)):
        pass


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"api_url": "http://127.0.0.1:1"}, "write tcp:// or https://", id="plain"),
        pytest.param({"key_file": None}, "set both or neither", id="no-key"),
        pytest.param({"ca_file": "/none"}, "ca_file = /none,.* cannot be used: .*No such", id="no-file"),
    ],
)
def test_unusable_files_are_told_at_the_start(files, settings, said):
    given = {"api_url": "tcp://127.0.0.1:1", "ca_file": files.tls.ca, "cert_file": files.tls.cert,
             "key_file": files.tls.key}  # fmt: skip
    assert TLS.from_conf(own_conf(**{f"docker__{name}": value for name, value in given.items()})) == files.tls
    with pytest.raises(exceptions.Misconfigured, match=said):
        TLS.from_conf(own_conf(**{f"docker__{name}": value for name, value in (given | settings).items()}))


@pytest.mark.parametrize(
    ("url", "tls"),
    [("unix:///run/docker.sock", None), ("tcp://127.0.0.1:2375", None), ("https://docker.example:2376", TLS())],
)
def test_without_files_the_url_decides_on_tls(url, tls):
    assert TLS.from_conf(own_conf(docker__api_url=url)) == tls
