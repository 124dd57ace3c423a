# SPDX-License-Identifier: Apache-2.0
"""The capability to pull, name, list and remove images, and the values of an image."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zun.container.driver.container import ContainerView


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for one registry. ``repr`` leaves out the password, because logs and tracebacks show it."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryAuth(username={self.username!r})"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The properties of an image. ``entrypoint`` and ``command`` are empty if the image sets none.

    ``image_id`` is of the runtime: one image can have another id at another runtime, or after it was saved and loaded.
    ``size`` is in bytes of the disk, 0 if unknown. ``digests`` are names by digest as the runtime spells them, for
    example ``nginx@sha256:0d17...``. They prove no registry: with containerd's image store, an image that was made or
    imported on the host has one, too, of its id. ``names`` are those on the host, with their tags.
    """

    image_id: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    size: int = 0
    digests: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)

    def invocation(
        self, entrypoint: Sequence[str] | None, command: Sequence[str] | None
    ) -> tuple[list[str] | None, list[str] | None]:
        """Return the ``(entrypoint, command)`` that a container of this image runs, each None if empty.

        Docker's rule: the image's command counts unless the user gave an entrypoint or a command, because the image's
        command was written for the image's entrypoint.
        """
        if entrypoint:
            return list(entrypoint), list(command) if command else None
        chosen = command or self.command
        return list(self.entrypoint) or None, list(chosen) or None


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image on the host under one name. ``size`` is in bytes, ``digests`` are like those of ImageFacts."""

    name: str
    tags: tuple[str, ...]
    image_id: str
    size: int
    digests: tuple[str, ...] = ()


class Images(Protocol):
    """Pulls, names, lists and removes the images of the host."""

    def find_image(self, image: str) -> ImageFacts | None:
        """Return the host's image of this name or full id, or None if the host has no such image."""
        ...

    def image_digest(self, image: str, auth: RegistryAuth | None = None) -> str:
        """Return the digest that the registry now has for ``image``. ImageNotFound if it has none for ``auth``."""
        ...

    def pull_image(
        self, image: str, auth: RegistryAuth | None = None, progress: Callable[[str], None] | None = None
    ) -> ImageFacts:
        """Pull ``image`` from its registry and return its properties. ImageNotFound if the registry has no such image.

        ``progress`` is called often during the pull, with a text for people.
        """
        ...

    def tag_image(self, image: str, name: str) -> None:
        """Give ``image`` the name ``name``, with or without a tag. An image that had this name loses it."""
        ...

    def image_digests(self) -> Sequence[str]:
        """Return the ``digests`` of every image on the host."""
        ...

    def remove_image(self, image: str) -> None:
        """Remove the image of this name, if there is one. Conflict while a container uses the image."""
        ...

    def commit(self, container: ContainerView, name: str) -> ImageFacts:
        """Make an image called ``name`` from the container's files and its configuration.

        The container's processes are paused meanwhile. The image does not say from which container it was made, nor on
        which CPUs that container ran.
        """
        ...

    def load_image(self, archive: Iterable[bytes]) -> None:
        """Read an image from a tar archive, which names the image. Invalid if the archive is of no image.

        A name of the archive is taken from the image that had it.
        """
        ...

    def save_image(self, image: str) -> Iterator[bytes]:
        """Return an archive of ``image`` in pieces, for ``load_image``. ImageNotFound if the host lacks the image."""
        ...

    def find_images(self, term: str) -> Sequence[LocalImage]:
        """Return the host's images whose name without the tag contains ``term``, sorted by name.

        Images that the service keeps under names of its own are left out.
        """
        ...

    def images_of(self, repository: str) -> Sequence[LocalImage]:
        """Return the host's images of exactly this name, one for each image with its tags."""
        ...

    def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        """Search a registry and return the name, description and metadata of each image found.

        ``term`` may name the registry, for example ``registry.example.org/nginx``; Docker's own registry is the
        default. Unavailable if the registry cannot be searched.
        """
        ...
