# SPDX-License-Identifier: Apache-2.0
"""From an accepted container to the host it is handed to, with real rows and hosts that only note what they get."""

import datetime
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.db import compute_nodes, containers, explanations, groups, models, services, session, volumes
from zun.db.permits import Permits
from zun.objects.placement import ATTEMPT_KEY, PERMIT_KEY, cpuset_record
from zun.scheduler import filters, weighers
from zun.scheduler.endpoint import SchedulerEndpoint, complete
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.filters.retry import RetryFilter
from zun.scheduler.host_table import HostTable
from zun.scheduler.peers import Peers
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import machine
from zun.tests.unit.db.rows import NODE, together
from zun.tests.unit.scheduler.hosts import ALL_FILTERS, configuration
from zun.topology import CellShare, CpuSet, Plan

pytestmark = pytest.mark.usefixtures("database")
GONE = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"
DEDICATED = {"cpu_policy": "dedicated", "cpu": 2.0}


@dataclass(frozen=True)
class Handed:
    """Return the container that a host was told to create."""

    host: str
    uuid: str
    limits: dict[str, Any]
    alternates: list[dict[str, Any]]
    tried: dict[str, str]
    permit: str = ""

    @property
    def cpus(self):
        return Plan.from_dict(self.limits["cpuset"]).cpus


@dataclass
class Hosts:
    """Stands where the messages to the compute services begin. ``away``: hosts that do not answer."""

    handed: list[Handed] = field(default_factory=list)
    away: set[str] = field(default_factory=set)

    def create_many(self, host, requests):
        if host in self.away:
            raise exceptions.HostUnavailable(host=host)
        for each in requests:
            uuid, limits = each["container"].uuid, dict(each["limits"])
            permit, attempt = limits.pop(PERMIT_KEY), limits.pop(ATTEMPT_KEY)
            assert Permits().allows(permit, host, uuid)
            self.handed.append(Handed(host, uuid, limits, each["alternates"], dict(each["tried"]), attempt))


@pytest.fixture
def hosts():
    """Three hosts of 8, 6 and 4 CPUs in two cells each: big, mid and tiny."""
    for name, cores in (("big", 4), ("mid", 3), ("tiny", 2)):
        add_host(name, machine(cells=2, cores=cores))
    return Hosts()


def add_host(name, topology):
    compute_nodes.put(name, {**NODE, "topology": topology.to_dict()})
    services.heartbeat(name, "zun-compute", "nova")


def new_endpoint(hosts, fresh_seconds=0, names=ALL_FILTERS, **limits):
    conf = configuration()
    table = HostTable(booking_seconds=60, fresh_seconds=fresh_seconds)
    found = filters.load(names, conf)
    return SchedulerEndpoint(table, found, weighers.load(conf.scheduler.weighers, conf), hosts, **limits)


@pytest.fixture
def endpoint(hosts):
    return new_endpoint(hosts)


def hold(host, cpus, cell=0, **fields):
    """Somebody takes CPUs of a host without a word to anybody."""
    plan = Plan({cell: CellShare(cpus=CpuSet(cpus))})
    row = containers.insert(
        {
            "name": "other",
            "project_id": "other",
            "image": "i",
            "cpu": float(len(plan.cpus)),
            "cpu_policy": "dedicated",
            "memory": 0,
            "placement": {},
            "request": {},
            "status": "Creating",
            **fields,
        }
    )
    containers.claim(row["uuid"], host, {"cpuset": cpuset_record(plan)})
    return row["uuid"]


def lost(container, seconds=100):
    """Let the container have been accepted ``seconds`` ago."""
    then = timeutils.utcnow() - datetime.timedelta(seconds=seconds)
    table = models.containers
    with session.writer() as connection:
        connection.execute(sa.update(table).where(table.c.uuid == container.uuid).values(created_at=then))


def row_of(container):
    row = containers.get(container.uuid)
    return row["status"], row["host"], row["status_reason"], row["task_state"]


WAITING = ("Creating", None, None, None)

# create


def test_container_goes_to_best_host_with_two_alternates(endpoint, hosts, context):
    """The host receives the plan as limits."""
    container = new_container(context, **DEDICATED, disk=3)
    endpoint.create(context, container=container)
    (handed,) = hosts.handed
    assert (handed.host, handed.uuid, handed.tried) == ("big", container.uuid, {})
    assert handed.cpus == CpuSet("0-1")
    assert handed.limits.keys() == {"cpuset"}  # what it has the host knows best itself
    assert [each["host"] for each in handed.alternates] == ["mid", "tiny"]
    assert [str(Plan.from_dict(each["limits"]["cpuset"]).cpus) for each in handed.alternates] == ["0-1", "0-1"]
    assert row_of(container) == WAITING  # the host writes the claim


