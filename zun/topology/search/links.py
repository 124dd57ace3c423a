# SPDX-License-Identifier: Apache-2.0
"""The free devices that one container may have together if GPU links must join its devices all to all.

A set of devices that are all linked to each other is a *clique* of the graph of links. A clique that no further device
can join is a *maximal* one. Every choice for the container is a part of a maximal clique, so the best choice of all
maximal cliques is the best one. The cliques follow from the links and the free devices alone, so they are found once,
whatever cells the container may run on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zun.topology.device_view import DeviceView
from zun.topology.devices import Device
from zun.topology.search.steps import Steps

CLIQUE_STEPS = 10_000
"""Limit on the steps of the search for cliques. The 729 cliques of 18 devices take 4372 steps if each device lacks a
link to two others only; no graph of 18 devices has more cliques."""


def linked_sets(
    view: DeviceView, serves: Sequence[Sequence[Device]], counts: Sequence[int], steps: Steps
) -> list[frozenset[str]]:
    """Return the addresses of the devices that a container may have together, one set for each maximal clique.

    ``serves`` are the free devices by request, ``counts`` the devices wanted. Devices that no GPU link can join to
    others are in every set. Sets with too few devices for a request are left out. If the steps are used up, sets may be
    missing.
    """
    free = {device.address: device for able in serves for device in able}
    bound = sorted([address for address, device in free.items() if view.can_link(device)])
    others = frozenset(free) - {*bound}
    found = []
    for clique in maximal_cliques(bound, view.linked, steps):
        if len(others) + len(clique) < sum(counts):
            continue
        together = others | clique
        rows = [sum([device.address in together for device in able]) for able in serves]
        if all(row >= count for row, count in zip(rows, counts, strict=True)):
            found.append(together)
    return found


def maximal_cliques(
    addresses: Sequence[str], linked: Mapping[str, frozenset[str]], steps: Steps
) -> Iterator[frozenset[str]]:
    """Yield the maximal cliques, each once; the empty one if there are no devices.

    The algorithm is that of Bron and Kerbosch with a pivot. A branch is a clique with the devices that may still join
    it, and those that could but were in earlier branches. Either the pivot or a device without a link to it is in each
    maximal clique of the branch, so only these are tried. Sets of devices are masks of positions in ``addresses``.
    """
    places = {address: 1 << position for position, address in enumerate(addresses)}
    links = [sum([places.get(other, 0) for other in linked.get(address, ())]) for address in addresses]
    alone = [position for position, mask in enumerate(links) if not mask]
    yield from [frozenset([addresses[position]]) for position in alone]
    if alone and len(alone) == len(addresses):
        return
    every = (1 << len(addresses)) - 1
    left, before = [(0, every & ~sum([1 << position for position in alone]), 0)], steps.left
    while left:
        if before - steps.left > CLIQUE_STEPS:
            steps.cut = True
            return
        steps.spend(2 + len(addresses) // 8)
        clique, able, earlier = left.pop()
        if not able | earlier:
            yield frozenset([address for address, place in places.items() if clique & place])
        if not able:
            continue
        pivot = max(_positions(able | earlier), key=lambda position: (able & links[position]).bit_count())
        for position in _positions(able & ~links[pivot]):
            left.append((clique | 1 << position, able & links[position], earlier & links[position]))
            able, earlier = able & ~(1 << position), earlier | 1 << position


def _positions(mask: int) -> list[int]:
    """Return the positions of a mask. Example: [0, 2] for 0b101."""
    return [position for position in range(mask.bit_length()) if mask >> position & 1]
