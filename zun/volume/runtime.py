# SPDX-License-Identifier: Apache-2.0
"""Kinds of mounts that the runtime serves by itself."""

import hashlib

from zun.common.mounts import Mount
from zun.common.units import MIB
from zun.container.driver import LABEL_PROJECT, RuntimeMount


class _ByTheRuntime:
    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """The runtime does it."""

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        """The runtime does it, or it stays."""


class TmpfsDriver(_ByTheRuntime):
    def prepare(self, owner: str, project_id: str, number: int, mount: Mount) -> RuntimeMount:
        return RuntimeMount("tmpfs", "", mount.destination, size_bytes=(mount.size_mib or 0) * MIB)


class NamedDriver(_ByTheRuntime):
    def prepare(self, owner: str, project_id: str, number: int, mount: Mount) -> RuntimeMount:
        labels = {LABEL_PROJECT: project_id, "zun.volume": mount.source or ""}
        return RuntimeMount("volume", volume_name(project_id, mount.source or ""), mount.destination, labels=labels)


def volume_name(project_id: str, name: str) -> str:
    """What the volume ``name`` of the project is called at the runtime.

    A digest of the project, all of one length, stands first: no two pairs have the same name, whatever is in them.
    """
    return f"zun-{hashlib.sha256(project_id.encode()).hexdigest()[:32]}-{name}"
