# SPDX-License-Identifier: Apache-2.0
"""Volumes that projects named: each is on one host, whoever asks for it there or elsewhere."""

import pytest

from zun.common import exceptions
from zun.db import containers, volumes
from zun.tests.unit.db.rows import CPUSET, container

pytestmark = pytest.mark.usefixtures("database")


def claim(hostname, *names, project="demo"):
    """A container claimed on the host with these volumes; gives its uuid."""
    uuid = container(project_id=project)["uuid"]
    containers.claim(uuid, hostname, {"cpuset": CPUSET}, volumes=(project, names))
    return uuid


def test_a_volume_is_where_it_was_first():
    claim("h1", "data")
    claim("h1", "data", "log")
    claim("h2", "cache")
    for _ in range(2):
        claim("h2", "data", project="other")
    with pytest.raises(exceptions.VolumeElsewhere, match="log"):
        claim("h2", "new", "log")
    found = ["data", "log", "cache", "new"]
    assert volumes.hosts("demo", found) == {"data": "h1", "log": "h1", "cache": "h2"}  # and nothing of the refused one
    assert volumes.hosts("other", found) == {"data": "h2"}
    assert len(containers.claims()) == 5
    assert len(containers.unplaced()) == 1
