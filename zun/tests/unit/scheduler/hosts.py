# SPDX-License-Identifier: Apache-2.0
"""Hosts, requests and what is held, as values."""

import datetime
from dataclasses import replace

from hypothesis import strategies as st

from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.tests.fixtures import own_conf as configuration
from zun.tests.functional.cloud import machine
from zun.topology import CpuSet, HostTopology, PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import DeviceMatch, DevicePolicy, DeviceRequest, DeviceSame
from zun.topology.devices import Device, DeviceType

NOW = datetime.datetime(2026, 3, 4, 12, 0, 0)
UP = {
    "host": "h1",
    "binary": "zun-compute",
    "disabled": False,
    "disabled_reason": None,
    "forced_down": False,
    "last_seen_up": NOW,
    "updated_at": None,
    "created_at": NOW,
}


ALL_FILTERS = tuple(configuration().scheduler.enabled_filters)


def host(hostname="h1", topology=None, **fields):
    """Two cells of four CPUs and 4096 MiB, empty and up, unless told otherwise."""
    values = {"disk_total": 100, "availability_zone": "nova", "runtimes": ("runc",), "service": UP, **fields}
    return HostState(hostname, machine() if topology is None else topology, **values)


def spec(cpus=2, memory=64, policy="dedicated", *, placement=None, **fields):
    """A request for ``cpus`` CPUs and ``memory`` MiB; ``placement`` has more members of a PlacementRequest."""
    request = PlacementRequest(cpus, memory, cpu_policy=policy, **(placement or {}))
    return RequestSpec("some-uuid", request, **fields)


def ranked(hosts, spec, weights):
    """``hosts`` best first."""
    table = Columns(hosts)
    return [table[row] for row in weighers.best_first(table, spec, weights, table.everything)]


def holding(topology, *requests):
    """The usage after each of ``requests`` (or exact plans) was planned and claimed, one after the other."""
    usage = Usage()
    for number, wanted in enumerate(requests):
        answer = wanted if isinstance(wanted, Plan) else plan(topology, usage, wanted)
        assert isinstance(answer, Plan), answer
        usage = usage.with_claim(f"c{number}", answer)
    return usage


def full(hostname="h1", *requests, topology=None, **fields):
    """A host that holds ``requests``."""
    topology = machine() if topology is None else topology
    return host(hostname, topology, usage=holding(topology, *requests), **fields)


def device(address, cell=0, **fields):
    """A device of vendor ``10de`` on a cell, unless told otherwise."""
    return Device(f"0000:{address}", **{"vendor_id": "10de", "product_id": "1db6", "cell": cell, **fields})


OFFERS = (
    device("81:00.0"),
    device("82:00.0", 1, links=("0000:81:00.0", "0000:84:00.0")),
    device("83:00.0", None),
    device("84:00.0", 1, product_id="20b0", traits=("CUSTOM_A",)),
    device("05:00.0", type=DeviceType.PF, vendor_id="8086"),
    device("05:00.1", type=DeviceType.VF, vendor_id="8086", physical="0000:05:00.0", resource_class="CUSTOM_NIC"),
    device("05:00.2", None, type=DeviceType.VF, vendor_id="8086", resource_class="CUSTOM_NIC"),
)
GPU, NIC = DeviceMatch(vendor_id="10de"), DeviceMatch(resource_class="CUSTOM_NIC")
CARD = DeviceMatch(product_id="20b0", type=DeviceType.PCI)


def wanting(name="gpu", count=1, *matches, **fields):
    """A request for devices of vendor ``10de``, unless told otherwise."""
    return DeviceRequest(name, count, matches or (GPU,), **fields)


def offered_devices():
    """Mostly none."""
    some = st.lists(st.sampled_from(OFFERS), max_size=5, unique=True).map(tuple)
    return st.one_of(st.just(()), st.just(()), some)


@st.composite
def device_requests(draw):
    """The members of a PlacementRequest about devices; mostly none. The name of a request says what it matches."""
    if draw(st.integers(0, 3)):
        return {}
    aliases = {"gpu": (GPU,), "nic": (NIC,), "any": (GPU, NIC), "card": (CARD,)}
    one = st.builds(
        lambda name, count, *more: DeviceRequest(name, count, aliases[name], *more),
        st.sampled_from([*aliases]),
        st.integers(1, 2),
        st.sampled_from(((), (), ("CUSTOM_A",))),
        st.sampled_from(DevicePolicy),
    )
    return {"devices": tuple(draw(st.lists(one, max_size=2))), "device_same": draw(st.sampled_from(DeviceSame))}


@st.composite
def placements(draw, *, plain=False):
    """Draw the request of one container. ``plain`` draws amounts only, with every condition at its default."""
    dedicated = draw(st.sampled_from((True, True, False)))
    devices = {} if plain else draw(device_requests())
    cpus = draw(st.integers(1, 6)) if dedicated else draw(st.integers(1, 60)) / 10
    memory = draw(st.integers(1, 40))
    nodes = draw(st.sampled_from((1, 1, 1, 2)))
    if plain or not dedicated:
        return PlacementRequest(cpus, memory, cpu_policy="dedicated" if dedicated else "shared", **devices)
    return PlacementRequest(
        max(cpus, nodes),
        memory,
        **devices,
        thread_policy=draw(st.sampled_from(("prefer", "isolate", "require"))),
        numa_nodes=nodes,
        numa_affinity=draw(st.sampled_from(("require", "prefer", "none"))),
        mempolicy=draw(st.sampled_from(("strict", "preferred"))),
        page_size=draw(st.sampled_from((None, None, "any", "large", 2048, 4))),
    )


@st.composite
def machines(draw):
    """Small machines with siblings, huge pages, operators' settings; memory in tens of MiB."""
    made = machine(
        cells=draw(st.integers(1, 3)),
        cores=draw(st.integers(1, 3)),
        threads=draw(st.integers(1, 2)),
        memory_mib=draw(st.sampled_from((8, 16, 32))),
    )
    pages = draw(st.sampled_from(({}, {}, {2048: 2}, {2048: 4})))
    made = HostTopology(tuple(replace(cell, pages=pages) for cell in made.cells))
    made = replace(made, devices=draw(offered_devices()))
    return made.configured(
        reserved_memory_mib=draw(st.sampled_from((0, 0, 3, 10))),
        cpu_allocation_ratio=draw(st.sampled_from((1.0, 1.5, 4.0))),
        ram_allocation_ratio=draw(st.sampled_from((1.0, 1.0, 1.15, 2.0))),
    )


@st.composite
def used_hosts(draw, hostname="h1", *, plain=False):
    """A machine and what some planned containers hold of it; a cell may have lost its CPUs since."""
    topology = draw(machines())
    usage = Usage()
    for number, wanted in enumerate(draw(st.lists(placements(plain=plain), max_size=4))):
        answer = plan(topology, usage, wanted)
        if isinstance(answer, Plan):
            usage = usage.with_claim(f"c{number}", answer)
    if len(topology.cells) > 1 and draw(st.sampled_from((False, False, True))):
        topology = without_cpus(topology, draw(st.sampled_from([cell.id for cell in topology.cells])))
    return host(hostname, topology, usage=usage, generation=draw(st.integers(0, 9)))


def without_cpus(topology, *nodes):
    """The machine whose cells ``nodes`` have lost their CPUs."""
    cells = (
        replace(cell, cpus=CpuSet(), siblings=(), l3=()) if cell.id in nodes else cell for cell in topology.cells
    )
    return replace(topology, cells=tuple(cells))
