# SPDX-License-Identifier: Apache-2.0
"""JSON as clients send it, read into values that every database and every program takes."""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 30  # objects and lists in one another; MariaDB keeps 32, and a value may be stored inside of others
_TOO_DEEP = f"nested too deeply: {MAX_DEPTH} objects and lists in one another are possible"
_MAX_DIGITS = 300  # of a whole number: it is stored as it came and may be read as a double


def read(given: str | bytes) -> Any:
    """The value of it. Raises ValueError, which says what the text is instead."""
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
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
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
    """ValueError for text that no database and no program takes: NUL, and halves of surrogate pairs."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and ("\0" in item or (not item.isascii() and not _encodes(item))):
            raise ValueError("nothing to keep: a text has a NUL character or half of a surrogate pair")


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
