# SPDX-License-Identifier: Apache-2.0
"""The API behind the servers whose configuration is in etc/zun."""

import contextlib
import pathlib
import signal
import socket
import sys
import threading
import time

import pytest
import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign, nginx
from zun.tests.integration.programs import free_port
from zun.tests.integration.scrapes import ask_each, scrape

SHIPPED = pathlib.Path(__file__).parents[3] / "etc" / "zun"
pytestmark = nginx.needed


def answers(url):
    try:
        return requests.get(f"{url}/healthcheck", timeout=60).ok
    except requests.ConnectionError:
        return False


@pytest.fixture
def environment(program, tmp_path):
    """The variables of the application with an empty database and no keystone."""
    database = {"connection": f"sqlite:///{tmp_path}/zun.sqlite"}
    code, said = program("db_manage", words=("upgrade",), database=database).run_to_end()
    assert code == 0, said
    settings = ["[DEFAULT]", "transport_url = inproc:///", "[database]", f"connection = {database['connection']}"]
    config = tmp_path / "api.conf"
    config.write_text("\n".join([*settings, "[api]", "auth_strategy = noauth"]) + "\n")
    return {"ZUN_CONFIG_FILES": str(config)}


@pytest.fixture
def gunicorn(environment, tmp_path):
    """gunicorn with the shipped file but for its port and number of processes. Gives its port."""
    port = free_port()
    own = ("--bind", f"127.0.0.1:{port}", "--workers", "1", "--no-control-socket")
    command = (sys.executable, "-m", "gunicorn", "--config", SHIPPED / "gunicorn.conf.py", *own)
    log = tmp_path / "gunicorn.log"
    with nginx.process(log, *command, "zun.wsgi.api:application", **environment) as made:
        wait_for(lambda: made.poll() is not None or answers(f"http://127.0.0.1:{port}"), 60)
        assert made.poll() is None, log.read_text()
        yield port


@pytest.fixture
def front(gunicorn, tmp_path):
    """nginx with the shipped file but for its ports. Gives its port."""
    port = free_port()
    shipped = (SHIPPED / "nginx.conf").read_text()
    assert "listen 80;" in shipped and "127.0.0.1:9517" in shipped
    changed = shipped.replace("listen 80;", f"listen 127.0.0.1:{port};")
    changed = changed.replace("127.0.0.1:9517", f"127.0.0.1:{gunicorn}")
    (tmp_path / "zun.conf").write_text(changed)
    with nginx.serving(tmp_path, tmp_path / "zun.conf"):
        wait_for(lambda: answers(f"http://127.0.0.1:{port}"), 60)
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
def test_dripping_clients_do_not_stop_it(front, head):
    with dripping(front, 64, head):
        for _ in range(5):
            start = time.monotonic()
            assert requests.get(f"http://127.0.0.1:{front}/v1/containers", timeout=30).status_code == 200
            assert time.monotonic() - start < 2


def test_one_address_has_a_limit(front):
    with dripping(front, 100, BODY):
        url = f"http://127.0.0.1:{front}/v1/containers"
        wait_for(lambda: requests.get(url, timeout=30).status_code == 503, 30)


def test_large_uploads_pass(front):
    body = bytes(64 << 20)
    url = f"http://127.0.0.1:{front}/v1/containers/nobody/put_archive?path=/"
    headers = {"OpenStack-API-Version": "container 1.42"}
    assert requests.post(url, data=body, headers=headers, timeout=60).status_code == 404
    assert requests.post(f"http://127.0.0.1:{front}/v1/containers", data=body, timeout=60).status_code == 413


def test_answers_keep_the_hosts_name(front):
    body = {"image": "demo"}
    reply = requests.post(f"http://127.0.0.1:{front}/v1/containers", json=body, timeout=60)
    assert reply.status_code == 202, reply.text
    assert reply.headers["Location"].startswith(f"http://127.0.0.1:{front}/v1/containers/")


@contextlib.contextmanager
def uwsgi(environment, folder, processes):
    """uWSGI with the shipped file but for its port and number of processes. Gives its port, its process and its log."""
    port = free_port()
    shipped = (SHIPPED / "uwsgi.ini").read_text()
    assert "127.0.0.1:9517" in shipped and "processes = 4" in shipped
    changed = shipped.replace("127.0.0.1:9517", f"127.0.0.1:{port}")
    changed = changed.replace("processes = 4", f"processes = {processes}")
    (folder / "uwsgi.ini").write_text(changed)
    command, log = (foreign.installed("uwsgi") / "bin/uwsgi", "--ini", folder / "uwsgi.ini"), folder / "uwsgi.log"
    with nginx.process(log, *command, **environment, PYTHONPATH=foreign.OURS) as made:
        wait_for(lambda: made.poll() is not None or answers(f"http://127.0.0.1:{port}"), 60)
        assert made.poll() is None, log.read_text()
        yield port, made, log


@pytest.mark.foreign
def test_uwsgi_answers_and_ends_in_order(environment, tmp_path):
    with uwsgi(environment, tmp_path, processes=1) as (port, process, log):
        url = f"http://127.0.0.1:{port}/v1/containers"
        made = requests.post(url, json={"image": "demo"}, timeout=60)
        assert made.status_code == 202, made.text
        assert [each["uuid"] for each in requests.get(url, timeout=60).json()["containers"]] == [made.json()["uuid"]]

        body = b'{"image": "demo"}'
        head = f"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(("127.0.0.1", port), 60) as late:
            late.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:5])
            assert requests.get(url, timeout=60).ok  # accepted after the late one
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: "illing worker" in log.read_text(), 60)
            late.sendall(body[5:])
            assert late.recv(100).startswith(b"HTTP/1.1 202 ")
        assert process.wait(60) == 0


@pytest.mark.foreign
def test_uwsgi_workers_count_together(environment, tmp_path):
    """A scrape has the requests of both workers, whichever of them answers it."""
    metrics, folder = free_port(), tmp_path / "metrics"
    folder.mkdir()
    with (tmp_path / "api.conf").open("a") as config:
        config.write(f"[metrics]\napi_port = {metrics}\n")
    environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    with uwsgi(environment, tmp_path, processes=2) as (port, process, log):
        wait_for(lambda: log.read_text().count("WSGI app 0") == 2, 60)
        workers = list(map(int, pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
        assert len(workers) == 2
        sent = ask_each(workers, f"http://127.0.0.1:{port}/v1/containers")
        count = ("zun_api_request_seconds_count", "containers", "GET", "200")
        assert [scrape(metrics).get(count) for _ in range(10)] == [sent] * 10
