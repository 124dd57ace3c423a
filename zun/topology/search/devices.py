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
from collections.abc import Container, Sequence
from functools import cached_property, reduce
from operator import itemgetter, or_
from typing import NamedTuple, Self

from zun.topology.device_request import DevicePolicy, DeviceRequest, DeviceSame, GivenDevice, HeldDevice
from zun.topology.device_view import DeviceView, Rivals, rivals, serving
from zun.topology.devices import Device, DeviceType
from zun.topology.search.device_groups import Chosen, Groups, LikeGroupCosts, Options, places_of, serve
from zun.topology.search.links import linked_sets
from zun.topology.search.sets import Supply
from zun.topology.search.steps import Steps
from zun.topology.view import CellView, HostView

BRANCHES = 1000
"""Limit on the choices between devices and their parts, as virtual functions, in one search."""

BRANCH_STEPS = 5000
"""Limit on the steps of these choices."""

_RARITY = 20
"""Bits for each rule about rare devices: more than any sum over the devices of a container."""


class Source(NamedTuple):
    """Devices of one node under one policy. They are equally far from every set of cells."""

    near: int
    """The cells (mask) of which the container must have one to get the devices, or -1 if any cell will do."""
    rungs: Sequence[tuple[int, int]]
    """Each distance, nearest first, with the cells (mask) that are as near or nearer."""

    @property
    def deciding(self) -> int:
        """The cells (mask) that decide the price; any other cells change nothing. -1 is all."""
        if self.near < 0:
            return self.rungs[-2][1] if len(self.rungs) > 1 else 0
        return self.near if any(mask == self.near for _, mask in self.rungs) else -1

    def price(self, cells: int) -> int | None:
        """Return the distance from these cells, or None if the policy forbids the devices."""
        if self.near & cells:
            for distance, mask in self.rungs:
                if mask & cells:
                    return distance
        return None


