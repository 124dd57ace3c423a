# SPDX-License-Identifier: Apache-2.0
"""Probes of the containers of a capsule: what was asked, and what the results of one run say. Values only.

Source: the Kubernetes API reference, Pod v1, Probe, whose names and defaults these are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

PROBES = "probes"
"""Member of ``request`` of a container of a capsule: its probes by role, as the template has them."""
SIDECAR = "sidecar"
"""Member of ``request``: the container is started among the init containers, and goes on beside the others."""
GRACE = "grace"
"""Member of ``request`` of a capsule: seconds that its containers have to end when it is deleted."""

READY = "ready"
NOT_READY = "not ready"


class Role(StrEnum):
    """The question that a probe answers."""

    STARTUP = "startup"
    """Has the container started? No other probe is asked before. If it fails, the container is restarted."""
    LIVENESS = "liveness"
    """Does it still work? If it fails, the container is restarted."""
    READINESS = "readiness"
    """Can it serve now? The answer is shown and changes nothing."""


MEMBERS: Mapping[str, Role] = MappingProxyType(
    {"startupProbe": Role.STARTUP, "livenessProbe": Role.LIVENESS, "readinessProbe": Role.READINESS}
)
"""The names of the probes in a template."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command inside the container, without a shell. It succeeds with exit code 0."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to a TCP port, made inside the capsule's network. ``host`` None is the capsule's own address."""

    port: int
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A GET request, made inside the capsule's network. It succeeds with a status from 200 to 399.

    The certificate of a server is not verified.
    """

    at: Connection
    path: str = "/"
    secure: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe. Times are in seconds: ``delay`` before the first, ``period`` from one to the next.

    ``successes`` or ``failures`` in a row change the answer.
    """

    test: Command | Connection | Page
    delay: int = 0
    period: int = 10
    timeout: int = 1
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, role: Role, given: Mapping[str, Any]) -> Self:
        """Return the probe of a template. Raise ValueError, naming the member, for one that means nothing."""
        tests = [name for name in ("exec", "httpGet", "tcpSocket") if given.get(name) is not None]
        if len(tests) != 1:
            raise ValueError("it needs exactly one of exec, httpGet and tcpSocket")
        name = tests[0]
        numbers = {of: given[called] for called, of in _NUMBERS.items() if given.get(called) is not None}
        probe = cls(_TESTS[name](given[name], name), **numbers)
        if role is not Role.READINESS and probe.successes != 1:
            raise ValueError(f"successThreshold must be 1, except in a readinessProbe, got {probe.successes}")
        return probe

    def told(self) -> str:
        """Return what the probe does. Example: ``GET http://capsule:8080/healthz``."""
        match self.test:
            case Command(words):
                return " ".join(words)[:80]
            case Connection(port, host):
                return f"connect to {_at(host, port)}"
            case Page(Connection(port, host), path, secure):
                return f"GET {'https' if secure else 'http'}://{_at(host, port)}{path}"[:120]


_WORDS = {Role.STARTUP: "start-up", Role.LIVENESS: "liveness", Role.READINESS: "readiness"}

_NUMBERS = {
    "initialDelaySeconds": "delay",
    "periodSeconds": "period",
    "timeoutSeconds": "timeout",
    "successThreshold": "successes",
    "failureThreshold": "failures",
}


def _at(host: str | None, port: int) -> str:
    """Return where a port is. The own address of the capsule is ``capsule``."""
    return f"{'capsule' if host is None else f'[{host}]' if ':' in host else host}:{port}"


def _connection(given: Mapping[str, Any], name: str) -> Connection:
    host = given.get("host") or None
    if host is not None and host != "localhost":
        try:
            host = str(ipaddress.ip_address(host))
        except ValueError:
            # A name would be looked up by the host, which knows other names than the container.
            raise ValueError(f"{name}.host: {host[:64]!r} is neither an IP address nor localhost") from None
    return Connection(given["port"], host)


