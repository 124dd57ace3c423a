# SPDX-License-Identifier: Apache-2.0
"""The request of one container to a host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from zun.topology import amounts
from zun.topology.device_request import DeviceRequest, DeviceSame

MICRO = 1_000_000
"""Shared CPU demand is counted in millionths of a CPU, so that sums are exact. Example: 1.5 CPUs are 1,500,000."""


class CPUPolicy(StrEnum):
    """The CPUs a container runs on: ``dedicated`` CPUs of its own, the ``shared`` pool of the host, or both: ``mixed``.
    """

    DEDICATED = "dedicated"
    SHARED = "shared"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """The use of sibling threads (Nova's ``hw:cpu_thread_policy``)."""

    PREFER = "prefer"
    ISOLATE = "isolate"
    REQUIRE = "require"


class NUMAAffinity(StrEnum):
    """The strength of ``numa_nodes``: ``require`` it, ``prefer`` it, or take as few cells as possible (``none``)."""

    REQUIRE = "require"
    PREFER = "prefer"
    NONE = "none"


class MemPolicy(StrEnum):
    """The memory a container may use: that of its own cells only (``strict``), or of any cell (``preferred``)."""

    STRICT = "strict"
    PREFERRED = "preferred"


class MemberSame(StrEnum):
    """The part of a host that all members of a request share: all of their own CPUs, or all of their devices."""

    NONE = "none"
    CELL = "cell"
    """All own CPUs are on one cell."""
    L3 = "l3"
    """All own CPUs are in one L3 group."""
    SWITCH = "switch"
    """All devices are under one PCIe switch."""


class Isolation(StrEnum):
    """The CPUs that no other container may use, beside a dedicated container's own CPUs.

    Each grade keeps more than the grade before. There is one exception: no container can have an L3 cache that serves
    several cells to itself, although it can have each of these cells. CPUs that the operator reserved for the host are
    not kept from the host.
    """

    THREAD = "thread"
    """No further CPUs: siblings and caches may be shared."""
    CORE = "core"
    """The siblings of its CPUs: each is the container's own or idle."""
    L3 = "l3"
    """Every CPU that shares an L3 cache with one of the container's."""
    NODE = "node"
    """Every CPU of the cells it runs on."""
    ISOLATED = "isolated"
    """Like ``thread``, but on CPUs that the kernel isolates (``isolcpus``). No other grade gets such CPUs."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The CPUs and memory that one container asks for, and its conditions.

    ``cpus`` is a whole number of CPUs, or for a shared container its demand, for example 1.5. ``numa_cpus`` and
    ``numa_mem`` have one entry for each cell and set ``numa_nodes``. Without them CPUs and memory are split evenly; the
    first cells get one more if the split is not even. ``page_size`` is None or ``small`` (ordinary pages), ``large``,
    ``any``, or a size in KiB. ``numa_affinity`` None means ``require`` for dedicated and ``prefer`` for shared
    containers, so that a shared container larger than one cell does not fail. ``device_same`` is for all ``devices``
    together.

    A mixed container has ``dedicated_cpus`` CPUs of its own, and the rest of ``cpus`` is its demand on the pool of the
    same cell. Example: ``cpus=3.5, dedicated_cpus=2`` are two CPUs of its own and 1.5 CPUs of the pool. It is on one
    cell, and every condition on CPUs is about its own ones.

    ``cache_ways`` or ``cache_mib``, and ``memory_bandwidth`` (percent), are what a container wants for itself of each
    L3 cache that one of its own CPUs uses; 0 is no part.

    A request with ``members`` is that of a capsule whose containers differ, see ``of_members``. Each member is planned
    as a request of its own, beside the others, and all of them have ``member_same`` in common. The other fields are
    sums, for whoever needs totals only. ``title`` of a member is its name in messages.
    """

    cpus: float
    memory_mib: int
    cpu_policy: str = "dedicated"
    thread_policy: str = "prefer"
    numa_nodes: int = 1
    numa_affinity: str | None = None
    _: KW_ONLY
    numa_cpus: tuple[float, ...] | None = None
    numa_mem: tuple[int, ...] | None = None
    mempolicy: str = "strict"
    page_size: str | int | None = None
    isolation: str = "thread"
    devices: tuple[DeviceRequest, ...] = ()
    device_same: str = "none"
    dedicated_cpus: int | None = None
    cache_ways: int = 0
    cache_mib: int = 0
    memory_bandwidth: int = 0
    members: tuple[PlacementRequest, ...] = ()
    member_same: str = "none"
    title: str = field(default="", compare=False)

    @classmethod
    def of_members(cls, members: Sequence[PlacementRequest], same: str = "none") -> Self:
        """Return the one request of a capsule whose containers differ. Raise ValueError for what no host can satisfy.

        Example: a dedicated, a mixed and a shared member, whose own CPUs are all in one L3 group (``same``).
        """
        policies = {member.cpu_policy for member in members}
        return cls(
            cpus=amounts.exact(sum(member.cpus for member in members)),
            memory_mib=sum(member.memory_mib for member in members),
            cpu_policy=policies.pop() if len(policies) == 1 else "mixed",
            numa_affinity="none",
            devices=tuple(device for member in members for device in member.devices),
            members=tuple(members),
            member_same=same,
        )

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a request that no host can satisfy."""
        self._set("cpu_policy", _one_of(CPUPolicy, "cpu_policy", self.cpu_policy))
        self._set("thread_policy", _one_of(ThreadPolicy, "thread_policy", self.thread_policy))
        default = NUMAAffinity.REQUIRE if self.dedicated else NUMAAffinity.PREFER
        affinity = default if self.numa_affinity is None else self.numa_affinity
        self._set("numa_affinity", _one_of(NUMAAffinity, "numa_affinity", affinity))
        self._set("mempolicy", _one_of(MemPolicy, "mempolicy", self.mempolicy))
        self._set("page_size", _page_size(self.page_size))
        self._set("isolation", _one_of(Isolation, "isolation", self.isolation))
        self._set("device_same", _one_of(DeviceSame, "device_same", self.device_same))
        self._set("member_same", _one_of(MemberSame, "member_same", self.member_same))
        if self.members:
            self._check_members()
            return
        if not self.dedicated and self.isolation != "thread":
            raise ValueError(f"isolation {self.isolation} is for dedicated CPUs: a shared container has none")
        if self.wants_cache:
            self._check_cache()
        self._set("cpus", self._cpu_count("cpus", self.cpus))
        if self.mixed or self.dedicated_cpus is not None:
            self._check_mixed()
        self._set("memory_mib", _whole("memory_mib", self.memory_mib, least=0))
        self._check_shape()

    def _check_members(self) -> None:
        same, own = self.member_same, [member for member in self.members if member.dedicated]
        for member in self.members:
            if member.members:
                raise ValueError("a member of members cannot have members")
            if member.wants_cache:
                raise ValueError("cache_ways, cache_mib and memory_bandwidth are not for members that differ")
            if same in ("cell", "l3") and member.dedicated and (
                member.isolation == "node" or (member.numa_affinity == "require" and member.numa_nodes > 1)
            ):
                raise ValueError(f"member_same is {same}: no member can ask for several cells, or for isolation node")
        if same in ("cell", "l3") and not own:
            raise ValueError(f"member_same is {same}: it is about own CPUs, and no member asks for any")
        if same == "switch" and not self.devices:
            raise ValueError("member_same is switch: it is about devices, and no member asks for any")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def dedicated(self) -> bool:
        """True if the container asks for CPUs of its own: all of its CPUs, or some (``mixed``)."""
        return self.cpu_policy != "shared"

    @property
    def mixed(self) -> bool:
        """True if the container asks for CPUs of its own and for a share of the pool."""
        return self.cpu_policy == "mixed"

    @property
    def own_cpus(self) -> int:
        """The number of CPUs that the container asks for as its own; 0 for a shared container."""
        if self.members:
            return sum(member.own_cpus for member in self.members)
        if self.dedicated_cpus is not None:
            return self.dedicated_cpus
        return int(self.cpus) if self.dedicated else 0

    @property
    def each(self) -> tuple[PlacementRequest, ...]:
        """The requests that are planned: the members, or this request alone."""
        return self.members or (self,)

    @property
    def demand(self) -> int:
        """The demand on the shared pool, in millionths of a CPU; 0 for a dedicated container."""
        return round(self.cpus * MICRO) - self.own_cpus * MICRO

    @property
    def whole_cores(self) -> bool:
        """True if the thread policy asks for cores that no other container uses."""
        return self.dedicated and self.thread_policy != "prefer"

    @property
    def ordinary_pages(self) -> bool:
        """True if the request is for ordinary pages on every host.

        A size in KiB may be the size of ordinary pages on some hosts only.
        """
        return self.page_size in (None, "small")

    @property
    def wants_cache(self) -> bool:
        """True if the container wants a part of the L3 caches or of the memory bandwidth for itself."""
        return bool(self.cache_ways or self.cache_mib or self.memory_bandwidth)

    def without_cache(self) -> PlacementRequest:
        """Return the request for everything but a part of the L3 caches and of the memory bandwidth."""
        return replace(self, cache_ways=0, cache_mib=0, memory_bandwidth=0)

    def _check_cache(self) -> None:
        for name in ("cache_ways", "cache_mib", "memory_bandwidth"):
            self._set(name, _whole(name, getattr(self, name), least=0))
        if not self.dedicated:
            raise ValueError("cache_ways, cache_mib and memory_bandwidth are for dedicated CPUs: a shared container "
                             "has none")
        if self.cache_ways and self.cache_mib:
            raise ValueError("cache_ways and cache_mib say the same in two units: name one of them")
        if self.memory_bandwidth > 100:
            raise ValueError(f"memory_bandwidth is {self.memory_bandwidth}: it is a percentage, so at most 100")

    def _cpu_count(self, name: str, value: object) -> float:
        if self.cpu_policy == "dedicated":
            return _whole(name, value, least=1)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise ValueError(f"{name} of a {self.cpu_policy} container must be a number from 0 up, not {value!r}")
        return amounts.exact(value)

    def _check_mixed(self) -> None:
        if not self.mixed:
            raise ValueError(f"dedicated_cpus is for cpu_policy mixed: a {self.cpu_policy} container has none to name")
        if self.dedicated_cpus is None:
            raise ValueError("dedicated_cpus is missing: a mixed container must say how many CPUs are its own")
        self._set("dedicated_cpus", _whole("dedicated_cpus", self.dedicated_cpus, least=1))
        if self.dedicated_cpus >= self.cpus:
            total = amounts.text(self.cpus)
            raise ValueError(f"dedicated_cpus is {self.dedicated_cpus}: it must be less than cpus, which is {total}")
        if self.numa_cpus is not None:
            raise ValueError("numa_cpus is for several cells: a mixed container is on one")
        if self.numa_affinity != "require":
            raise ValueError(f"numa_affinity is {self.numa_affinity}: a mixed container is on one cell, so it must be "
                             "require")
        if self.isolation == "node":
            raise ValueError("isolation node would leave no CPU of the cell for the shared part of a mixed container")

    def _check_shape(self) -> None:
        nodes = _whole("numa_nodes", self.numa_nodes, least=1)
        for name in ("numa_cpus", "numa_mem"):
            entries = getattr(self, name)
            if entries is None:
                continue
            if isinstance(entries, (str, bytes)) or not isinstance(entries, Iterable):
                raise ValueError(f"{name} must be a list with one entry per cell, not {entries!r}")
            entries = tuple(entries)
            if not entries:
                raise ValueError(f"{name} must have one entry per cell, not none")
            if nodes == 1:
                nodes = len(entries)
            if len(entries) != nodes:
                raise ValueError(f"{name} has {len(entries)} entries for {nodes} cells")
            self._set(name, entries)
        self._set("numa_nodes", nodes)
        if self.mixed and nodes != 1:
            raise ValueError(f"numa_nodes is {nodes}: a mixed container is on one cell")
        self._check_entries()

    def _check_entries(self) -> None:
        if self.numa_cpus is not None:
            cpus = tuple(self._cpu_count("numa_cpus", entry) for entry in self.numa_cpus)
            if amounts.exact(sum(cpus)) != self.cpus:
                total, asked = amounts.text(sum(cpus)), amounts.text(self.cpus)
                raise ValueError(f"numa_cpus add up to {total}, but cpus is {asked}")
            self._set("numa_cpus", cpus)
        elif self.dedicated and self.cpus < self.numa_nodes:
            raise ValueError(f"cpus is {self.cpus}: fewer than one for each of {self.numa_nodes} cells (numa_nodes)")
        if self.numa_mem is not None:
            mem = tuple(_whole("numa_mem", entry, least=0) for entry in self.numa_mem)
            if sum(mem) != self.memory_mib:
                raise ValueError(f"numa_mem adds up to {sum(mem)}, but memory_mib is {self.memory_mib}")
            self._set("numa_mem", mem)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """(CPUs, MiB) wanted of each of ``numa_nodes`` cells; for a shared container millionths of a CPU.

        For a mixed container these are its own CPUs; the cell must have room for ``demand`` as well.
        """
        unit = 1 if self.dedicated else MICRO
        if self.dedicated_cpus is not None:
            return ((self.dedicated_cpus, self.memory_mib),)
        if self.numa_nodes == 1:
            return ((int(self.cpus) if unit == 1 else round(self.cpus * unit), self.memory_mib),)
        if self.numa_cpus is None:
            cpus = even_split(round(self.cpus * unit), self.numa_nodes)
        else:
            cpus = tuple(round(entry * unit) for entry in self.numa_cpus)
        mem = even_split(self.memory_mib, self.numa_nodes) if self.numa_mem is None else self.numa_mem
        return tuple(zip(cpus, mem, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON-able values, with the names of the constructor.

        ``devices`` and ``device_same`` are left out if the request is for no device, ``dedicated_cpus`` if the
        container is not mixed, each part of a cache if none is wanted, and ``members`` and ``member_same`` without any.
        """
        record: dict[str, Any] = {
            "cpus": self.cpus,
            "memory_mib": self.memory_mib,
            "cpu_policy": str(self.cpu_policy),
            "thread_policy": str(self.thread_policy),
            "numa_nodes": self.numa_nodes,
            "numa_affinity": str(self.numa_affinity),
            "numa_cpus": None if self.numa_cpus is None else list(self.numa_cpus),
            "numa_mem": None if self.numa_mem is None else list(self.numa_mem),
            "mempolicy": str(self.mempolicy),
            "page_size": self.page_size,
            "isolation": str(self.isolation),
        }
        if self.devices:
            record["devices"] = [each.to_dict() for each in self.devices]
            record["device_same"] = str(self.device_same)
        if self.dedicated_cpus is not None:
            record["dedicated_cpus"] = self.dedicated_cpus
        for name in ("cache_ways", "cache_mib", "memory_bandwidth"):
            if getattr(self, name):
                record[name] = getattr(self, name)
        if self.members:
            record["members"] = [member.to_dict() for member in self.members]
            record["member_same"] = str(self.member_same)
        return record


def even_split(total: int, count: int) -> tuple[int, ...]:
    """Return ``total`` split into ``count`` integers that differ by at most one, larger ones first."""
    share, rest = divmod(total, count)
    return (share + 1,) * rest + (share,) * (count - rest)


def _one_of(choices: type[StrEnum], name: str, value: str) -> str:
    try:
        # The plain string: comparing and hashing it costs nothing in the search.
        return choices(value).value
    except ValueError:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}") from None


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up, not {value!r}")
    return value


def _page_size(value: str | int | None) -> str | int | None:
    if value is None or value in ("small", "large", "any"):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError(f"page_size must be small, large, any or a size in KiB, not {value!r}")
