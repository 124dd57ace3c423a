# SPDX-License-Identifier: Apache-2.0
"""The daemon behind the in-memory driver: objects, processes and a few simulated commands."""

import itertools
import queue
import signal as signals
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from zun.common import exceptions
from zun.common.states import KEPT_WHEN_NEVER_STARTED, Status
from zun.container.driver.events import RuntimeEvent
from zun.container.driver.facts import Store
from zun.container.driver.lifecycle import Plug, RuntimeMount
from zun.container.driver.state import OUT_OF_MEMORY, RuntimeState
from zun.topology.device_request import GivenDevice

#: Exit codes of a process that SIGKILL or SIGTERM ended.
KILLED, TERMINATED = 137, 143
#: Seconds before a stop kills a process that ignores SIGTERM, unless the caller gives a timeout.
STOP_TIMEOUT = 10


@dataclass(slots=True)
class RuntimeObject:
    """The runtime's object of one container. ``pid`` is 0 while no process runs."""

    container_id: str
    uuid: str
    host: str
    command: tuple[str, ...]
    auto_remove: bool
    restart: Mapping[str, str]
    cpuset_cpus: str
    cpuset_mems: str
    cpu: float | None
    memory: int | None
    image: str = ""
    cap: float | None = None
    hostname: str | None = None
    plug: Plug | None = None
    mounts: tuple[RuntimeMount, ...] = ()
    join: str | None = None
    devices: tuple[GivenDevice, ...] = ()
    dedicated_cpus: str = ""
    pid: int = 0
    paused: bool = False
    restarting: bool = False
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restarts: int = 0
    out_of_memory: bool = False
    page_limits: Mapping[int, int] | None = None
    """Bytes of huge pages by size in KiB, None without limits. A new process has none."""
    log: list[tuple[datetime, str]] = field(default_factory=list)
    answers: dict[int, bytes] = field(default_factory=dict)
    """By TCP port, the bytes that the container sends to a new connection."""
    signals: list[str] = field(default_factory=list)
    """What was sent to the process, and did not end it."""
    layer: bytes = b""
    """A tar of the files that the container has added or changed in its own file system, empty without any."""

    def status(self, current: Status | str | None) -> Status | None:
        if self.paused:
            return Status.PAUSED
        if self.restarting:
            return Status.RESTARTING
        if self.pid:
            return Status.RUNNING
        if self.started_at is not None:
            return Status.STOPPED
        return None if current is None or current in KEPT_WHEN_NEVER_STARTED else Status.CREATED

    def state(self, current: Status | str | None) -> RuntimeState:
        return RuntimeState(
            container_id=self.container_id,
            status=self.status(current),
            exit_code=None if self.pid else self.exit_code,
            started_at=self.started_at,
            finished_at=None if self.pid else self.finished_at,
            error=OUT_OF_MEMORY if self.out_of_memory and not self.pid else None,
            pid=self.pid,
            cpuset_cpus=self.cpuset_cpus,
            cpuset_mems=self.cpuset_mems,
            hostname=self.hostname or self.container_id[:12],
            addresses={},
            cpu=self.cpu,
            memory=self.memory or None,
            cap=self.cap,
            devices=self.devices,
            dedicated_cpus=self.dedicated_cpus,
        )

    @property
    def ignores_term(self) -> bool:
        """Return whether only SIGKILL ends the process: its shell command contains ``trap '' TERM``."""
        return any("trap '' TERM" in word for word in self.command)

    @property
    def restart_limit(self) -> int:
        """Return the most restarts after failures; 0 is no limit."""
        return int(self.restart.get("MaximumRetryCount") or 0)

    def restarts_after(self, code: int) -> bool:
        """Return whether the restart policy starts the process again after it ended by itself with ``code``."""
        policy = self.restart.get("Name")
        if policy == "on-failure":
            return code != 0 and (not self.restart_limit or self.restarts < self.restart_limit)
        return policy in ("always", "unless-stopped")


