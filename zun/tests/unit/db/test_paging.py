# SPDX-License-Identifier: Apache-2.0
"""Walking a list page by page gives every row once, in order, whatever it is sorted by."""

import datetime
import functools

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import compute_nodes, containers, models, paging, session
from zun.tests.unit.common.proof import proof
from zun.tests.unit.db.rows import clear, container, node, values
from zun.tests.unit.db.rows import page as page_of_containers

pytestmark = pytest.mark.usefixtures("database")
DEMO = RequestContext(user_id="alice", project_id="demo", roles=["member"])
MISSING = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"

VALUES = {
    # Letters of one case: databases agree about their order.
    sa.String: ["", "a", "ab", "b", "c"],
    sa.Integer: [-1, 0, 1, 7],
    sa.Double: [0.0, 0.1, 1 / 3, 0.5, 16.0],
    sa.Boolean: [False, True],
    sa.DateTime: [datetime.datetime(2026, 1, 1, 0, 0, 0, micro) for micro in (0, 1, 999999)]
    + [datetime.datetime(2025, 12, 31)],
}


def kind_of(column):
    return next(kind for kind in VALUES if isinstance(column.type, kind))


def keys_of(noun, kind):
    """Return the columns of this kind by which rows of ``noun`` (a module of queries) can be sorted."""
    return sorted(name for name in paging.sortable(noun.table) if kind_of(noun.table.c[name]) is kind)


@st.composite
def tables_sorted(draw, kind):
    """A sort key of this kind and the rows' values of it, many of them equal, some absent; the rows' projects."""
    key = draw(st.sampled_from(keys_of(containers, kind)))
    column = models.containers.c[key]
    value = st.sampled_from(VALUES[kind])
    if column.unique or column.primary_key:
        value = st.none()  # it has one already
    elif column.nullable:
        value = st.none() | value
    count = draw(st.integers(0, 9))
    projects = st.lists(st.sampled_from(["demo", "demo", "other"]), min_size=count, max_size=count)
    return key, draw(st.lists(value, min_size=count, max_size=count)), draw(projects)


def fill(key, wanted, projects):
    column = models.containers.c[key]
    given_already = column.unique or column.primary_key or key in ("project_id", "kind")  # which decide who sees it
    rows = [
        {
            **values(project_id=project, created_at=datetime.datetime(2026, 2, 2)),
            **({} if given_already else {key: value}),
        }
        for value, project in zip(wanted, projects, strict=True)
    ]
    with session.writer() as connection:
        for row in rows:
            connection.execute(models.containers.insert().values(**row))


def everything():
    with session.reader() as connection:
        return session.rows(connection, sa.select(models.containers))


def in_order(rows, key, direction):
    """Rows of equal value by id; rows without a value last when rising, and the reverse of all that when falling."""
    absent = [row for row in rows if row[key] is None]
    present = [row for row in rows if row[key] is not None]
    rising = sorted(present, key=lambda row: (row[key], row["id"])) + sorted(absent, key=lambda row: row["id"])
    return [row["uuid"] for row in (rising if direction == "asc" else reversed(rising))]


