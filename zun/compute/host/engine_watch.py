# SPDX-License-Identifier: Apache-2.0
"""Watch the container engine of this host: what it is, whether it can be used, and whether others use it.

An engine shows only the containers of the store that it uses. After a change of its storage driver, of its image store
or of the folder of its data it answers "no such container" for containers whose files are all there, and which may even
run. Such an answer must not end a container here. So an engine with another store than before is used only if it shows
every container that should exist on this host.
"""

import json
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from zun.common import exceptions, outages
from zun.common.context import RequestContext, admin_context
from zun.common.states import SETTLED, Status
from zun.common.whole_files import place_of, write_whole
from zun.container.driver.facts import NO_ENGINE, EngineFacts, Facts, Store
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import ComputeNode, Container

LOG = logging.getLogger(__name__)

#: What users read. They must not read of the containers of others.
ELSEWHERE = (
    "The container engine of the host was set up anew and does not show the containers of before. They are left as "
    "they are. Try again later; the operator of the host knows more."
)

LONGEST = 1000
"""Characters of a reason."""


@dataclass(slots=True, eq=False)
class EngineWatch:
    """Thread-safe. ``file`` has the store that the engine had when this host used it last."""

    _hostname: str
    _driver: Facts
    _scheduler_api: SchedulerAPI
    _file: pathlib.Path
    _engine: EngineFacts = NO_ENGINE
    _told: Mapping[str, Any] | None = None
    _refusal: str | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_host(cls, hostname: str, driver: Facts, scheduler_api: SchedulerAPI, state_path: str) -> Self:
        file = place_of(state_path, "engines", hostname, ".json")
        return cls(hostname, driver, scheduler_api, file)

    @property
    def up(self) -> bool:
        """Whether the engine was usable at the last look."""
        return self._told is None or self._told["away"] is None

    def judge(self, engine: EngineFacts, shown: Callable[[], AbstractSet[str]]) -> None:
        """Raise Unavailable if the engine has another store than before and lacks containers that should exist."""
        before = self._read()
        if before is not None and before != engine.store:
            lost = self._missing(shown())
            if lost:
                self._refuse(refusal(before, engine.store, lost, self._file))
                raise exceptions.Unavailable(ELSEWHERE)
            LOG.info("The engine has all containers, after a change of its store: %s", changes(before, engine.store))
        self._refusal = None
        if before != engine.store:
            self._write(engine.store)

    def _refuse(self, reason: str) -> None:
        if reason != self._refusal:  # it is judged again every few seconds
            LOG.error("The container engine is not used: %s", reason)
        self._refusal = reason

    def _missing(self, shown: AbstractSet[str]) -> list[str]:
        """Return the uuids of containers whose objects should exist and are not shown."""
        try:
            rows = Container.list_by_host(admin_context(), self._hostname)
        except outages.OUTAGES as exc:
            raise exceptions.Unavailable(ELSEWHERE) from exc
        return sorted({each.uuid for each in rows if should_exist(each)} - shown)

    def look(self, context: RequestContext) -> bool:
        """Ask the engine for an answer, and tell the cloud if there is none. Return whether the engine answers."""
        try:
            self._driver.ping()
        except exceptions.ZunError as exc:
            if self.up:
                LOG.warning("The container engine cannot be used: %s", exc)
            self._tell(context, self._refusal or str(exc))
            return False
        return True

    def found(self, context: RequestContext, engine: EngineFacts) -> None:
        """Tell the cloud that the engine is usable, and its releases."""
        if not self.up:
            LOG.info("The container engine can be used again")
        self._engine = engine
        self._tell(context, None)

    def away_at_start(self, context: RequestContext, reason: str) -> None:
        """Tell the cloud that this host does not start because its engine cannot be used."""
        if ComputeNode.topology(context, self._hostname):  # else nobody knows of the host
            self._tell(context, self._refusal or reason)

    def _tell(self, context: RequestContext, away: str | None) -> None:
        with self._turn:
            told = {**asdict(self._engine), "away": away if away is None else away[:LONGEST]}
            if told == self._told:
                return
            generation = ComputeNode.put(context, self._hostname, {"engine": told})
            self._told = told
        self._scheduler_api.host_changed(context, host=self._hostname, generation=generation)

    def _read(self) -> Store | None:
        try:
            return Store(**json.loads(self._file.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as exc:
            LOG.warning("%s cannot be read, so that a change of the engine's store is not seen: %s", self._file, exc)
            return None

    def _write(self, store: Store) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._file, json.dumps(asdict(store)).encode())
        except OSError as exc:
            LOG.warning("%s cannot be written, so that a change of the engine's store is not seen: %s", self._file, exc)


def should_exist(row: Mapping[str, Any]) -> bool:
    """Return whether the engine should show an object for the container ``row``.

    A container that removes itself may have ended while nobody looked.
    """
    made = row["container_id"] is not None and not row["auto_remove"]
    return made and row["status"] in SETTLED | {Status.RESTARTING, Status.UNKNOWN}


def refusal(before: Store, now: Store, lost: Sequence[str], file: pathlib.Path) -> str:
    """Return for operators why the engine is not used, and the next step. ``lost`` are the uuids without an object."""
    count = f"container {lost[0]}" if len(lost) == 1 else f"{len(lost)} containers, {lost[0]} among them"
    return (
        f"it does not show {count}, since its store changed: {changes(before, now)}. To have the containers back, give "
        f"the engine its former store again and restart it. To give them up, remove {file}: they count as removed then"
    )


def changes(before: Store, now: Store) -> str:
    """Return the differences in words, for example ``driver is vfs and was overlay2``."""
    names = {"folder": "folder", "driver": "driver", "images": "keeper of images", "engine_id": "id"}
    pairs = ((name, getattr(before, member), getattr(now, member)) for member, name in names.items())
    told = [f"{name} is {new} and was {old}" for name, old, new in pairs if old != new]
    if before.folder == now.folder and before.inode != now.inode:
        told.append(f"{now.folder} is another folder than before; its disk may not be mounted")
    return ", ".join(told)


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
        """Log the new uuids of ``found``, which has the uuids of containers by host."""
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
