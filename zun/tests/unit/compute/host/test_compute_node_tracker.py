# SPDX-License-Identifier: Apache-2.0
"""A host's tracker through a random life, with real rows: no CPU is owned twice, and nothing is lost."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.compute.container.resize_rules import Resize
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.db import compute_nodes, containers
from zun.objects import ComputeNode, Container
from zun.objects.placement import cpuset_record, held_plan, placement_request
from zun.tests.fixtures import new_container
from zun.tests.functional.cloud import machine, without
from zun.tests.unit.common.proof import busy_switching, proof
from zun.tests.unit.compute.agent import COLUMNS, Agent
from zun.tests.unit.compute.ledger import Books
from zun.tests.unit.db.rows import clear, together
from zun.tests.unit.scheduler.hosts import machines, placements, without_cpus
from zun.topology import CellShare, CpuSet, HostTopology, Isolation, PlacementRequest, Plan, Refusal, Usage, plan
from zun.topology.cpuset import union

pytestmark = pytest.mark.usefixtures("database")
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
DISK = 40  # GiB


def fields_of(request, disk):
    """A container's fields that ask for ``request``."""
    placement = {
        "cpu_thread_policy": request.thread_policy,
        "numa_nodes": request.numa_nodes,
        "numa_affinity": request.numa_affinity,
        "numa_mempolicy": request.mempolicy,
        "mem_page_size": request.page_size,
        "cpu_isolation": request.isolation,
    }
    return {
        "cpu": float(request.cpus),
        "memory": request.memory_mib,
        "cpu_policy": request.cpu_policy,
        "placement": placement if request.dedicated else {},
        "disk": disk,
    }


def own(held):
    """The CPUs that a plan takes for itself alone."""
    return CpuSet("") if held.cpu_policy == "shared" else held.cpus | held.withheld


@st.composite
def roomy(draw):
    """Machines that are not full after two containers."""
    made = machine(draw(st.integers(1, 3)), draw(st.integers(3, 6)), draw(st.integers(1, 2)), memory_mib=256)
    cells = tuple(replace(cell, pages={2048: 24}) for cell in made.cells)
    shared_set = draw(st.sampled_from((None, None, CpuSet("0-1"))))
    return replace(made, cells=cells).configured(
        shared_set=shared_set, reserved_memory_mib=draw(st.sampled_from((0, 10))), cpu_allocation_ratio=4.0
    )


@st.composite
def divided(draw):
    """Machines on which the kernel isolates CPUs and the operator's sets overlap, or leave some CPUs to nobody."""
    made = draw(roomy())
    cpus = list(made.cpus)

    def some():
        return CpuSet(draw(st.sets(st.sampled_from(cpus))))

    caches = draw(st.booleans())
    cells = tuple(replace(cell, l3=cell.siblings if caches else cell.l3) for cell in made.cells)
    return replace(made, cells=cells, isolated=some()).configured(
        reserved_cpus=draw(st.just(CpuSet()) | st.builds(CpuSet, st.sets(st.sampled_from(cpus), max_size=2))),
        shared_set=some() if draw(st.booleans()) else None,
        dedicated_set=some() if draw(st.booleans()) else None,
        cpu_allocation_ratio=2.0,
    )


@st.composite
def isolating(draw):
    """Requests of every grade of isolation."""
    request = draw(placements())
    grade = draw(st.sampled_from([*Isolation])) if request.dedicated else "thread"
    return replace(request, isolation=str(grade))


