# SPDX-License-Identifier: Apache-2.0
"""Interrupts, power profiles and caches, from the request to the kernel's files of a made machine."""

from dataclasses import replace

import pytest

from zun.compute.quiet import quiet as quiet_module
from zun.compute.quiet.resctrl import Resctrl
from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.over_api import OPTIONS, PAIR, administrator_of, created
from zun.tests.unit.compute.quiet.kernels import made, values, write
from zun.tests.unit.compute.quiet.resctrls import TOP, Kernel, caches, state
from zun.topology import CpuSet
from zun.topology.files import Tree
from zun.topology.resctrl_files import cache_control

IRQ = "proc/irq/24/smp_affinity_list"
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
PROFILE = "name:low-latency,governor:performance"


@pytest.fixture
def kernel(tmp_path):
    made(tmp_path)
    return tmp_path


@pytest.fixture
def cloud(database, kernel):
    one = replace(machine(), cache_control=cache_control(Tree(kernel)))
    with Cloud(
        {"one": one, "other": machine()}, kernels={"one": kernel}, state_path=str(kernel / "state"),
        compute__interrupts="any", compute__power_profiles=[PROFILE], **OPTIONS,
    ) as cloud:  # fmt: skip
        yield cloud


@pytest.fixture
def quiet(cloud):
    return administrator_of(cloud)


