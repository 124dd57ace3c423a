# SPDX-License-Identifier: Apache-2.0
"""The scheduler's memory of the hosts against real rows: what it is told, what it missed, what it booked itself."""

import contextlib
import functools
import itertools
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from oslo_db import exception as db_exc
from oslo_utils import timeutils

from zun.common.context import RequestContext
from zun.db import aggregates, compute_nodes, containers, groups, models, services, session
from zun.objects.placement import cpuset_record
from zun.scheduler import filters, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Aggregate, Held, HostState
from zun.scheduler.host_table import HostTable
from zun.scheduler.select import select
from zun.tests.fixtures import AtOnce
from zun.tests.fixtures import own_conf as configuration
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.db.rows import NODE, clear, container
from zun.tests.unit.scheduler import hosts
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device
from zun.topology.foreign import Foreign, ForeignShare

pytestmark = pytest.mark.usefixtures("database")
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
TOPOLOGY = machine(cells=1, cores=4, memory_mib=1024)
SMALLER, LARGER = machine(cells=1, cores=1, memory_mib=100), machine(cells=2, cores=4, memory_mib=1024)
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


class Clock:
    """Seconds, when told to pass."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def table(clock):
    return new_table(clock)


def new_table(clock, **more):
    return HostTable(booking_seconds=60, fresh_seconds=1, clock=clock, **more)


@pytest.fixture
def sliced(clock):
    """A table that compares each second, two hosts at a time."""
    return new_table(clock, compare_together=2, background=AtOnce())


def node(hostname="h1", topology=TOPOLOGY, **fields):
    return compute_nodes.put(hostname, {**NODE, "topology": topology.to_dict(), **fields})


def nodes(count):
    """Hosts h0, h1 and so on."""
    for number in range(count):
        node(f"h{number}")


def refresh_after(seconds, table, clock):
    clock.now += seconds
    table.refresh()


def own(cpus, memory=0, disk=0):
    """Something held: these CPUs of the cell, and so much of the rest."""
    return Held(Plan({0: CellShare(cpus=CpuSet(cpus), memory_mib=memory)}), float(len(CpuSet(cpus))), memory, disk)


def columns(held):
    return {"cpuset": cpuset_record(held.plan), "cpu": held.cpu, "memory": held.memory, "disk": held.disk}


def claims(hostname, held, **fields):
    """Write a container's row with a committed claim. Return its uuid and the host's new generation."""
    uuid = container(**fields)["uuid"]
    return uuid, containers.claim(uuid, hostname, columns(held))[0]


def owners(table, hostname="h1"):
    """Owner -> CPUs, as the table has them."""
    return {owner: str(held.cpus) for owner, held in table.host(hostname).usage}


@contextlib.contextmanager
def at_reads(do, of="", when="before"):
    """In the block ``do`` is called before, or after, each statement of a reader that has the text ``of``."""

    def look(_connection, _cursor, statement, *_rest):
        if of in statement:
            do()

    reader = session._current().reader
    sa.event.listen(reader, f"{when}_cursor_execute", look)
    try:
        yield
    finally:
        sa.event.remove(reader, f"{when}_cursor_execute", look)


def no_database():
    raise RuntimeError("no database")


# what is read


def test_traits_added_by_admin_count_after_the_next_catch_up(table):
    node("h1", traits=["A"])
    node("h2", traits=["A"])
    table.refresh()
    assert table.host("h1").traits is table.host("h2").traits
    compute_nodes.add_traits("h1", ["CUSTOM_A"])
    assert table.catch_up(0)
    assert table.host("h1").traits == {"A", "CUSTOM_A"}
    compute_nodes.add_traits("h1", [])
    table.catch_up(1)
    assert table.host("h1").traits == {"A"}


def test_a_host_is_as_its_rows_say(table):
    settings = {"labels": {"disk": "ssd"}, "runtimes": ["crun", "runc"], "availability_zone": "z1"}
    settings |= {"architecture": "aarch64", "os_type": "linux"}
    settings |= {"traits": ["HW_CPU_X86_AVX", "CUSTOM_A"], "added_traits": ["CUSTOM_B", 7]}
    node(**settings, disk_total=50, disk_allocation_ratio=2.0, enable_cpu_pinning=False)
    services.heartbeat("h1", "zun-compute", "z1")
    services.heartbeat("h1", "zun-scheduler", "z1")
    uuid, _ = claims("h1", own("1-2", 64, 7))
    container(host="h1")
    table.refresh()
    assert table.hosts() == [
        HostState(
            hostname="h1",
            topology=TOPOLOGY,
            usage=Usage({uuid: own("1-2", 64).plan}),
            generation=1,
            disk_total=50,
            disk_used=7,
            disk_allocation_ratio=2.0,
            enable_cpu_pinning=False,
            availability_zone="z1",
            labels={"disk": "ssd"},
            runtimes=("crun", "runc"),
            traits=frozenset({"HW_CPU_X86_AVX", "CUSTOM_A", "CUSTOM_B"}),
            service=services.get("h1", "zun-compute"),
            architecture="aarch64",
            os_type="linux",
            images={containers.get(uuid)["image"]: 1},
        )
    ]


def test_hosts_are_in_the_order_of_their_names(table):
    for name in ("c", "a", "b"):
        node(name)
    table.refresh()
    assert [host.hostname for host in table.hosts()] == ["a", "b", "c"]
    assert table.host("b").hostname == "b" and table.host("d") is None


def test_what_was_read_a_moment_ago_is_not_read_again(table, clock):
    node()
    table.refresh()
    claims("h1", own("0"))
    refresh_after(0.9, table, clock)
    assert owners(table) == {}
    refresh_after(0.1, table, clock)
    assert list(owners(table).values()) == ["0"]


def test_changes_of_services_hosts_and_inventories_are_seen(table, clock):
    node(), node("h2")
    services.heartbeat("h1", "zun-compute", "nova")
    table.refresh()
    services.update("h1", "zun-compute", {"disabled": True})
    services.heartbeat("h2", "zun-compute", "nova")
    node("h2", topology=machine(), disk_total=7)
    node("h3")
    refresh_after(1, table, clock)
    assert [host.hostname for host in table.hosts()] == ["h1", "h2", "h3"]
    assert table.host("h1").service["disabled"] is True
    assert (table.host("h2").topology, table.host("h2").disk_total) == (machine(), 7)
    assert table.host("h2").service["host"] == "h2" and table.host("h3").service is None
    services.destroy("h1", "zun-compute")
    with session.writer() as connection:
        connection.execute(sa.delete(models.compute_nodes).where(models.compute_nodes.c.hostname == "h2"))
    refresh_after(1, table, clock)
    assert [host.hostname for host in table.hosts()] == ["h1", "h3"]
    assert table.host("h1").service is None


def test_the_table_can_be_used_while_it_is_being_read(table, clock):
    """One thread reads; nobody else waits for the database."""
    node()
    services.heartbeat("h1", "zun-compute", "nova")
    table.refresh()
    claims("h1", own("0"))
    clock.now += 1
    waited = []
    with ThreadPoolExecutor(1) as other:

        def look():
            try:
                other.submit(table.hosts).result(timeout=60)
            except TimeoutError:
                waited.append("a lock was held over I/O")

        with at_reads(look):
            table.refresh()
    assert waited == []


def test_host_takes_its_availability_zone_from_its_aggregates(table, clock):
    node(), node("h2")
    ssd = aggregates.insert("fast", {"ssd": "true", "availability_zone": "z9"})
    aggregates.add_host("fast", "h1")
    table.refresh()
    assert table.host("h1").aggregates == (Aggregate(ssd["uuid"], "fast", ssd["metadata"]),)
    assert (table.host("h1").availability_zone, table.host("h2").availability_zone) == ("z9", "nova")
    aggregates.remove_host("fast", "h1")
    aggregates.add_host("fast", "h2")
    refresh_after(1, table, clock)
    assert (table.host("h1").aggregates, table.host("h1").availability_zone) == ((), "nova")
    assert table.host("h2").availability_zone == "z9"


def test_equal_hosts_share_topology_and_equal_claims_a_plan(table):
    node(), node("h2")
    first, _ = claims("h1", own("0-1", 64))
    second, _ = claims("h2", own("0-1", 64))
    table.refresh()
    one, two = table.host("h1"), table.host("h2")
    assert one.topology is two.topology
    assert one.usage.claim(first) is two.usage.claim(second)


@pytest.mark.parametrize("whole", [True, False, True])
@pytest.mark.parametrize("grade", ["thread", "core", "thread"])
def test_a_plan_keeps_its_grade_of_isolation(table, grade, whole):
    """Plans that hold the same may be of different grades, and a claim is checked by its grade."""
    node()
    held = own("0-1", 64)
    uuid, _ = claims("h1", replace(held, plan=replace(held.plan, isolation=grade, whole_cores=whole)))
    table.refresh()
    claim = table.host("h1").usage.claim(uuid)
    assert (claim.isolation, claim.whole_cores) == (grade, whole)


def test_what_a_host_tells_while_it_is_read_is_not_lost(table):
    """The rows were read before; its own word is newer."""
    node()
    table.refresh()
    first, _ = claims("h1", own("0"))
    table.changed("h1", 0, None, None)  # read it again
    told = []

    def tell():
        if not told:
            second, _ = claims("h1", own("1"))
            told.extend((first, second))
            table.changed("h1", 1, first, own("0"))
            table.changed("h1", 2, second, own("1"))

    with at_reads(tell, of="compute_nodes", when="after"):
        table.refresh()
    assert owners(table) == {told[0]: "0", told[1]: "1"}
    assert table.host("h1").generation == 2


def test_slow_refresh_makes_refreshes_less_frequent(table, clock):
    node()

    with at_reads(lambda: clock.passes(1), of="compute_nodes"):
        table.refresh()
        claims("h1", own("0"))
        refresh_after(18, table, clock)
        assert owners(table) == {}
        refresh_after(3, table, clock)
    assert list(owners(table).values()) == ["0"]


def test_one_slow_query_does_not_make_services_seem_silent(table, clock):
    node()
    services.heartbeat("h1", "zun-compute", "nova")
    with at_reads(lambda: clock.passes(20), of="compute_nodes"):
        table.refresh()
    services.heartbeat("h1", "zun-compute", "nova")
    refresh_after(31, table, clock)
    assert table.host("h1").service["report_count"] == 1


@pytest.fixture
def asked():
    """The names in the statements about compute nodes and services, statement by statement."""
    found = []

    def look(_connection, _cursor, statement, parameters, *_rest):
        if "FROM compute_nodes" in statement or "FROM services" in statement:
            found.append(parameters)

    reader = session._current().reader
    sa.event.listen(reader, "before_cursor_execute", look)
    yield found
    sa.event.remove(reader, "before_cursor_execute", look)


def test_a_large_table_is_compared_slice_by_slice(sliced, clock, asked):
    names = [f"h{number}" for number in range(8)]
    for name in names:
        node(name)
        services.heartbeat(name, "zun-compute", "nova")
    sliced.refresh()
    uuids = {name: claims(name, own("0"))[0] for name in names}
    seen = []
    for _ in range(4):
        refresh_after(0.25, sliced, clock)
        seen.append([name for name in names if owners(sliced, name) == {uuids[name]: "0"}])
    assert seen == [names[:2], names[:4], names[:6], names]
    asked.clear()
    for _ in range(100):
        refresh_after(0.25, sliced, clock)
    assert len(asked) == 2 * 4 * 25  # all hosts and services once a second, as a table that is compared whole


def test_what_a_slice_finds(sliced, clock):
    """A service that was disabled, a host that is gone, one that is new, one that came back, an aggregate."""
    for name in ("h1", "h2", "h3", "h4"):
        node(name)
        services.heartbeat(name, "zun-compute", "nova")
    sliced.refresh()
    with session.writer() as connection:
        connection.execute(sa.delete(models.compute_nodes).where(models.compute_nodes.c.hostname.in_(("h1", "h3"))))
    node("h5"), node("h3", disk_total=7)
    services.update("h4", "zun-compute", {"disabled": True})
    aggregates.insert("slow", {})
    aggregates.add_host("slow", "h2")
    for _ in range(2):
        refresh_after(0.5, sliced, clock)
        refresh_after(0.5, sliced, clock)
    assert [host.hostname for host in sliced.hosts()] == ["h2", "h3", "h4", "h5"]
    assert sliced.host("h3").disk_total == 7 and sliced.host("h4").service["disabled"] is True
    assert [each.name for each in sliced.host("h2").aggregates] == ["slow"]


def test_a_slice_that_ends_with_a_host_in_place_of_another(clock):
    """Its row has the id that the other's had: some servers give away again the largest that was freed."""
    table = new_table(clock, compare_together=1, background=AtOnce())
    for name in ("h1", "h2"):
        node(name)
    table.refresh()
    with session.writer() as connection:
        last = compute_nodes.generations()["h2"].id
        connection.execute(sa.delete(models.compute_nodes).where(models.compute_nodes.c.id == last))
    node("h3")
    with session.writer() as connection:
        connection.execute(models.compute_nodes.update().values(id=last).where(models.compute_nodes.c.hostname == "h3"))
    node("h4")
    for _ in range(8):
        refresh_after(0.25, table, clock)
    assert [host.hostname for host in table.hosts()] == ["h1", "h3", "h4"]


