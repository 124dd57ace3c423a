# SPDX-License-Identifier: Apache-2.0
"""Mounts that the runtime serves itself: the drivers of tmpfs and named volumes, and the removal of the latter."""

import hashlib
import logging
from dataclasses import dataclass

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import Mount
from zun.common.units import MIB
from zun.container.driver.lifecycle import RuntimeMount
from zun.container.driver.volumes import LABEL_PROJECT, LABEL_VOLUME, Volumes
from zun.objects import Volume

LOG = logging.getLogger(__name__)


class _ByTheRuntime:
    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """Do nothing: the runtime restores its mounts."""

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        """Do nothing: the runtime removes a tmpfs, and a named volume outlives its containers."""


class TmpfsDriver(_ByTheRuntime):
    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        return RuntimeMount("tmpfs", "", mount.destination, size_bytes=(mount.size_mib or 0) * MIB)


class NamedDriver(_ByTheRuntime):
    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        labels = {LABEL_PROJECT: project_id, LABEL_VOLUME: mount.source or ""}
        return RuntimeMount("volume", volume_name(project_id, mount.source or ""), mount.destination, labels=labels)


def volume_name(project_id: str, name: str) -> str:
    """Return the runtime's name of a project's volume: ``zun-DIGEST-NAME`` with 32 digits of the project's digest.

    The digest has a fixed length, so two different pairs of project and name never share one name.
    """
    return f"zun-{hashlib.sha256(project_id.encode()).hexdigest()[:32]}-{name}"


@dataclass(frozen=True, slots=True)
class NamedVolumes:
    """The named volumes of one host that projects have deleted."""

    _hostname: str
    _runtime: Volumes

    def remove(self, context: RequestContext, *_about: str) -> None:
        """Remove every volume that is to be deleted here, each with its row once it is gone.

        What cannot be removed stays Deleting until the next comparison with the runtime, as does what no message told
        of.
        """
        for volume in Volume.list_to_delete(context, self._hostname):
            try:
                self._runtime.remove_volume(volume_name(volume.project_id, volume.name))
            except exceptions.ZunError as exc:
                LOG.warning("Volume %s (%s) could not be removed: %s", volume.uuid, volume.name, exc)
                continue
            volume.destroy()
            LOG.info("Volume %s (%s) is removed", volume.uuid, volume.name)
