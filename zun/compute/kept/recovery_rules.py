# SPDX-License-Identifier: Apache-2.0
"""Decide how a container gets its row back from its record, or a lost claim from the runtime.

No I/O. Rows are lost with the database. A row loses its claim to an edit or an import.
"""

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oslo_versionedobjects import fields

from zun.common.states import Kind, Status
from zun.compute.container.resize_rules import resized
from zun.compute.kept.records import Record
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.base import TimeField
from zun.objects.placement import held_plan, placement_request
from zun.topology import CellShare, CPUPolicy, CpuSet, HostTopology, Plan, Refusal, Usage, amounts
from zun.topology.cpuset import NO_CPUS, union
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


def is_lost(container: Container, state: RuntimeState | None) -> bool:
    """Return whether the runtime's ``state`` shows resources that the container's row does not have.

    A container whose create was given up may still appear at the runtime later. It holds nothing, because it was never
    started.
    """
    if state is None or container.capsule_uuid is not None or held_plan(container) is not None:
        return False
    return not state.never_started or container.status == Status.CREATED or container.cpuset is not None


def seen(topology: HostTopology, container: Container, state: RuntimeState) -> Plan:
    """Return the claim that the runtime shows: its CPUs and devices, and memory and CPU demand in equal parts per node.
    """
    cpus, mems = CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems)
    parts = {cell.id: cell.cpus & cpus for cell in topology.cells if cell.cpus & cpus}
    nodes = sorted({*parts, *mems}) or [0]
    if away := cpus - union(parts.values()):  # offline CPUs, which belong to the container once they are online again
        parts[nodes[0]] = parts.get(nodes[0], NO_CPUS) | away
    memory, demand = -(-container.memory // len(nodes)), container.cpu / len(nodes)
    if container.cpu_policy == CPUPolicy.DEDICATED:
        shares = {node: CellShare(parts.get(node, NO_CPUS), memory) for node in nodes}
    elif container.cpu_policy == CPUPolicy.MIXED:
        own = CpuSet(state.dedicated_cpus)
        home = next((node for node, cpus in parts.items() if cpus & own), nodes[0])
        rest = max(0.0, amounts.exact(container.cpu - len(own)))
        shares = {node: CellShare(NO_CPUS, memory) for node in nodes}
        shares[home] = CellShare(own, memory, shared=rest)
    else:
        shares = {node: CellShare(NO_CPUS, memory, shared=demand) for node in nodes}
    devices = tuple(map(topology.device_view.described, state.devices))
    return Plan(shares, str(container.cpu_policy), mems=mems, devices=devices)


def recovered(topology: HostTopology, others: Usage, container: Container, state: RuntimeState) -> Plan | str:
    """Return the plan that the container must have had, from its request and the runtime, or an error text.

    ``others`` is the host's usage without the container.
    """
    old = seen(topology, container, state)
    try:
        request = placement_request(container)
    except (AttributeError, TypeError, ValueError) as exc:
        return f"what it asked for cannot be read ({exc})"
    if request.members:
        return "the runtime does not show what each of its containers has"
    own = old.dedicated_cpus
    if request.dedicated and request.own_cpus != len(own):
        return f"it asked for {request.own_cpus} CPUs"
    if twice := others.held_cpus & own:
        return f"CPUs {twice} belong to others as well"
    # The runtime does not show the memory on each node. Plan the memory again; the plan needs free room on the host.
    placed = replace(old, cells={node: CellShare(share.cpus) for node, share in old.cells.items()})
    answer = resized(topology, others, placed, request, own)
    if isinstance(answer, Refusal):
        return f"the host could not give it that now ({answer.message})"
    cpus = CpuSet(state.cpuset_cpus)
    cells = tuple(cell.id for cell in topology.cells if cell.cpus & cpus)
    same = answer.dedicated_cpus == own if request.dedicated else answer.cpu_cells == cells
    if answer.mems != old.mems or not same:
        return "what it asked for would be elsewhere"
    return answer


def told_of(host: str, state: RuntimeState, why_not: str | None) -> tuple[str, str]:
    """Return the problem with a container's row and the next step. ``why_not`` says why no repair is possible."""
    wrong = (
        f"its row does not say what it holds of host {host}: cpuset is empty or cannot be read. The runtime has it on "
        f"CPUs {state.cpuset_cpus or 'of all'} and memory nodes {state.cpuset_mems or 'of all'}; dedicated ones are "
        "given to nobody else"
    )
    if why_not is None:
        return wrong, f"'openstack appcontainer host audit {host} --repair' writes that into its row"
    return wrong, f"delete the container and create it anew; its row cannot be mended, since {why_not}"
