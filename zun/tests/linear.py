# SPDX-License-Identifier: Apache-2.0
"""Prove of a regular expression that Python's engine needs time in proportion to the text, whatever the text is.

The engine tries one alternative after the other and goes back when one fails. Going back is cheap if the next character
alone decides at each turn of a loop: another turn, or what follows the loop, and which alternative inside of it. Then
each position of the text is looked at a fixed number of times. Choices outside of loops multiply that number only.

An expression that is searched for, and may begin anywhere, must be short, or begin with a character that no other part
of the expression takes: attempts from two positions then look at different parts of the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

#: What stands for all characters: the first blocks, with every separator of lines, and a few of the others.
ALPHABET = [*map(chr, range(0x2100)), "\ufeff", "\uffff", "\U0001f600"]
SHORT = 32  # characters of an expression that may begin anywhere
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_LOOPS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
Chars = frozenset[str]
NONE: Chars = frozenset()


class Doubtful(Exception):
    """The proof does not hold. The text says where."""


@dataclass(frozen=True, slots=True)
class Part:
    """``first`` are the characters that a match can begin with, ``every`` those in it. ``empty``: it can match ''."""

    first: Chars
    every: Chars
    empty: bool


def check(pattern: str | re.Pattern[Any], *, searched: bool) -> None:
    """Raise Doubtful unless the engine needs linear time. ``searched``: a match may begin anywhere in the text."""
    compiled = re.compile(pattern)
    source = compiled.pattern if isinstance(compiled.pattern, str) else compiled.pattern.decode("latin-1")
    flags = compiled.flags & (re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE)
    tree = parser.parse(source, flags)
    fold = bool(tree.state.flags & re.IGNORECASE)
    items = list(tree)
    whole = _sequence(items, NONE, flags=tree.state.flags, fold=fold, looped=False)
    anchored = bool(items) and items[0][0] is op.AT and items[0][1] in (op.AT_BEGINNING, op.AT_BEGINNING_STRING)
    if searched and not anchored and tree.getwidth()[1] > SHORT:
        behind = _sequence(items[1:], NONE, flags=tree.state.flags, fold=fold, looped=False)
        if items[0][0] not in (op.LITERAL, op.IN) or whole.first & behind.every:
            raise Doubtful(f"{source!r} may begin anywhere, and attempts overlap")


def _sequence(items: Sequence[Any], follow: Chars, *, flags: int, fold: bool, looped: bool) -> Part:
    """Return the part that ``items`` are. ``follow`` are the characters that can come behind it."""
    part = Part(NONE, NONE, True)
    for item in reversed(items):
        one = _item(item, part.first | (follow if part.empty else NONE), flags=flags, fold=fold, looped=looped)
        part = Part(
            one.first | (part.first if one.empty else NONE), one.every | part.every, one.empty and part.empty
        )
    return part


def _item(item: Any, follow: Chars, *, flags: int, fold: bool, looped: bool) -> Part:
    kind, value = item
    inner = {"flags": flags, "fold": fold}
    if kind is op.AT:
        return Part(NONE, NONE, True)
    if kind is op.SUBPATTERN:
        return _sequence(value[3], follow, looped=looped, **inner)
    if kind is op.BRANCH:
        parts = [_sequence(branch, follow, looped=looped, **inner) for branch in value[1]]
        if looped:
            taken: set[str] = set()
            for each in parts:
                begins = each.first | (follow if each.empty else NONE)
                _apart(begins, frozenset(taken), "two alternatives in a loop")
                taken |= begins
        return _any(parts)
    if kind in _LOOPS:
        return _repeat(value, follow, looped=looped, **inner)
    if kind in (op.ASSERT, op.ASSERT_NOT) and parser.SubPattern(value[1].state, value[1].data).getwidth()[1] <= SHORT:
        return Part(NONE, NONE, True)
    chars = _chars(item, flags, fold)
    return Part(chars, chars, False)


def _repeat(value: Any, follow: Chars, *, flags: int, fold: bool, looped: bool) -> Part:
    lowest, highest, items = value
    again = highest > 1
    choice = highest > lowest
    looped = looped or (again and choice)
    once = _sequence(items, NONE, flags=flags, fold=fold, looped=looped)
    behind = follow | (once.first if again else NONE)
    _sequence(items, behind, flags=flags, fold=fold, looped=looped)
    if choice and looped:
        if once.empty:
            raise Doubtful("a loop of what may be empty")
        _apart(once.first, follow, "another turn of a loop and what follows")
    return Part(once.first, once.every, once.empty or lowest == 0)


def _any(parts: Sequence[Part]) -> Part:
    return Part(
        NONE.union(*(each.first for each in parts)),
        NONE.union(*(each.every for each in parts)),
        any(each.empty for each in parts),
    )


def _apart(one: Chars, other: Chars, what: str) -> None:
    if both := one & other:
        raise Doubtful(f"{what} both take {min(both)!r}")


def _chars(item: Any, flags: int, fold: bool) -> Chars:
    kind, value = item
    if kind is op.ANY:
        return frozenset(each for each in ALPHABET if flags & re.DOTALL or each != "\n")
    members = value if kind is op.IN else [item]
    found: set[str] = set()
    negated = False
    for name, given in members:
        if name is op.NEGATE:
            negated = True
        elif name is op.LITERAL:
            found.add(chr(given))
        elif name is op.NOT_LITERAL:
            found |= {each for each in ALPHABET if ord(each) != given}
        elif name is op.RANGE:
            found |= {each for each in ALPHABET if given[0] <= ord(each) <= given[1]}
        elif name is op.CATEGORY:
            found |= {each for each in ALPHABET if re.fullmatch(_CATEGORIES[given], each)}
        else:
            raise Doubtful(f"{name} is not known here")
    if fold:
        found |= {each for one in found for each in (one.lower(), one.upper())}
    return frozenset(each for each in ALPHABET if each not in found) if negated else frozenset(found)
