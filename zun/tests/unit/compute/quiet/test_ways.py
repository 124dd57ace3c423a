# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.compute.quiet import ways
from zun.compute.quiet.rules import Claimed
from zun.compute.quiet.ways import EVERYBODY, Values, Wanted, apart, moved, within
from zun.objects.wishes import Wishes
from zun.topology import CpuSet
from zun.topology.resctrl_files import DividedCaches

CACHES = DividedCaches(
    cpus={0: CpuSet("0-3"), 1: CpuSet("4-7")}, way_kib=1024, ways=20, kept=3, kept_low=False, least_ways=2, groups=15,
    bandwidth=80, bandwidth_step=10, least_bandwidth=10,
)  # fmt: skip
ALL = Values({0: range(20), 1: range(20)}, {0: 100, 1: 100})


def spans(**texts):
    """Return name -> ways, of texts like ``2-5``."""
    ends = {name: [int(end) for end in text.split("-")] for name, text in texts.items()}
    return {name: range(first, last + 1) for name, (first, last) in ends.items()}


@pytest.mark.parametrize(
    ("counts", "now", "expected"),
    [
        pytest.param({"a": 4}, {}, spans(a="0-3"), id="first"),
        pytest.param({"a": 4, "b": 2}, spans(a="0-3"), spans(b="4-5"), id="new-beside"),
        pytest.param({"a": 4, "b": 2}, spans(a="3-6"), spans(b="0-1"), id="first-hole-that-fits"),
        pytest.param({"a": 4, "b": 4}, spans(a="3-6"), spans(b="7-10"), id="first-hole-is-too-small"),
        pytest.param({"a": 2, "b": 2}, spans(a="0-3", b="4-5"), spans(a="0-1"), id="shrink-in-place"),
        pytest.param({"a": 6, "b": 2}, spans(a="0-3", b="8-9"), spans(a="0-5"), id="grow-in-place"),
        pytest.param({"a": 5, "b": 2}, spans(a="0-3", b="4-5"), spans(a="6-10"), id="grow-elsewhere"),
        pytest.param({"a": 4, "b": 2}, spans(a="0-3", b="8-9"), {}, id="right-ones-stay"),
        pytest.param({"a": 2, "b": 2, "c": 6}, spans(a="2-3", b="6-7"), spans(a="0-1", b="2-3", c="4-9"), id="packed"),
        pytest.param({"a": 8, "b": 4}, spans(a="0-3", b="4-7"), spans(b="8-11", a="0-7"), id="packed-to-grow"),
        pytest.param({"a": 8, "b": 6}, spans(a="0-3"), spans(a="0-7"), id="too-many-last-gets-none"),
        pytest.param({"a": 10, "b": 4}, spans(a="0-3", b="4-7"), {}, id="too-many-others-keep-theirs"),
    ],
)
def test_moved(counts, now, expected):
    assert dict(moved(counts, now, 12)) == expected


NAMES = st.sampled_from("abcdef")


@st.composite
def layouts(draw, room):
    """Return name -> ways that do not overlap."""
    found, start = {}, 0
    for name in draw(st.permutations("abcdef")):
        start += draw(st.integers(0, 3))
        end = start + draw(st.integers(1, 5))
        if end > room:
            break
        if draw(st.booleans()):
            found[name] = range(start, end)
        start = end
    return found


@given(layouts(17), st.dictionaries(NAMES, st.integers(1, 8)))
def test_moves_never_overlap_and_end_with_the_counts(before, counts):
    now = {name: each for name, each in before.items() if name in counts}
    placed = dict(now)
    for name, new in moved(counts, now, 17):
        assert within(new, range(17))
        assert all(apart(new, each) for other, each in placed.items() if other != name), (name, new, placed)
        placed[name] = new
    if sum(counts.values()) <= 17:
        assert {name: len(each) for name, each in placed.items()} == counts
    for name, each in now.items():
        assert len(placed[name]) >= min(len(each), counts[name])


@st.composite
def parts(draw):
    """Return claims that fit together: at most 17 ways and 80 percent of each cache."""
    room, percent, found = {0: 17, 1: 17}, {0: 80, 1: 80}, {}
    for name in draw(st.sets(NAMES)):
        asked, share = draw(st.integers(0, 9)), draw(st.sampled_from([0, 10, 30]))
        on = draw(st.sampled_from([(0,), (1,), (0, 1)]))
        if (asked or share) and all(room[each] >= asked and percent[each] >= share for each in on):
            for each in on:
                room[each] -= asked
                percent[each] -= share
            found[name] = Wanted(
                CpuSet(), {each: asked for each in on if asked}, {each: share for each in on if share}
            )  # fmt: skip
    return found


RANGES = st.builds(lambda first, count: range(first, min(first + count, 20)), st.integers(0, 19), st.integers(0, 20))
ANY = st.builds(
    Values, st.fixed_dictionaries({0: RANGES, 1: RANGES}),
    st.fixed_dictionaries({each: st.integers(1, 10).map(lambda ten: ten * 10) for each in (0, 1)}),
)  # fmt: skip


