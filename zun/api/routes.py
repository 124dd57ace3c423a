# SPDX-License-Identifier: Apache-2.0
"""Which path is answered by which handler, as a table.

A noun's controller gives its rows; nothing else has to know the noun. Matching is a few lookups in a dict,
because only the second segment of a path (an identifier) varies, and of four segments one more.
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
    """What a handler returns. ``body`` is an object or a value of JSON, or NOTHING, or the pieces of a JSON text, in a
    tuple or from an iterator. ``created`` is the uuid of what the request added to the collection of its route, for
    the header Location. Its status is that of the route.
    """

    body: Any = None
    created: str | None = None


NO_CONTENT = Answer(NOTHING)


@dataclass(frozen=True, slots=True)
class Route:
    """One row. ``path`` is relative to /v1 and names its variable part in braces; others are answered 406. ``status``
    is that of the answer when the handler succeeds.

    What the handler takes and gives is said for the OpenAPI document: the schemas by which it checks the ``query``, the
    ``body`` (of one version or of each), or ``arguments`` that may stand in either, and the type of the body that it
    ``returns``.
    """

    method: str
    path: str
    handler: Callable[[Call], Answer]
    since: Version = microversion.MIN
    until: Version = microversion.MAX
    json_only: bool = False
    streams: bool = False  # the handler reads the body itself
    query: Schema | None = None
    body: Schema | Mapping[Version, Schema] | None = None
    arguments: Schema | None = None
    returns: Any = UNTOLD
    status: int = 200

    @property
    def pattern(self) -> tuple[str | None, ...]:
        """The path's segments, None for a variable one."""
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
        """The collections, in the order of the table."""
        return list(dict.fromkeys(str(pattern[0]) for pattern in self._table))

    def match(self, method: str, segments: tuple[str, ...]) -> tuple[Route, dict[str, str]]:
        """The row for a path (without ``v1``) and the values of its variable parts.

        Raises PathNotFound, or MethodNotAllowed for a collection or an item that has no such verb. A
        sub-action called by another verb does not exist.
        """
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
    """The patterns that may be of the path, the one that says most first."""
    yield segments
    if len(segments) > 1:
        yield (segments[0], None, *segments[2:])
    if len(segments) == 4:
        yield (segments[0], None, segments[2], None)
        yield (segments[0], None, None, segments[3])