def test_after_a_silence_all_is_compared_before_the_decision(sliced, clock):
    nodes(6)
    sliced.refresh()
    for number in range(6):
        claims(f"h{number}", own("0"))
    refresh_after(1, sliced, clock)
    assert all(owners(sliced, f"h{number}") for number in range(6))


def test_a_silence_after_half_a_round(sliced, clock):
    """All is compared then, from the first host on, and not what the slices had still before them."""
    nodes(4)
    sliced.refresh()
    refresh_after(0.5, sliced, clock)
    for number in range(4):
        claims(f"h{number}", own("0"))
    refresh_after(3, sliced, clock)
    assert all(owners(sliced, f"h{number}") for number in range(4))


def test_slices_that_take_long_are_further_apart(clock):
    """By what a whole round of them took."""
    nodes(4)
    table = new_table(clock, compare_together=1, background=AtOnce())
    table.refresh()
    slices = []

    def slow():
        slices.append(clock.now)
        clock.now += 0.25

    with at_reads(slow, of="FROM compute_nodes"):
        for _ in range(200):
            refresh_after(0.25, table, clock)
    # A round of four takes a second, so the next takes twenty.
    assert [later - earlier for earlier, later in itertools.pairwise(slices)][-4:] == [5.0] * 4


def two_requests(table, decide, seconds):
    """Return the decisions of two requests, and whether the second waits for the first.

    The first is held in its comparison; the second has ``seconds`` to end without it.
    """
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert go_on.wait(60)

    def request():
        table.refresh()
        return decide()

    with at_reads(hold, of="FROM services"), ThreadPoolExecutor(2) as requests:
        first = requests.submit(request)
        assert begun.wait(60)
        second = requests.submit(request)
        wait([second], timeout=seconds)
        waited = not second.done()
        go_on.set()
        decided = first.result(60), second.result(60)
    return decided, waited


