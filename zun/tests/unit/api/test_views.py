# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest

from zun.api.views import times

NOW = datetime.datetime(2026, 1, 31, 12, 0, 0)


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
