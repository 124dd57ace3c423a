# SPDX-License-Identifier: Apache-2.0
"""Entity tags: what a client sends back to be told that nothing has changed (RFC 9110, sections 8.8 and 13.1.2)."""

import re

_TAGS = re.compile(r'(?:W/)?("[^"]*")')


def matches(if_none_match: str | None, tag: str) -> bool:
    """Return whether the header ``If-None-Match`` names ``tag``. Weak and strong tags are compared alike."""
    if not if_none_match:
        return False
    return if_none_match.strip() == "*" or tag.removeprefix("W/") in _TAGS.findall(if_none_match)
