# SPDX-License-Identifier: Apache-2.0
"""Messages over a real RabbitMQ whose connections break."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import urllib.parse
import uuid

import kombu
import oslo_messaging
import pytest
from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.messaging import rpc
from zun.tests.fixtures import wait_for

pytestmark = pytest.mark.distributed
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])


class Cable:
    """A way to ``host:port`` that can be cut: what was connected is lost, what connects again is not."""

    def __init__(self, host, port):
        self._there = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, there = self._listener.accept()[0], socket.create_connection(self._there)
                self._ends += (here, there)
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    @staticmethod
    def _carry(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def cut(self):
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
        self.cut()


class Endpoint:
    def __init__(self):
        self.noted = []

    @rpc.quick
    def note(self, context, *, number):
        self.noted.append(number)

    def double(self, context, *, text):
        return text * 2


@pytest.fixture
def cable(rabbit_url):
    parsed = urllib.parse.urlsplit(rabbit_url)
    made = Cable(parsed.hostname, parsed.port)
    made.url = rabbit_url.replace(f":{parsed.port}", f":{made.port}")
    yield made
    made.close()


@pytest.fixture
def endpoint():
    return Endpoint()


@pytest.fixture
def client(cable, endpoint):
    topic = f"test-{uuid.uuid4().hex[:8]}"
    conf = cfg.CONF  # parts of the library read no other
    rpc.register_opts(conf)
    conf.set_override("control_exchange", topic)
    transport = rpc.get_transport(conf, cable.url)
    server = rpc.get_server(transport, topic, "h1", [endpoint])
    server.start()
    yield rpc.get_client(transport, topic, "1.0")
    server.stop()
    server.wait()
    transport.cleanup()
    conf.clear_override("control_exchange")
    with kombu.Connection(cable.url.replace("rabbit://", "amqp://", 1)) as connection:
        for queue in (topic, f"{topic}.h1"):
            connection.default_channel.queue_delete(queue)
        connection.default_channel.exchange_delete(topic)


def answered(client, text):
    try:
        with rpc.answers_from("h1"):
            return client.prepare(timeout=5).call(CONTEXT, "double", text=text) == 2 * text
    except (exceptions.HostUnavailable, oslo_messaging.MessagingException):
        return False  # it was asked while somebody was still away


def test_what_is_sent_arrives_in_its_order_and_once(client, endpoint):
    for number in range(300):
        client.cast(CONTEXT, "note", number=number)
    wait_for(lambda: len(endpoint.noted) >= 300)
    assert endpoint.noted == list(range(300))


@pytest.mark.parametrize("size", [0, 20_000, 400_000], ids=["empty", "several-reads", "several-frames"])
def test_messages_have_any_size(client, size):
    text = "ä€😀x"[: size % 5] + "x" * size
    assert client.prepare(timeout=60).call(CONTEXT, "double", text=text) == 2 * text


def test_lost_connections_are_made_again(client, cable, endpoint):
    """By who reads as by who sends."""
    assert answered(client, "before")
    for number in range(3):
        cable.cut()
        client.cast(CONTEXT, "note", number=number)
        wait_for(lambda: answered(client, "after"))
    wait_for(lambda: endpoint.noted[-1:] == [2])
    assert sorted(set(endpoint.noted)) == [0, 1, 2]


def test_a_message_to_a_stopping_server_waits_for_the_next(rabbit_url):
    topic = f"test-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-m", "zun.tests.integration.stopping_server", rabbit_url, topic]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout) == [[], list(range(50))]
    finally:
        with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
            for queue in (topic, f"{topic}.h1"):
                connection.default_channel.queue_delete(queue)
            connection.default_channel.exchange_delete(topic)


@pytest.fixture
def taken(rabbit_url):
    """A topic whose queues and exchange are made by somebody else, and removed at the end."""
    topic = f"test-{uuid.uuid4().hex[:8]}"
    with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
        yield topic, connection.default_channel
        channel = connection.channel()
        for queue in (topic, f"{topic}.h1"):
            channel.queue_delete(queue)
        channel.exchange_delete(f"{topic}_fanout")
        channel.exchange_delete(topic)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ("queue TOPIC", "rabbitmqctl delete_queue -p / TOPIC"),
        ("queue TOPIC.h1", "rabbitmqctl delete_queue -p / TOPIC.h1"),
        (
            "exchange TOPIC_fanout",
            "rabbitmqctl eval 'rabbit_exchange:delete(rabbit_misc:r(<<\"/\">>, exchange, <<\"TOPIC_fanout\">>), "
            "false, <<>>).'",
        ),
    ],
)
def test_existing_queue_or_exchange_of_other_kind_is_told(rabbit_url, taken, there, told):
    topic, channel = taken
    noun, name = there.replace("TOPIC", topic).split()
    if noun == "queue":
        channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
    else:
        channel.exchange_declare(name, "direct", durable=True, auto_delete=False)
    rpc.register_opts(cfg.CONF)
    transport = rpc.get_transport(cfg.CONF, rabbit_url)
    server = rpc.get_server(transport, topic, "h1", [Endpoint()])
    with pytest.raises(exceptions.Misconfigured) as refused:
        server.start()
    said = str(refused.value)
    assert f"has {noun} {name} in vhost /" in said and said.endswith(f"To remove it: {told.replace('TOPIC', topic)}")
    assert "[oslo_messaging_rabbit]" in said and "\n" not in said
    transport.cleanup()
