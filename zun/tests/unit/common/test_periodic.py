# SPDX-License-Identifier: Apache-2.0
import itertools
import threading

import kombu.exceptions
import pytest
from oslo_db import exception as db_exc

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
    assert first.enough.wait(60) and second.enough.wait(60)


def test_a_task_runs_again_and_again(run):
    task = Task(enough=4)
    run((task.run, OFTEN))
    assert task.enough.wait(60)


def test_a_failing_task_runs_again_and_harms_no_other(run):
    failing, other = Task(enough=4, error=RuntimeError("the database is away")), Task(enough=4)
    run((failing.run, OFTEN), (other.run, OFTEN))
    assert failing.enough.wait(60) and other.enough.wait(60)


@pytest.mark.parametrize(
    "away",
    [
        db_exc.DBConnectionError(RuntimeError("Lost connection\n[SQL: SELECT 1]")),
        kombu.exceptions.OperationalError("Lost connection"),
    ],
    ids=["database", "broker"],
)
def test_what_is_away_is_one_line_of_the_log(run, caplog, away):
    task = Task(enough=3, error=away)
    run((task.run, OFTEN))
    assert task.enough.wait(60)
    first, second = caplog.records[:2]  # of the runs before the third
    said = "Task.run failed and runs again in 0.01 s: Lost connection"
    for record in (first, second):
        assert (record.levelname, record.getMessage(), record.exc_info) == ("WARNING", said, None)


def test_a_defect_is_logged_with_its_traceback(run, caplog):
    task = Task(enough=3, error=RuntimeError("a defect"))
    run((task.run, OFTEN))
    assert task.enough.wait(60)
    assert all(record.exc_info and record.levelname == "ERROR" for record in caplog.records[:2])


def test_a_task_that_hangs_holds_up_no_other(run):
    release = threading.Event()
    other = Task(enough=4)
    run((lambda: release.wait(100), OFTEN), (other.run, OFTEN))
    assert other.enough.wait(60)
    release.set()


def test_stop_returns_only_after_the_last_run_has_ended(run):
    began, release, ended = threading.Event(), threading.Event(), []

    def task():
        began.set()
        release.wait(100)
        ended.append(True)

    periodic = run((task, RARELY))
    assert began.wait(60)
    stopping = threading.Thread(target=periodic.stop)
    stopping.start()
    stopping.join(0.2)  # a stop that does not wait returns in this time
    assert stopping.is_alive() and ended == []
    release.set()
    stopping.join(60)
    assert not stopping.is_alive() and ended == [True]
