# SPDX-License-Identifier: Apache-2.0
"""A host whose row somebody wrote by hand: others get the containers, until its agent has written the row anew."""

import pytest
import sqlalchemy as sa

from zun.db import session
from zun.tests.functional.cloud import Cloud, machine

ODD = ['{"cells": [{"id": 0, "cpus": "0-200000", "memory_mib": 1e308}], "foreign": 5}', "[" * 10_000, "[1]"]
ALONE = {"cpu_policy": "dedicated", "cpu": 1.0, "memory": 64}


@pytest.mark.parametrize("topology", ODD, ids=lambda topology: topology[:5])
def test_a_malformed_host_gets_none_until_its_agent_starts(database, context, topology):
    """It is the larger host, which would be drawn otherwise."""
    with Cloud({"one": machine(cells=1), "two": machine(cells=4)}) as cloud:
        cloud.stop_agent("two")
        with session.writer() as connection:
            change = "UPDATE compute_nodes SET topology = :text, updated_at = created_at WHERE hostname = 'two'"
            connection.execute(sa.text(change), {"text": topology})
        made = [cloud.run(context, **ALONE) for _ in range(4)]
        assert {(each.status, each.host) for each in made} == {("Running", "one")}
        assert list(cloud.scheduler.table.unusable()) == ["two"]
        cloud.start_agent("two")
        last = cloud.run(context, **ALONE)
        assert (last.status, last.host, cloud.scheduler.table.unusable()) == ("Running", "two", {})
