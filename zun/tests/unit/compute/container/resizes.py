# SPDX-License-Identifier: Apache-2.0
"""Containers, plans and machines to resize, and the cases of a resize."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from zun.common.context import RequestContext
from zun.compute.container.resize_rules import resized
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.tests.functional.cloud import machine
from zun.topology import CellShare, CpuSet, HostTopology, PlacementRequest, Plan, Usage

CONTEXT = RequestContext(user_id="alice", project_id="demo")
MACHINE = machine(cells=2, cores=4, memory_mib=1024).configured(cpu_allocation_ratio=2.0)
SMT = machine(cells=1, cores=4, threads=2, memory_mib=1024)


def dedicated(cpus="0-1", memory=64, cell=0, withheld=""):
    return Plan({cell: CellShare(cpus=CpuSet(cpus), memory_mib=memory, withheld=CpuSet(withheld))})


TOP_HALF = MACHINE.configured(dedicated_set=CpuSet("2-7"))
TOP_CORE = SMT.configured(dedicated_set=CpuSet("6-7"))
TWO_SMT_CELLS = machine(cells=2, cores=2, threads=2, memory_mib=32)
TWO_CELLS = Plan({0: CellShare(CpuSet("3"), 32), 1: CellShare(CpuSet("7"), 32)})


def shared(demand=1.0, memory=64, cell=0):
    cpus = MACHINE.cell(cell).cpus
    return Plan({cell: CellShare(cpus=cpus, memory_mib=memory, shared=demand)}, "shared")


TOO_MUCH = dedicated("3", 1000)
TOO_MUCH_SHARED = shared(6.0, 1000)
PAGES_ALONE = CellShare(CpuSet("3"), 64, pages={2048: 32})
IN_PAGES = Plan({0: CellShare(CpuSet("0-1"), 64, pages={2048: 32})})


def container(held=None, **fields):
    values = {"uuid": "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f", "cpu": 2.0, "memory": 64, "cpu_policy": "dedicated"}
    record = None if held is None else cpuset_record(held)
    return Container(CONTEXT, **{**values, "name": "web", "placement": {}, "cpuset": record, **fields})


@dataclass(frozen=True)
class Case:
    """A container at ``old`` that is to be as ``request`` says and ``keep`` some of its CPUs, and what it gets."""

    old: Plan
    request: PlacementRequest
    cpus: str
    withheld: str = ""
    keep: str = ""
    topology: HostTopology = MACHINE
    others: Sequence[Plan] = ()


def case(*values, id, **more):
    return pytest.param(Case(*values, **more), id=id)


def settled(case):
    """The plan, which is as the case says."""
    usage = Usage({f"c{number}": held for number, held in enumerate(case.others)})
    answer = resized(case.topology, usage, case.old, case.request, CpuSet(case.keep))
    assert isinstance(answer, Plan), answer
    got, said = (answer.cpus, answer.withheld), (CpuSet(case.cpus), CpuSet(case.withheld))
    assert (*got, answer.memory_mib) == (*said, case.request.memory_mib)
    return answer
