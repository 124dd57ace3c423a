# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from zun.scheduler import weighers
from zun.scheduler.columns import Columns
from zun.scheduler.weighers.device import DeviceWeigher
from zun.tests.functional.cloud import machine
from zun.tests.unit.scheduler.hosts import configuration, device, full, host, ranked, spec, wanting
from zun.topology import PlacementRequest

CONF = configuration()
DEFAULT = weighers.load(CONF.scheduler.weighers, CONF)


def offering(name, count, *held):
    """A host with ``count`` devices that holds requests for ``held`` devices each."""
    topology = replace(machine(), devices=tuple(device(f"8{number}:00.0") for number in range(count)))
    requests = (PlacementRequest(1, 0, cpu_policy="dedicated", devices=(wanting("gpu", each),)) for each in held)
    return full(name, *requests, topology=topology)


def names(hosts, wanted):
    return [each.hostname for each in ranked(hosts, wanted, DEFAULT)]


def test_containers_without_devices_leave_hosts_with_devices():
    hosts = [offering("a", 2), full("b", PlacementRequest(6, 4096, numa_nodes=2)), offering("c", 2, 2)]
    assert names(hosts, spec()) == ["c", "b", "a"]


def test_containers_with_devices_take_the_host_with_fewest():
    hosts = [offering("a", 4), offering("b", 4, 2), offering("c", 3)]
    assert names(hosts, spec(placement={"devices": (wanting(),)})) == ["b", "c", "a"]


def test_a_cloud_without_devices_is_not_weighed():
    table = Columns([host("a"), host("b")])
    weigher = DeviceWeigher(CONF)
    assert weigher.weigh_all(table, spec()) is table.nothing
    table.put(offering("b", 2))
    assert weigher.weigh_all(table, spec()).tolist() == [0, -2]
    table.put(host("b"))
    assert weigher.weigh_all(table, spec()) is table.nothing
