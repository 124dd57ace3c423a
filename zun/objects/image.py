# SPDX-License-Identifier: Apache-2.0
"""An image that was pulled to a host."""

import datetime
from typing import Self

from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.db import images as db
from zun.objects import base


@base.register
class Image(base.ZunObject):
    """``tag`` may be a digest. ``image_id`` and ``size`` (bytes, as text) are None until it has been pulled.

    ``status`` is Pulling, Available or Error; ``status_detail`` says how far a pull is or why it failed.
    """

    VERSION = "1.0"

    fields = {
        "id": fields.IntegerField(),
        "uuid": fields.UUIDField(),
        "project_id": fields.StringField(),
        "host": fields.StringField(),
        "repo": fields.StringField(),
        "tag": fields.StringField(),
        "image_id": fields.StringField(nullable=True),
        "size": fields.StringField(nullable=True),
        "status": fields.StringField(),
        "status_detail": fields.StringField(nullable=True),
        "created_at": base.TimeField(nullable=True),
        "updated_at": base.TimeField(nullable=True),
    }

    id: int
    uuid: str
    project_id: str
    host: str
    repo: str
    tag: str
    image_id: str | None
    size: str | None
    status: str
    status_detail: str | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None

    @base.remotable_classmethod
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Raises ImageNotFound."""
        return cls.from_row(context, db.get(uuid))

    @base.remotable_classmethod
    def fail_pulls(cls, context: RequestContext, host: str, reason: str) -> None:
        """Every pull that is under way on ``host`` has ended without its image."""
        db.fail_pulls(host, reason)

    @base.remotable
    def save(self) -> None:
        """Write what changed. Raises ImageNotFound."""
        changed = self.columns(self.obj_what_changed())
        if changed:
            db.update(self.uuid, changed)
        self.obj_reset_changes()

    @base.remotable
    def destroy(self) -> None:
        db.destroy(self.uuid)
