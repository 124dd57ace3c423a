# SPDX-License-Identifier: Apache-2.0
"""The audit of a host over real messages and a real database; its runtime and kernel are in memory."""

import logging
import threading
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.audit import auditor
from zun.compute.audit.auditor import Reading
from zun.compute.container.operations import key_of
from zun.container.driver.audit import Activity, Intruder, ParentGroup, Throttling
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, cloud_of, machine
from zun.topology import CpuSet
from zun.topology.interrupts import Interrupts

DEDICATED = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512}

# The audits of these tests are the only ones.
cloud = cloud_of({"one": machine()}, compute__audit_interval=0)


@pytest.fixture
def dedicated(cloud, context):
    return cloud.run(context, **DEDICATED)


@pytest.fixture
def shared(cloud, context):
    return cloud.run(context, cpu=1.0, memory=64)


def audit(cloud, context, repair=False):
    return cloud.compute_api.audit(context, "one", repair=repair)


def told(answer):
    return [(each["container"], each["code"], each["layer"], each["repaired"]) for each in answer["findings"]]


def by_hand(driver, container, cpus):
    """A cgroup file that somebody wrote."""
    driver.disobey(container.uuid, cpus=cpus, repairable=True)


def out_of_band(driver, container, cpus):
    """An update that was none of ours."""
    driver.runtime.objects[container.uuid].cpuset_cpus = cpus


def test_compliant_containers_are_not_touched(cloud, context, driver, dedicated, shared):
    driver.updates.clear()
    for repair in (False, True):
        answer = audit(cloud, context, repair)
        assert (answer["host"], answer["findings"], answer["containers"]) == ("one", [], {"ok": 2})
    assert driver.updates == []
    assert answer["totals"] == {
        "audits": 2, "repaired": 0, "self-pinned": 0, "remote-pages": 0, "leftover": 0, "foreign": 0, "cgroup-hole": 0,
        "device-lost": 0, "drifted": 0, "unreadable": 0,
    }  # fmt: skip


def test_isolation_is_told_of_dedicated_containers(cloud, context, dedicated, shared, monkeypatch):
    came = Interrupts(dict.fromkeys(range(8), 1), {number: CpuSet((number,)) for number in range(8)},
                      dict.fromkeys(range(8), 5))  # fmt: skip
    monkeypatch.setattr(auditor, "interrupts", lambda: came)
    node = cloud.run(context, **{**DEDICATED, "memory": 64}, placement={"cpu_isolation": "node"})
    told = {each["container"]: each for each in audit(cloud, context)["isolation"]}
    assert told.keys() == {dedicated.uuid, node.uuid}
    assert (told[dedicated.uuid]["asked"], told[dedicated.uuid]["reached"]) == ("thread", "core")
    assert (told[node.uuid]["asked"], told[node.uuid]["reached"]) == ("node", "node")
    assert node.cpuset["cpuset_isolation"] == "node"
    assert told[node.uuid]["cpus"] == node.cpuset["cpuset_cpus"]
    assert (told[node.uuid]["interrupts"], told[node.uuid]["irqs"]) == (2, told[node.uuid]["cpus"])
    assert told[node.uuid]["network_softirqs"] == 10


@pytest.mark.parametrize("which", ["dedicated", "shared"])
@pytest.mark.parametrize(("drift", "layer"), [(by_hand, "cgroup"), (out_of_band, "config")])
def test_drift_is_seen_once_and_repaired_once(cloud, context, driver, dedicated, shared, which, drift, layer):
    container = {"dedicated": dedicated, "shared": shared}[which]
    planned = driver.show(container).cpuset_cpus
    drift(driver, container, "0-7")
    driver.updates.clear()
    assert told(audit(cloud, context)) == [(container.uuid, "drifted", layer, False)]
    assert driver.updates == []
    answer = audit(cloud, context, repair=True)
    assert told(answer) == [(container.uuid, "drifted", layer, True)]
    assert answer["containers"] == {"ok": 1, "drifted": 1}
    (update,) = driver.updates
    assert (update.uuid, update.cpuset_cpus) == (container.uuid, planned)
    assert update.cpuset_mems == container.cpuset["cpuset_mems"]
    assert (update.cpu, update.memory) == (None, None)
    assert told(audit(cloud, context, repair=True)) == []
    assert len(driver.updates) == 1
    assert (answer["totals"]["drifted"], answer["totals"]["repaired"]) == (1, 1)


