# SPDX-License-Identifier: Apache-2.0
"""Permits of claims: every service of one database agrees, and nobody else can write one."""

import json

import pytest

from zun.db import models, permits, session
from zun.db.permits import Permits

pytestmark = pytest.mark.usefixtures("database")
UUID, OTHER = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f", "7f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


def test_services_of_one_database_agree():
    permit = Permits().permit("h1", UUID)
    assert Permits().allows(permit, "h1", UUID)
    wrong = [("h2", UUID, permit), ("h1", OTHER, permit), ("h1", UUID, None), ("h1", UUID, permit[:-1] + "x")]
    assert [each for each in wrong if Permits().allows(each[2], *each[:2])] == []


def test_an_attempt_is_what_was_sent():
    sent = [{"h2": "full"}, [{"host": "h3", "limits": {"pages": {2048: 1, 10: 0.5}, "cpus": (0, 1)}}]]
    permit = Permits().attempt("h1", UUID, sent)
    returned = json.loads(json.dumps(sent))
    assert Permits().allows_refusal(permit, "h1", UUID, returned)
    wrong = [("h2", UUID, returned), ("h1", OTHER, returned), ("h1", UUID, [{}, returned[1]]), ("h1", UUID, [])]
    assert [each for each in wrong if Permits().allows_refusal(permit, *each)] == []
    assert not Permits().allows(permit, "h1", UUID)


def test_another_key_makes_another_permit():
    before = Permits().permit("h1", UUID)
    with session.writer() as connection:
        connection.execute(models.service_keys.delete())
    assert not Permits().allows(before, "h1", UUID)


def test_the_first_key_stays():
    """Two services start on a new database: the second one to write takes the key of the first."""
    first = permits._make()
    assert permits._make() == first == permits._read()
