# SPDX-License-Identifier: Apache-2.0
"""``discover`` on machines as kernels describe them, one oddity each."""

from __future__ import annotations

import os
import random

import pytest

from zun.tests.unit.topology.hosts import proof_size
from zun.tests.unit.topology.machines import CPU, NODE, PLAIN, build, changed
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, discover, plan

EXPECTED = HostTopology(
    cells=(
        NUMACell(
            0, CpuSet("0-1,4-5"), (CpuSet("0,4"), CpuSet("1,5")), (CpuSet("0-1,4-5"),), 4096,
            {0: 10, 1: 21}, {2048: 512, 1048576: 0},
        ),
        NUMACell(
            1, CpuSet("2-3,6-7"), (CpuSet("2,6"), CpuSet("3,7")), (CpuSet("2-3,6-7"),), 4095,
            {0: 21, 1: 10}, {2048: 0, 1048576: 1},
        ),
    ),
    sockets=(CpuSet("0-1,4-5"), CpuSet("2-3,6-7")),
)


@pytest.fixture
def found(tmp_path):
    def discovered(machine, **arguments) -> HostTopology:
        return discover(build(tmp_path, machine), **{"process_limits": False, **arguments})

    return discovered


def cpus(topology: HostTopology) -> dict[int, str]:
    return {part.id: str(part.cpus) for part in topology.cells}


@pytest.mark.parametrize("machine", [
    pytest.param(PLAIN, id="plain"),
    pytest.param(changed(nul=True), id="files-end-in-nul"),
    pytest.param(changed(lists=False), id="only-bitmaps"),
    pytest.param(changed(switches=True), id="no-cpu-online-file"),
    pytest.param(changed(files={f"{NODE}/online": None}), id="no-node-online-file"),
    pytest.param(changed(files={f"{NODE}/node3x/cpulist": "0-7", f"{NODE}/power/a": "", f"{CPU}/cpufreq/x": ""}),
                 id="other-folders"),
    pytest.param(changed(files={f"{CPU}/cpu0/topology/core_cpus_list": "0,4"}), id="newer-names"),
])
def test_the_same_machine_in_other_words(found, machine):
    topology = found(machine)
    assert topology == EXPECTED
    assert topology.notes == ()


def test_bitmaps_of_several_words(found):
    nodes = {0: {"cpus": "0-1,40-41"}}
    topology = found({"online": "0-1,40-41", "lists": False, "cores": ["0,40", "1,41"], "nodes": nodes})
    assert topology.cell(0).siblings == (CpuSet("0,40"), CpuSet("1,41"))


def test_takes_a_text_or_a_path(tmp_path):
    build(tmp_path, PLAIN)
    assert discover(str(tmp_path)) == discover(tmp_path) == EXPECTED


def test_sparse_ids(found):
    row = {2: "10 16 22", 33: "16 10 16", 72: "22 16 10"}
    topology = found({
        "online": "0-5",
        "nodes": {node: {"cpus": f"{2 * i}-{2 * i + 1}", "distance": row[node]} for i, node in enumerate(row)},
    })
    assert cpus(topology) == {2: "0-1", 33: "2-3", 72: "4-5"}
    assert topology.cell(33).distances == {2: 16, 33: 10, 72: 16}
    assert topology.cell(72).memory_mib == 1024
    with pytest.raises(KeyError):
        topology.cell(0)


def test_memory_only_and_memoryless_nodes(found):
    row = {0: "10 20 17", 1: "20 10 28", 2: "17 28 10"}
    topology = found({
        "online": "0-3",
        "nodes": {
            0: {"cpus": "0-1", "distance": row[0]},
            1: {"cpus": "2-3", "kib": 0, "distance": row[1]},
            2: {"kib": 2097152, "distance": row[2], "initiators": [1]},
        },
    })
    assert {part.id: (str(part.cpus), part.memory_mib) for part in topology.cells} == {
        0: ("0-1", 1024), 1: ("2-3", 0), 2: ("", 2048),
    }
    assert (topology.cell(2).siblings, topology.cell(2).l3) == ((), ())
    assert topology.cell(2).initiators == CpuSet("1")
    answer = plan(topology, Usage(), PlacementRequest(2, 1500))
    assert (str(answer.cpus), str(answer.mems)) == ("2-3", "2")