CHOICES = [[], *([each] for each in ALL_FILTERS), ["DiskFilter", "RamFilter"], [*ALL_FILTERS[::-1]]]


@pytest.mark.parametrize("names", CHOICES, ids=lambda names: "-".join(names)[:40] or "none")
@pytest.mark.parametrize("policy", ["dedicated", "shared"])
def test_every_choice_of_filters_comes_to_an_end(hosts, context, names, policy):
    """Of the request that fits, that which is refused everywhere, and that which fits nowhere."""
    endpoint = new_endpoint(hosts, names=names)
    placed, refused = (new_container(context, cpu_policy=policy, cpu=2.0) for _ in range(2))
    endpoint.create(context, container=placed)
    assert [each.uuid for each in hosts.handed] == [placed.uuid] and hosts.handed.pop().cpus
    endpoint.create(context, container=refused)
    tried = []
    while hosts.handed:
        handed = hosts.handed.pop()
        tried.append(handed.host)
        refuse(endpoint, context, refused, handed)
    assert sorted(tried) == ["big", "mid", "tiny"] and row_of(refused)[0] == "Error"
    large = new_container(context, cpu_policy=policy, cpu=2.0, memory=1 << 20)
    endpoint.create(context, container=large)
    assert row_of(large)[0] == "Error" and hosts.handed == []
    assert sum(explanations.get(large.uuid)["record"]["codes"].values()) == 3


@pytest.mark.parametrize("names", [[], ["ComputeFilter"]], ids=["none", "compute"])
def test_dry_runs_and_capacity_need_no_choice_of_filters(hosts, context, names):
    endpoint = new_endpoint(hosts, names=names)
    container = new_container(context, **DEDICATED)
    assert len(endpoint.dry_run(context, container=container, count=2)["placed"]) == 2
    endpoint.create(context, container=container)
    assert hosts.handed


def test_a_derived_filter_takes_the_place_of_its_own(context):
    class Own(CpuSetFilter):
        pass

    assert [type(each) for each in complete([Own()])] == [RetryFilter, Own]
    assert [type(each) for each in complete([])] == [RetryFilter, CpuSetFilter]


def test_a_host_without_pinning_gets_nothing_dedicated(hosts, context):
    for name in ("big", "mid", "tiny"):
        compute_nodes.put(name, {**NODE, "topology": machine(cells=1).to_dict(), "enable_cpu_pinning": False})
    container = new_container(context, **DEDICATED)
    new_endpoint(hosts, names=["ComputeFilter"]).create(context, container=container)
    assert row_of(container)[0] == "Error" and "CpuSetFilter rejected 3" in row_of(container)[2]


@pytest.mark.parametrize("alternates", [0, 1, 5])
def test_alternates_are_limited_by_option_and_number_of_hosts(hosts, context, alternates):
    endpoint = new_endpoint(hosts, alternates=alternates)
    endpoint.create(context, container=new_container(context, **DEDICATED))
    assert len(hosts.handed[0].alternates) == min(alternates, 2)


def test_containers_that_come_together_do_not_get_the_same_cpus(endpoint, hosts, context):
    for _ in range(9):
        endpoint.create(context, container=new_container(context, **DEDICATED))
    taken = [(handed.host, cpu) for handed in hosts.handed for cpu in handed.cpus]
    assert len(hosts.handed) == 8  # 4 pairs on big, 2 on mid, 2 on tiny
    assert len(set(taken)) == len(taken) == 16


def test_a_container_that_fits_nowhere_ends_with_the_reasons(endpoint, hosts, context):
    container = new_container(context, cpu_policy="dedicated", cpu=5.0, task_state="container_creating")
    endpoint.create(context, container=container)
    assert hosts.handed == []
    assert row_of(container) == (
        "Error",
        None,
        "No valid host was found. Of 3 hosts, CpuSetFilter rejected 2, CPUFilter rejected 1. Nearest miss: no cell "
        "has 5 CPUs free: best is cell 0 with 4. A request for 4 CPUs and 64 MiB would fit now.",
        None,
    )


def test_nothing_is_refused_for_what_was_given_back_already(hosts, context):
    """Whoever sees that a container is gone may ask for another at once; its host tells of it a little later."""
    held = {name: hold(name, cpus) for name, cpus in (("big", "0-7"), ("mid", "0-5"), ("tiny", "0-3"))}
    endpoint = new_endpoint(hosts, fresh_seconds=3600)
    refused, placed = (new_container(context, **DEDICATED) for _ in range(2))
    endpoint.create(context, container=refused)
    containers.destroy(held["mid"])
    endpoint.create(context, container=placed)
    assert (row_of(refused)[0], row_of(placed)) == ("Error", WAITING)
    assert [(each.host, each.uuid) for each in hosts.handed] == [("mid", placed.uuid)]


