# SPDX-License-Identifier: Apache-2.0
"""Limits, of a project or of a class, in the query or the body."""

from typing import Any

from zun.api.schemas import Field, Schema
from zun.db import quotas as db

_LARGEST = 2**31 - 1


def _limit(value: Any) -> int:
    number = int(value)
    if not db.UNLIMITED <= number <= _LARGEST:
        raise ValueError(f"a whole number from 0 to {_LARGEST} is wanted, or {db.UNLIMITED} for no limit")
    return number


_LIMIT = Field(
    {
        "type": ["integer", "string"],
        "pattern": r"^-?[0-9]+\Z",
        "maxLength": 15,
        "description": "a whole number, or -1 for no limit",
    },
    _limit,
)

UPDATE = Schema(dict.fromkeys(db.RESOURCES, _LIMIT))
