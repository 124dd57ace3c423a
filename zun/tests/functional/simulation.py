# SPDX-License-Identifier: Apache-2.0
"""A cloud whose messages and crashes are drawn from a seed.

Schedulers, trackers, operations and the database are the real ones. There are no threads, uuids come from the seed and
time passes only as messages are delivered, so that a run can be run again exactly.

Messages wait in one place and are delivered in any order, sometimes twice. Notes to the schedulers about changed
hosts may be lost, and so may what schedulers say to each other about being there. An agent may be killed at each call
it makes to the database or to its runtime: whatever it had in memory is gone, what it had committed stays, and the
next agent starts from that. An agent may also be down for a while, which nobody notices: what is sent to it is lost.
So may a scheduler, which then forgets what it knew. After each delivered message the ledger is checked.

Each delivered message takes ``seconds`` of the schedulers' time.
"""

import contextlib
import datetime
import pathlib
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock
from uuid import UUID

from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.common.departures import uuid_of_left
from zun.common.states import Status
from zun.compute.container.creation import Order
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.inventory import inventory
from zun.compute.host.shared_pool import SharedPool
from zun.container.fake import InMemoryDriver
from zun.db import containers as db
from zun.db import services
from zun.messaging.compute_api import Request
from zun.objects import Container
from zun.objects.base import ZunObject
from zun.objects.placement import held_plan, placement_request
from zun.scheduler import filters, weighers
from zun.scheduler.endpoint import SchedulerEndpoint
from zun.scheduler.host_table import COMPARE_TOGETHER, HostTable
from zun.scheduler.peers import WORD_SECONDS, Peers
from zun.tests.fixtures import AtOnce, new_container
from zun.tests.host_in_memory import look_now, parts_in_memory
from zun.tests.unit.compute.ledger import Books
from zun.topology import CpuSet, HostTopology, Plan, Refusal, Usage, plan


class Killed(BaseException):
    """kill -9 of an agent: nothing catches it, and nothing it still tries succeeds."""


class Conductor:
    """Runs the objects' database methods for the agents, which is where a kill can strike before or after a commit."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def object_class_action_versions(
        self, context: Any, name: str, method: str, versions: Any, args: Any, kwargs: Any
    ) -> Any:
        from oslo_versionedobjects.base import VersionedObjectRegistry

        cls = VersionedObjectRegistry.obj_classes()[name][0]
        return self._around(lambda: getattr(cls, method)(context, *args, **kwargs))

    def object_action(self, context: Any, instance: Any, method: str, args: Any, kwargs: Any) -> Any:
        return {}, self._around(lambda: getattr(instance, method)(*args, **kwargs))

    def _around(self, work: Callable[[], Any]) -> Any:
        self._world.may_be_killed()
        ZunObject.indirection_api = None
        try:
            result = work()
        finally:
            ZunObject.indirection_api = self
        self._world.may_be_killed()
        return result


class Calendar:
    """Read instead of the clock of the machine. No two readings are equal."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1)

    def read(self, with_timezone: bool = False) -> datetime.datetime:
        """Stand in for ``timeutils.utcnow``: return a time later than the time before."""
        self.now += datetime.timedelta(microseconds=1)
        return self.now.replace(tzinfo=datetime.UTC) if with_timezone else self.now


class Agent:
    """The parts of zun-compute on one simulated host."""

    def __init__(self, world: "World", name: str) -> None:
        self.name, self._world, self.dead = name, world, False
        self.driver = world.drivers[name]
        self.tracker = ComputeNodeTracker(name)
        self.pool = SharedPool(self.tracker, self.driver)
        self.parts = parts_in_memory(
            world.conf,
            name,
            self.tracker,
            self.pool,
            self.driver,
            scheduler_api=world,
            notifier=world,
            records=pathlib.Path(world.folder.name, name),
        )

    def start(self) -> None:
        """Start like the service: publish the inventory, read claims from rows, resume interrupted operations."""
        context = admin_context()
        found = inventory(self._world.conf, self._world.machines[self.name], self.driver.facts())
        self.tracker.update_inventory(context, found.topology, found.columns)
        containers = Container.list_by_host(context, self.name)
        self.tracker.rebuild(containers)
        runtime = self.driver.list()
        self.parts.reconciler.restore(containers, runtime, self.tracker.recover_lost(containers, runtime))
        for container in containers:
            look_now(self.parts, container.uuid)


