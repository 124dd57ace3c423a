# SPDX-License-Identifier: Apache-2.0
import io
import types

import pytest
from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions

from zun.common import states
from zun.osc import waiting
from zun.osc.waiting import GONE, QUIET, Seen


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Time passes only where one pauses."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def pause(self, seconds):
        assert 0 < seconds <= waiting.LONGEST_PAUSE
        self.now += seconds


def wait(looks, out=None):
    clock, left = Clock(), iter(looks)
    waiting.wait(lambda: next(left), "Waiting", out=out or io.StringIO(), pause=clock.pause, clock=clock)
    return clock.now, list(left)


def test_it_looks_until_it_is_done_and_not_longer():
    unread = Seen(False)
    assert wait([Seen(False), Seen(False), Seen(True), unread])[1] == [unread]


def test_a_failure_ends_it():
    with pytest.raises(exceptions.CommandError, match="no such luck"):
        wait([Seen(False), Seen(False, failed="no such luck"), Seen(True)])


def test_wait_ends_only_when_nothing_is_under_way():
    long = int(QUIET * 3 / waiting.LONGEST_PAUSE)
    assert wait([*[Seen(False)] * long, Seen(True)])[0] > QUIET
    with pytest.raises(exceptions.CommandError, match="nothing has been under way"):
        wait([*[Seen(False, busy=False)] * long, Seen(True)])


def test_nothing_but_restarts_end_the_wait():
    loop = Seen(False, stuck="it ends again and again")
    looks = int(waiting.PATIENCE * 3 / waiting.LONGEST_PAUSE)
    with pytest.raises(waiting.Stuck, match="again and again"):
        wait([loop] * looks)
    assert wait([loop, loop, Seen(False), loop, Seen(True)])[0] < waiting.PATIENCE
    assert wait([*[loop, Seen(False)] * looks, Seen(True)])[0] > waiting.PATIENCE


def test_the_bar_is_drawn_on_a_terminal_and_cleared():
    out = Terminal()
    wait([Seen(False, text="asking"), Seen(False, text="Pulling: 40 %, 1 of 3 layers"), Seen(True)], out)
    asking, pulling, end = out.getvalue().split("\r")[1:4]
    assert "[|] asking" in asking
    assert f"[{'=' * 12}{' ' * 18}]  40 %" in pulling
    assert end.strip() == "" and len(end) == len(pulling.rstrip())


def test_elsewhere_nothing_is_drawn():
    out = io.StringIO()
    wait([Seen(False, text="40 %"), Seen(True)], out)
    assert out.getvalue() == ""


def client(**shown):
    def get(name, **query):
        if not shown:
            raise zun_exceptions.NotFound()
        return types.SimpleNamespace(**{"task_state": None, "status_reason": None, "status_detail": None, **shown})

    return types.SimpleNamespace(containers=types.SimpleNamespace(get=get))


@pytest.mark.parametrize(
    ("shown", "wanted", "seen"),
    [
        ({"status": "Running"}, ["Running"], Seen(True)),
        ({"status": "Creating", "status_detail": "12 %"}, ["Running"], Seen(False, True, None, "12 %")),
        ({"status": None}, ["Running"], Seen(False, True, None, "status Creating")),
        (
            {"status": "Running", "task_state": "container_stopping"},
            ["Stopped"],
            Seen(False, True, None, "status Running"),
        ),
        ({"status": "Running"}, ["Stopped"], Seen(False, False, None, "status Running")),
        (
            {"status": "Error", "status_reason": "no host"},
            ["Running"],
            Seen(False, False, "container c is in status Error: no host", "status Error"),
        ),
        (
            {"status": "Restarting", "status_reason": "exit code 3"},
            ["Running"],
            Seen(
                False,
                True,
                None,
                "status Restarting",
                "container c ends again and again, and its restart policy starts it each time: exit code 3",
            ),
        ),
        (
            {"status": "Restarting", "task_state": "container_rebooting"},
            ["Running"],
            Seen(False, True, None, "status Restarting"),
        ),
        ({"status": "Error", "task_state": "container_deleting"}, [GONE], Seen(False, True, None, "status Error")),
        ({}, ["Running"], Seen(False, True, "container c is gone")),
        ({}, [GONE], Seen(True)),
    ],
)
def test_what_a_look_finds(shown, wanted, seen):
    assert waiting.until(client(**shown), "c", *wanted)() == seen


def test_busy_statuses_are_the_transitional_ones():
    """The client plugin does not import the service."""
    assert waiting.BUSY == states.TRANSITIONAL