class TrackerLife(RuleBasedStateMachine):
    """``plans`` is what each container was told it has, ``claims`` those not committed, ``moves`` those in a resize.

    ``missed`` are, by container, the siblings that it could not be given when they came online.
    """

    def __init__(self):
        super().__init__()
        clear()
        self.plans = {}
        self.claims = {}
        self.moves = {}
        self.containers = {}
        self.missed = {}

    @initialize(topology=machines() | roomy() | divided(), data=st.data())
    def start(self, topology, data):
        self.whole = topology
        self.topology = without(topology, self.some_cpus(data))
        self.earlier = Usage(), self.topology
        self.begin()

    def begin(self):
        self.tracker = ComputeNodeTracker("h1")
        self.tracker.update_inventory(CONTEXT, self.topology, {**COLUMNS, "disk_total": DISK})

    def some_cpus(self, data):
        """None, all siblings of the first threads, or any; each cell has one beside."""
        siblings = CpuSet(cpu for cell in self.whole.cells for core in cell.siblings for cpu in [*core][1:])
        others = st.builds(CpuSet, st.sets(st.sampled_from([*self.whole.cpus]), min_size=1, max_size=4))
        cpus = data.draw(st.sampled_from((CpuSet(), siblings)) | st.sampled_from((CpuSet(), siblings)) | others)
        return cpus - CpuSet(min(cell.cpus) for cell in self.whole.cells)

    def committed(self):
        return sorted(self.plans.keys() - self.claims.keys() - self.moves.keys(), key=list(self.plans).index)

    @rule(
        request=placements() | isolating(),
        disk=st.sampled_from((0, 0, 0, 5, 15)),
        stale=st.booleans(),
        remember=st.booleans(),
        at_once=st.sampled_from((True, True, False)),
    )
    def claim(self, request, disk, stale, remember, at_once):
        """``at_once``: committed before anything else happens."""
        container = new_container(CONTEXT, **fields_of(request, disk))
        limits = {}
        if stale:  # what a scheduler found that knows an earlier time
            usage, topology = self.earlier
            answer = plan(topology, usage, request)
            limits = {"cpuset": answer.to_dict()} if isinstance(answer, Plan) else {}
        if remember:
            self.earlier = self.tracker.usage, self.topology
        room = DISK - sum(self.containers[uuid].disk for uuid in self.plans)
        fits = isinstance(plan(self.topology, self.tracker.usage, placement_request(container)), Plan)
        try:
            claim = self.tracker.container_claim(container, limits)
        except exceptions.ClaimRefused:
            assert not fits or disk > room
            return
        assert fits and disk <= room
        self.plans[container.uuid], self.claims[container.uuid] = claim.plan, claim
        self.containers[container.uuid] = container
        if at_once:
            self.write(container.uuid)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def commit(self, data):
        self.write(data.draw(st.sampled_from(list(self.claims))))

    def write(self, uuid):
        container = self.containers[uuid]
        container.cpuset = cpuset_record(self.claims.pop(uuid).plan)
        container.save_claim("h1")
        containers.update(uuid, {"status": "Running"})

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), again=st.booleans())
    def abort(self, data, again):
        uuid = data.draw(st.sampled_from(list(self.claims)))
        claim = self.claims.pop(uuid)
        claim.abort()
        if again:
            claim.abort()
        del self.plans[uuid]

    @precondition(lambda self: self.committed() or self.moves)
    @rule(data=st.data(), again=st.booleans())
    def release(self, data, again):
        """Also in the middle of a resize."""
        uuid = data.draw(st.sampled_from([*self.moves, *self.committed()]))
        self.moves.pop(uuid, None)
        containers.destroy(uuid)
        self.tracker.release(uuid)
        if again:
            self.tracker.release(uuid)
        del self.plans[uuid]

    @precondition(lambda self: self.committed())
    @rule(
        data=st.data(),
        cpu=st.sampled_from((None, 1.0, 2.0, 3.0, 4.0)),
        memory=st.none() | st.integers(0, 40),
        policy=st.sampled_from((None, None, "shared", "dedicated")),
    )
    def resize(self, data, cpu, memory, policy):
        uuid = data.draw(st.sampled_from(self.committed()))
        held = list(self.plans[uuid].cpus)
        keep = CpuSet(data.draw(st.sets(st.sampled_from(held), max_size=2)) if held else ())
        try:
            wish = Resize.of(self.containers[uuid], cpu, memory, policy, keep)
        except exceptions.Invalid:
            return
        assert wish.old == self.plans[uuid]
        try:
            new = self.tracker.resize(uuid, wish.request, wish.keep)
        except exceptions.ClaimRefused:
            return
        assert new.memory_mib == wish.memory and keep <= new.cpus
        assert (new.cpu_policy == "shared") or len(new.cpus) == wish.cpu
        self.moves[uuid] = (wish, new)

    @precondition(lambda self: self.moves)
    @rule(data=st.data(), done=st.booleans())
    def settle(self, data, done):
        uuid = data.draw(st.sampled_from(list(self.moves)))
        wish, new = self.moves.pop(uuid)
        if done:
            container = self.containers[uuid]
            container.cpu, container.memory, container.cpu_policy = wish.cpu, wish.memory, wish.policy
            container.cpuset = cpuset_record(new)
            container.save_changed_claim("h1")
            self.plans[uuid] = new
        self.tracker.hold(uuid, self.plans[uuid])

    @rule(data=st.data(), early=st.booleans())
    def hardware(self, data, early):
        """CPUs go offline, and others come online. ``early``: claims may come before anybody keeps a CPU from them."""
        self.change(without(self.whole, self.some_cpus(data)), early)

    @rule(cpus=st.integers(1, 2), grade=st.sampled_from(("thread", "thread", "core", "l3", "isolated")))
    def siblings_come_later(self, cpus, grade):
        """A claim of a time when the cores had one thread."""
        siblings = [cpu for cell in self.whole.cells for core in cell.siblings for cpu in [*core][1:]]
        self.change(without(self.whole, CpuSet(siblings)), early=False)
        request = PlacementRequest(cpus, 1, thread_policy="isolate", isolation=grade)
        self.claim(request, 0, stale=False, remember=False, at_once=True)
        self.change(self.whole, early=False)

    def change(self, topology, early):
        if any(promised > len(pool) for pool, promised in self.pools(topology).values()):
            return  # what shared containers were promised stays
        came = topology.cpus - self.topology.cpus
        self.topology = topology
        self.tracker.update_inventory(CONTEXT, topology, {**COLUMNS, "disk_total": DISK})
        for uuid in self.plans:
            self.missed[uuid] = self.missed.get(uuid, CpuSet()) | came
        if not early:
            self.keep_up()

    @rule()
    def keep_up(self):
        for uuid in self.committed():
            grown = self.tracker.keep_up(uuid)
            if grown is not None:
                old, self.plans[uuid] = grown
                assert grown[1].cpus == old.cpus and old.withheld < grown[1].withheld
                container = self.containers[uuid]
                container.cpuset = cpuset_record(grown[1])
                container.save_changed_claim("h1")
        held, pools = self.tracker.usage.held_cpus, self.pools(self.topology)
        for uuid in self.committed():
            self.missed[uuid] = held | union(pool for pool, promised in pools.values() if len(pool) <= promised)

    def pools(self, topology):
        """By cell, the pool, and how many CPUs of it shared containers were promised."""
        found, dedicated = {}, self.tracker.usage.held_cpus
        for cell in topology.cells:
            shares = [held.cells.get(cell.id) for _, held in self.tracker.usage if not held.dedicated]
            demand = sum(Fraction(str(share.shared)) for share in shares if share is not None)
            promised = max(1, ceil(demand / Fraction(str(topology.cpu_allocation_ratio))))
            pool = (topology.pool_cpus & cell.cpus) - dedicated
            found[cell.id] = pool, promised if any(share is not None for share in shares) else 0
        return found

    @rule()
    def restart(self):
        """A claim that was not committed leaves nothing."""
        self.begin()
        self.tracker.rebuild(Container.list_by_host(CONTEXT, "h1"))
        for uuid in self.claims:
            del self.plans[uuid]
        self.claims, self.moves = {}, {}

    @invariant()
    def the_books_agree(self):
        """Counted from the records alone, by code that shares nothing with what is tested."""
        usage, topology = self.tracker.usage, self.topology.to_dict()
        Books((owner.rstrip("+"), held.to_dict()) for owner, held in usage).check(topology, usage.free(self.topology))
        rows = Books((row["uuid"], row["cpuset"]) for row in containers.claims(["h1"]))
        held = Books((uuid, told.to_dict()) for uuid, told in self.plans.items() if uuid not in self.claims)
        assert (rows.owner, rows.mib, rows.pages) == (held.owner, held.mib, held.pages)
        for uuid, (_, new) in self.moves.items():  # on its way it owns all of both
            both = Books([(uuid, self.plans[uuid].to_dict()), (uuid, new.to_dict())]).owner
            assert both == {cpu: uuid for cpu in both if usage.owner_of(cpu) in (uuid, f"{uuid}+")}

    @invariant()
    def the_tracker_holds_what_it_told(self):
        usage = self.tracker.usage
        for uuid, told in self.plans.items():
            assert usage.claim(uuid) == told
        growing = {owner for owner in usage.owners if owner not in self.plans}
        assert len(growing) == len(self.moves)

    @invariant()
    def the_rows_say_the_same(self):
        rows = {row["uuid"]: held_plan(row) for row in containers.claims(["h1"])}
        assert rows == {uuid: self.plans[uuid] for uuid in self.plans if uuid not in self.claims}

    @invariant()
    def no_cpu_is_owned_twice(self):
        seen = CpuSet("")
        for uuid, told in self.plans.items():
            taken = own(told)
            if uuid in self.moves:  # on its way it may run on both
                taken |= own(self.moves[uuid][1])
            assert not taken & seen
            seen |= taken
        assert seen == self.tracker.usage.held_cpus
        # A grade of isolation keeps whatever anybody may get.
        anybody_s = self.topology.dedicated_cpus | self.topology.isolated_cpus | self.topology.pool_cpus
        assert seen & self.topology.cpus <= anybody_s
        for told in self.plans.values():
            if told.cpu_policy == "dedicated":
                assert told.cpus & self.topology.cpus <= self.topology.cpus_for(told.isolation)

    @invariant()
    def cores_that_were_asked_for_whole_are_nobody_elses(self):
        """But for what somebody had, or shared containers needed, when it came online."""
        for uuid, told in self.plans.items():
            asked = self.containers[uuid].placement or {}
            whole = asked.get("cpu_thread_policy") in ("isolate", "require")
            if told.dedicated and (whole or asked.get("cpu_isolation") in ("core", "l3", "node")):
                cores = union(core for cell in self.topology.cells for core in cell.siblings if core & told.cpus)
                strangers = (cores & self.topology.cpus_for(told.isolation)) - own(told)
                assert strangers <= self.missed.get(uuid, CpuSet()), f"{uuid} has no claim on {strangers}"

    @invariant()
    def claims_and_what_is_free_are_the_inventory(self):
        free = self.tracker.usage.free(self.topology)
        held = [held for _, held in self.tracker.usage]
        for cell in self.topology.cells:
            shares = [plan.cells[cell.id] for plan in held if cell.id in plan.cells]
            small = max(0, cell.small_mib - self.topology.reserved_memory_mib.get(cell.id, 0))
            booked = sum(share.memory_mib for share in shares if not share.pages)
            assert free[cell.id].memory_mib + booked == small
            assert free[cell.id].cpus == (cell.cpus & self.topology.dedicated_cpus) - self.tracker.usage.held_cpus
            for size, count in cell.pages.items():
                taken = sum(share.pages.get(size, 0) for share in shares)
                assert free[cell.id].pages[size] + taken == count
                assert free[cell.id].pages[size] >= 0
            assert booked <= int(small * Fraction(str(self.topology.ram_allocation_ratio)))

    @invariant()
    def shared_containers_keep_the_cpus_they_were_promised(self):
        if self.moves:
            return
        for cell in self.topology.cells:
            shares = [told.cells.get(cell.id) for told in self.plans.values() if told.cpu_policy == "shared"]
            shares = [share for share in shares if share is not None]
            pool = self.tracker.usage.shared_pool(self.topology, [cell.id])
            demand = sum(Fraction(str(share.shared)) for share in shares)
            assert demand <= len(pool) * Fraction(str(self.topology.cpu_allocation_ratio))
            assert pool or not shares

    @invariant()
    def dedicated_memory_is_there(self):
        if self.moves:
            return
        for cell in self.topology.cells:
            small = max(0, cell.small_mib - self.topology.reserved_memory_mib.get(cell.id, 0))
            alone = sum(
                told.cells[cell.id].memory_mib
                for told in self.plans.values()
                if told.cpu_policy == "dedicated" and cell.id in told.cells and not told.cells[cell.id].pages
            )
            assert alone <= small


