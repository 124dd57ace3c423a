# SPDX-License-Identifier: Apache-2.0
"""Drivers of the mounts that the runtime serves itself: tmpfs and named volumes."""

import hashlib

from zun.common.mounts import Mount
from zun.common.units import MIB
from zun.container.driver.lifecycle import RuntimeMount
from zun.container.driver.volumes import LABEL_PROJECT, LABEL_VOLUME


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
