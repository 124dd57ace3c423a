# SPDX-License-Identifier: Apache-2.0
"""Pack the files that a container has added or changed in its own file system into a tar for another host."""

import io
import tarfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO

from zun.common import exceptions
from zun.container.docker.archives import DockerArchives
from zun.container.docker.client import OnEngine, object_name
from zun.container.driver.container import ContainerView

_ADDED, _DELETED = 1, 2
"""Kinds of changes, as Docker numbers them. 0 is something that was there before."""


class DockerLayers(DockerArchives, OnEngine):
    def pack_layer(self, container: ContainerView, most: int) -> bytes:
        name = object_name(container.uuid)
        with self._engine.translated("compare with its image", container):
            changes = {each["Path"]: each["Kind"] for each in self._engine.api.diff(name) or ()}
            mounts = {each["Destination"] for each in self._engine.api.inspect_container(name).get("Mounts") or ()}
        deleted = sorted(path for path, kind in changes.items() if kind == _DELETED)
        if deleted:
            raise exceptions.Conflict(
                f"Container {container.uuid} has deleted files of its image, which a layer that is moved cannot say: "
                f"{', '.join(deleted[:3])}."
            )
        packed, wanted = io.BytesIO(), roots(changes, mounts)
        with tarfile.open(fileobj=packed, mode="w") as layer:
            for path in wanted:
                for member, data in self._members(container, path):
                    layer.addfile(member, data)
                    if packed.tell() > most:
                        raise exceptions.Conflict(
                            f"Container {container.uuid} has written more than {most // 2**20} MiB into its own "
                            f"file system ([compute] move_layer_mb of its host), for example below {path}."
                        )
        return packed.getvalue() if wanted else b""

    def _members(self, container: ContainerView, path: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
        """Yield what is at ``path``, with names from the root on."""
        chunks, _ = self.get_archive(container, path)
        above = str(PurePosixPath(path).parent).lstrip("/")
        with tarfile.open(fileobj=_Stream(chunks), mode="r|") as archive:
            for member in archive:
                member.name = f"{above}/{member.name}".lstrip("/")
                if member.islnk():
                    member.linkname = f"{above}/{member.linkname}".lstrip("/")
                yield member, archive.extractfile(member) if member.isreg() else None


def roots(changes: Mapping[str, int], mounts: Collection[str]) -> list[str]:
    """Return the paths whose content is what has changed: files, and whole folders that are new.

    ``changes`` are kinds by path. A runtime makes the folders into which it mounts, and tells of the folders around
    every change; neither is a change of the container.
    """
    around = {str(parent) for path in mounts for parent in PurePosixPath(path).parents}
    outside = {path for path, kind in changes.items() if kind != _ADDED}
    outside &= {str(parent) for path in changes for parent in PurePosixPath(path).parents}
    found: list[str] = []
    for path in sorted(changes):
        below = any(PurePosixPath(path).is_relative_to(each) for each in (*found, *mounts))
        if not below and path not in around | outside:
            found.append(path)
    return found


class _Stream(io.RawIOBase):
    """Pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
