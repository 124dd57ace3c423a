# SPDX-License-Identifier: Apache-2.0
"""What a channel sends for its user. The connection is none, and the library's methods are recorded."""

import amqp
import pytest
from kombu.transport import pyamqp

from zun.messaging import channels


class Wireless:
    def __init__(self, user):
        self.user = user


@pytest.fixture
def sent(monkeypatch):
    """Method and arguments that reach the library."""
    found = []

    def record(name):
        def method(self, *arguments, **named):
            found.append((name, *arguments, named))

        return method

    for name in ("_basic_publish", "basic_publish", "basic_publish_confirm", "exchange_declare", "queue_declare"):
        monkeypatch.setattr(pyamqp.Channel, name, record(name), raising=False)
    for name in ("queue_bind", "exchange_bind"):
        monkeypatch.setattr(pyamqp.Channel, name, record(name))
    return found


def channel(user):
    made = channels.Channel.__new__(channels.Channel)
    made.connection = Wireless(user)
    return made


@pytest.mark.parametrize("method", ["basic_publish", "basic_publish_confirm"])
@pytest.mark.parametrize(
    ("user", "exchange", "key", "to", "properties"),
    [
        pytest.param("zun", "zun", "zun.scheduler", "zun", {"user_id": "zun", "expiration": "600000"}, id="cast"),
        pytest.param("zun", "", "reply_1", "", {"user_id": "zun"}, id="answer"),
        pytest.param("zun", "zun", "notifications.info", "zun", {"user_id": "zun"}, id="notification"),
        pytest.param(None, "zun", "zun.scheduler", "zun", {"expiration": "600000"}, id="by-certificate"),
        pytest.param("zun-compute.h1", "", "reply_1", "zun.replies", {"user_id": "zun-compute.h1"}, id="of-a-host"),
    ],
)
def test_messages_are_marked(sent, method, user, exchange, key, to, properties):
    message = amqp.Message("x")
    getattr(channel(user), method)(message, exchange=exchange, routing_key=key, mandatory=True)
    assert sent == [(method, message, to, key, {"mandatory": True})]
    assert message.properties == properties


def test_a_call_expires_with_its_timeout(sent):
    message = amqp.Message("x", expiration="5000")
    channel("zun").basic_publish(message, exchange="zun.hosts", routing_key="zun.compute.h1")
    assert message.properties["expiration"] == "5000"


@pytest.mark.parametrize(
    ("user", "exchange", "passive"),
    [
        ("zun", "zun", False),
        ("zun-api", "zun", False),
        ("zun-compute.h1", "zun", True),
        ("zun-compute.h1", "zun.scheduler_fanout", True),
        ("zun-compute.h1", "zun.compute.h1_fanout", False),
        ("zun-compute.h1", "zun.compute.h2_fanout", True),
    ],
)
def test_a_host_makes_no_exchange_but_its_own(sent, user, exchange, passive):
    channel(user).exchange_declare(exchange=exchange, type="topic", durable=True)
    assert sent == [("exchange_declare", exchange, "topic", {"passive": passive, "durable": True})]


@pytest.mark.parametrize(
    ("user", "leads"), [("zun", True), ("zun-api", False), ("zun-compute.h1", False), (None, False)]
)
def test_shared_user_reaches_hosts_of_before_1_0(sent, user, leads):
    channel(user).exchange_declare(exchange="zun.hosts", type="topic", durable=True)
    former = [
        ("exchange_declare", "zun", "topic", {"durable": True}),
        ("exchange_bind", "zun", "zun.hosts", "zun.compute.#", {}),
    ]
    assert sent[1:] == (former if leads else [])


def test_queues_for_answers_are_bound(sent):
    channel("zun-api").queue_declare(queue="reply_1", durable=True)
    channel("zun-api").queue_declare(queue="zun.scheduler")
    channel("zun-compute.h1").queue_declare(queue="reply_h1:zun-compute:1")
    assert sent == [
        ("queue_declare", "reply_1", {"durable": True}),
        ("exchange_declare", "zun.replies", "topic", {"durable": True, "auto_delete": False}),
        ("queue_bind", "reply_1", "zun.replies", "reply_1", {}),
        ("queue_declare", "zun.scheduler", {}),
        ("queue_declare", "reply_h1:zun-compute:1", {}),
    ]
