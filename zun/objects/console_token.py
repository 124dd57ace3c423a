# SPDX-License-Identifier: Apache-2.0
"""Permission to open one terminal of one container."""

import datetime
import hashlib
from typing import Self

from oslo_utils import timeutils, uuidutils
from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.db import console_tokens as db
from zun.objects import base


@base.register
class ConsoleToken(base.ZunObject):
    """``exec_id`` is None for the terminal of the container itself."""

    VERSION = "1.0"

    fields = {
        "container_uuid": fields.StringField(),
        "exec_id": fields.StringField(nullable=True),
    }

    container_uuid: str
    exec_id: str | None

    @classmethod
    @base.remotable
    def issue(cls, context: RequestContext, container_uuid: str, exec_id: str | None, seconds: int) -> str:
        """A new token that can be used for ``seconds``."""
        token, now = uuidutils.generate_uuid(), timeutils.utcnow()
        db.add(_digest(token), container_uuid, exec_id, now, now + datetime.timedelta(seconds=seconds))
        return token

    @classmethod
    @base.remotable
    def find(cls, context: RequestContext, token: str) -> Self | None:
        """What the token opens; None for one that is unknown or expired, or whose container is gone."""
        row = db.find(_digest(token), timeutils.utcnow())
        return None if row is None else cls.from_row(context, row)


def _digest(token: str) -> str:
    """What is stored: who reads the database cannot open a terminal."""
    return hashlib.sha256(token.encode()).hexdigest()
