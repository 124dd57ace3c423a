# SPDX-License-Identifier: Apache-2.0
"""The folders in which drivers keep data, one for each mount: ``ROOT/OWNER/NUMBER``."""

import contextlib
import errno
import os
import shutil
from pathlib import Path

from zun.common import exceptions
from zun.common.mounts import Mount
from zun.topology.mounts import lines_of, mountinfo, parsed

#: The folder that has ``proc``, below which the kernel tells its mounts.
ROOT = Path("/")


def there(path: Path) -> bool:
    """Return whether something is at ``path``, also a link that leads nowhere. Raises OSError.

    ``Path.exists`` answers False as well where the disk fails: always since Python 3.14, before for some errors.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def clear(place: Path, mount: Mount) -> None:
    """Remove ``place``, the folder of ``mount``, if it exists. Raises VolumeError if a part cannot be removed.

    If something is mounted in the folder, nothing is removed: the files may be those of another disk.
    """
    try:
        if there(place):
            if place.is_symlink():  # the words of rmtree for this depend on Python; 3.13 says "[Errno None] None"
                raise OSError(errno.ELOOP, f"{place} is a symbolic link. Remove it if nobody needs it there")
            if found := mounts_below(place):
                raise OSError(errno.EBUSY, f"{found[0]} is mounted. Unmount it if nobody needs it there")
            shutil.rmtree(place)
    except OSError as exc:
        raise failed(mount, place, str(exc)) from exc
    with contextlib.suppress(OSError):  # the owner has other mounts, or the folder never existed
        place.parent.rmdir()


def mount_points() -> list[str]:
    """Return the places where something is mounted. Raises OSError, also if a line is not understood."""
    found = []
    for line in lines_of(mountinfo(ROOT)):
        mount = parsed(line)
        if mount is None:
            raise OSError(errno.EINVAL, f"/proc/self/mountinfo has a line that is not understood: {line[:80]!a}")
        found.append(mount.place)
    return found


def mounts_below(place: Path) -> list[str]:
    """Return the places at ``place`` and below where something is mounted. Raises OSError."""
    real = os.path.realpath(place, strict=True)
    return [each for each in mount_points() if each == real or each.startswith(f"{real}/")]


def failed(mount: Mount, place: Path, reason: str) -> exceptions.VolumeError:
    """Return the error to raise. Users read the text, so the path of the host is replaced by ``...``.

    The text is stored, so bytes of a path that are not UTF-8 are spelt. Example: ``\\udce4`` for the byte 0xe4.
    """
    words = reason.replace(str(place), "...").encode(errors="backslashreplace").decode()
    return exceptions.VolumeError(mount=mount.destination, reason=words)
