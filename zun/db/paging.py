# SPDX-License-Identifier: Apache-2.0
"""Select one page of a table, sorted by any column and starting behind a row."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import sqlalchemy as sa

from zun.common import exceptions
from zun.db import session


def sortable(table: sa.Table) -> frozenset[str]:
    """Return the columns by which a list may be sorted: all but JSON, which databases do not order."""
    return frozenset(column.name for column in table.c if not isinstance(column.type, sa.JSON))


class Place(TypedDict):
    """The arguments that choose a page. ``selected`` describes them and has their defaults."""

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
    """Return the whole rows that ``selected`` selects. Raises the errors of ``selected``."""
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
    """Return the statement for up to ``limit`` rows that are ``visible``, pass the ``filters`` and follow ``marker``.

    ``marker`` is the uuid of a visible row, else ``missing`` is raised. The marker's row may fail the filters, because
    the row may have changed since its page was shown. Rows with equal ``sort_key`` are in the order of their ids. In
    ascending order, rows without a value come last. The statement selects whole rows, or only ``columns``.

    Raises InvalidParameterValue for a ``sort_key`` that is no sortable column.
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
        bound = sa.literal(value, column.type)  # SQLAlchemy refuses to compare with a bare True
        return column > bound if up else column < bound

    value, later_id = marker[key.name], after(table.c.id, marker["id"])
    if key is table.c.id:
        return later_id
    if value is None:
        return sa.and_(key.is_(None), later_id) if up else sa.or_(sa.and_(key.is_(None), later_id), key.is_not(None))
    same = sa.literal(value, key.type)
    behind = sa.or_(after(key, value), sa.and_(key == same, later_id))
    if not key.nullable:  # follows from the other condition, and lets the database start in the index
        behind = sa.and_(key >= same if up else key <= same, behind)
    return sa.or_(behind, key.is_(None)) if key.nullable and up else behind
