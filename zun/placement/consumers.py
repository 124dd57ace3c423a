# SPDX-License-Identifier: Apache-2.0
"""The allocations of one host's containers at Placement: what was written, and the requests that change it."""

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from zun.placement.allocations import CONSUMER_TYPE, Allocations, Holding
from zun.placement.client import ATTEMPTS, REFUSALS, GenerationConflict, PlacementClient
from zun.placement.host_providers import HostProviders

LOG = logging.getLogger(__name__)

_Change = tuple[Holding, int | None]
"""What a consumer is to have, and the generation of the consumer before."""


class Consumers:
    """Claims write from any thread; ``settle`` and ``compared`` are for one thread.

    ``foreign`` and ``refused`` are those of ``Differences``. They are replaced and never changed, so that any thread
    may read them.
    """

    def __init__(self, client: PlacementClient, providers: HostProviders) -> None:
        self._client = client
        self._providers = providers
        self._written: dict[str, _Change] = {}
        """The last allocation that Placement took for each consumer, and the generation of the consumer since."""
        self.foreign: Mapping[str, Allocations] = {}
        self.refused: Mapping[str, str] = {}
        self._turn = threading.Condition()
        self._busy: set[str] = set()
        """Consumers that somebody writes: one at a time."""

    @contextlib.contextmanager
    def alone(self, uuids: Set[str], *, wait: bool) -> Iterator[Set[str]]:
        """Keep other threads from writing the consumers. Without ``wait``, yields those not being written."""
        with self._turn:
            self._turn.wait_for(lambda: not wait or not uuids & self._busy)
            mine = uuids - self._busy
            self._busy |= mine
        try:
            yield mine
        finally:
            with self._turn:
                self._busy -= mine
                self._turn.notify_all()

    def forget(self) -> None:
        self._written = {}

    def wrote(self, uuid: str, allocations: Allocations) -> bool:
        """Return whether the allocations of a consumer are those written last."""
        return uuid in self._written and self._written[uuid][0].allocations == allocations

    def compared(self, differing: Set[str], nobodys: Mapping[str, Allocations], *, whole: bool) -> Set[str]:
        """Take in an answer of ``drift``, of the ``whole`` host or of a part. Returns the consumers to settle."""
        if whole:
            self.foreign = {uuid: taken for uuid, taken in self.foreign.items() if uuid in nobodys}
            self.refused = {uuid: reason for uuid, reason in self.refused.items() if uuid in differing}
        for uuid in differing | nobodys.keys():
            self._written.pop(uuid, None)
        return differing | {uuid for uuid, taken in nobodys.items() if self.foreign.get(uuid) != taken}

    def settle(self, uuids: Set[str], wanted: Mapping[str, Holding]) -> None:
        """Give the consumers the ``wanted`` allocations, or none of this host. Other services' are left alone."""
        for uuid in uuids - self._put_together(uuids, wanted):
            try:
                self.put(uuid, wanted.get(uuid))
            except REFUSALS as exc:
                if uuid not in self.refused:
                    LOG.warning("Container %s: its allocation is not written, and tried again: %s", uuid, exc)
                self.refused = {**self.refused, uuid: str(exc)}
            else:
                self.refused = {other: reason for other, reason in self.refused.items() if other != uuid}

    def _put_together(self, uuids: Set[str], wanted: Mapping[str, Holding]) -> Set[str]:
        """Write the allocations that need no reading first, in one request. Returns the consumers that are right then.

        Placement takes all or nothing; what it refuses is to be written one by one. What it refused before is left
        out, so that it does not hold up the others.
        """
        right, changes = set(), {}
        there = self._providers.allocations().keys()
        for uuid in uuids - self.refused.keys():
            before, generation = self._written.get(uuid, (None, None))
            if uuid in wanted and before == wanted[uuid]:
                right.add(uuid)
            elif uuid in wanted and (before is not None or uuid not in there):
                changes[uuid] = wanted[uuid], generation
            elif before is not None:
                changes[uuid] = replace(before, allocations={}), generation
        if not changes:
            return right
        self._providers.outdated = True
        before_all = {uuid: self._written.pop(uuid) for uuid in changes.keys() & self._written.keys()}
        try:
            generations = self._client.allocate_together(changes)
        except REFUSALS:
            self._written |= before_all
            return right
        for uuid, (holding, _) in changes.items():
            if holding.allocations:
                self._written[uuid] = holding, generations[uuid]
        return right | changes.keys()

    def put(self, uuid: str, wanted: Holding | None) -> None:
        """Give a consumer the ``wanted`` allocation; with None a container loses this host's.

        Raises CapacityExceeded, Refused, GenerationConflict, PlacementUnavailable.
        """
        before, generation = self._written.get(uuid, (None, None))
        if wanted is not None and before == wanted:
            return
        self._written.pop(uuid, None)  # until Placement has answered
        change: _Change | None
        if wanted is not None:
            change = wanted, generation
        elif before is not None:
            change = replace(before, allocations={}), generation
        else:
            change = self._rest(uuid)
        for left in reversed(range(ATTEMPTS)):
            if change is None:
                return
            self._providers.outdated = True
            try:
                after = self._client.allocate(uuid, *change)
                if wanted is not None:
                    self._written[uuid] = wanted, after
                return
            except GenerationConflict:
                if not left:
                    raise
            change = self._rest(uuid) if wanted is None else self._anew(uuid, wanted, change[1])

    def _anew(self, uuid: str, wanted: Holding, generation: int | None) -> _Change | None:
        """Return the change that gives ``wanted`` to a consumer written since ``generation``; None for no change."""
        found = self._client.consumer(uuid)
        if found.allocations == wanted.allocations and found.kind == CONSUMER_TYPE:
            self._written[uuid] = wanted, found.generation
            return None
        # One that was made and never had anything shows no generation, which is 0.
        return wanted, 0 if found.generation is None and generation is None else found.generation

    def _rest(self, uuid: str) -> _Change | None:
        """Return the change that takes this host's part from a container; None for no change or another consumer."""
        found = self._client.consumer(uuid)
        known = self._providers.known
        ours = {provider: taken for provider, taken in found.allocations.items() if provider in known}
        if ours.keys() != found.allocations.keys():  # it has something of another host: the disk is for that
            ours.pop(self._providers.pool or "", None)
        if not ours:
            return None
        if found.kind != CONSUMER_TYPE:
            self.foreign = {**self.foreign, uuid: ours}
            return None
        left = {provider: taken for provider, taken in found.allocations.items() if provider not in ours}
        return Holding(left, found.project_id, found.user_id), found.generation