def test_a_life_of_claims():
    run_state_machine_as_test(TrackerLife, settings=proof(30, stateful_step_count=40))


# by hand


@pytest.fixture
def agent(context):
    return Agent(context, machine(cells=2, cores=4).configured(cpu_allocation_ratio=4.0))


def test_of_many_who_claim_at_once_nobody_gets_a_cpu_twice(agent):
    """Every container was planned by schedulers that know of none of the others."""
    topology = agent.tracker.topology
    rows = [new_container(CONTEXT, cpu_policy="dedicated", cpu=float(1 + number % 2)) for number in range(16)]
    limits = [{"cpuset": plan(topology, Usage(), placement_request(row)).to_dict()} for row in rows]

    with busy_switching():
        answers = together(16, lambda number: agent.tracker.container_claim(rows[number], limits[number]))
    granted = [answer for answer in answers if not isinstance(answer, Exception)]
    refused = [answer for answer in answers if isinstance(answer, Exception)]
    assert {type(answer) for answer in refused} == {exceptions.ClaimRefused}
    cpus = [cpu for claim in granted for cpu in claim.plan.cpus]
    assert sorted(cpus) == sorted(set(cpus)) == list(range(8))  # and nobody is refused what is there
    assert agent.tracker.usage.held_cpus == CpuSet("0-7")


