# SPDX-License-Identifier: Apache-2.0
"""A change of what a container holds: decisions only, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from zun.common import exceptions
from zun.objects import Container
from zun.objects.placement import held_plan, placement_request
from zun.topology import CellShare, HostTopology, PlacementRequest, Plan, Refusal, Usage, plan


@dataclass(frozen=True, slots=True)
class Resize:
    """One wish to change ``cpu`` and ``memory`` (MiB), and what was before."""

    old: Plan
    old_cpu: float
    old_memory: int
    cpu: float
    memory: int
    request: PlacementRequest

    @classmethod
    def of(cls, container: Container, cpu: float | None, memory: int | None) -> Self:
        """``None`` keeps what there is. Raises Conflict without a claim, Invalid for what no host could do."""
        old = held_plan(container)
        if old is None:
            raise exceptions.Conflict(f"Container {container.uuid} holds no resources that could be changed.")
        new_cpu = container.cpu if cpu is None else cpu
        new_memory = container.memory if memory is None else memory
        if container.cpu_policy == "dedicated" and new_cpu != int(new_cpu):
            raise exceptions.Invalid(f"cpu must be a whole number for a dedicated container, not {new_cpu:g}.")
        try:
            request = placement_request(container, cpu=new_cpu, memory=new_memory)
        except ValueError as exc:
            raise exceptions.Invalid(f"The container cannot be resized to this: {exc}.") from exc
        return cls(old, container.cpu, container.memory, new_cpu, new_memory, request)


def resized(topology: HostTopology, others: Usage, old: Plan, request: PlacementRequest) -> Plan | Refusal:
    """Plan ``request`` on the cells that ``old`` uses: its memory is there already and is not moved.

    ``others`` is the host's usage without the container.
    """
    cells = tuple(cell for cell in topology.cells if cell.id in old.cells or cell.id in old.mems)
    return plan(replace(topology, cells=cells), others, request)


def both(old: Plan, new: Plan) -> Plan:
    """A plan that takes what either takes, for the time in which the container goes from one to the other."""
    cells = {}
    for node in old.cells.keys() | new.cells.keys():
        one, other = old.cells.get(node, CellShare()), new.cells.get(node, CellShare())
        cells[node] = replace(
            other,
            cpus=one.cpus | other.cpus,
            withheld=(one.withheld | other.withheld) - (one.cpus | other.cpus),
            memory_mib=max(one.memory_mib, other.memory_mib),
            pages=_larger(one.pages, other.pages),
            shared=max(one.shared, other.shared),
        )
    return replace(new, cells=cells)


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {size: max(one.get(size, 0), other.get(size, 0)) for size in one.keys() | other.keys()}