def test_wishes_reach_the_kernel_and_go_with_the_container(quiet, kernel):
    before = values(kernel)
    container = created(quiet, interrupts="away", power_profile="low-latency")
    assert (container["status"], container["host"]) == ("Running", "one")
    assert (container["interrupts"], container["power_profile"]) == ("away", "low-latency")
    cpus, now = CpuSet(container["cpuset_cpus"]), values(kernel)
    assert CpuSet(now[IRQ]) == CpuSet("0-7") - cpus
    assert [now[GOVERNOR.replace("0", str(cpu // 2 * 2))] for cpu in cpus] == ["performance"] * 2
    assert quiet.delete(f"/v1/containers/{container['uuid']}?force=true").status == 204
    wait_for(lambda: values(kernel) == before)


def test_resize_moves_interrupts_off_the_new_cpus_too(quiet, kernel):
    container = created(quiet, interrupts="away")
    changed = quiet.send("PATCH", f"/v1/containers/{container['uuid']}", {"cpu": 3})
    assert changed.status == 200, changed.body
    cpus = CpuSet(changed.json["cpuset_cpus"])
    assert len(cpus) == 3 and CpuSet(values(kernel)[IRQ]) == CpuSet("0-7") - cpus


def test_wishes_outlive_a_claim_that_the_row_has_lost(quiet, cloud, kernel):
    container = created(quiet, interrupts="away")
    db.update(container["uuid"], {"cpuset": None})
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert cloud.agents["one"].tracker.usage.claim(container["uuid"]) is not None
    assert CpuSet(values(kernel)[IRQ]) == CpuSet("0-7") - CpuSet(container["cpuset_cpus"])


def test_container_without_a_wish_leaves_the_choice_to_the_host(quiet, kernel):
    before = values(kernel)
    container = created(quiet)
    assert (container["status"], container["interrupts"], container["power_profile"]) == ("Running", None, None)
    assert values(kernel) == before


@pytest.mark.parametrize(
    ("wish", "lacks"),
    [
        ({"interrupts": "own", "host": "other"}, "it lacks CUSTOM_ZUN_MOVES_INTERRUPTS"),
        ({"power_profile": "no-such-one"}, "it lacks CUSTOM_ZUN_POWER_PROFILE_NO_SUCH_ONE"),
    ],
)
def test_wish_that_no_host_can_fulfil_is_refused_with_the_reason(quiet, wish, lacks):
    container = created(quiet, **wish)
    assert container["status"] == "Error"
    explained = quiet.get(f"/v1/containers/{container['uuid']}/explain").body
    assert lacks.encode() in explained


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cpu_policy": "shared", "interrupts": "away"}, "interrupts"),
        ({"cpu_policy": "mixed", "dedicated_cpus": 1, "cpu_partition": "root"}, "cpu_partition"),
        ({"cpu_isolation": "isolated", "cpu_partition": "isolated"}, "cpu_partition"),
        ({"interrupts": "sometimes"}, "interrupts"),
        ({"power_profile": "Fast!"}, "power_profile"),
    ],
)
def test_wrong_wish_is_a_400_that_names_the_field(quiet, fields, named):
    reply = quiet.post("/v1/containers", {**PAIR, **fields})
    assert reply.status == 400 and named in reply.error["detail"]


def test_container_with_a_partition_stays_dedicated(quiet):
    """Its processes are in a control group of these CPUs for good."""
    uuid = created(quiet)["uuid"]
    db.update(uuid, {"placement": {**db.get(uuid)["placement"], "cpu_partition": "root"}})
    reply = quiet.send("PATCH", f"/v1/containers/{uuid}", {"cpu_policy": "shared"})
    assert reply.status == 400 and "cpu_partition" in reply.error["detail"]


def test_wishes_are_unknown_below_1_51(quiet):
    assert quiet.at("1.50").post("/v1/containers", {**PAIR, "interrupts": "away"}).status == 400
    container = created(quiet)
    assert "interrupts" not in quiet.at("1.50").get(f"/v1/containers/{container['uuid']}").json


def test_audit_tells_stuck_interrupts_from_1_51(quiet):
    created(quiet, interrupts="away")
    [told] = quiet.post("/v1/hosts/one/audit", {}).json["isolation"]
    assert told["stuck"] == {} and told["last_minute"] is None
    [older] = quiet.at("1.50").post("/v1/hosts/one/audit", {}).json["isolation"]
    assert {"stuck", "last_minute", "problem"}.isdisjoint(older)


@pytest.fixture
def resctrl(kernel, monkeypatch):
    """Mount resctrl on the machine. Use it before ``cloud``."""
    caches(kernel)
    made = Kernel.mounted(kernel)
    monkeypatch.setattr(quiet_module, "Resctrl", lambda root: Resctrl(root, made))
    return made


def test_use_of_caches_is_told_of_all_containers(resctrl, cloud, quiet, kernel):
    own, pool = created(quiet, host="one"), created(quiet, host="one", cpu_policy="shared", cpu=1)
    for each in cloud.drivers["one"].list().values():
        (kernel / f"proc/{each.pid}").mkdir()
    clock = [0.0]
    cloud.agents["one"].auditor.clock = lambda: clock[0]
    groups = {each["uuid"]: f"{TOP}/mon_groups/zun-{each['uuid']}" for each in (own, pool)}

    def audited(**counters):
        for group in groups.values():
            for file, count in counters.items():
                write(kernel, f"{group}/mon_data/mon_L3_01/{file}", str(count))
        clock[0] += 60
        answer = quiet.post("/v1/hosts/one/audit", {}).json["isolation"]
        return [answer[0]["last_minute"], *(quiet.get(f"/v1/containers/{uuid}/stats").json["last_minute"]
                                            for uuid in groups)]  # fmt: skip

    assert audited() == [None] * 3
    assert resctrl.tree.cpu_list(f"{groups[own['uuid']]}/cpus_list") == CpuSet(own["cpuset_cpus"])
    assert len(resctrl.tree.text(f"{groups[pool['uuid']]}/tasks").split()) == 1
    audited(mbm_total_bytes=1 << 20)
    for told in audited(llc_occupancy=3 << 10, mbm_total_bytes=6 << 20, mbm_local_bytes=2 << 20):
        assert (told["llc_occupancy_kib"], told["memory_total_mib"], told["memory_local_mib"]) == (3, 5, 2)
    for uuid in groups:
        assert quiet.delete(f"/v1/containers/{uuid}?force=true").status == 204
    wait_for(lambda: not db.of_host("one"))
    quiet.post("/v1/hosts/one/audit", {})
    wait_for(lambda: resctrl.tree.folders(f"{TOP}/mon_groups") == [])


def with_ways(cloud, quiet, count):
    """Return a container whose claim has ways. The agent reads the claim from its row."""
    container = created(quiet, host="one")
    cloud.stop_agent("one")
    db.update(container["uuid"], {"cpuset": {**db.get(container["uuid"])["cpuset"], "cache_ways": count}})
    cloud.start_agent("one")
    return container


def test_ways_are_there_while_the_claim_is(resctrl, cloud, quiet, kernel):
    before = state(kernel)
    container = created(quiet, cache_ways=4, memory_bandwidth=30)
    assert container["host"] == "one"
    cpus, group = CpuSet(container["cpuset_cpus"]), f"{TOP}/zun-{container['uuid']}"
    assert resctrl.tree.cpu_list(f"{group}/cpus_list") == cpus
    cache = 0 if cpus & CpuSet("0-3") else 1
    assert f"{cache}=f" in resctrl.tree.text(f"{group}/schemata")
    assert f"{cache}=ffff0" in resctrl.tree.text(f"{TOP}/schemata")
    for folder, percent in ((group, 30), (TOP, 70)):
        assert f"{cache}={percent}" in resctrl.tree.text(f"{folder}/schemata").replace(" ", "")
    assert quiet.delete(f"/v1/containers/{container['uuid']}?force=true").status == 204
    wait_for(lambda: state(kernel) == before)


def test_container_without_the_ways_of_its_claim_does_not_start(resctrl, cloud, quiet, kernel):
    container = with_ways(cloud, quiet, 18)  # three of 20 are for everybody else
    (told,) = quiet.post("/v1/hosts/one/audit", {}).json["isolation"]
    assert "does not have 18 ways of L3" in told["problem"]
    assert quiet.post(f"/v1/containers/{container['uuid']}/stop").status == 202
    wait_for(lambda: db.get(container["uuid"])["status"] == "Stopped")
    assert quiet.post(f"/v1/containers/{container['uuid']}/start").status == 202
    wait_for(lambda: db.get(container["uuid"])["status_reason"])
    assert "does not have 18 ways of L3" in db.get(container["uuid"])["status_reason"]