def test_after_a_silence_nobody_decides_before_all_is_compared(table, clock):
    """Else all but one of the first requests after a quiet night would see no service that has reported lately."""
    node()
    services.heartbeat("h1", "zun-compute", "nova")
    table.refresh()
    services.heartbeat("h1", "zun-compute", "nova")
    clock.now += 3
    counts, _ = two_requests(table, lambda: table.host("h1").service["report_count"], 0.2)
    assert counts == (1, 1)


@pytest.mark.parametrize("filled", [False, True])
def test_who_waits_for_a_comparison(table, clock, filled):
    """Whoever has nothing else to decide with: an empty table would refuse everything."""
    node()
    if filled:
        table.refresh()
        clock.now += 1.5  # it is due, and no silence
    decided, waited = two_requests(table, lambda: [host.hostname for host in table.hosts()], 60 if filled else 0.2)
    assert decided == (["h1"], ["h1"])
    assert waited is not filled


def test_no_request_waits_for_a_slice(clock):
    nodes(4)
    begun, go_on = threading.Event(), threading.Event()
    background = ThreadPoolExecutor(1)
    table = new_table(clock, compare_together=2, background=background)
    table.refresh()
    claims("h0", own("0"))

    def hold():
        begun.set()
        assert go_on.wait(60)

    with at_reads(hold, of="FROM compute_nodes"), background:
        refresh_after(0.5, table, clock)
        assert begun.wait(60)
        table.refresh()
        assert owners(table, "h0") == {}
        go_on.set()
    assert list(owners(table, "h0").values()) == ["0"]


def test_a_slice_that_fails_is_tried_again(sliced, clock, caplog):
    node(), node("h2"), node("h3")
    sliced.refresh()
    claims("h1", own("0"))
    clock.now += 0.5
    with at_reads(no_database):
        sliced.refresh()
    assert "no database" in caplog.text
    refresh_after(0.5, sliced, clock)
    assert list(owners(sliced).values()) == ["0"]


