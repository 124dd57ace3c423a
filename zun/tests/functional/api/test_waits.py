# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for others leave threads to the rest."""

import threading

import pytest

from zun.api import app as api_app
from zun.api.transfers import TooManyWait
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.tests.fixtures import wait_for
from zun.tests.functional.api.client import Client
from zun.tests.functional.api.messages import ARCHIVE
from zun.tests.unit.api.table import ROUTES


@pytest.fixture
def two_at_once(configuration, scheduler, compute, database):
    configuration.set_override("waiting_requests", 2, group="api")
    made = api_app.build(configuration, scheduler_api=scheduler, compute_api=compute)
    return Client(made, "alice", "demo", "member", "1.40")


@pytest.mark.usefixtures("host_row", "host_up")
def test_slow_commands_leave_threads_to_others(two_at_once, placed, compute, monkeypatch):
    """Sixteen of one member: two wait, the others are told so at once, and everybody else is answered."""
    release, replies = threading.Event(), []
    waiting = threading.Semaphore(0)

    def slow(context, container, command):
        waiting.release()
        assert release.wait(30)
        return "", 0

    monkeypatch.setattr(compute, "execute", slow)
    path = f"/v1/containers/{placed().uuid}/execute?command=sleep"
    threads = [threading.Thread(target=lambda: replies.append(two_at_once.post(path))) for _ in range(16)]
    for each in threads:
        each.start()
    try:
        assert waiting.acquire(timeout=30) and waiting.acquire(timeout=30)
        wait_for(lambda: len(replies) == 14, 30)
        assert {reply.status for reply in replies} == {429}
        assert replies[0].headers["retry-after"] == "1" and "2 requests of this project" in replies[0].error["detail"]
        assert two_at_once.get("/v1/containers").status == 200
        elsewhere = two_at_once.in_project("other")
        assert elsewhere.post(path).status == 404  # not 429
    finally:
        release.set()
        for each in threads:
            each.join()
    assert sorted(reply.status for reply in replies)[:2] == [200, 200]
    assert two_at_once.post(path).status == 200


@pytest.mark.usefixtures("host_row", "host_up")
def test_an_archive_waits_until_its_last_byte(two_at_once, placed, compute, monkeypatch):
    container, nested = placed().uuid, []

    def ask(what):
        return two_at_once.get(f"/v1/containers/{container}/{what}")

    def pieces():
        assert ask("top").status == 200
        yield ARCHIVE

    def top(*arguments, **names):
        nested.append(ask("stats").status)
        return {}

    monkeypatch.setattr(compute, "get_archive", lambda *arguments: ({}, pieces()))
    monkeypatch.setattr(compute, "top", top)
    assert ask("get_archive?path=/x").status == 200
    assert ask("top").status == 200
    assert nested == [429, 200]


#: Methods that return before the host has done anything.
CASTS = {
    *("create", "act", "look", "image_pull", "image_delete", "remove_volumes"),
    *("create_many", "create_set", "check_sets"),
    *("hand_over", "scheduler_seen", "claim_refused", "host_changed", "close"),
}


def test_whatever_waits_for_a_host_is_counted():
    """A new call of a host needs a word here, and a route that ``waits``."""
    calls = {name for kind in (ComputeAPI, SchedulerAPI) for name in vars(kind) if not name.startswith("_")}
    waiting = {route.path.rpartition("/")[2] for route in ROUTES if route.waits}
    asked = {
        "update": "{ident}",
        "prepare_exec": "execute",
        "resize_terminal": "resize",
        "image_search": "search",
        "find_moves": "defragment",
        "find_places": "drain",
        "can_act": None,  # asks nobody
        "recover": None,  # of the operator's command, not of the API
    }
    assert {asked.get(name, name) for name in calls - CASTS} - {None} <= waiting


def test_the_refusal_says_when_to_come_again():
    assert TooManyWait(8).headers == [("Retry-After", "1")]
