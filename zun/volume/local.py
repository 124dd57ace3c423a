# SPDX-License-Identifier: Apache-2.0
"""The driver of local mounts: file systems of a fixed size on this host's disk, ext4 in a file on a loop device.

The container gets a folder *inside* the file system. If the file system is not mounted, the folder is missing and the
runtime refuses to start the container. Otherwise the container would write to the host's disk without a limit.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from zun.common import exceptions
from zun.common.mounts import Mount
from zun.common.units import MIB
from zun.container.driver import RuntimeMount
from zun.volume.places import clear, failed

COMMAND_SECONDS = 120


class LocalDriver:
    """Keep each file system below ``root``, a folder that only this agent uses. Needs root, mkfs.ext4, loop devices."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount) -> RuntimeMount:
        place = self._place(owner, number)
        with _translated(mount, place):
            if not (place / "image").exists():
                self._make_image(place, (mount.size_mib or 0) * MIB)
            self._mount(place)
            data = place / "fs" / "data"
            if not data.exists():
                data.mkdir()
                data.chmod(0o777)  # for any user of the image; the parent folders are closed to users of the host
        return RuntimeMount("bind", str(data), mount.destination)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        place = self._place(owner, number)
        with _translated(mount, place):
            if not (place / "image").exists():
                raise exceptions.VolumeError(mount=mount.destination, reason=f"{place / 'image'} is missing")
            self._mount(place)

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        place = self._place(owner, number)
        target = place / "fs"
        if os.path.ismount(target):
            with _translated(mount, place):
                _run("umount", str(target))
        if os.path.ismount(target):  # mounted twice: removal would empty the file system underneath
            raise exceptions.VolumeError(mount=mount.destination, reason="its file system is still mounted")
        clear(place, mount)

    def _place(self, owner: str, number: int) -> Path:
        return self._root / owner / str(number)

    def _make_image(self, place: Path, size: int) -> None:
        unfinished = place / "image.new"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.chmod(0o700)
        with unfinished.open("wb") as image:
            image.truncate(size)
        # -m 0: no blocks reserved for root. The file is sparse: blocks take disk when they are written.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(unfinished))
        unfinished.rename(place / "image")

    @staticmethod
    def _mount(place: Path) -> None:
        target = place / "fs"
        target.mkdir(mode=0o700, exist_ok=True)
        if not os.path.ismount(target):
            _run("mount", "-o", "loop,nodev", str(place / "image"), str(target))


@contextlib.contextmanager
def _translated(mount: Mount, place: Path) -> Iterator[None]:
    """Raise VolumeError for an error of the disk or of a command."""
    try:
        yield
    except subprocess.CalledProcessError as exc:
        raise failed(mount, place, f"{exc.cmd[0]}: {(exc.stderr or exc.stdout).strip()}") from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise failed(mount, place, str(exc)) from exc


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_SECONDS)
