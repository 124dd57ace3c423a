# SPDX-License-Identifier: Apache-2.0
"""Looking at containers when the runtime tells of them: never two at once, and nothing is missed."""

import threading

import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions
from zun.compute import watch
from zun.compute.watch import Looks, follow
from zun.container.driver import RESYNC, RuntimeEvent
from zun.tests.fixtures import wait_for

SECONDS = 60


class Eyes:
    """Looks that last until they are let go, one after another."""

    def __init__(self):
        self.seen, self.errors = [], []
        self._goes = threading.Semaphore(0)

    def look(self, uuid):
        self.seen.append(uuid)
        assert self._goes.acquire(timeout=SECONDS)
        if self.errors:
            raise self.errors.pop()

    def go(self, times=1):
        self._goes.release(times)


@pytest.fixture
def eyes():
    return Eyes()


@pytest.fixture
def looks(eyes):
    looks = Looks(eyes.look, workers=3)
    yield looks
    eyes.go(100)
    looks.stop()


def test_what_comes_during_a_look_brings_one_more(eyes, looks):
    looks.at("a")
    wait_for(lambda: eyes.seen == ["a"])
    for _ in range(20):
        looks.at("a")
    eyes.go()
    wait_for(lambda: eyes.seen == ["a", "a"])
    looks.at("b")
    wait_for(lambda: len(eyes.seen) == 3)
    assert eyes.seen == ["a", "a", "b"]  # of those before, none is left
    eyes.go(2)
    looks.at("a")
    wait_for(lambda: len(eyes.seen) > 3)
    assert eyes.seen[3:] in (["a"], ["a", "a"])


def test_one_container_does_not_keep_others_waiting(eyes, looks):
    looks.at("a")
    looks.at("a")
    looks.at("b")
    looks.at("c")
    wait_for(lambda: len(eyes.seen) == 3)
    assert sorted(eyes.seen) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [exceptions.Unavailable("no daemon"), ValueError("a defect")])
def test_a_look_that_fails_is_not_the_last(eyes, looks, error):
    eyes.errors.append(error)
    looks.at("a")
    eyes.go()
    wait_for(lambda: eyes.errors == [])
    looks.at("a")
    wait_for(lambda: len(eyes.seen) == 2)
    assert eyes.seen == ["a", "a"]


def test_a_database_that_is_away_is_no_defect(eyes, looks, caplog):
    eyes.errors.append(db_exc.DBConnectionError(RuntimeError("Lost connection\n[SQL: SELECT 1]")))
    looks.at("a")
    eyes.go()
    (record,) = wait_for(lambda: caplog.records)
    said = "Container a could not be looked at: Lost connection"
    assert (record.levelname, record.getMessage(), record.exc_info) == ("WARNING", said, None)


def test_after_a_stop_nobody_looks(eyes, looks):
    eyes.go(100)
    looks.at("a")
    looks.stop()
    looks.at("b")
    assert set(eyes.seen) <= {"a"}


def test_following():
    told = [RuntimeEvent("", RESYNC), RuntimeEvent("a", "die"), RuntimeEvent("", RESYNC), RuntimeEvent("b", "oom")]
    stop, seen = threading.Event(), []

    class Source:
        def events(self, stop):
            yield from told
            stop.set()
            yield RuntimeEvent("c", "die")

    follow(Source(), stop, one=seen.append, every=lambda: seen.append("every"))
    assert seen == ["every", "a", "every", "b"]


def test_a_defect_does_not_end_it(monkeypatch):
    monkeypatch.setattr(watch, "ANEW_SECONDS", 0)
    stop, seen, streams = threading.Event(), [], []

    class Source:
        def events(self, stop):
            streams.append(1)
            yield RuntimeEvent("", RESYNC)
            if len(streams) < 3:
                raise AttributeError("a defect of the stream")
            yield RuntimeEvent("a", "die")
            stop.set()

    follow(Source(), stop, one=seen.append, every=lambda: seen.append("every"))
    assert seen == ["every", "every", "every", "a"]
