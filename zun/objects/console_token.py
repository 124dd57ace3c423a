# SPDX-License-Identifier: Apache-2.0
"""Permission to open one terminal of one container, once."""

import datetime
import hashlib
from collections.abc import Collection, Mapping
from typing import Self

from oslo_utils import timeutils, uuidutils

from zun.common.context import RequestContext
from zun.db import console_tokens as db
from zun.db import quotas
from zun.objects import base

KEPT = datetime.timedelta(hours=1)
"""Time that the row of a used token is kept after the last call of ``keep`` for it."""


@base.register
class ConsoleToken(base.ZunObject):
    """A token for one terminal. ``exec_id`` is None for the terminal of the container itself.

    ``user_id`` is the user that the token was issued to, or None if an older release issued the token.
    """

    VERSION = "1.0"

    token_hash: str
    container_uuid: str
    exec_id: str | None
    user_id: str | None

    @classmethod
    @base.remotable
    def issue(
        cls,
        context: RequestContext,
        container_uuid: str,
        exec_id: str | None,
        seconds: int,
        charged: tuple[str, Mapping[str, int]] | None = None,
    ) -> str:
        """Return a new token that can be used once within ``seconds``.

        ``charged`` are the project of the container and the default limits: OverQuota when it may not have one more.
        """
        token, now = uuidutils.generate_uuid(), timeutils.utcnow()
        expires_at = now + datetime.timedelta(seconds=seconds)
        db.add(_digest(token), container_uuid, exec_id, context.user_id, now, expires_at, charged)
        return token

    @classmethod
    @base.remotable
    def check_quota(cls, context: RequestContext, project_id: str, limits: Mapping[str, int]) -> None:
        """Raise OverQuota if the project may not have one more at this moment. ``limits`` are the default ones."""
        quotas.check(project_id, {"terminals": 1}, limits)

    @classmethod
    @base.remotable
    def find(cls, context: RequestContext, token: str) -> Self | None:
        """Return the token, or None if it is unknown, used or expired, or its container is gone."""
        row = db.find(_digest(token), timeutils.utcnow())
        return None if row is None else cls.from_row(context, row)

    @base.remotable
    def use(self) -> bool:
        """Use up the token. Return False if it was used before or has expired."""
        now = timeutils.utcnow()
        return db.use(self.token_hash, now, now + KEPT)

    @base.remotable
    def forget(self) -> None:
        """Remove the token, at the end of its session."""
        db.remove(self.token_hash)

    @classmethod
    @base.remotable
    def keep(cls, context: RequestContext, token_hashes: Collection[str]) -> set[str]:
        """Keep the used tokens of running sessions. Return those that were not removed, and whose container exists."""
        return db.keep(token_hashes, timeutils.utcnow() + KEPT)


def _digest(token: str) -> str:
    """Return the stored digest of a token, so that a reader of the database cannot open a terminal."""
    return hashlib.sha256(token.encode()).hexdigest()
