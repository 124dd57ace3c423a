# SPDX-License-Identifier: Apache-2.0
"""From an accepted request to a pinned container, over real messages and a real database."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from zun.common import exceptions
from zun.compute import endpoint
from zun.compute.container import resizer
from zun.compute.container.operations import key_of
from zun.db import compute_nodes
from zun.db import containers as db
from zun.scheduler.bookings import Bookings
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import Cloud, machine
from zun.topology import CpuSet

DEDICATED = {"cpu_policy": "dedicated", "cpu": 2.0, "memory": 512}


@pytest.fixture
def cloud(database, request):
    options = getattr(request, "param", {})
    cloud = Cloud({"one": machine(), "two": machine()}, **options)
    yield cloud
    cloud.stop()


def held(cloud, host):
    """CPU -> owner for every dedicated CPU of a host, as its tracker has it."""
    usage = cloud.agents[host].tracker.usage
    return {cpu: usage.owner_of(cpu) for cpu in usage.held_cpus}


def nothing_held(cloud):
    """Memory follows the database: what a row gave back is free here a moment later."""
    return held(cloud, "one") == held(cloud, "two") == {}


def test_a_dedicated_container_runs_on_its_own_cpus_of_one_cell(cloud, context):
    container = cloud.run(context, **DEDICATED)
    assert (container.status, container.status_reason, container.task_state) == ("Running", None, None)
    cpus, mems = CpuSet(container.cpuset["cpuset_cpus"]), CpuSet(container.cpuset["cpuset_mems"])
    assert len(cpus) == 2 and len(mems) == 1
    assert cpus <= machine().cell(min(mems)).cpus
    state = cloud.drivers[container.host].show(container)
    assert (state.cpuset_cpus, state.cpuset_mems) == (str(cpus), str(mems))
    assert held(cloud, container.host) == dict.fromkeys(cpus, container.uuid)


@pytest.mark.parametrize("error", [exceptions.Unavailable(), exceptions.DockerError("client version is too old")])
def test_a_host_whose_runtime_is_down_gets_no_containers(cloud, context, error):
    cloud.drivers["one"].fail("ping", error, times=1000)
    containers = [cloud.run(context) for _ in range(3)]  # the first host is ever more the emptier one
    assert {(each.status, each.host) for each in containers} == {("Running", "two")}
    assert len(cloud.scheduler.table.host("one").failures) == 1, "it is asked again only when the others are full"
    cloud.drivers["two"].fail("ping", exceptions.Unavailable(), times=1000)
    nowhere = cloud.run(context, **DEDICATED)
    assert (nowhere.status, nowhere.host) == ("Error", None)
    assert "its container runtime does not answer" in nowhere.status_reason
    assert nothing_held(cloud)
    cloud.drivers["one"].end_failures("ping")
    cloud.agents["one"]._ping()  # as with each heartbeat
    wait_for(lambda: cloud.scheduler.table.refresh() or cloud.scheduler.table.host("one").engine_away is None)
    assert cloud.run(context, **DEDICATED).host == "one"


@pytest.fixture
def halved(database, request):
    """One host of which CPU 1, the sibling of CPU 0, is offline. It looks every second, unless said otherwise."""
    whole = machine(cells=1, cores=4, threads=2)
    (cell,) = whole.cells
    cell = replace(cell, cpus=CpuSet("0,2-7"), siblings=(CpuSet("0"), *cell.siblings[1:]))
    cloud = Cloud({"one": replace(whole, cells=(cell,))}, compute__inventory_interval=getattr(request, "param", 1))
    yield cloud
    cloud.stop()


def test_sibling_that_comes_online_is_withheld_for_its_core(halved, context):
    """Also for the shared containers of the host, the schedulers, and after a restart of the agent."""
    cloud = halved
    alone = cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64, placement={"cpu_isolation": "core"})
    shared = cloud.run(context, cpu=1.0, memory=64)
    assert (alone.cpuset["cpuset_cpus"], alone.cpuset["cpuset_isolation"]) == ("0", "core")

    cloud.machines["one"] = machine(cells=1, cores=4, threads=2)
    wait_for(lambda: db.get(alone.uuid)["cpuset"]["cells"][0]["withheld"] == "1")
    assert db.get(alone.uuid)["cpuset"]["cpuset_isolation"] == "core"
    assert held(cloud, "one") == dict.fromkeys((0, 1), alone.uuid)
    assert cloud.drivers["one"].show(shared).cpuset_cpus == "2-7"
    others = [cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64) for _ in range(6)]
    assert [other.status for other in others] == ["Running"] * 5 + ["Error"]  # one CPU stays for the shared container
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert held(cloud, "one")[1] == alone.uuid


@pytest.mark.parametrize("older", [False, True])
def test_a_core_that_was_asked_for_whole_stays_so(halved, context, older):
    """Also where an earlier release wrote the row, and after a resize and a restart of the agent."""
    cloud, placement = halved, {"cpu_thread_policy": "isolate"}
    alone = cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64, placement=placement)
    assert (alone.cpuset["cpuset_cpus"], alone.cpuset["whole_cores"]) == ("0", True)
    if older:
        record = {name: value for name, value in alone.cpuset.items() if name != "whole_cores"}
        db.update(alone.uuid, {"cpuset": record})
        cloud.stop_agent("one")
        cloud.start_agent("one")
    cloud.machines["one"] = machine(cells=1, cores=4, threads=2)
    wait_for(lambda: db.get(alone.uuid)["cpuset"]["cells"][0]["withheld"] == "1")
    assert db.get(alone.uuid)["cpuset"]["whole_cores"] is True
    cloud.compute_api.update(context, cloud.settled(alone), memory=96)
    cloud.stop_agent("one")
    cloud.start_agent("one")
    assert held(cloud, "one") == dict.fromkeys((0, 1), alone.uuid)
    others = [cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64) for _ in range(7)]
    assert [other.status for other in others] == ["Running"] * 6 + ["Error"]


@pytest.mark.parametrize("halved", [3600], indirect=True)
def test_the_audit_tells_of_a_core_that_is_not_whole_any_more(halved, context):
    """Somebody took the sibling before the agent could keep it."""
    cloud, agent = halved, halved.agents["one"]
    placement = {"cpu_thread_policy": "isolate"}
    alone = cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64, placement=placement)
    agent.tracker.update_inventory(context, machine(cells=1, cores=4, threads=2), agent._inventory.columns)
    other = agent.tracker.container_claim(new_container(context, cpu_policy="dedicated", cpu=7.0, memory=64))
    assert CpuSet("1") <= other.plan.cpus
    agent.parts.resizer.keep_up(context)
    (told,) = cloud.compute_api.audit(context, "one", repair=False)["isolation"]
    assert (told["reached"], told["whole_cores"]) == ("thread", False)
    other.abort()
    agent.parts.resizer.keep_up(context)
    (told,) = cloud.compute_api.audit(context, "one", repair=False)["isolation"]
    assert (told["container"], told["reached"], told["whole_cores"]) == (alone.uuid, "core", True)


@pytest.mark.parametrize("halved", [3600], indirect=True)
def test_whoever_came_to_the_sibling_meanwhile_leaves_it(halved, context):
    agent, driver = halved.agents["one"], halved.drivers["one"]
    alone = halved.run(context, cpu_policy="dedicated", cpu=1.0, memory=64, placement={"cpu_isolation": "core"})
    shared = halved.run(context, cpu=1.0, memory=64)
    agent.tracker.update_inventory(context, machine(cells=1, cores=4, threads=2), agent._inventory.columns)
    agent._pool.settle()
    assert driver.show(shared).cpuset_cpus == "1-7"
    agent.parts.resizer.keep_up(context)
    assert (driver.show(shared).cpuset_cpus, held(halved, "one")[1]) == ("2-7", alone.uuid)


def test_busy_container_does_not_block_inventory_update(halved, context, monkeypatch):
    """It keeps its sibling idle once it is not busy any more."""
    monkeypatch.setattr(resizer, "PATIENCE", 0.05)
    agent = halved.agents["one"]
    alone = halved.run(context, cpu_policy="dedicated", cpu=1.0, memory=64, placement={"cpu_isolation": "core"})
    with agent.queue.turn(key_of(alone.uuid)), ThreadPoolExecutor(1) as pool:
        halved.machines["one"] = machine(cells=1, cores=4, threads=2)
        pool.submit(agent._update_inventory).result(60)
        assert agent.tracker.topology.cpus == CpuSet("0-7")
        assert db.get(alone.uuid)["cpuset"]["cells"][0]["withheld"] == ""
    wait_for(lambda: db.get(alone.uuid)["cpuset"]["cells"][0]["withheld"] == "1")


@pytest.fixture
def single(database):
    """One host of two cells."""
    cloud = Cloud({"one": machine()})
    yield cloud
    cloud.stop()


def test_an_agent_starts_although_a_node_with_containers_is_gone(single, context):
    """A shared container of that node runs on what is left, and nobody else notices."""
    cloud = single
    there = [cloud.run(context, cpu=2.0, memory=2500) for _ in range(2)]
    lost = next(each for each in there if each.cpuset["cpuset_mems"] == "1")
    cloud.stop_agent("one")
    cloud.machines["one"] = machine(cells=1)
    cloud.start_agent("one")
    driver = cloud.drivers["one"]
    assert CpuSet(driver.show(lost).cpuset_cpus) == CpuSet("0-3")
    dedicated = cloud.run(context, cpu_policy="dedicated", cpu=1.0, memory=64)
    assert (dedicated.status, dedicated.status_reason) == ("Running", None)
    assert {driver.show(each).cpuset_cpus for each in there} == {"1-3"}


def test_host_without_pool_takes_dedicated_and_regains_pool(single, context):
    """Its shared container makes room for them, and keeps a CPU."""
    cloud, driver = single, single.drivers["one"]

    def restarted(shared_set):
        cloud.stop_agent("one")
        cloud.conf.set_override("cpu_shared_set", shared_set, group="compute")
        cloud.start_agent("one")

    restarted("0")
    shared = cloud.run(context, cpu=0.5, memory=64)
    restarted("64")  # which is not online
    dedicated = [cloud.run(context, cpu_policy="dedicated", cpu=float(cpu), memory=64) for cpu in (3, 4, 1)]
    assert [each.status for each in dedicated] == ["Running", "Running", "Error"]
    assert "beside those that shared containers need" in dedicated[2].status_reason
    taken = [CpuSet(driver.show(each).cpuset_cpus) for each in dedicated[:2]]
    assert CpuSet(driver.show(shared).cpuset_cpus) == CpuSet("0-7") - taken[0] - taken[1]
    refused = cloud.run(context, cpu=0.1, memory=64)
    assert refused.status == "Error" and "no CPU of this host is for shared containers" in refused.status_reason
    left = driver.show(shared).cpuset_cpus
    restarted(left)
    assert cloud.run(context, cpu=0.1, memory=64).status == "Running"
    assert driver.show(shared).cpuset_cpus == left


def test_the_row_of_a_created_container_holds_its_claim(cloud, context):
    container = cloud.run(context, **DEDICATED, request={"run": False})
    assert container.status == "Created"
    assert [row["uuid"] for row in db.claims([container.host])] == [container.uuid]


def test_many_at_once_get_what_there_is_and_no_cpu_twice(cloud, context):
    submitted = [cloud.submit(context, cpu_policy="dedicated", cpu=1.0, memory=64) for _ in range(24)]
    containers = [cloud.settled(container) for container in submitted]
    running = [container for container in containers if container.status == "Running"]
    refused = [container for container in containers if container.status == "Error"]
    # A shared pool that nobody uses may be pinned away entirely: 16 CPUs are 16 containers.
    assert (len(running), len(refused)) == (16, 8)
    places = [(each.host, cpu) for each in running for cpu in CpuSet(each.cpuset["cpuset_cpus"])]
    assert len(set(places)) == len(places) == 16
    for container in refused:
        assert "Of 2 hosts" in container.status_reason and "rejected 2" in container.status_reason
        assert (container.host, container.cpuset) == (None, None)
    for container in running:
        cloud.compute_api.delete(context, container, stop_timeout=1)
    for container in running:
        cloud.gone(container)
    assert wait_for(lambda: nothing_held(cloud))
    assert len(cloud.agents["one"].tracker.usage) == len(cloud.agents["two"].tracker.usage) == 0


def test_a_request_that_fits_nowhere_says_what_would(cloud, context):
    container = cloud.run(context, cpu_policy="dedicated", cpu=6.0, memory=512)
    assert container.status == "Error"
    assert "Nearest miss" in container.status_reason
    assert "A request for 4 CPUs" in container.status_reason


def test_two_cells_are_given_when_two_are_asked_for(cloud, context):
    container = cloud.run(context, cpu_policy="dedicated", cpu=6.0, memory=1024, placement={"numa_nodes": 2})
    assert container.status == "Running"
    assert container.cpuset["cpuset_mems"] == "0-1"
    assert [len(CpuSet(cell["cpuset_cpu"])) for cell in container.cpuset["cells"]] == [3, 3]


def test_a_host_that_refuses_is_left_for_another(cloud, context):
    table = cloud.scheduler.table
    table.refresh()
    full = table.host("one")
    # Somebody fills the first host without the scheduler hearing of it.
    agent = cloud.agents["one"]
    for _ in range(2):
        cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=64, request={"run": True, "host": "one"})
    with table._lock:
        table._held["one"], table._bookings = {}, Bookings(60, time.monotonic)
        table._hosts.put(full)
    assert len(agent.tracker.usage) == 2
    container = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=64)
    assert (container.status, container.host) == ("Running", "two")


@pytest.mark.parametrize("operation", ["create", "start"])
def test_a_failing_runtime_leaves_an_error_and_nothing_held(cloud, context, operation):
    for driver in cloud.drivers.values():
        driver.fail(operation, exceptions.DockerError(error="no space left on device"))
    container = cloud.run(context, **DEDICATED)
    assert container.status == "Error" and "no space left on device" in container.status_reason
    assert (container.host, container.cpuset) == (None, None)
    assert wait_for(lambda: nothing_held(cloud))
    assert all(driver.list() == {} for driver in cloud.drivers.values())


def test_next_request_avoids_the_host_that_failed(cloud, context):
    """It is the emptiest, since nothing runs there. What a container itself is to blame for is not held against it."""
    for _ in range(2):
        cloud.run(context, cpu_policy="dedicated", cpu=2.0, memory=2048, request={"run": True, "host": "two"})
    failing = cloud.drivers["one"]
    failing.fail("start", exceptions.Invalid("executable file not found"))
    blamed = cloud.run(context, **DEDICATED)
    failing.fail("create", exceptions.DockerError(error="no space left on device"), times=1000)
    first = cloud.run(context, **DEDICATED)
    wait_for(lambda: cloud.scheduler.table.host("one").failures)
    second = cloud.run(context, **DEDICATED)
    assert "executable file" in blamed.status_reason and "no space left" in first.status_reason
    assert (second.status, second.host) == ("Running", "two")


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (exceptions.DockerError(error="no space left on device"), 1),
        (RuntimeError("a bug of ours"), 1),
        (exceptions.InvalidValue("no such program"), 0),
        (exceptions.ContainerVanished(container="it"), 0),
    ],
    ids=["runtime", "bug", "wish", "by-hand"],
)
def test_schedulers_hear_whether_it_was_the_host_that_failed(cloud, context, error, times):
    cloud.drivers["one"].fail("start", error)
    before = compute_nodes.find("one")["generation"]
    container = cloud.run(context, request={"run": True, "host": "one"}, **DEDICATED)
    assert container.status == "Error"
    heard = cloud.scheduler.table.host
    wait_for(lambda: heard("one").generation == before + 2)  # after its claim and its end
    assert len(heard("one").failures) == times


def test_a_resize_of_what_is_to_be_deleted_is_refused(cloud, context):
    """It was accepted before the deletion, and comes behind it."""
    container = cloud.run(context, **DEDICATED)
    cloud.drivers[container.host].cut_events()  # nobody looks, and takes the deletion up
    wait_for(lambda: cloud.quiet(container.host, container.uuid))
    db.update(container.uuid, {"status": "Deleting"})
    with pytest.raises(exceptions.InvalidStateException):
        cloud.compute_api.update(context, container, cpu=4.0)
    row = db.get(container.uuid)
    assert (row["cpu"], row["cpuset"]) == (container.cpu, container.cpuset)


def test_container_removed_by_hand_in_creation_holds_nothing(cloud, context):
    """And its row says so: what a host gives back and a row holds still, two would have."""
    for driver in cloud.drivers.values():
        driver.before("start", lambda container, driver=driver: driver.delete(container, force=True))
    container = cloud.run(context, **DEDICATED)
    assert (container.status, container.host, container.cpuset) == ("Error", None, None)
    assert wait_for(lambda: nothing_held(cloud))


def test_cgroup_differing_from_plan_fails_container_with_reason(cloud, context):
    for driver in cloud.drivers.values():
        driver.before("create", lambda container, driver=driver: driver.disobey(container.uuid, cpus=CpuSet("0-7")))
    container = cloud.run(context, **DEDICATED)
    assert container.status == "Error"
    assert "its cgroup allows CPUs 0-7, the plan is" in container.status_reason
    assert wait_for(lambda: nothing_held(cloud))


@pytest.mark.parametrize("kind", [DEDICATED, {}], ids=["dedicated", "shared"])
@pytest.mark.parametrize("action", ["start", "reboot", "reboot of a stopped one", "rebuild"])
def test_what_runs_elsewhere_once_it_is_started_again_is_ended(cloud, context, action, kind):
    """It keeps what it holds, and may be tried again."""
    before = cloud.run(context, **kind)
    driver = cloud.drivers[before.host]
    if action in ("start", "reboot of a stopped one"):
        cloud.compute_api.stop(context, before)
        wait_for(lambda: cloud.settled(before).status == "Stopped")
    driver.disobey(before.uuid, cpus=CpuSet("40-41"))
    if action == "rebuild":
        db.update(before.uuid, {"status": "Rebuilding"})
    elif action != "start":
        cloud.accept_reboot(before)
    getattr(cloud.compute_api, action.partition(" ")[0])(context, before)
    after = wait_for(lambda: (now := cloud.settled(before)).status == "Error" and now)
    assert "its cgroup allows CPUs 40-41, the plan is" in after.status_reason
    assert (driver.show(after).pid, after.cpuset) == (0, before.cpuset)
    driver.disobey(before.uuid)
    cloud.compute_api.start(context, before)
    again = wait_for(lambda: (now := cloud.settled(before)).status == "Running" and now)
    assert (again.status_reason, bool(driver.show(again).pid)) == (None, True)


def test_shared_containers_leave_before_a_dedicated_one_starts(cloud, context):
    where = {"run": True, "host": "one"}
    shared = cloud.run(context, cpu=1.0, memory=64, request=where)
    assert shared.cpuset["cpu_policy"] == "shared"
    driver = cloud.drivers["one"]
    before = CpuSet(driver.show(shared).cpuset_cpus)
    overlap = []
    driver.before(
        "start", lambda c: overlap.append(CpuSet(driver.show(shared).cpuset_cpus) & CpuSet(driver.show(c).cpuset_cpus))
    )
    cell = int(shared.cpuset["cpuset_mems"])
    dedicated = [cloud.run(context, cpu_policy="dedicated", cpu=3.0, memory=64, request=where) for _ in range(2)]
    assert [each.status for each in dedicated] == ["Running", "Running"]
    assert overlap == [CpuSet(""), CpuSet("")]
    taken = CpuSet("")
    for each in dedicated:
        taken |= CpuSet(each.cpuset["cpuset_cpus"])
    assert CpuSet(driver.show(shared).cpuset_cpus) == machine().cell(cell).cpus - taken
    for each in dedicated:
        cloud.compute_api.delete(context, each, force=True)
        cloud.gone(each)
    wait_for(lambda: CpuSet(driver.show(shared).cpuset_cpus) == before)  # the row goes first


def test_a_created_message_that_comes_twice_is_worked_on_once(cloud, context):
    container = cloud.run(context, **DEDICATED)
    cloud.compute_api.create(context, container.host, container, limits={}, alternates=[], tried={})
    again = cloud.settled(container)
    cloud.compute_api.top(context, again)  # answered after the duplicate was taken from the queue
    assert (again.status, again.cpuset) == ("Running", container.cpuset)
    assert held(cloud, container.host) == dict.fromkeys(CpuSet(container.cpuset["cpuset_cpus"]), container.uuid)


def test_resize_grows_shrinks_and_is_refused_without_harm(cloud, context):
    container = cloud.run(context, **DEDICATED)
    driver = cloud.drivers[container.host]
    pid = driver.show(container).pid
    for cpu in (4.0, 1.0):
        container = cloud.compute_api.update(context, container, cpu=cpu, memory=256)
        state = driver.show(container)
        assert state.pid == pid and len(CpuSet(state.cpuset_cpus)) == cpu
        assert held(cloud, container.host) == dict.fromkeys(CpuSet(state.cpuset_cpus), container.uuid)
    with pytest.raises(exceptions.ClaimRefused):
        cloud.compute_api.update(context, container, cpu=5.0)
    with pytest.raises(exceptions.Invalid, match="whole number"):
        cloud.compute_api.update(context, container, cpu=1.5)
    assert CpuSet(driver.show(container).cpuset_cpus) == CpuSet(db.get(container.uuid)["cpuset"]["cpuset_cpus"])


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("size", [{"cpu": 4.0}, {"cpu": 1.0, "memory": 256, "cpu_policy": "shared"}])
def test_a_failed_resize_goes_back(cloud, context, size, done):
    """To the same limits as well: of dedicated CPUs it has all the time."""
    container = cloud.run(context, **DEDICATED)
    driver = cloud.drivers[container.host]
    before = driver.show(container)
    driver.fail("update", exceptions.DockerError(error="cgroup is busy"), times=1, after=done)
    with pytest.raises(exceptions.DockerError, match="cgroup is busy"):
        cloud.compute_api.update(context, container, **size)
    assert driver.show(container) == before
    cpus = CpuSet(container.cpuset["cpuset_cpus"])
    assert held(cloud, container.host) == dict.fromkeys(cpus, container.uuid)


def test_a_failed_resize_to_all_cpus_of_its_host_goes_back(database, context):
    """It becomes dedicated and nobody else has CPUs: the pool to go back to is what it holds itself."""
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as cloud:
        container = cloud.run(context)
        driver = cloud.drivers["one"]
        driver.fail("update", exceptions.DockerError(error="cgroup is busy"), times=1)
        with pytest.raises(exceptions.DockerError, match="cgroup is busy"):
            cloud.compute_api.update(context, container, cpu=4.0, cpu_policy="dedicated")
        assert driver.show(container).cpuset_cpus == "0-3"
        assert held(cloud, "one") == {}
        assert cloud.agents["one"].tracker.usage.owners == (container.uuid,)


def test_a_resize_that_others_stand_in_the_way_of_goes_back(database, context):
    """They do not leave the CPUs that it was to have, and need not for it to have those that it had."""
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as cloud:
        container, stays = cloud.run(context, **DEDICATED), cloud.run(context)
        driver, tracker = cloud.drivers["one"], cloud.agents["one"].tracker
        driver.disobey(stays.uuid, cpus=driver.show(stays).cpuset_cpus)
        before = tracker.usage
        for size in ({"cpu": 3.0}, {"cpu": 3.0, "memory": 64}):
            with pytest.raises(exceptions.PinningMismatch):
                cloud.compute_api.update(context, container, **size)
            assert tracker.usage == before
        assert driver.show(container).cpuset_cpus == container.cpuset["cpuset_cpus"]


def test_resize_to_dedicated_moves_shared_containers_if_no_pool(database, context):
    """They run on what nobody holds."""
    with Cloud({"one": machine(cells=1)}, compute__audit_interval=0) as cloud:
        containers = [cloud.run(context), cloud.run(context)]
        cloud.stop_agent("one")
        cloud.conf.set_override("cpu_shared_set", "64", group="compute")  # of which no CPU is online
        tracker = cloud.start_agent("one").tracker
        before, driver = tracker.usage, cloud.drivers["one"]
        with pytest.raises(exceptions.ClaimRefused):
            cloud.compute_api.update(context, containers[0], cpu=4.0, cpu_policy="dedicated")
        assert tracker.usage == before
        cloud.compute_api.update(context, containers[0], cpu=3.0, cpu_policy="dedicated")
        assert [CpuSet(driver.show(each).cpuset_cpus) for each in containers] == [CpuSet("0-2"), CpuSet("3")]


def test_a_shared_container_may_be_moved_while_it_is_resized(cloud, context):
    """By another one's claim or end, or a CPU that comes online: the resize looks for it where it is then."""
    container = cloud.run(context, request={"run": True, "host": "one"})
    came = []

    def other(shown):
        if shown.uuid == container.uuid and not came:
            came.append(container)
            came[0] = cloud.run(context, **DEDICATED, request={"run": True, "host": "one"})

    cloud.drivers["one"].before("show", other)  # the runtime has been told, and the kernel not yet been asked
    resized = cloud.compute_api.update(context, container, memory=128)
    assert resized.memory == 128
    state = cloud.drivers["one"].show(container)
    assert CpuSet(state.cpuset_cpus) and not CpuSet(state.cpuset_cpus) & CpuSet(came[0].cpuset["cpuset_cpus"])


