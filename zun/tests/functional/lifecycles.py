# SPDX-License-Identifier: Apache-2.0
"""One host whose users, whose runtime and whose agent's end are drawn from a seed.

The API, the agent's queues, its operations and the database are the real ones. There are no threads: what the agent
would do in one waits until it is drawn. At every call that an operation makes to the database or to the runtime,
something may happen: the API accepts a request, a message arrives, a signal is sent beside a stop, a process ends, an
operator uses the runtime by hand; or the agent is killed, and the next one finds what was committed. Messages come in
any order of two that wait, sometimes twice. Events of the runtime may be lost, which the next comparison makes up for.
"""

import contextlib
import logging
import queue
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import oslo_messaging
from oslo_serialization import jsonutils
from oslo_utils import timeutils, uuidutils

from zun.api import app as api_app
from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.common.secrets import Cipher
from zun.compute import service as service_module
from zun.compute.container import road
from zun.compute.container.networks import settled
from zun.compute.container.operations import TOO_LATE
from zun.compute.service import ComputeService
from zun.compute.work.queue import Lane, Queue
from zun.conductor.endpoint import ConductorEndpoint
from zun.conductor.facts import Facts
from zun.container.driver.events import RuntimeEvent
from zun.container.fake import InMemoryDriver
from zun.db import container_actions, network_ports, services
from zun.db import containers as db
from zun.db.permits import Permits
from zun.messaging import rpc
from zun.messaging.compute_api import MESSAGES
from zun.messaging.conductor_api import ConductorAPI
from zun.network.fake import InMemoryNetworks
from zun.objects import Container, NetworkPort
from zun.objects.base import ZunObject
from zun.objects.placement import PERMIT_KEY, held_plan
from zun.tests.functional.api.client import Client
from zun.tests.functional.cloud import machine
from zun.tests.functional.simulation import Killed
from zun.topology import CpuSet, Usage
from zun.volume.fake import InMemoryVolumeDriver

HOST = "one"
SETTLED = {"Created", "Running", "Stopped", "Paused", "Error"}
OPERATIONS = (
    *("create", "find_image", "start", "stop", "reboot", "pause", "unpause", "kill", "delete", "commit"),
    *("show", "list", "kernel_view", "update"),
)

SLOW = ("runtime stop", "runtime reboot")  # much happens meanwhile


class Drawn(Executor):
    """Does work when it is drawn."""

    def __init__(self, todo: list[Callable[[], object]]) -> None:
        self._todo = todo

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self._todo.append(_Task(work, arguments))
        return Future()


