# SPDX-License-Identifier: Apache-2.0
"""The nouns of the service: one class each, which declares every fact of its members once.

A member is an annotation: ``Annotated`` with its type, one sentence that says what it means, and marks. A class
attribute is its default. Without marks, the type alone says how a member is stored and sent:

==================  =========================================  ===================
Type                Column                                     Field of a message
==================  =========================================  ===================
str                 as ``Text`` or another mark says           text
int, float, bool    Integer, Double, Boolean                   number, boolean
datetime            a UTC time without a zone                  a UTC time
dict, list          JSON                                       JSON
``| None``          nullable                                   nullable
==================  =========================================  ===================

``zun.db.models`` makes tables of nouns, ``zun.objects.base`` the fields of objects, ``zun.api.views.members`` answers
and their schemas, ``zun.api.schemas.containers`` the arguments of create, and the reference page its tables. What needs
a rule, such as a member that is computed from others, has the rule there, and its declaration here.
"""

import enum
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most so many characters."""

    characters: int


class Mark(enum.Enum):
    KEY = "the number that the database gives a row: of this row, if the member is id"
    UUID = "a uuid"
    PROSE = "a text of any length, which the service or an engine has written"
    SECRET = "an encrypted text of any length"
    BIG = "a number of 64 bits"
    UNIQUE = "no other row has the same"
    WRITTEN = "a row always has it, though an object may not have it yet"
    SERVER_DEFAULT = "the database knows the default: the column came to rows that were there already"
    UNSENT = "no field of messages"
    UNSTORED = "no column: the view computes it"
    LINKS = "no column: where the API has it"
    INVENTORY = "its host writes it"
    OPTIONAL = "some answers lack it"


KEY, UUID, PROSE, SECRET, BIG, UNIQUE, WRITTEN, SERVER_DEFAULT, UNSENT, UNSTORED, LINKS, INVENTORY, OPTIONAL = Mark


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a host may write. ``read`` raises ValueError for any other value (``zun.topology.ranges``)."""

    read: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Readable:
    """The JSON value that a host may write is one that ``read`` takes, with at most so many characters."""

    read: Callable[[Any], object]
    characters: int = 2**20


@dataclass(frozen=True, slots=True)
class Instead:
    """The value that replaces a malformed one of a JSON column. Without this mark an empty object or list does."""

    value: list[Any]


@dataclass(frozen=True, slots=True)
class In:
    """The member is no column itself: the JSON object of this column has it."""

    column: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The version of the object that brought the field. Without this mark it is 1.0."""

    since: str


@dataclass(frozen=True, slots=True)
class Shown:
    """Answers have the member from microversion 1.``since`` on.

    ``kind`` is its type there if it is another one. A ``restricted`` member is left out for a caller to whom policy
    ``container:get_one:<member>`` does not allow it.
    """

    kind: Any = None
    since: int = 1
    restricted: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """Create takes the member from microversion 1.``since`` on, except for ``values`` that need a later one.

    Without ``if_empty`` an empty or false value is allowed in every version: it asks for nothing.
    """

    since: int = 1
    if_empty: bool = True
    values: Mapping[str, int] = field(default_factory=dict)


class Noun:
    """The base class of nouns."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, read from its annotation.

    ``kind`` is the type without None. ``default`` is ``...`` for a member without a default.
    """

    name: str
    kind: Any
    nullable: bool
    default: Any
    meaning: str
    marks: tuple[Any, ...]

    def mark(self, kind: type) -> Any:
        """Return the mark of this type, or None."""
        return next((each for each in self.marks if isinstance(each, kind)), None)

    @property
    def is_stored(self) -> bool:
        return UNSTORED not in self.marks and LINKS not in self.marks and self.mark(In) is None

    @property
    def is_sent(self) -> bool:
        return self.is_stored and UNSENT not in self.marks

    @property
    def base(self) -> Any:
        """The type without its arguments: dict of ``dict[str, str]``."""
        return get_origin(self.kind) or self.kind

    @property
    def shown_kind(self) -> Any:
        """The type in answers."""
        shown = self.mark(Shown)
        if shown.kind is not None:
            return shown.kind
        return self.kind | None if self.nullable else self.kind

    @property
    def may_be_null(self) -> bool:
        """Whether an answer may have null for the member."""
        return NoneType in get_args(self.shown_kind)


@functools.cache
def members(noun: type) -> tuple[Member, ...]:
    """Return the members of a noun, or of a class that adds to one, in the order of their declaration."""
    found: dict[str, Member] = {}
    for cls in reversed(noun.__mro__):
        if issubclass(cls, Noun):
            found |= {name: _member(cls, name, kind) for name, kind in inspect.get_annotations(cls).items()}
    return tuple(found.values())


def since(noun: type, given: Mapping[str, Any]) -> int:
    """Return the minor microversion from which on create takes every member that is ``given``, with its value."""
    asked = [(member.name, mark) for member in members(noun) if (mark := member.mark(Asked)) and member.name in given]
    values = (minor for name, mark in asked for value, minor in mark.values.items() if given[name] == value)
    return max([1, *(mark.since for _, mark in asked), *values])


def _member(cls: type, name: str, annotation: Any) -> Member:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    some = [each for each in kinds if each is not NoneType]
    texts = [each for each in marks if isinstance(each, str)]
    return Member(
        name,
        kind=some[0] if len(some) == 1 else Union[tuple(some)],  # noqa: UP007
        nullable=NoneType in kinds,
        default=vars(cls).get(name, ...),
        meaning=texts[0] if texts else "",
        marks=tuple(each for each in marks if not isinstance(each, str)),
    )