def test_what_could_not_be_read_is_read_the_next_time(table):
    node()
    table.refresh()
    claims("h1", own("0"))
    table.changed("h1", 9, A, None)  # the word before was lost
    with at_reads(no_database), pytest.raises(db_exc.DBError, match="no database"):
        table.refresh()
    table.refresh()
    assert list(owners(table).values()) == ["0"]


def test_members_of_groups_and_images_are_counted(table):
    node()
    group = groups.insert({"name": "g", "project_id": "demo", "user_id": "alice", "policy": "affinity", "rules": {}})
    uuid, generation = claims("h1", own("0"), group_uuid=group["uuid"], image="nginx")
    table.refresh()
    state = table.host("h1")
    assert (state.groups, state.images) == ({group["uuid"]: 1}, {"nginx": 1})
    book(table, A, replace(own("1"), group=group["uuid"], image="nginx"))
    seen = []
    table.choose_and_book(B, lambda hosts: seen.append(dict(hosts.group(group["uuid"]))))
    assert seen == [{"h1": 2}] and table.host("h1").images == {"nginx": 2}
    table.unbook(A)
    table.changed("h1", generation + 1, uuid, None)
    assert (table.host("h1").groups, table.host("h1").images) == ({}, {})


def test_failures_are_remembered_for_a_while(table, clock):
    node()
    table.refresh()
    table.failed("h1"), table.failed("unknown")
    clock.now += 500
    table.failed("h1")
    assert table.host("h1").failures == (1000.0, 1500.0)
    clock.now += 500
    table.failed("h1")
    assert table.host("h1").failures == (1500.0, 2000.0)
    node(disk_total=7)
    table.refresh()
    assert (table.host("h1").disk_total, table.host("h1").failures) == (7, (1500.0, 2000.0))


def test_report_during_catch_up_hides_no_other_host(table):
    """A release of one host stays unseen if the other host makes the sum of both generations right."""
    node(), node("h2")
    silent, _ = claims("h2", own("0"))
    table.refresh()
    containers.destroy(silent)
    decided_with = sum(host.generation for host in table.hosts())
    told = []

    def tell():
        if not told:
            told.append(claims("h1", own("1"))[0])
            table.changed("h1", 1, told[0], own("1"))

    with at_reads(tell, of="sum(", when="after"):
        assert table.catch_up(decided_with)
    assert (owners(table), owners(table, "h2")) == ({told[0]: "1"}, {})


def test_catch_up_reads_only_the_slice_of_the_changed_host(sliced, asked):
    for number in range(8):
        node(f"h{number}")
        claims(f"h{number}", own("1"))
    sliced.refresh()
    claims("h4", own("0"))
    asked.clear()
    assert sliced.catch_up(0)
    assert sorted(owners(sliced, "h4").values()) == ["0", "1"]
    assert len(asked) == 4, asked  # for the sums, the hosts of one, the inventory and the service of that which changed


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda uuid: compute_nodes.put("h2", {"topology": {"cells": None}}), id="topology"),
        pytest.param(lambda uuid: containers.update(uuid, {"cpuset": {"cells": [{"node": 0}]}}), id="claim"),
    ],
)
def test_a_host_whose_rows_cannot_be_read_stops_no_other(table, clock, caplog, spoil):
    node(), node("h2")
    uuid, _ = claims("h2", own("0"))
    table.refresh()
    spoil(uuid)
    with session.writer() as connection:
        connection.execute(models.compute_nodes.update().values(generation=7))
    refresh_after(1, table, clock)
    assert [(host.hostname, host.generation) for host in table.hosts()] == [("h1", 7)]
    assert "Host h2 gets no containers: its rows in the database cannot be read" in caplog.text
    node("h2"), containers.update(uuid, columns(own("1")))
    refresh_after(1, table, clock)
    assert owners(table, "h2") == {uuid: "1"}


ODD = [10**30, -1, 1e308, math.nan, None, "x", "x" * 10**6, [[[[[[1]]]]]], {"a": {"b": 1}}]
RECORD = {
    **machine(cells=1, cores=2, memory_mib=1024).to_dict(),
    "devices": [Device("/dev/a", "8086", "1572", path=("pci0000:00",), traits=("CUSTOM_A",), iommu_group=1).to_dict()],
    "foreign": Foreign({0: ForeignShare(1, 1, 1, {2048: 1})}, {}, CpuSet("1"), 1).to_dict(),
    "notes": ["a note"],
    "reserved_memory_mib": {"0": 1},
}
CLAIM = cpuset_record(
    Plan(
        {0: CellShare(CpuSet("0"), 64, CpuSet("1"), {2048: 1})},
        devices=(GivenDevice("gpu", "/dev/a", 0, physical="/dev/b", iommu_group=1),),
    )
)


def places(value, path=()):
    """Every member of a value, at whatever depth, by its path."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        yield from places(each, (*path, key))


def put(value, path, new):
    """Return ``value`` with ``new`` at ``path``."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def by_hand(column, value, **where):
    """Write ``value`` past all checks and return the value before."""
    name, table = column.name, column.table.name
    same = " AND ".join(f"{each} = :{each}" for each in where)
    with session.writer() as connection:
        before = connection.execute(sa.text(f"SELECT {name} FROM {table} WHERE {same}"), where).scalar()
        connection.execute(sa.text(f"UPDATE {table} SET {name} = :value WHERE {same}"), {"value": value, **where})
    return before


@pytest.fixture
def two_up():
    """Hosts h1 and h2 with a compute service; the uuid of a container on h2."""
    for name in ("h1", "h2"):
        node(name)
        services.heartbeat(name, "zun-compute", "nova")
    return claims("h2", own("0"))[0]


@functools.cache
def usual_choice():
    """The filters and weighers of the default configuration."""
    conf = configuration()
    own_filters = filters.load(conf.scheduler.enabled_filters, conf)
    return own_filters, weighers.load(conf.scheduler.weighers, conf)


