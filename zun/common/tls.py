# SPDX-License-Identifier: Apache-2.0
"""TLS of our own servers, whose certificate may be replaced while they run."""

import contextlib
import logging
import os
import ssl
from typing import Any

LOG = logging.getLogger(__name__)


class ServerContext(ssl.SSLContext):
    """A server's context that reads certificate and key again when a file has changed, at the next connection.

    While the two do not belong together, as between two copies, new connections get the certificate of before.
    """

    _cert: str
    _key: str | None
    _seen: tuple[Any, ...]

    @classmethod
    def of(cls, cert: str, key: str | None) -> "ServerContext":
        """Return the context of two PEM files; without ``key`` the first has both. OSError if they cannot be used."""
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made._cert, made._key = cert, key
        made._seen = made._state()
        made.load_cert_chain(cert, key)
        return made

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        self._refresh()
        return super().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        self._refresh()
        return super().wrap_socket(*arguments, **named)

    def _refresh(self) -> None:
        now = self._state()
        if now == self._seen:
            return
        self._seen = now
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._cert, self._key)
            self.load_cert_chain(self._cert, self._key)
        except OSError as exc:
            LOG.warning("The changed certificate %s cannot be used, the old one stays: %s", self._cert, exc)
        else:
            LOG.info("Certificate %s was read again", self._cert)

    def _state(self) -> tuple[Any, ...]:
        found: list[Any] = []
        for path in filter(None, (self._cert, self._key)):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found.append((path, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)
