# SPDX-License-Identifier: Apache-2.0
"""Exact placement on one host."""

from zun.topology.allocator import plan
from zun.topology.cells import HostTopology, NUMACell
from zun.topology.cpuset import CpuSet
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import CellFree, Refusal, RefusalCode, Wanted
from zun.topology.request import CPUPolicy, MemPolicy, NUMAAffinity, PlacementRequest, ThreadPolicy
from zun.topology.sysfs import discover
from zun.topology.usage import ClaimConflict, Usage

__all__ = [
    "CPUPolicy",
    "CellFree",
    "CellShare",
    "ClaimConflict",
    "CpuSet",
    "HostTopology",
    "MemPolicy",
    "NUMAAffinity",
    "NUMACell",
    "PlacementRequest",
    "Plan",
    "Refusal",
    "RefusalCode",
    "ThreadPolicy",
    "Usage",
    "Wanted",
    "discover",
    "plan",
]
