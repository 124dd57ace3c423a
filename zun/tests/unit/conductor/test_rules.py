# SPDX-License-Identifier: Apache-2.0
"""The rules decide from facts, without a database. ``test_conductor.py`` of the functional tests reads real rows."""

import pytest

from zun.conductor.facts import Facts
from zun.conductor.rules import Call, asked_event, claimable
from zun.db.conductor import Owner


@pytest.mark.parametrize(
    ("owner", "permitted", "reason"),
    [
        pytest.param(Owner(None, waiting=True), True, None, id="sent-here"),
        pytest.param(Owner(None, waiting=True), False, "no scheduler sent container u there", id="not-sent"),
        pytest.param(Owner(None), True, "container u does not wait for a host", id="given-up"),
        pytest.param(Owner("one"), False, None, id="here-already"),
        pytest.param(Owner("two"), True, "container u is on host two", id="on-another-host"),
        pytest.param(None, False, None, id="gone"),
    ],
)
def test_a_claim_needs_a_waiting_container_and_a_permit(owner, permitted, reason):
    facts = Facts(container=lambda uuid: owner, permitted=lambda *_: permitted)
    assert claimable("one", Call("Container", "save_claim", key="u"), facts) == reason


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        pytest.param(Owner("one", request_id="other"), None, id="own-container"),
        pytest.param(Owner(None, request_id="mine"), None, id="given-up-and-asked"),
        pytest.param(Owner(None, request_id="other"), "the container of event 7 is on no host", id="not-asked"),
        pytest.param(Owner("two", request_id="mine"), "the container of event 7 is on host two", id="on-another-host"),
    ],
)
def test_a_host_ends_own_events_and_what_it_was_asked(owner, reason):
    call = Call("ContainerActionEvent", "finish", {"event_id": 7}, request_id="mine")
    assert asked_event("one", call, Facts(event=lambda ident: owner)) == reason


def test_a_row_that_was_just_read_is_not_read_again():
    facts = Facts(container=lambda uuid: Owner("read")).knowing({
        "uuid": "u", "host": "one", "capsule_uuid": None, "status": "Running",
    })
    assert (facts.container("u"), facts.container("v")) == (Owner("one"), Owner("read"))


def test_a_member_without_a_host_is_where_its_capsule_is():
    facts = Facts(container=lambda uuid: Owner("read"))
    assert facts.knowing({"uuid": "u", "host": None, "capsule_uuid": "c", "status": "Creating"}) is facts
