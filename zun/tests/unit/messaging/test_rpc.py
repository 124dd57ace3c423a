# SPDX-License-Identifier: Apache-2.0
import logging
import threading

import kombu.message
import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_messaging._drivers.amqpdriver import AMQPIncomingMessage
from oslo_messaging._drivers.common import deserialize_remote_exception, serialize_remote_exception
from oslo_messaging._drivers.impl_rabbit import RabbitMessage
from prometheus_client import REGISTRY

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.messaging import rpc
from zun.messaging.inproc import QUEUE_LIMIT
from zun.tests.fixtures import wait_for

CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])


class Endpoint:
    """Fails as it is told to."""

    def fail(self, context, *, error, fields):
        raise exceptions.by_name(error)(**fields)

    def need_database(self, context):
        raise db_exc.DBConnectionError(Exception("(2003, 'Connection refused')"))

    def who(self, context):
        return {"user": context.user_id, "admin": context.is_admin}


@pytest.fixture(scope="module")
def client():
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")
    server = rpc.get_server(transport, "topic", "h1", [Endpoint()])
    server.start()
    yield rpc.get_client(transport, "topic", "1.0").prepare(server="h1", timeout=60)
    server.stop()
    server.wait()


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        ("ContainerNotFound", {"container": "c1"}),
        ("ClaimRefused", {"host": "h1", "reason": "no cell has 4 CPUs free"}),
        ("InvalidStateException", {"action": "stop", "uuid": "c1", "status": "Paused", "allowed": "Running"}),
        ("Unavailable", {}),
        ("ZunError", {}),
    ],
)
def test_a_failure_over_there_is_the_same_failure_here(client, error, fields):
    raised = exceptions.by_name(error)
    with pytest.raises(raised) as caught, rpc.answers_from("h1"):
        client.call(CONTEXT, "fail", error=error, fields=fields)
    assert type(caught.value) is raised
    assert str(caught.value) == str(raised(**fields))


def test_an_outage_is_one_line_in_the_log_of_the_server(client, caplog):
    with pytest.raises(db_exc.DBConnectionError):
        client.call(CONTEXT, "need_database")
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(line.name, line.levelname, line.exc_info) for line in lines] == [("zun.messaging.rpc", "WARNING", None)]
    assert "need_database" in lines[0].getMessage()
    assert "Connection refused" in lines[0].getMessage()


def remote(error, *args):
    """The exception that a caller sees for a failure of the other side: a class of its own, found by its name."""
    return type(f"{error.__name__}_Remote", (error,), {})(*args)


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        pytest.param(
            remote(exceptions.ContainerNotFound, "Container c1 could not be found."),
            exceptions.ContainerNotFound,
            "Container c1 could not be found.",
            id="rebuilt-from-its-name",
        ),
        pytest.param(
            oslo_messaging.RemoteError("DBConnectionError", "(2013, 'Lost')\n[SQL: secret]", ["Traceback ..."]),
            exceptions.Unavailable,
            "The database does not answer the service that was asked. Try again; tell the operator if it stays so.",
            id="database-away",
        ),
        pytest.param(
            oslo_messaging.RemoteError("UnsupportedVersion", "Endpoint does not support RPC version 1.4.", []),
            exceptions.Unavailable,
            "Host h1 runs an older release that cannot do this. Try again when it is upgraded.",
            id="older-release",
        ),
        pytest.param(
            oslo_messaging.RemoteError("OperationalError", "database is away", ["Traceback ...", "secret"]),
            exceptions.ZunError,
            "Host h1 failed: OperationalError: database is away",
            id="a-crash-without-its-traceback",
        ),
        pytest.param(
            oslo_messaging.MessagingTimeout("no answer"),
            exceptions.HostUnavailable,
            str(exceptions.HostUnavailable(host="h1")),
            id="no-answer",
        ),
        pytest.param(
            oslo_messaging.MessageDeliveryFailure("no queue"),
            exceptions.HostUnavailable,
            str(exceptions.HostUnavailable(host="h1")),
            id="not-delivered",
        ),
    ],
)
def test_what_can_go_wrong_with_a_call_becomes_our_own_failure(raised, expected, text):
    with pytest.raises(exceptions.ZunError) as caught, rpc.answers_from("h1"):
        raise raised
    assert (type(caught.value), str(caught.value)) == (expected, text)


