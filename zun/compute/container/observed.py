# SPDX-License-Identifier: Apache-2.0
"""Compare the row of a container with its state at the runtime. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from zun.common.states import ALIVE, ALLOWED, TRANSITIONAL, Kind, Status
from zun.container.driver.state import OUT_OF_MEMORY, RuntimeState
from zun.container.weights import SHARES_PER_CPU, may_be
from zun.objects import Container
from zun.objects.base import naive
from zun.topology import CPUPolicy

GONE = (
    "The container does not exist at the runtime any more: it was removed behind this service's back. Delete it here "
    "as well, or rebuild it."
)
CAPSULE_GONE = (
    "It does not exist at the runtime any more: it was removed behind this service's back. Delete the capsule, and "
    "create it anew."
)
HEALING = "The container did not exist at the runtime any more. It is being made anew."

ROUNDED = 0.005  # CPUs
RESTARTS = "Its command ended with exit code {} and is started again, as its restart policy says."

# Not in an error: its reason would be lost, and what cannot be made would be tried again for ever.
_HEALED = ALLOWED["rebuild"] - {Status.ERROR}


def observed(row: Mapping[str, Any], state: RuntimeState | None) -> dict[str, Any]:
    """The members of ``row`` (a container's row or object) that ``state`` proves wrong, with their right values.

    A row in a transitional status is left to the operation that ends it.
    """
    if row["status"] in TRANSITIONAL - {Status.RESTARTING} or row["status"] == Status.DELETED:
        return {}
    if state is None:
        return _vanished(row)
    right: dict[str, Any] = {
        "container_id": state.container_id,
        "started_at": state.started_at,
        "finished_at": state.finished_at,
        "exit_code": state.exit_code,
        **told_by_runtime(row, state),
    }
    if row["capsule_uuid"] is not None:
        right["status_detail"] = None if state.health is None else state.health.told()
    seen = state.status
    if seen is None and state.never_started and row["status"] == Status.RESTARTING:
        seen = Status.CREATED  # its reboot failed before the runtime heard of it: nothing will follow
    # An error stays until the container runs again: that it is not running is no news, and its reason would be lost.
    news = seen is not None and (row["status"] != Status.ERROR or seen in ALIVE)
    if news:
        right["status"] = seen
        if seen == Status.RESTARTING and state.exit_code is not None:
            right["status_reason"] = state.error or RESTARTS.format(state.exit_code)
        elif seen != row["status"]:
            right["status_reason"] = state.error or None
    return {name: value for name, value in right.items() if naive(row[name]) != value}


def take_over(container: Container, state: RuntimeState | None) -> None:
    """Correct the members of ``container`` that ``state`` proves wrong, without saving."""
    for name, value in observed(container, state).items():
        setattr(container, name, value)


def told_by_runtime(row: Mapping[str, Any], state: RuntimeState) -> dict[str, Any]:
    """Return values that the runtime chose because the user did not: the host name and addresses."""
    chosen: dict[str, Any] = {}
    if state.hostname is not None and row["hostname"] is None:
        chosen["hostname"] = state.hostname
    if state.addresses is not None:
        before = row["addresses"] or {}
        ours = {network: items for network, items in before.items() if uuidutils.is_uuid_like(network)}
        now = {**ours, **{network: _plain_addresses(items) for network, items in state.addresses.items()}}
        if now != before:
            chosen["addresses"] = now
    return chosen


def _plain_addresses(addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Return addresses in a network of the runtime's own, which has neither port nor subnet."""
    none = {"port": None, "subnet_id": None, "preserve_on_delete": False}
    return [{"addr": addr, "version": 6 if ":" in addr else 4, **none} for addr in addresses]


def limited_otherwise(row: Mapping[str, Any], state: RuntimeState, memory: int) -> bool:
    """Return whether the runtime's limits of CPUs or memory differ from ``row``, after a resize that did not end.

    ``memory`` is the limit of ordinary memory in MiB. The whole memory of ``row`` is right too: an earlier release gave
    it to containers with huge pages, and a lower limit could end their programs. The audit reports them.

    Runtimes round. They limit the memory of all, and the CPUs of shared containers only; a mixed one has a weight.
    """
    if state.memory not in (memory or None, row["memory"] or None):
        return True
    weighed = row["cpu_policy"] == CPUPolicy.MIXED and state.cap is None
    return (weighed or row["cpu_policy"] == CPUPolicy.SHARED) and other_cpu(state, row["cpu"])


def other_cpu(state: RuntimeState, cpu: float) -> bool:
    """Return whether the runtime's limit or weight differs from ``cpu`` by more than rounding.

    A weight is right with the shares of any curve: which curve the runtime has, only the kernel tells (the audit).
    """
    limit = state.cpu or 0.0
    by_curve = state.cap is None and may_be(round(limit * SHARES_PER_CPU), cpu)
    return abs(limit - cpu) > ROUNDED and not by_curve


def _vanished(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["auto_remove"] and row["status"] != Status.ERROR:
        return {"status": Status.DELETED, "cpuset": None}
    if row["status"] == Status.ERROR:
        return {}
    if row["container_id"] is None:  # it was never made: a reboot was tried all the same, and told why it failed
        return {"status": Status.ERROR}
    if row["auto_heal"] and row["status"] in _HEALED:
        request = {**row["request"], "run": row["status"] == Status.RUNNING}
        return {"status": Status.REBUILDING, "status_reason": HEALING, "request": request}
    return {"status": Status.ERROR, "status_reason": GONE if row["kind"] == Kind.CONTAINER else CAPSULE_GONE}


def never_made(row: Mapping[str, Any]) -> bool:
    """Return whether ``row`` is of a creation that failed when the runtime could not be asked, and holds its claim."""
    failed = row["status"] == Status.ERROR and row["container_id"] is None and row["capsule_uuid"] is None
    return failed and row["cpuset"] is not None


def not_restarted(row: Mapping[str, Any], state: RuntimeState | None) -> bool:
    """Return whether the runtime tried to start the container again, as its restart policy says, and could not.

    After a boot, or a failure while this service was away, the container's networks and mounts were missing. A
    container that its user stopped has no error, unless the runtime starts such containers as well (``always``).
    """
    if state is None or state.status != Status.STOPPED or state.error in (None, OUT_OF_MEMORY):
        return False
    tried = (row["restart_policy"] or {}).get("Name") not in (None, "", "no")
    return tried and row["task_state"] is None and row["status"] in (Status.RUNNING, Status.STOPPED, Status.RESTARTING)
