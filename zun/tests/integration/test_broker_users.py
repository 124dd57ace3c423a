# SPDX-License-Identifier: Apache-2.0
"""A cloud of two hosts whose services have users of RabbitMQ, and an attacker with those of one host."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import threading
import types

import amqp
import kombu
import pytest
import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration import forks
from zun.tests.integration.own_rabbit import OwnRabbit, folder_of_own
from zun.tests.integration.programs import Api, free_port

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def rabbit():
    """A node of its own, since users and permissions are for the whole broker."""
    with folder_of_own() as folder:
        node = OwnRabbit(pathlib.Path(folder))
        yield node
        node.stop()


@pytest.fixture
def urls(rabbit_server, rabbit):
    """The transport_url of each user, as zun-broker-manage makes them."""

    def manage(*words):
        where = ("--run", "--rabbitmqctl", str(rabbit.rabbitmqctl), "--broker", f"127.0.0.1:{rabbit.port}")
        code, said = forks.run("zun.cmd.broker_manage", (*where, *words), 120)
        assert code == 0, said
        return dict(re.findall(r"^(\S+): transport_url = (\S+)$", said, re.MULTILINE))

    if ["zun"] in rabbit.rows("list_vhosts"):  # of the test before
        rabbit.control("delete_vhost", "zun")
    found = manage("setup") | manage("add-host", "h1") | manage("add-host", "h2")
    return types.SimpleNamespace(manage=manage, **{re.sub("[-.]", "_", name): url for name, url in found.items()})


@pytest.fixture
def make(program, database_url, tmp_path):
    """Makes a program of this test's cloud, with a transport_url."""
    database = {"connection": database_url}
    without = {"compute": {"container_driver": "fake", "database": "conductor"}}
    port = free_port()
    settings = {
        "compute": without,
        "wsproxy": without,
        "api": {"database": database, "api": {"port": port, "auth_strategy": "noauth"}},
        "scheduler": {"database": database, "scheduler": {"sweep_interval": 1, "lost_after": 3}},
    }
    code, said = program("db_manage", words=("upgrade",), DEFAULT={"host": "c"}, database=database).run_to_end()
    assert code == 0, said

    def make(module, who, url):
        (tmp_path / who).mkdir(exist_ok=True)
        return program(
            module,
            f"{module}-{who}",
            DEFAULT={"host": who, "transport_url": url, "state_path": tmp_path / who},
            oslo_messaging_rabbit={"rabbit_quorum_queue": "true"},
            **settings.get(module, {"database": database}),
        )

    make.api = Api(f"http://127.0.0.1:{port}/v1")
    return make


def start(programs):
    """Start all at the same time, since hosts wait for a conductor."""
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as threads:
        list(threads.map(lambda each: each.start(), programs))


@pytest.fixture
def cloud(urls, make):
    """``api``, ``scheduler`` and the hosts ``h1`` and ``h2``, whose containers are in memory."""
    hosts = {"h1": make("compute", "h1", urls.zun_compute_h1), "h2": make("compute", "h2", urls.zun_compute_h2)}
    proxy, server = make("wsproxy", "h1", urls.zun_compute_h1), make("api", "c", urls.zun_api)
    conductor, scheduler = make("conductor", "c", urls.zun_conductor), make("scheduler", "c", urls.zun_scheduler)
    programs = (conductor, *hosts.values(), proxy, scheduler, server)
    start(programs)
    return types.SimpleNamespace(api=make.api, scheduler=scheduler, conductor=conductor, hosts=hosts, programs=programs)


def run_on(cloud, host):
    shown = cloud.api.settled(cloud.api.run(cpu=0.1, memory=64, host=host))
    assert (shown["status"], shown["host"]) == ("Running", host), shown["status_reason"]
    return shown["uuid"]


class Attacker:
    """Somebody with the credentials at ``url`` and a plain client."""

    def __init__(self, url):
        self._url = url.replace("rabbit://", "amqp://", 1)

    def does(self, what):
        """Call ``what`` with a channel, and return "done" or the name of the broker's refusal."""
        with kombu.Connection(self._url, transport_options={"confirm_publish": True}) as connection:
            try:
                what(connection.channel())
            except amqp.AMQPError as exc:
                return type(exc).__name__
        return "done"


