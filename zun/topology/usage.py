# SPDX-License-Identifier: Apache-2.0
"""The claims on one host: which container holds which CPUs, memory and devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from zun.topology import amounts
from zun.topology.cache_control import NO_PART, CacheControl, Part
from zun.topology.cpuset import NO_CPUS, CpuSet
from zun.topology.device_request import HeldDevice
from zun.topology.device_view import DeviceView, rivals
from zun.topology.devices import Device
from zun.topology.host_topology import HostTopology, view_of
from zun.topology.isolation import kept_with
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import CellFree, Refusal, RefusalCode
from zun.topology.request import MICRO
from zun.topology.view import CellView, HostView

Problem = tuple[RefusalCode, str]


class ClaimConflict(ValueError):
    """A claim cannot be added because ``owner`` holds CPUs or devices that the claim wants, or another claim already.

    ``cpus`` and ``devices`` (addresses) are what both want.
    """

    def __init__(self, message: str, owner: str, cpus: CpuSet, devices: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.owner = owner
        self.cpus = cpus
        self.devices = devices


class Usage:
    """The claims on one host, by owner. Immutable: ``with_claim`` and ``without`` return new values.

    Totals are derived from the claims and nothing else. They are integers, so adding and removing claims is exact in
    any order.
    """

    __slots__ = ("_claims", "_demand", "_devices", "_held", "_mib", "_pages", "_sharers", "_twice")

    def __init__(
        self, claims: Mapping[str, Plan] | Iterable[tuple[str, Plan]] = (), *, overlapping: bool = False
    ) -> None:
        """Raise ClaimConflict if two claims hold the same CPU or device, unless the claims may be ``overlapping``.

        Overlapping claims are read from rows that contradict each other. Their CPUs and devices stay held until both
        claims are gone.
        """
        self._claims: dict[str, Plan] = {}
        self._held = 0
        self._twice = 0
        self._mib: dict[int, int] = {}
        self._pages: dict[tuple[int, int], int] = {}
        self._demand: dict[int, int] = {}
        self._sharers: dict[int, int] = {}
        self._devices: dict[str, tuple[HeldDevice, ...]] = {}  # one for each claim on the device
        for owner, plan in dict(claims).items():
            if not overlapping:
                self._refuse_overlap(owner, plan)
            self._book(owner, plan, 1)

    def with_claim(self, owner: str, plan: Plan) -> Usage:
        """Return this usage with one more claim.

        Adding the same claim again changes nothing, because messages may come twice. Raise ClaimConflict if a CPU or
        a device is held, or if the owner has another claim: remove that claim first.
        """
        known = self._claims.get(owner)
        if known == plan:
            return self
        if known is not None:
            raise ClaimConflict(
                f"{owner} already holds another claim: use without({owner!r}) before with_claim",
                owner,
                CpuSet.from_mask(_held_by(known)),
                frozenset(each.address for each in known.devices),
            )
        self._refuse_overlap(owner, plan)
        return self._copy()._book(owner, plan, 1)

    def without(self, owner: str) -> Usage:
        """Return this usage without the claim of ``owner``, or unchanged if there is none: releasing twice is safe."""
        plan = self._claims.get(owner)
        return self if plan is None else self._copy()._book(owner, plan, -1)

    def claim(self, owner: str) -> Plan | None:
        """Return the claim of ``owner``, or None."""
        return self._claims.get(owner)

    def difference(self, other: Usage) -> list[tuple[Plan, int]]:
        """Return the claims that ``other`` lacks, each with 1, and those that only ``other`` has, each with -1.

        A claim that is another object in ``other`` may be in the list twice, with 1 and with -1.
        """
        mine, others = self._claims, other._claims
        more = [(plan, 1) for owner, plan in mine.items() if others.get(owner) is not plan]
        return more + [(plan, -1) for owner, plan in others.items() if mine.get(owner) is not plan]

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners in the order of their claims."""
        return tuple(self._claims)

    def owner_of(self, cpu: int) -> str | None:
        """Return the owner that holds ``cpu``, as its own or withheld, or None for shared and free CPUs."""
        if cpu < 0 or not self._held >> cpu & 1:
            return None
        return next(owner for owner, plan in self._claims.items() if _held_by(plan) >> cpu & 1)

    def device_owner(self, address: str) -> str | None:
        """Return the owner that holds the device with this address, or None.

        A device that the host no longer has stays held until its owner gives up the claim.
        """
        if address not in self._devices:
            return None
        return next(
            owner for owner, plan in self._claims.items() if any(each.address == address for each in plan.devices)
        )

    @property
    def held_devices(self) -> tuple[HeldDevice, ...]:
        """The devices that containers hold: one for each claim on a device."""
        return tuple([each for claimed in self._devices.values() for each in claimed])

    def holders(self, address: str) -> int:
        """Return the number of claims on the device with this address."""
        return len(self._devices.get(address, ()))

    def crowded(self, topology: HostTopology) -> dict[str, int]:
        """Return by address how many containers may have a device, of the devices that more containers hold.

        Of a device that the host does not offer any more, as many may hold it as when it was given.
        """
        offered, found = topology.device_view.by_address, {}
        for address, claims in self._devices.items():
            least = min([each.shared for each in claims])
            most = least if address not in offered or least == 1 else offered[address].shared
            if len(claims) > most:
                found[address] = most
        return found

    def free_devices(self, topology: HostTopology) -> tuple[Device, ...]:
        """Return the devices of the host that a container can have, in order of their addresses.

        A shared device is free as long as it has a share left. Beside the held devices those are not free that
        ``DeviceView.taken`` names: as the GPU of a held part, and the virtual functions of a held physical one.
        """
        taken = topology.device_view.taken(self.held_devices)
        return tuple(device for device in topology.device_view.devices if device.address not in taken)

    def shares_left(self, device: Device) -> int:
        """Return the number of containers that can still get the free ``device``: 1 unless it is shared."""
        return max(1, device.shared - self.holders(device.address))

    @property
    def held_cpus(self) -> CpuSet:
        """CPUs that dedicated containers hold, withheld CPUs included."""
        return CpuSet.from_mask(self._held)

    @property
    def held_twice(self) -> CpuSet:
        """CPUs that more than one container holds. There are none unless the claims were ``overlapping``."""
        return CpuSet.from_mask(self._twice)

    @property
    def held_mask(self) -> int:
        """``held_cpus`` as a mask."""
        return self._held

    @property
    def totals(self) -> tuple[object, ...]:
        """Everything that ``plan`` reads: usages with equal totals get equal plans, whoever the owners are."""
        amounts: tuple[Mapping[Any, Any], ...] = (self._mib, self._pages, self._demand, self._sharers)
        return (self._held, *(frozenset(each.items()) for each in (*amounts, self._devices)))

    def shared_pool(self, topology: HostTopology, cells: Iterable[int] | None = None) -> CpuSet:
        """Return the CPUs that shared containers run on now, of the whole host or of the cells with these ids.

        A cell that the host does not have gives none.
        """
        pool = topology.pool_cpus.mask & ~self._held
        if cells is None:
            return CpuSet.from_mask(pool)
        wanted = frozenset(cells)
        inside = sum(cell.cpus.mask for cell in topology.cells if cell.id in wanted)
        return CpuSet.from_mask(pool & inside)

    def cache_left(self, control: CacheControl) -> list[tuple[CpuSet, Part]]:
        """Return the CPUs of each L3 and what is left of it, negative if it has lost ways that are promised.

        Nothing is left of any if the processor can tell no further container from the others.
        """
        parts = [
            (part.dedicated_cpus, part.cache)
            for plan in self._claims.values()
            for part in plan.each
            if any(part.cache)
        ]
        if len(parts) >= control.groups:
            return [(cache, NO_PART) for cache in control.caches]
        left = []
        for cache in control.caches:
            here = [part for cpus, part in parts if cpus & cache]
            ways, bandwidth = sum(part.ways for part in here), sum(part.bandwidth for part in here)
            left.append((cache, Part(control.ways - ways, control.bandwidth - bandwidth)))
        return left

    def lacking(self, control: CacheControl, part: Part) -> int:
        """Return the CPUs (mask) whose L3 has not ``part`` left; of any machine, so it may be negative."""
        if not any(part):
            return 0
        able = 0
        for cache, left in self.cache_left(control):
            if part.ways <= left.ways and part.bandwidth <= left.bandwidth:
                able |= cache.mask
        return ~able

    def with_pool(self, topology: HostTopology) -> HostTopology:
        """Return ``topology``, without its shared set if the pool of the host has lost every CPU.

        The pool may lose CPUs to dedicated containers or to hardware. The shared containers then run on all CPUs that
        no dedicated container holds.
        """
        if not self._sharers or topology.shared_set is None:
            return topology
        view = view_of(topology)
        if (view.pool | view.pool_beyond) & ~self._held:
            return topology
        return topology.without_shared_set() if any(self._sharers.values()) else topology

    def free(self, topology: HostTopology, isolation: str = "thread") -> dict[int, CellFree]:
        """Return by cell id the CPUs and memory left for a container of this isolation grade.

        Memory is negative if the machine has lost memory that is promised.
        """
        view = view_of(topology, isolation)
        return {cell.id: self._free_on(view, cell.id) for cell in topology.cells}

    def _free_on(self, view: HostView, node: int) -> CellFree:
        pages = {size: count - self._pages.get((node, size), 0) for size, count in view.pages[node].items()}
        memory = view.small_mib[node] - self._mib.get(node, 0)
        position = view.index.get(node)
        if position is None:
            return CellFree(memory_mib=memory, pages=pages)
        cell = view.cells[position]
        return CellFree(
            cpus=CpuSet.from_mask(cell.dedicated & ~self._held),
            cores=tuple(CpuSet.from_mask(c) for c in cell.cores if c in cell.whole and not c & self._held),
            memory_mib=memory,
            pages=pages,
            shared=self.shared_room(view, cell) / MICRO,
        )

    def shared_room(self, view: HostView, cell: CellView, ratio: Fraction | None = None) -> int:
        """Return the demand that the pool of ``cell`` can still take, in millionths of a CPU, at least 0.

        ``ratio`` replaces the CPU allocation ratio of the host.
        """
        pool = (cell.pool & ~self._held).bit_count()
        ratio = ratio or view.cpu_ratio
        taken = self._demand.get(cell.id, 0) + cell.foreign
        return max(0, pool * MICRO * ratio.numerator // ratio.denominator - taken)

    def demand(self, cell_id: int) -> int:
        """Return the shared demand booked on a cell, in millionths of a CPU."""
        return self._demand.get(cell_id, 0)

    def floor(self, view: HostView, cell: CellView, more: int = 0) -> int:
        """Return the number of CPUs that the pool of ``cell`` must keep for the shared containers there, at least one.

        ``more`` is further demand, in millionths of a CPU. Without shared containers the floor is 0. It is 1 if shared
        containers of other cells have lost the CPUs of their cells, and this cell has the first CPU of the host's pool:
        that CPU stays for them. Mixed containers count with the shared ones.
        """
        if not self._sharers.get(cell.id) and not cell.foreign and not more:
            pool = view.pool & ~self._held
            return int(bool(cell.pool & pool & -pool) and self._has_strays(view))
        ratio = view.cpu_ratio
        demand = self._demand.get(cell.id, 0) + cell.foreign + more
        return max(1, -(-demand * ratio.denominator // (ratio.numerator * MICRO)))

    def _has_strays(self, view: HostView) -> bool:
        """Return whether there are shared containers, and all of them have lost the pool CPUs of their cells.

        Such containers run on the pool of the whole host, and no other shared container keeps a CPU there.
        """
        if view.pool_beyond & ~self._held:
            return False
        strays = False
        for node, count in self._sharers.items():
            if count:
                position = view.index.get(node)
                if position is not None and view.cells[position].pool & ~self._held:
                    return False
                strays = True
        return strays

    def budget(self, view: HostView, cell: CellView) -> int:
        """Return the number of CPUs that dedicated containers may still take out of the pool of ``cell``."""
        pool = (cell.pool & ~self._held).bit_count()
        return max(0, pool - self.floor(view, cell)) if self._sharers or cell.foreign else pool

    def spare(self, view: HostView, cell: CellView, more: int) -> int:
        """Return ``budget`` if the pool of ``cell`` takes ``more`` demand (millionths of a CPU) at the same time.

        A negative number means that the pool cannot take the demand even if it gives no CPU away.
        """
        return (cell.pool & ~self._held).bit_count() - self.floor(view, cell, more)

    def free_memory(self, view: HostView, node: int, page_kib: int | None, *, overcommit: bool) -> int:
        """Return the free memory of ``node``: MiB in ordinary pages, or a number of huge pages of ``page_kib``.

        With ``overcommit`` the size is multiplied by the RAM allocation ratio, as for shared containers.
        """
        if page_kib is not None:
            return view.pages[node].get(page_kib, 0) - self._pages.get((node, page_kib), 0)
        size = view.small_mib[node]
        if overcommit:
            size = size * view.ram_ratio.numerator // view.ram_ratio.denominator
        return size - self._mib.get(node, 0)

    def fits(self, topology: HostTopology, plan: Plan) -> Refusal | None:
        """Return None if every part of ``plan`` is free, so that it can be claimed as it is, or the first problem."""
        if plan.parts:
            return self._fits_together(topology, plan)
        if not plan.uses_pool:
            topology = self.with_pool(topology)
        view = view_of(topology, plan.isolation)
        for node, share in plan.cells.items():
            if node not in view.small_mib:
                problem: Problem | None = (RefusalCode.CPUS_GONE, f"the host has no cell {node}")
            else:
                problem = self._cpu_problem(view, node, share, plan) or self._memory_problem(view, node, share, plan)
            if problem is not None:
                code, words = problem
                return Refusal(code, words, _free=partial(self.free, topology, plan.isolation))
        if plan.devices:
            problem = self._device_problem(topology.device_view, plan)
            if problem is not None:
                return Refusal(*problem, _free=partial(self.free, topology, plan.isolation))
        if any(plan.cache) and (lack := plan.dedicated_cpus.mask & self.lacking(topology.cache_control, plan.cache)):
            words = f"the L3 of CPUs {CpuSet.from_mask(lack)} has not {plan.cache} left"
            return Refusal(RefusalCode.CACHE, words, _free=partial(self.free, topology, plan.isolation))
        return None

    def _fits_together(self, topology: HostTopology, plan: Plan) -> Refusal | None:
        """Do as ``fits`` for a plan with parts, of which each counts beside those before it.

        Shared parts come last, because their memory may be promised more often than that of the others.
        """
        usage = self
        for number, part in enumerate(sorted(plan.parts, key=lambda part: not part.dedicated)):
            problem = usage.fits(topology, part)
            if problem is not None:
                return problem
            usage = usage.with_claim(f"part {number}", part)
        return None

    def _device_problem(self, devices: DeviceView, plan: Plan) -> Problem | None:
        taken = devices.taken(sorted(self.held_devices, key=str))
        for given in plan.devices:
            device = devices.by_address.get(given.address)
            if device is None:
                return RefusalCode.DEVICES_GONE, f"the host offers no device {given.address} any more"
            if other := taken.get(given.address):
                shared = device.shared > 1 and other == given.address
                number = f": {self.holders(other)} containers hold it" if shared else ""
                return RefusalCode.DEVICES_TAKEN, f"{devices.why_taken(given.address, other)}{number}"
            if (device.shared > 1) != (given.shared > 1):
                words = "is shared" if device.shared > 1 else "is not shared any more"
                return RefusalCode.DEVICES_TAKEN, f"device {given.address} {words}, and the plan is from before"
        own = [devices.by_address[each.address] for each in plan.devices]
        for here, there in rivals(own):
            names = f"{own[here[0]].address} and {own[there[0]].address}"
            return RefusalCode.DEVICES_TAKEN, f"devices {names} cannot be in one container"
        return None

    def _cpu_problem(self, view: HostView, node: int, share: CellShare, plan: Plan) -> Problem | None:
        if node not in view.index:
            if share.cpus or share.withheld or share.shared:
                return RefusalCode.CPUS_GONE, f"cell {node} has no CPUs any more"
            return None
        cell = view.cells[view.index[node]]
        if plan.cpu_policy == "shared":
            wanted, room = round(share.shared * MICRO), self.shared_room(view, cell)
            if wanted > room:
                left = f"{amounts.text(room / MICRO)} CPUs left of {amounts.text(share.shared)}"
                return RefusalCode.SHARED_POOL, f"the shared pool of cell {node} has {left}"
            if share.cpus and not cell.pool & ~self._held:
                return RefusalCode.SHARED_POOL, f"the shared pool of cell {node} is empty"
            return None
        mask = share.cpus.mask | share.withheld.mask
        # Withheld siblings must be for dedicated use. Higher isolation grades may withhold CPUs of other uses.
        others = 0 if plan.isolation == "thread" else share.withheld.mask & cell.everyone
        if gone := mask & ~(cell.dedicated | others):
            return RefusalCode.CPUS_GONE, f"CPUs {CpuSet.from_mask(gone)} of cell {node} are not for dedicated use"
        if taken := mask & self._held:
            return RefusalCode.CPUS_TAKEN, f"CPUs {CpuSet.from_mask(taken)} of cell {node} are taken"
        # A sibling that came online since must be named by the plan.
        kept = kept_with(cell, share.cpus.mask, plan.keeps)
        if kept is None or kept & ~mask:
            if plan.keeps != plan.isolation:
                return RefusalCode.CORES, f"on cell {node} the plan does not hold all of its cores"
            words = f"on cell {node} the plan does not hold all that isolation {plan.isolation} keeps"
            return RefusalCode.ISOLATION, words
        if share.shared:
            more = round(share.shared * MICRO)
            if (mask & cell.pool).bit_count() > self.spare(view, cell, more):
                demand = amounts.text(share.shared)
                words = f"the shared pool of cell {node} has no room for {demand} CPUs beside CPUs {share.cpus}"
                return RefusalCode.SHARED_POOL, words
        elif (mask & cell.pool).bit_count() > self.budget(view, cell):
            return RefusalCode.SHARED_FLOOR, f"shared containers need {self.floor(view, cell)} CPUs of cell {node}"
        return None

    def _memory_problem(self, view: HostView, node: int, share: CellShare, plan: Plan) -> Problem | None:
        for size, count in share.pages.items():
            room = self.free_memory(view, node, size, overcommit=False)
            if count > room:
                return RefusalCode.PAGES, f"cell {node} has {max(0, room)} pages of {size} KiB left of {count}"
        room = self.free_memory(view, node, None, overcommit=plan.cpu_policy == "shared")
        if share.memory_mib and not share.pages and share.memory_mib > room:
            return RefusalCode.MEMORY, f"cell {node} has {max(0, room)} MiB left of {share.memory_mib}"
        return None

    def _refuse_overlap(self, owner: str, plan: Plan) -> None:
        if clash := _held_by(plan) & self._held:
            holder = self.owner_of((clash & -clash).bit_length() - 1)
            cpus = CpuSet.from_mask(clash)
            raise ClaimConflict(
                f"CPUs {cpus} are held by {holder}: plan again from the present usage", str(holder), cpus
            )
        for given in plan.devices:
            claims = self._devices.get(given.address, ())
            numbers = [given.shared, *[each.shared for each in claims]]  # they differ if the operator changed it
            if claims and (1 in numbers or len(claims) >= max(numbers)):
                holder = self.device_owner(given.address)
                words = f"device {given.address} is held by {holder}: plan again from the present usage"
                raise ClaimConflict(words, str(holder), NO_CPUS, frozenset((given.address,)))

    def _copy(self) -> Usage:
        new = Usage()
        new._claims = dict(self._claims)
        new._held, new._twice = self._held, self._twice
        new._mib, new._pages = dict(self._mib), dict(self._pages)
        new._demand, new._sharers = dict(self._demand), dict(self._sharers)
        new._devices = dict(self._devices)
        return new

    def _book(self, owner: str, plan: Plan, sign: int) -> Usage:
        """Add (1) or remove (-1) one claim in place. Call it only on a new value that no one else has."""
        own = _held_by(plan)
        if sign > 0:
            self._claims[owner] = plan
            self._twice |= self._held & own
            self._held |= own
        else:
            del self._claims[owner]
            self._held &= ~own
            if self._twice & own:
                self._held = self._twice = 0
                for other in map(_held_by, self._claims.values()):
                    self._twice |= self._held & other
                    self._held |= other
        for given in plan.devices:
            claims = [*self._devices.get(given.address, ())]
            if sign > 0:
                claims.append(given.held)
            else:
                claims.remove(given.held)
            self._devices[given.address] = tuple(claims)
            if not claims:
                del self._devices[given.address]
        for part in plan.each:
            for node, share in part.cells.items():
                for size, count in share.pages.items():
                    self._pages[node, size] = self._pages.get((node, size), 0) + sign * count
                if not share.pages:
                    self._mib[node] = self._mib.get(node, 0) + sign * share.memory_mib
                if part.cpu_policy != "dedicated":
                    self._demand[node] = self._demand.get(node, 0) + sign * round(share.shared * MICRO)
                    self._sharers[node] = self._sharers.get(node, 0) + (sign if share.runs_here else 0)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        overlapping = bool(self._twice) or any(len(claims) > 1 for claims in self._devices.values())
        return partial(Usage, overlapping=overlapping), (self._claims,)

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[tuple[str, Plan]]:
        return iter(self._claims.items())

    def __eq__(self, other: object) -> bool:
        return self._claims == other._claims if isinstance(other, Usage) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Usage({self._claims!r})"


def _held_by(plan: Plan) -> int:
    """Return the CPUs (mask) that a plan holds; a shared plan holds none."""
    if plan.cpu_policy == "shared":
        return 0
    mask = 0
    for share in plan.cells.values():
        mask |= share.cpus.mask | share.withheld.mask
    return mask
