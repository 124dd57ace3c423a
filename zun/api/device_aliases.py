# SPDX-License-Identifier: Apache-2.0
"""The operator's names for devices: the option ``[devices] alias``, in the JSON form of Nova's option."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zun.api.schemas import Field, Schema
from zun.common import exceptions, traits
from zun.topology.device_request import DeviceMatch, DevicePolicy
from zun.topology.device_spec import resource_class
from zun.topology.devices import DeviceType

NAME = {
    "type": "string",
    "maxLength": 64,
    "pattern": r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*\Z",
    "description": "a name of up to 64 letters, digits, '.', '_' and '-', the first a letter or a digit",
}
LEGACY = "legacy"  # Nova's default policy
CLASS = {**NAME, "maxLength": 255, "description": "the name of a resource class, for example CUSTOM_GPU"}


def _digits(value: str) -> str | None:
    return None if value == "*" else value.lower()


def _traits(value: str | list[str]) -> list[str]:
    names = value.split(",") if isinstance(value, str) else value
    found = dict.fromkeys(name for each in names if (name := each.strip()))
    if wrong := next(filter(None, map(traits.problem, found)), None):
        raise ValueError(wrong)
    return list(found)


_FOUR_DIGITS = Field(
    {"type": "string", "pattern": r"^([0-9a-fA-F]{4}|\*)\Z", "description": "four hexadecimal digits or *"}, _digits
)

_LINE = Schema(
    {
        "name": Field(NAME),
        "vendor_id": _FOUR_DIGITS,
        "product_id": _FOUR_DIGITS,
        "resource_class": Field(CLASS, resource_class),
        "device_type": Field({"enum": [*map(str, DeviceType)]}),
        "numa_policy": Field({"enum": [*map(str, DevicePolicy)]}),
        "traits": Field(
            {"type": ["string", "array"], "items": {"type": "string"}, "description": "names between commas"},
            _traits,
        ),
    },
    required=("name",),
)

_CONDITIONS = ("vendor_id", "product_id", "resource_class", "device_type", "traits")

@dataclass(frozen=True, slots=True)
class Alias:
    """A name for devices. A device serves if it meets one of ``matches``."""

    matches: tuple[DeviceMatch, ...]
    numa_policy: str | None = None


Aliases = Mapping[str, Alias]


def parse_aliases(lines: Iterable[str]) -> Aliases:
    """Return the aliases of the option ``[devices] alias`` by name. Raises Misconfigured, with the line.

    Lines with the same name are alternatives. Only one of them needs ``numa_policy``.
    """
    found: dict[str, Alias] = {}
    for line in lines:
        try:
            for members in _objects(line):
                name, alias = _parsed(members)
                found[name] = _joined(found[name], alias) if name in found else alias
        except (ValueError, exceptions.SchemaValidationError) as exc:
            raise exceptions.Misconfigured(f"[devices] alias = {line}: {exc}") from None
    return found


def _objects(line: str) -> list[Any]:
    """Return the JSON objects of a line: one, or a list of them, as the environment has only one line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"it is not JSON: {exc}") from None
    return value if isinstance(value, list) and value else [value]


def _parsed(members: Any) -> tuple[str, Alias]:
    if not isinstance(members, dict):
        raise ValueError("it must be a JSON object")
    if members.get("numa_policy") == LEGACY:
        raise ValueError(no_legacy("numa_policy"))
    given = _LINE(members)
    if not any(given.get(name) for name in _CONDITIONS):
        raise ValueError(f"every device would match; give at least one of {', '.join(_CONDITIONS)}")
    kind = given.get("device_type")
    match = DeviceMatch(
        vendor_id=given.get("vendor_id"),
        product_id=given.get("product_id"),
        resource_class=given.get("resource_class"),
        type=None if kind is None else DeviceType(kind),
        traits=tuple(given.get("traits", ())),
    )
    return given["name"], Alias((match,), given.get("numa_policy"))


def _joined(known: Alias, more: Alias) -> Alias:
    policies = {alias.numa_policy for alias in (known, more)} - {None}
    if len(policies) > 1:
        raise ValueError(f"numa_policy of this name is {known.numa_policy} in another line; make them equal")
    return Alias((*known.matches, *more.matches), known.numa_policy or more.numa_policy)


def no_legacy(name: str) -> str:
    """Return why the policy ``name`` cannot be Nova's ``legacy``, whose meaning depends on what firmware tells."""
    return (
        f"{name} legacy is not known here; use required, which takes no device of an unknown cell, or preferred, "
        "which takes the devices of every cell"
    )
