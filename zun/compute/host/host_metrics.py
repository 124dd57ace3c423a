# SPDX-License-Identifier: Apache-2.0
"""The state of one host for Prometheus, read at each request for metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zun.compute.audit.auditor import Reading
from zun.objects.placement import memory_used
from zun.topology import CellFree, HostTopology, NUMACell, Usage
from zun.topology.cpuset import union
from zun.topology.holes import stranded

_OWN = "Containers with CPUs of their own only."
_COUNTED = "Only on hosts with resctrl."
_RECENT = {
    "interrupts": ("Device interrupts on the CPUs of a container", _OWN),
    "switches": ("How often the kernel took a CPU from a thread of a container that wanted to go on", _OWN),
    "migrations": ("How often threads of a container went to another CPU", _OWN),
    "waited_seconds": ("Time in which some threads of a container waited for a CPU", _OWN),
    "stalled_seconds": ("Time in which all threads of a container that wanted a CPU waited for one", _OWN),
    "memory_total_mib": ("MiB that a container moved between L3 caches and memory", _COUNTED),
    "memory_local_mib": ("MiB that a container moved between L3 caches and memory of the same node", _COUNTED),
    "llc_misses": ("Misses of the last cache on the CPUs of a container", _OWN),
}
"""Members of ``LastMinute`` that have a metric of their own; the others have one since the start."""


class _Family(NamedTuple):
    """Metrics ``zun_compute_NAME``. A sample is the values of ``labels``, and a number."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    samples: Iterable[tuple[tuple[str, ...], float]]
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily


@dataclass(frozen=True, eq=False)
class HostCollector(Collector):
    """CPUs, memory and pages of each cell; the runtime; the work that waits; findings and figures of the last audit.

    ``state`` returns the host's topology and usage, ``waiting`` the number of pieces of work that are under way or
    wait, ``runtime_up`` whether the runtime answers, ``findings`` the open findings of the audit by code, ``readings``
    what the audit read by container. No function may wait for the runtime or the database: then there were no metrics
    while one of these hangs.
    """

    _host: str
    _state: Callable[[], tuple[HostTopology, Usage]]
    _waiting: Callable[[], int]
    _runtime_up: Callable[[], bool]
    _findings: Callable[[], Mapping[str, int]]
    _readings: Callable[[], Mapping[str, Reading]]

    def describe(self) -> Iterable[Metric]:
        """Return nothing: hosts of one process share the names of their metrics."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment. Each sample has the label ``host``."""
        for name, documentation, labels, samples, kind in self._families():
            family = kind(f"zun_compute_{name}", documentation, labels=["host", *labels])
            for values, number in samples:
                family.add_metric([self._host, *values], number)
            yield family

    def _families(self) -> Iterator[_Family]:
        topology, usage = self._state()
        yield from _of_cells(topology, usage)
        yield _of_devices(topology, usage)
        yield _Family("work", "Containers and images with work under way or waiting.", (), [((), self._waiting())])
        text = "1 if Docker could be used at the last look, every few seconds, else 0."
        yield _Family("runtime_up", text, (), [((), self._runtime_up())])
        found = [((code,), count) for code, count in self._findings().items()]
        yield _Family("audit_findings", "Findings of the last audit, by code.", ("code",), found)
        yield from _of_readings([each for each in self._readings().items() if usage.claim(each[0]) is not None])


