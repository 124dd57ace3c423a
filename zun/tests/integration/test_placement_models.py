# SPDX-License-Identifier: Apache-2.0
"""Placement's four models of a request, asked of our scheduler and of a real Placement that our agents filled.

Hosts 1, 6 and 7 have 16 CPUs and 32768 MiB a cell. Host 1 has two cells, 4 and 5 in Placement's example, with eight
virtual functions each. Hosts 1 and 6 share the disk pool 8 of 128 GB; host 7 has 100 GB of its own. Hosts 1 and 7 are
in the aggregate "first".
"""

import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest
from keystoneauth1 import loading

from zun.common.context import RequestContext
from zun.db import aggregates
from zun.placement import reporter
from zun.placement.allocations import pool_uuid, root_uuid
from zun.scheduler import filters
from zun.scheduler.host_table import HostTable
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.select import NoValidHost, select
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.topology import PlacementRequest
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device, DeviceType

CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
VF = "SRIOV_NET_VF"


def functions(cell):
    """Eight virtual functions of a card of the cell."""
    return [
        Device(f"0000:{cell + 1:02}:00.{number}", "15b3", "1018", "020000", cell=cell, type=DeviceType.VF)
        for number in range(8)
    ]


HARDWARE = {
    "1": replace(
        machine(cells=2, cores=16, memory_mib=32768),
        devices=(*functions(0), *functions(1)),
    ),
    "6": machine(cells=1, cores=16, memory_mib=32768),
    "7": machine(cells=1, cores=16, memory_mib=32768),
}


@pytest.fixture
def cloud(database, placement_url, placement_client, monkeypatch):
    """The hosts of the example under names of their own, as soon as Placement has all of them."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 0.2)
    names = {number: f"host{number}-{uuid.uuid4().hex[:8]}" for number in HARDWARE}
    made = Cloud(
        {},
        placement__mode="report",
        placement__auth_type="admin_token",
        compute__cpu_allocation_ratio=1.0,
        compute__ram_allocation_ratio=1.0,
        devices__device_spec=[f'{{"vendor_id": "15b3", "resource_class": "{VF}"}}'],
    )
    made.conf.register_opts(loading.get_auth_plugin_conf_options("admin_token"), group="placement")
    made.conf.set_override("endpoint", placement_url, group="placement")
    made.conf.set_override("token", "admin", group="placement")
    try:
        for number, name in names.items():
            made.machines[name] = HARDWARE[number]
            made.start_agent(name)
        first = aggregates.insert("first", {})["uuid"]
        pool = aggregates.insert("eight", {"disk_pool_gb": "128"})["uuid"]
        for aggregate, members in ((first, "17"), (pool, "16")):
            for number in members:
                aggregates.add_host(aggregate, names[number])
        found = SimpleNamespace(cloud=made, names=names, first=first, pool=pool, client=placement_client)
        wait_for(lambda: told(found))
        yield found
    finally:
        made.stop()


def told(found):
    """Whether Placement has every host with its aggregates, and the pool in place of the disk of its hosts."""
    client = found.client
    if not client.nodes(pool_uuid(found.pool)):
        return False
    groups = {"1": {found.first, found.pool}, "6": {found.pool}, "7": {found.first}}
    for number, name in found.names.items():
        trees = [client.provider(node) for node in client.nodes(root_uuid(name))]
        disks = any("DISK_GB" in each.inventories for each in trees)
        if any(each.aggregates != groups[number] for each in trees) or disks != (number == "7"):
            return False
        if len(trees) != 1 + len(HARDWARE[number].cells):
            return False
    return True


def ours(found, *, cpus, memory, disk=0, functions=0, member_of=None, policy="shared"):
    """The hosts that our scheduler finds, from a table that it reads from the database."""
    table = HostTable(booking_seconds=60)
    table.refresh()
    devices = (DeviceRequest(VF, functions, (DeviceMatch(resource_class=VF),)),) if functions else ()
    asked = RequestSpec(
        str(uuid.uuid4()),
        PlacementRequest(cpus, memory, cpu_policy=policy, devices=devices),
        disk=disk,
        member_of=(frozenset({member_of}),) if member_of else (),
    )
    enabled = filters.load(found.cloud.conf.scheduler.enabled_filters, found.cloud.conf)
    answer = select(table.hosts(), asked, enabled, [], len(HARDWARE))
    return set() if isinstance(answer, NoValidHost) else {choice.hostname for choice in answer}


def placements(found, *, cpus, memory, disk=0, functions=0, member_of=None, policy="shared"):
    """The hosts of this test among Placement's candidates for the same amounts."""
    amounts = {"VCPU" if policy == "shared" else "PCPU": cpus, "MEMORY_MB": memory, "DISK_GB": disk, VF: functions}
    query = "resources=" + ",".join(f"{name}:{amount}" for name, amount in amounts.items() if amount)
    query += f"&member_of={member_of}" if member_of else ""
    answer = found.client._adapter.get(f"/allocation_candidates?{query}", microversion="1.39").json()
    roots = {each: known["root_provider_uuid"] for each, known in answer["provider_summaries"].items()}
    hosts = {root_uuid(name): name for name in found.names.values()}
    used = {roots[each] for request in answer["allocation_requests"] for each in request["allocations"]}
    return {hosts[root] for root in used if root in hosts}


