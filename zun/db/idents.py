# SPDX-License-Identifier: Apache-2.0
"""What a request calls a row: its uuid, or a name that others may have as well. Text that looks like a uuid is one."""

from collections.abc import Sequence

import sqlalchemy as sa
from oslo_utils import uuidutils

from zun.common import exceptions
from zun.db import session


def called(table: sa.Table, ident: str, name: str = "name") -> sa.ColumnElement[bool]:
    """The condition that a row of ``table`` has this uuid or, in its column ``name``, this name."""
    return (table.c.uuid if uuidutils.is_uuid_like(ident) else table.c[name]) == ident


def find(
    table: sa.Table,
    ident: str,
    visible: Sequence[sa.ColumnElement[bool]],
    missing: exceptions.ZunError,
    name: str = "name",
) -> session.Row:
    """The one ``visible`` row of ``table`` that ``ident`` calls. Raises as ``only``."""
    statement = sa.select(table).where(called(table, ident, name), *visible).limit(2)
    with session.reader() as connection:
        return only(session.rows(connection, statement), ident, missing)


def only(rows: Sequence[session.Row], ident: str, missing: exceptions.ZunError) -> session.Row:
    """The one row of ``rows`` that ``ident`` calls. Raises ``missing`` for none, and Conflict for several."""
    rows = [row for row in rows if ident in row.values()]  # MariaDB does not count blanks at the end
    if not rows:
        raise missing
    if len(rows) > 1:
        raise exceptions.Conflict(f"Several have the name {ident}. Please use the uuid of one instead.")
    return rows[0]
