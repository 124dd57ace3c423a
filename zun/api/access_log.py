# SPDX-License-Identifier: Apache-2.0
"""The access log: logger ``zun.access`` writes one line for each request when its response has been sent.

    client=192.0.2.7 user=5f... project=9c... method=GET path=/v1/containers/web/logs status=200 bytes=5120
    seconds=0.031 request_id=req-...

(in one line). Values are percent-encoded, so that no value can look like two. The query is left out: it may hold a
command, or a token that a client sent there instead of in the header.
"""

import logging
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from zun.api import client_address
from zun.api.client_address import WsgiApp
from zun.common.context import RequestContext

LOG = logging.getLogger("zun.access")

HEALTHCHECK = "/healthcheck"  # asked every few seconds by each load balancer, and answered to anybody
_PLAIN = "/:@+,;!$&'()*~."  # characters of a path that stay as they are


class AccessLog:
    """Wrap ``app`` so that every request except those of ``HEALTHCHECK`` is a line in the log."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == HEALTHCHECK:
            return self._app(environ, start_response)
        request = _Request(environ)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            request.status = status[:3]
            return start_response(status, headers, exc_info)

        try:
            request.body = self._app(environ, start)
        except BaseException:
            request.close()
            raise
        return request


class _Request:
    """One request, used as the response's body to count its bytes. PEP 3333 makes the server call ``close``."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self._began = time.monotonic()
        self._environ = environ
        self._method = environ.get("REQUEST_METHOD", "")
        self._path = environ.get("PATH_INFO", "").encode("latin-1", "replace")  # the application changes it
        self._bytes = 0
        self._told = False
        self.status = "500"  # unless the application gets as far as to say another
        self.body: Iterable[bytes] = ()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.body:
            self._bytes += len(piece)
            yield piece

    def close(self) -> None:
        """Close the application's response and log the request."""
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            self._tell()

    def _tell(self) -> None:
        if self._told:
            return
        self._told = True
        request_id = self._environ.get("openstack.request_id")
        who = self._environ.get("zun.context")
        # Without a context the line would begin with the previous caller of this thread.
        context = who or RequestContext(request_id=request_id, overwrite=False)
        LOG.info(
            "client=%s user=%s project=%s method=%s path=%s status=%s bytes=%d seconds=%.3f request_id=%s",
            client_address.of(self._environ) or "-",
            _quoted(who and who.user_id),
            _quoted(who and who.project_id),
            _quoted(self._method),
            urllib.parse.quote(self._path, safe=_PLAIN),
            self.status,
            self._bytes,
            time.monotonic() - self._began,
            request_id or "-",
            extra={"context": context},
        )


def _quoted(value: str | None) -> str:
    return urllib.parse.quote(value, safe="@:.", errors="replace") if value else "-"
