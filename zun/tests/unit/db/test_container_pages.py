# SPDX-License-Identifier: Apache-2.0
"""A page costs what its rows cost, however many containers there are: the database neither sorts nor counts them."""

import orjson
import pytest
import sqlalchemy as sa

from zun.db import containers, models, quotas, session
from zun.tests.unit.db.rows import container

# Plans are read on SQLite; the indexes are the same everywhere.
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def plans(database):
    """SQLite's plan of each statement that runs meanwhile."""
    found = []

    def note(connection, cursor, statement, parameters, context, many):
        if statement.startswith("SELECT"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.append(" / ".join(row[3] for row in cursor.fetchall()))

    for index in range(30):
        container(project_id="demo" if index % 2 else "other", name=f"c{index:02}")
    engine = session._current().reader
    sa.event.listen(engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(engine, "before_cursor_execute", note)


@on_sqlite
@pytest.mark.parametrize("sort_dir", ["asc", "desc"])
@pytest.mark.parametrize("sort_key", ["id", "name", "created_at"])
@pytest.mark.parametrize("behind", [False, True])
def test_a_page_is_read_in_order(plans, context, sort_key, sort_dir, behind):
    order = {"limit": 5, "sort_key": sort_key, "sort_dir": sort_dir}
    marker = containers.page(context, **order)[-1]["uuid"] if behind else None
    plans.clear()
    rows = containers.page(context, marker=marker, **order)
    assert len(rows) == 5
    assert "ix_containers_project_id" in plans[-1]
    assert "TEMP B-TREE" not in plans[-1]
    assert not behind or f"{sort_key}{'>' if sort_dir == 'asc' else '<'}?" in plans[-1].replace("rowid", "id")


@on_sqlite
def test_a_page_of_every_project_is_read_in_order(plans, admin):
    containers.page(admin, limit=5, all_projects=True)
    assert "TEMP B-TREE" not in plans[-1]


@on_sqlite
def test_usage_is_added_up_without_reading_rows(plans):
    assert quotas.usage("demo")["containers"] == 15
    assert "COVERING INDEX ix_containers_project_id_id" in plans[-1]


def test_rows_have_the_columns_that_were_asked_for(database, context):
    made = container(project_id="demo", command=["a"])
    (row,) = containers.page(context, limit=5, columns=("uuid", "command"))
    assert dict(row) == {"uuid": made["uuid"], "command": ["a"]}
    (row,) = containers.page(context, limit=5)
    assert row.keys() == models.containers.c.keys()


def test_json_that_is_not_looked_into_is_written_as_it_was_stored(database, context):
    wanted = {"command": ["a", 'b"', "\U0001f433"], "labels": {}, "environment": None}
    container(project_id="demo", **wanted)
    (row,) = containers.page(context, limit=5, columns=tuple(wanted), unread=frozenset(wanted))
    assert orjson.loads(orjson.dumps([row[name] for name in wanted])) == [*wanted.values()]
    if database != "postgresql":  # its driver reads JSON by itself
        assert isinstance(row["command"], orjson.Fragment)