def test_another_memory_limit_is_repaired(cloud, context, driver, dedicated):
    driver.update(dedicated, memory=1024)
    assert told(audit(cloud, context)) == [(dedicated.uuid, "drifted", "limit", False)]
    assert told(audit(cloud, context, repair=True)) == [(dedicated.uuid, "drifted", "limit", True)]
    assert (driver.show(dedicated).memory, told(audit(cloud, context))) == (512, [])


@pytest.mark.parametrize("there", [0.5, None])
def test_another_cpu_limit_is_repaired(cloud, context, driver, shared, there):
    driver.runtime.objects[shared.uuid].cpu = there
    answer = audit(cloud, context)
    assert told(answer) == [(shared.uuid, "drifted", "limit", False)]
    assert ("0.5 CPUs" if there else "no limit") in answer["findings"][0]["detail"]
    assert told(audit(cloud, context, repair=True)) == [(shared.uuid, "drifted", "limit", True)]
    assert (driver.show(shared).cpu, driver.show(shared).memory, told(audit(cloud, context))) == (1.0, 64, [])


def test_a_limit_of_dedicated_cpus_is_lifted(cloud, context, driver, dedicated):
    driver.runtime.objects[dedicated.uuid].cap = 0.5
    answer = audit(cloud, context)
    assert told(answer) == [(dedicated.uuid, "drifted", "limit", False)]
    assert "0.5 CPUs of time on its 2 dedicated CPUs" in answer["findings"][0]["detail"]
    assert told(audit(cloud, context, repair=True)) == [(dedicated.uuid, "drifted", "limit", True)]
    state = driver.show(dedicated)
    assert (state.cap, state.cpu, state.memory, told(audit(cloud, context))) == (None, None, 512, [])


def test_limit_refused_at_service_start_is_reported_as_drift(cloud, context, driver, shared):
    driver.runtime.objects[shared.uuid].cpu = 0.5
    cloud.stop_agent("one")
    driver.fail("update", exceptions.DockerError(error="Conflicting options"))
    cloud.start_agent("one")
    assert told(audit(cloud, context)) == [(shared.uuid, "drifted", "limit", False)]


def test_a_restart_is_audited_like_any_other_process(cloud, context, driver, dedicated):
    out_of_band(driver, dedicated, "0-7")
    driver.reboot(dedicated)
    # The agent hears of the restart, and limits the huge pages of the new process again.
    wait_for(lambda: None not in driver.huge_pages(dedicated, driver.show(dedicated)).limits.values())
    assert told(audit(cloud, context, repair=True)) == [(dedicated.uuid, "drifted", "config", True)]


def test_a_stopped_container_is_held_to_its_configuration(cloud, context, driver, dedicated):
    driver.stop(dedicated)
    wait_for(lambda: db.get(dedicated.uuid)["status"] == "Stopped")
    assert audit(cloud, context)["containers"] == {"ok": 1}
    out_of_band(driver, dedicated, "0-7")
    assert told(audit(cloud, context, repair=True)) == [(dedicated.uuid, "drifted", "config", True)]


def test_what_an_update_does_not_end_is_said_so(cloud, context, driver, dedicated):
    driver.disobey(dedicated.uuid, cpus="0-7")
    driver.updates.clear()
    (finding,) = audit(cloud, context, repair=True)["findings"]
    assert not finding["repaired"] and "still so after one update" in finding["detail"]
    assert len(driver.updates) == 1


def test_a_repair_that_fails_is_said_so(cloud, context, driver, dedicated):
    by_hand(driver, dedicated, "0-7")
    driver.fail("update", exceptions.DockerError(error="device or resource busy"))
    (finding,) = audit(cloud, context, repair=True)["findings"]
    assert not finding["repaired"] and "the repair failed: Docker error: device or resource busy" in finding["detail"]


def test_nothing_is_repaired_below_a_hole(cloud, context, driver, dedicated):
    cpus = CpuSet(dedicated.cpuset["cpuset_cpus"])
    lost = CpuSet([min(cpus)])
    driver.kernel.parents = [ParentGroup("/sys/fs/cgroup/cpuset/docker", CpuSet("0-7") - lost, CpuSet("0-1"))]
    driver.disobey(dedicated.uuid, cpus=cpus - lost)
    driver.updates.clear()
    answer = audit(cloud, context, repair=True)
    assert told(answer) == [(dedicated.uuid, "cgroup-hole", "parent", False)]
    assert f"/sys/fs/cgroup/cpuset/docker lacks CPUs {lost}" in answer["findings"][0]["detail"]
    assert driver.updates == []
    # The parent has it again: what the kernel took from the container is given back.
    driver.kernel.parents = []
    by_hand(driver, dedicated, str(cpus - lost))
    assert told(audit(cloud, context, repair=True)) == [(dedicated.uuid, "drifted", "cgroup", True)]