def test_why_it_fits_nowhere_is_kept_and_goes_with_it(endpoint, context):
    container = new_container(context, cpu_policy="dedicated", cpu=5.0)
    endpoint.create(context, container=container)
    record = explanations.get(container.uuid)["record"]
    assert record["reason"] == row_of(container)[2]
    assert record["codes"] == {"cpus": 3}
    assert [each["host"] for each in record["details"]] == ["big", "mid", "tiny"]
    assert record["changes"][0] == {"dimension": "cpus", "change": {"cpu": 4}}
    containers.destroy_unplaced(container.uuid)
    with pytest.raises(exceptions.ExplanationNotFound):
        explanations.get(container.uuid)


def test_repeated_create_message_keeps_the_reason(endpoint, context):
    container = new_container(context, cpu_policy="dedicated", cpu=5.0)
    endpoint.create(context, container=container)
    ended = row_of(container)
    endpoint.create(context, container=container)
    assert (ended[0], row_of(container)) == ("Error", ended)
    assert explanations.get(container.uuid)["record"]["reason"] == ended[2]


def test_nothing_is_kept_of_what_was_placed_or_decided_elsewhere(endpoint, context):
    placed = new_container(context, **DEDICATED)
    endpoint.create(context, container=placed)
    gone = new_container(context, cpu_policy="dedicated", cpu=5.0)
    containers.destroy_unplaced(gone.uuid)
    endpoint.create(context, container=gone)
    for container in (placed, gone):
        with pytest.raises(exceptions.ExplanationNotFound):
            explanations.get(container.uuid)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"status": "Deleting"}, id="being-deleted"),
        pytest.param({"status": "Error", "status_reason": "given up"}, id="given-up"),
        pytest.param({"host": "big", "cpuset": cpuset_record(Plan({}))}, id="claimed-already"),
    ],
)
def test_what_needs_no_host_any_more_is_left_alone(endpoint, hosts, context, fields):
    """Where it would fit it goes to a host, which finds out: see the claims."""
    container = new_container(context, cpu_policy="dedicated", cpu=99.0)
    with session.writer() as connection:
        table = models.containers
        connection.execute(sa.update(table).where(table.c.uuid == container.uuid).values(**fields))
    before = containers.get(container.uuid)
    endpoint.create(context, container=container)
    assert hosts.handed == []
    assert containers.get(container.uuid) == before


def test_booking_ends_if_the_host_did_not_take_the_container(endpoint, hosts, context):
    first = new_container(context, **DEDICATED)
    first.destroy()
    endpoint.create(context, container=first)
    (handed,) = hosts.handed
    word = {"host": handed.host, "generation": 0, "uuid": first.uuid, "held": None, "failed": False}
    endpoint.host_changed(context, **word)
    endpoint.create(context, container=new_container(context, **DEDICATED))
    assert (hosts.handed[1].host, hosts.handed[1].cpus) == (handed.host, handed.cpus)


def test_silent_host_keeps_its_booking_until_a_later_sweep(hosts, context):
    endpoint = new_endpoint(hosts)
    hosts.away.add("big")
    container = new_container(context, **DEDICATED)
    lost(container)
    endpoint.create(context, container=container)
    assert (hosts.handed, row_of(container)) == ([], WAITING)
    endpoint.sweep(60)  # it is booked: the message may have arrived
    assert hosts.handed == []
    services.update("big", "zun-compute", {"forced_down": True})
    new_endpoint(hosts).sweep(60)  # as after the booking's deadline
    assert [handed.host for handed in hosts.handed] == ["mid"]


# claim_refused


def refuse(endpoint, context, container, handed, reason="no cell has 2 CPUs free", **changes):
    """``changes`` are what a host of RPC version 1.1 may send back: it shows no permit."""
    permit = None if changes else handed.permit
    values = {"host": handed.host, "tried": handed.tried, "alternates": handed.alternates, "permit": permit, **changes}
    text = str(exceptions.ClaimRefused(host=values["host"], reason=reason))
    endpoint.claim_refused(context, container=container, reason=text, **values)


def accepted(endpoint, hosts, context, **fields):
    container = new_container(context, **(fields or DEDICATED))
    endpoint.create(context, container=container)
    return container, hosts.handed.pop()


def test_the_first_alternate_that_is_still_good_is_next(endpoint, hosts, context):
    container, first = accepted(endpoint, hosts, context)
    # A new choice would take the larger host that came meanwhile.
    add_host("huge", machine(cells=2, cores=8))
    refuse(endpoint, context, container, first)
    (second,) = hosts.handed
    assert (second.host, second.limits) == ("mid", first.alternates[0]["limits"])
    assert second.alternates == first.alternates[1:]
    assert second.tried == {"big": "The host refused the claim: no cell has 2 CPUs free"}


