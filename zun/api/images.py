# SPDX-License-Identifier: Apache-2.0
"""Images of Glance, and images that projects commit from their containers: find the image that a request names.

A committed image is on one host only. Its name means the newest image of this name that the project committed. If the
project has none, or the request names a registry, the name means an image of a registry. Projects do not see each
other's committed images.
"""

from collections.abc import Mapping
from typing import Any

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.image_reference import Reference, split
from zun.db import images as db
from zun.image.driver import GLANCE, ImageService, ServiceImage
from zun.objects.image import COMMITTED, image_found


def of_service(
    service: ImageService | None, context: RequestContext, driver: str | None, image: str
) -> ServiceImage | None:
    """Return the image of the image service that a request names, or None if ``driver`` is not its driver.

    The user may download the image. Raises the errors of ``ImageService.find``.
    """
    if driver != GLANCE:
        return None
    if service is None:
        raise exceptions.ValidationError(
            detail="image_driver: this cloud has no Glance for containers. Name docker, for images of registries."
        )
    return service.find(context, image)


def committed_name(repository: str, tag: str | None) -> Reference:
    """Return the name of an image to commit. Raises SchemaValidationError."""
    try:
        found = Reference.parse(f"{repository}:{tag or 'latest'}")
    except ValueError as exc:
        raise exceptions.SchemaValidationError(detail=f"repository and tag: {exc}.") from None
    if found.digest is not None or found.repo != repository:
        raise exceptions.SchemaValidationError(detail="repository: give the tag by itself, and no digest.")
    return found


def committed_request(
    project_id: str | None, image: str, *, registry: str | None, host: str | None
) -> Mapping[str, Any]:
    """Return the members of a container's ``request`` that ``image`` needs: the uuid of a committed image and its host.

    The answer is empty for an image of a registry. ``host`` is where the container must run, or None; then Conflict is
    raised if the image is on another host.
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
            f"image: {image[:64]} was committed from a container and is on the host of that container only. Name "
            "that host, or no host and no volume of another host."
        )
    return {COMMITTED: here["uuid"]}


def search_committed(project_id: str | None, name: str, *, exact: bool) -> list[dict[str, Any]]:
    """Return the project's committed images whose name contains ``name``, in the form of a search's answer."""
    if project_id is None:
        return []
    try:
        repo, version = split(name)
        Reference.parse(repo)
    except ValueError:
        return []
    rows = db.search_committed(project_id, repo)
    return [
        image_found(row["repo"], [row["tag"]], row["uuid"], int(row["size"] or 0))
        for row in rows
        if version in (None, row["tag"]) and (not exact or repo == row["repo"])
    ]
