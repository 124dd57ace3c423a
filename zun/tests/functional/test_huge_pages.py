# SPDX-License-Identifier: Apache-2.0
"""Huge pages of containers from the claim to the runtime: limits, mount, ordinary memory, and the audit's findings."""

import logging
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.audit import auditor
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, PageStock
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.topology import HostTopology

MIB = 1 << 20
PAGED = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 16, "placement": {"mem_page_size": 2048}}
NONE = {2048: 0, 1048576: 0}
HELD = {2048: 16 * MIB, 1048576: 0}


def paged_machine() -> HostTopology:
    bare = machine()
    return replace(bare, cells=tuple(replace(cell, pages={2048: 16}) for cell in bare.cells))


@pytest.fixture
def cloud(database):
    cloud = Cloud({"one": paged_machine()}, compute__audit_interval=0, compute__huge_page_base_memory=100)
    cloud.drivers["one"].kernel.page_stock.update(stock(16, 16))
    yield cloud
    cloud.stop()


@pytest.fixture
def paged(cloud, context):
    return cloud.run(context, **PAGED)


def stock(*free):
    return {node: {2048: PageStock(16, count)} for node, count in enumerate(free)}


def limits(driver, container):
    return driver.runtime.objects[container.uuid].page_limits


def told(cloud, context, repair=False):
    found = cloud.compute_api.audit(context, "one", repair=repair)["findings"]
    return [(each["container"], each["code"], each["layer"], each["repaired"]) for each in found]


def test_container_has_its_pages_and_little_else(cloud, context, driver, paged):
    assert paged.status == "Running", paged.status_reason
    found = driver.runtime.objects[paged.uuid]
    assert (found.memory, found.page_limits) == (100, HELD)
    mount, _ = found.mounts  # and the file with its CPUs
    assert (mount.kind, mount.target, mount.page_kib, mount.size_bytes) == (
        "hugetlbfs", HUGE_PAGES_TARGET, 2048, 16 * MIB,
    )  # fmt: skip
    assert told(cloud, context) == []


@pytest.mark.parametrize("policy", ["dedicated", "shared"])
def test_other_containers_have_no_huge_pages(cloud, context, driver, policy):
    container = cloud.run(context, cpu_policy=policy, cpu=1.0, memory=64)
    found = driver.runtime.objects[container.uuid]
    assert (found.memory, found.page_limits) == (64, NONE)
    assert not [each for each in found.mounts if each.kind == "hugetlbfs"]
    assert told(cloud, context) == []


@pytest.mark.parametrize("again", ["reboot", "stop and start", "rebuild"])
def test_a_new_process_has_the_limits(cloud, context, driver, paged, again):
    if again == "reboot":
        cloud.accept_reboot(paged)
        cloud.compute_api.reboot(context, paged)
    elif again == "rebuild":
        db.update(paged.uuid, {"status": "Rebuilding", "request": {"run": True}})
        cloud.compute_api.rebuild(context, paged)
    else:
        cloud.compute_api.stop(context, paged)
        wait_for(lambda: db.get(paged.uuid)["status"] == "Stopped")
        cloud.compute_api.start(context, cloud.settled(paged))
    wait_for(lambda: db.get(paged.uuid)["status"] == "Running")
    assert cloud.settled(paged).status_reason is None
    assert (limits(driver, paged), driver.runtime.objects[paged.uuid].memory) == (HELD, 100)


@pytest.mark.parametrize("fields", [PAGED, {"cpu": 1.0, "memory": 64}])
def test_restart_by_the_runtime_is_limited_again(cloud, context, driver, fields):
    container = cloud.run(context, **fields, restart_policy={"Name": "always"})
    before = limits(driver, container)
    driver.exit(container.uuid, 1)
    wait_for(lambda: limits(driver, container) == before)


def test_restart_that_took_pages_of_others_is_ended(cloud, context, driver):
    container = cloud.run(context, cpu=1.0, memory=64, restart_policy={"Name": "always"})
    driver.kernel.huge_pages[container.uuid] = {0: {2048: 1}}
    driver.exit(container.uuid, 1)
    wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
    assert "more huge pages" in db.get(container.uuid)["status_reason"]


def test_start_that_took_pages_of_others_fails(cloud, context, driver, paged):
    cloud.compute_api.stop(context, paged)
    wait_for(lambda: db.get(paged.uuid)["status"] == "Stopped")
    driver.kernel.huge_pages[paged.uuid] = {0: {2048: 9}}
    cloud.compute_api.start(context, cloud.settled(paged))
    wait_for(lambda: db.get(paged.uuid)["status"] == "Error")
    reason = db.get(paged.uuid)["status_reason"]
    assert reason.startswith("The kernel does not agree with the plan") and "more huge pages" in reason
    assert driver.show(paged).pid == 0