def test_an_alternate_whose_cpus_are_gone_is_passed_over(endpoint, hosts, context):
    container, first = accepted(endpoint, hosts, context)
    hold("mid", "1")
    refuse(endpoint, context, container, first)
    (second,) = hosts.handed
    assert (second.host, second.limits, second.alternates) == ("tiny", first.alternates[1]["limits"], [])


def test_an_alternate_that_is_down_is_passed_over(endpoint, hosts, context):
    container, first = accepted(endpoint, hosts, context)
    services.update("mid", "zun-compute", {"disabled": True})
    refuse(endpoint, context, container, first)
    assert hosts.handed[0].host == "tiny"


@pytest.mark.parametrize("alternates", [[], [{"host": "gone", "limits": {"cpuset": {"cells": []}}}]])
def test_without_good_alternate_another_host_is_chosen_anew(endpoint, hosts, context, alternates):
    container, first = accepted(endpoint, hosts, context)
    add_host("huge", machine(cells=2, cores=8))
    refuse(endpoint, context, container, first, alternates=alternates)
    (second,) = hosts.handed
    assert second.host == "huge" and second.cpus == CpuSet("0-1")
    assert [each["host"] for each in second.alternates] == ["mid", "tiny"]


def test_a_host_that_refused_is_not_tried_again(endpoint, hosts, context):
    container, handed = accepted(endpoint, hosts, context)
    tried = []
    while handed:
        tried.append(handed.host)
        refuse(endpoint, context, container, handed)
        handed = hosts.handed.pop() if hosts.handed else None
    assert tried == ["big", "mid", "tiny"]
    status, host, reason, _ = row_of(container)
    assert (status, host) == ("Error", None)
    assert "Of 3 hosts, RetryFilter rejected 3" in reason and "refused the claim before" in reason
    said = " Of the hosts that refused: The host refused the claim: no cell has 2 CPUs free"
    assert reason.endswith(said) and explanations.get(container.uuid)["record"]["reason"] == reason


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        pytest.param("the disk of big is full", "the disk of a host is full", id="name"),
        pytest.param("the bigger of two cells is full", "the bigger of two cells is full", id="part-of-a-word"),
    ],
)
def test_users_are_not_told_the_names_of_hosts_that_refused(hosts, context, reason, said):
    endpoint = new_endpoint(hosts, max_attempts=1)
    container, handed = accepted(endpoint, hosts, context)
    assert handed.host == "big"
    refuse(endpoint, context, container, handed, reason)
    assert row_of(container)[2].endswith(said)


def test_a_refused_choice_is_not_held_against_others(endpoint, hosts, context):
    container, handed = accepted(endpoint, hosts, context, cpu_policy="dedicated", cpu=4.0)
    refuse(endpoint, context, container, handed, alternates=[])
    # Both cells of big are free again for somebody else.
    for _ in range(2):
        _, other = accepted(endpoint, hosts, context, cpu_policy="dedicated", cpu=4.0)
        assert other.host == "big"


def test_what_was_booked_for_the_last_attempt_is_free_again(hosts, context):
    endpoint = new_endpoint(hosts, max_attempts=1)
    for _ in range(3):
        container, handed = accepted(endpoint, hosts, context, cpu_policy="dedicated", cpu=4.0)
        assert handed.host == "big"
        refuse(endpoint, context, container, handed)
        assert row_of(container)[0] == "Error"


def test_container_ends_with_each_reason_after_max_attempts(hosts, context):
    endpoint = new_endpoint(hosts, max_attempts=2)
    container, first = accepted(endpoint, hosts, context)
    refuse(endpoint, context, container, first, "free memory 0 MiB < requested 64 MiB")
    second = hosts.handed.pop()
    refuse(endpoint, context, container, second, "no cell has 2 CPUs free")
    assert hosts.handed == []
    status, host, reason, task_state = row_of(container)
    assert (status, host, task_state) == ("Error", None, None)
    assert "No valid host was found: 2 hosts refused" in reason
    assert "free memory 0 MiB < requested 64 MiB" in reason and "no cell has 2 CPUs free" in reason
    explained = explanations.get(container.uuid)["record"]
    assert explained["codes"] == {"refused-before": 2}
    assert {each["host"]: each["reason"] for each in explained["details"]} == {
        first.host: "The host refused the claim: free memory 0 MiB < requested 64 MiB",
        second.host: "The host refused the claim: no cell has 2 CPUs free",
    }


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_no_host_is_named_to_the_user(hosts, context, max_attempts):
    """Which hosts there are is shown to administrators only, in a member of its own."""
    endpoint = new_endpoint(hosts, max_attempts=max_attempts)
    container, handed = accepted(endpoint, hosts, context)
    while handed:
        refuse(endpoint, context, container, handed)
        handed = hosts.handed.pop() if hosts.handed else None
    status, _, reason, _ = row_of(container)
    assert status == "Error"
    assert not [name for name in ("big", "mid", "tiny") if name in reason]


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_a_refusal_of_what_was_deleted_meanwhile_changes_nothing(hosts, context, max_attempts):
    endpoint = new_endpoint(hosts, max_attempts=max_attempts)
    gone, handed = accepted(endpoint, hosts, context)
    containers.destroy_unplaced(gone.uuid)
    refuse(endpoint, context, gone, handed)
    going, handed = accepted(endpoint, hosts, context)
    containers.update(going.uuid, {"status": "Deleting"})
    before = containers.get(going.uuid)
    refuse(endpoint, context, going, handed)
    assert hosts.handed == []
    assert containers.get(going.uuid) == before


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_a_refusal_of_what_another_host_has_changes_nothing(hosts, context, max_attempts):
    """A message that came twice was carried out once."""
    endpoint = new_endpoint(hosts, max_attempts=max_attempts)
    container, handed = accepted(endpoint, hosts, context)
    containers.claim(container.uuid, "mid", {"cpuset": handed.alternates[0]["limits"]["cpuset"]})
    before = containers.get(container.uuid)
    refuse(endpoint, context, container, handed)
    assert hosts.handed == []
    assert containers.get(container.uuid) == before


