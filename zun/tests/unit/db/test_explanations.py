# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions
from zun.db import containers, explanations
from zun.tests.unit.db.rows import container, explained, node

pytestmark = pytest.mark.usefixtures("database")

RECORD = {"reason": "full", "codes": {"cpus": 2}, "changes": [], "details": [{"host": "h1", "free": [{"node": 0}]}]}


def test_a_record_is_kept_as_it_is_and_the_last_one_counts():
    row = container()
    explained(row["uuid"], {"reason": "another"})
    explained(row["uuid"], RECORD)
    found = explanations.get(row["uuid"])
    assert (found["record"], found["container_uuid"]) == (RECORD, row["uuid"])
    assert found["created_at"] is not None


def test_what_was_never_explained_is_not_found():
    with pytest.raises(exceptions.ExplanationNotFound):
        explanations.get(container()["uuid"])


def test_each_container_has_its_own():
    first, second = container(), container()
    explained(first["uuid"], RECORD)
    explained(second["uuid"], {"reason": "mine"})
    containers.destroy(first["uuid"])
    assert explanations.get(second["uuid"])["record"] == {"reason": "mine"}
    with pytest.raises(exceptions.ExplanationNotFound):
        explanations.get(first["uuid"])


def test_it_goes_with_its_container():
    unplaced, placed = container(), container(status="Error", host="h1")
    node("h1")
    for row in (unplaced, placed):
        explained(row["uuid"], RECORD)
    assert containers.destroy_unplaced(unplaced["uuid"])
    assert not containers.destroy_unplaced(placed["uuid"])
    assert explanations.get(placed["uuid"])["record"] == RECORD
    containers.destroy(placed["uuid"])
    for row in (unplaced, placed):
        with pytest.raises(exceptions.ExplanationNotFound):
            explanations.get(row["uuid"])


def test_what_ends_without_a_host_has_its_reason_and_keeps_it():
    row = container()
    assert containers.end_unplaced(row["uuid"], "full", RECORD)
    assert not containers.end_unplaced(row["uuid"], "mine", {"reason": "mine"})
    ended = containers.get(row["uuid"])
    assert (ended["status"], ended["status_reason"]) == ("Error", "full")
    assert explanations.get(row["uuid"])["record"] == RECORD


@pytest.mark.parametrize("fields", [{"host": "h1"}, {"status": "Deleting"}])
def test_what_somebody_else_has_decided_about_is_not_ended(fields):
    row = container(**fields)
    assert not containers.end_unplaced(row["uuid"], "full", RECORD)
    assert containers.get(row["uuid"])["status"] == row["status"]
    with pytest.raises(exceptions.ExplanationNotFound):
        explanations.get(row["uuid"])
