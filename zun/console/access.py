# SPDX-License-Identifier: Apache-2.0
"""Who may connect: the token, and the page a browser comes from. Pure but for the look-up of the token."""

import urllib.parse
from collections.abc import Callable, Collection

from zun.objects import ConsoleToken

SCHEMES = {"ws": "http", "wss": "https"}


def granted(path: str, find: Callable[[str], ConsoleToken | None]) -> ConsoleToken | None:
    """What the query of ``path`` may open, None for nothing.

    The token decides; ``uuid`` and ``exec_id`` must be those that it was issued for.
    """
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
    token = query.get("token", "")
    grant = find(token) if token else None
    if grant is None or query.get("uuid") != grant.container_uuid or query.get("exec_id") != grant.exec_id:
        return None
    return grant


def origin_refusal(
    origin: str | None, host: str | None, forwarded: str | None, base_url: str, allowed: Collection[str]
) -> str | None:
    """Why a browser's page may not connect, or None.

    ``origin`` is absent outside of browsers. Its host must be the one that was connected to (``host``, the header) or
    an ``allowed`` one; its scheme the one of ``base_url``, or what a reverse proxy says (``forwarded``).
    """
    if origin is None:
        return None
    page = urllib.parse.urlsplit(origin)
    here = urllib.parse.urlsplit(f"//{host or ''}").hostname
    if page.hostname is None or (page.hostname != here and page.hostname not in allowed):
        return f"origin {origin[:200]} is not in [websocket_proxy] allowed_origins"
    scheme = urllib.parse.urlsplit(base_url).scheme
    wanted = forwarded or SCHEMES.get(scheme, scheme)
    return None if page.scheme == SCHEMES.get(wanted, wanted) else f"origin {origin[:200]} does not use {wanted}"