def test_claims_and_releases_of_many_threads_come_to_nothing(agent):
    def work(_number):
        for _ in range(5):
            container = new_container(CONTEXT, cpu_policy="dedicated", cpu=1.0)
            with agent.tracker.container_claim(container) as claim:
                if agent.tracker.usage.owner_of(min(claim.plan.cpus)) != container.uuid:
                    return "somebody else has it"
            claim.abort()
        return None

    assert together(8, work) == [None] * 8
    assert len(agent.tracker.usage) == 0


def test_a_container_holds_one_claim_here(agent):
    container, _ = agent.claim(cpu_policy="dedicated", cpu=2.0)
    before = agent.tracker.usage
    with pytest.raises(exceptions.Conflict, match=f"Container {container.uuid} holds resources of h1 already"):
        agent.tracker.container_claim(container)
    assert agent.tracker.usage == before


def test_a_refused_claim_takes_nothing(agent):
    container = new_container(CONTEXT, cpu_policy="dedicated", cpu=5.0)
    with pytest.raises(exceptions.ClaimRefused):
        agent.tracker.container_claim(container)
    assert len(agent.tracker.usage) == 0
    agent.claim(disk=100)
    with pytest.raises(exceptions.ClaimRefused, match="free disk 0 GiB < requested 1 GiB"):
        agent.tracker.container_claim(new_container(CONTEXT, disk=1))


