# SPDX-License-Identifier: Apache-2.0
"""Changes of containers that this service did not ask for, over real messages, with runtimes in memory.

Nothing is compared periodically here: what is seen, the stream of events brought.
"""

import threading

import pytest

from zun.common import exceptions
from zun.common.states import TaskState
from zun.compute.container.observed import GONE
from zun.compute.container.operations import key_of
from zun.container.driver.state import OUT_OF_MEMORY
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.tests.fixtures import becomes, wait_for
from zun.tests.functional.cloud import Cloud, cloud_of, machine
from zun.tests.host_in_memory import look_now

NEVER = 10_000  # seconds

cloud = cloud_of({"one": machine(cells=1)}, compute__audit_interval=0, compute__sync_container_state_interval=NEVER)


DEEDS = {
    "it-dies": (lambda driver, row: driver.exit(row.uuid, 3), {"status": "Stopped", "exit_code": 3}),
    "it-is-stopped": (lambda driver, row: driver.stop(row), {"status": "Stopped", "exit_code": 143}),
    "it-is-killed": (lambda driver, row: driver.kill(row), {"status": "Stopped", "exit_code": 137}),
    "it-is-paused": (lambda driver, row: driver.pause(row), {"status": "Paused"}),
    "it-is-removed": (
        lambda driver, row: driver.delete(row, force=True),
        {"status": "Error", "status_reason": GONE},
    ),
    "it-runs-out-of-memory": (
        lambda driver, row: driver.exit(row.uuid, 137, out_of_memory=True),
        {"status": "Stopped", "status_reason": OUT_OF_MEMORY},
    ),
}


def test_what_happens_is_seen(cloud, context, driver):
    for deed, expected in DEEDS.values():
        container = cloud.run(context)
        deed(driver, container)
        row = becomes(container, **expected)
        assert row["cpuset"] == container.cpuset  # it may be started again


def quiet(cloud, container):
    """Wait until what was told of this running container before has been looked at."""
    driver = cloud.drivers["one"]
    driver.pause(container)
    becomes(container, status="Paused")
    driver.unpause(container)
    becomes(container, status="Running")  # which may have been seen before it was told
    wait_for(lambda: driver.heard() and cloud.quiet("one", container.uuid))


def test_what_was_missed_is_seen_when_the_stream_is_back(cloud, context, driver):
    untouched, containers = cloud.run(context), [cloud.run(context) for _ in DEEDS]
    for each in containers:
        quiet(cloud, each)
    driver.cut_events()
    for container, (deed, _) in zip(containers, DEEDS.values(), strict=True):
        deed(driver, container)
    cloud.run(context)  # so much later
    assert {db.get(each.uuid)["status"] for each in containers} == {"Running"}
    driver.join_events()
    for container, (_, expected) in zip(containers, DEEDS.values(), strict=True):
        becomes(container, **expected)
    assert db.get(untouched.uuid)["status"] == "Running"


@pytest.mark.parametrize("policy", [{}, {"cpu_policy": "dedicated", "cpu": 1.0}], ids=["shared", "dedicated"])
@pytest.mark.parametrize(
    ("question", "arguments"),
    [
        ("update", {"memory": 512}),
        ("update", {"cpu": 2.0}),
        ("logs", {}),
        ("top", {}),
        ("stats", {}),
        ("execute", {"command": ["true"]}),
        ("get_archive", {"path": "/tmp"}),
    ],
)
def test_who_is_quicker_than_the_news_that_it_vanished_is_told(cloud, context, driver, question, arguments, policy):
    """Its row is there, so the answer is none of those to what never was."""
    container = cloud.run(context, **policy)
    quiet(cloud, container)
    driver.cut_events()
    driver.delete(container, force=True)
    held = cloud.agents["one"].tracker.usage
    with pytest.raises(exceptions.ContainerVanished, match=r"Rebuild it, or delete it here as well\.") as caught:
        getattr(cloud.compute_api, question)(context, container, **arguments)
    assert type(caught.value) is exceptions.ContainerVanished
    row = db.get(container.uuid)
    assert (row["status"], row["memory"], row["cpuset"]) == ("Running", container.memory, container.cpuset)
    assert cloud.agents["one"].tracker.usage == held
    driver.join_events()
    becomes(container, status="Error", status_reason=GONE)


