# SPDX-License-Identifier: Apache-2.0
"""The allocations of one host's containers at Placement: what was written, and the requests that change it."""

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from zun.placement.allocations import CONSUMER_TYPE, Allocations, Holding
from zun.placement.client import ATTEMPTS, REFUSALS, GenerationConflict, PlacementClient
from zun.placement.enforce import Refusals
from zun.placement.host_providers import HostProviders

LOG = logging.getLogger(__name__)

AT_A_TIME = 2  # requests of claims; with one, a claim would wait for the one before even if Placement is idle

_Change = tuple[Holding, int | None]
"""What a consumer is to have, and the generation of the consumer before."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Claims of one thread that wait for the next request."""

    wanted: Mapping[str, Holding]
    answer: Future[Refusals | None] = field(default_factory=Future)
    """Is None if each claim must be asked for alone."""


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
        self._sending = threading.BoundedSemaphore(AT_A_TIME)
        """Is held during a request of ``claim``."""
        self._waiting: list[_Waiting] = []

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

    def claim(self, wanted: Mapping[str, Holding]) -> Refusals:
        """Give the consumers the ``wanted`` allocations. Return the refusals by consumer. Raises PlacementUnavailable.

        At most ``AT_A_TIME`` requests go at a time; the next one has every claim that came meanwhile. Placement takes
        all of a request or nothing; if it refuses one, each claim is asked for alone.
        """
        mine = _Waiting(wanted)
        with self._turn:
            self._waiting.append(mine)
        with self._sending:
            with self._turn:
                waiting, self._waiting = self._waiting, []
            self._send(waiting)  # none if another thread has sent them
        answer = mine.answer.result()
        return self._one_by_one(wanted) if answer is None else answer

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let claims wait during the block: each would raise the generations of the providers."""
        for _ in range(AT_A_TIME):
            self._sending.acquire()
        try:
            yield
        finally:
            self._sending.release(AT_A_TIME)

    def _send(self, waiting: list[_Waiting]) -> None:
        everything = {uuid: holding for each in waiting for uuid, holding in each.wanted.items()}
        try:
            answer = self._one_by_one(everything) if len(everything) == 1 else self._together(everything)
        except BaseException as exc:
            for each in waiting:
                each.answer.set_exception(exc)
        else:
            for each in waiting:
                each.answer.set_result(answer)

    def _together(self, wanted: Mapping[str, Holding]) -> Refusals | None:
        """Write the allocations in one request. Return no refusal, or None if Placement refuses the request."""
        last = {uuid: self._written.get(uuid, (None, None)) for uuid in wanted}
        changes = {uuid: (holding, last[uuid][1]) for uuid, holding in wanted.items() if last[uuid][0] != holding}
        return {} if self._post(changes) else None

    def _one_by_one(self, wanted: Mapping[str, Holding]) -> Refusals:
        refused = {}
        for uuid, holding in wanted.items():
            try:
                self.put(uuid, holding)
            except REFUSALS as exc:
                refused[uuid] = exc
        return refused

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
        return right | changes.keys() if self._post(changes) else right

    def _post(self, changes: Mapping[str, _Change]) -> bool:
        """Make all changes in one request, or none. Return whether Placement took them. Raises PlacementUnavailable."""
        if not changes:
            return True
        self._providers.outdated = True
        before = {uuid: self._written.pop(uuid) for uuid in changes.keys() & self._written.keys()}
        try:
            generations = self._client.allocate_together(changes)
        except REFUSALS:
            self._written |= before
            return False
        for uuid, (holding, _) in changes.items():
            if holding.allocations:
                self._written[uuid] = holding, generations[uuid]
        return True

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
