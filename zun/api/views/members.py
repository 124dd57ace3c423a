# SPDX-License-Identifier: Apache-2.0
"""Answers about nouns, and the types that describe them, from the declarations in ``zun.nouns``."""

import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict, get_type_hints

from zun import nouns
from zun.api.microversion import Version, v1
from zun.api.views import links, times
from zun.nouns import Member

Shown = dict[str, Any]


@functools.cache
def shown_in(noun: type, version: Version) -> tuple[Member, ...]:
    """Return the members that answers of ``version`` have, in their order."""
    return tuple(each for each in _shown(noun) if v1(each.mark(nouns.Shown).since) <= version)


def _shown(noun: type) -> list[Member]:
    return [each for each in nouns.members(noun) if each.mark(nouns.Shown)]


class Answer:
    """The answers about a noun, for the document: ``Image = Annotated[dict[str, Any], Answer(owned.Image)]``.

    ``name`` is that of the schema, if it is not the noun's. ``own`` is a TypedDict of members that only this view has.
    ``better`` are types that the view knows better than the noun.
    """

    def __init__(self, noun: type, name: str | None = None, *, own: Any = None, **better: Any) -> None:
        hints = get_type_hints(own, include_extras=True) if own else {}
        hints |= {each.name: _hint(each, better.get(each.name)) for each in _shown(noun)}
        made: Any = TypedDict
        self.shape = made(name or noun.__name__, hints)
        self.shape.__module__ = noun.__module__


def _hint(member: Member, better: Any) -> Any:
    mark = member.mark(nouns.Shown)
    kind = better or member.shown_kind
    if nouns.LINKS in member.marks:
        kind = list[links.Link]
    elif member.kind is datetime.datetime:
        kind = str | None
    if mark.since > 1:
        kind = Annotated[kind, v1(mark.since)]
    is_optional = mark.since > 1 or mark.restricted or nouns.OPTIONAL in member.marks
    return NotRequired[kind] if is_optional else kind


def show(
    noun: type,
    row: Mapping[str, Any],
    version: Version,
    *,
    time: Callable[[datetime.datetime | None], str | None] = times.of_resource,
    **computed: Any,
) -> Shown:
    """Return the members of ``row`` that ``version`` has. ``computed`` are those that are not as in the row.

    A computed value may be a function, which is called only if the version has the member. ``...`` leaves the member
    out.
    """
    shown: Shown = {}
    for name, inside, is_time, is_bool in _read(noun, version):
        if name in computed:
            value = computed[name]
            if callable(value):
                value = value()
        else:
            value = row[name] if inside is None else (row[inside] or {}).get(name)
        if value is not ...:
            shown[name] = time(value) if is_time else bool(value) if is_bool else value
    return shown


@functools.cache
def _read(noun: type, version: Version) -> tuple[tuple[str, str | None, bool, bool], ...]:
    """Return the members of ``version``: name, the JSON column that has it, and whether it is a time or a boolean."""
    return tuple(
        (each.name, inside.column if inside else None, each.kind is datetime.datetime, each.kind is bool)
        for each in shown_in(noun, version)
        for inside in [each.mark(nouns.In)]
    )
