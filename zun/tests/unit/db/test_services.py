# SPDX-License-Identifier: Apache-2.0
import pytest
from oslo_utils import timeutils

from zun.common import exceptions
from zun.db import services
from zun.tests.unit.db.rows import together

pytestmark = pytest.mark.usefixtures("database")


def beat(host="h1", binary="zun-compute", zone="nova"):
    return services.heartbeat(host, binary, zone)


def test_the_first_sign_of_life_adds_the_service():
    before = timeutils.utcnow()
    assert beat() == 0
    row = services.get("h1", "zun-compute")
    assert before <= row["last_seen_up"] <= timeutils.utcnow()
    shown = ("host", "binary", "availability_zone", "disabled", "disabled_reason", "forced_down", "report_count")
    assert [row[name] for name in shown] == ["h1", "zun-compute", "nova", False, None, False, 0]


def test_the_next_ones_count_and_leave_the_operators_word_alone():
    beat()
    first = services.get("h1", "zun-compute")
    services.update("h1", "zun-compute", {"disabled": True, "disabled_reason": "rack move"})
    told = services.get("h1", "zun-compute")
    assert (beat(zone="zone-2"), beat(zone="zone-2")) == (1, 2)
    row = services.get("h1", "zun-compute")
    assert dict(row) == {
        **told,
        "availability_zone": "zone-2",
        "report_count": 2,
        "last_seen_up": row["last_seen_up"],
        "updated_at": row["last_seen_up"],
    }
    assert row["last_seen_up"] > first["last_seen_up"]
    assert (row["disabled"], row["disabled_reason"]) == (True, "rack move")


def test_no_sign_of_life_is_lost_and_none_adds_a_second_row():
    told = sorted(count for counts in together(8, lambda _: [beat() for _ in range(3)]) for count in counts)
    (row,) = services.all_services()
    assert told[-1] == row["report_count"] and set(told) == {*range(row["report_count"] + 1)}
    # Those that found no row to count on are the first sign together.
    assert 24 - 8 <= row["report_count"] <= 24 - 1


def test_host_and_binary_name_a_service():
    beat("h2"), beat("h1"), beat("h1", "zun-scheduler")
    assert [(row["host"], row["binary"]) for row in services.all_services()] == [
        ("h2", "zun-compute"),
        ("h1", "zun-compute"),
        ("h1", "zun-scheduler"),
    ]
    assert [row["host"] for row in services.all_services("zun-compute")] == ["h2", "h1"]
    services.destroy("h1", "zun-compute")
    assert [(row["host"], row["binary"]) for row in services.all_services()] == [
        ("h2", "zun-compute"),
        ("h1", "zun-scheduler"),
    ]


def test_an_update_says_when():
    beat()
    services.update("h1", "zun-compute", {"forced_down": True})
    row = services.get("h1", "zun-compute")
    assert row["forced_down"] is True and row["updated_at"] >= row["created_at"]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(services.get, id="get"),
        pytest.param(services.destroy, id="destroy"),
        pytest.param(lambda host, binary: services.update(host, binary, {"disabled": True}), id="update"),
    ],
)
def test_an_unknown_service_is_named(work):
    beat()
    with pytest.raises(exceptions.ZunServiceNotFound, match="zun-compute on host h9"):
        work("h9", "zun-compute")
    with pytest.raises(exceptions.ZunServiceNotFound, match="zun-api on host h1"):
        work("h1", "zun-api")
