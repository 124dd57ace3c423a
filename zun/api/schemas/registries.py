# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about registries: one member ``registry``, which has the others."""

from collections.abc import Mapping
from typing import Any

from zun.api.schemas import Field, Schema, scalars

_LONGEST = 255
_TEXT = Field({"type": "string", "minLength": 1, "maxLength": _LONGEST})
_FIELDS = {
    "domain": _TEXT,
    "name": Field({**scalars.NAME.schema, "type": "string"}),
    "username": _TEXT,
    "password": Field({"type": "string", "minLength": 1, "maxLength": 4096}),
}
_BODY = Schema({"registry": Field({"type": "object"})}, required=("registry",))
_CREATE = Schema(_FIELDS, required=("domain",))
_UPDATE = Schema(_FIELDS)


def create(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return _CREATE(_BODY(arguments)["registry"])


def update(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return _UPDATE(_BODY(arguments)["registry"])
