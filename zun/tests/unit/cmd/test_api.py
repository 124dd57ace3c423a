# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.client
import logging
import os
import resource
import socket

from zun.cmd import api
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import configuration
from zun.tests.integration.programs import free_port


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
