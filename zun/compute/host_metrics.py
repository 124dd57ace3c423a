# SPDX-License-Identifier: Apache-2.0
"""The state of one host for Prometheus, read at each request for metrics."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zun.topology import HostTopology, Usage
from zun.topology.cpuset import union


class HostCollector(Collector):
    """CPUs, memory and pages of each cell; the work that waits; the findings of the last audit.

    ``state`` returns the host's topology and usage, ``waiting`` the number of pieces of work that are under way or
    wait, ``findings`` the open findings of the audit by code.
    """

    def __init__(
        self,
        host: str,
        state: Callable[[], tuple[HostTopology, Usage]],
        waiting: Callable[[], int],
        findings: Callable[[], Mapping[str, int]],
    ) -> None:
        self._host = host
        self._state = state
        self._waiting = waiting
        self._findings = findings

    def describe(self) -> Iterable[Metric]:
        """Return nothing: hosts of one process share the names of their metrics."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment. Each sample has the label ``host``."""
        topology, usage = self._state()
        yield from _of_cells(self._host, topology, usage)
        queue = GaugeMetricFamily(
            "zun_compute_work", "Containers and images with work under way or waiting.", labels=["host"]
        )
        queue.add_metric([self._host], self._waiting())
        yield queue
        open_findings = GaugeMetricFamily(
            "zun_compute_audit_findings", "Findings of the last audit, by code.", labels=["host", "code"]
        )
        for code, count in self._findings().items():
            open_findings.add_metric([self._host, code], count)
        yield open_findings


def _of_cells(host: str, topology: HostTopology, usage: Usage) -> Iterable[Metric]:
    cpus = GaugeMetricFamily(
        "zun_compute_cell_cpus",
        "CPUs of a cell. State: free for dedicated containers, held by them (withheld CPUs included), or in the pool "
        "of shared containers. A CPU that is free and in the pool counts in both.",
        labels=["host", "cell", "state"],
    )
    memory = GaugeMetricFamily(
        "zun_compute_cell_memory_mib", "Ordinary memory of a cell that may still be promised.", labels=["host", "cell"]
    )
    pages = GaugeMetricFamily(
        "zun_compute_cell_free_huge_pages",
        "Huge pages of a cell that are not promised.",
        labels=["host", "cell", "size_kib"],
    )
    shared = GaugeMetricFamily(
        "zun_compute_cell_shared_cpus_left",
        "CPUs that shared containers may still be promised of the pool of a cell.",
        labels=["host", "cell"],
    )
    cores = GaugeMetricFamily(
        "zun_compute_cell_free_cores",
        "Whole cores of a cell that no dedicated container uses.",
        labels=["host", "cell"],
    )
    fragments = GaugeMetricFamily(
        "zun_compute_cell_fragment_cpus",
        "Free CPUs of a cell on cores that are not wholly free.",
        labels=["host", "cell"],
    )
    held = usage.held_cpus
    left = usage.free(topology)
    for cell in topology.cells:
        free = left[cell.id]
        labels = [host, str(cell.id)]
        cpus.add_metric([*labels, "free"], len(free.cpus))
        cpus.add_metric([*labels, "held"], len(cell.cpus & held))
        cpus.add_metric([*labels, "pool"], len(usage.shared_pool(topology, (cell.id,))))
        memory.add_metric(labels, free.memory_mib)
        shared.add_metric(labels, free.shared)
        cores.add_metric(labels, len(free.cores))
        fragments.add_metric(labels, len(free.cpus - union(free.cores)))
        for size, count in free.pages.items():
            pages.add_metric([*labels, str(size)], count)
    yield from (cpus, memory, pages, shared, cores, fragments)
