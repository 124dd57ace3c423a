# SPDX-License-Identifier: Apache-2.0
"""A cloud of three hosts in which everything waits to be drawn: messages, events, work, faults and time.

The API, the scheduler, the agents, the conductor and the database are the real ones. There are no threads: whatever a
service would do in one of its threads waits in ``World.pending`` until a test performs it, in any order. Time passes
when the test lets it pass. So a sequence of steps can be run again exactly, and Hypothesis can shrink it.

A fault is armed on a host: it strikes at the n-th effect from then on. An effect is a call of the runtime, of the
networks or of the database, or a message. There the agent may be killed, the effect may fail, or be done and its answer
be lost, the other side may be away for a while, or somebody else may act: a user, a message, a hand at the runtime.
"""

import concurrent.futures
import contextlib
import datetime
import enum
import functools
import inspect
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import oslo_messaging
import prometheus_client
import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.api import app as api_app
from zun.common import exceptions, outages
from zun.common.secrets import Cipher
from zun.compute import service as compute_service
from zun.compute.service import ComputeService
from zun.compute.work.queue import Queue
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.events import RuntimeEvent
from zun.container.fake import InMemoryDriver
from zun.db import containers as db
from zun.db import session
from zun.messaging import rpc, scheduler_api, senders
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.conductor_api import ConductorAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.network.fake import InMemoryNetworks
from zun.objects.base import ZunObject
from zun.scheduler import service as scheduler_module
from zun.scheduler.host_table import HostTable
from zun.scheduler.service import SchedulerService
from zun.tests.fixtures import AtOnce
from zun.tests.functional.api.client import Client, Reply
from zun.tests.functional.cloud import machine
from zun.tests.functional.simulation import Calendar
from zun.tests.functional.steps import Killed
from zun.tests.functional.wire import Message, Wire, get_client
from zun.topology import HostTopology
from zun.volume.fake import InMemoryVolumeDriver

HOSTS = {
    "one": machine(cells=2, cores=4),
    "two": machine(cells=1, cores=4, threads=2),
    "three": machine(cells=1, cores=2),
}
SCHEDULER = "scheduler"
VERSION = "1.40"  # of the requests
AWAY_FOR = 5  # calls, of who is away for a while
ROUND_SECONDS = 350  # of a settling world; after two rounds a lost message counts as lost
ROUNDS = 3
# What a fault raises. A task that it ends runs again; a service whose start it ends is started again.
STOPPED = (exceptions.ZunError, *outages.OUTAGES)
OPERATIONS = tuple(name for name, _ in inspect.getmembers(ContainerDriver, inspect.isfunction) if name[0] != "_")


class Side(enum.StrEnum):
    """Where an effect is."""

    RUNTIME = "runtime"
    NETWORKS = "networks"
    DATABASE = "database"
    MESSAGE = "message"


class Fault(enum.StrEnum):
    """What strikes an agent at an effect."""

    KILLED = "killed"
    FAILS = "fails"
    LOST = "answer lost"
    AWAY = "away for a while"


@dataclass(slots=True)
class Armed:
    """Strikes at the effect on ``side`` (None: on any) that ``after`` others come before."""

    host: str
    after: int
    side: Side | None
    what: Fault | Callable[[], object]


@dataclass(slots=True, eq=False)
class Pending:
    """A message, an event or a piece of work that waits for ``to``."""

    to: str
    text: str
    work: Callable[[], object]
    can_be_lost: bool = True


@dataclass(slots=True, eq=False)
class Service:
    """A running agent or scheduler. ``tasks`` are its periodic ones, each with its interval in seconds."""

    name: str
    dead: bool = False
    endpoint: Any = None
    service: Any = None
    tasks: list[tuple[Callable[[], object], float]] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    one: Callable[[str], object] = lambda uuid: None
    every: Callable[[], object] = lambda: None


class _Queued(Executor):
    """Lets work wait in the world instead of doing it in a thread."""

    def __init__(self, world: "World", service: Service) -> None:
        self._world, self._service = world, service

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        text = " ".join(str(each) for each in arguments if isinstance(each, str | tuple))
        item = Pending(self._service.name, f"{work.__name__} {text}", lambda: work(*arguments, **named), False)
        if not self._service.dead:
            self._world.pending.append(item)
        return Future()


