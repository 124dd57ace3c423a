# SPDX-License-Identifier: Apache-2.0
"""One host whose outside effects are counted, with snapshots, and what must agree when everything is done."""

import contextlib
import copy
import logging
import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import sqlalchemy as sa
from oslo_serialization import jsonutils
from oslo_utils import timeutils
from oslo_utils.fixture import TimeFixture

from zun import topology
from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.common.departures import departed
from zun.common.states import Kind, Status
from zun.compute import service as service_module
from zun.conductor.endpoint import ConductorEndpoint
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.images import ImageFacts
from zun.db import container_actions, images, network_ports, services, session
from zun.db import containers as db
from zun.messaging import rpc
from zun.messaging.scheduler_api import SchedulerAPI
from zun.network.driver import NetworkDriver
from zun.objects import Container
from zun.objects.base import ZunObject
from zun.objects.placement import cpuset_record, held_plan
from zun.objects.service import COMPUTE_BINARY
from zun.placement.ledger import NoLedger
from zun.scheduler import moves
from zun.scheduler.departures import Departures
from zun.scheduler.endpoint import SchedulerEndpoint
from zun.scheduler.host_table import HostTable
from zun.tests.functional import invariants
from zun.tests.functional.crashes.effects import Effects, Part, Watched, methods_of
from zun.tests.functional.lifecycles import HOST, World
from zun.tests.functional.lifecycles import _Conductor as Conductor
from zun.tests.functional.simulation import Killed
from zun.topology import PlacementRequest, Plan, Usage
from zun.topology.cpuset import union
from zun.volume.driver import VolumeDriver
from zun.volume.fake import InMemoryVolumeDriver

MOST_STEPS = 1000
ELSEWHERE = "elsewhere"
ROUNDS = 6
"""Comparisons after which nothing must be left to do."""


class InOrder:
    """Stands in for ``random.Random``: the first of all ways is taken, and uuids are counted."""

    def __init__(self) -> None:
        self._drawn = 0

    def getrandbits(self, bits: int) -> int:
        self._drawn += 1
        return (self._drawn << 64) | 0xC0FFEE

    def random(self) -> float:
        return 0.5

    def choice(self, ways: Sequence[Any]) -> Any:
        return ways[0]

    def randrange(self, _end: int) -> int:
        return 0


class MemoryLedger(NoLedger):
    """Allocations in memory, written when a container is noted, and all at a start."""

    def __init__(self) -> None:
        self.allocations: dict[str, str] = {}
        self.perform: Callable[[str, Callable[[], Any]], Any] = lambda _name, what: what()
        self._noted: set[str] | None = None

    @contextlib.contextmanager
    def claiming(self, container: Container, plan: Any) -> Iterator[None]:
        with self.claiming_many([(container, plan)]):
            yield

    @contextlib.contextmanager
    def claiming_many(
        self, claims: Sequence[tuple[Container, Any]]
    ) -> Iterator[Mapping[str, exceptions.ClaimRefused]]:
        wanted = {container.uuid: str(plan.cpus) for container, plan in claims}
        self.perform("claiming", lambda: self.allocations.update(wanted))
        try:
            yield {}
        except exceptions.ClaimRefused:
            for uuid in wanted:
                self.allocations.pop(uuid, None)
            raise

    def note(self, uuid: str) -> None:
        if self._noted is not None:
            self._noted.add(uuid)

    def start(self) -> None:
        """A sweep: every allocation is compared with its row."""
        self._noted = None

    def written(self, held: dict[str, str]) -> dict[str, str]:
        """Return the allocations once the thread behind the ledger has compared what was noted with the rows."""
        noted = {*held, *self.allocations} if self._noted is None else self._noted
        self.allocations = {each: cpus for each, cpus in self.allocations.items() if each not in noted}
        self.allocations |= {each: held[each] for each in noted & held.keys()}
        self._noted = set()
        return self.allocations


