# SPDX-License-Identifier: Apache-2.0
"""The types of what a host sends. A value of another type than the method declares is refused.

A database compares values of different types in its own way: for MariaDB 0 equals each text that does not begin with a
digit. A number in place of a uuid would be the uuid of other hosts' rows.
"""

import datetime
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

_SERIES = (list, tuple, set, frozenset)
_hints = functools.cache(typing.get_type_hints)


def misfit(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str | None:
    """Return which of ``arguments``, by name, has another type than ``function`` declares, or None."""
    hints = _hints(function)
    wrong = (name for name, value in arguments.items() if name in hints and not fits(value, hints[name]))
    return next((f"{name} must be {_named(hints[name])}, got {arguments[name]!r:.80}" for name in wrong), None)


def fits(value: Any, hint: Any) -> bool:
    """Return whether ``value`` has the type ``hint``: ``Collection[str]`` fits ``["a"]``, but not ``"a"`` or ``[0]``.

    A bool is no int. A time has no zone, as in rows. A tuple may have arrived as a list. No value fits a ``hint`` of
    another form than the remotable methods use.
    """
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any:
        return True
    if kind in (types.UnionType, typing.Union):
        return any(fits(value, each) for each in parts)
    if kind is datetime.datetime:
        return type(value) is kind and value.tzinfo is None
    if kind is float:
        return type(value) in (float, int)
    if kind in (str, int, bool, types.NoneType):
        return type(value) is kind
    if kind is tuple:
        return isinstance(value, list | tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, dict) and all(fits(key, parts[0]) and fits(of, parts[1]) for key, of in value.items())
    return len(parts) == 1 and isinstance(value, _SERIES) and all(fits(each, parts[0]) for each in value)


def _named(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