def test_memory_belongs_to_the_cell_that_hmat_names(found):
    """CPUs 0-3 in cells without memory, memory in nodes 3 to 5, and node 2 is an accelerator that reaches memory too.

    By distance alone node 3 would belong to cell 0 and node 5 to cell 1.
    """
    rows = {0: "10 20 12 11 30 21", 1: "20 10 12 21 30 11", 2: "12 12 10 11 11 11", 3: "11 21 11 10 30 30",
            4: "30 30 11 30 10 30", 5: "21 11 11 30 30 10"}  # fmt: skip
    best = {3: {"access0": (2,), "access1": (1,)}, 4: {"access0": (2,), "access1": (0, 1)}, 5: {"access0": (0, 2)}}
    folder = "sys/devices/system/node"
    topology = found({
        "online": "0-3",
        "nodes": {node: {"cpus": f"{2 * node}-{2 * node + 1}" if node < 2 else "", "distance": row,
                         "kib": 1048576 if node > 2 else 0} for node, row in rows.items()},
        "files": {f"{folder}/node{node}/{access}/initiators/node{other}/of": "" for node, told in best.items()
                  for access, others in told.items() for other in others},
    })  # fmt: skip
    assert topology.device_view.homes == {0: (0,), 1: (1,), 2: (0, 1), 3: (1,), 4: (0, 1), 5: (0,)}
    assert [cell.nodes for cell in topology.view.cells] == [(0, 2, 5, 4), (1, 3)]
    answer = plan(topology, Usage(), PlacementRequest(2, 1000, numa_nodes=1))
    assert (str(answer.cpus), str(answer.mems)) == ("0-1", "5")


def test_offline_cpus_stay_in_their_nodes_list(found):
    topology = found(changed(online="0-4,6-7", offline="5"))
    assert cpus(topology) == {0: "0-1,4", 1: "2-3,6-7"}
    assert topology.cell(0).siblings == (CpuSet("0,4"), CpuSet("1"))
    assert topology.offline == CpuSet("5")
    assert topology.notes == ()


def test_offline_cpus_by_their_switches(found):
    topology = found(changed(online="0-4,6", offline="5,7", switches=True, lists=False))
    assert cpus(topology) == {0: "0-1,4", 1: "2-3,6"}
    assert topology.offline == CpuSet("5,7")


def test_possible_cpus_are_not_offline_ones(found):
    """A kernel may list thousands of CPUs as offline that were never there."""
    topology = found(changed(files={f"{CPU}/offline": "8-111\n", f"{CPU}/possible": "0-111\n"}))
    assert topology.offline == CpuSet()
    assert topology == EXPECTED


def test_four_threads_a_core(found):
    topology = found({"online": "0-7", "cores": ["0-3", "4-7"], "nodes": {0: {"cpus": "0-7"}}})
    assert topology.cell(0).siblings == (CpuSet("0-3"), CpuSet("4-7"))


GH200 = {
    "online": "0-3",
    "l3": ["0-3"],
    "nodes": {
        0: {"cpus": "0-3", "kib": 4194304, "distance": "10 80 80 80"},
        1: {"kib": 2097152, "distance": "80 10 255 255"},
        2: {"kib": 0, "distance": "80 255 10 255"},
        3: {"kib": 0, "distance": "80 255 255 10"},
    },
}
"""Memory of a GPU, and the nodes that its partitions would have."""
A64FX = {
    "online": "12-19",
    "nodes": {
        # The kernel puts a blank before each distance but that of a node 0.
        4: {"cpus": "12-15", "distance": " 10 20"},
        5: {"cpus": "16-19", "distance": " 20 10"},
    },
}
"""No L3, and neither node 0 nor CPU 0."""
POWER10 = {
    "online": "0-3,8-11",
    "offline": "4-7,12-15",
    "cores": ["0-7", "8-15"],
    "l3": ["0,2,4,6", "1,3,5,7", "8,10,12,14", "9,11,13,15"],
    "nodes": {0: {"cpus": "0-15", "distance": "10"}},
}
"""Half of eight threads are offline, and each core has a cache for its even threads and one for the odd ones."""
FAKE = {
    "online": "0-3",
    "cores": ["0-1", "2-3"],
    "l3": ["0-3"],
    "nodes": {node: {"cpus": "0-3", "distance": "10 10"} for node in (0, 1)},
}
"""One socket that ``numa=fake=2`` cuts in two: x86 has its CPUs in both."""
HBM = {
    "online": "0-3",
    "l3": ["0-3"],
    "nodes": {
        0: {"cpus": "0-1", "distance": "10 12 13 14"},
        1: {"cpus": "2-3", "distance": "12 10 14 13"},
        2: {"distance": "13 14 10 14"},
        3: {"distance": "14 13 14 10"},
    },
}
"""Sub-NUMA clusters share what the kernel calls their cache; each has a node of fast memory."""