def test_it_is_started_and_unpaused_again(cloud, context, driver):
    container = cloud.run(context)
    driver.exit(container.uuid)
    becomes(container, status="Stopped")
    driver.start(container)
    becomes(container, status="Running", exit_code=None, finished_at=None)
    driver.pause(container)
    becomes(container, status="Paused")
    driver.unpause(container)
    row = becomes(container, status="Running")
    assert (row["cpuset"], row["task_state"]) == (container.cpuset, None)


def test_a_restart_by_policy_is_seen(cloud, context, driver):
    container = cloud.run(context, restart_policy={"Name": "always", "MaximumRetryCount": "0"})
    first = db.get(container.uuid)["started_at"]
    driver.exit(container.uuid, 1)
    row = wait_for(lambda: (row := db.get(container.uuid)) and row["started_at"] != first and row)
    assert (row["status"], row["exit_code"]) == ("Running", None)


def test_news_of_our_own_actions_wait_for_their_end(cloud, context, driver):
    """A look in the middle of a stop would see a container that stopped by itself."""
    container = cloud.run(context)
    stopped, go_on = threading.Event(), threading.Event()

    def stop_is_slow(seen):
        if seen.uuid == container.uuid and db.get(container.uuid)["task_state"] == "container_stopping":
            stopped.set()
            assert go_on.wait(60)

    driver.before("show", stop_is_slow)  # the process has ended, and the operation has not
    cloud.compute_api.stop(context, container, timeout=1)
    assert stopped.wait(60)
    other = cloud.run(context)  # whose events were heard behind those of the stop
    driver.pause(other)
    becomes(other, status="Paused")
    row = db.get(container.uuid)
    assert (row["status"], row["task_state"]) == ("Running", "container_stopping")
    go_on.set()
    becomes(container, status="Stopped", task_state=None, exit_code=143)


def test_a_look_that_sees_no_news_writes_nothing(cloud, context, driver):
    container = cloud.run(context)
    quiet(cloud, container)
    before = db.get(container.uuid)
    look_now(cloud.agents["one"].parts, container.uuid)
    assert db.get(container.uuid) == before


def test_a_look_writes_only_what_it_saw(cloud, context, driver):
    """A value that another writer stored between the look's read and its write stays."""
    container = cloud.run(context)
    quiet(cloud, container)
    driver.cut_events()
    driver.exit(container.uuid)
    driver.before("show", lambda _: db.update(container.uuid, {"task_state": "container_stopping"}))
    look_now(cloud.agents["one"].parts, container.uuid)
    row = db.get(container.uuid)
    assert (row["status"], row["task_state"]) == ("Stopped", "container_stopping")


@pytest.mark.parametrize("failing", [False, True])
def test_a_creation_leaves_its_deletion_what_there_is(cloud, context, driver, failing):
    """One that was accepted meanwhile: it finds the row with its status, its host and what it holds."""
    reached = threading.Event()

    def accept(container):
        db.update(container.uuid, {"status": "Deleting"})
        reached.set()

    driver.before("start", accept)
    if failing:
        driver.fail("start", exceptions.DockerError(error="no such program"))
    container = cloud.submit(context)
    assert reached.wait(60)
    with cloud.agents["one"].parts.operations.undisturbed(context, container.uuid) as left:
        # None: the look at all containers with which the agent begins came late and took the deletion up.
        assert left is None or (left.status, left.host, left.cpuset is None) == ("Deleting", "one", False)
    cloud.agents["one"]._compare()
    cloud.gone(container)
    assert driver.list() == {}
    assert wait_for(lambda: len(cloud.agents["one"].tracker.usage) == 0)
    assert [host.failures for host in cloud.scheduler.table.hosts()] == [()]


