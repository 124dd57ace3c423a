# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about images."""

from typing import Any

from zun.api import limits
from zun.api.schemas import Field, Schema, scalars
from zun.api.settings import Settings
from zun.common.image_reference import Reference

_TEXT = scalars.OPTIONAL_TEXT  # what a pull finds out by itself, so what a client says of it is not looked at

PULL = Schema(
    {
        "repo": Field(scalars.IMAGE.schema, Reference.parse),
        "host": Field({"type": "string", "minLength": 2, "maxLength": 255}),
        "image_id": _TEXT,
        "tag": _TEXT,
        "size": Field({"type": ["string", "integer", "null"], "maxLength": limits.COLUMN}),
        "image_pull_policy": scalars.PULL,
    },
    required=("repo", "host"),
)


def _exact(value: Any) -> bool:
    return bool(scalars.B3.convert(value))


def search(settings: Settings) -> Schema:
    return Schema(
        {"image_driver": scalars.driver(settings.image_drivers), "exact_match": Field(scalars.B3.schema, _exact)},
        others=True,
    )