MADE_UP = {f"host-{number}": "The host refused the claim: I say so" for number in range(9)}


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"tried": MADE_UP}, id="refusals-of-others"),
        pytest.param({"alternates": []}, id="another-next-host"),
        pytest.param({"host": "mid"}, id="another-host"),
        pytest.param({"permit": "0" * 64}, id="another-permit"),
        pytest.param({"permit": 0}, id="no-text"),
    ],
)
def test_a_refusal_that_no_scheduler_permits_changes_nothing(endpoint, hosts, context, forged):
    container, handed = accepted(endpoint, hosts, context)
    refuse(endpoint, context, container, handed, **{"permit": handed.permit, **forged})
    assert (hosts.handed, row_of(container)) == ([], WAITING)
    refuse(endpoint, context, container, handed)
    assert [each.host for each in hosts.handed] == ["mid"]


def test_a_permit_is_for_one_container(endpoint, hosts, context):
    _, handed = accepted(endpoint, hosts, context)
    other, _ = accepted(endpoint, hosts, context)
    refuse(endpoint, context, other, handed)
    assert (hosts.handed, row_of(other)) == ([], WAITING)


@pytest.mark.parametrize("permit", [{}, {"permit": None}])
def test_hosts_with_users_of_their_own_show_a_permit(permit):
    with pytest.raises((KeyError, TypeError)):
        SchedulerEndpoint.claim_refused.speaks_for({"host": "big", **permit})
    assert SchedulerEndpoint.claim_refused.speaks_for({"host": "big", "permit": "x"}) == ["big"]


def test_where_the_group_is_is_looked_up_once_a_host_knew_better(hosts, context):
    """Another scheduler placed the first member, and nobody has told of it here."""
    endpoint = new_endpoint(hosts, fresh_seconds=3600)
    group = groups.insert({"name": "db", "policy": "affinity", "rules": {}, "project_id": "demo"})["uuid"]
    container, first = accepted(
        endpoint, hosts, context, **DEDICATED, group_uuid=group, request={"hints": {"group": group}}
    )
    assert first.host == "big"
    hold("tiny", "0", group_uuid=group)
    refuse(endpoint, context, container, first, reason="the containers of group db are on another host")
    assert [each.host for each in hosts.handed] == ["tiny"]


def test_a_refused_container_goes_where_its_volume_is_by_now(hosts, context):
    endpoint = new_endpoint(hosts, fresh_seconds=3600)
    mounts = [Mount(Kind.VOLUME, "/data", "data").to_dict()]
    container, first = accepted(endpoint, hosts, context, **DEDICATED, mounts=mounts)
    assert first.host == "big"
    with session.writer() as connection:
        volumes.hold(connection, "demo", ["data"], "tiny")
    refuse(endpoint, context, container, first, reason="volume data of the project is on another host")
    assert [each.host for each in hosts.handed] == ["tiny"]


# host_changed


def test_what_a_host_tells_is_what_the_next_choice_sees(endpoint, hosts, context):
    endpoint.create(context, container=new_container(context, **DEDICATED))
    handed = hosts.handed.pop()
    plan = Plan({0: CellShare(cpus=CpuSet("2-3"))})
    held = {"cpuset": cpuset_record(plan), "cpu": 2.0, "memory": 64, "disk": 0}
    endpoint.host_changed(context, host="big", generation=1, uuid=handed.uuid, held=held)
    assert endpoint._table.host("big").usage.claim(handed.uuid) == plan
    endpoint.host_changed(context, host="big", generation=2, uuid=handed.uuid, held=None)
    assert endpoint._table.host("big").usage.claim(handed.uuid) is None