def chosen(table):
    """The hosts of a container as a scheduler with all its filters and weighers finds them."""
    answer = select(Columns(table.hosts()), hosts.spec(1, 64), *usual_choice(), 2)
    return [choice.hostname for choice in answer] if isinstance(answer, list) else []


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize(
    ("column", "record"),
    [(models.compute_nodes.c.topology, RECORD), (models.containers.c.cpuset, CLAIM)],
    ids=["topology", "cpuset"],
)
def test_odd_member_of_a_record_stops_no_other_host(table, clock, two_up, column, record, odd):
    """Of every member that a record has: the members are not listed here."""
    where = {"uuid": two_up} if column.table is models.containers else {"hostname": "h2"}
    for path in places(record):
        by_hand(column, json.dumps(put(record, path, odd)), **where)
        compute_nodes.put("h2", {"os": str(path)})
        refresh_after(1, table, clock)
        assert "h1" in chosen(table), path
        assert table.host("h2") is not None or "h2" in table.unusable(), path


TEXTS = ["x", -1, 1e308, None, "[" * 10_000, '{"a": NaN}', "[1e400]"]
KEYS = {"id", "uuid", "hostname", "host", "binary", "capsule_uuid"}


@pytest.mark.parametrize("odd", TEXTS, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize("which", [models.compute_nodes, models.services, models.containers], ids=lambda it: it.name)
def test_odd_value_of_a_column_stops_no_other_host(table, clock, two_up, which, odd):
    """Of every column but the keys of a row."""
    where = {"host": "h2"} if which is models.services else {"hostname": "h2"}
    where = {"uuid": two_up} if which is models.containers else where
    for column in (each for each in which.c if each.name not in KEYS and (odd is not None or each.nullable)):
        before = by_hand(column, odd, **where)
        compute_nodes.put("h1", {"os": column.name})
        refresh_after(1, table, clock)
        table.catch_up(0)
        assert "h1" in chosen(table), column
        by_hand(column, before, **where)


def test_a_host_that_cannot_be_read_is_named_once(table, clock, caplog):
    """At each change of what is wrong, and not at each look."""
    node(), node("h2")
    for record in ('{"cells": null}', '{"cells": null}', '{"cells": 5}'):
        by_hand(models.compute_nodes.c.topology, record, hostname="h2")
        for _ in range(3):
            compute_nodes.put("h2", {"os": str(clock.now)})  # as the agent does again and again
            refresh_after(1, table, clock)
    assert [line.split(":")[0] for line in caplog.messages] == ["Host h2 gets no containers"] * 2
    assert list(table.unusable()) == ["h2"]


def test_a_host_that_cannot_be_read_is_not_read_again_and_again(table, clock, asked):
    node(), node("h2")
    by_hand(models.compute_nodes.c.topology, '{"cells": 5}', hostname="h2")
    table.refresh()
    generations = sum(host.generation for host in table.hosts())
    asked.clear()
    refresh_after(1, table, clock)
    assert not any("topology" in each for each in asked)
    assert not table.catch_up(generations), "the table is up to date"


def test_a_host_gets_containers_again_once_it_can_be_read(table, clock, caplog):
    caplog.set_level("INFO")
    node("h2", topology=TOPOLOGY)
    by_hand(models.compute_nodes.c.topology, '{"cells": 5}', hostname="h2")
    table.refresh()
    assert table.hosts() == []
    node("h2")
    refresh_after(1, table, clock)
    assert (len(table.hosts()), table.unusable()) == (1, {})
    assert "Host h2 gets containers again" in caplog.text
    by_hand(models.compute_nodes.c.topology, '{"cells": 5}', hostname="h2")
    compute_nodes.put("h2", {"os": "x"})
    refresh_after(1, table, clock)
    with session.writer() as connection:
        connection.execute(models.compute_nodes.delete())
    refresh_after(1, table, clock)
    table.outdated("h2")
    table.refresh()
    assert table.unusable() == {}


def test_a_host_that_fails_for_ever_keeps_few_failures(table):
    node()
    table.refresh()
    for _ in range(300):
        table.failed("h1")
    assert len(table.host("h1").failures) == 100


# what hosts tell

A, B, C = (f"00000000-0000-0000-0000-00000000000{letter}" for letter in "abc")


@pytest.mark.parametrize(
    ("told", "expected", "generation"),
    [
        pytest.param([], {A: "0"}, 1, id="nothing"),
        pytest.param([(2, B, "1")], {A: "0", B: "1"}, 2, id="a-claim"),
        pytest.param([(2, B, "1-2"), (3, C, "3")], {A: "0", B: "1-2", C: "3"}, 3, id="claims-in-order"),
        pytest.param([(2, A, None)], {}, 2, id="a-release"),
        pytest.param([(2, A, "0-1")], {A: "0-1"}, 2, id="a-resize"),
        pytest.param([(2, A, None), (3, B, "0")], {B: "0"}, 3, id="what-was-released-is-claimed"),
        pytest.param([(2, B, "1"), (2, B, "1")], {A: "0", B: "1"}, 2, id="twice"),
        pytest.param([(2, B, "1"), (3, B, None), (2, B, "1")], {A: "0"}, 3, id="an-old-one-late"),
        pytest.param([(1, A, "0")], {A: "0"}, 1, id="what-was-read-already"),
        pytest.param([(1, A, None)], {A: "0"}, 1, id="something-else-of-a-time-that-was-read"),
        pytest.param([(2, MISSING, None)], {A: "0"}, 2, id="a-release-of-what-is-not-known"),
    ],
)
def test_a_host_s_word_is_taken_in_order(table, told, expected, generation):
    node()
    claims("h1", own("0"), uuid=A)
    table.refresh()
    for number, uuid, cpus in told:
        table.changed("h1", number, uuid, own(cpus) if cpus else None)
    assert owners(table) == expected
    assert table.host("h1").generation == generation


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([(4, C, "3")], id="something-between-is-missing"),
        pytest.param([(4, C, "3"), (3, B, None)], id="the-wrong-way-round"),
        pytest.param([(4, C, "0")], id="what-was-released-between-is-claimed"),
        pytest.param([(9, A, None)], id="far-ahead"),
        pytest.param([(None, None, None)], id="the-inventory-changed"),
    ],
)
def test_after_a_gap_the_host_is_read_at_once(table, told):
    """Generations 2 to 4: A gives its CPU back, B comes and goes, C takes what A had."""
    node()
    claims("h1", own("0"), uuid=A)
    table.refresh()
    containers.destroy(A)
    claims("h1", own("0"), uuid=C)
    for number, uuid, cpus in told:
        table.changed("h1", number or 1, uuid, own(cpus) if cpus else None)
    table.hosts()
    table.refresh()  # no time has passed
    assert owners(table) == {C: "0"}
    assert table.host("h1").generation == 3


