# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute.host import shared_pool
from zun.compute.host.shared_pool import MOVED_TOGETHER, pool_of
from zun.tests.functional.cloud import machine, without
from zun.tests.unit.compute.agent import COLUMNS, Agent
from zun.topology import CellShare, CpuSet, Plan, Usage


@pytest.fixture
def agent(database, context):
    """A host of two cells with four CPUs each."""
    return Agent(context, machine().configured(cpu_allocation_ratio=4.0))


def own(cpus, cell=0):
    return Plan({cell: CellShare(cpus=CpuSet(cpus))})


SHARED_0 = Plan({0: CellShare(cpus=CpuSet("0-3"), shared=1.0)}, "shared")
SHARED_BOTH = Plan({0: CellShare(shared=1.0), 1: CellShare(shared=1.0)}, "shared")


@pytest.mark.parametrize(
    ("usage", "plan", "expected"),
    [
        pytest.param(Usage(), SHARED_0, "0-3", id="its-whole-cell"),
        pytest.param(Usage(), SHARED_BOTH, "0-7", id="all-its-cells"),
        pytest.param(Usage({"a": own("1-2")}), SHARED_0, "0,3", id="what-nobody-holds"),
        pytest.param(Usage({"a": own("4-5", 1)}), SHARED_0, "0-3", id="other-cells-do-not-matter"),
        pytest.param(Usage({"a": own("1"), "b": own("4-6", 1)}), SHARED_BOTH, "0,2-3,7", id="holes-everywhere"),
        pytest.param(
            Usage({"a": Plan({0: CellShare(cpus=CpuSet("0"), withheld=CpuSet("1"))})}), SHARED_0, "2-3", id="kept-idle"
        ),
        pytest.param(Usage({"other": SHARED_0}), SHARED_0, "0-3", id="shared-ones-share"),
        pytest.param(
            Usage(), Plan({0: CellShare(shared=1.0), 1: CellShare(memory_mib=64)}, "shared"), "0-3",
            id="not-where-it-has-only-memory",
        ),
        pytest.param(Usage(), Plan({0: CellShare(shared=1.0), 9: CellShare(shared=1.0)}, "shared"), "0-3",
                     id="one-of-its-cells-is-gone"),
        pytest.param(Usage({"a": own("0")}), Plan({9: CellShare(shared=1.0)}, "shared"), "1-7", id="its-cell-is-gone"),
    ],
)
def test_where_a_shared_container_may_run(usage, plan, expected):
    assert pool_of(machine(), usage, plan) == CpuSet(expected)


def test_where_a_shared_set_is_configured_nobody_leaves_it():
    topology = machine().configured(shared_set=CpuSet("0-1,4"))
    assert pool_of(topology, Usage({"a": own("2-3")}), SHARED_0) == CpuSet("0-1")


def test_a_member_leaves_claimed_cpus_before_their_use(agent):
    shared = agent.run_shared()
    assert agent.runs_on(shared) == CpuSet("0-3")
    _, cpus = agent.claim_dedicated(2)
    agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("0-3") - cpus
    assert agent.pool.current() == {shared.uuid: CpuSet("0-3") - cpus}


def test_members_widen_again_after_a_release(agent):
    shared = agent.run_shared()
    dedicated, _ = agent.claim_dedicated(2)
    agent.pool.settle()
    agent.tracker.release(dedicated.uuid)
    agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("0-3")


