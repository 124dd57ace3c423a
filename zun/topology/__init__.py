# SPDX-License-Identifier: Apache-2.0
"""Exact placement of containers on the CPUs and memory nodes of one host.

The words
---------
A *cell* is a NUMA node: CPUs, memory, or both, under the kernel's node id. A *core* is a physical core; its *threads*
are the logical CPUs the kernel shows, and threads of one core are *siblings*. A CPU is *held* when one dedicated
container has it for itself. A sibling is *withheld* when nobody may run on it although nobody uses it, because its
core was given to a container whole, or with its cache or cell. The *shared pool* is every CPU shared containers run
on: what the operator set aside for them, else all that is not held; it is counted per cell, and its *floor* is what
the shared containers there need (their demand divided by the allocation ratio, one CPU at least). What a decision
makes useless for others is *stranded*: the odd thread of a broken core, the two CPUs left of a cell.

The values
----------
``HostTopology`` is what a host is: discovered by ``discover()``, then ``configured()`` by the operator.
``Usage`` is who holds what, per container. ``PlacementRequest`` is what one container asks. Nothing is ever changed
in place: ``usage.with_claim(owner, plan)`` is a new usage.

``plan(topology, usage, request)`` gives a ``Plan``, with exact CPUs and the memory of each cell, or a ``Refusal``,
with a code, words, and the nearest request that would have fitted. The scheduler and the agent call the same
function, and a plan is a claim: the agent takes it as it is while ``usage.fits(topology, plan)`` finds nothing.

The rules
---------
Among all choices that serve, ``plan`` takes the best by one key, most important first:

1. fewest cells;
2. least memory that is not on those cells;
3. smallest sum of the distances between them, every pair, both ways;
4. (shared containers) least demand above one CPU per CPU of the pool;
5. fewest L3 groups, 6. fewest cores, 7. fewest threads left over or withheld on those cores;
8. fewest free CPUs left in those L3 groups, 9. on those cells, 10. least free memory left on those cells;
   most of each where the operator's ``strategy`` is ``spread``;
11. lowest cell ids, 12. lowest CPU ids.

So siblings stay together, a broken core or a nearly full cell is used up before a whole one is broken, and equal
questions get equal answers. The search is exact (``sets`` says what that means beyond sixteen cells).

- ``prefer`` gives any free threads. ``isolate`` gives one thread each of cores that are entirely free, and withholds
  the rest. ``require`` gives cores whole and needs cores with siblings; of an odd count the last thread is withheld.
- ``isolation`` ``core`` gives whole cores under every thread policy. ``l3`` and ``node`` give whole cores of L3 groups
  (of cells) of which nobody holds a CPU, and withhold the rest of them from everybody, the shared pool included.
  CPUs that the operator reserved may lie there, since no container does. A CPU without L3 shares one with all such CPUs
  of its cell; an L3 that reaches beyond its cell is nobody's alone, nor is a cell with CPUs this process may not use.
  What a grade or a thread policy keeps is part of the claim, so nothing that comes later can break it: ``kept_up`` adds
  CPUs that came online since. ``grade_of`` tells which grade a claim reaches, ``has_whole_cores`` whether its cores are
  its own.
- ``numa_affinity`` ``require`` is exactly ``numa_nodes`` cells, each part of the request on one of them. ``prefer``
  tries that, then as few cells as possible; ``none`` begins there. Then all cells but one give every CPU they can.
- Memory is the cell's own. A node without CPUs belongs to its nearest cell and lends to it only what that cell lacks;
  it does not count as one of ``numa_nodes``. With ``mempolicy="preferred"`` the rest may come from any node, the
  nearest first. Ordinary memory is what the huge page pools leave; a container in huge pages uses pages only.
- CPUs isolated by the kernel go to containers of isolation ``isolated``, which get no others.
- Without a ``dedicated_set`` everything usable and not in a ``shared_set`` may become dedicated.
- Dedicated memory is never promised twice; shared memory up to ``ram_allocation_ratio``.

This package needs nothing but the standard library and does no I/O, except ``sysfs``, which reads the machine.
"""

from zun.topology.allocator import plan
from zun.topology.cells import HostTopology, NUMACell
from zun.topology.cpuset import CpuSet
from zun.topology.grade import grade_of, has_whole_cores, kept_up
from zun.topology.placement import CellShare, Plan
from zun.topology.refusal import CellFree, Change, Dimension, Refusal, RefusalCode, Wanted
from zun.topology.request import CPUPolicy, Isolation, MemPolicy, NUMAAffinity, PlacementRequest, ThreadPolicy
from zun.topology.sysfs import discover
from zun.topology.usage import ClaimConflict, Usage

__all__ = [
    "CPUPolicy",
    "CellFree",
    "CellShare",
    "Change",
    "ClaimConflict",
    "CpuSet",
    "Dimension",
    "HostTopology",
    "Isolation",
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
    "grade_of",
    "has_whole_cores",
    "kept_up",
    "plan",
]
