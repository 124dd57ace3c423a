# SPDX-License-Identifier: Apache-2.0
"""What a container with CPUs of its own wishes of its host beside CPUs, memory and devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zun.common import traits

PROFILE = r"[a-z0-9]+(-[a-z0-9]+)*"
"""Pattern of the name of a power profile."""


class Interrupts(StrEnum):
    """The device interrupts on the CPUs of a container."""

    AWAY = "away"
    """None: they arrive on CPUs of others."""
    OWN = "own"
    """Only those of the container's own devices, and these nowhere else."""
    ANY = "any"
    """Those that the host has there."""


class CpuPartition(StrEnum):
    """The cpuset partition of a container: CPUs that nothing else on the host can run on."""

    NONE = "none"
    ROOT = "root"
    """The kernel balances threads over its CPUs."""
    ISOLATED = "isolated"
    """Without that: each thread stays on the CPU where it was started or put."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes of one container. ``interrupts`` None leaves the choice to the host.

    ``cpuset_signal`` goes to its first process when its CPUs, memory nodes or devices have changed.
    """

    interrupts: str | None = None
    power_profile: str | None = None
    cpuset_signal: str | None = None
    cpu_partition: str | None = None

    @classmethod
    def of(cls, placement: Mapping[str, Any] | None) -> Wishes:
        """Return the wishes in the column ``placement`` of a row."""
        asked = placement or {}
        named = ("interrupts", "power_profile", "cpuset_signal", "cpu_partition")
        return cls(**{name: asked.get(name) for name in named})

    @property
    def traits(self) -> frozenset[str]:
        """The traits that a host has which can do all this."""
        wanted = {
            traits.MOVES_INTERRUPTS: self.interrupts in (Interrupts.AWAY, Interrupts.OWN),
            traits.CPU_PARTITIONS: self.partition is not None,
        }
        if self.power_profile:
            wanted[traits.of_profile(self.power_profile)] = True
        return frozenset(name for name, needed in wanted.items() if needed)

    @property
    def partition(self) -> str | None:
        """The kind of the cpuset partition that the container asks for, None if it asks for none."""
        return self.cpu_partition if self.cpu_partition in (CpuPartition.ROOT, CpuPartition.ISOLATED) else None


NO_WISHES = Wishes()