@pytest.mark.parametrize(("machine", "cells", "caches", "request_", "cpus_mems"), [
    pytest.param(GH200, {0: "0-3", 1: "", 2: "", 3: ""}, {0: ["0-3"]}, PlacementRequest(2, 5000), ("0-1", "0-1"),
                 id="memory-of-a-gpu"),
    pytest.param(A64FX, {4: "12-15", 5: "16-19"}, {}, PlacementRequest(4, 10, numa_nodes=2), ("12-13,16-17", "4-5"),
                 id="no-first-node"),
    pytest.param(POWER10, {0: "0-3,8-11"}, {0: ["0,2", "1,3", "8,10", "9,11"]},
                 PlacementRequest(4, 10, thread_policy="require"), ("0-3", "0"), id="two-caches-in-a-core"),
    pytest.param(FAKE, {0: "0-3", 1: ""}, {0: ["0-3"]}, PlacementRequest(2, 1500), ("0-1", "0-1"), id="emulated"),
    pytest.param(HBM, {0: "0-1", 1: "2-3", 2: "", 3: ""}, {0: ["0-1"], 1: ["2-3"]},
                 PlacementRequest(4, 4000, numa_nodes=2), ("0-3", "0-3"), id="fast-memory-beside-each-cluster"),
])
def test_machines_of_many_kinds(found, machine, cells, caches, request_, cpus_mems):
    topology = found(machine)
    assert cpus(topology) == cells
    assert {part.id: [*map(str, part.l3)] for part in topology.cells if part.l3} == caches
    for part in topology.cells:
        row = machine["nodes"][part.id]["distance"].split()
        right = dict(zip(machine["nodes"], map(int, row), strict=True)) if len(row) > 1 else {}
        assert part.distances == right
    answer = plan(topology, Usage(), request_)
    assert (str(answer.cpus), str(answer.mems)) == cpus_mems


def test_hybrid_cores(found):
    topology = found({"online": "0-5", "cores": ["0-1", "2-3"], "l3": ["0-4"], "nodes": {0: {"cpus": "0-5"}}})
    assert topology.cell(0).siblings == tuple(map(CpuSet, ("0-1", "2-3", "4", "5")))
    assert topology.cell(0).l3 == (CpuSet("0-4"),)


def test_sub_numa_clusters_share_a_socket(found):
    topology = found(changed(packages=["0-7"], l3=["0-7"]))
    assert topology.sockets == (CpuSet("0-7"),)
    assert [part.l3 for part in topology.cells] == [(CpuSet("0-1,4-5"),), (CpuSet("2-3,6-7"),)]
    assert topology.exposed_l3 == CpuSet("0-7"), "nobody on one cell can have the cache to himself"
    assert plan(topology, Usage(), PlacementRequest(1, 10, isolation="l3")).code == "isolation"
    assert plan(topology, Usage(), PlacementRequest(1, 10, isolation="node")).withheld == CpuSet("3,6-7")


def test_a_core_on_two_nodes_is_never_whole(found):
    topology = found(changed(cores=["0,4", "1,5", "2,6", "3,7"], nodes={0: {"cpus": "0-3"}, 1: {"cpus": "4-7"}}))
    assert topology.exposed == CpuSet("0-7")
    for request in (PlacementRequest(1, 10, thread_policy="isolate"), PlacementRequest(1, 10, isolation="core")):
        assert plan(topology, Usage(), request).code == "cores"
    assert str(plan(topology, Usage(), PlacementRequest(4, 10)).cpus) == "0-3"



@pytest.mark.parametrize("proc", [
    {"kib": 2097152},
    {"kib": 2097152, "files": {f"{CPU}/online": None, "proc/cpuinfo": "processor\t: 0\nx: 1\n\nprocessor\t: 1\n"}},
])
def test_no_numa_directory_is_one_cell(found, proc):
    topology = found({"online": "0-1", "nodes": None, "pages": {2048: 3}, **proc})
    assert topology.cells == (
        NUMACell(0, CpuSet("0-1"), (CpuSet("0"), CpuSet("1")), memory_mib=2048, pages={2048: 3}),
    )


def test_cpus_from_cpuinfo_alone(tmp_path):
    build(tmp_path, {"online": "", "files": {"proc/cpuinfo": "processor : 0\nProcessor : X\nprocessor : 3\n"}})
    topology = discover(tmp_path)
    assert cpus(topology) == {0: "0,3"}
    assert topology.cell(0).memory_mib == 0
    assert any("those of /proc/cpuinfo are used" in note for note in topology.notes), topology.notes


def test_memory_of_an_only_node_that_does_not_tell_it(found):
    """The machine tells it as well."""
    only = f"{NODE}/node0/meminfo"
    topology = found({"online": "0-1", "nodes": {0: {"cpus": "0-1"}}, "kib": 2097152, "files": {only: "junk\n"}})
    assert topology.memory_mib == 2048
    assert topology.notes == ()


def test_distances_of_one_node_are_none(found):
    topology = found({"online": "0-1", "nodes": {4: {"cpus": "0-1", "distance": "10"}}})
    assert topology.cell(4).distances == {}


