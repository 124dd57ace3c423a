# SPDX-License-Identifier: Apache-2.0
"""Images that projects make of their containers: what they may be called, and who asks for one.

Such an image is on one host only. A name means the newest image of that name that the project made, else what
registries have under it, unless the request names a registry. Another project's image is nobody's business.
"""

from collections.abc import Mapping
from typing import Any

from zun.common import exceptions
from zun.common.image_reference import Reference
from zun.db import images as db
from zun.objects.image import COMMITTED, image_found


def reference(repository: str, tag: str | None) -> Reference:
    """The name for a new image. Raises SchemaValidationError."""
    try:
        found = Reference.parse(f"{repository}:{tag or 'latest'}")
    except ValueError as exc:
        raise exceptions.SchemaValidationError(detail=f"repository and tag: {exc}.") from None
    if found.digest is not None or found.repo != repository:
        raise exceptions.SchemaValidationError(detail="repository: give the tag by itself, and no digest.")
    return found


def wanted(project_id: str | None, image: str, *, registry: str | None, host: str | None) -> Mapping[str, Any]:
    """What a container's ``request`` says of ``image``: nothing, or which it is and the one host that has it.

    ``registry`` and ``host`` are those that the container names, or is on, or its volumes are. Conflict when the image
    is elsewhere.
    """
    if registry is not None or project_id is None:
        return {}
    newest = db.committed(project_id, image)
    if newest is None:
        return {}
    if host is None:
        return {COMMITTED: newest["uuid"], "host": newest["host"]}
    here = db.committed(project_id, image, host)
    if here is None:
        raise exceptions.Conflict(
            f"Image {image[:64]} was made of a container and is kept on the host of that one. Ask for a container "
            "there, or none in particular."
        )
    return {COMMITTED: here["uuid"]}


def found(project_id: str | None, name: str, *, exact: bool) -> list[dict[str, Any]]:
    """The project's images with ``name`` in their own, as the answer to a search has them."""
    if project_id is None:
        return []
    try:
        asked = Reference.parse(name)
    except ValueError:
        return []
    rows = db.search_committed(project_id, asked.repo)
    return [
        image_found(row["repo"], [row["tag"]], row["uuid"], int(row["size"] or 0))
        for row in rows
        if (asked.tag is None or asked.tag == row["tag"]) and (not exact or asked.repo == row["repo"])
    ]
