# SPDX-License-Identifier: Apache-2.0
"""The time that a thread waits for a broker: with ``waiting.Transport``, and with the library's own.

The tests of the library fail when it no longer waits without end. Then remove what they name from ``waiting``.
"""

import itertools
import socket
import struct
import threading
import time

import amqp
import amqp.transport
import kombu.messaging
import kombu.transport
import oslo_messaging
import pytest
from kombu.transport import pyamqp
from oslo_config import cfg

from zun.common import exceptions, outages
from zun.common.context import RequestContext
from zun.messaging import rpc, waiting
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container

CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
CONTAINER = Container(CONTEXT, uuid="1a4f3c1e-8f0e-4a86-9d4f-3a1b6c2d5e7f", host="h1")
_numbers = itertools.count()


@pytest.fixture
def over(monkeypatch):
    """Makes a transport of oslo.messaging over a kombu transport class, to a port where nobody listens."""
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda seconds: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def make(cls):
        name = f"test{next(_numbers)}"  # kombu remembers the class of a name
        monkeypatch.setitem(kombu.transport.TRANSPORT_ALIASES, name, lambda: cls)
        return rpc.get_transport(cfg.CONF, f"kombu+{name}://zun:secret@127.0.0.1:{port}/")

    return make


@pytest.fixture(autouse=True)
def staying(monkeypatch):
    for name in ("_leaving", "_accepted", "_told"):
        monkeypatch.setattr(waiting, name, threading.Event())


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize(
    "send",
    [
        lambda transport, retries: SchedulerAPI(transport, retries=retries).create(CONTEXT, CONTAINER),
        lambda transport, retries: ComputeAPI(transport, retries=retries).act(CONTEXT, CONTAINER, "start", {}),
        lambda transport, retries: ComputeAPI(transport, retries=retries).top(CONTEXT, CONTAINER),
    ],
    ids=["cast-to-any", "cast-to-one", "first-call"],
)
def test_a_sender_gives_up_after_its_retries(over, send, retries):
    attempts = []

    class Counted(waiting.Transport):
        def establish_connection(self):
            attempts.append(1)
            return super().establish_connection()

    with pytest.raises((*outages.UNDELIVERED, exceptions.HostUnavailable)):
        send(over(Counted), retries)
    assert len(attempts) == 1 + retries


@pytest.mark.parametrize("begun", [False, True])
def test_a_waiting_sender_gives_up_when_the_program_ends(over, begun):
    attempted, raised = threading.Event(), []

    class Watched(waiting.Transport):
        def establish_connection(self):
            try:
                return super().establish_connection()
            finally:
                attempted.set()

    def send():
        try:
            SchedulerAPI(over(Watched)).create(CONTEXT, CONTAINER)
        except outages.UNDELIVERED as exc:
            raised.append(str(exc))

    thread = threading.Thread(target=send, daemon=True)
    if begun:
        thread.start()
        assert attempted.wait(60)
    waiting.leave()
    if not begun:
        thread.start()
    thread.join(60)
    assert raised == ["the message queue is away, and this program ends"]


def test_a_server_gives_up_its_start_when_the_program_ends(over):
    waiting.leave()
    with pytest.raises(outages.UNDELIVERED, match="this program ends"):
        rpc.get_server(over(waiting.Transport), "topic", "h1", []).start()


@pytest.mark.parametrize("before", [False, True])
def test_a_refused_user_is_tried_again_if_it_was_let_in_before(monkeypatch, before):
    """Not at the start of a program, whose configuration is wrong."""

    def refuse(transport):
        raise amqp.AccessRefused("no such user")

    monkeypatch.setattr(pyamqp.Transport, "establish_connection", refuse)
    transport = waiting.Transport(kombu.Connection("amqp://"))
    if before:
        waiting._accepted.set()
    with pytest.raises(waiting.Refused if before else amqp.AccessRefused, match="no such user"):
        transport.establish_connection()
    assert issubclass(waiting.Refused, transport.recoverable_connection_errors)