@pytest.mark.parametrize(("row", "files", "distances", "note"), [
    pytest.param("21 10", {}, {0: 21, 1: 10}, None, id="as-long-as-the-nodes"),
    pytest.param("21 10 33", {f"{NODE}/possible": "0-2"}, {0: 21, 1: 10}, None, id="of-possible-nodes"),
    pytest.param("33 10 21", {f"{NODE}/online": "0-1,7", f"{NODE}/possible": "0-7"}, {0: 33, 1: 10}, None,
                 id="of-online-nodes-without-a-folder"),
    pytest.param("21 10 33 34", {}, {0: 21, 1: 10}, None, id="longer-than-any-list"),
    pytest.param("10", {f"{NODE}/has_memory": "0"}, {}, "has 1 distances for 2", id="of-a-list-that-lacks-the-node"),
    pytest.param("21", {}, {}, "has 1 distances for 2 nodes", id="too-short"),
    pytest.param("21 x", {}, {}, "is not understood", id="no-numbers"),
    pytest.param("0 0", {}, {}, "has a distance of 0", id="zeros"),
    pytest.param("", {}, {}, "nothing is known of the distances", id="empty"),
    pytest.param("10 21", {}, {}, "another node nearer", id="of-another-node"),
    pytest.param("10 10", {}, {0: 10, 1: 10}, None, id="all-equally-near"),
])
def test_distance_rows(found, row, files, distances, note):
    topology = found(changed(files={f"{NODE}/node1/distance": f"{row}\n", **files}))
    assert topology.cell(1).distances == distances
    assert topology.cell(0).distances == {0: 10, 1: 21}
    assert bool(topology.notes) == bool(note) and (note or "") in " ".join(topology.notes)


def test_distances_of_some_nodes_only_leave_a_note(found):
    topology = found(changed(files={f"{NODE}/node1/distance": None}))
    assert any("distances from nodes 1" in note for note in topology.notes), topology.notes


