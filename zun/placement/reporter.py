# SPDX-License-Identifier: Apache-2.0
"""Keeps one host at Placement in step with the rows of its containers.

There is no list of changes that could be lost: what is to be written is always derived from the rows. A change only
says which container to look at. A sweep compares everything, at the start and then again and again, so that a killed
agent, an outage or somebody else's hand ends in the same picture.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import replace

from zun.common import exceptions, outages
from zun.common.context import admin_context
from zun.common.disk_pools import PoolUse
from zun.objects import ComputeNode, Container
from zun.placement.allocations import Allocations, Holding, drift, holding_of, holdings_of, pool_uuid
from zun.placement.client import REFUSALS, PlacementClient
from zun.placement.consumers import Consumers
from zun.placement.enforce import Enforced, Refusals
from zun.placement.foreign import Others
from zun.placement.host_providers import HostProviders
from zun.placement.ledger import Differences
from zun.placement.others import OthersWatch
from zun.placement.tree import Provider, in_pool
from zun.topology import Plan

LOG = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
RETRY_SECONDS = 5.0  # after Placement did not answer
GATHER_SECONDS = 1.0  # after a change, for more of them: one request then tells of all
MOST_GATHER_SECONDS = 10.0
GATHER_FACTOR = 19  # times what the last changes took: this thread is busy a twentieth of the time at most
TOGETHER = 100  # consumers of one request

Providers = Callable[[str, Collection[str]], tuple[Provider, ...]]
"""Returns the tree of the host as it is now, with a root of this name and the uuids of the aggregates it is in."""


class Reporter:
    """A ``Ledger``. One thread compares, and writes what changed, a second behind it.

    In mode enforce claims write their allocation before; claims that come at the same time go into one request. A claim
    that Placement refuses has the thread look at the providers that it names, and waits for the thread. Other claims
    wait only while the thread writes providers, because each allocation raises the generations that it writes with.
    Claims that are refused at the same time share one look.
    """

    def __init__(
        self,
        host: str,
        client: PlacementClient,
        providers: Providers,
        enforced: Enforced | None = None,
        others_changed: Callable[[], object] = lambda: None,
    ) -> None:
        """``others_changed`` is called when ``others`` has a new answer. It must return at once."""
        self._host = host
        self._tree = providers
        self._enforced = enforced
        self._groups = self._own = frozenset[str]()
        """The uuids of all host aggregates, and of those that the host is in."""
        self._pools = PoolUse()
        self._providers = HostProviders(host, client)
        self._consumers = Consumers(client, self._providers)
        self._watch = OthersWatch(host, client, others_changed)
        self._guard = threading.Lock()
        self._dirty: set[str] = set()
        self._asked: set[str] = set()
        """Providers to look at."""
        self._looked: Future[None] = Future()
        """Is done when they were looked at."""
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placement", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for its end. The first sweep of the next start writes what is missing."""
        self._stopping.set()
        self._wake.set()
        self._urgent.set()
        if self._thread.ident is not None:  # a service that fails to start has not started it
            self._thread.join()

    def note(self, uuid: str) -> None:
        with self._guard:
            self._dirty.add(uuid)
        self._wake.set()

    def look(self) -> None:
        self._wake.set()

    def differences(self) -> Differences:
        return Differences(self._consumers.foreign, self._consumers.refused)

    def others(self) -> Others | None:
        return self._watch.others

    @contextlib.contextmanager
    def claiming(self, container: Container, plan: Plan) -> Iterator[None]:
        with self.claiming_many([(container, plan)]) as refused:
            for refusal in refused.values():
                raise refusal
            yield

    @contextlib.contextmanager
    def claiming_many(
        self, claims: Sequence[tuple[Container, Plan]]
    ) -> Iterator[Mapping[str, exceptions.ClaimRefused]]:
        if self._enforced is None:
            yield {}
            return
        known = {container.uuid: (container, plan) for container, plan in claims}

        def wanted(uuids: Set[str]) -> dict[str, Holding]:
            return {uuid: holding_of(self._host, *known[uuid], self._providers.pool) for uuid in uuids}

        def put(uuids: Set[str]) -> Refusals:
            return self._consumers.claim(wanted(uuids))

        def look(uuids: Set[str]) -> None:
            self._look_at({provider for holding in wanted(uuids).values() for provider in holding.allocations})

        try:
            with self._consumers.alone(known.keys(), wait=True):  # until the rows say so: they are no leftovers
                yield self._enforced.write(self._host, known.keys(), put, look, self._stopping)
        finally:
            for uuid in known:
                self.note(uuid)  # after the block above: who settles leaves alone what is being claimed

    def sweep(self) -> None:
        """Bring this host's tree and allocations at Placement to the state of the rows. Raises PlacementUnavailable."""
        self._read()
        self._publish()
        self._compare()
        self._settle()
        self._publish()  # what could not go before its allocations went
        self._watch.tell(self._providers.known.values(), self._consumers.foreign.values())
        self._providers.remove({pool_uuid(uuid) for uuid in self._pools.unused})

    def audit(self) -> tuple[set[str], set[str]]:
        """Return the containers whose allocations differ, and the consumers here of which no container is known."""
        self._read()
        differing, nobodys = self._differing()
        return differing, set(nobodys)

    def heal(self) -> Differences:
        """Write the allocations that differ, and nothing of the providers. Returns what could not be made equal."""
        self._read()
        self._compare()
        self._settle()
        return self.differences()

    def sync_aggregates(self) -> int:
        """Set the aggregates of the providers that Placement has. Returns how many providers changed."""
        self._read()
        known = [each for uuid, each in self._providers.known.items() if uuid != self._providers.pool]
        return self._providers.publish([replace(each, aggregates=self._own) for each in known], self._groups)

    def _run(self) -> None:
        due, told = 0.0, False
        gather = GATHER_SECONDS
        while True:
            self._wake.clear()
            self._urgent.clear()
            if self._stopping.is_set():
                break
            began = time.monotonic()
            wrong = self._round(whole=began >= due)
            if began < due:
                gather = max(GATHER_SECONDS, min(GATHER_FACTOR * (time.monotonic() - began), MOST_GATHER_SECONDS))
            if wrong is not None:
                if not told:
                    LOG.warning("Placement is not told of this host until this is over: %s", wrong)
                told, due = True, 0.0
                self._urgent.wait(RETRY_SECONDS)
                continue
            if told:
                LOG.info("Placement is told of this host again")
            told = False
            if time.monotonic() >= due:
                due = time.monotonic() + SWEEP_SECONDS
            if self._wake.wait(due - time.monotonic()):
                self._urgent.wait(gather)
        with self._guard:
            self._looked.set_exception(exceptions.PlacementUnavailable(reason="this service is stopping"))

    def _round(self, whole: bool) -> str | None:
        """Sweep, or write the changes and look where claims were refused. Returns why that failed."""
        with self._guard:
            asked, looked = self._asked, self._looked
            self._asked, self._looked = set(), Future()
        try:
            if whole:
                self.sweep()
            else:
                self._follow(asked)
        except outages.OUTAGES as exc:
            looked.set_exception(exc)
            return exceptions.first_line(exc)
        except Exception as exc:
            if not isinstance(exc, REFUSALS):  # else somebody works on our providers
                LOG.exception("Placement could not be told of this host; the next sweep tries again")
            self._providers.forget()
            self._consumers.forget()
            looked.set_result(None)
            return exceptions.first_line(exc)
        looked.set_result(None)
        return None

    def _look_at(self, providers: Set[str]) -> None:
        """Return when the thread has looked at ``providers``. Raises the outage that it met."""
        with self._guard:
            self._asked |= providers
            looked = self._looked
        if self._thread.ident is None:  # the service starts, and nobody else looks
            self._round(whole=True)
        self._wake.set()
        self._urgent.set()
        looked.result()

    def _follow(self, looked_at: Set[str]) -> None:
        """Write the changes, and compare the providers ``looked_at``."""
        if looked_at:
            if self._providers.pool in looked_at:
                self._look_around()
            self._providers.read(looked_at)
        self._publish()
        if looked_at:
            self._compare(looked_at)
        self._settle()
        if looked_at:
            self._watch.tell(self._providers.known.values(), self._consumers.foreign.values())

    def _look_around(self) -> None:
        context = admin_context()
        groups = ComputeNode.aggregates(context, self._host)
        self._groups, self._own = frozenset(groups), frozenset(uuid for uuid, inside in groups.items() if inside)
        self._pools = ComputeNode.pool_use(context, self._host)
        self._providers.pool = None if self._pools.mine is None else pool_uuid(self._pools.mine.uuid)

    def _read(self) -> None:
        """Read the database and the changes at Placement."""
        self._look_around()
        self._watch.look()
        self._providers.read()

    def _publish(self) -> None:
        wanted = self._tree(self._watch.root_name, self._own)
        if self._pools.mine is not None:
            wanted = in_pool(wanted, self._pools.mine, self._pools.held)
        with self._consumers.paused():
            self._providers.publish(wanted, self._groups)

    def _compare(self, looked_at: Set[str] | None = None) -> None:
        """Note each container whose row differs from Placement, and the remains of removed ones."""
        differing, nobodys = self._differing(looked_at)
        todo = self._consumers.compared(differing, nobodys, whole=looked_at is None)
        with self._guard:
            self._dirty |= todo

    def _differing(self, looked_at: Set[str] | None = None) -> tuple[set[str], dict[str, Allocations]]:
        """Return the answer of ``drift`` as of the last reading, with the allocations of consumers without a row.

        With ``looked_at`` only consumers of these providers count that do not have what was written for them.
        """
        seen, known, pool = self._providers.allocations(), self._consumers, self._providers.pool
        if looked_at is None:
            rows = Container.list_by_host(admin_context(), self._host)
        else:
            seen = {uuid: had for uuid, had in seen.items() if had.keys() & looked_at and not known.wrote(uuid, had)}
            rows = Container.list_by_uuids(admin_context(), sorted(seen)) if seen else []
        differing, nobodys = drift(holdings_of(self._host, rows, pool), seen, self._providers.known)
        # Containers of the other hosts of the pool: their hosts compare them.
        others = {uuid for uuid in nobodys & self._pools.holders.keys() if seen[uuid].keys() == {pool}}
        return differing, {uuid: seen[uuid] for uuid in nobodys - others}

    def _settle(self) -> None:
        """Write the claims of the noted containers."""
        with self._guard:
            todo, self._dirty = self._dirty, set()
        try:
            while todo:
                some = set(itertools.islice(todo, TOGETHER))
                with self._consumers.alone(some, wait=False) as mine:  # the claims of the others note them once more
                    rows = Container.list_by_uuids(admin_context(), sorted(mine))
                    self._consumers.settle(mine, holdings_of(self._host, rows, self._providers.pool))
                todo -= some
        except BaseException:
            with self._guard:
                self._dirty |= todo
            raise
