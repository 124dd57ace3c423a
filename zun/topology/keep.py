# SPDX-License-Identifier: Apache-2.0
"""Plans in which given CPUs stay, for containers that are resized.

``plan`` takes the best CPUs and knows no former ones. ``keeping`` first keeps the CPUs that must stay, then as many
other former CPUs as possible, then takes the best. If any choice with the CPUs that must stay exists, one is found, if
need be with more idle siblings than ``plan`` would leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from zun.topology.allocator import device_search, page_sizes, plan
from zun.topology.cpuset import CpuSet
from zun.topology.device_request import DeviceMatch, DevicePolicy, DeviceRequest
from zun.topology.devices import Device, DeviceType
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.isolation import kept_with
from zun.topology.placement import CellShare, Plan
from zun.topology.ranges import SHARES
from zun.topology.refusal import Refusal, RefusalCode
from zun.topology.request import PlacementRequest
from zun.topology.search.booking import book, draw, draw_together
from zun.topology.search.matching import cheapest_matching
from zun.topology.search.question import Offer, Question, Taken
from zun.topology.usage import Usage
from zun.topology.view import CellView


def with_its_devices(
    here: HostTopology, old: Plan, request: PlacementRequest
) -> tuple[HostTopology, PlacementRequest]:
    """Return host and request so that each plan for them has the devices of ``old``, and no other devices.

    A running container cannot change its devices. They stay also if the host no longer offers them. The policies of
    ``request`` still decide on which cells the container may be.
    """
    if not old.devices and not request.devices:
        return here, request
    policies = {each.name: each.numa_policy for each in request.devices}
    names = [*dict.fromkeys(each.name for each in old.devices)]
    devices = tuple(
        Device(
            each.address,
            cell=each.cell,
            type=DeviceType.PATH,
            resource_class=each.name,
            shared=1 if each.shared == 1 else SHARES.most,  # the container keeps its share, whoever has the others
        )
        for each in old.devices
    )
    wanted = tuple(
        DeviceRequest(
            name,
            sum(each.name == name for each in old.devices),
            (DeviceMatch(resource_class=name),),
            numa_policy=policies.get(name, DevicePolicy.NONE),
        )
        for name in names
    )
    return replace(here, devices=devices), replace(request, devices=wanted, device_same="none")


def keeping(here: HostTopology, others: Usage, old: Plan, request: PlacementRequest, keep: CpuSet) -> Plan | Refusal:
    """Return a plan for ``request`` with all CPUs of ``keep``, and other CPUs of ``old`` if possible, or a refusal.

    The plan has the devices of ``old``. ``old`` is the container's present plan and holds ``keep``. ``here`` is the
    part of the host that the container may use, ``others`` is the usage of the host without the container.
    """
    if gone := keep - here.cpus:
        return Refusal(RefusalCode.CPUS_GONE, f"CPUs {gone} cannot stay: they are not online")
    here, request = with_its_devices(here, old, request)
    devices = device_search(here, others, request)
    for only_old in (True, False):
        for size in page_sizes(here, request):
            question = Question(view_of(here, request.isolation), others, request, size, {}, devices)
            found = _Keeping(here, question, old.dedicated_cpus, keep, only_old).plan()
            if found is not None and others.fits(here, found) is None:
                return found
    without = plan(here, others, request)
    if isinstance(without, Refusal) or keep <= without.dedicated_cpus:
        return without
    return Refusal(
        RefusalCode.SHAPE,
        f"CPUs {keep} cannot all stay together with what else is asked; without that, it would get CPUs "
        f"{without.dedicated_cpus}",
    )


class _Keeping:
    """The search in one page size. With ``only_old`` the container gets no CPU that it does not hold already."""

    def __init__(self, here: HostTopology, question: Question, old: CpuSet, keep: CpuSet, only_old: bool) -> None:
        self.here, self.question, self.request = here, question, question.request
        # CPUs that the host has lost, or that are no longer for dedicated use, cannot be given again.
        self.old, self.keep, self.only_old = old.mask & question.view.dedicated, keep.mask, only_old
        self.cells = question.view.cells
        self._shares: dict[tuple[int, int], CellShare | None] = {}

    def plan(self) -> Plan | None:
        """Return the plan with one cell for each part, else over any cells if the request allows, or None."""
        question, affinity = self.question, self.request.numa_affinity
        taken = None if affinity == "none" else self._in_its_shape()
        if taken is not None and self._has_devices(taken):
            return book(question, taken, draw(question, taken))
        taken = None if affinity == "require" else self._on_any_cells()
        if taken is None or not self._has_devices(taken):
            return None
        return book(question, taken, draw_together(question, taken))

    def _has_devices(self, taken: list[Taken]) -> bool:
        """Return whether the policies of the devices allow the container on these cells."""
        devices = self.question.devices
        if devices is None:
            return True
        return devices.cost(sum([1 << entry.cell.index for entry in taken if entry.offer.cpus])) is not None

    # Which cells

    def _in_its_shape(self) -> list[Taken] | None:
        """Return a cell for each part of the request, or None if the CPUs that must stay are elsewhere."""
        question, cells = self.question, self.cells
        parts = [(cpus, question.need(mib), mib) for cpus, mib in self.request.parts]
        if len(parts) > len(cells) or (not question.strict and sum(part[1] for part in parts) > question.anywhere):
            return None
        costs = [
            [
                self._cost(cell, cpus) if question.remembers(cell, need) and self._share(cell, cpus) else None
                for cell in cells
            ]
            for cpus, need, _ in parts
        ]
        matched = cheapest_matching(costs)
        if matched is None or self.keep & ~sum(cells[c].online for c in matched.columns):
            return None
        placed = [(cells[c], need) for (_, need, _), c in zip(parts, matched.columns, strict=True)]
        if question.lends and question.poured(placed) is None:
            return None
        return [
            self._taken(cells[c], cpus, need, mib) for (cpus, need, mib), c in zip(parts, matched.columns, strict=True)
        ]

    def _cost(self, cell: CellView, cpus: int) -> int:
        """Return a cost that prefers cells of CPUs that must stay, then cells with many former CPUs."""
        moved = cpus - min(cpus, (self.old & cell.online).bit_count())
        return moved if self.keep & cell.online else moved + (1 << 32)

    def _on_any_cells(self) -> list[Taken] | None:
        """Return as few cells as needed, with most of the former CPUs, or None."""
        question, cpus = self.question, int(self.request.cpus)
        need = question.need(self.request.memory_mib)
        least = {cell: (self.keep & cell.online).bit_count() for cell in self.cells}
        most = {cell: self._most(cell, cpus) for cell in self.cells}

        def serve(cells: Sequence[CellView]) -> bool:
            room = question.reach_together(cells) if question.strict else question.anywhere
            return room >= need and sum(most[cell] for cell in cells) >= cpus

        chosen = list(self.cells)
        if not serve(chosen) or any(least[cell] > most[cell] for cell in chosen):
            return None
        for cell in sorted(chosen, key=lambda cell: ((self.old & cell.online).bit_count(), -cell.id)):
            fewer = [other for other in chosen if other is not cell]
            if not least[cell] and serve(fewer):
                chosen = fewer
        amounts = [least[cell] for cell in chosen]
        for limits in ({cell: (self.old & cell.online).bit_count() for cell in chosen}, most):
            for c, cell in enumerate(chosen):
                more = min(limits[cell], most[cell]) - amounts[c]
                amounts[c] += max(0, min(more, cpus - sum(amounts)))
        return [self._taken(cell, amount) for cell, amount in zip(chosen, amounts, strict=True)]

    def _most(self, cell: CellView, cpus: int) -> int:
        """Return how many CPUs ``cell`` can give, at most ``cpus``, or -1 if it cannot give those that must stay."""
        least = (self.keep & cell.online).bit_count()
        there = self.old if self.only_old else cell.dedicated & ~self.question.barred
        for amount in range(min(cpus, (there & cell.online).bit_count()), least - 1, -1):
            if self._share(cell, amount) is not None:
                return amount
        return -1

    def _taken(self, cell: CellView, cpus: int, need: int = 0, mib: int = 0) -> Taken:
        share = self._share(cell, cpus)
        assert share is not None, "it was looked at"
        return Taken(cell, Offer(0, share.cpus.mask, share.withheld.mask, cpus), need, mib)

    # Which CPUs of a cell

    def _share(self, cell: CellView, cpus: int) -> CellShare | None:
        """Return a share of ``cpus`` CPUs of the cell, with the CPUs that must stay, or None."""
        key = (cell.index, cpus)
        if key not in self._shares:
            shares = (self._around(cell, base, cpus) for base in self._bases(cell, cpus))
            self._shares[key] = next((share for share in shares if share and self._fits(cell, share)), None)
        return self._shares[key]

    def _fits(self, cell: CellView, share: CellShare) -> bool:
        claim = replace(self._claim(cell, share), cache=self.question.cache)
        return self.question.usage.fits(self.here, claim) is None

    def _claim(self, cell: CellView, share: CellShare) -> Plan:
        return Plan({cell.id: share}, isolation=self.request.isolation, whole_cores=self.request.whole_cores)

    def _bases(self, cell: CellView, cpus: int) -> Iterator[int]:
        """Yield CPUs (mask) to start from: as many former CPUs as possible, then only those that must stay."""
        keep = self.keep & cell.online
        if keep.bit_count() > cpus:
            return
        order = sorted(
            (not core & keep, -(core & self.old).bit_count(), core & -core, 1 << cpu)
            for core in cell.cores
            for cpu in CpuSet.from_mask(core & self.old & ~keep)
        )
        base = keep | sum(cpu for *_, cpu in order[: cpus - keep.bit_count()])
        if not self.only_old or base.bit_count() == cpus:
            yield base
        if not self.only_old:
            yield keep

    def _around(self, cell: CellView, base: int, cpus: int) -> CellShare | None:
        """Return a share of ``cpus`` CPUs that has ``base``, or None.

        Further CPUs come from the cores of ``base``, then from the CPUs that the grade keeps, then from the cell.
        """
        if not cpus:
            return CellShare()
        policy, isolation = self.request.thread_policy, self.request.isolation
        if policy == "prefer" and isolation in ("thread", "isolated"):
            return self._beside(cell, CellShare(CpuSet.from_mask(base)), cpus)
        free = ~self.question.barred
        cores = [core for core in cell.whole if core & free == core and (policy != "require" or core & core - 1)]
        mine = [core for core in cores if core & base]
        if base & ~sum(mine):
            return None
        held = kept_with(cell, base, isolation)
        if held is None:
            return None
        given = base
        for core in [*mine, *(core for core in cores if core & held and not core & base)]:
            for cpu in CpuSet.from_mask(core):
                if given.bit_count() < cpus and not (policy == "isolate" and core & given):
                    given |= 1 << cpu
        if policy == "isolate" and any((core & given).bit_count() > 1 for core in mine):
            return None
        held |= sum(mine)
        return self._beside(cell, CellShare(CpuSet.from_mask(given), 0, CpuSet.from_mask(held & ~given)), cpus)

    def _beside(self, cell: CellView, share: CellShare, cpus: int) -> CellShare | None:
        """Return ``share`` filled up to ``cpus`` CPUs by the best CPUs of the rest of the cell, or None."""
        missing = cpus - len(share.cpus)
        if not missing:
            return share
        if missing < 0 or (share.cpus and not self._fits(cell, share)):
            return None
        narrowed = replace(self.here, dedicated_set=CpuSet.from_mask(cell.dedicated))
        rest = replace(
            self.request, cpus=missing, cpu_policy="dedicated", dedicated_cpus=None, memory_mib=0, numa_nodes=1,
            numa_cpus=None, numa_mem=None, numa_affinity="require", page_size=None, devices=(), device_same="none",
        )
        answer = plan(narrowed, self.question.usage.with_claim("kept", self._claim(cell, share)), rest)
        if isinstance(answer, Refusal):
            return None
        (more,) = answer.cells.values()
        return CellShare(share.cpus | more.cpus, 0, share.withheld | more.withheld)