def test_an_aborted_claim_gives_its_disk_back(agent):
    for _ in range(3):
        container = new_container(CONTEXT, disk=60)
        with pytest.raises(exceptions.Conflict), agent.tracker.container_claim(container):
            raise exceptions.Conflict("no")
    agent.claim(disk=100)


def written_topology():
    return HostTopology.from_dict(compute_nodes.find("h1")["topology"])


def test_the_inventory_is_written_and_worked_with(agent):
    assert written_topology() == agent.tracker.topology
    larger = machine(cells=1, cores=8)
    half = {**COLUMNS, "disk_total": 14, "disk_allocation_ratio": 0.5}
    assert agent.tracker.update_inventory(CONTEXT, larger, half) == 1
    assert written_topology() == agent.tracker.topology == larger
    _, held = agent.claim(cpu_policy="dedicated", cpu=8.0, disk=7)
    assert held.cpus == CpuSet("0-7")
    with pytest.raises(exceptions.ClaimRefused, match="free disk"):
        agent.claim(disk=1)
    assert agent.tracker.update_inventory(CONTEXT, larger, COLUMNS) == 3  # after the claim's
    assert agent.tracker.update_inventory(CONTEXT, larger, COLUMNS) == 3


def test_what_a_row_says_that_a_host_has_can_be_had(agent, monkeypatch):
    larger, held = machine(cells=1, cores=16), []
    put = ComputeNode.put

    def put_and_ask(*given):
        generation = put(*given)
        held.append(agent.claim(cpu_policy="dedicated", cpu=16.0)[1])
        return generation

    monkeypatch.setattr(ComputeNode, "put", put_and_ask)
    agent.tracker.update_inventory(CONTEXT, larger, COLUMNS)
    assert held[0].cpus == CpuSet("0-15")


