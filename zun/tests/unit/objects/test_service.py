# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest

from zun.common import exceptions
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


def test_a_service_from_its_first_sign_of_life_to_its_end(database, context):
    ZunService.heartbeat(context, "h1", "zun-compute", "nova")
    ZunService.heartbeat(context, "h1", "zun-scheduler", "nova")
    service = ZunService.get_by_host(context, "h1", "zun-compute")
    assert is_up(service, datetime.datetime.now(UTC), 180)
    service.forced_down, service.disabled_reason = True, "rack move"
    ZunService.heartbeat(context, "h1", "zun-compute", "zone-2")
    service.save()
    stored = ZunService.get_by_host(context, "h1", "zun-compute")
    # A save writes what changed: the sign of life in between is not lost.
    assert (stored.forced_down, stored.disabled_reason, stored.availability_zone) == (True, "rack move", "zone-2")
    assert stored.report_count == 1
    assert not is_up(stored, datetime.datetime.now(UTC), 180)
    assert [each.binary for each in ZunService.list(context)] == ["zun-compute", "zun-scheduler"]
    assert [each.binary for each in ZunService.list(context, "zun-scheduler")] == ["zun-scheduler"]
    stored.destroy()
    with pytest.raises(exceptions.ZunServiceNotFound):
        ZunService.get_by_host(context, "h1", "zun-compute")
    with pytest.raises(exceptions.ZunServiceNotFound):
        service.destroy()
    with pytest.raises(exceptions.ZunServiceNotFound):
        service.disabled = True
        service.save()
