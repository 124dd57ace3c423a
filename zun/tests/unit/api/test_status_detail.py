# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime, timedelta

import pytest

from zun.api.views.status_detail import age, status_detail

NOW = datetime(2026, 11, 21, 12, 0, 0)
HOUR_AGO, DAY_AGO = NOW - timedelta(hours=1, minutes=59), NOW - timedelta(days=1)


def row(status, started=None, finished=None, code=None, detail=None):
    return (detail, status, started, finished, code)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (row("Running", HOUR_AGO), "Up 1 hours"),
        (row("Paused", HOUR_AGO), "Up 1 hours (paused)"),
        (row("Running", NOW), None),
        (row("Running", HOUR_AGO.replace(tzinfo=UTC)), "Up 1 hours"),
        (row("Running"), None),
        (row("Stopped", DAY_AGO, HOUR_AGO, 137), "Exited(137) 1 hours ago "),
        (row("Stopped", DAY_AGO, NOW, 0), None),
        (row("Created"), "Created"),
        (row("Restarting", DAY_AGO), "Restarting"),
        (row("Dead"), "Dead"),
        (row("Creating"), None),
        (row("Creating", detail="pulling: 40 %"), "pulling: 40 %"),
        (row("Unknown", HOUR_AGO), None),
    ],
)
def test_status_detail(given, expected):
    assert status_detail(*given, NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((-1, None), (0.9, None), (1, "1 seconds"), (59.9, "59 seconds")),
        *((60, "1 mins"), (3600, "1 hours"), (86400 * 3, "3 days"), (86400 * 7 - 1, "6 days")),
    ],
)
def test_age(seconds, expected):
    assert age(timedelta(seconds=seconds)) == expected
