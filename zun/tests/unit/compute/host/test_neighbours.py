# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.compute.host.engine_watch import Namesakes, Neighbours


@pytest.mark.parametrize(("counts", "told"), [
    pytest.param([7, 8, 9, 10, 11], [], id="alone"),
    pytest.param([7, 9, 11, 13], [3], id="one-more"),
    pytest.param([7, 9, 11, 13, 15, 17, 19], [3, 6], id="told-again-while-it-lasts"),
    pytest.param([7, 8, 11, 12, 15], [4], id="by-turns"),
    pytest.param([7, 9, 10, 12, 13, 15, 16, 17], [], id="answers-that-were-lost-now-and-then"),
    pytest.param([7, 9, 11, 0, 1, 2], [], id="the-service-was-removed-and-is-there-again"),
    pytest.param([None, None, None], [], id="a-conductor-that-does-not-tell"),
    pytest.param([7, 11, 12, 13, 14, 15], [1], id="three-at-once"),
])
def test_who_else_counts_is_noticed(counts, told):
    namesakes = Namesakes()
    assert [number for number, count in enumerate(counts) if namesakes.seen(count)] == told


@pytest.mark.parametrize(
    ("sees_rows", "at_first", "later"),
    [
        pytest.param(True, "Nobody gets the CPUs", "hear of each other's containers every 60 s", id="direct"),
        pytest.param(False, "all that they use may be given to others", "Both may give the same CPUs", id="conductor"),
    ],
)
def test_renamed_host_hears_who_gets_the_cpus(sees_rows, at_first, later, caplog):
    neighbours = Neighbours("new", 60, sees_rows=sees_rows)
    neighbours.tell({"old": {"a"}})
    assert at_first in caplog.text and later not in caplog.text
    neighbours.tell({"old": {"a", "b"}})
    assert later in caplog.text