def cache_files(cpu, text):
    return {f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list": text}


def core_file(cpu, text):
    return {f"{CPU}/cpu{cpu}/topology/thread_siblings_list": text}


@pytest.mark.parametrize(("files", "cores", "note"), [
    pytest.param(core_file(0, "0"), [["0,4", "1,5"], ["2,6", "3,7"]], "overlaps with others", id="lowest-says-alone"),
    pytest.param(core_file(4, "4"), [["0,4", "1,5"], ["2,6", "3,7"]], "overlaps with others", id="highest-says-alone"),
    pytest.param(core_file(1, "0-1,5"), [["0-1,4-5"], ["2,6", "3,7"]], "overlaps with others", id="over-two-cores"),
    pytest.param(core_file(0, "1,5"), [["0,4", "1,5"], ["2,6", "3,7"]], "not among its own", id="of-another-cpu"),
    pytest.param(core_file(0, "0,4,9"), [["0,4", "1,5"], ["2,6", "3,7"]], None, id="with-a-cpu-that-is-not-there"),
])
def test_nobody_has_a_core_alone_that_a_sibling_may_share(found, files, cores, note):
    """Whichever of the siblings names the other: the CPUs' numbers decide nothing."""
    topology = found(changed(files=files))
    assert [[str(core) for core in part.siblings] for part in topology.cells] == cores
    assert {note is not None and note in words for words in topology.notes} == ({True} if note else set())


@pytest.mark.parametrize(("files", "caches", "note"), [
    pytest.param(cache_files(4, "0-7"), [["0-1,4-5"], ["2-3,6-7"]], "overlaps with others", id="over-two-caches"),
    pytest.param(cache_files(0, "0,4"), [["0-1,4-5"], ["2-3,6-7"]], "overlaps with others", id="one-inside-another"),
    pytest.param({**cache_files(0, "0,4"), **cache_files(4, "0,4")}, [["0-1,4-5"], ["2-3,6-7"]],
                 "overlaps with others", id="some-alone-by-their-own-words"),
    pytest.param(cache_files(5, "2-3,6-7"), [["0-1,4-5"], ["2-3,6-7"]], "not among its own", id="of-another-cpu"),
    pytest.param({f"{CPU}/cpu0/cache/index3/level": "three"}, [["0-1,4-5"], ["2-3,6-7"]], "level is not understood",
                 id="level-not-understood"),
    pytest.param({f"{CPU}/cpu0/cache/index0/level": "3"}, [["0-1,4-5"], ["2-3,6-7"]], "overlaps with others",
                 id="two-of-level-3"),
    pytest.param(cache_files(0, "0-1,4-5,9"), [["0-1,4-5"], ["2-3,6-7"]], None, id="with-a-cpu-that-is-not-there"),
])
def test_caches_are_disjoint_and_contradictions_leave_a_note(found, files, caches, note):
    topology = found(changed(files=files))
    assert [[str(cache) for cache in part.l3] for part in topology.cells] == caches
    assert {note is not None and note in words for words in topology.notes} == ({True} if note else set())


def test_nobody_has_a_cache_alone_that_another_node_may_share(found):
    topology = found(changed(files=cache_files(4, "0-7")))
    assert topology.exposed_l3 == CpuSet("0-7")


def test_isolated_cpus(found):
    assert found(changed(isolated="2-3,6-9")).isolated == CpuSet("2-3,6-7")


@pytest.mark.parametrize(("cmdline", "isolated", "notes"), [
    ("quiet isolcpus=2-3,6-9 nohz_full=1-7", "2-3,6-7", False),
    ("isolcpus=domain,2", "2", False),
    ("isolcpus=managed_irq,domain,2-N", "2-7", False),
    ("isolcpus=nohz,managed_irq,2-3", "", False),  # these CPUs are balanced
    ("isolcpus=0-7:2/4", "0-1,4-5", False),
    ("isolcpus=all", "0-7", False),
    ("isolcpus=N", "7", False),
    ("isolcpus=", "", False),
    ("isolcpus=2 isolcpus=3", "3", False),  # the last one counts
    ("isolcpus=2 -- isolcpus=3", "2", False),
    ("nohz_full=2-3 rcu_nocbs=all", "", False),
    ("isolcpus=domain,x", "", True),
])
def test_isolated_cpus_of_a_kernel_without_their_file(found, cmdline, isolated, notes):
    topology = found(changed(files={"proc/cmdline": cmdline + "\n"}))
    assert str(topology.isolated) == isolated
    assert bool(topology.notes) == notes


def test_isolated_list_of_kernel_overrides_its_command_line(found):
    assert str(found(changed(isolated="", files={"proc/cmdline": "isolcpus=2-3\n"})).isolated) == ""


V1 = "cgroup /sys/fs/cgroup/cpuset cgroup rw,nosuid,cpuset 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
BOTH = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" + V1
STATUS = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{}\nMems_allowed_list:\t{}\n"
FS = "sys/fs/cgroup"
MOUNTED = "36 25 0:31 {} /{} ro,nosuid master:9 - {} cgroup {}\n"


@pytest.mark.parametrize("files", [
    pytest.param({
        "proc/mounts": V2, "proc/self/cgroup": "0::/user.slice/agent\n",
        f"{FS}/user.slice/agent/cpuset.cpus.effective": "0,4,6\n",
        f"{FS}/user.slice/agent/cpuset.mems.effective": "0\n",
    }, id="version-2"),
    pytest.param({
        "proc/mounts": V2, "proc/self/cgroup": "0::/user.slice/agent\n",
        f"{FS}/cpuset.cpus.effective": "0-7\n", f"{FS}/cpuset.mems.effective": "0-1\n",
        f"{FS}/user.slice/cpuset.cpus.effective": "0,4,6\n", f"{FS}/user.slice/cpuset.mems.effective": "0\n",
    }, id="version-2-controller-above"),
    pytest.param({
        "proc/mounts": V2, "proc/self/cgroup": "0::/user.slice/agent\n",
        f"{FS}/user.slice/agent/cpuset.cpus.effective": "0,6\n",
        f"{FS}/user.slice/agent/cpuset.mems.effective": "0\n",
        f"{FS}/zunpart_6a0c.slice/cpuset.cpus.effective": "4\n",
        f"{FS}/other.slice/cpuset.cpus.effective": "7\n",
    }, id="version-2-beside-a-partition"),
    pytest.param({
        "proc/mounts": V1, "proc/self/cgroup": "9:cpuset:/agent\n1:name=systemd:/other\n",
        f"{FS}/cpuset/agent/cpuset.cpus": "0,4,6,9\n", f"{FS}/cpuset/agent/cpuset.mems": "0\n",
    }, id="version-1"),
    pytest.param({
        "proc/mounts": V1, "proc/self/cgroup": "9:cpuset,cpu:/docker/x\n",
        f"{FS}/cpuset/cpuset.cpus": "0-7\n", f"{FS}/cpuset/cpuset.effective_cpus": "0,4,6\n",
        f"{FS}/cpuset/cpuset.mems": "0-1\n", f"{FS}/cpuset/cpuset.effective_mems": "0\n",
    }, id="version-1-in-a-namespace"),
    pytest.param({
        "proc/mounts": BOTH, "proc/self/cgroup": "9:cpuset:/agent\n0::/elsewhere\n",
        f"{FS}/unified/cpuset.cpus.effective": "0-7\n", f"{FS}/unified/cpuset.mems.effective": "0-1\n",
        f"{FS}/cpuset/agent/cpuset.cpus": "0,4,6\n", f"{FS}/cpuset/agent/cpuset.mems": "0\n",
    }, id="both-versions"),
    pytest.param({
        "proc/mounts": "none /dev/cpuset cpuset rw 0 0\n", "proc/self/cpuset": "/batch/job\n",
        "dev/cpuset/batch/job/cpus": "0,4,6\n", "dev/cpuset/batch/job/mems": "0\n",
    }, id="before-cgroups"),
    pytest.param({
        "proc/mounts": "cgroup2 /mnt/cg\\040two cgroup2 rw 0 0\n", "proc/self/cgroup": "0::/agent\n",
        "mnt/cg two/agent/cpuset.cpus.effective": "0,4,6\n", "mnt/cg two/agent/cpuset.mems.effective": "0\n",
    }, id="a-mount-point-with-a-blank"),
    pytest.param({
        "proc/mounts": V1, "proc/self/cgroup": "5:cpuset:/docker/abc/agent\n",
        "proc/self/mountinfo": MOUNTED.format("/docker/abc", f"{FS}/cpuset", "cgroup", "rw,cpuset"),
        f"{FS}/cpuset/cpuset.cpus": "0-7\n", f"{FS}/cpuset/cpuset.mems": "0-1\n",
        f"{FS}/cpuset/agent/cpuset.cpus": "0,4,6\n", f"{FS}/cpuset/agent/cpuset.mems": "0\n",
    }, id="version-1-below-the-root-of-its-mount"),
    pytest.param({
        "proc/mounts": V2, "proc/self/cgroup": "0::/kubepods/pod1/agent\n",
        "proc/self/mountinfo": MOUNTED.format("/kubepods/pod1", FS, "cgroup2", "rw,nsdelegate"),
        f"{FS}/cpuset.cpus.effective": "0-7\n", f"{FS}/cpuset.mems.effective": "0-1\n",
        f"{FS}/agent/cpuset.cpus.effective": "0,4,6\n", f"{FS}/agent/cpuset.mems.effective": "0\n",
    }, id="version-2-below-the-root-of-its-mount"),
    pytest.param({
        "proc/self/cgroup": "0::/docker/abc\n",
        "proc/self/mountinfo": "junk\n" + MOUNTED.format("/docker/abc", FS, "cgroup2", "rw"),
        f"{FS}/cpuset.cpus.effective": "0,4,6\n", f"{FS}/cpuset.mems.effective": "0\n",
    }, id="at-the-root-of-its-mount"),
    pytest.param({
        "proc/self/cgroup": "0::/other/agent\n",
        "proc/self/mountinfo": MOUNTED.format("/docker/abc", FS, "cgroup2", "rw"),
        f"{FS}/cpuset.cpus.effective": "0,4,6\n", f"{FS}/cpuset.mems.effective": "0\n",
    }, id="beside-the-root-of-its-mount"),
    pytest.param({"proc/self/status": STATUS.format("0,4,6", "0")}, id="status-alone"),
    pytest.param({
        "proc/mounts": V2, "proc/self/cgroup": "0::/../x\n",
        f"{FS}/x/cpuset.cpus.effective": "0,4,6\n", f"{FS}/x/cpuset.mems.effective": "0\n",
    }, id="a-path-that-climbs-out"),
])
def test_limits_of_the_process(found, files):
    machine = changed(files=files)
    limited = found(machine, process_limits=True)
    assert cpus(limited) == {0: "0,4", 1: "6"}
    assert [(part.memory_mib, dict(part.pages)) for part in limited.cells] == [
        (4096, {2048: 512, 1048576: 0}), (0, {}),
    ]
    assert limited.exposed_l3 == CpuSet("0,4,6")
    assert limited.exposed_nodes == CpuSet("0,4,6"), "others may run on the rest of these nodes"
    assert limited.exposed == CpuSet("6"), "the other thread of its core is not ours to keep idle"
    assert limited.sockets == (CpuSet("0,4"), CpuSet("6"))
    assert found(machine, process_limits=False) == EXPECTED
    without_caches = {f"sys/devices/system/cpu/cpu{cpu}/cache": None for cpu in range(8)}
    bare = found(changed(files={**files, **without_caches}), process_limits=True)
    assert bare.exposed_l3 == CpuSet("0,4,6"), "what shares a cache with these is not known to be ours"
    refused = plan(limited, Usage(), PlacementRequest(2, 10, numa_nodes=2, thread_policy="isolate"))
    assert refused.code == "cores"


def test_a_whole_cache_of_a_node_that_is_not_ours_as_a_whole(found):
    part = {"proc/self/status": STATUS.format("0-2", "0")}
    caches = {"online": "0-3", "l3": ["0-1", "2-3"], "nodes": {0: {"cpus": "0-3"}}}
    limited = found({**caches, "files": part}, process_limits=True)
    assert (limited.exposed_l3, limited.exposed_nodes) == (CpuSet("2"), CpuSet("0-2"))


@pytest.mark.parametrize("files", [
    pytest.param({}, id="no-files"),
    pytest.param({"proc/mounts": V2, "proc/self/cgroup": "0::/\n"}, id="controller-not-there"),
    pytest.param({"proc/mounts": V2, "proc/self/cgroup": "0::/a\n", f"{FS}/a/cpuset.cpus.effective": "\n",
                  f"{FS}/a/cpuset.mems.effective": ""}, id="empty"),
    pytest.param({"proc/mounts": "junk\n\n", "proc/self/cgroup": "more junk"}, id="junk"),
    pytest.param({"proc/self/status": STATUS.format("0-7", "0-1")}, id="everything-allowed"),
    pytest.param({"proc/self/status": STATUS.format("x", "y")}, id="status-not-understood"),
])
def test_no_limits(found, files):
    assert cpus(found(changed(files=files), process_limits=True)) == cpus(EXPECTED)


def test_status_says_nothing_of_isolated_cpus(found):
    """The kernel keeps every process off them by affinity, which is no limit to containers."""
    machine = changed(isolated="2-3,6-7", files={"proc/self/status": STATUS.format("0-1,4-5", "0-1")})
    topology = found(machine, process_limits=True)
    assert cpus(topology) == cpus(EXPECTED)
    assert topology.isolated == CpuSet("2-3,6-7")


@pytest.mark.parametrize(("files", "expected", "note"), [
    pytest.param({f"{CPU}/online": "0-zz\n"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "cpu/online is not understood",
                 id="online-not-understood"),
    pytest.param({f"{CPU}/online": "0-11\n"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "CPUs 8-11 have no folder",
                 id="online-cpus-without-a-folder"),
    pytest.param({f"{NODE}/node0/cpulist": "junk"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "cpulist is not understood",
                 id="the-bitmap-instead"),
    pytest.param({f"{NODE}/node0/cpulist": "0-99999999999"}, {0: "0-1,4-5", 1: "2-3,6-7"},
                 "cpulist is not understood", id="absurd-list"),
    pytest.param({f"{NODE}/node1/cpulist": "1-3,6-7"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "CPUs 1 are named by node 1",
                 id="a-cpu-in-two-nodes"),
    pytest.param({f"{NODE}/node1/cpulist": "2-3,6", f"{NODE}/node1/cpumap": "0"}, {0: "0-1,4-5", 1: "2-3,6"},
                 "no node names CPU 7", id="a-cpu-in-no-node"),
    pytest.param({f"{NODE}/node1/cpulist": "2-3,6", f"{CPU}/cpu7/node1/x": ""}, {0: "0-1,4-5", 1: "2-3,6-7"}, None,
                 id="its-own-folder-names-its-node"),
    pytest.param({f"{NODE}/online": "0", f"{CPU}/cpu2/node1/x": ""}, {0: "0-1,4-5"}, "nodes 1 have folders",
                 id="a-folder-of-an-offline-node"),
    pytest.param({f"{NODE}/online": "0"}, {0: "0-1,4-5"}, "CPUs 2-3,6-7 are on node 1, which is not used",
                 id="cpus-of-an-offline-node"),
    pytest.param({f"{NODE}/node1": None}, {0: "0-1,4-5"}, "no node names CPU 2", id="an-online-node-without-a-folder"),
    pytest.param({f"{NODE}/node1/meminfo": "garbage"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "memory of node 1",
                 id="memory-not-understood"),
    pytest.param({f"{NODE}/node1/meminfo": b"\xff\xfe\0\x80"}, {0: "0-1,4-5", 1: "2-3,6-7"}, "memory of node 1",
                 id="binary"),
    pytest.param({f"{CPU}/cpu0/topology/thread_siblings_list": "1,5"}, {0: "0-1,4-5", 1: "2-3,6-7"},
                 "CPU 0 is not among its own core's CPUs", id="core-without-itself"),
    pytest.param({f"{CPU}/cpu1/topology/thread_siblings_list": "0-1,5"}, {0: "0-1,4-5", 1: "2-3,6-7"},
                 "core of CPU 1, 0-1,5, overlaps with others", id="a-cpu-in-two-cores"),
    pytest.param({f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "-3"}, {0: "0-1,4-5", 1: "2-3,6-7"},
                 "nr_hugepages is not understood", id="negative-pages"),
    pytest.param({f"{NODE}/node0/cpulist": None, f"{NODE}/node0/cpumap": None, f"{NODE}/node0/cpu0/x": "",
                  f"{NODE}/node0/cpu1/x": "", f"{NODE}/node0/cpu4/x": "", f"{NODE}/node0/cpu5/x": ""},
                 {0: "0-1,4-5", 1: "2-3,6-7"}, None, id="only-links-to-cpus"),
])
def test_contradictions_leave_a_note(found, files, expected, note):
    topology = found(changed(files=files))
    assert cpus(topology) == expected
    if note is None:
        assert topology.notes == ()
    else:
        assert any(note in words for words in topology.notes), topology.notes
    assert isinstance(plan(topology, Usage(), PlacementRequest(1, 10)), Plan)


def links(homes):
    return {f"{CPU}/cpu{cpu}/node{node}/x": "" for node, text in homes.items() for cpu in CpuSet(text)}


@pytest.mark.parametrize(("homes", "expected", "note"), [
    pytest.param({0: "0-3"}, {0: "0-3"}, None, id="all-on-the-only-node"),
    pytest.param({1: "2-3"}, {0: "0-1"}, "CPUs 2-3 are on node 1, which is not used", id="some-on-another-node"),
    pytest.param({1: "2", 7: "3"}, {0: "0-1"}, "CPUs 3 are on node 7, which is not used", id="on-two-other-nodes"),
    pytest.param({0: "2", 1: "2"}, {0: "0-3"}, None, id="on-two-nodes-of-which-one-is-used"),
    pytest.param({}, {0: "0-3"}, None, id="without-links"),
])
def test_unlisted_cpus_follow_their_links(found, homes, expected, note):
    topology = found({"online": "0-3", "nodes": {0: {"cpus": "0-1"}}, "files": links(homes)})
    assert cpus(topology) == expected
    assert any(note in words for words in topology.notes) if note else topology.notes == ()


@pytest.mark.parametrize(("homes", "files", "expected", "note"), [
    pytest.param({0: "0-1", 1: "2-3"}, {}, {0: ("0-1", 0), 1: ("2-3", 0)}, "links of the CPUs name nodes 0-1",
                 id="two-nodes"),
    pytest.param({4: "0-3"}, {}, {4: ("0-3", 2048)}, "links of the CPUs name nodes 4", id="one-node"),
    pytest.param({0: "0-1", 1: "2"}, {}, {0: ("0-1", 0), 1: ("2", 0)}, "no node names CPU 3", id="a-cpu-without"),
    pytest.param({}, {f"{NODE}/online": "0-1"}, {0: ("0-3", 2048)}, "no folder of nodes 0-1", id="only-node-online"),
    pytest.param({}, {}, {0: ("0-3", 2048)}, None, id="no-links"),
])
def test_links_tell_nodes_without_their_folders(found, homes, files, expected, note):
    """The memory of several nodes is not known without their folders; that of one node is all there is."""
    topology = found({"online": "0-3", "nodes": None, "kib": 2097152, "files": {**links(homes), **files}})
    assert {part.id: (str(part.cpus), part.memory_mib) for part in topology.cells} == expected
    assert any(note in words for words in topology.notes) if note else topology.notes == ()


@pytest.mark.parametrize(("names", "attribute"), [
    pytest.param("cache/index3/shared_cpu_list", "l3", id="cache"),
    pytest.param("topology/thread_siblings_list", "siblings", id="core"),
])
def test_bitmap_replaces_a_list_without_its_cpu(found, names, attribute):
    """All lists of node 0 are those of CPU 2."""
    wrong = {"l3": "2-3,6-7", "siblings": "2,6"}[attribute]
    topology = found(changed(files={f"{CPU}/cpu{cpu}/{names}": wrong for cpu in (0, 1, 4, 5)}))
    assert getattr(topology.cell(0), attribute) == getattr(EXPECTED.cell(0), attribute)
    assert all("is not among its own" in note for note in topology.notes)
    assert len(topology.notes) == 4


def test_a_folder_where_a_file_should_be(tmp_path):
    build(tmp_path, changed(files={f"{NODE}/node0/cpulist": None, f"{NODE}/node0/cpulist/x": ""}))
    topology = discover(tmp_path)
    assert cpus(topology) == cpus(EXPECTED)
    assert any("cpulist cannot be read" in note for note in topology.notes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path):
    build(tmp_path, PLAIN)
    (tmp_path / NODE / "node0/cpulist").chmod(0)
    assert any("cannot be read" in note for note in discover(tmp_path).notes)


def test_nothing_there(tmp_path):
    topology = discover(tmp_path / "nowhere")
    assert topology.cells == ()
    assert topology.notes
    assert plan(topology, Usage(), PlacementRequest(1, 1)).code == "no-cpus"


def test_this_machine():
    """The real thing: every CPU the process may use is in exactly one cell."""
    topology = discover()
    assert topology.cpus
    assert sum(len(part.cpus) for part in topology.cells) == len(topology.cpus)
    assert topology.memory_mib > 0
    assert HostTopology.from_dict(topology.to_dict()) == topology


def test_damaged_trees_never_raise(tmp_path):
    """Any file replaced by junk or removed: a topology comes back, and decisions can be made on it."""
    for seed in range(proof_size(25)):
        root = build(tmp_path / str(seed), changed(isolated="3", files={
            "proc/mounts": V2, "proc/self/cgroup": "0::/\n", f"{FS}/cpuset.cpus.effective": "0-7\n",
            f"{FS}/cpuset.mems.effective": "0-1\n", "proc/cpuinfo": "processor: 0\n",
        }))
        rng = random.Random(seed)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for path in rng.sample(files, rng.randint(1, len(files) // 2)):
            junk = rng.choice((None, b"", b"\0", b"7-3", b"-1", b"99999999999999999999", b"0-7,", b"ff,zz", b"\xff\n"))
            if junk is None:
                path.unlink()
            else:
                path.write_bytes(junk)
        topology = discover(root)
        plan(topology, Usage(), PlacementRequest(2, 10, numa_affinity="none"))
        assert HostTopology.from_dict(topology.to_dict()) == topology
