# SPDX-License-Identifier: Apache-2.0
import datetime
import typing

import pytest

from zun.api import microversion
from zun.api.schemas.placement import FIELDS
from zun.api.views import containers, times
from zun.common.states import Status

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


class Watched(dict):
    """A row that remembers what was looked at."""

    def __init__(self, row):
        super().__init__(row)
        self.seen = set()

    def __getitem__(self, name):
        self.seen.add(name)
        return super().__getitem__(name)


def test_a_list_of_containers_reads_the_columns_that_it_shows():
    read = {*containers.COLUMNS, *containers.RESTRICTED}
    row = Watched(dict.fromkeys(read))
    (shown,) = containers.page([row], microversion.MAX, now=NOW, visible=set(containers.RESTRICTED))
    for status in Status:
        containers.page([Watched({**row, "status": status})], microversion.MAX, now=NOW, visible=set())
    used_by_status_detail = {"started_at", "finished_at", "exit_code"}
    assert row.seen | used_by_status_detail == read
    assert not set(containers.COLUMNS) & set(containers.RESTRICTED)
    assert shown.keys() == typing.get_type_hints(containers.Container).keys() - {"links"}


def test_a_container_shows_every_placement_field():
    assert FIELDS.keys() < typing.get_type_hints(containers.Placement).keys()
