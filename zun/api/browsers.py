# SPDX-License-Identifier: Apache-2.0
"""Refuse requests that a browser makes for a page of somebody else.

A browser reaches services on its own machine, and adds remembered names and passwords without being asked. Keystone's
tokens need no such check: a browser never adds one by itself.
"""

import ipaddress
import urllib.parse
from collections.abc import Callable, Collection

from zun.api.request import Environ

DEFAULT_PORTS = {"http": 80, "https": 443}
ANY = "*"


def origin_refusal(environ: Environ, allowed: Collection[str]) -> str | None:
    """Return why the page that makes the request may not, or None if it may.

    Only browsers send ``Origin``. It must name the host and port of the request, or be one of ``allowed``, which are
    URLs such as ``https://ui.example``; ``*`` stands for every origin.
    """
    origin = environ.get("HTTP_ORIGIN")
    if origin is None or ANY in allowed or origin in allowed or _is_own(origin, environ.get("HTTP_HOST")):
        return None
    return (
        f"Origin {origin[:200]!r} is not the one of this server and not in [cors] allowed_origin. The operator can add "
        "the origin there if its pages may use this API."
    )


def host_refusal(environ: Environ, own: Callable[[str], bool]) -> str | None:
    """Return why the request's ``Host`` is foreign, or None if ``own`` knows the name or address in it.

    A page that makes its own name resolve to this machine is found by this: the browser still sends that name.
    """
    host = environ.get("HTTP_HOST")
    if host is None:  # HTTP/1.0; no browser
        return None
    name = _split(f"//{host}")[0]
    if name is not None and own(name):
        return None
    return (
        f"Host {host[:200]!r} is not a name or address of this server. Use the address in [api] host_ip, or localhost; "
        "the operator can add a name to [api] host_names."
    )


def own_names(host_ip: str, host_names: Collection[str], *, any_address: bool) -> Callable[[str], bool]:
    """Return the test for names of this server: loopback, ``host_ip`` and ``host_names``.

    With ``any_address`` every IP address passes. An address in ``Host`` is never a foreign name.
    """
    names = {each.lower().rstrip(".") for each in (host_ip, *host_names)} | {"localhost"}

    def own(name: str) -> bool:
        if name.rstrip(".") in names:
            return True
        try:
            address = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return any_address or address.is_loopback

    return own


def _is_own(origin: str, host: str | None) -> bool:
    """Return whether ``origin`` has the host and port of the ``Host`` header."""
    scheme = origin.partition(":")[0].lower()
    default = DEFAULT_PORTS.get(scheme)
    name, port = _split(origin)
    if host is None or name is None or default is None:  # "null" among them
        return False
    own_name, own_port = _split(f"//{host}")
    return (name, port or default) == (own_name, own_port or default)


def _split(url: str) -> tuple[str | None, int | None]:
    """Return host and port of ``url``; no host for what cannot be read."""
    try:
        split = urllib.parse.urlsplit(url)
        return split.hostname, split.port
    except ValueError:
        return None, None
