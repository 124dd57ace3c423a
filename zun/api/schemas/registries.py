# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about registries: one member ``registry``, which holds the others."""

from zun.api.schemas import Field, Schema, scalars
from zun.common.image_reference import registry_domain

_FIELDS = {
    "domain": Field(scalars.LABEL.schema, registry_domain),
    "name": Field({**scalars.NAME.schema, "type": "string"}),
    "username": scalars.LABEL,
    "password": Field({"type": "string", "minLength": 1, "maxLength": 4096}),
}


def _in_registry(inner: Schema) -> Schema:
    # Its own schema says more of what is wrong than the outer one would.
    return Schema({"registry": Field({"type": "object"}, inner, inner)}, required=("registry",))


CREATE = _in_registry(Schema(_FIELDS, required=("domain",)))
UPDATE = _in_registry(Schema(_FIELDS))
