# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
import sqlalchemy as sa
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import compute_nodes, containers, services, session
from zun.db.compute_nodes import HostUsage
from zun.tests.functional.cloud import machine
from zun.tests.unit.db.rows import CPUSET, NODE, container, node, together

pytestmark = pytest.mark.usefixtures("database")


def test_the_first_put_adds_the_node():
    row = node("h1", labels={"ssd": "yes"})
    assert {name: row[name] for name in NODE} == {**NODE, "labels": {"ssd": "yes"}}
    assert (row["hostname"], row["generation"], row["created_at"]) == ("h1", 0, row["updated_at"])
    assert compute_nodes.page(limit=9) == [row]


def test_the_second_put_changes_it_and_keeps_who_it_is():
    first = node("h1", cpus=8)
    second = node("h1", cpus=16)
    assert {**second, "cpus": 8, "updated_at": first["updated_at"], "generation": 0} == dict(first)
    assert (second["cpus"], second["updated_at"] > first["updated_at"]) == (16, True)
    assert compute_nodes.page(limit=9) == [second]


def test_a_node_is_added_once_however_many_agents_start_together():
    rows = together(8, lambda number: node("h1", cpus=number))
    (row,) = compute_nodes.page(limit=9)
    assert {each["uuid"] for each in rows} == {row["uuid"]}


@pytest.mark.parametrize("text", ["", "junk", "[1]", "5", "null", "[" * 10_000])
def test_a_topology_of_another_form_counts_as_none(text):
    """Written by hand. The agent of the host reads it at its start, and writes it anew."""
    node("h1")
    with session.writer() as connection:
        if connection.dialect.name != "sqlite":  # MariaDB and PostgreSQL take JSON only
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                return
        connection.execute(sa.text("UPDATE compute_nodes SET topology = :text"), {"text": text})
    assert compute_nodes.topology("h1") == {}
    assert node("h1")["topology"] == NODE["topology"]


TOPOLOGY = machine().configured(cpu_allocation_ratio=1.1, reserved_memory_mib=100)


@pytest.mark.parametrize(("change", "generation"), [
    pytest.param({}, 0, id="nothing"),
    pytest.param({"topology": replace(TOPOLOGY, page_kib=64).to_dict()}, 1, id="hardware"),
    pytest.param({"topology": replace(TOPOLOGY, cpu_allocation_ratio=1.2).to_dict()}, 1, id="a-ratio"),
    pytest.param({"disk_allocation_ratio": 1.3}, 1, id="the-disk's-ratio"),
    pytest.param({"enable_cpu_pinning": False}, 1, id="pinning"),
    pytest.param({"labels": {"rack": "r2"}}, 1, id="labels"),
    pytest.param({"runtimes": ("kata", "runc")}, 1, id="runtimes"),
])
def test_the_generation_grows_when_the_inventory_is_another(change, generation):
    """Once: the next look finds the same."""
    first = {
        "topology": TOPOLOGY.to_dict(), "labels": {"rack": "r1"}, "runtimes": ("runc",), "disk_allocation_ratio": 1.1
    }
    node("h1", **first)
    for _ in range(2):
        assert node("h1", **{**first, **change})["generation"] == generation


def test_added_traits_survive_agent_writes_and_raise_generation():
    """The generation grows only if the traits change."""
    node("h1", traits=["HW_CPU_X86_AVX"])
    for names, added, generation in (
        (["CUSTOM_B", "CUSTOM_A", "CUSTOM_B"], ["CUSTOM_A", "CUSTOM_B"], 1),
        (["CUSTOM_A", "CUSTOM_B"], ["CUSTOM_A", "CUSTOM_B"], 1),
        (["HW_CPU_X86_AVX", "CUSTOM_A"], ["CUSTOM_A"], 2),
    ):
        row = compute_nodes.add_traits("h1", names)
        assert (row["traits"], row["added_traits"], row["generation"]) == (["HW_CPU_X86_AVX"], added, generation)
    row = node("h1", traits=["HW_CPU_X86_AVX2"])
    assert (row["traits"], row["added_traits"], row["generation"]) == (["HW_CPU_X86_AVX2"], ["CUSTOM_A"], 3)
    assert compute_nodes.add_traits("h1", [])["added_traits"] == []
    with pytest.raises(exceptions.ComputeNodeNotFound):
        compute_nodes.add_traits("h2", ["CUSTOM_A"])


