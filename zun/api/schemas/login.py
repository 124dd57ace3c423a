# SPDX-License-Identifier: Apache-2.0
"""Arguments of the login of the page: a name with a password or a token, and the project to work in."""

from typing import Any

from zun.api.schemas import Field, Schema, scalars

SECRET_CHARACTERS = 8192  # tokens that others issue can be long


def _secret(value: Any) -> str:
    """Return a password or token. The error does not quote the value, as every other schema's would."""
    if not isinstance(value, str) or not 0 < len(value) <= SECRET_CHARACTERS:
        raise ValueError(f"it must be a text of 1 to {SECRET_CHARACTERS} characters.")
    return value


_SECRET = Field({}, _secret)

LOGIN = Schema(
    {
        "user": scalars.LABEL,
        "user_domain": scalars.LABEL,
        "password": _SECRET,
        "token": _SECRET,
        "project": scalars.LABEL,
        "project_domain": scalars.LABEL,
        "project_id": scalars.LABEL,
    }
)
