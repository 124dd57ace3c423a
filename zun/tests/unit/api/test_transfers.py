# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.api import transfers as limited
from zun.common import exceptions
from zun.tests.unit.db.rows import together


def is_full(transfers, project="demo"):
    try:
        with transfers.one(project):
            return False
    except exceptions.OverQuota:
        return True


def test_a_project_has_no_more_than_the_limit():
    transfers = limited.archives(2)
    with transfers.one("demo"), transfers.one("demo"):
        assert is_full(transfers) and not is_full(transfers, "other")
    assert not is_full(transfers)


def test_without_a_limit_nobody_is_refused():
    transfers = limited.archives(-1)
    with transfers.one("demo"):
        assert not is_full(transfers)


def test_pieces_count_until_they_are_used_up():
    transfers = limited.archives(1)
    pieces = transfers.counted("demo", lambda: [b"a", b"b"])
    assert is_full(transfers)
    assert b"".join(pieces) == b"ab"
    assert not is_full(transfers)


@pytest.mark.parametrize("taken", [0, 1])
def test_pieces_that_nobody_wants_count_until_closed(taken):
    transfers = limited.archives(1)
    pieces = transfers.counted("demo", lambda: [b"a", b"b"])
    for _ in range(taken):
        next(pieces)
    pieces.close()
    assert not is_full(transfers)


def test_a_transfer_that_fails_to_begin_counts_no_more():
    transfers = limited.archives(1)

    def fail():
        raise exceptions.Conflict("it stopped")

    with pytest.raises(exceptions.Conflict):
        transfers.counted("demo", fail)
    assert not is_full(transfers)


def test_transfers_that_begin_at_once_stop_at_the_limit():
    transfers = limited.archives(3)
    begun = together(8, lambda _number: transfers.counted("demo", lambda: [b"a"]))
    assert sum(isinstance(each, exceptions.OverQuota) for each in begun) == 5


def test_requests_that_wait_are_told_to_come_again():
    waits = limited.waits(1)
    with (
        waits.one("demo"),
        pytest.raises(limited.TooManyWait, match="1 requests of this project") as refused,
        waits.one("demo"),
    ):
        pass
    assert (refused.value.code, refused.value.headers) == (429, [("Retry-After", "1")])
