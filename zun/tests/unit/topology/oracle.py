# SPDX-License-Identifier: Apache-2.0
"""An independent answer to "what is the best plan?": by trying everything.

Shares only the values (topology, usage, request, plan) with the allocator: what is free, what is allowed and
what is better are said here once more, in the plainest terms, and nothing is clever. Small hosts only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import ceil, floor

from zun.topology import HostTopology, PlacementRequest, Usage

MICRO = 1_000_000


@dataclass(frozen=True)
class Best:
    """The best answer: by cell, the CPUs given and withheld; and its key, lower is better."""

    key: tuple
    cpus: dict[int, tuple[frozenset[int], frozenset[int]]]
    demand: dict[int, int]
    memory: dict[int, int] | None = None
    """Units by node, where all cells serve the request together."""
    devices: list[list[str]] = field(default_factory=list)
    """The addresses of the devices, by request."""

    @property
    def remote(self) -> int:
        return self.key[2]

    @property
    def crowd(self) -> int:
        return self.key[6]


class Host:
    """One topology and usage, in sets."""

    def __init__(self, topology: HostTopology, usage: Usage, request: PlacementRequest, page_kib: int | None):
        self.topology, self.request, self.page_kib = topology, request, page_kib
        self.dedicated = request.cpu_policy in ("dedicated", "mixed")
        self.policy, self.isolation = request.thread_policy, request.isolation
        if self.isolation in ("core", "l3", "node") and self.policy == "prefer":
            self.policy = "whole"
        self.sign = -1 if topology.strategy == "spread" else 1
        everything = {cpu for cell in topology.cells for cpu in cell.cpus}
        usable = everything - set(topology.reserved)
        claims = list(usage)
        held = set()
        for _, plan in claims:
            if plan.cpu_policy in ("dedicated", "mixed"):
                for share in plan.cells.values():
                    held |= set(share.cpus) | set(share.withheld)
        if topology.dedicated_set is not None:
            allowed = usable & set(topology.dedicated_set)
        else:
            allowed = usable - set(topology.shared_set or ())
        pool = usable - set(topology.isolated)
        if topology.shared_set is not None:
            pool &= set(topology.shared_set)
        pooled = ("shared", "mixed")
        shared = any(_runs(share) for _, plan in claims if plan.cpu_policy in pooled for share in plan.cells.values())
        if request.cpu_policy == "dedicated" and shared and not pool - held:
            pool = usable - set(topology.isolated)  # they have to run somewhere
        self.everyone, self.held = allowed | pool, held
        isolated = set(topology.isolated)
        allowed = allowed & isolated if self.isolation == "isolated" else allowed - isolated
        self.allowed = allowed
        self.free = {cell.id: (allowed & set(cell.cpus)) - held for cell in topology.cells}
        self.pool = {cell.id: (pool & set(cell.cpus)) - held for cell in topology.cells}
        self.cpu_ratio = Fraction(str(topology.cpu_allocation_ratio))
        self.demand = {cell.id: 0 for cell in topology.cells}
        sharers = {cell.id: 0 for cell in topology.cells}
        self.room = {}
        ram = Fraction(1) if self.dedicated else Fraction(str(topology.ram_allocation_ratio))
        for cell in topology.cells:
            if page_kib is None:
                in_pages = sum(Fraction(size * count, 1024) for size, count in cell.pages.items())
                size = max(0, cell.memory_mib - ceil(in_pages))
                size = max(0, size - topology.reserved_memory_mib.get(cell.id, 0))
                self.room[cell.id] = floor(size * ram)
            else:
                self.room[cell.id] = cell.pages.get(page_kib, 0)
        homes = {
            node for _, plan in claims for node, share in plan.cells.items()
            if plan.cpu_policy in pooled and _runs(share)
        }
        for _, plan in claims:
            for node, share in plan.cells.items():
                if node not in self.room:
                    continue  # the cell is gone
                if page_kib is None:
                    self.room[node] -= 0 if share.pages else share.memory_mib
                else:
                    self.room[node] -= share.pages.get(page_kib, 0)
                if plan.cpu_policy in pooled:
                    self.demand[node] += round(share.shared * MICRO)
                    sharers[node] += _runs(share)
        self.room = {node: max(0, room) for node, room in self.room.items()}
        self.budget = {}
        homeless = homes and not any(self.pool.get(node) for node in homes)
        for cell in topology.cells:
            least = 0
            if sharers[cell.id]:
                least = max(1, ceil(self.demand[cell.id] / (self.cpu_ratio * MICRO)))
            elif homeless and min(self.pool[cell.id], default=-1) == min(set.union(*self.pool.values()), default=-2):
                least = 1
            self.budget[cell.id] = max(0, len(self.pool[cell.id]) - least)
            if request.cpu_policy == "mixed":
                self.budget[cell.id] = self.mixed_budget(cell.id)
        if request.cache_ways or request.cache_mib or request.memory_bandwidth:
            short = {cpu for cpu in everything if not self.has_part(cpu, claims)}
            self.held |= short  # as if another container had them, though they serve the pool
            self.free = {node: cpus - short for node, cpus in self.free.items()}
        self.working = [cell for cell in topology.cells if cell.cpus]
        self.devices = Devices(topology, claims, request)
        self.attached = {cell.id: [] for cell in self.working}
        for node in topology.cells:
            if not node.cpus and self.working:
                near = [cell for cell in self.working if cell.id in node.initiators] or self.working
                least = min(self.distance(cell.id, node.id) for cell in near)
                home = next(cell for cell in near if self.distance(cell.id, node.id) == least)
                self.attached[home.id].append(node.id)
        stocked = [n for n in topology.cells if n.memory_mib > 0 or any(count > 0 for count in n.pages.values())]
        self.borrows = False
        for cell in self.working:
            if stocked and not any(n.id in (cell.id, *self.attached[cell.id]) for n in stocked):
                least = min(self.distance(cell.id, n.id) for n in stocked)
                self.attached[cell.id] += [n.id for n in stocked if self.distance(cell.id, n.id) == least]
                self.borrows = True
        self.choices = cache(self.choices)

    def has_part(self, cpu: int, claims) -> bool:
        """Whether the L3 of a CPU has the part of the request left beside those of all claims that use it."""
        control, request = self.topology.cache_control, self.request
        others = [plan for _, plan in claims if plan.cache.ways or plan.cache.bandwidth]
        if len(others) + 1 > control.groups:
            return False
        ways = request.cache_ways or ceil(Fraction(request.cache_mib * 1024, control.way_kib or 1))
        ways = max(ways, control.least_ways) if ways else 0
        percent = request.memory_bandwidth
        while percent % control.bandwidth_step:
            percent += 1
        for group in control.caches:
            if cpu in group:
                here = [p for p in others if any(own in group for share in p.cells.values() for own in share.cpus)]
                ways += sum(plan.cache.ways for plan in here)
                percent += sum(plan.cache.bandwidth for plan in here)
                return ways <= control.ways and percent <= control.bandwidth
        return False

    def mixed_budget(self, cell_id: int) -> int:
        """The most CPUs that the pool can give and still take the shared part of the request; -1 if it cannot."""
        wanted = self.demand[cell_id] + round((self.request.cpus - self.request.dedicated_cpus) * MICRO)
        pool = len(self.pool[cell_id])
        return max((pool - left for left in range(1, pool + 1) if left * MICRO * self.cpu_ratio >= wanted), default=-1)

    def distance(self, a: int, b: int) -> int:
        def one_way(source, target):
            return source.distances.get(target.id, 10 if source is target else 20)

        first, second = self.topology.cell(a), self.topology.cell(b)
        return one_way(first, second) + one_way(second, first)

    def need(self, mib: int) -> int:
        return mib if self.page_kib is None else ceil(Fraction(mib * 1024, self.page_kib))

    def reach(self, *cells: int) -> int:
        """Units on the cells and on all nodes that lend to them."""
        return sum(self.room[node] for node in {n for cell in cells for n in (cell, *self.attached[cell])})

    def lasts(self, needs: dict[int, int]) -> bool:
        """Whether memory is enough for all cells at once: no few of them need more than is there for these few."""
        if self.request.mempolicy != "strict":
            return True
        return all(
            sum(needs[cell] for cell in few) <= self.reach(*few)
            for size in range(1, len(needs) + 1) for few in combinations(needs, size)
        )

    def serves_memory(self, cell_id: int, need: int) -> bool:
        return need <= self.reach(cell_id) if self.request.mempolicy == "strict" else True

    def host_has(self, need: int) -> bool:
        return self.request.mempolicy == "strict" or need <= sum(self.room.values())

    def choices(self, cell_id: int, count: int) -> tuple | None:
        """The best way to take ``count`` CPUs of a cell: (vector, given, withheld), trying every subset."""
        if not self.dedicated:
            return self.shared_choice(cell_id, count)
        free, pool = _bits(self.free[cell_id]), _bits(self.pool[cell_id])
        if count == 0:
            return (0, 0, 0, 0, 0, self.sign * free.bit_count()), frozenset(), frozenset()
        cores, caches, forbidden = self.layout(cell_id)
        held, everyone = _bits(self.held), _bits(self.everyone)
        online, far = _bits(self.topology.cell(cell_id).cpus), _bits(self.topology.exposed_l3)
        if self.isolation == "node" and online & held:
            return None
        best = None
        for given in combinations(sorted(self.free[cell_id]), count):
            mask = _bits(given)
            touched = [core for core in cores if core & mask]
            withheld = 0
            if self.policy != "prefer":
                if any(core & ~free or core & forbidden for core in touched):
                    continue
                if self.policy == "isolate" and any((core & mask).bit_count() > 1 for core in touched):
                    continue
                if self.policy == "require" and any(core.bit_count() < 2 for core in touched):
                    continue
                withheld = sum(touched) & ~mask
            used = mask | withheld
            groups = [group for group in caches if group & mask]
            kept = used
            if self.isolation == "l3":
                if any(group & held or group & far for group in groups):
                    continue
                kept |= sum(groups) & everyone
            if self.isolation == "node":
                kept |= online & everyone
            if (kept & pool).bit_count() > self.budget[cell_id]:
                continue
            core_left = (sum(touched) & free & ~mask).bit_count()
            cache_left = (sum(groups) & free & ~used).bit_count()
            cell_left = (free & ~used).bit_count()
            vector = (0, len(groups), len(touched), core_left, self.sign * cache_left, self.sign * cell_left)
            if best is None or (vector, given) < best[:2]:
                best = (vector, given, kept & ~mask)
        return best and (best[0], frozenset(best[1]), _ids(best[2]))

    @cache  # noqa: B019 - hosts live for one example
    def layout(self, cell_id: int) -> tuple[list[int], list[int], int]:
        """Masks of the cores, of the cores by L3 cache (a core belongs to the cache of its lowest CPU),
        and of the CPUs that are never part of a whole core."""
        cell = self.topology.cell(cell_id)
        homes: dict[object, int] = {}
        for core in cell.siblings:
            home = next((group for group in cell.l3 if min(core) in group), None)
            homes[home] = homes.get(home, 0) | _bits(core)
        return [_bits(core) for core in cell.siblings], list(homes.values()), _bits(self.topology.exposed)

    def shared_choice(self, cell_id: int, amount: int) -> tuple | None:
        pool = self.pool[cell_id]
        room = self.shared_room(cell_id)
        if not pool or amount > room:
            return None
        crowd = max(0, self.demand[cell_id] + amount - len(pool) * MICRO)
        return (crowd, 0, 0, 0, 0, self.sign * (room - amount)), frozenset(pool), frozenset()

    def shared_room(self, cell_id: int) -> int:
        return max(0, floor(len(self.pool[cell_id]) * MICRO * self.cpu_ratio) - self.demand[cell_id])

    def capacity(self, cell_id: int) -> int:
        if not self.dedicated:
            return self.shared_room(cell_id) if self.pool[cell_id] else -1
        counts = [n for n in range(len(self.free[cell_id]) + 1) if self.choices(cell_id, n) is not None]
        return max(counts)

    def spread(self, cells) -> int:
        return sum(self.distance(a, b) for a, b in combinations(cells, 2))

    def beyond(self, cells) -> list[tuple[int, int]]:
        """Nodes that are not among the cells and may serve them, in the order they do: (distance, node)."""
        if self.request.mempolicy == "strict":
            others = {node for cell in cells for node in self.attached[cell]} - {*cells}
            return sorted(
                (min(self.distance(cell, node) for cell in cells if node in self.attached[cell]), node)
                for node in others
            )
        others = [node for node in self.topology.cells if node.id not in cells]
        far = sorted((min(self.distance(cell, o.id) for cell in cells), len(o.cpus) > 0, o.id) for o in others)
        return [(distance, node) for distance, _, node in far]

    def far(self, cells, missing: int) -> int:
        """The distances of so many units of memory that are not on the cells, one by one."""
        units = [distance for distance, node in self.beyond(cells) for _ in range(min(missing, self.room[node]))]
        return sum(units[:missing])

    def away(self, home: int, cells, need: int) -> int:
        """The distances from ``home`` of so many units, one by one: of the cells' memory the nearest, then others."""
        units = sorted(self.distance(home, cell) for cell in cells for _ in range(self.room[cell]))
        units += [self.distance(home, node) for _, node in self.beyond(cells) for _ in range(self.room[node])]
        return sum(units[:need])

    def memory_together(self, cpus: dict[int, int], need: int) -> dict[int, int]:
        """Units by node, for cells with so many CPUs each: as their CPUs are, then one by one where it is nearest."""
        whole = sum(cpus.values())
        ends = [floor(Fraction(need * sum([*cpus.values()][:n]), whole)) if whole else 0 for n in range(len(cpus) + 1)]
        taken = {
            cell: min(self.room[cell], end - start) for cell, start, end in zip(cpus, ends[:-1], ends[1:], strict=True)
        }
        inside = sorted((sum(cpus[o] * self.distance(o, cell) for o in cpus), cell) for cell in cpus)
        for _, node in inside + self.beyond(cpus):
            while sum(taken.values()) < need and taken.get(node, 0) < self.room[node]:
                taken[node] = taken.get(node, 0) + 1
        return taken


