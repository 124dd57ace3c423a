# SPDX-License-Identifier: Apache-2.0
"""The policy of a container group: which hosts its members may use. The scheduler and the claim both ask here."""

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
    """A group and its policy. ``max_per_host`` applies to anti-affinity only.

    ``members`` is the number of members that hold resources, by host, if the caller has counted them.
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
        """Return whether members go to the best host, even if the policy prefers another."""
        return self.policy in (Policy.SOFT_AFFINITY, Policy.SOFT_ANTI_AFFINITY)

    def broken_by(self, members: Mapping[str, int], hostname: str) -> str | None:
        """Return why one more member on ``hostname`` would break the policy, or None. Soft policies forbid nothing.

        ``members`` counts the other containers that hold resources, by host; hosts without one are absent. The text is
        for the user of the container, so it names no other host.
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
