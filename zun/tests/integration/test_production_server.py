# SPDX-License-Identifier: Apache-2.0
"""The API behind the servers whose configuration is in etc/zun."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import free_port

SHIPPED = pathlib.Path(__file__).parents[3] / "etc" / "zun"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(
    NGINX is None and os.environ.get("ZUN_REQUIRE_NGINX") != "1", reason="nginx is not installed"
)


def answers(url):
    try:
        return requests.get(f"{url}/healthcheck", timeout=60).ok
    except requests.ConnectionError:
        return False


@contextlib.contextmanager
def process(log, *command, **environment):
    with log.open("wb") as output:
        made = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield made
        finally:
            made.terminate()
            made.wait(60)


@pytest.fixture
def gunicorn(program, tmp_path):
    """gunicorn with the shipped file but for its port and number of processes. Gives its port."""
    database = {"connection": f"sqlite:///{tmp_path}/zun.sqlite"}
    code, said = program("db_manage", words=("upgrade",), database=database).run_to_end()
    assert code == 0, said
    settings = ["[DEFAULT]", "transport_url = inproc:///", "[database]", f"connection = {database['connection']}"]
    config = tmp_path / "api.conf"
    config.write_text("\n".join([*settings, "[api]", "auth_strategy = noauth"]) + "\n")
    port = free_port()
    own = ("--bind", f"127.0.0.1:{port}", "--workers", "1", "--no-control-socket")
    command = (sys.executable, "-m", "gunicorn", "--config", SHIPPED / "gunicorn.conf.py", *own)
    log = tmp_path / "gunicorn.log"
    with process(log, *command, "zun.wsgi.api:application", ZUN_CONFIG_FILES=str(config)) as made:
        wait_for(lambda: made.poll() is not None or answers(f"http://127.0.0.1:{port}"), 60)
        assert made.poll() is None, log.read_text()
        yield port


@pytest.fixture
def nginx(gunicorn, tmp_path):
    """nginx with the shipped file but for its ports. Gives its port."""
    assert NGINX is not None, "nginx is not installed: run tools/services.sh install"
    port = free_port()
    shipped = (SHIPPED / "nginx.conf").read_text()
    assert "listen 80;" in shipped and "127.0.0.1:9517" in shipped
    changed = shipped.replace("listen 80;", f"listen 127.0.0.1:{port};")
    changed = changed.replace("127.0.0.1:9517", f"127.0.0.1:{gunicorn}")
    (tmp_path / "zun.conf").write_text(changed)
    paths = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = (
        f"daemon off; master_process off; pid {tmp_path}/nginx.pid; error_log {tmp_path}/nginx-error.log;"
        f"events {{ worker_connections 768; }} http {{ access_log off; {paths} include {tmp_path}/zun.conf; }}"
    )
    (tmp_path / "nginx.conf").write_text(main)
    log = tmp_path / "nginx.log"
    with process(log, NGINX, "-e", tmp_path / "nginx-error.log", "-c", tmp_path / "nginx.conf") as made:
        wait_for(lambda: made.poll() is not None or answers(f"http://127.0.0.1:{port}"), 60)
        assert made.poll() is None, log.read_text()
        yield port


@contextlib.contextmanager
def dripping(port, count, head):
    """``count`` clients that each send ``head``, and then a byte now and then."""
    stop = threading.Event()

    def drip():
        while not stop.wait(0.25):
            for each in clients:
                with contextlib.suppress(OSError):
                    each.send(b"X")

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(count)]
        for each in clients:
            each.sendall(head)
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


HEADER = b"GET /v1/containers HTTP/1.1\r\nHost: localhost\r\nX: "
TYPE = b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
BODY = b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\n" + TYPE


@pytest.mark.parametrize("head", [pytest.param(HEADER, id="header"), pytest.param(BODY, id="body")])
def test_dripping_clients_do_not_stop_it(nginx, head):
    with dripping(nginx, 64, head):
        for _ in range(5):
            start = time.monotonic()
            assert requests.get(f"http://127.0.0.1:{nginx}/v1/containers", timeout=30).status_code == 200
            assert time.monotonic() - start < 2


def test_one_address_has_a_limit(nginx):
    with dripping(nginx, 100, BODY):
        url = f"http://127.0.0.1:{nginx}/v1/containers"
        wait_for(lambda: requests.get(url, timeout=30).status_code == 503, 30)


def test_large_uploads_pass(nginx):
    body = bytes(64 << 20)
    url = f"http://127.0.0.1:{nginx}/v1/containers/nobody/put_archive?path=/"
    headers = {"OpenStack-API-Version": "container 1.42"}
    assert requests.post(url, data=body, headers=headers, timeout=60).status_code == 404
    assert requests.post(f"http://127.0.0.1:{nginx}/v1/containers", data=body, timeout=60).status_code == 413


def test_answers_keep_the_hosts_name(nginx):
    body = {"image": "demo"}
    reply = requests.post(f"http://127.0.0.1:{nginx}/v1/containers", json=body, timeout=60)
    assert reply.status_code == 202, reply.text
    assert reply.headers["Location"].startswith(f"http://127.0.0.1:{nginx}/v1/containers/")
