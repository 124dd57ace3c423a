# SPDX-License-Identifier: Apache-2.0
"""Find the address that a request came from, also behind a proxy that the operator trusts."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def of(environ: Mapping[str, Any]) -> str | None:
    """Return the client's IP address, or None where the server knows none, as of a unix socket."""
    return read(str(environ.get("REMOTE_ADDR") or ""))


def read(text: str) -> str | None:
    """Return the IP address in ``text``, which may have quotes, brackets or a port around it; None for anything else.

    ``"[2001:db8::1]:4711"`` is 2001:db8::1.
    """
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))  # the scope of a link-local one is any text
    except ValueError:
        return None


def told_by_proxy(environ: Mapping[str, Any]) -> str | None:
    """Return the client's address that the nearest proxy wrote into its header; None for a header without one.

    The last entry is the proxy's own. Those before it came with the request, so that the client chose them.
    """
    entries = str(environ.get("HTTP_X_FORWARDED_FOR") or "")
    if entries:
        return read(entries.rpartition(",")[2])
    last = str(environ.get("HTTP_FORWARDED") or "").rpartition(",")[2]
    pairs = (each.partition("=") for each in last.split(";"))
    return next((read(value) for name, _, value in pairs if name.strip().lower() == "for"), None)


def trust_proxy(app: WsgiApp) -> WsgiApp:
    """Wrap ``app`` so that ``REMOTE_ADDR`` is the one address that the nearest proxy saw.

    oslo.middleware would put the whole of ``X-Forwarded-For`` there, or the first entry of ``Forwarded``.
    """

    def middleware(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("HTTP_X_FORWARDED_FOR") or environ.get("HTTP_FORWARDED"):
            environ["REMOTE_ADDR"] = told_by_proxy(environ) or ""
        return app(environ, start_response)

    return middleware