class DeviceSearch:
    """The free devices of one host for one request. Answers are remembered."""

    def __init__(
        self,
        devices: DeviceView,
        view: HostView,
        held: Sequence[HeldDevice],
        requests: Sequence[DeviceRequest],
        same: str,
        steps: Steps | None = None,
    ) -> None:
        """Prepare the search, which shares ``steps``. ``held`` has a device for each claim of others."""
        self.view = view
        self.requests = [each for each in requests if each.count]
        self.steps = steps or Steps()
        taken = self._taken = devices.taken(held)
        serves = [[each for each in serving(devices, r) if each.address not in taken] for r in self.requests]
        counts = [each.count for each in self.requests]
        linked = None
        if same == DeviceSame.LINK and sum(counts) > 1:
            linked = linked_sets(devices, serves, counts, self.steps)
            useful = frozenset().union(*linked)
            serves = [[each for each in able if each.address in useful] for able in serves]
        self.free = serves[0] if len(serves) == 1 else _union(serves)
        positions = {device.address: position for position, device in enumerate(self.free)}
        self.able = [[positions[device.address] for device in able] for able in serves]
        self.apart = len(self.free) == sum([len(able) for able in serves])
        """True if no device serves two requests."""
        self.rivals = rivals(self.free) if sum(counts) > 1 else []
        """Pairs of sides (positions): a container has devices of one side at most."""
        places = places_of(self.free, self.able, devices.homes, same) if len(self.requests) > 1 else None
        self.groups = None if places is None else Groups(self.requests, places, self.steps)
        """The groups that must share a place; None if groups share nothing."""
        self.linked = None if linked is None else [{positions[address] for address in each} for each in linked]
        """The positions of the devices that the container may have together, by maximal clique of the links; None if
        no links are asked for."""
        self._devices, self._held = devices, held
        self._sources, self._source_of = self._all_sources()
        self._deciding = reduce(or_, [source.deciding for source in self._sources], 0)
        self._quick = self._quick_costs()
        self._sums: dict[int, int | None] = {}
        """Costs by mask of the deciding cells."""
        self._by_prices: dict[Sequence[int | None], int | None] = {}

    def cost(self, cells: int) -> int | None:
        """Return the smallest sum of distances for a container on these cells.

        Return None if no devices serve, or if the steps are used up.
        """
        key = cells & self._deciding
        if key not in self._sums:
            if not self.steps.spend(2 + len(self._sources) // 8):
                return None
            prices = tuple([source.price(cells) for source in self._sources])
            if prices not in self._by_prices:
                self._by_prices[prices] = self._cost(prices)
            self._sums[key] = self._by_prices[prices]
        return self._sums[key]

    def given(self, cells: int) -> tuple[GivenDevice, ...]:
        """Return the best devices for a container on these cells, which ``cost`` allows."""
        distances = self._options([source.price(cells) for source in self._sources])
        # If there are too many choices between functions to try all, only some order of trying them may find devices.
        found = self._best(self._keys(distances)) or self._best(distances)
        assert found is not None, "it has a cost"
        return tuple([
            GivenDevice.of(request.name, device)
            for request, chosen in zip(self.requests, found[1], strict=True)
            for device in [self.free[position] for position in sorted(chosen)]
        ])

    # What a device costs

    def _all_sources(self) -> tuple[list[Source], list[dict[int, int]]]:
        """Return all sources of devices, and by request the source of each device by position."""
        numbers: dict[Source, int] = {}
        known: dict[tuple[str, int | None], int] = {}
        found = []
        for request, able in zip(self.requests, self.able, strict=True):
            policy = request.numa_policy
            for node in dict.fromkeys([self.free[position].cell for position in able]):
                if (policy, node) not in known:
                    known[policy, node] = numbers.setdefault(self._source(policy, node), len(numbers))
            found.append({position: known[policy, self.free[position].cell] for position in able})
        return [*numbers], found

    def _source(self, policy: str, node: int | None) -> Source:
        """Return how far the devices of a node are, and the cells that allow them by this policy."""
        cells = self.view.cells
        if policy == DevicePolicy.NONE:
            return Source(-1, ((0, -1),))
        if node is None or not cells or node not in cells[0].apart:  # nobody knows how far
            return Source(-1 if policy == DevicePolicy.PREFERRED else 0, ((self.view.beyond, -1),))
        return Source(self._allowing(policy, node), _rungs(node, cells))

    def _allowing(self, policy: str, node: int) -> int:
        """Return the cells (mask) of which a container must have one to get devices of a known node; -1 is any."""
        if policy == DevicePolicy.PREFERRED:
            return -1
        homes, sockets = self._devices.homes[node], self._devices.sockets
        return sum([
            1 << cell.index for cell in self.view.cells
            if cell.id in homes or (policy == DevicePolicy.SOCKET and sockets[cell.id] & sockets[node])
        ])

    def _options(self, prices: Sequence[int | None]) -> Options:
        """Return by request the distance of each device that the policy of the request allows."""
        return [
            {position: price for position, source in sources.items() if (price := prices[source]) is not None}
            for sources in self._source_of
        ]

    def _keys(self, distances: Options) -> Options:
        """Return costs that decide by all rules: distance, rarity and addresses."""
        size, last = len(self.free), len(self.requests) - 1
        width = size * len(self.requests)
        rarity = self._rarity()
        return [
            {
                position: (far << width + 6 * _RARITY) + (rarity[position] + 1 << width)
                - (1 << (last - row) * size + size - 1 - position)
                for position, far in each.items()
            }
            for row, each in enumerate(distances)
        ]

    def _rarity(self) -> list[int]:
        """Return by position how much others would miss the device.

        A device with fewer traits is missed less, then one that is not a physical function and has no parts, then a
        shared one with fewer holders, then one with fewer links to free devices, then one whose switch or whole is in
        use already. If somebody has a share of a device, nobody misses its functions and parts.
        """
        linked = self._devices.linked
        worn, holders = set(), Counter([each.address for each in self._held])
        for each in self._held:
            device = self._devices.by_address.get(each.address)
            if device is not None:
                worn |= {device.switch, device.physical}
        worn.discard(None)
        parted = self._devices.virtual
        return [
            _ranked(
                len(device.traits),
                (device.type == DeviceType.PF or device.address in parted) and device.address not in holders,
                holders[device.address],
                len(linked[device.address] - self._taken.keys() if device.address in linked else ()),
                device.switch not in worn and device.physical not in worn,
            )
            for device in self.free
        ]

    # The cheapest choice

    def _quick_costs(self) -> LikeGroupCosts | list[tuple[Row, ...]] | None:
        """Return what tells the cost of devices by their sources, or None if devices must be chosen for that."""
        if self.rivals or not self.apart:
            return None
        if self.groups is not None:
            return LikeGroupCosts(self.groups, self.requests[0].count, self._source_of) if self.groups.alike else None
        if self.linked is None:
            return [self._rows(self._source_of)]
        some = [[_of(sources, together) for sources in self._source_of] for together in self.linked]
        return [*dict.fromkeys([self._rows(sources) for sources in some])]

    def _rows(self, source_of: Sequence[dict[int, int]]) -> tuple[Row, ...]:
        """Return the row of each request, with its sources by position."""
        return tuple([
            (request.count, tuple(sorted(Counter(sources.values()).items())))
            for request, sources in zip(self.requests, source_of, strict=True)
        ])

    def _cost(self, prices: Sequence[int | None]) -> int | None:
        """Return the cost of the cheapest devices at these prices of the sources, or None if there are too few."""
        if isinstance(self._quick, LikeGroupCosts):
            self.steps.spend(len(self._quick) // 8)
            return self._quick.cost(prices)
        if self._quick is not None:
            if len(self._quick) == 1:
                return _cost_of_rows(self._quick[0], prices)
            self.steps.spend(len(self._quick) // 8)
            costs = [cost for rows in self._quick if (cost := _cost_of_rows(rows, prices)) is not None]
            return min(costs, default=None)
        found = self._best(self._options(prices))
        return None if found is None else found[0]

    def _best(self, options: Options) -> Chosen | None:
        """Return the cheapest devices, or None if there are too few."""
        if not self.rivals:
            return self._choose(options)
        best: Chosen | None = None
        left, before = [options], self.steps.left
        for _ in range(BRANCHES):
            if not left:
                return best
            if before - self.steps.left > BRANCH_STEPS:
                break
            options = left.pop()
            found = self._choose(options)
            if found is None or (best is not None and found[0] >= best[0]):
                continue
            clash = self._clash(found[1])
            if clash is None:
                best = found
                continue
            # Devices of either side are given. The second side, as virtual functions, is tried first.
            left += [[_without(each, side) for each in options] for side in reversed(clash)]
        self.steps.cut = True
        return best

    def _clash(self, chosen: Sequence[Sequence[int]]) -> Rivals | None:
        """Return two sides of which devices are chosen, or None."""
        given = {position for each in chosen for position in each}
        return next((both for both in self.rivals if not any(map(given.isdisjoint, both))), None)

    def _choose(self, options: Options) -> Chosen | None:
        """Return the cheapest devices, not looking at rivals."""
        if self.linked is not None:
            some = [self._serve([_of(each, together) for each in options]) for together in self.linked]
            return min([each for each in some if each is not None], key=itemgetter(0), default=None)
        if self.groups is None:
            return self._serve(options)
        self.steps.spend(len(self.free) // 4)
        return self.groups.cheapest(options, self.apart)

    def _serve(self, options: Options) -> Chosen | None:
        """Return the cheapest devices that share nothing."""
        self.steps.spend(len(self.free) // 4)
        return serve(options, [each.count for each in self.requests], self.apart, self.steps)

    # Lower bounds

    def useful(self, cells: Sequence[CellView | None]) -> tuple[list[int], list[Supply]]:
        """Return by position in ``cells`` how many useful devices are near, and what every set of cells must have.

        No devices are near None.

        A device is useful if some group can have it. If a policy forbids the devices of other cells, the cells of a set
        must have as many useful devices together as the request is for. In a place with two groups at most, two devices
        count.
        """
        indices = [-1 if cell is None else cell.index for cell in cells]
        near, supplies = [0] * len(cells), []
        for row, request in enumerate(self.requests):
            if request.numa_policy == DevicePolicy.NONE:
                continue
            amounts: Counter[int] = Counter()
            for sources, most in self._in_places(row):
                here: Counter[int] = Counter()
                for source, count in sources:
                    for index in self._near(source):
                        here[index] += count
                for index, count in here.items():
                    amounts[index] += count if most is None else min(most, count)
            near = [had + amounts[index] for had, index in zip(near, indices, strict=True)]
            if request.numa_policy != DevicePolicy.PREFERRED:
                supplies.append(Supply([amounts[index] for index in indices], request.count))
        return near, supplies

    def _near(self, source: int) -> Sequence[int]:
        """Return the positions of the cells that allow the devices of a source, or if all do, of the nearest cells."""
        near, rungs = self._sources[source]
        mask = rungs[0][1] if near < 0 else near
        return [cell.index for cell in self.view.cells if mask >> cell.index & 1] if mask > 0 else []

    def _in_places(self, row: int) -> list[tuple[list[tuple[int, int]], int | None]]:
        """Return by place the useful devices of a request, as (source, number), and the most that groups can have."""
        sources = self._source_of[row]
        if self.groups is None:
            return [([*Counter(sources.values()).items()], None)]
        cap = self.apart and self.groups.alike
        return [
            ([*Counter([sources[p] for p in able[row]]).items()], min(map(len, able)) if cap else None)
            for able, _ in self.groups.places
        ]


class Teller:
    """The cost of the devices for masks of positions in the cells of one search."""

    def __init__(self, search: DeviceSearch, cells: Sequence[CellView], weight: int) -> None:
        """Prepare ``DeviceSearch.cost`` times ``weight``."""
        self._search, self._cost, self._weight, self._cells = search, search.cost, weight, cells
        self._bits = [1 << cell.index for cell in cells]
        self._same = len(cells) == len(search.view.cells)
        self._running = -1

    def only(self, running: int) -> Self:
        """Take only these positions (mask) for cells that the container can run on, and return the teller."""
        self._running = running
        return self

    @cached_property
    def _bounds(self) -> tuple[list[int], list[Supply]]:
        return self._search.useful([cell if self._running >> p & 1 else None for p, cell in enumerate(self._cells)])

    @property
    def useful(self) -> Sequence[int]:
        """By position, how many useful devices are near."""
        return self._bounds[0]

    @property
    def supplies(self) -> Sequence[Supply]:
        """What every set of cells must have."""
        return self._bounds[1]

    def __call__(self, mask: int) -> int | None:
        """Return the cost of the devices for these positions, or None if no devices serve there."""
        mask &= self._running
        cells = mask if self._same else sum([bit for p, bit in enumerate(self._bits) if mask >> p & 1])
        far = self._cost(cells)
        return None if far is None else far * self._weight


Row = tuple[int, tuple[tuple[int, int], ...]]
"""A request without groups: the number of devices, and how many serve by source. Example: (2, ((0, 4), (1, 1)))."""


def _cost_of_rows(rows: Sequence[Row], prices: Sequence[int | None]) -> int | None:
    """Return the cost of the cheapest devices of each request, or None if there are too few."""
    total = 0
    for wanted, sources in rows:
        for price, count in sorted([(p, count) for source, count in sources if (p := prices[source]) is not None]):
            taken = min(wanted, count)
            total += taken * price
            wanted -= taken
            if not wanted:
                break
        if wanted:
            return None
    return total


def _rungs(node: int, cells: Sequence[CellView]) -> Sequence[tuple[int, int]]:
    """Return each distance from the cells to the node, nearest first, with the cells (mask) as near or nearer."""
    found, mask = [], 0
    by_distance = sorted([(cell.apart[node], cell.index) for cell in cells])
    for number, (distance, index) in enumerate(by_distance, 1):
        mask |= 1 << index
        if number == len(by_distance) or by_distance[number][0] > distance:
            found.append((distance, mask))
    return tuple(found)


def _union(serves: Sequence[Sequence[Device]]) -> list[Device]:
    """Return the devices of all requests, each once, in order of their addresses."""
    found = {device.address: device for able in serves for device in able}
    return [found[address] for address in sorted(found)]


def _ranked(*ranks: int) -> int:
    """Return one number that compares as the ranks do, the first of most weight."""
    whole = 0
    for rank in ranks:
        whole = (whole << _RARITY) + rank
    return whole


def _without(costs: dict[int, int], positions: Container[int]) -> dict[int, int]:
    return {position: cost for position, cost in costs.items() if position not in positions}


def _of(values: dict[int, int], positions: Container[int]) -> dict[int, int]:
    return {position: value for position, value in values.items() if position in positions}