@pytest.mark.parametrize("order", [*itertools.permutations(range(4)), (3,), (0, 3, 3, 0), (2, 1), (1, 1)])
def test_words_of_what_a_host_has_and_holds_come_in_any_order(table, order):
    """Or not at all: the last word to come is of something that the table does not know, so it looks for itself."""
    node()
    table.refresh()
    words = [("h1", *reversed(claims("h1", own("0"), uuid=A)), own("0"))]
    words.append(("h1", node(topology=LARGER)["generation"], None, None))
    words.append(("h1", *reversed(claims("h1", own("1"), uuid=B)), own("1")))
    words.append(("h1", node(topology=SMALLER)["generation"], None, None))
    for number in order:
        table.changed(*words[number])
    table.refresh()  # no time has passed
    assert owners(table) == {A: "0", B: "1"}
    assert (table.host("h1").generation, table.host("h1").topology) == (4, SMALLER)


@pytest.mark.parametrize("caught_up", [True, False])
def test_new_inventory_is_seen_although_host_clock_stands_still(table, clock, monkeypatch, caught_up):
    moment = timeutils.utcnow()
    monkeypatch.setattr(timeutils, "utcnow", lambda *_: moment)
    node()
    table.refresh()
    node(topology=LARGER)
    if caught_up:
        table.catch_up()
    else:
        refresh_after(2, table, clock)
    assert table.host("h1").topology == LARGER


def test_an_unknown_host_that_speaks_is_read_at_once(table):
    table.refresh()
    node()
    uuid, generation = claims("h1", own("0"))
    table.changed("h1", generation, uuid, own("0"))
    assert table.hosts() == []
    table.refresh()
    assert owners(table) == {uuid: "0"}
    table.changed("h9", 1, uuid, own("0"))
    table.refresh()
    assert table.host("h9") is None


def test_a_word_that_was_lost_is_made_up_for(table, clock):
    node(), node("h2")
    first, _ = claims("h1", own("0"))
    table.refresh()
    containers.destroy(first)
    second, _ = claims("h1", own("1-2"))
    refresh_after(1, table, clock)
    assert owners(table) == {second: "1-2"}


@pytest.mark.parametrize("closed", ["disabled", "forced_down"])
def test_reenabled_host_is_known_before_a_request_is_refused(table, closed):
    """Its administrator asks for a container right behind."""
    for name in ("h1", "h2", "h3"):
        node(name)
        services.heartbeat(name, "zun-compute", "nova")
    for name in ("h1", "h2"):
        services.update(name, "zun-compute", {closed: True})
    table.refresh()
    services.update("h1", "zun-compute", {closed: False})
    assert table.catch_up(0) is True
    assert [table.host(name).service[closed] for name in ("h1", "h2", "h3")] == [False, True, False]
    assert table.catch_up(0) is False


def test_disk_is_counted_with_the_rest(table):
    node()
    claims("h1", own("0", disk=10), uuid=A)
    table.refresh()
    table.changed("h1", 2, B, own("1", disk=5))
    assert table.host("h1").disk_used == 15
    table.changed("h1", 3, A, None)
    assert table.host("h1").disk_used == 5


# what is booked


def book(table, uuid, held, hostname="h1"):
    table.choose_and_book(uuid, lambda hosts: (hostname, held))


@pytest.fixture
def booked(table):
    """A table of two hosts where A is booked on the first."""
    node(), node("h2")
    table.refresh()
    book(table, A, replace(own("0-1", 64, 5), group="group"))
    return table


def test_a_choice_is_held_until_the_host_speaks(booked):
    assert owners(booked) == {A: "0-1"} and booked.is_booked(A) and not booked.is_booked(B)
    assert booked.host("h1").disk_used == 5
    assert booked.host("h1").generation == 0


def test_the_next_choice_sees_the_last_one(booked):
    seen = []
    booked.choose_and_book(B, lambda hosts: seen.extend(hosts))
    assert [(host.hostname, len(host.usage)) for host in seen] == [("h1", 1), ("h2", 0)]
    assert not booked.is_booked(B)


@pytest.mark.parametrize("cpus", ["0-1", "2-3"])
def test_a_confirmed_choice_is_what_the_host_says(booked, cpus):
    booked.changed("h1", 1, A, own(cpus, 64, 5))
    assert owners(booked) == {A: cpus} and not booked.is_booked(A)
    assert booked.host("h1").disk_used == 5


def test_a_choice_that_another_host_carries_out_is_moved(booked):
    booked.changed("h2", 1, A, own("2-3"))
    assert (owners(booked), owners(booked, "h2"), booked.is_booked(A)) == ({}, {A: "2-3"}, False)


