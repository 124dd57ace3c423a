# SPDX-License-Identifier: Apache-2.0
"""Hosts of a disk pool together never promise more than the pool has, whatever happens at once."""

import pytest

from zun.common import exceptions
from zun.db import aggregates, containers
from zun.tests.unit.db.rows import CPUSET, container, node, together

pytestmark = pytest.mark.usefixtures("database")

HOSTS = ("h1", "h2", "h3", "h4")


@pytest.fixture
def pool(database):
    """A pool of 20 GiB with four hosts; gives its uuid."""
    uuid = aggregates.insert("ceph", {"disk_pool_gb": "20"})["uuid"]
    for host in HOSTS:
        node(host)
        aggregates.add_host(uuid, host)
    return uuid


def claim(row, host, pool, **values):
    disk = values.get("disk", row["disk"] + row["volume_disk"])
    return containers.claim(row["uuid"], host, {"cpuset": CPUSET, **values}, disk_pool=(pool, disk))


def test_claims_share_the_pool(pool):
    claim(container(disk=8, volume_disk=4), "h1", pool)
    with pytest.raises(exceptions.ClaimRefused, match="disk pool ceph has 8 GiB of disk left of the 9 that are wanted"):
        claim(container(disk=9), "h2", pool)
    last = container(disk=8)
    claim(last, "h2", pool)
    claim(last, "h2", pool)  # its own earlier claim does not count
    claim(container(disk=0), "h3", pool)
    assert sum(containers.disk_holders(HOSTS).values()) == 20
    assert containers.disk_holders(["h2"]) == {last["uuid"]: 8}
    containers.destroy(last["uuid"])
    claim(container(disk=8), "h4", pool)


def test_disk_that_the_claim_adds_counts(pool):
    claim(container(disk=0), "h1", pool, disk=19)
    with pytest.raises(exceptions.ClaimRefused, match="1 GiB of disk left of the 2"):
        claim(container(disk=0), "h2", pool, disk=2)


def test_other_hosts_and_capsule_members_do_not_count(pool):
    node("h9")
    containers.claim(container(disk=100)["uuid"], "h9", {"cpuset": CPUSET})
    claim(container(disk=0, kind="capsule"), "h1", pool)
    member = container(disk=15, capsule_uuid="some-capsule")
    containers.update(member["uuid"], {"host": "h1", "cpuset": CPUSET})
    claim(container(disk=20), "h1", pool)


@pytest.mark.parametrize(
    "change",
    [
        lambda pool: aggregates.remove_host(pool, "h1"),
        lambda pool: aggregates.update(pool, metadata={"disk_pool_gb": None}),
    ],
    ids=["host-left", "no-pool-any-more"],
)
def test_claim_from_a_former_pool_is_refused(pool, change):
    change(pool)
    with pytest.raises(exceptions.ClaimRefused, match="its disk pool was changed during the claim"):
        claim(container(disk=1), "h1", pool)


@pytest.mark.parametrize("quota", [None, {"disk": 1000, "cpu": 1000, "memory": 100000, "containers": 1000}])
def test_claims_at_once_never_exceed_the_pool(pool, quota):
    """Also where a claim has read the database for its project before, which fixes what MariaDB shows to it."""
    rows = [container(disk=3) for _ in range(16)]
    both = quota is not None

    def attempt(number):
        values = {"cpuset": CPUSET}
        volumes = ("demo", [f"volume-{number}"]) if both else ("", ())
        return containers.claim(
            rows[number]["uuid"], HOSTS[number % 4], values,
            volumes=volumes, withheld=1 if both else 0, quota=quota, disk_pool=(pool, 3),
        )  # fmt: skip

    answers = together(16, attempt)
    refused = [each for each in answers if isinstance(each, exceptions.ClaimRefused)]
    assert len(refused) == 10 and sum(isinstance(each, containers.Claimed) for each in answers) == 6, answers
    assert sum(containers.disk_holders(HOSTS).values()) == 18
