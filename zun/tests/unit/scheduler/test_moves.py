# SPDX-License-Identifier: Apache-2.0
"""Which containers may move, on which host moves cost least, and in which order they are made."""

import pytest

from zun.objects.placement import cpuset_record
from zun.scheduler.host_state import HostState
from zun.scheduler.moves import Found, before, cheapest, command, movable
from zun.tests.functional.cloud import machine
from zun.topology import CellShare, CpuSet, PlacementRequest, Plan, Usage, plan
from zun.topology.rearrange import Move

PAIR = PlacementRequest(2, 512)


def held(cpus, cell, mib=512):
    return Plan(cells={cell: CellShare(cpus=CpuSet(cpus), memory_mib=mib)}, cpu_policy="dedicated")


def row(**more):
    return {
        "uuid": "c-1", "name": "web", "host": "one", "cpuset": cpuset_record(held("0-1", 0)), "cpu": 2.0, "memory": 512,
        "cpu_policy": "dedicated", "placement": {}, "status": "Running", "kind": "container", **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "by_default", "expected"),
    [
        pytest.param({}, True, True, id="operator-allows"),
        pytest.param({}, False, False, id="operator-forbids"),
        pytest.param({"placement": {"movable": True}}, False, True, id="user-allows"),
        pytest.param({"placement": {"movable": False}}, True, False, id="user-forbids"),
        pytest.param({"placement": None}, True, True, id="old-row"),
        pytest.param({"status": "Stopped"}, True, True, id="stopped"),
        pytest.param({"status": "Restarting"}, True, False, id="restarting"),
        pytest.param({"status": "Error"}, True, False, id="error"),
        pytest.param({"kind": "capsule"}, True, False, id="capsule"),
        pytest.param({"kind": "leftover"}, True, False, id="leftover"),
        pytest.param({"cpuset": None}, True, False, id="nothing-held"),
        pytest.param({"cpuset": {"cells": 7}}, True, False, id="malformed-claim"),
        pytest.param({"placement": {"numa_nodes": "x"}}, True, False, id="malformed-request"),
        pytest.param(
            {"placement": {"devices": [{"name": "gpu", "count": 1, "specs": []}]}}, True, False, id="asks-for-devices"
        ),
    ],
)
def test_which_containers_may_move(more, by_default, expected):
    found = movable([row(**more)], by_default=by_default)
    assert set(found) == ({"c-1"} if expected else set())


@pytest.mark.parametrize("policy", ["shared", "mixed"])
def test_containers_of_the_pool_do_not_move(policy):
    usage = Usage()
    request = PlacementRequest(2.0, 64, policy, dedicated_cpus=1 if policy == "mixed" else None)
    found = plan(machine(), usage, request)
    placement = {"dedicated_cpus": 1} if policy == "mixed" else {}
    record = row(cpu_policy=policy, cpuset=cpuset_record(found), placement=placement)
    assert movable([record], by_default=True) == {}


def host(name, *claims):
    usage = Usage()
    for owner, claim in claims:
        usage = usage.with_claim(f"{name}-{owner}", claim)
    return HostState(name, machine(cells=2, cores=4), usage=usage)


def all_of(hosts):
    return lambda name: {owner: PAIR for each in hosts if each.hostname == name for owner, _ in each.usage}


def asked(hosts, request, movable_on=None, **more):
    return cheapest(hosts, movable_on or all_of(hosts), request, {}, **{"steps": 1000, **more})


def test_the_host_where_moves_cost_least_is_taken():
    dear = host("dear", ("a", held("0-1", 0, 900)), ("b", held("4-5", 1, 900)))
    cheap = host("cheap", ("a", held("0-1", 0, 300)), ("b", held("4-5", 1, 200)))
    found = asked([dear, cheap], PlacementRequest(4, 64))
    assert (found.hostname, [each.owner for each in found.moves], found.mib) == ("cheap", ["cheap-b"], 200)


def test_a_host_where_the_request_fits_needs_no_moves():
    full = host("full", ("a", held("0-1", 0)), ("b", held("4-5", 1)))
    found = asked([full, host("empty")], PlacementRequest(4, 64))
    assert (found.hostname, found.moves) == ("empty", ())


def test_hosts_without_room_are_not_searched():
    full = host("full", ("a", held("0-3", 0)), ("b", held("4-5", 1)))

    def nobody(_name):
        raise AssertionError("it must not be asked")

    reason = asked([full], PlacementRequest(4, 64), nobody)
    assert reason == "full: it has 2 CPUs and 7168 MiB free in all"


@pytest.mark.parametrize(
    ("hosts", "expired", "expected"),
    [
        ([], False, "no host could have it, whatever moves"),
        ([host("one", ("a", held("0-1", 0)), ("b", held("4-5", 1)))], True, "there was no time to ask every host"),
    ],
)
def test_why_there_are_no_moves(hosts, expired, expected):
    assert expected in asked(hosts, PlacementRequest(4, 64), expired=lambda: expired)


def test_nobody_may_move():
    one = host("one", ("a", held("0-1", 0)), ("b", held("4-5", 1)))
    assert "one: " in asked([one], PlacementRequest(4, 64), lambda _name: {})


def test_a_move_waits_for_those_that_leave_its_cells():
    moves = [
        Move("a", held("0-1", 0), held("4-5", 1)),
        Move("b", held("8-9", 2), held("0-1", 0)),
        Move("c", held("12-13", 3), held("6-7", 1)),
        Move("d", held("14-15", 3), held("8-9", 2)),
    ]
    assert before(moves) == [[], ["a"], [], ["b"]]


def test_records_name_containers_and_their_order():
    moves = (Move("a", held("0-1", 0), held("4-5", 1)), Move("b", held("8-9", 2), held("0-1", 0)))
    first, second = Found("one", moves, True, {"a": "web"}).records()
    assert (first["name"], first["held"]["cpuset_cpus"], first["cpuset"]["cpuset_mems"]) == ("web", "0-1", "1")
    assert (first["mib"], second["name"], second["after"]) == (512, "", ["a"])


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (PlacementRequest(4, 512), "4:512"),
        (PlacementRequest(4, 512, numa_nodes=2, numa_cpus=(1, 3)), "4:512 --numa-nodes 2 --numa-cpus 1,3"),
        (PlacementRequest(4, 512, thread_policy="require"), "4:512 --cpu-thread-policy require"),
        (PlacementRequest(4, 512, page_size=2048), "4:512 --mem-page-size 2048"),
    ],
)
def test_the_command_has_the_shape_of_the_request(request_, options):
    assert command(request_) == f"openstack appcontainer host defragment --all --for {options}"