@pytest.mark.parametrize("status", ["Restarting", "Rebuilding", "Deleting"])
def test_a_look_leaves_what_was_accepted_meanwhile(cloud, context, driver, status):
    """And goes on with it: what it had seen before counts no more."""
    driver.cut_events()  # nobody else looks
    container = cloud.run(context)

    accepted = []

    def meanwhile(_):
        if not accepted:
            accepted.append(status)
            driver.exit(container.uuid, 3)
            db.update(container.uuid, {"status": status})

    wait_for(lambda: cloud.quiet("one", container.uuid))
    driver.before("show", meanwhile)
    look_now(cloud.agents["one"].parts, container.uuid)
    after = {each["uuid"]: (each["status"], each["exit_code"]) for each in db.of_uuids([container.uuid])}
    assert after == {
        "Restarting": {container.uuid: ("Restarting", None)},
        "Rebuilding": {container.uuid: ("Running", None)},
        "Deleting": {},
    }[status]


# reboot


def restarted(container):
    """Wait until it runs, started anew."""
    row = becomes(container, status="Running", task_state=None)
    assert row["started_at"] > container.started_at.replace(tzinfo=None)


@pytest.fixture
def narrow(database):
    """A host with one worker and one look at a time."""
    cloud = Cloud({"one": machine(cells=1, cores=4)}, compute__workers=1, compute__sync_container_state_interval=3600)
    yield cloud
    cloud.stop()


@pytest.mark.parametrize("action", ["stop", "reboot"])
def test_a_long_stop_takes_neither_a_worker_nor_a_look(narrow, context, action):
    slow, other = narrow.run(context), narrow.run(context)
    driver, entered, ended = narrow.drivers["one"], threading.Event(), threading.Event()

    def hold(container):
        if container.uuid == slow.uuid:
            entered.set()
            assert ended.wait(120)

    driver.before(action, hold)
    try:
        if action == "reboot":
            narrow.accept_reboot(slow)
        getattr(narrow.compute_api, action)(context, slow, timeout=600)
        assert entered.wait(60)
        narrow.agents["one"].parts.road.look_soon(slow.uuid)
        narrow.compute_api.pause(context, other)
        becomes(other, status="Paused")
        driver.unpause(other)
        becomes(other, status="Running")
    finally:
        ended.set()
    assert narrow.settled(slow).status == {"stop": "Stopped", "reboot": "Running"}[action]


def test_what_happens_during_an_operation_is_looked_at_after_it(narrow, context):
    container, other = narrow.run(context), narrow.run(context)
    agent, driver = narrow.agents["one"], narrow.drivers["one"]
    begun, go_on = threading.Event(), threading.Event()

    def operation():
        with agent.queue.turn(key_of(container.uuid)):
            begun.set()
            assert go_on.wait(60)

    at_work = threading.Thread(target=operation)
    try:
        at_work.start()
        assert begun.wait(60)
        driver.exit(container.uuid, 3)
        driver.exit(other.uuid, 3)
        becomes(other, status="Stopped")  # by the one thread that looks
        assert db.get(container.uuid)["status"] == "Running"
    finally:
        go_on.set()
        at_work.join()
    becomes(container, status="Stopped", exit_code=3)


def test_what_happens_during_a_resize_is_looked_at_after_it(narrow, context):
    """No worker does it: its caller waits for it."""
    container = narrow.run(context)
    with narrow.agents["one"].queue.turn(key_of(container.uuid)):
        narrow.drivers["one"].exit(container.uuid, 3)
        wait_for(lambda: narrow.waiting(container.uuid))
        assert db.get(container.uuid)["status"] == "Running"
    becomes(container, status="Stopped", exit_code=3)


