# SPDX-License-Identifier: Apache-2.0
"""One page of a table: sorted by any column, starting behind a row."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import sqlalchemy as sa

from zun.common import exceptions
from zun.db import session


def sortable(table: sa.Table) -> frozenset[str]:
    """Columns that a list may be sorted by: all but JSON, which databases do not order."""
    return frozenset(column.name for column in table.c if not isinstance(column.type, sa.JSON))


class Place(TypedDict):
    """Which page of a table, for ``page`` of each noun: see ``selected``, which has the defaults."""

    limit: int
    marker: NotRequired[str | None]
    sort_key: NotRequired[str]
    sort_dir: NotRequired[str]


def behind(
    table: sa.Table,
    visible: Sequence[sa.ColumnElement[bool]],
    *,
    filters: Sequence[sa.ColumnElement[bool]] = (),
    missing: exceptions.ZunError,
    **place: Unpack[Place],
) -> list[session.Row]:
    """The whole rows that ``selected`` selects. Raises what that does."""
    with session.reader() as connection:
        return session.rows(
            connection, selected(connection, table, visible, filters=filters, missing=missing, **place)
        )


def selected(
    connection: sa.Connection,
    table: sa.Table,
    visible: Sequence[sa.ColumnElement[bool]],
    *,
    filters: Sequence[sa.ColumnElement[bool]] = (),
    missing: exceptions.ZunError,
    limit: int,
    marker: str | None = None,
    sort_key: str = "id",
    sort_dir: str = "asc",
    columns: Sequence[sa.ColumnElement[Any]] = (),
) -> sa.Select[Any]:
    """The statement for up to ``limit`` rows, ``visible`` and passing the ``filters``, behind the one whose uuid is
    ``marker``.

    Rows are whole unless ``columns`` are what is wanted of them. Those of equal ``sort_key`` are in the order of their
    ids; those without a value come last in ascending order. Raises ``missing`` when no visible row has that uuid, and
    InvalidParameterValue for a ``sort_key`` by which nothing can be sorted. The marker need not pass the filters: it
    may have changed since its page was shown.
    """
    if sort_key not in sortable(table):
        raise exceptions.InvalidParameterValue(
            err=f"Sort key '{sort_key}' is not one of {', '.join(sorted(sortable(table)))}."
        )
    start = None
    if marker is not None:
        marked = sa.select(*(table.c[name] for name in sorted({"id", sort_key})))
        start = session.first(connection, marked.where(table.c.uuid == marker, *visible))
        if start is None:
            raise missing
    key, up = table.c[sort_key], sort_dir == "asc"
    order: list[sa.ColumnElement[Any]] = [key.is_(None)] if key.nullable else []
    order += [key] if key is table.c.id else [key, table.c.id]
    statement = (sa.select(*columns) if columns else sa.select(table)).where(*visible, *filters)
    if start is not None:
        statement = statement.where(_behind(table, key, start, up))
    return statement.order_by(*(column.asc() if up else column.desc() for column in order)).limit(limit)


def _behind(table: sa.Table, key: sa.Column[Any], marker: Mapping[str, Any], up: bool) -> sa.ColumnElement[bool]:
    def after(column: sa.Column[Any], value: Any) -> sa.ColumnElement[bool]:
        bound = sa.literal(value, column.type)  # a bare True would be refused: it is not a value to SQLAlchemy
        return column > bound if up else column < bound

    value, later_id = marker[key.name], after(table.c.id, marker["id"])
    if key is table.c.id:
        return later_id
    if value is None:
        return sa.and_(key.is_(None), later_id) if up else sa.or_(sa.and_(key.is_(None), later_id), key.is_not(None))
    same = sa.literal(value, key.type)
    behind = sa.or_(after(key, value), sa.and_(key == same, later_id))
    if not key.nullable:  # implied, and what an index can begin at
        behind = sa.and_(key >= same if up else key <= same, behind)
    return sa.or_(behind, key.is_(None)) if key.nullable and up else behind
