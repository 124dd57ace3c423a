# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.scheduler.peers import SILENCE_SECONDS, Peers, Shares


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("shares", "mine", "others"),
    [
        pytest.param(Shares(("a",), 0), [0, 1, 2, 3, 4], [None] * 5, id="alone"),
        pytest.param(Shares(("a", "b"), 0), [0, 2, 4], [None, "b", None, "b", None], id="first-of-two"),
        pytest.param(Shares(("a", "b", "c"), 2), [2], ["a", "b", None, "a", "b"], id="last-of-three"),
    ],
)
def test_hosts_are_dealt_in_turn(shares, mine, others):
    assert list(range(5))[shares.mine] == mine
    assert [shares.other_keeper(row, ()) for row in range(5)] == others


def test_who_had_the_request_does_not_get_it_again():
    shares = Shares(("a", "b", "c"), 2)
    assert [shares.other_keeper(row, ["b"]) for row in range(3)] == ["a", None, None]


def test_every_host_has_one_keeper():
    names = ("a", "b", "c")
    kept = [row for rank in range(3) for row in list(range(10))[Shares(names, rank).mine]]
    assert sorted(kept) == list(range(10))


def test_peer_takes_part_until_it_is_long_silent_or_leaves():
    clock = Clock()
    peers = Peers("b", clock=clock)
    assert peers.shares() == Shares(("b",), 0)
    for name in ("c", "a", "b"):
        peers.seen(name)
    assert peers.shares() == Shares(("a", "b", "c"), 1)
    clock.now += SILENCE_SECONDS - 1
    peers.seen("c")
    clock.now += 2
    assert peers.shares() == Shares(("b", "c"), 0)  # it is there itself, whatever reached it
    peers.seen("c", leaving=True)
    peers.seen("never", leaving=True)
    assert peers.shares() == Shares(("b",), 0)
