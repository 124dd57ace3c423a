# SPDX-License-Identifier: Apache-2.0
"""The mounts of this host's containers: each to its driver."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from zun.common import exceptions
from zun.common.mounts import Kind, Mount, mounts_of
from zun.container.driver import RuntimeMount
from zun.objects import Container
from zun.volume.driver import VolumeDriver
from zun.volume.files import FileDriver
from zun.volume.local import LocalDriver
from zun.volume.runtime import NamedDriver, TmpfsDriver

LOG = logging.getLogger(__name__)


class Volumes:
    """``drivers`` serve the kinds of mounts, each its own."""

    def __init__(self, drivers: Mapping[Kind, VolumeDriver]) -> None:
        self._drivers = drivers

    @classmethod
    def of_host(cls, root: Path) -> Self:
        """Every kind there is. ``root``: where this host keeps the data of mounts."""
        return cls(
            {
                Kind.LOCAL: LocalDriver(root / "local"),
                Kind.BIND: FileDriver(root / "files"),
                Kind.TMPFS: TmpfsDriver(),
                Kind.VOLUME: NamedDriver(),
            }
        )

    def prepare(self, container: Container) -> list[RuntimeMount]:
        """Make ready what the container mounts, and say how. Raises VolumeError.

        The containers of a capsule mount what is the capsule's.
        """
        owner = container.capsule_uuid or container.uuid
        return [
            self._drivers[mount.kind].prepare(owner, container.project_id, number, mount)
            for number, mount in _numbered(container)
        ]

    def restore(self, container: Container) -> None:
        """After a start of this service. What cannot be restored is logged, and its container will not start."""
        for number, mount in _own(container):
            try:
                self._drivers[mount.kind].restore(container.uuid, number, mount)
            except exceptions.VolumeError as exc:
                LOG.warning("Could not restore a mount of container %s: %s", container.uuid, exc)

    def remove(self, container: Container) -> None:
        """Remove what only this container mounted, once its object is gone: all that can be.

        Raises VolumeError with what went wrong with one. It can be repeated.
        """
        failure: exceptions.VolumeError | None = None
        for number, mount in _own(container):
            try:
                self._drivers[mount.kind].remove(container.uuid, number, mount)
            except exceptions.VolumeError as exc:
                failure = exc
        if failure is not None:
            raise failure


def _numbered(container: Container) -> list[tuple[int, Mount]]:
    try:
        mounts = mounts_of(container)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise exceptions.VolumeError(
            f"What container {container.uuid} mounts cannot be read in its row. Delete it, and create it anew."
        ) from exc
    return [(each if mount.number is None else mount.number, mount) for each, mount in enumerate(mounts)]


def _own(container: Container) -> list[tuple[int, Mount]]:
    try:
        return [] if container.capsule_uuid else _numbered(container)
    except exceptions.VolumeError as exc:  # it keeps neither this service from starting nor its container from going
        LOG.warning("%s", exc)
        return []
