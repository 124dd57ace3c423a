# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from zun.compute.audit.auditor import Reading
from zun.compute.audit.last_minute import LastMinute
from zun.compute.quiet.resctrl import CacheUse
from zun.container.driver.audit import Throttling
from zun.tests.unit.compute.host.collected import collector
from zun.tests.unit.topology.build import smt_host
from zun.topology import PlacementRequest, Plan, Usage, plan
from zun.topology.device_request import GivenDevice
from zun.topology.devices import Device, DeviceType


def samples(collector):
    registry = CollectorRegistry()
    registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_cells():
    host = smt_host(2, 4)
    (cell, *_) = host.cells
    before = samples(collector("one", host))
    usage = Usage().with_claim("web", plan(host, Usage(), PlacementRequest(2, 100, numa_nodes=1)))
    after = samples(collector("one", host, usage, work=3, findings={"drifted": 2}))

    def change(name, *labels):
        key = f"zun_compute_cell_{name}{{{','.join(labels)}}}"
        return after[key] - before[key]

    where = (f'cell="{cell.id}"', 'host="one"')
    assert change("cpus", *where, 'state="free"') == -2
    assert change("cpus", *where, 'state="held"') == 2
    assert change("cpus", *where, 'state="pool"') == -2
    assert change("memory_mib", *where) == -100
    assert change("held_memory_mib", *where) == 100
    assert change("free_cores", *where) < 0
    assert after['zun_compute_work{host="one"}'] == 3
    assert after['zun_compute_audit_findings{code="drifted",host="one"}'] == 2


@pytest.mark.parametrize(
    ("threads", "cpus", "fragments"),
    [
        pytest.param(1, 1, 0, id="without-smt"),
        pytest.param(2, 1, 1, id="its-sibling-is-a-fragment"),
        pytest.param(2, 2, 0, id="whole-core"),
        pytest.param(4, 1, 3, id="four-threads"),
    ],
)
def test_fragments_are_free_cpus_of_touched_cores(threads, cpus, fragments):
    host = smt_host(1, 4, threads)
    usage = Usage().with_claim("web", plan(host, Usage(), PlacementRequest(cpus, 100, numa_nodes=1)))
    read = samples(collector("one", host, usage))
    assert read[f'zun_compute_cell_fragment_cpus{{cell="{host.cells[0].id}",host="one"}}'] == fragments


def test_stranded_capacity():
    host = smt_host(1, 4)
    usage = Usage().with_claim("web", plan(host, Usage(), PlacementRequest(5, 100, numa_nodes=1)))
    read, where = samples(collector("one", host, usage)), f'{{cell="{host.cells[0].id}",host="one"}}'
    assert read[f"zun_compute_cell_stranded_cpus{where}"] == 3
    assert read[f"zun_compute_cell_stranded_memory_mib{where}"] == host.cells[0].memory_mib - 100


def test_devices_by_class():
    """Three of four shares are held. The virtual function is not free beside its card, which somebody holds."""
    slices = Device("0000:81:00.0", "10de", "20b0", resource_class="CUSTOM_SLICE", shared=4)
    card = Device("0000:82:00.0", "8086", "10fb", type=DeviceType.PF)
    part = Device("0000:82:00.1", "8086", "10ed", physical=card.address)
    host = replace(smt_host(1, 4), devices=(slices, card, part))
    usage = Usage({"nic": Plan({}, devices=(GivenDevice.of("nic", card),))})
    for number in range(3):
        usage = usage.with_claim(f"c{number}", Plan({}, devices=(GivenDevice.of("slice", slices),)))
    read = samples(collector("one", host, usage))
    assert {name: value for name, value in read.items() if name.startswith("zun_compute_devices")} == {
        f'zun_compute_devices{{host="one",resource_class="{name}",state="{state}"}}': count
        for name, free, held in (("CUSTOM_SLICE", 1, 3), ("CUSTOM_PCI_8086_10FB", 0, 1), ("CUSTOM_PCI_8086_10ED", 0, 0))
        for state, count in (("free", free), ("held", held))
    }


@pytest.mark.parametrize("up", [True, False])
def test_runtime(up):
    assert samples(collector("one", smt_host(1, 4), up=up))['zun_compute_runtime_up{host="one"}'] == up


def test_readings_of_containers_with_a_claim():
    host = smt_host(1, 4)
    usage = Usage().with_claim("web", plan(host, Usage(), PlacementRequest(2, 100, numa_nodes=1)))
    usage = usage.with_claim("sql", plan(host, usage, PlacementRequest(2, 100, numa_nodes=1)))
    readings = {
        "web": Reading(512, Throttling(3, 1.5)),
        "deleted": Reading(9, Throttling(9, 9), last_minute=LastMinute(60.0, 9)),
    }
    recent = LastMinute(60.0, 3, switches=4, waited_seconds=0.5, memory_total_mib=30, memory_local_mib=20)
    readings["sql"] = Reading(None, None, last_minute=recent, caches=CacheUse(8192, {}, {}))
    read = samples(collector("one", host, usage, readings=readings))
    assert {name: value for name, value in read.items() if "zun_compute_container" in name} == {
        'zun_compute_container_remote_kib{container="web",host="one"}': 512,
        'zun_compute_container_throttled_periods_total{container="web",host="one"}': 3,
        'zun_compute_container_throttled_seconds_total{container="web",host="one"}': 1.5,
        'zun_compute_container_recent_interrupts{container="sql",host="one"}': 3,
        'zun_compute_container_recent_switches{container="sql",host="one"}': 4,
        'zun_compute_container_recent_waited_seconds{container="sql",host="one"}': 0.5,
        'zun_compute_container_recent_memory_total_mib{container="sql",host="one"}': 30,
        'zun_compute_container_recent_memory_local_mib{container="sql",host="one"}': 20,
        'zun_compute_container_llc_occupancy_kib{container="sql",host="one"}': 8,
    }


def test_two_hosts_of_one_process():
    registry = CollectorRegistry()
    for name in ("one", "two"):
        registry.register(collector(name, smt_host(2, 4), work=1))
    text = generate_latest(registry).decode()
    assert 'zun_compute_work{host="one"} 1.0' in text and 'zun_compute_work{host="two"} 1.0' in text
