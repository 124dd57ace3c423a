# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about container groups."""

from zun.api.schemas import Field, Schema, scalars
from zun.common.groups import Policy

_RULES = Field(
    {
        "type": "object",
        "properties": {"max_per_host": {"type": "integer", "minimum": 1, "maximum": 10**6}},
        "additionalProperties": False,
    }
)

CREATE = Schema(
    {"name": scalars.REQUIRED_NAME, "policy": scalars.one_of(*Policy), "rules": _RULES}, required=("name", "policy")
)
