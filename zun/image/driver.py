# SPDX-License-Identifier: Apache-2.0
"""The interface of an image service, as a Protocol and a frozen value.

Methods with a ``context`` act with the rights of its user. The others act for the service, which must have checked the
user's rights before: a transfer may take longer than a user's token is valid.

Every method raises :class:`~zun.common.exceptions.Unavailable` if the service does not answer, ImageNotFound for an
image that is not there or not visible, Forbidden for a lack of rights or a full quota, and Conflict for an image in the
wrong state.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from zun.common.context import RequestContext

#: The image drivers of containers: for an image of a registry, and for one of Glance.
DOCKER, GLANCE = "docker", "glance"


@dataclass(frozen=True, slots=True)
class ServiceImage:
    """An image of the service that is ready for use. ``size`` is in bytes, None if unknown.

    ``hash_algo`` and ``hash_value`` verify its data: ``sha512`` and hexadecimal digits. ``properties`` are those that
    its owner gave it, for example ``hw_cpu_policy``.
    """

    uuid: str
    name: str
    size: int | None = None
    hash_algo: str = ""
    hash_value: str = ""
    tags: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


class SizedArchive(Protocol):
    """An archive in pieces whose size is known before."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


class ImageService(Protocol):
    def find(self, context: RequestContext, ident: str) -> ServiceImage:
        """Return the image that ``ident`` means to the user: a uuid, a name, or NAME:TAG.

        The image is active, is one of containers, and the user may download it. Conflict if several images have the
        name.
        """
        ...

    def search(self, context: RequestContext, term: str, *, exact: bool) -> list[dict[str, Any]]:
        """Return the user's images of containers whose name contains ``term``, or is ``term`` if ``exact``."""
        ...

    def create(self, context: RequestContext, uuid: str, name: str, tag: str) -> None:
        """Make an image of this uuid without data, which belongs to the user's project."""
        ...

    def show(self, uuid: str) -> ServiceImage:
        """Return the image, which is active."""
        ...

    def download(self, image: ServiceImage, file: BinaryIO, progress: Callable[[int], None]) -> None:
        """Write the data of the image to the empty ``file``, verified by its hash. Tell ``progress`` the bytes so far.

        OSError if ``file`` cannot be written.
        """
        ...

    def upload(self, uuid: str, archive: SizedArchive) -> None:
        """Give the image its data."""
        ...

    def delete(self, uuid: str) -> None:
        """Remove the image, if it exists."""
        ...

    def delete_unfinished(self, uuid: str) -> bool:
        """Remove the image, if it exists, unless it has its data. Return whether it is gone."""
        ...
