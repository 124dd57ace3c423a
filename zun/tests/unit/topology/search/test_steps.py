# SPDX-License-Identifier: Apache-2.0
"""The limit on the work of one plan: what it bounds, and what a plan or a refusal is worth when it ends a search."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from zun.tests.unit.topology.hosts import device_case, proof_size
from zun.topology import (
    CellShare,
    CpuSet,
    HostTopology,
    NUMACell,
    PlacementRequest,
    Plan,
    Refusal,
    RefusalCode,
    Usage,
    allocator,
    plan,
)
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device
from zun.topology.search import nearest
from zun.topology.search.steps import FURTHER_STEPS, STEPS, Steps


def test_steps_end_at_the_limit():
    steps = Steps(5)
    assert steps.spend(5) and steps.over and not steps.cut
    assert not steps.spend(1) and steps.cut


def test_kept_steps_are_for_later_searches():
    steps = Steps(100)
    with steps.keeping(0.75):
        assert steps.spend(25) and not steps.spend(1)
        with steps.keeping(0):
            assert steps.over
    assert not steps.over and steps.spend(74) and not steps.spend(1)


def large_host(seed: int, cells: int, cpus: int, devices: int, switches: int) -> tuple[HostTopology, Usage]:
    """Return a host whose devices of two kinds are spread over cells and switches, a third of its L3 caches claimed."""
    rng = random.Random(seed)
    half = cpus // 2
    distances = [{other: 10 if other == node else 20 for other in range(cells)} for node in range(cells)]
    built, shares = [], {}
    for node in range(cells):
        first = node * cpus
        caches = [CpuSet(range(first, first + half)), CpuSet(range(first + half, first + cpus))]
        cores = tuple(CpuSet((cpu, cpu + 1)) for cpu in range(first, first + cpus, 2))
        built.append(NUMACell(
            node, CpuSet(range(first, first + cpus)), siblings=cores, l3=tuple(caches), memory_mib=65536,
            distances=distances[node],
        ))
        shares[node] = CellShare(CpuSet(cpu for cache in caches if rng.random() < 0.33 for cpu in cache))
    found = []
    for number in range(devices):
        found.append(Device(
            f"0000:{number:02x}:00.0", vendor_id=("10de", "15b3")[number % 2], cell=rng.randrange(cells),
            path=("pci0000:00", "port", f"switch-{rng.randrange(switches)}", f"down-{number}"),
        ))
    return HostTopology(tuple(built), devices=tuple(found)), Usage().with_claim("others", Plan(shares))


def two_kinds(counts: tuple[int, int], policies: tuple[str, str], **fields) -> PlacementRequest:
    requests = tuple(
        DeviceRequest(name, count, (DeviceMatch(vendor),), numa_policy=policy)
        for name, count, vendor, policy in zip(("aaaa", "bbbb"), counts, ("10de", "15b3"), policies, strict=True)
    )
    return PlacementRequest(memory_mib=1024, devices=requests, device_same="switch", **fields)


@pytest.mark.parametrize(("size", "request_"), [
    pytest.param(
        (16, 32, 32, 8),
        two_kinds((4, 4), ("preferred", "required"), cpus=8, thread_policy="isolate", isolation="l3",
                  numa_affinity="prefer"),
        id="one-cell-or-any",
    ),
    pytest.param(
        (64, 16, 64, 16),
        two_kinds((4, 4), ("required", "required"), cpus=24, numa_nodes=6, isolation="node"),
        id="six-cells",
    ),
    pytest.param(
        (16, 32, 32, 8),
        two_kinds((8, 8), ("socket", "required"), cpus=12, isolation="node", numa_affinity="none"),
        id="any-cells",
    ),
    pytest.param(
        (16, 32, 32, 8),
        two_kinds((8, 2), ("required", "none"), cpus=2, isolation="core", numa_affinity="none"),
        id="more-cells-than-cpus",
    ),
])
def test_groups_on_a_large_host_take_few_steps(monkeypatch, size, request_):
    """Each took seconds when groups were tried again for every set of cells. Now each answer is proven."""
    made = []
    monkeypatch.setattr(allocator, "Steps", lambda: made.append(Steps()) or made[-1])
    codes = Counter()
    for seed in range(6):
        answer = plan(*large_host(seed, *size), request_)
        codes[str(getattr(answer, "code", "plan"))] += 1
    assert "unproven" not in codes, codes
    assert min(steps.left for steps in made) > STEPS / 2, [steps.left for steps in made]


@pytest.mark.parametrize("most", [0, 10, 100, 1000])
@pytest.mark.parametrize("sames", [("none",), ("link",), ("switch", "cell")])
def test_few_steps_never_make_an_answer_wrong(monkeypatch, most, sames):
    """A plan of a search that ended early serves; a refusal has the code of the proven one, or says that it is none."""
    seen = Counter()
    for seed in range(proof_size(200)):
        case = device_case(random.Random(seed), sames=sames, cells=6, most_cpus=3)
        topology, usage, request = case
        proven = plan(*case)
        with monkeypatch.context() as patch:
            patch.setattr(allocator, "Steps", partial(Steps, most))
            answer = plan(*case)
            assert plan(*case) == answer, seed
        if isinstance(answer, Plan):
            assert isinstance(proven, Plan), seed
            assert usage.fits(topology, answer) is None, seed
            wanted = {each.name: each.count for each in request.devices if each.count}
            assert Counter(each.name for each in answer.devices) == wanted, seed
            seen["plan", answer == proven] += 1
        elif answer.code != RefusalCode.UNPROVEN:
            assert isinstance(proven, Refusal) and (answer.code, answer.message) == (proven.code, proven.message), seed
            seen["proven"] += 1
        else:
            with monkeypatch.context() as patch:
                patch.setattr(allocator, "Steps", partial(Steps, most))
                plain = plan(topology, usage, replace(request, devices=()))
            unproven = isinstance(plain, Refusal) and plain.code == RefusalCode.UNPROVEN
            assert unproven or isinstance(proven, Plan) or proven.code == "devices", seed
            assert answer.wanted == getattr(proven, "wanted", answer.wanted)
            seen["unproven"] += 1
    assert proof_size(200) < 200 or most > 10 or seen["unproven"], seen


def test_unproven_says_what_to_do():
    topology, usage = large_host(1, 16, 32, 32, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "Steps", partial(Steps, 0))
        answer = plan(topology, usage, two_kinds((2, 2), ("required", "required"), cpus=4, numa_affinity="none"))
    assert isinstance(answer, Refusal) and answer.code == "unproven"
    assert answer.message == (
        f"no place was found within {STEPS} steps of search, and it is not proven that there is none: ask for fewer "
        "devices or cells, or for weaker conditions on devices"
    )
    assert answer.nearest is not None and isinstance(plan(topology, usage, answer.nearest), Plan)


@pytest.mark.parametrize("most", [0, 2000, FURTHER_STEPS])
def test_nearest_requests_share_one_limit(monkeypatch, most):
    """Sixteen entries of one kind make thousands of choices. All plans for them together have the steps of one."""
    monkeypatch.setattr(nearest, "FURTHER_STEPS", most)
    topology, usage = large_host(2, 16, 32, 32, 8)
    kinds = tuple(
        DeviceRequest(f"n{number}", 2, (DeviceMatch(),), numa_policy="required") for number in range(16)
    )
    request = replace(two_kinds((1, 1), ("required", "required"), cpus=4, numa_affinity="none"), devices=kinds)
    refusal = plan(topology, usage, request)
    assert isinstance(refusal, Refusal)
    before = refusal.steps
    found = refusal.nearest
    assert refusal.steps - before <= most + 20_000, "one look at devices more than the limit"
    assert found is None or isinstance(plan(topology, usage, found), Plan)
    assert (found is not None) == (most > 2000)
