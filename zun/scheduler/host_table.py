# SPDX-License-Identifier: Apache-2.0
"""The scheduler's memory of the hosts: what each has and who holds what there.

It is a cache of the database. Compute services send each change with the host's new generation; a change that does not
follow directly on what is known here makes the table read that host again. The scheduler's own choices are booked on
top until the host confirms or refuses them, or a deadline passes. Being wrong costs a refused claim, never a double
booking; before a request is refused the table is compared with the database. Any number of schedulers can each have a
table.
"""

import gc
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from zun.common import zones
from zun.db import aggregates, compute_nodes, containers, services
from zun.objects.service import COMPUTE_BINARY
from zun.scheduler.bookings import Booking, Bookings
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Aggregate, Held, HostState
from zun.scheduler.pace import Pace
from zun.topology import HostTopology, Usage

LOG = logging.getLogger(__name__)

COMPARE_TOGETHER = 100  # hosts: a few milliseconds, in which nobody else has the interpreter
READ_TOGETHER = 200  # hosts: the rows of a whole cloud at once would take more memory than the table itself
MANY = 100  # hosts: fewer do not keep the garbage collector busy
YOUNG = 5_000  # objects more, which a hundred decisions leave, before it looks for garbage again
SURVIVED = (2, 50)  # such looks before one at what they left, 15,000 objects at once; and of those before one at all


