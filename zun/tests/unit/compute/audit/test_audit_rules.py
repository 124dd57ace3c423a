# SPDX-License-Identifier: Apache-2.0
"""The findings of an audit by what it read: tables, no I/O."""

from dataclasses import replace

import pytest

from zun.compute.audit.audit_rules import (
    CODES,
    Finding,
    Layer,
    Planned,
    Verdict,
    at_placement,
    crowded,
    devices,
    examine,
    examine_pages,
    taken_pages,
    trespasses,
    unreadable,
    verdicts,
)
from zun.container.driver.audit import DeviceAccess, Intruder, ParentGroup, PinningView, ThreadGroup
from zun.container.driver.hugepages import HugePageView, PageStock
from zun.container.driver.state import RuntimeState
from zun.placement.ledger import Differences
from zun.topology import CpuSet

MIB = 1 << 20
PLAN = Planned("c-1", "web", CpuSet("2-3"), CpuSet("1"), 64)


def state(cpus="2-3", mems="1", memory=64, cpu=None):
    return RuntimeState("id", None, None, None, None, None, 42, cpus, mems, memory=memory, cpu=cpu)


def threads(*sets):
    """Groups of one thread each, from ``CPUs/nodes``."""
    made = []
    for tid, text in enumerate(sets, 42):
        cpus, mems = text.split("/")
        made.append(ThreadGroup(CpuSet(cpus), CpuSet(mems), 1, tid, "sleep"))
    return tuple(made)


def view(cgroup="2-3/1", *, inside=None, parents=("0-7/0-1", "0-7/0-1"), pages=None):
    cpus, mems = cgroup.split("/")
    near, far = (list(map(CpuSet, sets.split("/"))) for sets in parents)
    above = (ParentGroup("/a/b", *near), ParentGroup("/a", *far))
    return PinningView(CpuSet(cpus), CpuSet(mems), threads(*(inside or [cgroup])), above, pages or {})


def found(given, seen, plan=PLAN):
    """(code, layer, repairable) of each finding."""
    return [(str(each.code), str(each.layer), each.repairable) for each in examine(plan, given, seen)]


