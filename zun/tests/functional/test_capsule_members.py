# SPDX-License-Identifier: Apache-2.0
"""Capsules whose containers differ, from the template to the runtime: one plan, each container on its part of it."""

from dataclasses import replace

import pytest

from zun.common.context import admin_context
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, PageStock
from zun.db import capsules as db_capsules
from zun.db import compute_nodes
from zun.db import containers as db_containers
from zun.tests.fixtures import wait_for
from zun.tests.functional.capsules import settled
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.over_api import OPTIONS, administrator_of
from zun.topology import CpuSet, Plan
from zun.topology.devices import Device

CARDS = tuple(
    Device(f"0000:0{n}:00.0", vendor_id="10de", product_id="1", cell=n // 2, path=("root", "port", switch, "down"))
    for n, switch in enumerate("abbb")
)
ALIAS = '{"name": "gpu", "vendor_id": "10de"}'


@pytest.fixture
def cloud(database):
    """One host of two cells, each with four CPUs, 4096 MiB, 16 pages of 2 MiB and two cards."""
    bare = machine()
    paged = replace(bare, cells=tuple(replace(cell, pages={2048: 16}) for cell in bare.cells), devices=CARDS)
    options = {"compute__sync_container_state_interval": 3600, "compute__huge_page_base_memory": 100, **OPTIONS}
    options |= {"devices__alias": [ALIAS], "devices__device_spec": ['{"vendor_id": "10de"}']}
    with Cloud({"one": paged}, **options) as made:
        made.drivers["one"].kernel.page_stock.update({node: {2048: PageStock(16, 16)} for node in range(2)})
        yield made


def box(cpu, memory=64, **fields):
    return {"image": "demo", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **fields}


def dedicated(cpu, memory=64, devices=(), **placement):
    asked = {"devices": list(devices)} if devices else {}
    return box(cpu, memory, placement={"cpu_policy": "dedicated", **placement}, **asked)


def mixed(cpu, own, memory=64):
    return box(cpu, memory, placement={"cpu_policy": "mixed", "dedicated_cpus": own})


def create(cloud, *containers, **spec):
    template = {"kind": "capsule", "metadata": {"name": "pod"}, "spec": {"containers": list(containers), **spec}}
    reply = administrator_of(cloud).post("/v1/capsules", {"template": template})
    assert reply.status == 202, reply.body
    return reply.json["uuid"]


def running(cloud, *containers, **spec):
    row, members = settled(cloud, create(cloud, *containers, **spec), "Running", "Error")
    assert row["status"] == "Running", row["status_reason"]
    return row, members


def there(cloud, row):
    return cloud.drivers["one"].runtime.objects[row["uuid"]]


def cpus(cloud, row):
    return CpuSet(there(cloud, row).cpuset_cpus)


def findings(cloud):
    return cloud.compute_api.audit(admin_context(), "one", repair=False)["findings"]


def test_dedicated_mixed_and_shared_side_by_side(cloud):
    row, (one, two, three) = running(cloud, dedicated(1), mixed(1.5, 1), box(0.5))
    own, some, pool = (cpus(cloud, each) for each in (one, two, three))
    assert (str(own), there(cloud, two).dedicated_cpus) == ("0", "1")
    assert pool == CpuSet("2-3") and some == CpuSet("1") | pool and not pool & own
    assert cpus(cloud, row) == CpuSet("0-3")  # the sandbox
    assert [each["cpu_policy"] for each in (row, one, two, three)] == ["mixed", "dedicated", "mixed", "shared"]
    assert (row["cpu"], row["memory"]) == (3.0, 192)
    assert cloud.agents["one"].tracker.usage.owners == (row["uuid"],)
    assert compute_nodes.usage()["one"] == compute_nodes.HostUsage(1, 3.0, 192, 0)
    cloud.scheduler.table.refresh()
    host = cloud.scheduler.table.host("one")
    assert host.usage.totals == cloud.agents["one"].tracker.usage.totals
    assert (host.room.dedicated_cpus, host.room.shared_room) == (6, 95_000_000)  # 16 for each CPU of the pool
    assert findings(cloud) == []


def test_pool_part_is_narrowed_when_others_take_cpus(cloud, context):
    row, (one, two) = running(cloud, dedicated(1), box(0.5))
    assert cpus(cloud, two) == CpuSet("1-3")
    other = cloud.run(context, cpu_policy="dedicated", cpu=2.0)
    taken = CpuSet(other.cpuset["cpuset_cpus"])
    assert taken and not taken & cpus(cloud, two) and cpus(cloud, one) == CpuSet("0")
    assert not taken & cpus(cloud, row)
    assert findings(cloud) == []


def test_huge_pages_are_mounted_for_one_member(cloud):
    row, (one, two) = running(cloud, dedicated(1, 16, mem_page_size=2048), dedicated(1, 64))
    pages = there(cloud, one)
    (mount,) = pages.mounts
    assert (mount.kind, mount.target, mount.size_bytes) == ("hugetlbfs", HUGE_PAGES_TARGET, 16 << 20)
    assert (pages.memory, pages.page_limits[2048]) == (100, 16 << 20)
    for each in (row, two):
        assert not [mount for mount in there(cloud, each).mounts if mount.kind == "hugetlbfs"]
    assert (there(cloud, two).memory, there(cloud, two).page_limits[2048]) == (64, 0)
    assert (there(cloud, row).memory, there(cloud, row).page_limits[2048]) == (80, 0)
    free = cloud.agents["one"].tracker.usage.free(cloud.agents["one"].tracker.topology)[0]
    assert (free.memory_mib, free.pages) == (4096 - 32 - 64, {2048: 8})
    cloud.drivers["one"].kernel.huge_pages[one["uuid"]] = {0: {2048: 8}}
    cloud.drivers["one"].kernel.page_stock[0] = {2048: PageStock(16, 8)}
    assert findings(cloud) == []  # they are its own


@pytest.mark.parametrize(("same", "expected"), [
    (None, [["0000:00:00.0"], ["0000:01:00.0"]]),
    ("switch", [["0000:01:00.0"], ["0000:02:00.0"]]),
])
def test_devices_of_members_under_one_switch(cloud, same, expected):
    gpu = [{"alias": "gpu"}]
    spec = {"placement": {"same": same}} if same else {}
    row, members = running(cloud, dedicated(1, devices=gpu), dedicated(1, devices=gpu), **spec)
    assert [[each.address for each in there(cloud, member).devices] for member in members] == expected
    assert there(cloud, row).devices == ()


def test_followers_share_the_place_of_spec_placement(cloud):
    """With a sidecar; the init container runs on what the sidecar leaves of their place."""
    begin = [box(1, restartPolicy="Always"), box(2, command=["true"])]
    uuid = create(
        cloud, box(1), dedicated(1, cpu_thread_policy="isolate"), box(1),
        initContainers=begin, placement={"cpu_policy": "dedicated", "same": "cell"},
    )
    sidecar, init, first, own, other = db_capsules.members([uuid])[uuid]
    wait_for(lambda: cloud.drivers["one"].runtime.objects.get(init["uuid"]))
    cloud.drivers["one"].exit(init["uuid"], 0)
    row, _ = settled(cloud, uuid, "Running")
    plan = Plan.from_dict(row["cpuset"])
    alone, group = (part.cpus for part in plan.parts)
    assert (len(alone), len(group), plan.cpu_cells) == (1, 3, (0,))
    assert cpus(cloud, own) == alone and cpus(cloud, init) == group - cpus(cloud, sidecar)
    assert group == cpus(cloud, sidecar) | cpus(cloud, first) | cpus(cloud, other)
    assert findings(cloud) == []


def test_a_refusal_is_one_for_the_whole_capsule(cloud):
    uuid = create(cloud, dedicated(3), dedicated(3), placement={"same": "cell"})
    row, members = settled(cloud, uuid, "Error")
    assert "Nearest miss: the containers fit, but not with all dedicated CPUs in one cell." in row["status_reason"]
    assert "without spec.placement.same would fit now" in row["status_reason"]
    assert {each["status"] for each in members} == {"Error"} and row["cpuset"] is None
    uuid = create(cloud, dedicated(3), dedicated(5))
    row, members = settled(cloud, uuid, "Error")
    assert f" for {members[1]['name']}: no cell has 5 CPUs free" in row["status_reason"]
    uuid = create(cloud, box(1, 8000), box(1, 8000), dedicated(1))
    row, members = settled(cloud, uuid, "Error")
    assert f" for {members[0]['name']} and 1 more: " in row["status_reason"]


def test_agent_and_hosts_go_on_after_a_restart(cloud):
    row, members = running(cloud, dedicated(1, 16, mem_page_size=2048), mixed(1.5, 1), box(0.5))
    before = cloud.agents["one"].tracker.usage.totals
    where = [cpus(cloud, each) for each in (row, *members)]
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert cloud.agents["one"].tracker.usage.totals == before
    assert findings(cloud) == []
    assert [cpus(cloud, each) for each in (row, *members)] == where
    topology = administrator_of(cloud).get("/v1/hosts").json["hosts"][0]
    shown = administrator_of(cloud).get(f"/v1/hosts/{topology['uuid']}/topology").json
    (claim,) = shown["claims"]
    assert (claim["cpu_policy"], claim["cpuset_dedicated"], claim["pages"]) == ("mixed", "0-1", {"0": {"2048": 8}})
    administrator_of(cloud).delete(f"/v1/capsules/{row['uuid']}")
    wait_for(lambda: not db_capsules.members([row["uuid"]])[row["uuid"]])
    assert wait_for(lambda: len(cloud.agents["one"].tracker.usage) == 0)


def resize(cloud, row, **size):
    """Resize a container of a capsule as its project does, and return the reply."""
    query = "&".join(f"{name}={value}" for name, value in size.items())
    return administrator_of(cloud).at("1.51").patch(f"/v1/containers/{row['uuid']}?{query}")


def test_mixed_member_is_resized_within_its_part(cloud):
    """Its own CPUs stay, because its programs have been told. The claim of the capsule stays as well."""
    row, (one, _) = running(cloud, mixed(2.5, 1), box(0.5))
    claim, before = db_containers.get(row["uuid"])["cpuset"], there(cloud, one)
    own, everything = before.dedicated_cpus, before.cpuset_cpus
    for cpu, memory in ((1.25, 32), (2.5, 64)):
        assert resize(cloud, one, cpu=cpu, memory=memory).status == 200
        now, made = db_containers.get(one["uuid"]), there(cloud, one)
        assert (now["cpu"], now["memory"], now["cpuset"]["cpuset_dedicated"]) == (cpu, memory, own)
        (share,) = Plan.from_dict(now["cpuset"]).cells.values()
        assert (share.shared, share.memory_mib, str(share.cpus)) == (cpu - 1, memory, own)
        assert (made.cpu, made.memory, made.dedicated_cpus, made.cpuset_cpus) == (cpu, memory, own, everything)
        assert findings(cloud) == []
    assert db_containers.get(row["uuid"])["cpuset"] == claim
    for size, status, said in (
        ({"cpu": 3}, 409, "can have 2.5 CPUs and 64 MiB at most"),
        ({"cpu": 1}, 400, "needs more than 1 in all"),
    ):
        reply = resize(cloud, one, **size)
        assert reply.status == status and said in reply.error["detail"], reply.body
    assert db_containers.get(one["uuid"])["cpu"] == 2.5 and there(cloud, one).cpu == 2.5


def test_member_with_huge_pages_is_resized_within_its_part(cloud):
    _, (one, _) = running(cloud, dedicated(2, 16, mem_page_size=2048), dedicated(1, 64))
    own = cpus(cloud, one)
    for cpu, memory, pages in ((1, 8, 4), (2, 16, 8)):
        assert resize(cloud, one, cpu=cpu, memory=memory).status == 200
        now, made = db_containers.get(one["uuid"]), there(cloud, one)
        assert [each["pages"] for each in now["cpuset"]["cells"]] == [{"2048": pages}]
        assert made.page_limits[2048] == pages * 2 << 20 and made.memory == 100
        assert len(cpus(cloud, one)) == cpu and cpus(cloud, one) <= own
        assert findings(cloud) == []
    assert resize(cloud, one, memory=18).status == 409
    cloud.drivers["one"].kernel.huge_pages[one["uuid"]] = {0: {2048: 8}}
    reply = resize(cloud, one, memory=8)
    assert reply.status == 409 and "more huge pages" in reply.error["detail"]
    assert there(cloud, one).page_limits[2048] == 16 << 20 and db_containers.get(one["uuid"])["memory"] == 16


def test_half_a_cpu_of_its_own_is_refused(cloud):
    _, (one, _) = running(cloud, dedicated(2), box(0.5))
    reply = resize(cloud, one, cpu=1.5)
    assert reply.status == 400 and "whole number" in reply.error["detail"]