def test_what_a_stopped_agent_left_is_finished_by_the_next(cloud, context):
    running = cloud.run(context, **DEDICATED, request={"run": True, "host": "one"})
    cloud.stop_agent("one")
    row = db.get(running.uuid)
    # As if the agent had been killed after it committed a claim and before it made the container ...
    plan = cloud.scheduler.table.host("one")
    assert plan is not None
    waiting = cloud.submit(context, **DEDICATED, request={"run": True, "host": "one"})
    # ... and in the middle of a delete.
    db.update(running.uuid, {"status": "Deleting"})
    cloud.start_agent("one")
    cloud.gone(running)
    assert row["status"] == "Running"
    assert cloud.settled(waiting).status == "Running"
    wait_for(lambda: set(held(cloud, "one").values()) == {waiting.uuid})  # the row of what is deleted goes first


def test_a_container_that_dies_is_seen(cloud, context):
    container = cloud.run(context, **DEDICATED)
    cloud.drivers[container.host].kill(container, "KILL")
    stopped = wait_for(lambda: (row := db.get(container.uuid))["status"] == "Stopped" and row)
    assert stopped["exit_code"] == 137
    assert held(cloud, container.host) == dict.fromkeys(CpuSet(container.cpuset["cpuset_cpus"]), container.uuid)