CASES = {
    "as planned": (state(), view(), []),
    "no process, as planned": (state(), None, []),
    "no process, another configuration": (state("0-7"), None, [("drifted", "config", True)]),
    "no configuration": (state("", ""), view(), [("drifted", "config", True)]),
    "no process, another limit": (state(memory=32), None, [("drifted", "limit", True)]),
    "another limit": (state(memory=128), view(), [("drifted", "limit", True)]),
    "no limit": (state(memory=None), view(), [("drifted", "limit", True)]),
    "only the nodes of the configuration": (state(mems="0-1"), None, [("drifted", "config", True)]),
    "out-of-band update: the group follows": (state("0-7"), view("0-7/1"), [("drifted", "config", True)]),
    "file written by hand": (state(), view("0-7/1"), [("drifted", "cgroup", True)]),
    "file written by hand, narrower": (state(), view("2/1"), [("drifted", "cgroup", True)]),
    "memory file written by hand": (state(), view("2-3/0-1"), [("drifted", "cgroup", True)]),
    "both, each its own way": (
        state("4-5"),
        view("6-7/1"),
        [("drifted", "config", True), ("drifted", "cgroup", True)],
    ),
    "a thread that chose": (state(), view(inside=["2-3/1", "3/1"]), [("self-pinned", "thread", False)]),
    "a mask of the engine": (
        state(),
        replace(view(inside=["2/1", "3/1"]), engine=CpuSet("0-2")),
        [("drifted", "thread", False), ("self-pinned", "thread", False)],
    ),
    "an engine on other CPUs": (
        state(),
        replace(view(inside=["2-3/1", "3/1"]), engine=CpuSet("0-1")),
        [("self-pinned", "thread", False)],
    ),
    "a thread that left the group": (state(), view(inside=["2-3/1", "0-7/1"]), [("drifted", "thread", False)]),
    "a thread on other nodes": (state(), view(inside=["2-3/0"]), [("drifted", "thread", False)]),
    "threads of a group that drifted say nothing new": (
        state(),
        view("0-7/1", inside=["0-7/1", "0-7/1"]),
        [("drifted", "cgroup", True)],
    ),
    "hole in the nearest parent": (
        state(),
        view("2/1", parents=("0-2,4-7/0-1", "0-7/0-1")),
        [("cgroup-hole", "parent", False)],
    ),
    "hole at the top is told once": (
        state(),
        view("2/1", parents=("0-2/0-1", "0-2/0-1")),
        [("cgroup-hole", "parent", False)],
    ),
    "two holes": (
        state(),
        view("/1", parents=("0-1/0-1", "0-2/0-1")),
        [("cgroup-hole", "parent", False), ("cgroup-hole", "parent", False)],
    ),
    "hole of memory": (state(), view("2-3/", parents=("0-7/0", "0-7/0-1")), [("cgroup-hole", "parent", False)]),
    "nothing can be repaired below a hole": (
        state(),
        view("4/1", parents=("0-2,4/0-1", "0-7/0-1")),
        [("cgroup-hole", "parent", False), ("drifted", "cgroup", False)],
    ),
    "the hole is closed, the group still lacks it": (state(), view("2/1"), [("drifted", "cgroup", True)]),
    "pages at home": (state(), view(pages={1: 64 * MIB}), []),
    "pages elsewhere": (state(), view(pages={0: 32 * MIB, 1: 32 * MIB}), [("remote-pages", "pages", False)]),
    "some pages elsewhere are nothing": (state(), view(pages={0: MIB // 4, 1: 64 * MIB}), []),
    "one percent is something": (state(), view(pages={0: MIB, 1: 99 * MIB}), [("remote-pages", "pages", False)]),
    "no memory at all": (state(), view(pages={0: 0, 1: 0}), []),
}


@pytest.mark.parametrize(
    ("cpu", "there", "expected"),
    [
        (None, None, []),
        (None, 1.0, []),  # of a dedicated one: what is left of a weight
        (0.3, 0.2998046875, []),  # a weight is a whole number
        (0.0, None, []),
        (0.3, None, [("drifted", "limit", True)]),
        (0.3, 1.0, [("drifted", "limit", True)]),
    ],
)
def test_the_limit_of_cpus(cpu, there, expected):
    assert found(state(cpu=there), view(), replace(PLAN, cpu=cpu)) == expected


@pytest.mark.parametrize(("cap", "found_it"), [(None, False), (0.5, True), (2.0, True), (2.5, False)])
def test_nothing_limits_the_time_of_dedicated_cpus(cap, found_it):
    """A cap equal to the number of CPUs is a limit too, because the kernel does not count time exactly."""
    given = replace(state(cpu=1.0), cap=cap)
    assert found(given, view()) == ([("drifted", "limit", True)] if found_it else [])
    assert found(given, None) == found(given, view())


@pytest.mark.parametrize(("given", "seen", "expected"), CASES.values(), ids=CASES.keys())
def test_examine(given, seen, expected):
    assert found(given, seen) == expected


PAGED = replace(PLAN, pages={1: {2048: 4}})
HELD = {2048: 8 * MIB, 1048576: 0}
PAGE_CASES = {
    "as claimed": (PAGED, HugePageView(HELD, {1: {2048: 4}}, 2048), []),
    "no claim": (PLAN, HugePageView({2048: 0}, {}, None), []),
    "no claim, and the file system of somebody": (PLAN, HugePageView({2048: 0}, {}, 2048), []),
    "no controller": (PAGED, HugePageView(None, None, 2048), []),
    "no limit": (PAGED, HugePageView({2048: None}, None, 2048), [("drifted", "limit", True)]),
    "no limit and no claim": (PLAN, HugePageView({2048: None}, None, None), [("drifted", "limit", True)]),
    "a limit too low": (PAGED, HugePageView({2048: 2 * MIB}, None, 2048), [("drifted", "limit", True)]),
    "pages of another size": (
        PAGED,
        HugePageView({**HELD, 1048576: 1 << 30}, None, 2048),
        [("drifted", "limit", True)],
    ),
    "no mount": (PAGED, HugePageView(HELD, None, None), [("drifted", "pages", False)]),
    "a mount of another size": (PAGED, HugePageView(HELD, None, 1048576), [("drifted", "pages", False)]),
    "pages of another node": (
        PAGED,
        HugePageView(HELD, {0: {2048: 1}, 1: {2048: 3}}, 2048),
        [("remote-pages", "pages", False)],
    ),
    "more pages than its own": (PAGED, HugePageView(HELD, {1: {2048: 5}}, 2048), [("remote-pages", "pages", False)]),
}


@pytest.mark.parametrize(("plan", "seen", "expected"), PAGE_CASES.values(), ids=PAGE_CASES.keys())
def test_huge_pages(plan, seen, expected):
    assert [(str(each.code), str(each.layer), each.repairable) for each in examine_pages(plan, seen)] == expected


@pytest.mark.parametrize(
    ("used", "free", "expected"),
    [
        pytest.param({}, 4, set(), id="all free"),
        pytest.param({}, 3, {"c-1"}, id="one taken"),
        pytest.param({1: {2048: 3}}, 1, set(), id="the rest is free"),
        pytest.param({1: {2048: 3}}, 0, {"c-1"}, id="the rest is taken"),
        pytest.param({1: {2048: 4}}, 0, set(), id="it has all"),
        pytest.param({0: {2048: 4}}, 0, {"c-1"}, id="on another node"),
        pytest.param(None, 0, set(), id="unknown use counts as all"),
    ],
)
def test_pages_that_others_use(used, free, expected):
    found = taken_pages([(PAGED, used)], {0: {2048: PageStock(16, 16)}, 1: {2048: PageStock(16, free)}})
    assert {each.container for each in found} == expected
    assert all((each.code, each.layer, each.repairable) == ("foreign", "pages", False) for each in found)


def test_only_waiting_containers_lack_pages():
    """One of two containers on a node has taken all pages of that node."""
    done, waiting = replace(PAGED, uuid="c-2"), replace(PAGED, uuid="c-3")
    found = taken_pages([(done, {1: {2048: 4}}), (waiting, {})], {1: {2048: PageStock(8, 2)}})
    assert [each.container for each in found] == ["c-3"]
    assert "2 free for 4" in found[0].detail and "2 pages more" in found[0].repair


def test_pages_that_the_node_has_lost():
    assert len(taken_pages([(PAGED, {})], {})) == 1


def test_wrong_configuration_with_a_right_group_is_reported():
    assert found(state("0-7"), view("2-3/1")) == [("drifted", "config", True)]


@pytest.mark.parametrize(
    ("given", "seen", "words"),
    [
        (state("0-7"), view("0-7/1"), ["configured for CPUs 0-7", "the plan is CPUs 2-3 and memory nodes 1"]),
        (state(), view("0/1"), ["control group allows CPUs 0 and memory nodes 1"]),
        (state(memory=None), view(), ["configured for no limit of memory, it holds 64 MiB"]),
        (state(memory=128), view(), ["configured for a limit of 128 MiB"]),
        (state(), view(inside=["2-3/1", "3/1"]), ["1 thread narrowed", "sleep (43) on CPUs 3"]),
        (state(), view("2/1", parents=("0-2/0-1", "0-7/0-1")), ["/a/b lacks CPUs 3"]),
        (state(), view(pages={0: 48 * MIB, 1: 16 * MIB}), ["75 % of its memory", "48 MiB on memory node 0"]),
    ],
)
def test_what_an_operator_reads(given, seen, words):
    (finding,) = examine(PLAN, given, seen)
    assert [word for word in words if word not in finding.detail] == []
    assert finding.repair


def test_a_migration_is_spelled_out():
    (finding,) = examine(PLAN, state(), view(pages={0: MIB, 3: MIB}))
    assert "migratepages PID 0,3 1" in finding.repair


def test_many_threads_are_told_as_a_few():
    seen = view("0-7/1", inside=[f"{cpu}/1" for cpu in range(8)])
    (finding,) = examine(Planned("c", "n", CpuSet("0-7"), CpuSet("1"), 64), state("0-7"), seen)
    assert finding.detail.startswith("8 threads") and finding.detail.endswith("and 5 more")


def test_the_same_thing_seen_again_is_the_same():
    once, again = (examine(PLAN, state(), view(pages={0: size, 1: 64 * MIB}))[0] for size in (MIB, 2 * MIB))
    assert once.detail != again.detail and once.identity == again.identity


@pytest.mark.parametrize(
    ("one", "other", "seen"),
    [
        (state(), state(), (view("0-6/1"), view("0-5/1"))),
        (state(), state(), (view(inside=["3/1"]), view(inside=["2/1"]))),
        (state(), state(), (view(pages={0: MIB}), view(pages={3: MIB}))),
        (state("0-7"), state("0-6"), (None, None)),
        (state(memory=None), state(memory=32), (None, None)),
        (replace(state(), cap=0.5), replace(state(), cap=1.0), (None, None)),
    ],
)
def test_what_is_wrong_in_another_way_is_another_thing(one, other, seen):
    (first,), (second,) = examine(PLAN, one, seen[0]), examine(PLAN, other, seen[1])
    assert (first.code, first.layer) == (second.code, second.layer) and first.identity != second.identity


def test_another_limit_of_cpus_is_another_thing():
    (first,), (second,) = (examine(replace(PLAN, cpu=0.3), state(cpu=cpu), None) for cpu in (None, 1.0))
    assert first.identity != second.identity


OWNERS = {"c-1": ("web", CpuSet("2-3")), "c-2": ("db", CpuSet("4-5"))}
DOCKER = Intruder("container", "0123456789ab", "stray", CpuSet("0-7"))
TASKSET = Intruder("process", "/user.slice", "dd (99)", CpuSet("3"), 2)


@pytest.mark.parametrize(
    ("intruders", "expected"),
    [
        ([], []),
        ([Intruder("container", "a", "b", CpuSet("0-1"))], []),
        ([TASKSET], [("c-1", "process")]),
        ([DOCKER], [("c-1", "container"), ("c-2", "container")]),
        ([DOCKER, TASKSET], [("c-1", "container"), ("c-1", "process"), ("c-2", "container")]),
    ],
)
def test_trespasses(intruders, expected):
    assert [(each.container, each.layer) for each in trespasses(OWNERS, intruders)] == expected


def test_the_same_trespassers_in_another_order_are_the_same():
    stray = replace(DOCKER, id="ba9876543210")
    once, again = (trespasses({"c-1": OWNERS["c-1"]}, each) for each in ([DOCKER, stray], [stray, DOCKER]))
    assert once[0].identity == again[0].identity


def test_a_trespasser_is_named():
    container, process = trespasses({"c-1": OWNERS["c-1"]}, [DOCKER, TASKSET])
    assert (container.code, container.name, container.repairable) == (Verdict.FOREIGN, "web", False)
    assert "CPUs 2-3" in container.detail and "stray (0123456789ab, CPUs 0-7)" in container.detail
    assert "CPUs 3 " in process.detail and "dd (99) of /user.slice" in process.detail and "2 alike" in process.detail


def finding(code, container="c-1"):
    return Finding(code, container, "n", Layer.CGROUP, "d", "r")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], {"ok": 2, "skipped": 1}),
        ([Verdict.SELF_PINNED], {"ok": 1, "skipped": 1, "self-pinned": 1}),
        ([Verdict.DRIFTED, Verdict.SELF_PINNED, Verdict.FOREIGN], {"ok": 1, "skipped": 1, "drifted": 1}),
    ],
)
def test_verdicts(codes, expected):
    counted = verdicts(["c-1", "c-2"], ["c-3"], [finding(code) for code in codes])
    assert counted == {"ok": 0, **expected}