def message(method, sender=None, **arguments):
    body = {"method": method, "args": arguments, "version": "1.0", "_unique_id": "f" * 32, "_context_roles": ["admin"]}
    envelope = {"oslo.version": "2.0", "oslo.message": json.dumps(body)}
    named = {} if sender is None else {"user_id": sender}
    return amqp.Message(json.dumps(envelope), content_type="application/json", content_encoding="utf-8", **named)


def publish(exchange, key):
    return lambda channel: channel.basic_publish(message("start"), exchange, key)


def bound(exchange, key):
    def bind(channel):
        channel.queue_declare("zun.compute.h1_fanout_evil", auto_delete=True)
        channel.queue_bind("zun.compute.h1_fanout_evil", exchange, key)

    return bind


def dead_letters(exchange, key=None):
    arguments = {"x-dead-letter-exchange": exchange, "x-message-ttl": 1} | (
        {"x-dead-letter-routing-key": key} if key else {}
    )
    return lambda channel: channel.queue_declare("zun.compute.h1_fanout_dead", auto_delete=True, arguments=arguments)


def bridge(source, destination):
    def bind(channel):
        channel.exchange_declare("zun.compute.h1", "fanout", auto_delete=True)
        channel.exchange_bind(destination, source, "#")

    return bind


ATTACKS = {
    "publish to the other host by the default exchange": publish("", "zun.compute.h2"),
    "publish to the other host": publish("zun.hosts", "zun.compute.h2"),
    "publish to itself": publish("zun.hosts", "zun.compute.h1"),
    "publish to the other host among messages to schedulers": publish("zun", "zun.compute.h2"),
    "publish to one scheduler": publish("zun", "zun.scheduler.c"),
    "call conductors as the other host": publish("zun", "zun.conductor.h2"),
    "read calls to conductors": lambda channel: channel.basic_get("zun.conductor.#"),
    "publish to all hosts": publish("zun.compute.h2_fanout", ""),
    "publish to somebody's queue for answers": publish("", "reply_" + "0" * 32),
    "publish something else than an answer": publish("zun.replies", "zun.compute.h2"),
    "read the other host's queue": lambda channel: channel.basic_get("zun.compute.h2"),
    "consume the other host's queue": lambda channel: channel.basic_consume("zun.compute.h2"),
    "empty the other host's queue": lambda channel: channel.queue_purge("zun.compute.h2"),
    "remove the other host's queue": lambda channel: channel.queue_delete("zun.compute.h2"),
    "read the schedulers' queue": lambda channel: channel.basic_get("zun.scheduler"),
    "remove the schedulers' queue": lambda channel: channel.queue_delete("zun.scheduler"),
    "hear everything for hosts": bound("zun.hosts", "#"),
    "hear all hosts": bound("zun.hosts", "zun.compute.*"),
    "hear the other host": bound("zun.hosts", "zun.compute.h2"),
    "hear requests to schedulers": bound("zun", "zun.scheduler"),
    "hear what hosts tell schedulers": bound("zun.scheduler_fanout", ""),
    "hear answers": bound("zun.replies", "#"),
    "unbind the other host": lambda channel: channel.queue_unbind("zun.compute.h2", "zun.hosts", "zun.compute.h2"),
    "bind the other host to what it may publish": lambda channel: channel.queue_bind("zun.compute.h2", "zun", "#"),
    "remove the exchange to hosts": lambda channel: channel.exchange_delete("zun.hosts"),
    "remove the exchange to schedulers": lambda channel: channel.exchange_delete("zun"),
    "remove the exchange of schedulers' news": lambda channel: channel.exchange_delete("zun.scheduler_fanout"),
    "make an exchange": lambda channel: channel.exchange_declare("evil", "topic"),
    "make a queue": lambda channel: channel.queue_declare("evil"),
    "have dead letters go to any queue": dead_letters("", "zun.compute.h2"),
    "have dead letters go to hosts": dead_letters("zun.hosts", "zun.compute.h2"),
    "lead an exchange of its own to hosts": bridge("zun.compute.h1", "zun.hosts"),
    "lead messages to hosts to an exchange of its own": bridge("zun.hosts", "zun.compute.h1"),
    "lead messages to schedulers to an exchange of its own": bridge("zun", "zun.compute.h1"),
}


