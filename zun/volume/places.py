# SPDX-License-Identifier: Apache-2.0
"""The folders in which drivers keep data, one for each mount: ``ROOT/OWNER/NUMBER``."""

import contextlib
import shutil
from pathlib import Path

from zun.common import exceptions
from zun.common.mounts import Mount


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
    """Remove ``place``, the folder of ``mount``, if it exists. Raises VolumeError if a part cannot be removed."""
    try:
        if there(place):
            shutil.rmtree(place)
    except OSError as exc:
        raise failed(mount, place, str(exc)) from exc
    with contextlib.suppress(OSError):  # the owner has other mounts, or the folder never existed
        place.parent.rmdir()


def failed(mount: Mount, place: Path, reason: str) -> exceptions.VolumeError:
    """Return the error to raise. Users read the text, so the path of the host is replaced by ``...``."""
    return exceptions.VolumeError(mount=mount.destination, reason=reason.replace(str(place), "..."))