def test_a_refused_choice_is_forgotten(booked):
    booked.unbook(A)
    assert owners(booked) == {} and not booked.is_booked(A) and booked.host("h1").disk_used == 0
    booked.unbook(A)


def test_a_new_choice_for_a_container_replaces_the_old(booked):
    seen = []
    booked.choose_and_book(A, lambda hosts: seen.extend(hosts) or ("h2", own("3")))
    assert [len(host.usage) for host in seen] == [0, 0]
    assert (owners(booked), owners(booked, "h2")) == ({}, {A: "3"})


def test_a_choice_that_finds_nothing_leaves_nothing(booked):
    booked.choose_and_book(A, lambda hosts: None)
    assert owners(booked) == {} and not booked.is_booked(A)


def seen_by_a_choice(table):
    seen = []
    table.choose_and_book(B, lambda hosts: seen.extend(hosts))
    return len(seen[0].usage)


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(lambda table: len(table.hosts()[0].usage), id="hosts"),
        pytest.param(lambda table: len(table.host("h1").usage), id="host"),
        pytest.param(lambda table: table.is_booked(A), id="booked"),
        pytest.param(seen_by_a_choice, id="choice"),
    ],
)
def test_a_choice_of_which_nobody_speaks_lapses(booked, clock, held):
    clock.now += 59.9
    assert held(booked) == 1
    clock.now += 0.1
    assert held(booked) == 0


def test_who_was_quicker_takes_the_place_of_a_choice(booked):
    book(booked, B, own("2"))
    booked.changed("h1", 1, C, own("1"))
    assert owners(booked) == {C: "1", B: "2"}
    assert not booked.is_booked(A) and booked.is_booked(B)


def test_a_claim_that_leaves_room_leaves_the_choice(booked):
    booked.changed("h1", 1, C, own("2"))
    assert owners(booked) == {C: "2", A: "0-1"} and booked.is_booked(A)
    assert (booked.host("h1").disk_used, booked.host("h1").groups) == (5, {"group": 1})


def test_a_choice_outlives_a_reading_of_its_host(booked, clock):
    claims("h1", own("3"), uuid=C)
    refresh_after(1, booked, clock)
    assert owners(booked) == {C: "3", A: "0-1"} and booked.is_booked(A)


def test_booking_claimed_without_report_is_found_by_reading(booked, clock):
    claims("h1", own("2-3"), uuid=A)
    refresh_after(1, booked, clock)
    assert owners(booked) == {A: "2-3"} and not booked.is_booked(A)


def test_booking_claimed_on_another_host_is_found_by_reading(booked, clock):
    claims("h2", own("2-3"), uuid=A)
    refresh_after(1, booked, clock)
    assert (owners(booked), owners(booked, "h2"), booked.is_booked(A)) == ({}, {A: "2-3"}, False)


@pytest.mark.parametrize("cpus", ["0-1", "2-3"])
def test_booking_a_held_container_leaves_others_alone(table, cpus):
    """A message came twice: whatever becomes of this container, others are booked and told of as before."""
    node(), node("h2")
    claims("h1", own("0-1", disk=5), uuid=A)
    table.refresh()
    book(table, A, own(cpus, disk=5))
    table.changed("h1", 2, B, own("2" if cpus == "0-1" else "0"))
    table.changed("h1", 3, B, None)
    book(table, C, own("2"), "h2")
    table.unbook(A)
    assert owners(table) == {A: "0-1"}
    assert table.host("h1").disk_used == 5


# whatever happens

HOSTS = ("h1", "h2")


