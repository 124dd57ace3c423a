# SPDX-License-Identifier: Apache-2.0
"""The values that a host may write: types, ranges and sizes, as the columns of the tables declare them.

A conductor asks before it writes the value of a host. A scheduler asks when it reads a row, because a host with a login
of the database, or a hand, may have written anything.
"""

import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from zun.db import models
from zun.topology.ranges import MALFORMED as MALFORMED
from zun.topology.ranges import Real, Text, Whole, is_storable, shown

DEPTH = 32
PARTS = 250_000
CHARACTERS = 8 * 2**20
JSON_CHARACTERS = 2**20
LARGEST = 2**63 - 1
LONGEST_PROSE = 2**20

_COLLECTIONS = (Mapping, list, tuple, set, frozenset)


def excess(value: Any, *, characters: int = CHARACTERS) -> str | None:
    """Return in which way ``value``, of JSON types, is too large, or None. It may be nested to any depth.

    Examples: ``is nested deeper than 32``, ``has the number nan``.
    """
    level, parts, length = [value], 0, 0
    for _ in range(DEPTH):
        parts += len(level)
        below: list[Any] = []
        for each in level:
            if isinstance(each, str | bytes):
                length += len(each)
                if isinstance(each, str) and not is_storable(each):
                    return f"has the text {shown(each)}, with a NUL or half of a surrogate pair"
            elif isinstance(each, Mapping):
                keys = [key for key in each if isinstance(key, str)]
                length += sum(map(len, keys))
                if not all(map(is_storable, keys)):
                    return "has a name with a NUL or half of a surrogate pair"
                below += each.values()
            elif isinstance(each, _COLLECTIONS):
                below += each
            elif not is_number(each):
                return f"has the number {shown(each)}, which no column holds"
        if parts + len(below) > PARTS:
            return f"has more than {PARTS} parts"
        if length > characters:
            return f"has more than {characters} characters"
        if not below:
            return None
        level = below
    return f"is nested deeper than {DEPTH}"


def is_number(value: Any) -> bool:
    """Return whether ``value`` fits into a column if it is a number at all: NaN and infinity do not."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -LARGEST <= value <= LARGEST


def problem(column: sa.Column[Any], value: Any) -> str | None:
    """Return why ``column`` cannot have ``value``, or None. The text begins with the name of the column."""
    if value is None:
        return None if column.nullable else f"{column.name} must not be empty"
    kind = column.type
    if isinstance(kind, models.Json):
        wrong = _of_json(column, kind, value)
        return None if wrong is None else f"{column.name} {wrong}"
    if isinstance(kind, sa.Boolean | sa.DateTime):
        wanted = bool if isinstance(kind, sa.Boolean) else datetime.datetime
        return None if type(value) is wanted else f"{column.name} must be a {wanted.__name__}, got {shown(value)}"
    try:
        _range(column)(value)
    except ValueError as exc:
        return str(exc)
    return None


def _range(column: sa.Column[Any]) -> Whole | Real | Text:
    """Return the range that the noun declares (``nouns.Range``), or else that of its type."""
    kind, declared = column.type, column.info.get("range")
    if declared is not None:
        return declared  # type: ignore[no-any-return]
    if isinstance(kind, sa.String):
        return Text(column.name, kind.length or LONGEST_PROSE)
    if isinstance(kind, sa.Integer):
        most = LARGEST if isinstance(kind, sa.BigInteger) else 2**31 - 1
        return Whole(column.name, most, -most)
    return Real(column.name, 2.0**63, -(2.0**63))


def _of_json(column: sa.Column[Any], kind: models.Json, value: Any) -> str | None:
    if not isinstance(value, kind.kind):
        return f"must be a JSON {'object' if kind.kind is dict else 'array'}, got {shown(value)}"
    wrong = excess(value, characters=column.info.get("characters", JSON_CHARACTERS))
    read = column.info.get("read")
    if wrong is None and read is not None and value:
        try:
            read(value)
        except MALFORMED as exc:
            return f"cannot be read: {exc!r:.200}"
    return wrong


def row_problem(row: Mapping[str, Any], columns: Iterable[sa.Column[Any]]) -> str | None:
    """Return the first problem of ``columns`` in a row, or None."""
    return next(filter(None, (problem(column, row[column.name]) for column in columns)), None)