@pytest.mark.parametrize(("dedicated", "cpus", "left"), [
    pytest.param("0-3", 4, "4-7", id="on-another-cell"),
    pytest.param("4-7", 3, "7", id="on-its-own"),
    pytest.param("4-5", 2, "6-7", id="where-it-was"),
])
def test_members_of_a_pool_that_is_gone_run_on_what_nobody_holds(context, database, dedicated, cpus, left):
    """They move to the pool as soon as it exists again; until then no other container joins their CPUs."""
    agent = Agent(context, machine().configured(shared_set=CpuSet("4-5")))
    shared = agent.run_shared()
    lost = machine().configured(dedicated_set=CpuSet(dedicated), shared_set=CpuSet("64"))
    agent.tracker.update_inventory(context, lost, COLUMNS)
    container, given = agent.claim_dedicated(cpus)
    assert len(given) == cpus and given <= CpuSet(dedicated)
    agent.pool.settle()
    assert agent.told(shared) == agent.runs_on(shared) == CpuSet(left)
    assert agent.pool.cpus_for(shared.uuid, agent.tracker.usage.claim(shared.uuid)) == CpuSet(left)
    with pytest.raises(exceptions.ClaimRefused, match="no CPU of this host is for shared containers"):
        agent.claim(cpu=0.1)
    with pytest.raises(exceptions.ClaimRefused):
        agent.claim_dedicated(4)
    agent.tracker.release(container.uuid)
    agent.tracker.update_inventory(context, machine().configured(shared_set=CpuSet("5")), COLUMNS)
    agent.pool.settle()
    assert agent.told(shared) == CpuSet("5")


# All CPUs that are not the host's are isolated by the kernel.
NO_POOL = replace(machine(), isolated=CpuSet("4-7")).configured(reserved_cpus=CpuSet("0-3"))


def test_who_can_go_nowhere_is_told_of(context, database):
    agent = Agent(context, machine().configured(shared_set=CpuSet("4-5")))
    shared = agent.run_shared()
    agent.tracker.update_inventory(context, NO_POOL, COLUMNS)
    agent.pool.settle()  # it is in nobody's way
    agent.claim_dedicated(1, placement={"cpu_isolation": "isolated"})
    with pytest.raises(exceptions.Conflict, match="may run on CPUs 4-5, and the host has no others for it"):
        agent.pool.settle()
    assert agent.told(shared) == CpuSet("4-5")


@pytest.mark.parametrize("known", [True, False])
def test_without_a_pool_no_shared_container_is_made(context, database, known):
    """Its processes would be on the CPUs of others: a runtime that is given none takes all."""
    agent = Agent(context, machine().configured(shared_set=CpuSet("4-5")))
    shared = agent.run_shared()
    plan = agent.tracker.usage.claim(shared.uuid)
    agent.tracker.update_inventory(context, NO_POOL, COLUMNS)
    with pytest.raises(exceptions.Conflict, match="no CPUs for shared"):
        agent.pool.cpus_for(shared.uuid, plan)
    if known:
        agent.pool.ready(shared, plan)  # it stays on those that it had, which nobody has for himself
    else:
        agent.pool.leave(shared.uuid)
        with pytest.raises(exceptions.Conflict, match="no CPUs for shared"):
            agent.pool.ready(shared, plan)
    assert agent.told(shared) == CpuSet("4-5")


def test_only_who_must_move_is_told(agent):
    first, second = agent.run_shared(), agent.run_shared(cpu=15.0)  # the second fills what the first left, or cell 1
    agent.driver.updates.clear()
    agent.pool.settle()
    assert agent.driver.updates == []
    _, cpus = agent.claim_dedicated(1)
    agent.pool.settle()
    cell = machine().cell(0 if cpus <= CpuSet("0-3") else 1)
    there = [each for each in (first, second) if agent.told(each) & cell.cpus]
    assert [update.uuid for update in agent.driver.updates] == [each.uuid for each in there]
    assert {update.cpuset_cpus for update in agent.driver.updates} <= {str(cell.cpus - cpus)}
    assert all((update.cpu, update.memory, update.cpuset_mems) == (None, None, None) for update in agent.driver.updates)


def test_a_member_that_stays_blocks_the_dedicated_start(agent):
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    _, cpus = agent.claim_dedicated(2)
    with pytest.raises(exceptions.PinningMismatch) as caught:
        agent.pool.settle()
    assert str(caught.value) == (
        f"The kernel does not agree with the plan: shared container {shared.uuid} was told to leave CPUs {cpus} and "
        "may still run there"
    )


def test_nor_is_it_ready(agent):
    """It may be started again later."""
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    container, cpus = agent.claim_dedicated(2)
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.ready(container, own(str(cpus)))