def both(found, **asked):
    """The numbers of the hosts that both answer."""
    one, other = ours(found, **asked), placements(found, **asked)
    assert one == other, asked
    return "".join(number for number, name in found.names.items() if name in one)


MODELS = {
    "single": ({"cpus": 16, "memory": 16384}, "167"),
    "single, too much": ({"cpus": 16, "memory": 65537}, ""),
    "nested": ({"cpus": 16, "memory": 32768, "functions": 8}, "1"),
    "nested, too much": ({"cpus": 16, "memory": 32768, "functions": 17}, ""),
    "sharing": ({"cpus": 16, "memory": 32768, "disk": 128}, "16"),
    "sharing, too much": ({"cpus": 16, "memory": 32768, "disk": 129}, ""),
    "sharing, or own disk": ({"cpus": 16, "memory": 32768, "disk": 100}, "167"),
    "aggregate": ({"cpus": 16, "memory": 32768, "member_of": "first"}, "17"),
    "aggregate of the pool": ({"cpus": 16, "memory": 32768, "disk": 128, "member_of": "pool"}, "16"),
    "all": ({"cpus": 16, "memory": 32768, "disk": 128, "functions": 8, "policy": "dedicated"}, "1"),
}


def test_models_are_answered_equally(cloud):
    """One cloud answers the whole table: a test of its own for each row would start it ten times."""
    found = {}
    for name, (asked, _) in MODELS.items():
        group = asked.get("member_of")
        found[name] = both(cloud, **{**asked, "member_of": group and getattr(cloud, group)})
    assert found == {name: expected for name, (_, expected) in MODELS.items()}


def test_models_after_claims(cloud):
    """A container on one host of the pool takes disk from the other as well."""
    asked = {"cpus": 1, "memory": 64}
    six = cloud.names["6"]
    made = cloud.cloud.run(CONTEXT, cpu=4.0, memory=1024, disk=28,
                           request={"run": True, "hints": {}, "host": six})  # fmt: skip
    assert (made.status, made.host) == ("Running", six)
    wait_for(lambda: cloud.client.allocated(pool_uuid(cloud.pool)).get(made.uuid) == {"DISK_GB": 28})
    assert both(cloud, **asked, disk=100) == "167"
    assert both(cloud, **asked, disk=101) == ""
    assert both(cloud, cpus=13, memory=64) == "17"
    assert both(cloud, cpus=12, memory=31744, disk=100) == "167"