class Scheduler:
    """The parts of zun-scheduler. ``start`` drops everything that it knew."""

    def __init__(self, world: "World", number: int) -> None:
        self._world, self.name, self.away = world, f"scheduler-{number}", False
        self._filters = filters.load(world.conf.scheduler.enabled_filters, world.conf)
        self._weighers = weighers.load(world.conf.scheduler.weighers, world.conf)
        self.start()

    def start(self) -> None:
        self.away = False
        self.table = self._world.new_table()
        self.peers = Peers(self.name, self._world, lambda: self._world.now)
        self.endpoint = SchedulerEndpoint(self.table, self._filters, self._weighers, self._world, peers=self.peers)


class World:
    """Everything, with the messages under way. It is the RPC client and the notifier of all its parts as well."""

    def __init__(
        self,
        conf: Any,
        machines: dict[str, HostTopology],
        seed: int,
        *,
        kills: float = 0.0,
        schedulers: int = 2,
        losses: float = 0.2,
        booking_seconds: float = 1e9,
        fresh_seconds: float = 0,
        compare_together: int = COMPARE_TOGETHER,
        seconds: float = 0,
    ) -> None:
        self.conf, self.machines, self.random = conf, machines, random.Random(seed)
        self._kills = kills
        self.drivers = {name: InMemoryDriver() for name in machines}
        self.folder = tempfile.TemporaryDirectory(prefix="zun-simulation-")
        self.messages: list[tuple[str, Callable[[], None]]] = []
        self.running: Agent | None = None
        self.agents: dict[str, Agent] = {}
        self._checked: dict[str, Usage] = {}
        self.killed = self.delivered = self.refused = self.avoidable = self.lost = self.handed_over = 0
        self.claimed: set[str] = set()
        self.down: set[str] = set()
        self.now, self._seconds, self._losses = 0.0, seconds, losses
        self._calendar = Calendar()
        self._patched = mock.patch.object(timeutils, "utcnow", self._calendar.read)
        self._patched.start()
        self._booking_seconds, self._fresh_seconds = booking_seconds, fresh_seconds
        self._compare_together = compare_together
        self.schedulers = [Scheduler(self, number) for number in range(schedulers)]
        self._word_due = 0.0
        for driver in self.drivers.values():
            for operation in ("find_image", "create", "start", "show", "kernel_view", "update", "delete"):
                driver.before(operation, lambda _container: self.may_be_killed())
        ZunObject.indirection_api = Conductor(self)
        for name in machines:
            services.heartbeat(name, "zun-compute", "nova")
            self.start_agent(name)

    def close(self) -> None:
        ZunObject.indirection_api = None
        self._patched.stop()

    def new_table(self) -> HostTable:
        return HostTable(
            booking_seconds=self._booking_seconds,
            fresh_seconds=self._fresh_seconds,
            clock=lambda: self.now,
            compare_together=self._compare_together,
            background=AtOnce(),
        )

    # kills

    def may_be_killed(self) -> None:
        agent = self.running
        if agent is None:
            return
        if agent.dead or self.random.random() < self._kills:
            agent.dead = True
            raise Killed

    @contextlib.contextmanager
    def acting(self, agent: Agent) -> Iterator[None]:
        """Let ``agent`` work; when it is killed meanwhile a new one starts, which may be killed in its turn."""
        before, self.running = self.running, agent
        try:
            yield
        except Killed:
            self.killed += 1
        finally:
            self.running = before
        if agent.dead:
            self.start_agent(agent.name)

    def start_agent(self, name: str) -> None:
        """Start an agent, again and again until one lives through its start: each time it is killed less often."""
        kills, before = self._kills, self.running
        while True:
            agent = self.agents[name] = self.running = Agent(self, name)
            try:
                agent.start()
                break
            except Killed:
                self.killed += 1
                self._kills /= 2
        self._kills, self.running = kills, before

    def stop_agent(self, name: str) -> None:
        self.down.add(name)

    def revive(self, name: str) -> None:
        self.down.discard(name)
        self.start_agent(name)

    def stop_scheduler(self) -> None:
        """Any of them, but the last one."""
        there = [scheduler for scheduler in self.schedulers if not scheduler.away]
        if len(there) > 1:
            self.random.choice(there).away = True

    # messages: the interfaces of SchedulerAPI, ComputeAPI and Notifier

    def _send(self, to: str, work: Callable[[], None], *, lossy: bool = False) -> None:
        if lossy and self.random.random() < self._losses:
            self.lost += 1
            return
        for _ in range(2 if self.random.random() < 0.1 else 1):
            self.messages.append((to, work))

    def _to_agent(self, host: str, work: Callable[[Agent], object]) -> None:
        def deliver() -> None:
            if host in self.down:
                self.lost += 1
                return
            agent = self.agents[host]
            with self.acting(agent), contextlib.suppress(exceptions.ZunError):
                work(agent)

        self._send(host, deliver)

    def _to_scheduler(self, scheduler: Scheduler, work: Callable[[SchedulerEndpoint], object], *, lossy: bool) -> None:
        """To this one: what arrives while it is away is lost."""

        def deliver() -> None:
            if scheduler.away:
                self.lost += 1
            else:
                work(scheduler.endpoint)

        self._send(scheduler.name, deliver, lossy=lossy)

    def _to_any_scheduler(self, work: Callable[[SchedulerEndpoint], object]) -> None:
        """To one of those that are there when the message is sent."""
        chosen = self.random.choice([each for each in self.schedulers if not each.away])
        self._to_scheduler(chosen, work, lossy=False)

    def host_changed(self, context: Any, **change: Any) -> None:
        if change.get("held"):
            self.claimed.add(change["uuid"])
        given = {"uuid": None, "held": None, **change}
        for scheduler in self.schedulers:
            self._to_scheduler(scheduler, lambda endpoint: endpoint.host_changed(context, **given), lossy=True)

    def scheduler_seen(self, context: Any, **word: Any) -> None:
        for scheduler in self.schedulers:
            self._to_scheduler(scheduler, lambda endpoint: endpoint.scheduler_seen(context, **word), lossy=True)

    def claim_refused(self, context: Any, container: Container, **refusal: Any) -> None:
        self.refused += 1
        copy = Container.from_row(context, dict(container))
        self._check_refusal(refusal["host"], copy)
        self._to_any_scheduler(lambda endpoint: endpoint.claim_refused(context, container=copy, **refusal))

    def hand_over(self, context: Any, container: Container, *, to: str, **so_far: Any) -> None:
        self.handed_over += 1
        row, receiver = dict(container), next(each for each in self.schedulers if each.name == to)
        self._to_scheduler(
            receiver,
            lambda endpoint: endpoint.create(context, container=Container.from_row(context, row), **so_far),
            lossy=False,
        )

    def create_many(self, host: str, requests: Sequence[Request]) -> None:
        (request,) = requests  # nothing here runs beside something else
        order, row = Order(**request), dict(request["container"])
        self._to_agent(
            host,
            lambda agent: agent.parts.creation.create(
                [order._replace(container=Container.from_row(order.context, row))]
            ),
        )

    def look(self, context: Any, host: str, uuid: str) -> None:
        self._to_agent(host, lambda agent: look_now(agent.parts, uuid))

    def status_changed(self, context: Any, container: Container) -> None:
        """Nobody listens."""

    # the work

    def submit(self, context: RequestContext, **fields: Any) -> str:
        drawn = str(UUID(int=self.random.getrandbits(128), version=4))
        container = new_container(context, uuid=drawn, **fields)
        self._to_any_scheduler(lambda endpoint: endpoint.create(context, container=container))
        return container.uuid

    def delete(self, context: RequestContext, uuid: str) -> None:
        """Delete a container like the API."""
        if db.destroy_unplaced(uuid):
            return
        with contextlib.suppress(exceptions.ContainerNotFound, exceptions.IllegalTransition):
            db.update(uuid, {"status": Status.DELETING})
            container = Container.from_row(context, db.get(uuid))
            host = str(container.host)
            self._to_agent(host, lambda agent: agent.parts.lifecycle.delete(context, container, force=True))

    def resize(self, context: RequestContext, uuid: str, **size: Any) -> None:
        """Sometimes with the wish to keep one of its CPUs, which may not be its any more when the message arrives."""
        with contextlib.suppress(exceptions.ContainerNotFound):
            container = Container.from_row(context, db.get(uuid))
            if container.host:
                held = held_plan(container)
                if held is not None and held.cpu_policy == "dedicated" and self.random.random() < 0.5:
                    size["keep_cpus"] = str(self.random.choice(list(held.cpus)))
                self._to_agent(container.host, lambda agent: agent.parts.resizer.update(context, container, **size))

    def step(self) -> bool:
        """Deliver one of the waiting messages, any of them. False when there are none."""
        if self._word_due <= self.now:
            self._word_due = self.now + WORD_SECONDS
            for scheduler in self.schedulers:
                if not scheduler.away:
                    scheduler.peers.tell(admin_context())
        if not self.messages:
            return False
        _, work = self.messages.pop(self.random.randrange(len(self.messages)))
        work()
        self.now += self._seconds
        self._calendar.now += datetime.timedelta(seconds=self._seconds)
        self.delivered += 1
        return True

    def emptied(self, context: RequestContext, alive: Iterable[str]) -> None:
        """Delete the last containers: nobody holds anything then."""
        for uuid in alive:
            self.delete(context, uuid)
        self.settle(context)
        for agent in self.agents.values():
            assert len(agent.tracker.usage) == 0 and agent.driver.list() == {}
        assert db.claims() == []

    def settle(self, context: RequestContext) -> None:
        """Deliver everything, and let the periodic tasks find what was lost, until nothing is left to do."""
        self._kills = 0.0
        self.down.clear()
        for scheduler in self.schedulers:
            scheduler.away = False
        for _ in range(100):
            while self.step():
                self.check()
            for scheduler in self.schedulers:
                scheduler.table.refresh()
            for row in db.unplaced():
                self.schedulers[0].table.unbook(row["uuid"])
            self.schedulers[0].endpoint.sweep(0)
            for name in self.machines:
                self.start_agent(name)
            if not self.messages:
                return
        raise AssertionError("the cloud does not come to rest")

    # what must be true

    def check(self) -> None:
        """No CPU in two claims, and claims and free add up to the inventory, in every agent and in the database."""
        rows: dict[str, dict[str, Plan]] = {name: {} for name in self.machines}
        for row in db.claims():
            held = held_plan(row)
            assert held is not None
            rows[row["host"]][row["uuid"]] = held
        for name, agent in self.agents.items():
            Usage(rows[name])  # raises when two rows hold one CPU
            in_memory = agent.tracker.usage
            self._check_books(name, agent.tracker.topology, in_memory)
            for uuid, held in rows[name].items():
                # It may have come back from its way to another host, and its host has not heard of it.
                mine = in_memory.claim(uuid) or in_memory.claim(uuid_of_left(uuid, name))
                assert mine is not None, f"{uuid} holds CPUs of {name} in its row and not in the agent"
                assert held.cpus == mine.cpus or in_memory.claim(f"{uuid}+") is not None
            self._check_runtime(name, in_memory)

    def _check_books(self, name: str, topology: HostTopology, usage: Usage) -> None:
        """Claims plus free is the inventory: CPUs, MiB and pages of each cell, counted from the records alone."""
        if self._checked.get(name) is not usage:
            held = ((owner.rstrip("+"), claim.to_dict()) for owner, claim in usage)
            Books(held).check(topology.to_dict(), usage.free(topology))
            self._checked[name] = usage

    def _check_runtime(self, name: str, usage: Usage) -> None:
        """Check that a container with a dedicated CPU runs alone on the CPU."""
        for uuid, state in self.drivers[name].list().items():
            if state.pid == 0 or (claim := usage.claim(uuid)) is None:
                continue
            owners = {usage.owner_of(cpu) for cpu in CpuSet(state.cpuset_cpus)}
            assert owners <= {None, uuid, f"{uuid}+"}, f"{uuid} ({claim.cpu_policy}) runs on CPUs of {owners}"

    def _check_refusal(self, host: str, container: Container) -> None:
        """A refusal must be one that no other plan on that host would have avoided."""
        agent = self.agents[host]
        answer = plan(agent.tracker.topology, agent.tracker.usage, placement_request(container))
        self.avoidable += not isinstance(answer, Refusal)
