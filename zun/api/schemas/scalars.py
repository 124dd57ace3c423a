# SPDX-License-Identifier: Apache-2.0
"""The values that fields are made of. Names follow the API contract.

Patterns end in ``\\Z``: ``$`` would let a trailing line break through.
"""

import datetime
import re
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_utils import uuidutils

from zun.api import digits
from zun.api.schemas import Field
from zun.api.settings import Range
from zun.common import logs

ANYTHING = Field({})

NAME = Field(
    {
        "type": ["string", "null"],
        "minLength": 2,
        "maxLength": 255,
        "pattern": r"^[a-zA-Z0-9][a-zA-Z0-9_.-]+\Z",
        "description": "a name of at least two letters, digits, '.', '_' and '-', the first a letter or a digit",
    }
)


def _no_uuid(value: str) -> str:
    if uuidutils.is_uuid_like(value):
        raise ValueError("it looks like a uuid, so nobody could find it by this name")
    return value


REQUIRED_NAME = Field({**NAME.schema, "type": "string"}, _no_uuid)
IMAGE = Field(
    {
        "type": "string",
        "minLength": 2,
        "maxLength": 255,
        "pattern": "[a-zA-Z0-9][a-zA-Z0-9_.-]",
        "description": "the name of an image, for example docker.io/library/nginx:1.27",
    }
)
HOST = Field(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": r"^[a-zA-Z0-9._-]*\Z",
        "description": "a name of letters, digits, '.', '_' and '-'",
    }
)
TEXT = Field({"type": "string", "minLength": 1})
LABEL = Field({"type": "string", "minLength": 1, "maxLength": 255})  # what one column of text holds
OPTIONAL_LABEL = Field({"type": ["string", "null"], "minLength": 1, "maxLength": 255})
OPTIONAL_TEXT = Field({"type": ["string", "null"], "maxLength": 255})
OBJECT = Field({"type": ["object", "null"]})
# The reference stores the capital letters and then knows no such policy; one spelling is enough for the hosts.
PULL = Field(
    {"enum": ["never", "always", "ifnotpresent", "Never", "Always", "IfNotPresent", None]},
    lambda value: None if value is None else value.lower(),
)


def _boolean(true: str, false: str) -> Field:
    yes, no = true.split(), false.split()
    return Field({"enum": [True, False, *yes, *no]}, lambda value: value is True or value in yes)


B3 = _boolean("True true", "False false")
BX = _boolean("True TRUE true 1 ON On on YES Yes yes", "False FALSE false 0 OFF Off off NO No no")


def _within(bounds: Range, unit: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not bounds.lowest <= value <= bounds.highest:
            raise ValueError(
                f"{value:.12g} is not between {bounds.lowest:.12g} and {bounds.highest:.12g} {unit}, which the "
                "operator allows one container"
            )
        return value

    return check


def cpus(bounds: Range) -> Field:
    """A number of CPUs as float, or None."""
    check = _within(bounds, "CPUs")
    return Field(
        {
            "type": ["number", "string", "null"],
            "pattern": r"^[0-9]*(\.([0-9]+))?\Z",
            "minLength": 1,
            "maxLength": digits.LONGEST,
            "description": "a number of CPUs, for example 2 or 0.5",
        },
        lambda value: None if value is None else check(_float(value)),
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int of three hundred digits
        raise ValueError("the number is too large") from None


def amount(bounds: Range, unit: str) -> Field:
    """A whole number of ``unit`` as int, or None."""
    check = _within(bounds, unit)

    def convert(value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, int) and abs(value) >= 10**digits.LONGEST:
            raise ValueError("the number is too large")
        return check(int(value))

    return Field(
        {
            "type": ["integer", "string", "null"],
            "pattern": r"^[0-9]+\Z",
            "maxLength": digits.LONGEST,
            "description": f"a whole number of {unit}, written without the unit",
        },
        convert,
    )


def _uint(lowest: int, highest: int, *, needed: bool = False) -> Field:
    def convert(value: Any) -> int | None:
        if value == "" and not needed:
            return None
        number = int(value) if value != "" else lowest - 1
        if not lowest <= number <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest} is wanted")
        return number

    return Field(
        {
            "type": ["integer", "string"],
            "pattern": r"^[0-9]*\Z",
            "maxLength": digits.LONGEST,
            "description": "a whole number",
        },
        convert,
    )


def whole(lowest: int, highest: int) -> Field:
    """A number from ``lowest`` to ``highest``, as a number."""
    return Field({"type": "integer", "minimum": lowest, "maximum": highest}, int)


STOP_SECONDS = _uint(0, 3600)  # empty text is None: clients send it for "not given"
CHARACTERS = _uint(1, 2**16 - 1, needed=True)  # the kernel's limit for either side of a terminal
EXEC_ID = Field({"type": "string", "pattern": r"^[a-f0-9]{64}\Z", "description": "the exec_id that execute answered"})


def driver(names: Iterable[str]) -> Field:
    return Field({"enum": [*names, None, "None"]}, lambda value: None if value == "None" else value)


def _signals() -> dict[str, str]:
    """Every accepted spelling -> the signal's name."""
    spellings: dict[str, str] = {}
    for name, number in signal.Signals.__members__.items():
        for text in (name, name.removeprefix("SIG"), str(int(number))):
            spellings.setdefault(text, name)
            spellings.setdefault(text.lower(), name)
    return spellings


_SIGNALS = _signals()
SIGNAL = Field(
    {"enum": ["None", *_SIGNALS], "description": "the name or the number of a signal, for example SIGTERM or 15"},
    _SIGNALS.get,
)

_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2},\d{1,3}", re.ASCII)


def _since(value: Any) -> str | None:
    """The text of it: seconds since 1970, or a written time, which is UTC."""
    if value is None:
        return None
    text = str(value)
    if digits.whole(text) is not None:
        return text
    found = _TIME.search(text)
    if found is None:
        raise ValueError("seconds since 1970 or a time as 'YYYY-MM-DD HH:MM:SS,mmm' is wanted")
    try:
        datetime.datetime.strptime(found[0], logs.TIME_FORMAT)
    except ValueError:
        raise ValueError(f"{found[0]} is no time that exists") from None
    return found[0]


SINCE = Field({"type": ["string", "integer", "null"]}, _since)


def _tail(value: Any) -> str:
    """How many lines from the end; whatever is no number is all of them."""
    text = str(value)
    return "all" if digits.whole(text, 9) is None else text


TAIL = Field({"type": ["string", "integer"]}, _tail)


def one_of(*values: str) -> Field:
    """``values`` may be the members of an enumeration: as such a refusal would show them as Python does."""
    return Field({"enum": [str(value) for value in values]})


def optional_one_of(*values: str) -> Field:
    return Field({"enum": [*map(str, values), None]})


def _text_list(value: Any) -> list[str] | None:
    """Items as text, the way the reference stores numbers in a command."""
    return None if value is None else [str(item) for item in value]


_SCALAR_ITEM = {"type": ["string", "number", "boolean"]}
TEXT_LIST = Field({"type": ["array", "null"], "items": _SCALAR_ITEM}, _text_list)


def _text_map(value: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if value is None else {name: str(item) for name, item in value.items()}


LABELS = Field({"type": ["object", "null"], "additionalProperties": _SCALAR_ITEM}, _text_map)
_VARIABLE = {"pattern": r"^[^=]+\Z", "description": "the name of a variable: not empty, and without '='"}
ENVIRONMENT = Field(
    {"type": ["object", "null"], "propertyNames": _VARIABLE, "additionalProperties": {"type": "string"}}
)
