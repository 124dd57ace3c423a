# SPDX-License-Identifier: Apache-2.0
"""The checks of a connection: its token, and the origin of a browser's page. Only ``find`` reaches the database."""

import urllib.parse
from collections.abc import Callable, Collection

from zun.objects import ConsoleToken

SCHEMES = {"ws": "http", "wss": "https"}


def granted(path: str, find: Callable[[str], ConsoleToken | None]) -> ConsoleToken | None:
    """Return the token in the query of ``path``, or None if it is not valid.

    ``uuid`` and ``exec_id`` in the query must be those of the token. Example: ``/?token=T&uuid=U&exec_id=E``.
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
    """Return why a browser's page may not connect, or None if it may.

    ``origin`` is None outside of browsers. Its host must be the host of the connection (``host``, the header) or one of
    ``allowed``. Its scheme must be the one in ``forwarded`` (of a reverse proxy), else the scheme of ``base_url``.
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
