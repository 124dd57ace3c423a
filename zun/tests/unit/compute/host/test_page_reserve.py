# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from zun.compute.host.inventory import lacking_pages, pages_of_programs, reserved_pages
from zun.container.driver.hugepages import PageStock
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.foreign import Foreign, ForeignShare

GIB = 1 << 20  # in KiB
CELL = NUMACell(0, CpuSet("0-3"), memory_mib=20 * 1024, pages={2048: 512, GIB: 8})
HOST = HostTopology((CELL, replace(CELL, id=1, cpus=CpuSet("4-7"))))


@pytest.mark.parametrize(("texts", "pages"), [
    ([], {}),
    (["node:0,size:1GB,count:2"], {0: {GIB: 2}}),
    (["node:0,size:2048,count:64", "node:0, size:1GB, count:1", "node:1,size:2MB,count:3"],
     {0: {2048: 64, GIB: 1}, 1: {2048: 3}}),
    (["count:1,size:1GiB,node:7"], {7: {GIB: 1}}),
])  # fmt: skip
def test_lines_are_those_of_nova(texts, pages):
    assert reserved_pages(texts) == pages


@pytest.mark.parametrize(("text", "why"), [
    ("node:0,size:1GB", "must have the members node, size and count, for example node:0,size:1GB,count:2"),
    ("node:0,size:1GB,count:2,more:1", "must have the members"),
    ("node:0,node:1,size:1GB,count:2", "must have the members"),
    ("", "must have the members"),
    ("node:x,size:1GB,count:2", "node must be a whole number, got 'x'"),
    ("node:0,size:1GB,count:-2", "count must be a whole number, got '-2'"),
    ("node:0,size:big,count:2", "size must be KiB or have a unit, as 2048, 2MB or 1GB, got 'big'"),
    ("node:0,size:0,count:2", "size must be KiB"),
    ("node:0,size:99999999999999GB,count:2", "size must be KiB"),
])  # fmt: skip
def test_other_lines_are_refused(text, why):
    with pytest.raises(ValueError, match=why):
        reserved_pages([text])


def test_a_size_of_a_node_comes_once():
    with pytest.raises(ValueError, match="pages of 1048576 KiB of node 0 are there already"):
        reserved_pages(["node:0,size:1GB,count:2", "node:0,size:1048576,count:2"])


def asked(gib: int) -> PlacementRequest:
    return PlacementRequest(1, gib * 1024, page_size=GIB)


def test_pages_of_the_host_are_in_no_inventory():
    host = HOST.configured(reserved_memory_mib={0: 100}).without_pages({0: {GIB: 2}})
    assert [dict(cell.pages) for cell in host.cells] == [{2048: 512, GIB: 6}, {2048: 512, GIB: 8}]
    assert dict(host.reserved_memory_mib) == {0: 100 + 2048}
    assert host.view.small_mib == {0: HOST.view.small_mib[0] - 100, 1: HOST.view.small_mib[1]}
    assert HostTopology.from_dict(host.to_dict()) == host
    only = replace(host, cells=host.cells[:1])
    assert isinstance(plan(only, Usage(), asked(6)), Plan)
    assert isinstance(plan(only, Usage(), asked(7)), Refusal)


def test_more_pages_than_there_are_leave_a_note():
    kept = {0: {GIB: 9}, 5: {2048: 1}}
    assert list(lacking_pages(HOST, kept)) == [
        "[compute] reserved_huge_pages keeps 9 pages of 1048576 KiB of memory node 0, which has 8",
        "[compute] reserved_huge_pages keeps 1 pages of 2048 KiB of memory node 5, which has 0",
    ]
    assert dict(HOST.without_pages(kept).cells[0].pages) == {2048: 512, GIB: 0}


@pytest.mark.parametrize(("free", "held", "others", "missing"), [
    pytest.param(8, 0, 0, 0, id="nobody-has-any"),
    pytest.param(6, 0, 0, 2, id="others-have-two"),
    pytest.param(6, 2, 0, 0, id="a-container-uses-what-it-holds"),
    pytest.param(8, 2, 0, 0, id="a-container-uses-nothing-yet"),
    pytest.param(5, 2, 0, 1, id="others-beside-a-container"),
    pytest.param(6, 0, 2, 0, id="another-service-told-placement"),
])  # fmt: skip
def test_pages_that_others_use_are_told(free, held, others, missing):
    claims = [plan(HOST, Usage(), asked(held))] if held else []
    host = replace(HOST, foreign=Foreign({0: ForeignShare(pages={GIB: others})} if others else {}))
    notes = list(pages_of_programs(host, claims, {0: {GIB: PageStock(8, free), 2048: PageStock(512, 512)}}))
    assert [note.split(" on memory node")[0] for note in notes] == (
        [f"programs outside of the service use {missing} huge pages of 1048576 KiB"] if missing else []
    )
