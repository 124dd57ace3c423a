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


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes of one container. ``interrupts`` None leaves the choice to the host.

    ``cpuset_signal`` goes to its first process when its CPUs, memory nodes or devices have changed.
    """

    interrupts: str | None = None
    power_profile: str | None = None
    cpuset_signal: str | None = None

    @classmethod
    def of(cls, placement: Mapping[str, Any] | None) -> Wishes:
        """Return the wishes in the column ``placement`` of a row."""
        asked = placement or {}
        return cls(asked.get("interrupts"), asked.get("power_profile"), asked.get("cpuset_signal"))

    @property
    def traits(self) -> frozenset[str]:
        """The traits that a host has which can do all this."""
        found = {traits.MOVES_INTERRUPTS} if self.interrupts in (Interrupts.AWAY, Interrupts.OWN) else set()
        return frozenset(found | ({traits.of_profile(self.power_profile)} if self.power_profile else set()))


NO_WISHES = Wishes()
