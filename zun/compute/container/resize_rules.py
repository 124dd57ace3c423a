# SPDX-License-Identifier: Apache-2.0
"""Decide how the claim of a container changes. No I/O."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Self

from zun.common import exceptions
from zun.common.naming import named
from zun.objects import Container
from zun.objects.placement import held_plan, keep_problem, mixed_problem, placement_request
from zun.topology import (
    CellShare,
    CPUPolicy,
    CpuSet,
    HostTopology,
    NUMACell,
    PlacementRequest,
    Plan,
    Refusal,
    Usage,
    amounts,
    plan,
)
from zun.topology.cpuset import NO_CPUS, union
from zun.topology.grade import kept_up
from zun.topology.host_topology import view_of
from zun.topology.keep import keeping, with_its_devices
from zun.topology.request import MICRO


@dataclass(frozen=True, slots=True)
class Resize:
    """One wish to change ``cpu``, ``memory`` (MiB) or ``cpu_policy``, and the values before."""

    old: Plan
    old_cpu: float
    old_memory: int
    cpu: float
    memory: int
    request: PlacementRequest
    keep: CpuSet = NO_CPUS
    """CPUs of ``old`` that must be among the new ones."""

    @classmethod
    def of(
        cls,
        container: Container,
        cpu: float | None,
        memory: int | None,
        cpu_policy: str | None,
        keep: CpuSet = NO_CPUS,
    ) -> Self:
        """``None`` keeps what there is. Raises Conflict without a claim, Invalid for what no host could do."""
        old = held_plan(container)
        if old is None:
            raise exceptions.Conflict(f"Container {named(container)} holds no resources that could be changed.")
        new_cpu = container.cpu if cpu is None else cpu
        new_memory = container.memory if memory is None else memory
        policy = cpu_policy or container.cpu_policy
        if wrong := mixed_problem(container.cpu_policy, policy):
            raise exceptions.Invalid(f"cpu_policy: {wrong}.")
        if policy == CPUPolicy.DEDICATED and new_cpu != int(new_cpu):
            raise exceptions.Invalid(
                f"cpu must be a whole number for a dedicated container, not {amounts.text(new_cpu)}."
            )
        try:
            request = placement_request(container, cpu=new_cpu, memory=new_memory, cpu_policy=policy)
        except ValueError as exc:
            raise exceptions.Invalid(f"The container cannot be resized to this: {exc}.") from exc
        if wrong := keep_problem(keep, old, request.own_cpus or None):
            raise exceptions.Invalid(f"keep_cpus: {wrong}.")
        return cls(old, container.cpu, container.memory, new_cpu, new_memory, request, keep)

    @property
    def policy(self) -> str:
        return str(self.request.cpu_policy)


def resized(
    topology: HostTopology,
    others: Usage,
    old: Plan,
    request: PlacementRequest,
    keep: CpuSet = NO_CPUS,
) -> Plan | Refusal:
    """Plan ``request`` on the cells that ``old`` uses: its memory is there already and is not moved.

    A container that stays dedicated keeps its CPUs where that can be: fewer are some of the old ones, without those
    first that the host would not give any more, more are the old ones and others. It always keeps those of ``keep``.
    Nor does it need again what it has: the host can have less by now than it promised. Its devices stay. A mixed
    container keeps exactly its own CPUs, which its programs have been told.
    ``others`` is the host's usage without the container.
    """
    answer = _planned(*with_its_devices(topology, old, request), others, old, keep)
    if isinstance(answer, Refusal):
        return answer
    # It was planned on a host with less: what its grade of isolation keeps may be more on the whole.
    return replace(kept_up(topology, others.with_claim("resized", answer), answer), devices=old.devices)


def _planned(
    topology: HostTopology, request: PlacementRequest, others: Usage, old: Plan, keep: CpuSet
) -> Plan | Refusal:
    here = part_of(topology, others, old, request)
    if old.dedicated or not request.dedicated:  # shared memory may be promised twice: dedicated is taken anew
        here = _with_its_memory(here, others, old, overcommit=not request.dedicated)
    if not request.dedicated:
        return plan(_with_its_demand(here, others, old), others, request)
    if not old.dedicated:
        return plan(here, others, request)
    given = here.cpus_for(request.isolation)
    if request.mixed:
        here = _with_its_demand(_only(here, old, old.dedicated_cpus), others, old)
        return keeping(here, others, old, request, old.dedicated_cpus)
    # What it holds is its own, also CPUs of another cpu_dedicated_set than now. Those that are reserved now it leaves.
    here = replace(here, dedicated_set=here.dedicated_cpus | here.isolated_cpus | _whole_cores(here, old))
    better = _leaving(here, others, old, request, (old.cpus & given) | keep, keep)
    if better is not None:
        return better
    answer = _among_its_own(here, others, old, request)
    if answer is not None and keep <= answer.cpus:
        return answer
    if request.cpus <= len(old.cpus):
        nearest = keeping(_only(here, old, old.cpus), others, old, request, keep)
        if isinstance(nearest, Plan) and nearest.cpus <= old.cpus:
            return nearest
    else:
        nearest = keeping(here, others, old, request, old.cpus)
        if isinstance(nearest, Plan):
            return nearest
    return keeping(here, others, old, request, keep)


def part_of(topology: HostTopology, others: Usage, old: Plan, request: PlacementRequest) -> HostTopology:
    """The cells of ``old``: a resize to ``request`` takes no others.

    What the pool has on other cells is enough for shared containers that have none on theirs: here it need not leave
    them any.
    """
    if request.dedicated and not request.mixed:
        topology = others.with_pool(topology)
    used, beside = {*old.cells, *old.mems}, {each.cell for each in old.devices}
    # Nodes of its devices stay too, with nothing but their distances: they tell which cells the devices are near.
    cells = tuple(
        cell if cell.id in used else NUMACell(cell.id, distances=cell.distances, initiators=cell.initiators)
        for cell in topology.cells
        if cell.id in used or cell.id in beside
    )
    here = replace(topology, cells=cells)
    return replace(here, pool_beyond=topology.pool_cpus - here.cpus)


def _whole_cores(here: HostTopology, old: Plan) -> CpuSet:
    """The CPUs of ``old``, with its idle ones on cores that belong to ``old`` as a whole."""
    held = old.cpus | old.withheld
    cores = (core for cell in here.cells for core in cell.siblings)
    return union((old.cpus, *(core for core in cores if core & old.cpus and core <= held)))


def _with_its_memory(here: HostTopology, others: Usage, old: Plan, *, overcommit: bool) -> HostTopology:
    """``here`` with no less memory on any cell than ``old`` has there beside the others, and not a MiB more.

    What may be promised of it ``overcommit``ted it has: whole MiB do not divide by every ratio.
    """
    view, cells, reserved = view_of(here), [], dict(here.reserved_memory_mib)
    for cell in here.cells:
        share, pages = old.cells.get(cell.id, CellShare()), dict(cell.pages)
        for size, count in share.pages.items():
            lacking = count - others.free_memory(view, cell.id, size, overcommit=False)
            pages[size] = pages.get(size, 0) + max(0, lacking)
        held = 0 if share.pages else share.memory_mib
        lacking = max(0, held - others.free_memory(view, cell.id, None, overcommit=overcommit))
        if cell.id not in view.with_memory:  # no runtime takes it for a memory node any more
            lacking = 0
        most = int(view.small_mib[cell.id] * (view.ram_ratio if overcommit else 1))
        cell = replace(cell, pages=pages)
        # It is the rest of the cell that is reserved; less than nothing where the cell has too little.
        reserved[cell.id] = cell.small_mib - most - lacking
        cells.append(cell)
    ratio = 1.0 if overcommit else here.ram_allocation_ratio
    return replace(here, cells=tuple(cells), reserved_memory_mib=reserved, ram_allocation_ratio=ratio)


def _with_its_demand(here: HostTopology, others: Usage, old: Plan) -> HostTopology:
    """``here`` with room in the pool for the demand of ``old`` beside the others, where the demand is on one cell."""
    if not old.uses_pool or len(old.cpu_cells) != 1:
        return here
    (node,) = old.cpu_cells
    pool = len(others.shared_pool(here, (node,)))
    demand = others.demand(node) + round(old.cells[node].shared * MICRO) + here.foreign.share(node).shared * MICRO
    if not pool or demand <= pool * MICRO * Fraction(str(here.cpu_allocation_ratio)):
        return here
    return replace(here, cpu_allocation_ratio=ceil(demand / pool) / MICRO)


def _among_its_own(here: HostTopology, others: Usage, old: Plan, request: PlacementRequest) -> Plan | None:
    """The best plan on some of the old CPUs, or on all of them and some that were kept idle."""
    answer = plan(_only(here, old, old.cpus), others, request)
    if isinstance(answer, Plan) and (answer.cpus <= old.cpus or old.cpus <= answer.cpus):
        return answer
    return None


def _leaving(
    here: HostTopology, others: Usage, old: Plan, request: PlacementRequest, stay: CpuSet, keep: CpuSet
) -> Plan | None:
    """A plan of fewer CPUs than ``old`` has: some of ``stay``, or if these are too few, all of them and others."""
    if request.cpus >= len(old.cpus) or stay == old.cpus:
        return None
    if request.cpus > len(stay):
        answers = [keeping(_only(here, old, old.cpus), others, old, request, stay)]
        least, most = stay, old.cpus
    else:
        narrow = _only(here, old, stay)
        answers = [plan(narrow, others, request), keeping(narrow, others, old, request, keep)]
        least, most = keep, stay
    return next((each for each in answers if isinstance(each, Plan) and least <= each.cpus <= most), None)


def _only(here: HostTopology, old: Plan, cpus: CpuSet) -> HostTopology:
    """``here`` with no CPUs for dedicated use but ``cpus``, which ``old`` holds.

    They cost the shared pool nothing, even where that has too little by now, or none: they count as others' for it.
    Isolation may keep others idle as well: from the pool.
    """
    own = cpus | (old.withheld & (here.dedicated_cpus | here.isolated_cpus))
    beyond = here.pool_beyond | own
    return replace(here, dedicated_set=own, shared_set=here.pool_cpus - own, pool_beyond=beyond)


def increase(old: Plan, new: Plan) -> Plan:
    """Return the part of ``new`` beyond ``old``. Both are held while the container moves."""
    cells = {}
    for node, share in new.cells.items():
        had = old.cells.get(node, CellShare())
        taken = had.cpus | had.withheld if old.dedicated else NO_CPUS
        cells[node] = replace(
            share,
            cpus=share.cpus - taken,
            withheld=share.withheld - taken,
            memory_mib=max(0, share.memory_mib - (0 if bool(had.pages) != bool(share.pages) else had.memory_mib)),
            pages={size: max(0, count - had.pages.get(size, 0)) for size, count in share.pages.items()},
            shared=max(0.0, share.shared - had.shared),
        )
    return replace(new, cells=cells, devices=tuple(each for each in new.devices if each not in old.devices))
