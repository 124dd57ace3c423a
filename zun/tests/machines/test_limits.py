# SPDX-License-Identifier: Apache-2.0
"""Weights, memory, swap and pressure in the files of version 2 of control groups, with each runtime that Docker has."""

import os
import pathlib
import signal

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import PATIENCE, when_touched

MIB = 1 << 20


@pytest.fixture
def runtimes(engine):
    """The names of Docker's runtimes, without the longer name of its own one."""
    return sorted(name for name in engine.info()["Runtimes"] if not name.startswith("io."))


@pytest.fixture
def swap():
    """64 MiB of swap on this machine."""
    if os.environ.get("ZUN_NUMAVM") != "1":
        pytest.skip("it gives the machine swap")
    file = pathlib.Path("/var/tmp/zun-swap")  # /tmp may be a tmpfs, which cannot have swap
    file.touch(0o600)
    file.write_bytes(bytes(64 * MIB))
    kernel.program("/usr/sbin/mkswap", str(file))
    kernel.program("/usr/sbin/swapon", str(file))
    yield
    kernel.program("/usr/sbin/swapoff", str(file))
    file.unlink()


def _swapped():
    """Return how many pages this machine has written to swap."""
    found = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())
    return int(found["pswpout"])


def _own(placed):
    """Return the container's own group, which crun puts its processes below."""
    return placed.group.parent if placed.group.name == "container" else placed.group


def _memory(placed):
    """Return the limits of memory of the group that has the processes: above it, crun does not limit swap."""
    names = ("max", "swap.max", "high", "low", "min")
    return {name: (placed.group / f"memory.{name}").read_text().strip() for name in names}


def _resized(containers, uuid, **change):
    return containers.api.request("PATCH", f"/containers/{uuid}", json=change)


def test_each_runtime_weighs_and_narrows(containers, machine, runtimes, record_property):
    """Their curves from shares to weights differ; the weights do not: 39 for each CPU."""
    for runtime in runtimes:
        shared = containers.shared(cpu=1, memory=32, runtime=runtime, command=probes.several(3))
        weights = [int((_own(shared) / "cpu.weight").read_text())]
        for cpu in (4, 0.5):
            assert _resized(containers, shared.uuid, cpu=cpu).status_code == 200
            weights.append(int((_own(shared) / "cpu.weight").read_text()))
        assert weights == [39, 157, 20]
        dedicated = containers.dedicated(1, memory=32, runtime=runtime)
        assert dedicated.mems == shared.mems  # the shared one has something to leave
        home = machine.cell(next(iter(shared.mems))).cpus
        for cpu in (1, 3, 2):
            assert _resized(containers, dedicated.uuid, cpu=cpu).status_code == 200
            now = containers.look(dedicated.uuid)
            assert (len(now.cpus), now.pid) == (cpu, dedicated.pid)
            assert kernel.effective(shared.group)[0] == home - now.cpus
        containers.api.delete_all(PATIENCE)
        record_property(f"weights of 1, 4 and 0.5 CPUs with {runtime}", ", ".join(map(str, weights)))


def test_a_container_is_killed_before_it_swaps(containers, swap, record_property):
    """It has a limit of memory, no swap, and neither a guarantee nor a brake (``memory.min``, ``memory.high``)."""
    placed = containers.dedicated(1, memory=128, command=probes.touching_on_each_cpu(160))
    limits = _memory(placed)
    assert limits == {"max": str(128 * MIB), "swap.max": "0", "high": "max", "low": "0", "min": "0"}
    before = _swapped()

    def has_ended():
        try:
            os.kill(placed.pid, signal.SIGUSR1)  # lost if it comes too early, harmless if too late
            return kernel.status(placed.pid)["State"].startswith("Z")
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(has_ended, PATIENCE)
    wait_for(lambda: containers.api.get(f"/containers/{placed.uuid}")["status"] == "Stopped", PATIENCE)
    detail = containers.api.get(f"/containers/{placed.uuid}")["status_detail"]
    assert detail.startswith(f"Exited({128 + signal.SIGKILL})")
    assert _swapped() == before
    record_property("limits; pages swapped out", f"{limits}; none")


def test_memory_below_use_is_refused(containers, runtimes, record_property):
    """The engine accepts such a limit, and the kernel would kill the container."""
    for runtime in runtimes:
        placed = containers.shared(memory=128, runtime=runtime, command=probes.touching(64))
        when_touched(placed.pid)
        answer = _resized(containers, placed.uuid, memory=32)
        assert answer.status_code == 409, answer.text
        reason = answer.json()["errors"][0]["detail"]
        assert reason.startswith("memory 32 is below the ")
        assert (containers.look(placed.uuid), _memory(placed)["max"]) == (placed, str(128 * MIB))
        assert _resized(containers, placed.uuid, memory=112).status_code == 200
        now = containers.look(placed.uuid)
        assert (now.pid, _memory(now)["max"], _memory(now)["swap.max"]) == (placed.pid, str(112 * MIB), "0")
        record_property(f"reason with {runtime}", reason)


def test_only_shared_containers_are_under_pressure(containers, record_property):
    """A shared container of six busy processes, and a dedicated one of one, beside each other on a node."""
    shared = containers.shared(memory=32, command=probes.busy(6))
    dedicated = containers.dedicated(1, memory=32, command=probes.busy(1))
    assert dedicated.mems == shared.mems
    first = [kernel.pressure(each.group, "cpu") for each in (shared, dedicated)]

    def waited():
        now = [kernel.pressure(each.group, "cpu") for each in (shared, dedicated)]
        return [later - earlier for earlier, later in zip(first, now, strict=True)]

    wait_for(lambda: waited()[0] > 10, PATIENCE)
    crowded, alone = waited()
    assert alone < crowded / 2
    record_property("seconds in which some process waited: shared, dedicated", f"{crowded:.1f}, {alone:.1f}")