def test_a_claim_bears_the_generation_it_was_made_from(agent):
    agent.claim(cpu_policy="dedicated", cpu=1.0)
    agent.tracker.update_inventory(CONTEXT, agent.tracker.topology, COLUMNS)
    _, held = agent.claim(cpu_policy="dedicated", cpu=1.0)
    assert held.generation == 1


def test_a_host_without_pinning_takes_shared_ones_only(context):
    agent = Agent(context, machine(), enable_cpu_pinning=False)
    with pytest.raises(exceptions.ClaimRefused, match="enable_cpu_pinning"):
        agent.claim(cpu_policy="dedicated", cpu=1.0)
    agent.claim(cpu=1.0)


def grown(agent, cpu=4.0):
    """A container with two CPUs that is being given ``cpu``: it, and its plans before and after."""
    container, old = agent.claim(cpu_policy="dedicated", cpu=2.0, memory=16)
    wish = Resize.of(container, cpu, None, None)
    return container, old, agent.tracker.resize(container.uuid, wish.request)


def test_while_it_is_resized_a_container_has_the_old_and_the_new(agent):
    container, old, new = grown(agent)
    assert (old.cpus, new.cpus) == (CpuSet("0-1"), CpuSet("0-3"))
    assert agent.tracker.usage.held_cpus == old.cpus | new.cpus
    with pytest.raises(exceptions.ClaimRefused):
        agent.claim(cpu_policy="dedicated", cpu=5.0)
    agent.tracker.hold(container.uuid, old)
    assert agent.tracker.usage.held_cpus == old.cpus


@pytest.mark.parametrize("cpu", [1.0, 2.0, 3.0])
def test_a_resize_may_meet_a_cpu_that_came_online(context, cpu):
    """It is kept for the container already, and its row does not say so yet."""
    whole = machine(cells=1, threads=2)
    (cell,) = whole.cells
    half = replace(cell, cpus=CpuSet("0,2-7"), siblings=(CpuSet("0"), *cell.siblings[1:]))
    agent = Agent(context, replace(whole, cells=(half,)))
    container, old = agent.claim(cpu_policy="dedicated", cpu=1.0, memory=16, placement={"cpu_isolation": "core"})
    agent.tracker.update_inventory(context, whole, COLUMNS)
    _, kept = agent.tracker.keep_up(container.uuid)
    assert (old.withheld, kept.withheld) == (CpuSet(), CpuSet("1"))
    new = agent.tracker.resize(container.uuid, Resize.of(container, cpu, None, None).request)
    assert len(new.cpus) == cpu and CpuSet("0-1") <= new.cpus | new.withheld
    agent.tracker.hold(container.uuid, new)
    assert own(agent.tracker.usage.claim(container.uuid)) == own(new) == agent.tracker.usage.held_cpus


