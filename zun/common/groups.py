# SPDX-License-Identifier: Apache-2.0
"""What a group of containers asks of the hosts of its members: the rule, for the scheduler and for the claim."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Policy(StrEnum):
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


def max_per_host(group: Mapping[str, Any]) -> int | None:
    """How many members of ``group`` (a row) one host may have; None for any number."""
    if group["policy"] != Policy.ANTI_AFFINITY:
        return None
    return int((group["rules"] or {}).get("max_per_host") or 1)


def broken_by(group: Mapping[str, Any], members: Mapping[str, int], hostname: str) -> str | None:
    """Why one more member of ``group`` on ``hostname`` would break its rule, or None. The soft policies forbid nothing.

    ``members`` counts the group's other containers that hold resources, by host; hosts without one are absent. The
    text is for the user of the container: it names no other host.
    """
    if group["policy"] == Policy.AFFINITY and members and members.keys() != {hostname}:
        return f"the containers of group {group['name']} are on another host, and its policy is affinity"
    most, there = max_per_host(group), members.get(hostname, 0)
    if most is not None and there >= most:
        containers = "1 container" if there == 1 else f"{there} containers"
        return f"it has {containers} of group {group['name']}, whose policy anti-affinity allows {most} per host"
    return None