def test_running_containers_are_limited_when_the_agent_starts(cloud, context, driver, paged):
    shared = cloud.run(context, cpu=1.0, memory=64)
    cloud.stop_agent("one")
    for container in (paged, shared):
        driver.runtime.objects[container.uuid].page_limits = None
    driver.runtime.objects[paged.uuid].memory = paged.memory  # as releases before huge pages were limited made it
    cloud.start_agent("one")
    assert (limits(driver, paged), limits(driver, shared)) == (HELD, NONE)
    assert driver.show(paged).memory == paged.memory  # less could end the program
    assert told(cloud, context) == [(paged.uuid, "drifted", "limit", False)]
    assert told(cloud, context, repair=True) == [(paged.uuid, "drifted", "limit", True)]
    assert driver.show(paged).memory == 100


@pytest.mark.parametrize(("memory", "pages"), [(24, 12), (8, 4)])
def test_resize_moves_the_limit(cloud, context, driver, paged, memory, pages):
    now = cloud.compute_api.update(context, paged, memory=memory)
    assert now.cpuset["cells"][0]["pages"] == {"2048": pages}
    assert limits(driver, paged) == {2048: memory * MIB, 1048576: 0}
    assert (driver.show(paged).memory, told(cloud, context)) == (100, [])


def test_resize_below_the_use_changes_nothing(cloud, context, driver, paged):
    driver.kernel.huge_pages[paged.uuid] = {0: {2048: 8}}
    with pytest.raises(exceptions.Conflict, match="more huge pages"):
        cloud.compute_api.update(context, paged, memory=8)
    assert limits(driver, paged) == HELD
    assert (db.get(paged.uuid)["memory"], told(cloud, context)) == (16, [])


def test_change_of_the_policy_moves_the_memory(cloud, context, driver, paged):
    cloud.compute_api.update(context, paged, cpu_policy="shared")
    assert (limits(driver, paged), driver.show(paged).memory) == (NONE, 16)
    cloud.compute_api.update(context, paged, cpu_policy="dedicated")
    assert (limits(driver, paged), driver.show(paged).memory) == (HELD, 100)


def test_audit_repairs_a_limit(cloud, context, driver, paged):
    driver.runtime.objects[paged.uuid].page_limits = None
    assert told(cloud, context) == [(paged.uuid, "drifted", "limit", False)]
    assert told(cloud, context, repair=True) == [(paged.uuid, "drifted", "limit", True)]
    assert (limits(driver, paged), told(cloud, context)) == (HELD, [])


def test_audit_reports_a_missing_mount(cloud, context, driver, paged):
    driver.runtime.objects[paged.uuid].mounts = ()
    assert told(cloud, context, repair=True) == [(paged.uuid, "drifted", "pages", False)]


def test_audit_reports_pages_of_other_cells(cloud, context, driver, paged):
    home = int(paged.cpuset["cpuset_mems"])
    driver.kernel.huge_pages[paged.uuid] = {1 - home: {2048: 8}}
    assert told(cloud, context) == [(paged.uuid, "remote-pages", "pages", False)]


def test_audit_reports_strangers_on_booked_pages(cloud, context, driver, paged):
    home = int(paged.cpuset["cpuset_mems"])
    free = [16, 16]
    free[home] = 7
    driver.kernel.page_stock.update(stock(*free))
    assert told(cloud, context) == [(paged.uuid, "foreign", "pages", False)]
    driver.kernel.huge_pages[paged.uuid] = {home: {2048: 1}}
    assert told(cloud, context) == []


def test_start_counts_pages_of_containers_as_theirs(cloud, context, driver, paged, caplog):
    """The agent's own containers use the pages: no program of the host does."""
    free = [16, 16]
    free[int(paged.cpuset["cpuset_mems"])] -= 8
    driver.kernel.page_stock.update(stock(*free))
    cloud.stop_agent("one")
    with caplog.at_level(logging.WARNING):
        cloud.start_agent("one")
    assert [line for line in caplog.messages if "programs outside of the service" in line] == []


@pytest.mark.parametrize("at", ["first", "last"])
def test_pages_that_move_during_an_audit_are_nobodys(cloud, context, driver, paged, monkeypatch, at):
    asked = []

    def seen():
        asked.append(1)
        return stock(0, 0) if (len(asked) == 1) == (at == "first") else stock(16, 16)

    monkeypatch.setattr(driver, "page_stock", seen)
    assert told(cloud, context) == []
    assert len(asked) == 2


def test_audit_reports_a_kernel_without_the_controller(cloud, context, driver, paged, caplog):
    driver.kernel.limits_pages = False
    caplog.set_level(logging.WARNING, auditor.LOG.name)
    for _ in range(2):
        answer = cloud.compute_api.audit(context, "one", repair=False)
        (finding,) = answer["findings"]
        assert (finding["container"], finding["name"], finding["code"]) == ("", "one", "cgroup-hole")
    assert answer["containers"] == {"ok": 1}
    assert answer["totals"]["cgroup-hole"] == 1
    assert len([each for each in caplog.records if "hugetlb" in each.getMessage()]) == 1
