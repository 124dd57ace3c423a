# SPDX-License-Identifier: Apache-2.0
"""The output of osc-placement's ``openstack resource provider ...`` for a host and for a container."""

import uuid

import pytest

from zun.common.context import RequestContext
from zun.placement import reporter
from zun.placement.allocations import cell_uuid, root_uuid
from zun.tests.fixtures import wait_for
from zun.tests.integration.beside_placement import With, equal
from zun.tests.integration.programs import Client

HOST = f"h-{uuid.uuid4().hex[:8]}"
PROJECT = f"p-{HOST}"


@pytest.fixture
def openstack(placement_url):
    """The stock client, as the administrator of Placement."""
    return Client(
        None, {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": placement_url, "OS_TOKEN": "admin",
               "OS_PLACEMENT_API_VERSION": "1.38"},
    )  # fmt: skip


@pytest.fixture
def container(database, placement_url, placement_client, monkeypatch):
    """A container on both cells of HOST, and a shared one, as soon as Placement has all of the host."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 0.2)
    made = With([HOST], "report", placement_url, {})
    context = RequestContext(user_id="alice", project_id=PROJECT, roles=["member"])
    wide = made.cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=128, disk=3, placement={"numa_nodes": 2})
    shared = made.cloud.run(context, cpu=0.5, memory=32)
    assert (wide.status, shared.status) == ("Running", "Running")
    wait_for(lambda: equal(placement_client, [HOST]))
    yield wide
    made.cloud.stop()


def test_provider_commands_show_hosts_and_claims(openstack, container):
    root, cells = root_uuid(HOST), [cell_uuid(HOST, cell) for cell in (0, 1)]

    tree = openstack.json("resource", "provider", "list", "--in-tree", root)
    parents = {each["name"]: (each["uuid"], each["parent_provider_uuid"]) for each in tree}
    assert parents == {HOST: (root, None)} | {f"{HOST}_NUMA_{cell}": (cells[cell], root) for cell in (0, 1)}
    found = openstack.json("resource", "provider", "list", "--in-tree", root, "--required", "HW_NUMA_ROOT")
    assert {each["uuid"] for each in found} == set(cells)

    inventory = {cell: inventories(openstack, cell) for cell in cells}
    (shares,) = (cell for cell in cells if inventory[cell]["VCPU"]["used"])
    for cell in cells:
        assert {"PCPU", "VCPU", "MEMORY_MB"} == inventory[cell].keys()
        assert (inventory[cell]["PCPU"]["total"], inventory[cell]["PCPU"]["used"]) == (4, 2)
        assert inventory[cell]["MEMORY_MB"]["total"] == 1024
        assert inventory[cell]["MEMORY_MB"]["used"] == (96 if cell == shares else 64)
    assert inventory[shares]["VCPU"]["used"] == 1  # half a CPU is a whole unit
    assert {name: each["used"] for name, each in inventories(openstack, root).items()} == {"DISK_GB": 3}

    traits = {each["name"] for each in openstack.json("resource", "provider", "trait", "list", cells[0])}
    assert {"HW_NUMA_ROOT", "HW_CPU_X86_AVX2"} <= traits

    taken = openstack.json("resource", "provider", "allocation", "show", container.uuid)
    split = {each["resource_provider"]: each["resources"] for each in taken}
    assert split == {cell: {"PCPU": 2, "MEMORY_MB": 64} for cell in cells} | {root: {"DISK_GB": 3}}
    assert {(each["project_id"], each["user_id"], each["consumer_type"]) for each in taken} == {
        (PROJECT, "alice", "CONTAINER")
    }

    used = openstack.json("resource", "provider", "usage", "show", cells[0])
    assert {each["resource_class"]: each["usage"] for each in used}["PCPU"] == 2
    owned = openstack.json("resource", "usage", "show", PROJECT)
    total = {"PCPU": 4, "VCPU": 1, "MEMORY_MB": 160, "DISK_GB": 3, "consumer_count": 2}
    assert {each["resource_class"]: each["usage"] for each in owned} == {"CONTAINER": total}  # a class since 1.38


def inventories(openstack, provider):
    found = openstack.json("resource", "provider", "inventory", "list", provider)
    return {each["resource_class"]: each for each in found}
