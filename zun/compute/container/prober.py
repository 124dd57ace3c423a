# SPDX-License-Identifier: Apache-2.0
"""Ask the probes of the containers of capsules that run on this host.

What the results say is decided in ``zun.common.probes``. This asks in time and keeps the answers of each run in memory.
A change that somebody should know has the container looked at: its road writes the row, or restarts the container.
"""

import concurrent.futures
import contextlib
import heapq
import http.client
import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from zun.common import exceptions
from zun.common.log_lines import printable
from zun.common.probes import Command, Connection, Health, Page, Probe, Role, has_started, is_ready, probes_of
from zun.common.states import Status
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.base import naive

LOG = logging.getLogger(__name__)

THREADS = 64
"""Probes that are asked at the same time. Threads are made when they are needed; most of the time they wait."""

MOST_OF_CAPSULE = 4
"""Probes of one capsule that are asked at the same time: a capsule whose probes hang must not use up the threads."""

LATER_SECONDS = 0.2
"""The pause of a probe that has to wait for others of its capsule."""


@dataclass(slots=True, eq=False)
class _Watch:
    """One run of a container, from its start to its end."""

    container: Container
    run: datetime | None
    probes: dict[Role, Probe]
    health: Health
    begun: float
    waiting: set[Role] = field(default_factory=set)
    """The probes that are asked now, or have a time at which they will be."""
    paused: bool = False
    """The processes stand still, so nothing is asked."""

    @property
    def asked(self) -> frozenset[Role]:
        return frozenset() if self.paused else self.health.asked(self.probes)


