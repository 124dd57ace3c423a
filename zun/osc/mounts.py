# SPDX-License-Identifier: Apache-2.0
"""Parse ``--mount`` with a tmpfs and with sizes that have a unit, both of which python-zunclient refuses."""

from collections.abc import Sequence
from typing import Any

from zunclient.common import utils

_TMPFS = "type=tmpfs"


def parse(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the request's member ``mounts``. Raises python-zunclient's CommandError."""
    return [_parsed(text) for text in texts]


def newer(texts: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the mounts if they need microversion 1.42, or None if python-zunclient's own parser is enough."""
    found = parse(texts)
    is_newer = any(each.get("type") == "tmpfs" or not each.get("size", "0").isdecimal() for each in found)
    return found if is_newer else None


def _parsed(text: str) -> dict[str, Any]:
    members = [member.strip() for member in text.split(",")]
    (found,) = utils.parse_mounts([",".join(member for member in members if member != _TMPFS)])
    if _TMPFS in members:
        found["type"] = "tmpfs"
    if found.get("type") == "bind":
        found["source"] = utils.encode_file_data(found["source"])
    return dict(found)
