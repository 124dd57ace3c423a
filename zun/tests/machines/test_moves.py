# SPDX-License-Identifier: Apache-2.0
"""Moves of running containers to other CPUs and nodes, and what they cost the container."""

import os
import signal
import time

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE, when_touched


@pytest.fixture(autouse=True)
def _newest(api, monkeypatch):
    monkeypatch.setitem(api._session.headers, "OpenStack-API-Version", "container 1.49")


def _defragment(containers, cpu, memory):
    answer = containers.api.request("POST", "/placement/defragment", json={"cpu": cpu, "memory": memory})
    assert answer.status_code == 200, answer.text
    return answer.json()


def _moved(containers, uuid):
    """Wait until the last action of the container has ended, a move; return the result and the reason of its step."""

    def ended():
        actions = containers.api.get(f"/containers/{uuid}/container_actions")["containerActions"]
        shown = containers.api.get(f"/containers/{uuid}/container_actions/{actions[0]['request_id']}")
        (step, *_) = shown["events"] or [None]
        done = step is not None and step["finish_time"]
        return (shown["action"], step["result"], step["traceback"]) if done else None

    return wait_for(ended, PATIENCE)


def _fragmented(containers, machine, **fields):
    """Leave one pair of CPUs free, and hold the others by pairs, on each cell."""
    pairs = [containers.ask(cpu_policy="dedicated", cpu=2, memory=64, **fields) for _ in range(2 * len(machine.cells))]
    placed = [containers.look(uuid) for uuid in pairs]
    for cell in machine.cells:
        one, _other = (each for each in placed if each.cpus <= cell.cpus)
        containers.delete(one.uuid)
        placed.remove(one)
    return placed


def test_a_refused_request_fits_after_a_move(containers, machine, nodes_of, record_property):
    assert all(len(cell.cpus) == 4 for cell in machine.cells)
    placed = _fragmented(containers, machine, command=probes.touching(32))
    before = {each.uuid: when_touched(each.pid) for each in placed}
    reason = containers.refusal(4, memory=64)
    assert "It would fit if 1 container of a host was moved" in reason
    answer = _defragment(containers, 4, 64)
    (move,) = answer["moves"]
    (old,) = (each for each in placed if each.uuid == move["container"])
    assert _moved(containers, old.uuid) == ("move", "Success", None)
    now = containers.look(old.uuid)
    assert (now.pid, str(now.cpus), str(now.mems)) == (old.pid, move["cpuset_cpus"], move["cpuset_mems"])
    pages = kernel.anonymous_mib(now.pid)
    assert set(before[old.uuid]) == set(old.mems) and set(pages) == set(now.mems) != set(old.mems)
    for other in placed:
        assert other.uuid == old.uuid or containers.look(other.uuid) == other
    big = containers.dedicated(4, memory=64)
    (node,) = nodes_of(big.cpus)
    record_property("refused", reason)
    record_property("the move", {name: move[name] for name in ("old_cpuset_cpus", "cpuset_cpus", "mib", "cpuset_mems")})
    record_property("anonymous MiB by node before, after", f"{before[old.uuid]}, {pages}")
    record_property("the request fits on node", node)


@pytest.mark.skipif(os.environ.get("ZUN_NUMAVM") != "1", reason="it takes half of the memory of a node")
def test_the_pause_of_a_move_is_short(containers, machine, record_property):
    """The longest time between two pages that the container touches, against a stop and a start."""
    placed = _fragmented(containers, machine, movable=False)
    busy = containers.dedicated(2, memory=1200, command=probes.clocking(1024), movable=True)
    (beside,) = (each for each in placed if each.mems == busy.mems)
    containers.delete(beside.uuid)

    def gap():
        name = kernel.status(busy.pid)["Name"]
        return int(name.split()[1]) if name.startswith("gap ") else None

    wait_for(lambda: sum(kernel.anonymous_mib(busy.pid).values()) > 1024 and gap(), PATIENCE)
    os.kill(busy.pid, signal.SIGUSR1)
    quiet_until = time.monotonic() + 10
    wait_for(lambda: time.monotonic() > quiet_until, PATIENCE)
    usual = gap()
    os.kill(busy.pid, signal.SIGUSR1)
    began = time.monotonic()
    (move,) = _defragment(containers, 4, 64)["moves"]
    assert move["container"] == busy.uuid
    assert _moved(containers, busy.uuid) == ("move", "Success", None)
    seconds = time.monotonic() - began
    wait_for(lambda: gap() is not None, PATIENCE)
    paused = gap()
    now = containers.look(busy.uuid)
    pages = kernel.anonymous_mib(busy.pid)
    assert set(now.mems) == set(pages) != set(busy.mems)
    began = time.monotonic()
    assert containers.api.request("POST", f"/containers/{busy.uuid}/reboot?timeout=0").status_code == 202
    wait_for(lambda: containers.look(busy.uuid).pid != busy.pid, PATIENCE)
    restarted = time.monotonic() - began
    record_property("longest gap in ms: usual, during the move", f"{usual}, {paused}")
    record_property("seconds of the move", f"{seconds:.1f}")
    record_property("seconds of a stop and a start", f"{restarted:.1f}")
    record_property("MiB by node after", {node: round(mib) for node, mib in pages.items()})
    record_property("pause of the move / stop and start", f"{paused / 1000 / restarted:.3f}")


def test_a_program_that_pinned_itself_is_not_moved(containers, machine, record_property):
    placed = _fragmented(containers, machine, command=probes.pinning_itself())
    for each in placed:
        when_touched(each.pid)
    (move,) = _defragment(containers, 4, 64)["moves"]
    action, result, reason = _moved(containers, move["container"])
    assert (action, result) == ("move", "Error")
    assert "has chosen among its CPUs" in reason
    (old,) = (each for each in placed if each.uuid == move["container"])
    assert kernel.effective(old.group) == (old.cpus, old.mems)
    record_property("reason", reason.strip().splitlines()[-1])