class InMemoryRuntime:
    """The daemon. Several drivers may share it, as several agents share one Docker. Callers hold ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ended = threading.Condition(self.lock)  # notified when a process has ended
        self.objects: dict[str, RuntimeObject] = {}
        self.by_host: dict[str, dict[str, RuntimeObject]] = defaultdict(dict)
        self._stores: dict[Store, tuple[dict[str, RuntimeObject], dict[str, dict[str, RuntimeObject]]]] = {}
        self.silent: set[str] = set()  # hosts whose stream of events is cut
        self.listeners: dict[str, list[queue.Queue[RuntimeEvent]]] = defaultdict(list)
        self._pids = itertools.count(1001)

    def change_store(self, before: Store, after: Store) -> None:
        """Put the objects of the store ``before`` aside, and show those of ``after``. Their processes go on."""
        self._stores[before] = self.objects, self.by_host
        self.objects, self.by_host = self._stores.pop(after, ({}, defaultdict(dict)))

    def add(self, made: RuntimeObject) -> None:
        self.objects[made.uuid] = made
        self.by_host[made.host][made.uuid] = made

    def remove(self, gone: RuntimeObject) -> None:
        del self.objects[gone.uuid]
        del self.by_host[gone.host][gone.uuid]
        self.tell(gone, "destroy")

    def begin(self, stopped: RuntimeObject) -> None:
        """Start the first process. A command that ends at once has ended when ``begin`` returns."""
        stopped.pid, stopped.started_at, stopped.restarting = next(self._pids), utcnow(), False
        stopped.out_of_memory, stopped.page_limits = False, None
        self.tell(stopped, "start")
        outcome = pretend(stopped.command)
        if outcome is None or outcome.seconds:
            return
        stopped.log.extend((utcnow(), line) for line in outcome.output.splitlines())
        if stopped.restarts_after(outcome.code) and not stopped.restart_limit:
            # The loop of restarts has no end. Docker waits longer after each restart.
            self._die(stopped, outcome.code)
            stopped.restarting = True
        else:
            self.end(stopped, outcome.code, by_itself=True)

    def end(self, running: RuntimeObject, code: int, *, by_itself: bool = False, keep: bool = False) -> None:
        """End the process. With ``by_itself`` the restart policy applies; with ``keep`` auto_remove does not."""
        self._die(running, code)
        if by_itself and running.restarts_after(code):
            running.restarts += 1
            self.begin(running)
        elif running.auto_remove and not keep:
            self.remove(running)

    def tell(self, about: RuntimeObject, action: str) -> None:
        if about.host in self.silent:
            return
        for listener in self.listeners.get(about.host, ()):
            listener.put(RuntimeEvent(about.uuid, action))

    def _die(self, running: RuntimeObject, code: int) -> None:
        running.pid, running.paused, running.restarting = 0, False, False
        running.exit_code, running.finished_at = code, utcnow()
        self.tell(running, "die")
        self.ended.notify_all()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command: its output, exit code and duration in seconds."""

    output: str
    code: int
    seconds: float = 0.0


def pretend(command: Sequence[str]) -> Outcome | None:
    """Return the outcome of a known command, or None for any other command, which runs until stopped."""
    match list(command):
        case ["echo", *words]:
            return Outcome(" ".join(words) + "\n", 0)
        case ["true"]:
            return Outcome("", 0)
        case ["false"]:
            return Outcome("", 1)
        case ["sleep", seconds]:
            return Outcome("", 0, float(seconds))
    return None


def signal_number(name: str) -> int:
    """Return the number of a signal written as ``SIGTERM``, ``term`` or ``15``, else InvalidValue."""
    try:
        if name.isdigit():
            return signals.Signals(int(name))
        upper = name.upper()
        return signals.Signals[upper if upper.startswith("SIG") else f"SIG{upper}"]
    except (KeyError, ValueError) as exc:
        raise exceptions.InvalidValue(f"'{name}' is no signal. Give a name such as SIGTERM.") from exc


def utcnow() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
