# SPDX-License-Identifier: Apache-2.0
"""Send 50 messages to a server that has stopped and still is connected, then start another one.

Print what each of the two got. A program, as kombu keeps the first transport that a process had.
"""

import contextlib
import json
import sys

from oslo_config import cfg

from zun.common.context import admin_context
from zun.messaging import rpc, waiting
from zun.tests.fixtures import wait_for

MESSAGES = 50


class Endpoint:
    def __init__(self) -> None:
        self.noted: list[int] = []

    @rpc.quick
    def note(self, context: object, *, number: int) -> None:
        self.noted.append(number)


def serve(url: str, topic: str, endpoint: Endpoint) -> rpc.Server:
    server = rpc.get_server(rpc.get_transport(cfg.CONF, url), topic, "h1", [endpoint])
    server.start()
    return server


def main(url: str, topic: str) -> None:
    waiting.install()
    rpc.register_opts(cfg.CONF)
    cfg.CONF([], project="zun")
    cfg.CONF.set_override("control_exchange", topic)
    client = rpc.get_client(rpc.get_transport(cfg.CONF, url), topic, "1.0")
    first, second = Endpoint(), Endpoint()
    server = serve(url, topic, first)
    server.stop()  # RabbitMQ goes on delivering until the connection is closed
    for number in range(MESSAGES):
        client.cast(admin_context(), "note", number=number)
    server.wait()
    server = serve(url, topic, second)
    with contextlib.suppress(AssertionError):
        wait_for(lambda: len(second.noted) >= MESSAGES, 20)
    server.stop()
    server.wait()
    print(json.dumps([sorted(each.noted) for each in (first, second)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