def test_moves_are_retried_while_a_container_stays_on_cpus(agent):
    """Two dedicated containers may have claimed before either asked: neither may start."""
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    agent.claim_dedicated(1), agent.claim_dedicated(1)
    for _ in range(3):
        with pytest.raises(exceptions.PinningMismatch):
            agent.pool.settle()
    agent.driver.disobey(shared.uuid)
    agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("2-3")


def test_who_was_told_to_leave_and_need_not_any_more_is_told_so(agent):
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    dedicated, _ = agent.claim_dedicated(2)
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.settle()
    agent.tracker.release(dedicated.uuid)
    agent.pool.settle()
    assert agent.told(shared) == CpuSet("0-3")


def test_a_widening_with_a_lost_answer_is_taken_back(agent):
    """Or a dedicated container would share its CPUs with one that is thought to be elsewhere."""
    shared = agent.run_shared()
    dedicated, cpus = agent.claim_dedicated(2)
    agent.pool.settle()
    agent.tracker.release(dedicated.uuid)
    agent.driver.fail("update", exceptions.DockerError(error="timed out"), after=True)
    with pytest.raises(exceptions.DockerError):
        agent.pool.settle()
    assert cpus <= agent.runs_on(shared)
    _, again = agent.claim_dedicated(2)
    assert again == cpus
    agent.driver.disobey(shared.uuid, cpus="0-3")
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.settle()
    agent.driver.disobey(shared.uuid)
    agent.pool.settle()
    assert not agent.runs_on(shared) & cpus


def test_a_narrowing_with_a_lost_answer_is_taken_back(agent):
    shared = agent.run_shared()
    before = agent.runs_on(shared)
    dedicated, _ = agent.claim_dedicated(2)
    agent.driver.fail("update", exceptions.DockerError(error="timed out"), after=True)
    with pytest.raises(exceptions.DockerError):
        agent.pool.settle()
    agent.tracker.release(dedicated.uuid)
    agent.pool.settle()
    assert agent.runs_on(shared) == before


def test_who_did_not_leave_is_told_again(agent):
    """A control group that was written behind the runtime's back obeys the next update."""
    shared = agent.run_shared()
    agent.claim_dedicated(1)
    agent.driver.fail("update", exceptions.DockerError(error="busy"))
    with pytest.raises(exceptions.DockerError, match="busy"):
        agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("0-3")
    agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("1-3")


def test_members_are_moved_at_the_same_time(agent):
    shared = [agent.run_shared(cpu=0.5) for _ in range(12)]
    _, cpus = agent.claim_dedicated(2)
    two = threading.Barrier(2)
    agent.driver.before("update", lambda _: two.wait(60))
    agent.pool.settle()
    assert not any(agent.runs_on(each) & cpus for each in shared)


def test_after_a_failure_no_other_is_moved(agent):
    """Nothing is to be expected of a runtime that does not answer, and each would wait for that."""
    shared = [agent.run_shared(cpu=0.5) for _ in range(12)]
    _, cpus = agent.claim_dedicated(2)
    agent.driver.fail("update", exceptions.Unavailable("no daemon"), times=1000)
    tried = []
    agent.driver.before("update", tried.append)
    with pytest.raises(exceptions.Unavailable):
        agent.pool.settle()
    assert 1 <= len(tried) <= MOVED_TOGETHER
    agent.driver.end_failures("update")
    agent.pool.settle()
    assert not any(agent.runs_on(each) & cpus for each in shared)


def test_what_has_ended_cannot_stay(agent):
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    agent.driver.kill(shared)
    agent.claim_dedicated(2)
    agent.pool.settle()
    assert agent.told(shared) == CpuSet("2-3")


def test_widening_is_no_promise_and_not_verified(agent):
    shared = agent.run_shared()
    dedicated, _ = agent.claim_dedicated(2)
    agent.pool.settle()
    agent.driver.disobey(shared.uuid, cpus="2")
    agent.tracker.release(dedicated.uuid)
    agent.pool.settle()
    assert agent.told(shared) == CpuSet("0-3")


