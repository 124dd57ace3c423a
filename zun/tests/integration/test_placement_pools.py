# SPDX-License-Identifier: Apache-2.0
"""Agents whose hosts share disk beside a real Placement: the pool is a provider that all of them keep."""

import contextlib
import uuid

import pytest

from zun.db import aggregates
from zun.placement import reporter
from zun.placement.allocations import Holding, pool_uuid, root_uuid
from zun.placement.tree import Inventory, Provider
from zun.tests.fixtures import wait_for
from zun.tests.integration.beside_placement import CONTEXT, DEDICATED, With, equal, others


@pytest.fixture
def names():
    return [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("h1", "h2")]


@pytest.fixture
def cloud(database, placement_url, names, monkeypatch):
    """Makes the cloud of hosts of fresh names in a mode. They sweep all the time, so that tests need not wait."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 0.2)
    monkeypatch.setattr(reporter, "RETRY_SECONDS", 0.2)
    with contextlib.ExitStack() as running:

        def make(mode="report", hosts=1, url=placement_url, **options):
            made = With(names[:hosts], mode, url, options)
            running.callback(made.cloud.stop)
            return made

        yield make


@pytest.fixture
def pool(database, placement_client):
    """Makes an aggregate that is a disk pool with these hosts; gives its uuid."""

    def make(hosts, gib=20):
        uuid_ = aggregates.insert(f"pool-{uuid.uuid4().hex[:8]}", {"disk_pool_gb": str(gib)})["uuid"]
        for host in hosts:
            aggregates.add_host(uuid_, host)
        return uuid_

    return make


def shared(client, pool):
    """The provider of a disk pool as Placement has it, or None."""
    node = next(iter(client.nodes(pool_uuid(pool))), None)
    return None if node is None else client.provider(node)


def own_disk(client, host):
    return "DISK_GB" in client.provider(next(iter(client.nodes(root_uuid(host))))).inventories


def ready(client, pool, hosts, gib=20):
    """Whether Placement has the pool with its size, and no disk of the hosts themselves."""
    found = shared(client, pool)
    return (
        found is not None
        and found.inventories == {"DISK_GB": Inventory(gib)}
        and found.aggregates == {pool}
        and not any(own_disk(client, host) for host in hosts)
    )


@pytest.mark.parametrize("mode", ["report", "enforce"])
def test_disk_pool_is_a_sharing_provider(cloud, placement_client, names, pool, mode):
    made = cloud(mode, hosts=2)
    before = [made.run(cpu=1.0, disk=3, **DEDICATED) for _ in range(2)]
    wait_for(lambda: equal(placement_client, names))
    uuid_ = pool(names)
    wait_for(lambda: ready(placement_client, uuid_, names) and equal(placement_client, names))
    found = shared(placement_client, uuid_)
    assert (found.name, found.traits) == (f"DISK_POOL_{uuid_}", {"MISC_SHARES_VIA_AGGREGATE"})
    made.run(cpu=1.0, disk=4, **DEDICATED)
    wait_for(lambda: equal(placement_client, names))
    taken = placement_client.allocated(pool_uuid(uuid_))
    assert sorted(each["DISK_GB"] for each in taken.values()) == [3, 3, 4]
    refused = made.run(cpu=1.0, disk=11, **DEDICATED)
    assert "has 10 GiB of disk left of the 11" in refused.status_reason
    made.cloud.compute_api.delete(CONTEXT, made.cloud.settled(before[0]), force=True)
    made.cloud.gone(before[0])
    wait_for(lambda: equal(placement_client, names))
    assert len(placement_client.allocated(pool_uuid(uuid_))) == 2


def test_pool_follows_its_aggregate(cloud, placement_client, names, pool):
    """It grows, loses a host, holds more than its size, and goes with its last host."""
    made = cloud(hosts=2)
    uuid_ = pool(names)
    wait_for(lambda: ready(placement_client, uuid_, names))
    there = [made.run(cpu=1.0, disk=6, **DEDICATED) for _ in range(3)]
    assert {each.host for each in there} == set(names)
    aggregates.update(uuid_, metadata={"disk_pool_gb": "30"})
    wait_for(lambda: ready(placement_client, uuid_, names, 30) and equal(placement_client, names))
    aggregates.update(uuid_, metadata={"disk_pool_gb": "5"})
    wait_for(lambda: ready(placement_client, uuid_, names, 18))  # what they hold
    aggregates.remove_host(uuid_, names[0])
    wait_for(lambda: own_disk(placement_client, names[0]) and equal(placement_client, names))
    assert not own_disk(placement_client, names[1])
    aggregates.update(uuid_, metadata={"disk_pool_gb": None})
    wait_for(lambda: own_disk(placement_client, names[1]) and equal(placement_client, names))
    wait_for(lambda: shared(placement_client, uuid_) is None)


def test_leftover_of_a_pool_goes_and_others_stay(cloud, placement_client, names, pool):
    made = cloud(hosts=2)
    uuid_ = pool(names)
    wait_for(lambda: ready(placement_client, uuid_, names))
    containers = [made.run(cpu=1.0, disk=2, **DEDICATED) for _ in range(4)]
    wait_for(lambda: equal(placement_client, names))
    provider = pool_uuid(uuid_)
    leftover = str(uuid.uuid4())
    placement_client.allocate(leftover, Holding({provider: {"DISK_GB": 1}}, "p", "u"), None)
    other = others(placement_client, provider=provider, DISK_GB=1)
    elsewhere = Provider(str(uuid.uuid4()), f"elsewhere-{names[0]}")  # a host that is in no database here
    placement_client.set_inventories(elsewhere.uuid, placement_client.create(elsewhere), {"VCPU": Inventory(4)})
    claiming = str(uuid.uuid4())
    both = Holding({provider: {"DISK_GB": 1}, elsewhere.uuid: {"VCPU": 1}}, "p", "u")
    placement_client.allocate(claiming, both, None)
    wait_for(lambda: leftover not in placement_client.allocated(provider))
    expected = {*(each.uuid for each in containers), other, claiming}
    for host in names:
        made.restart(host)
    wait_for(lambda: equal(placement_client, names))
    assert placement_client.allocated(provider).keys() == expected


def test_audit_covers_the_pool(cloud, database, program, placement_client, placement_url, names, pool):
    made = cloud(hosts=2)
    uuid_ = pool(names)
    wait_for(lambda: ready(placement_client, uuid_, names))
    containers = [made.run(cpu=1.0, disk=2, **DEDICATED) for _ in range(2)]
    wait_for(lambda: equal(placement_client, names))
    for host in names:
        made.cloud.stop_agent(host)
    settings = {"auth_type": "admin_token", "endpoint": placement_url, "token": "admin"}

    def command(action):
        each = program("db_manage", action, ("placement", action),
                       database={"connection": database}, placement=settings)  # fmt: skip
        return each.run_to_end()

    assert command("audit") == (0, "Placement has what the containers hold\n")
    leftover = str(uuid.uuid4())
    placement_client.allocate(leftover, Holding({pool_uuid(uuid_): {"DISK_GB": 1}}, "p", "u"), None)
    seen = placement_client.consumer(containers[0].uuid)
    less = {provider: taken for provider, taken in seen.allocations.items() if provider != pool_uuid(uuid_)}
    placement_client.allocate(containers[0].uuid, Holding(less, "demo", "alice"), seen.generation)
    code, said = command("audit")
    assert code == 1 and said.count(leftover) == 1 and containers[0].uuid in said and "2 differences" in said
    assert command("heal")[0] == 0 and equal(placement_client, names)
    assert leftover not in placement_client.allocated(pool_uuid(uuid_))
