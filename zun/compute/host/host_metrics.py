# SPDX-License-Identifier: Apache-2.0
"""The state of one host for Prometheus, read at each request for metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zun.compute.audit.auditor import Reading
from zun.objects.placement import memory_used
from zun.topology import HostTopology, Usage
from zun.topology.cpuset import union
from zun.topology.holes import stranded


class HostCollector(Collector):
    """CPUs, memory and pages of each cell; the runtime; the work that waits; what the last audit found and read.

    ``state`` returns the host's topology and usage, ``waiting`` the number of pieces of work that are under way or
    wait, ``runtime_up`` whether the runtime answers, ``findings`` the open findings of the audit by code, ``readings``
    what the audit read by container. No function may wait for the runtime or the database: then there were no metrics
    while one of these hangs.
    """

    def __init__(
        self,
        host: str,
        state: Callable[[], tuple[HostTopology, Usage]],
        waiting: Callable[[], int],
        runtime_up: Callable[[], bool],
        findings: Callable[[], Mapping[str, int]],
        readings: Callable[[], Mapping[str, Reading]],
    ) -> None:
        self._host = host
        self._state = state
        self._waiting = waiting
        self._runtime_up = runtime_up
        self._findings = findings
        self._readings = readings

    def describe(self) -> Iterable[Metric]:
        """Return nothing: hosts of one process share the names of their metrics."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment. Each sample has the label ``host``."""
        topology, usage = self._state()
        yield from _of_cells(self._host, topology, usage)
        yield _of_devices(self._host, topology, usage)
        queue = GaugeMetricFamily(
            "zun_compute_work", "Containers and images with work under way or waiting.", labels=["host"]
        )
        queue.add_metric([self._host], self._waiting())
        yield queue
        runtime = GaugeMetricFamily(
            "zun_compute_runtime_up", "1 if Docker could be used at the last look, every few seconds, else 0.",
            labels=["host"],
        )  # fmt: skip
        runtime.add_metric([self._host], self._runtime_up())
        yield runtime
        open_findings = GaugeMetricFamily(
            "zun_compute_audit_findings", "Findings of the last audit, by code.", labels=["host", "code"]
        )
        for code, count in self._findings().items():
            open_findings.add_metric([self._host, code], count)
        yield open_findings
        yield from self._of_containers(usage)

    def _of_containers(self, usage: Usage) -> Iterable[Metric]:
        """Yield what the last audit read of the containers that still have a claim."""
        labels = ["host", "container"]
        remote = GaugeMetricFamily(
            "zun_compute_container_remote_kib",
            "Ordinary memory of a container outside of the memory nodes of its claim, in KiB, at the last audit.",
            labels=labels,
        )
        periods = CounterMetricFamily(
            "zun_compute_container_throttled_periods",
            "Periods in which a container used up its CPU time and had to wait, at the last audit.",
            labels=labels,
        )
        seconds = CounterMetricFamily(
            "zun_compute_container_throttled_seconds",
            "Time that the CPUs of a container waited because its CPU time was used up, at the last audit.",
            labels=labels,
        )
        for uuid, reading in self._readings().items():
            if usage.claim(uuid) is None:
                continue
            if reading.remote_kib is not None:
                remote.add_metric([self._host, uuid], reading.remote_kib)
            if reading.throttling is not None:
                periods.add_metric([self._host, uuid], reading.throttling.periods)
                seconds.add_metric([self._host, uuid], reading.throttling.seconds)
        yield from (remote, periods, seconds)


def _of_devices(host: str, topology: HostTopology, usage: Usage) -> Metric:
    devices = GaugeMetricFamily(
        "zun_compute_devices",
        "Devices that containers may have, by their resource class at Placement. State: free, or held by containers. A "
        "device that containers share counts once for each of them.",
        labels=["host", "resource_class", "state"],
    )
    free, held = Counter[str](), Counter[str]()
    for device in topology.devices:
        held[device.counted_as] += usage.holders(device.address)
    for device in usage.free_devices(topology):
        free[device.counted_as] += usage.shares_left(device)
    for name in sorted(held):
        devices.add_metric([host, name, "free"], free[name])
        devices.add_metric([host, name, "held"], held[name])
    return devices


def _cell_gauge(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    """Return a family without samples yet. Its labels are the host, the cell and ``labels``."""
    return GaugeMetricFamily(name, documentation, labels=["host", "cell", *labels])


def _of_cells(host: str, topology: HostTopology, usage: Usage) -> Iterable[Metric]:
    cpus = _cell_gauge(
        "zun_compute_cell_cpus",
        "CPUs of a cell. State: free for dedicated containers, held by them (withheld CPUs included), or in the pool "
        "of shared containers. A CPU that is free and in the pool counts in both.",
        "state",
    )
    memory = _cell_gauge(
        "zun_compute_cell_memory_mib",
        "Ordinary memory of a cell that may still be promised.",
    )
    held_memory = _cell_gauge(
        "zun_compute_cell_held_memory_mib",
        "Ordinary memory of a cell that is promised to containers.",
    )
    pages = _cell_gauge(
        "zun_compute_cell_free_huge_pages",
        "Huge pages of a cell that are not promised.",
        "size_kib",
    )
    shared = _cell_gauge(
        "zun_compute_cell_shared_cpus_left",
        "CPUs that shared containers may still be promised of the pool of a cell.",
    )
    cores = _cell_gauge(
        "zun_compute_cell_free_cores",
        "Whole cores of a cell that no dedicated container uses.",
    )
    fragments = _cell_gauge(
        "zun_compute_cell_fragment_cpus",
        "Free CPUs of a cell on cores that are not wholly free.",
    )
    stranded_cpus = _cell_gauge(
        "zun_compute_cell_stranded_cpus",
        "Free CPUs of a cell that dedicated containers like those of the host cannot use, on average.",
    )
    stranded_memory = _cell_gauge(
        "zun_compute_cell_stranded_memory_mib",
        "Free ordinary memory of a cell that dedicated containers like those of the host cannot use, on average.",
    )
    for node, (count, mib) in stranded(topology, usage).items():
        stranded_cpus.add_metric([host, str(node)], count)
        stranded_memory.add_metric([host, str(node)], mib)
    promised = memory_used(usage)
    held = usage.held_cpus
    left = usage.free(topology)
    for cell in topology.cells:
        free = left[cell.id]
        labels = [host, str(cell.id)]
        cpus.add_metric([*labels, "free"], len(free.cpus))
        cpus.add_metric([*labels, "held"], len(cell.cpus & held))
        cpus.add_metric([*labels, "pool"], len(usage.shared_pool(topology, (cell.id,))))
        memory.add_metric(labels, free.memory_mib)
        held_memory.add_metric(labels, promised.get(cell.id, 0))
        shared.add_metric(labels, free.shared)
        cores.add_metric(labels, len(free.cores))
        fragments.add_metric(labels, len(free.cpus - union(free.cores)))
        for size, left_pages in free.pages.items():
            pages.add_metric([*labels, str(size)], left_pages)
    yield from (cpus, memory, held_memory, pages, shared, cores, fragments, stranded_cpus, stranded_memory)