@pytest.mark.parametrize("cpu", [1.0, 2.0, 3.0])
def test_a_resize_keeps_what_has_become_usable_of_its_cache(context, cpu):
    """CPUs that nobody could have at its claim, so that its grade did not keep them."""
    whole = machine(1, 8)
    (cell,) = whole.cells
    whole = replace(whole, cells=(replace(cell, l3=(cell.cpus,)),))
    agent = Agent(context, whole.configured(dedicated_set=CpuSet("0-3"), shared_set=CpuSet()))
    container, old = agent.claim(cpu_policy="dedicated", cpu=2.0, memory=16, placement={"cpu_isolation": "l3"})
    assert own(old) == CpuSet("0-3") < cell.cpus
    agent.tracker.update_inventory(context, whole.configured(shared_set=CpuSet()), COLUMNS)
    new = agent.tracker.resize(container.uuid, Resize.of(container, cpu, None, None).request)
    assert len(new.cpus) == cpu and own(new) == cell.cpus == agent.tracker.usage.held_cpus


def test_a_resize_that_does_not_fit_changes_nothing(agent):
    container, _ = agent.claim(cpu_policy="dedicated", cpu=2.0)
    before = agent.tracker.usage
    with pytest.raises(exceptions.ClaimRefused, match="no cell has 5 CPUs free: best is cell 0 with 4"):
        agent.tracker.resize(container.uuid, Resize.of(container, 5.0, None, None).request)
    assert agent.tracker.usage == before


def test_a_resize_leaves_a_cpu_to_who_has_lost_those_of_his_cell(context):
    whole = machine()
    agent = Agent(context, whole)
    shared, _ = agent.claim(cpu=2.0)
    grows, _ = agent.claim(cpu_policy="dedicated", cpu=3.0)
    left, gone = ([*agent.tracker.usage.claim(each.uuid).cells] for each in (grows, shared))
    assert left != gone
    agent.tracker.update_inventory(context, without_cpus(whole, *gone), COLUMNS)
    with pytest.raises(exceptions.ClaimRefused, match="beside those that shared containers need"):
        agent.tracker.resize(grows.uuid, Resize.of(grows, 4.0, None, None).request)
    agent.tracker.release(shared.uuid)
    assert len(agent.tracker.resize(grows.uuid, Resize.of(grows, 4.0, None, None).request).cpus) == 4


@pytest.mark.parametrize("gone", [False, True])
def test_a_resize_takes_nothing_from_who_is_on_other_cells(context, gone):
    """Nobody runs on the cell where a container grows, and the host has more of a pool elsewhere."""
    whole = machine(cells=3)
    agent = Agent(context, whole)
    _, held = agent.claim(cpu=2.0)
    grows, _ = agent.claim(cpu_policy="dedicated", cpu=3.0)
    if gone:
        agent.tracker.update_inventory(context, without_cpus(whole, *held.cells), COLUMNS)
    assert len(agent.tracker.resize(grows.uuid, Resize.of(grows, 4.0, None, None).request).cpus) == 4


