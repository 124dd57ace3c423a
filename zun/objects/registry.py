# SPDX-License-Identifier: Apache-2.0
"""A registry at which a project has an account."""

from typing import Self

from zun.common.context import RequestContext
from zun.db import registries as db
from zun.nouns import owned
from zun.objects import base


@base.register
class Registry(owned.Registry, base.ZunObject):
    """``password`` is encrypted for the registry's ``owner``, as in the database. Conductors decrypt it for hosts."""

    VERSION = "1.0"

    @property
    def owner(self) -> tuple[str, ...]:
        """Return the identity that the encrypted password is bound to."""
        return db.owner(self)

    @classmethod
    @base.remotable
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Return the registry of any project; for use by services. Raises RegistryNotFound."""
        return cls.from_row(context, db.get(uuid))
