# SPDX-License-Identifier: Apache-2.0
"""Find the row that a request means with a uuid or a name. Projects may use the same names.

One rule decides for every kind of resource and for every user: a name means a resource of the user's own project. For
a resource of another project, the user must be an administrator and give the uuid, or the request must ask for all
projects with the permission of policy. Text that looks like a uuid is a uuid.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils

from zun.common import exceptions, naming
from zun.common.context import RequestContext
from zun.db import session


def reached(
    own: sa.ColumnElement[bool], context: RequestContext, ident: str, *, all_projects: bool = False
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions under which ``context`` may mean a row with ``ident``.

    ``own`` is true for the rows of the context's project. ``all_projects`` tells that the request asks for the rows of
    all projects and that policy permits it.
    """
    everybodys = all_projects or (context.is_admin and uuidutils.is_uuid_like(ident))
    return [] if everybodys else [own]


def visible(table: sa.Table, context: RequestContext, all_projects: bool) -> list[sa.ColumnElement[bool]]:
    """Return the condition of a list: the rows of the context's project. ``all_projects`` lifts it."""
    return [] if all_projects else [table.c.project_id == context.project_id]


def called(table: sa.Table, ident: str, name: str = "name") -> sa.ColumnElement[bool]:
    """Return the condition that a row of ``table`` has this uuid, or this name in the column ``name``."""
    return (table.c.uuid if uuidutils.is_uuid_like(ident) else table.c[name]) == ident


def find(
    table: sa.Table,
    ident: str,
    visible: Sequence[sa.ColumnElement[bool]],
    missing: exceptions.ZunError,
    name: str = "name",
    columns: Sequence[sa.ColumnElement[Any]] = (),
) -> session.Row:
    """Return the one ``visible`` row of ``table`` with the uuid or name ``ident``. Raises the errors of ``only``.

    The row has all columns, or those of ``columns``, which must have the uuid and the name.
    """
    statement = sa.select(*columns or table.c).where(called(table, ident, name), *visible).order_by(table.c.id)
    statement = statement.limit(naming.MOST + 1)  # as many as an error names, and one that shows that there are more
    with session.reader() as connection:
        return only(session.rows(connection, statement), ident, missing)


def only(rows: Sequence[session.Row], ident: str, missing: exceptions.ZunError) -> session.Row:
    """Return the one row of ``rows`` with the value ``ident``. Raises ``missing`` for none, Conflict for several."""
    rows = [row for row in rows if ident in row.values()]  # MariaDB ignores blanks at the end of text
    if not rows:
        raise missing
    if len(rows) > 1:
        uuids = naming.listed(row["uuid"] for row in rows)
        raise exceptions.Conflict(f"Several have the name {ident}. Use the uuid of one instead: {uuids}.")
    return rows[0]
