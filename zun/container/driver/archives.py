# SPDX-License-Identifier: Apache-2.0
"""The capability to read and write the files of a container."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from zun.container.driver.container import ContainerView


class Archives(Protocol):
    """Reads and writes the files of a container, running or not, as tar streams."""

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        """Return a tar of the file or directory at ``path``, and its ``name``, ``size``, ``mode``, ``mtime`` and
        ``linkTarget``.

        InvalidValue if nothing is at ``path``. A caller that stops reading before the end closes the iterator.
        """
        ...

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        """Unpack a tar in the directory ``path``. InvalidValue if ``path`` is no directory or ``chunks`` is no tar."""
        ...

    def pack_layer(self, container: ContainerView, most: int) -> bytes:
        """Return a tar, from the root on, of what the container has changed in its own file system: empty for nothing.

        What is mounted there is not part of it. A second name of a file, in another folder, becomes a copy. Conflict if
        that is more than ``most`` bytes, or if files of the image were deleted, which no tar says.
        """
        ...