def walk(page, limit, most):
    """The uuids of all pages, and the length of each."""
    uuids, lengths, marker = [], [], None
    while len(lengths) <= most:
        rows = page(limit=limit, marker=marker)
        lengths.append(len(rows))
        uuids += [row["uuid"] for row in rows]
        if not rows:
            break
        marker = uuids[-1]
    return uuids, lengths


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
@proof(20)
@given(data=st.data())
def test_pages_of_any_size_are_the_sorted_whole(kind, data):
    key, wanted, projects = data.draw(tables_sorted(kind), label="key, values, projects")
    direction = data.draw(st.sampled_from(["asc", "desc"]), label="direction")
    limit = data.draw(st.integers(1, 4), label="limit")
    all_projects = data.draw(st.booleans(), label="all_projects")
    clear()
    fill(key, wanted, projects)

    def page(**place):
        return page_of_containers(DEMO, sort_key=key, sort_dir=direction, all_projects=all_projects, **place)

    seen = [row for row in everything() if all_projects or row["project_id"] == "demo"]
    uuids, lengths = walk(page, limit, len(seen))
    assert uuids == in_order(seen, key, direction)
    # Every page is full but the last two, of which the last is empty.
    assert lengths == [limit] * (len(seen) // limit) + [len(seen) % limit] * bool(len(seen) % limit) + [0]


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_pages_of_compute_nodes_are_the_sorted_whole(kind):
    for number, hostname in enumerate(["b", "a", "d", "c"]):
        zone, pinning = [None, "z1", "z1", "z2"][number], number % 2 == 0
        node(hostname, availability_zone=zone, enable_cpu_pinning=pinning, cpus=number // 2)
    every = compute_nodes.page(limit=9)
    for key in keys_of(compute_nodes, kind):
        for direction in ("asc", "desc"):
            page = functools.partial(compute_nodes.page, sort_key=key, sort_dir=direction)
            assert walk(page, 1, 4)[0] == in_order(every, key, direction), (key, direction)


@pytest.mark.parametrize("table", [containers, compute_nodes])
def test_what_can_be_sorted_by_is_every_column_but_json(table):
    json = {"topology", "labels", "runtimes", "placement", "request", "command", "entrypoint", "environment"}
    json |= {"restart_policy", "healthcheck", "security_groups", "exposed_ports", "addresses", "ports", "mounts"}
    json |= {"annotations", "traits", "added_traits", "capabilities", "engine"}
    assert {column.name for column in table.table.c} - json - {"cpuset"} == paging.sortable(table.table)


@pytest.mark.parametrize("key", ["labels", "cpuset", "nothing", "", "id; drop table containers"])
def test_another_sort_key_is_refused_by_name(key):
    with pytest.raises(exceptions.InvalidParameterValue) as caught:
        page_of_containers(DEMO, limit=1, sort_key=key)
    names = ", ".join(sorted(paging.sortable(containers.table)))
    assert str(caught.value) == f"Sort key '{key}' is not one of {names}."


@pytest.mark.parametrize("sort_key", ["id", "name", "host"])
def test_a_marker_must_be_a_container_that_the_caller_sees(sort_key):
    foreign = container(project_id="other")
    for marker in (foreign["uuid"], MISSING):
        with pytest.raises(exceptions.ContainerNotFound, match=marker):
            page_of_containers(DEMO, limit=1, marker=marker, sort_key=sort_key)
    assert page_of_containers(DEMO, limit=1, marker=foreign["uuid"], sort_key=sort_key, all_projects=True) == []


def test_marker_changed_since_its_page_still_marks_the_place():
    _, second, third = (container(status="Running") for _ in range(3))
    containers.update(second["uuid"], {"status": "Stopped"})
    found = page_of_containers(DEMO, filters={"status": "Running"}, limit=9, marker=second["uuid"])
    assert [row["uuid"] for row in found] == [third["uuid"]]


def test_a_marker_of_compute_nodes_must_be_one():
    with pytest.raises(exceptions.ComputeNodeNotFound, match=MISSING):
        compute_nodes.page(limit=1, marker=MISSING)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({}, "abcd", id="none"),
        pytest.param({"name": "a"}, "a", id="name"),
        pytest.param({"image": "nginx"}, "bc", id="image"),
        pytest.param({"memory": 128}, "cd", id="memory"),
        pytest.param({"host": "h1"}, "b", id="host"),
        pytest.param({"host": None}, "acd", id="no-host"),
        pytest.param({"status": "Running"}, "b", id="status"),
        pytest.param({"task_state": "container_creating"}, "d", id="task-state"),
        pytest.param({"user_id": "bob"}, "d", id="user"),
        pytest.param({"auto_remove": True}, "a", id="true"),
        pytest.param({"auto_remove": False}, "bcd", id="false"),
        pytest.param({"image": "nginx", "memory": 128}, "c", id="both"),
        pytest.param({"project_id": "other"}, "", id="not-beyond-the-own-project"),
        pytest.param({"name": "%"}, "", id="equality-not-a-pattern"),
    ],
)
def test_filters_compare_for_equality(filters, expected):
    container(name="a", auto_remove=True)
    container(name="b", image="nginx", host="h1", status="Running")
    container(name="c", image="nginx", memory=128)
    container(name="d", memory=128, user_id="bob", task_state="container_creating")
    container(name="a", project_id="other", image="nginx")
    assert "".join(row["name"] for row in page_of_containers(DEMO, filters=filters, limit=9)) == expected