def test_a_member_made_for_a_wider_pool_is_narrowed(agent):
    container, plan = agent.claim(cpu=1.0, memory=16)
    wide = pool_of(agent.tracker.topology, agent.tracker.others(container.uuid), plan)
    agent.driver.create(container, cpuset_cpus=str(wide), cpuset_mems=str(plan.mems))
    _, cpus = agent.claim_dedicated(2)
    agent.pool.settle()  # the newcomer is not known yet
    assert agent.told(container) == wide
    agent.pool.enter(container, plan, wide)
    assert agent.told(container) == agent.pool.current()[container.uuid] == wide - cpus


def test_a_running_one_that_enters_is_verified(agent):
    """This happens after a restart of the service."""
    shared = agent.run_shared()
    plan = agent.tracker.usage.claim(shared.uuid)
    agent.pool.leave(shared.uuid)
    agent.claim_dedicated(2)
    agent.driver.disobey(shared.uuid, cpus="0-3")
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.enter(shared, plan, CpuSet("0-3"))


def test_who_is_gone_is_forgotten(agent):
    shared, other = agent.run_shared(), agent.run_shared()
    agent.driver.delete(shared, force=True)
    agent.claim_dedicated(1)
    agent.pool.settle()
    assert set(agent.pool.current()) == {other.uuid}
    agent.pool.leave(other.uuid)
    agent.pool.leave(other.uuid)
    assert agent.pool.current() == {}


def test_who_is_just_being_removed_by_the_runtime_is_forgotten(agent):
    shared = agent.run_shared()
    agent.driver.before("update", lambda _: agent.driver.delete(shared, force=True))
    agent.driver.fail("update", exceptions.Conflict("it is marked for removal"))
    agent.claim_dedicated(2)
    agent.pool.settle()
    assert agent.pool.current() == {}


def test_who_has_ended_and_could_not_be_told_is_not_forgotten(agent):
    """The runtime may start it again, where it was."""
    shared = agent.run_shared()
    agent.driver.kill(shared)
    agent.claim_dedicated(2)
    agent.driver.fail("update", exceptions.Conflict("it is not running"))
    with pytest.raises(exceptions.Conflict):
        agent.pool.settle()
    agent.pool.settle()
    agent.driver.start(shared)
    assert agent.runs_on(shared) == CpuSet("2-3")


def test_who_left_is_not_told_any_more(agent):
    shared = agent.run_shared()
    agent.pool.leave(shared.uuid)
    agent.claim_dedicated(2)
    agent.pool.settle()
    assert agent.told(shared) == CpuSet("0-3")


# change


def dedicated_plan(agent, container, cpus):
    """Let the tracker hold ``cpus`` for a container that goes from shared to dedicated."""
    plan = Plan({0: CellShare(cpus=CpuSet(cpus), memory_mib=16)}, mems=CpuSet("0"))
    agent.tracker.hold(container.uuid, plan)
    return plan


def test_others_leave_before_a_member_becomes_dedicated(agent):
    mover, other = agent.run_shared(), agent.run_shared()
    seen = []
    agent.driver.before("update", lambda each: seen.append((each.uuid, agent.runs_on(other))))
    plan = dedicated_plan(agent, mover, "0-1")
    agent.pool.change(mover, plan, cpu=2.0, memory=32)
    assert [uuid for uuid, _ in seen] == [other.uuid, mover.uuid]
    assert seen[1] == (mover.uuid, CpuSet("2-3"))
    assert agent.runs_on(mover) == CpuSet("0-1")
    assert agent.pool.current() == {other.uuid: CpuSet("2-3")}
    last = agent.driver.updates[-1]
    assert (last.cpu, last.memory, last.cpuset_cpus, last.cpuset_mems) == (2.0, 32, "0-1", "0")


def test_nobody_is_moved_onto_cpus_that_others_did_not_leave(agent):
    mover, other = agent.run_shared(), agent.run_shared()
    agent.driver.disobey(other.uuid, cpus="0-3")
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.change(mover, dedicated_plan(agent, mover, "0-1"), cpu=2.0, memory=32)
    assert agent.runs_on(mover) == CpuSet("0-3")


