# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about host aggregates."""

from collections.abc import Mapping
from typing import Any

from zun.api import limits
from zun.api.schemas import Field, Schema, scalars
from zun.common import disk_pools, zones

_KEY = {
    "maxLength": limits.COLUMN,
    "pattern": r"^[a-zA-Z0-9_.:-]{1,255}\Z",
    "description": "a key of letters, digits, '_', '.', ':' and '-'",
}
_TERMS = {"type": "object", "maxProperties": limits.TERMS, "propertyNames": _KEY}
_TEXT = {"type": "string", "maxLength": 255}
_TEXT_OR_NULL = {"type": ["string", "null"], "maxLength": 255}


def _known_keys(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values that this service reads itself."""
    if metadata.get(zones.KEY) == "":
        raise ValueError(f"{zones.KEY} is empty: name a zone, or set it to null to have none")
    if metadata.get(disk_pools.KEY) is not None:
        disk_pools.checked_size(metadata[disk_pools.KEY])
    return dict(metadata)


def _metadata(value: Mapping[str, Any]) -> Field:
    return Field({**_TERMS, "additionalProperties": value}, _known_keys)


CREATE = Schema(
    {"name": scalars.REQUIRED_NAME, "availability_zone": scalars.LABEL, "metadata": _metadata(_TEXT)},
    required=("name",),
)
UPDATE = Schema({"name": scalars.REQUIRED_NAME, "availability_zone": scalars.OPTIONAL_LABEL})
HOST = Schema({"host": scalars.HOST}, required=("host",))
SET_METADATA = Schema({"metadata": _metadata(_TEXT_OR_NULL)}, required=("metadata",))