@pytest.mark.parametrize(("failed", "expected"), [(True, 1), (False, 0)])
def test_a_host_that_could_not_start_a_container_is_remembered(endpoint, hosts, context, failed, expected):
    endpoint.create(context, container=new_container(context, **DEDICATED))
    endpoint.host_changed(context, host="big", generation=1, uuid=hosts.handed[0].uuid, held=None, failed=failed)
    assert len(endpoint._table.host("big").failures) == expected


def test_a_refusal_is_no_failure(endpoint, hosts, context):
    container, handed = accepted(endpoint, hosts, context)
    refuse(endpoint, context, container, handed)
    assert [endpoint._table.host(name).failures for name in ("big", "mid")] == [(), ()]


def test_members_of_a_group_keep_its_policy(endpoint, hosts, context):
    row = groups.insert(
        {"name": "g", "project_id": "demo", "user_id": "alice", "policy": "anti-affinity", "rules": {"max_per_host": 1}}
    )
    fields = {**DEDICATED, "request": {"hints": {"group": row["uuid"]}}, "group_uuid": row["uuid"]}
    made = [new_container(context, **fields) for _ in range(4)]
    for container in made:
        endpoint.create(context, container=container)
    assert [handed.host for handed in hosts.handed] == ["big", "mid", "tiny"]
    assert "GroupAntiAffinityFilter rejected 3" in row_of(made[3])[2]


def test_a_group_that_is_gone_is_named(endpoint, hosts, context):
    container = new_container(context, **DEDICATED, request={"hints": {"group": GONE}})
    endpoint.create(context, container=container)
    assert hosts.handed == []
    assert row_of(container)[0] == "Error" and GONE in row_of(container)[2]


# find_places


def test_where_the_containers_of_a_host_would_go(endpoint, hosts, context):
    """The host big is to be free; its containers have rows, one of them a group, one a row that nobody can read."""
    row = groups.insert(
        {"name": "g", "project_id": "demo", "user_id": "alice", "policy": "anti-affinity", "rules": {"max_per_host": 1}}
    )
    together_with = {"request": {"hints": {"group": row["uuid"]}}, "group_uuid": row["uuid"]}
    made = [
        new_container(context, host="big", cpu_policy="dedicated", cpu=cpus, **fields)
        for cpus, fields in (
            (3.0, together_with),
            (2.0, together_with),
            (1.0, together_with),
            (2.0, {"request": {"hints": {"group": GONE}}}),
            (2.0, {"placement": {"numa_nodes": "x"}}),
            (4.0, {}),
        )
    ]
    uuids = [each.uuid for each in made]
    answer = endpoint.find_places(context, uuids=[*uuids, "deleted"], leaving="big")
    assert answer.keys() == {*uuids, "deleted"}
    assert [answer[uuid]["host"] for uuid in uuids] == ["mid", "tiny", None, None, None, None]
    reasons = [answer[uuid]["reason"] for uuid in uuids]
    assert reasons[:2] == [None, None]
    for reason, told in zip(
        reasons[2:], ("GroupAntiAffinityFilter", GONE, "its row cannot be read: ", "No valid host"), strict=True
    ):
        assert told in reason
    assert answer["deleted"] == {"host": None, "reason": "it was deleted"}
    assert hosts.handed == []
    free = [endpoint._table.host(name).room.dedicated_cpus for name in ("big", "mid", "tiny")]
    assert free == [8, 6, 4], "nothing is booked"


# sweep


def test_what_was_lost_is_scheduled_again_and_nothing_else(endpoint, hosts, context):
    old = new_container(context, **DEDICATED)
    lost(old)
    new_container(context, **DEDICATED)  # its message is under way
    for fields in ({"host": "big"}, {"status": "Error"}, {"status": "Running", "host": "big"}):
        lost(new_container(context, **fields))
    endpoint.sweep(60)
    assert [handed.uuid for handed in hosts.handed] == [old.uuid]
    endpoint.sweep(60)  # it is on its way now
    assert len(hosts.handed) == 1


def test_a_clock_that_was_set_back_keeps_nobody_waiting(endpoint, hosts, context):
    old, new = new_container(context, **DEDICATED), new_container(context, **DEDICATED)
    lost(old, -7200)
    lost(new, -30)  # by a clock that is a little ahead: its message is under way
    endpoint.sweep(60)
    assert [handed.uuid for handed in hosts.handed] == [old.uuid]


def test_after_a_start_alone_nothing_is_under_way(endpoint, hosts, context):
    rows = [new_container(context, **DEDICATED) for _ in range(3)]
    endpoint.sweep(0)
    assert [handed.uuid for handed in hosts.handed] == [row.uuid for row in rows]