class Prober:
    """The probes of one host. ``look`` is called, in any thread, when somebody should look at a container."""

    def __init__(self, driver: ContainerDriver, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._look: Callable[[str], object] = lambda uuid: None
        self._changed = threading.Condition()
        self._watches: dict[str, _Watch] = {}
        self._due: list[tuple[float, int, _Watch, Role]] = []
        self._order = itertools.count()
        self._busy: dict[str, int] = {}
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self._stopped = False

    def start(self, look: Callable[[str], object]) -> None:
        self._look = look
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, "probe")
        threading.Thread(target=self._follow, name="probes", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def seen(self, container: Container, state: RuntimeState | None) -> RuntimeState | None:
        """Return ``state`` with what the probes of this run say. The probes of a run that nobody has seen begin."""
        if state is None or state.status != Status.RUNNING:
            with self._changed:
                watch = self._watches.get(container.uuid)
                if watch is not None and state is not None and state.status == Status.PAUSED:
                    watch.paused = True
                else:
                    self._watches.pop(container.uuid, None)
            return state
        probes = probes_of(container.request)
        if not probes:
            return state
        with self._changed:
            watch = self._watches.get(container.uuid)
            if watch is None or watch.run != state.started_at:
                watch = _Watch(container, state.started_at, probes, _begun(container, state, probes), self._clock())
                self._watches[container.uuid] = watch
            watch.paused = False
            self._put(watch)
        return replace(state, health=watch.health)

    def forget(self, uuid: str) -> None:
        """Ask nothing more of a container that is deleted."""
        with self._changed:
            self._watches.pop(uuid, None)

    def _put(self, watch: _Watch) -> None:
        """Give the probes that are asked now, and have no time yet, their first time. The caller has the lock."""
        for role in watch.asked - watch.waiting:
            self._at(max(self._clock(), watch.begun + watch.probes[role].delay), watch, role)

    def _at(self, when: float, watch: _Watch, role: Role) -> None:
        watch.waiting.add(role)
        heapq.heappush(self._due, (when, next(self._order), watch, role))
        self._changed.notify()

    def _follow(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (not self._due or self._due[0][0] > self._clock()):
                    self._changed.wait(max(0.0, self._due[0][0] - self._clock()) if self._due else None)
                if self._stopped:
                    return
                _, _, watch, role = heapq.heappop(self._due)
                if self._watches.get(watch.container.uuid) is not watch or role not in watch.asked:
                    watch.waiting.discard(role)
                    continue
                capsule = str(watch.container.capsule_uuid)
                if self._busy.get(capsule, 0) >= MOST_OF_CAPSULE:
                    self._at(self._clock() + LATER_SECONDS, watch, role)
                    continue
                self._busy[capsule] = self._busy.get(capsule, 0) + 1
            assert self._threads is not None
            with contextlib.suppress(RuntimeError):  # the service stops
                self._threads.submit(self._ask, watch, role, self._clock())

    def _ask(self, watch: _Watch, role: Role, begun: float) -> None:
        probe, uuid, capsule = watch.probes[role], watch.container.uuid, str(watch.container.capsule_uuid)
        try:
            failure = failure_of(self._driver, watch.container, probe)
        except exceptions.Unavailable as exc:  # nothing is known of the container
            LOG.info("The %s probe of container %s could not be asked: %s", role, uuid, exc)
            with self._changed:
                self._free(capsule)
                self._at(begun + probe.period, watch, role)
            return
        except Exception:
            LOG.exception("The %s probe of container %s could not be asked", role, uuid)
            failure = "the compute service could not ask"
        with self._changed:
            self._free(capsule)
            before = watch.health
            if not watch.paused:  # else it failed for that
                watch.health = before.after(role, probe, failure)
            watch.waiting.discard(role)
            if role in watch.asked:
                self._at(begun + probe.period, watch, role)
            self._put(watch)
            current = self._watches.get(uuid) is watch
            now = watch.health
        # A start-up alone may leave the text for users as it is, and other containers wait for it.
        news = (now.told(), now.failed, now.started) != (before.told(), before.failed, before.started)
        if current and news:
            self._look(uuid)

    def _free(self, capsule: str) -> None:
        self._busy[capsule] -= 1
        if not self._busy[capsule]:
            del self._busy[capsule]


def _begun(container: Container, state: RuntimeState, probes: dict[Role, Probe]) -> Health:
    """Return the health with which the run goes on: what an earlier run of this service found out stays true."""
    same = naive(container.started_at) == state.started_at and container.status == Status.RUNNING
    if same and has_started(container.status_detail):
        return Health(started=True, ready=Role.READINESS not in probes or is_ready(container.status_detail))
    return Health.at_start(probes)


def failure_of(driver: ContainerDriver, container: Container, probe: Probe) -> str | None:
    """Ask once. Return why the probe fails, or None if it succeeds. Raises Unavailable if the engine does not answer.

    The container may have chosen the text: only its printable characters are kept. No row can hold a NUL.
    """
    failure = _asked_once(driver, container, probe)
    return failure and printable(failure)


def _asked_once(driver: ContainerDriver, container: Container, probe: Probe) -> str | None:
    late = f"no answer within {probe.timeout} s"
    try:
        match probe.test:
            case Command(words):
                output, code = driver.execute(container, words, probe.timeout, ends=True)
                return None if code == 0 else f"exit code {code} {output.strip()[:100]}".strip()
            case Connection(port, host):
                driver.connect(container, host, port, probe.timeout).close()
                return None
            case Page() as page:
                return _refused(driver, container, page, probe.timeout)
    except exceptions.Unavailable:
        raise
    except TimeoutError:
        return late
    except (OSError, http.client.HTTPException) as exc:
        return (getattr(exc, "strerror", None) or str(exc) or type(exc).__name__)[:100]
    except exceptions.ZunError as exc:
        return exceptions.first_line(exc)[:100].rstrip(".")


def _refused(driver: ContainerDriver, container: Container, page: Page, timeout: float) -> str | None:
    """Ask for the page. Return None for an answer from 200 to 399, else the answer."""
    until = time.monotonic() + timeout
    headers = {"Connection": "close", "User-Agent": "zun-probe", **dict(page.headers)}
    client = http.client.HTTPConnection(page.at.host or "localhost", page.at.port, timeout=timeout)
    client.sock = driver.connect(container, page.at.host, page.at.port, timeout)
    # The timeout of a socket is that of one read. A server that sends byte by byte must end in time, too.
    end = threading.Timer(max(0.0, until - time.monotonic()), lambda: _shut(client.sock))
    end.start()
    try:
        if page.secure:
            client.sock = _unverified().wrap_socket(client.sock)
        client.request("GET", page.path, headers=headers)
        answer = client.getresponse()
        if time.monotonic() >= until:  # the end of the connection ends headers, too
            raise TimeoutError
        return None if 200 <= answer.status < 400 else f"{answer.status} {answer.reason[:80]}".strip()
    except (OSError, http.client.HTTPException):
        if time.monotonic() >= until:
            raise TimeoutError from None
        raise
    finally:
        end.cancel()
        client.close()


def _shut(connection: socket.socket | None) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _unverified() -> ssl.SSLContext:
    """Return the context for a server in the container, whose certificate nobody can verify from here."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