class _Conductor(Conductor):
    """Each call of the agent to the database is an effect."""

    def __init__(self, world: "CrashWorld") -> None:
        super().__init__(world)
        self._effects = world.effects

    def _ask(self, context: RequestContext, message: str, **arguments: Any) -> Any:
        sent = {**arguments, "address": rpc.CONDUCTOR_TOPIC.format(host=HOST), "time": timeutils.utcnow().isoformat()}

        def call(*, again: bool) -> Any:
            # As _Conductor of the lifecycles, without the moments around it.
            raising = getattr(ConductorEndpoint, message).__wrapped__
            ZunObject.indirection_api = None
            try:
                arrived = RequestContext.from_dict(context.to_message())
                whole = jsonutils.loads(jsonutils.dumps({**sent, "again": again}))
                return jsonutils.loads(jsonutils.dumps(raising(self._endpoint, arrived, **whole)))
            finally:
                ZunObject.indirection_api = self

        name = f"{arguments['name']}.{arguments['function']}"
        return self._world.agents(Part.DATABASE, name, lambda: call(again=False), lambda: call(again=True))


class _Events:
    """The stream of the runtime's events, each of which is a message."""

    def __init__(self, world: "CrashWorld") -> None:
        self._world, self.waiting = world, list[Any]()

    def put(self, event: Any) -> None:
        waiting, late = self.waiting, self._world.late
        self._world.effects.message(
            f"event {event.action}", lambda: waiting.append(event), lambda: late.append(lambda: waiting.append(event))
        )

    def empty(self) -> bool:
        return not self.waiting

    def get(self) -> Any:
        return self.waiting.pop(0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that outlives the agent."""

    database: sqlite3.Connection
    files: dict[str, bytes]
    memory: dict[str, Any]
    uuids: int
    subject: str


class CrashWorld(World):
    """``effects`` counts and disturbs what the agent, and the API, do outside. Its runtime may be a ``driver`` that is
    not in memory; such a world has no snapshots.
    """

    def __init__(self, conf: Any, driver: Any = None, *, quiet: bool = True) -> None:
        self.commits = 0
        self.subject = ""
        """The uuid of the container that the action is about."""
        self.refused = False
        """The API has not accepted the last request, as far as its caller knows."""
        self.has_room = True
        """Another host can take a container that leaves this one."""
        self.late: list[Callable[[], Any]] = []
        self.effects = Effects(self._marks)
        self.ledger = MemoryLedger()
        self._requesting = False
        self._patches = contextlib.ExitStack()

        def host_changed(_api: SchedulerAPI, _context: RequestContext, **change: Any) -> None:
            self._host_changed(change)

        self._patches.enter_context(mock.patch.object(SchedulerAPI, "host_changed", host_changed))
        self._patches.enter_context(mock.patch.object(service_module, "NoLedger", lambda: self.ledger))
        self.table = self._new_table()
        super().__init__(conf, 1, kills=0.0, happenings=0.0)
        self.random = InOrder()
        sa.event.listen(session.engine(), "commit", self._commits)
        listeners = self.driver.runtime.listeners[self.driver.host_facts.name]
        self._events = _Events(self)
        listeners[:] = [self._events]
        self._conductor = _Conductor(self)
        self.driver.images = {"zun-demo": ImageFacts("sha256:1"), conf.capsule.sandbox_image: ImageFacts("sha256:2")}
        self.driver.registry = {"other": ImageFacts("sha256:3")}
        self._runtime, self._nets, self._stores = driver or self.driver, self._networks, self._volumes
        self.driver = self._watched(self._runtime, Part.RUNTIME, ContainerDriver)
        self._networks = self._watched(self._nets, Part.NETWORK, NetworkDriver)
        self._volumes = _Volumes(self._watched(self._stores, Part.VOLUME, VolumeDriver))
        self.ledger.perform = lambda name, what: self.agents(Part.LEDGER, name, what)
        for log in self._logs if quiet else ():  # until ``close``
            log.setLevel(logging.CRITICAL)
        self.start_agent()

    def close(self) -> None:
        super().close()
        sa.event.remove(session.engine(), "commit", self._commits)
        self._patches.close()

    def _watched(self, target: Any, part: Part, protocol: type) -> Watched:
        return Watched(target, methods_of(protocol), lambda name, what: self.agents(part, name, what))

    # Effects.

    def agents(self, part: Part, name: str, what: Callable[[], Any], again: Callable[[], Any] | None = None) -> Any:
        """Perform what may be an effect of the agent: nothing of a dead one takes place."""
        if self._running is None:
            return what()
        if self._running.dead:
            raise Killed
        try:
            return self.effects.perform(part, name, what, again)
        except Killed:
            self._running.dead = True
            raise

    def _moment(self, where: str) -> None:
        """Nothing is drawn here."""

    def _commits(self, _connection: Any) -> None:
        if self._requesting:
            self.effects.perform(Part.API, "commit", lambda: None)
        self.commits += 1

    def _marks(self) -> tuple[object, ...]:
        memory = (self.seen(), self._nets.plugged, self._nets.bridges, self._stores.made)
        return self.commits, repr(memory), len(self.ledger.allocations)

    def seen(self) -> tuple[Any, Any]:
        """Return what the runtime has."""
        return self._runtime.runtime.objects, self._runtime.images

    def send(self, what: str, work: Callable[[], None]) -> None:
        self.effects.message(
            what.partition(" ")[0],
            lambda: self.messages.append((what, work)),
            lambda: self.late.append(lambda: self.messages.append((what, work))),
        )

    def _host_changed(self, change: dict[str, Any]) -> None:
        if self._running is not None and self._running.dead:
            raise Killed
        copied = {"uuid": None, "held": None, **copy.deepcopy(change)}

        def arrive() -> None:
            with self._outside():
                self._endpoint_of_scheduler.host_changed(admin_context(), **copied)

        self.effects.message("host_changed", arrive, lambda: self.late.append(arrive))

    def _new_table(self) -> HostTable:
        table = HostTable(booking_seconds=60, failure_seconds=60, counts_io_ops=False)
        self._endpoint_of_scheduler = SchedulerEndpoint(table, [], [], None)
        return table

    # Snapshots.

    def start_agent(self) -> None:
        """Start an agent, and another one if that is killed or finds nothing that answers."""
        while True:
            try:
                self._start_agent()
                break
            except Exception:
                if not self.effects.open:
                    raise
                self.effects.end()
        self.ledger.start()

    def save(self) -> Snapshot:
        kept = sqlite3.connect(":memory:")
        with self._raw() as raw:
            raw.backup(kept)
        files = {str(each): each.read_bytes() for each in self._state.rglob("*") if each.is_file()}
        return Snapshot(kept, files, copy.deepcopy(self._memory()), self.random._drawn, self.subject)

    def restore(self, saved: Snapshot) -> None:
        """Be as at the moment of ``save``, with a new agent."""
        self.effects.end()
        with self._raw() as raw:
            saved.database.backup(raw)
        for each in self._state.rglob("*"):
            if each.is_file() and str(each) not in saved.files:
                each.unlink()
        for name, data in saved.files.items():
            pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(name).write_bytes(data)
        for target, values in zip(self._memory().values(), copy.deepcopy(saved.memory).values(), strict=True):
            target.clear()
            target.update(values)
        by_host = self._runtime.runtime.by_host
        by_host.clear()
        for found in self._runtime.runtime.objects.values():
            by_host[found.host][found.uuid] = found
        self.random._drawn = saved.uuids
        self.messages.clear()
        self.late.clear()
        self._events.waiting.clear()
        self.trace.clear()
        self.table = self._new_table()
        services.heartbeat(HOST, COMPUTE_BINARY, "nova")  # it was up when the snapshot was made, maybe long ago
        with self._direct():
            self.start_agent()
            self.drain()
        self.table.refresh()

    @property
    def _state(self) -> pathlib.Path:
        return pathlib.Path(self._conf.state_path)

    def _memory(self) -> dict[str, Any]:
        runtime, nets = self._runtime, self._nets
        return {
            "objects": runtime.runtime.objects,
            "images": runtime.images,
            "commits": runtime.commits,
            "plugged": nets.plugged,
            "bridges": nets.bridges,
            "defaults": nets.default_bridges,
            "volumes": self._stores.made,
            "ledger": self.ledger.allocations,
        }

    @contextlib.contextmanager
    def _raw(self) -> Iterator[sqlite3.Connection]:
        connection = session.engine().raw_connection()
        try:
            yield connection.driver_connection
        finally:
            connection.close()

    # To the end.

    def find_moves(
        self, _context: RequestContext, _container: Container, *, near: bool = False
    ) -> dict[str, Any]:
        """Answer in the place of the scheduler: the subject moves to the other cell."""
        held = {row["uuid"]: each for row in db.claims([HOST], moves.COLUMNS) if (each := held_plan(row))}
        old, usage = held[self.subject], Usage(held)
        request = PlacementRequest(len(old.cpus), sum(share.memory_mib for share in old.cells.values()))
        home = union([self.machine.cell(node).cpus for node in old.cells])
        new = topology.plan(replace(self.machine, dedicated_set=self.machine.cpus - home), usage, request)
        assert isinstance(new, Plan)
        move = {"uuid": self.subject, "name": "", "held": cpuset_record(old), "cpuset": cpuset_record(new), "mib": 0}
        return {"host": HOST, "proven": True, "reason": None, "moves": [{**move, "after": []}]}

    def find_places(
        self, _context: RequestContext, uuids: Sequence[str], _leaving: str, _to: str | None
    ) -> dict[str, Any]:
        """Answer in the place of the scheduler: another host has room."""
        return {uuid: {"host": ELSEWHERE, "reason": None} for uuid in uuids}

    def carry_on(self) -> None:
        """Look, as a scheduler does, at the containers that have left the host."""
        Departures(self, self._arrive).look()  # type: ignore[arg-type]

    def look(self, context: RequestContext, host: str, uuid: str) -> None:
        """Stand in for ComputeAPI.look."""
        if host == HOST:
            self.send(f"look {uuid[:4]}", lambda: self.endpoint.look(context, uuid=uuid))

    def _arrive(self, _context: RequestContext, container: Container) -> None:
        """Stand in for the new host, which makes the container or cannot."""
        if self.has_room:
            claimed = db.claim(container.uuid, ELSEWHERE, {"cpuset": {}})
            db.update(container.uuid, {"status": Status.RUNNING, "cpuset": None})
            container_actions.end(container.uuid, container_actions.wanted(container.uuid)[0]["id"], "", None)
            assert claimed
        else:
            db.end_unplaced(container.uuid, "no host has room")

    def request(self, method: str, path: str, body: Any = None, version: str = "1.40") -> Any:
        """Send a request to the API, whose transactions are effects. None if the API was killed."""
        self._requesting = True
        try:
            more = {} if body is None else {"body": body}
            reply = self.api.at(version).send(method, f"/v1/{path}", **more)
        except Killed:
            self.refused = True
            return None
        finally:
            self._requesting = False
        assert reply.status < 300 or self.effects.fault, reply.body
        self.refused = reply.status >= 300
        return reply

    def subject_of(self, reply: Any) -> None:
        if reply is not None and reply.status < 300:
            self.subject = reply.json["uuid"]

    def newest(self) -> str:
        """Return the uuid of the container that was accepted last, except the neighbour."""
        others = (db.table.c.name != "neighbour") & db.table.c.capsule_uuid.is_(None)
        with session.reader() as connection:
            found = session.first(connection, sa.select(db.table.c.uuid).where(others).order_by(db.table.c.id.desc()))
        return found["uuid"] if found else ""

    def message_of(self, uuid: str) -> str | None:
        """Return the message of the last action on a container: None if it ended well, or there was none."""
        actions = sorted(container_actions.of_container(uuid), key=lambda each: each["id"])
        return actions[-1]["message"] if actions else None

    def work(self) -> None:
        """Do what can be done now: nothing that failed is tried again."""
        while self.messages or self._todo or not self._events.empty():
            self.step()

    def drain(self) -> None:
        """Do everything, and again what failed."""
        for _ in range(MOST_STEPS):
            if not self.step():
                return
        raise AssertionError("the agent does not come to rest")

    @contextlib.contextmanager
    def _direct(self) -> Iterator[None]:
        """In the block the agent reaches the database without a conductor, in half the time."""
        before, self._conductor = self._conductor, None
        try:
            yield
        finally:
            self._conductor = before

    def heal(self) -> None:
        """Everything answers again. Compare until nothing is left to do, then let late messages arrive."""
        self.effects.end()
        with self._direct():
            self._come_to_rest()

    def _come_to_rest(self) -> None:
        self._settle()
        if self.late:
            for each in self.late:
                each()
            self.late.clear()
            self._settle()
        if self._open():
            with TimeFixture(timeutils.utcnow() + timedelta(hours=1)):
                self._settle()
                container_actions.end_lost(None, timeutils.utcnow())  # as a scheduler does

    def _settle(self) -> None:
        """Compare as the agent does again and again, until a comparison changes nothing."""
        self.drain()
        for _ in range(ROUNDS):
            with self._acting():
                self.service._update_inventory()
            self.drain()
            before = self._marks()
            self.compare()
            for row in db.unplaced():  # as a scheduler does whose message was lost
                if departed(row["request"]) is None:
                    self.create(admin_context(), Container.from_row(None, row))
            self.carry_on()
            self.drain()
            if before == self._marks():
                break

    def _open(self) -> bool:
        """Return whether an action, or an image, is under way."""
        unfinished = sa.select(container_actions.table.c.id).where(container_actions.table.c.finish_time.is_(None))
        making = sa.select(images.table.c.id).where(images.table.c.status.not_in(("Available", "Error")))
        with session.reader() as connection:
            return any(session.first(connection, each) is not None for each in (unfinished, making))

    def disagreements(self) -> Iterator[str]:
        """Yield in words what does not agree in the end."""
        try:
            invariants.check(self._cloud())
        except AssertionError as exc:
            yield str(exc)
        with session.reader() as connection:
            rows = {row["uuid"]: row for row in session.rows(connection, sa.select(db.table))}
            ports = session.rows(connection, sa.select(network_ports.table.c.container_uuid))
            made = session.rows(connection, sa.select(images.table))
        held = {uuid: str(plan.cpus) for uuid, plan in invariants.claims(rows.values()).items()}
        if (written := self.ledger.written(held)) != held:
            yield f"the ledger has {written}, rows have {held}"
        here = getattr(self._runtime, "images", None) or ()
        commits = {name for name in here if name.startswith("zun-commit:")}
        left = {
            "volumes": {owner for owner, _ in self._stores.made} - rows.keys(),
            "ports": {port["container_uuid"] for port in ports} - rows.keys(),
            "records": {each.stem for each in self._state.glob("records/*/*.json")} - rows.keys(),
            "files of CPUs": {each.parent.name for each in self._state.glob("cpusets/*/*/*")} - rows.keys(),
            "images": commits - {each["local_name"] for each in made},
        }
        yield from (f"{what} of {sorted(stray)} are left behind" for what, stray in left.items() if stray)
        for each in made:
            if each["status"] not in ("Available", "Error"):
                yield f"image {each['uuid']} is {each['status']} for ever"
        for uuid, row in rows.items():
            if row["status"] == Status.ERROR and not row["status_reason"]:
                yield f"container {uuid} is Error without a reason"
        if self.messages or self._todo or not self.idle():
            yield "work is left to do"

    def delete_failed_capsule(self) -> None:
        """Delete a capsule that is in Error and at the runtime, as its owner does.

        Nobody could remove what was made of it, because the runtime was away. It holds its claim until it is deleted.
        """
        for row in db.of_host(HOST):
            if row["kind"] == Kind.CAPSULE and row["status"] == Status.ERROR and row["uuid"] in self.seen()[0]:
                assert row["status_reason"] and row["cpuset"], f"{row['uuid']} is there, with no reason or no claim"
                invariants.check_always(self._cloud())
                self.request("DELETE", f"capsules/{row['uuid']}")
                self.heal()
                assert not db.of_uuids([row["uuid"]]), f"{row['uuid']} was deleted, and is there"

    def _cloud(self) -> Any:
        return SimpleNamespace(
            agents={HOST: self.service},
            drivers={HOST: self._runtime},
            networks={HOST: self._nets},
            scheduler=SimpleNamespace(table=self.table),
        )

    def outcome(self, uuid: str) -> dict[str, Any] | None:
        """Return the part of a container's row that an action changes, or None if the row is gone."""
        if not db.of_uuids([uuid]):
            return None
        (row,) = db.of_uuids([uuid])
        names = ("status", "cpu", "memory", "image", "kind")
        return {name: row[name] for name in names} | {"networks": len(row["addresses"] or {})}


class _Volumes:
    """Gives a watched volume driver to the agent."""

    def __init__(self, watched: Any) -> None:
        self._watched = watched

    def as_volumes(self) -> Any:
        return InMemoryVolumeDriver.as_volumes(self._watched)