class Devices:
    """The free devices of a host, and the best of them for a container on some cells: by trying every choice."""

    def __init__(self, topology: HostTopology, claims, request: PlacementRequest):
        self.topology, self.request = topology, request
        offered = {device.address: device for device in topology.devices}
        given = [each for _, plan in claims for each in plan.devices]
        held = {each.address: offered.get(each.address, each) for each in given}
        gone = [device for device in topology.devices if device.address in held]
        self.free = [d for d in topology.devices if not any(excludes(each, d) for each in held.values())]
        self.holders = {d.address: [each for each in given if each.address == d.address] for d in topology.devices}
        self.free = [d for d in self.free if not self.holders[d.address] or self.has_share(d)]
        self.wholes = {d.address for d in topology.devices if d.type == "type-PF"}
        self.wholes |= {d.physical for d in topology.devices}
        self.worn = {place for d in gone for place in (d.switch, d.physical)} - {None}
        nodes = [cell.id for cell in topology.cells]
        working = [cell.id for cell in topology.cells if cell.cpus]
        self.unknown = max((self.apart(a, b) for a in working for b in nodes), default=0) + 1
        self.best = cache(self.best)

    def has_share(self, device) -> bool:
        """Return whether a device that is held has room for one more, and nobody was given the whole device."""
        holders = self.holders[device.address]
        return len(holders) < device.shared and all(each.shared > 1 for each in holders)

    def apart(self, a: int, b: int) -> int:
        def one_way(source, target):
            return source.distances.get(target.id, 10 if source is target else 20)

        first, second = self.topology.cell(a), self.topology.cell(b)
        return one_way(first, second) + one_way(second, first)

    def places(self, node: int) -> list[int]:
        """The cells with CPUs that the devices of a node are on or nearest to."""
        told = self.topology.cell(node).initiators
        working = [cell.id for cell in self.topology.cells if cell.cpus]
        if node in working or not working:
            return [node]
        able = [cell for cell in working if cell in told] or working
        return [cell for cell in able if all(self.apart(cell, node) <= self.apart(other, node) for other in able)]

    def sockets(self, cell_id: int):
        found = {number for number, s in enumerate(self.topology.sockets) if s & self.topology.cell(cell_id).cpus}
        return found or {f"cell {cell_id}"}

    def distance(self, device, policy: str, cells) -> int | None:
        """Return the distance of the device from the cells, or None where the policy forbids the device."""
        known = device.cell in [cell.id for cell in self.topology.cells]
        if policy == "none":
            return 0
        places = self.places(device.cell) if known else []
        if policy == "required" and not set(places) & set(cells):
            return None
        if policy == "socket" and not any(self.sockets(here) & self.sockets(cell) for here in places for cell in cells):
            return None
        return min(self.apart(cell, device.cell) for cell in cells) if known else self.unknown

    def best(self, cells: frozenset[int]) -> tuple | None:
        """(key, addresses by request) of the best choice for a container that runs on ``cells``; None without any."""
        wanted = [each for each in self.request.devices if each.count]
        ways = []
        for each in wanted:
            able = [d for d in self.free if admits(each, d) and self.distance(d, each.numa_policy, cells) is not None]
            ways.append([*combinations(sorted(able, key=lambda d: d.address), each.count)])
        best = None
        for choice in product(*ways):
            given = [device for devices in choice for device in devices]
            addresses = [device.address for device in given]
            if len(set(addresses)) < len(given) or any(cannot_go_together(*pair) for pair in permutations(given, 2)):
                continue
            if not self.grouped(choice) or not self.linked(given):
                continue
            far = sum(
                self.distance(d, each.numa_policy, cells)
                for each, devices in zip(wanted, choice, strict=True) for d in devices
            )
            key = (
                far,
                sum(len(d.traits) for d in given),
                sum(d.address in self.wholes and not self.holders[d.address] for d in given),
                sum(len(self.holders[d.address]) for d in given),
                sum(joined(d, other) for d in given for other in self.free),
                sum(not {d.switch, d.physical} & self.worn for d in given),
                [[d.address for d in devices] for devices in choice],
            )
            if best is None or key < best:
                best = key
        return best

    def linked(self, given) -> bool:
        """Whether a GPU link joins each two devices that can have one."""
        if self.request.device_same != "link":
            return True

        def able(one):
            has_some = any(joined(one, other) for other in self.topology.devices)
            return has_some or (one.type != "path" and one.class_id[:2] not in ("01", "02"))

        return all(joined(one, other) for one, other in combinations([each for each in given if able(each)], 2))

    def grouped(self, choice) -> bool:
        """Whether some order of the devices of each request puts those that share a place at the same position."""
        same = self.request.device_same
        if same not in ("switch", "cell"):
            return True
        known = [cell.id for cell in self.topology.cells]

        def place(device):
            return device.switch if same == "switch" else self.places(device.cell) if device.cell in known else None

        for orders in product(*(permutations(devices) for devices in choice)):
            for position in range(max(map(len, choice), default=0)):
                places = [place(order[position]) for order in orders if position < len(order)]
                if len(places) > 1 and (None in places or any(each != places[0] for each in places)):
                    break
            else:
                return True
        return False


