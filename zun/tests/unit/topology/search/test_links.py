# SPDX-License-Identifier: Apache-2.0
"""Devices that GPU links join all to all: cliques, what is bound by links, and what a refusal says."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest

from zun.tests.unit.topology.build import cell, host
from zun.tests.unit.topology.hosts import link_case, proof_size
from zun.topology import CellShare, HostTopology, PlacementRequest, Plan, Refusal, RefusalCode, Usage, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device, DeviceType
from zun.topology.search.links import CLIQUE_STEPS, maximal_cliques
from zun.topology.search.steps import Steps

Pairs = Iterable[tuple[int, int]]


def graph(pairs: Pairs) -> dict[str, frozenset[str]]:
    """The pairs of numbers as links of addresses: ``{"03": {"05"}, "05": {"03"}}``."""
    found: dict[str, set[str]] = {}
    for a, b in pairs:
        found.setdefault(f"{a:02}", set()).add(f"{b:02}")
        found.setdefault(f"{b:02}", set()).add(f"{a:02}")
    return {one: frozenset(others) for one, others in found.items()}


def cliques(count: int, pairs: Pairs, steps: Steps | None = None) -> list[list[int]]:
    found = maximal_cliques([f"{number:02}" for number in range(count)], graph(pairs), steps or Steps())
    return sorted(sorted(map(int, clique)) for clique in found)


def mesh(*numbers: int) -> list[tuple[int, int]]:
    return [*combinations(numbers, 2)]


CUBE = [*mesh(0, 1, 2, 3), *mesh(4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
"""Hybrid cube mesh of eight GPUs, as of DGX-1."""


@pytest.mark.parametrize(("count", "pairs", "expected"), [
    pytest.param(0, [], [[]], id="no-devices"),
    pytest.param(2, [], [[0], [1]], id="no-links"),
    pytest.param(4, mesh(0, 1, 2, 3), [[0, 1, 2, 3]], id="full-mesh"),
    pytest.param(4, [(0, 1), (1, 2), (2, 3), (3, 0)], [[0, 1], [0, 3], [1, 2], [2, 3]], id="ring"),
    pytest.param(8, CUBE, [[0, 1, 2, 3], [0, 4], [1, 5], [2, 6], [3, 7], [4, 5, 6, 7]], id="hybrid-cube-mesh"),
    pytest.param(5, [*mesh(0, 1), *mesh(2, 3)], [[0, 1], [2, 3], [4]], id="two-islands-and-one-alone"),
    pytest.param(2, [(0, 1), (1, 7)], [[0, 1]], id="link-to-a-device-that-is-not-free"),
])
def test_cliques(count, pairs, expected):
    assert cliques(count, pairs) == expected


def test_cliques_equal_brute_force():
    for seed in range(proof_size(300)):
        rng = random.Random(seed)
        count = rng.randint(1, 8)
        pairs = [pair for pair in mesh(*range(count)) if rng.random() < rng.choice((0.3, 0.7, 0.9))]
        whole = [
            set(some) for size in range(1, count + 1) for some in combinations(range(count), size)
            if {*combinations(some, 2)} <= {*pairs}
        ]
        most = sorted(sorted(each) for each in whole if not any(each < other for other in whole))
        assert cliques(count, pairs) == most, seed


def apart_by(count: int, size: int) -> list[tuple[int, int]]:
    """All pairs but those within the same ``size`` numbers: the graph with the most cliques has three."""
    return [(a, b) for a, b in mesh(*range(count)) if a // size != b // size]


def test_the_links_of_18_devices_are_always_proven():
    steps = Steps()
    assert len(cliques(18, apart_by(18, 3), steps)) == 3**6
    assert steps.spent < CLIQUE_STEPS / 2 and not steps.cut


def test_too_many_cliques_end_the_search():
    steps = Steps()
    found = cliques(60, apart_by(60, 3), steps)
    assert steps.cut and steps.spent < 2 * CLIQUE_STEPS
    assert found and all(len(clique) == 20 for clique in found)


def test_devices_without_links_take_no_steps():
    """Else a host with hundreds of virtual functions would end the search."""
    steps = Steps()
    assert len(cliques(500, mesh(0, 1), steps)) == 499
    assert steps.spent < 300


def test_the_order_of_devices_does_not_change_the_cliques():
    addresses = [f"{number:02}" for number in range(8)]
    one, other = (maximal_cliques(each, graph(CUBE), Steps()) for each in (addresses, addresses[::-1]))
    assert {*one} == {*other}


# Plans


def gpu(number: int, node: int | None = 0, links: Iterable[int] = (), **fields) -> Device:
    fields = {"class_id": "030200", "vendor_id": "10de", **fields}
    return Device(address(number), cell=node, links=tuple(map(address, links)), **fields)


def address(number: int) -> str:
    return f"0000:{number:02}:00.0"


def gpus(count: int, pairs: Pairs, **fields) -> tuple[Device, ...]:
    """GPUs 0 to ``count``, half of them on cell 0 and half on cell 1. Only the first of two names their link."""
    return tuple(
        gpu(number, number * 2 // count, [b for a, b in pairs if a == number], **fields) for number in range(count)
    )


def nic(number: int, node: int | None = 0) -> Device:
    return Device(address(number), vendor_id="15b3", class_id="020000", cell=node)


def machine(*devices: Device) -> HostTopology:
    return host(cell(0, "0 1 2 3"), cell(1, "4 5 6 7"), devices=devices)


def asking(count: int, *others: DeviceRequest, same: str = "link", policy: str = "preferred") -> PlacementRequest:
    wanted = DeviceRequest("gpu", count, (DeviceMatch(vendor_id="10de"),), numa_policy=policy)
    return PlacementRequest(2, 10, devices=(wanted, *others), device_same=same)


NIC = DeviceRequest("nic", 2, (DeviceMatch(vendor_id="15b3"),))
OTHER = DeviceRequest("other", 1, (DeviceMatch(vendor_id="1002"),))
ISLANDS = gpus(8, [*mesh(0, 2, 4, 6), *mesh(1, 3, 5, 7)])


def holding(*numbers: int) -> Usage:
    return Usage().with_claim("x", Plan({}, devices=tuple(GivenDevice("gpu", address(each)) for each in numbers)))


def given(answer: Plan | Refusal) -> list[int] | str:
    if isinstance(answer, Refusal):
        return str(answer.code)
    return [int(device.address.split(":")[1]) for device in answer.devices]


@pytest.mark.parametrize(("there", "held", "request_", "expected"), [
    pytest.param(gpus(4, mesh(0, 1, 2, 3)), (), asking(4), [0, 1, 2, 3], id="full-mesh"),
    pytest.param(gpus(4, [(0, 1), (1, 2), (2, 3), (3, 0)]), (), asking(3), "devices", id="ring-has-no-three"),
    pytest.param(gpus(4, [(0, 1), (1, 2), (2, 3), (3, 0)]), (0,), asking(2), [2, 3], id="ring-with-one-held"),
    pytest.param(gpus(8, CUBE), (), asking(4), [0, 1, 2, 3], id="cube-mesh-one-half"),
    pytest.param(gpus(8, CUBE), (1, 5), asking(4), "devices", id="cube-mesh-no-four-left"),
    pytest.param(gpus(8, CUBE), (1, 2, 3, 5, 6, 7), asking(2), [0, 4], id="cube-mesh-across-the-halves"),
    pytest.param(ISLANDS, (), asking(4), [0, 2, 4, 6], id="island-before-near-devices"),
    pytest.param(ISLANDS, (0, 2), asking(3), [1, 3, 5], id="island-with-enough-devices"),
    pytest.param(ISLANDS, (), asking(4, same="none"), [0, 1, 2, 3], id="none-takes-the-nearest"),
    pytest.param(gpus(2, []), (), asking(1), [0], id="one-device-needs-no-link"),
    pytest.param(gpus(2, []), (), asking(2), "devices", id="two-devices-need-one"),
    pytest.param(
        (*gpus(2, mesh(0, 1)), nic(20), nic(21)), (), asking(2, NIC), [0, 1, 20, 21], id="network-cards-have-no-links"
    ),
    pytest.param(
        (*gpus(2, mesh(0, 1)), replace(nic(20), links=(address(21),)), nic(21)), (), asking(2, NIC), "devices",
        id="a-linked-device-of-any-class-takes-part",
    ),
    pytest.param(
        (*gpus(2, mesh(0, 1)), gpu(20, vendor_id="1002")), (), asking(2, OTHER), "devices",
        id="devices-of-two-requests-are-linked",
    ),
    pytest.param(
        (gpu(0), gpu(1, links=(20,)), gpu(20, vendor_id="1002")), (), asking(1, OTHER), [1, 20],
        id="link-decides-between-equals",
    ),
    pytest.param(
        (gpu(0, class_id="", type=DeviceType.CDI), gpu(1)), (), asking(2), "devices", id="cdi-name-has-no-known-link"
    ),
    pytest.param(
        (gpu(0), gpu(20, vendor_id="1002", class_id="", type=DeviceType.PATH)), (), asking(1, OTHER), [0, 20],
        id="a-file-needs-no-link",
    ),
    pytest.param(
        (gpu(0, class_id="120000", links=(1,)), gpu(1, class_id="120000"), gpu(2, class_id="120000")), (0,), asking(2),
        "devices", id="accelerators-take-part",
    ),
])
def test_links_decide(there, held, request_, expected):
    assert given(plan(machine(*there), holding(*held), request_)) == expected


@pytest.mark.parametrize(("pairs", "held", "request_", "expected"), [
    pytest.param([(0, 1), (1, 2), (2, 3)], (), asking(2), [0, 1], id="the-end-of-a-chain"),
    pytest.param([*mesh(0, 1, 2), (3, 4)], (), asking(2), [3, 4], id="the-smallest-island"),
    pytest.param(mesh(0, 1, 2, 3), (), asking(1, same="none"), [4], id="without-links-for-who-needs-none"),
    pytest.param([*mesh(0, 1), *mesh(2, 3)], (3, 4), asking(1, same="none"), [2], id="links-to-held-ones-count-not"),
])
def test_devices_with_few_links_are_taken_first(pairs, held, request_, expected):
    """All five GPUs are equally near."""
    there = [gpu(number, 0, [b for a, b in pairs if a == number]) for number in range(5)]
    assert given(plan(machine(*there), holding(*held), request_)) == expected


def test_links_choose_the_cells():
    """Two linked GPUs are on cell 1, so the container runs there, although cell 0 has as many GPUs."""
    answer = plan(machine(gpu(0), gpu(1), gpu(2, 1, links=(3,)), gpu(3, 1)), Usage(), asking(2, policy="required"))
    assert given(answer) == [2, 3] and set(answer.cells) == {1}


FULL = Usage().with_claim("others", Plan({1: CellShare(cell(1, "4 5 6 7").cpus)}))
GPU_LINKS = "GPU links (NVLink or xGMI, which device_same link wants)"


@pytest.mark.parametrize(("there", "usage", "request_", "words", "changes"), [
    pytest.param(
        gpus(2, []), Usage(), asking(2),
        "no GPU link (NVLink or xGMI, which device_same link wants) joins two of the free devices: "
        "gpu: 2 free, 1 on cell 0, 1 on cell 1",
        {"device-same": ("host", 2), "devices": ("link", 1)}, id="no-link-at-all",
    ),
    pytest.param(
        gpus(8, CUBE), holding(0, 4), asking(4),
        f"{GPU_LINKS} join at most 3 of the free devices all to all, and 4 are wanted: "
        "gpu: 6 free, 3 on cell 0, 3 on cell 1",
        {"device-same": ("host", 4), "devices": ("link", 3)}, id="a-smaller-clique",
    ),
    pytest.param(
        (gpu(0), gpu(1), gpu(2, 1, links=(3,)), gpu(3, 1)), FULL, asking(2, policy="required"),
        f"the free devices that {GPU_LINKS} join all to all do not serve, where CPUs and memory are free: "
        "gpu: 4 free, 2 on cell 0, 2 on cell 1",
        {"device-policy": ("link", 2), "device-same": ("host", 2), "devices": ("link", 1)}, id="linked-elsewhere",
    ),
])
def test_a_refusal_names_the_missing_link(there, usage, request_, words, changes):
    refusal = plan(machine(*there), usage, request_)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.message) == (RefusalCode.DEVICES, words)
    found = {str(each.dimension): (each.request.device_same, each.request.devices[0].count) for each in refusal.changes}
    assert {name: each for name, each in found.items() if name.startswith("device")} == changes


def test_too_many_cliques_are_not_proven():
    """Sixty devices, three by three without a link, and no 21 of them linked all to all."""
    devices = gpus(60, apart_by(60, 3))
    assert len(given(plan(machine(*devices), Usage(), asking(20)))) == 20
    refusal = plan(machine(*devices), Usage(), asking(21))
    assert isinstance(refusal, Refusal) and refusal.code == RefusalCode.UNPROVEN


def test_a_smaller_request_for_links_fits_too():
    """What fits for some devices fits for one device less, and without links."""
    seen = 0
    for seed in range(proof_size(200)):
        topology, usage, request = link_case(random.Random(seed))
        if isinstance(plan(topology, usage, request), Plan):
            first, *others = request.devices
            for fewer in (
                replace(request, devices=(replace(first, count=first.count - 1), *others)),
                replace(request, device_same="none"),
            ):
                assert isinstance(plan(topology, usage, fewer), Plan), seed
            seen += 1
    assert proof_size(200) < 200 or seen > 50
