# SPDX-License-Identifier: Apache-2.0
"""A named volume of a project."""

from typing import Self

from zun.common.context import RequestContext
from zun.db import volumes as db
from zun.objects import base


@base.register
class Volume(base.ZunObject):
    VERSION = "1.0"

    uuid: base.Uuid
    project_id: str
    name: str

    @classmethod
    @base.remotable
    def list_to_delete(cls, context: RequestContext, hostname: str) -> list[Self]:
        """Return the volumes that ``hostname`` must remove."""
        return [cls.from_row(context, row) for row in db.to_delete(hostname)]

    @base.remotable
    def destroy(self) -> None:
        """Remove the row of a volume that no longer exists."""
        db.destroy(self.uuid)