def test_what_was_lost_and_fits_nowhere_ends_with_the_reasons(endpoint, hosts, context):
    container = new_container(context, cpu_policy="dedicated", cpu=5.0)
    lost(container)
    endpoint.sweep(60)
    status, _, reason, _ = row_of(container)
    assert status == "Error" and "Nearest miss" in reason


def test_concurrent_sweeps_take_each_lost_container_once(hosts, context):
    add_host("huge", machine(cells=2, cores=16))
    endpoints = [new_endpoint(hosts) for _ in range(2)]
    for _ in range(3):
        rows = [new_container(context, cpu=0.1) for _ in range(10)]
        for row in rows:
            lost(row)
        assert together(2, lambda number: endpoints[number].sweep(60)) == [None, None]
        assert sorted(handed.uuid for handed in hosts.handed) == sorted(row.uuid for row in rows)
        hosts.handed.clear()


@pytest.mark.parametrize(
    "fields",
    [
        {"placement": {"numa_cpus": [1, 7]}},
        {"placement": {"numa_nodes": "x"}},
        {"placement": {"numa_cpus": 5}},
        {"request": {"hints": 5}},
        {"request": {"hints": {"same_host": 5}}},
        {"placement": {"devices": [{"name": "gpu"}]}},
        {"placement": {"devices": [{"name": "gpu", "matches": [[]]}]}},
        {"placement": {"required_traits": 5}},
        {"cpu": 1e308},
        {"memory": -1},
        {"disk": -1},
    ],
    ids=str,
)
def test_malformed_request_does_not_delay_the_other_requests(endpoint, hosts, context, fields):
    """A later release, or a person, wrote a row whose shape does not add up."""
    odd = new_container(context, **DEDICATED)
    with session.writer() as connection:
        connection.execute(sa.update(models.containers).where(models.containers.c.uuid == odd.uuid).values(**fields))
    good = new_container(context, **DEDICATED)
    lost(odd), lost(good)
    endpoint.sweep(60)
    assert [handed.uuid for handed in hosts.handed] == [good.uuid]
    row = containers.get(odd.uuid)
    assert row["status"] == "Error" and "Delete it and create it again" in row["status_reason"]


def test_an_unreadable_row_does_not_delay_the_other_requests(endpoint, hosts, context, caplog):
    """Of a type that no column has: only SQLite stores such."""
    odd, good = new_container(context, **DEDICATED), new_container(context, **DEDICATED)
    lost(odd), lost(good)
    with session.writer() as connection:
        connection.execute(sa.text("UPDATE containers SET memory = 'x' WHERE uuid = :uuid"), {"uuid": odd.uuid})
    endpoint.sweep(60)
    assert [handed.uuid for handed in hosts.handed] == [good.uuid]
    assert f"Container {odd.uuid} gets no host: its row in the database cannot be read" in caplog.text


def test_a_defect_with_one_request_does_not_delay_the_others(endpoint, hosts, context, caplog, monkeypatch):
    odd, good = new_container(context, **DEDICATED), new_container(context, **DEDICATED)
    lost(odd), lost(good)
    place = SchedulerEndpoint._place

    def fail(self, context, container, *rest, **more):
        if container.uuid == odd.uuid:
            raise RuntimeError("a defect")
        place(self, context, container, *rest, **more)

    monkeypatch.setattr(SchedulerEndpoint, "_place", fail)
    endpoint.sweep(60)
    assert [handed.uuid for handed in hosts.handed] == [good.uuid]
    assert f"Container {odd.uuid} could not be scheduled again" in caplog.text


# what hosts tell

HELD = {
    "cpuset": cpuset_record(Plan({0: CellShare(cpus=CpuSet("0"))})),
    "cpu": 1.0,
    "memory": 0,
    "disk": 0,
    "volume_disk": 0,
    "group_uuid": None,
    "image": "i",
}
CHANGE = {"generation": 2, "uuid": GONE, "held": HELD, "failed": False}


ODD = [10**30, -1, float("nan"), "x" * 10**6, [[[[1]]]], {"junk": 1}]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: str(odd)[:9])
@pytest.mark.parametrize("member", [*CHANGE, *(f"held.{name}" for name in HELD), "more", "host"])
def test_one_odd_change_of_a_batch_loses_no_other(endpoint, hosts, context, member, odd, caplog):
    """Whatever a member is, the change of the other host is noted."""
    table = endpoint._table
    table.refresh()
    bad = {"host": "mid", **CHANGE, "held": dict(HELD)}
    whole, _, name = member.rpartition(".")
    (bad[whole] if whole else bad)[name] = odd
    good = {**CHANGE, "host": "big", "generation": table.host("big").generation + 1}
    endpoint.hosts_changed(context, changes=[bad, good])
    assert table.host("big").usage.claim(GONE) is not None
    table.refresh()
    assert table.host("mid") is not None