def test_a_container_that_becomes_shared_follows_the_pool(agent):
    mover, cpus = agent.claim_dedicated(2)
    agent.driver.create(mover, cpuset_cpus=str(cpus), cpuset_mems="0")
    agent.driver.start(mover)
    plan = Plan({0: CellShare(cpus=CpuSet("0-3"), memory_mib=16, shared=2.0)}, "shared")
    # It holds its CPUs until the change is done; they are the pool's for it already.
    agent.pool.change(mover, plan, cpu=2.0, memory=16)
    assert agent.told(mover) == CpuSet("0-3")
    agent.tracker.hold(mover.uuid, plan)
    _, taken = agent.claim_dedicated(1)
    agent.pool.settle()
    assert agent.runs_on(mover) == CpuSet("0-3") - taken


def test_a_container_whose_change_failed_still_follows_the_pool(agent):
    """The runtime may be away for the change and for taking it back."""
    mover = agent.run_shared()
    old = agent.tracker.usage.claim(mover.uuid)
    agent.driver.fail("update", exceptions.Unavailable(), times=2)
    new = dedicated_plan(agent, mover, "0-1")
    with pytest.raises(exceptions.Unavailable):
        agent.pool.change(mover, new, cpu=2.0, memory=16)
    with pytest.raises(exceptions.Unavailable):
        agent.pool.change(mover, old, cpu=1.0, memory=16)
    agent.tracker.hold(mover.uuid, old)
    _, cpus = agent.claim_dedicated(2)
    agent.pool.settle()
    assert not agent.runs_on(mover) & cpus


# threads


def test_no_shared_container_ever_runs_on_dedicated_cpus(agent):
    shared = [agent.run_shared(cpu=0.5) for _ in range(4)]
    wrong = []
    start = threading.Barrier(4)

    def come_and_go(_number):
        start.wait(60)
        for _ in range(6):
            try:
                container, cpus = agent.claim_dedicated(1)
            except exceptions.ClaimRefused:
                continue
            agent.pool.settle()
            wrong.extend(each.uuid for each in shared if agent.runs_on(each) & cpus)
            agent.tracker.release(container.uuid)
            agent.pool.settle()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert wrong == []
    agent.pool.settle()
    assert {str(agent.runs_on(each)) for each in shared} <= {"0-3", "4-7", "0-7"}


def test_nobody_moves_while_somebody_looks(agent):
    shared = agent.run_shared()
    agent.claim_dedicated(2)
    with ThreadPoolExecutor(1) as pool:
        with agent.pool.steady() as told:
            moving = pool.submit(agent.pool.settle)
            assert told == {shared.uuid: CpuSet("0-3")}
            assert agent.told(shared) == CpuSet("0-3") and not moving.done()
        moving.result(60)
    assert agent.told(shared) == CpuSet("2-3")


def test_a_running_member_is_not_remade_on_dedicated_cpus(agent):
    """Its creation goes on after a restart: the runtime sets what it has already to run where it is told."""
    shared = agent.run_shared()
    plan = agent.tracker.usage.claim(shared.uuid)
    with ThreadPoolExecutor(1) as pool:
        with agent.pool.entering(shared, plan) as cpus:
            _, taken = agent.claim_dedicated(2)
            emptied = pool.submit(agent.pool.settle)
            agent.driver.create(shared, cpuset_cpus=str(cpus), cpuset_mems="0")
            assert agent.runs_on(shared) & taken and not emptied.done()
        emptied.result(60)
    assert agent.runs_on(shared) == CpuSet("0-3") - taken


def test_one_that_may_have_been_made_again_is_told_once_more(agent):
    shared = agent.run_shared()
    _, taken = agent.claim_dedicated(2)
    agent.pool.settle()
    plan = agent.tracker.usage.claim(shared.uuid)
    with pytest.raises(exceptions.Unavailable), agent.pool.entering(shared, plan):
        agent.driver.create(shared, cpuset_cpus="0-3", cpuset_mems="0")
        raise exceptions.Unavailable
    agent.pool.settle()
    assert agent.runs_on(shared) == CpuSet("0-3") - taken