class CapsuleAsleep(exceptions.ContainerVanished):
    """An exception of a later release: this release does not find its name."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (exceptions.ContainerVanished(container="c1"), exceptions.ContainerVanished),
        (CapsuleAsleep(container="c1"), exceptions.Conflict),
        (exceptions.DockerError(error="no space"), exceptions.DockerError),
        (type("CephError", (exceptions.ZunError,), {})("no monitor"), exceptions.ZunError),
    ],
)
@pytest.mark.parametrize("broker", [False, True])
def test_unknown_remote_error_becomes_a_known_parent_class(raised, expected, broker):
    @rpc.expected
    def fail():
        raise raised

    with pytest.raises(oslo_messaging.ExpectedException) as met:
        fail()
    sent = met.value.exc_info[1]
    if broker:
        sent = deserialize_remote_exception(serialize_remote_exception(met.value.exc_info), [exceptions.__name__])
    with pytest.raises(exceptions.ZunError) as caught, rpc.answers_from("h1"):
        raise sent
    assert (type(caught.value), str(caught.value)) == (expected, str(raised))


def test_our_own_mistakes_are_not_dressed_up():
    with pytest.raises(ZeroDivisionError), rpc.answers_from("h1"):
        raise ZeroDivisionError


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_an_older_release_over_there_is_said_to_be_one(client, version):
    with pytest.raises(exceptions.Unavailable, match="Host h1 runs an older release"), rpc.answers_from("h1"):
        client.prepare(version=version).call(CONTEXT, "who")


def test_nobody_there_is_an_unavailable_host(client):
    with pytest.raises(exceptions.HostUnavailable, match="on the host does not answer"), rpc.answers_from("h2"):
        client.prepare(server="h2", timeout=0.05).call(CONTEXT, "who")


def test_the_caller_is_known_over_there(client):
    with rpc.answers_from("h1"):
        assert client.call(CONTEXT, "who") == {"user": "alice", "admin": False}


def test_a_full_queue_is_an_unavailable_host(client):
    nobody = client.prepare(server="nobody-reads")
    for _ in range(QUEUE_LIMIT):
        nobody.cast(CONTEXT, "who")
    with pytest.raises(exceptions.HostUnavailable), rpc.answers_from("nobody-reads"):
        nobody.cast(CONTEXT, "who")


def test_one_who_reads_no_more_keeps_nothing_from_the_others():
    heard = threading.Event()

    class Ear:
        @rpc.quick
        def hear(self, context):
            heard.set()

    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.fanout")
    gone, there = (rpc.get_server(transport, "topic", name, [Ear()]) for name in ("gone", "there"))
    for server in (gone, there):
        server.start()
    gone.stop()
    gone.wait()
    client = rpc.get_client(transport, "topic", "1.0")
    try:
        for _ in range(QUEUE_LIMIT):
            client.prepare(server="gone").cast(CONTEXT, "hear")
        client.prepare(fanout=True).cast(CONTEXT, "hear")
        assert heard.wait(60)
    finally:
        there.stop()
        there.wait()


def test_quick_methods_run_in_order_while_threads_are_busy():
    seen, done, free = [], threading.Event(), threading.Event()

    class Both:
        def slow(self, context):
            assert free.wait(60)

        @rpc.quick
        def note(self, context, *, number):
            seen.append(number)
            if number == 99:
                done.set()

    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.quick")
    server = rpc.get_server(transport, "topic", "h1", [Both()], threads=2)
    server.start()
    client = rpc.get_client(transport, "topic", "1.0").prepare(server="h1")
    try:
        for _ in range(3):
            client.cast(CONTEXT, "slow")
        for number in range(100):
            client.cast(CONTEXT, "note", number=number)
        assert done.wait(60)
        assert seen == list(range(100))
    finally:
        free.set()
        server.stop()
        server.wait()


def test_a_stop_waits_for_answers_under_way():
    began, free, answers = threading.Event(), threading.Event(), []

    class Slow:
        def answer(self, context):
            began.set()
            assert free.wait(60)
            return 42

    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.stop")
    server = rpc.get_server(transport, "topic", "h1", [Slow()])
    server.start()
    client = rpc.get_client(transport, "topic", "1.0").prepare(server="h1", timeout=60)
    asking = threading.Thread(target=lambda: answers.append(client.call(CONTEXT, "answer")))
    asking.start()
    assert began.wait(60)
    server.stop()
    free.set()
    server.wait()
    asking.join(60)
    assert answers == [42]


def test_messages_that_wait_are_counted():
    free = threading.Event()

    class Slow:
        def work(self, context):
            assert free.wait(60)

        @rpc.quick
        def note(self, context):
            pass

    def waiting():
        return REGISTRY.get_sample_value("zun_rpc_messages", {"topic": "slow"})

    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.waiting")
    server = rpc.get_server(transport, "slow", "h1", [Slow()], threads=2)
    server.start()
    client = rpc.get_client(transport, "slow", "1.0").prepare(server="h1")
    try:
        assert waiting() == 0
        for method in ("work", "note") * 5:
            client.cast(CONTEXT, method)
        wait_for(lambda: waiting() == 5)
        free.set()
        wait_for(lambda: waiting() == 0)
    finally:
        free.set()
        server.stop()
        server.wait()


def test_log_names_the_brokers_without_their_credentials(caplog):
    caplog.set_level("INFO", "zun.messaging.rpc")
    rpc.get_transport(cfg.CONF, "rabbit://zun:secret@h1:5673,zun:secret@h2/").cleanup()
    rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.told").cleanup()
    assert caplog.messages == ["Messages go over h1:5673, h2:5672"]


class Raw:
    def __init__(self, sender):
        self.properties = {} if sender is None else {"user_id": sender}
        self.delivery_info = {}


class Received(dict):
    """A message as the library hands it over: a dict that keeps what RabbitMQ sent."""

    def __init__(self, sender, method, arguments):
        super().__init__(method=method, args=arguments, version="1.0")
        self._raw_message = Raw(sender)


class Incoming:
    def __init__(self, message):
        self.message, self.ctxt, self.client_timeout = message, {}, None

    def reply(self, *_answer, **_failure):
        pass


class Told:
    def __init__(self):
        self.heard = []

    @rpc.from_hosts(lambda arguments: [arguments["host"]])
    @rpc.quick
    def tell(self, context, *, host, container=None):
        self.heard.append(host)

    @rpc.quick
    def order(self, context, *, container=None, containers=()):
        self.heard.append(container)


def of_host(host):
    return {rpc._OBJECT_NAME: "Container", rpc._OBJECT_DATA: {"host": host}}


@pytest.mark.parametrize(
    ("sender", "method", "arguments", "refused"),
    [
        pytest.param("zun-compute.h1", "tell", {"host": "h1"}, None, id="of-itself"),
        pytest.param("zun-compute.h1", "tell", {"host": "h2"}, "speaks for h2", id="of-another"),
        pytest.param("zun-compute.h1", "tell", {}, "which host speaks", id="of-nobody"),
        pytest.param("zun-compute.h1", "order", {}, "must not send it", id="an-order"),
        pytest.param("zun-compute.h1", "nonsense", {}, "must not send it", id="no-such-method"),
        pytest.param("zun-api", "order", {}, None, id="the-api"),
        pytest.param(None, "order", {}, "does not name the user", id="no-sender"),
        pytest.param("zun-api", "order", {"container": of_host("h2")}, "its container is on host h2", id="replayed"),
        pytest.param("zun-api", "order", {"container": "x"}, None, id="no-container"),
        pytest.param(
            "zun-api", "order", {"containers": [of_host("h1"), of_host("h2")]}, "its container is on host h2",
            id="one-of-many-replayed",
        ),
        pytest.param("zun-api", "order", {"containers": 1}, None, id="no-containers"),
    ],
)
def test_messages_of_the_wrong_sender_are_refused(caplog, sender, method, arguments, refused):
    told = Told()
    dispatcher = rpc._Dispatcher([told], None, "topic", named=True, host="h1")
    incoming = Incoming(Received(sender, method, arguments))
    if refused is None:
        dispatcher.dispatch(incoming)
    else:
        with pytest.raises(oslo_messaging.ExpectedException):
            dispatcher.dispatch(incoming)
        assert refused in caplog.text
    assert len(told.heard) == (refused is None)


def test_the_library_keeps_what_rabbitmq_sent():
    """``rpc._delivery`` reads a private name of the library. Without it every message would be refused."""
    sent = kombu.message.Message(
        body='{"method": "m"}',
        content_type="application/json",
        content_encoding="utf-8",
        properties={"user_id": "zun-api"},
        delivery_info={"routing_key": "zun.compute.h1"},
    )
    received = AMQPIncomingMessage(None, {}, RabbitMessage(sent), "unique", None, None, None, None, None)
    assert rpc._delivery(received) == rpc._Delivery("zun-api", "zun.compute.h1")
    assert rpc._delivery(Incoming({})) == rpc._Delivery()