@pytest.mark.parametrize(("cpu", "memory"), [(None, 32), (None, 8), (3.0, None), (2.0, 64)])
def test_holder_of_the_whole_pool_is_resized_in_memory(context, cpu, memory):
    whole = machine()
    agent = Agent(context, whole)
    _, held = agent.claim(cpu=2.0)
    container, old = agent.claim(cpu_policy="dedicated", cpu=4.0, memory=16)
    agent.tracker.update_inventory(context, without_cpus(whole, *held.cells), COLUMNS)
    assert not agent.tracker.usage.shared_pool(agent.tracker.topology)
    new = agent.tracker.resize(container.uuid, Resize.of(container, cpu, memory, None).request)
    assert (len(new.cpus), new.memory_mib) == (cpu or 4, memory or 16) and new.cpus <= old.cpus


def test_two_may_be_resized_at_once(agent):
    (first, _, one), (second, _, other) = grown(agent), grown(agent)
    assert agent.tracker.usage.held_cpus == one.cpus | other.cpus and not one.cpus & other.cpus
    agent.tracker.hold(first.uuid, one)
    assert agent.tracker.disagrees(second.uuid, other)
    agent.tracker.hold(second.uuid, other)
    assert agent.tracker.usage.owners == (first.uuid, second.uuid)


def test_a_release_in_a_resize_frees_old_and_new(agent):
    container, _, _ = grown(agent)
    agent.tracker.release(container.uuid)
    assert len(agent.tracker.usage) == 0


def test_in_the_middle_of_a_resize_it_agrees_with_no_row(agent):
    container, old, new = grown(agent)
    assert agent.tracker.disagrees(container.uuid, old) and agent.tracker.disagrees(container.uuid, new)
    agent.tracker.hold(container.uuid, new)
    assert agent.tracker.disagrees(container.uuid, old) and not agent.tracker.disagrees(container.uuid, new)


def test_members_run_on_what_their_capsule_holds(agent):
    capsule, _ = agent.claim(cpu_policy="dedicated")
    member = new_container(CONTEXT, host="h1", capsule_uuid=capsule.uuid, cpuset=capsule.cpuset)
    stray = new_container(CONTEXT, host="h1", capsule_uuid=new_container(CONTEXT, host="h1").uuid)
    other = Agent(CONTEXT, agent.tracker.topology)
    other.tracker.rebuild(Container.list_by_host(CONTEXT, "h1"))
    assert [other.tracker.may_run(each.uuid) for each in (capsule, member, stray)] == [True, True, False]
    other.tracker.release(capsule.uuid)
    assert not other.tracker.may_run(member.uuid)
    agent.tracker.admit(member.uuid, capsule.uuid)
    assert agent.tracker.may_run(member.uuid)


def test_a_claim_keeps_to_the_limits(agent):
    proposed = Plan({1: CellShare(CpuSet("6-7"), 16)})
    _, held = agent.claim({"cpuset": proposed.to_dict()}, cpu_policy="dedicated", cpu=2.0, memory=16)
    assert held.cells == proposed.cells
    with pytest.raises(exceptions.ClaimRefused, match="free disk 5 GiB < requested 6 GiB"):
        agent.claim({"disk": 5}, disk=6)


def test_rebuilt_from_rows_it_is_what_it_was(agent):
    for cpu, policy in [(2.0, "dedicated"), (1.5, "shared"), (1.0, "dedicated")]:
        agent.claim(cpu=cpu, cpu_policy=policy, disk=30)
    new_container(CONTEXT, host="h1", disk=30)  # placed here, holds nothing
    new_container(CONTEXT, host="h2", cpuset=cpuset_record(agent.tracker.usage.claim(agent.tracker.usage.owners[0])))
    other = Agent(CONTEXT, agent.tracker.topology)
    other.tracker.rebuild(Container.list_by_host(CONTEXT, "h1"))
    assert other.tracker.usage == agent.tracker.usage
    with pytest.raises(exceptions.ClaimRefused, match="free disk 10 GiB < requested 11 GiB"):
        other.claim(disk=11)
    assert isinstance(plan(machine(), other.tracker.usage, placement_request(new_container(CONTEXT))), (Plan, Refusal))