class _Outbox:
    """Stands for Outbox, and sends at once."""

    def __init__(self, send: Callable[[Any], object], _seconds: float) -> None:
        self._send = send

    def put(self, item: Any) -> None:
        self._send([item])

    def flush(self) -> None:
        return

    close = flush


class _Periodic:
    """Stands for Periodic: the world runs the tasks as time passes."""

    def start(self) -> None:
        return

    stop = start


class _Thread:
    """Stands for a service's own threads, of which only the one that follows events has something to say here."""

    def __init__(self, target: Callable[[], object], name: str = "", **_: Any) -> None:
        self._target, self._name = target, name

    def start(self) -> None:
        if self._name == "events":
            self._target()

    def join(self, timeout: float | None = None) -> None:
        return


class _Networks(InMemoryNetworks):
    """Networks each of whose calls is an effect."""

    def __init__(self, moment: Callable[[Side, str], object]) -> None:
        super().__init__()
        self._moment = moment

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name[0] == "_" or not inspect.ismethod(found):
            return found
        moment = super().__getattribute__("_moment")

        def effect(*arguments: Any, **named: Any) -> Any:
            lost = moment(Side.NETWORKS, name)
            answer = found(*arguments, **named)
            if lost:
                raise exceptions.DockerError(error=f"the answer to {name} is lost")
            return answer

        return effect


