# SPDX-License-Identifier: Apache-2.0
"""Raw streams from a server that answers as a Docker daemon does."""

import socket
import threading
from types import SimpleNamespace

import pytest
from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import Settings
from zun.container.docker.hijack import hijack


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
    engine = SimpleNamespace(api=SimpleNamespace(api_version="1.41"), settings=Settings(url, default_timeout=60))
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
    engine = SimpleNamespace(api=SimpleNamespace(api_version="1.41"), settings=Settings("ssh://host"))
    with pytest.raises(exceptions.Unavailable, match="unix:// or tcp://"):
        hijack(engine, "/exec/1/start")
