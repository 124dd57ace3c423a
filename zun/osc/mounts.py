# SPDX-License-Identifier: Apache-2.0
"""``--mount`` with what python-zunclient does not let through: a tmpfs, and sizes with a unit."""

from collections.abc import Sequence
from typing import Any

from zunclient.common import utils

_TMPFS = "type=tmpfs"


def parse(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The request's member ``mounts``. Raises python-zunclient's CommandError."""
    return [_parsed(text) for text in texts]


def newer(texts: Sequence[str]) -> list[dict[str, Any]] | None:
    """What ``parse`` gives if that needs microversion 1.42; None where python-zunclient's own will do."""
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