class _Told(logging.Handler):
    """Keeps what the services log, and the errors that no fault explains."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.trace.append(record)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (Killed, *STOPPED)):
            self._world.unexpected.append(error)


class Front:
    """The API. It keeps nothing of a world, so one serves all worlds, one after another."""

    world: "World"

    def __init__(self, conf: Any) -> None:
        self._conf = conf
        self._wire = Wire(conf, lambda message: self.world._cast(message), lambda message: self.world._call(message))

    @functools.cached_property
    def client(self) -> Client:
        """Return the client of an administrator. The first world builds the API, with its own stand-ins."""
        apis = {"scheduler_api": SchedulerAPI(self._wire), "compute_api": ComputeAPI(self._wire)}
        application = api_app.build(self._conf, **apis)
        return Client(application, user="root", project="admin", roles="admin", version=VERSION)


class World:
    """Everything, with what waits in ``pending``. The invariants read it as they read a ``Cloud``."""

    def __init__(self, conf: Any, folder: pathlib.Path, front: Front) -> None:
        self.conf = conf
        rpc.register_opts(conf)
        conf.set_override("state_path", str(folder))
        self.machines: dict[str, HostTopology] = dict(HOSTS)
        self.drivers = {name: InMemoryDriver() for name in HOSTS}
        self.networks: dict[str, Any] = {name: _Networks(self._effect) for name in HOSTS}
        self.volumes = {name: InMemoryVolumeDriver() for name in HOSTS}
        self.pending: list[Pending] = []
        self.armed: list[Armed] = []
        self.trace: list[Any] = []
        self.unexpected: list[BaseException] = []
        self.services: dict[str, Service] = {}
        self.killed = self.struck = self.performed = 0
        self._begun = False
        self._away: dict[tuple[str, Side], int] = {}
        self._running: Service | None = None
        self._starting: Service | None = None
        self._thread = threading.current_thread()
        self._calendar, self._passed, self._made = Calendar(), 0.0, 0
        self._conductor = ConductorEndpoint(Facts(), Cipher(["k" * 32]))
        self._wire = Wire(conf, self._cast, self._call)
        self._stack = contextlib.ExitStack()
        self._patch()
        for name, driver in self.drivers.items():
            for operation in OPERATIONS:
                driver.before(operation, lambda _, driver=driver, name=operation: self._at_runtime(driver, name))
            driver.runtime.listeners[driver.host_facts.name].append(_Events(self, name))
        front.world = self
        self.api = front.client
        for name in (*HOSTS, SCHEDULER):
            self.start(name)
        self._begun = True

    def _patch(self) -> None:
        enter = self._stack.enter_context
        for target, name, stand_in in (
            (rpc, "get_client", get_client),
            (rpc, "get_host_server", lambda _wire, _host, endpoints: self._serve(endpoints)),
            (rpc, "get_server", lambda _wire, _topic, _server, endpoints: self._serve(endpoints)),
            (uuidutils, "generate_uuid", self._uuid),
            (timeutils, "utcnow", self._calendar.read),
            (scheduler_api, "Outbox", _Outbox),
            (prometheus_client, "REGISTRY", prometheus_client.CollectorRegistry()),
            (compute_service, "Periodic", self._repeat),
            (compute_service, "follow", self._follow),
            (compute_service, "Queue", self._queue),
            (scheduler_module, "Periodic", self._repeat),
            (scheduler_module, "HostTable", self._table),
        ):
            enter(mock.patch.object(target, name, stand_in, create=name == "Queue"))
        told = _Told(self)
        for log in (logging.getLogger("zun"),):
            log.addHandler(told)
            before, propagates = log.level, log.propagate
            log.setLevel(logging.INFO)
            log.propagate = False
            self._stack.callback(log.removeHandler, told)
            self._stack.callback(log.setLevel, before)
            self._stack.callback(setattr, log, "propagate", propagates)

    def close(self) -> None:
        ZunObject.indirection_api = None
        self._stack.close()

    def told(self) -> str:
        """Return all that happened, for a person."""
        return "\n".join(
            f"    {each.name.rpartition('.')[2]}: {each.getMessage()}" if isinstance(each, logging.LogRecord) else each
            for each in self.trace
        )

    # The parts that ``invariants`` reads.

    @property
    def agents(self) -> dict[str, ComputeService]:
        """The agents that run."""
        return {name: self.services[name].service for name in HOSTS if name in self.services}

    @property
    def scheduler(self) -> SchedulerService:
        found: SchedulerService = self.services[SCHEDULER].service
        return found

    # Services, which may be killed.

    def start(self, name: str) -> None:
        """Start a service, again and again while it is killed at its start. It stays away if its start fails."""
        while name not in self.services:
            made = Service(name)
            self._starting = made
            queued = _Queued(self, made)
            threads = mock.patch.object(concurrent.futures, "ThreadPoolExecutor", mock.Mock(return_value=queued))
            try:
                with self._acting(made), threads, mock.patch.object(threading, "Thread", _Thread):
                    made.service = self._built(name)
                    made.service.start(self._wire)
                    self.services[name] = made
            except STOPPED as exc:
                self.trace.append(f"{name} does not start: {exc}")
                self._forget(name)
                return
            finally:
                self._starting = None

    def _built(self, name: str) -> Any:
        if name == SCHEDULER:
            return SchedulerService(self.conf, host=name)
        return ComputeService(
            self.conf,
            self.drivers[name],
            self.networks[name],
            host=name,
            machine=lambda: self.machines[name],
            volumes=self.volumes[name].as_volumes(),
        )

    def kill(self, name: str) -> None:
        """Kill a service: nothing of what it was about to do is done. Messages to it wait."""
        found = self.services.get(name)
        if found is not None:
            found.dead = True
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.services.pop(name, None)
        self.pending = [each for each in self.pending if each.to != name or isinstance(each.work, _Delivery)]

    def _serve(self, endpoints: Any) -> Any:
        assert self._starting is not None
        self._starting.endpoint = endpoints[0]
        return _Periodic()

    def _repeat(self, tasks: list[tuple[Callable[[], object], float]]) -> _Periodic:
        assert self._starting is not None
        self._starting.tasks = tasks
        return _Periodic()

    def _follow(self, _source: Any, _stop: Any, *, one: Callable[[str], None], every: Callable[[], None]) -> None:
        assert self._starting is not None
        self._starting.one, self._starting.every = one, every
        if self._begun:  # at the beginning a host is empty, and to compare nothing with nothing costs much
            every()

    def _queue(self, *arguments: Any, **options: Any) -> Queue:
        assert self._starting is not None
        made = Queue(*arguments, **{**options, "clock": lambda: self._passed, "jitter": lambda: 0.0})
        self._starting.queues.append(made)
        return made

    def _table(self, **options: Any) -> HostTable:
        return HostTable(**{**options, "fresh_seconds": 0.0, "clock": lambda: self._passed, "background": AtOnce()})

    def _uuid(self, dashed: bool = True) -> str:
        self._made += 1
        made = UUID(int=self._made << 96 | self._made, version=4)
        return str(made) if dashed else made.hex

    @contextlib.contextmanager
    def _acting(self, service: Service | None) -> Iterator[None]:
        """Let ``service`` act, or somebody whom nothing happens to. A killed agent is started again outermost."""
        before, api = self._running, ZunObject.indirection_api
        is_agent = service is not None and service.name in HOSTS
        self._running = service if is_agent else None
        ZunObject.indirection_api = ConductorAPI(self._wire, service.name) if is_agent else None
        try:
            yield
        except Killed:
            if before is not None and before.dead:
                raise
        finally:
            self._running, ZunObject.indirection_api = before, api
            if service is not None and service.dead:
                self.killed += 1
                self.trace.append(f"{service.name} is killed")
                self._forget(service.name)
        if service is not None and service.dead and service is not self._starting:
            self.start(service.name)

    # Effects

    def _effect(self, side: Side, what: str) -> bool:
        """Let happen what is armed for now. Return whether the answer to the effect is lost."""
        agent = self._running
        if agent is None or threading.current_thread() is not self._thread:
            return False
        if agent.dead:
            raise Killed
        left = self._away.get((agent.name, side), 0)
        if left:
            self._away[agent.name, side] = left - 1
            raise _error(side, what, "is away")
        due = None
        for each in self.armed:
            if each.host == agent.name and each.side in (None, side):
                each.after -= 1
                due = each if each.after < 0 and due is None else due
        return due is not None and self._strike(due, agent, side, what)

    def _strike(self, armed: Armed, agent: Service, side: Side, what: str) -> bool:
        if side is Side.MESSAGE and isinstance(armed.what, Fault) and armed.what is not Fault.KILLED:
            return False  # senders wait for a broker that is away
        self.armed.remove(armed)
        self.struck += 1
        self.trace.append(f"  at {side} {what} of {agent.name}: {getattr(armed.what, 'value', 'something happens')}")
        match armed.what:
            case Fault.KILLED:
                agent.dead = True
                raise Killed
            case Fault.AWAY:
                self._away[agent.name, side] = AWAY_FOR - 1
                raise _error(side, what, "is away")
            case Fault.FAILS:
                raise _error(side, what, "fails")
            case Fault.LOST:
                return True
            case happens:
                with self._acting(None):
                    happens()
                if agent.dead:
                    raise Killed
                return False

    def _at_runtime(self, driver: InMemoryDriver, operation: str) -> None:
        if self._effect(Side.RUNTIME, operation):
            driver.fail(operation, exceptions.DockerError(error=f"the answer to {operation} is lost"), after=True)

    # Messages

    def _cast(self, message: Message) -> None:
        self._effect(Side.MESSAGE, message.method)
        to = SCHEDULER if message.topic == rpc.SCHEDULER_TOPIC else message.topic.rpartition(".")[2]
        self.pending.append(Pending(to, f"message {message}", _Delivery(self, to, message)))

    def _call(self, message: Message) -> Any:
        if message.topic.startswith(senders.CONDUCTOR_TOPIC):
            lost = self._effect(Side.DATABASE, message.method)
            with self._acting(None):
                answer = message.run(self._conductor, address=message.topic)
            if lost:
                raise _error(Side.DATABASE, message.method, "loses its answer")
            return answer
        to = self.services.get(SCHEDULER if message.topic == rpc.SCHEDULER_TOPIC else message.topic.rpartition(".")[2])
        answers: list[Any] = []
        if to is not None and self._running is None:
            with self._acting(to):
                answers.append(message.run(to.endpoint))
        if not answers:
            raise oslo_messaging.MessagingTimeout("nobody answers")
        return answers[0]

    def ready(self) -> list[Pending]:
        """Return what can be performed now, the oldest first."""
        return [each for each in self.pending if each.to in self.services]

    def perform(self, item: Pending) -> None:
        self.pending.remove(item)
        self.performed += 1
        self.trace.append(f"{item.to}: {item.text}")
        with self._acting(self.services[item.to]):
            item.work()

    def go_on(self, most: int = 10_000) -> None:
        """Perform what waits, the oldest first."""
        for _ in range(most):
            if not (ready := self.ready()):
                return
            self.perform(ready[0])
        assert most < 10_000, "the world does not come to rest"

    # Time

    def let_pass(self, seconds: float) -> None:
        """Let time pass, or set the clock back. Tasks run whose interval is not longer."""
        self.trace.append(f"{seconds} seconds pass")
        self._calendar.now += datetime.timedelta(seconds=seconds)
        self._passed += abs(seconds)
        for name in (*HOSTS, SCHEDULER):
            if name in self.services:
                self._run_tasks(self.services[name], abs(seconds))

    def _run_tasks(self, service: Service, seconds: float) -> None:
        """Hand out the keys whose time has come, and run the tasks with an interval of at most ``seconds``."""
        for each in service.queues:
            each.tick()
        for task, interval in service.tasks:
            if interval <= seconds and not service.dead:
                with self._acting(service), contextlib.suppress(*STOPPED):
                    task()

    def settle(self, agrees: Callable[[], object]) -> None:
        """Let nothing happen any more, and compare until ``agrees`` raises no AssertionError, or raise the last one."""
        self.armed.clear()
        self._away.clear()
        for left in reversed(range(ROUNDS)):
            for name in (*HOSTS, SCHEDULER):
                self.start(name)
                assert name in self.services, f"{name} does not start"
            self.go_on()
            self.let_pass(ROUND_SECONDS)
            self.go_on()
            try:
                agrees()
                return
            except AssertionError as exc:
                if not left:
                    raise
                self.trace.append(f"not yet: {exc}")

    # Users and hands at the runtime

    def containers(self) -> list[Any]:
        """Return the rows of all containers, the oldest first."""
        with session.reader() as connection:
            return session.rows(connection, sa.select(db.table).order_by(db.table.c.id))

    def ask(self, method: str, path: str, *body: Any, version: str = VERSION) -> Reply:
        """Send one request to the API, accepted or refused."""
        struck = self.struck
        with self._acting(None):
            reply = self.api.at(version).send(method, f"/v1/{path}", *body)
        self.trace.append(f"{method} {path} {body or ''} -> {reply.status}")
        assert reply.status != 500 or self.struck > struck, reply.body
        return reply

    def by_hand(self, number: int, what: str) -> None:
        """Somebody uses the runtime, or a process ends."""
        objects = [(host, uuid) for host in HOSTS for uuid in sorted(self.drivers[host].runtime.objects)]
        if not objects:
            return
        host, uuid = objects[number % len(objects)]
        driver = self.drivers[host]
        found, view = driver.runtime.objects[uuid], SimpleNamespace(uuid=uuid, status=None)
        self.trace.append(f"by hand on {host}: {what} {uuid}")
        with self._acting(None), contextlib.suppress(exceptions.ZunError):
            if what in ENDS:
                code, out_of_memory = ENDS[what]
                if found.pid:
                    driver.exit(uuid, code, out_of_memory=out_of_memory)
            elif what == "rm":
                driver.delete(view, force=True)
            else:
                getattr(driver, what)(view)

    def reboot(self, host: str) -> None:
        """Power-cycle a host: every process ends, and the runtime restarts those that it should; then the agent."""
        self.trace.append(f"{host} reboots")
        self.kill(host)
        driver = self.drivers[host]
        for uuid in sorted(driver.runtime.objects):
            if driver.runtime.objects[uuid].pid:
                driver.exit(uuid, 137)
        self.start(host)


ENDS = {"exit": (0, False), "fail": (1, False), "run out of memory": (137, True)}
BY_HAND = (*ENDS, "kill", "stop", "start", "pause", "unpause", "rm")


@dataclass(slots=True, eq=False)
class _Delivery:
    """Delivers a message to whoever is ``to`` then."""

    world: World
    to: str
    message: Message

    def __call__(self) -> None:
        with contextlib.suppress(*outages.OUTAGES):
            self.message.run(self.world.services[self.to].endpoint)


class _Events:
    """Stands for the queue of a listener: each event waits like a message."""

    unfinished_tasks = 0

    def __init__(self, world: World, host: str) -> None:
        self._world, self._host = world, host

    def put(self, event: RuntimeEvent) -> None:
        found = self._world.services.get(self._host)
        if found is not None and not found.dead:
            item = Pending(self._host, f"event {event.action} {event.uuid}", lambda: found.one(event.uuid))
            self._world.pending.append(item)


def _error(side: Side, what: str, how: str) -> Exception:
    if side is Side.DATABASE:
        return exceptions.DatabaseUnavailable(reason=f"it {how} at {what}")
    if how == "is away":
        return exceptions.Unavailable(f"The runtime does not answer: it {how} at {what}.")
    return exceptions.DockerError(error=f"{what} {how}")
