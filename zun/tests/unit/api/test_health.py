# SPDX-License-Identifier: Apache-2.0
import json
import socket

import pytest
from oslo_middleware.healthcheck import opts

from zun.api import health
from zun.db import session
from zun.messaging import rpc
from zun.tests.fixtures import own_conf


@pytest.fixture
def conf(database):
    made = own_conf()
    rpc.register_opts(made)
    made.register_opts(opts.HEALTHCHECK_OPTS, group="healthcheck")
    made.set_override("backends", ["zun_database", "zun_broker"], group="healthcheck")
    made.set_override("transport_url", "inproc:///")
    return made


def ask(conf, address="192.0.2.7"):
    """Return the status, and the body as JSON or text."""
    answered = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/healthcheck", "SERVER_NAME": "x", "SERVER_PORT": "9517",
        "wsgi.url_scheme": "http", "REMOTE_ADDR": address, "HTTP_ACCEPT": "application/json",
    }  # fmt: skip
    body = b"".join(health.build(conf)(environ, lambda status, headers, exc_info=None: answered.append(status)))
    return int(answered[0].split()[0]), json.loads(body) if body.startswith(b"{") else body.decode()


def test_everything_answers(conf):
    assert ask(conf) == (200, {"detailed": False, "reasons": ["database: OK", "broker: inside this process"]})


def test_without_backends_only_the_process_counts(conf, monkeypatch):
    conf.set_override("backends", [], group="healthcheck")
    session.dispose()
    assert ask(conf)[0] == 200


def test_a_database_without_an_answer_is_503(conf, tmp_path):
    session.configure(f"sqlite:///{tmp_path}")  # a folder
    status, said = ask(conf)
    assert status == 503
    assert said["reasons"][0] == "database: no answer"


def test_the_broker_is_one_of_its_hosts(conf):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        conf.set_override("transport_url", f"rabbit://u:p@127.0.0.1:1,u:p@127.0.0.1:{port}/v")
        assert ask(conf)[1]["reasons"][1] == "broker: OK"
    status, said = ask(conf)
    assert (status, said["reasons"][1]) == (503, "broker: no connection")
    assert "u:p" not in json.dumps(said)


def test_details_are_for_allowed_addresses(conf):
    conf.set_override("allowed_source_ranges", ["192.0.2.0/24"], group="healthcheck")
    conf.set_override("detailed", True, group="healthcheck")
    status, said = ask(conf)
    assert (status, said["detailed"], len(said["reasons"])) == (200, True, 2)
    assert ask(conf, "198.51.100.1") == (200, "OK")
