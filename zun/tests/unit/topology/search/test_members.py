# SPDX-License-Identifier: Apache-2.0
"""One plan for the members of a capsule whose containers differ, against every choice that there is."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.tests.unit.common.proof import proof
from zun.tests.unit.topology.build import cell, host, smt_host, used
from zun.tests.unit.topology.hosts import cells_in_a_row, like_cells, random_case, random_topology, random_usage, rarely
from zun.topology import (
    CellShare,
    CpuSet,
    HostTopology,
    PlacementRequest,
    Plan,
    Refusal,
    RefusalCode,
    Usage,
    kept_up,
    plan,
)
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice
from zun.topology.devices import Device
from zun.topology.host_topology import view_of
from zun.topology.isolation import kept_with
from zun.topology.view import CellView

SMT = smt_host(2, 4)  # cells of four cores with two threads: 0-7 and 8-15, siblings side by side; 1000 MiB
PAGED = host(*(cell(n, f"{4 * n},{4 * n + 1} {4 * n + 2},{4 * n + 3}", 1000, pages={2048: 100}) for n in range(2)))


def dedicated(cpus: int, memory_mib: int = 100, **fields) -> PlacementRequest:
    return PlacementRequest(cpus, memory_mib, **fields)


def mixed(own: int, demand: float, memory_mib: int = 100, **fields) -> PlacementRequest:
    return PlacementRequest(own + demand, memory_mib, "mixed", dedicated_cpus=own, **fields)


def shared(cpus: float, memory_mib: int = 100, **fields) -> PlacementRequest:
    return PlacementRequest(cpus, memory_mib, "shared", **fields)


def capsule(*members: PlacementRequest, same: str = "none") -> PlacementRequest:
    return PlacementRequest.of_members(members, same)


@pytest.mark.parametrize(("members", "same", "expected"), [
    pytest.param([dedicated(2), shared(1)], "none", ["0-1", "pool 0"], id="dedicated-beside-shared"),
    pytest.param([shared(1), dedicated(2)], "none", ["pool 0", "0-1"], id="parts-are-in-the-order-of-members"),
    pytest.param([dedicated(2), mixed(1, 1)], "none", ["0-1", "2 and pool 0"], id="dedicated-beside-mixed"),
    pytest.param([dedicated(6), dedicated(4)], "none", ["0-5", "8-11"], id="a-cell-each-where-one-is-too-small"),
    pytest.param(
        [dedicated(3), dedicated(2, thread_policy="require")], "none", ["2-4", "0-1"], id="whole-cores-first"
    ),
    pytest.param([shared(2.5), dedicated(7)], "none", ["pool 1", "0-6"], id="the-pool-is-what-is-left"),
    pytest.param([dedicated(4), dedicated(4)], "cell", ["0-3", "4-7"], id="one-cell"),
    pytest.param([dedicated(6, mempolicy="preferred"), dedicated(2)], "cell", ["2-7", "0-1"], id="in-another-order"),
])
def test_places(members, same, expected):
    found = plan(SMT, Usage(), capsule(*members, same=same))
    assert isinstance(found, Plan)
    assert [_told(part) for part in found.parts] == expected
    assert Usage().fits(SMT, found) is None


@pytest.mark.parametrize(("cores", "l3", "members", "expected"), [
    pytest.param(
        "0,1 2 3", "", [dedicated(2, isolation="core"), dedicated(2, thread_policy="require")], ["2-3", "0-1"],
        id="cores-without-siblings",
    ),
    pytest.param(
        "0 1 2 3 4", "0-1 2-4", [dedicated(2, isolation="l3"), dedicated(3, isolation="l3")], ["0-1", "2-4"],
        id="the-larger-cache-is-for-the-larger",
    ),
    pytest.param(
        "0,1 2 3 4,5", "0-3 4-5", [dedicated(2, isolation="l3"), dedicated(2, thread_policy="require")],
        ["4-5", "0-1"], id="the-cache-without-singles",
    ),
])
def test_other_cpus_of_a_cell_are_tried(cores, l3, members, expected):
    topology = host(cell(0, cores, l3=l3))
    found = plan(topology, Usage(), capsule(*members))
    assert isinstance(found, Plan)
    assert [_told(part) for part in found.parts] == expected


def _told(part: Plan) -> str:
    pool = f"pool {','.join(map(str, part.cpu_cells))}" if part.uses_pool else ""
    return " and ".join(text for text in (str(part.dedicated_cpus), pool) if text)


def test_pages_are_those_of_one_member():
    found = plan(PAGED, Usage(), capsule(dedicated(1, 100, page_size=2048), dedicated(1, 300)))
    assert isinstance(found, Plan)
    assert [part.pages for part in found.parts] == [{2048: 50}, {}]
    assert found.cells == {0: CellShare(CpuSet("0-1"), 400, pages={2048: 50})}
    usage = Usage().with_claim("capsule", found)
    free = usage.free(PAGED)[0]
    assert (free.memory_mib, free.pages) == (500, {2048: 50})  # 1000 MiB are 200 in pages and 800 beside them
    assert not found.pages  # of the sandbox


def test_other_pages_are_tried_for_a_member_that_takes_any():
    members = [dedicated(1, 150, page_size="any"), dedicated(1, 150, page_size=2048)]
    one_cell = replace(PAGED, cells=PAGED.cells[:1])
    found = plan(one_cell, Usage(), capsule(*members))
    assert isinstance(found, Plan)
    assert [part.pages for part in found.parts] == [{}, {2048: 75}]


@pytest.mark.parametrize(("members", "same", "code"), [
    pytest.param([dedicated(9), shared(1)], "none", RefusalCode.CPUS, id="one-member-too-large"),
    pytest.param([dedicated(8), dedicated(7), dedicated(2)], "none", RefusalCode.CPUS, id="too-much-together"),
    pytest.param([dedicated(1, 900), dedicated(1, 900), dedicated(1, 900)], "none", RefusalCode.MEMORY, id="memory"),
    pytest.param([dedicated(5), dedicated(5), dedicated(5)], "none", RefusalCode.SHAPE, id="not-at-once"),
    pytest.param([dedicated(6), dedicated(4)], "cell", RefusalCode.SHAPE, id="not-in-one-cell"),
    pytest.param([dedicated(8), dedicated(7), shared(2)], "none", RefusalCode.SHAPE, id="no-pool-is-left"),
    pytest.param([dedicated(1), shared(20)], "none", RefusalCode.SHARED_POOL, id="pool-too-small"),
])
def test_refusals(members, same, code):
    answer = plan(SMT, Usage(), capsule(*members, same=same))
    assert isinstance(answer, Refusal) and answer.code is code, answer


@pytest.mark.parametrize(("members", "same", "nearest"), [
    pytest.param(
        [dedicated(6), dedicated(4)], "l3", capsule(dedicated(6), dedicated(4)), id="without-one-place"
    ),
    pytest.param(
        [dedicated(8), dedicated(7), dedicated(2)], "none", capsule(dedicated(6), dedicated(7), dedicated(2)),
        id="fewer-cpus-for-one",
    ),
    pytest.param(
        [dedicated(8), dedicated(9)], "none", capsule(dedicated(8), dedicated(8)), id="the-one-that-is-too-large"
    ),
])
def test_nearest_request_fits(members, same, nearest):
    answer = plan(SMT, Usage(), capsule(*members, same=same))
    assert isinstance(answer, Refusal)
    assert answer.nearest == nearest
    assert isinstance(plan(SMT, Usage(), nearest), Plan)


GPUS = tuple(
    Device(f"0000:0{n}:00.0", vendor_id="10de", product_id="1", cell=n // 2, path=("root", "port", switch, "down"))
    for n, switch in enumerate("abbb")
)


def gpu(count: int = 1, **fields) -> tuple[DeviceRequest, ...]:
    return (DeviceRequest("gpu", count, (DeviceMatch(vendor_id="10de"),), **fields),)


def with_gpus(topology: HostTopology) -> HostTopology:
    return replace(topology, devices=GPUS)


@pytest.mark.parametrize(("members", "same", "expected"), [
    pytest.param([dedicated(1, devices=gpu()), dedicated(1, devices=gpu())], "none", ["0", "1"], id="the-nearest"),
    pytest.param([dedicated(1, devices=gpu()), dedicated(1, devices=gpu())], "switch", ["1", "2"], id="one-switch"),
    pytest.param([dedicated(1, devices=gpu()), shared(1, devices=gpu(2))], "switch", ["1", "2,3"], id="with-shared"),
    pytest.param([dedicated(1, devices=gpu(2)), dedicated(1, devices=gpu(2))], "switch", None, id="too-many"),
    pytest.param(
        [dedicated(2, devices=gpu(numa_policy="required")), dedicated(1, devices=gpu(2, numa_policy="required"))],
        "none", ["0", "2,3"], id="in-other-cells",
    ),
])
def test_devices(members, same, expected):
    answer = plan(with_gpus(SMT), Usage(), capsule(*members, same=same))
    if expected is None:
        assert isinstance(answer, Refusal) and answer.code is RefusalCode.DEVICES
        return
    assert isinstance(answer, Plan)
    numbers = {device.address: str(number) for number, device in enumerate(GPUS)}
    assert [",".join(numbers[each.address] for each in part.devices) for part in answer.parts] == expected
    assert answer.devices == tuple(each for part in answer.parts for each in part.devices)


def test_records():
    request = capsule(dedicated(1, 100, page_size=2048), mixed(1, 0.5), shared(0.5))
    found = plan(PAGED, Usage(), request)
    assert isinstance(found, Plan)
    assert Plan.from_dict(found.to_dict()) == found
    assert "parts" not in plan(PAGED, Usage(), dedicated(1)).to_dict()
    older = {name: value for name, value in found.to_dict().items() if name != "parts"}
    read = Plan.from_dict(older)  # by an earlier release: it does not give the CPUs to others
    assert read.dedicated_cpus == found.dedicated_cpus and read.cells == found.cells


def test_sibling_that_came_online_is_kept_by_its_part():
    before = host(cell(0, "0 2,3 4,5"))
    joined = plan(before, Usage(), capsule(dedicated(1, thread_policy="isolate", isolation="core"), dedicated(2)))
    assert isinstance(joined, Plan)
    assert [_told(part) for part in joined.parts] == ["0", "2-3"]
    now = host(cell(0, "0,1 2,3 4,5"))
    usage = Usage().with_claim("capsule", joined)
    kept = kept_up(now, usage, joined)
    assert [part.withheld for part in kept.parts] == [CpuSet("1"), CpuSet()]
    assert (kept.withheld, kept.generation) == (CpuSet("1"), joined.generation)
    assert kept_up(now, usage.without("capsule").with_claim("capsule", kept), kept) is kept


@pytest.mark.parametrize(("members", "same", "words"), [
    pytest.param([shared(1)], "cell", "no member asks for any", id="own-cpus"),
    pytest.param([dedicated(1)], "switch", "no member asks for any", id="devices"),
    pytest.param([dedicated(2, numa_nodes=2), dedicated(1)], "cell", "several cells", id="several-cells"),
    pytest.param([dedicated(1, cache_ways=1), shared(1)], "none", "not for members", id="caches"),
    pytest.param([dedicated(1)], "rack", "must be one of none, cell, l3, switch", id="unknown"),
])
def test_requests_that_no_host_can_satisfy(members, same, words):
    with pytest.raises(ValueError, match=words):
        capsule(*members, same=same)


# Against every choice


def random_members(rng: random.Random, *, cards: bool = False) -> list[PlacementRequest]:
    """Two or three members of mixed kinds, at most one of them shared. With ``cards`` some ask for devices."""
    found = []
    for number in range(rng.choice((2, 2, 3))):
        kind = rng.choice(("dedicated", "dedicated", "mixed", "shared" if not number else "dedicated"))
        memory = rng.choice((0, 1, 2, rng.randint(0, 8)))
        if kind == "shared":
            found.append(shared(rng.choice((0.5, 1, 2.5)), memory))
            continue
        fields = {
            "thread_policy": rng.choice(("prefer", "prefer", "isolate", "require")),
            "isolation": rng.choice(("core", "l3")) if rarely(rng, 0.3) else "thread",
            "page_size": rng.choice(("large", "any", 2048)) if rarely(rng, 0.3) else None,
        }
        own = rng.choice((1, 1, 2, 2, 3))
        if cards and rng.random() < 0.7:
            fields["devices"] = gpu(rng.choice((1, 1, 2)), numa_policy=rng.choice(("none", "preferred", "required")))
        found.append(mixed(own, rng.choice((0.5, 1)), memory, **fields) if kind == "mixed"
                     else dedicated(own, memory, **fields))
    return found


def choices(
    topology: HostTopology, usage: Usage, member: PlacementRequest, same: str, within: Collection[int] | None = None
) -> Iterator[tuple[Plan, object]]:
    """Yield every claim of one member that the rules allow, with the part of the host that all members must share.

    Its own CPUs are on the cells ``within`` (ids), if these are given.
    """
    if not member.dedicated:
        found = plan(topology, usage, member)
        if isinstance(found, Plan):
            yield found, None
        return
    for each in view_of(topology).cells:
        if within is not None and each.id not in within:
            continue
        free = CpuSet.from_mask(each.dedicated & ~usage.held_mask)
        for cpus in combinations(free, member.own_cpus):
            kept = _kept(each, CpuSet(cpus).mask, member)
            if kept is None:
                continue
            place: object = each.id if same == "cell" else None
            if same == "l3":
                places = [mask for mask in each.cache_masks if mask & CpuSet(cpus).mask]
                if len(places) > 1:
                    continue
                place = places[0]
            for memory in _memory(topology, each, member):
                shares = {
                    node: CellShare(
                        CpuSet(cpus) if node == each.id else CpuSet(),
                        mib,
                        CpuSet.from_mask(kept & ~CpuSet(cpus).mask) if node == each.id else CpuSet(),
                        pages,
                        member.demand / 1_000_000 if node == each.id else 0.0,
                    )
                    for node, (mib, pages) in {each.id: (0, {}), **memory}.items()
                }
                claim = Plan(
                    shares, member.cpu_policy, isolation=member.isolation, whole_cores=member.whole_cores
                )
                if usage.fits(topology, claim) is not None:
                    continue
                for devices in _devices(topology, each, member):
                    given_too = replace(claim, devices=devices)
                    switches = {topology.device_view.by_address[device.address].switch for device in devices}
                    if same == "switch" and (len(switches) > 1 or None in switches):
                        continue
                    if usage.fits(topology, given_too) is None:
                        yield given_too, next(iter(switches), None) if same == "switch" else place


def _devices(topology: HostTopology, cell_: CellView, member: PlacementRequest) -> Iterator[tuple[GivenDevice, ...]]:
    if not member.devices:
        yield ()
        return
    (wanted,) = member.devices
    near = [each for each in topology.devices if wanted.numa_policy != "required" or each.cell == cell_.id]
    for chosen in combinations(near, wanted.count):
        yield tuple(GivenDevice.of(wanted.name, each) for each in chosen)


def _kept(cell_: CellView, cpus: int, member: PlacementRequest) -> int | None:
    keeps = "core" if member.whole_cores and member.isolation == "thread" else member.isolation
    cores = [core for core in cell_.cores if core & cpus]
    if member.thread_policy == "isolate" and any((core & cpus).bit_count() > 1 for core in cores):
        return None
    if member.thread_policy == "require" and any(core.bit_count() == 1 for core in cores):
        return None
    return kept_with(cell_, cpus, keeps)


def _memory(
    topology: HostTopology, cell_: CellView, member: PlacementRequest
) -> Iterator[dict[int, tuple[int, dict[int, int]]]]:
    """Yield how the memory can be spread over the nodes of a cell: MiB and pages by node."""
    sizes = {size for node in topology.cells for size, count in node.pages.items() if count}
    wanted: list[int | None] = [None] if member.page_size is None else [*sizes]
    if member.page_size == "any":
        wanted.append(None)
    if isinstance(member.page_size, int):
        wanted = [member.page_size] if member.page_size in sizes else []
    for size in wanted:
        count = member.memory_mib if size is None else -(-member.memory_mib * 1024 // size)
        for split in _splits(count, len(cell_.nodes)):
            yield {
                node: (part, {}) if size is None else (part * size // 1024, {size: part} if part else {})
                for node, part in zip(cell_.nodes, split, strict=True)
                if part
            }


def _splits(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (count,)
        return
    for first in range(count, -1, -1):
        for rest in _splits(count - first, parts - 1):
            yield first, *rest


def fits_somehow(
    topology: HostTopology,
    usage: Usage,
    members: list[PlacementRequest],
    same: str,
    place: object = None,
    within: Collection[int] | None = None,
) -> bool:
    if not members:
        return True
    for claim, own in choices(topology, usage, members[0], same, within):
        if own is not None and place is not None and own != place:
            continue
        beside = usage.with_claim(f"member {len(members)}", claim)
        if fits_somehow(topology, beside, members[1:], same, own if place is None else place, within):
            return True
    return False


def nearer_cells(topology: HostTopology, usage: Usage, joined: Plan) -> list[tuple[int, ...]]:
    """Return the sets of cells that are better than those of ``joined``: fewer, nearer to each other, or fuller."""
    view = view_of(topology)
    every = topology.dedicated_cpus | topology.isolated_cpus

    def key(cells):
        apart = sum(view.distances[a.index][b.index] for a, b in combinations(cells, 2))
        free = sum((each.online & every.mask & ~usage.held_mask).bit_count() for each in cells)
        return len(cells), apart, -free if view.spread else free

    taken = key([each for each in view.cells if each.online & joined.dedicated_cpus.mask])
    sets = [each for count in range(1, taken[0] + 1) for each in combinations(view.cells, count)]
    return [tuple(each.id for each in cells) for cells in sets if key(cells) < taken]


@proof(400)
@given(rng=st.randoms(use_true_random=False))
def test_exact(rng):
    make = rng.choice((random_topology, like_cells))
    topology = make(rng, cells=3, most_cpus=5)
    if view_of(topology).lends:
        return  # who borrows from whom is tried in one way only
    usage = random_usage(rng, topology) if rng.random() < 0.7 else Usage()
    members = random_members(rng)
    same = rng.choice(("none", "none", "cell", "l3")) if any(each.dedicated for each in members) else "none"
    answer = plan(topology, usage, capsule(*members, same=same))
    in_order = sorted(members, key=lambda each: not each.dedicated)
    possible = fits_somehow(topology, usage, in_order, same)
    assert isinstance(answer, Plan) == possible, answer
    if isinstance(answer, Refusal):
        assert answer.code is not RefusalCode.UNPROVEN
        if answer.nearest is not None:
            assert isinstance(plan(topology, usage, answer.nearest), Plan)
        return
    check(topology, usage, members, same, answer)
    if same == "none" and any(each.dedicated for each in members):
        for cells in nearer_cells(topology, usage, answer):
            assert not fits_somehow(topology, usage, in_order, same, within=cells), (cells, answer)


def test_cells_of_a_large_host_are_compared_in_few_sets():
    """32 cells have 225,792,840 sets of 12. Cell 0 is the fullest, and its neighbours are full."""
    topology = cells_in_a_row(32, 8, 100_000)
    usage = used(topology, "0-1", "8-47")
    answer = plan(topology, usage, capsule(*[dedicated(6) for _ in range(12)]))
    assert isinstance(answer, Plan)
    nodes = list(answer.cells)
    assert nodes == list(range(nodes[0], nodes[0] + 12)) and nodes[0] > 5


@proof(200)
@given(rng=st.randoms(use_true_random=False))
def test_exact_with_devices(rng):
    topology = like_cells(rng, cells=3, most_cpus=4)
    if view_of(topology).lends:
        return
    nodes = [each.id for each in topology.cells]
    cards = tuple(
        replace(card, cell=rng.choice([*nodes, None]), path=("root", "port", rng.choice("ab"), "down")) for card in GPUS
    )
    topology = replace(topology, devices=cards[: rng.randint(1, len(cards))])
    usage = random_usage(rng, topology) if rng.random() < 0.5 else Usage()
    members = random_members(rng, cards=True)
    asking = any(each.devices for each in members)
    same = rng.choice(("none", "switch") if asking else ("none",))
    answer = plan(topology, usage, capsule(*members, same=same))
    in_order = sorted(members, key=lambda each: not each.dedicated)
    assert isinstance(answer, Plan) == fits_somehow(topology, usage, in_order, same), answer
    if isinstance(answer, Plan):
        assert usage.fits(topology, answer) is None
        by_address = topology.device_view.by_address
        assert same == "none" or len({by_address[each.address].switch for each in answer.devices}) == 1


@proof(200)
@given(rng=st.randoms(use_true_random=False))
def test_members_over_several_cells_are_sound(rng):
    """The search is not complete here. What it finds holds, and a member alone that fits is found."""
    topology, usage, one = random_case(rng, cells=4, most_cpus=5)
    members = [one, *random_members(rng)]
    answer = plan(topology, usage, capsule(*members))
    if isinstance(answer, Plan):
        assert usage.fits(topology, answer) is None
        assert [part.cpu_policy for part in answer.parts] == [member.cpu_policy for member in members]
    assert isinstance(plan(topology, usage, capsule(one)), Plan) == isinstance(plan(topology, usage, one), Plan)


def check(topology, usage, members, same, joined):
    assert usage.fits(topology, joined) is None
    beside = usage.with_claim("capsule", joined)
    apart = usage
    for number, (member, part) in enumerate(zip(members, joined.parts, strict=True)):
        assert len(part.dedicated_cpus) == member.own_cpus and part.cpu_policy == member.cpu_policy
        assert part.memory_mib >= member.memory_mib
        apart = apart.with_claim(f"{number}", part)
    assert apart.totals == beside.totals
    assert beside.without("capsule").with_claim("capsule", joined).totals == beside.totals
    assert Plan.from_dict(joined.to_dict()) == joined
    own = joined.dedicated_cpus.mask
    view = view_of(topology)
    if same == "cell":
        assert sum(bool(own & each.online) for each in view.cells) == 1
    if same == "l3":
        assert sum(bool(own & mask) for each in view.cells for mask in each.cache_masks) == 1
