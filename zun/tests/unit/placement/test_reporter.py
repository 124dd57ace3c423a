# SPDX-License-Identifier: Apache-2.0
"""The reporter beside a Placement in memory: what Placement has is what the rows say, whatever happens between."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from keystoneauth1 import exceptions as ks_exc

from zun.common import exceptions
from zun.db import containers as db
from zun.objects.placement import held_plan
from zun.placement import reporter
from zun.placement.allocations import allocations_of, cell_uuid, root_uuid
from zun.placement.foreign import Others
from zun.placement.reporter import Enforced
from zun.tests.fixtures import wait_for
from zun.tests.host_beside_placement import STRICT, HostBesidePlacement
from zun.tests.placement_in_memory import PlacementInMemory
from zun.tests.unit.topology.build import flat_host

HOST = "h1"
MACHINE = flat_host([4, 4])
CELLS = [cell_uuid(HOST, 0), cell_uuid(HOST, 1)]


class Beside(HostBesidePlacement):
    """One host of two cells of four CPUs, and the Placement beside it."""

    def __init__(self, context):
        self.placement = PlacementInMemory()
        super().__init__(context, HOST, MACHINE, self.placement.client())

    def equal(self):
        """Whether the containers have at Placement what their rows say."""
        rows = {row["uuid"]: allocations_of(HOST, held_plan(row), 0) for row in db.of_host(HOST) if row["cpuset"]}
        there = {
            uuid: {provider: taken["resources"] for provider, taken in each["allocations"].items()}
            for uuid, each in self.placement.consumers.items()
            if each["consumer_type"] == "CONTAINER"
        }
        return there == rows

    def written(self):
        return [(method, path) for method, path in self.placement.requests if method in ("PUT", "POST", "DELETE")]


@pytest.fixture
def beside(database, context):
    return Beside(context)


@pytest.fixture
def running(beside, monkeypatch):
    """Starts a reporter that has swept once and sweeps no more, and ends it with the test."""
    monkeypatch.setattr(reporter, "SWEEP_SECONDS", 600)
    monkeypatch.setattr(reporter, "GATHER_SECONDS", 0.05)
    monkeypatch.setattr(reporter, "RETRY_SECONDS", 0.05)
    with contextlib.ExitStack() as ended:

        def start(enforced=None):
            ledger = beside.reporter(enforced)
            ledger.start()
            ended.callback(ledger.stop)
            wait_for(lambda: ledger.others() is not None)
            del beside.placement.requests[:]
            return ledger

        yield start


def test_sweep_writes_providers_and_allocations(beside):
    beside.hold("0-1"), beside.hold("4")
    beside.reporter().sweep()
    assert beside.placement.providers.keys() == {root_uuid(HOST), *CELLS}
    assert beside.placement.providers[CELLS[0]]["inventories"]["PCPU"]["total"] == 4
    assert beside.equal()


def test_sweep_of_a_quiet_host_reads_two_lists(beside):
    beside.hold("0")
    ledger = beside.reporter()
    ledger.sweep()
    ledger.sweep()
    del beside.placement.requests[:]
    ledger.sweep()
    assert beside.placement.requests == [("GET", "/resource_providers")] * 2


def test_killed_at_any_request_ends_equal(beside):
    uuids = []
    for last in range(0, 40, 2):
        if len(uuids) < 3:
            uuids.append(beside.hold(str(next(cpu for cpu in range(8) if beside.usage.owner_of(cpu) is None))))
        else:
            beside.release(uuids.pop(0))
        left = iter(range(last))

        def die(method, path, left=left):
            if next(left, None) is None:
                raise ks_exc.ConnectFailure("it is dead")

        beside.placement.before = die
        with contextlib.suppress(exceptions.PlacementUnavailable):
            beside.reporter().sweep()
        beside.placement.before = lambda method, path: None
        if last % 3 == 0:
            beside.reporter().sweep()
            assert beside.equal()
    beside.reporter().sweep()
    assert beside.equal()


def test_leftovers_go_and_others_stay(beside):
    kept, gone = beside.hold("0"), beside.hold("1")
    ledger = beside.reporter()
    ledger.sweep()
    beside.release(gone)
    leftover = beside.placement.take(CELLS[1], kind="CONTAINER", PCPU=1)
    other = beside.placement.take(CELLS[1], MEMORY_MB=100)
    beside.placement.consumers[kept]["allocations"][CELLS[0]]["resources"] = {"PCPU": 2}
    beside.placement.providers[CELLS[0]]["generation"] += 1
    ledger.sweep()
    assert leftover not in beside.placement.consumers and other in beside.placement.consumers
    assert beside.equal()
    assert ledger.differences().foreign == {other: {CELLS[1]: {"MEMORY_MB": 100}}}
    assert (ledger.others(), beside.told) == (Others({1: {"MEMORY_MB": 100}}), 2)
    del beside.placement.consumers[other]
    beside.placement.providers[CELLS[1]]["generation"] += 1
    ledger.sweep()
    assert (ledger.differences().foreign, ledger.others()) == ({}, Others())


def test_refused_container_does_not_hold_up_others(beside, running):
    ledger = running()
    beside.placement.take(CELLS[0], PCPU=4)
    refused, others = beside.hold("0"), [beside.hold("4"), beside.hold("5")]
    for uuid in (refused, *others):
        ledger.note(uuid)
    wait_for(lambda: beside.placement.allocated(CELLS[1]).keys() == {*others})
    wait_for(lambda: ledger.differences().refused.keys() == {refused})


def test_changes_are_written_together(beside, running):
    ledger = running()
    uuids = [beside.hold("0"), beside.hold("1"), beside.hold("4")]
    for uuid in uuids:
        ledger.note(uuid)
    wait_for(beside.equal)
    assert [each for each in beside.written() if "allocations" in each[1]] == [("POST", "/allocations")]
    beside.release(uuids[0])
    uuids.append(beside.hold("5"))
    ledger.note(uuids[0]), ledger.note(uuids[-1])
    wait_for(beside.equal)
    assert len([each for each in beside.written() if "allocations" in each[1]]) == 2


def test_outage_costs_nothing_but_time(beside, running, caplog):
    ledger = running()

    def away(method, path):
        raise ks_exc.ConnectFailure("away")

    beside.placement.before = away
    ledger.note(beside.hold("0"))
    wait_for(lambda: "Placement is not told of this host" in caplog.text)
    beside.placement.before = lambda method, path: None
    wait_for(beside.equal)


def test_enforced_claim_is_there_before_its_row(beside, running):
    ledger = running(STRICT)
    container, plan = beside.claim("0")
    with ledger.claiming(container, plan):
        assert beside.placement.allocated(CELLS[0])[container.uuid]["PCPU"] == 1
        beside.commit(container, plan)
    assert beside.equal()


def test_failed_claim_is_taken_back(beside, running):
    ledger = running(STRICT)
    container, plan = beside.claim("0")
    gone = exceptions.ContainerNotFound(container=container.uuid)
    with contextlib.suppress(exceptions.ContainerNotFound), ledger.claiming(container, plan):
        raise gone
    wait_for(lambda: beside.placement.consumers == {})


@pytest.mark.parametrize("go_on", [False, True])
def test_claim_without_placement(beside, running, go_on):
    ledger = running(Enforced(wait=0, go_on=go_on))

    def away(method, path):
        raise ks_exc.ConnectFailure("away")

    beside.placement.before = away
    with contextlib.nullcontext() if go_on else pytest.raises(exceptions.ClaimRefused, match="does not answer"):
        beside.enforce(ledger, "0")


def given_back(beside):
    """Placement still has what the host gave back, and the host has not told it yet."""
    beside.release(next(iter(beside.placement.allocated(CELLS[0]))))


def left_behind(beside):
    beside.placement.take(CELLS[0], kind="CONTAINER", PCPU=2)


def deleted(beside):
    beside.placement.consumers.clear()
    beside.placement.providers.clear()


def shrunk(beside):
    """Somebody's hand made an inventory too small."""
    beside.placement.providers[CELLS[0]]["inventories"]["PCPU"]["reserved"] = 2
    beside.placement.providers[CELLS[0]]["generation"] += 1


