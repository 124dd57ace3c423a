# SPDX-License-Identifier: Apache-2.0
"""Agents beside a real Placement: what it has is what the rows say, whatever happens between."""

import contextlib
import random
import types
import uuid
from dataclasses import replace

import pytest
from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc

from zun.common import exceptions
from zun.common.departures import uuid_of_left
from zun.db import aggregates
from zun.objects.placement import held_plan, placement_request
from zun.placement import reporter
from zun.placement.allocations import Holding, cell_uuid, root_uuid
from zun.placement.client import Consumer, PlacementClient
from zun.placement.tree import Inventory, Provider, tree
from zun.tests.fixtures import new_container, wait_for
from zun.tests.integration.beside_placement import (
    CONTEXT,
    DEDICATED,
    With,
    equal,
    inventories,
    ledger,
    others,
    rows,
)
from zun.tests.integration.programs import free_port
from zun.topology import CellShare, CpuSet, Plan, plan
from zun.topology.cpuset import union
from zun.topology.foreign import ForeignShare


@pytest.fixture
def names():
    return [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("h1", "h2")]


@pytest.fixture
def cloud(database, placement_url, names, monkeypatch):
    """Makes the cloud of hosts of fresh names in a mode. They sweep all the time, so that tests need not wait."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 0.2)
    monkeypatch.setattr(reporter, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(reporter, "GATHER_SECONDS", 0.05)
    with contextlib.ExitStack() as running:

        def make(mode="report", hosts=1, url=placement_url, **options):
            made = With(names[:hosts], mode, url, options)
            running.callback(made.cloud.stop)
            return made

        yield make


def test_host_and_claims_are_published(cloud, placement_client, names):
    made, host = cloud(), names[0]
    wait_for(lambda: len(placement_client.nodes(root_uuid(host))) == 3)
    group = aggregates.insert(f"group-{host}", {})["uuid"]
    aggregates.add_host(group, host)
    dedicated = made.run(cpu=2.0, disk=1, **DEDICATED)
    made.run(cpu=0.5, memory=32)
    wait_for(lambda: equal(placement_client, names[:1]))
    consumer = placement_client.consumer(dedicated.uuid)
    assert (consumer.kind, consumer.project_id, consumer.user_id) == ("CONTAINER", "demo", "alice")
    assert sorted(map(sorted, (taken.items() for taken in consumer.allocations.values()))) == [
        [("DISK_GB", 1)], [("MEMORY_MB", 64), ("PCPU", 2)]
    ]  # fmt: skip
    (cell,) = held_plan(dedicated).cells
    wait_for(lambda: inventories(placement_client, host, cell)["VCPU"].total == 3)  # half a CPU counts as one

    def grouped():
        nodes = placement_client.nodes(root_uuid(host))
        return all(placement_client.provider(node).aggregates == {group} for node in nodes)

    wait_for(grouped)
    aggregates.remove_host(group, host)
    wait_for(lambda: not any(placement_client.provider(node).aggregates for node in
                             placement_client.nodes(root_uuid(host))))  # fmt: skip


def test_resize_and_delete_follow(cloud, placement_client, names):
    made, host = cloud(), names[0]
    container = made.run(cpu=2.0, **DEDICATED)
    wait_for(lambda: equal(placement_client, names[:1]))
    made.cloud.compute_api.update(CONTEXT, container, cpu=3.0, memory=128)
    cell = cell_uuid(host, next(iter(held_plan(container).cells)))
    wait_for(lambda: ledger(placement_client, host) == {container.uuid: {cell: {"PCPU": 3, "MEMORY_MB": 128}}})
    made.cloud.compute_api.delete(CONTEXT, made.cloud.settled(container), force=True)
    made.cloud.gone(container)
    wait_for(lambda: placement_client.consumer(container.uuid) == Consumer({}))


@pytest.mark.parametrize("mode", ["report", "enforce"])
def test_a_move_follows(cloud, placement_client, names, mode):
    made, host = cloud(mode), names[0]
    container = made.run(cpu=2.0, **DEDICATED)
    wait_for(lambda: equal(placement_client, names[:1]))
    tracker, old = made.cloud.agents[host].tracker, held_plan(container)
    home = union([tracker.topology.cell(node).cpus for node in old.cells])
    elsewhere = replace(tracker.topology, dedicated_set=tracker.topology.cpus - home)
    new = plan(elsewhere, tracker.usage, placement_request(container))
    made.cloud.compute_api.move(CONTEXT, container, new)
    (cell,) = (cell_uuid(host, node) for node in new.cells)
    assert not new.cells.keys() & old.cells.keys()
    wait_for(lambda: ledger(placement_client, host) == {container.uuid: {cell: {"PCPU": 2, "MEMORY_MB": 64}}})
    assert tracker.usage.claim(container.uuid).cpus == new.cpus


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("mode", ["report", "enforce"])
def test_a_move_to_another_host_follows(cloud, placement_client, names, mode, fails):
    """The old host keeps the allocation of a container that moves until it runs at the new host, or comes back."""
    made = cloud(mode, hosts=2)
    container = made.run(cpu=2.0, **DEDICATED)
    (old, new) = sorted(names[:2], key=lambda name: name != container.host)
    wait_for(lambda: equal(placement_client, names[:2]))
    seen = []
    left = uuid_of_left(container.uuid, old)

    def both():
        return [[*ledger(placement_client, host)] for host in (old, new)] == [[left], [container.uuid]]

    made.cloud.drivers[new].before("start", lambda _: seen.append(wait_for(both)))
    if fails:
        made.cloud.drivers[new].fail("start", exceptions.DockerError(error="no"))
    made.cloud.compute_api.want(CONTEXT, container, "leave", discard_layer=True, run=True, host=None)
    at, other = (old, new) if fails else (new, old)
    wait_for(lambda: seen)
    wait_for(lambda: [*ledger(placement_client, at)] == [container.uuid] and not ledger(placement_client, other))
    wait_for(lambda: equal(placement_client, names[:2]))


@pytest.mark.parametrize("mode", ["report", "enforce"])
def test_random_life_ends_equal(cloud, placement_client, names, mode):
    """Creates, resizes and deletes, with restarts between that lose what was not written yet."""
    made, rng = cloud(mode, hosts=2), random.Random(7)
    there = []
    for step in range(24):
        choice = rng.random()
        if there and choice < 0.25:
            gone = there.pop(rng.randrange(len(there)))
            made.cloud.compute_api.delete(CONTEXT, made.cloud.settled(gone), force=True)
            made.cloud.gone(gone)
        elif there and choice < 0.45:
            one = made.cloud.settled(rng.choice(there))
            with contextlib.suppress(exceptions.ClaimRefused):
                made.cloud.compute_api.update(CONTEXT, one, cpu=float(rng.randint(1, 3)))
        else:
            policy = rng.choice(["dedicated", "shared"])
            one = made.run(cpu=float(rng.randint(1, 2)), cpu_policy=policy, memory=rng.choice([16, 64]))
            if one.status == "Running":
                there.append(one)
            else:
                assert "available" in one.status_reason, one.status_reason
        if step % 8 == 7:
            made.restart(rng.choice(names))
    assert sum(len(rows(host)) for host in names) >= 3
    wait_for(lambda: equal(placement_client, names))


class Dying(ks_adapter.Adapter):
    """Gets so many requests through, and then no more."""

    left = 0

    def request(self, *arguments, **named):
        self.left -= 1
        if self.left < 0:
            raise ks_exc.ConnectFailure("it is dead")
        return super().request(*arguments, **named)


def test_killed_at_any_step(cloud, placement_client, names):
    """Each run gets some requests further than the one before; one that is not killed ends with the rows."""
    made, host = cloud("off"), names[0]
    tracker = made.cloud.agents[host].tracker

    def providers(name, groups):
        return tree(host, tracker.topology, tracker.usage, name=name, aggregates=groups)

    alive = placement_client._adapter
    there, rng = [], random.Random(3)
    for requests in range(0, 24, 3):
        if len(there) < 3:
            there.append(made.run(cpu=1.0, **DEDICATED))
        else:
            gone = there.pop(rng.randrange(3))
            made.cloud.compute_api.delete(CONTEXT, gone, force=True)
            made.cloud.gone(gone)
        dying = Dying(alive.session, service_type="placement")
        dying.left = requests
        with contextlib.suppress(exceptions.PlacementUnavailable):
            reporter.Reporter(host, PlacementClient(dying), providers).sweep()
        if requests % 2 == 0:
            reporter.Reporter(host, placement_client, providers).sweep()
            assert equal(placement_client, [host])


class Counted(ks_adapter.Adapter):
    """Keeps the method and the path of each write to allocations."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.written = []

    def request(self, path, method, **named):
        if path.startswith("/allocations") and method != "GET":
            self.written.append((method, path))
        return super().request(path, method, **named)


