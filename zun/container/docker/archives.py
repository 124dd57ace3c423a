# SPDX-License-Identifier: Apache-2.0
"""Container files as tar streams, which pass through in pieces."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from docker import errors as docker_errors

from zun.common import exceptions
from zun.container.docker.client import OnEngine, object_name
from zun.container.docker.errors import NO_PODMAN_OBJECT, says, unbroken
from zun.container.driver.container import ContainerView

#: The word, for example in ``archive/tar: invalid tar header``, and not the letters in "restarting".
_TAR = re.compile(r"\btar\b", re.IGNORECASE)
#: File systems of the kernel and of memory that every container has.
_NEVER_ON_DISK = ("/dev", "/proc", "/sys")


class DockerArchives(OnEngine):
    """Archives of containers. Docker unpacks inside the container's root, so neither ``..`` nor links lead out."""

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        with self._engine.translated("read files of", container):
            self._see_that_docker_reaches(container, path)
            try:
                chunks, stat = self._engine.api.get_archive(object_name(container.uuid), path)
            except docker_errors.APIError as exc:
                raise _path_error(exc, path) from exc
        return self._translated_chunks(container, chunks), dict(stat)

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        with self._engine.translated("write files of", container):
            self._see_that_docker_reaches(container, path)
            try:
                self._engine.api.put_archive(object_name(container.uuid), path, chunks)
            except docker_errors.APIError as exc:
                raise _path_error(exc, path) from exc

    def _see_that_docker_reaches(self, container: ContainerView, path: str) -> None:
        """Raise InvalidValue for a path in a tmpfs: Docker accepts the tar and unpacks it below the mount, unseen."""
        found = self._engine.api.inspect_container(object_name(container.uuid))
        if (place := in_memory(found, path)) is not None:
            raise exceptions.InvalidValue(
                f"path: '{path[:64]}' is in {place}, a file system in memory that archives do not reach. Use another "
                "folder, or execute a command such as 'cp' in the container to bring the files there."
            )

    def _translated_chunks(self, container: ContainerView, chunks: Iterable[bytes]) -> Iterator[bytes]:
        with self._engine.translated("read files of", container):
            yield from unbroken(chunks)


def in_memory(inspected: Mapping[str, Any], path: str) -> str | None:
    """Return the mount point of the tmpfs that has ``path``, or None if Docker reaches the path.

    The deepest mount above the path decides: a volume at ``/tmp/data`` is on disk also if ``/tmp`` is a tmpfs. Links
    inside the container are not followed.
    """
    types = dict.fromkeys(_NEVER_ON_DISK, "tmpfs")
    types |= dict.fromkeys((inspected.get("HostConfig") or {}).get("Tmpfs") or (), "tmpfs")
    types |= {each["Destination"]: each["Type"] for each in inspected.get("Mounts") or ()}
    wanted = PurePosixPath(normpath(f"/{path.lstrip('/')}"))
    above = [place for place in types if wanted.is_relative_to(place)]
    nearest = max(above, key=lambda place: len(PurePosixPath(place).parts), default=None)
    return nearest if nearest is not None and types[nearest] == "tmpfs" else None


def _path_error(exc: docker_errors.APIError, path: str) -> Exception:
    """Return InvalidValue if Docker rejects the path or the tar, else ``exc``."""
    reason = str(exc.explanation or exc)
    # Older daemons answer 500 for a path that is no directory, and every daemon for a stream that is no tar.
    theirs = exc.status_code == 400 or says(exc, "not a directory") or _TAR.search(reason)
    if theirs or (exc.status_code == 404 and not says(exc, "no such container:", NO_PODMAN_OBJECT)):
        return exceptions.InvalidValue(f"path: '{path[:64]}': {reason}")
    return exc
