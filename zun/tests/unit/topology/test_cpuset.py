# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import operator
import pickle
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zun.topology import CpuSet

# How long one example takes says nothing about these, and much about the machine.
SETTINGS = settings(derandomize=True)
IDS = st.sets(st.integers(0, 300))


@pytest.mark.parametrize(("text", "cpus"), [
    pytest.param("", [], id="empty"),
    pytest.param("\n", [], id="empty-file"),
    pytest.param("0", [0], id="one"),
    pytest.param("0-3,8,10-11", [0, 1, 2, 3, 8, 10, 11], id="kernel-list"),
    pytest.param("3-3", [3], id="range-of-one"),
    pytest.param("8,0-1,1", [0, 1, 8], id="any-order-and-twice"),
    pytest.param(" 0 - 2 , 4\n", [0, 1, 2, 4], id="spaces"),
    pytest.param("32-34\0", [32, 33, 34], id="nul-at-the-end"),
    pytest.param("0-15,^3,^8-9", [0, 1, 2, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15], id="exclusions"),
    pytest.param("^3,0-4", [0, 1, 2, 4], id="exclusion-first"),
    pytest.param("^3", [], id="nothing-to-exclude-from"),
    pytest.param("0-7:2/4", [0, 1, 4, 5], id="stride"),
])
def test_reads_lists(text, cpus):
    assert list(CpuSet(text)) == cpus


@pytest.mark.parametrize("text", [
    "a", "1-", "-1", "3-1", "1,,2", "1 2", "0x3", "1.5", "^", "0-3:2", "0-3:3/2", "0-99999999999", "٣",
])
def test_refuses_other_text(text):
    with pytest.raises(ValueError, match=r"CPU|stride|range"):
        CpuSet(text)


@pytest.mark.parametrize(("text", "words"), [
    ("0-3,", "'0-3,' ends with a comma"),
    ("0-3,\n", "ends with a comma"),
    (",0-3", "begins with a comma"),
    (",", "ends with a comma"),
    ("0,,3", "two commas in a row"),
    ("0-14:2", "write it like 0-14:1/2"),
    ("8,0-7:4", "write it like 0-7:1/4"),
    ("0-14:0", "needs 0 < used <= group"),
    ("0-8192", "CPU id 8192 is not between 0 and 8191"),
    ("9" * 5000, "is not between 0 and 8191"),
    ("0-3:1/" + "9" * 5000, "is not between 0 and 8191"),
    ("0," * 40_000 + "0", "has 80001 characters"),
], ids=lambda text: text[:20])
def test_an_error_says_how_to_write_it(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as told:
        CpuSet(text)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize("text", ["0-8191", "0-8191:1/2", "8191", "0-8191:3/8191", "0-0:1/8191", "5-17:3/4"])
def test_lists_up_to_the_largest_id(text):
    first, last, used, group = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+)/(\d+))?", text).groups()
    cpus = range(int(first), int(last or first) + 1)
    assert list(CpuSet(text)) == [cpu for cpu in cpus if (cpu - cpus[0]) % int(group or 1) < int(used or 1)]


@pytest.mark.parametrize("cpus", [["0"], [1.0], [True], [None]])
def test_refuses_what_is_no_cpu(cpus):
    with pytest.raises(TypeError):
        CpuSet(cpus)


@pytest.mark.parametrize("cpu", [-1, 1 << 40])
def test_refuses_ids_no_kernel_has(cpu):
    with pytest.raises(ValueError, match="between 0 and"):
        CpuSet([cpu])


@SETTINGS
@given(IDS)
def test_prints_what_it_reads(cpus):
    text = str(CpuSet(cpus))
    assert CpuSet(text) == CpuSet(cpus)
    numbers = [part.split("-") for part in text.split(",") if part]
    ends = [(int(part[0]), int(part[-1])) for part in numbers]
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ends)), "ranges that touch are one range"
    assert all(len(part) == 1 or int(part[0]) < int(part[1]) for part in numbers)


@SETTINGS
@given(IDS, IDS)
def test_is_a_set(a, b):
    x, y = CpuSet(a), CpuSet(b)
    assert (set(x | y), set(x & y), set(x - y), set(x ^ y)) == (a | b, a & b, a - b, a ^ b)
    assert (x <= y, x < y, x >= y, x > y, x == y) == (a <= b, a < b, a >= b, a > b, a == b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert (len(x), bool(x), list(x)) == (len(a), bool(a), sorted(a))
    assert all((cpu in x) == (cpu in a) for cpu in range(-1, 302))


@SETTINGS
@given(IDS)
def test_is_a_value(cpus):
    x = CpuSet(cpus)
    assert hash(x) == hash(CpuSet(sorted(cpus)))
    assert pickle.loads(pickle.dumps(x)) == copy.deepcopy(x) == copy.copy(x) == CpuSet.from_mask(x.mask) == x
    assert CpuSet(x) == x
    assert x != frozenset(cpus)
    with pytest.raises(AttributeError):
        x.mask = 0
    with pytest.raises(AttributeError):
        del x.mask


def test_contains_only_ids():
    assert "0" not in CpuSet("0")
    assert None not in CpuSet("0")


def test_other_types_do_not_mix():
    with pytest.raises(TypeError):
        operator.or_(CpuSet("0"), {1})
    with pytest.raises(TypeError):
        operator.le(CpuSet("0"), {1})


def test_masks_are_not_negative():
    with pytest.raises(ValueError, match="negative"):
        CpuSet.from_mask(-1)
