# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import zones


def aggregate(hosts, **metadata):
    return {"hosts": hosts, "metadata": metadata}


SOUTH = aggregate(["h1", "h2"], availability_zone="south")
FAST = aggregate(["h1", "h3"], disk="ssd")


@pytest.mark.parametrize(
    ("hostname", "own", "aggregates", "zone"),
    [
        pytest.param("h1", "nova", [], "nova", id="no-aggregates"),
        pytest.param("h1", "nova", [FAST, SOUTH], "south", id="the-aggregate-that-names-one"),
        pytest.param("h1", None, [SOUTH, SOUTH], "south", id="two-that-name-the-same"),
        pytest.param("h3", "nova", [SOUTH, FAST], "nova", id="no-aggregate-of-it-names-one"),
        pytest.param("h9", "nova", [SOUTH], "nova", id="in-no-aggregate"),
        pytest.param("h9", None, [SOUTH], None, id="in-none-at-all"),
        pytest.param("h", "nova", [SOUTH], "nova", id="whole-names-only"),
    ],
)
def test_zone_of(hostname, own, aggregates, zone):
    assert zones.zone_of(hostname, own, aggregates) == zone
