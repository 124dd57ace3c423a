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
