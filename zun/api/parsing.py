# SPDX-License-Identifier: Apache-2.0
"""Parse text from clients: JSON documents and whole numbers, within limits that every database and program keeps."""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 30  # nested objects and lists; MariaDB allows 32, and a value may be stored inside other objects
_TOO_DEEP = f"nested too deeply: {MAX_DEPTH} levels of objects and lists are the most"
_MAX_JSON_DIGITS = 300  # of a JSON integer: it is stored as it came and may be read as a double


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
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as exc:
        raise ValueError(f"not valid JSON: {str(exc)[:200]}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
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
    if len(text) > _MAX_JSON_DIGITS:
        raise ValueError("a number is too large")
    return int(text)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    raise ValueError(_TOO_DEEP)


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
        elif isinstance(item, str) and ("\0" in item or (not item.isascii() and not _encodes(item))):
            raise ValueError("not storable: a text has a NUL character or half of a surrogate pair")


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
