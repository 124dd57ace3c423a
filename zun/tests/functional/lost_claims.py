# SPDX-License-Identifier: Apache-2.0
"""Rows written by hand, an agent that starts again, and the findings of its audit."""

import sqlalchemy as sa

from zun.db import session
from zun.scheduler.service import SchedulerService


def by_hand(uuid, column, text):
    """SQLite takes any text for JSON."""
    with session.writer() as connection:
        statement = sa.text(f"UPDATE containers SET {column} = :text WHERE uuid = :uuid")
        connection.execute(statement, {"text": text, "uuid": uuid})


def restart(cloud):
    cloud.stop_agent("one")
    cloud.scheduler.stop()
    agent = cloud.start_agent("one")
    cloud.scheduler = SchedulerService(cloud.conf, host="scheduler")
    cloud.scheduler.start(cloud.transport)
    return agent


def findings(cloud, context, repair=False):
    answer = cloud.compute_api.audit(context, "one", repair=repair)
    return [(each["container"], each["code"], each["layer"], each["repaired"]) for each in answer["findings"]]
