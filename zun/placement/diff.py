# SPDX-License-Identifier: Apache-2.0
"""Decide the steps from the providers at Placement to the providers of a host. Values only, no I/O.

Only the providers that ``tree`` makes are touched. Everything else belongs to other services.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zun.placement.allocations import is_cell
from zun.placement.tree import OWN_TRAITS, Inventory, Provider

_SAME = 1e-6  # relative: some databases keep a ratio as a float of four bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Add a provider without anything."""

    provider: Provider


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace every inventory of a provider."""

    uuid: str
    inventories: Mapping[str, Inventory] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SetTraits:
    """Replace the traits of a provider."""

    uuid: str
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetAggregates:
    """Replace the aggregates of a provider."""

    uuid: str
    aggregates: frozenset[str]


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a provider of a cell that the host has lost."""

    uuid: str


Step = Create | SetInventories | SetTraits | SetAggregates | Remove


def steps(
    wanted: Sequence[Provider], known: Mapping[str, Provider], aggregates: Collection[str] = ()
) -> list[Step]:
    """Return the steps from ``known`` (the providers of our root, by uuid) to ``wanted``, in an order that works.

    ``aggregates`` are the uuids of every host aggregate of this service. Traits and aggregates on a provider that are
    not this service's stay.
    """
    found: list[Step] = []
    for provider in wanted:
        present = known.get(provider.uuid)
        if present is None:
            found.append(Create(provider))
            present = Provider(provider.uuid, provider.name)
        if not _same(present.inventories, provider.inventories):
            found.append(SetInventories(provider.uuid, provider.inventories))
        traits = provider.traits | (present.traits - OWN_TRAITS)
        if traits != present.traits:
            found.append(SetTraits(provider.uuid, traits))
        groups = provider.aggregates | (present.aggregates - set(aggregates))
        if groups != present.aggregates:
            found.append(SetAggregates(provider.uuid, groups))
    present_now = {provider.uuid for provider in wanted}
    lost = (each.uuid for each in known.values() if each.uuid not in present_now and is_cell(each.uuid, each.name))
    return [*found, *map(Remove, lost)]


def _same(one: Mapping[str, Inventory], other: Mapping[str, Inventory]) -> bool:
    return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)


def _alike(one: Inventory, other: Inventory) -> bool:
    near = abs(one.allocation_ratio - other.allocation_ratio) <= _SAME * other.allocation_ratio
    return near and (one.total, one.reserved) == (other.total, other.reserved)
