# SPDX-License-Identifier: Apache-2.0
"""When a request that waits for the moves of others is decided again."""

import pytest

from zun.common.context import RequestContext
from zun.db import container_actions
from zun.scheduler.rearranger import DEADLINE, Rearranger, _Waiting


@pytest.fixture
def moving(monkeypatch):
    """The actions that are wanted of each container."""
    wanted = {}
    monkeypatch.setattr(container_actions, "wanted", lambda uuid: wanted.get(uuid, []))
    return wanted


def test_a_request_is_ready_once_its_moves_have_ended(moving):
    now = [0.0]
    rearranger = Rearranger(None, (), None, clock=lambda: now[0])
    context = RequestContext()
    rearranger._waiting["big"] = _Waiting(context, context.request_id, ("a", "b"), DEADLINE)
    moving["b"] = [{"action": "move", "request_id": context.request_id}]
    assert rearranger.ready() == []
    moving["b"] = [{"action": "stop", "request_id": context.request_id}, {"action": "move", "request_id": "req-other"}]
    assert rearranger.ready() == [(context, "big")]
    assert rearranger.ready() == []


def test_a_request_does_not_wait_for_ever(moving):
    now = [0.0]
    rearranger = Rearranger(None, (), None, clock=lambda: now[0])
    context = RequestContext()
    rearranger._waiting["big"] = _Waiting(context, context.request_id, ("a",), DEADLINE)
    moving["a"] = [{"action": "move", "request_id": context.request_id}]
    now[0] = DEADLINE - 1
    assert rearranger.ready() == []
    now[0] = DEADLINE
    assert rearranger.ready() == [(context, "big")]
