# SPDX-License-Identifier: Apache-2.0
"""What must be true of a cloud in memory, whatever happened to it.

``check_always`` holds at every moment, ``check`` once nothing is left to do: every message is delivered, every queue is
empty and every host has compared its containers with its runtime. Both raise AssertionError, which names the container
and what each side has: its row, the claim in its agent, the runtime's object, the schedulers' table and the records of
its actions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zun.common.states import SETTLED, Kind, Status
from zun.compute.container.networks import settled
from zun.compute.container.operations import TOO_LATE
from zun.compute.host.shared_pool import pool_of
from zun.container.fake import InMemoryDriver
from zun.container.fake.runtime import RuntimeObject
from zun.db import container_actions, network_ports
from zun.db import containers as db
from zun.objects import Container, NetworkPort
from zun.objects.placement import held_plan
from zun.topology import CpuSet, Plan, Usage


class Cloud(Protocol):
    """The parts of ``zun.tests.functional.cloud.Cloud`` that are read. Agents, drivers and networks are by host."""

    agents: Mapping[str, Any]
    drivers: Mapping[str, InMemoryDriver]
    networks: Mapping[str, Any]
    scheduler: Any


def check_always(cloud: Cloud) -> None:
    """Nothing is held twice, and whatever runs holds what it runs on: at every moment, between any two effects."""
    held: dict[str, str] = {}
    holders = db.claims(columns=("uuid", "host", "capsule_uuid", "cpuset", "placement"))
    for host, agent in cloud.agents.items():
        usage, rows = agent.tracker.usage, claims(row for row in holders if row["host"] == host)
        Usage(rows)  # raises if two rows hold one CPU or device
        for uuid, plan in rows.items():
            mine, growth = usage.claim(uuid), usage.claim(f"{uuid}+")
            assert mine is not None, f"{uuid}: its row holds {plan.cpus} of {host}, the agent nothing"
            assert plan.cpus == mine.cpus or growth is not None, (
                f"{uuid}: its row holds {plan.cpus} of {host}, the agent {mine.cpus}"
            )
        objects = cloud.drivers[host].runtime.by_host[cloud.drivers[host].host_facts.name]
        _check_running(host, objects, usage)
        for uuid, found in objects.items():
            assert not found.pid or uuid not in held, f"{uuid} runs on {held[uuid]} and on {host}"
            if found.pid:
                held[uuid] = host


def _check_running(host: str, objects: Mapping[str, RuntimeObject], usage: Usage) -> None:
    for uuid, found in objects.items():
        if found.pid and found.join is None:  # a capsule's claim covers its members
            assert usage.claim(uuid) is not None, f"{uuid} runs on {host} and the agent holds nothing for it"
            owners = {usage.owner_of(cpu) for cpu in CpuSet(found.cpuset_cpus)} - {None, uuid, f"{uuid}+"}
            assert not owners, f"{uuid} runs on CPUs {found.cpuset_cpus} of {host}, which belong to {owners}"
    devices = Counter(each.address for found in objects.values() if found.pid for each in found.devices)
    twice = [address for address, count in devices.items() if count > 1]
    assert not twice, f"two containers run with {twice} of {host}"


def check(cloud: Cloud) -> None:
    """Row, claim, runtime, schedulers' table and actions agree; nothing is lost, held twice or open."""
    check_always(cloud)
    places: dict[str, str] = {}
    for host in cloud.agents:
        for uuid in _check_host(cloud, host):
            assert uuid not in places, f"{uuid} is on {places[uuid]} and on {host}"
            places[uuid] = host
    for row in db.unplaced():
        raise AssertionError(f"{_named(row)}: no host, and nobody looks for one")
    _check_table(cloud)


def _check_host(cloud: Cloud, host: str) -> Sequence[str]:
    """Check the containers of one host. Return the uuids of the runtime's objects there."""
    agent, driver = cloud.agents[host], cloud.drivers[host]
    rows = {row["uuid"]: row for row in db.of_host(host)}
    objects = driver.runtime.by_host[driver.host_facts.name]
    for uuid, row in rows.items():
        _check_settled(row, objects.get(uuid))
        _check_actions(row)
    usage, promised = dict(agent.tracker.usage), claims(rows.values())
    for uuid in usage.keys() | promised.keys():
        assert usage.get(uuid) == promised.get(uuid), (
            f"{uuid} on {host}: its row holds {promised.get(uuid)}, the agent {usage.get(uuid)}, "
            f"the runtime {objects.get(uuid)}"
        )
    for uuid, found in objects.items():
        assert uuid in rows, f"{uuid}: the runtime of {host} has {found}, and no row"
        if rows[uuid]["kind"] in (Kind.CONTAINER, Kind.CAPSULE):
            _check_object(agent, rows[uuid], found)
            _check_networks(cloud.networks[host], rows[uuid])
    return list(objects)


