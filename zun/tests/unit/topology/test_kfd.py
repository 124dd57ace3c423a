# SPDX-License-Identifier: Apache-2.0
"""The links between AMD GPUs, from trees of KFD as the kernel writes them."""

import itertools

import pytest

from zun.tests.unit.topology.machines import PLAIN, build, changed
from zun.topology import discover

TOP = "sys/class/kfd/kfd/topology/nodes"
CPU = ""
"""Stands for a node of CPUs in the list of a machine's nodes."""
PCIE, XGMI = 2, 11
A, B, C, D = (f"0000:{bus}:00.0" for bus in ("0c", "22", "38", "5c"))
TWO = (CPU, CPU, A, B)


def properties(address, part=0):
    if address == CPU:
        return "cpu_cores_count 48\nsimd_count 0\ndomain 0\nlocation_id 0\ndrm_render_minor 0\n"
    domain, bus, slot = address.split(":")
    place = part << 28 | int(bus, 16) << 8 | int(slot[:2], 16) << 3 | int(slot[3])
    return f"cpu_cores_count 0\nsimd_count 1216\ndomain {int(domain, 16)}\nlocation_id {place}\ndrm_render_minor 128\n"


def link(one, other, kind=XGMI, weight=15):
    return (
        f"type {kind}\nversion_major 0\nversion_minor 0\nnode_from {one}\nnode_to {other}\nweight {weight}\n"
        "min_latency 0\nmax_latency 0\nmin_bandwidth 64000\nmax_bandwidth 64000\nrecommended_transfer_size 0\nflags 1\n"
    )


@pytest.fixture
def linked(tmp_path):
    """Return a function that returns the links by address, and the notes, of a machine with these nodes of KFD.

    ``links`` are texts of properties by (node, folder, number of the link).
    """

    def found(nodes, links):
        parts, files = {}, {}
        for number, address in enumerate(nodes):
            files[f"{TOP}/{number}/properties"] = properties(address, parts.setdefault(address, 0))
            parts[address] += 1
        files |= {f"{TOP}/{node}/{folder}/{number}/properties": text for (node, folder, number), text in links.items()}
        gpu = {"vendor": "0x1002\n", "device": "0x74a1\n", "class": "0x120000\n", "numa_node": "0\n"}
        devices = {address: {"files": gpu, "links": {"driver": "../drivers/amdgpu"}} for address in {*nodes} - {CPU}}
        topology = discover(build(tmp_path, changed(files=files, devices=devices)), process_limits=False)
        return {device.address: device.links for device in topology.devices if device.links}, topology.notes

    return found


def all_to_all(nodes, folder="io_links", **how):
    """Return links between all nodes of GPUs, and PCI Express from each to the first node."""
    numbers = [number for number, address in enumerate(nodes) if address != CPU]
    told = {(number, "io_links", 0): link(number, 0, PCIE, 20) for number in numbers}
    for one in numbers:
        others = [number for number in numbers if number != one]
        told |= {(one, folder, place): link(one, other, **how) for place, other in enumerate(others, 1)}
    return told


