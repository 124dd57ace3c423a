# SPDX-License-Identifier: Apache-2.0
"""Everything that a project can create counts, however many ask for it at once."""

import datetime

import pytest
import sqlalchemy as sa
from oslo_utils import timeutils, uuidutils

from zun.common import exceptions
from zun.common.subnets import Pool
from zun.db import (
    capsules,
    console_tokens,
    containers,
    groups,
    images,
    models,
    networks,
    quotas,
    registries,
    session,
    volumes,
)
from zun.tests.unit.db.rows import CPUSET, container, held_volume, node, together, values
from zun.topology.device_request import DeviceMatch, DeviceRequest

pytestmark = pytest.mark.usefixtures("database")

UNLIMITED = dict.fromkeys(quotas.RESOURCES, -1)
NOTHING = dict.fromkeys(quotas.RESOURCES, 0)
OWNER = {"project_id": "demo", "user_id": "alice"}
POOL = Pool("10.0.0.0/16", 24)
WITHHOLDING = {**CPUSET, "cells": [{"id": 0, "cpus": "0", "withheld": "1-3"}]}


def name():
    return f"n-{uuidutils.generate_uuid()}"


def add_container(limits):
    containers.insert(values(), limits)


def add_capsule(limits):
    """Add a capsule of one container; the container counts, the capsule does not."""
    capsules.insert(values(**OWNER), [values(kind="member")], (), limits)


def add_port(limits):
    containers.insert(values(exposed_ports={"80/tcp": {}}), limits)


def add_port_of_capsule(limits):
    capsules.insert(values(**OWNER, exposed_ports={"80/tcp": {}}), [values(kind="member")], (), limits)


def add_image(limits):
    images.insert_committed({"project_id": "demo", "host": "h1", "repo": "web", "tag": "1"}, limits)


def add_group(limits):
    groups.insert({**OWNER, "name": name(), "policy": "affinity", "rules": {}}, limits)


def add_network(limits):
    networks.insert({**OWNER, "name": "n", "shared": False}, (), POOL, limits)


def add_registry(limits):
    registries.insert({**OWNER, "domain": "example.org"}, limits)


def add_volume(limits):
    claimed(container(), limits, names=[name()])


def add_terminal(limits):
    now = timeutils.utcnow()
    later = now + datetime.timedelta(hours=1)
    console_tokens.add(name(), TERMINAL["uuid"], None, None, now, later, ("demo", limits))


def gpus(count=1, name="gpu", resource_class="CUSTOM_GPU"):
    match = DeviceMatch(resource_class=resource_class)
    return {"devices": [DeviceRequest(name, count, (match,)).to_dict()]}


def add_device(limits):
    containers.insert(values(placement=gpus()), limits)


def add_device_of_capsule(limits):
    capsules.insert(values(**OWNER, placement=gpus()), [values(kind="member")], (), limits)


TERMINAL: dict = {}


def claimed(row, limits, withheld=0, names=()):
    return containers.claim(
        row["uuid"], "h1", {"cpuset": CPUSET}, volumes=("demo", names), withheld=withheld, quota=limits
    )


ADDERS = {
    "containers": add_container,
    "containers-of-capsules": add_capsule,
    "ports": add_port,
    "ports-of-capsules": add_port_of_capsule,
    "images": add_image,
    "groups": add_group,
    "networks": add_network,
    "registries": add_registry,
    "volumes": add_volume,
    "terminals": add_terminal,
    "device:gpu": add_device,
    "device:CUSTOM_GPU": add_device,
    "device:gpu-of-capsules": add_device_of_capsule,
}


@pytest.fixture(autouse=True)
def rows(database):
    node("h1")
    TERMINAL.update(container(project_id="demo"))


def used(project):
    return quotas.usage(project, (*quotas.RESOURCES, "device:gpu", "device:CUSTOM_GPU"))


