# SPDX-License-Identifier: Apache-2.0
"""A request that names no disk, where the runtime limits disks and where it does not."""

from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.container.fake import DEFAULT_FACTS, InMemoryDriver
from zun.db import containers as db
from zun.db import quotas
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.capsules import member, settled, submit
from zun.tests.functional.cloud import Cloud, machine


class LimitingCloud(Cloud):
    """Its host ``limiting`` has 25 GiB of disk and a runtime that limits disks; others have neither."""

    def start_agent(self, name):
        if name == "limiting" and name not in self.drivers:
            self.drivers[name] = InMemoryDriver(replace(DEFAULT_FACTS, disk_total_gib=25, disk_quota_supported=True))
        return super().start_agent(name)


@pytest.fixture
def cloud(database, request):
    made = LimitingCloud({"limiting": machine(), "other": machine()}, **getattr(request, "param", {}))
    yield made
    made.stop()


def at(host):
    return {"run": True, "host": host}


def promised(cloud, host):
    return dict(cloud.agents[host].tracker._disks)


def test_it_is_claimed_written_limited_told_and_counted(cloud, context):
    told = []
    cloud.drivers["limiting"].before("create", lambda each: told.append(each.disk))
    first = cloud.run(context, request=at("limiting"))
    second = cloud.run(context, request=at("limiting"), disk=2, volume_disk=1)
    assert [(each.status, each.disk) for each in (first, second)] == [("Running", 10), ("Running", 2)]
    assert told == [10, 2]
    assert promised(cloud, "limiting") == {first.uuid: 10, second.uuid: 3}
    wait_for(lambda: cloud.scheduler.table.host("limiting").disk_used == 13)
    assert quotas.usage("demo")["disk"] == 13
    cloud.stop_agent("limiting")
    cloud.start_agent("limiting")
    assert promised(cloud, "limiting") == {first.uuid: 10, second.uuid: 3}


def test_elsewhere_it_has_none(cloud, context):
    container = cloud.run(context, request=at("other"))
    assert (container.status, container.disk, promised(cloud, "other")) == ("Running", 0, {container.uuid: 0})


@pytest.mark.parametrize("cloud", [{"default_disk": 0}], indirect=True)
def test_a_default_of_nothing_is_none(cloud, context):
    container = cloud.run(context, request=at("limiting"))
    assert (container.status, container.disk) == ("Running", 0)


def test_a_capsule_gets_no_default_disk(cloud, context):
    row, members = settled(cloud, submit(cloud, context, member(1.0), request=at("limiting")), "Running")
    assert [each["disk"] for each in (row, *members)] == [0, 0]
    assert promised(cloud, "limiting") == {row["uuid"]: 0}


def test_the_next_host_after_a_refusal_does_as_it_does(cloud, context, monkeypatch):
    sent, api = [], cloud.agents["limiting"]._scheduler_api
    send = api.claim_refused

    def refused(ctx, container, **more):
        sent.append((container.disk, "disk" in container.obj_what_changed()))
        send(ctx, container, **more)

    monkeypatch.setattr(api, "claim_refused", refused)
    cloud.run(context, request=at("limiting"), disk=16)
    container = new_container(context)
    cloud.compute_api.create(context, "limiting", container, limits={}, alternates=[], tried={})
    after = cloud.settled(container)
    assert (after.status, after.host, after.disk) == ("Running", "other", 0)
    assert sent == [(0, False)]
    assert container.uuid not in promised(cloud, "limiting") and promised(cloud, "other") == {container.uuid: 0}
    assert quotas.usage("demo")["disk"] == 16
    alone = cloud.run(context, request=at("limiting"))
    assert alone.status == "Error" and "free disk 9 GiB < requested 10 GiB" in alone.status_reason
    assert (alone.host, alone.disk) == (None, 0)


def test_claim_refused_at_commit_gets_no_default_disk(cloud, context, monkeypatch):
    real = db.claim_many

    def refuse(*arguments):
        monkeypatch.setattr(db, "claim_many", real)
        return [exceptions.GroupRuleBroken(host="limiting", reason="a member is there")]

    monkeypatch.setattr(db, "claim_many", refuse)
    container = new_container(context)
    cloud.compute_api.create(context, "limiting", container, limits={}, alternates=[], tried={})
    after = cloud.settled(container)
    assert (after.host, after.disk, promised(cloud, "limiting")) == ("other", 0, {})