class HostTable:
    """Every known host. Thread-safe; only ``refresh`` and ``catch_up`` do I/O, and nothing else waits for that."""

    def __init__(
        self,
        *,
        booking_seconds: float,
        fresh_seconds: float = 1.0,
        failure_seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        compare_together: int = COMPARE_TOGETHER,
        background: Executor | None = None,
    ) -> None:
        """``background`` (a thread of its own) is for what no request shall wait for."""
        self._failure_seconds = failure_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._reading = threading.Lock()  # held over I/O, never together with waiting for a message
        self._held: dict[str, dict[str, Held]] = {}
        self._hosts = Columns()
        self._read_at: dict[str, Any] = {}  # host -> updated_at of the row last read
        self._ids: dict[str, int] = {}  # host -> id of that row
        self._bookings = Bookings(booking_seconds, clock)
        self._stale: set[str] = set()
        self._comparing = threading.Lock()  # held over I/O; nobody waits for it while requests come
        self._settled = MANY
        self._pace = Pace(fresh_seconds, compare_together, clock)
        self._background = background or ThreadPoolExecutor(1, thread_name_prefix="compare")
        self._asked = False  # whether the background has slices to compare
        self._behind = 0  # the id behind which the next slice begins
        self._topologies: dict[str, HostTopology] = {}
        self._aggregates: Sequence[Mapping[str, Any]] = ()
        self._in_aggregates: dict[str, tuple[Aggregate, ...]] = {}
        self._own_zones: dict[str, str | None] = {}

    def hosts(self) -> list[HostState]:
        """Every host now, bookings included, by name."""
        with self._lock:
            self._drop_old_bookings()
            return self._hosts[:]

    def host(self, hostname: str) -> HostState | None:
        with self._lock:
            self._drop_old_bookings()
            return self._hosts.find(hostname)

    def is_booked(self, uuid: str) -> bool:
        """Whether a choice of this scheduler for the container is under way."""
        with self._lock:
            self._drop_old_bookings()
            return uuid in self._bookings

    def choose_and_book(self, uuid: str, choose: Callable[[Columns], tuple[str, Held] | None]) -> None:
        """Let ``choose`` pick a host and what the container takes of it, and book that, as one step.

        The hosts are lent for the time of the call: they change afterwards.
        """
        with self._lock:
            self._unbook(uuid)
            self._drop_old_bookings()
            choice = choose(self._hosts)
            if choice is not None:
                hostname, held = choice
                self._bookings.add(uuid, hostname, held)
                self._put(hostname, uuid, held)

    def unbook(self, uuid: str) -> None:
        """Forget the choice for the container: its host refused it."""
        with self._lock:
            self._unbook(uuid)

    def failed(self, hostname: str) -> None:
        """Remember that the host could not make or start a container that it had room for."""
        with self._lock:
            state = self._hosts.find(hostname)
            if state is not None:
                now = self._clock()
                lately = tuple(then for then in state.failures if now - then < self._failure_seconds)
                self._hosts.put(replace(state, failures=(*lately, now)))

    def changed(self, hostname: str, generation: int, uuid: str | None, held: Held | None) -> None:
        """Note a host's own word: since ``generation`` the container holds ``held``, or nothing when None.

        Without ``uuid`` the inventory itself has changed.
        """
        with self._lock:
            state = self._hosts.find(hostname)
            if state is None or uuid is None or generation > state.generation + 1:
                self._stale.add(hostname)  # something between was lost: what follows makes no sense without it
                return
            if generation <= state.generation:
                return
            booking = self._bookings.pop(uuid)
            claims = self._held.setdefault(hostname, {})
            before = claims.pop(uuid, None)
            if held is not None:
                claims[uuid] = held
            if booking is not None and before is None and booking.hostname == hostname and booking.held == held:
                self._hosts.put(replace(state, generation=generation))
                return
            self._recount(hostname, generation)
            if booking is not None and booking.hostname != hostname:
                self._recount(booking.hostname)

    def refresh(self) -> None:
        """Read from the database what may have changed: hosts known to be stale, and at most once in ``fresh_seconds``
        the services, the aggregates and every host whose generation is not the one known here.

        One thread reads; the others wait for what it finds. While requests come, nobody waits for a thread that
        compares a table which was filled before: until it is done, what is known must do. After a silence it would not:
        what services reported last may be so long ago that they seem down. A cloud so large that comparing takes long
        is compared less often. While requests come, it is compared slice by slice in the background: all at once would
        keep the interpreter from them for too long.
        """
        wait = self._pace.is_silence()  # which is before the first comparison as well
        if self._pace.all_are_due() and self._comparing.acquire(blocking=wait):
            try:
                if self._pace.all_are_due():  # nobody did it meanwhile
                    with self._pace.whole():
                        self._behind = 0
                        self._compare(None)
            finally:
                self._comparing.release()
        elif not self._asked and self._pace.due(len(self._hosts)):
            self._asked = True
            self._background.submit(self._compare_due)
        self._read_stale()

    def catch_up(self, generations: int | None = None) -> bool:
        """Read what hosts have changed and not told yet, and hosts that an administrator has let work again. Returns
        whether there may be any.

        ``generations`` is the sum of those that a request was decided with, which is to be refused: whoever sees in the
        database that something was given back may ask for it before its host's word is here.
        """
        opened = self._opened()
        together = self._pace.together
        known: Counter[int] = Counter()
        with self._lock:
            for state in self._hosts:
                known[self._ids[state.hostname] // together] += state.generation
        # Read after that: a host that tells something now would make up for another that has not yet.
        sums = compute_nodes.sums_of_generations(together)
        if sum(sums.values()) == generations and not opened:
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
        """Hosts whose services are disabled or forced down here, and not in the database."""
        with self._lock:
            there = (self._hosts[row] for row in np.flatnonzero(~self._hosts.serving).tolist())
            closed = {state.hostname for state in there if state.service is not None}
        return closed - services.closed(COMPUTE_BINARY) if closed else closed

    def _compare_due(self) -> None:
        """The work of the background: nobody waits for it, nor hears of its failure."""
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
        """Note which hosts are not as the database has them, among all or the next ``limit``.

        The aggregates are compared with the first of them.
        """
        with self._lock:
            known = [(name, number) for name, number in self._ids.items() if number > self._behind]
        found = compute_nodes.generations(behind=self._behind, limit=None if limit is None else limit + 1)
        last = None  # the id with which this ends, unless it is at the end of the table
        if limit is not None and len(found) > limit:
            found.popitem()
            last = next(reversed(found.values())).id
        rows = {row["host"]: row for row in services.all_services(COMPUTE_BINARY, None if limit is None else found)}
        sets = None if self._behind else aggregates.all_aggregates()
        with self._lock:
            for name, number in known:
                if name not in found and (last is None or number <= last):
                    self._forget(name)
            self._set_services(found, rows)
            if sets is not None:
                self._set_aggregates(sets)
            self._stale |= self._changed(found)
        self._behind = last or 0

    def _changed(self, found: Mapping[str, compute_nodes.Generation]) -> set[str]:
        """Those hosts of which the database knows something newer than this table."""
        return {
            name
            for name, (_, generation, updated_at) in found.items()
            if (state := self._hosts.find(name)) is None
            or state.generation < generation  # a host that told more meanwhile is ahead
            or self._read_at[name] != updated_at
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
            if len(self._hosts) > self._settled:
                self._settled = 2 * len(self._hosts)
                _settle()

    def _read(self, names: set[str]) -> None:
        nodes = compute_nodes.inventories(names)
        claims: dict[str, list[Mapping[str, Any]]] = {row["hostname"]: [] for row in nodes}
        for claim in containers.claims(names):
            claims.get(claim["host"], []).append(claim)
        rows = {row["host"]: row for row in services.all_services(COMPUTE_BINARY, names)}
        found: dict[str, tuple[HostTopology, dict[str, Held]]] = {}
        for node in nodes:
            name = node["hostname"]
            try:
                held = {row["uuid"]: what for row in claims[name] if (what := Held.of(row)) is not None}
                found[name] = self._topology(node["topology"]), held
            except (AttributeError, KeyError, TypeError, ValueError) as exc:  # no version of this code wrote them
                LOG.warning("Host %s gets no containers: its rows in the database cannot be read: %r", name, exc)
        with self._lock:
            carried_out: list[Booking] = []
            for node in nodes:
                name, known = node["hostname"], self._hosts.find(node["hostname"])
                if name not in found:
                    if known is not None:
                        self._forget(name)
                    continue
                topology, held = found[name]
                told = -1 if known is None else known.generation
                if told > node["generation"] and self._read_at[name] == node["updated_at"]:
                    continue  # the host told more while this was being read
                self._read_at[name], self._ids[name] = node["updated_at"], node["id"]
                self._held[name] = held
                # A choice that was carried out, here or by another scheduler elsewhere, is no booking any more.
                carried_out += [booking for uuid in held if (booking := self._bookings.pop(uuid)) is not None]
                self._own_zones[name] = node["availability_zone"]
                state = self._state(node, topology, known)
                self._hosts.put(self._with_claims(replace(state, service=rows.get(name))))
            for name in {booking.hostname for booking in carried_out}:
                self._recount(name)

    def _topology(self, text: str) -> HostTopology:
        """Of a record in JSON; equal machines share one. Only ever called by the thread that reads."""
        found = self._topologies.get(text)
        if found is None:
            if len(self._topologies) > len(self._hosts) + 100:
                self._topologies.clear()  # most are of machines that have changed since
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
            architecture=node["architecture"],
            os_type=node["os_type"],
            aggregates=mine,
            failures=() if known is None else known.failures,
        )

    def _zone(self, hostname: str, mine: tuple[Aggregate, ...]) -> str | None:
        rows = [{"metadata": each.metadata, "hosts": (hostname,)} for each in mine]
        return zones.zone_of(hostname, self._own_zones[hostname], rows)

    def _set_services(self, names: Collection[str], rows: Mapping[str, Mapping[str, Any]]) -> None:
        for name in names:
            state, row = self._hosts.find(name), rows.get(name)
            if state is not None and state.service != row:
                self._hosts.put(replace(state, service=row))

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
                zone = self._zone(state.hostname, mine)
                self._hosts.put(replace(state, aggregates=mine, availability_zone=zone))

    def _forget(self, hostname: str) -> None:
        self._hosts.remove(hostname)
        del self._read_at[hostname], self._ids[hostname], self._own_zones[hostname]
        self._held.pop(hostname, None)

    def _put(self, hostname: str, uuid: str, held: Held) -> None:
        state = self._hosts.find(hostname)
        assert state is not None, "a host is chosen among those that are known"
        if state.usage.claim(uuid) is not None:  # a message came twice: it holds something there already
            self._recount(hostname)
            return
        self._hosts.put(state.taken(uuid, held))

    def _recount(self, hostname: str, generation: int | None = None) -> None:
        state = self._hosts.find(hostname)
        if state is not None:
            if generation is not None:
                state = replace(state, generation=generation)
            self._hosts.put(self._with_claims(state))

    def _with_claims(self, state: HostState) -> HostState:
        """``state`` with its usage built anew: what is really held, then the bookings that still fit beside it."""
        claims = dict(self._held.get(state.hostname, {}))
        usage = Usage(((uuid, held.plan) for uuid, held in claims.items()), overlapping=True)
        if usage.held_twice:  # an old change came after the database had been read: read it again
            self._stale.add(state.hostname)
        for uuid, held in self._bookings.on(state.hostname):
            if uuid in claims:
                continue
            if usage.fits(state.topology, held.plan) is None:
                usage = usage.with_claim(uuid, held.plan)
                claims[uuid] = held
            else:  # somebody else was quicker; the host will refuse this one
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
    """What a row says in texts. Anything else was written by hand, and would stop the look at all the hosts."""
    return {key: value for key, value in record.items() if isinstance(value, str)}


def _settle() -> None:
    """Keep the garbage collector away from all that is there now.

    It took a fifth of the time of the decisions: it went through the whole table again and again, for nothing, as
    there are no cycles in it. What nobody refers to any more is freed as before.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *SURVIVED)
