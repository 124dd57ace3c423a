# SPDX-License-Identifier: Apache-2.0
"""Limits of a project or of a class, in the query or the body."""

from collections.abc import Mapping
from typing import Any

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.schemas import Field, Schema
from zun.db import quotas as db

_LARGEST = 2**31 - 1


def _limit(value: Any) -> int:
    number = int(value)
    if not db.UNLIMITED <= number <= _LARGEST:
        raise ValueError(f"it must be a whole number from 0 to {_LARGEST}, or {db.UNLIMITED} for no limit")
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

UPDATE_SINCE = {name: microversion.QUOTAS for name in db.RESOURCES if name not in db.SIZES}
UPDATE = Schema(dict.fromkeys(db.RESOURCES, _LIMIT), since=UPDATE_SINCE)


def update(arguments: Mapping[str, Any], version: Version) -> dict[str, int]:
    """Return the limits to write. Raises SchemaValidationError, and InvalidParamInVersion for a newer resource."""
    given = UPDATE(arguments)
    for name in given:
        if name in UPDATE_SINCE:
            microversion.require_for(name, version, UPDATE_SINCE[name])
    return given
