# SPDX-License-Identifier: Apache-2.0
"""Every CPU of the machine given to somebody, and given back."""

import time

from zun.tests.machines.containers import PATIENCE


def test_every_cpu_once(containers, machine, nodes_of, record_property):
    began = time.monotonic()
    asked = [containers.ask(cpu_policy="dedicated", cpu=1, memory=32) for _ in machine.cpus]
    accepted = time.monotonic() - began
    placed = [containers.look(uuid) for uuid in asked]
    ready = time.monotonic() - began
    taken = sorted(cpu for each in placed for cpu in each.cpus)
    assert taken == list(machine.cpus)
    for each in placed:
        assert set(nodes_of(each.cpus)) == set(each.mems)
    assert containers.topology()["shared"] == ""
    reason = containers.refusal(1, memory=32)
    assert "No valid host" in reason
    containers.api.delete_all(PATIENCE)
    shown = containers.topology()
    assert (shown["claims"], shown["shared"]) == ([], str(machine.cpus))
    assert all(cell["memory_used_mib"] == 0 for cell in shown["cells"])
    record_property("containers; CPUs they have", f"{len(placed)}; {taken[0]}-{taken[-1]}, none twice")
    record_property("seconds to accept all; until all run", f"{accepted:.1f}; {ready:.1f}")
    record_property("reason for one more", reason)
