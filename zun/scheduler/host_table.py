# SPDX-License-Identifier: Apache-2.0
"""The scheduler's cache of the hosts: the inventory of each host and the claims on it.

The database is the source. Compute services send each change with the host's new generation. If a generation is
missing (7 follows 5), the table reads the host again. The scheduler's own choices are booked on top, until the host
confirms or refuses them or a deadline passes. A wrong table costs a refused claim, never a double booking. Before a
request is refused, the table is compared with the database. Each scheduler has its own table.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from zun.common import traits, zones
from zun.db import aggregates, bounds, compute_nodes, containers, services
from zun.objects.service import COMPUTE_BINARY
from zun.scheduler.bookings import Booking, Bookings
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Aggregate, Held, HostState
from zun.scheduler.pace import Pace
from zun.scheduler.plan_cache import PlanCache
from zun.topology import HostTopology, Usage

LOG = logging.getLogger(__name__)

COMPARE_TOGETHER = 100  # hosts: comparing them blocks other threads for a few milliseconds
READ_TOGETHER = 200  # hosts: all rows of a large cloud at once would take more memory than the table itself
LONGEST_TOPOLOGY = compute_nodes.table.c.topology.info["characters"]
MOST_FAILURES = 100  # of one host that are kept


_COLUMNS = tuple(column for column in compute_nodes.table.c if not isinstance(column.type, sa.JSON))
"""The columns of a compute node whose values are looked at when they are read. The table copes with malformed JSON."""


_CLAIM = ("uuid", "host", "cpuset", "cpu", "memory", "disk", "volume_disk", "group_uuid", "image")
"""The columns of a container that tell what it holds."""


@dataclass(frozen=True, slots=True)
class _Unusable:
    """A host that gets no containers because a row of it is malformed."""

    version: compute_nodes.Generation
    """The row as it was read. Until it changes, it is not read again by itself."""
    reason: str


class HostTable:
    """The known hosts. Thread-safe. Only ``refresh`` and ``catch_up`` do I/O; no other method waits for it."""

    def __init__(
        self,
        *,
        booking_seconds: float,
        fresh_seconds: float = 1.0,
        failure_seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        compare_together: int = COMPARE_TOGETHER,
        background: Executor | None = None,
        counts_io_ops: bool = False,
    ) -> None:
        """Start with an empty table. ``background`` runs comparisons that requests must not wait for.

        ``counts_io_ops``: read ``HostState.io_ops`` with each comparison.
        """
        self._counts_io_ops = counts_io_ops
        self._making: dict[str, int] = {}  # host -> what it makes, as of the last comparison
        self._failure_seconds = failure_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._reading = threading.Lock()  # held during I/O, never while waiting for a message
        self._held: dict[str, dict[str, Held]] = {}
        self._plans = PlanCache()
        self._hosts = Columns()
        self._read_at: dict[str, Any] = {}  # host -> updated_at of the row last read
        self._ids: dict[str, int] = {}  # host -> id of that row
        self._bookings = Bookings(booking_seconds, clock)
        self._stale: set[str] = set()
        self._unusable: dict[str, _Unusable] = {}
        self._comparing = threading.Lock()  # held during I/O; no thread waits for it while requests come
        self._pace = Pace(fresh_seconds, compare_together, clock)
        self._background = background or ThreadPoolExecutor(1, thread_name_prefix="compare")
        self._asked = False  # True while a comparison in the background is queued or running
        self._behind = 0  # the next slice begins with the first id above this one
        self._topologies: dict[str, HostTopology] = {}
        self._own_topologies: dict[str, HostTopology] = {}  # with the allocation ratios of the hosts themselves
        self._traits: dict[frozenset[str], frozenset[str]] = {}
        self._aggregates: Sequence[Mapping[str, Any]] = ()
        self._in_aggregates: dict[str, tuple[Aggregate, ...]] = {}
        self._own_zones: dict[str, str | None] = {}

    def hosts(self) -> list[HostState]:
        """Return every host with its bookings, sorted by name."""
        with self._lock:
            self._drop_old_bookings()
            return self._hosts[:]

    def host(self, hostname: str) -> HostState | None:
        with self._lock:
            self._drop_old_bookings()
            return self._hosts.find(hostname)

    def is_booked(self, uuid: str) -> bool:
        """Return whether this scheduler has an unexpired booking for the container."""
        with self._lock:
            self._drop_old_bookings()
            return uuid in self._bookings

    def choose_and_book(self, uuid: str, choose: Callable[[Columns], tuple[str, Held] | None]) -> None:
        """Let ``choose`` pick a host and the resources for the container, and book them, as one atomic step.

        ``choose`` must not keep the hosts after its return, because they change then.
        """

        def choices(hosts: Columns) -> list[tuple[str, str, Held]]:
            choice = choose(hosts)
            return [] if choice is None else [(uuid, *choice)]

        self.choose_and_book_all([uuid], choices)

    def choose_and_book_all(
        self, uuids: Collection[str], choose: Callable[[Columns], Sequence[tuple[str, str, Held]]]
    ) -> None:
        """Like ``choose_and_book`` for containers that are placed together: ``choose`` picks the uuids it places."""
        with self._lock:
            for uuid in uuids:
                self._unbook(uuid)
            self._drop_old_bookings()
            for uuid, hostname, held in choose(self._hosts):
                kept = self._plans.held(held)
                self._bookings.add(uuid, hostname, kept)
                self._put(hostname, uuid, kept)

    def booked(self, uuids: Collection[str]) -> dict[str, tuple[str, Held]]:
        """Return the host and the resources that this scheduler has booked for each of the containers."""
        with self._lock:
            self._drop_old_bookings()
            found = ((uuid, self._bookings.find(uuid)) for uuid in uuids)
            return {uuid: (booking.hostname, booking.held) for uuid, booking in found if booking is not None}

    def unbook(self, uuid: str) -> None:
        """Drop the booking of the container, because its host refused the container."""
        with self._lock:
            self._unbook(uuid)

    def failed(self, hostname: str) -> None:
        """Note that the host failed to make or start a container although it had room."""
        with self._lock:
            state = self._hosts.find(hostname)
            if state is not None:
                now = self._clock()
                lately = tuple(then for then in state.failures if now - then < self._failure_seconds)
                self._hosts.put(replace(state, failures=(*lately, now)[-MOST_FAILURES:]))

    def changed(self, hostname: str, generation: int, uuid: str | None, held: Held | None) -> None:
        """Note a change that the host reported: since ``generation`` the container holds ``held``.

        If ``held`` is None, the container holds nothing. If ``uuid`` is None, the inventory has changed.
        """
        with self._lock:
            state = self._hosts.find(hostname)
            if state is None or uuid is None or generation > state.generation + 1:
                self._stale.add(hostname)  # a change is missing: read the whole host again
                return
            if generation <= state.generation:
                return
            booking = self._bookings.pop(uuid)
            claims = self._held.setdefault(hostname, {})
            before = claims.pop(uuid, None)
            if held is not None:
                held = claims[uuid] = self._plans.held(held)
            if booking is not None and before is None and booking.hostname == hostname and booking.held == held:
                self._hosts.put(replace(state, generation=generation))
                return
            self._recount(hostname, generation)
            if booking is not None and booking.hostname != hostname:
                self._recount(booking.hostname)

    def unusable(self) -> dict[str, str]:
        """Return the hosts that get no containers because a row of theirs is malformed, with the reason of each."""
        with self._lock:
            return {name: each.reason for name, each in sorted(self._unusable.items())}

    def outdated(self, hostname: str) -> None:
        """Note that the host has changed in an unknown way. It is read before the next decision."""
        with self._lock:
            self._stale.add(hostname)

    def refresh(self) -> None:
        """Read hosts from the database that may have changed.

        Stale hosts are read at once. At most once in ``fresh_seconds``, services, aggregates and the generations of
        all hosts are compared with the database; ``Pace`` compares less often if comparing takes long.

        While requests come, a thread in the background compares slice by slice, and requests use the table as it is.
        One comparison of the whole table would block the interpreter for too long. After a silence, and before the
        first comparison, requests wait for a comparison of the whole table: its heartbeats may be so old that every
        service seems down.
        """
        wait = self._pace.is_silence()  # also true before the first comparison
        if self._pace.all_are_due() and self._comparing.acquire(blocking=wait):
            try:
                if self._pace.all_are_due():  # no other thread compared meanwhile
                    with self._pace.whole():
                        self._behind = 0
                        self._compare(None)
            finally:
                self._comparing.release()
        elif not self._asked and self._pace.due(len(self._hosts)):
            self._asked = True
            try:
                self._background.submit(self._compare_due)
            except RuntimeError as exc:  # no thread can be started now
                self._asked = False
                LOG.warning("Hosts are compared with the database later: %s", exc)
        self._read_stale()

    def catch_up(self, generations: int | None = None) -> bool:
        """Read changed hosts whose message has not arrived yet, and hosts that an administrator has enabled again.

        Return False if the table is certainly up to date. ``generations`` is the sum of the generations with which a
        request is about to be refused. A client may see a release in the database, and send its request before the
        host's message arrives here.
        """
        opened = self._opened()
        together = self._pace.together
        known: Counter[int] = Counter()
        with self._lock:
            for state in self._hosts:
                known[self._ids[state.hostname] // together] += state.generation
            left_out = [each.version for each in self._unusable.values() if isinstance(each.version.generation, int)]
            for version in left_out:
                known[version.id // together] += version.generation
        # Read the database after the table. In the other order, a message that arrives between both reads would raise
        # the table's sum by 1, and hide that the message of another host is missing.
        sums = compute_nodes.sums_of_generations(together)
        unusable = sum(version.generation for version in left_out)
        if generations is not None and sum(sums.values()) == generations + unusable and not opened:
            return False
        with self._lock:
            self._stale |= opened
        for part in sums:
            if sums[part] != known[part]:
                found = compute_nodes.generations(behind=part * together - 1, limit=together)
                with self._lock:
                    self._stale |= self._changed(found)
        self._read_stale()
        return True

    def _opened(self) -> set[str]:
        """Return the hosts whose services are disabled or forced down in the table but not in the database."""
        with self._lock:
            there = (self._hosts[row] for row in np.flatnonzero(~self._hosts.serving).tolist())
            closed = {each.hostname for each in there if each.service is not None and not each.engine_away}
        return closed - services.closed(COMPUTE_BINARY) if closed else closed

    def _compare_due(self) -> None:
        """Compare the slices that are due, in the background. A failure goes to the log only."""
        try:
            for _ in range(self._pace.due(len(self._hosts))):
                with self._comparing:
                    self._compare_slice()
            self._read_stale()
        except Exception as exc:
            LOG.warning("Some hosts could not be compared with the database: %s", exc)
        finally:
            self._asked = False

    def _compare_slice(self) -> None:
        with self._pace.slice(len(self._hosts)):
            self._compare(self._pace.together)
        if not self._behind:
            self._pace.end_round()

    def _compare(self, limit: int | None) -> None:
        """Mark the hosts that differ from the database as stale, among all hosts or the next ``limit`` hosts.

        The first slice of a round also reads the aggregates.
        """
        with self._lock:
            known = [(name, number) for name, number in self._ids.items() if number > self._behind]
        found = compute_nodes.generations(behind=self._behind, limit=None if limit is None else limit + 1)
        last = None  # the last id of this slice, or None if the slice reaches the end of the table
        if limit is not None and len(found) > limit:
            found.popitem()
            last = next(reversed(found.values())).id
        served = services.all_services(COMPUTE_BINARY, None if limit is None else found) if known else []
        rows = {row["host"]: row for row in served}
        sets = None if self._behind else aggregates.all_aggregates()
        making = containers.in_the_making(None if limit is None else found) if self._counts_io_ops else {}
        with self._lock:
            for name, number in known:
                if name not in found and (last is None or number <= last):
                    self._forget(name)
            if known:  # else the hosts are read with their services
                self._set_services(found, rows)
            if self._counts_io_ops:
                self._set_io_ops(found, making)
            if sets is not None:
                self._set_aggregates(sets)
            self._stale |= self._changed(found)
        self._behind = last or 0

    def _changed(self, found: Mapping[str, compute_nodes.Generation]) -> set[str]:
        """Return the hosts for which the database has newer data than this table."""
        return {
            name
            for name, version in found.items()
            if (state := self._hosts.find(name)) is None
            or not isinstance(version.generation, int)  # written by hand: reading the row tells
            or state.generation < version.generation  # the table may be ahead, by a message that came meanwhile
            or self._read_at[name] != version.updated_at
            if name not in self._unusable or self._unusable[name].version != version
        }

    def _read_stale(self) -> None:
        with self._reading:
            with self._lock:
                names, self._stale = sorted(self._stale), set()
            while names:
                try:
                    self._read(set(names[:READ_TOGETHER]))
                except BaseException:
                    with self._lock:
                        self._stale.update(names)
                    raise
                del names[:READ_TOGETHER]

    def _read(self, names: set[str]) -> None:
        nodes = compute_nodes.inventories(names)
        claims: dict[str, list[Mapping[str, Any]]] = {row["hostname"]: [] for row in nodes}
        for claim in containers.claims(names, _CLAIM):
            claims.get(claim["host"], []).append(claim)
        rows = {row["host"]: row for row in services.all_services(COMPUTE_BINARY, names)}
        found: dict[str, tuple[HostTopology, dict[str, Held]]] = {}
        for node in nodes:
            name = node["hostname"]
            try:
                wrong = bounds.row_problem(node, _COLUMNS)
                if wrong is not None:
                    raise ValueError(wrong)
                read = ((row["uuid"], self._plans.held_by_row(row)) for row in claims[name])
                held = {uuid: what for uuid, what in read if what is not None}
                found[name] = self._topology(node["topology"]), held
            except bounds.MALFORMED as exc:
                with self._lock:
                    self._give_up(node, exc)
        with self._lock:
            for name in self._unusable.keys() & (names - claims.keys()):
                del self._unusable[name]  # its row is gone
            carried_out: list[Booking] = []
            states: list[HostState] = []
            for node in (each for each in nodes if each["hostname"] in found):
                name, known = node["hostname"], self._hosts.find(node["hostname"])
                topology, held = found[name]
                told = -1 if known is None else known.generation
                if told > node["generation"] and self._read_at[name] == node["updated_at"]:
                    continue  # a message of the host came during the read
                self._held[name], self._own_zones[name] = held, node["availability_zone"]
                self._own_topologies[name] = topology
                try:
                    state = replace(self._state(node, topology, known), service=rows.get(name))
                    state = self._with_claims(state)
                    state.try_out()
                    states.append(state)
                except bounds.MALFORMED as exc:
                    self._give_up(node, exc)
                    continue
                self._read_at[name], self._ids[name] = node["updated_at"], node["id"]
                if self._unusable.pop(name, None) is not None:
                    LOG.info("Host %s gets containers again: its rows in the database can be read", name)
                # A container with a claim needs no booking any more, whichever scheduler chose the host.
                carried_out += [booking for uuid in held if (booking := self._bookings.pop(uuid)) is not None]
            self._hosts.put_all(states)
            for name in {booking.hostname for booking in carried_out}:
                self._recount(name)

    def _give_up(self, node: Mapping[str, Any], exc: Exception) -> None:
        """Leave out a host with a malformed row, which a hostile host or a hand wrote. Tell each reason once."""
        name, reason = node["hostname"], f"{exc!r:.300}"
        told = self._unusable.get(name)
        if told is None or told.reason != reason:
            LOG.warning("Host %s gets no containers: its rows in the database cannot be read: %s", name, reason)
        version = compute_nodes.Generation(node["id"], node["generation"], node["updated_at"])
        self._unusable[name] = _Unusable(version, reason)
        self._forget(name)

    def _topology(self, text: str) -> HostTopology:
        """Return the topology of a JSON record; equal records share one object. Only the reading thread calls this."""
        found = self._topologies.get(text)
        if found is None:
            if len(text) > LONGEST_TOPOLOGY:
                raise ValueError(f"topology has {len(text)} characters: at most {LONGEST_TOPOLOGY} are read")
            if len(self._topologies) > len(self._hosts) + 100:
                self._topologies.clear()  # most entries belong to former states of hosts
            found = self._topologies[text] = HostTopology.from_dict(json.loads(text))
        return found

    def _state(self, node: Mapping[str, Any], topology: HostTopology, known: HostState | None) -> HostState:
        name = node["hostname"]
        mine = self._in_aggregates.get(name, ())
        return HostState(
            hostname=name if known is None else known.hostname,
            topology=topology,
            generation=node["generation"],
            disk_total=node["disk_total"],
            disk_allocation_ratio=node["disk_allocation_ratio"],
            enable_cpu_pinning=node["enable_cpu_pinning"],
            availability_zone=self._zone(name, mine),
            labels=_texts(node["labels"]),
            runtimes=tuple(each for each in node["runtimes"] if isinstance(each, str)),
            traits=self._shared_traits(node),
            engine_away=_away(node),
            architecture=node["architecture"],
            os_type=node["os_type"],
            aggregates=mine,
            failures=() if known is None else known.failures,
            io_ops=self._making.get(name, 0) if known is None else known.io_ops,
            kept=self._plans,
        )

    def _shared_traits(self, node: Mapping[str, Any]) -> frozenset[str]:
        """Return the traits of the node. Equal machines share one set."""
        found = frozenset(each for each in traits.of_node(node) if isinstance(each, str))
        return self._traits.setdefault(found, found)

    def _zone(self, hostname: str, mine: tuple[Aggregate, ...]) -> str | None:
        rows = [{"metadata": each.metadata, "hosts": (hostname,)} for each in mine]
        return zones.zone_of(hostname, self._own_zones[hostname], rows)

    def _set_services(self, names: Collection[str], rows: Mapping[str, Mapping[str, Any]]) -> None:
        for name in names:
            state, row = self._hosts.find(name), rows.get(name)
            if state is not None and state.service != row:
                self._hosts.put(replace(state, service=row))

    def _set_io_ops(self, names: Collection[str], making: Mapping[str, int]) -> None:
        for name in names:
            self._making[name] = making.get(name, 0)
            count = self._making[name] + len(self._bookings.on(name))
            state = self._hosts.find(name)
            if state is not None and state.io_ops != count:
                self._hosts.put(replace(state, io_ops=count))

    def _set_aggregates(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows == self._aggregates:
            return
        self._aggregates = rows
        found: dict[str, tuple[Aggregate, ...]] = {}
        for row in rows:
            aggregate = Aggregate(row["uuid"], row["name"], _texts(row["metadata"]))
            for name in (each for each in row["hosts"] if isinstance(each, str)):
                found[name] = (*found.get(name, ()), aggregate)
        self._in_aggregates = found
        for state in self._hosts[:]:
            mine = found.get(state.hostname, ())
            if mine != state.aggregates:
                zone, own = self._zone(state.hostname, mine), self._own_topologies[state.hostname]
                self._hosts.put(replace(state, topology=own, aggregates=mine, availability_zone=zone))

    def _forget(self, hostname: str) -> None:
        if self._hosts.find(hostname) is not None:
            self._hosts.remove(hostname)
        for kept in (self._read_at, self._ids, self._own_zones, self._own_topologies):
            kept.pop(hostname, None)
        self._held.pop(hostname, None)
        self._making.pop(hostname, None)

    def _put(self, hostname: str, uuid: str, held: Held) -> None:
        state = self._hosts.find(hostname)
        assert state is not None, "a host is chosen among those that are known"
        if state.usage.claim(uuid) is not None:  # a message came twice: the container has a claim on the host
            self._recount(hostname)
            return
        taken = state.taken(uuid, held)
        self._hosts.put(replace(taken, io_ops=state.io_ops + 1) if self._counts_io_ops else taken)

    def _recount(self, hostname: str, generation: int | None = None) -> None:
        state = self._hosts.find(hostname)
        if state is not None:
            if generation is not None:
                state = replace(state, generation=generation)
            self._hosts.put(self._with_claims(state))

    def _with_claims(self, state: HostState) -> HostState:
        """Return ``state`` with its usage built again: the claims, then the bookings that still fit beside them."""
        claims = dict(self._held.get(state.hostname, {}))
        usage = Usage(((uuid, held.plan) for uuid, held in claims.items()), overlapping=True)
        if usage.held_twice:  # an old message came after the last read: read the host again
            self._stale.add(state.hostname)
        for uuid, held in self._bookings.on(state.hostname):
            if uuid in claims:
                continue
            if usage.fits(state.topology, held.plan) is None:
                usage = usage.with_claim(uuid, held.plan)
                claims[uuid] = held
            else:  # another scheduler was quicker; the host will refuse this booking
                self._bookings.pop(uuid)
        groups = Counter(held.group for held in claims.values() if held.group is not None)
        images = Counter(held.image for held in claims.values() if held.image is not None)
        disk = sum(held.disk for held in claims.values())
        return replace(state, usage=usage, disk_used=disk, groups=dict(groups), images=dict(images))

    def _unbook(self, uuid: str) -> None:
        booking = self._bookings.pop(uuid)
        if booking is not None:
            self._recount(booking.hostname)

    def _drop_old_bookings(self) -> None:
        for uuid in self._bookings.late():
            self._unbook(uuid)


def _texts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries whose values are texts. Others were edited by hand and would break the read of all hosts."""
    return {key: value for key, value in record.items() if isinstance(value, str)}


def _away(node: Mapping[str, Any]) -> str | None:
    """Return why the engine of the node cannot be used, None if it can or its agent does not tell."""
    away = (node["engine"] or {}).get("away")
    return away if isinstance(away, str) else None
