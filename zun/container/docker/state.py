# SPDX-License-Identifier: Apache-2.0
"""Translate Docker's description of an object into a ``RuntimeState``, as pure functions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zun.common.states import KEPT_WHEN_NEVER_STARTED, Status
from zun.common.units import MIB
from zun.container.docker.client import DEFAULT_PREFIX, NAME_PREFIX
from zun.container.docker.create import QUOTA_PERIOD_US, dedicated_in
from zun.container.docker.devices import told_in
from zun.container.driver.state import DEFAULT_NETWORK, OUT_OF_MEMORY, RuntimeState
from zun.container.weights import SHARES_PER_CPU

_ENDED = frozenset({"exited", "removing"})


def runtime_state(inspected: Mapping[str, Any], current: Status | str | None) -> RuntimeState:
    """Return the state of an inspected object. ``current`` is the status of its row, None if unknown."""
    state: Mapping[str, Any] = inspected.get("State") or {}
    config: Mapping[str, Any] = inspected.get("HostConfig") or {}
    status, reason = _status(state, current)
    alive = bool(state.get("Running")) and not state.get("Restarting")  # Docker sets both between two attempts
    started, finished = _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    return RuntimeState(
        container_id=inspected["Id"],
        status=status,
        # For a running container, Docker still reports the exit code of the previous run.
        exit_code=None if alive or not (finished or reason) else state.get("ExitCode"),
        started_at=started,
        finished_at=None if alive else finished,
        error=reason,
        pid=state.get("Pid") or 0,
        cpuset_cpus=config.get("CpusetCpus") or "",
        cpuset_mems=config.get("CpusetMems") or "",
        hostname=(inspected.get("Config") or {}).get("Hostname") or None,
        addresses=_own_addresses((inspected.get("NetworkSettings") or {}).get("Networks") or {}),
        cpu=_cap(config) or _weight(config),
        cap=_cap(config),
        memory=(config.get("Memory") or 0) // MIB or None,
        devices=told_in((inspected.get("Config") or {}).get("Env")),
        dedicated_cpus=dedicated_in((inspected.get("Config") or {}).get("Env")),
    )


def _cap(config: Mapping[str, Any]) -> float | None:
    """Return the cap in CPUs, or None: NanoCpus 1500000000 is 1.5. A quota that was removed is -1."""
    if nano := config.get("NanoCpus"):
        return float(nano / 1_000_000_000)
    if (quota := config.get("CpuQuota") or 0) > 0:
        return float(quota / (config.get("CpuPeriod") or QUOTA_PERIOD_US))
    return None


def _weight(config: Mapping[str, Any]) -> float | None:
    return (config.get("CpuShares") or 0) / SHARES_PER_CPU or None


def _own_addresses(networks: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the addresses that Docker chose, by network: on the project's default network and on foreign networks."""
    found = {
        DEFAULT_NETWORK if name.startswith(DEFAULT_PREFIX) else name: tuple(
            filter(None, (endpoint.get("IPAddress"), endpoint.get("GlobalIPv6Address")))
        )
        for name, endpoint in networks.items()
        if name.startswith(DEFAULT_PREFIX) or not name.startswith(NAME_PREFIX)
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def _status(state: Mapping[str, Any], current: Status | str | None) -> tuple[Status | None, str | None]:
    """Return the row's new status (None: keep the old one) and its reason.

    The first match decides, in this order: no state, an error text, removing, Paused, Restarting, Running, Dead, never
    started, never finished, stopped. An object that never started while its row says that it ran (for example Running,
    after somebody created the object anew) is ``Created``.
    """
    if not state:
        return Status.UNKNOWN, "Docker reports no state for the container"
    word = str(state.get("Status") or "")
    error = state.get("Error") or None
    if error:
        return (Status.STOPPED if word in _ENDED else _known(word)), error
    if word == "removing":
        return None, None  # the row keeps its status, although the object's flags may say Dead
    for flag, status in (
        ("Paused", Status.PAUSED),
        ("Restarting", Status.RESTARTING),
        ("Running", Status.RUNNING),
        ("Dead", Status.DEAD),
    ):
        if state.get(flag):
            return status, None
    if _time(state.get("StartedAt")) is None:
        return (None if current is None or current in KEPT_WHEN_NEVER_STARTED else Status.CREATED), None
    if _time(state.get("FinishedAt")) is None:
        return Status.UNKNOWN, "Docker reports a container that was started, does not run and never ended"
    return Status.STOPPED, OUT_OF_MEMORY if state.get("OOMKilled") and state.get("ExitCode") == 137 else None


def _known(word: str) -> Status | None:
    try:
        return Status(word.capitalize())
    except ValueError:
        return None


def _time(text: str | None) -> datetime | None:
    """Return Docker's time as naive UTC with microseconds. ``0001-01-01T00:00:00Z`` means never and becomes None."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