def _of_readings(readings: Sequence[tuple[str, Reading]]) -> Iterator[_Family]:
    """Yield the figures of the last audit for the containers that still have a claim."""
    throttled = [((uuid,), each.throttling) for uuid, each in readings if each.throttling is not None]
    remote = [((uuid,), each.remote_kib) for uuid, each in readings if each.remote_kib is not None]
    text = "Ordinary memory of a container outside of the memory nodes of its claim, in KiB, at the last audit."
    yield _Family("container_remote_kib", text, ("container",), remote)
    text = "Periods in which a container used up its CPU time and had to wait, at the last audit."
    periods = [(uuid, each.periods) for uuid, each in throttled]
    yield _Family("container_throttled_periods", text, ("container",), periods, CounterMetricFamily)
    text = "Time that the CPUs of a container waited because its CPU time was used up, at the last audit."
    seconds = [(uuid, each.seconds) for uuid, each in throttled]
    yield _Family("container_throttled_seconds", text, ("container",), seconds, CounterMetricFamily)
    text = f"What a container has in the L3 caches, in KiB, at the last audit. {_COUNTED}"
    held = [((uuid,), each.caches.occupancy) for uuid, each in readings if each.caches is not None]
    samples = [(uuid, number // 1024) for uuid, number in held if number is not None]
    yield _Family("container_llc_occupancy_kib", text, ("container",), samples)
    for name, (what, whose) in _RECENT.items():
        text = f"{what} in about the minute before the last audit. {whose}"
        recent = [(uuid, getattr(each.last_minute, name, None)) for uuid, each in readings]
        samples = [((uuid,), number) for uuid, number in recent if number is not None]
        yield _Family(f"container_recent_{name}", text, ("container",), samples)


def _of_devices(topology: HostTopology, usage: Usage) -> _Family:
    free, held = Counter[str](), Counter[str]()
    for device in topology.devices:
        held[device.counted_as] += usage.holders(device.address)
    for device in usage.free_devices(topology):
        free[device.counted_as] += usage.shares_left(device)
    return _Family(
        "devices",
        "Devices that containers may have, by their resource class at Placement. State: free, or held by containers. A "
        "device that containers share counts once for each of them.",
        ("resource_class", "state"),
        [((name, state), of[name]) for name in sorted(held) for state, of in (("free", free), ("held", held))],
    )


def _of_cells(topology: HostTopology, usage: Usage) -> Iterator[_Family]:
    held, promised, lost, left = usage.held_cpus, memory_used(usage), stranded(topology, usage), usage.free(topology)
    cells = [(cell, left[cell.id]) for cell in topology.cells]

    def by_cell(name: str, documentation: str, number: Callable[[NUMACell, CellFree], float]) -> _Family:
        return _Family(name, documentation, ("cell",), [((str(cell.id),), number(cell, free)) for cell, free in cells])

    yield _Family(
        "cell_cpus",
        "CPUs of a cell. State: free for dedicated containers, held by them (withheld CPUs included), or in the pool "
        "of shared containers. A CPU that is free and in the pool counts in both.",
        ("cell", "state"),
        [((str(cell.id), "free"), len(free.cpus)) for cell, free in cells]
        + [((str(cell.id), "held"), len(cell.cpus & held)) for cell, _ in cells]
        + [((str(cell.id), "pool"), len(usage.shared_pool(topology, (cell.id,)))) for cell, _ in cells],
    )
    yield _Family(
        "cell_free_huge_pages",
        "Huge pages of a cell that are not promised.",
        ("cell", "size_kib"),
        [((str(cell.id), str(size)), count) for cell, free in cells for size, count in free.pages.items()],
    )
    text = "Ordinary memory of a cell that may still be promised."
    yield by_cell("cell_memory_mib", text, lambda _, free: free.memory_mib)
    text = "Ordinary memory of a cell that is promised to containers."
    yield by_cell("cell_held_memory_mib", text, lambda cell, _: promised.get(cell.id, 0))
    text = "CPUs that shared containers may still be promised of the pool of a cell."
    yield by_cell("cell_shared_cpus_left", text, lambda _, free: free.shared)
    text = "Whole cores of a cell that no dedicated container uses."
    yield by_cell("cell_free_cores", text, lambda _, free: len(free.cores))
    text = "Free CPUs of a cell on cores that are not wholly free."
    yield by_cell("cell_fragment_cpus", text, lambda _, free: len(free.cpus - union(free.cores)))
    for number, name, what in ((0, "cpus", "CPUs"), (1, "memory_mib", "ordinary memory")):
        text = f"Free {what} of a cell that dedicated containers like those of the host cannot use, on average."
        yield _Family(f"cell_stranded_{name}", text, ("cell",), [((str(cell),), lost[cell][number]) for cell in lost])