def test_grown_container_keeps_cpus_and_shrunk_one_keeps_some(cloud, context):
    container = cloud.run(context, **DEDICATED)
    before = CpuSet(container.cpuset["cpuset_cpus"])
    grown = CpuSet(cloud.compute_api.update(context, container, cpu=4.0).cpuset["cpuset_cpus"])
    assert before < grown
    shrunk = CpuSet(cloud.compute_api.update(context, container, cpu=1.0).cpuset["cpuset_cpus"])
    assert shrunk < grown and len(shrunk) == 1


def test_the_cpus_that_are_named_stay_through_every_resize(cloud, context):
    container = cloud.run(context, **{**DEDICATED, "cpu": 4.0})
    driver, keep = cloud.drivers[container.host], max(CpuSet(container.cpuset["cpuset_cpus"]))
    for cpu in (2.0, 1.0, 3.0, 1.0):
        container = cloud.compute_api.update(context, container, cpu=cpu, keep_cpus=str(keep))
        cpus = CpuSet(container.cpuset["cpuset_cpus"])
        assert keep in cpus and len(cpus) == cpu
        assert CpuSet(driver.show(container).cpuset_cpus) == cpus
    cloud.compute_api.resize(context, container, cpu=2.0, keep_cpus=str(keep))
    grown = wait_for(lambda: (row := db.get(container.uuid))["cpu"] == 2.0 and row)
    assert keep in CpuSet(grown["cpuset"]["cpuset_cpus"])
    before = db.get(container.uuid)
    with pytest.raises(exceptions.Invalid, match=r"keep_cpus: CPUs .* are not among those it has"):
        cloud.compute_api.update(context, container, cpu=1.0, keep_cpus="15")
    assert db.get(container.uuid) == before


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        pytest.param("stop", "its task_state is container_stopping; try again when it has none", id="stop"),
        pytest.param("update", "it is being resized or moved; try again in a moment", id="resize"),
    ],
)
def test_resize_of_busy_container_waits_briefly_then_is_refused(cloud, context, monkeypatch, operation, told):
    monkeypatch.setattr(endpoint, "PATIENCE", 1.0)  # more than a look takes
    container = cloud.run(context, **DEDICATED)
    driver, entered, go_on = cloud.drivers[container.host], threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        assert go_on.wait(60)

    driver.before(operation, hold)
    with ThreadPoolExecutor(1) as pool:
        try:
            if operation == "stop":
                cloud.compute_api.stop(context, container)
            else:
                first = pool.submit(cloud.compute_api.update, context, container, cpu=4.0)
            assert entered.wait(60)
            with pytest.raises(exceptions.ContainerBusy, match=f"is busy: .*{told}. Nothing was changed."):
                cloud.compute_api.update(context, container, cpu=3.0)
        finally:
            go_on.set()
        if operation == "update":
            assert first.result(60).cpu == 4.0
    assert cloud.settled(container).cpu == (2.0 if operation == "stop" else 4.0)
    assert cloud.compute_api.update(context, container, cpu=3.0).cpu == 3.0


