# SPDX-License-Identifier: Apache-2.0
"""Tests for every driver. The in-memory driver runs them as unit tests, the Docker driver on a real daemon."""

import io
import queue
import tarfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zun.common import exceptions
from zun.common.processes import FIELDS
from zun.common.states import Status
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.events import RESYNC, RuntimeEvent
from zun.container.driver.state import RuntimeState
from zun.image.archives import Renamed
from zun.tests.fixtures import wait_for
from zun.tests.unit.container.samples import Sample
from zun.topology import CpuSet


@dataclass
class Rig:
    """A driver under test, with a second one that is another host's agent on the same daemon.

    Needs CPUs 0 and 1 and memory node 0; 77 is no CPU of it.
    """

    driver: ContainerDriver
    neighbour: ContainerDriver
    made: list[Sample] = field(default_factory=list)

    def sample(self, **fields: Any) -> Sample:
        container = Sample(**fields)
        self.made.append(container)
        return container

    def created(self, **fields: Any) -> Sample:
        container = self.sample(**fields)
        self.driver.create(container, cpuset_cpus="1", cpuset_mems="0")
        return container

    def running(self, **fields: Any) -> Sample:
        container = self.created(**fields)
        self.driver.start(container)
        return container

    def state(self, container: Sample) -> RuntimeState:
        state = self.driver.show(container)
        assert state is not None
        return state

    def clean(self) -> None:
        for container in self.made:
            self.driver.delete(container, force=True)
            self.neighbour.delete(container, force=True)


@contextmanager
def listening(driver: ContainerDriver) -> Iterator["queue.Queue[RuntimeEvent]"]:
    """Inside, the driver's events arrive in the queue; its resync has been taken off."""
    inbox: queue.Queue[RuntimeEvent] = queue.Queue()
    stop = threading.Event()

    def listen() -> None:
        for event in driver.events(stop):
            inbox.put(event)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        assert inbox.get(timeout=60) == RuntimeEvent("", RESYNC)
        yield inbox
    finally:
        stop.set()
        thread.join(timeout=60)
        assert not thread.is_alive(), "events() goes on although it was told to stop"


def actions_until(inbox: "queue.Queue[RuntimeEvent]", container: Sample, last: str) -> list[str]:
    """Return the container's actions up to ``last``, each once, in the order in which they were first told.

    Docker tells some twice: what happens while somebody subscribes, and, where it is slow to hear of a pause from its
    containerd, that pause and its end again after it was over.
    """
    actions: list[str] = []
    while last not in actions:
        event = inbox.get(timeout=60)
        if event.uuid == container.uuid and event.action not in actions:
            actions.append(event.action)
    return actions


OPERATIONS: dict[str, Callable[[ContainerDriver, Sample], Any]] = {
    "start": lambda driver, container: driver.start(container),
    "stop": lambda driver, container: driver.stop(container, 1),
    "reboot": lambda driver, container: driver.reboot(container, 1),
    "pause": lambda driver, container: driver.pause(container),
    "unpause": lambda driver, container: driver.unpause(container),
    "kill": lambda driver, container: driver.kill(container),
    "update": lambda driver, container: driver.update(container, cpuset_cpus="0"),
    "execute": lambda driver, container: driver.execute(container, ["true"], 5),
    "logs": lambda driver, container: driver.logs(container),
    "top": lambda driver, container: driver.top(container),
    "stats": lambda driver, container: driver.stats(container),
}
NEED_A_PROCESS = ("pause", "unpause", "kill", "execute", "top", "stats")


