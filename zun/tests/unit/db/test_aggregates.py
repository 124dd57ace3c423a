# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions, zones
from zun.db import aggregates
from zun.tests.unit.db.rows import node, together

pytestmark = pytest.mark.usefixtures("database")


def named(name="ssd", hosts=(), **metadata):
    """An aggregate in the database; gives its row."""
    aggregates.insert(name, metadata)
    for host in hosts:
        node(host)
        aggregates.add_host(name, host)
    return aggregates.find(name)


def test_a_new_aggregate_is_found_by_uuid_and_name():
    row = aggregates.insert("ssd", {"availability_zone": "south", "disk": "ssd"})
    assert (row["name"], row["hosts"], row["metadata"]) == ("ssd", [], {"availability_zone": "south", "disk": "ssd"})
    assert row["created_at"] is not None and row["updated_at"] is None
    assert aggregates.find(row["uuid"]) == aggregates.find("ssd") == row
    assert aggregates.all_aggregates() == [row]


@pytest.mark.parametrize("ident", ["hdd", "SSD", "0cb83c4c-2a47-4b5f-8ba9-60ea1f8d0b01"])
@pytest.mark.parametrize(
    "work",
    [
        aggregates.find,
        aggregates.destroy,
        lambda ident: aggregates.update(ident, name="x", metadata={}),
        lambda ident: aggregates.add_host(ident, "h1"),
        lambda ident: aggregates.remove_host(ident, "h1"),
    ],
    ids=["find", "destroy", "update", "add_host", "remove_host"],
)
def test_an_unknown_one_is_named(work, ident):
    named("ssd")
    with pytest.raises(exceptions.AggregateNotFound, match=ident):
        work(ident)


def test_names_are_unique():
    row = named("ssd")
    named("hdd")
    with pytest.raises(exceptions.Conflict, match="name ssd exists"):
        aggregates.insert("ssd", {})
    with pytest.raises(exceptions.Conflict, match="name ssd exists"):
        aggregates.update("hdd", name="ssd", metadata={})
    assert aggregates.update("ssd", name="ssd", metadata={})["name"] == "ssd"
    assert aggregates.update(row["uuid"], name="nvme", metadata={})["name"] == "nvme"
    assert sorted(each["name"] for each in aggregates.all_aggregates()) == ["hdd", "nvme"]


def test_metadata_is_merged_and_null_removes():
    named("ssd", availability_zone="south", disk="ssd", owner="a")
    row = aggregates.update("ssd", metadata={"disk": "nvme", "owner": None, "nothing": None, "rack": "3"})
    assert row["metadata"] == {"availability_zone": "south", "disk": "nvme", "rack": "3"}
    assert row["updated_at"] is not None and aggregates.find("ssd") == row


def test_hosts_come_and_go():
    node("h2"), node("h1")
    named("ssd")
    assert aggregates.add_host("ssd", "h2")["hosts"] == ["h2"]
    assert aggregates.add_host("ssd", "h1")["hosts"] == ["h1", "h2"]
    with pytest.raises(exceptions.Conflict, match="in aggregate ssd already"):
        aggregates.add_host("ssd", "h1")
    with pytest.raises(exceptions.ComputeNodeNotFound, match="h3"):
        aggregates.add_host("ssd", "h3")
    with pytest.raises(exceptions.AggregateHostNotFound, match="no host h3"):
        aggregates.remove_host("ssd", "h3")
    assert aggregates.remove_host("ssd", "h2")["hosts"] == ["h1"]


def test_only_an_empty_one_is_deleted():
    named("ssd", hosts=["h1"])
    with pytest.raises(exceptions.Conflict, match="has 1 host"):
        aggregates.destroy("ssd")
    aggregates.remove_host("ssd", "h1")
    aggregates.destroy("ssd")
    assert aggregates.all_aggregates() == []


@pytest.mark.parametrize(
    ("zone", "allowed"),
    [(None, True), ("south", True), ("north", False)],
    ids=["no-zone", "the-same-zone", "another-zone"],
)
def test_a_host_is_in_one_zone(zone, allowed):
    named("first", hosts=["h1"], availability_zone="south")
    named("second", **({"availability_zone": zone} if zone else {}))
    if allowed:
        assert aggregates.add_host("second", "h1")["hosts"] == ["h1"]
        assert zones.zone_of("h1", None, aggregates.all_aggregates()) == "south"
    else:
        with pytest.raises(exceptions.Conflict, match="zone south by another aggregate"):
            aggregates.add_host("second", "h1")
        assert aggregates.find("second")["hosts"] == []


def test_metadata_brings_no_host_into_a_second_zone():
    named("first", hosts=["h1"], availability_zone="south")
    named("second", hosts=["h2"])
    aggregates.add_host("second", "h1")
    with pytest.raises(exceptions.Conflict, match="h1 is in availability zone south"):
        aggregates.update("second", metadata={"availability_zone": "north"})
    assert aggregates.find("second")["metadata"] == {}
    # Where it is the only one to name a zone, a zone may change and go.
    assert aggregates.update("first", metadata={"availability_zone": "north"})["metadata"] == {
        "availability_zone": "north"
    }
    aggregates.update("first", metadata={"availability_zone": None})
    aggregates.update("second", metadata={"availability_zone": "south"})


def test_host_is_in_one_disk_pool():
    named("first", hosts=["h1"], disk_pool_gb="100")
    named("second", hosts=["h2"], disk_pool_gb="50")
    named("third", hosts=["h3"])
    with pytest.raises(exceptions.Conflict, match="h1 is in disk pool first already"):
        aggregates.add_host("second", "h1")
    aggregates.add_host("third", "h1")
    with pytest.raises(exceptions.Conflict, match="h1 is in disk pool first already"):
        aggregates.update("third", metadata={"disk_pool_gb": "1"})
    aggregates.update("first", metadata={"disk_pool_gb": None})
    assert aggregates.update("third", metadata={"disk_pool_gb": "1"})["hosts"] == ["h1", "h3"]


def test_of_zones_that_take_a_host_at_once_one_wins():
    for number in range(6):
        named(f"zone-{number}", availability_zone=f"z{number}")
    for name in ("h1", "h2", "h3"):
        node(name)
        answers = together(6, lambda number: aggregates.add_host(f"zone-{number}", name))  # noqa: B023
        refused = [answer for answer in answers if isinstance(answer, exceptions.Conflict)]
        assert len(refused) == 5, answers
        assert sum(name in row["hosts"] for row in aggregates.all_aggregates()) == 1


def test_hosts_that_come_at_once_are_all_there():
    named("ssd")
    for number in range(8):
        node(f"h{number}")
    together(8, lambda number: aggregates.add_host("ssd", f"h{number}"))
    assert aggregates.find("ssd")["hosts"] == [f"h{number}" for number in range(8)]


def test_pages():
    rows = [named(name) for name in ("b", "c", "a")]
    assert [row["name"] for row in aggregates.page(limit=2)] == ["b", "c"]
    assert [row["name"] for row in aggregates.page(limit=2, marker=rows[1]["uuid"])] == ["a"]
    assert [row["name"] for row in aggregates.page(limit=9, sort_key="name", sort_dir="desc")] == ["c", "b", "a"]
    with pytest.raises(exceptions.AggregateNotFound):
        aggregates.page(limit=1, marker="b")
