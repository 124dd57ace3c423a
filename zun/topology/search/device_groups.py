# SPDX-License-Identifier: Apache-2.0
"""The cheapest devices for several requests at given costs, alone or in groups that share a place.

Requests are rows. A *place* is a switch or a cell. A *group* has one device of each of some rows, all of one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from zun.topology.device_request import DeviceRequest, DeviceSame
from zun.topology.devices import Device
from zun.topology.search.matching import cheapest_matching
from zun.topology.search.steps import Steps

MOST_STEPS = 2000
"""Limit on the steps for the groups that one place can hold."""

MOST_TRIES = 8192
"""Limit on the pairs of a state and an offer of one place."""

_WORK = 16
"""Entries of a table that take as long as one step."""

Options = Sequence[dict[int, int]]
"""By request, the cost of each device that serves it: cost by position in ``DeviceSearch.free``."""

Chosen = tuple[int, list[list[int]]]
"""The cost of a choice, and by request the positions of its devices."""

Kinds = Counter[tuple[int, ...]]
"""The number of groups by the rows that they have a device of."""

Offers = list[tuple[int, int, list[list[int]]]]
"""The groups that a place can hold, as a ``_state``, the cost of their devices, and by request the positions."""

_FIELD = 32
"""Bits for the number of groups of one kind in a ``_state``."""

_GUARD = 1 << _FIELD - 1
"""A bit above each number. A subtraction that makes the number negative clears the bit."""


class Place(NamedTuple):
    """A part of the host whose devices may be in one group."""

    able: Sequence[Sequence[int]]
    """By request, the positions of its devices."""
    shared: bool
    """False for the devices of no known place. They can only be in groups of one device."""


def serve(options: Options, counts: Sequence[int], apart: bool, steps: Steps) -> Chosen | None:
    """Return the cheapest devices if each request gets so many, or None if there are too few.

    ``apart`` tells that no device serves two requests.
    """
    if any(len(each) < count for each, count in zip(options, counts, strict=True)):
        return None
    if apart:
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
    steps.spend(len(rows) ** 2 * len(columns) // _WORK // 2)
    matching = cheapest_matching([[options[row].get(position) for position in columns] for row in rows])
    if matching is None:
        return None
    chosen = [[] for _ in counts]
    for row, column in zip(rows, matching.columns, strict=True):
        chosen[row].append(columns[column])
    return matching.cost, chosen


class Groups:
    """The groups of one request in the places of one host. What a place can hold is remembered."""

    def __init__(self, requests: Sequence[DeviceRequest], places: Sequence[Place], steps: Steps) -> None:
        self.kinds = kinds_of(requests)
        useful = [self._useful(place) for place in places]
        self.places = [place for place in useful if any(place.able)]
        """The places with the devices that some group can have."""
        self._counts = [each.count for each in requests]
        self._steps = steps
        self._offered: dict[tuple[int, object], Offers] = {}
        """The offers by position of the place and the costs of its devices."""

    def _useful(self, place: Place) -> Place:
        """Return the place without devices that no group can have."""
        whole = [rows for rows in self.kinds if len(rows) == 1 or (place.shared and all(place.able[r] for r in rows))]
        wanted = {row for rows in whole for row in rows}
        return place._replace(able=[able if row in wanted else () for row, able in enumerate(place.able)])

    @property
    def alike(self) -> bool:
        """True if every group has one device of each request."""
        return len(self.kinds) == 1

    def cheapest(self, options: Options, apart: bool) -> Chosen | None:
        """Return the cheapest devices, or None. ``apart`` tells that no device serves two requests."""
        return self._like_groups(options) if apart and self.alike else self._by_table(options, apart)

    def _like_groups(self, options: Options) -> Chosen | None:
        """Return the cheapest devices if every group has one device of each request, and no device serves two.

        In one place, the next group takes the next device of each request and is never cheaper than the group before.
        So the cheapest groups of all places together are the answer.
        """
        groups = []
        for able, shared in self.places:
            if shared:
                rows = [
                    sorted([(each[p], p) for p in here if p in each]) for here, each in zip(able, options, strict=True)
                ]
                groups += [(sum([cost for cost, _ in group]), group) for group in zip(*rows, strict=False)]
        number = self._counts[0]
        if len(groups) < number:
            return None
        best = sorted(groups)[:number]
        return sum([cost for cost, _ in best]), [[group[row][1] for _, group in best] for row in range(len(options))]

    def _by_table(self, options: Options, apart: bool) -> Chosen | None:
        """Return the cheapest devices in groups of several kinds, or of devices that serve several requests.

        Groups with the same requests are alike, so a state is how many groups of each kind have no place yet. Place by
        place, every number of groups is tried.
        """
        if serve(options, self._counts, apart, self._steps) is None:
            return None
        done = sum([_GUARD << kind * _FIELD for kind in range(len(self.kinds))])
        states: dict[int, tuple[int, tuple[list[list[int]], ...]]] = {done + _state(self.kinds.values()): (0, ())}
        for number, place in enumerate(self.places):
            offers = self._offers_of(number, place, options, apart)
            if not offers:
                continue
            found = dict(states)
            self._steps.spend(len(states) * len(offers) // _WORK)
            for state, (before, parts) in self._most_done(states, MOST_TRIES // len(offers)):
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
        return cost, [[p for chosen in parts for p in chosen[row]] for row in range(len(options))]

    def _most_done(
        self, states: dict[int, tuple[int, tuple[list[list[int]], ...]]], most: int
    ) -> Iterable[tuple[int, tuple[int, tuple[list[list[int]], ...]]]]:
        """Return the states, if they are many the ones with most groups done, the cheapest of equals."""
        if len(states) <= most:
            return states.items()
        self._steps.cut = True
        ranked = sorted(states.items(), key=lambda entry: (_number_left(entry[0], len(self.kinds)), entry[1][0]))
        return ranked[:most]

    def _offers_of(self, number: int, place: Place, options: Options, apart: bool) -> Offers:
        """Return the cheapest devices of one place for every number of groups that it can hold."""
        costs = tuple([tuple(map(each.get, here)) for here, each in zip(place.able, options, strict=True)])
        offers = self._offered.get((number, costs))
        if offers is None:
            offers = self._offered[number, costs] = [*self._offers(options, place, apart)]
        return offers

    def _offers(self, options: Options, place: Place, apart: bool) -> Iterator[tuple[int, int, list[list[int]]]]:
        local = [{p: each[p] for p in here if p in each} for here, each in zip(place.able, options, strict=True)]
        kinds, before = [*self.kinds], self._steps.left
        for taken in self._numbers(local, place.shared):
            self._steps.spend(1)
            if before - self._steps.left > MOST_STEPS:
                self._steps.cut = True
                return
            here = [0] * len(local)
            for rows, number in zip(kinds, taken, strict=True):
                for row in rows:
                    here[row] += number
            served = serve(local, here, apart, self._steps)
            if served is not None:
                yield _state(taken), *served

    def _numbers(self, local: Options, shared: bool) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of groups of each kind that the devices of a place may suffice for, most groups first."""
        kinds = [*self.kinds.items()]
        each_left = [len(able) for able in local]
        whole = len({position for able in local for position in able})

        def further(kind: int, left: Sequence[int], together: int) -> Iterator[tuple[int, ...]]:
            if kind == len(kinds):
                yield ()
                return
            rows, number = kinds[kind]
            if not shared and len(rows) > 1:
                number = 0
            number = min(number, together // len(rows), *[left[row] for row in rows])
            for taken in range(number, -1, -1):
                after = [count - taken if row in rows else count for row, count in enumerate(left)]
                for others in further(kind + 1, after, together - taken * len(rows)):
                    yield (taken, *others)

        return (taken for taken in further(0, each_left, whole) if any(taken))


class LikeGroupCosts:
    """The costs of like groups without their devices: quick sums for many sets of cells.

    Devices have a *source*: all devices of one source cost the same. Prices are by source, None if the devices do not
    serve.
    """

    def __init__(self, groups: Groups, number: int, source_of: Sequence[dict[int, int]]) -> None:
        self._number = number
        self._places = []
        for able, shared in groups.places:
            if shared:
                rows = [[sources[p] for p in here] for here, sources in zip(able, source_of, strict=True)]
                used = sorted({source for row in rows for source in row})
                known: dict[object, Sequence[int]] = {}
                self._places.append((itemgetter(*used), [[used.index(s) for s in row] for row in rows], known))

    def __len__(self) -> int:
        return len(self._places)

    def cost(self, prices: Sequence[int | None]) -> int | None:
        """Return the cost of the cheapest groups, or None if there are too few."""
        found: list[int] = []
        for get, rows, known in self._places:
            here = get(prices)
            costs = known.get(here)
            if costs is None:
                costs = known[here] = self._costs(here if isinstance(here, tuple) else (here,), rows)
            found += costs
        if len(found) < self._number:
            return None
        return sum(sorted(found)[: self._number])

    def _costs(self, prices: Sequence[int | None], rows: Sequence[Sequence[int]]) -> Sequence[int]:
        """Return the cost of each group that a place can hold, cheapest first."""
        able = [sorted([price for source in row if (price := prices[source]) is not None]) for row in rows]
        return [*map(sum, zip(*able, strict=False))][: self._number]


def _state(numbers: Iterable[int]) -> int:
    """Return the numbers of groups by kind as one integer. Example: 0x2_00000001 for one and two."""
    return sum([number << kind * _FIELD for kind, number in enumerate(numbers)])


def _number_left(state: int, kinds: int) -> int:
    """Return how many groups of a guarded state have no place yet."""
    return sum([(state >> kind * _FIELD) % _GUARD for kind in range(kinds)])


def kinds_of(requests: Sequence[DeviceRequest]) -> Kinds:
    """Count the groups by the positions of their requests.

    Group number i has one device of each request for more than i devices. Example: requests for 3 and 1 devices make
    one group of both and two groups of the first.
    """
    counts = [each.count for each in requests]
    return Counter([
        tuple([row for row, most in enumerate(counts) if most > number]) for number in range(max(counts, default=0))
    ])


def places_of(
    free: Sequence[Device], able: Sequence[Sequence[int]], homes: Mapping[int, tuple[int, ...]], same: str
) -> Sequence[Place] | None:
    """Return the places that the devices of a group can share, or None if groups share nothing.

    ``homes`` are the cells where the devices of each node are. Devices share a cell if they have the same homes.
    """
    if same not in (DeviceSame.SWITCH, DeviceSame.CELL):
        return None
    found: dict[str | tuple[int, ...] | None, list[list[int]]] = {}
    for row, positions in enumerate(able):
        for position in positions:
            device = free[position]
            cells = None if device.cell is None else homes.get(device.cell)
            place = device.switch if same == DeviceSame.SWITCH else cells
            found.setdefault(place, [[] for _ in able])[row].append(position)
    return [Place(rows, place is not None) for place, rows in found.items()]