def doubled(beside):
    """Somebody's hand gave a container more than it holds."""
    uuid = next(iter(beside.placement.allocated(CELLS[0])))
    beside.placement.consumers[uuid]["allocations"][CELLS[0]]["resources"]["PCPU"] = 4
    beside.placement.providers[CELLS[0]]["generation"] += 1


@pytest.mark.parametrize("obstacle", [given_back, left_behind, deleted, shrunk, doubled])
def test_refusal_of_our_own_making_ends_itself(beside, running, obstacle):
    ledger = running(STRICT)
    first = beside.enforce(ledger, "0-1")
    obstacle(beside)
    if obstacle is given_back:
        ledger.note(first)
    second = beside.enforce(ledger, "2-3" if obstacle is not given_back else "0-3")
    assert second in beside.placement.allocated(CELLS[0])
    if obstacle is not deleted:  # what the first container lost is for the next sweep
        wait_for(beside.equal)


def test_what_others_took_is_refused_and_told(beside, running):
    ledger = running(STRICT)
    other = beside.placement.take(CELLS[0], PCPU=3)
    with pytest.raises(exceptions.ClaimRefused, match="Placement refuses"):
        beside.enforce(ledger, "0-1")
    assert ledger.others() == Others({0: {"PCPU": 3}})
    assert ledger.differences().foreign == {other: {CELLS[0]: {"PCPU": 3}}}
    wait_for(lambda: beside.placement.consumers.keys() == {other})


def test_refused_claim_has_its_own_provider_looked_at(beside, running):
    ledger = running(STRICT)
    beside.enforce(ledger, "4")
    beside.placement.take(CELLS[0], PCPU=4)
    del beside.placement.requests[:]
    with pytest.raises(exceptions.ClaimRefused):
        beside.enforce(ledger, "0")
    read = [path for method, path in beside.placement.requests if method == "GET" and "resource_providers" in path]
    what = ("allocations", "inventories", "traits", "aggregates")
    assert read == ["/resource_providers", *(f"/resource_providers/{CELLS[0]}/{each}" for each in what)]


