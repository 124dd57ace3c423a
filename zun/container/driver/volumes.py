# SPDX-License-Identifier: Apache-2.0
"""The capability to remove named volumes, and the labels of the runtime's volumes."""

from typing import Protocol

#: Label with the project id on the runtime's networks and volumes, so that operators can search for them.
LABEL_PROJECT = "zun.project"
#: Label of named volumes, with the name that the project gave.
LABEL_VOLUME = "zun.volume"


class Volumes(Protocol):
    """Removes named volumes."""

    def remove_volume(self, name: str) -> None:
        """Remove the volume and its files, if the volume exists.

        Conflict while a container mounts the volume, and if the volume does not have LABEL_VOLUME.
        """
        ...
