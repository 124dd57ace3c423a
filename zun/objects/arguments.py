# SPDX-License-Identifier: Apache-2.0
"""The types and sizes of what a host sends. A value of another type than the method declares is refused.

A database compares values of different types in its own way: for MariaDB 0 equals each text that does not begin with a
digit. A number in place of a uuid would be the uuid of other hosts' rows.

A text has at most ``LONGEST`` characters, unless its method declares more: ``Annotated[str, Longest(450)]``. A number
is finite and has at most 64 bits.
"""

import datetime
import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from zun.db.bounds import LONGEST_PROSE, is_number
from zun.objects import base
from zun.topology.ranges import shown

LONGEST = 255
"""Characters of a name: a host, an action, a uuid."""

_SERIES = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class Longest:
    """The most characters of a text."""

    characters: int


Prose = Annotated[str, Longest(LONGEST_PROSE)]
"""A text for people, for example the reason of a failure."""

LONGEST_LAYER = 24 * 2**20
Layer = Annotated[str, Longest(LONGEST_LAYER)]
"""A tar in base64."""


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function, include_extras=True)


def misfit(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str | None:
    """Return which of ``arguments``, by name, has another type than ``function`` declares, or None."""
    hints = _hints(function)
    wrong = (name for name, value in arguments.items() if name in hints and not fits(value, hints[name]))
    return next((f"{name} must be {_named(hints[name])}, got {shown(arguments[name])}" for name in wrong), None)


def fits(value: Any, hint: Any, longest: int = LONGEST) -> bool:
    """Return whether ``value`` has the type ``hint``: ``Collection[str]`` fits ``["a"]``, but not ``"a"`` or ``[0]``.

    A text has at most ``longest`` characters. A bool is no int. A time has no zone, as in rows. A tuple may have
    arrived as a list. No value fits a ``hint`` of another form than the remotable methods use.
    """
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any:
        return True
    if kind is Annotated:
        return fits(value, parts[0], parts[1].characters)
    if kind in (types.UnionType, typing.Union):
        return any(fits(value, each, longest) for each in parts)
    if kind is datetime.datetime:
        return type(value) is kind and value.tzinfo is None
    if kind is str:
        return type(value) is str and len(value) <= longest
    if kind in (float, int):
        return type(value) in ((float, int) if kind is float else (int,)) and is_number(value)
    if kind in (bool, types.NoneType):
        return type(value) is kind
    if kind is tuple:
        return isinstance(value, list | tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if isinstance(kind, type) and issubclass(kind, base.ZunObject):
        return isinstance(value, kind)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, dict) and all(fits(key, parts[0]) and fits(of, parts[1]) for key, of in value.items())
    return len(parts) == 1 and isinstance(value, _SERIES) and all(fits(each, parts[0], longest) for each in value)


def _named(hint: Any) -> str:
    if typing.get_origin(hint) is Annotated:
        inner, longest = typing.get_args(hint)
        return f"{_named(inner)} of at most {longest.characters} characters"
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
