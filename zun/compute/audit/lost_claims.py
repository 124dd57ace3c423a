# SPDX-License-Identifier: Apache-2.0
"""Recover claims that rows have lost, to an edit or an import, from the runtime's state. No I/O."""

from dataclasses import replace

from zun.common.states import Status
from zun.compute.container.resize_rules import resized
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.placement import held_plan, placement_request
from zun.topology import CellShare, CPUPolicy, CpuSet, HostTopology, Plan, Refusal, Usage, amounts
from zun.topology.cpuset import NO_CPUS, union


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