def test_the_credentials_of_a_host_reach_no_other_host(cloud, urls, rabbit):
    containers = {host: run_on(cloud, host) for host in ("h1", "h2")}
    for uuid in containers.values():  # an answer comes over the exchange of answers
        answer = cloud.api.request("POST", f"/containers/{uuid}/execute?command=true")
        assert answer.status_code == 200, answer.text
    attacker = Attacker(urls.zun_compute_h1)
    answers = {name: attacker.does(attack) for name, attack in ATTACKS.items()}
    assert {name: said for name, said in answers.items() if said != "AccessRefused"} == {}
    queues = [name for (name,) in rabbit.rows("list_queues", "-p", "zun", "name")]
    for queue in queues:  # a host learns the names of queues for answers from the messages that it answers
        if queue.startswith("reply_") and not queue.startswith("reply_h1:"):
            assert attacker.does(lambda channel, name=queue: channel.basic_get(name)) == "AccessRefused", queue
    forged = message("create", "zun-scheduler")
    said = attacker.does(lambda channel: channel.basic_publish(forged, "zun", "zun.scheduler"))
    assert said == "PreconditionFailed"  # RabbitMQ compares the name of the sender
    check_what_schedulers_refuse(cloud, attacker, containers["h2"])
    check_what_conductors_refuse(cloud, attacker)
    inbox = Inbox(urls)
    check_late(cloud, inbox)
    check_twice(cloud, inbox)
    check_removed(cloud, urls, attacker)
    check_end(cloud)


def check_what_schedulers_refuse(cloud, attacker, uuid):
    """A host may send to schedulers. They act on what it says of itself only, and on nothing that names no sender."""
    change = {"host": "h2", "generation": 10**6, "uuid": None, "held": None, "failed": False}
    mine = "zun-compute.h1"
    sent = {
        "Message hosts_changed is refused: host h1 speaks for h2": message("hosts_changed", mine, changes=[change]),
        "Message create is refused: host h1 must not send it": message("create", mine, container={}),
        "Message claim_refused is refused: host h1 speaks for h2": message(
            "claim_refused", mine, host="h2", permit="x"
        ),
        "Message claim_refused is refused: its arguments do not say": message("claim_refused", mine, host="h1"),
        "Message scheduler_seen is refused: host h1 must not send it": message("scheduler_seen", mine, name="x"),
        "Message delete is refused: it does not name the user that sent it": message("delete"),
        "Message hosts_changed is refused: its arguments do not say": message("hosts_changed", mine, changes=3),
    }
    for number, (told, body) in enumerate(sent.items()):
        body.body = body.body.replace("f" * 32, f"{number:032}")
        assert attacker.does(lambda channel, body=body: channel.basic_publish(body, "zun", "zun.scheduler")) == "done"
        wait_for(lambda told=told: told in cloud.scheduler.log.read_text())
    assert cloud.api.get(f"/containers/{uuid}")["status"] == "Running"


def check_what_conductors_refuse(cloud, attacker):
    """An exchange of the host's own leads to conductors with any key, but RabbitMQ still tells who sent the message."""
    forged = message("object_class_action", "zun-compute.h1", name="Container", function="get_by_uuid")

    def call(channel):
        channel.exchange_declare("zun.compute.h1", "fanout", auto_delete=True)
        channel.exchange_bind("zun", "zun.compute.h1", "")
        channel.basic_publish(forged, "zun.compute.h1", "zun.conductor.h2")

    assert attacker.does(call) == "done"
    told = "Message object_class_action is refused: host h1 speaks for h2"
    wait_for(lambda: told in cloud.conductor.log.read_text())