@pytest.fixture
def alone(cloud, placement_client, names, monkeypatch):
    """Makes a reporter beside an agent that tells nothing. It sweeps once, at its start; ``kind`` is its class."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 600)
    made, host = cloud("off"), names[0]
    tracker = made.cloud.agents[host].tracker

    def providers(name, groups):
        return tree(host, tracker.topology, tracker.usage, name=name, aggregates=groups)

    with contextlib.ExitStack() as running:

        def start(kind=reporter.Reporter, enforced=None):
            counted = Counted(placement_client._adapter.session, service_type="placement")
            each = kind(host, PlacementClient(counted), providers, enforced=enforced)
            each.start()
            running.callback(each.stop)
            wait_for(lambda: len(placement_client.nodes(root_uuid(host))) == 3)
            wait_for(lambda: "MEMORY_MB" in inventories(placement_client, host, 1))
            return each, counted.written

        yield types.SimpleNamespace(start=start, made=made)


def test_changes_are_written_together(alone, placement_client, names):
    ledger_, written = alone.start()
    there = [alone.made.run(cpu=1.0, **DEDICATED) for _ in range(3)]
    for each in there:
        ledger_.note(each.uuid)
    wait_for(lambda: equal(placement_client, names[:1]))
    assert written == [("POST", "/allocations")]
    alone.made.cloud.compute_api.update(CONTEXT, there[0], cpu=2.0)
    alone.made.cloud.compute_api.delete(CONTEXT, there[1], force=True)
    alone.made.cloud.gone(there[1])
    there.append(alone.made.run(cpu=1.0, memory=16))
    for each in there:
        ledger_.note(each.uuid)
    wait_for(lambda: equal(placement_client, names[:1]))
    assert written == [("POST", "/allocations")] * 2


def test_refused_container_does_not_hold_up_others(alone, placement_client, names):
    ledger_, written = alone.start()
    there = [alone.made.run(cpu=1.0, cpu_policy="dedicated", memory=memory) for memory in (900, 16, 16)]
    (cell,) = held_plan(there[0]).cells
    others(placement_client, provider=cell_uuid(names[0], cell), MEMORY_MB=500)
    for each in there:
        ledger_.note(each.uuid)
    wait_for(lambda: ledger_.differences().refused.keys() == {there[0].uuid})
    wait_for(lambda: all(placement_client.consumer(each.uuid).allocations for each in there[1:]))
    assert written[0] == ("POST", "/allocations") and {method for method, _ in written[1:]} == {"PUT"}
    del written[:]
    there.append(alone.made.run(cpu=1.0, memory=16))
    for each in there:
        ledger_.note(each.uuid)
    wait_for(lambda: placement_client.consumer(there[-1].uuid).allocations)
    assert ("PUT", f"/allocations/{there[-1].uuid}") not in written


def test_failed_claim_is_taken_back_without_a_sweep(alone, database, placement_client):
    class Patient(reporter.Reporter):
        """Waits in ``note`` until its thread has done what is noted."""

        def note(self, uuid):
            super().note(uuid)
            wait_for(lambda: placement_client.consumer(uuid) == Consumer({}), 10)

    ledger_, _ = alone.start(Patient, reporter.Enforced(wait=5, go_on=False))
    container = new_container(CONTEXT)
    plan, gone = Plan({0: CellShare(CpuSet("0"), 64)}), exceptions.ContainerNotFound(container=container.uuid)
    with contextlib.suppress(exceptions.ContainerNotFound), ledger_.claiming(container, plan):
        assert placement_client.consumer(container.uuid).allocations
        raise gone
    assert placement_client.consumer(container.uuid) == Consumer({})


def test_set_of_claims_is_written_together(alone, placement_client, names):
    """The claim that Placement refuses is the only one that is refused."""
    ledger_, written = alone.start(enforced=reporter.Enforced(wait=5, go_on=False))
    claims = [(new_container(CONTEXT), Plan({0: CellShare(CpuSet(str(cpu)), 64)})) for cpu in range(3)]
    with ledger_.claiming_many(claims[:2]) as refused:
        assert refused == {} and written == [("POST", "/allocations")]
        room = inventories(placement_client, names[0], 0)["MEMORY_MB"].capacity
        others(placement_client, provider=cell_uuid(names[0], 0), MEMORY_MB=room - 4 * 64)
        large = new_container(CONTEXT), Plan({0: CellShare(CpuSet("3"), 512)})
        with ledger_.claiming_many([claims[2], large]) as refused:
            assert refused.keys() == {large[0].uuid}
            there = [bool(placement_client.consumer(each.uuid).allocations) for each, _ in (*claims, large)]
            assert there == [True, True, True, False]


def test_outage_costs_nothing_but_time(cloud, placement_client, placement_url, names, caplog):
    made = cloud(url=f"http://127.0.0.1:{free_port()}")
    kept, gone = (made.run(cpu=1.0, **DEDICATED) for _ in range(2))
    made.cloud.compute_api.delete(CONTEXT, gone, force=True)
    made.cloud.gone(gone)
    wait_for(lambda: "Placement is not told" in caplog.text)
    assert caplog.text.count("Placement is not told") == 1
    made.point(placement_url)
    made.restart(names[0])
    wait_for(lambda: ledger(placement_client, names[0]).keys() == {kept.uuid} and equal(placement_client, names[:1]))


def test_leftovers_go_and_others_stay(cloud, placement_client, names):
    made, host = cloud(), names[0]
    container = made.run(cpu=1.0, **DEDICATED)
    wait_for(lambda: equal(placement_client, names[:1]))
    made.cloud.stop_agent(host)
    cell = cell_uuid(host, 0)
    placement_client.allocate(str(uuid.uuid4()), Holding({cell: {"PCPU": 1}}, "p", "u"), None)
    other = others(placement_client, provider=cell, VCPU=1)
    placement_client.allocate(container.uuid, Holding({cell: {"PCPU": 2}}, "p", "u"), 1)
    made.cloud.start_agent(host)
    wait_for(lambda: ledger(placement_client, host) == {**rows(host), other: {cell: {"VCPU": 1}}})


    def told():
        findings = made.cloud.compute_api.audit(CONTEXT, host)["findings"]
        return [(each["code"], each["container"]) for each in findings if each["layer"] == "placement"]

    wait_for(lambda: told() == [("foreign", other)])


def test_deleted_tree_comes_back(cloud, placement_client, names):
    cloud()
    nodes = wait_for(lambda: placement_client.nodes(root_uuid(names[0])))
    wait_for(lambda: len(placement_client.nodes(root_uuid(names[0]))) == 3)
    for node in sorted(placement_client.nodes(root_uuid(names[0])), key=lambda node: node.parent is None):
        with contextlib.suppress(Exception):
            placement_client.remove(node.uuid)
    wait_for(lambda: len(placement_client.nodes(root_uuid(names[0]))) == 3)
    assert nodes


def test_commands_for_operators(cloud, database, program, placement_client, placement_url, names):
    """They compare and heal what a stopped agent cannot."""
    made, host = cloud(), names[0]
    container = made.run(cpu=1.0, **DEDICATED)
    wait_for(lambda: equal(placement_client, names[:1]))
    made.cloud.stop_agent(host)
    settings = {"auth_type": "admin_token", "endpoint": placement_url, "token": "admin"}

    def command(action):
        words = ("placement", action, host)
        each = program("db_manage", action, words, database={"connection": database}, placement=settings)
        return each.run_to_end()

    assert command("audit") == (0, "Placement has what the containers hold\n")
    placement_client.allocate(container.uuid, Holding({cell_uuid(host, 0): {"PCPU": 2}}, "p", "u"), 1)
    code, said = command("audit")
    assert code == 1 and container.uuid in said
    assert command("heal")[0] == 0 and equal(placement_client, [host])
    group = aggregates.insert(f"group-{host}", {})["uuid"]
    aggregates.add_host(group, host)
    assert "3 providers" in command("sync")[1]
    nodes = placement_client.nodes(root_uuid(host))
    assert {placement_client.provider(node).aggregates for node in nodes} == {frozenset({group})}


def test_enforced_claim_is_there_first(cloud, placement_client, names):
    made = cloud("enforce")
    container = made.run(cpu=2.0, **DEDICATED)
    assert ledger(placement_client, names[0]) == rows(names[0]) != {}
    assert container.status == "Running"


def test_enforced_refusal_goes_to_the_next_host(cloud, placement_client, names):
    made = cloud("enforce", hosts=2)
    wait_for(lambda: all(len(placement_client.nodes(root_uuid(host))) == 3 for host in names))
    wait_for(lambda: all("PCPU" in inventories(placement_client, host, 1) for host in names))
    for cell in (0, 1):  # somebody else has all of the first host
        others(placement_client, provider=cell_uuid(names[0], cell), PCPU=4)
    first, second = (made.run(cpu=4.0, **DEDICATED) for _ in range(2))
    assert {first.host, second.host} == {names[1]}
    third = made.run(cpu=4.0, **DEDICATED)
    refusals = ("Placement refuses", "no CPU of this host")  # of the claim, or of a scheduler that knows by then
    assert third.status == "Error" and any(words in third.status_reason for words in refusals)


def test_placement_away_in_enforce_is_an_error(cloud):
    made = cloud("enforce", url=f"http://127.0.0.1:{free_port()}", wait=0)
    container = made.run(cpu=1.0, **DEDICATED)
    assert container.status == "Error" and "Placement does not answer" in container.status_reason


def test_placement_away_in_enforce_and_go_on(cloud):
    made = cloud("enforce", url=f"http://127.0.0.1:{free_port()}", wait=0, on_unavailable="continue")
    assert made.run(cpu=1.0, **DEDICATED).status == "Running"


def test_root_of_nova_is_left_alone(cloud, placement_client, names):
    """Its candidates for a request without groups are the same as before: our cells are in a tree of their own."""
    host = names[0]
    novas = Provider(str(uuid.uuid4()), host)
    classes = {"VCPU": Inventory(8), "MEMORY_MB": Inventory(1000), "DISK_GB": Inventory(10)}
    generation = placement_client.create(novas)
    placement_client.set_inventories(novas.uuid, generation, classes)
    placement_client.set_traits(novas.uuid, generation + 1, ["COMPUTE_NODE"])
    others(placement_client, provider=novas.uuid, VCPU=2, MEMORY_MB=400)
    before = placement_client.nodes(novas.uuid)
    made = cloud("enforce")
    container = made.run(cpu=2.0, **DEDICATED)
    assert container.status == "Running"
    assert placement_client.nodes(novas.uuid) == before
    assert placement_client.provider(before[0]).inventories == classes
    assert {node.name for node in placement_client.nodes(root_uuid(host))} == {
        f"{host}_ZUN", f"{host}_NUMA_0", f"{host}_NUMA_1"
    }  # fmt: skip
    tracker = made.cloud.agents[host].tracker
    wait_for(lambda: tracker.topology.reserved_memory_mib == {0: 200, 1: 200})
    assert tracker.topology.foreign.total == ForeignShare(shared=32, memory_mib=400)  # 2 of Nova's at our ratio of 16
    query = f"/allocation_candidates?resources=VCPU:1,MEMORY_MB:10&in_tree={novas.uuid}"
    found = placement_client._adapter.get(query, microversion="1.39").json()["allocation_requests"]
    assert [list(each["allocations"]) for each in found] == [[novas.uuid]]


def test_planner_leaves_others_what_they_have(cloud, placement_client, names):
    """Also after a restart of the agent without Placement; what they give back is free again."""
    made, host = cloud(), names[0]
    wait_for(lambda: len(placement_client.nodes(root_uuid(host))) == 3)
    wait_for(lambda: "PCPU" in inventories(placement_client, host, 0))
    before = inventories(placement_client, host, 0)
    other = others(placement_client, provider=cell_uuid(host, 0), PCPU=3, MEMORY_MB=100)

    def foreign():
        return made.cloud.agents[host].tracker.topology.foreign

    wait_for(lambda: foreign().total == ForeignShare(3, 0, 100))
    assert foreign().withheld == CpuSet("1-3")
    first, second = (made.run(cpu=4.0, **DEDICATED) for _ in range(2))
    assert (first.status, list(held_plan(first).cells)) == ("Running", [1])
    assert (second.status, second.host) == ("Error", None)
    wait_for(lambda: inventories(placement_client, host, 0) == before | {"VCPU": Inventory(1, 0, 16.0)})
    answer = made.cloud.compute_api.audit(CONTEXT, host)["findings"]
    assert [each["container"] for each in answer if each["layer"] == "placement"] == [other]
    url, away = made.cloud.conf.placement.endpoint, f"http://127.0.0.1:{free_port()}"
    made.point(away)
    made.restart(host)
    assert foreign().total == ForeignShare(3, 0, 100)
    made.point(url)
    made.restart(host)
    wait_for(lambda: ledger(placement_client, host).keys() == {first.uuid, other})
    placement_client._adapter.delete(f"/allocations/{other}", microversion="1.39")
    wait_for(lambda: not foreign())
    assert made.run(cpu=4.0, **DEDICATED).status == "Running"
