# SPDX-License-Identifier: Apache-2.0
"""Watches the allocations of other services on one host at Placement."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from zun.placement.allocations import Allocations, is_cell, root_uuid
from zun.placement.client import Node, PlacementClient
from zun.placement.foreign import Beside, Others, cell_of
from zun.placement.tree import Provider


class OthersWatch:
    """``changed`` is called when ``others`` has a new answer. It must return at once."""

    def __init__(self, host: str, client: PlacementClient, changed: Callable[[], object]) -> None:
        self._host = host
        self._client = client
        self._changed = changed
        self._beside: dict[str, tuple[int, Beside]] = {}
        """The tree of another service whose root has the host's name: each provider as of a generation of it."""
        self.others: Others | None = None

    @property
    def root_name(self) -> str:
        """The name of this service's own root: another service that runs here, as Nova, owns the host's name."""
        return f"{self._host}_ZUN" if self._beside else self._host

    def look(self) -> None:
        """Read the providers of another service that changed since they were read."""
        root = self._client.named(self._host)
        nodes = [] if root is None or root.uuid == root_uuid(self._host) else self._client.nodes(root.uuid)
        tree = {node.uuid: node for node in nodes if not is_cell(node.uuid, node.name)}
        before, self._beside = self._beside, {}
        for uuid, node in tree.items():
            if uuid in before and before[uuid][0] == node.generation:
                self._beside[uuid] = before[uuid]
                continue
            taken = sum(map(Counter, self._client.allocated(uuid).values()), Counter[str]())
            inventories = self._client.provider(node).inventories
            self._beside[uuid] = node.generation, Beside(taken, inventories, cell_of(_names(node, tree)))

    def tell(self, known: Iterable[Provider], foreign: Iterable[Allocations]) -> None:
        """Compare with the last answer. ``foreign`` are allocations of other services at the providers ``known``."""
        cells = {each.uuid: None if each.parent is None else cell_of([each.name]) for each in known}
        here: dict[int | None, Counter[str]] = {}
        for allocations in foreign:
            for provider in allocations.keys() & cells.keys():
                here.setdefault(cells[provider], Counter()).update(allocations[provider])
        others = Others(here, tuple(beside for _, beside in self._beside.values()))
        if others != self.others:
            self.others = others
            self._changed()


def _names(node: Node, tree: Mapping[str, Node]) -> Iterator[str]:
    """Yield the names of a provider and of its parents up to the root of ``tree``, without the root's name."""
    while node.parent is not None and node.parent in tree:
        yield node.name
        node = tree[node.parent]
