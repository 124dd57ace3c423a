# SPDX-License-Identifier: Apache-2.0
"""Other compute services that this one must not meet: one with the same host name, one with the same runtime."""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

LOG = logging.getLogger(__name__)

ENOUGH = 3
"""Foreign heartbeats that prove another service. A single one may be our own, sent again after a lost answer."""


class Namesakes:
    """Count the heartbeats of another service with our host name, by the lead of the common count over our own."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._others = 0

    def seen(self, count: int | None) -> bool:
        """Return whether another agent uses the host's name. ``count`` is the shared count after our own heartbeat.

        While another agent runs, the answer is True now and then, not each time.
        """
        if count is None:
            return False
        between = 0 if self._last is None else count - self._last - 1
        self._last = count
        self._others = self._others + between if between > 0 else max(0, self._others - 1)
        if self._others < ENOUGH:
            return False
        self._others = 0
        return True


_KEPT = (
    "Nobody gets the CPUs that the database says dedicated ones among them have; what else they use may be given to "
    "others."
)
_NOT_KEPT = "A conductor does not tell which CPUs they have: all that they use may be given to others."
_SOON_KEPT = (
    "The two hear of each other's containers every %d s ([compute] inventory_interval), and until then may give the "
    "same CPUs."
)


class Neighbours:
    """Tell the operator of containers that the runtime has of hosts with other names."""

    def __init__(self, hostname: str, interval: int, *, sees_rows: bool) -> None:
        """``interval`` is the number of seconds between two calls of ``tell``.

        ``sees_rows``: this host reads the rows of other hosts, and keeps off the CPUs that dedicated ones have.
        """
        self._hostname = hostname
        self._interval = interval
        self._sees_rows = sees_rows
        self._left: Mapping[str, AbstractSet[str]] | None = None
        """By host, the uuids that were there at the first look."""
        self._active: set[str] = set()
        """Hosts with more containers since: somebody makes them."""

    def tell(self, found: Mapping[str, AbstractSet[str]]) -> None:
        """Log what is new in ``found``, the uuids of containers by host."""
        if self._left is None:
            self._left = found
            for name, uuids in found.items():
                LOG.warning(
                    "The runtime has %d containers of host %s, which this one (%s) does not touch. %s If this host had "
                    "that name, set it again as [DEFAULT] host and restart zun-compute.",
                    len(uuids),
                    name,
                    self._hostname,
                    _KEPT if self._sees_rows else _NOT_KEPT,
                )
        more = {name for name, uuids in found.items() if uuids - self._left.get(name, frozenset())}
        for name in more - self._active:
            LOG.error(
                "Another zun-compute works with the same runtime, as host %s. %s Stop one, or give each CPUs of its "
                "own ([compute] cpu_dedicated_set, cpu_shared_set).",
                name,
                _SOON_KEPT % self._interval if self._sees_rows else "Both may give the same CPUs.",
            )
        self._active |= more
