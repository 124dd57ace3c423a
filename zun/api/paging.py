# SPDX-License-Identifier: Apache-2.0
"""Pages of lists: the parameters that choose a page, and the link to the next."""

import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import orjson

from zun.api import limits, microversion
from zun.api.microversion import Version
from zun.api.parsing import MAX_DIGITS, whole_number
from zun.api.request import Call
from zun.api.schemas import Field, Schema
from zun.common import exceptions
from zun.db.paging import Place

FLAG = Field({"type": "boolean"})  # any of the spellings below
TEXT = Field({"type": "string", "maxLength": limits.HEAD_BYTES})

# ``expand`` is accepted and means nothing.
_PARAMETERS: Mapping[str, Field] = {
    "limit": Field({"type": "integer", "minimum": 1}),
    "marker": TEXT,
    "sort_key": TEXT,
    "sort_dir": Field({"enum": ["asc", "desc"]}),
    "expand": Field({}),
    "resource_url": TEXT,
}


def parameters(**others: Field) -> Schema:
    """Return the schema of a list's query. ``Page.read`` and the handler check the values, with errors of their own."""
    return Schema({**_PARAMETERS, **others})


LISTED = parameters()

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


def boolean(name: str, value: str | None) -> bool:
    """Return a boolean of a query; None is false. Raises InvalidValue."""
    text = "false" if value is None else value.strip().lower()
    if text not in _TRUE | _FALSE:
        raise exceptions.InvalidValue(f"{name}: '{_short(value)}' is neither true nor false.")
    return text in _TRUE


def check_names(query: Mapping[str, str], known: Set[str], version: Version) -> None:
    """Raise InvalidValue for a parameter that is not in ``known``. Up to 1.40, Zun's own versions, it is ignored.

    Clients of those versions send parameters of their own.
    """
    unknown = query.keys() - known
    if unknown and version >= microversion.STRICT:
        raise exceptions.InvalidValue(
            f"{_short(min(unknown))}: no such parameter; possible are {', '.join(sorted(known))}."
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page. ``limit`` respects the operator's maximum. ``resource_url`` replaces the noun in ``next``."""

    limit: int
    marker: str | None
    sort_key: str
    sort_dir: str
    resource_url: str | None

    @property
    def place(self) -> Place:
        """Return the arguments of the database's queries."""
        return {"limit": self.limit, "marker": self.marker, "sort_key": self.sort_key, "sort_dir": self.sort_dir}

    @classmethod
    def read(cls, call: Call, known: Schema, *, default_key: str, max_limit: int) -> Self:
        """Return the page that the query of ``call`` asks for. Raises InvalidValue, also as ``check_names`` does.

        The database's query checks whether ``sort_key`` is a column.
        """
        query = call.query
        check_names(query, known.names, call.version)
        limit = whole_number(query["limit"]) if "limit" in query else max_limit
        if not limit:
            raise exceptions.InvalidValue(
                f"limit: '{_short(query['limit'])}' is not a whole number from 1 on, of at most {MAX_DIGITS} digits."
            )
        sort_dir = query.get("sort_dir", "asc")
        if sort_dir not in ("asc", "desc"):
            raise exceptions.InvalidValue(f"sort_dir: '{_short(sort_dir)}' is neither asc nor desc.")
        return cls(
            limit=min(max_limit, limit),
            marker=query.get("marker") or None,
            sort_key=query.get("sort_key") or default_key,
            sort_dir=sort_dir,
            resource_url=query.get("resource_url") or None,
        )

    def next_link(self, base_url: str, noun: str, idents: Sequence[str], carried: Mapping[str, Any]) -> str | None:
        """Return the link behind the last of ``idents``, or None if the page was not full. ``carried`` are the filters
        to repeat.
        """
        if len(idents) < self.limit:
            return None
        parameters = {
            "sort_key": self.sort_key,
            "sort_dir": self.sort_dir,
            "limit": self.limit,
            "marker": idents[-1],
            **carried,
        }
        path = urllib.parse.quote(self.resource_url or noun)
        return f"{base_url}/v1/{path}?{urllib.parse.urlencode(parameters)}"


def written(noun: str, pieces: Iterable[Sequence[Any]], next_link: Callable[[], str | None]) -> tuple[bytes, ...]:
    """Return the JSON text of a page whose items come in ``pieces``.

    Each piece is written before the next one is made, so that the next one reuses its memory.
    """
    text = [b'{"%s":[' % noun.encode()]
    for piece in pieces:
        text += [orjson.dumps(piece)[1:-1], b","]
    if len(text) > 1:
        text.pop()
    return (*text, b'],"next":%s}' % orjson.dumps(next_link()))


def _short(value: Any) -> str:
    return str(value)[:64]
