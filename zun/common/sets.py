# SPDX-License-Identifier: Apache-2.0
"""The rules of a container set: how many members it has, and which hosts and cells they may share.

The API checks a request with these rules, and the scheduler places the members by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NONE = "none"
CELL = "cell"
HOST = "host"

BY_FORCE = {"force": True, "stop_timeout": None}
"""The arguments of the action ``delete`` for members that are deleted whatever their status is."""

MOST_MEMBERS = 1000
"""Members of one set. They are placed in one decision, so no other request is decided meanwhile."""


@dataclass(frozen=True, slots=True)
class SetRules:
    """The rules of a set of ``count`` members.

    ``spread`` and ``pack`` name a domain: ``host``, or the name of a property in the metadata of aggregates. Hosts with
    the same value of the property are one domain. Example: ``rack`` if aggregates have ``rack=r1`` and ``rack=r2``.
    A host without the property is in no domain, and gets no member.

    - ``spread``: a domain has at most one member. ``cell``: so has each NUMA cell. ``none``: any number.
    - ``pack``: all members are in one domain. ``none``: they may be in several.
    - ``max_per_host``: a host has at most so many members.

    At least ``min_count`` members must find a place, else none is placed.
    """

    count: int
    min_count: int
    spread: str = NONE
    pack: str = NONE
    max_per_host: int | None = None

    @classmethod
    def of(cls, count: int, given: Mapping[str, Any]) -> "SetRules":
        """Return the rules of the field ``set`` of a request. Raise ValueError, naming the field, for bad rules."""
        rules = cls(
            count=count,
            min_count=given.get("min_count") or count,
            spread=given.get("spread") or NONE,
            pack=given.get("pack") or NONE,
            max_per_host=given.get("max_per_host"),
        )
        rules._check()
        return rules

    def _check(self) -> None:
        if self.min_count > self.count:
            raise ValueError(f"set.min_count is {self.min_count}: it must be at most count, which is {self.count}")
        if self.pack == CELL:
            raise ValueError("set.pack cannot be cell: ask for one container with more CPUs instead")
        if self.pack != NONE and self.pack == self.spread:
            raise ValueError(
                f"set.spread and set.pack are both {self.pack}: no more than one member could be placed. Leave one out"
            )
        if self.pack == HOST and self.spread not in (NONE, CELL):
            raise ValueError(
                f"set.spread is {self.spread} and set.pack is host: all members are on one host, so they cannot be "
                "spread over several. Leave one out"
            )
        if self.pack == HOST and self.max_per_host is not None and self.max_per_host < self.min_count:
            raise ValueError(
                f"set.max_per_host is {self.max_per_host} and set.pack is host: at least {self.min_count} members "
                "would have to be on one host. Leave one out"
            )

    @property
    def spreads_over_property(self) -> bool:
        """True if a domain of a property of aggregates has at most one member."""
        return self.spread not in (NONE, CELL, HOST)

    @property
    def most_per_host(self) -> int:
        """The most members of one host that the rules allow."""
        return 1 if self.spread == HOST else self.max_per_host or self.count

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as the row and answers have them, without those that ask for nothing."""
        named = {"spread": self.spread, "pack": self.pack}
        found: dict[str, Any] = {name: value for name, value in named.items() if value != NONE}
        return found if self.max_per_host is None else {**found, "max_per_host": self.max_per_host}

    def told(self) -> str:
        """Return the rules in words, for a refusal. Example: ``spread host, at most 2 a host``."""
        words = [f"{name} {value}" for name, value in self.to_dict().items() if name != "max_per_host"]
        return ", ".join(words if self.max_per_host is None else [*words, f"at most {self.max_per_host} a host"])


def domain_of(hostname: str, aggregates: Any, name: str) -> str | None:
    """Return the domain ``name`` of a host in ``aggregates``, or None if the host is in none.

    If several aggregates have the property, the least value counts, so every scheduler finds the same domain.
    """
    if name == HOST:
        return hostname
    return min((each.metadata[name] for each in aggregates if name in each.metadata), default=None)
