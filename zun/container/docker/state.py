# SPDX-License-Identifier: Apache-2.0
"""From Docker's description of an object to a :class:`~zun.container.driver.RuntimeState`. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zun.common.states import Status
from zun.common.units import MIB
from zun.container.docker.client import NAME_PREFIX
from zun.container.docker.create import QUOTA_PERIOD_US, SHARES_PER_CPU
from zun.container.driver import KEPT_WHEN_NEVER_STARTED, OUT_OF_MEMORY, RuntimeState

_ENDED = frozenset({"exited", "removing"})


def runtime_state(inspected: Mapping[str, Any], current: Status | str | None) -> RuntimeState:
    """Return the state of an inspected object; ``current`` is the status of its row, None when unknown."""
    state: Mapping[str, Any] = inspected.get("State") or {}
    config: Mapping[str, Any] = inspected.get("HostConfig") or {}
    status, reason = _status(state, current)
    alive = bool(state.get("Running"))
    started, finished = _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    return RuntimeState(
        container_id=inspected["Id"],
        status=status,
        # While it runs, Docker still tells about the end of the run before.
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
    )


def _cap(config: Mapping[str, Any]) -> float | None:
    """What ``docker update --cpus`` has set, else a quota, less than nothing once it was taken off."""
    if nano := config.get("NanoCpus"):
        return float(nano / 1_000_000_000)
    if (quota := config.get("CpuQuota") or 0) > 0:
        return float(quota / (config.get("CpuPeriod") or QUOTA_PERIOD_US))
    return None


def _weight(config: Mapping[str, Any]) -> float | None:
    return (config.get("CpuShares") or 0) / SHARES_PER_CPU or None


def _own_addresses(networks: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What Docker chose, on networks that are not of this service."""
    found = {
        name: tuple(filter(None, (endpoint.get("IPAddress"), endpoint.get("GlobalIPv6Address"))))
        for name, endpoint in networks.items()
        if not name.startswith(NAME_PREFIX)
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def _status(state: Mapping[str, Any], current: Status | str | None) -> tuple[Status | None, str | None]:
    """Return the row's new status (None: keep it) and the reason for it, first match first.

    The order is the one of the lifecycle contract, "Runtime state to status". It does not say what an object
    that never ran means to a row that claims it did (``Running`` and the like, after somebody recreated the
    object): the object is right, so ``Created``.
    """
    if not state:
        return Status.UNKNOWN, "Docker reports no state for the container"
    word = str(state.get("Status") or "")
    error = state.get("Error") or None
    if error:
        return (Status.STOPPED if word in _ENDED else _known(word)), error
    if word == "removing":
        return None, None  # not Stopped, nor Dead as its flags say: what follows depends on what it was before
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
    """Parse Docker's time, to microseconds, as naive UTC. Year 1 is how Docker writes "never"."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