def test_claims_go_on_while_a_refusal_is_looked_into(beside, running):
    ledger = running(STRICT)
    beside.placement.take(CELLS[0], PCPU=4)
    looked, go_on = threading.Event(), threading.Event()

    def wait(method, path):
        if method == "GET":
            looked.set()
            assert go_on.wait(60)

    beside.placement.before = wait
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(beside.enforce, ledger, "0")
        try:
            assert looked.wait(60)
            others = {beside.enforce(ledger, str(cpu)) for cpu in (4, 5)}
            assert beside.placement.allocated(CELLS[1]).keys() == others
            assert not refused.done()
        finally:
            go_on.set()
        assert isinstance(refused.exception(60), exceptions.ClaimRefused)


def test_set_of_claims_is_one_request(beside, running):
    ledger = running(STRICT)
    assert beside.enforce_many(ledger, "0", "1", "4-5") == [True] * 3
    assert beside.written()[0] == ("POST", "/allocations")
    assert not [path for method, path in beside.written() if path.startswith("/allocations/")]
    assert beside.equal()


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        pytest.param({0: 1}, [True, False, True], id="one-too-many-on-a-cell"),
        pytest.param({0: 4}, [False, False, True], id="a-cell-is-full"),
        pytest.param({0: 4, 1: 4}, [False, False, False], id="all-are-refused"),
        pytest.param({1: 3}, [True, True, True], id="room-for-all"),
    ],
)
def test_only_what_placement_refuses_of_a_set_is_refused(beside, running, others, taken):
    ledger = running(STRICT)
    for cell, cpus in others.items():
        beside.placement.take(CELLS[cell], PCPU=cpus)
    assert beside.enforce_many(ledger, "0-1", "2-3", "4") == taken
    wait_for(beside.equal)


def test_set_is_taken_after_a_leftover_went(beside, running):
    """Placement refuses the set until the host has looked for what it left there."""
    ledger = running(STRICT)
    beside.placement.take(CELLS[0], kind="CONTAINER", PCPU=4)
    assert beside.enforce_many(ledger, "0", "1", "4") == [True] * 3
    assert beside.equal()


@pytest.mark.parametrize("go_on", [True, False])
def test_set_without_placement(beside, running, go_on):
    ledger = running(Enforced(wait=0, go_on=go_on))

    def fail(method, path):
        raise ks_exc.ConnectFailure("it is dead")

    beside.placement.before = fail
    assert beside.enforce_many(ledger, "0", "4") == [go_on] * 2


def test_claims_that_wait_go_together(beside, running):
    """Two requests are under way, and every claim that comes meanwhile is in the next one."""
    ledger = running(STRICT)
    under_way, go_on = threading.Semaphore(0), threading.Event()
    claims = [beside.claim(str(cpu)) for cpu in (0, 4, 1, 2, 5, 6)]

    def wait(method, path):
        if path.startswith("/allocations"):
            under_way.release()
            assert go_on.wait(60)

    def write(claim):
        with ledger.claiming(*claim):
            beside.commit(*claim)

    beside.placement.before = wait
    with ThreadPoolExecutor(len(claims)) as pool:
        try:
            writing = [pool.submit(write, claim) for claim in claims[:2]]
            assert all(under_way.acquire(timeout=60) for _ in writing)
            writing += [pool.submit(write, claim) for claim in claims[2:]]
            wait_for(lambda: len(ledger._consumers._waiting) == 4)
        finally:
            go_on.set()
        assert [each.result(60) for each in writing] == [None] * 6
    written = [path for _, path in beside.written() if path.startswith("/allocations")]
    assert (len(written), written.count("/allocations")) == (3, 1)
    assert beside.equal()


def test_stop_ends_a_claim_that_waits_for_a_look(beside, running):
    ledger = running(STRICT)
    beside.placement.take(CELLS[0], PCPU=4)
    looked, go_on = threading.Event(), threading.Event()

    def wait(method, path):
        if method == "GET":
            looked.set()
            assert go_on.wait(60)

    beside.placement.before = wait
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(beside.enforce, ledger, "0")
        assert looked.wait(60)
        second = pool.submit(beside.enforce, ledger, "1")
        wait_for(lambda: len(beside.written()) >= 2)
        stopped = pool.submit(ledger.stop)
        go_on.set()
        for each in (first, second):
            assert isinstance(each.exception(60), exceptions.ClaimRefused)
        stopped.result(60)
    with pytest.raises(exceptions.ClaimRefused, match="is stopping"):
        beside.enforce(ledger, "2")


def test_claim_before_the_start_is_written(beside):
    """A host that starts makes claims before it tells Placement of itself."""
    ledger = beside.reporter(STRICT)
    beside.enforce(ledger, "0")
    assert beside.equal()
