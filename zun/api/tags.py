# SPDX-License-Identifier: Apache-2.0
"""Entity tags: what a client sends back to be told that nothing has changed (RFC 9110, sections 8.8 and 13.1.2)."""

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything but the rows that an answer depends on: URL, query, version, caller, and the service's release."""

    url: str
    query: str
    version: str
    user: str | None
    project: str | None
    roles: tuple[str, ...]
    release: str


def tag(asked: Asked, state: Any) -> str:
    """Return the tag of the answer to ``asked`` in ``state``, a JSON value that may have times in it.

    The tag is weak: see ``minute``.
    """
    text = orjson.dumps((asked, state), default=str)
    return f'W/"{hashlib.blake2b(text, digest_size=16).hexdigest()}"'


def minute(seconds: float) -> int:
    """Return the part of a state for answers that tell an age (``Up 12 mins``), of the time in ``seconds``.

    An age that is wrong by less than a minute is not worth sending all of the answer again.
    """
    return int(seconds // 60)


def matches(if_none_match: str | None, tag: str) -> bool:
    """Return whether the header ``If-None-Match`` names ``tag``. Weak and strong tags are compared alike."""
    if not if_none_match:
        return False
    return if_none_match.strip() == "*" or tag.split('"')[1] in if_none_match.split('"')[1:-1:2]