class DriverContract:
    """Inherited by a test class in a module that has a fixture ``rig``."""

    def test_has_every_capability(self, rig: Rig) -> None:
        assert isinstance(rig.driver, ContainerDriver)

    # Creating

    def test_created_is_not_started(self, rig: Rig) -> None:
        container = rig.sample()
        container_id = rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0")
        assert rig.state(container) == RuntimeState(
            container_id=container_id,
            status=Status.CREATED,
            exit_code=None,
            started_at=None,
            finished_at=None,
            error=None,
            pid=0,
            cpuset_cpus="1",
            cpuset_mems="0",
            hostname=container_id[:12],
            addresses={},
            memory=container.memory,
        )

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            (Status.CREATING, Status.CREATED),
            (Status.CREATED, None),
            (Status.ERROR, None),
            (Status.DELETING, None),
            (Status.RUNNING, Status.CREATED),
            (None, None),
        ],
    )
    def test_never_started_object_and_its_row(self, rig: Rig, row: Status | None, expected: Status | None) -> None:
        container = rig.created()
        assert rig.state(replace(container, status=row)).status is expected

    def test_create_again_adopts(self, rig: Rig) -> None:
        container = rig.sample()
        first = rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0")
        assert rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0") == first
        assert list(rig.driver.list()).count(container.uuid) == 1

    def test_create_again_moves_to_the_new_plan(self, rig: Rig) -> None:
        container = rig.created()
        rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        assert rig.state(container).cpuset_cpus == "0"

    def test_create_after_delete_is_new(self, rig: Rig) -> None:
        container = rig.sample()
        first = rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0")
        rig.driver.delete(container)
        assert rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0") != first

    @pytest.mark.parametrize(("cpus", "mems"), [("77", "0"), ("0", "9")])
    def test_create_on_what_the_host_lacks(self, rig: Rig, cpus: str, mems: str) -> None:
        container = rig.sample()
        with pytest.raises(exceptions.DockerError, match="not available"):
            rig.driver.create(container, cpuset_cpus=cpus, cpuset_mems=mems)
        assert rig.driver.show(container) is None

    def test_create_without_the_image(self, rig: Rig) -> None:
        container = rig.sample(image="zun-no-such-image:1")
        with pytest.raises(exceptions.ImageNotFound, match="zun-no-such-image"):
            rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        assert rig.driver.show(container) is None

    # Running

    def test_start_runs_where_it_was_put(self, rig: Rig) -> None:
        before = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1)
        container = rig.running()
        state = rig.state(container)
        assert state.status is Status.RUNNING
        assert state.pid > 0
        assert state.exit_code is None and state.finished_at is None
        assert state.started_at is not None and state.started_at >= before
        view = rig.driver.kernel_view(container, state)
        assert view is not None
        assert (view.cpus, view.cgroup_cpus) == (CpuSet("1"), CpuSet("1"))
        assert (view.mems, view.cgroup_mems) == (CpuSet("0"), CpuSet("0"))

    def test_start_again_changes_nothing(self, rig: Rig) -> None:
        container = rig.running()
        pid = rig.state(container).pid
        rig.driver.start(container)
        assert rig.state(container).pid == pid

    def test_open_cpuset_means_every_cpu(self, rig: Rig) -> None:
        container = rig.sample(cpu_policy="shared")
        rig.driver.create(container, cpuset_cpus="", cpuset_mems="")
        rig.driver.start(container)
        view = rig.driver.kernel_view(container, rig.state(container))
        assert view is not None
        assert CpuSet("0-1") <= view.cpus and CpuSet("0") <= view.mems

    def test_stop(self, rig: Rig) -> None:
        container = rig.running()
        alive = rig.state(container)
        rig.driver.stop(container, 1)
        state = rig.state(container)
        assert (state.status, state.pid, state.error) == (Status.STOPPED, 0, None)
        assert state.exit_code is not None and state.finished_at is not None
        assert rig.driver.kernel_view(container, alive) is None
        assert rig.driver.kernel_view(container, state) is None
        rig.driver.stop(container, 1)

    def test_started_after_a_stop(self, rig: Rig) -> None:
        container = rig.running()
        rig.driver.stop(container, 0)
        rig.driver.start(container)
        state = rig.state(container)
        assert (state.status, state.exit_code, state.finished_at) == (Status.RUNNING, None, None)

    def test_kill(self, rig: Rig) -> None:
        container = rig.running()
        rig.driver.kill(container)
        state = wait_for(lambda: (found := rig.state(container)).pid == 0 and found)
        assert (state.status, state.exit_code) == (Status.STOPPED, 137)

    @pytest.mark.parametrize("how", ["kill", "stop", "delete"])
    def test_what_ends_a_container_ends_its_stop(self, rig: Rig, how: str) -> None:
        container = rig.running(command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
        with ThreadPoolExecutor(1) as other:
            stopped = other.submit(rig.driver.stop, container, 3600)
            if how == "kill":
                rig.driver.kill(container)
            elif how == "stop":
                rig.driver.stop(container, 0)
            else:
                rig.driver.delete(container, force=True)
            assert stopped.exception(60) is None or how == "delete"  # it may have come after that
        state = rig.driver.show(container)
        assert state is None if how == "delete" else (state and (state.pid, state.exit_code) == (0, 137))

    def test_signal_that_ends_nothing(self, rig: Rig) -> None:
        container = rig.running()
        pid = rig.state(container).pid
        rig.driver.kill(container, "SIGHUP")
        assert rig.state(container).pid == pid

    @pytest.mark.parametrize("signal", ["SIGFOO", "99"])
    def test_no_such_signal(self, rig: Rig, signal: str) -> None:
        container = rig.running()
        with pytest.raises(exceptions.InvalidValue, match=signal):
            rig.driver.kill(container, signal)

    def test_pause_and_unpause(self, rig: Rig) -> None:
        container = rig.running()
        pid = rig.state(container).pid
        rig.driver.pause(container)
        assert (rig.state(container).status, rig.state(container).pid) == (Status.PAUSED, pid)
        for operation in ("pause", "start", "execute"):
            with pytest.raises(exceptions.Conflict):
                OPERATIONS[operation](rig.driver, container)
        rig.driver.unpause(container)
        assert (rig.state(container).status, rig.state(container).pid) == (Status.RUNNING, pid)
        with pytest.raises(exceptions.Conflict):
            rig.driver.unpause(container)

    def test_reboot(self, rig: Rig) -> None:
        container = rig.running()
        before = rig.state(container)
        rig.driver.reboot(container, 0)
        after = rig.state(container)
        assert after.status is Status.RUNNING
        assert after.pid != before.pid
        assert after.container_id == before.container_id
        view = rig.driver.kernel_view(container, after)
        assert view is not None and view.cpus == CpuSet("1")

    @pytest.mark.parametrize("never", [True, False], ids=["created", "stopped"])
    def test_reboot_starts_what_does_not_run(self, rig: Rig, never: bool) -> None:
        container = rig.created() if never else rig.running()
        if not never:
            rig.driver.stop(container, 0)
        rig.driver.reboot(container, 0)
        assert rig.state(container).status is Status.RUNNING

    @pytest.mark.parametrize("operation", NEED_A_PROCESS)
    def test_needs_a_process(self, rig: Rig, operation: str) -> None:
        container = rig.created()
        with pytest.raises(exceptions.Conflict):
            OPERATIONS[operation](rig.driver, container)

    @pytest.mark.parametrize("operation", sorted(OPERATIONS))
    def test_no_such_object(self, rig: Rig, operation: str) -> None:
        container = rig.sample()
        with pytest.raises(exceptions.ContainerVanished, match=container.uuid):
            OPERATIONS[operation](rig.driver, container)

    def test_show_no_such_object(self, rig: Rig) -> None:
        assert rig.driver.show(rig.sample()) is None

    def test_failure_is_restarted_as_often_as_asked(self, rig: Rig) -> None:
        policy = {"Name": "on-failure", "MaximumRetryCount": "1"}
        container = rig.sample(command=["false"], restart_policy=policy)
        rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        with listening(rig.driver) as inbox:
            rig.driver.start(container)
            starts = 0
            while starts < 2:
                event = inbox.get(timeout=60)
                starts += (event.uuid, event.action) == (container.uuid, "start")
        state = wait_for(lambda: (found := rig.state(container)).status is Status.STOPPED and found)
        assert state.exit_code == 1

    @pytest.mark.parametrize("how", ["stop", "SIGKILL", "SIGTERM", "SIGHUP"])
    def test_the_loop_of_restarts_can_be_ended(self, rig: Rig, how: str) -> None:
        container = rig.sample(command=["false"], restart_policy={"Name": "always"})
        rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
        rig.driver.start(container)
        looping = wait_for(lambda: (found := rig.state(container)).status is Status.RESTARTING and found)
        assert (looping.pid, looping.exit_code) == (0, 1) and looping.finished_at is not None
        if how == "stop":
            rig.driver.stop(container, 0)
        else:
            rig.driver.kill(container, how)
        state = wait_for(lambda: (found := rig.state(container)).status is Status.STOPPED and found)
        assert state.exit_code == 1

    # Removing

    def test_delete(self, rig: Rig) -> None:
        container = rig.created()
        rig.driver.delete(container)
        assert rig.driver.show(container) is None
        assert container.uuid not in rig.driver.list()
        rig.driver.delete(container)

    def test_delete_of_a_running_one_needs_force(self, rig: Rig) -> None:
        container = rig.running()
        with pytest.raises(exceptions.Conflict):
            rig.driver.delete(container)
        state = rig.state(container)
        assert state.status is Status.RUNNING
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None
        assert rig.driver.kernel_view(container, state) is None

    def test_force_deletes_a_paused_one(self, rig: Rig) -> None:
        container = rig.running()
        rig.driver.pause(container)
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None

    def test_auto_remove(self, rig: Rig) -> None:
        container = rig.running(auto_remove=True)
        rig.driver.stop(container, 0)
        wait_for(lambda: rig.driver.show(container) is None)
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None

    def test_delete_while_it_removes_itself(self, rig: Rig) -> None:
        container = rig.running(auto_remove=True)
        rig.driver.kill(container)
        rig.driver.delete(container, force=True)
        assert rig.driver.show(container) is None

    # Limits

    def test_update_moves_a_running_one(self, rig: Rig) -> None:
        container = rig.running()
        before = rig.state(container)
        for cpus in ("0", "0-1", "1"):
            rig.driver.update(container, cpuset_cpus=cpus, cpuset_mems="0")
            after = rig.state(container)
            assert (after.pid, after.cpuset_cpus) == (before.pid, cpus)
            view = rig.driver.kernel_view(container, after)
            assert view is not None
            assert (view.cpus, view.cgroup_cpus) == (CpuSet(cpus), CpuSet(cpus))

    @pytest.mark.parametrize("paused", [True, False], ids=["paused", "stopped"])
    def test_update_of_one_that_does_not_run(self, rig: Rig, paused: bool) -> None:
        container = rig.running()
        if paused:
            rig.driver.pause(container)
        else:
            rig.driver.stop(container, 0)
        rig.driver.update(container, cpuset_cpus="0")
        if paused:
            rig.driver.unpause(container)
        else:
            rig.driver.start(container)
        view = rig.driver.kernel_view(container, rig.state(container))
        assert view is not None and view.cpus == CpuSet("0")

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"cpuset_cpus": ""}, exceptions.Invalid),
            ({"cpuset_mems": " "}, exceptions.Invalid),
            ({"cpuset_cpus": "77"}, exceptions.DockerError),
            ({"cpuset_cpus": "0", "cpuset_mems": "9"}, exceptions.DockerError),
        ],
    )
    def test_refused_update_changes_nothing(self, rig: Rig, change: dict[str, Any], error: type[Exception]) -> None:
        container = rig.running()
        before = rig.state(container)
        with pytest.raises(error):
            rig.driver.update(container, **change)
        assert rig.state(container) == before
        view = rig.driver.kernel_view(container, before)
        assert view is not None and view.cpus == CpuSet("1")

    @pytest.mark.parametrize("memory", [16, 64])
    def test_update_memory(self, rig: Rig, memory: int) -> None:
        container = rig.running()
        assert rig.driver.stats(container)["MEM LIMIT(MiB)"] == 32
        rig.driver.update(container, memory=memory)
        assert rig.driver.stats(container)["MEM LIMIT(MiB)"] == memory

    # Looking in

    @pytest.mark.parametrize(
        ("command", "expected"),
        [(["echo", "hello", "there"], ("hello there\n", 0)), (["true"], ("", 0)), (["false"], ("", 1))],
    )
    def test_execute(self, rig: Rig, command: list[str], expected: tuple[str, int]) -> None:
        assert rig.driver.execute(rig.running(), command, 5) == expected

    def test_execute_is_given_up(self, rig: Rig) -> None:
        container = rig.running()
        with pytest.raises(exceptions.Conflict, match=r"0\.3 s"):
            rig.driver.execute(container, ["sleep", "1000"], 0.3)
        assert rig.driver.execute(container, ["echo", "alive"], 5) == ("alive\n", 0)

    def test_command_that_ends_is_killed(self, rig: Rig) -> None:
        container = rig.running()
        with pytest.raises(exceptions.Conflict, match=r"0\.3 s.* was killed"):
            rig.driver.execute(container, ["sleep", "1234"], 0.3, ends=True)
        wait_for(lambda: not any("sleep 1234" in each["args"] for each in rig.driver.top(container)))
        assert rig.state(container).status == Status.RUNNING

    @pytest.mark.parametrize("host", [None, "localhost", "127.0.0.1", "::1"])
    def test_nothing_answers_at_a_port(self, rig: Rig, host: str | None) -> None:
        with pytest.raises(OSError):  # a network without IPv6 refuses in other words
            rig.driver.connect(rig.running(), host, 9, 5)

    def test_connect_needs_a_process(self, rig: Rig) -> None:
        with pytest.raises(exceptions.Conflict, match="not running"):
            rig.driver.connect(rig.created(), None, 9, 5)

    # Terminals

    def test_attach(self, rig: Rig) -> None:
        stream = rig.driver.attach(rig.running(command=["cat"], interactive=True))
        every_byte = bytes(each for each in range(256) if each != 4)
        stream.send(every_byte)
        heard = b""
        while len(heard) < len(every_byte):
            heard += stream.receive()
        assert heard == every_byte
        stream.close()
        stream.close()
        assert stream.receive() == b""

    def test_close_ends_a_waiting_receive(self, rig: Rig) -> None:
        stream = rig.driver.attach(rig.running(command=["cat"], interactive=True))
        heard: list[bytes] = []
        waiting = threading.Thread(target=lambda: heard.append(stream.receive()))
        waiting.start()
        stream.close()
        waiting.join(60)
        assert heard == [b""]

    def test_attach_to_one_that_does_not_run(self, rig: Rig) -> None:
        with pytest.raises(exceptions.Conflict):
            rig.driver.attach(rig.created(interactive=True))
        with pytest.raises(exceptions.ContainerVanished):
            rig.driver.attach(rig.sample())

    def test_a_command_with_a_terminal(self, rig: Rig) -> None:
        container = rig.running()
        exec_id = rig.driver.create_exec(container, ["cat"], interactive=True)
        assert len(exec_id) == 64
        stream = rig.driver.open_exec(container, exec_id)
        rig.driver.resize_exec(container, exec_id, width=80, height=24)
        stream.send(b"hello\n")
        heard = b""
        while b"hello" not in heard:
            heard += stream.receive()
        stream.send(b"\x04")
        while stream.receive():
            pass
        assert stream.exit_code() == 0
        with pytest.raises(exceptions.Conflict):
            rig.driver.open_exec(container, exec_id)

    @pytest.mark.parametrize(("command", "code"), [(["true"], 0), (["false"], 1)])
    def test_a_command_that_has_ended_is_resized(self, rig: Rig, command: list[str], code: int) -> None:
        """A client tells the size as soon as it is connected; a short command has ended by then."""
        container = rig.running()
        exec_id = rig.driver.create_exec(container, command, interactive=True)
        stream = rig.driver.open_exec(container, exec_id)
        rig.driver.resize_exec(container, exec_id, width=80, height=24)
        assert stream.receive() == b""
        assert stream.exit_code() == code
        rig.driver.resize_exec(container, exec_id, width=80, height=24)
        stream.close()

    def test_a_process_that_is_attached_to_has_no_exit_code(self, rig: Rig) -> None:
        stream = rig.driver.attach(rig.running(command=["cat"], interactive=True))
        assert stream.exit_code() is None
        stream.close()

    def test_a_command_belongs_to_its_container(self, rig: Rig) -> None:
        one, other = rig.running(), rig.running()
        exec_id = rig.driver.create_exec(one, ["cat"], interactive=True)
        for wrong in (exec_id, "ab" * 32):
            with pytest.raises(exceptions.InvalidValue):
                rig.driver.open_exec(other, wrong)
            with pytest.raises(exceptions.InvalidValue):
                rig.driver.resize_exec(other, wrong, width=80, height=24)

    def test_a_command_in_one_that_does_not_run(self, rig: Rig) -> None:
        with pytest.raises(exceptions.Conflict):
            rig.driver.create_exec(rig.created(), ["cat"], interactive=True)

    def test_resize(self, rig: Rig) -> None:
        container = rig.running(tty=True)
        rig.driver.resize(container, width=132, height=43)
        rig.driver.stop(container, 0)
        rig.driver.resize(container, width=132, height=43)
        with pytest.raises(exceptions.Conflict):
            rig.driver.resize(rig.created(tty=True), width=132, height=43)

    def test_logs(self, rig: Rig) -> None:
        container = rig.running(command=["echo", "one line"])
        wait_for(lambda: rig.state(container).status is Status.STOPPED)
        assert rig.driver.logs(container) == "one line\n"
        assert rig.driver.logs(container, tail="1") == "one line\n"
        assert rig.driver.logs(container, tail=0) == ""
        assert rig.driver.logs(container, tail="many") == "one line\n"
        assert rig.driver.logs(container, stdout=False) == ""
        assert rig.driver.logs(container, since="2999-01-01 00:00:00,000") == ""
        assert rig.driver.logs(container, since=1) == "one line\n"
        stamp, _, text = rig.driver.logs(container, timestamps=True).partition(" ")
        assert text == "one line\n"
        assert datetime.fromisoformat(stamp).utcoffset() == timedelta(0)

    def test_logs_of_a_created_one_are_empty(self, rig: Rig) -> None:
        assert rig.driver.logs(rig.created()) == ""

    def test_logs_reject_a_malformed_since(self, rig: Rig) -> None:
        with pytest.raises(exceptions.InvalidValue, match="yesterday"):
            rig.driver.logs(rig.created(), since="yesterday")

    def test_top(self, rig: Rig) -> None:
        container = rig.running()

        def commands() -> list[str]:
            found = rig.driver.top(container)
            assert all(tuple(each) == tuple(FIELDS) and each["pid"].isdigit() for each in found)
            return [each["args"] for each in found]

        wait_for(lambda: commands() == ["sleep 1000"])  # Docker says that it runs while it is still runc

    def test_top_shows_no_other_container(self, rig: Rig) -> None:
        container, other = rig.running(), rig.running(command=["sleep", "2000"])
        wait_for(lambda: [each["args"] for each in rig.driver.top(other)] == ["sleep 2000"])
        wait_for(lambda: [each["args"] for each in rig.driver.top(container)] == ["sleep 1000"])

    def test_stats(self, rig: Rig) -> None:
        found = rig.driver.stats(rig.running(name="measured"))
        assert set(found) == {
            "CONTAINER",
            "CPU %",
            "MEM USAGE(MiB)",
            "MEM LIMIT(MiB)",
            "MEM %",
            "BLOCK I/O(B)",
            "NET I/O(B)",
        }
        assert found["CONTAINER"] == "measured"
        assert found["MEM LIMIT(MiB)"] == 32
        assert 0 <= found["MEM USAGE(MiB)"] < 32  # the kernel counts in batches: 0 is possible at first
        assert found["MEM %"] == pytest.approx(found["MEM USAGE(MiB)"] / 32 * 100, abs=1e-5)  # both are rounded
        assert 0 <= found["CPU %"] <= 100
        for member in ("BLOCK I/O(B)", "NET I/O(B)"):
            first, second = found[member].split("/")
            assert int(first) >= 0 and int(second) >= 0

    # Several hosts, several containers

    def test_huge_pages_need_a_process(self, rig: Rig) -> None:
        container = rig.created()
        rig.driver.limit_pages(container, rig.state(container), {})
        assert rig.driver.huge_pages(container, rig.state(container)) is None

    def test_huge_pages_of_a_process(self, rig: Rig) -> None:
        container = rig.running()
        rig.driver.limit_pages(container, rig.state(container), {})
        view = rig.driver.huge_pages(container, rig.state(container))
        assert view is not None and view.mounted is None
        assert view.limits is None or set(view.limits.values()) == {0}  # None: this kernel cannot limit them

    def test_list_tells_every_state(self, rig: Rig) -> None:
        created, running, stopped = rig.created(), rig.running(), rig.running()
        rig.driver.stop(stopped, 0)
        found = rig.driver.list()
        assert [found[each.uuid].status for each in (created, running, stopped)] == [
            None,
            Status.RUNNING,
            Status.STOPPED,
        ]
        assert found[running.uuid] == rig.state(running)

    def test_hosts_on_one_daemon_do_not_see_each_other(self, rig: Rig) -> None:
        container = rig.running()
        assert rig.neighbour.show(container) is None
        assert container.uuid not in rig.neighbour.list()
        name = rig.driver.facts().name
        assert container.uuid in rig.neighbour.of_other_hosts()[name] == rig.driver.list().keys()
        assert name not in rig.driver.of_other_hosts()
        with pytest.raises(exceptions.ContainerAlreadyExists):
            rig.neighbour.create(container, cpuset_cpus="0", cpuset_mems="0")
        rig.neighbour.delete(container, force=True)
        assert rig.state(container).status is Status.RUNNING

    def test_events(self, rig: Rig) -> None:
        container = rig.sample()
        with listening(rig.driver) as inbox, listening(rig.neighbour) as elsewhere:
            rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0")
            rig.driver.start(container)
            rig.driver.pause(container)
            rig.driver.unpause(container)
            rig.driver.update(container, cpuset_cpus="0")
            rig.driver.kill(container)
            assert actions_until(inbox, container, "die") == ["start", "pause", "unpause", "die"]
            rig.driver.delete(container, force=True)
            assert actions_until(inbox, container, "destroy") == ["destroy"]
            assert elsewhere.empty()

    def test_threads_share_a_driver(self, rig: Rig) -> None:
        containers = [rig.sample() for _ in range(6)]
        failures: list[BaseException] = []

        def live(container: Sample) -> None:
            try:
                rig.driver.create(container, cpuset_cpus="0", cpuset_mems="0")
                rig.driver.start(container)
                assert rig.driver.execute(container, ["echo", container.uuid], 20) == (container.uuid + "\n", 0)
                rig.driver.delete(container, force=True)
            except BaseException as exc:
                failures.append(exc)

        threads = [threading.Thread(target=live, args=(container,)) for container in containers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert failures == []
        assert not {container.uuid for container in containers} & set(rig.driver.list())

    @pytest.mark.parametrize("running", [False, True])
    def test_files_there_and_back(self, rig: Rig, running: bool) -> None:
        container = rig.running() if running else rig.created()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            info = tarfile.TarInfo("written")
            info.size = 5
            tar.addfile(info, io.BytesIO(b"hello"))
        raw = packed.getvalue()
        rig.driver.put_archive(container, "/tmp", (raw[start : start + 700] for start in range(0, len(raw), 700)))
        chunks, stat = rig.driver.get_archive(container, "/tmp")
        assert stat["name"] == "tmp"
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            (name,) = (name for name in tar.getnames() if name.endswith("written"))
            member = tar.extractfile(name)
            assert member is not None and member.read() == b"hello"

    def test_no_such_file(self, rig: Rig) -> None:
        with pytest.raises(exceptions.InvalidValue, match="/nothing"):
            rig.driver.get_archive(rig.created(), "/nothing")

    def test_files_of_no_such_object(self, rig: Rig) -> None:
        with pytest.raises(exceptions.ContainerVanished):
            rig.driver.get_archive(rig.sample(), "/tmp")
        with pytest.raises(exceptions.ContainerVanished):
            rig.driver.put_archive(rig.sample(), "/tmp", iter([b""]))

    def test_an_image_by_another_name(self, rig: Rig) -> None:
        container = rig.sample(image="zun-no-such-image")
        rig.driver.create(container, cpuset_cpus="1", cpuset_mems="0", image="zun-demo")
        rig.driver.start(container)
        assert rig.state(container).status == Status.RUNNING

    def test_an_image_that_nobody_has_is_removed(self, rig: Rig) -> None:
        rig.driver.remove_image("zun-no-such-image:1")
        assert rig.driver.find_image("zun-no-such-image:1") is None

    def test_image_on_the_host(self, rig: Rig) -> None:
        facts = rig.driver.find_image("zun-demo")
        assert facts is not None and facts.image_id.startswith("sha256:")
        assert facts == rig.driver.find_image("zun-demo") == rig.driver.find_image(facts.image_id)
        assert set(facts.digests) <= set(rig.driver.image_digests())
        assert {each.size for each in rig.driver.images_of("zun-demo")} <= {facts.size}

    def test_image_that_is_not_on_the_host(self, rig: Rig) -> None:
        assert rig.driver.find_image("zun-no-such-image:1") is None

    def test_an_image_saved_and_loaded_by_another_name(self, rig: Rig) -> None:
        archive = io.BytesIO(b"".join(rig.driver.save_image("zun-demo")))
        rig.driver.load_image(Renamed(archive, "zun-loaded:1"))
        try:
            [loaded] = rig.driver.images_of("zun-loaded")
            found, origin = rig.driver.find_image("zun-loaded:1"), rig.driver.find_image("zun-demo")
            assert found is not None and origin is not None
            assert (loaded.tags, loaded.image_id, loaded.size) == (("1",), found.image_id, found.size)
            assert (found.command, found.entrypoint) == (origin.command, origin.entrypoint)
        finally:
            rig.driver.remove_image("zun-loaded:1")
        assert rig.driver.images_of("zun-loaded") == []

    def test_an_image_that_cannot_be_saved(self, rig: Rig) -> None:
        with pytest.raises(exceptions.ZunError, match="zun-no-such-image"):
            list(rig.driver.save_image("zun-no-such-image:1"))

    def test_what_is_no_image_is_not_loaded(self, rig: Rig) -> None:
        with pytest.raises(exceptions.Invalid, match="load"):
            rig.driver.load_image([b"no archive" * 100])

    def test_another_name_for_an_image(self, rig: Rig) -> None:
        rig.driver.tag_image("zun-demo", "localhost/zun-demo-tagged:1")
        try:
            assert rig.driver.find_image("localhost/zun-demo-tagged:1") == rig.driver.find_image("zun-demo")
        finally:
            rig.driver.remove_image("localhost/zun-demo-tagged:1")

    def test_ping(self, rig: Rig) -> None:
        rig.driver.ping()

    def test_facts(self, rig: Rig) -> None:
        mine, theirs = rig.driver.facts(), rig.neighbour.facts()
        assert mine.name != theirs.name
        assert mine.cpus >= 2
        assert mine.mem_total_mib > 0
        assert {"runc", "crun"} & set(mine.runtimes)
        assert mine.os_type == "linux"
