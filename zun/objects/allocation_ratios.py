# SPDX-License-Identifier: Apache-2.0
"""The allocation ratios of a host: those that its aggregates name, and otherwise those of its own configuration.

Schedulers and hosts both decide here. As in Nova, the lowest of several aggregates counts, and replaces the host's own
ratio, whether that is lower or higher.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from zun.objects.placement import CPU_RATIO_KEY, RAM_RATIO_KEY
from zun.topology import HostTopology
from zun.topology.ranges import RATIO

LONGEST = 32
"""Characters of a number in the metadata of an aggregate."""

Ratios = Mapping[str, float]
"""The ratios that aggregates name, for example ``{"cpu_allocation_ratio": 4.0}``."""


def of_aggregates(metadata: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the lowest ratio of each key in the ``metadata`` of a host's aggregates."""
    metadata = tuple(metadata)
    named = {key: lowest(metadata, key, RATIO.most) for key in (CPU_RATIO_KEY, RAM_RATIO_KEY)}
    return {key: float(ratio) for key, ratio in named.items() if ratio is not None}


def lowest(metadata: Iterable[Mapping[str, Any]], key: str, most: float) -> Fraction | None:
    """Return the lowest number under ``key``, or None.

    A value that is no number above 0, or is above ``most``, is ignored: a typing error must not close an aggregate.
    """
    named = []
    for each in metadata:
        text = each.get(key)
        if isinstance(text, str) and len(text) <= LONGEST:  # others were written by hand
            try:
                number = Fraction(text) if "e" not in text.lower() else Fraction(str(RATIO(float(text))))
            except (ValueError, ZeroDivisionError):
                continue
            if 0 < number <= most:
                named.append(number)
    return min(named, default=None)


def promised(topology: HostTopology, ratios: Ratios) -> HostTopology:
    """Return ``topology`` with ``ratios`` in place of its own. Equal hosts share one object."""
    own = topology.cpu_allocation_ratio, topology.ram_allocation_ratio
    named = ratios.get(CPU_RATIO_KEY, own[0]), ratios.get(RAM_RATIO_KEY, own[1])
    return topology if named == own else _with_ratios(topology, *named)


@lru_cache(maxsize=1000)
def _with_ratios(topology: HostTopology, cpu: float, ram: float) -> HostTopology:
    return replace(topology, cpu_allocation_ratio=cpu, ram_allocation_ratio=ram)
