# SPDX-License-Identifier: Apache-2.0
"""The hosts as columns: one row per host, and one array for each number that a filter or weigher reads.

A decision about thousands of hosts is then a few operations on arrays. The host states are kept beside the arrays, for
``reject`` of the filters and for the exact plan. Rows are in the order of the host names, so that ties are broken in
the same way everywhere.

A new fact of a host needs a field of ``HostState``, a line in ``HostTable._state`` that fills the field, and the filter
that reads it, by ``Columns.matching``. A new free amount needs a field of ``Room`` and a column of the same name here.
"""

import bisect
import datetime
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from zun.objects.service import last_sign
from zun.scheduler.host_state import HostState, serves
from zun.scheduler.packing import (
    Cloud,
    Demand,
    Fullness,
    Held,
    Rarity,
    Shape,
    kind_name,
    kind_of_request,
    rounded,
    shape_of,
    usual,
)
from zun.topology import HostTopology, PlacementRequest, Usage
from zun.topology.devices import Device, DeviceType
from zun.topology.holes import Hole, holes

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]

NEVER = np.iinfo(np.int64).min // 4  # a time so long ago that the difference to any clock does not overflow
REMEMBERED = 256  # answers that are kept about the values of some fields

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def microseconds(moment: datetime.datetime) -> int:
    """Return the microseconds from 1970 to ``moment``, which is UTC."""
    return (moment.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


class Columns(Sequence[HostState]):
    """The hosts by row. Not thread-safe: callers that share it hold a lock. Callers never write to its arrays."""

    # One number per host. The first group are the fields of ``Room`` with these names.
    dedicated_cpus: SmallInts
    isolated_cpus: SmallInts
    unheld_cpus: Floats
    shared_room: Ints
    memory_dedicated: Ints
    memory_shared: Ints
    free_memory: Floats
    own_free_disk: Floats
    disk_pool: SmallInts
    """The number of the host's disk pool, or -1 if the host has none."""
    pinning: Bools
    serving: Bools
    """True if the host has an engine, and a compute service that is neither disabled nor forced down."""
    seen: Ints
    """Time of the last heartbeat of that service, in microseconds since 1970."""
    changed: Ints
    """The number of the last change of the host's claims or machine. Later changes have higher numbers."""

    # One number per cell: shape (cells, hosts), -1 if the host has fewer cells.
    cell_cpus: SmallInts
    cell_memory: Ints

    _ROOM: Mapping[str, Any] = {
        "dedicated_cpus": np.int32,
        "isolated_cpus": np.int32,
        "unheld_cpus": np.float64,
        "shared_room": np.int64,
        "memory_dedicated": np.int64,
        "memory_shared": np.int64,
        "free_memory": np.float64,
    }
    _NUMBERS: Mapping[str, Any] = {
        **_ROOM,
        "own_free_disk": np.float64,
        "disk_pool": np.int32,
        "pinning": np.bool_,
        "serving": np.bool_,
        "seen": np.int64,
        "changed": np.int64,
    }
    _CELLS: Mapping[str, Any] = {"cell_cpus": np.int32, "cell_memory": np.int64}

    def __init__(self, hosts: Iterable[HostState] = ()) -> None:
        self._hosts = sorted(hosts, key=lambda host: host.hostname)
        self._names = [host.hostname for host in self._hosts]
        self._groups: dict[str, dict[str, int]] = {}
        self._images: dict[str, dict[str, int]] = {}
        self._failing: dict[str, HostState] = {}
        self._values: dict[tuple[str, ...], _Values] = {}
        self._measures: dict[str, tuple[Callable[[HostState], float], Floats]] = {}
        self._sums: _Sums | None = None
        self._devices: _FreeDevices | None = None
        self._offering: set[str] = set()  # names of hosts that offer devices
        self._pools = _Pools()
        self.on_services: dict[object, Any] = {}
        """Results that filters keep until a compute service changes."""
        self.by_row: dict[object, Any] = {}
        """Results by row that weighers keep until a host is added or removed. ``changed`` tells the outdated rows."""
        self.changes = 0
        """The highest number in ``changed``."""
        self.machines = 0
        """The number of changes of machines of hosts."""
        self._depth = 1
        self._store: dict[str, npt.NDArray[Any]] = {}
        self._reserve(max(16, len(self._hosts)))
        for row, host in enumerate(self._hosts):
            self._write(row, None, host)
        self._resized()

    # The hosts

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
        """Return the host of this name, or None."""
        row = self.row(hostname)
        return None if row is None else self._hosts[row]

    def row(self, hostname: str) -> int | None:
        """Return the row of the host of this name, or None."""
        row = bisect.bisect_left(self._names, hostname)
        return row if row < len(self._names) and self._names[row] == hostname else None

    def put(self, host: HostState) -> None:
        """Add ``host``, or replace the host of the same name."""
        row = self.row(host.hostname)
        if row is None:
            self.put_all([host])
            return
        before = self._hosts[row]
        self._hosts[row] = host
        self._write(row, before, host)

    def put_all(self, hosts: Iterable[HostState]) -> None:
        """Do ``put`` for each of ``hosts``. The arrays grow once for all hosts that are new."""
        new = {}
        for host in hosts:
            if self.row(host.hostname) is None:
                new[host.hostname] = host
            else:
                self.put(host)
        if not new:
            return
        before, rows = len(self._hosts), []
        for name in sorted(new):
            rows.append(bisect.bisect_left(self._names, name))
            self._names.insert(rows[-1], name)
            self._hosts.insert(rows[-1], new[name])
        count = len(self._hosts)
        if count > self._store["pinning"].shape[-1]:
            self._reserve(2 * count)
        moved = np.delete(np.arange(count), rows)  # the rows of the hosts that were there
        for array in self._store.values():
            array[..., moved] = array[..., :before].copy()
        self._resized()
        for row in rows:
            self._write(row, None, self._hosts[row])

    def remove(self, hostname: str) -> None:
        """Remove the host of this name, if there is one."""
        row = self.row(hostname)
        if row is None:
            return
        self._count(self._hosts[row], None)
        self._failing.pop(hostname, None)
        self._offering.discard(hostname)
        del self._hosts[row], self._names[row]
        count = len(self._hosts)
        for array in self._store.values():
            array[..., row:count] = array[..., row + 1 : count + 1]
        self._resized()

    # Facts and sums

    def matching(self, facts: tuple[str, ...], key: Hashable, test: Callable[[HostState], bool]) -> Bools:
        """Return the hosts that pass ``test``, which must read only the fields ``facts`` of the host.

        The test is made once for each different value of the fields, because many hosts have equal ones. The answer is
        kept under ``key`` until such a field changes. Example of ``facts``: ("architecture", "os_type").
        """
        values = self._values.get(facts)
        if values is None:
            values = self._values[facts] = _Values(facts, self._hosts)
        answer = values.matching(key, test, self._hosts)
        return self.everything if answer is None else answer

    def measured(self, name: str, measure: Callable[[HostState], float]) -> Floats:
        """Return ``measure`` of every host, computed again for changed hosts only. ``name`` names the measure."""
        known = self._measures.get(name)
        if known is None or known[0] != measure:
            known = self._measures[name] = (measure, np.full(len(self._hosts), np.nan))
        numbers = known[1]
        for row in np.flatnonzero(np.isnan(numbers)):
            numbers[row] = measure(self._hosts[row])
        return numbers

    def demand(self, request: PlacementRequest) -> Demand:
        """Return the dedicated containers that are expected next: like the present ones and like ``request``.

        Containers are counted by kind from the first call on, at each change of a host.
        """
        if self._sums is None:
            self._sums = _Sums()
            for host in self._hosts:
                self._sums.count(None, host)
        return self._sums.demand(kind_of_request(request, self._likely(request) if request.devices else ()))

    def _likely(self, request: PlacementRequest) -> tuple[tuple[str, int], ...]:
        """Return the devices that the request probably gets, by kind: the first kind that serves each part of it."""
        found: Counter[str] = Counter()
        for names, count in self.offering(request):
            if names:
                found[names[0]] += count
        return tuple(sorted(found.items()))

    def offering(self, request: PlacementRequest) -> list[tuple[list[str], int]]:
        """Return for each request for devices the ``kind_name`` of the kinds that serve, and the number.

        The kinds with the fewest traits come first, and physical functions last, because ``plan`` takes them so.
        """
        kinds = sorted(self.free_devices, key=_taken_first)
        return [
            ([kind_name(kind) for kind in kinds if serves(kind, each)], each.count)
            for each in request.devices
            if each.count
        ]

    @property
    def with_devices(self) -> bool:
        """True if any host offers devices to containers."""
        return bool(self._offering)

    @property
    def free_devices(self) -> Mapping[Device, SmallInts]:
        """The free devices of each kind on every host (``HostState.free_devices``), counted from the first call on."""
        if self._devices is None:
            self._devices = _FreeDevices(self._hosts)
        return self._devices.counts

    @property
    def free_disk(self) -> Floats:
        """The GiB that each host may still promise: of its disk pool, or of its own disk."""
        if not self._pools.used:
            return self.own_free_disk
        return np.where(self.disk_pool < 0, self.own_free_disk, self._pools.free[self.disk_pool])

    @property
    def pools_used(self) -> Mapping[str, int]:
        """The promised GiB of each disk pool, by the uuid of its aggregate. A copy: it does not change later."""
        return dict(self._pools.used)

    @property
    def generations(self) -> int:
        """The sum of the generations of all hosts. Any claim or release changes the sum."""
        return sum(host.generation for host in self._hosts)

    def group(self, uuid: str) -> Mapping[str, int]:
        """Return the number of members of a container group that hold resources, by host name."""
        return self._groups.get(uuid, {})

    def with_image(self, image: str) -> Collection[str]:
        """Return the names of the hosts where a container of this image holds resources."""
        return self._images.get(image, ())

    @property
    def failing(self) -> Mapping[str, HostState]:
        """The hosts with recent failures, by name."""
        return self._failing

    def only(self, hostnames: Iterable[str]) -> Bools:
        """Return True for the hosts of these names, False for all others."""
        chosen = np.zeros(len(self._hosts), np.bool_)
        for hostname in hostnames:
            row = self.row(hostname)
            if row is not None:
                chosen[row] = True
        return chosen

    # The arrays

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
        """Set the public arrays to the rows in use."""
        count = len(self._hosts)
        for name, array in self._store.items():
            setattr(self, name, array[..., :count])

    def _resized(self) -> None:
        count = len(self._hosts)
        self._cut()
        self.everything: Bools = np.ones(count, np.bool_)
        """True for all hosts: the answer of a filter that the request does not concern."""
        self.nothing: Floats = np.zeros(count)
        """Zero for all hosts: the answer of a weigher that the request does not concern."""
        self.everything.flags.writeable = self.nothing.flags.writeable = False
        self._values.clear()
        self._measures.clear()
        self.by_row.clear()
        self._devices = None
        self.on_services.clear()

    def _write(self, row: int, before: HostState | None, host: HostState) -> None:
        store = self._store
        if before is not None and host.topology is not before.topology:
            self.machines += 1
        if before is None or host.usage is not before.usage or host.topology is not before.topology:
            self._write_room(row, host)
        store["own_free_disk"][row] = host.own_free_disk
        if before is None or host.service is not before.service or host.engine_away != before.engine_away:
            service = host.service
            self.on_services.clear()
            open_ = service is not None and not service["disabled"] and not service["forced_down"]
            store["serving"][row] = open_ and not host.engine_away
            store["seen"][row] = NEVER if service is None else microseconds(last_sign(service))
        store["pinning"][row] = host.enable_cpu_pinning
        for values in self._values.values():
            values.put(row, before, host)
        for _, numbers in self._measures.values():
            numbers[row] = np.nan
        if self._devices is not None:
            self._devices.put(row, before, host)
        if host.topology.devices:
            self._offering.add(host.hostname)
        elif self._offering:
            self._offering.discard(host.hostname)
        self._count(before, host)
        store["disk_pool"][row] = self._pools.number(host)
        if host.failures:
            self._failing[host.hostname] = host
        elif self._failing:
            self._failing.pop(host.hostname, None)

    def _write_room(self, row: int, host: HostState) -> None:
        store, room = self._store, host.room
        rooms = room.cells
        self.changes += 1
        store["changed"][row] = self.changes
        for name in self._ROOM:
            store[name][row] = getattr(room, name)
        if len(rooms) > self._depth:
            self._depth = len(rooms)
            self._reserve(store["pinning"].shape[-1])
            self._cut()
        cpus, memory = store["cell_cpus"], store["cell_memory"]
        for cell in range(self._depth):
            cpus[cell, row], memory[cell, row] = rooms[cell] if cell < len(rooms) else (-1, -1)

    def _count(self, before: HostState | None, host: HostState | None) -> None:
        """Update the indexes of groups and images, and the sums."""
        if self._sums is not None:
            self._sums.count(before, host)
        self._pools.count(before, host)
        _index(self._groups, before, before.groups if before else {}, host, host.groups if host else {})
        _index(self._images, before, before.images if before else {}, host, host.images if host else {})


def _taken_first(kind: Device) -> tuple[int, bool, str]:
    return len(kind.traits), kind.type == DeviceType.PF, kind_name(kind)


class _Sums:
    """The CPUs and memory of all hosts, and the dedicated containers on them by kind."""

    def __init__(self) -> None:
        self._cpus = self._mib = self._devices = 0
        self._held = Held()
        self._cells: Counter[Hole] = Counter()  # empty ones
        self._of_cells: tuple[Mapping[Hole, int], Rarity] = ({}, Rarity.of_cells({}))  # one object while they are equal
        self._cloud: Cloud | None = None
        self._demands: dict[Shape, tuple[tuple[int, float, Fullness], Demand]] = {}

    def count(self, before: HostState | None, host: HostState | None) -> None:
        if before is not None and host is not None and before.topology is host.topology:
            if before.usage is not host.usage:
                self._count_claims(host.topology, before.usage, host.usage)
            return
        self._cloud = None
        self._demands.clear()
        for state, sign in ((before, -1), (host, 1)):
            if state is None:
                continue
            self._cpus += sign * len(state.topology.cpus)
            self._mib += sign * state.topology.memory_mib
            self._devices += sign * state.device_count
            for size in holes(state.topology, Usage()):
                self._cells[size] += sign
                if not self._cells[size]:
                    del self._cells[size]
        if before is not None:
            self._count_claims(before.topology, before.usage, Usage())
        if host is not None:
            self._count_claims(host.topology, Usage(), host.usage)

    def _count_claims(self, topology: HostTopology, before: Usage, after: Usage) -> None:
        devices = topology.device_view.by_address if topology.devices else None
        for plan, number in after.difference(before):
            if plan.dedicated:
                self._held.add(shape_of(plan, devices), number)

    def demand(self, kind: Shape) -> Demand:
        """Return the demand if a container of this kind is asked for. An equal demand is the same object as before."""
        if self._cloud is None:
            if self._cells != self._of_cells[0]:
                self._of_cells = dict(self._cells), Rarity.of_cells(self._cells)
            self._cloud = Cloud(self._cpus, self._mib, self._devices, self._of_cells[1])
        held = self._held
        state = (held.version, rounded(held.number(kind) + 1), Fullness.of(held, self._cloud))
        known = self._demands.get(kind)
        if known is None or known[0] != state:
            demand = usual(held, kind, self._cloud, state[-1])
            if known is not None and known[1] == demand:
                demand = known[1]
            elif len(self._demands) >= REMEMBERED:
                self._demands.clear()
            known = self._demands[kind] = (state, demand)
        return known[1]


class _FreeDevices:
    """The free devices of all hosts: one array for each kind."""

    def __init__(self, hosts: Sequence[HostState]) -> None:
        self.counts: dict[Device, SmallInts] = {}
        self._size = len(hosts)
        for row, host in enumerate(hosts):
            self.put(row, None, host)

    def put(self, row: int, before: HostState | None, host: HostState) -> None:
        """Note the free devices of the host in ``row``; ``before`` is its former state, or None for a new host."""
        if before is not None and before.usage is host.usage and before.topology is host.topology:
            return
        for kind, numbers in self.counts.items():
            numbers[row] = host.free_devices.get(kind, 0)
        for kind in host.free_devices.keys() - self.counts.keys():
            self.counts[kind] = np.zeros(self._size, np.int32)
            self.counts[kind][row] = host.free_devices[kind]


class _Pools:
    """The disk pools of all hosts. Each has a number, which is its place in ``free``."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        """The promised GiB of each pool that any host is in, by the uuid of its aggregate."""
        self.free: Floats = np.zeros(0)
        self._numbers: dict[str, int] = {}
        self._hosts: Counter[str] = Counter()

    def number(self, host: HostState) -> int:
        """Return the number of the host's pool, or -1."""
        return -1 if host.disk_pool is None else self._numbers[host.disk_pool.uuid]

    def count(self, before: HostState | None, host: HostState | None) -> None:
        for state, sign in ((before, -1), (host, 1)):
            pool = None if state is None else state.disk_pool
            if state is None or pool is None:
                continue
            self.used[pool.uuid] = self.used.get(pool.uuid, 0) + sign * state.disk_used
            self._hosts[pool.uuid] += sign
            number = self._numbers.setdefault(pool.uuid, len(self._numbers))
            if number == len(self.free):
                self.free = np.append(self.free, 0.0)
            self.free[number] = max(0, pool.size - self.used[pool.uuid])
            if not self._hosts[pool.uuid]:
                del self._hosts[pool.uuid], self.used[pool.uuid]


def _index(
    index: dict[str, dict[str, int]],
    before: HostState | None,
    old: Mapping[str, int],
    host: HostState | None,
    new: Mapping[str, int],
) -> None:
    """Update ``index`` (name -> host name -> count) of one host from the counts ``old`` to ``new``."""
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


class _Values:
    """Some fields of all hosts, as one code per host. Most clouds have a handful of different values."""

    def __init__(self, facts: tuple[str, ...], hosts: Sequence[HostState]) -> None:
        self._facts = facts
        self._codes: dict[Hashable, int] = {}
        self._answers: dict[Hashable, Bools | None] = {}
        self._rows = np.fromiter((self._code(host) for host in hosts), np.int32, len(hosts))

    def _code(self, host: HostState) -> int:
        values = [getattr(host, fact) for fact in self._facts]
        key = tuple(tuple(sorted(value.items())) if isinstance(value, Mapping) else value for value in values)
        return self._codes.setdefault(key, len(self._codes))

    def put(self, row: int, before: HostState | None, host: HostState) -> None:
        """Note the present values of the host in ``row``; ``before`` is its former state, or None for a new host."""
        if before is not None and all(getattr(before, fact) == getattr(host, fact) for fact in self._facts):
            return
        self._rows[row] = self._code(host)
        self._answers.clear()

    def matching(self, key: Hashable, test: Callable[[HostState], bool], hosts: Sequence[HostState]) -> Bools | None:
        """Return the hosts that pass, or None if all of them do."""
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
