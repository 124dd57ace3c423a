# SPDX-License-Identifier: Apache-2.0
"""What serves one kind of mount on a host.

A driver makes ready what a mount needs and says how the runtime is to mount it. Everything is safe to repeat: after a
crash, when the agent starts, when a container is rebuilt. A driver of a service elsewhere (Cinder) connects the volume
to this host in ``prepare`` and disconnects it in ``remove``.
"""

from typing import Protocol

from zun.common.mounts import Mount
from zun.container.driver import RuntimeMount


class VolumeDriver(Protocol):
    def prepare(self, owner: str, project_id: str, number: int, mount: Mount) -> RuntimeMount:
        """Make ready mount ``number`` of the container ``owner``. What is there already is used as it is.

        Raises VolumeError.
        """
        ...

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """Make ready again what ``prepare`` made before this machine or the agent was restarted.

        Raises VolumeError, also when it is not there any more: nothing empty may take its place unseen.
        """
        ...

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        """Undo ``prepare``: what belongs to the container alone is gone afterwards. Nothing there is fine.

        No process may use it any more. Raises VolumeError.
        """
        ...