class _Task:
    def __init__(self, work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._work, self._arguments = work, arguments

    def __call__(self) -> None:
        self._work(*self._arguments)

    def beside(self, queue: Queue) -> bool:
        """Return whether the work runs beside a stop that is under way."""
        return self._work == queue._work_beside


class _Told(logging.Handler):
    """A log handler that enters the agent's log lines into the trace of events."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__(logging.INFO)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.append(f"    {record.getMessage()}")


class _Agent:
    def __init__(self) -> None:
        self.dead = False


class _Conductor(ConductorAPI):
    """Gives each call of the agent to the endpoint of zun-conductor, whose rules refuse nothing that an agent does.

    A kill can strike before or after a commit.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._endpoint = ConductorEndpoint(Facts(), Cipher(["k" * 32]))

    def _ask(self, context: RequestContext, message: str, **arguments: Any) -> Any:
        self._world.may_be_killed()
        sent = {**arguments, "address": rpc.CONDUCTOR_TOPIC.format(host=HOST)}
        sent |= {"time": timeutils.utcnow().isoformat(), "again": False}
        raising = getattr(ConductorEndpoint, message).__wrapped__  # without the library's error around each
        ZunObject.indirection_api = None
        try:
            arrived = RequestContext.from_dict(context.to_message())
            answer = raising(self._endpoint, arrived, **jsonutils.loads(jsonutils.dumps(sent)))
        finally:
            ZunObject.indirection_api = self
        self._world.may_be_killed()
        return jsonutils.loads(jsonutils.dumps(answer))


class World:
    """The API's scheduler and compute APIs as well: what is sent waits in ``messages``."""

    def __init__(self, conf: Any, seed: int, *, kills: float, happenings: float) -> None:
        self.random = random.Random(seed)
        self._conf, self._kills, self._happenings = conf, kills, happenings
        self.machine = machine(cells=2, cores=4)
        self.driver, self._networks, self._volumes = InMemoryDriver(), InMemoryNetworks(), InMemoryVolumeDriver()
        self.messages: list[tuple[str, Callable[[], None]]] = []
        self.nets: list[str] = []
        self.trace: list[str] = []
        self.killed = self.happened = self.besides = 0
        self._thread, self._nested = threading.current_thread(), 0
        self._running: _Agent | None = None
        self._events: queue.SimpleQueue[RuntimeEvent] = queue.SimpleQueue()
        self.driver.runtime.listeners[self.driver.host_facts.name].append(self._events)
        self._uuids = mock.patch.object(uuidutils, "generate_uuid", self._uuid)
        self._uuids.start()
        self._told = _Told(self.trace)
        self._logs = [logging.getLogger(each) for each in ("zun.compute", "zun.conductor")]
        self._levels = [log.level for log in self._logs]
        for log in self._logs:
            log.addHandler(self._told)
            log.setLevel(logging.INFO)
        for operation in OPERATIONS:
            self.driver.before(operation, lambda _container, name=operation: self._moment(f"runtime {name}"))
        services.heartbeat(HOST, "zun-compute", "nova")
        application = api_app.build(conf, scheduler_api=self, compute_api=_Sender(self))
        self.api = Client(application, user="root", project="admin", roles="admin", version="1.40")
        self._conductor = _Conductor(self)
        self._start_agent()
        self.nets = [self._post("networks", {"name": name})["uuid"] for name in ("front", "back")]

    def close(self) -> None:
        ZunObject.indirection_api = None
        self._uuids.stop()
        for log, level in zip(self._logs, self._levels, strict=True):
            log.removeHandler(self._told)
            log.setLevel(level)

    def _uuid(self, dashed: bool = True) -> str:
        made = UUID(int=self.random.getrandbits(128), version=4)
        return str(made) if dashed else made.hex

    # The agent, which may be killed.

    def _start_agent(self) -> None:
        before = self._kills
        while True:
            self._todo: list[Any] = []
            self._now = 0.0
            agent, self._running = _Agent(), None
            self.service = ComputeService(
                self._conf,
                self.driver,
                self._networks,
                host=HOST,
                machine=lambda: self.machine,
                volumes=self._volumes.as_volumes(),
            )
            try:
                self._running, ZunObject.indirection_api = agent, self._conductor
                self.endpoint = self.service._put_together(
                    rpc.get_transport(self._conf, f"inproc:///{self._uuid()}")
                )
                self.service._scheduler_api.claim_refused = self._refused  # type: ignore[method-assign]
                self.service.queue._threads = dict.fromkeys(Lane, Drawn(self._todo))
                self.service.queue._clock = lambda: self._now
                self.service._update_inventory()
                self.service._recover(admin_context())
                break
            except Killed:
                self._dies()
                self._kills /= 2
            finally:
                self._running = ZunObject.indirection_api = None
        self._kills = before

    def _dies(self) -> None:
        self.killed += 1
        self.trace.append("the agent is killed")

    @contextlib.contextmanager
    def _acting(self) -> Iterator[None]:
        self._running, ZunObject.indirection_api = (agent := _Agent()), self._conductor
        try:
            yield
        except Killed:
            pass
        finally:
            self._running = ZunObject.indirection_api = None
        if agent.dead:
            self._dies()
            self._start_agent()

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        """Inside the block somebody else acts, whom nothing happens to."""
        before, self._running = self._running, None
        api, ZunObject.indirection_api = ZunObject.indirection_api, None
        try:
            yield
        finally:
            self._running, ZunObject.indirection_api = before, api

    def may_be_killed(self) -> None:
        """Give the agent a chance to die. The conductor calls this before and after each call to the database."""
        self._moment("database")

    def _moment(self, where: str) -> None:
        agent = self._running
        if agent is None or threading.current_thread() is not self._thread:
            return
        if agent.dead or self.random.random() < self._kills:
            agent.dead = True
            raise Killed
        chance = 0.5 if where in SLOW and self._happenings else self._happenings
        if self._nested < 2 and self.random.random() < chance:
            self._nested += 1
            self.trace.append(f"  at {where}:")
            try:
                for _ in range(10 if where in SLOW else 1):
                    self._happen()
            finally:
                self._nested -= 1

    def _happen(self) -> None:
        self.happened += 1
        drawn = self.random.random()
        beside = [task for task in self._todo if task.beside(self.service.queue)]
        if beside and drawn < 0.6:
            self.besides += 1
            task = self.random.choice(beside)
            self._todo.remove(task)
            task()
        elif self.messages and drawn < 0.6:
            self.deliver()
        elif drawn < 0.75:
            with self._outside():
                self.by_hand()
        else:
            with self._outside():
                self.ask(calls=False, impatient=self.random.random() < 0.5)

    # What users ask for.

    def containers(self) -> list[Any]:
        return sorted(db.of_host(HOST) + db.unplaced(), key=lambda row: row["id"])

    def ask(self, calls: bool = True, impatient: bool = False) -> None:
        """One request, accepted or refused. ``calls``: also those that the host answers. ``impatient``: to end one that
        is being stopped, if there is one.
        """
        rows = self.containers()
        stopping = [row for row in rows if row["task_state"] in ("container_stopping", "container_rebooting")]
        if impatient and stopping:
            path = f"/v1/containers/{self.random.choice(stopping)['uuid']}"
            method, rest = self.random.choice([("POST", "/kill"), ("DELETE", "?force=true"), ("DELETE", "?stop=true")])
            self.trace.append(f"{method} {path}{rest} -> {self.api.send(method, path + rest).status}")
            return
        if not rows or (len(rows) < 3 and self.random.random() < 0.5):
            self._create()
            return
        row = self.random.choice(rows)
        path = f"/v1/containers/{row['uuid']}"
        post = ["start", "stop", "stop?timeout=3600", "kill", "kill?signal=SIGHUP", "reboot", "rebuild", "pause"]
        post += ["unpause", f"resize_container?cpu={self.random.randint(1, 3)}", "resize_container?memory=96"]
        post += [f"rebuild?image={self.random.choice(['zun-demo', 'other'])}"]
        if self.nets:
            post += [f"network_attach?network={self.random.choice(self.nets)}"]
            post += [f"network_detach?network={self.random.choice(self.nets)}"]
        post += ["commit?repository=mine&tag=1", "start", "start", "stop?timeout=3600"]
        asked = self.random.choice([*post, "DELETE", "PATCH"])
        if asked == "DELETE":
            how = self.random.choice(["", "?force=true", "?stop=true", "?force=true&stop=true"])
            asked += how
            reply = self.api.delete(f"{path}{how}")
        elif asked == "PATCH" and calls:
            reply = self.api.patch(path, {"cpu": self.random.randint(1, 3)})
        elif asked == "PATCH":
            reply = self.api.patch(path, {"name": f"name-{self.random.randint(0, 9)}"})
        else:
            reply = self.api.post(f"{path}/{asked}")
        self.trace.append(f"{row['uuid'][:4]} {row['status']}/{row['task_state']}: {asked} -> {reply.status}")
        assert reply.status != 500, reply.body

    def _create(self) -> None:
        body: dict[str, Any] = {"image": "zun-demo", "command": ["sleep", "1000"], "memory": 64}
        body |= {"cpu": self.random.randint(1, 3), "cpu_policy": self.random.choice(["shared", "dedicated"])}
        body |= {"nets": [{"network": each} for each in self.nets if self.random.random() < 0.3]}
        kind = self.random.random()
        if kind < 0.2:
            body["auto_remove"] = True
        elif kind < 0.4:
            body["restart_policy"] = {"Name": "on-failure", "MaximumRetryCount": "1"}
        elif kind < 0.6:
            body["auto_heal"] = True
        made = self._post(f"containers?run={self.random.random() < 0.8}", body)
        self.trace.append(f"{made['uuid'][:4]} is to be created: {body}")

    def _post(self, path: str, body: Any) -> Any:
        reply = self.api.post(f"/v1/{path}", body)
        assert reply.status < 300, reply.body
        return reply.json

    def create(self, context: RequestContext, container: Container) -> None:
        """Stand in for SchedulerAPI.create: send the container to the only host."""
        row = dict(container)
        limits = {PERMIT_KEY: Permits().permit(HOST, container.uuid)}
        self.send(
            f"create {container.uuid[:4]}",
            lambda: self.endpoint.create(
                context, container=Container.from_row(context, row), limits=limits, alternates=[], tried={}
            ),
        )

    def _refused(self, context: RequestContext, container: Container, **refusal: Any) -> None:
        """Stand in for SchedulerAPI.claim_refused: end the container, because no other host exists."""
        with self._outside():
            db.end_unplaced(container.uuid, refusal["reason"])

    def send(self, what: str, work: Callable[[], None]) -> None:
        for _ in range(2 if self.random.random() < 0.05 else 1):
            self.messages.append((what, work))

    # What happens.

    def by_hand(self) -> None:
        """Somebody uses the runtime, or a process ends."""
        objects = self.driver.runtime.objects
        if not objects:
            return
        uuid = self.random.choice(sorted(objects))
        found = objects[uuid]
        view: Any = SimpleNamespace(uuid=uuid, status=None)
        ends = self.random.choice(["exit", "fail", "out of memory", "kill", "stop", "rm"])
        what = self.random.choice([ends, "start", "start", "pause", "unpause"])
        self.trace.append(f"{uuid[:4]} by hand: {what}")
        with contextlib.suppress(exceptions.ZunError):
            if what in ("exit", "fail", "out of memory"):
                if found.pid:
                    self.driver.exit(uuid, {"exit": 0, "fail": 1}.get(what, 137), out_of_memory="memory" in what)
            elif what == "rm":
                if self.random.random() < 0.4:
                    self.driver.delete(view, force=True)
            else:
                getattr(self.driver, what)(view)

    def deliver(self) -> None:
        what, work = self.messages.pop(self.random.randrange(min(2, len(self.messages))))
        self.trace.append(f"message: {what}")
        work()

    def step(self) -> bool:
        """One thing. False when nothing is left to do."""
        while not self._events.empty():
            event = self._events.get()
            if self.random.random() < 0.9:
                self.service.parts.road.look_soon(event.uuid)
        ways: list[Callable[[], object]] = []
        if self.messages:
            ways.append(self.deliver)
        if self._todo:
            ways.append(lambda: self._todo.pop(self.random.randrange(len(self._todo)))())
        if not ways:
            self._now += 1000.0  # what failed is done again
            self.service.queue.tick()
            return bool(self._todo)
        with self._acting():
            self.random.choice(ways)()
        return True

    def idle(self) -> bool:
        """Return whether the agent works on nothing now."""
        return all(each.owner is None for each in self.service.queue._items.values())

    def compare(self) -> None:
        with self._acting():
            self.service._compare()

    def settle(self) -> None:
        """Let nothing happen any more, and everything be done and compared."""
        self._kills = self._happenings = 0.0
        self._start_agent()
        for _ in range(4):
            while self.step():
                self.check()
            self.compare()
            for row in db.unplaced():  # as a scheduler does whose message was lost
                self.create(admin_context(), Container.from_row(None, row))
        with mock.patch.object(service_module, "LOST_SECONDS", -60), mock.patch.object(road, "ARGUMENTS_SECONDS", -60):
            self.compare()
            while self.step():
                self.check()
        container_actions.end_lost(None, timeutils.utcnow())  # as a scheduler does

    # What must be true.

    def check(self) -> None:
        """Always."""
        refused = [line for line in self.trace if "Refused host" in line]
        assert not refused, "the rules of zun-conductor refuse what the agent does"
        rows = {row["uuid"]: held for row in db.claims() if (held := held_plan(row)) is not None}
        Usage(rows)  # raises when two rows hold one CPU
        usage = self.service.tracker.usage
        for uuid, held in rows.items():
            mine = usage.claim(uuid)
            assert mine is not None, f"{uuid} holds CPUs in its row and not in the agent"
            assert held.cpus == mine.cpus or usage.claim(f"{uuid}+") is not None
        for uuid, found in self.driver.runtime.objects.items():
            if found.pid:
                assert usage.claim(uuid) is not None, f"{uuid} runs and holds nothing"
                owners = {usage.owner_of(cpu) for cpu in CpuSet(found.cpuset_cpus)}
                assert owners <= {None, uuid, f"{uuid}+"}, f"{uuid} runs on CPUs of {owners}"

    def check_settled(self) -> None:
        """Once nothing is left to do."""
        self.check()
        usage, objects, rows = self.service.tracker.usage, self.driver.runtime.objects, self.containers()
        assert set(usage.owners) == {row["uuid"] for row in rows if row["cpuset"]}
        assert set(objects) <= set(usage.owners)
        assert self.service.queue._items == {}
        for row in rows:
            uuid, found = row["uuid"], objects.get(row["uuid"])
            assert row["task_state"] is None and row["status"] in SETTLED, f"{uuid}: {row['status']}"
            if found is None:
                assert row["status"] == "Error", f"{uuid} is {row['status']} and not there"
            else:
                self._check_object(row, found)
            self._check_actions(uuid)

    def _check_object(self, row: Any, found: Any) -> None:
        uuid, seen, plan = row["uuid"], found.status(row["status"]), held_plan(row)
        assert seen in (None, row["status"]) or (row["status"] == "Error" and not found.pid), (
            f"{uuid} is {row['status']}, and {seen} at the runtime"
        )
        assert seen is not None or row["status"] in ("Created", "Error"), f"{uuid} never ran and is {row['status']}"
        assert found.image.partition(":")[0] == row["image"] and "rebuild" not in row["request"]
        assert plan is not None and found.cpuset_mems == str(plan.mems)
        cpus = plan.cpus if plan.dedicated else self.service._pool.current()[uuid]
        assert CpuSet(found.cpuset_cpus) == cpus and found.memory == row["memory"]
        container = Container.from_row(None, row)
        ports = network_ports.of_container(uuid)
        assert not any(port["leaving"] for port in ports)
        views = [NetworkPort.from_row(None, port) for port in ports]
        assert (row["addresses"] or {}) == settled(container, views)
        assert set(self._networks.plugged[uuid]) == {port["network_uuid"] for port in ports}

    def _check_actions(self, uuid: str) -> None:
        for action in container_actions.of_container(uuid):
            assert action["finish_time"], f"{uuid}: {action['action']} does not end"
            _, steps = container_actions.find(uuid, action["request_id"])
            assert all(step["finish_time"] for step in steps)
            if action["action"] in ("reboot", "rebuild"):  # the row says that it is to come, and nobody else may say no
                assert {step["traceback"] for step in steps} != {TOO_LATE}, f"{uuid}: {action['action']} was left out"
            last = {step["event"]: step["result"] for step in steps}  # it may be tried again, after a failure
            well = bool(last) and set(last.values()) == {"Success"}
            assert well or action["message"], f"{uuid}: {action['action']} has ended well, and {last}"


class _Sender:
    """Stands in for ComputeAPI: every cast becomes a message to the endpoint."""

    def __init__(self, world: World) -> None:
        self._world = world

    def update(self, context: RequestContext, container: Container, **size: Any) -> Container:
        changed: list[Container] = []
        if self._world.idle():
            with self._world._acting():
                try:
                    changed.append(self._world.endpoint.update(context, container=container, **size))
                except oslo_messaging.ExpectedException as exc:
                    raise exc.exc_info[1] from None
        if not changed:
            raise exceptions.HostUnavailable(host=HOST)
        return changed[0]

    def can_act(self, _action: str, *, member: bool = False) -> bool:
        return True

    def act(self, context: RequestContext, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
        """Send the hint, or the message of the release before, or lose it."""
        uuid, row, drawn = container.uuid, dict(container), self._world.random.random()
        if drawn < 0.1:
            self._world.trace.append(f"lost: {action} {uuid[:4]}")
        elif drawn < 0.3:
            message, _ = MESSAGES[action]

            def old() -> None:
                whole = Container.from_row(context, row)
                getattr(self._world.endpoint, message)(context, container=whole, **arguments)

            self._world.send(f"{action} {uuid[:4]} with its arguments", old)
        else:
            self._world.send(f"{action} {uuid[:4]}", lambda: self._world.endpoint.look(context, uuid=uuid))
