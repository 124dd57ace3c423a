# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest

from zun.api.views import times
from zun.api.views.status_detail import status_detail

NOW = datetime.datetime(2026, 1, 31, 12, 0, 0)


def ago(**passed):
    return NOW - datetime.timedelta(**passed)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"status": "Creating"}, None),
        ({"status": "Creating", "status_detail": "Pulling: 40%"}, "Pulling: 40%"),
        ({"status": "Created"}, "Created"),
        ({"status": "Restarting"}, "Restarting"),
        ({"status": "Dead"}, "Dead"),
        ({"status": "Error"}, None),
        ({"status": "Unknown"}, None),
        ({"status": "Deleting"}, None),
        ({"status": "Running", "started_at": ago(days=2, hours=3)}, "Up 2 days"),
        ({"status": "Running", "started_at": ago(hours=3, minutes=59)}, "Up 3 hours"),
        ({"status": "Running", "started_at": ago(minutes=59, seconds=59)}, "Up 59 mins"),
        ({"status": "Running", "started_at": ago(seconds=59)}, "Up 59 seconds"),
        ({"status": "Running", "started_at": ago(milliseconds=999)}, None),
        ({"status": "Running", "started_at": ago(seconds=-5)}, None),
        ({"status": "Running", "started_at": ago(seconds=7).replace(tzinfo=datetime.UTC)}, "Up 7 seconds"),
        ({"status": "Running"}, None),
        ({"status": "Paused", "started_at": ago(hours=1)}, "Up 1 hours (paused)"),
        ({"status": "Stopped", "finished_at": ago(minutes=5), "exit_code": 137}, "Exited(137) 5 mins ago "),
        ({"status": "Stopped", "finished_at": ago(minutes=5), "exit_code": 0}, "Exited(0) 5 mins ago "),
        ({"status": "Stopped"}, None),
    ],
)
def test_status_detail(row, text):
    empty = {"status_detail": None, "started_at": None, "finished_at": None, "exit_code": None}
    assert status_detail({**empty, **row}, NOW) == text


@pytest.mark.parametrize(
    ("value", "resource", "service"),
    [
        (None, None, None),
        (NOW, "2026-01-31 12:00:00", "2026-01-31T12:00:00.000000"),
        (NOW.replace(microsecond=5), "2026-01-31 12:00:00.000005", "2026-01-31T12:00:00.000005"),
        (NOW.replace(tzinfo=datetime.UTC), "2026-01-31 12:00:00", "2026-01-31T12:00:00.000000"),
    ],
)
def test_times(value, resource, service):
    assert (times.of_resource(value), times.of_service(value)) == (resource, service)
