# SPDX-License-Identifier: Apache-2.0
import itertools
import threading

import pytest

from zun.common.periodic import Periodic

OFTEN, RARELY = 0.01, 3600  # seconds


@pytest.fixture
def run():
    started = []

    def run(*tasks):
        started.append(Periodic(list(tasks)))
        started[-1].start()
        return started[-1]

    yield run
    for each in started:
        each.stop()


class Task:
    """Counts its runs and tells when it has seen ``enough``."""

    def __init__(self, enough=1, error=None):
        self.enough = threading.Event()
        self._count = itertools.count(1)
        self._wanted = enough
        self._error = error

    def run(self):
        if next(self._count) >= self._wanted:
            self.enough.set()
        if self._error:
            raise self._error


def test_each_task_runs_at_once_on_start(run):
    first, second = Task(), Task()
    run((first.run, RARELY), (second.run, RARELY))
    assert first.enough.wait(10) and second.enough.wait(10)


def test_a_task_runs_again_and_again(run):
    task = Task(enough=4)
    run((task.run, OFTEN))
    assert task.enough.wait(10)


def test_a_failing_task_runs_again_and_harms_no_other(run):
    failing, other = Task(enough=4, error=RuntimeError("the database is away")), Task(enough=4)
    run((failing.run, OFTEN), (other.run, OFTEN))
    assert failing.enough.wait(10) and other.enough.wait(10)


def test_a_task_that_hangs_holds_up_no_other(run):
    release = threading.Event()
    other = Task(enough=4)
    run((lambda: release.wait(10), OFTEN), (other.run, OFTEN))
    assert other.enough.wait(5)
    release.set()


def test_stop_returns_only_after_the_last_run_has_ended(run):
    began, release, ended = threading.Event(), threading.Event(), []

    def task():
        began.set()
        release.wait(10)
        ended.append(True)

    periodic = run((task, RARELY))
    assert began.wait(10)
    stopping = threading.Thread(target=periodic.stop)
    stopping.start()
    stopping.join(0.2)  # a stop that does not wait returns in this time
    assert stopping.is_alive() and ended == []
    release.set()
    stopping.join(10)
    assert not stopping.is_alive() and ended == [True]