def test_what_is_not_ours_to_repair_is_reported(cloud, context, driver, dedicated, shared):
    cpus = CpuSet(dedicated.cpuset["cpuset_cpus"])
    home = int(dedicated.cpuset["cpuset_mems"])
    driver.kernel.narrowed[dedicated.uuid] = CpuSet([max(cpus)])
    driver.kernel.pages[dedicated.uuid] = {home: 60, 1 - home: 40}
    driver.kernel.intruders += [
        Intruder("container", "0123456789ab", "stray", CpuSet("0-7")),
        Intruder("process", "/user.slice", "dd (99)", cpus),
    ]
    driver.updates.clear()
    answer = audit(cloud, context, repair=True)
    assert told(answer) == [
        (dedicated.uuid, "self-pinned", "thread", False),
        (dedicated.uuid, "remote-pages", "pages", False),
        (dedicated.uuid, "foreign", "container", False),
        (dedicated.uuid, "foreign", "process", False),
    ]
    assert answer["containers"] == {"ok": 1, "foreign": 1}
    assert driver.updates == []


def test_readings_are_of_running_containers(cloud, context, driver, dedicated, shared):
    driver.kernel.pages[dedicated.uuid] = {0: 300, 1: 200}
    driver.kernel.throttling[shared.uuid] = Throttling(3, 1.5)
    (near,) = CpuSet(dedicated.cpuset["cpuset_mems"])
    read = cloud.agents["one"].auditor.readings
    audit(cloud, context)
    assert read() == {
        dedicated.uuid: Reading(1024 * (200 if near == 0 else 300), None),
        shared.uuid: Reading(0, Throttling(3, 1.5)),
    }
    driver.exit(shared.uuid)
    cloud.look(shared)
    audit(cloud, context)
    assert read().keys() == {dedicated.uuid}


@pytest.mark.parametrize("cloud", [{"compute__audit_host_processes": "none"}], indirect=True)
def test_processes_can_be_left_out(cloud, context, driver, dedicated):
    driver.kernel.intruders.append(Intruder("process", "/user.slice", "dd (99)", CpuSet("0-7")))
    assert told(audit(cloud, context)) == []


def test_an_object_that_no_row_knows_is_foreign(cloud, context, driver, dedicated):
    """It bears this host's label; only the ledger tells that it does not belong."""
    driver.kernel.intruders += [
        Intruder("container", dedicated.uuid, "ours", CpuSet("0-7")),
        Intruder("container", "left-over", "zun-left-over", CpuSet("0-7")),
    ]
    (finding,) = audit(cloud, context)["findings"]
    assert "zun-left-over" in finding["detail"] and "ours" not in finding["detail"]


@pytest.mark.parametrize("change", ["deleted", "smaller", "larger"])
def test_nobody_trespasses_on_what_was_given_back_meanwhile(cloud, context, driver, dedicated, change):
    """An audit asks who is on the CPUs that were held when it began to, and may hear of somebody who came since.

    Of a container that has other CPUs by then the next audit tells.
    """
    tracker = cloud.agents["one"].tracker
    before, changed = CpuSet(dedicated.cpuset["cpuset_cpus"]), threading.Event()

    def while_it_looks(_container):
        if changed.is_set():
            return
        changed.set()
        if change == "deleted":
            cloud.compute_api.delete(context, dedicated, force=True)
            wait_for(lambda: tracker.usage.claim(dedicated.uuid) is None)
        else:
            now = cloud.compute_api.update(context, dedicated, cpu=1.0 if change == "smaller" else 4.0)
            assert before != CpuSet(now.cpuset["cpuset_cpus"])
        driver.kernel.intruders.append(Intruder("process", "/user.slice", "taskset (99)", before))

    driver.before("intruders", while_it_looks)
    assert told(audit(cloud, context)) == []
    again = [] if change == "deleted" else [(dedicated.uuid, "foreign", "process", False)]
    assert told(audit(cloud, context)) == again


def test_a_container_in_the_middle_of_an_operation_is_left_alone(cloud, context, driver, dedicated):
    by_hand(driver, dedicated, "0-7")
    db.update(dedicated.uuid, {"task_state": "container_stopping"})
    answer = audit(cloud, context, repair=True)
    assert (answer["findings"], answer["containers"]) == ([], {"ok": 0, "skipped": 1})


