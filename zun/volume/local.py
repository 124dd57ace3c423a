# SPDX-License-Identifier: Apache-2.0
"""The driver of local mounts: file systems of a fixed size on this host's disk, ext4 in a file on a loop device.

The container gets a folder *inside* the file system. If the file system is not mounted, the folder is missing and the
runtime refuses to start the container. Otherwise the container would write to the host's disk without a limit.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from zun.common import exceptions
from zun.common.mounts import Mount
from zun.common.units import MIB
from zun.container.driver.lifecycle import RuntimeMount
from zun.volume.filesystems import DATA, add_data, mounted, run
from zun.volume.places import clear, failed, there


class HostDriver:
    """Mount each file system of a container at ``fs`` in a folder below ``root``, which only this agent uses."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        place = self._place(owner, number)
        target = place / "fs"
        with translated(mount, place):
            if mounted(target):
                run("umount", str(target))
        clear(place, mount)

    def _place(self, owner: str, number: int) -> Path:
        return self._root / owner / str(number)


class LocalDriver(HostDriver):
    """File systems on the disk. Needs root, mkfs.ext4 and loop devices."""

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        place = self._place(owner, number)
        with translated(mount, place):
            if not self._has_image(place, needed=again):
                self._make_image(place, (mount.size_mib or 0) * MIB)
            self._mount(place)
            add_data(place / "fs")
        return RuntimeMount("bind", str(place / "fs" / DATA), mount.destination)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        place = self._place(owner, number)
        with translated(mount, place):
            self._has_image(place, needed=True)
            self._mount(place)

    @staticmethod
    def _has_image(place: Path, *, needed: bool) -> bool:
        """Return whether the file of the file system is there. Raises VolumeError if it is ``needed`` and missing."""
        found = there(place / "image")
        if needed and not found:
            raise exceptions.VolumeError(
                f"{place / 'image'} is missing, with the data of the container. Tell the host's operator: is its disk "
                "mounted?"
            )
        return found

    def _make_image(self, place: Path, size: int) -> None:
        unfinished = place / "image.new"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.chmod(0o700)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as image:
            image.truncate(size)
        # -m 0: no blocks reserved for root. The file is sparse: blocks take disk when they are written.
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(unfinished))
        unfinished.rename(place / "image")

    @staticmethod
    def _mount(place: Path) -> None:
        target = place / "fs"
        target.mkdir(mode=0o700, exist_ok=True)
        if not mounted(target):
            run("mount", "-o", "loop,nodev", str(place / "image"), str(target))


@contextlib.contextmanager
def translated(mount: Mount, place: Path) -> Iterator[None]:
    """Raise a VolumeError of the mount for an error of the disk or of a command."""
    try:
        yield
    except (OSError, exceptions.VolumeError) as exc:
        raise failed(mount, place, str(exc)) from exc