def shared(present, names):
    """Return pairs of groups of which one is of ``names``, on caches where both have a way."""
    return [
        (name, other, cache)
        for name, own in names.items() for other, values in present.items() if other != name
        for cache in own.ways if not apart(present[name].of(cache), values.of(cache))
    ]  # fmt: skip


def settled(present, wanted):
    """Write what is due, with the groups of ``present`` beside new ones. Return the last values."""
    groups = {EVERYBODY: present.get(EVERYBODY, ALL), **{name: present.get(name, ALL) for name in wanted}}
    for name, values in ways.writes(CACHES, wanted, groups):
        groups[name] = groups[name].changed_by(values)
    return groups


def check(groups, wanted):
    assert shared(groups, wanted) == []
    for name, part in wanted.items():
        assert {cache: len(groups[name].of(cache)) for cache in part.ways} == part.ways
        assert part.bandwidth.items() <= groups[name].bandwidth.items()
    for cache in CACHES.cpus:
        end = max((groups[name].of(cache).stop for name, part in wanted.items() if cache in part.ways), default=0)
        assert groups[EVERYBODY].of(cache) == range(end, 20)
        claimed = sum(part.bandwidth.get(cache, 0) for part in wanted.values())
        assert groups[EVERYBODY].bandwidth[cache] == 100 - claimed
        for name, part in wanted.items():
            if cache not in part.ways:
                assert groups[name].of(cache) == groups[EVERYBODY].of(cache)


@given(parts(), parts())
def test_no_way_is_shared_at_any_time(first, second):
    """From one settled state to the next; new groups have no CPUs before the last write."""
    groups = settled({}, first)
    check(groups, first)
    groups = {name: values for name, values in groups.items() if name == EVERYBODY or name in second}
    new = {name: ALL for name in second if name not in groups}
    staying = {name: part for name, part in first.items() if name in second}
    for name, values in ways.writes(CACHES, second, {**groups, **new}):
        if name in groups:
            groups[name] = groups[name].changed_by(values)
        else:
            new[name] = new[name].changed_by(values)
        for cache in CACHES.cpus:
            own = {
                each for each, part in second.items()
                if each in groups and cache in part.ways and cache in staying[each].ways
            }  # fmt: skip
            beside = {each: values.of(cache) for each, values in groups.items()}
            for each in own:
                assert all(apart(beside[each], other) for who, other in beside.items() if who != each)
            assert within(range(17, 20), beside[EVERYBODY])
    check({**groups, **new}, second)


@given(parts(), st.data())
def test_any_state_of_the_groups_is_put_right(wanted, data):
    check(settled({name: data.draw(ANY) for name in (EVERYBODY, *wanted)}, wanted), wanted)


@given(parts())
def test_what_is_right_is_not_written_again(wanted):
    assert list(ways.writes(CACHES, wanted, settled({}, wanted))) == []


def claim(cpus, kept="", uuid="one", **more):
    return Claimed(CpuSet(cpus), Wishes(), (), uuid, CpuSet(kept), **more)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([claim("0-1")], {}, id="without-a-part"),
        pytest.param([claim("0-1", "4", cache_ways=3)], {"one": Wanted(CpuSet("0-1,4"), {0: 3}, {})}, id="kept-cpus"),
        pytest.param([claim("3-4", cache_ways=3, memory_bandwidth=10)],
                     {"one": Wanted(CpuSet("3-4"), {0: 3, 1: 3}, {0: 10, 1: 10})}, id="two-caches"),
        pytest.param([claim("0", cache_ways=3), claim("4", cache_ways=5)],
                     {"one": Wanted(CpuSet("0,4"), {0: 3, 1: 5}, {})}, id="resize-to-another-cache"),
        pytest.param([claim("0", cache_ways=3), claim("1", cache_ways=5, memory_bandwidth=20)],
                     {"one": Wanted(CpuSet("0-1"), {0: 5}, {0: 20})}, id="resize-has-the-larger-claim"),
        pytest.param([claim("0", cache_ways=3), claim("1")], {"one": Wanted(CpuSet("0-1"), {0: 3}, {})},
                     id="resize-by-cpus-alone"),
    ],
)  # fmt: skip
def test_wanted(claims, expected):
    assert ways.wanted(claims, CACHES) == expected


@pytest.mark.parametrize(("asked", "own", "rest"), [(10, 10, 90), (5, 10, 90), (25, 30, 70), (95, 100, 10)])
def test_percentages_are_those_of_the_processor(asked, own, rest):
    part = {"one": Wanted(CpuSet("0"), {}, {0: asked})}
    assert ways.bandwidth(CACHES, part, "one") == {0: own, 1: 100}
    assert ways.bandwidth(CACHES, part, EVERYBODY) == {0: rest, 1: 100}
