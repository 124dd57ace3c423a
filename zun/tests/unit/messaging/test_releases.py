# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_config import cfg

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.container.creation import Order
from zun.messaging import releases, rpc
from zun.messaging.compute_api import MESSAGES, ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container
from zun.tests.unit.messaging import wire


class OldHost:
    """A zun-compute of RPC version 1.0, which remembers its messages."""

    def __init__(self):
        self.seen = []

    def delete(self, context, *, container, force, stop_timeout):
        self.seen.append(container)
        return "deleted"


def test_a_pin_is_a_known_release():
    assert releases.pinned("compute", None) is None
    assert releases.pinned("compute", "1.0") is releases.RELEASES["1.0"]
    with pytest.raises(exceptions.Misconfigured, match=r"upgrade_levels\] compute must be a release \(1.0.*'stein'"):
        releases.pinned("compute", "stein")


@pytest.fixture
def pinned(monkeypatch):
    """The client of a release whose Container has a new field, pinned to the release before, and its old host."""
    monkeypatch.setattr(Container, "VERSION", "1.9")
    monkeypatch.setattr(Container, "ADDED", {"mounts": "1.9"})
    before = releases.Release(compute="1.0", scheduler="1.0", conductor="1.0", objects={"Container": "1.8"})
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")
    host = OldHost()
    server = rpc.get_host_server(transport, "h1", [host])
    server.start()
    yield ComputeAPI(transport, pin=before), host
    server.stop()
    server.wait()


def test_a_pinned_client_refuses_newer_messages(context, pinned):
    client, host = pinned
    with pytest.raises(exceptions.Unavailable, match=r"being upgraded.*upgrade_levels"):
        client.act(context, Container(context, host="h1"), "rebuild", {})
    assert host.seen == []


def test_a_pinned_client_sends_no_newer_fields(context, pinned):
    client, host = pinned
    with rpc.answers_from("h1"):
        sent = Container(context, host="h1", mounts=["a"])
        client._call(context, sent, "delete", force=False, stop_timeout=None)
    assert host.seen[0].host == "h1"
    assert host.seen[0].mounts is None, "the host fills in what the release before does not send"


@pytest.fixture
def sent(monkeypatch):
    """What clients send: method, version and arguments by name."""
    found = []

    def tell(self, context, host, method, version="1.0", **arguments):
        found.append((host, method, version, arguments))

    monkeypatch.setattr(ComputeAPI, "_tell", tell)
    return found


def arguments_of(message):
    """Return the arguments of a message to a host of the release before, whatever their values."""
    found = wire.described()["ComputeEndpoint"]["methods"][message].replace("?", "").split(", ")
    return dict.fromkeys(each for each in found if each != "container")


@pytest.mark.parametrize("action", MESSAGES)
def test_a_pinned_client_sends_the_arguments(context, sent, action):
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")
    container, (message, version) = Container(context, uuid="7c1e4b2a", host="h1"), MESSAGES[action]
    arguments = arguments_of(message)
    for pin in (releases.RELEASES["1.0"], None):
        ComputeAPI(transport, pin=pin).act(context, container, action, arguments)
    old = ("h1", message, version, {"container": container, **arguments})
    assert sent == [old, ("h1", "look", "1.6", {"uuid": "7c1e4b2a"})]


def request_of(context, name):
    asked = {"container": Container(context, name=name), "limits": {"disk": 1}, "alternates": [], "tried": {}}
    return asked, {"context": context, **asked}


def test_a_host_of_the_release_before_gets_single_messages(context, sent):
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")
    (first, one), (second, two) = request_of(context, "a"), request_of(context, "b")
    ComputeAPI(transport, pin=releases.RELEASES["1.0"]).create_many("h1", [one, two])
    assert sent == [("h1", "create", "1.0", first), ("h1", "create", "1.0", second)]
    sent.clear()
    ComputeAPI(transport).create_many("h1", [one, two])
    order = {"limits": {"disk": 1}, "alternates": [], "tried": {}}
    containers = [first["container"], second["container"]]
    assert sent == [("h1", "create_many", "1.7", {"containers": containers, "orders": [order, order]})]
    sent.clear()
    ComputeAPI(transport).create_many("h1", [one])
    assert sent == [("h1", "create", "1.0", first)], "one container needs no newer message"


def test_an_order_has_the_context_of_whoever_asked(context, sent):
    other = RequestContext(user_id="bob", project_id="bobs", roles=["member"])
    _, one = request_of(context, "a")
    _, two = request_of(other, "b")
    ComputeAPI(rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")).create_many("h1", [one, two])
    orders = sent[0][3]["orders"]
    assert [each.get("context") for each in orders] == [None, other.to_message()]
    found = [Order.of(context, each["container"], order) for each, order in zip([one, two], orders, strict=True)]
    assert [each.context.to_message() for each in found] == [context.to_message(), other.to_message()]


def test_objects_of_a_list_are_sent_as_the_pin_says(context):
    sent = rpc.ContextSerializer({"Container": "1.5"}).serialize_entity(context, [Container(context, name="a")])
    assert [each["zun_object.version"] for each in sent] == ["1.5"]
    assert [each.name for each in rpc.ContextSerializer().deserialize_entity(context, sent)] == ["a"]


def test_moves_need_hosts_and_schedulers_of_this_release(context):
    transport = rpc.get_transport(cfg.CONF, f"inproc:///{__name__}")
    for pin, known in ((releases.RELEASES["1.0"], False), (None, True)):
        compute = ComputeAPI(transport, pin=pin)
        assert (compute.can_act("start"), compute.can_act("move")) == (True, known)
    old = SchedulerAPI(transport, pin=releases.RELEASES["1.0"])
    with pytest.raises(exceptions.Conflict, match="plan no moves"):
        old.find_moves(context, Container())
    with pytest.raises(exceptions.Conflict, match="plan no moves"):
        old.find_places(context, [], "h1")


@pytest.mark.parametrize(
    "ask",
    [
        lambda scheduler, context: scheduler.dry_run(context, Container(), count=1),
        lambda scheduler, context: scheduler.find_moves(context, Container()),
        lambda scheduler, context: scheduler.find_places(context, ["7c1e4b2a"], "h1"),
    ],
    ids=["dry_run", "find_moves", "find_places"],
)
def test_no_answer_names_the_scheduler(context, ask):
    """The error of a silent host tells to look at compute services, which are none of its business here."""
    silent = SchedulerAPI(rpc.get_transport(cfg.CONF, f"inproc:///{__name__}.silent"), timeout=0.1)
    with pytest.raises(exceptions.SchedulerUnavailable):
        ask(silent, context)
