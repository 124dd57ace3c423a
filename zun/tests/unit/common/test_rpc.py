# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from zun.common import exceptions, rpc
from zun.common.context import RequestContext

CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])


class Endpoint:
    """Fails as it is told to."""

    def fail(self, context, *, error, fields):
        raise exceptions.by_name(error)(**fields)

    def crash(self, context):
        raise ZeroDivisionError("something secret of a traceback")

    def who(self, context):
        return {"user": context.user_id, "admin": context.is_admin}


@pytest.fixture
def client(request):
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{request.node.name}")
    server = rpc.get_server(transport, "topic", "h1", [Endpoint()])
    server.start()
    yield rpc.get_client(transport, "topic", "1.0").prepare(server="h1", timeout=10)
    server.stop()
    server.wait()


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        ("ContainerNotFound", {"container": "c1"}),
        ("ClaimRefused", {"host": "h1", "reason": "no cell has 4 CPUs free"}),
        ("InvalidStateException", {"action": "stop", "uuid": "c1", "status": "Paused"}),
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


def test_a_crash_over_there_is_told_without_its_traceback(client):
    with pytest.raises(exceptions.ZunError) as caught, rpc.answers_from("h1"):
        client.call(CONTEXT, "crash")
    assert type(caught.value) is exceptions.ZunError
    assert str(caught.value) == "Host h1 failed: ZeroDivisionError: something secret of a traceback"


def test_nobody_there_is_an_unavailable_host(client):
    with pytest.raises(exceptions.HostUnavailable, match="on host h2 does not answer"), rpc.answers_from("h2"):
        client.prepare(server="h2", timeout=0.05).call(CONTEXT, "who")


def test_the_caller_is_known_over_there(client):
    with rpc.answers_from("h1"):
        assert client.call(CONTEXT, "who") == {"user": "alice", "admin": False}


def test_a_full_queue_is_an_unavailable_host(client):
    from zun.common.inproc import QUEUE_LIMIT

    nobody = client.prepare(server="nobody-reads")
    for _ in range(QUEUE_LIMIT):
        nobody.cast(CONTEXT, "who")
    with pytest.raises(exceptions.HostUnavailable), rpc.answers_from("nobody-reads"):
        nobody.cast(CONTEXT, "who")
