# SPDX-License-Identifier: Apache-2.0
"""What a group of containers asks of the hosts of its members: the rule, for the scheduler and for the claim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Policy(StrEnum):
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


@dataclass(frozen=True, slots=True)
class Group:
    """``max_per_host`` matters to anti-affinity only.

    ``members`` counts the members that hold something, by host, for whoever has counted them.
    """

    uuid: str
    policy: str
    max_per_host: int = 1
    name: str = ""
    members: Mapping[str, int] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Group":
        return cls(row["uuid"], row["policy"], int((row["rules"] or {}).get("max_per_host") or 1), row["name"])

    @property
    def is_soft(self) -> bool:
        """Its members go to the best host there is, not only to those that its policy allows."""
        return self.policy in (Policy.SOFT_AFFINITY, Policy.SOFT_ANTI_AFFINITY)

    def broken_by(self, members: Mapping[str, int], hostname: str) -> str | None:
        """Why one more member on ``hostname`` would break the rule, or None. The soft policies forbid nothing.

        ``members`` counts the other containers that hold resources, by host; hosts without one are absent. The text is
        for the user of the container: it names no other host.
        """
        name = self.name or self.uuid
        if self.policy == Policy.AFFINITY and members and members.keys() != {hostname}:
            return f"the containers of group {name} are on another host, and its policy is affinity"
        there = members.get(hostname, 0)
        if self.policy == Policy.ANTI_AFFINITY and there >= self.max_per_host:
            containers = "1 container" if there == 1 else f"{there} containers"
            return (
                f"it has {containers} of group {name}, whose policy anti-affinity allows {self.max_per_host} per host"
            )
        return None
