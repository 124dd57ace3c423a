# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest
from oslo_utils import timeutils

from zun.db import services
from zun.objects import ZunService
from zun.objects.service import is_up

NOW = datetime.datetime(2026, 3, 4, 12, 0, 0)
UTC = datetime.UTC


def ago(seconds):
    return NOW - datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"last_seen_up": ago(0)}, True, id="just-now"),
        pytest.param({"last_seen_up": ago(180)}, True, id="at-the-limit"),
        pytest.param({"last_seen_up": ago(180.001)}, False, id="beyond-the-limit"),
        pytest.param({"last_seen_up": ago(-180)}, True, id="its-clock-is-ahead"),
        pytest.param({"last_seen_up": ago(-181)}, False, id="its-clock-is-far-ahead"),
        pytest.param({"last_seen_up": ago(0), "forced_down": True}, False, id="forced-down"),
        pytest.param({"last_seen_up": ago(0), "disabled": True}, True, id="disabled-is-not-down"),
        pytest.param({"last_seen_up": ago(200), "updated_at": ago(1)}, False, id="only-a-sign-of-life-counts"),
        pytest.param({"updated_at": ago(1), "created_at": ago(500)}, True, id="never-seen-but-updated"),
        pytest.param({"created_at": ago(1)}, True, id="never-seen-but-new"),
        pytest.param({"created_at": ago(200)}, False, id="never-seen-and-old"),
        pytest.param({"last_seen_up": ago(1).replace(tzinfo=UTC)}, True, id="an-object-s-time-has-a-zone"),
    ],
)
@pytest.mark.parametrize("now", [NOW, NOW.replace(tzinfo=UTC)], ids=["naive", "aware"])
def test_is_up(changes, expected, now):
    service = {"forced_down": False, "disabled": False, "last_seen_up": None, "updated_at": None, "created_at": None}
    assert is_up({**service, **changes}, now, 180) is expected


def test_a_sign_of_life_is_written(database, context):
    ZunService.heartbeat(context, "h1", "zun-compute", "nova")
    assert is_up(services.get("h1", "zun-compute"), timeutils.utcnow(), 180)
