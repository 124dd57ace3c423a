# SPDX-License-Identifier: Apache-2.0
"""The values that fields are made of.

Patterns end in ``\\Z``: ``$`` would accept a trailing line break.
"""

import datetime
import json
import re
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_utils import uuidutils

from zun.api import limits, parsing
from zun.api.schemas import Field
from zun.api.settings import Range
from zun.common import logs
from zun.topology import amounts

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
        raise ValueError("it looks like a uuid, so it could not be found by this name. Choose another name")
    return value


REQUIRED_NAME = Field({**NAME.schema, "type": "string"}, _no_uuid)
# No character of a line break or of a terminal's commands: what this describes is shown in one line, and logged.
_PRINTED = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z"
_AN_IMAGE = "the name of an image, for example docker.io/library/nginx:1.27"
IMAGE = Field(
    {
        "type": "string",
        "minLength": 2,
        "maxLength": 255,
        "pattern": _PRINTED,
        # Both in one pattern would take time in proportion to the square of the length.
        "allOf": [{"pattern": "[a-zA-Z0-9][a-zA-Z0-9_.-]", "description": _AN_IMAGE}],
        "description": _AN_IMAGE,
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
TEXT = Field({"type": "string", "minLength": 1, "maxLength": limits.COLUMN})
PATH = Field({"type": "string", "minLength": 1, "maxLength": limits.PATH})
_LABEL = {
    "minLength": 1,
    "maxLength": limits.COLUMN,
    "pattern": _PRINTED,
    "description": "one line of text without control characters",
}
LABEL: Field = Field({"type": "string", **_LABEL})
OPTIONAL_LABEL = Field({"type": ["string", "null"], **_LABEL})
OPTIONAL_TEXT = Field({"type": ["string", "null"], "maxLength": limits.COLUMN})
ADDRESS = Field({"type": "string", "maxLength": limits.ADDRESS})
SIZE = Field({"type": ["integer", "string"], "maxLength": limits.ADDRESS})  # checked by ``zun.api.mounts``
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
            between = f"{amounts.text(bounds.lowest)} and {amounts.text(bounds.highest)} {unit}"
            raise ValueError(
                f"{amounts.text(value)} is not between {between}, which the operator allows one container"
            )
        return value

    return check


def cpus(bounds: Range) -> Field:
    """Return the field of a number of CPUs: a float rounded to a millionth, or None."""
    check = _within(bounds, "CPUs")
    return Field(
        {
            "type": ["number", "string", "null"],
            "pattern": r"^[0-9]*(\.([0-9]+))?\Z",
            "minLength": 1,
            "maxLength": parsing.MAX_DIGITS,
            "description": "a number of CPUs, for example 2 or 0.5",
        },
        lambda value: None if value is None else amounts.exact(check(_float(value))),
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int of three hundred digits
        raise ValueError("the number is too large") from None


def amount(bounds: Range, unit: str) -> Field:
    """Return the field of a whole number of ``unit``: an int or None."""
    check = _within(bounds, unit)

    def convert(value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, int) and abs(value) >= 10**parsing.MAX_DIGITS:
            raise ValueError("the number is too large")
        return check(int(value))

    return Field(
        {
            "type": ["integer", "string", "null"],
            "pattern": r"^[0-9]+\Z",
            "maxLength": parsing.MAX_DIGITS,
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
            raise ValueError(f"it must be a whole number from {lowest} to {highest}, got {value!r}")
        return number

    return Field(
        {
            "type": ["integer", "string"],
            "pattern": r"^[0-9]*\Z",
            "maxLength": parsing.MAX_DIGITS,
            "description": "a whole number",
        },
        convert,
    )


def whole(lowest: int, highest: int) -> Field:
    """Return the field of a JSON integer from ``lowest`` to ``highest``."""
    return Field({"type": "integer", "minimum": lowest, "maximum": highest}, int)


STOP_SECONDS = _uint(0, 3600)  # empty text is None: clients send it for "not given"
CHARACTERS = _uint(1, 2**16 - 1, needed=True)  # the kernel's limit for either side of a terminal
EXEC_ID = Field(
    {
        "type": "string",
        "maxLength": 64,
        "pattern": r"^[a-f0-9]{64}\Z",
        "description": "the exec_id that execute answered",
    }
)


def driver(names: Iterable[str]) -> Field:
    return Field({"enum": [*names, None, "None"]}, lambda value: None if value == "None" else value)


PROTOCOLS = ("tcp", "udp", "sctp")
"""Protocols of exposed ports."""


def _signals() -> dict[str, str]:
    """Return the signals' names by every accepted spelling.

    A real-time signal is counted from either end: 37 is ``SIGRTMIN+3`` and ``SIGRTMAX-27``. Docker knows the names up
    to ``SIGRTMIN+15`` and from ``SIGRTMAX-14``. The numbers 32 and 33 belong to the C library (signal(7)).
    """
    spellings: dict[str, str] = {}

    def add(name: str, *texts: str) -> None:
        for text in texts:
            for each in (text, text.removeprefix("SIG")):
                spellings.setdefault(each, name)
                spellings.setdefault(each.lower(), name)

    for name, number in signal.Signals.__members__.items():
        add(name, name, str(int(number)))
    first, last = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    for place in range(first, last + 1):
        up, down = f"SIGRTMIN+{place - first}", f"SIGRTMAX-{last - place}"
        name = {first: "SIGRTMIN", last: "SIGRTMAX"}.get(place, up if place - first <= 15 else down)
        add(name, up, down, str(place))
    return spellings


_SIGNALS = _signals()
SIGNAL = Field(
    {"enum": ["None", *_SIGNALS], "description": "the name or the number of a signal, for example SIGTERM or 15"},
    _SIGNALS.get,
)


def _handled(value: str | None) -> str | None:
    name = None if value is None else _SIGNALS.get(value)
    if value is not None and name in (None, "SIGKILL", "SIGSTOP"):
        raise ValueError(f"{value} is no signal that a program can handle. Give a name, for example SIGHUP")
    return name


HANDLED_SIGNAL = Field(
    {
        "type": ["string", "null"],
        "maxLength": 16,
        "pattern": _PRINTED,
        "description": "a signal that a program can handle, for example SIGHUP",
    },
    _handled,
)

_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2},\d{1,3}", re.ASCII)


def _since(value: Any) -> str | None:
    """Return the text of seconds since 1970, or of a written time in UTC."""
    if value is None:
        return None
    text = str(value)
    if parsing.whole_number(text) is not None:
        return text
    found = _TIME.search(text)
    if found is None:
        raise ValueError("give seconds since 1970 or a time as 'YYYY-MM-DD HH:MM:SS,mmm'")
    try:
        datetime.datetime.strptime(found[0], logs.TIME_FORMAT)
    except ValueError:
        raise ValueError(f"{found[0]} is not a time that exists") from None
    return found[0]


SINCE = Field({"type": ["string", "integer", "null"], "maxLength": limits.COLUMN}, _since)


def _tail(value: Any) -> str:
    """Return the number of lines from the end as text, or ``all`` for anything that is not a number."""
    text = str(value)
    return "all" if parsing.whole_number(text, 9) is None else text


TAIL = Field({"type": ["string", "integer"], "maxLength": limits.COLUMN}, _tail)


def one_of(*values: str) -> Field:
    """Return the field of one of ``values``, as plain text: a refusal would show members of an enumeration as Python
    does.
    """
    return Field({"enum": [str(value) for value in values]})


def optional_one_of(*values: str) -> Field:
    return Field({"enum": [*map(str, values), None]})


def _text_list(value: Any) -> list[str] | None:
    """Return the items as text, as the reference stores numbers in a command."""
    return None if value is None else [str(item) for item in value]


_SCALAR_ITEM = {"type": ["string", "number", "boolean"], "maxLength": max(limits.FIELD_BYTES.values())}
TEXT_LIST = Field({"type": ["array", "null"], "items": _SCALAR_ITEM}, _text_list)


def _text_map(value: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if value is None else {name: str(item) for name, item in value.items()}


def check_bytes(name: str, value: Any) -> None:
    """Raise ValueError if ``value`` has more bytes, as JSON, than ``FIELD_BYTES[name]``."""
    # A number that is too large for orjson is no text either; the standard library writes every one.
    if value is None:
        return
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if size > limits.FIELD_BYTES[name]:
        raise ValueError(f"it has {size} bytes as JSON and may have {limits.FIELD_BYTES[name]}; make it smaller")


def bounded(name: str, field: Field) -> Field:
    """Return ``field`` limited to ``FIELD_BYTES[name]`` bytes. The schema gets the characters, items and members that
    these have room for, because it is looked at first.
    """
    most = limits.FIELD_BYTES[name]
    counts = {
        "string": {"maxLength": most},
        "array": {"maxItems": most // limits.ITEM_BYTES},
        "object": {"maxProperties": most // limits.MEMBER_BYTES},
    }
    kinds = field.schema["type"] if isinstance(field.schema["type"], list) else [field.schema["type"]]

    def convert(value: Any) -> Any:
        check_bytes(name, value)
        return field.convert(value)

    schema = {**field.schema, **{word: count for kind in kinds for word, count in counts.get(kind, {}).items()}}
    return Field(schema, convert, field.inner)


LABELS = bounded("labels", Field({"type": ["object", "null"], "additionalProperties": _SCALAR_ITEM}, _text_map))
_VARIABLE = {
    "maxLength": limits.FIELD_BYTES["environment"],
    "pattern": r"^[^=]+\Z",
    "description": "the name of a variable: not empty, and without '='",
}
ENVIRONMENT = bounded(
    "environment",
    Field(
        {
            "type": ["object", "null"],
            "propertyNames": _VARIABLE,
            "additionalProperties": {"type": "string", "maxLength": limits.FIELD_BYTES["environment"]},
        }
    ),
)
