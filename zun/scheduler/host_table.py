# SPDX-License-Identifier: Apache-2.0
"""The scheduler's memory of the hosts: what each has and who holds what there.

It is a cache of the database. Compute services send each change with the host's new generation; a change that does not
follow directly on what is known here makes the table read that host again. The scheduler's own choices are booked on
top until the host confirms or refuses them, or a deadline passes. Being wrong costs a refused claim, never a double
booking.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zun.db import compute_nodes, containers, services
from zun.objects.placement import held_plan
from zun.topology import ClaimConflict, HostTopology, Plan, Usage

COMPUTE_BINARY = "zun-compute"


@dataclass(frozen=True, slots=True)
class Held:
    """What one container holds of a host besides its plan. MiB and GiB."""

    plan: Plan
    cpu: float
    memory: int
    disk: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Held | None":
        """From a container's row or object; None when it holds nothing."""
        plan = held_plan(row)
        return None if plan is None else cls(plan, row["cpu"], row["memory"], row["disk"] or 0)


@dataclass(frozen=True, slots=True)
class HostState:
    """One host as the filters and weighers see it, in MiB and GiB. ``service`` is its row, None if it has none."""

    hostname: str
    topology: HostTopology
    usage: Usage = field(default_factory=Usage)
    generation: int = 0
    disk_total: int = 0
    disk_used: int = 0
    disk_allocation_ratio: float = 1.0
    enable_cpu_pinning: bool = True
    availability_zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    service: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Booking:
    hostname: str
    held: Held
    deadline: float