@pytest.mark.parametrize("by", ["uuid", "hostname"])
def test_find_takes_either_name(by):
    node("h2")
    row = node("h1")
    assert compute_nodes.find(row[by]) == row


@pytest.mark.parametrize("ident", ["h3", "h", "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"])
def test_find_tells_what_is_missing(ident):
    node("h1")
    with pytest.raises(exceptions.ComputeNodeNotFound, match=ident):
        compute_nodes.find(ident)


def test_silent_host_without_service_and_containers_is_deserted():
    for host, fields in {
        "gone": {},
        "served": {},
        "used": {"status": "Stopped"},
        "capsule": {"kind": "capsule", "status": "Error"},
        "leftover": {"kind": "leftover", "status": "Deleting", "uuid": "capsule"},
    }.items():
        node(host)
        if fields:
            container(host=host, **fields)
    container(host="leftover", kind="member", capsule_uuid="capsule", status="Deleting")
    container(host=None, status="Creating")
    services.heartbeat("served", "zun-compute", "nova")
    services.heartbeat("gone", "zun-scheduler", "nova")
    since, now = compute_nodes.find("gone")["created_at"], timeutils.utcnow()
    assert compute_nodes.deserted("zun-compute", since) == []
    assert sorted(compute_nodes.deserted("zun-compute", now)) == ["gone", "leftover"]
    assert [compute_nodes.destroy("gone", since), compute_nodes.destroy("gone", now)] == [False, True]
    assert not compute_nodes.destroy("gone", now)
    assert compute_nodes.deserted("zun-compute", now) == ["leftover"]
    assert node("gone")["generation"] == 0


def test_host_names_know_case():
    rows = [node("h1"), node("H1")]
    assert [compute_nodes.find(hostname) for hostname in ("h1", "H1")] == rows


def test_generations_tell_what_changed():
    first, second = node("h1"), node("h2")
    known = {row["hostname"]: (row["id"], 0, row["updated_at"]) for row in (first, second)}
    assert compute_nodes.generations() == known
    again = node("h1")
    assert compute_nodes.generations()["h1"] == (first["id"], 0, again["updated_at"]) != known["h1"]


def test_generations_come_in_slices_too():
    rows = [node(name) for name in ("h3", "h1", "h2")]
    assert list(compute_nodes.generations(limit=2)) == ["h3", "h1"]
    assert list(compute_nodes.generations(behind=rows[1]["id"], limit=2)) == ["h2"]
    assert compute_nodes.generations(behind=rows[2]["id"]) == {}


def test_sums_of_generations_tell_where_something_changed():
    rows = [node(name) for name in ("h1", "h2", "h3")]
    first, second, third = (row["id"] for row in rows)
    assert compute_nodes.sums_of_generations(1) == {first: 0, second: 0, third: 0}
    held = container(host="h2", cpuset=CPUSET)
    containers.change_claim(held["uuid"], "h2", {"cpuset": None})
    assert compute_nodes.sums_of_generations(1) == {first: 0, second: 1, third: 0}
    in_pairs = {each // 2: 0 for each in (first, third)} | {second // 2: 1}
    assert compute_nodes.sums_of_generations(2) == in_pairs


@pytest.mark.parametrize(
    ("hostnames", "expected"),
    [
        (None, {"h1": HostUsage(2, 3.6, 96, 5), "h2": HostUsage(1, 2.0, 2**33, 0)}),
        (["h1"], {"h1": HostUsage(2, 3.6, 96, 5)}),
        (["h3"], {}),
        ([], {}),
    ],
)
def test_usage_is_the_sum_of_what_is_held(hostnames, expected):
    held = {"cpuset": CPUSET}
    container(host="h1", cpu=0.5, memory=32, disk=5, **held)
    container(host="h1", cpu=3.1, memory=64, **held)
    container(host="h1", cpu=9.0, memory=999, disk=9)  # it holds nothing yet
    container(host="h2", cpu=2.0, memory=2**33, status="Stopped", **held)
    container(cpu=1.0)
    assert compute_nodes.usage(hostnames) == expected
