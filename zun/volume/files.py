# SPDX-License-Identifier: Apache-2.0
"""The driver of bind mounts: single files with content from the request."""

import base64
from pathlib import Path

from zun.common.mounts import Mount
from zun.container.driver.lifecycle import RuntimeMount
from zun.volume.places import clear, failed, there


class FileDriver:
    """Write each file below ``root``, a folder that only this agent may enter.

    Mounts are read-only: the file lies on the host's disk and a container could let it grow without a limit.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        path = self._path(owner, number)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.chmod(0o700)
            if not there(path):
                unfinished = path.with_name("content.new")
                unfinished.unlink(missing_ok=True)  # a leftover of an interrupted attempt may be read-only
                unfinished.write_bytes(base64.b64decode(mount.source or ""))
                unfinished.chmod(0o444)  # readable by any user of the image
                unfinished.rename(path)
        except OSError as exc:
            raise failed(mount, path.parent, str(exc)) from exc
        return RuntimeMount("bind", str(path), mount.destination, read_only=True)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """Do nothing: the file outlives a restart."""

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        clear(self._path(owner, number).parent, mount)

    def _path(self, owner: str, number: int) -> Path:
        return self._root / owner / str(number) / "content"
