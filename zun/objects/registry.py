# SPDX-License-Identifier: Apache-2.0
"""A registry that a project has an account at."""

from typing import Self

from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.db import registries as db
from zun.objects import base


@base.register
class Registry(base.ZunObject):
    """``password`` is encrypted, here as in the database."""

    VERSION = "1.0"

    fields = {
        "uuid": fields.UUIDField(),
        "domain": fields.StringField(),
        "username": fields.StringField(nullable=True),
        "password": fields.StringField(nullable=True),
    }

    uuid: str
    domain: str
    username: str | None
    password: str | None

    @classmethod
    @base.remotable
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Whoever owns it: for the services themselves. Raises RegistryNotFound."""
        return cls.from_row(context, db.get(uuid))