@pytest.mark.parametrize("what", sorted(ADDERS))
def test_threads_that_add_at_once_stop_at_the_limit(what):
    resource = what.partition("-")[0]
    before = used("demo")[resource]
    limits = {**UNLIMITED, resource: before + 5}
    answers = together(8, lambda _number: [_tried(ADDERS[what], limits) for _ in range(3)])
    assert [error for each in answers for error in each if not isinstance(error, exceptions.ZunError | None)] == []
    assert sum(each.count(None) for each in answers) == 5
    assert used("demo")[resource] == before + 5
    with session.reader() as connection:
        row = session.first(connection, sa.select(models.quota_locks).where(models.quota_locks.c.project_id == "demo"))
    assert row.get(resource) is None or row[resource] >= before + 5


def _tried(add, limits):
    try:
        add(limits)
    except (exceptions.OverQuota, exceptions.ClaimOverQuota) as exc:
        return exc
    return None


@pytest.mark.parametrize("what", sorted(ADDERS))
def test_what_is_over_the_limit_leaves_nothing(what):
    resource = what.partition("-")[0]
    quotas.set_limits("demo", {resource: 0})
    before = used("demo")
    with pytest.raises(exceptions.ZunError, match=f"{resource}: limit 0, in use"):
        ADDERS[what](UNLIMITED)
    if what != "volumes":  # its container is there and waits for a host
        assert used("demo") == before
    else:
        assert used("demo") == {**before, "containers": 2, "cpu": 2, "memory": 128}


@pytest.mark.parametrize("what", sorted(ADDERS))
def test_what_another_project_has_does_not_count(what):
    resource = what.partition("-")[0]
    before = used("other")
    ADDERS[what](UNLIMITED)
    assert used("other") == before == dict.fromkeys(used("other"), 0)
    assert used("demo")[resource] >= 1


@pytest.mark.parametrize(("limit", "asked", "over"), [
    ({"device:gpu": 3}, gpus(3), None),
    ({"device:gpu": 2}, gpus(3), "device:gpu: limit 2, in use 1, asked for 3 more"),
    ({"device:gpu": 2}, gpus(3, "CUSTOM_GPU"), None),
    ({"device:CUSTOM_GPU": 3}, gpus(3, "CUSTOM_GPU"), "device:CUSTOM_GPU: limit 3, in use 1, asked for 3 more"),
    ({"device:CUSTOM_GPU": 3}, gpus(3), "device:CUSTOM_GPU: limit 3, in use 1, asked for 3 more"),
    ({"device:nic": 0}, gpus(3), None),
    ({}, gpus(3), None),
])
def test_devices_count_by_alias_and_class(limit, asked, over):
    containers.insert(values(placement=gpus()))
    limits = {**UNLIMITED, **{name: most + 1 if over is None else most for name, most in limit.items()}}
    if over is None:
        containers.insert(values(placement=asked), limits)
    else:
        with pytest.raises(exceptions.OverQuota, match=over):
            containers.insert(values(placement=asked), limits)


def test_a_deleted_container_gives_its_devices_back():
    limits = {**UNLIMITED, "device:gpu": 1}
    row = containers.insert(values(placement=gpus()), limits)
    with pytest.raises(exceptions.OverQuota):
        add_device(limits)
    containers.destroy(row["uuid"])
    add_device(limits)


def test_room_that_comes_back_is_given_again():
    limits = {**UNLIMITED, "groups": 1}
    first = groups.insert({**OWNER, "name": "one", "policy": "affinity", "rules": {}}, limits)
    with pytest.raises(exceptions.OverQuota):
        add_group(limits)
    groups.destroy(first["uuid"])
    add_group(limits)


def test_a_pulled_image_is_no_projects():
    images.insert({"project_id": "demo", "host": "h1", "repo": "web", "tag": "1"})
    assert quotas.usage("demo")["images"] == 0


def test_an_expired_terminal_does_not_count():
    now = timeutils.utcnow()
    before = now - datetime.timedelta(seconds=1)
    console_tokens.add("old", TERMINAL["uuid"], None, None, now, before, ("demo", UNLIMITED))
    assert quotas.usage("demo")["terminals"] == 0


def test_a_capsule_counts_its_containers_and_their_sum():
    before = quotas.usage("demo")
    members = [values(kind="init", cpu=4.0), values(kind="member"), values(kind="member")]
    capsules.insert(values(**OWNER, cpu=4.0, memory=128, volume_disk=3), members, (), UNLIMITED)
    after = quotas.usage("demo")
    assert {name: after[name] - before[name] for name in quotas.SIZES} == {
        "containers": 3,
        "memory": 128,
        "cpu": 4,
        "disk": 3,
    }