def claims(rows: Any) -> dict[str, Plan]:
    """Return the claims in ``rows`` by uuid. A capsule's claim covers its members."""
    return {row["uuid"]: plan for row in rows if row["capsule_uuid"] is None and (plan := held_plan(row)) is not None}


def _named(row: Any) -> str:
    return f"{row['uuid']} on {row['host']} ({row['status']}, {row['task_state']}, {row['status_reason']})"


def _check_settled(row: Any, found: RuntimeObject | None) -> None:
    assert row["kind"] != Kind.LEFTOVER, f"{_named(row)}: it is a leftover, and nobody removes it"
    assert row["task_state"] is None, f"{_named(row)}: its task does not end"
    if found is None:
        assert row["status"] == Status.ERROR, f"{_named(row)}: it is not at the runtime"
        made = row["container_id"] is not None  # it was there once, and may be made again in its place
        assert made or held_plan(row) is None, f"{_named(row)}: it was never made, and holds {held_plan(row)}"
        return
    seen = found.status(row["status"])
    if found.restarting:
        assert row["status"] == Status.RESTARTING, f"{_named(row)}: the runtime restarts it"
        return
    assert row["status"] in {*SETTLED, Status.ERROR}, f"{_named(row)}: it does not come to rest; the runtime: {found}"
    same = seen in (None, row["status"]) or (row["status"] == Status.ERROR and not found.pid)
    assert same, f"{_named(row)}: it is {seen} at the runtime"
    assert seen is not None or row["status"] in (Status.CREATED, Status.ERROR), f"{_named(row)}: it never ran"


def _check_object(agent: Any, row: Any, found: RuntimeObject) -> None:
    plan, tracker = held_plan(row), agent.tracker
    assert plan is not None, f"{_named(row)}: the runtime has {found}, and the row holds nothing"
    cpus = plan.cpus
    if plan.uses_pool:
        beside = tracker.usage if plan.dedicated else tracker.others(row["uuid"])
        cpus = plan.dedicated_cpus | pool_of(tracker.topology, beside, plan)
    has, wants = (found.cpuset_cpus, found.cpuset_mems, found.devices), (str(cpus), str(plan.mems), plan.devices)
    assert has == wants, f"{_named(row)}: the runtime has {has}, its claim is {wants}"
    if not plan.pages:
        assert found.memory == row["memory"], f"{_named(row)}: its memory is {found.memory} MiB, not {row['memory']}"
    assert "rebuild" not in row["request"], f"{_named(row)}: its rebuild is over, and the row still asks for it"
    assert found.image.partition(":")[0] == row["image"].partition(":")[0], f"{_named(row)}: it has {found.image}"


def _check_networks(networks: Any, row: Any) -> None:
    plugged = getattr(networks, "plugged", None)
    if plugged is None:
        return
    ports = network_ports.of_container(row["uuid"])
    assert not any(port["leaving"] for port in ports), f"{_named(row)}: a port leaves, and nobody removes it"
    views = [NetworkPort.from_row(None, port) for port in ports]
    promised = settled(Container.from_row(None, row), views)
    assert (row["addresses"] or {}) == promised, f"{_named(row)}: its ports are {promised}"
    wanted, there = {port["network_uuid"] for port in ports}, set(plugged[row["uuid"]])
    assert there == wanted, f"{_named(row)}: it is plugged into {there}, its ports are in {wanted}"


def _check_actions(row: Any) -> None:
    """Every action has ended, with its steps, and its message tells whether they went well."""
    for action in container_actions.of_container(row["uuid"]):
        what = f"{_named(row)}: {action['action']} of {action['request_id']}"
        assert action["finish_time"], f"{what} does not end"
        steps = container_actions.steps_of(action["id"])
        open_still = [step["event"] for step in steps if not step["finish_time"]]
        assert not open_still, f"{what} has ended, and its steps {open_still} have not"
        if action["action"] in ("reboot", "rebuild"):  # the row says that it is to come: nothing else may overtake it
            assert {step["traceback"] for step in steps} != {TOO_LATE}, f"{what} was left out"
        last = {step["event"]: step["result"] for step in steps}  # a step may be tried again
        assert set(last.values()) <= {"Success"} or action["message"], f"{what} has ended well, and its steps {last}"


def _check_table(cloud: Cloud) -> None:
    """The schedulers know of each claim, and of nothing else."""
    table = cloud.scheduler.table
    for host in cloud.agents:
        table.outdated(host)
    table.refresh()
    for host, agent in cloud.agents.items():
        state = table.host(host)
        assert state is not None, f"no scheduler knows {host}"
        told, held = dict(state.usage), dict(agent.tracker.usage)
        for uuid in told.keys() | held.keys():
            assert _amounts(told.get(uuid)) == _amounts(held.get(uuid)), (
                f"{uuid} on {host}: the schedulers know {told.get(uuid)}, the agent holds {held.get(uuid)}"
            )


def _amounts(plan: Plan | None) -> object:
    """Return what the plan takes of its host. The schedulers keep nothing else of it."""
    return None if plan is None else Usage({"": plan}).totals