def test_two_short_resizes_at_once_are_both_done(cloud, context):
    container = cloud.run(context, **DEDICATED)
    with ThreadPoolExecutor(2) as pool:
        sizes = ({"cpu": 3.0}, {"memory": 256})
        for each in [pool.submit(cloud.compute_api.update, context, container, **size) for size in sizes]:
            each.result(60)
    row = db.get(container.uuid)
    assert (row["cpu"], row["memory"]) == (3.0, 256)


def test_a_resize_that_nobody_waits_for_waits_itself(cloud, context):
    container = cloud.run(context, **DEDICATED)
    entered, go_on = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        assert go_on.wait(60)

    cloud.drivers[container.host].before("kernel_view", hold)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cloud.compute_api.update, context, container, memory=256)
        try:
            assert entered.wait(60)
            cloud.compute_api.resize(context, container, cpu=4.0)
            wait_for(lambda: cloud.waiting(container.uuid))
        finally:
            go_on.set()
        first.result(60)
    assert wait_for(lambda: (row := db.get(container.uuid))["cpu"] == 4.0 and row)["memory"] == 256


def test_a_container_changes_between_dedicated_and_shared(cloud, context):
    where = {"run": True, "host": "one"}
    other = cloud.run(context, cpu=1.0, memory=64, request=where)
    container = cloud.run(context, **DEDICATED, request=where)
    driver = cloud.drivers["one"]
    pid, cell = driver.show(container).pid, int(container.cpuset["cpuset_mems"])
    whole = machine().cell(cell).cpus

    shared = cloud.compute_api.update(context, container, cpu_policy="shared")
    assert (shared.cpu_policy, shared.cpuset["cpu_policy"]) == ("shared", "shared")
    assert held(cloud, "one") == {}
    assert CpuSet(driver.show(container).cpuset_cpus) == CpuSet(driver.show(other).cpuset_cpus) == whole

    back = cloud.compute_api.update(context, container, cpu=3.0, cpu_policy="dedicated")
    mine = CpuSet(back.cpuset["cpuset_cpus"])
    assert len(mine) == 3 and held(cloud, "one") == dict.fromkeys(mine, container.uuid)
    assert CpuSet(driver.show(container).cpuset_cpus) == mine
    assert CpuSet(driver.show(other).cpuset_cpus) == whole - mine
    assert driver.show(container).pid == pid


