# SPDX-License-Identifier: Apache-2.0
"""The form of the fields of create that ask for devices. ``zun.api.devices`` has the rules across fields."""

from typing import Any

from zun.api.device_aliases import CLASS, NAME
from zun.api.schemas import Field, scalars, traits
from zun.topology.device_request import DevicePolicy, DeviceSame
from zun.topology.device_spec import resource_class

MOST_KINDS = 16
MOST_OF_A_KIND = 64

_TRAITS = {**traits.NAMES.schema, "maxItems": 32}


def _entries(value: Any) -> list[dict[str, Any]] | None:
    return None if value is None else [_entry(each) for each in value]


def _entry(given: dict[str, Any]) -> dict[str, Any]:
    """Return the entry without empty members, with the resource class under its name in OpenStack."""
    entry = {name: value for name, value in given.items() if value not in (None, [])}
    if "resource_class" in entry:
        entry["resource_class"] = resource_class(entry["resource_class"])
    if "traits" in entry:
        entry["traits"] = traits.NAMES.convert(entry["traits"])
    return {**entry, "count": int(entry.get("count", 1))}


FIELDS = {
    "devices": Field(
        {
            "type": ["array", "null"],
            "maxItems": MOST_KINDS,
            "items": {
                "type": "object",
                "properties": {
                    "alias": NAME,
                    "resource_class": CLASS,
                    "count": {"type": "integer", "minimum": 1, "maximum": MOST_OF_A_KIND},
                    "traits": _TRAITS,
                    "numa_policy": {"enum": [*map(str, DevicePolicy)]},
                },
                "additionalProperties": False,
                "oneOf": [{"required": ["alias"]}, {"required": ["resource_class"]}],
            },
        },
        _entries,
    ),
    "device_numa_policy": scalars.optional_one_of(*DevicePolicy),
    "device_same": scalars.optional_one_of(*DeviceSame),
}
