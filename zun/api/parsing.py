# SPDX-License-Identifier: Apache-2.0
"""Parse text from clients: JSON documents and whole numbers, within limits that every database and program keeps."""

import json
import math
from typing import Any, NoReturn

from zun.api import limits
from zun.topology.ranges import is_storable

_TOO_DEEP = f"nested too deeply: {limits.BODY_DEPTH} levels of objects and lists are the most"
_TOO_MANY = f"too large: {limits.BODY_VALUES} texts, numbers, lists and objects together are the most"

MAX_DIGITS = 15  # of a whole number outside JSON: no amount is longer, and int() of 15 digits is cheap


def whole_number(text: str, most: int = MAX_DIGITS) -> int | None:
    """Return the number that ``text`` spells in at most ``most`` ASCII digits, or None for any other text.

    Python's own ``int`` accepts blanks, signs, underscores and the digits of every script, and is slow for thousands of
    digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None


def json_value(given: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, whose text completes "the body is ..."."""
    try:
        text = given if isinstance(given, str) else given.decode("utf-8-sig")
        nested = text.count("[") + text.count("{")
        if nested + text.count(",") >= limits.BODY_VALUES:
            _check_count(text)
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except _TooMany:
        raise ValueError(_TOO_MANY) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as exc:
        raise ValueError(f"not valid JSON: {str(exc)[:200]}") from None
    if nested > limits.BODY_DEPTH:
        _check_depth(value)
    if "\\u" in text:
        _check_characters(value)
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > limits.NUMBER_DIGITS:
        raise ValueError("a number is too large")
    return int(text)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(limits.BODY_DEPTH + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    raise ValueError(_TOO_DEEP)


class _TooMany(Exception):
    pass


def _check_count(text: str) -> None:
    """Raise _TooMany for more values than a body may have. They are counted before they are made: objects cost more
    than their text.
    """
    outside = "t".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])  # with t for each text
    outside = "".join(outside.split())
    empty = outside.count("[]") + outside.count("{}")
    # One value to each comma, one more to each list and object that is not empty, and the whole.
    if outside.count(",") + outside.count("[") + outside.count("{") - empty + 1 > limits.BODY_VALUES:
        raise _TooMany


def _check_characters(value: Any) -> None:
    """Raise ValueError for text that databases and programs reject: NUL and halves of surrogate pairs."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and not is_storable(item):
            raise ValueError("not storable: a text has a NUL character or half of a surrogate pair")
