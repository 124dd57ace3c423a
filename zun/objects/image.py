# SPDX-License-Identifier: Apache-2.0
"""An image that was pulled to a host or committed from one of its containers."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Self

from zun.common.context import RequestContext
from zun.common.image_reference import OF_SERVICE
from zun.common.states import ImageStatus
from zun.db import image_grants as db_grants
from zun.db import images as db
from zun.nouns import owned
from zun.objects import base
from zun.objects.arguments import Longest, Prose

#: Member of a container's ``request``: uuid of the image made of a container that it is made of itself.
COMMITTED = "committed"
#: Member of a container's ``request``: id of its image in Glance, which its user may download.
OF_GLANCE = "glance"
#: Member of a container's ``request`` while a rebuild of another image is accepted and not done: the ``image``, the
#: ``image_driver`` and, if it was made of a container or is in Glance, its uuid as COMMITTED or OF_GLANCE. The row's
#: own image is that of the object that exists.
REBUILD = "rebuild"


def image_found(name: str, tags: Sequence[str], ident: str, size: int) -> dict[str, Any]:
    """An image of a host as the answer to a search has it, beside what registries say of theirs."""
    return {
        "id": ident,
        "name": name,
        "tags": list(tags),
        "status": "available",
        "size": size,
        "description": "",
        "metadata": {"is_official": False, "star_count": 0},
    }


def is_of_host(found: Mapping[str, Any]) -> bool:
    """Return whether a result of a search is an image of a host, and not what a registry says of its own."""
    return "status" in found


Granted = Annotated[str, Longest(450)]
"""An image as ORIGIN@DIGEST."""


@base.register
class Image(owned.Image, base.ZunObject):
    VERSION = "1.0"

    @classmethod
    @base.remotable
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Return the image with this uuid. Raises ImageNotFound."""
        return cls.from_row(context, db.get(uuid))

    @classmethod
    @base.remotable
    def fail_unfinished(
        cls,
        context: RequestContext,
        host: str,
        reason: Prose,
        before: datetime.datetime | None = None,
        busy: Collection[str] = (),
    ) -> list[str]:
        """Fail the unfinished pulls and commits of ``host`` that are not ``busy``; with ``before``, only older ones.

        Return the uuids of those that are made for Glance.
        """
        return db.fail_unfinished(host, reason, before, busy)

    @classmethod
    @base.remotable
    def grant(cls, context: RequestContext, host: str, image: Granted, project_id: str) -> None:
        """Note that the project has shown credentials for ``image`` (ORIGIN@DIGEST) on ``host``."""
        db_grants.grant(host, image, project_id)

    @classmethod
    @base.remotable
    def granted_to(cls, context: RequestContext, host: str, images: Sequence[Granted]) -> list[str]:
        """Return the projects that may use these images of ``host``; empty if all projects may."""
        return sorted(db_grants.projects(host, images))

    @classmethod
    @base.remotable
    def granted_before(cls, context: RequestContext, host: str, time: datetime.datetime) -> list[str]:
        """Return the images for which no project has shown credentials since ``time``."""
        return sorted(db_grants.images_before(host, time))

    @classmethod
    @base.remotable
    def end_grants(
        cls, context: RequestContext, host: str, images: Sequence[Granted], before: datetime.datetime | None = None
    ) -> None:
        """Remove the grants of images that ``host`` no longer has or that are public; keep grants since ``before``."""
        db_grants.remove(host, images, before)

    @property
    def of_glance(self) -> bool:
        """Return whether the image is made of a container for Glance, which has an image of this uuid."""
        return self.local_name.startswith(f"{OF_SERVICE}:")

    def set_available(self, image_id: str, size: int) -> None:
        """Set the fields of an image that its host has now. ``size`` is in bytes. The row is not written."""
        self.image_id, self.size = image_id, str(size)
        self.status, self.status_detail = ImageStatus.AVAILABLE, None

    @base.remotable
    def save(self) -> None:
        """Write the changed fields. Raises ImageNotFound."""
        changed = self.columns(self.obj_what_changed())
        if changed:
            db.update(self.uuid, changed)
        self.obj_reset_changes()

    @base.remotable
    def destroy(self) -> None:
        db.destroy(self.uuid)
