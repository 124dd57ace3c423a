# SPDX-License-Identifier: Apache-2.0
"""Devices in the life of containers of one agent on the real Docker daemon and the real kernel."""

import os
from dataclasses import replace

import pytest

from zun.db import containers as db
from zun.objects.placement import held_plan, placement_request
from zun.tests.fixtures import new_container, wait_for
from zun.tests.integration.host import Host, group_of
from zun.topology import CellShare, Plan, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest, GivenDevice

pytestmark = [pytest.mark.docker, pytest.mark.in_turn]

CANDIDATES = ("/dev/hwrng", "/dev/loop0", "/dev/fuse", "/dev/kmsg")
FILES = [path for path in CANDIDATES if os.path.exists(path)][:2]
SPECS = [f'{{"path": "{path}", "resource_class": "CUSTOM_X"}}' for path in FILES]


@pytest.fixture
def host(docker_url, database):
    if len(FILES) < 2:
        pytest.skip(f"the machine has fewer than two of {', '.join(CANDIDATES)}")
    made = Host(docker_url, devices__device_spec=SPECS)
    yield made
    made.clean()


def run(host, *addresses):
    """A container whose claim has these devices."""
    container = new_container(host.context, cpu_policy="dedicated", cpu=1.0, memory=64)
    tracker = host.cloud.agents[host.name].tracker
    answer = plan(tracker.topology, tracker.usage, placement_request(container))
    given = tuple(GivenDevice("x", address) for address in addresses)
    limits = {"cpuset": replace(answer, devices=given).to_dict()}
    host.cloud.compute_api.create(host.context, host.name, container, limits=limits, alternates=[], tried={})
    settled = host.cloud.settled(container)
    assert settled.status == "Running", settled.status_reason
    return settled


def test_containers_share_a_device(docker_url, database):
    """Two containers run with the file. A third is refused, also by the next agent, until one is deleted."""
    file = next(path for path in ("/dev/fuse", "/dev/urandom") if os.path.exists(path))
    spec = f'{{"path": "{file}", "shared": 2, "resource_class": "CUSTOM_SHARE"}}'
    host = Host(docker_url, devices__device_spec=[spec])
    match = DeviceMatch(resource_class="CUSTOM_SHARE")
    try:
        (device,) = host.cloud.agents[host.name].tracker.topology.devices
        limits = {"cpuset": Plan(
            {0: CellShare(host.cloud.agents[host.name].tracker.topology.cpus, 64, shared=0.1)}, "shared",
            devices=(GivenDevice.of("share", device),),
        ).to_dict()}  # fmt: skip

        def asked():
            container = new_container(
                host.context, cpu_policy="shared", cpu=0.1, memory=64,
                placement={"devices": [DeviceRequest("share", 1, (match,)).to_dict()]},
            )  # fmt: skip
            host.cloud.compute_api.create(
                host.context, host.name, container, limits=limits, alternates=[], tried={}
            )
            return host.cloud.settled(container)

        one, two, three = asked(), asked(), asked()
        assert (one.status, two.status, three.status) == ("Running", "Running", "Error"), one.status_reason
        assert "0 of 1 devices share are free" in three.status_reason
        for container in (one, two):
            config = host.engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]["Devices"]
            assert [each["PathOnHost"] for each in config] == [file]
        assert host.told() == []
        host.cloud.stop_agent(host.name)
        assert host.cloud.start_agent(host.name).tracker.usage.holders(file) == 2
        assert asked().status == "Error"
        host.cloud.compute_api.delete(host.context, one, force=True)
        wait_for(lambda: host.cloud.agents[host.name].tracker.usage.holders(file) == 1)
        assert asked().status == "Running"
    finally:
        host.clean()


def agrees(host, container):
    """Whether claim, Docker's configuration and, with cgroup version 1, the kernel's rules have the same devices."""
    claimed = [each.address for each in held_plan(db.get(container.uuid)).devices]
    config = host.engine.inspect_container(f"zun-{container.uuid}")["HostConfig"]["Devices"] or []
    rules = group_of(host.pid(container), "devices") / "devices.list"
    if rules.exists():
        numbers = {path: f" {os.major(os.stat(path).st_rdev)}:{os.minor(os.stat(path).st_rdev)} rwm" for path in FILES}
        allowed = [path for path in FILES if numbers[path] in rules.read_text()]
    else:
        allowed = claimed
    return claimed == [each["PathOnHost"] for each in config] == allowed


def test_devices_stay_with_their_container(host):
    one, two = run(host, FILES[0]), run(host, FILES[1])
    api, context = host.cloud.compute_api, host.context
    assert agrees(host, one) and agrees(host, two) and host.told() == []
    api.update(context, one, memory=96)
    assert agrees(host, one)
    db.update(one.uuid, {"status": "Rebuilding"})
    api.rebuild(context, one)
    assert host.cloud.settled(one).status == "Running"
    assert agrees(host, one) and agrees(host, two)
    host.cloud.accept_reboot(two)
    api.reboot(context, two, timeout=0)
    assert host.cloud.settled(two).status == "Running"
    host.cloud.stop_agent(host.name)
    usage = host.cloud.start_agent(host.name).tracker.usage
    assert [each.address for each in usage.claim(one.uuid).devices] == [FILES[0]]
    assert agrees(host, one) and agrees(host, two) and host.told() == []


def test_a_rule_changed_by_hand_is_a_finding(host):
    one, two = run(host, FILES[0]), run(host, FILES[1])
    group = group_of(host.pid(one), "devices")
    if not (group / "devices.list").exists():
        pytest.skip("the machine has cgroup version 2")
    kind = "b" if os.path.exists(f"/sys/block/{os.path.basename(FILES[1])}") else "c"
    number = os.stat(FILES[1]).st_rdev
    stolen = f"{kind} {os.major(number)}:{os.minor(number)} rwm"
    (group / "devices.allow").write_text(stolen)
    (finding,) = host.audit(repair=True)
    assert (finding["container"], finding["code"], finding["layer"]) == (one.uuid, "drifted", "device")
    assert finding["detail"] == f"its control group gives it devices that it does not hold: {stolen}"
    host.cloud.accept_reboot(one)
    host.cloud.compute_api.reboot(host.context, one, timeout=0)
    assert host.cloud.settled(one).status == "Running"
    assert host.told() == [] and agrees(host, one) and agrees(host, two)


def test_a_device_that_is_not_offered_any_more(host):
    one, two = run(host, FILES[0]), run(host, FILES[1])
    machine = host.cloud.machines[host.name]
    left = tuple(device for device in machine.devices if device.address != FILES[0])
    host.cloud.machines[host.name] = replace(machine, devices=left)
    host.cloud.agents[host.name]._update_inventory()
    wait_for(lambda: (db.get(one.uuid)["status_reason"] or "").startswith("It has lost devices"))
    assert db.get(two.uuid)["status_reason"] is None
    assert host.told() == [(one.uuid, "device-lost", "device", False)]
