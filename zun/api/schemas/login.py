# SPDX-License-Identifier: Apache-2.0
"""Arguments of the login of the page: a name with a password or a token, and the project to work in."""

from typing import Any

from zun.api import limits
from zun.api.schemas import Field, Schema, scalars


def _secret(value: Any) -> str:
    """Return a password or token. The error does not quote the value, as every other schema's would."""
    if not isinstance(value, str) or not 0 < len(value) <= limits.SECRET:
        raise ValueError(f"it must be a text of 1 to {limits.SECRET} characters.")
    return value


def _token(value: Any) -> str:
    """Return a token, which is going to be a header."""
    token = _secret(value)
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("it has characters that no token has. Copy all of the token, and nothing else.")
    return token



LOGIN = Schema(
    {
        "user": scalars.LABEL,
        "user_domain": scalars.LABEL,
        "password": Field({}, _secret),
        "token": Field({}, _token),
        "project": scalars.LABEL,
        "project_domain": scalars.LABEL,
        "project_id": scalars.LABEL,
    }
)
