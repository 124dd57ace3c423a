# SPDX-License-Identifier: Apache-2.0
"""The mounts of this host's containers: calls the driver of each mount's kind."""

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
    """The mounts of one host. ``drivers`` has the driver of each kind of mount."""

    def __init__(self, drivers: Mapping[Kind, VolumeDriver]) -> None:
        self._drivers = drivers

    @classmethod
    def of_host(cls, root: Path) -> Self:
        """Return Volumes with a driver for every kind; the data of mounts is below ``root``."""
        return cls(
            {
                Kind.LOCAL: LocalDriver(root / "local"),
                Kind.BIND: FileDriver(root / "files"),
                Kind.TMPFS: TmpfsDriver(),
                Kind.VOLUME: NamedDriver(),
            }
        )

    def prepare(self, container: Container) -> list[RuntimeMount]:
        """Prepare the container's mounts and return how the runtime mounts each. Raises VolumeError.

        The members of a capsule share the mounts of the capsule.
        """
        owner = container.capsule_uuid or container.uuid
        return [
            self._drivers[mount.kind].prepare(owner, container.project_id, number, mount)
            for number, mount in _numbered(container)
        ]

    def restore(self, container: Container) -> None:
        """Restore the container's mounts after a restart of this service.

        A mount that cannot be restored is logged; its container will not start.
        """
        for number, mount in _own(container):
            try:
                self._drivers[mount.kind].restore(container.uuid, number, mount)
            except exceptions.VolumeError as exc:
                LOG.warning("Could not restore a mount of container %s: %s", container.uuid, exc)

    def remove(self, container: Container) -> None:
        """Remove the mounts that only this container used, after its object is gone. Can be repeated.

        If some cannot be removed, the others are removed and the VolumeError of the last failure is raised.
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
            f"The mounts of container {container.uuid} cannot be read from its row. Delete it and create it again."
        ) from exc
    return [(each if mount.number is None else mount.number, mount) for each, mount in enumerate(mounts)]


def _own(container: Container) -> list[tuple[int, Mount]]:
    try:
        return [] if container.capsule_uuid else _numbered(container)
    except exceptions.VolumeError as exc:  # must not stop this service from starting or the container's deletion
        LOG.warning("%s", exc)
        return []
