# SPDX-License-Identifier: Apache-2.0
"""A volume driver in memory, for hosts with the in-memory runtime."""

from zun.common import exceptions
from zun.common.mounts import Kind, Mount
from zun.container.driver.lifecycle import RuntimeMount
from zun.volume.volumes import Volumes


class InMemoryVolumeDriver:
    """``made`` holds the existing mounts by owner and number; ``restored`` lists the calls of ``restore``.

    The next ``prepare`` raises ``failure``; every ``remove`` raises ``stuck``.
    """

    def __init__(self) -> None:
        self.made: dict[tuple[str, int], Mount] = {}
        self.restored: list[tuple[str, int]] = []
        self.failure: exceptions.ZunError | None = None
        self.stuck: exceptions.ZunError | None = None

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.made[owner, number] = mount
        return RuntimeMount("bind", f"/{owner}/{number}", mount.destination)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        self.restored.append((owner, number))

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        if self.stuck is not None:
            raise self.stuck
        self.made.pop((owner, number), None)

    def as_volumes(self) -> Volumes:
        """Return Volumes with this driver for every kind of mount."""
        return Volumes(dict.fromkeys(Kind, self))
