# SPDX-License-Identifier: Apache-2.0
"""Permits: a scheduler's word that it sent a container to a host, by which a conductor knows whose claim to accept.

A permit is an HMAC under a key in the database, which schedulers and conductors read and a host behind a conductor
does not.
"""

import functools
import hashlib
import hmac
import secrets

import sqlalchemy as sa
from oslo_db import exception as db_exc

from zun.db import models, session

_NAME = "claims"
_KEY = sa.select(models.service_keys.c.value).where(models.service_keys.c.name == _NAME)


class Permits:
    """Permits under the key of this process's database. The first one reads the key, or makes it."""

    @functools.cached_property
    def _key(self) -> bytes:
        return _read() or _make()

    def permit(self, host: str, uuid: str) -> str:
        """Return the permit for ``host`` to claim the container ``uuid``: 64 hexadecimal digits."""
        return hmac.new(self._key, f"{uuid} {host}".encode(), hashlib.sha256).hexdigest()

    def allows(self, permit: object, host: str, uuid: str) -> bool:
        """Return whether ``permit`` is the one for ``host`` to claim the container ``uuid``."""
        return isinstance(permit, str) and hmac.compare_digest(permit.encode(), self.permit(host, uuid).encode())


def _read() -> bytes | None:
    with session.reader() as connection:
        found = connection.execute(_KEY).scalar()
    return None if found is None else str(found).encode()


def _make() -> bytes:
    """Add a key, and return the one that is in the database: another service may have been first."""
    try:
        with session.writer() as connection:
            connection.execute(models.service_keys.insert().values(name=_NAME, value=secrets.token_hex(32)))
    except db_exc.DBDuplicateEntry:
        pass
    made = _read()
    assert made is not None, "the key was just written"
    return made
