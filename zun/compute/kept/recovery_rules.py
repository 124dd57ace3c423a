# SPDX-License-Identifier: Apache-2.0
"""Decide whether a container without a row may have its row back from its record. No I/O."""

import datetime
from collections.abc import Mapping
from typing import Any

from oslo_versionedobjects import fields

from zun.common.states import Kind, Status
from zun.compute.kept.records import Record
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.base import TimeField
from zun.objects.placement import held_plan
from zun.topology import Usage
from zun.topology.usage import ClaimConflict

NO_RECORD = (
    "this host has no record of it, so nobody knows whose it is. If nobody needs it, remove it with 'docker rm -f'"
)


def row_of(record: Record, state: RuntimeState) -> dict[str, Any]:
    """Return the columns of a container's row from its record, with the status that the runtime shows.

    Raise ValueError if the record lacks a column. Columns that this release does not know are left out.
    """
    columns = {name: record.container[name] for name in Container.fields if name in record.container}
    needed = {name for name, kind in Container.fields.items() if name != "id" and _needed(kind)}
    missing = needed - columns.keys()
    if missing:
        raise ValueError(f"the record lacks {', '.join(sorted(missing))}")
    for name, kind in Container.fields.items():
        if isinstance(kind, TimeField) and columns.get(name) is not None:
            columns[name] = datetime.datetime.fromisoformat(columns[name])
    status = state.status or (Status.CREATED if state.never_started else Status.STOPPED)
    # What was under way is over. Its request ended with the database.
    return {**columns, "status": str(status), "status_reason": None, "status_detail": None, "task_state": None}


def _needed(kind: fields.Field) -> bool:
    return not kind.nullable and kind.default is fields.UnspecifiedDefault


def why_not(hostname: str, row: Mapping[str, Any], state: RuntimeState, others: Usage) -> str | None:
    """Return why the container of ``row`` cannot be taken back, or None if it can.

    ``others`` is what the host's other containers hold. A member of a capsule holds nothing itself.
    """
    if row["host"] != hostname:
        return f"its record says that it is on host {row['host']}"
    if row["kind"] == Kind.LEFTOVER:
        return "it was deleted and could not be removed. Remove it with 'docker rm -f'"
    if row["container_id"] not in (None, state.container_id):
        return (
            f"its record is about object {row['container_id'][:12]} and the runtime has {state.container_id[:12]}, "
            "which somebody else may have made. Remove it with 'docker rm -f', or look who made it"
        )
    if row["capsule_uuid"] is not None:
        return None
    plan = held_plan(row)
    if plan is None:
        return "its record has no claim. Remove it with 'docker rm -f'"
    try:
        others.without(row["uuid"]).with_claim(row["uuid"], plan)
    except ClaimConflict as clash:
        what = f"CPUs {clash.cpus}" if clash.cpus else f"devices {', '.join(sorted(clash.devices))}"
        return (
            f"its {what} belong to other containers by now. Delete one of the two: 'openstack appcontainer host "
            f"map {hostname}' tells who has them; 'docker rm -f' removes this one"
        )
    return None