class Inbox:
    """The queue of h2 while its agent is away, and the services that may send there."""

    def __init__(self, urls):
        self._urls, self._number = urls, 0

    def get(self):
        """Return the first message, which leaves the queue, or None."""
        with self._channel() as channel:
            return channel.basic_get("zun.compute.h2", no_ack=True)

    @contextlib.contextmanager
    def copies(self):
        """Give a function that returns the next message that the agent gets too, or None."""
        with self._channel() as channel:
            channel.queue_declare("zun.compute.h2_fanout_copy", auto_delete=True)
            channel.queue_bind("zun.compute.h2_fanout_copy", "zun.hosts", "zun.compute.h2")
            yield lambda: channel.basic_get("zun.compute.h2_fanout_copy", no_ack=True)

    @contextlib.contextmanager
    def _channel(self):
        with kombu.Connection(self._urls.zun_compute_h2.replace("rabbit://", "amqp://", 1)) as connection:
            yield connection.default_channel

    def send(self, found, **properties):
        """Send a message again, under another id: the library leaves out one that comes twice to one process."""
        self._number += 1
        envelope = json.loads(found.body)
        body = json.loads(envelope["oslo.message"]) | {"_unique_id": f"{self._number:032}"}
        text, sender = json.dumps(envelope | {"oslo.message": json.dumps(body)}), found.properties["user_id"]
        copy = amqp.Message(
            text, content_type="application/json", content_encoding="utf-8", user_id=sender, **properties
        )
        whose = Attacker(getattr(self._urls, sender.replace("-", "_")))
        assert whose.does(lambda channel: channel.basic_publish(copy, "zun.hosts", "zun.compute.h2")) == "done"


def check_late(cloud, inbox):
    """A message that nobody reads expires when its sender has been told that it was lost."""
    uuid = run_on(cloud, "h2")
    cloud.hosts["h2"].stop()
    assert cloud.api.request("POST", f"/containers/{uuid}/stop?timeout=1").status_code == 202
    waiting = wait_for(inbox.get)
    assert (waiting.properties["expiration"], waiting.properties["user_id"]) == ("600000", "zun-api")
    inbox.send(waiting, expiration="1")
    wait_for(lambda: inbox.get() is None)
    inbox.send(waiting)
    cloud.hosts["h2"].start()
    # The container was in the memory of the agent: the comparison at the start finds it lost, or the stop does before.
    told = re.compile(f"Container {uuid}(?: is Error by now: no stop|: stop failed)")
    wait_for(lambda: told.search(cloud.hosts["h2"].log.read_text()))
    assert len(told.findall(cloud.hosts["h2"].log.read_text())) == 1


def check_twice(cloud, inbox):
    """A message that comes twice creates one container. After the deletion of the container it creates none."""
    agent = cloud.hosts["h2"]
    agent.stop()
    uuid = cloud.api.run(cpu=0.1, memory=64, host="h2")
    waiting = wait_for(inbox.get)
    inbox.send(waiting)
    inbox.send(waiting)
    agent.start()
    wait_for(lambda: inbox.get() is None)
    assert cloud.api.settled(uuid)["status"] == "Running"
    assert [each["container"] for each in cloud.api.held()["h2"]].count(uuid) == 1
    check_twice_rebuilt_and_deleted(cloud, inbox, agent, uuid)
    inbox.send(waiting)
    wait_for(lambda: f"Container {uuid} needs no host any more" in agent.log.read_text())
    assert uuid not in [each["container"] for each in cloud.api.held()["h2"]]


def check_twice_rebuilt_and_deleted(cloud, inbox, agent, uuid):
    kept = run_on(cloud, "h2")
    with inbox.copies() as next_copy:
        assert cloud.api.request("POST", f"/containers/{uuid}/rebuild").status_code == 202
        rebuild = wait_for(next_copy)
        assert cloud.api.settled(uuid)["status"] == "Running"
        inbox.send(rebuild)
        assert wait_for(next_copy)  # what was sent again
        assert cloud.api.request("DELETE", f"/containers/{uuid}?force=true").status_code == 204
        deletion = wait_for(next_copy)
        wait_for(lambda: cloud.api.request("GET", f"/containers/{uuid}").status_code == 404)
        inbox.send(deletion)
    run_on(cloud, "h2")
    assert cloud.api.get(f"/containers/{kept}")["status"] == "Running"
    said = agent.log.read_text()
    assert said.count(f"Container {uuid} is Running after rebuild") == 1 and "Message delete failed" not in said


