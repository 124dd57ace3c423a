# SPDX-License-Identifier: Apache-2.0
"""Plans that contain given CPUs: decisions only, no I/O.

``plan`` decides as always. What it may choose from is narrowed until its answer has the CPUs that must stay: each
CPU that it took in place of one of them is struck off, one after the other, and it is asked again.
"""

from collections.abc import Sequence
from dataclasses import replace

from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Refusal, RefusalCode, Usage, plan
from zun.topology.cpuset import NO_CPUS
from zun.topology.matching import cheapest_matching


def keeping(here: HostTopology, others: Usage, old: Plan, request: PlacementRequest, keep: CpuSet) -> Plan | Refusal:
    """A plan for ``request`` with all CPUs of ``keep``, which ``old`` holds; beside them old ones where that can be.

    ``here`` are the cells it may use, ``others`` the host's usage without the container.
    """
    for candidates in (old.cpus | old.withheld, here.dedicated_cpus):
        narrowed = replace(here, dedicated_set=candidates)
        found = _in_its_shape(narrowed, others, request, keep)
        if found is None and request.numa_affinity != "require":
            found = _with_all_of(narrowed, others, request, keep)
        if found is not None and others.fits(here, found) is None:
            return found
    without = plan(here, others, request)
    if isinstance(without, Refusal):
        return without
    return Refusal(
        RefusalCode.SHAPE,
        f"CPUs {keep} cannot all stay together with what else is asked; without that, it would get CPUs {without.cpus}",
    )


def _in_its_shape(here: HostTopology, others: Usage, request: PlacementRequest, keep: CpuSet) -> Plan | None:
    """Each part of the request on a cell of its own, with what must stay there."""
    cells = [cell for cell in here.cells if cell.cpus]
    if request.numa_nodes > len(cells):
        return None
    offers = []
    for cpus, mib in request.parts:
        part = replace(
            request, cpus=cpus, memory_mib=mib, numa_nodes=1, numa_cpus=None, numa_mem=None, numa_affinity="require"
        )
        offers.append(
            [
                _with_all_of(
                    replace(here, dedicated_set=here.dedicated_cpus & cell.cpus), others, part, keep & cell.cpus
                )
                for cell in cells
            ]
        )
    # A cell that must stay is used before any other; the matching does not look for more than that.
    costs = [
        [None if offer is None else int(not keep & cell.cpus) for cell, offer in zip(cells, row, strict=True)]
        for row in offers
    ]
    matched = cheapest_matching(costs)
    if matched is None:
        return None
    merged = _merged([row[column] for row, column in zip(offers, matched[1], strict=True)])
    return merged if merged is not None and keep <= merged.cpus else None


def _with_all_of(here: HostTopology, others: Usage, request: PlacementRequest, keep: CpuSet) -> Plan | None:
    """What ``plan`` answers when it must take ``keep``."""
    candidates, bound = here.dedicated_cpus - others.held_cpus, keep
    if request.thread_policy != "prefer":  # whole cores: they stay or go as one
        for cell in here.cells:
            for core in cell.siblings:
                bound |= core if core & keep else NO_CPUS
    while True:
        answer = plan(replace(here, dedicated_set=candidates), others, request)
        if isinstance(answer, Refusal):
            return None
        answer = _awake(here, answer, keep)
        if keep <= answer.cpus:
            return answer
        # What a grade keeps idle beyond the candidates cannot be struck off.
        spare = ((answer.cpus | answer.withheld) & candidates) - bound
        if not spare:
            return None
        # First those that shared containers could use, of which there may be few to give.
        candidates -= CpuSet([max(spare & here.pool_cpus or spare)])


def _awake(here: HostTopology, answer: Plan, keep: CpuSet) -> Plan:
    """``answer`` with a CPU of ``keep`` that it withholds in place of a sibling that it gives: they are as good."""
    cells = dict(answer.cells)
    for node, share in answer.cells.items():
        for cpu in keep & share.withheld:
            (core,) = (core for core in here.cell(node).siblings if cpu in core)
            if given := core & share.cpus - keep:
                other = CpuSet([max(given)])
                one = CpuSet([cpu])
                share = replace(share, cpus=share.cpus - other | one, withheld=share.withheld - one | other)
        cells[node] = share
    return replace(answer, cells=cells)


def _merged(plans: Sequence[Plan | None]) -> Plan | None:
    """Plans of one container as one. None when a node would give it both ordinary and huge pages."""
    cells: dict[int, CellShare] = {}
    mems, isolation = NO_CPUS, "thread"
    for each in plans:
        assert each is not None, "a matching has no pair that does not go together"
        isolation = each.isolation
        mems |= each.mems
        for node, share in each.cells.items():
            had = cells.get(node)
            if had is None:
                cells[node] = share
                continue
            if bool(had.pages) != bool(share.pages):
                return None
            cells[node] = replace(
                had,
                cpus=had.cpus | share.cpus,
                withheld=had.withheld | share.withheld,
                memory_mib=had.memory_mib + share.memory_mib,
                pages={
                    size: had.pages.get(size, 0) + share.pages.get(size, 0) for size in {*had.pages, *share.pages}
                },
            )
    return Plan(cells, mems=mems, isolation=isolation)
