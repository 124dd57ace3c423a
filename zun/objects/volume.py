# SPDX-License-Identifier: Apache-2.0
"""A named volume of a project."""

from typing import Self

from zun.common.context import RequestContext
from zun.db import volumes as db
from zun.nouns import owned
from zun.objects import base


@base.register
class Volume(owned.Volume, base.ZunObject):
    VERSION = "1.0"

    @classmethod
    @base.remotable
    def list_to_delete(cls, context: RequestContext, hostname: str) -> list[Self]:
        """Return the volumes that ``hostname`` must remove."""
        return [cls.from_row(context, row) for row in db.to_delete(hostname)]

    @base.remotable
    def destroy(self) -> None:
        """Remove the row of a volume that no longer exists."""
        db.destroy(self.uuid)