def test_a_finding_about_something_unknown_counts_nobody():
    assert verdicts(["c-1"], [], [finding(Verdict.FOREIGN, "other")]) == {"ok": 1}


def test_what_cannot_be_read_is_never_good():
    seen = unreadable(PLAN, "permission denied")
    assert (seen.code, seen.layer, seen.repairable) == (Verdict.UNREADABLE, Layer.KERNEL, False)
    assert verdicts(["c-1"], [], [seen]) == {"ok": 0, "unreadable": 1}


@pytest.mark.parametrize(("access", "details"), [
    pytest.param(DeviceAccess(frozenset({"/dev/a"}), frozenset({"/dev/a"})), [], id="as-claimed"),
    pytest.param(DeviceAccess(frozenset({"/dev/a"}), frozenset({"/dev/a"}), (), (), ()), [], id="rules-as-claimed"),
    pytest.param(
        DeviceAccess(frozenset({"/dev/a"}), frozenset({"/dev/b"}), ("/dev/a",), ("/dev/a",), ("c 1:1 rw",), ("NIC",)),
        [
            "the runtime is configured for devices /dev/b, its claim needs /dev/a",
            "its file system lacks /dev/a, or has another device there",
            "its control group refuses /dev/a",
            "its network lacks the interface of NIC",
            "its control group gives it devices that it does not hold: c 1:1 rw",
        ],
        id="all-at-once",
    ),
])
def test_devices(access, details):
    found = tuple(devices(PLAN, access))
    assert [each.detail for each in found] == details
    assert {(str(each.code), str(each.layer), each.repairable) for each in found} <= {("drifted", "device", False)}
    assert len({each.identity for each in found}) == len(found)


