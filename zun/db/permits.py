# SPDX-License-Identifier: Apache-2.0
"""Permits: a scheduler's word that it sent a container to a host, by which a conductor knows whose claim to accept, and
a scheduler whose refusal.

A permit is an HMAC under a key in the database, which schedulers and conductors read and a host behind a conductor
does not.
"""

import functools
import hashlib
import hmac
import json
import secrets
from typing import Any

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
        return self._signed(f"{uuid} {host}")

    def allows(self, permit: object, host: str, uuid: str) -> bool:
        """Return whether ``permit`` is the one for ``host`` to claim the container ``uuid``."""
        return _same(permit, self.permit(host, uuid))

    def attempt(self, host: str, uuid: str, so_far: Any) -> str:
        """Return the permit for ``host`` to refuse the container ``uuid``, and give ``so_far`` back as it is.

        ``so_far`` is whatever JSON can carry.
        """
        carried = json.loads(json.dumps(so_far))  # the keys of a dict are strings now, as after a message
        return self._signed(f"attempt {uuid} {host} {json.dumps(carried, sort_keys=True)}")

    def allows_refusal(self, permit: object, host: str, uuid: str, so_far: Any) -> bool:
        """Return whether ``permit`` is the one for ``host`` to refuse ``uuid`` and to give ``so_far`` back."""
        return _same(permit, self.attempt(host, uuid, so_far))

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _same(permit: object, wanted: str) -> bool:
    return isinstance(permit, str) and hmac.compare_digest(permit.encode(), wanted.encode())


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
