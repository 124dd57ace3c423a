# SPDX-License-Identifier: Apache-2.0
"""What several threads put for hosts: each item is sent once, and those that come during a message go together."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from zun.scheduler.batches import Batches
from zun.tests.fixtures import wait_for
from zun.tests.unit.common.proof import proof


class Wire:
    """Notes the messages. The next lists of items in ``script`` are put while a message is on its way."""

    def __init__(self, script=(), *, most=64, broken=()):
        self.script, self.broken, self.sent = list(script), set(broken), []
        self.batches = Batches(self.send, str, most)

    def send(self, host, items):
        self.sent.append((host, list(items)))
        for each in self.script.pop(0) if self.script else ():
            self.batches.put(*each)
        if self.broken & set(items):
            raise ValueError(f"{items} cannot be sent")

    def items(self, host):
        return [item for to, items in self.sent for item in items if to == host]


def test_an_item_that_comes_alone_is_sent_alone():
    wire = Wire()
    for item in (1, 2):
        wire.batches.put("a", [item])
    assert wire.sent == [("a", [1]), ("a", [2])]


def test_what_comes_during_a_message_goes_in_the_next():
    """The first message is held up until three other threads have put an item, which return at once."""
    sent, on_its_way, goes_on = [], threading.Event(), threading.Event()

    def send(host, items):
        sent.append((host, sorted(items)))
        on_its_way.set()
        assert goes_on.wait(10)

    batches = Batches(send, str)
    first = threading.Thread(target=batches.put, args=("a", [0]))
    first.start()
    assert on_its_way.wait(10)
    others = [threading.Thread(target=batches.put, args=("a", [item])) for item in (1, 2, 3)]
    for each in others:
        each.start()
    for each in others:
        each.join(10)
        assert not each.is_alive()
    elsewhere = threading.Thread(target=batches.put, args=("b", [4]))  # another host does not wait for this one
    elsewhere.start()
    wait_for(lambda: ("b", [4]) in sent)
    goes_on.set()
    for each in (first, elsewhere):
        each.join(10)
    assert [each for each in sent if each[0] == "a"] == [("a", [0]), ("a", [1, 2, 3])]


def test_what_exceeds_the_limit_is_sent_beside():
    wire = Wire([[("a", [2, 3]), ("a", [4])]], most=2)
    wire.batches.put("a", [1])
    assert wire.sent == [("a", [1]), ("a", [4]), ("a", [2, 3])]


def test_one_that_cannot_be_sent_holds_up_no_other(caplog):
    wire = Wire([[("a", [2, 3, 4])]], broken=[3])
    wire.batches.put("a", [1])
    assert wire.sent == [("a", [1]), ("a", [2, 3, 4]), ("a", [2]), ("a", [3]), ("a", [4])]
    assert [each.getMessage() for each in caplog.records] == ["3 could not be sent to host a"]
    wire.batches.put("a", [5])
    assert wire.sent[-1] == ("a", [5])


LISTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), min_size=1, max_size=5)


@proof(300)
@given(sizes=st.lists(LISTS, min_size=1, max_size=8), most=st.integers(1, 8))
def test_each_item_is_sent_once(sizes, most):
    """The first lists of items come one after the other, each of the others during one of the messages."""
    numbers = iter(range(1000))
    lists = [[(host, [next(numbers) for _ in range(size)]) for host, size in each] for each in sizes]
    wire = Wire(lists[1:], most=most)
    for each in lists[0]:
        wire.batches.put(*each)
    came = [lists[0], *lists[1 : len(lists) - len(wire.script)]]
    for host in "abc":
        put = [item for each in came for to, items in each for item in items if to == host]
        assert sorted(wire.items(host)) == put
    assert all(len(items) <= max(most, 5) for _, items in wire.sent)


@proof(20)
@given(data=st.data())
def test_threads_lose_and_repeat_nothing(data):
    each_of = data.draw(st.integers(1, 40))
    sent, lock = [], threading.Lock()

    def send(host, items):
        with lock:
            sent.extend((host, item) for item in items)

    batches = Batches(send, str, most=3)

    def put(thread):
        for number in range(each_of):
            batches.put("ab"[number % 2], [(thread, number)])

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    put_all = [("ab"[number % 2], (thread, number)) for thread in range(6) for number in range(each_of)]
    assert sorted(sent) == sorted(put_all)