def _page(given: Mapping[str, Any], name: str) -> Page:
    path = given.get("path") or "/"
    headers = tuple((each["name"], each["value"]) for each in given.get("httpHeaders") or ())
    return Page(
        _connection(given, name),
        path if path.startswith("/") else f"/{path}",
        given.get("scheme", "HTTP") == "HTTPS",
        headers,
    )


_TESTS: Mapping[str, Any] = MappingProxyType(
    {
        "exec": lambda given, name: Command(tuple(given["command"])),
        "httpGet": _page,
        "tcpSocket": _connection,
    }
)


def probes_of(request: Mapping[str, Any] | None) -> dict[Role, Probe]:
    """Return the probes of a container by role, from its column ``request``."""
    found = (request or {}).get(PROBES) or {}
    return {role: Probe.of(role, found[role]) for role in Role if role in found}


def is_sidecar(row: Mapping[str, Any]) -> bool:
    """Return whether a container of a capsule (an object or a row) is a sidecar."""
    return bool((row["request"] or {}).get(SIDECAR))


def grace_of(row: Mapping[str, Any]) -> int | None:
    """Return the seconds that the processes of a capsule, or of one of its containers, have to end.

    None if its template does not say it.
    """
    return (row["request"] or {}).get(GRACE)


def is_ready(status_detail: str | None) -> bool:
    """Return whether a running container of a capsule with this ``status_detail`` can serve."""
    return not (status_detail or "").startswith(NOT_READY)


def has_started(status_detail: str | None) -> bool:
    """Return whether this ``status_detail`` of a container that runs proves that its start-up probe has succeeded."""
    text = status_detail or ""
    return bool(text) and (is_ready(text) or text.startswith(f"{NOT_READY}: readiness"))


@dataclass(frozen=True, slots=True)
class Health:
    """The answers of the probes of one run of a container, taken together.

    - ``started``: the start-up probe has succeeded, or the container has no start-up probe.
    - ``ready``: so has the readiness probe.
    - ``failed``: why the container must be restarted, None while it need not.
    - ``rows``: by role how often in a row the probe gave the same answer: 2 are two successes, -2 two failures.
    - ``why``: the last failure of the probe because of which the container has not started or is not ready.
    """

    started: bool
    ready: bool
    failed: str | None = None
    rows: Mapping[Role, int] = field(default_factory=dict, hash=False)
    why: str | None = None

    @classmethod
    def at_start(cls, probes: Mapping[Role, Probe]) -> Self:
        return cls(Role.STARTUP not in probes, Role.READINESS not in probes)

    def asked(self, probes: Mapping[Role, Probe]) -> frozenset[Role]:
        """Return the probes that are asked now: the start-up probe alone until it succeeds, and then never again."""
        if self.failed is not None:
            return frozenset()
        return frozenset({Role.STARTUP} if not self.started else probes.keys() - {Role.STARTUP})

    def after(self, role: Role, probe: Probe, failure: str | None) -> Health:
        """Return the health after one more answer of a probe. ``failure`` is why it failed, None if it succeeded."""
        before = self.rows.get(role, 0)
        row = max(before, 0) + 1 if failure is None else min(before, 0) - 1
        now = replace(self, rows={**self.rows, role: row})
        if row >= probe.successes and role is Role.STARTUP:
            return replace(now, started=True, why=None)
        if row >= probe.successes and role is Role.READINESS:
            return replace(now, ready=True, why=None)
        if failure is None or role is not Role.LIVENESS:
            now = replace(now, why=now.why if failure is None else f"{probe.told()}: {failure}")
        if -row < probe.failures:
            return now
        if role is Role.READINESS:
            return replace(now, ready=False)
        times = f"{probe.failures} times in a row" if probe.failures > 1 else "once"
        return replace(now, failed=f"Its {_WORDS[role]} probe failed {times} ({probe.told()}: {failure})")

    def told(self) -> str:
        """Return the text for users: ``ready``, or ``not ready`` with the reason as far as there is one."""
        if self.started and self.ready:
            return READY
        what = _WORDS[Role.READINESS if self.started else Role.STARTUP]
        return f"{NOT_READY}: {what} probe: {self.why}"[:255] if self.why else NOT_READY
