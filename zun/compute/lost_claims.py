# SPDX-License-Identifier: Apache-2.0
"""Claims that rows have lost, to a hand in the database or an import: told from what the runtime has. No I/O."""

from dataclasses import replace

from zun.common.states import Status
from zun.compute.resize import resized
from zun.container.driver import RuntimeState
from zun.objects import Container
from zun.objects.placement import held_plan, placement_request
from zun.topology import CellShare, CPUPolicy, CpuSet, HostTopology, Plan, Refusal, Usage
from zun.topology.cpuset import NO_CPUS, union


def is_lost(container: Container, state: RuntimeState | None) -> bool:
    """Whether the container holds something, as ``state`` of the runtime shows, and its row does not say what.

    One that was given up, and that the runtime made too late all the same, holds nothing: it was never started.
    """
    if state is None or container.capsule_uuid is not None or held_plan(container) is not None:
        return False
    return not state.never_started or container.status == Status.CREATED or container.cpuset is not None


def seen(topology: HostTopology, container: Container, state: RuntimeState) -> Plan:
    """What the container holds as far as the runtime tells: its own CPUs; its memory, or demand, in equal parts."""
    cpus, mems = CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems)
    parts = {cell.id: cell.cpus & cpus for cell in topology.cells if cell.cpus & cpus}
    nodes = sorted({*parts, *mems}) or [0]
    if away := cpus - union(parts.values()):  # offline now, and its own once they are back
        parts[nodes[0]] = parts.get(nodes[0], NO_CPUS) | away
    memory, demand = -(-container.memory // len(nodes)), container.cpu / len(nodes)
    if container.cpu_policy == CPUPolicy.DEDICATED:
        shares = {node: CellShare(parts.get(node, NO_CPUS), memory) for node in nodes}
    else:
        shares = {node: CellShare(NO_CPUS, memory, shared=demand) for node in nodes}
    return Plan(shares, str(container.cpu_policy), mems=mems)


def recovered(topology: HostTopology, others: Usage, container: Container, state: RuntimeState) -> Plan | str:
    """The plan that the container must have had: what it asked for, where the runtime has it. Else why there is none.

    ``others`` is the host's usage without the container.
    """
    old = seen(topology, container, state)
    try:
        request = placement_request(container)
    except (AttributeError, TypeError, ValueError) as exc:
        return f"what it asked for cannot be read ({exc})"
    if request.dedicated and request.cpus != len(old.cpus):
        return f"it asked for {request.cpus} CPUs"
    if twice := others.held_cpus & old.cpus:
        return f"CPUs {twice} belong to others as well"
    # How much it has of each node is not seen: that is planned anew, and needs room like anything new.
    placed = replace(old, cells={node: CellShare(share.cpus) for node, share in old.cells.items()})
    answer = resized(topology, others, placed, request, old.cpus)
    if isinstance(answer, Refusal):
        return f"the host could not give it that now ({answer.message})"
    cpus = CpuSet(state.cpuset_cpus)
    cells = tuple(cell.id for cell in topology.cells if cell.cpus & cpus)
    same = answer.cpus == cpus if request.dedicated else answer.cpu_cells == cells
    if answer.mems != old.mems or not same:
        return "what it asked for would be elsewhere"
    return answer


def told_of(host: str, state: RuntimeState, why_not: str | None) -> tuple[str, str]:
    """What is wrong with a container's row, and the next step, ``why_not`` being why the row cannot be mended."""
    wrong = (
        f"its row does not say what it holds of host {host}: cpuset is empty or cannot be read. The runtime has it on "
        f"CPUs {state.cpuset_cpus or 'of all'} and memory nodes {state.cpuset_mems or 'of all'}; dedicated ones are "
        "given to nobody else"
    )
    if why_not is None:
        return wrong, f"'openstack appcontainer host audit {host} --repair' writes that into its row"
    return wrong, f"delete the container and create it anew; its row cannot be mended, since {why_not}"
