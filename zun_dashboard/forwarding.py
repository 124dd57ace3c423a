# SPDX-License-Identifier: Apache-2.0
"""Decide which parts of a browser's request go to the container service, and which parts of its answer come back.

All decisions are here, free of Django. The only host that a request reaches is the endpoint of the caller's argument.
"""

import json
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlsplit

SECONDS = (5, 75)
"""Time limits for connecting and for the answer. The API itself waits 60 s for a host."""

MOST_BYTES = 32 << 20
"""Most bytes of an answer. Horizon has it in memory as a whole."""

TO_SERVICE = ("Accept", "Content-Type", "If-None-Match", "OpenStack-API-Version")
TO_BROWSER = (
    "ETag",
    "OpenStack-API-Version",
    "OpenStack-API-Minimum-Version",
    "OpenStack-API-Maximum-Version",
    "Retry-After",
    "X-Openstack-Request-Id",
)
JSON = "application/json"


class Refused(Exception):
    """A request that is answered without the service: a status, a title, and a text that says what to do."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail

    def body(self) -> bytes:
        """Return the JSON of an error, in the form of the service's own."""
        error = {
            "request_id": "",
            "code": "container.dashboard",
            "status": self.status,
            "title": self.title,
            "detail": self.detail,
            "links": [],
        }
        return json.dumps({"errors": [error]}).encode()


def target(endpoint: str, path: str, query: str) -> str:
    """Return the URL at the service for a decoded path like ``v1/containers`` and an encoded query.

    ``endpoint`` is of the catalog, with or without a last ``/v1``. Raises Refused.
    """
    where = urlsplit(endpoint)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise Refused(
            503, "Service Unavailable", "The catalog has no http URL for the container service. Tell the operator."
        )
    first, *rest = path.split("/")
    if first != "v1" or any(segment in (".", "..") for segment in rest):
        raise Refused(404, "Not Found", f"path must be below v1/ and without dots alone, got {path[:200]!r}.")
    root = f"{where.scheme}://{where.netloc}{where.path.rstrip('/').removesuffix('/v1')}"
    return f"{root}/{quote(path)}" + (f"?{quote(query, safe=SAFE_IN_QUERY)}" if query else "")


SAFE_IN_QUERY = "%&=+,;:@/?!$'()*~"
"""The characters of a query that stay as they are. It is encoded already, so the percent sign is one of them."""


def request_headers(sent: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the headers for the service: a few of the browser's, and the session's token."""
    return {**{name: sent[name] for name in TO_SERVICE if name in sent}, "X-Auth-Token": token}


def response_headers(got: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for the browser.

    No browser reads an answer as a page: a log of a container, for example, may have any text in it.
    """
    content = JSON if got.get("Content-Type", JSON).partition(";")[0].strip() == JSON else "application/octet-stream"
    return {
        **{name: got[name] for name in TO_BROWSER if name in got},
        "Content-Type": content,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


def check_status(status: int) -> None:
    """Raise Refused for a redirect: the service sends none, and the token goes to no other place."""
    if 300 <= status < 400 and status != 304:
        raise Refused(
            502,
            "Bad Gateway",
            f"The container service answered with a redirect ({status}), which is not followed. Tell the operator: the "
            "endpoint in the catalog is wrong.",
        )


def content(pieces: Iterable[bytes]) -> bytes:
    """Return the body of an answer, or raise Refused as soon as it has more than MOST_BYTES, as an archive may have."""
    read = bytearray()
    for piece in pieces:
        read += piece
        if len(read) > MOST_BYTES:
            raise Refused(
                502,
                "Bad Gateway",
                f"The answer has more than {MOST_BYTES >> 20} MiB, the most that Horizon passes on. Use "
                "the command line.",
            )
    return bytes(read)
