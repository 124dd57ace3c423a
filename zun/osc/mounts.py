# SPDX-License-Identifier: Apache-2.0
"""Parse ``--mount`` with what python-zunclient refuses: a tmpfs, sizes with a unit, type local and read_only."""

from collections.abc import Mapping, Sequence
from typing import Any

from zunclient.common import utils

_TYPES = {"type=tmpfs": "tmpfs", "type=local": "local"}
_READ_ONLY = {"read_only=true": True, "read_only=false": False}


def parse(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the request's member ``mounts``. Raises python-zunclient's CommandError."""
    return [_parsed(text) for text in texts]


def newer(texts: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the mounts if they need a newer microversion, or None if python-zunclient's own parser is enough."""
    found = parse(texts)
    is_newer = any(each.get("type") == "tmpfs" or not each.get("size", "0").isdecimal() for each in found)
    return found if is_newer or newest(found) else None


def newest(found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the mounts need microversion 1.46."""
    return any(each.get("type") == "local" or "read_only" in each for each in found)


def _parsed(text: str) -> dict[str, Any]:
    members = [member.strip() for member in text.split(",")]
    ours = {**_TYPES, **_READ_ONLY}
    (found,) = utils.parse_mounts([",".join(member for member in members if member not in ours)])
    for member in members:
        if member in _TYPES:
            found["type"] = _TYPES[member]
        if member in _READ_ONLY:
            found["read_only"] = _READ_ONLY[member]
    if found.get("type") == "bind":
        found["source"] = utils.encode_file_data(found["source"])
    return dict(found)
