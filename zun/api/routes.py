# SPDX-License-Identifier: Apache-2.0
"""The table of routes: which handler answers which path.

A noun's controller returns its rows; no other module knows the noun. A match takes a few lookups in a dict, because
only the second segment of a path (an identifier) varies, and one more of four segments. Of more than four segments, the
third up to the last but one are one value: ``images/registry:5000/team/app/search``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun.api import errors, microversion
from zun.api.microversion import Version
from zun.api.request import Call
from zun.api.schemas import Schema

NOTHING = object()  # no body at all; None is the four bytes ``null``
UNTOLD = object()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a handler. ``body`` is a JSON value, NOTHING, or the pieces of a JSON text as a tuple or an
    iterator. ``created`` is the uuid of a new item in the route's collection, for the header Location. The route has
    the status.

    ``state`` is what the body depends on besides the request, and ``body`` is then a function that makes the body: it
    is not called for a client that has the body of this state. The state must be read before the body is made.
    """

    body: Any = None
    created: str | None = None
    state: Any = None


NO_CONTENT = Answer(NOTHING)


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table. ``path`` is relative to /v1, with variable parts in braces; a version outside the window is
    answered 406. ``status`` is the status of success.

    The OpenAPI document needs the schemas by which the handler checks ``query``, ``body`` (one, or one for each
    version) or ``arguments`` of either, and the type that it ``returns``.
    """

    method: str
    path: str
    handler: Callable[[Call], Answer]
    since: Version = microversion.MIN
    until: Version = microversion.MAX
    json_only: bool = False
    streams: bool = False  # the handler reads the body itself
    waits: bool = False  # a thread waits for the answer of a host or a scheduler
    tagged: bool = False  # its answers have a state
    query: Schema | None = None
    body: Schema | Mapping[Version, Schema] | None = None
    arguments: Schema | None = None
    returns: Any = UNTOLD
    status: int = 200

    @property
    def pattern(self) -> tuple[str | None, ...]:
        """Return the path's segments, None for a variable one."""
        return tuple(None if part.startswith("{") else part for part in self.path.split("/"))

    @property
    def names(self) -> Sequence[str]:
        return [part.strip("{}") for part in self.path.split("/") if part.startswith("{")]


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._table: dict[tuple[str | None, ...], dict[str, Route]] = {}
        for route in routes:
            rows = self._table.setdefault(route.pattern, {})
            if route.method in rows:
                raise ValueError(f"two rows for {route.method} {route.path}")
            rows[route.method] = route

    @property
    def nouns(self) -> list[str]:
        """Return the collections, in the order of the table."""
        return list(dict.fromkeys(str(pattern[0]) for pattern in self._table))

    def match(self, method: str, segments: tuple[str, ...]) -> tuple[Route, dict[str, str]]:
        """Return the row for a path (without ``v1``) and the values of its variable parts.

        Raises PathNotFound, or MethodNotAllowed for a collection or an item without such a method. A sub-action called
        with another method is a PathNotFound.
        """
        if len(segments) > 4:
            segments = (*segments[:2], "/".join(segments[2:-1]), segments[-1])
        for pattern in _patterns(segments):
            rows = self._table.get(pattern)
            if rows is None:
                continue
            route = rows.get(method)
            if route is not None:
                values = [part for part, name in zip(segments, pattern, strict=False) if name is None]
                return route, dict(zip(route.names, values, strict=True))
            if method in ("HEAD", "OPTIONS") or len(pattern) == 1 or (len(pattern) == 2 and pattern[1] is None):
                raise errors.MethodNotAllowed(
                    f"{method} is not possible here; possible is {', '.join(sorted(rows))}.",
                    headers=[("Allow", ", ".join(sorted(rows)))],
                )
        raise errors.PathNotFound()


def _patterns(segments: tuple[str, ...]) -> Iterator[tuple[str | None, ...]]:
    """Yield the patterns that the path may have, the most specific first."""
    yield segments
    if len(segments) > 1:
        yield (segments[0], None, *segments[2:])
    if len(segments) == 4:
        yield (segments[0], None, segments[2], None)
        yield (segments[0], None, None, segments[3])
