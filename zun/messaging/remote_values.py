# SPDX-License-Identifier: Apache-2.0
"""Arguments and answers of the conductor as JSON values, and back.

A value of a type that JSON lacks is an object with one member: ``{"$time": "2026-01-31T12:00:00"}``.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any

from zun.common import exceptions
from zun.common.disk_pools import DiskPool, PoolUse
from zun.objects import base
from zun.objects.container import Claimed


def _pool_use(parts: list[Any]) -> PoolUse:
    mine, holders, unused = parts
    return PoolUse(None if mine is None else DiskPool(*mine), holders, frozenset(unused))


_OF_ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {"$time": datetime.datetime.fromisoformat, "$set": frozenset}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **_OF_ARGUMENTS,
    "$claimed": lambda parts: Claimed(*parts),
    "$error": lambda parts: _error(parts),
    "$disk_pool": lambda parts: DiskPool(*parts),
    "$pool_use": _pool_use,
}


def key_field(cls: type[base.ZunObject]) -> str:
    """Return the name of the field that names an object of ``cls``."""
    return next(name for name in ("token_hash", "uuid") if name in cls.fields)


def encode(value: Any) -> Any:
    """Return ``value`` as JSON values. Objects become primitives."""
    if type(value) is Claimed:
        return {"$claimed": list(value)}
    match value:
        case base.ZunObject():
            return value.obj_to_primitive()
        case datetime.datetime():
            return {"$time": value.isoformat()}
        case frozenset() | set():
            return {"$set": sorted(value)}
        case DiskPool():
            return {"$disk_pool": list(dataclasses.astuple(value))}
        case PoolUse():
            mine = None if value.mine is None else dataclasses.astuple(value.mine)
            return {"$pool_use": [mine, dict(value.holders), sorted(value.unused)]}
        case Mapping():
            return {key: encode(each) for key, each in value.items()}
        case list() | tuple():
            return [encode(each) for each in value]
        case _:
            return value


def encode_outcome(outcome: Claimed | exceptions.ZunError) -> Any:
    """Return the result of one of several claims as JSON values: ``{"$error": ["Conflict", "It waits for none."]}``."""
    failed = isinstance(outcome, exceptions.ZunError)
    return {"$error": [type(outcome).__name__, str(outcome)]} if failed else encode(outcome)


def _error(parts: list[str]) -> exceptions.ZunError:
    name, text = parts
    return (exceptions.by_name(name) or exceptions.ZunError)(text)


_NAME = f"{base.ZunObject.OBJ_SERIAL_NAMESPACE}.name"


def decode(value: Any, context: Any = None) -> Any:
    """Return the value that ``encode`` was given. A tuple is a list, a set a frozenset."""
    if isinstance(value, dict):
        if _NAME in value:
            return base.ZunObject.obj_from_primitive(value, context)
        if len(value) == 1:
            [(key, only)] = value.items()
            if key in _READERS:
                return _READERS[key](only)
        return {key: decode(each, context) for key, each in value.items()}
    return [decode(each, context) for each in value] if isinstance(value, list) else value


def decode_argument(value: Any) -> Any:
    """Return the value of an argument that ``encode`` was given: nobody sends objects or results of a conductor.

    Raises TypeError and ValueError if the value was not encoded so.
    """
    if isinstance(value, dict):
        if len(value) == 1:
            [(key, only)] = value.items()
            if key in _OF_ARGUMENTS:
                return _OF_ARGUMENTS[key](only)
        return {key: decode_argument(each) for key, each in value.items()}
    return [decode_argument(each) for each in value] if isinstance(value, list) else value
