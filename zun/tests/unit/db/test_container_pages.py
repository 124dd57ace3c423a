# SPDX-License-Identifier: Apache-2.0
"""A page costs what its rows cost, however many containers there are: the database neither sorts nor counts them."""

import datetime
import re

import orjson
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from zun.db import containers, models, quotas, session
from zun.tests.unit.db.rows import CPUSET, container, page

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
    marker = page(context, **order)[-1]["uuid"] if behind else None
    plans.clear()
    rows = page(context, marker=marker, **order)
    assert len(rows) == 5
    assert "ix_containers_project_id" in plans[-1]
    assert "TEMP B-TREE" not in plans[-1]
    assert not behind or f"{sort_key}{'>' if sort_dir == 'asc' else '<'}?" in plans[-1].replace("rowid", "id")


@on_sqlite
def test_a_page_of_every_project_is_read_in_order(plans, admin):
    page(admin, limit=5, all_projects=True)
    assert "TEMP B-TREE" not in plans[-1]


@on_sqlite
def test_claims_of_hosts_are_found_by_the_host(plans):
    containers.claims(["h1", "h2"])
    assert "ix_containers_host" in plans[-1]


@on_sqlite
def test_usage_is_added_up_without_reading_rows(plans):
    assert quotas.usage("demo")["containers"] == 15
    assert "COVERING INDEX ix_containers_project_id_id" in plans[-2]


def test_a_page_has_the_columns_that_were_asked_for(database, context):
    made = container(project_id="demo", command=["a"])
    assert page(context, ["uuid", "command"], limit=5) == [{"uuid": made["uuid"], "command": ["a"]}]
    assert page(context, ["uuid"], limit=5, filters={"name": "none"}) == []


def test_a_page_has_the_values_of_its_rows(database, context, monkeypatch):
    """On every database, and for every size of a page."""
    monkeypatch.setattr(session, "ROWS_AT_A_TIME", 2)
    moment = datetime.datetime(2026, 1, 31, 12)
    made = [
        container(),
        container(tty=True, privileged=True, cpu=0.1, command=["\U0001f433", 'a"', ""], started_at=moment),
        container(name="é", status_reason="\n\\", labels={}, finished_at=moment.replace(microsecond=120), exit_code=-1),
        container(cpuset=CPUSET, memory=1 << 40, exposed_ports={"80/tcp": {"host_port": 1}}, host="h"),
        container(addresses={"n": [{"addr": None}]}, ports=[1], environment={"A": ""}, interactive=True),
    ]
    assert [len(found["id"]) for found in containers.page(context, ["id"], limit=9)] == [2, 2, 1]
    found = page(context, limit=9)
    assert found == [dict(row) for row in made]
    kinds = [{name: type(value) for name, value in row.items()} for row in found]
    assert kinds == [{name: type(value) for name, value in row.items()} for row in made]


def test_what_is_not_looked_into_is_written_as_it_was_stored(database, context):
    wanted = {"command": ["a", 'b"', "\U0001f433"], "labels": {}, "environment": None}
    container(**wanted)
    (row,) = page(context, [*wanted], limit=5, unread=frozenset(wanted))
    assert isinstance(row["command"], orjson.Fragment)
    assert orjson.loads(orjson.dumps([*row.values()])) == [*wanted.values()]


@pytest.mark.parametrize("micro", [0, 1, 120, 500_000, 999_999, 100_000])
def test_times_that_are_not_looked_at_are_text(database, context, micro):
    moment = datetime.datetime(2026, 1, 31, 12, 0, 0, micro)
    container(started_at=moment)
    names = ["started_at", "finished_at"]
    assert page(context, names, limit=5, unread=frozenset(names)) == [{"started_at": str(moment), "finished_at": None}]


# What somebody wrote by hand: SQLite takes any text, the servers any JSON.
OTHERWISE = ["5", '"x"', "true", "null", "OTHER KIND"]
NO_JSON = ["no JSON", "{no JSON", "[no JSON"]
WHERE = re.compile(r"SELECT \* FROM containers WHERE (.*) \(PostgreSQL: WHERE (.*)\)")


@pytest.mark.parametrize(
    ("column", "given", "other"), [("labels", {"a": "b"}, '["x"]'), ("command", ["a"], '{"x": 1}')]
)
@pytest.mark.parametrize("text", [*OTHERWISE, *NO_JSON])
def test_malformed_json_value_is_empty_and_hides_no_other_row(
    database, context, caplog, column, given, other, text
):
    models._tell.cache_clear()
    damaged, whole = container(**{column: given}), container(**{column: given})
    value = other if text == "OTHER KIND" else text
    change = f"UPDATE containers SET {column} = '{value}' WHERE uuid = '{damaged['uuid']}'"
    if text in NO_JSON and database != "sqlite":
        with pytest.raises((db_exc.DBError, sa.exc.DBAPIError)), session.writer() as connection:
            connection.exec_driver_sql(change)
        return
    with session.writer() as connection:
        connection.exec_driver_sql(change)
    pages = [page(context, [column], limit=5), page(context, [column], limit=5, unread={column})]
    found = [[row[column] for row in rows] for rows in pages]
    found.append([containers.get(each["uuid"])[column] for each in (damaged, whole)])
    seen = [[value or None for value in orjson.loads(orjson.dumps(values))] for values in found]
    assert seen == [[None, given]] * 3
    # The log says how to find it.
    (line,) = (each.getMessage() for each in caplog.records)
    assert line.startswith(f"A value of containers.{column} in the database is no JSON ")
    condition = WHERE.search(line)[2 if database == "postgresql" else 1]
    with session.reader() as connection:
        named = connection.exec_driver_sql(f"SELECT uuid FROM containers WHERE {condition}").scalars().all()
    assert named == [damaged["uuid"]]
