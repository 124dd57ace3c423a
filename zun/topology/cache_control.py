# SPDX-License-Identifier: Apache-2.0
"""The L3 caches of a host and their way to memory, as the kernel can divide them between containers (resctrl)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from zun.topology.cpuset import CpuSet
from zun.topology.ranges import CORES, PARTS, PERCENT, WAY_KIB, WAYS
from zun.topology.request import PlacementRequest


class Part(NamedTuple):
    """A part of an L3 cache and of its memory bandwidth (percent)."""

    ways: int = 0
    bandwidth: int = 0

    def __str__(self) -> str:
        words = [f"{self.ways} ways"] if self.ways or not self.bandwidth else []
        return " and ".join([*words, *([f"{self.bandwidth} % of the memory bandwidth"] if self.bandwidth else [])])


NO_PART = Part()


@dataclass(frozen=True, slots=True)
class CacheControl:
    """The part of an L3 cache that containers may have for themselves. Each L3 of the host gives as much.

    A container that asks for a part has this part of each L3 that one of its own CPUs uses.
    """

    caches: tuple[CpuSet, ...] = ()
    """The CPUs of each L3 that the kernel divides."""
    ways: int = 0
    """Ways of an L3 for containers, all together: those that stay for everybody else are not among them."""
    way_kib: int = 0
    """Size of one way."""
    least_ways: int = 1
    """The fewest ways that the processor gives to anybody."""
    bandwidth: int = 0
    """Percent of the memory bandwidth for containers, all together. It is 0 if the kernel does not limit it."""
    bandwidth_step: int = 1
    """The percentages that the processor knows are multiples of this, and none is less."""
    groups: int = 0
    """Containers that can have a part at the same time, each of whatever caches."""

    def __bool__(self) -> bool:
        return bool(self.caches and self.groups)

    def part(self, request: PlacementRequest) -> Part:
        """Return the part that ``request`` wants, in what the processor can give: rounded up."""
        ways = request.cache_ways
        if request.cache_mib:
            ways = -(-request.cache_mib * 1024 // self.way_kib) if self.way_kib else request.cache_mib
        step = max(1, self.bandwidth_step)
        return Part(max(ways, self.least_ways) if ways else 0, -(-request.memory_bandwidth // step) * step)

    def to_dict(self) -> dict[str, Any]:
        """Return the record for the host's row; ``from_dict`` returns an equal value."""
        return {
            "caches": [str(cache) for cache in self.caches],
            "ways": self.ways,
            "way_kib": self.way_kib,
            "least_ways": self.least_ways,
            "bandwidth": self.bandwidth,
            "bandwidth_step": self.bandwidth_step,
            "groups": self.groups,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the value of a record. Raise one of ``ranges.MALFORMED`` for a record that ``to_dict`` did not make.
        """
        return cls(
            caches=tuple(CpuSet(cache) for cache in CORES(record["caches"])),
            ways=WAYS(record["ways"]),
            way_kib=WAY_KIB(record["way_kib"]),
            least_ways=WAYS(record["least_ways"]),
            bandwidth=PERCENT(record["bandwidth"]),
            bandwidth_step=PERCENT(record["bandwidth_step"]),
            groups=PARTS(record["groups"]),
        )


NO_CACHE_CONTROL = CacheControl()
