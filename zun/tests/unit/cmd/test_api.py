# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.client
import logging
import os
import resource
import socket

import pytest
from oslo_config import cfg

from zun.cmd import api
from zun.conf import register_opts
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import configuration
from zun.tests.integration.programs import free_port


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
    conf = register_opts(cfg.ConfigOpts())
    conf([], default_config_files=[], default_config_dirs=[])
    for option, value in {"auth_strategy": "noauth", **settings}.items():
        conf.set_override(option, value, group="api")
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
    conf.clear_override("port", group="api")
    conf.clear_override("auth_strategy", group="api")