def test_a_container_that_stays_busy_is_not_waited_for(cloud, context, driver, dedicated, monkeypatch):
    """Not by its row: nobody writes that an image is made of it."""
    monkeypatch.setattr(auditor, "PATIENCE", 0.1)
    by_hand(driver, dedicated, "0-7")
    with cloud.agents["one"].queue.turn(key_of(dedicated.uuid)):
        answer = audit(cloud, context, repair=True)
    assert (answer["findings"], answer["containers"]) == ([], {"ok": 0, "skipped": 1})


def test_a_resize_in_its_middle_is_no_drift(cloud, context, driver, dedicated):
    """The first look sees the new CPUs and the old row. The second waits for the resize to end."""
    entered, go_on = threading.Event(), threading.Event()

    def hold(_container):
        entered.set()
        assert go_on.wait(60)

    driver.before("kernel_view", hold)  # the resize has updated the runtime and not yet committed
    resize = threading.Thread(target=cloud.compute_api.update, args=(context, dedicated), kwargs={"cpu": 4.0})
    resize.start()
    assert entered.wait(60)
    looks = []  # of the audit at the container, each: had the resize been let go?
    driver.before("pinning_view", lambda _: looks.append(go_on.is_set()))
    answers = []
    auditing = threading.Thread(target=lambda: answers.append(audit(cloud, context, repair=True)))
    auditing.start()
    wait_for(lambda: looks and cloud.waiting(dedicated.uuid))  # a look may wait there, too
    driver.updates.clear()
    go_on.set()
    resize.join(60)
    auditing.join(60)
    assert looks == [False, True]
    assert (answers[0]["findings"], answers[0]["containers"]) == ([], {"ok": 1})
    assert driver.updates == []


def test_a_shared_container_is_repaired_to_the_pool_as_it_is(cloud, context, driver, shared):
    out_of_band(driver, shared, "0-7")
    dedicated = cloud.run(context, cpu_policy="dedicated", cpu=3.0, memory=64)
    audit(cloud, context, repair=True)
    assert not CpuSet(driver.show(shared).cpuset_cpus) & CpuSet(dedicated.cpuset["cpuset_cpus"])
    assert audit(cloud, context)["containers"] == {"ok": 2}


@pytest.mark.parametrize("operation", ["pinning_view", "list", "intruders"])
def test_what_cannot_be_read_is_never_taken_for_good(cloud, context, driver, dedicated, operation):
    driver.fail(operation, exceptions.DockerError(error="no such namespace"), times=2)
    if operation == "pinning_view":
        answer = audit(cloud, context, repair=True)
        assert told(answer) == [(dedicated.uuid, "unreadable", "kernel", False)]
        assert answer["containers"] == {"ok": 0, "unreadable": 1}
    else:
        with pytest.raises(exceptions.DockerError, match="no such namespace"):
            audit(cloud, context)


def test_one_line_a_finding_and_not_again(cloud, context, driver, dedicated, caplog):
    by_hand(driver, dedicated, "0-7")
    caplog.set_level(logging.INFO, "zun.compute.audit.auditor")

    def lines():
        records = [each for each in caplog.records if each.name == "zun.compute.audit.auditor"]
        said = [(each.levelname, each.getMessage()) for each in records]
        caplog.clear()
        return said

    totals = audit(cloud, context)["totals"]
    ((level, line),) = lines()
    assert level == "WARNING" and line.startswith(f"{dedicated.uuid} drifted at cgroup") and dedicated.name in line
    assert audit(cloud, context)["totals"] == {**totals, "audits": 2} and lines() == []
    audit(cloud, context, repair=True)
    first, second = lines()
    assert first[0] == "WARNING" and "(repaired)" in first[1] and second[0] == "INFO"
    by_hand(driver, dedicated, "0-7")
    assert audit(cloud, context)["totals"]["drifted"] == 2
    assert len(lines()) == 1


@pytest.mark.parametrize("repair", [False, True])
def test_the_host_audits_itself(database, context, repair):
    with Cloud({"one": machine()}, compute__audit_interval=1, compute__audit_repair=repair) as cloud:
        driver, container = cloud.drivers["one"], cloud.run(context, **DEDICATED)
        driver.updates.clear()
        by_hand(driver, container, "0-7")
        ends = []
        driver.before("intruders", lambda _: ends.append(len(driver.updates)))  # the last thing an audit reads
        # One may have been under way while the file was written.
        assert wait_for(lambda: len(ends) >= 2)
        assert len(driver.updates) == repair


