# SPDX-License-Identifier: Apache-2.0
"""The form of the NUMA fields of create. ``zun.api.numa`` checks them together."""

from typing import Any

from zun.api.schemas import Field
from zun.api.schemas.scalars import HANDLED_SIGNAL, optional_one_of
from zun.objects.wishes import PROFILE, CpuPartition, Interrupts
from zun.topology import CpuSet, Isolation, MemPolicy, NUMAAffinity, ThreadPolicy

_MAX_NODES = 1024  # the kernel's largest MAX_NUMNODES


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _list(value: Any) -> list[int] | None:
    return None if value is None else [int(item) for item in value]


def _page_size(value: Any) -> str | int | None:
    """Return a word, or a number of KiB as int."""
    if value is None or value in ("small", "large", "any"):
        return value
    kib = int(value)
    if kib < 4 or kib & (kib - 1):
        raise ValueError(f"{kib} KiB is not a page size: give small, large, any, or a power of two from 4 (KiB)")
    return kib


def _cpu_list(value: Any) -> str | None:
    """Return the list as the kernel writes it, or None for an empty list, which asks for nothing."""
    return str(CpuSet(value)) or None if value else None


CPU_LIST = Field(
    {
        "type": ["string", "null"],
        "maxLength": 4096,
        "pattern": r"^[0-9,\s-]*\Z",
        "description": "a list of CPUs, for example '2-3,8'",
    },
    _cpu_list,
)

_PER_NODE = Field(
    {
        "type": ["array", "null"],
        "items": {"type": "integer", "minimum": 1, "maximum": 10**12},
        "minItems": 1,
        "maxItems": _MAX_NODES,
        "description": "a list with one whole number for each cell, for example [2, 3]",
    },
    _list,
)

#: Fields of a mixed container beside those of a dedicated one.
MIXED_FIELDS = {
    "dedicated_cpus": Field({"type": ["integer", "null"], "minimum": 1, "maximum": 10**6}, _whole),
}

#: Fields of containers with CPUs of their own: what disturbs these CPUs, and how a change of them is told.
QUIET_FIELDS = {
    "cpu_partition": optional_one_of(*CpuPartition),
    "interrupts": optional_one_of(*Interrupts),
    "power_profile": Field(
        {
            "type": ["string", "null"],
            "maxLength": 64,
            "pattern": rf"^{PROFILE}\Z",
            "description": "the name of a power profile, for example low-latency",
        }
    ),
    "cpuset_signal": HANDLED_SIGNAL,
    "cache_ways": Field({"type": ["integer", "null"], "minimum": 1, "maximum": 1024}, _whole),
    "cache_mib": Field({"type": ["integer", "null"], "minimum": 1, "maximum": 2**20}, _whole),
    "memory_bandwidth": Field(
        {"type": ["integer", "null"], "minimum": 1, "maximum": 100, "description": "a percentage from 1 to 100"}, _whole
    ),
}

_PAGE_SIZE_WORDS = "small, large, any, or a number of KiB"

FIELDS = {
    "cpu_thread_policy": optional_one_of(*ThreadPolicy),
    "cpu_isolation": optional_one_of(*Isolation),
    "numa_nodes": Field({"type": ["integer", "null"], "minimum": 1, "maximum": _MAX_NODES}, _whole),
    "numa_affinity": optional_one_of(*NUMAAffinity),
    "numa_cpus": _PER_NODE,
    "numa_mem": _PER_NODE,
    "numa_mempolicy": optional_one_of(*MemPolicy),
    "mem_page_size": Field(
        {
            "anyOf": [
                {"enum": ["small", "large", "any", None]},
                {"type": "integer", "minimum": 4, "maximum": 2**40},
                {"type": "string", "maxLength": 12, "pattern": r"^[0-9]{1,12}\Z", "description": _PAGE_SIZE_WORDS},
            ],
            "description": _PAGE_SIZE_WORDS,
        },
        _page_size,
    ),
}
