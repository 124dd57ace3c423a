# SPDX-License-Identifier: Apache-2.0
"""How many containers a host holds, and how many it makes at the same time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.db import compute_nodes, containers, images, services
from zun.scheduler.columns import Columns
from zun.scheduler.endpoint import complete
from zun.scheduler.filters.io_ops import IoOpsFilter
from zun.scheduler.filters.num_instances import NumInstancesFilter
from zun.scheduler.host_state import Aggregate
from zun.scheduler.host_table import HostTable
from zun.scheduler.select import NoValidHost, select
from zun.scheduler.service import SchedulerService
from zun.scheduler.weighers import Weighted
from zun.scheduler.weighers.io_ops import IoOpsWeigher
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import machine
from zun.tests.unit.common.proof import proof
from zun.tests.unit.db.rows import NODE
from zun.tests.unit.scheduler.hosts import configuration, full, host, ranked, spec
from zun.topology import PlacementRequest

ONE = PlacementRequest(1, 64)


def limited(**limits):
    conf = configuration()
    for name, value in limits.items():
        conf.set_override(name, value, group="scheduler")
    return NumInstancesFilter(conf), IoOpsFilter(conf)


def aggregate(**metadata):
    return Aggregate("a-1", "rack", metadata)


@pytest.mark.parametrize(
    ("limit", "held", "metadata", "fits"),
    [
        (None, 3, {}, True),
        (None, 3, {"max_containers_per_host": "1"}, True),
        (3, 3, {}, False),
        (4, 3, {}, True),
        (9, 3, {"max_containers_per_host": "3"}, False),
        (3, 3, {"max_containers_per_host": "9"}, False),
        (4, 3, {"max_containers_per_host": "many"}, True),
    ],
)
def test_a_host_holds_so_many_containers(limit, held, metadata, fits):
    found, _ = limited(max_containers_per_host=limit)
    state = full("h1", *[ONE] * held, aggregates=(aggregate(**metadata),))
    reason = found.reject(state, spec())
    assert (reason is None) == fits
    assert fits or ("max_containers_per_host" in reason and "h1" not in reason)


@pytest.mark.parametrize(
    ("limit", "making", "metadata", "fits"),
    [
        (None, 99, {"max_io_ops_per_host": "1"}, True),
        (2, 1, {}, True),
        (2, 2, {}, False),
        (8, 2, {"max_io_ops_per_host": "2"}, False),
    ],
)
def test_a_host_makes_so_many_at_once(limit, making, metadata, fits):
    _, found = limited(max_io_ops_per_host=limit)
    state = host(io_ops=making, aggregates=(aggregate(**metadata),))
    assert (found.reject(state, spec()) is None) == fits
    assert found.reads_io_ops == (limit is not None)


COUNTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["1", "3", "x", "-1"])), max_size=5)


@given(COUNTS, st.one_of(st.none(), st.integers(1, 5)), st.one_of(st.none(), st.integers(1, 9)))
@proof(40)
def test_all_hosts_at_once_pass_as_one_by_one(counts, most, making):
    filters = limited(max_containers_per_host=most, max_io_ops_per_host=making)
    keys = "max_containers_per_host", "max_io_ops_per_host"
    hosts = [
        full(f"h{number}", *[ONE] * held, io_ops=ops, aggregates=(aggregate(**dict.fromkeys(keys, named)),))
        for number, (held, ops, named) in enumerate(counts)
    ]
    table = Columns(hosts)
    for each in filters:
        assert each.admit(table, spec()).tolist() == [each.reject(state, spec()) is None for state in table]


def test_a_busy_host_is_named_with_its_limit():
    found = limited(max_io_ops_per_host=1)[1]
    refused = select([host(io_ops=1)], spec(), complete([found]), [], 1)
    assert isinstance(refused, NoValidHost) and "IoOpsFilter rejected 1" in refused.explanation.message
    assert refused.explanation.record["codes"] == {"other": 1}


def test_the_weigher_prefers_an_idle_host():
    hosts = [host("a", io_ops=2), host("b"), host("c", io_ops=1)]
    weights = [Weighted(IoOpsWeigher(configuration()), 1.0)]
    assert [each.hostname for each in ranked(hosts, spec(), weights)] == ["b", "c", "a"]
    assert [IoOpsWeigher(configuration()).weigh(each, spec()) for each in hosts] == [-2, 0, -1]


@pytest.mark.usefixtures("database")
def test_the_table_counts_what_hosts_make(context):
    for name in ("h1", "h2"):
        compute_nodes.put(name, {**NODE, "topology": machine().to_dict()})
        services.heartbeat(name, "zun-compute", "nova")
    for status, where in (("Creating", "h1"), ("Rebuilding", "h1"), ("Running", "h1"), ("Creating", None)):
        new_container(context, status=status, host=where)
    images.insert_committed({"project_id": "demo", "host": "h1", "repo": "web", "tag": "1"})
    assert containers.in_the_making() == {"h1": 3} == containers.in_the_making(["h1"])
    assert containers.in_the_making(["h2"]) == {}
    table = HostTable(booking_seconds=60, counts_io_ops=True)
    table.refresh()
    assert {each.hostname: each.io_ops for each in table.hosts()} == {"h1": 3, "h2": 0}
    state = table.host("h2")
    (choice,) = select([state], spec(), complete([]), [], 1)
    table.choose_and_book("c-1", lambda _: ("h2", choice.held(spec())))
    assert table.host("h2").io_ops == 1, "a choice counts at once"
    plain = HostTable(booking_seconds=60)
    plain.refresh()
    assert {each.io_ops for each in plain.hosts()} == {0}


@pytest.mark.parametrize(
    ("options", "counts"),
    [({}, False), ({"max_io_ops_per_host": 3}, True), ({"weighers": ["IoOpsWeigher=2.0"]}, True)],
)
def test_hosts_are_counted_only_for_who_asks(options, counts):
    conf = configuration()
    for name, value in options.items():
        conf.set_override(name, value, group="scheduler")
    assert SchedulerService(conf).table._counts_io_ops == counts