def test_the_list_of_codes_is_closed():
    assert [str(code) for code in CODES] == [
        "self-pinned",
        "remote-pages",
        "leftover",
        "foreign",
        "cgroup-hole",
        "device-lost",
        "drifted",
        "unreadable",
    ]
    assert set(finding(Verdict.DRIFTED).to_dict()) == {
        "code", "container", "name", "layer", "detail", "repair", "repaired",
    }  # fmt: skip


def test_findings_at_placement():
    differences = Differences({"theirs": {"rp": {"PCPU": 2}, "rp2": {"PCPU": 1, "VCPU": 3}}}, {"u1": "too much"})
    foreign, refused = at_placement(differences, {"u1": "web"})
    assert (foreign.code, foreign.layer, foreign.container) == (Verdict.FOREIGN, Layer.PLACEMENT, "theirs")
    assert "3 PCPU, 3 VCPU" in foreign.detail
    assert (refused.code, refused.container, refused.name) == (Verdict.DRIFTED, "u1", "web")
    assert "too much" in refused.detail
    assert not foreign.repairable and not refused.repairable


@pytest.mark.parametrize(("plan", "given", "weight", "problems"), [
    pytest.param({"cpu": 1.0}, {"cpu": 1.0}, 39, [], id="in-proportion"),
    pytest.param({"cpu": 1.0}, {"cpu": 1.0}, None, [], id="not-known"),
    pytest.param({"cpu": 1.0}, {"cpu": 295 / 1024}, 39, [], id="by-the-newer-curve"),
    pytest.param({"cpu": 8.0}, {"cpu": 8.0}, 314, [], id="rounded"),
    pytest.param({"cpu": 300.0}, {"cpu": 256.0}, 10_000, [], id="the-highest"),
    pytest.param({"cpu": 1.0}, {"cpu": 1.0}, 100, ["the CPU weight 100, in proportion to its 1"], id="new"),
    pytest.param({"cpu": 4.0}, {"cpu": 1797 / 1024}, 68, ["the CPU weight 68, in proportion"], id="an-older-runtime"),
    pytest.param({"cpu": 4.0, "dedicated": CpuSet("2-3")}, {"cpu": 4.0}, 303, ["the CPU weight 303"], id="mixed"),
    pytest.param({"cpu": 1.0}, {"cpu": 0.5}, 20, ["a limit or weight of 0.5 CPUs"], id="configured-otherwise"),
    pytest.param({"cpu": 1.0}, {"cpu": 1.0, "cap": 1.0}, 100, [], id="a-cap-in-place-of-a-weight"),
    pytest.param({}, {"cpu": 1.0}, 100, [], id="dedicated"),
])  # fmt: skip
def test_weights_out_of_proportion(plan, given, weight, problems):
    findings = examine(replace(PLAN, **plan), replace(state(), **given), replace(view(), weight=weight))
    assert [(str(each.code), str(each.layer), each.repairable) for each in findings] == [
        ("drifted", "limit", True) for _ in problems
    ]
    for finding, problem in zip(findings, problems, strict=True):
        assert problem in finding.detail


def test_a_device_with_too_many_holders_is_a_finding():
    found = crowded(PLAN, "0000:81:00.0", 3, 2)
    assert (str(found.code), str(found.layer), found.repairable) == ("drifted", "claim", False)
    assert found.detail == "3 containers hold device 0000:81:00.0, which is for 2"