@pytest.mark.parametrize(("leaving", "seconds"), [(False, 2), (True, 1)])
def test_an_answer_of_a_silent_broker_is_awaited_shorter_at_the_end(monkeypatch, caplog, leaving, seconds):
    """A socket has the time of two heartbeats for an answer."""
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 1)
    here, there = socket.socketpair()
    connection = waiting.Connection("nowhere")
    connection.transport = amqp.transport.TCPTransport("nowhere")
    connection.transport.sock = here
    here.settimeout(2)
    connection.transport._setup_transport()
    if leaving:
        waiting.leave()
    since = time.monotonic()
    with pytest.raises(TimeoutError, match="does not answer"):
        connection.drain_events()
    assert seconds <= time.monotonic() - since
    assert (here.fileno() < 0) == leaving and ("it has not answered for 1 s" in caplog.text) == leaving
    there.close()


BLOCKED = struct.pack(">BHIHHBsB", 1, 0, 6, 10, 60, 1, b"x", 0xCE)
"""The frame in which a broker says that it takes no messages."""


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        pytest.param(BLOCKED, 1, id="one"),
        pytest.param(BLOCKED * 3, 3, id="all-that-arrived"),
        pytest.param(BLOCKED * 25, waiting.TOGETHER, id="at-most-so-many"),
        pytest.param(BLOCKED + BLOCKED[:9], 1, id="the-second-in-part"),
    ],
)
def test_a_listener_reads_together_what_has_arrived(sent, read):
    told = []
    connection = waiting.Connection("nowhere", on_blocked=told.append)
    connection.transport = amqp.transport.TCPTransport("nowhere")
    connection.transport.sock, there = socket.socketpair()
    connection.transport._setup_transport()
    connection.transport.connected = True
    connection.on_inbound_frame = connection.frame_handler_cls(connection, connection.on_inbound_method)
    there.sendall(sent)
    connection.drain_events(timeout=0.05)
    assert len(told) == read
    there.close()


@pytest.mark.parametrize(("retries", "waits"), [(None, True), (5, False)])
def test_only_a_bounded_sender_gives_up_on_an_alarm(retries, waits):
    told = []
    connection = waiting.Connection("nowhere", on_blocked=told.append)
    with waiting.at_most(retries):
        if waits:
            connection.on_blocked("low on memory")
        else:
            with pytest.raises(waiting.GaveUp, match="rabbitmq-diagnostics alarms"):
                connection.on_blocked("low on memory")
    assert told == ["low on memory"] and not connection.connected


def test_patience_returns_after_a_bounded_message(over):
    with waiting.at_most(0), pytest.raises(waiting.GaveUp), waiting.at_most(3):
        raise waiting.GaveUp("anything")
    assert waiting._patience.attempts is None


def test_install_replaces_the_transport_of_rabbitmq(monkeypatch):
    monkeypatch.setitem(kombu.transport.TRANSPORT_ALIASES, "amqp", "somewhere:Else")
    waiting.install()
    assert kombu.transport.resolve_transport("amqp") is waiting.Transport


class Enough(Exception):
    """The library has tried more often than it was told to."""


class Patient(pyamqp.Transport):
    """The library's own transport, which refuses the third attempt for good."""

    attempts = 0

    def establish_connection(self):
        type(self).attempts += 1
        if self.attempts > 2:
            raise Enough
        return super().establish_connection()


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda over: rpc.get_server(over, "topic", "h1", []).start(), id="listener"),
        pytest.param(lambda over: ComputeAPI(over, retries=0).top(CONTEXT, CONTAINER), id="first-call"),
    ],
)
def test_the_library_connects_without_end(over, act):
    with pytest.raises(Enough):
        act(over(type("Patient", (Patient,), {})))


def test_the_library_waits_without_end_for_a_confirmation(monkeypatch):
    """It names no timeout where it publishes, nor does kombu: py-amqp waits while RabbitMQ has an alarm."""
    published = []
    monkeypatch.setattr(kombu.messaging.Producer, "publish", lambda self, body, **named: published.append(named))
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, "kombu+memory:///")
    ComputeAPI(transport, timeout=5, retries=0).act(CONTEXT, CONTAINER, "start", {})
    transport.cleanup()
    assert [named.keys() & {"timeout", "confirm_timeout"} for named in published] == [set()]
