# SPDX-License-Identifier: Apache-2.0
"""The form of the fields of create that ask for traits and aggregates. What they mean together is in
``zun.api.traits``.
"""

from typing import Any

from zun.api import limits
from zun.api.schemas import Field, scalars
from zun.common import traits

_NAME = {
    "type": "string",
    "maxLength": traits.LONGEST,
    "pattern": traits.NAME,
    "description": "the name of a trait, for example HW_CPU_X86_AVX2 or CUSTOM_RACK_7",
}
_AGGREGATE = {**scalars.LABEL.schema, "description": "the name or uuid of an aggregate"}


def _known(names: list[str]) -> list[str]:
    """Return each name once, in the order given. Raises ValueError for one that no host can have."""
    for name in names:
        if wrong := traits.problem(name):
            raise ValueError(wrong)
    return list(dict.fromkeys(names))


def _names(value: Any) -> list[str] | None:
    return None if value is None else _known(value)


def _alternatives(value: Any) -> list[list[str]] | None:
    return None if value is None else [_known(names) for names in value]


def _aggregates(value: Any) -> list[list[str]] | None:
    return None if value is None else [list(dict.fromkeys(names)) for names in value]


def _lists(item: dict[str, Any]) -> dict[str, Any]:
    """Lists of alternatives: one of each is asked."""
    alternatives = {"type": "array", "items": item, "minItems": 1, "maxItems": limits.PARTS}
    return {"type": ["array", "null"], "items": alternatives}


NAMES = Field({"type": "array", "items": _NAME}, _known)

FIELDS = {
    "required_traits": scalars.bounded("required_traits", Field({**NAMES.schema, "type": ["array", "null"]}, _names)),
    "forbidden_traits": scalars.bounded("forbidden_traits", Field({**NAMES.schema, "type": ["array", "null"]}, _names)),
    "any_traits": scalars.bounded("any_traits", Field(_lists(_NAME), _alternatives)),
    "member_of": scalars.bounded("member_of", Field(_lists(_AGGREGATE), _aggregates)),
}
