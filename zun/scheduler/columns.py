# SPDX-License-Identifier: Apache-2.0
"""The hosts as columns: one row a host, one array for each number that a filter or weigher looks at.

A decision about thousands of hosts is then a few operations on arrays. The hosts themselves stand beside the arrays,
for the reference form of every filter and for the exact plan. All rows are in the order of the host names, so that the
first of equals is the same everywhere.
"""

import bisect
import datetime
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from zun.objects.service import last_sign
from zun.scheduler.host_state import HostState
from zun.topology import PlacementRequest
from zun.topology.holes import Demand, Shape, usual

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]

NEVER = np.iinfo(np.int64).min // 4  # so long ago that no clock makes the difference overflow
REMEMBERED = 256  # answers kept about one kind of value, and measures kept by host

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def microseconds(moment: datetime.datetime) -> int:
    """Since 1970; ``moment`` is UTC."""
    return (moment.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


class Columns(Sequence[HostState]):
    """Hosts by row. Not thread-safe: who shares it holds a lock. Arrays it gives are read, never written."""

    # one number a host
    dedicated_room: SmallInts
    isolated_room: SmallInts
    unheld_cpus: Floats
    shared_room: Ints
    memory_dedicated: Ints
    memory_shared: Ints
    free_memory: Floats
    free_disk: Floats
    pinning: Bools
    serving: Bools
    """It has a compute service that is neither disabled nor forced down."""
    seen: Ints
    """When that service gave its last sign of life, in microseconds since 1970."""

    # one number a cell: shape (cells, hosts); cells that a host has not got are full
    cell_cpus: SmallInts
    cell_memory: Ints

    _NUMBERS: Mapping[str, Any] = {
        "dedicated_room": np.int32,
        "isolated_room": np.int32,
        "unheld_cpus": np.float64,
        "shared_room": np.int64,
        "memory_dedicated": np.int64,
        "memory_shared": np.int64,
        "free_memory": np.float64,
        "free_disk": np.float64,
        "pinning": np.bool_,
        "serving": np.bool_,
        "seen": np.int64,
    }
    _CELLS: Mapping[str, Any] = {"cell_cpus": np.int32, "cell_memory": np.int64}

    def __init__(self, hosts: Iterable[HostState] = ()) -> None:
        self._hosts = sorted(hosts, key=lambda host: host.hostname)
        self._names = [host.hostname for host in self._hosts]
        self._groups: dict[str, dict[str, int]] = {}
        self._images: dict[str, dict[str, int]] = {}
        self._failing: dict[str, HostState] = {}
        self._values: dict[str, _Values] = {}
        self._measures: dict[str, tuple[Callable[[HostState], float], Floats]] = {}
        self._sums: _Sums | None = None
        self.on_services: dict[object, Any] = {}
        """What filters remember of the services, until one of these changes."""
        self._depth = 1
        self._store: dict[str, npt.NDArray[Any]] = {}
        self._reserve(max(16, len(self._hosts)))
        for row, host in enumerate(self._hosts):
            self._write(row, None, host)
        self._resized()

    # the hosts

    def __len__(self) -> int:
        return len(self._hosts)

    @overload
    def __getitem__(self, row: int) -> HostState: ...
    @overload
    def __getitem__(self, row: slice) -> list[HostState]: ...
    def __getitem__(self, row: int | slice) -> HostState | list[HostState]:
        return self._hosts[row]

    def __iter__(self) -> Iterator[HostState]:
        return iter(self._hosts)

    def find(self, hostname: str) -> HostState | None:
        row = self.row(hostname)
        return None if row is None else self._hosts[row]

    def row(self, hostname: str) -> int | None:
        row = bisect.bisect_left(self._names, hostname)
        return row if row < len(self._names) and self._names[row] == hostname else None

    def put(self, host: HostState) -> None:
        """Add the host, or replace the one of its name."""
        row = bisect.bisect_left(self._names, host.hostname)
        if row < len(self._names) and self._names[row] == host.hostname:
            before = self._hosts[row]
            self._hosts[row] = host
            self._write(row, before, host)
            return
        self._hosts.insert(row, host)
        self._names.insert(row, host.hostname)
        count = len(self._hosts)
        if count > self._store["pinning"].shape[-1]:
            self._reserve(2 * count)
        for array in self._store.values():
            array[..., row + 1 : count] = array[..., row : count - 1]
        self._resized()
        self._write(row, None, host)

    def remove(self, hostname: str) -> None:
        row = self.row(hostname)
        if row is None:
            return
        self._count(self._hosts[row], None)
        self._failing.pop(hostname, None)
        del self._hosts[row], self._names[row]
        count = len(self._hosts)
        for array in self._store.values():
            array[..., row:count] = array[..., row + 1 : count + 1]
        self._resized()

    # what is known of them besides the arrays

    def matching(self, kind: str, key: Hashable, test: Callable[[HostState], bool]) -> Bools:
        """Which hosts pass ``test``, which looks at members of ``kind`` (a key of KINDS) only; ``key`` names the test.

        Worked out once for each value that hosts have of the kind, and remembered until a host gets another one.
        """
        values = self._values.get(kind)
        if values is None:
            values = self._values[kind] = _Values(KINDS[kind], self._hosts)
        answer = values.matching(key, test, self._hosts)
        return self.everything if answer is None else answer

    def measured(self, name: str, measure: Callable[[HostState], float]) -> Floats:
        """``measure`` of every host, worked out again for those that changed. ``name`` is the measure's own."""
        known = self._measures.get(name)
        if known is None or known[0] != measure:
            known = self._measures[name] = (measure, np.full(len(self._hosts), np.nan))
        numbers = known[1]
        for row in np.flatnonzero(np.isnan(numbers)):
            numbers[row] = measure(self._hosts[row])
        return numbers

    def demand(self, request: PlacementRequest) -> Demand:
        """What the next dedicated requests will probably be: like those that hold something, and ``request``.

        From the first question on, what the hosts hold is counted whenever one changes.
        """
        if self._sums is None:
            self._sums = _Sums()
            for host in self._hosts:
                self._sums.count(None, host)
        return self._sums.demand(request)

    @property
    def generations(self) -> int:
        """The sum of the hosts' generations: it is another one after any change of what they hold."""
        return sum(host.generation for host in self._hosts)

    def group(self, uuid: str) -> Mapping[str, int]:
        """How many members of a container group hold something, by host name."""
        return self._groups.get(uuid, {})

    def with_image(self, image: str) -> Collection[str]:
        """The names of the hosts where a container of this image holds something."""
        return self._images.get(image, ())

    @property
    def failing(self) -> Mapping[str, HostState]:
        """The hosts that failed lately, by name."""
        return self._failing

    def only(self, hostnames: Iterable[str]) -> Bools:
        """True for the hosts of these names."""
        chosen = np.zeros(len(self._hosts), np.bool_)
        for hostname in hostnames:
            row = self.row(hostname)
            if row is not None:
                chosen[row] = True
        return chosen

    # the arrays

    def _reserve(self, capacity: int) -> None:
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {}
        shapes |= {name: ((capacity,), kind) for name, kind in self._NUMBERS.items()}
        shapes |= {name: ((self._depth, capacity), kind) for name, kind in self._CELLS.items()}
        for name, (shape, kind) in shapes.items():
            larger = np.full(shape, -1, kind) if name in self._CELLS else np.zeros(shape, kind)
            old = self._store.get(name)
            if old is not None:
                larger[tuple(slice(0, size) for size in old.shape)] = old
            self._store[name] = larger

    def _cut(self) -> None:
        """The arrays as others see them: the rows that are in use."""
        count = len(self._hosts)
        for name, array in self._store.items():
            setattr(self, name, array[..., :count])

    def _resized(self) -> None:
        count = len(self._hosts)
        self._cut()
        self.everything: Bools = np.ones(count, np.bool_)
        """All hosts: the answer of a filter that has nothing to say, which costs nothing."""
        self.nothing: Floats = np.zeros(count)
        """The weights of a weigher that has nothing to say."""
        self.everything.flags.writeable = self.nothing.flags.writeable = False
        self._values.clear()
        self._measures.clear()
        self.on_services.clear()

    def _write(self, row: int, before: HostState | None, host: HostState) -> None:
        store = self._store
        if before is None or host.usage is not before.usage or host.topology is not before.topology or (
            host.aggregates is not before.aggregates
        ):
            self._write_room(row, host)
        store["free_disk"][row] = host.free_disk
        if before is None or host.service is not before.service:
            service = host.service
            self.on_services.clear()
            store["serving"][row] = service is not None and not service["disabled"] and not service["forced_down"]
            store["seen"][row] = NEVER if service is None else microseconds(last_sign(service))
        store["pinning"][row] = host.enable_cpu_pinning
        if self._values and (before is None or not _same_facts(before, host)):
            for values in self._values.values():
                values.put(row, before, host)
        for _, numbers in self._measures.values():
            numbers[row] = np.nan
        self._count(before, host)
        if host.failures:
            self._failing[host.hostname] = host
        elif self._failing:
            self._failing.pop(host.hostname, None)

    def _write_room(self, row: int, host: HostState) -> None:
        store, room = self._store, host.room
        rooms = room.cells
        store["dedicated_room"][row] = room.dedicated
        store["isolated_room"][row] = room.isolated
        store["unheld_cpus"][row] = room.unheld
        store["shared_room"][row] = room.shared
        store["memory_dedicated"][row] = room.memory_dedicated
        store["memory_shared"][row] = room.memory_shared
        store["free_memory"][row] = room.free_memory
        if len(rooms) > self._depth:
            self._depth = len(rooms)
            self._reserve(store["pinning"].shape[-1])
            self._cut()
        cpus, memory = store["cell_cpus"], store["cell_memory"]
        for cell in range(self._depth):
            cpus[cell, row], memory[cell, row] = rooms[cell] if cell < len(rooms) else (-1, -1)

    def _count(self, before: HostState | None, host: HostState | None) -> None:
        """Keep the indexes of groups and images, and the sums."""
        if self._sums is not None:
            self._sums.count(before, host)
        _index(self._groups, before, before.groups if before else {}, host, host.groups if host else {})
        _index(self._images, before, before.images if before else {}, host, host.images if host else {})


class _Sums:
    """What all hosts have and what dedicated containers hold of it."""

    def __init__(self) -> None:
        self._cpus = self._mib = 0
        self._held: Counter[Shape] = Counter()

    def count(self, before: HostState | None, host: HostState | None) -> None:
        if before is not None and host is not None and (
            before.topology is host.topology and before.usage is host.usage
        ):
            return
        for state, sign in ((before, -1), (host, 1)):
            if state is None:
                continue
            self._cpus += sign * len(state.topology.cpus)
            self._mib += sign * state.topology.memory_mib
            for shape, often in state.shapes.items():
                self._held[shape] += sign * often
                if not self._held[shape]:
                    del self._held[shape]

    def demand(self, request: PlacementRequest) -> Demand:
        return usual(self._held, request, self._cpus, self._mib)


def _index(
    index: dict[str, dict[str, int]],
    before: HostState | None,
    old: Mapping[str, int],
    host: HostState | None,
    new: Mapping[str, int],
) -> None:
    """Bring ``index`` (name -> host name -> count) from what a host had to what it has."""
    if old is new:
        return
    for name in old:
        if before is not None and name not in new:
            counts = index[name]
            del counts[before.hostname]
            if not counts:
                del index[name]
    for name, count in new.items():
        if host is not None:
            index.setdefault(name, {})[host.hostname] = count


def _same_facts(before: HostState, host: HostState) -> bool:
    """Whether certainly no kind of value differs: a booking changes none of them."""
    return (
        before.labels is host.labels
        and before.runtimes is host.runtimes
        and before.aggregates is host.aggregates
        and before.availability_zone == host.availability_zone
        and before.architecture == host.architecture
        and before.os_type == host.os_type
    )


def _labels(host: HostState) -> Hashable:
    return tuple(sorted(host.labels.items()))


KINDS: Mapping[str, Callable[[HostState], Hashable]] = {
    "zone": lambda host: host.availability_zone,
    "runtimes": lambda host: host.runtimes,
    "labels": _labels,
    "aggregates": lambda host: tuple((each.uuid, *sorted(each.metadata.items())) for each in host.aggregates),
    "machine": lambda host: (host.architecture, host.os_type, host.runtimes),
}
"""What hosts have in common, so that a question about it needs one answer for many of them."""


class _Values:
    """One kind of value as a code a host. Most clouds have a handful of each."""

    def __init__(self, value: Callable[[HostState], Hashable], hosts: Sequence[HostState]) -> None:
        self._value = value
        self._codes: dict[Hashable, int] = {}
        self._answers: dict[Hashable, Bools | None] = {}
        self._rows = np.fromiter((self._code(host) for host in hosts), np.int32, len(hosts))

    def _code(self, host: HostState) -> int:
        return self._codes.setdefault(self._value(host), len(self._codes))

    def put(self, row: int, before: HostState | None, host: HostState) -> None:
        if before is not None and self._value(before) == self._value(host):
            return
        self._rows[row] = self._code(host)
        self._answers.clear()

    def matching(self, key: Hashable, test: Callable[[HostState], bool], hosts: Sequence[HostState]) -> Bools | None:
        """Which hosts pass; None when all do."""
        if key not in self._answers:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            codes, rows = np.unique(self._rows, return_index=True)
            passing = np.zeros(len(self._codes), np.bool_)
            for code, row in zip(codes, rows, strict=True):
                passing[code] = test(hosts[row])
            answer = passing[self._rows] if len(hosts) else None
            if answer is not None and answer.all():
                answer = None
            if answer is not None:
                answer.flags.writeable = False
            self._answers[key] = answer
        return self._answers[key]