@pytest.mark.parametrize(("nodes", "links", "expected"), [
    pytest.param(TWO, all_to_all(TWO), {A: (B,), B: (A,)}, id="two-gpus-with-xgmi"),
    pytest.param(TWO, all_to_all(TWO, weight=13), {A: (B,), B: (A,)}, id="two-dies-of-one-package"),
    pytest.param(TWO, all_to_all(TWO, weight=41), {A: (B,), B: (A,)}, id="two-packages-of-cpu-and-gpu"),
    pytest.param(TWO, all_to_all(TWO, weight=30), {}, id="through-another-gpu"),
    pytest.param(TWO, all_to_all(TWO, "p2p_links", kind=PCIE, weight=40), {}, id="pcie-only"),
    pytest.param(TWO, all_to_all(TWO, "p2p_links", weight=52), {}, id="through-two-cpus-with-xgmi"),
    pytest.param(TWO, all_to_all(TWO, "p2p_links"), {A: (B,), B: (A,)}, id="among-the-links-of-peers"),
    pytest.param(TWO, {(2, "io_links", 0): link(2, 3)}, {A: (B,), B: (A,)}, id="one-end-tells"),
    pytest.param(TWO, {(2, "io_links", 0): link(2, 0), (0, "io_links", 0): link(0, 2)}, {}, id="xgmi-to-the-cpus"),
    pytest.param(
        (CPU, A, A, B, B), all_to_all((CPU, A, A, B, B)), {A: (B,), B: (A,)}, id="partitions-count-for-their-gpus"
    ),
    pytest.param((CPU, A, A), all_to_all((CPU, A, A)), {}, id="partitions-of-one-gpu"),
    pytest.param(
        (CPU, A, B, C, D), all_to_all((CPU, A, B, C, D)),
        {one: tuple(other for other in (A, B, C, D) if other != one) for one in (A, B, C, D)}, id="four-all-to-all",
    ),
])
def test_links(linked, nodes, links, expected):
    assert linked(nodes, links) == (expected, ())


def test_dies_of_two_packages_in_a_ring(linked):
    """Four dies in a ring: KFD shows each pair, and two links in a row between dies across."""
    nodes, hops = (CPU, A, B, C, D), {frozenset(pair): 1 for pair in ((1, 2), (2, 3), (3, 4), (4, 1))}
    told = {}
    for one, other in itertools.permutations(range(1, 5), 2):
        told[one, "io_links", other] = link(one, other, weight=15 * hops.get(frozenset((one, other)), 2))
    assert linked(nodes, told) == ({A: (B, D), B: (A, C), C: (B, D), D: (A, C)}, ())


@pytest.mark.parametrize("text", [
    pytest.param("", id="empty"),
    pytest.param("\0\0\0", id="nul-bytes"),
    pytest.param("type eleven\nnode_from 2\nnode_to 3\nweight 15\n", id="words"),
    pytest.param("type 11\nnode_from 2\nnode_to -3\nweight 15\n", id="a-negative-node"),
    pytest.param("type 11\nnode_from 2\nweight 15\n", id="no-other-end"),
    pytest.param("node_from 2\nnode_to 3\nweight 15\n", id="no-type"),
    pytest.param("type 11\nnode_from 2\nnode_to 99999999999999999\nweight 15\n", id="a-node-that-is-none"),
    pytest.param("type 11\nnode_from 2\nnode_to 2\nweight 15\n", id="to-itself"),
    pytest.param(f"type {'1' * 5000}\nnode_from 2\nnode_to 3\n", id="a-number-without-end"),
])
def test_broken_link_is_none(linked, text):
    assert linked(TWO, {(2, "io_links", 0): text}) == ({}, ())


@pytest.mark.parametrize("text", [
    pytest.param("type 11\nnode_from 2\nnode_to 3\n", id="no-weight"),
    pytest.param("type 11\nnode_to 3\nweight 15\n", id="no-own-end"),
    pytest.param("type 11\nnode_from 2\nnode_to 3\nweight 15\n\0\0", id="nul-bytes-at-the-end"),
])
def test_link_without_some_lines_counts(linked, text):
    assert linked(TWO, {(2, "io_links", 0): text}) == ({A: (B,), B: (A,)}, ())


def test_gpu_that_the_machine_lacks_is_no_link(tmp_path):
    """The other GPU has vanished from the bus, and KFD still shows its node."""
    files = {f"{TOP}/{number}/properties": properties(address) for number, address in enumerate((CPU, A, B))}
    files[f"{TOP}/1/io_links/0/properties"] = link(1, 2)
    root = build(tmp_path, {**PLAIN, "files": files, "devices": {A: {}}})
    assert [device.links for device in discover(root, process_limits=False).devices] == [()]


def test_unreadable_folder_of_nodes_leaves_no_links(linked):
    assert linked((CPU, A), {(1, "io_links", 0): link(1, 9), (1, "p2p_links", 0): link(1, 0)}) == ({}, ())
