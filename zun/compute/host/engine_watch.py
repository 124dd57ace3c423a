# SPDX-License-Identifier: Apache-2.0
"""Watch the container engine of this host: tell the cloud what it is, and whether it can be used.

An engine shows only the containers of the store that it uses. After a change of its storage driver, of its image store
or of the folder of its data it answers "no such container" for containers whose files are all there, and which may even
run. Such an answer must not end a container here. So an engine with another store than before is used only if it shows
every container that should exist on this host.
"""

import json
import logging
import os
import pathlib
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import Any, Self

from zun.common import exceptions, outages
from zun.common.context import RequestContext, admin_context
from zun.common.states import SETTLED, Status
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


class EngineWatch:
    """Thread-safe. ``file`` has the store that the engine had when this host used it last."""

    def __init__(self, hostname: str, driver: Facts, scheduler_api: SchedulerAPI, file: pathlib.Path) -> None:
        self._hostname = hostname
        self._driver = driver
        self._scheduler_api = scheduler_api
        self._file = file
        self._engine = NO_ENGINE
        self._told: Mapping[str, Any] | None = None
        self._refusal: str | None = None
        self._turn = threading.Lock()

    @classmethod
    def of_host(cls, hostname: str, driver: Facts, scheduler_api: SchedulerAPI, state_path: str) -> Self:
        file = pathlib.Path(state_path, "engines", f"{urllib.parse.quote(hostname, safe='')}.json")
        return cls(hostname, driver, scheduler_api, file)

    @property
    def up(self) -> bool:
        """Whether the engine could be used when it was looked at last."""
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
        """Ask the engine whether it answers, and tell the cloud if it does not. Return whether it does."""
        try:
            self._driver.ping()
        except exceptions.ZunError as exc:
            if self.up:
                LOG.warning("The container engine cannot be used: %s", exc)
            self._tell(context, self._refusal or str(exc))
            return False
        return True

    def found(self, context: RequestContext, engine: EngineFacts) -> None:
        """Tell the cloud that the engine can be used, and what it is."""
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
        new = self._file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps(asdict(store)))
            new.replace(self._file)
        except OSError as exc:
            LOG.warning("%s cannot be written, so that a change of the engine's store is not seen: %s", self._file, exc)


def should_exist(row: Mapping[str, Any]) -> bool:
    """Return whether the engine should show an object for the container ``row``.

    A container that removes itself may have ended while nobody looked.
    """
    made = row["container_id"] is not None and not row["auto_remove"]
    return made and row["status"] in SETTLED | {Status.RESTARTING, Status.UNKNOWN}


def refusal(before: Store, now: Store, lost: Sequence[str], file: pathlib.Path) -> str:
    """Return for operators why the engine is not used, and what to do. ``lost`` are the uuids that it does not show."""
    count = f"container {lost[0]}" if len(lost) == 1 else f"{len(lost)} containers, {lost[0]} among them"
    return (
        f"it does not show {count}, since its store changed: {changes(before, now)}. To have the containers back, give "
        f"the engine its former store again and restart it. To give them up, remove {file}: they count as removed then"
    )


def changes(before: Store, now: Store) -> str:
    """Return in words what differs, for example ``driver is vfs and was overlay2``."""
    told = [
        f"{name} is {new} and was {old}"
        for name, old, new in (
            ("folder", before.folder, now.folder),
            ("driver", before.driver, now.driver),
            ("keeper of images", before.images, now.images),
            ("id", before.engine_id, now.engine_id),
        )
        if old != new
    ]
    if before.folder == now.folder and before.inode != now.inode:
        told.append(f"{now.folder} is another folder than before; its disk may not be mounted")
    return ", ".join(told)
