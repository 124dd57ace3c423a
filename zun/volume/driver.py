# SPDX-License-Identifier: Apache-2.0
"""The interface of a volume driver, which serves one kind of mount on a host.

A driver prepares a mount and tells the runtime how to mount it. Each method may be repeated: after a crash, when the
agent starts, when a container is rebuilt. A driver for an external service (Cinder) would connect the volume to this
host in ``prepare`` and disconnect it in ``remove``.
"""

from typing import Protocol

from zun.common.mounts import Mount
from zun.container.driver.lifecycle import RuntimeMount


class VolumeDriver(Protocol):
    """``owner`` is the uuid of a container or capsule; ``number`` tells its mounts apart. Methods raise VolumeError."""

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        """Create the storage of the mount, or use the existing one, and return how the runtime mounts it.

        ``again``: a container had the storage before. If the only copy of its data is on this host and missing, the
        driver raises VolumeError.
        """
        ...

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """Mount the storage again after a restart of the machine or the agent.

        Missing storage is a VolumeError: an empty folder must never replace it silently.
        """
        ...

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        """Remove the storage that belongs to the owner alone, if it exists. No process may use it any more."""
        ...