def test_a_look_that_fails_is_not_the_last(cloud, context, driver, caplog):
    """The runtime or the database may be away for a moment."""
    container = cloud.run(context)
    quiet(cloud, container)
    driver.fail("show", exceptions.Unavailable("no daemon"))
    driver.exit(container.uuid)
    told = f"Container {container.uuid} could not be looked at: no daemon"
    (record,) = wait_for(lambda: [each for each in caplog.records if each.getMessage() == told])
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    driver.start(container)
    driver.exit(container.uuid, 3)
    becomes(container, status="Stopped", exit_code=3)


def test_a_look_ends_a_restart_of_the_runtime(cloud, context, driver):
    container, parts = cloud.run(context), cloud.agents["one"].parts
    quiet(cloud, container)
    driver.cut_events()  # nobody else looks
    db.update(container.uuid, {"status": "Restarting"})  # as the runtime may have it between two attempts
    look_now(parts, container.uuid)
    assert db.get(container.uuid)["status"] == "Running"


def test_reboot_with_lost_message_is_resumed_and_done_once(cloud, context, driver):
    container, reboots = cloud.run(context), []
    driver.before("reboot", reboots.append)
    cloud.accept_reboot(container)
    driver.join_events()  # stands for the next comparison of all
    restarted(container)
    cloud.compute_api.reboot(context, container)  # it was late, not lost
    cloud.compute_api.stop(context, container, timeout=1)  # behind it
    becomes(container, status="Stopped", task_state=None)
    assert len(reboots) == 1


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("action", ["stop", "kill", "pause"])
def test_what_ends_behind_an_accepted_reboot_leaves_it(cloud, context, driver, action, works):
    container = cloud.run(context)
    quiet(cloud, container)
    driver.cut_events()
    driver.before(action, lambda _: cloud.accept_reboot(container))
    if not works:
        driver.fail(action, exceptions.DockerError(error="no"))
    getattr(cloud.compute_api, action)(context, container)
    becomes(container, status="Restarting")
    with cloud.agents["one"].parts.operations.undisturbed(context, container.uuid) as left:
        assert (left.status, left.task_state) == ("Restarting", "container_rebooting")


def test_what_begins_behind_an_accepted_reboot_leaves_it(cloud, context, driver):
    container, operations = cloud.run(context), cloud.agents["one"].parts.operations
    quiet(cloud, container)
    cloud.accept_reboot(container)
    accepted = db.get(container.uuid)
    with operations.task(context, container.uuid, TaskState.NETWORK_ATTACHING) as attached:
        assert attached is not None
    assert db.get(container.uuid) == accepted


# auto_heal


def test_what_vanished_is_made_anew_with_what_it_holds(cloud, context, driver):
    for policy in ({}, {"cpu_policy": "dedicated", "cpu": 1.0}):
        for running in (True, False):
            container = cloud.run(context, auto_heal=True, **policy)
            if not running:
                driver.exit(container.uuid)
                becomes(container, status="Stopped")
            driver.delete(container, force=True)
            wait_for(lambda was=container: db.get(was.uuid)["container_id"] != was.container_id)
            row = becomes(container, status="Running" if running else "Created", task_state=None)
            assert (row["cpuset"], row["host"], row["status_reason"]) == (container.cpuset, "one", None)
            made = driver.runtime.objects[container.uuid]
            assert (made.container_id, bool(made.pid)) == (row["container_id"], running)
            if policy:
                assert made.cpuset_cpus == container.cpuset["cpuset_cpus"]
            (action,) = db_actions.of_container(container.uuid)
            assert (action["action"], action["project_id"], action["user_id"]) == ("rebuild", "demo", None)
            wait_for(lambda at=container: db_actions.of_container(at.uuid)[0]["finish_time"])


def test_a_healing_that_fails_is_an_error_and_not_tried_for_ever(cloud, context, driver):
    container = cloud.run(context, auto_heal=True)
    driver.fail("find_image", exceptions.ImageNotFound(image="zun-demo"))
    driver.delete(container, force=True)
    row = becomes(container, status="Error", task_state=None)
    assert "zun-demo" in row["status_reason"]
    driver.cut_events()
    driver.join_events()
    other = cloud.run(context)
    driver.pause(other)
    becomes(other, status="Paused")
    assert db.get(container.uuid)["status"] == "Error"