def check_removed(cloud, urls, attacker):
    """The old password of a user is nothing any more, and a removed host is nobody."""
    for name in ("h1", "zun-conductor", "zun-scheduler", "zun-api"):
        urls.manage("rotate", name)
    assert attacker.does(lambda channel: None) == "AccessRefused"
    urls.manage("remove-host", "h2")
    assert Attacker(urls.zun_compute_h2).does(lambda channel: None) == "AccessRefused"


def check_end(cloud):
    """Programs that are told to end while RabbitMQ does not serve them do so, and say why in one line."""
    running = [each.process for each in cloud.programs]
    for each in running:
        each.send_signal(signal.SIGTERM)  # one that waits for another would have to wait in vain
    assert [each.wait(60) for each in running] == [0] * len(running)
    for each in cloud.programs:
        said = each.log.read_text().rpartition("Stopping")[2]
        assert "Traceback" not in said, each.log
        waited = said.count("Ending without the message queue")
        assert waited == 1 if each in (cloud.conductor, *cloud.hosts.values()) else waited <= 1, each.log


class Requests(threading.Thread):
    """Somebody who runs and deletes containers on each host in turn. ``ended`` has what became of them."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self._api, self.ended, self.enough = Api(api.url), [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            for host in ("h1", "h2"):
                uuid = self._patiently(lambda host=host: self._api.run(cpu=0.1, memory=8, host=host))
                shown = self._patiently(lambda uuid=uuid: self._api.settled(uuid))
                self._patiently(lambda uuid=uuid: self._api.request("DELETE", f"/containers/{uuid}?force=true"))
                self.ended.append((shown["status"], shown["host"] == host, shown["status_reason"]))

    @staticmethod
    def _patiently(ask):
        """Ask again while the API is being restarted."""
        return wait_for(lambda: _unless_away(ask), 60)

    def goes_on(self):
        before = len(self.ended)
        wait_for(lambda: len(self.ended) >= before + 2, 60)


def _unless_away(ask):
    with contextlib.suppress(requests.ConnectionError):
        return ask()


def test_hosts_get_users_of_their_own_one_by_one(rabbit, urls, make):
    """The order of the page. No request is lost; until the end whoever has the shared user reaches every host."""
    rabbit.control("add_user", "zun", "zun")
    rabbit.control("set_permissions", "-p", "zun", "zun", ".*", ".*", ".*")
    shared = f"rabbit://zun:zun@127.0.0.1:{rabbit.port}/zun"
    order = {
        ("conductor", "c"): urls.zun_conductor,
        ("scheduler", "c"): urls.zun_scheduler,
        ("api", "c"): urls.zun_api,
        ("compute", "h1"): urls.zun_compute_h1,
        ("compute", "h2"): urls.zun_compute_h2,
    }
    running = {name: make(*name, shared) for name in order}
    start(running.values())
    client = Requests(make.api)
    client.start()
    client.goes_on()
    attack = publish("zun.hosts", "zun.compute.h2")
    for name, url in order.items():
        running[name].stop()
        running[name] = make(*name, url)
        running[name].start()
        client.goes_on()
        assert Attacker(shared).does(attack) == "done"
    assert Attacker(urls.zun_compute_h1).does(attack) == "AccessRefused"
    rabbit.control("delete_user", "zun")
    assert Attacker(shared).does(attack) == "AccessRefused"
    client.goes_on()
    client.enough.set()
    client.join(60)
    assert set(client.ended) == {("Running", True, None)}, client.ended


@contextlib.contextmanager
def stopped(rabbit):
    rabbit.control("stop_app")
    try:
        yield
    finally:
        rabbit.control("start_app")


@contextlib.contextmanager
def silent(rabbit):
    """A RabbitMQ whose connections stay, and on which nobody answers."""
    pid = int(rabbit.control("eval", "os:getpid().").strip().strip('"'))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("state", [pytest.param(silent, marks=pytest.mark.slow), stopped])
def test_programs_end_without_rabbitmq(cloud, rabbit, state):
    run_on(cloud, "h1")  # all have connections
    with state(rabbit):
        check_end(cloud)
