# SPDX-License-Identifier: Apache-2.0
"""The in-memory driver's archives of container files."""

from collections.abc import Iterable, Iterator
from typing import Any

from zun.common import exceptions
from zun.container.driver.container import ContainerView
from zun.container.fake.operations import OnRuntime


class InMemoryArchives(OnRuntime):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.archives: dict[tuple[str, str], bytes] = {}

    def get_archive(self, container: ContainerView, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        """Return the tar that was last put to this path, byte for byte."""
        with self._operation("get_archive", container):
            found = self._find(container)
            data = self.archives.get((found.uuid, path))
            if data is None:
                raise exceptions.InvalidValue(f"path: there is no '{path}' in container {found.uuid}")
        stat = {"name": path.rpartition("/")[2], "size": len(data), "mode": 493, "mtime": "", "linkTarget": ""}
        return (data[start : start + 1000] for start in range(0, len(data), 1000)), stat

    def put_archive(self, container: ContainerView, path: str, chunks: Iterable[bytes]) -> None:
        with self._operation("put_archive", container):
            found = self._find(container)
        data = b"".join(chunks)
        with self.runtime.lock:
            self.archives[found.uuid, path] = data
            if path == "/":
                found.layer = data

    def pack_layer(self, container: ContainerView, most: int) -> bytes:
        with self._operation("pack_layer", container):
            layer = self._find(container).layer
        if len(layer) > most:
            raise exceptions.Conflict(f"Container {container.uuid} has written more than {most} bytes.")
        return layer
