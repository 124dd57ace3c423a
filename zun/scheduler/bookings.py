# SPDX-License-Identifier: Apache-2.0
"""Bookings: the scheduler's own choices until the hosts confirm or refuse them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from zun.scheduler.host_state import Held


@dataclass(frozen=True, slots=True)
class Booking:
    hostname: str
    held: Held
    deadline: float


class Bookings:
    """The bookings by container, at most one per container. Each is valid for ``seconds``. Not thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._bookings: dict[str, Booking] = {}  # in the order of their deadlines
        self._on: dict[str, dict[str, None]] = {}  # host -> containers, in the same order

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._bookings

    def find(self, uuid: str) -> Booking | None:
        return self._bookings.get(uuid)

    def add(self, uuid: str, hostname: str, held: Held) -> None:
        """Add a booking. The container must not have one yet."""
        self._bookings[uuid] = Booking(hostname, held, self._clock() + self._seconds)
        self._on.setdefault(hostname, {})[uuid] = None

    def pop(self, uuid: str) -> Booking | None:
        booking = self._bookings.pop(uuid, None)
        if booking is not None:
            on_host = self._on[booking.hostname]
            del on_host[uuid]
            if not on_host:
                del self._on[booking.hostname]
        return booking

    def on(self, hostname: str) -> list[tuple[str, Held]]:
        """Return (container uuid, booked resources) for each booking on the host, oldest first."""
        return [(uuid, self._bookings[uuid].held) for uuid in self._on.get(hostname, ())]

    def late(self) -> list[str]:
        """Return the uuids of the containers whose bookings have expired."""
        now = self._clock()
        return [uuid for uuid, _ in takewhile(lambda each: each[1].deadline <= now, self._bookings.items())]
