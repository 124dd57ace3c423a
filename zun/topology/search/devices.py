# SPDX-License-Identifier: Apache-2.0
"""The best devices for a container that runs on given cells.

The rules, most important first: the smallest sum of distances between the container's cells and its devices, then the
devices that others will miss least, then the lowest addresses. Only the sum of distances takes part in the choice of
cells. The sum never grows if the container runs on further cells, so the sum of many cells is a lower bound for each
part of them.

Cells are masks of positions in ``HostView.cells``: 0b101 is the first and the third.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from zun.topology.device_request import DevicePolicy, DeviceRequest, DeviceSame, GivenDevice, HeldDevice
from zun.topology.device_view import DeviceView, serving
from zun.topology.devices import Device, DeviceType
from zun.topology.search.matching import cheapest_matching
from zun.topology.view import CellView, HostView

BRANCHES = 1000
"""Limit on the choices between physical functions and their virtual ones in one search."""

_RARITY = 20
"""Bits for each rule about rare devices: more than any sum over the devices of a container."""

Options = Sequence[dict[int, int]]
"""By request, the cost of each device that serves it: cost by position in ``DeviceSearch.free``."""

Chosen = tuple[int, list[list[int]]]
"""The cost of a choice, and by request the positions of its devices."""

Places = Sequence[tuple[Sequence[Sequence[int]], bool]]
"""By request, the positions of its devices in a place; and True if devices there share the place."""

Offers = list[tuple[int, int, list[list[int]]]]
"""The groups that a place can hold, as a ``_state``, the cost of their devices, and by request the positions."""

_FIELD = 32
"""Bits for the number of groups of one kind in a ``_state``."""

_GUARD = 1 << _FIELD - 1
"""A bit above each number. A subtraction that makes the number negative clears the bit."""

Teller = Callable[[int], int | None]
"""Returns the cost of the devices for a mask of cells, or None if no devices serve there."""


class DeviceSearch:
    """The free devices of one host for one request. Answers are remembered."""

    def __init__(
        self,
        devices: DeviceView,
        view: HostView,
        held: frozenset[HeldDevice],
        requests: Sequence[DeviceRequest],
        same: str,
    ) -> None:
        """Prepare the search. ``held`` are the devices that other containers hold."""
        self.view = view
        self.requests = [each for each in requests if each.count]
        taken = devices.taken(held)
        serves = [[each for each in serving(devices, r) if each.address not in taken] for r in self.requests]
        self.free = serves[0] if len(serves) == 1 else _union(serves)
        places = {device.address: position for position, device in enumerate(self.free)}
        self.able = [[places[device.address] for device in able] for able in serves]
        self.apart = len(self.free) == sum([len(able) for able in serves])
        """True if no device serves two requests."""
        self.rivals = _rivals(self.free, places) if sum([each.count for each in self.requests]) > 1 else {}
        """By position of a physical function, the positions of its virtual ones."""
        self.places = _places(self.free, self.able, view, same) if len(self.requests) > 1 else None
        """The parts of the host that a group must share; None if groups share nothing."""
        self.kinds = _kinds(self.requests)
        self._devices, self._held = devices, held
        self._offered: dict[tuple[int, object], Offers] = {}
        """The offers by position of the place and the costs of its devices."""
        self._sums: dict[int, int | None] = {}

    def cost(self, cells: int) -> int | None:
        """Return the smallest sum of distances for a container on these cells, or None if no devices serve."""
        if cells not in self._sums:
            found = self._best(self._distances(cells))
            self._sums[cells] = None if found is None else found[0]
        return self._sums[cells]

    def teller(self, cells: Sequence[CellView], weight: int) -> Teller:
        """Return ``cost`` times ``weight`` as a function of a mask of positions in ``cells``."""
        bits = [1 << cell.index for cell in cells]

        def tell(mask: int) -> int | None:
            far = self.cost(sum([bit for position, bit in enumerate(bits) if mask >> position & 1]))
            return None if far is None else far * weight

        return tell

    def given(self, cells: int) -> tuple[GivenDevice, ...]:
        """Return the best devices for a container on these cells, which ``cost`` allows."""
        found = self._best(self._keys(self._distances(cells)))
        assert found is not None, "it has a cost"
        return tuple([
            GivenDevice.of(request.name, device)
            for request, chosen in zip(self.requests, found[1], strict=True)
            for device in [self.free[position] for position in sorted(chosen)]
        ])

    # What a device costs

    def _distances(self, cells: int) -> Options:
        """Return by request the distance of each device that the policy of the request allows."""
        chosen = [cell for cell in self.view.cells if cells >> cell.index & 1]
        far: dict[int | None, int] = {
            node: min([cell.apart[node] for cell in chosen])
            for node in {device.cell for device in self.free}
            if node is not None and node in chosen[0].apart
        }
        found = []
        for request, able in zip(self.requests, self.able, strict=True):
            policy = request.numa_policy
            if policy == DevicePolicy.NONE:
                found.append(dict.fromkeys(able, 0))
                continue
            if policy == DevicePolicy.PREFERRED:
                found.append({p: far.get(self.free[p].cell, self.view.beyond) for p in able})
                continue
            near = {node: distance for node, distance in far.items() if self._local(node, chosen, policy)}
            found.append({p: near[node] for p in able if (node := self.free[p].cell) in near})
        return found

    def _local(self, node: int | None, chosen: Sequence[CellView], policy: str) -> bool:
        """Return whether ``policy`` lets a container on the cells ``chosen`` have devices of the cell ``node``."""
        if node is None or policy == DevicePolicy.REQUIRED:
            return any(cell.id == node for cell in chosen)
        sockets = self._devices.sockets
        return any(sockets[cell.id] & sockets[node] for cell in chosen)

    def _keys(self, distances: Options) -> Options:
        """Return costs that decide by all rules: distance, rarity and addresses."""
        size, last = len(self.free), len(self.requests) - 1
        width = size * len(self.requests)
        rarity = self._rarity()
        return [
            {
                position: (far << width + 4 * _RARITY) + (rarity[position] + 1 << width)
                - (1 << (last - row) * size + size - 1 - position)
                for position, far in each.items()
            }
            for row, each in enumerate(distances)
        ]

    def _rarity(self) -> list[int]:
        """Return by position how much others would miss the device.

        A device with fewer traits is missed less, then one that is not a physical function with virtual ones, then one
        whose switch or physical function is in use already.
        """
        worn = set()
        for each in self._held:
            device = self._devices.by_address.get(each.address)
            if device is not None:
                worn |= {device.switch, device.physical}
        worn.discard(None)
        return [
            (((len(device.traits) << _RARITY) + (device.type == DeviceType.PF)) << _RARITY)
            + (device.switch not in worn and device.physical not in worn)
            for device in self.free
        ]

    # The cheapest choice

    def _best(self, options: Options) -> Chosen | None:
        """Return the cheapest devices, or None if there are too few."""
        if not self.rivals:
            return self._choose(options)
        best: Chosen | None = None
        left = [options]
        for _ in range(BRANCHES):
            if not left:
                break
            options = left.pop()
            found = self._choose(options)
            if found is None or (best is not None and found[0] >= best[0]):
                continue
            clash = self._clash(found[1])
            if clash is None:
                best = found
                continue
            # Either the physical function is given, or some of its virtual ones. The latter is tried first.
            left.append([_without(each, self.rivals[clash]) for each in options])
            left.append([_without(each, (clash,)) for each in options])
        return best

    def _clash(self, chosen: Sequence[Sequence[int]]) -> int | None:
        """Return a chosen physical function of which a virtual one is chosen too, or None."""
        given = {position for each in chosen for position in each}
        return next((p for p, rivals in self.rivals.items() if p in given and not given.isdisjoint(rivals)), None)

    def _choose(self, options: Options) -> Chosen | None:
        """Return the cheapest devices, not looking at physical functions and their virtual ones."""
        if self.places is None:
            return self._serve(options, [each.count for each in self.requests])
        return self._grouped(options, self.places)

    def _grouped(self, options: Options, places: Places) -> Chosen | None:
        """Return the cheapest devices in groups that share a place each.

        Groups with the same requests are alike, so a state is how many groups of each kind have no place yet. Place by
        place, every number of groups is tried.
        """
        if self.apart and len(self.kinds) == 1:
            return self._like_groups(options, places)
        done = sum([_GUARD << kind * _FIELD for kind in range(len(self.kinds))])
        states: dict[int, tuple[int, tuple[list[list[int]], ...]]] = {done + _state(self.kinds.values()): (0, ())}
        for place, (able, shared) in enumerate(places):
            costs = tuple([tuple([each.get(p) for p in here]) for here, each in zip(able, options, strict=True)])
            offers = self._offered.get((place, costs))
            if offers is None:
                offers = self._offered[place, costs] = self._offers(options, able, shared)
            if not offers:
                continue
            found = dict(states)
            for state, (before, parts) in states.items():
                for taken, more, chosen in offers:
                    left = state - taken
                    if left & done == done:
                        cost, better = before + more, found.get(left)
                        if better is None or cost < better[0]:
                            found[left] = cost, (*parts, chosen)
            states = found
        if done not in states:
            return None
        cost, parts = states[done]
        return cost, [[p for chosen in parts for p in chosen[row]] for row in range(len(self.requests))]

    def _like_groups(self, options: Options, places: Places) -> Chosen | None:
        """Return the cheapest devices if every group has one device of each request, and no device serves two.

        In one place, the next group takes the next device of each request and is never cheaper than the group before.
        So the cheapest groups of all places together are the answer.
        """
        groups = []
        for able, shared in places:
            if shared:
                rows = [
                    sorted([(each[p], p) for p in here if p in each]) for here, each in zip(able, options, strict=True)
                ]
                groups += [(sum([cost for cost, _ in group]), group) for group in zip(*rows, strict=False)]
        number = self.requests[0].count
        if len(groups) < number:
            return None
        best = sorted(groups)[:number]
        return sum([cost for cost, _ in best]), [[group[row][1] for _, group in best] for row in range(len(options))]

    def _offers(self, options: Options, able: Sequence[Sequence[int]], shared: bool) -> Offers:
        """Return the cheapest devices of one place for every number of groups that it can hold."""
        local = [{p: each[p] for p in here if p in each} for here, each in zip(able, options, strict=True)]
        ranges = [
            range(1 + (min(number, *[len(local[row]) for row in rows]) if shared or len(rows) == 1 else 0))
            for rows, number in self.kinds.items()
        ]
        offers = []
        for taken in product(*ranges):
            if any(taken):
                here = [0] * len(local)
                for rows, number in zip(self.kinds, taken, strict=True):
                    for row in rows:
                        here[row] += number
                served = self._serve(local, here)
                if served is not None:
                    offers.append((_state(taken), *served))
        return offers

    def _serve(self, options: Options, counts: Sequence[int]) -> Chosen | None:
        """Return the cheapest devices if each request gets so many, or None if there are too few."""
        if any(len(each) < count for each, count in zip(options, counts, strict=True)):
            return None
        if self.apart:
            cost, chosen = 0, []
            for each, count in zip(options, counts, strict=True):
                best = sorted(each, key=each.__getitem__)[:count]
                cost += sum([each[position] for position in best])
                chosen.append(best)
            return cost, chosen
        columns = sorted({position for each, count in zip(options, counts, strict=True) if count for position in each})
        rows = [row for row, count in enumerate(counts) for _ in range(count)]
        if not rows:
            return 0, [[] for _ in counts]
        matching = cheapest_matching([[options[row].get(position) for position in columns] for row in rows])
        if matching is None:
            return None
        chosen = [[] for _ in counts]
        for row, column in zip(rows, matching.columns, strict=True):
            chosen[row].append(columns[column])
        return matching.cost, chosen


def _union(serves: Sequence[Sequence[Device]]) -> list[Device]:
    """Return the devices of all requests, each once, in order of their addresses."""
    found = {device.address: device for able in serves for device in able}
    return [found[address] for address in sorted(found)]


def _rivals(free: Sequence[Device], places: dict[str, int]) -> dict[int, tuple[int, ...]]:
    """Return by position of a physical function the positions of its virtual ones, where both are free."""
    found: dict[int, tuple[int, ...]] = {}
    for position, device in enumerate(free):
        owner = None if device.physical is None else places.get(device.physical)
        if owner is not None:
            found[owner] = (*found.get(owner, ()), position)
    return found


def _state(numbers: Iterable[int]) -> int:
    """Return the numbers of groups by kind as one integer. Example: 0x2_00000001 for one and two."""
    return sum([number << kind * _FIELD for kind, number in enumerate(numbers)])


def _kinds(requests: Sequence[DeviceRequest]) -> Counter[tuple[int, ...]]:
    """Count the groups by the positions of their requests.

    Group number i has one device of each request for more than i devices. Example: requests for 3 and 1 devices make
    one group of both and two groups of the first.
    """
    counts = [each.count for each in requests]
    return Counter([
        tuple([row for row, most in enumerate(counts) if most > number]) for number in range(max(counts, default=0))
    ])


def _places(free: Sequence[Device], able: Sequence[Sequence[int]], view: HostView, same: str) -> Places | None:
    """Return the places that the devices of a group can share, or None if groups share nothing.

    The devices of no known place can only be in groups of one.
    """
    if same not in (DeviceSame.SWITCH, DeviceSame.CELL):
        return None
    known = view.cells[0].apart if view.cells else {}
    found: dict[str | int | None, list[list[int]]] = {}
    for row, positions in enumerate(able):
        for position in positions:
            device = free[position]
            cell = device.cell if device.cell in known else None
            place = device.switch if same == DeviceSame.SWITCH else cell
            found.setdefault(place, [[] for _ in able])[row].append(position)
    return [(rows, place is not None) for place, rows in found.items()]


def _without(costs: dict[int, int], positions: Sequence[int]) -> dict[int, int]:
    return {position: cost for position, cost in costs.items() if position not in positions}
