# SPDX-License-Identifier: Apache-2.0
"""Machines of every kind with containers on them, as answers of ``GET /v1/hosts/{host}/topology``.

Each answer is made by the view of the API from a topology and from plans of ``plan()``.
"""

import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from oslo_utils import uuidutils

from zun.api import microversion
from zun.api.views import hosts
from zun.objects.placement import cpuset_record
from zun.tests.unit.topology.machines import EXPANDERS, build
from zun.topology import CpuSet, HostTopology, NUMACell, PlacementRequest, Plan, Usage, discover, plan
from zun.topology.device_request import DeviceMatch, DeviceRequest
from zun.topology.devices import Device, DeviceType
from zun.topology.foreign import Foreign, ForeignShare

Answer = dict[str, Any]
GIB = 1024


def cells(
    number: int, cores: int, threads: int = 2, *, memory_mib: int = 64 * GIB, l3: int = 1, pages: Mapping[int, int] = {}
) -> tuple[NUMACell, ...]:
    """Return equal cells, numbered like Linux does: first the first threads of all cores, then the second ones."""
    every, made = number * cores, []
    for node in range(number):
        firsts = range(node * cores, (node + 1) * cores)
        siblings = tuple(CpuSet(core + every * thread for thread in range(threads)) for core in firsts)
        share = cores // l3
        parts = (siblings[at : at + share] for at in range(0, cores, share))
        groups = tuple(CpuSet(cpu for core in part for cpu in core) for part in parts)
        distances = {other: 10 if other == node else 12 if other // 2 == node // 2 else 32 for other in range(number)}
        cpus = CpuSet(cpu for core in siblings for cpu in core)
        made.append(NUMACell(node, cpus, siblings, groups, memory_mib, distances, dict(pages)))
    return tuple(made)


def answer(
    topology: HostTopology, asked: Iterable[tuple[str, PlacementRequest]], host: str = "node-1", **more: Any
) -> Answer:
    """Return the topology answer of a host whose containers were placed one after the other."""
    usage, claims = Usage(), []
    for number, (name, request) in enumerate(asked):
        placed = plan(topology, usage, request)
        assert isinstance(placed, Plan), f"{name}: {placed}"
        usage = usage.with_claim(name, placed)
        claims.append(row(f"{number:08x}-0000-4000-8000-000000000000", name, placed))
    return shown(topology, claims, host, **more)


def row(uuid: str, name: str, placed: Plan) -> Mapping[str, Any]:
    return {"uuid": uuid, "name": name, "cpuset": cpuset_record(placed), "placement": None, "project_id": "p"}


def shown(topology: HostTopology, claims: Sequence[Mapping[str, Any]], host: str = "node-1", **more: Any) -> Answer:
    node = {
        "uuid": uuidutils.generate_uuid(),
        "hostname": host,
        "generation": 7 + len(claims),
        "topology": topology.to_dict(),
    }
    return {**cast("Answer", hosts.topology(node, claims, microversion.MAX)), **more}


def shared(cpus: float, memory_mib: int = GIB) -> PlacementRequest:
    return PlacementRequest(cpus, memory_mib, "shared")


def small() -> Answer:
    """Return a machine of two cells with a claim of each kind."""
    sockets = (CpuSet("0-7,16-23"), CpuSet("8-15,24-31"))
    topology = HostTopology(cells(2, 8, pages={2048: 4096, 1048576: 8}), sockets=sockets)
    topology = topology.configured(reserved_cpus=CpuSet("0,16"), reserved_memory_mib=4 * GIB, cpu_allocation_ratio=4.0)
    return answer(topology, [
        ("database", PlacementRequest(6, 16 * GIB)),
        ("radio", PlacementRequest(2, 4 * GIB, thread_policy="isolate")),
        ("dpdk-router", PlacementRequest(4, 4 * GIB, page_size=2048)),
        ("mixed-cache", PlacementRequest(4, 2 * GIB, "mixed", dedicated_cpus=2)),
        ("web", shared(2, 2 * GIB)),
        ("batch", shared(1.5, 3 * GIB)),
    ])  # fmt: skip


def behind(bus: str) -> tuple[str, ...]:
    return (f"pci0000:{bus}", f"0000:{bus}:01.0", f"0000:{bus[0]}a:00.0", f"0000:{bus[0]}b:00.0")


def gpu(address: str, node: int, switch: str, links: Iterable[str], **more: Any) -> Device:
    return Device(
        address, "10de", "2330", "030200", node, behind(switch), links=tuple(links),
        resource_class="PGPU", **more,
    )  # fmt: skip


def with_devices() -> Answer:
    """Return a machine of two sockets with four cells, linked GPUs behind switches, parts, functions and shares."""
    gpus = [f"0000:{bus}:00.0" for bus in ("41", "42", "81", "82")]
    devices = [
        *(
            gpu(address, node, address[5] + "0", [other for other in gpus if other != address])
            for node, address in enumerate(gpus)
        ),
        gpu("0000:c1:00.0", 3, "c0", ()),
        *(
            Device(f"0000:c1:00.0/gi{part}/ci0", "10de", "2330", "030200", 3, behind("c0"),
                   DeviceType.PART, "0000:c1:00.0", profile="1g.10gb", resource_class="CUSTOM_MIG_1G_10GB")
            for part in range(1, 5)
        ),
        *(
            Device(f"0000:21:00.{function}", "8086", "1572", "020000", 0, ("pci0000:20", "0000:20:02.0"),
                   DeviceType.VF, "0000:21:00.0", interfaces=(f"ens1v{function}",), resource_class="SRIOV_NET_VF",
                   physical_network="physnet1")
            for function in range(1, 5)
        ),
        Device("0000:61:00.0", "144d", "a80a", "010802", 1, ("pci0000:60", "0000:60:01.1"),
               resource_class="CUSTOM_NVME"),
        Device("/dev/hwrng", type=DeviceType.PATH, nodes=("/dev/hwrng",), shared=8, resource_class="CUSTOM_RNG"),
        Device("vendor.com/fpga=0", type=DeviceType.CDI, cell=2, resource_class="CUSTOM_FPGA"),
    ]  # fmt: skip
    halves = (CpuSet("0-15,32-47"), CpuSet("16-31,48-63"))
    topology = HostTopology(cells(4, 8, l3=2, pages={1048576: 16}), sockets=halves, devices=tuple(devices))
    topology = topology.configured(reserved_memory_mib=2 * GIB, cpu_allocation_ratio=8.0)

    def some(name: str, number: int = 1, **match: Any) -> tuple[DeviceRequest, ...]:
        return (DeviceRequest(name, number, (DeviceMatch(resource_class=name, **match),)),)

    return answer(topology, [
        ("training", PlacementRequest(16, 32 * GIB, numa_nodes=2, devices=some("PGPU", 2), device_same="link")),
        ("inference-a", PlacementRequest(2, 8 * GIB, devices=some("CUSTOM_MIG_1G_10GB"))),
        ("inference-b", PlacementRequest(2, 8 * GIB, devices=some("CUSTOM_MIG_1G_10GB"))),
        ("firewall", PlacementRequest(4, 8 * GIB, page_size=1048576, devices=some("SRIOV_NET_VF", 2))),
        ("keys-1", PlacementRequest(1, GIB, "shared", devices=some("CUSTOM_RNG"))),
        ("keys-2", PlacementRequest(1, GIB, "shared", devices=some("CUSTOM_RNG"))),
        ("scratch", PlacementRequest(1, GIB, "shared", devices=some("CUSTOM_NVME"))),
    ], "gpu-rack-7")  # fmt: skip


def hybrid() -> Answer:
    """Return one cell of six cores with two threads and eight cores with one."""
    siblings = (*(CpuSet((2 * core, 2 * core + 1)) for core in range(6)), *(CpuSet((cpu,)) for cpu in range(12, 20)))
    every = CpuSet("0-19")
    topology = HostTopology((NUMACell(0, every, siblings, (every,), 32 * GIB, {0: 10}),), sockets=(every,))
    return answer(topology, [("build", PlacementRequest(4, 4 * GIB)), ("ui", shared(2))], "laptop")


def far_memory() -> Answer:
    """Return two cells with CPUs and two nodes of memory without CPUs."""
    near = cells(2, 4, 1, memory_mib=16 * GIB)
    far = [
        NUMACell(node, CpuSet(), (), (), 64 * GIB, {0: 14 + 5 * node, 1: 24 - node, 2: 10, 3: 10}) for node in (2, 3)
    ]
    near = tuple(replace(cell, distances={0: 10, 1: 21, 2: 17, 3: 28}) for cell in near)
    return answer(HostTopology((*near, *far)), [("in-memory-db", PlacementRequest(3, 40 * GIB))], "cxl")


def without_smt() -> Answer:
    """Return four cells whose cores have one thread each, and CPUs that are offline, isolated or reserved."""
    topology = HostTopology(cells(4, 8, 1, l3=2), offline=CpuSet("32-35"), isolated=CpuSet("28-31"))
    topology = topology.configured(reserved_cpus=CpuSet("0-1"), shared_set=CpuSet("2-7"), dedicated_set=CpuSet("8-31"))
    other = Foreign(here={2: ForeignShare(2, 0, 8 * GIB, {})}, withheld=CpuSet("16-17"), disk_beside=100)
    topology = topology.shared_with(other)
    return answer(topology, [
        ("pinned", PlacementRequest(5, 8 * GIB)),
        ("latency", PlacementRequest(2, GIB, isolation="isolated")),
        ("web", shared(1)),
    ], "arm-1")  # fmt: skip


def large(number: int = 64, cores: int = 8, claims: int = 40) -> Answer:
    """Return a large machine with two threads a core."""
    topology = HostTopology(cells(number, cores, l3=1)).configured(reserved_memory_mib=number * GIB)
    sizes = (3, 8, 2, 5, 12, 4, 7, 1)
    return answer(topology, [
        (f"job-{at}", PlacementRequest(sizes[at % 8], 2 * GIB, thread_policy=("prefer", "require")[at % 2]))
        for at in range(claims)
    ], "big-iron")  # fmt: skip


def expanders() -> Answer:
    """Return the recorded machine whose devices are behind expander buses and a switch."""
    with tempfile.TemporaryDirectory() as folder:
        found = discover(build(pathlib.Path(folder), EXPANDERS), process_limits=False)
    return answer(found, [("disk", PlacementRequest(2, 64))], "expanders")


MACHINES = {
    "small": small,
    "devices": with_devices,
    "hybrid": hybrid,
    "far-memory": far_memory,
    "no-smt": without_smt,
    "large": large,
    "expanders": expanders,
}
