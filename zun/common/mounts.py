# SPDX-License-Identifier: Apache-2.0
"""The mounts of a container as its row stores them. Values only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from zun.common.units import MIB_PER_GIB


class Kind(StrEnum):
    """The kind of a mount, which is also the name of its driver."""

    VOLUME = "volume"
    """A volume that the project named: shared by its containers, kept when they go. It is on one host."""
    LOCAL = "local"
    """A file system of its own and of a fixed size on the host's disk, removed with the container."""
    TMPFS = "tmpfs"
    """A file system of a fixed size in the container's memory."""
    MEMORY = "memory"
    """A file system of a fixed size in the host's memory, which the containers of a capsule share. The capsule claims
    its size beside their memory."""
    BIND = "bind"
    """One file whose content came with the request. Never a path of the host."""
    CINDER = "cinder"
    """A volume of Cinder, which the hosts of its containers connect."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. ``source`` is a volume's name, its id at Cinder, or a file's content in base64.

    ``size_mib`` is for local, tmpfs and memory, and for new volumes of Cinder. ``number`` is the number of the volume
    in its capsule, for a mount of a capsule's volume. ``owned``: the volume is deleted with its container. ``node`` is
    the memory node of the host on which the size of a memory mount is claimed; it is not stored.
    """

    kind: Kind
    destination: str
    source: str | None = None
    size_mib: int | None = None
    number: int | None = None
    read_only: bool = False
    owned: bool = False
    node: int | None = None

    def to_dict(self) -> dict[str, Any]:
        record = {
            "type": str(self.kind),
            "destination": self.destination,
            "source": self.source,
            "size_mib": self.size_mib,
            "number": self.number,
            "read_only": self.read_only or None,
            "owned": self.owned or None,
        }
        return {name: value for name, value in record.items() if value is not None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            Kind(record["type"]),
            record["destination"],
            source=record.get("source"),
            size_mib=record.get("size_mib"),
            number=record.get("number"),
            read_only=bool(record.get("read_only")),
            owned=bool(record.get("owned")),
        )


def mounts_of(container: Mapping[str, Any]) -> list[Mount]:
    """Return the mounts of a container (an object or a row), in the order of the request."""
    return [Mount.from_dict(record) for record in container["mounts"] or ()]


def disk_gib(mounts: list[Mount]) -> int:
    """Return the GiB of the host's disk that ``mounts`` are promised, rounded up."""
    sizes = [mount.size_mib or 0 for mount in mounts if mount.kind is Kind.LOCAL]
    return math.ceil(sum(sizes) / MIB_PER_GIB)


def memory_mib(mounts: list[Mount]) -> int:
    """Return the MiB of memory that ``mounts`` are promised, beside the memory of their containers."""
    return sum(mount.size_mib or 0 for mount in mounts if mount.kind is Kind.MEMORY)


def volume_names(mounts: list[Mount]) -> list[str]:
    """Return the names of the mounted project volumes, each once, sorted."""
    return sorted({mount.source for mount in mounts if mount.kind is Kind.VOLUME and mount.source})