class World:
    """Hosts that claim and release, words that are late, lost or doubled, a scheduler that reads and books."""

    def __init__(self, draw, **more):
        clear()
        self.draw = draw
        self.clock = Clock()
        self.table = new_table(self.clock, **more)
        self.usages = {name: Usage() for name in HOSTS}
        self.there = set(HOSTS)
        self.late = []
        for name in HOSTS:
            node(name)
        self.table.refresh()

    def claim(self):
        name = self.draw(st.sampled_from(HOSTS))
        if name not in self.there:
            return
        wanted = PlacementRequest(self.draw(st.integers(1, 3)), self.draw(st.integers(0, 500)))
        answer = plan(TOPOLOGY, self.usages[name], wanted)
        if not isinstance(answer, Plan):
            return
        held = Held(answer, float(wanted.cpus), wanted.memory_mib, self.draw(st.integers(0, 3)))
        booked = sorted(uuid for uuid in (A, B, C) if self.table.is_booked(uuid))
        uuid = self.draw(st.sampled_from([*booked, None])) if booked else None
        uuid, generation = claims(name, held, **({"uuid": uuid} if uuid and not exists(uuid) else {}))
        self.usages[name] = self.usages[name].with_claim(uuid, answer)
        self.tell(name, generation, uuid, held)

    def release(self):
        held = [(name, owner) for name in sorted(self.there) for owner in self.usages[name].owners]
        if held:
            name, uuid = self.draw(st.sampled_from(held))
            self.usages[name] = self.usages[name].without(uuid)
            self.tell(name, containers.destroy(uuid), uuid, None)

    def resize(self):
        held = [(name, owner) for name in sorted(self.there) for owner in self.usages[name].owners]
        if held:
            name, uuid = self.draw(st.sampled_from(held))
            others = self.usages[name].without(uuid)
            answer = plan(TOPOLOGY, others, PlacementRequest(self.draw(st.integers(1, 3)), 10))
            if isinstance(answer, Plan):
                self.usages[name] = others.with_claim(uuid, answer)
                what = Held(answer, float(len(answer.cpus)), 10, 0)
                self.tell(name, containers.change_claim(uuid, name, columns(what)), uuid, what)

    def tell(self, *word):
        fate = self.draw(st.sampled_from(("now", "late", "lost", "twice", "again later")))
        if fate in ("now", "twice", "again later"):
            self.table.changed(*word)
        if fate == "twice":
            self.table.changed(*word)
        if fate in ("late", "again later"):
            self.late.append(word)

    def deliver(self):
        if self.late:
            self.table.changed(*self.late.pop(self.draw(st.integers(0, len(self.late) - 1))))

    def inventory(self):
        """A host is not what it was, whatever is claimed on it; or it comes back."""
        name = self.draw(st.sampled_from(HOSTS))
        topology = self.draw(st.sampled_from((TOPOLOGY, SMALLER, LARGER)))
        row = node(name, topology, disk_total=self.draw(st.integers(1, 9)))
        self.there.add(name)
        self.tell(name, row["generation"], None, None)

    def leave(self):
        """Its row is gone, by hand. Its containers stay, and its next row counts from the beginning: nothing that was
        told before may still be on its way, or it could be taken for what the next host of its name tells.
        """
        name = self.draw(st.sampled_from(HOSTS))
        with session.writer() as connection:
            connection.execute(sa.delete(models.compute_nodes).where(models.compute_nodes.c.hostname == name))
        self.there.discard(name)
        self.late = [word for word in self.late if word[0] != name]

    def refresh(self):
        for seconds in self.draw(st.sampled_from(([0], [0.5], [1], [0.5, 0.5]))):
            self.clock.now += seconds
            self.table.refresh()
        if seconds == 1:
            self.check()

    def compare(self):
        """All slices, one after the other: where hosts have left there are fewer, and the next comes later."""
        for _ in (*HOSTS, *HOSTS):
            self.clock.now += 0.5
            self.table.refresh()
        self.check()

    def check(self):
        """The table is what the database says, and beside it nothing but choices under way."""
        assert {host.hostname for host in self.table.hosts()} == self.there
        for name in self.there:
            row, found = compute_nodes.find(name), self.table.host(name)
            held = {claim["uuid"]: Held.of(claim) for claim in containers.claims([name])}
            told = {uuid: what for uuid, what in found.usage if not self.table.is_booked(uuid)}
            assert told == {uuid: what.plan for uuid, what in held.items()}
            assert (found.generation, found.disk_total) == (row["generation"], row["disk_total"])
            assert found.topology.to_dict() == row["topology"]
            if len(told) == len(found.usage):
                assert found.disk_used == sum(what.disk for what in held.values())

    def book(self):
        uuid = self.draw(st.sampled_from((A, B, C)))
        wanted = PlacementRequest(self.draw(st.integers(1, 3)), 10)

        def choose(hosts):
            answers = [(host.hostname, plan(host.topology, host.usage, wanted)) for host in hosts]
            able = [(name, answer) for name, answer in answers if isinstance(answer, Plan)]
            if exists(uuid) or not able:
                return None
            name, answer = self.draw(st.sampled_from(able))
            return name, Held(answer, float(wanted.cpus), 10, 0)

        self.table.choose_and_book(uuid, choose)

    def unbook(self):
        self.table.unbook(self.draw(st.sampled_from((A, B, C))))

    def wait(self):
        self.clock.now += 61


def exists(uuid):
    return any(row["uuid"] == uuid for row in containers.claims())


STEPS = (
    "claim", "claim", "book", "book", "refresh", "compare", "release", "resize", "deliver", "inventory", "unbook",
    "leave",
)  # fmt: skip


@pytest.mark.parametrize("together", [1, 100])
@proof(60)
@given(data=st.data())
def test_after_a_refresh_the_table_is_what_the_database_says(together, data):
    world = World(data.draw, compare_together=together, background=AtOnce())
    for _ in range(data.draw(st.integers(5, 25), label="steps")):
        getattr(world, data.draw(st.sampled_from((*STEPS, "wait")), label="step"))()
    world.clock.now += 61  # every booking lapses
    world.table.refresh()
    world.check()
    for word in world.late:  # what comes after all that is old
        world.table.changed(*word)
        world.check()


def test_a_state_is_a_value(table):
    node()
    table.refresh()
    before = table.host("h1")
    book(table, A, own("0"))
    assert len(before.usage) == 0
    assert replace(table.host("h1"), usage=Usage()) == before


def test_many_threads_book_each_cpu_once(table):
    node()
    table.refresh()

    def choose(hosts):
        answer = plan(hosts[0].topology, hosts[0].usage, PlacementRequest(1, 0))
        return ("h1", Held(answer, 1.0, 0, 0)) if isinstance(answer, Plan) else None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: table.choose_and_book(f"c{number}", choose), range(16)))
    assert table.host("h1").usage.held_cpus == CpuSet("0-3")
    assert len(table.host("h1").usage) == 4


@pytest.mark.parametrize(
    ("rows", "column", "value"),
    [
        pytest.param("aggregates", "metadata", '{"cpu_allocation_ratio": [], "availability_zone": [1]}', id="metadata"),
        pytest.param("aggregates", "hosts", '[["h1"]]', id="hosts"),
        pytest.param("aggregates", "hosts", "5", id="no-list"),
        pytest.param("compute_nodes", "labels", '{"rack": [1]}', id="labels"),
        pytest.param("compute_nodes", "runtimes", "[[1]]", id="runtimes"),
        pytest.param("compute_nodes", "runtimes", "5", id="no-runtimes"),
    ],
)
def test_what_somebody_wrote_by_hand_stops_no_look_at_the_hosts(table, clock, rows, column, value):
    node()
    aggregates.insert("by hand", {})
    aggregates.add_host("by hand", "h1")
    with session.writer() as connection:
        connection.execute(sa.text(f"UPDATE {rows} SET {column} = :value"), {"value": value})
    table.refresh()
    node("h2")
    refresh_after(1, table, clock)
    assert [(host.hostname, host.availability_zone) for host in table.hosts()] == [("h1", "nova"), ("h2", "nova")]
    assert table.host("h1").room == table.host("h2").room
