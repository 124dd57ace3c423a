# SPDX-License-Identifier: Apache-2.0
"""Limits of a project or of a class, in the query or the body."""

from collections.abc import Mapping
from typing import Any

from zun.api import microversion
from zun.api.device_aliases import Aliases
from zun.api.microversion import Version
from zun.api.schemas import Field, Schema
from zun.common import exceptions
from zun.db import quotas as db
from zun.topology.device_spec import resource_class

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

_DEVICE = rf"^{db.DEVICE}[a-zA-Z0-9][a-zA-Z0-9_.-]{{0,254}}\Z"
UPDATE_SINCE = {name: microversion.QUOTAS for name in db.RESOURCES if name not in db.SIZES}
UPDATE = Schema(
    dict.fromkeys(db.RESOURCES, _LIMIT),
    since={**UPDATE_SINCE, _DEVICE: microversion.DEVICE_QUOTAS},
    patterns={_DEVICE: _LIMIT},
)


def update(arguments: Mapping[str, Any], version: Version, aliases: Aliases) -> dict[str, int]:
    """Return the limits to write.

    Raises SchemaValidationError, InvalidParamInVersion for a newer resource, and InvalidValue for a resource of devices
    that are neither an alias nor a resource class.
    """
    given = UPDATE(arguments)
    for name in given:
        if name in UPDATE_SINCE:
            microversion.require_for(name, version, UPDATE_SINCE[name])
        if name.startswith(db.DEVICE):
            microversion.require_for(name, version, microversion.DEVICE_QUOTAS)
            _check_device(name.removeprefix(db.DEVICE), aliases)
    return given


def _check_device(name: str, aliases: Aliases) -> None:
    if name not in aliases and resource_class(name) != name:
        known = f"This cloud has {', '.join(sorted(aliases))}" if aliases else "This cloud has none"
        raise exceptions.InvalidValue(
            f"{db.DEVICE}{name}: there is no alias '{name}'. {known}. Name one of them, or a resource class such "
            f"as {db.DEVICE}{resource_class(name)}."
        )