@pytest.mark.parametrize("odd", ["x", None, 5, [], {}, {"host": "mid"}], ids=str)
def test_what_is_no_change_loses_no_other(endpoint, hosts, context, odd):
    endpoint._table.refresh()
    good = {**CHANGE, "host": "big", "generation": endpoint._table.host("big").generation + 1}
    endpoint.hosts_changed(context, changes=[odd, good])
    assert endpoint._table.host("big").usage.claim(GONE) is not None


def test_a_change_that_cannot_be_read_names_its_host(endpoint, hosts, context, caplog):
    """The host is read from the database instead."""
    endpoint._table.refresh()
    container = new_container(context, **DEDICATED)
    containers.claim(container.uuid, "mid", {"cpuset": HELD["cpuset"]})
    changes = [{**CHANGE, "host": "mid", "held": {"junk": 1}}]
    endpoint.hosts_changed(context, changes=changes)
    assert "A change of host mid is left out: it cannot be read: KeyError" in caplog.text
    endpoint._table.refresh()
    assert endpoint._table.host("mid").usage.claim(container.uuid) is not None


# several schedulers


@dataclass
class OtherSchedulers:
    """Stands where the messages to other schedulers begin. ``away``: none can be sent."""

    handed: list[tuple[str, str, dict[str, str], list[str]]] = field(default_factory=list)
    away: bool = False

    def hand_over(self, context, container, *, to, tried, passed):
        if self.away:
            raise exceptions.HostUnavailable(host=to)
        self.handed.append((container.uuid, to, dict(tried), passed))


@pytest.fixture
def others():
    return OtherSchedulers()


@pytest.fixture
def second(hosts, others, context):
    """The scheduler ``b`` beside ``a`` and ``c``: big is kept by ``a``, mid by ``b`` and tiny by ``c``."""
    endpoint = new_endpoint(hosts, peers=Peers("b", others))
    for name in ("a", "c"):
        endpoint.scheduler_seen(context, name=name, leaving=False)
    return endpoint


def test_a_scheduler_takes_of_its_own_hosts_first(second, hosts, others, context):
    second.create(context, container=new_container(context, **DEDICATED))
    assert [each["host"] for each in hosts.handed[0].alternates] == ["big", "tiny"]
    assert (hosts.handed[0].host, others.handed) == ("mid", [])


def test_a_request_goes_to_the_keeper_of_its_best_host(second, hosts, others, context):
    container = new_container(context, cpu_policy="dedicated", cpu=4.0)
    second.create(context, container=container, tried={"gone": "it was full"}, passed=["c"])
    assert (hosts.handed, others.handed) == ([], [(container.uuid, "a", {"gone": "it was full"}, ["c", "b"])])
    assert row_of(container) == WAITING
    second.create(context, container=new_container(context, cpu_policy="dedicated", cpu=3.0))
    assert [each.host for each in hosts.handed] == ["mid"]  # nothing was booked for the first


def test_a_request_that_its_keeper_had_already_is_placed_at_once(second, hosts, others, context):
    second.create(context, container=new_container(context, cpu_policy="dedicated", cpu=4.0), passed=["a"])
    assert [each.host for each in hosts.handed] == ["big"]
    assert others.handed == []


def test_members_of_a_soft_group_look_everywhere_and_once(second, hosts, others, context):
    group = groups.insert({"name": "web", "policy": "soft-affinity", "rules": {}, "project_id": "demo"})
    fields = {**DEDICATED, "request": {"run": True, "hints": {"group": group["uuid"]}}}
    container = new_container(context, **fields)
    second.create(context, container=container)
    assert [each[:2] for each in others.handed] == [(container.uuid, "a")]
    second.create(context, container=container, passed=["c"])
    assert [each.host for each in hosts.handed] == ["mid"]


def test_request_that_cannot_be_handed_over_waits_for_sweep(second, hosts, others, context, caplog):
    others.away = True
    container = new_container(context, cpu_policy="dedicated", cpu=4.0)
    second.create(context, container=container)
    assert (hosts.handed, row_of(container)) == ([], WAITING)
    assert "could not be handed" in caplog.text


def test_what_was_lost_is_not_handed_over_again(second, hosts, others, context):
    """Or it would never be placed where the keeper of its best host is who loses it."""
    container = new_container(context, cpu_policy="dedicated", cpu=4.0)
    second.create(context, container=container)
    assert [each[:2] for each in others.handed] == [(container.uuid, "a")]
    lost(container)
    second.sweep(60)
    assert ([each.host for each in hosts.handed], len(others.handed)) == (["big"], 1)


def test_who_left_keeps_no_hosts(second, hosts, others, context):
    second.scheduler_seen(context, name="a", leaving=True)
    second.create(context, container=new_container(context, cpu_policy="dedicated", cpu=4.0))
    assert (hosts.handed[0].host, others.handed) == ("big", [])
