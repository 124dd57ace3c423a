# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.messaging import rpc


class Endpoint:
    def __init__(self):
        self.release = threading.Event()
        self.seen = []
        self.arrived = threading.Semaphore(0)

    def double(self, context, *, value):
        return {"value": value * 2, "user": context.user_id, "request": context.request_id}

    def wait(self, context):
        self.release.wait(10)

    def refuse(self, context):
        raise exceptions.ContainerNotFound(container="c1")

    def note(self, context, *, values):
        self.seen.append(values)
        self.arrived.release()


@pytest.fixture
def start(request):
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{request.node.name}")
    servers = []

    def start(server, endpoint):
        servers.append(rpc.get_server(transport, "topic", server, [endpoint]))
        servers[-1].start()
        return rpc.get_client(transport, "topic", "1.0")

    yield start
    for server in servers:
        server.stop()
        server.wait()


CONTEXT = RequestContext(user_id="alice", project_id="demo")


def test_a_call_carries_context_and_returns_the_answer(start):
    client = start("one", Endpoint())
    answer = client.prepare(server="one", timeout=60).call(CONTEXT, "double", value=21)
    assert answer == {"value": 42, "user": "alice", "request": CONTEXT.request_id}


def test_a_call_times_out_as_with_a_broker(start):
    endpoint = Endpoint()
    client = start("one", endpoint)
    with pytest.raises(exceptions.HostUnavailable), rpc.answers_from("one"):
        client.prepare(server="one", timeout=0.05).call(CONTEXT, "wait")
    endpoint.release.set()


def test_an_error_of_ours_comes_back_as_itself(start):
    client = start("one", Endpoint())
    with pytest.raises(exceptions.ContainerNotFound) as caught, rpc.answers_from("one"):
        client.prepare(server="one", timeout=60).call(CONTEXT, "refuse")
    assert type(caught.value) is exceptions.ContainerNotFound
    assert str(caught.value) == "Container c1 could not be found. List them with 'openstack appcontainer list'."


def test_messages_are_copied_and_queues_outlive_their_readers(start):
    values = [1]
    endpoint = Endpoint()
    client = start("one", endpoint)
    client.prepare(server="later").cast(CONTEXT, "note", values=values)
    values.append(2)
    later = Endpoint()
    start("later", later)
    assert later.arrived.acquire(timeout=60)
    assert later.seen == [[1]] and endpoint.seen == []


def test_fanout_reaches_every_server(start):
    endpoints = [Endpoint(), Endpoint()]
    clients = [start(name, endpoint) for name, endpoint in zip(("one", "two"), endpoints, strict=True)]
    clients[0].prepare(fanout=True).cast(CONTEXT, "note", values=[7])
    assert all(endpoint.arrived.acquire(timeout=60) for endpoint in endpoints)
    assert [endpoint.seen for endpoint in endpoints] == [[[7]], [[7]]]