def cannot_go_together(one, other) -> bool:
    """Whether no container can have both devices: a card and its function, or VFIO beside a driver of the kernel."""
    in_one_group = one.iommu_group is not None and one.iommu_group == other.iommu_group
    return one.address == other.physical or (in_one_group and one.driver == "vfio-pci" != other.driver)


def joined(one, other) -> bool:
    """Whether a GPU link joins two devices."""
    return one is not other and (one.address in other.links or other.address in one.links)


def admits(request, device) -> bool:
    """Whether the device serves. A shared one is for those who name its resource class."""
    matches = [each for each in request.matches if device.shared == 1 or each.resource_class == device.resource_class]
    return replace(request, matches=tuple(matches)).admits(replace(device, shared=1))


def excludes(held, device) -> bool:
    """Whether nobody else can have ``device`` while somebody has ``held``."""
    return (
        held.address == device.physical
        or held.physical == device.address
        or (
            held.iommu_group is not None
            and held.iommu_group == device.iommu_group
            and "vfio-pci" in (getattr(held, "driver", "vfio-pci"), device.driver)  # a claim names groups of VFIO
        )
    )


def _runs(share) -> bool:
    return bool(share.cpus or share.shared)


def _bits(cpus) -> int:
    return sum(1 << cpu for cpu in cpus)


