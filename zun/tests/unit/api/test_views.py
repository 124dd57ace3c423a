# SPDX-License-Identifier: Apache-2.0
import datetime
import typing

import pytest

from zun.api import microversion
from zun.api.schemas.numa import FIELDS
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


def shape(answer):
    """The names of the members that the document has of an answer."""
    return typing.get_args(answer)[1].shape.__annotations__.keys()


class Watched(dict):
    """Columns that remember which were looked at."""

    def __init__(self, found):
        super().__init__(found)
        self.seen = set()

    def __getitem__(self, name):
        self.seen.add(name)
        return super().__getitem__(name)


def test_a_list_of_containers_reads_the_columns_that_it_shows():
    read = {*containers.COLUMNS, *containers.RESTRICTED}
    found = Watched({name: [None] for name in read})
    (shown,) = containers.page(found, microversion.MAX, now=NOW, visible=set(containers.RESTRICTED))
    assert found.seen == read
    assert not set(containers.COLUMNS) & set(containers.RESTRICTED)
    assert shown.keys() == shape(containers.Container) - {"links"}


def test_many_containers_are_shown_as_each_by_itself():
    row = dict.fromkeys([*containers.COLUMNS, *containers.RESTRICTED])
    rows = [
        row | {"uuid": "1", "created_at": NOW, "status": Status.RUNNING, "started_at": NOW - datetime.timedelta(2)},
        row | {"uuid": "2", "memory": 5, "disk": 0, "command": ["a"], "labels": {"b": "c"}, "host": "h"},
        row | {"uuid": "3", "placement": {"numa_nodes": 1}, "cpuset": {"cpuset_cpus": "1", "cells": []}},
        row | {"uuid": "4", "exposed_ports": {"1/tcp": {"host_port": 2}, "3/tcp": {}}, "group_uuid": "5"},
    ]
    for version in (microversion.MIN, microversion.PLACEMENT, microversion.GROUPS, microversion.NETWORKS):
        for visible in (set(), {"host"}):
            given = {"now": NOW, "visible": visible}
            alone = [containers.show(each, version, base_url="http://zun", **given) for each in rows]
            together = containers.page(containers.columns(rows, visible), version, **given)
            assert [{**each, "links": one["links"]} for each, one in zip(together, alone, strict=True)] == alone
    assert [one["uuid"] for one in alone] == ["1", "2", "3", "4"]
    assert alone[0]["status_detail"] == "Up 2 days"
    assert (alone[1]["memory"], alone[1]["command"], alone[1]["ports"]) == ("5", ["a"], [])


def test_a_container_shows_every_placement_field():
    assert FIELDS.keys() < shape(containers.Container)
