# SPDX-License-Identifier: Apache-2.0
"""The providers of one host at Placement: what was read of them, and the steps that change them."""

import contextlib
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from zun.placement import diff
from zun.placement.allocations import Resources, is_cell, root_uuid
from zun.placement.client import ATTEMPTS, GenerationConflict, InUse, Node, PlacementClient
from zun.placement.tree import Provider


@dataclass(slots=True)
class _Seen:
    """One provider as of the last reading or writing."""

    provider: Provider
    generation: int
    read_at: int | None = None
    """The generation when the provider and its allocations were read; None for a provider made since."""
    allocated: Mapping[str, Resources] = field(default_factory=dict)
    """What each consumer had of it then."""


class HostProviders:
    """One thread reads and writes. ``pool`` is the uuid of the provider of the host's disk pool."""

    def __init__(self, host: str, client: PlacementClient) -> None:
        self._client = client
        self._root = root_uuid(host)
        self._seen: dict[str, _Seen] = {}
        self.pool: str | None = None
        self.outdated = False
        """Whether allocations were written since generations were read: each raises those of its providers."""

    @property
    def known(self) -> dict[str, Provider]:
        """Return the providers by uuid."""
        return {uuid: each.provider for uuid, each in self._seen.items()}

    def allocations(self) -> dict[str, dict[str, Resources]]:
        """Return the allocations of each consumer as of the reading of the providers."""
        found: dict[str, dict[str, Resources]] = {}
        for uuid, seen in self._seen.items():
            for consumer, taken in seen.allocated.items():
                found.setdefault(consumer, {})[uuid] = taken
        return found

    def forget(self) -> None:
        self._seen = {}

    def read(self, only: Set[str] | None = None) -> None:
        """Read the providers that changed since they were read: all of them, or ``only`` these."""
        nodes = self._nodes()
        self._seen = {uuid: seen for uuid, seen in self._seen.items() if uuid in nodes}
        for node in nodes.values():
            seen = self._seen.get(node.uuid)
            if seen is None or (seen.read_at != node.generation and (only is None or node.uuid in only)):
                self._take_in(node, self._client.allocated(node.uuid), node.generation)

    def publish(self, wanted: Sequence[Provider], aggregates: Collection[str]) -> int:
        """Make the providers at Placement equal to ``wanted``; see ``diff.steps``. Returns the number of steps."""
        todo = diff.steps(wanted, self.known, aggregates)
        if todo and self.outdated:
            self._nodes()
        for step in todo:
            with contextlib.suppress(InUse):  # until those who use it have gone
                self._take(step)
        return len(todo)

    def remove(self, former: Set[str]) -> None:
        """Remove shared providers that are no disk pools any more and have no allocations."""
        for node in self._client.sharing() if former else ():
            if node.uuid in former:
                with contextlib.suppress(InUse):
                    self._client.remove(node.uuid)

    def _nodes(self) -> dict[str, Node]:
        """Read the generations of the providers that this host writes: its own, and that of its disk pool."""
        self.outdated = False  # before the answer, which may be older than what is written meanwhile
        roots = [self._root, *([self.pool] if self.pool else [])]
        nodes = {
            node.uuid: node
            for root in roots
            for node in self._client.nodes(root)
            if node.uuid in roots or is_cell(node.uuid, node.name)
        }
        for uuid in nodes.keys() & self._seen.keys():
            self._seen[uuid].generation = nodes[uuid].generation
        return nodes

    def _take_in(self, node: Node, allocated: Mapping[str, Resources], read_at: int | None) -> None:
        self._seen[node.uuid] = _Seen(self._client.provider(node), node.generation, read_at, allocated)

    def _take(self, step: diff.Step) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._take_once(step)
                return
            except GenerationConflict:
                if attempt + 1 == ATTEMPTS:
                    raise
                nodes = self._nodes()
                if isinstance(step, diff.Create) and step.provider.uuid in nodes:  # another host of the pool made it
                    self._take_in(nodes[step.provider.uuid], {}, None)
                    return

    def _take_once(self, step: diff.Step) -> None:
        client = self._client
        match step:
            case diff.Create(provider):
                bare = Provider(provider.uuid, provider.name, provider.parent)
                self._seen[provider.uuid] = _Seen(bare, client.create(provider))
            case diff.Remove(uuid):
                client.remove(uuid)
                self._seen.pop(uuid, None)
            case diff.SetInventories(uuid, inventories):
                seen = self._seen[uuid]
                try:
                    seen.generation = client.set_inventories(uuid, seen.generation, inventories)
                except InUse:  # a class that is to go, and somebody has some of it
                    inventories = {**seen.provider.inventories, **inventories}
                    seen.generation = client.set_inventories(uuid, seen.generation, inventories)
                seen.provider = replace(seen.provider, inventories=inventories)
            case diff.SetTraits(uuid, traits):
                seen = self._seen[uuid]
                seen.generation = client.set_traits(uuid, seen.generation, traits)
                seen.provider = replace(seen.provider, traits=traits)
            case diff.SetAggregates(uuid, aggregates):
                seen = self._seen[uuid]
                seen.generation = client.set_aggregates(uuid, seen.generation, aggregates)
                seen.provider = replace(seen.provider, aggregates=aggregates)
