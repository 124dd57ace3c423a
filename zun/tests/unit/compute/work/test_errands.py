# SPDX-License-Identifier: Apache-2.0
"""Errands in a queue whose work the test does by hand."""

import pytest
from oslo_context import context as current

from zun.common.context import RequestContext
from zun.compute.work.errands import KIND, Errands
from zun.compute.work.queue import Again, Key, Lane

CONTEXT = RequestContext(request_id="req-1", overwrite=False)


class ByHand:
    """Stands for the queue: keeps the keys that are put."""

    def __init__(self):
        self.keys = []

    def put(self, key, lane=Lane.OPERATION, after=0.0):
        self.keys.append(key)


@pytest.fixture
def queue():
    return ByHand()


@pytest.fixture
def errands(queue):
    made = Errands()
    made.use(queue)
    return made


def test_pieces_of_a_name_come_one_after_the_other(errands, queue):
    done = []
    for what in ("pull", "delete"):
        errands.put(CONTEXT, "image", what, lambda what=what: done.append(what))
    assert queue.keys == [Key(KIND, "image")] * 2 and errands.names() == {"image"}
    assert (errands.do("image"), done) == (Again(0), ["pull"])
    assert (errands.do("image"), done) == (None, ["pull", "delete"])
    assert (errands.do("image"), errands.names()) == (None, set())


def test_what_waits_already_waits_once(errands):
    done = []
    for number in range(3):
        errands.put(CONTEXT, "pool", "pool", lambda number=number: done.append(number))
    assert (errands.do("pool"), done) == (None, [0])


def test_what_is_asked_for_meanwhile_is_done_afterwards(errands):
    """What has begun may have read the state before the change that somebody tells of."""
    done = []

    def again():
        errands.put(CONTEXT, "inventory", "inventory", lambda: done.append("second"))
        assert errands.names() == {"inventory"}
        done.append("first")

    errands.put(CONTEXT, "inventory", "inventory", again)
    assert errands.do("inventory") == Again(0)
    assert (errands.do("inventory"), done) == (None, ["first", "second"])


def test_what_fails_is_done_again_before_the_rest(errands):
    done, failures = [], [ValueError("no")]

    def upload():
        if failures:
            raise failures.pop()
        done.append("upload")

    errands.put(CONTEXT, "image", "upload", upload)
    errands.put(CONTEXT, "image", "delete", lambda: done.append("delete"))
    with pytest.raises(ValueError, match="no"):
        errands.do("image")
    assert errands.names() == {"image"}
    assert [errands.do("image"), errands.do("image")] == [Again(0), None] and done == ["upload", "delete"]


def test_what_is_given_up_leaves_the_rest(errands, queue):
    done = []
    errands.put(CONTEXT, "image", "upload", lambda: 1 / 0)
    errands.put(CONTEXT, "image", "delete", lambda: done.append("delete"))
    with pytest.raises(ZeroDivisionError):
        errands.do("image")
    queue.keys.clear()
    errands.give_up("image")
    assert queue.keys == [Key(KIND, "image")]
    assert (errands.do("image"), done, errands.names()) == (None, ["delete"], set())


def test_work_is_logged_with_the_id_of_its_request(errands):
    seen = []
    errands.put(CONTEXT, "image", "pull", lambda: seen.append(current.get_current().request_id))
    errands.do("image")
    assert seen == ["req-1"]
