# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.scheduler.columns import Columns
from zun.scheduler.weighers import Weighted
from zun.scheduler.weighers.metrics import LARGEST, MetricsWeigher
from zun.tests.unit.scheduler.hosts import configuration, host, ranked, spec


def weigher(*settings, **options):
    named = {f"metrics__{name}": value for name, value in options.items()}
    return MetricsWeigher(configuration(metrics__weight_setting=list(settings), **named))


def labelled(name="h1", **labels):
    return host(name, labels=labels)


def names(hosts, chosen, multiplier=1.0):
    return "".join(each.hostname for each in ranked(hosts, spec(), [Weighted(chosen, multiplier)]))


@pytest.mark.parametrize(
    ("settings", "labels", "expected"),
    [
        pytest.param([], {"rating": "7"}, 0.0, id="no-setting"),
        pytest.param(["rating=1.0"], {"rating": "7"}, 7.0, id="one-number"),
        pytest.param(["rating=1.0", "price=-2.0"], {"rating": "7", "price": "3"}, 1.0, id="sum"),
        pytest.param([" rating = 1e1 "], {"rating": " 7.5 "}, 75.0, id="blanks"),
        pytest.param(["hall=2=1"], {"hall=2": "4"}, 4.0, id="name-with-equals"),
        pytest.param(["rating=0"], {"rating": "7"}, 0.0, id="ratio-of-0"),
        pytest.param(["rating=1"], {}, -10_000.0, id="no-label"),
        pytest.param(["rating=1", "price=1"], {"rating": "7"}, -10_000.0, id="one-label-of-two"),
        *(
            pytest.param(["rating=1"], {"rating": text}, -10_000.0, id=f"label-{text or 'empty'}")
            for text in ("", "fast", "nan", "inf", "-Infinity", "1e400", "1e16", "7 8", "0x10")
        ),
    ],
)
def test_weight_of_a_host(settings, labels, expected):
    chosen, state = weigher(*settings), labelled(**labels)
    assert chosen.weigh(state, spec()) == expected == chosen.weigh_all(Columns([state]), spec())[0]


def test_hosts_without_a_number_weigh_what_the_option_says():
    hosts = [labelled("a", price="3"), labelled("b"), labelled("c", price="1")]
    assert names(hosts, weigher("price=-1")) == "cab"
    assert names(hosts, weigher("price=-1", weight_of_unavailable=0.0)) == "bca"
    assert names(hosts, weigher("price=-1", weight_of_unavailable=-2.0)) == "cba"
    assert names(hosts, weigher("price=-1"), -1.0) == "bac"
    assert names(hosts, weigher()) == "abc"


def test_a_changed_label_counts():
    chosen, table = weigher("rating=1"), Columns([labelled("a", rating="1"), labelled("b", rating="2")])
    assert [*chosen.weigh_all(table, spec())] == [1.0, 2.0]
    table.put(labelled("a", rating="3"))
    assert [*chosen.weigh_all(table, spec())] == [3.0, 2.0]


@given(st.lists(st.floats().map(str) | st.text(max_size=4), min_size=3, max_size=3))
def test_no_label_makes_a_weight_without_order(texts):
    """A taken-over host writes any label: the other hosts keep their order."""
    chosen = weigher(f"x={LARGEST}", f"y=-{LARGEST}")
    hostile = [labelled(f"z{place}", x=text, y="-1e15") for place, text in enumerate(texts)]
    weights = chosen.weigh_all(Columns([*hostile, labelled("h", x="1", y="0")]), spec())
    assert all(map(math.isfinite, weights)) and math.isfinite(weights.max() - weights.min())
    mine = [labelled("a", x="1", y="1"), labelled("b", x="9", y="1")]
    order = names([*mine, *hostile], weigher("x=1.0"))
    assert len(order) == 8 and order.index("b") < order.index("a")


@pytest.mark.parametrize("setting", ["rating", "=1", "rating=", "rating=fast", "rating=nan", "rating=inf", ""])
def test_a_wrong_setting_is_named_with_its_option(setting):
    with pytest.raises(exceptions.Misconfigured, match=r"\[metrics\] weight_setting: '.*' must be NAME=RATIO"):
        weigher("price=1", setting)


def test_a_name_with_two_ratios_is_refused():
    with pytest.raises(exceptions.Misconfigured, match="once for each NAME"):
        weigher("price=1", "price=2")