def test_one_that_may_have_been_made_again_must_be_seen_to_leave(agent):
    """Its last update named fewer CPUs than it may run on now."""
    shared = agent.run_shared()
    dedicated, _ = agent.claim_dedicated(2)
    agent.pool.settle()
    agent.tracker.release(dedicated.uuid)
    with pytest.raises(exceptions.Unavailable), agent.pool.entering(shared, agent.tracker.usage.claim(shared.uuid)):
        raise exceptions.Unavailable
    agent.claim_dedicated(2)
    agent.driver.disobey(shared.uuid, cpus="0-3")
    with pytest.raises(exceptions.PinningMismatch):
        agent.pool.settle()


def test_cpus_of_a_leaving_member_wait_until_it_is_gone(agent, monkeypatch):
    monkeypatch.setattr(shared_pool, "LEAVING_SECONDS", 0)
    shared = agent.run_shared()
    _, cpus = agent.claim_dedicated(2)
    with pytest.raises(exceptions.Unavailable), agent.pool.leaving(shared.uuid):
        with pytest.raises(exceptions.PinningMismatch, match=f"is being removed and may still run on CPUs {cpus}"):
            agent.pool.settle()
        raise exceptions.Unavailable
    agent.pool.settle()  # it stays, and takes orders again
    assert not agent.runs_on(shared) & cpus
    agent.claim_dedicated(1)
    with agent.pool.leaving(shared.uuid):
        pass
    agent.pool.settle()
    assert agent.pool.current() == {}


def run_mixed(agent, own=2, cpu=3.0, **fields):
    """A running mixed container with ``own`` CPUs of its own."""
    placement = {"dedicated_cpus": own, **fields.pop("placement", {})}
    container, plan = agent.claim(cpu=cpu, memory=16, cpu_policy="mixed", placement=placement, **fields)
    with agent.pool.entering(container, plan) as cpus:
        agent.driver.create(
            container, cpuset_cpus=str(cpus), cpuset_mems=str(plan.mems), dedicated_cpus=str(plan.dedicated_cpus)
        )
    agent.pool.ready(container, plan)
    agent.driver.start(container)
    return container, plan


def test_mixed_container_follows_the_pool_beside_its_own_cpus(agent):
    shared = agent.run_shared()
    mixed, plan = run_mixed(agent)
    own = plan.dedicated_cpus
    assert agent.runs_on(mixed) == CpuSet("0-3")
    assert agent.runs_on(shared) == CpuSet("0-3") - own
    dedicated, cpus = agent.claim_dedicated(1)
    assert cpus <= CpuSet("0-3") - own
    agent.pool.settle()
    assert agent.runs_on(mixed) == CpuSet("0-3") - cpus
    assert agent.runs_on(shared) == CpuSet("0-3") - cpus - own
    agent.tracker.release(dedicated.uuid)
    agent.pool.settle()
    assert agent.runs_on(mixed) == CpuSet("0-3")
    assert agent.runs_on(shared) == CpuSet("0-3") - own


def test_mixed_container_starts_only_when_others_left_its_cpus(agent):
    shared = agent.run_shared()
    agent.driver.disobey(shared.uuid, cpus="0-3")
    with pytest.raises(exceptions.PinningMismatch):
        run_mixed(agent)


@pytest.mark.parametrize(("offline", "own"), [("0", "1"), ("1", "0"), ("2", "0-1")])
def test_mixed_container_stays_on_its_online_cpus(agent, context, offline, own):
    mixed, plan = run_mixed(agent)
    assert plan.dedicated_cpus == CpuSet("0-1")
    agent.tracker.update_inventory(context, without(agent.tracker.topology, CpuSet(offline)), COLUMNS)
    agent.pool.settle()
    assert agent.told(mixed) == CpuSet("0-3") - CpuSet(offline)
    agent.tracker.update_inventory(context, machine().configured(cpu_allocation_ratio=4.0), COLUMNS)
    agent.pool.settle()
    assert agent.told(mixed) == CpuSet("0-3")


def test_mixed_container_does_not_run_on_siblings_kept_idle(context, database):
    agent = Agent(context, machine(cells=1, cores=4, threads=2))
    mixed, plan = run_mixed(agent, placement={"cpu_thread_policy": "isolate"})
    assert (plan.dedicated_cpus, plan.withheld) == (CpuSet("0,2"), CpuSet("1,3"))
    assert agent.runs_on(mixed) == CpuSet("0,2,4-7")