def test_a_host_that_lost_everything_heals_what_it_may(cloud, context, driver):
    healed = [cloud.run(context, auto_heal=True, cpu_policy="dedicated", cpu=1.0) for _ in range(2)]
    lost = cloud.run(context)
    driver.cut_events()
    for each in (*healed, lost):
        driver.delete(each, force=True)
    driver.join_events()
    for each in healed:
        wait_for(lambda each=each: db.get(each.uuid)["container_id"] != each.container_id)
        assert becomes(each, status="Running", task_state=None)["cpuset"] == each.cpuset
    becomes(lost, status="Error", status_reason=GONE)


def test_a_healing_that_was_interrupted_goes_on(cloud, context, driver):
    container = cloud.run(context, auto_heal=True)
    cloud.stop_agent("one")
    driver.delete(container, force=True)
    db.update(container.uuid, {"status": "Rebuilding", "request": {"run": True}})
    cloud.start_agent("one")
    becomes(container, status="Running", task_state=None)
    assert container.uuid in driver.runtime.objects


# auto_remove


def held(cloud, container):
    return cloud.agents["one"].tracker.usage.claim(container.uuid)


def who_wants_all(cloud, context):
    """Status and reason of a container that asks for everything of the host."""
    # The agent gives back first and tells then.
    wait_for(lambda: not cloud.scheduler.table.host("one").usage.held_cpus)
    taken = cloud.run(context, cpu_policy="dedicated", cpu=4.0, memory=1024)
    return taken.status, taken.status_reason


def test_what_ends_and_removes_itself_gives_back_what_it_held(cloud, context, driver):
    container = cloud.run(context, auto_remove=True, cpu_policy="dedicated", cpu=4.0)
    assert held(cloud, container)
    driver.exit(container.uuid, 1)
    becomes(container, status="Deleted", cpuset=None)
    wait_for(lambda: held(cloud, container) is None)
    assert who_wants_all(cloud, context) == ("Running", None)


def test_so_does_what_is_stopped(cloud, context, driver):
    container = cloud.run(context, auto_remove=True, cpu_policy="dedicated", cpu=4.0)
    driver.cut_events()  # the stop alone must do it
    cloud.compute_api.stop(context, container, timeout=1)
    becomes(container, status="Deleted", cpuset=None, task_state=None)
    wait_for(lambda: held(cloud, container) is None)
    assert who_wants_all(cloud, context) == ("Running", None)


def test_what_removed_itself_is_cleared_away_later(cloud, context, driver):
    container = cloud.run(context, auto_remove=True)
    driver.exit(container.uuid)
    becomes(container, status="Deleted")
    assert db.get(container.uuid)["cpuset"] is None
    wait_for(lambda: not cloud.agents["one"]._pool.current())  # nobody moves it with the pool any more
    driver.join_events()  # stands for the next comparison of all
    cloud.gone(container)


# rebuild


def test_a_rebuild_under_way_is_not_taken_up_a_second_time(cloud, context, driver):
    """A comparison of all meets it in the status that one has that lost its message."""
    container = cloud.run(context)
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slow(_container):
        made.append(1)
        begun.set()
        assert go_on.wait(60)

    driver.before("create", slow)
    db.update(container.uuid, {"status": "Rebuilding", "request": {"run": True}})
    cloud.compute_api.rebuild(context, container)
    assert begun.wait(60)
    driver.join_events()
    cloud.compute_api.rebuild(context, container)  # the message came twice
    becomes(container, status="Rebuilding")
    go_on.set()
    becomes(container, status="Running", task_state=None)
    cloud.compute_api.stop(context, container, timeout=1)  # behind all of them
    becomes(container, status="Stopped")
    assert made == [1]
