# SPDX-License-Identifier: Apache-2.0
"""Counts requests and their times for Prometheus."""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from zun.api.client_address import WsgiApp
from zun.common import metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"


class Measured:
    """Wrap ``app`` so that each request is counted, with the time until its answer begins."""

    def __init__(self, app: WsgiApp, collections: Collection[str]) -> None:
        self._app = app
        self._collections = frozenset(collections)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.monotonic()
        method, collection = self._method(environ), self._collection(environ)
        told = "500"

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            nonlocal told
            told = status[:3]
            return start_response(status, headers, exc_info)

        try:
            with metrics.API_UNDER_WAY.track_inprogress():
                return self._app(environ, start)
        finally:
            metrics.API_REQUESTS.labels(method, collection, told).observe(time.monotonic() - began)

    def _method(self, environ: dict[str, Any]) -> str:
        method = environ.get("REQUEST_METHOD", OTHER)
        return method if method in METHODS else OTHER

    def _collection(self, environ: dict[str, Any]) -> str:
        """Return the first part of the path: ``containers`` for ``/v1/containers/web/logs``.

        Any other text of a client is ``other``, so that clients cannot make new metrics.
        """
        first = environ.get("PATH_INFO", "").removeprefix("/v1/").partition("/")[0]
        return first if first in self._collections else OTHER