def test_a_leftover_counts_for_nobody():
    row = container(status="Deleting", exposed_ports={"80/tcp": {}})
    before = quotas.usage("demo")
    containers.abandon(row["uuid"])
    after = quotas.usage("demo")
    assert (before["containers"] - after["containers"], before["ports"] - after["ports"]) == (1, 1)


def test_withheld_cpus_are_charged_when_they_are_claimed():
    row = container()
    with pytest.raises(exceptions.ClaimOverQuota, match="cpu: limit 4, in use 2, asked for 3 more"):
        claimed(row, {**UNLIMITED, "cpu": 4}, withheld=3)
    assert containers.get(row["uuid"]) == row
    claimed(row, {**UNLIMITED, "cpu": 5}, withheld=3)
    assert quotas.usage("demo")["cpu"] == 5
    with pytest.raises(exceptions.OverQuota, match="cpu: limit 5, in use 5, asked for 1 more"):
        containers.insert(values(), {**UNLIMITED, "cpu": 5})


def test_withheld_cpus_of_a_claim_without_limits_count_too():
    claimed(container(), None, withheld=3)
    with pytest.raises(exceptions.OverQuota, match="cpu: limit 5, in use 5, asked for 1 more"):
        containers.insert(values(), {**UNLIMITED, "cpu": 5})


def test_claims_at_once_withhold_no_more_than_the_limit():
    rows = [container() for _ in range(8)]
    limits = {**UNLIMITED, "cpu": 9 + 3 * 2 + 1}
    answers = together(8, lambda number: claimed(rows[number], limits, withheld=3))
    assert sum(isinstance(each, exceptions.ClaimOverQuota) for each in answers) == 6
    assert quotas.usage("demo")["cpu"] == 9 + 3 * 2


@pytest.mark.parametrize(
    ("cpu", "withheld", "fits"),
    [(1.0, 5, True), (1.0, 6, False), (2.0, 4, True), (2.0, 5, False), (1.0, 0, True), (6.0, 0, True), (7.0, 0, False)],
)
def test_a_resize_is_charged_for_what_it_withholds(cpu, withheld, fits):
    row = container()
    claimed(row, UNLIMITED, withheld=3)
    limits = {**UNLIMITED, "cpu": 7}
    change = {"cpu": cpu, "withheld_cpu": withheld}
    if fits:
        containers.change_claim(row["uuid"], "h1", change, limits)
        assert quotas.usage("demo")["cpu"] == 1 + cpu + withheld
    else:
        with pytest.raises(exceptions.OverQuota):
            containers.change_claim(row["uuid"], "h1", change, limits)
        assert quotas.usage("demo")["cpu"] == 5


def test_cpus_that_come_online_are_counted_whatever_the_limit():
    row, limits = container(), {**UNLIMITED, "cpu": 6}
    claimed(row, limits, withheld=3)
    containers.change_claim(row["uuid"], "h1", {"withheld_cpu": 5})
    assert quotas.usage("demo")["cpu"] == 7
    with pytest.raises(exceptions.OverQuota, match="in use 7"):
        containers.insert(values(), limits)


def test_a_volume_that_is_there_is_not_charged_again():
    held_volume("demo", "data", "h1")
    limits = {**UNLIMITED, "volumes": 1}
    claimed(container(), limits, names=["data"])
    with pytest.raises(exceptions.ClaimOverQuota, match="volumes: limit 1, in use 1, asked for 1 more"):
        claimed(container(), limits, names=["data", "more"])
    assert volumes.hosts("demo", ["data", "more"]) == {"data": "h1"}


def test_a_plain_create_sends_as_many_statements_as_before():
    sent = []

    def note(connection, cursor, statement, parameters, context, many):
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    limits = dict.fromkeys(quotas.RESOURCES, 1000)
    containers.insert(values(), limits)
    engine = session.engine()
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        containers.insert(values(), limits)
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
    # lock, limits, ceiling, row, read back
    assert len(sent) == 5, sent