def _ids(mask: int) -> frozenset[int]:
    return frozenset(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def best_in_shape(host: Host) -> Best | None:
    """The request on exactly its number of cells: every set of cells, every order of the parts."""
    request = host.request
    parts = split(request)
    if not host.host_has(sum(host.need(mib) for _, mib in parts)):
        return None
    best = None
    for cells in combinations([cell.id for cell in host.working], len(parts)):
        for order in set(permutations(parts)):
            found = _price(host, cells, [cpus for cpus, _ in order], [host.need(mib) for _, mib in order])
            if found is not None and (best is None or found.key < best.key):
                best = found
    return best


def split(request: PlacementRequest) -> list[tuple[int, int]]:
    unit = 1 if request.cpu_policy == "dedicated" else MICRO

    def evenly(total):
        n = request.numa_nodes
        return [total // n + (1 if i < total % n else 0) for i in range(n)]

    if request.cpu_policy == "mixed":
        return [(request.dedicated_cpus, request.memory_mib)]
    cpus = evenly(round(request.cpus * unit))
    if request.numa_cpus is not None:
        cpus = [round(entry * unit) for entry in request.numa_cpus]
    mem = evenly(request.memory_mib) if request.numa_mem is None else list(request.numa_mem)
    return list(zip(cpus, mem, strict=True))


def _price(host: Host, cells, amounts, needs) -> Best | None:
    vectors, given = [], {}
    remote = far = mem_left = 0
    if not host.lasts(dict(zip(cells, needs, strict=True))):
        return None
    for cell, amount, need in zip(cells, amounts, needs, strict=True):
        if not host.serves_memory(cell, need):
            return None
        choice = host.choices(cell, amount)
        if choice is None:
            return None
        vectors.append(choice[0])
        given[cell] = choice[1:]
        remote += max(0, need - host.room[cell])
        far += host.far([cell], max(0, need - host.room[cell]))
        mem_left += max(0, host.room[cell] - need)
    return _best(host, cells, vectors, given, (remote, far), mem_left, dict(zip(cells, amounts, strict=True)))


def _best(host: Host, cells, vectors, given, remote, mem_left, demand, away=0) -> Best | None:
    crowd, *others = (sum(column) for column in zip(*vectors, strict=True))
    ids = tuple(sorted(cpu for cpus, _ in given.values() for cpu in cpus)) if host.dedicated else ()
    chosen = host.devices.best(frozenset(cell for cell, (cpus, _) in given.items() if cpus))
    if chosen is None:
        return None
    others += host.sign * mem_left, tuple(sorted(cells)), ids
    key = (len(cells), chosen[0], *remote, host.spread(cells), away, crowd, *others)
    return Best(key, given, demand, devices=chosen[-1])


def best_cover(host: Host) -> Best | None:
    """The request over the fewest cells: every set of cells; all givers but one give all they can."""
    request = host.request
    unit = 1 if host.dedicated else MICRO
    total, need = round(request.cpus * unit), host.need(request.memory_mib)
    if not host.host_has(need):
        return None
    caps = {cell.id: host.capacity(cell.id) for cell in host.working}
    usable = [cell for cell, cap in caps.items() if cap >= 0]
    for count in range(1, len(usable) + 1):
        best = None
        # One cell fewer could have had the CPUs: it is the memory that so many are needed for.
        for_memory = host.dedicated and sum(sorted((caps[cell] for cell in usable), reverse=True)[: count - 1]) >= total
        for cells in combinations(usable, count):
            if sum(caps[cell] for cell in cells) < total:
                continue
            if host.request.mempolicy == "strict" and host.reach(*cells) < need:
                continue
            found = _fill(host, cells, caps, total, need, for_memory)
            if found is not None and (best is None or found.key < best.key):
                best = found
        if best is not None:
            return best
    return None


def _fill(host: Host, cells, caps, total, need, for_memory) -> Best | None:
    """The best of all ways to take the CPUs of these cells, of which all that give any but one give all they can.

    If no devices serve then, as few further cells as possible give CPUs too: one CPU, or what the largest leave.
    """
    sizes = sorted((caps[cell] for cell in cells), reverse=True)
    number = next(n for n in range(1, len(cells) + 1) if sum(sizes[:n]) >= total)
    own = sum(host.room[cell] for cell in cells)
    remote = max(0, need - own), host.far(cells, max(0, need - own))
    best = None
    for givers in combinations(cells, number):
        most = sorted((caps[cell] for cell in givers), reverse=True)
        if most[0] < total if number == 1 else most != sizes[:number]:
            continue
        away = sum(host.away(cell, cells, need) for cell in givers) if for_memory else 0
        for last in givers:
            amounts = {cell: caps[cell] if cell in givers else 0 for cell in cells}
            amounts[last] = total - sum(caps[cell] for cell in givers if cell != last)
            found = _given(host, cells, amounts, remote, max(0, own - need), away)
            if found is not None and (best is None or found.key < best.key):
                best = found
    while best is None and for_memory and number < min(len(cells), total):
        number += 1
        for givers in combinations(cells, number):
            if sum(caps[cell] for cell in givers) < total or not all(caps[cell] for cell in givers):
                continue
            amounts = {cell: 1 if cell in givers else 0 for cell in cells}
            for cell in sorted(givers, key=lambda cell: caps[cell], reverse=True):
                while sum(amounts.values()) < total and amounts[cell] < caps[cell]:
                    amounts[cell] += 1
            away = sum(host.away(cell, cells, need) for cell in givers)
            found = _given(host, cells, amounts, remote, max(0, own - need), away)
            if found is not None and (best is None or found.key < best.key):
                best = found
    if best is None:
        return None
    cpus = {cell: len(given) for cell, (given, _) in best.cpus.items()}
    return replace(best, memory=host.memory_together(cpus, need))


def _given(host: Host, cells, amounts, remote, mem_left, away) -> Best | None:
    chosen = {cell: host.choices(cell, amounts[cell]) for cell in cells}
    return _best(
        host, cells, [choice[0] for choice in chosen.values()],
        {cell: choice[1:] for cell, choice in chosen.items()}, remote, mem_left, amounts, away,
    )


def best_plan(topology: HostTopology, usage: Usage, request: PlacementRequest) -> tuple[Best, int | None] | None:
    """The best answer and the page size it uses, or None when the request cannot be served."""
    sizes = page_sizes(topology, request)
    hosts = {size: Host(topology, usage, request, size) for size in sizes}
    if request.numa_affinity != "none":
        for size in sizes:
            found = best_in_shape(hosts[size])
            if found is not None:
                return found, size
    if request.numa_affinity == "require":
        return None
    covers = [(best_cover(hosts[size]), size) for size in sizes]
    fitting = [(found, size) for found, size in covers if found is not None]
    return min(fitting, key=lambda entry: len(entry[0].cpus)) if fitting else None


def page_sizes(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    huge = sorted({size for cell in topology.cells for size in cell.pages if cell.pages[size] > 0})[::-1]
    if request.page_size in (None, "small", 4):
        return [None]
    if request.page_size == "large":
        return list(huge)
    if request.page_size == "any":
        return [*huge, None]
    return [size for size in huge if size == request.page_size]