def test_totals_go_out_as_a_notification(database, context, caplog):
    from oslo_config import cfg

    from zun.messaging import rpc

    rpc.register_opts(cfg.CONF)
    caplog.set_level(logging.INFO, "oslo.messaging.notification.host.audit")
    with Cloud({"one": machine()}, compute__audit_interval=0, oslo_messaging_notifications__driver=["log"]) as cloud:
        audit(cloud, context)
    (sent,) = [each.getMessage() for each in caplog.records if each.name.endswith("host.audit")]
    assert '"event_type": "host.audit"' in sent and '"audits": 1' in sent


def test_a_host_that_does_not_answer(cloud, context):
    cloud.stop_agent("one")
    cloud.compute_api._timeout = 0.2
    with pytest.raises(exceptions.HostUnavailable):
        audit(cloud, context)


@pytest.mark.parametrize("policy", ["dedicated", "shared"])
@pytest.mark.parametrize("action", ["start", "reboot"])
def test_what_somebody_set_does_not_outlast_a_start(cloud, context, driver, policy, action):
    container = cloud.run(context, cpu_policy=policy, cpu=2.0)
    before = driver.show(container)
    if action == "start":
        cloud.compute_api.stop(context, container)
        wait_for(lambda: db.get(container.uuid)["status"] == "Stopped")
        container = cloud.settled(container)
    else:
        cloud.accept_reboot(container)
    out_of_band(driver, container, "7")
    getattr(cloud.compute_api, action)(context, container)
    wait_for(lambda: db.get(container.uuid)["status"] in ("Running", "Error"))
    after = cloud.settled(container)
    assert (after.status, after.status_reason) == ("Running", None)
    state = driver.show(after)
    assert (state.cpuset_cpus, state.cpuset_mems) == (before.cpuset_cpus, before.cpuset_mems)


def test_a_mask_of_the_engine_is_lifted_at_the_start(cloud, driver, context, monkeypatch):
    """Until then the first process has CPU 0 alone, as the engine."""
    lifted, seen = [], driver.kernel_view

    def narrow(container, state):
        found = seen(container, state)
        return found if container.uuid in lifted else replace(found, cpus=CpuSet("0"), engine=CpuSet("0"))

    monkeypatch.setattr(driver, "kernel_view", narrow)
    monkeypatch.setattr(driver, "use_all_cpus", lambda container, state: lifted.append(container.uuid))
    container = cloud.run(context, **DEDICATED)
    assert container.status == "Running" and lifted == [container.uuid]


def test_last_minute_is_told_from_the_second_audit_on(cloud, context, driver, dedicated, shared, monkeypatch):
    clock, came = [100.0], dict.fromkeys(range(8), 10)
    monkeypatch.setattr(auditor, "interrupts", lambda: Interrupts(dict(came), {}))
    cloud.agents["one"].auditor.clock = lambda: clock[0]
    misses = cloud.agents["one"].auditor.misses
    monkeypatch.setattr(misses, "counted", lambda cpus: {cpu: 10 * came[cpu] for cpu in cpus})

    def recent():
        (found,) = audit(cloud, context)["isolation"]
        return found["last_minute"]

    driver.kernel.activity[dedicated.uuid] = Activity({1: 5}, {1: 1}, 1.0, 0.0)
    assert recent() is None
    clock[0] += 60
    came.update(dict.fromkeys(CpuSet(dedicated.cpuset["cpuset_cpus"]), 11))
    driver.kernel.activity[dedicated.uuid] = Activity({1: 8, 2: 1}, {1: 1}, 1.25, 0.0)
    assert recent() == {
        "seconds": 60.0, "interrupts": 2, "switches": 4, "migrations": 0, "remote_kib": 0, "throttled_periods": None,
        "throttled_seconds": None, "waited_seconds": 0.25, "stalled_seconds": 0.0, "llc_misses": 20,
        "interrupts_by_cpu": dict.fromkeys(map(str, CpuSet(dedicated.cpuset["cpuset_cpus"])), 1),
        "llc_occupancy_kib": None, "memory_total_mib": None, "memory_local_mib": None,
    }  # fmt: skip
    assert cloud.compute_api.stats(context, dedicated)["last_minute"]["switches"] == 4
    assert cloud.compute_api.stats(context, shared)["last_minute"] is None
    cloud.compute_api.stop(context, dedicated)
    wait_for(lambda: db.get(dedicated.uuid)["status"] == "Stopped")
    clock[0] += 60
    assert recent() is None
