# SPDX-License-Identifier: Apache-2.0
"""The folders in which drivers keep the data of mounts: one for each mount, in one for each container."""

import contextlib
import shutil
from pathlib import Path

from zun.common import exceptions
from zun.common.mounts import Mount


def clear(place: Path, mount: Mount) -> None:
    """Remove the folder of ``mount``, if it is there. Raises VolumeError when something of it stays."""
    try:
        if place.exists():
            shutil.rmtree(place)
    except OSError as exc:
        raise failed(mount, place, str(exc)) from exc
    with contextlib.suppress(OSError):  # others of the container are there, or it never was
        place.parent.rmdir()


def failed(mount: Mount, place: Path, reason: str) -> exceptions.VolumeError:
    """To be raised. Users read it, whom it does not concern where the host keeps the data."""
    return exceptions.VolumeError(mount=mount.destination, reason=reason.replace(str(place), "..."))
