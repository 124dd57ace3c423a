# SPDX-License-Identifier: Apache-2.0
"""Messages are cheaper than the libraries make them, and nothing else is different."""

import contextlib
import datetime
import json
import math
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

import orjson
import pytest
from kombu import serialization
from oslo_config import cfg
from oslo_messaging import opts, transport
from oslo_messaging._drivers import common, impl_rabbit
from oslo_serialization import jsonutils

from zun.common import broker
from zun.objects.container import Container

HEARTBEAT = 8  # a frame that says nothing more
METHOD, BLOCKED = 1, (10, 60)


@pytest.fixture
def sender():
    """A connection to a broker in this process."""
    conf = cfg.ConfigOpts()
    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)
    url = transport.TransportURL.parse(conf, "kombu+memory:///")
    connection = impl_rabbit.Connection(conf, url, common.PURPOSE_SEND)
    yield connection
    connection.close()


def test_what_works_is_done_once(sender):
    done = []
    sender.ensure(lambda: done.append(1))
    assert done == [1]


def test_what_a_lost_connection_broke_is_done_again(sender):
    """On a new channel, after the library's own reaction to the error."""
    channels, errors = [], []

    def method():
        channels.append(sender.channel)
        if len(channels) == 1:
            raise sender.connection.recoverable_connection_errors[0]("gone")

    sender.ensure(method, recoverable_error_callback=errors.append)
    first, second = channels
    assert first is not second and [str(error) for error in errors] == ["gone"]


def test_what_never_works_is_an_error_of_the_library(sender):
    def method():
        raise sender.connection.recoverable_connection_errors[0]("gone")

    with pytest.raises(impl_rabbit.exceptions.MessageDeliveryFailure, match="gone"):
        sender.ensure(method, retry=0)


def test_nothing_to_read_is_nothing_to_repeat(sender):
    calls = []

    def method():
        calls.append(1)
        raise common.Timeout

    with pytest.raises(common.Timeout):
        sender.ensure(method)
    assert calls == [1]


@pytest.fixture
def wire():
    """Both ends of a connection: the transport that reads, and the socket of who writes."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        reader = broker._Transport(f"127.0.0.1:{server.getsockname()[1]}", 10)
        reader.connect()
        stack.callback(reader.close)
        there = stack.enter_context(server.accept()[0])
        yield reader, there


def frame(payload):
    return struct.pack(">BHI", HEARTBEAT, 0, len(payload)) + payload + b"\xce"


def test_frames_that_came_together_are_read_together(wire):
    reader, there = wire
    there.sendall(frame(b"one") + frame(b"") + frame(b"x" * 3 * broker.READ_BYTES))
    assert reader.read_frame() == (HEARTBEAT, 0, b"one")
    assert reader.read_frame() == (HEARTBEAT, 0, b"")
    assert reader.read_frame() == (HEARTBEAT, 0, b"x" * 3 * broker.READ_BYTES)


def test_half_a_frame_is_kept(wire):
    reader, there = wire
    whole = frame(b"late")
    there.sendall(whole[:9])
    with pytest.raises(TimeoutError), reader.having_timeout(0.05):
        reader.read_frame()
    there.sendall(whole[9:])
    assert reader.read_frame() == (HEARTBEAT, 0, b"late")


def test_a_timeout_makes_no_call_longer(wire):
    """Python's own takes a socket out of blocking mode, and then polls it before each call."""
    reader, there = wire
    for seconds in (5, None):
        reader.sock.settimeout(seconds)
        assert (reader.sock.gettimeout(), os.get_blocking(reader.sock.fileno())) == (seconds, True)
    there.sendall(frame(b"now"))
    assert reader.read_frame() == (HEARTBEAT, 0, b"now")


@pytest.mark.parametrize("seconds", [0.05, 0], ids=["a-while", "not-at-all"])
def test_what_takes_too_long_is_given_up(wire, seconds):
    reader, _there = wire
    reader.sock.settimeout(seconds)
    with pytest.raises(TimeoutError):
        reader.read_frame()
    with pytest.raises(TimeoutError):
        reader.write(memoryview(b"x" * 100_000_000))  # nobody reads it


def test_a_read_may_have_a_timeout_of_its_own(wire):
    reader, there = wire
    connection = broker._Connection("nowhere")
    connection._transport, connection.on_inbound_frame = reader, list
    reader.sock.settimeout(20)
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        connection.blocking_read(0.05)
    assert time.monotonic() - start < 15
    later = threading.Timer(0.2, there.sendall, [frame(b"late")])
    later.start()
    assert connection.blocking_read() == [HEARTBEAT, 0, b"late"]
    later.join()


def test_a_broker_that_takes_no_messages_is_waited_for_as_long_as_was_said(wire, sender):
    """An alarm of its memory or disk: it tells so and reads nothing more, nor confirms anything, till it is over."""
    reader, there = wire
    told = []
    connection = broker._Connection("nowhere", on_blocked=told.append)
    connection._transport = reader
    connection.on_inbound_frame = connection.frame_handler_cls(connection, connection.on_inbound_method)
    reason = b"low on memory"
    payload = struct.pack(">HHB", *BLOCKED, len(reason)) + reason
    there.sendall(3 * (struct.pack(">BHI", METHOD, 0, len(payload)) + payload + b"\xce"))
    for without_end in (None, -1):
        sender.ensure(connection.blocking_read, retry=without_end)  # who publishes waits for what comes next
    with pytest.raises(impl_rabbit.exceptions.MessageDeliveryFailure, match="rabbitmq-diagnostics alarms"):
        sender.ensure(connection.blocking_read, retry=5)
    assert len(told) == 3 and not connection.connected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": [1, 2.5, None, True, "ä€😀"], "b": {"c": ""}}, id="plain"),
        pytest.param({"output": "\udc80 no character"}, id="half-a-character"),
        pytest.param({"number": 2**70}, id="large-number"),
    ],
)
def test_messages_are_the_json_they_were(value):
    sent = common.serialize_msg(value)
    content_type, encoding, body = serialization.dumps(sent)
    assert body == orjson.dumps(sent).decode()
    assert json.loads(json.loads(body)["oslo.message"]) == value
    received = serialization.loads(memoryview(body.encode()), content_type, encoding)
    assert common.deserialize_msg(received) == value


def test_what_is_no_json_becomes_what_the_library_makes_of_it():
    for value in ({1: {2}}, [datetime.datetime(2026, 1, 2)], {"uuid": uuid.UUID(int=5)}, (1, (2,))):
        assert json.loads(broker._Json.dumps(value)) == json.loads(jsonutils.dumps(value))
    assert math.isnan(broker._Json.loads("[NaN]")[0])  # another side's library may write it


def test_an_object_inside_an_argument_is_refused():
    """The libraries would make a dictionary of it, without a word."""
    with pytest.raises(TypeError) as caught:
        common.jsonutils.dumps({"containers": [Container(name="web")]})
    assert "a Container is inside an argument" in str(caught.value.__cause__)


def test_libraries_that_have_changed_are_left_as_they_are():
    code = """if True:
        from oslo_service import backend
        backend.init_backend(backend.BackendType.THREADING)
        from oslo_messaging._drivers import common, impl_rabbit
        theirs = common.jsonutils
        del impl_rabbit.Connection.ensure
        import zun.common.rpc
        assert common.jsonutils is theirs
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Messages cost more than they need" in done.stderr and "'ensure'" in done.stderr
