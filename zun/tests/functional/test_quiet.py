# SPDX-License-Identifier: Apache-2.0
"""Interrupts and power profiles, from the request to the kernel's files of a made machine."""

import pytest

from zun.db import containers as db
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.tests.functional.over_api import OPTIONS, PAIR, administrator_of, created
from zun.tests.unit.compute.quiet.kernels import made, values
from zun.topology import CpuSet

IRQ = "proc/irq/24/smp_affinity_list"
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
PROFILE = "name:low-latency,governor:performance"


@pytest.fixture
def kernel(tmp_path):
    made(tmp_path)
    return tmp_path


@pytest.fixture
def cloud(database, kernel):
    with Cloud(
        {"one": machine(), "other": machine()}, kernels={"one": kernel}, state_path=str(kernel / "state"),
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
    assert {"stuck", "last_minute"}.isdisjoint(older)