@pytest.mark.parametrize("failing_call", [0, 1])
@pytest.mark.parametrize("policy", ["shared", "dedicated"])
def test_a_failed_change_of_policy_goes_back(cloud, context, policy, failing_call):
    """The update fails, or the kernel does not follow it."""
    where = {"run": True, "host": "one"}
    other = cloud.run(context, cpu=1.0, memory=64, request=where)
    container = cloud.run(context, cpu=2.0, memory=64, cpu_policy=policy, request=where)
    driver = cloud.drivers["one"]
    before = {each.uuid: driver.show(each).cpuset_cpus for each in (other, container)}
    owners = held(cloud, "one")
    if failing_call == 0:
        driver.fail("update", exceptions.DockerError(error="cgroup is busy"), times=1)
    else:
        driver.fail("kernel_view", exceptions.DockerError(error="cgroup is unreadable"), times=1)
    target = {"shared": "dedicated", "dedicated": "shared"}[policy]
    with pytest.raises(exceptions.DockerError):
        cloud.compute_api.update(context, container, cpu_policy=target)
    assert wait_for(lambda: {each.uuid: driver.show(each).cpuset_cpus for each in (other, container)} == before)
    assert held(cloud, "one") == owners
    row = db.get(container.uuid)
    assert (row["cpu_policy"], row["cpuset"]) == (policy, container.cpuset)
    assert set(cloud.agents["one"].tracker.usage.owners) == {other.uuid, container.uuid}
