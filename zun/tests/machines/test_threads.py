# SPDX-License-Identifier: Apache-2.0
"""Sibling threads under the three thread policies."""

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE
from zun.topology import CpuSet


@pytest.fixture
def core_of(machine):
    """CPU -> all threads of its core, by ``lscpu``."""
    cores = kernel.lscpu("CORE")
    if all(len(core) == 1 for core in cores):
        pytest.skip("the cores of this machine have one thread each")
    return lambda cpu: next(core for core in cores if cpu in core)


def _cores(core_of, cpus):
    return {core_of(cpu) for cpu in cpus}


def test_isolate_keeps_the_siblings_idle(containers, machine, core_of, record_property):
    """Nobody gets them: not a shared container, and no dedicated one, even when nothing else is left."""
    shared = containers.shared(command=probes.several(3))
    (home,) = shared.mems
    isolated = containers.dedicated(1, cpu_thread_policy="isolate")
    assert isolated.mems == shared.mems  # it has something to leave
    cores = _cores(core_of, isolated.cpus)
    siblings = CpuSet(cpu for core in cores for cpu in core) - isolated.cpus
    assert (len(cores), len(siblings), isolated.withheld) == (1, 1, siblings)
    off_limits = isolated.cpus | siblings
    assert kernel.effective(shared.group)[0] == machine.cell(home).cpus - off_limits
    # All that is left but one CPU, which the shared container needs.
    given = CpuSet("")
    for cell in sorted(machine.cells, key=lambda cell: cell.id == home):
        free = len(cell.cpus - off_limits) - (cell.id == home)
        if free:
            given |= containers.dedicated(free, memory=32).cpus
    assert given.isdisjoint(off_limits)
    last = machine.cpus - off_limits - given
    assert len(last) == 1
    for pid in kernel.members(shared.group):
        assert kernel.allowed(pid)[0] == last
    reason = containers.refusal(1, memory=32)
    containers.delete(shared.uuid)
    assert containers.dedicated(1, memory=32).cpus == last
    containers.refusal(1, memory=32)
    record_property("isolated CPU; sibling kept idle", f"{isolated.cpus}; {siblings}")
    record_property("given to others; last, for the shared container", f"{given}; {last}")
    record_property("reason for one more", reason)


def test_require_gives_whole_cores(containers, machine, core_of, record_property):
    two = containers.dedicated(2, cpu_thread_policy="require")
    assert _cores(core_of, two.cpus) == {two.cpus}
    three = containers.dedicated(3, cpu_thread_policy="require")
    assert len(_cores(core_of, three.cpus)) == 2
    whole = CpuSet(cpu for core in _cores(core_of, three.cpus) for cpu in core)
    assert three.withheld == whole - three.cpus and len(three.withheld) == 1
    assert whole.isdisjoint(two.cpus)
    record_property("2 CPUs", f"{two.cpus}")
    record_property("3 CPUs; kept idle", f"{three.cpus}; {three.withheld}")


def test_require_takes_no_broken_core(containers, machine, core_of, record_property):
    """With every whole core taken, the free thread of a broken one is no answer to ``require``."""
    one = containers.dedicated(1, memory=32)
    broken = core_of(next(iter(one.cpus)))
    whole = [
        containers.dedicated(len(cell.cpus - broken), cpu_thread_policy="require", memory=32) for cell in machine.cells
    ]
    assert {cpu for each in whole for cpu in each.cpus} == set(machine.cpus - broken)
    reason = containers.refusal(1, cpu_thread_policy="require", memory=32)
    assert containers.dedicated(1, memory=32).cpus == broken - one.cpus
    record_property("taken; the rest of its core", f"{one.cpus}; {broken - one.cpus}")
    record_property("whole cores", " ".join(str(each.cpus) for each in whole))
    record_property("reason", reason)


def test_prefer_keeps_siblings_together_and_mends_broken_cores(containers, core_of, record_property):
    pair = containers.dedicated(2)
    assert _cores(core_of, pair.cpus) == {pair.cpus}
    one = containers.dedicated(1)
    other = containers.dedicated(1)
    assert core_of(next(iter(one.cpus))) == one.cpus | other.cpus
    record_property("2 CPUs", f"{pair.cpus}")
    record_property("1 CPU, then 1 more", f"{one.cpus}, {other.cpus}")


def test_a_sibling_that_comes_online_is_kept_idle(containers, machine, core_of, hotplug, record_property):
    """It is of a core that was promised to be whole: nobody else gets it, also where nothing else is left."""
    core = core_of(max(machine.cpus))
    late = CpuSet([max(core)])
    hotplug(max(core), False)
    before = containers.dedicated(len(core) - 1, cpu_thread_policy="isolate", memory=32)
    assert (before.cpus, before.withheld) == (core - late, CpuSet(""))
    hotplug(max(core), True)
    wait_for(lambda: containers.look(before.uuid).withheld, PATIENCE)
    after = containers.look(before.uuid)
    assert (after.cpus, after.withheld, after.pid) == (before.cpus, late, before.pid)
    rest = containers.dedicated(len(machine.cpus - core), numa_affinity="none", memory=32)
    assert rest.cpus == machine.cpus - core
    reason = containers.refusal(1, memory=32)
    assert CpuSet(containers.topology()["shared"]) == CpuSet("")
    record_property("isolated CPU; sibling that came online, kept idle", f"{after.cpus}; {after.withheld}")
    record_property("all that others get; reason for one more", f"{rest.cpus}; {reason}")
