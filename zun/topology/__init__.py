# SPDX-License-Identifier: Apache-2.0
"""Exact placement of containers on the CPUs and memory nodes of one host.

The words
---------
A *cell* is a NUMA node of a host: CPUs, memory, or both, under the kernel's node id. A *core* is a physical core. Its
*threads* are the logical CPUs that the kernel shows, and threads of one core are *siblings*. A CPU is *held* if one
dedicated container has it to itself. A CPU is *withheld* if no container may run on it because a container holds its
core, its L3 cache or its cell as a whole. The *shared pool* is the CPUs that shared containers run on: the operator's
``shared_set``, else every CPU that is not held. The pool is counted per cell. Its *floor* is the number of CPUs that
the shared containers of a cell need: their demand divided by the allocation ratio, at least one. Capacity that a
decision makes useless for others is *stranded*: the odd thread of a broken core, the two CPUs left of a cell.

The values
----------
``HostTopology`` has the facts of a host, from ``discover()``, and the operator's settings, from ``configured()``.
``Usage`` has the claims on a host, by container. ``PlacementRequest`` is the request of one container. No value ever
changes: ``usage.with_claim(owner, plan)`` is a new usage.

``plan(topology, usage, request)`` returns a ``Plan`` with exact CPUs and the memory of each cell, or a ``Refusal`` with
a code, a message, and the nearest request that would have fitted. The scheduler and the agent call the same function.
A plan is a claim: the agent takes it as it is if ``usage.fits(topology, plan)`` finds no problem.

The rules
---------
Among all choices that serve, ``plan`` takes the best by one key, most important first:

1. fewest cells;
2. least memory that is not on those cells, 3. and that as near as possible;
4. smallest sum of the distances between those cells, every pair, both ways;
5. memory near the cells that give CPUs, if other cells give memory only;
6. (shared containers) least demand above one CPU per CPU of the pool;
7. fewest L3 groups, 8. fewest cores, 9. fewest threads left over or withheld on those cores;
10. fewest free CPUs left in those L3 groups, 11. on those cells, 12. least free memory left on those cells; with the
    operator's ``strategy`` ``spread`` most of each;
13. lowest cell ids, 14. lowest CPU ids.

So siblings stay together, a broken core or a nearly full cell is used up before a whole one is broken, and equal
questions get equal answers. The search is exact unless it uses up its steps; ``search/README.rst`` explains it.

- Thread policy ``prefer`` gives any free threads. ``isolate`` gives one thread each of cores that are entirely free,
  and withholds the other threads. ``require`` gives cores whole and needs cores with siblings; of an odd count the last
  thread is withheld.
- ``isolation`` ``core`` gives whole cores under every thread policy. ``l3`` and ``node`` give whole cores of L3 groups
  (of cells) without any held CPU, and withhold the rest of these groups (cells) from every container, also from the
  shared pool. CPUs that the operator reserved may lie there, because no container runs on them. The CPUs of a cell
  without an L3 count as one L3 group. No container can have an L3 that reaches beyond its cell, or a cell with CPUs
  that this process may not use, to itself. The CPUs that a grade or a thread policy keeps are part of the claim, so no
  later claim can break it; ``kept_up`` adds CPUs that came online since. ``grade_of`` returns the grade that a claim
  reaches, ``has_whole_cores`` whether its cores are its own.
- ``numa_affinity`` ``require`` is exactly ``numa_nodes`` cells, each part of the request on one of them. ``prefer``
  tries that first, then as few cells as possible. ``none`` takes as few cells as possible at once. If cells are as few
  as possible, all of them but one give every CPU they can.
- A container's memory comes from its cells. A node without CPUs belongs to its nearest cell, lends that cell only the
  memory it lacks, and does not count as one of ``numa_nodes``. A cell without any memory, also of such nodes, borrows
  from the nearest nodes that have some, all that are equally near. With ``mempolicy="preferred"`` further memory may
  come from any node, the nearest first. Ordinary memory is the memory outside the huge page pools. A container in huge
  pages uses pages only.
- A mixed container is on one cell. Its own CPUs are planned as for a dedicated container, on a cell whose pool has room
  for the rest of its ``cpus`` after that. It counts as dedicated for its memory, and as shared for the floor.
- The members of a capsule whose containers differ are planned together (``PlacementRequest.of_members``): all of them
  have a place, or none. Only what each member asks for and ``member_same`` are conditions. All are on one cell if they
  fit there, else near each other, but the joined plan need not be the best of all.
- The devices of a node without CPUs are on the cells nearest to it, all that are equally near.
- CPUs isolated by the kernel go to containers of isolation ``isolated``, which get no other CPUs.
- Without a ``dedicated_set``, dedicated containers may get every usable CPU that is not in a ``shared_set``.
- Dedicated memory is never promised twice; shared memory up to ``ram_allocation_ratio``.

This package needs the standard library only. It does no I/O, except ``sysfs``, which reads the machine.
"""

from zun.topology.allocator import plan
from zun.topology.cells import NUMACell
from zun.topology.cpuset import CpuSet
from zun.topology.grade import grade_of, has_whole_cores, kept_up
from zun.topology.host_topology import HostTopology
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
