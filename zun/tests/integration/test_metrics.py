# SPDX-License-Identifier: Apache-2.0
"""The metrics that the programs serve on the ports of [metrics]."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest
import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import Program, free_port
from zun.tests.integration.scrapes import ask_each, scrape

SHIPPED = pathlib.Path(__file__).parents[3] / "etc" / "zun"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The file of an empty database."""
    folder = tmp_path_factory.mktemp("database")
    settings = {"database": {"connection": f"sqlite:///{folder}/zun.sqlite"}}
    code, said = Program(folder, "db_manage", "db_manage", ("upgrade",), settings).run_to_end()
    assert code == 0, said
    return folder / "zun.sqlite"


@pytest.fixture
def settings(database, tmp_path):
    """The settings of a program that needs no other. Its database is there."""
    shutil.copy(database, tmp_path)
    return {
        "DEFAULT": {"transport_url": "inproc:///", "state_path": tmp_path / "state", "host": "h1"},
        "database": {"connection": f"sqlite:///{tmp_path}/zun.sqlite"},
        "compute": {"container_driver": "fake"},
    }


@pytest.mark.parametrize(
    ("module", "option", "sample"),
    [
        pytest.param("api", "api_port", ("zun_api_requests_waiting", "{port}"), id="zun-api"),
        pytest.param(
            "scheduler", "scheduler_port", ("zun_service_heartbeat_age_seconds", "zun-scheduler", "h1"),
            id="zun-scheduler",
        ),
        pytest.param("compute", "compute_port", ("zun_compute_runtime_up", "h1"), id="zun-compute"),
        pytest.param("conductor", "conductor_port", ("zun_rpc_messages", "zun.conductor.#"), id="zun-conductor"),
        pytest.param("wsproxy", "wsproxy_port", ("zun_wsproxy_sessions", "{port}"), id="zun-wsproxy"),
        pytest.param("allinone", "api_port", ("zun_compute_cell_held_memory_mib", "0", "h1"), id="zun-allinone"),
    ],
)  # fmt: skip
def test_program(program, settings, module, option, sample):
    port, own = free_port(), free_port()
    settings["api"] = {"auth_strategy": "noauth", "port": own}
    settings["websocket_proxy"] = {"wsproxy_port": own if module == "wsproxy" else free_port()}
    program(module, **settings, metrics={option: port}).start()
    wanted = tuple(part.format(port=own) for part in sample)
    wait_for(lambda: wanted in scrape(port))


@pytest.fixture
def gunicorn(settings, tmp_path):
    """gunicorn with the shipped file, two workers and a port for metrics."""
    made = Gunicorn(tmp_path, settings)
    yield made
    made.process.terminate()
    made.process.wait(60)
    print(made.log.read_text()[-6000:])


class Gunicorn:
    def __init__(self, folder, settings):
        self.port, self.metrics = free_port(), free_port()
        given = {**settings, "api": {"auth_strategy": "noauth"}, "metrics": {"api_port": self.metrics}}
        lines = []
        for group, options in given.items():
            lines += [f"[{group}]", *(f"{option} = {value}" for option, value in options.items())]
        config = folder / "api.conf"
        config.write_text("\n".join(lines))
        self.temporary, self.log = folder / "tmp", folder / "gunicorn.log"
        self.temporary.mkdir()
        own = ("--bind", f"127.0.0.1:{self.port}", "--workers", "2", "--no-control-socket", "zun.wsgi.api:application")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "gunicorn",
                    "-c",
                    SHIPPED / "gunicorn.conf.py",
                    *own,
                    "zun.wsgi.api:application",
                ],
                env={**os.environ, "ZUN_CONFIG_FILES": str(config), "TMPDIR": str(self.temporary)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def workers(self):
        """The ids of the two workers once both count requests, before that an empty list."""
        master = self.process.pid
        pids = pathlib.Path(f"/proc/{master}/task/{master}/children").read_text().split()
        counting = {file.stem.rpartition("_")[2] for file in self.temporary.glob("*/histogram_*.db")}
        return list(map(int, pids)) if len(counting.intersection(pids)) == 2 else []

    def value(self, *sample):
        try:
            return scrape(self.metrics).get(sample)
        except requests.ConnectionError:
            return None


COUNT = ("zun_api_request_seconds_count", "containers", "GET", "200")
UNDER_WAY = ("zun_api_requests_under_way",)
UNFINISHED = (
    b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n"
)


def test_workers_answer_for_each_other(gunicorn):
    workers = wait_for(gunicorn.workers, 60)
    sent = ask_each(workers, f"http://127.0.0.1:{gunicorn.port}/v1/containers")
    wait_for(lambda: gunicorn.value(*COUNT) is not None, 60)
    assert {gunicorn.value(*COUNT) for _ in range(10)} == {sent}

    with socket.create_connection(("127.0.0.1", gunicorn.port), 60) as client:
        client.sendall(UNFINISHED)
        wait_for(lambda: gunicorn.value(*UNDER_WAY) == 1, 60)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        others = wait_for(lambda: gunicorn.workers() not in (workers, []) and gunicorn.workers(), 60)
    assert not set(others) & set(workers)
    wait_for(lambda: gunicorn.value(*UNDER_WAY) == 0, 60)
    assert gunicorn.value(*COUNT) == sent

    gunicorn.process.terminate()
    gunicorn.process.wait(60)
    assert list(gunicorn.temporary.iterdir()) == []