class HostTable:
    """Every known host. Thread-safe; only ``refresh`` does I/O, and it holds no lock meanwhile."""

    def __init__(
        self,
        *,
        booking_seconds: float,
        fresh_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._booking_seconds = booking_seconds
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._reading = threading.Lock()  # held over I/O, never together with waiting for a message
        self._held: dict[str, dict[str, Held]] = {}
        self._states: dict[str, HostState] = {}
        self._read_at: dict[str, Any] = {}  # host -> updated_at of the row last read
        self._bookings: dict[str, _Booking] = {}
        self._stale: set[str] = set()
        self._refreshed = float("-inf")

    def hosts(self) -> list[HostState]:
        """Every host now, bookings included, by name."""
        with self._lock:
            self._drop_old_bookings()
            return [self._states[name] for name in sorted(self._states)]

    def host(self, hostname: str) -> HostState | None:
        with self._lock:
            self._drop_old_bookings()
            return self._states.get(hostname)

    def is_booked(self, uuid: str) -> bool:
        """Whether a choice of this scheduler for the container is under way."""
        with self._lock:
            self._drop_old_bookings()
            return uuid in self._bookings

    def choose_and_book(self, uuid: str, choose: Callable[[list[HostState]], tuple[str, Held] | None]) -> None:
        """Let ``choose`` pick a host and what the container takes of it, and book that, as one step."""
        with self._lock:
            self._unbook(uuid)
            choice = choose(self.hosts())
            if choice is not None:
                hostname, held = choice
                self._bookings[uuid] = _Booking(hostname, held, self._clock() + self._booking_seconds)
                self._put(hostname, uuid, held)

    def unbook(self, uuid: str) -> None:
        """Forget the choice for the container: its host refused it."""
        with self._lock:
            self._unbook(uuid)

    def changed(self, hostname: str, generation: int, uuid: str | None, held: Held | None) -> None:
        """Note a host's own word: since ``generation`` the container holds ``held``, or nothing when None.

        Without ``uuid`` the inventory itself has changed.
        """
        with self._lock:
            state = self._states.get(hostname)
            if state is None or uuid is None or generation > state.generation + 1:
                self._stale.add(hostname)  # something between was lost: what follows makes no sense without it
                return
            if generation <= state.generation:
                return
            booking = self._bookings.pop(uuid, None)
            claims = self._held.setdefault(hostname, {})
            claims.pop(uuid, None)
            if held is not None:
                claims[uuid] = held
            if booking is None or booking.hostname != hostname or booking.held != held:
                self._recount(hostname)
                if booking is not None and booking.hostname != hostname:
                    self._recount(booking.hostname)
            self._states[hostname] = replace(self._states[hostname], generation=generation)

    def refresh(self) -> None:
        """Read from the database what may have changed: hosts known to be stale, and at most once in ``fresh_seconds``
        the services and every host whose generation is not the one known here.

        One thread reads; the others wait for what it finds.
        """
        with self._reading:
            with self._lock:
                wanted, self._stale = self._stale, set()
                full = self._clock() - self._refreshed >= self._fresh_seconds
            if full:
                wanted |= self._compare()
            if wanted:
                self._read(wanted)
            if full:
                self._refreshed = self._clock()

    def _compare(self) -> set[str]:
        """The hosts that are not as the database has them."""
        found = compute_nodes.generations()
        rows = {row["host"]: row for row in services.all_services(COMPUTE_BINARY)}
        with self._lock:
            for name in self._states.keys() - found.keys():
                self._forget(name)
            self._set_services(rows)
            return {
                name
                for name, (generation, updated_at) in found.items()
                if (known := self._states.get(name)) is None
                or known.generation != generation
                or self._read_at[name] != updated_at
            }

    def _read(self, names: set[str]) -> None:
        nodes = [row for row in compute_nodes.all_nodes() if row["hostname"] in names]
        held: dict[str, dict[str, Held]] = {row["hostname"]: {} for row in nodes}
        for claim in containers.claims(next(iter(names)) if len(names) == 1 else None):
            if claim["host"] in held and (what := Held.of(claim)) is not None:
                held[claim["host"]][claim["uuid"]] = what
        rows = {row["host"]: row for row in services.all_services(COMPUTE_BINARY)}
        with self._lock:
            for node in nodes:
                name = node["hostname"]
                self._read_at[name] = node["updated_at"]
                self._held[name] = held[name]
                self._states[name] = _state(node, self._states.get(name))
            # A choice that was carried out, here or by another scheduler elsewhere, is no booking any more.
            carried_out = [self._bookings.pop(uuid, None) for claims in held.values() for uuid in claims]
            for name in held.keys() | {booking.hostname for booking in carried_out if booking is not None}:
                self._recount(name)
            self._set_services(rows)

    def _set_services(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        for name, state in self._states.items():
            if state.service != rows.get(name):
                self._states[name] = replace(state, service=rows.get(name))

    def _forget(self, hostname: str) -> None:
        del self._states[hostname], self._read_at[hostname]
        self._held.pop(hostname, None)

    def _put(self, hostname: str, uuid: str, held: Held) -> None:
        state = self._states[hostname]
        usage = state.usage.without(uuid).with_claim(uuid, held.plan)
        self._states[hostname] = replace(state, usage=usage, disk_used=state.disk_used + held.disk)

    def _recount(self, hostname: str) -> None:
        """Build the host's usage anew: first what is really held, then the bookings that still fit beside it."""
        state = self._states.get(hostname)
        if state is None:
            return
        usage, disk = Usage(), 0
        for uuid, held in self._held.get(hostname, {}).items():
            try:
                usage, disk = usage.with_claim(uuid, held.plan), disk + held.disk
            except ClaimConflict:  # an old change came after the database had been read: read it again
                self._stale.add(hostname)
        for uuid, booking in list(self._bookings.items()):
            if booking.hostname != hostname or usage.claim(uuid) is not None:
                continue
            if usage.fits(state.topology, booking.held.plan) is None:
                usage, disk = usage.with_claim(uuid, booking.held.plan), disk + booking.held.disk
            else:  # somebody else was quicker; the host will refuse this one
                del self._bookings[uuid]
        self._states[hostname] = replace(state, usage=usage, disk_used=disk)

    def _unbook(self, uuid: str) -> None:
        booking = self._bookings.pop(uuid, None)
        if booking is not None:
            self._recount(booking.hostname)

    def _drop_old_bookings(self) -> None:
        now = self._clock()
        for uuid, booking in list(self._bookings.items()):
            if booking.deadline <= now:
                self._unbook(uuid)


def _state(node: Mapping[str, Any], known: HostState | None) -> HostState:
    return HostState(
        hostname=node["hostname"],
        topology=HostTopology.from_dict(node["topology"]),
        generation=node["generation"],
        disk_total=node["disk_total"],
        disk_allocation_ratio=node["disk_allocation_ratio"],
        enable_cpu_pinning=node["enable_cpu_pinning"],
        availability_zone=node["availability_zone"],
        labels=node["labels"],
        runtimes=tuple(node["runtimes"]),
        service=None if known is None else known.service,
    )
