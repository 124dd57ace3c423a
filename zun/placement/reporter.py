# SPDX-License-Identifier: Apache-2.0
"""Keeps Placement's picture of one host as the rows of its containers have it.

There is no list of changes that could be lost: what is to be written is always derived from the rows. A change only
says which container to look at. A sweep compares everything, at the start and then again and again, so that a killed
agent, an outage or somebody else's hand ends in the same picture.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Protocol

from zun.common import exceptions, outages
from zun.common.context import admin_context
from zun.common.disk_pools import PoolUse
from zun.objects import Container
from zun.objects.placement import disk_promised, held_plan
from zun.placement import diff
from zun.placement import foreign as other_services
from zun.placement.allocations import (
    CONSUMER_TYPE,
    Allocations,
    Holding,
    allocations_of,
    drift,
    is_cell,
    pool_uuid,
    root_uuid,
)
from zun.placement.client import (
    CapacityExceeded,
    GenerationConflict,
    InUse,
    Node,
    PlacementClient,
    Refused,
)
from zun.placement.foreign import Beside, Others
from zun.placement.tree import Provider, in_pool
from zun.topology import Plan

LOG = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
RETRY_SECONDS = 5.0  # after Placement did not answer
GATHER_SECONDS = 1.0  # after a change, for more of them: one request then tells of all
TOGETHER = 100  # consumers of one request
ATTEMPTS = 10  # to write beside others who write to the same provider or consumer

Providers = Callable[[str, Collection[str]], tuple[Provider, ...]]
"""Returns the tree of the host as it is now, with a root of this name and the uuids of the aggregates it is in."""
Aggregates = Callable[[], Mapping[str, bool]]
"""Returns the uuids of all host aggregates of this service, and whether the host is in each."""
Pools = Callable[[], PoolUse]
"""Returns the disk pools as they are now."""


@dataclass(frozen=True, slots=True)
class Enforced:
    """Mode enforce: seconds to wait for an answer, and whether claims stand without one."""

    wait: float
    go_on: bool


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between rows and Placement that the last sweep could not remove.

    ``foreign`` are consumers of others on providers of this host, with what they have; ``refused`` are containers
    whose allocations Placement does not take, with the reason.
    """

    foreign: Mapping[str, Allocations]
    refused: Mapping[str, str]


class Ledger(Protocol):
    """Where claims are written beside the rows."""

    def claiming(self, container: Container, plan: Plan) -> contextlib.AbstractContextManager[None]:
        """Write ``plan`` before the block commits it. Raises ClaimRefused."""

    def note(self, uuid: str) -> None:
        """Have the allocation of a container compared with its row, which has changed. Returns at once."""

    def look(self) -> None:
        """The host has something else than before. Returns at once."""

    def differences(self) -> Differences:
        """Return what is not as it should be."""

    def others(self) -> Others | None:
        """Return what consumers of other services have of this host as of the last sweep; None before the first one."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class NoLedger:
    """Mode off."""

    def claiming(self, container: Container, plan: Plan) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def note(self, uuid: str) -> None: ...

    def look(self) -> None: ...

    def differences(self) -> Differences:
        return Differences({}, {})

    def others(self) -> Others | None:
        return Others()

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Reporter:
    """One thread writes what changed, a second behind it. In mode enforce claims write their allocation before."""

    def __init__(
        self,
        host: str,
        client: PlacementClient,
        providers: Providers,
        aggregates: Aggregates = dict,
        enforced: Enforced | None = None,
        others_changed: Callable[[], object] = lambda: None,
        pools: Pools = PoolUse,
    ) -> None:
        """``others_changed`` is called when ``others`` has a new answer. It must return at once."""
        self._host = host
        self._client = client
        self._providers = providers
        self._aggregates = aggregates
        self._enforced = enforced
        self._others_changed = others_changed
        self._look_at_pools = pools
        self._pools = PoolUse()
        self._root = root_uuid(host)
        self._name = host
        self._groups: Mapping[str, bool] = {}
        self._known: dict[str, Provider] = {}
        self._generations: dict[str, int] = {}
        self._outdated = False
        """Whether allocations were written since ``_generations`` were read: each raises those of its providers."""
        self._read_at: dict[str, int] = {}
        """Generation of each provider when it and its allocations were last read."""
        self._allocated: dict[str, dict[str, dict[str, int]]] = {}
        self._beside: dict[str, tuple[int, Beside]] = {}
        """The tree of another service whose root has the host's name: each provider as of a generation of it."""
        self._others: Others | None = None
        self._written: dict[str, tuple[Holding, int | None]] = {}
        """The last allocation that was written for each consumer, and the consumer's generation."""
        self._foreign: dict[str, Allocations] = {}
        self._refused: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._guard = threading.Lock()
        self._working = threading.RLock()
        self._turn = threading.Condition()
        self._busy: set[str] = set()
        """Consumers that somebody writes: one at a time."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placement", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and return when it has ended. The first sweep of the next start writes what is missing."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:  # a service that fails to start has not started it
            self._thread.join()

    def note(self, uuid: str) -> None:
        with self._guard:
            self._dirty.add(uuid)
        self._wake.set()

    def look(self) -> None:
        self._wake.set()

    def differences(self) -> Differences:
        with self._guard:
            return Differences(dict(self._foreign), dict(self._refused))

    def others(self) -> Others | None:
        return self._others

    @contextlib.contextmanager
    def claiming(self, container: Container, plan: Plan) -> Iterator[None]:
        if self._enforced is None:
            yield
            return
        try:
            with self._alone({container.uuid}, wait=True):  # until the row says so: it is no leftover
                self._claim(container, plan, self._enforced)
                yield
        finally:
            self.note(container.uuid)  # after the block above: who settles leaves alone what is being claimed

    @contextlib.contextmanager
    def _alone(self, uuids: Set[str], *, wait: bool) -> Iterator[Set[str]]:
        """Let nobody else write the consumers during the block. Without ``wait``, yields those that nobody writes."""
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

    def _claim(self, container: Container, plan: Plan, enforced: Enforced) -> None:
        """Write an allocation now. Raises ClaimRefused when Placement has not got it, or does not answer."""
        deadline, swept = time.monotonic() + enforced.wait, False
        while True:
            try:
                self._write(container.uuid, self._held_with(container, plan))
                return
            except (CapacityExceeded, GenerationConflict, Refused) as exc:
                if swept:
                    raise exceptions.ClaimRefused(host=self._host, reason=str(exc)) from exc
                away = self._swept()  # what was given back may not have been written yet
                swept = away is None
            except exceptions.PlacementUnavailable as exc:
                away = exc
            if away is None:
                continue
            left = deadline - time.monotonic()
            if left <= 0 or self._stopping.is_set():
                if not enforced.go_on:
                    raise exceptions.ClaimRefused(host=self._host, reason=str(away)) from away
                uuid = container.uuid
                LOG.warning("Container %s starts without an allocation, which is written later: %s", uuid, away)
                return
            self._stopping.wait(min(left, 1.0))

    def _swept(self) -> exceptions.PlacementUnavailable | None:
        try:
            self.sweep()
        except exceptions.PlacementUnavailable as exc:
            return exc
        return None

    def _run(self) -> None:
        due, told = 0.0, False
        while not self._stopping.is_set():
            self._wake.clear()
            wrong = self._round(time.monotonic() >= due)
            if wrong is not None:
                if not told:
                    LOG.warning("Placement is not told of this host until this is over: %s", wrong)
                told, due = True, 0.0
                self._stopping.wait(RETRY_SECONDS)
                continue
            if told:
                LOG.info("Placement is told of this host again")
            told = False
            if time.monotonic() >= due:
                due = time.monotonic() + SWEEP_SECONDS
            if self._wake.wait(due - time.monotonic()):
                self._stopping.wait(GATHER_SECONDS)

    def _round(self, whole: bool) -> str | None:
        """Sweep, or write what changed since. Returns why that failed."""
        try:
            if whole:
                self.sweep()
            else:
                self._follow()
        except outages.OUTAGES as exc:
            return exceptions.first_line(exc)
        except (CapacityExceeded, GenerationConflict, Refused) as exc:  # somebody works on our providers
            self._forget()
            return exceptions.first_line(exc)
        except Exception as exc:
            LOG.exception("Placement could not be told of this host; the next sweep tries again")
            self._forget()
            return exceptions.first_line(exc)
        return None

    def sweep(self) -> None:
        """Make Placement's picture of this host equal to what the rows say. Raises PlacementUnavailable."""
        with self._working:
            self._read()
            self._publish()
            self._compare()
            self._settle_dirty()
            self._publish()  # what could not go before its allocations went
            self._tell_others()
            self._remove_former_pools()

    def audit(self) -> tuple[set[str], set[str]]:
        """Return the containers whose allocations differ, and the consumers here of which no container is known."""
        with self._working:
            self._read()
            return self._differing()[:2]

    def heal(self) -> Differences:
        """Write the allocations that differ, and nothing of the providers. Returns what could not be made equal."""
        with self._working:
            self._read()
            self._compare()
            self._settle_dirty()
            return self.differences()

    def sync_aggregates(self) -> int:
        """Set the aggregates of the providers that Placement has. Returns how many providers changed."""
        with self._working:
            self._read()
            groups = frozenset(uuid for uuid, inside in self._groups.items() if inside)
            wanted = [
                replace(known, aggregates=groups) for uuid, known in self._known.items() if uuid != self._pool_provider
            ]
            todo = diff.steps(wanted, self._known, self._groups) if wanted else []
            for step in todo:
                self._take(step)
            return len(todo)

    def _follow(self) -> None:
        """Write what changed since."""
        with self._working:
            self._publish()
            self._settle_dirty()

    def _forget(self) -> None:
        with self._working:
            self._known, self._generations, self._read_at, self._allocated, self._written = {}, {}, {}, {}, {}

    def _read(self) -> None:
        """Read the providers that changed since they were read."""
        self._groups = self._aggregates()
        self._pools = self._look_at_pools()
        nodes = self._nodes()
        self._look_beside()
        self._name = f"{self._host}_ZUN" if self._beside else self._host
        for node in nodes:
            if self._read_at.get(node.uuid) != node.generation:
                self._known[node.uuid] = self._client.provider(node)
                self._allocated[node.uuid] = self._client.allocated(node.uuid)
                self._read_at[node.uuid] = node.generation
        self._generations = {node.uuid: node.generation for node in nodes}
        self._outdated = False
        for kept in (self._known, self._allocated, self._read_at):
            for uuid in kept.keys() - self._generations.keys():
                del kept[uuid]

    @property
    def _pool_provider(self) -> str | None:
        """The uuid of the provider of the host's disk pool."""
        return None if self._pools.mine is None else pool_uuid(self._pools.mine.uuid)

    def _nodes(self) -> list[Node]:
        """Return the providers at Placement that this host writes: its own, and that of its disk pool."""
        pool = self._pool_provider
        return [
            node
            for node in [*self._client.nodes(self._root), *(self._client.nodes(pool) if pool else ())]
            if node.uuid in (self._root, pool) or is_cell(node.uuid, node.name)
        ]

    def _remove_former_pools(self) -> None:
        """Remove providers of aggregates that are no disk pools any more, once nobody has anything of them."""
        former = {pool_uuid(uuid) for uuid in self._pools.unused}
        for node in self._client.sharing() if former else ():
            if node.uuid in former:
                with contextlib.suppress(InUse):
                    self._client.remove(node.uuid)

    def _look_beside(self) -> None:
        """Read the providers of another service that runs on this host, as Nova does: it owns the host's name then."""
        root = self._client.named(self._host)
        if root is None or root.uuid == self._root:
            self._beside = {}
            return
        tree = {node.uuid: node for node in self._client.nodes(root.uuid) if not is_cell(node.uuid, node.name)}
        before, self._beside = self._beside, {}
        for uuid, node in tree.items():
            if uuid in before and before[uuid][0] == node.generation:
                self._beside[uuid] = before[uuid]
                continue
            cell = other_services.cell_of(_names(node, tree))
            taken = sum(map(Counter, self._client.allocated(uuid).values()), Counter[str]())
            self._beside[uuid] = node.generation, Beside(taken, self._client.provider(node).inventories, cell)

    def _tell_others(self) -> None:
        """Note what consumers of other services have, and tell the service if that changed."""
        with self._guard:
            foreign = list(self._foreign.values())
        cells = {
            each.uuid: None if each.parent is None else other_services.cell_of([each.name])
            for each in self._known.values()
        }
        here: dict[int | None, Counter[str]] = {}
        for allocations in foreign:
            for provider, taken in allocations.items():
                if provider in cells:
                    here.setdefault(cells[provider], Counter()).update(taken)
        others = Others(here, tuple(beside for _, beside in self._beside.values()))
        if others != self._others:
            self._others = others
            self._others_changed()

    def _publish(self) -> None:
        own = [uuid for uuid, inside in self._groups.items() if inside]
        wanted = self._providers(self._name, own)
        if self._pools.mine is not None:
            wanted = in_pool(wanted, self._pools.mine, self._pools.held)
        todo = diff.steps(wanted, self._known, self._groups)
        if todo and self._outdated:
            self._read_generations()
        for step in todo:
            with contextlib.suppress(InUse):  # until those who use it have gone
                self._take(step)

    def _take(self, step: diff.Step) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._take_once(step)
                return
            except GenerationConflict:
                if attempt + 1 == ATTEMPTS:
                    raise
                nodes = self._read_generations()
                if isinstance(step, diff.Create) and step.provider.uuid in nodes:  # another host of the pool made it
                    self._known[step.provider.uuid] = self._client.provider(nodes[step.provider.uuid])
                    return

    def _read_generations(self) -> Mapping[str, Node]:
        """Read the generations of the providers that this host writes. Return the providers by uuid."""
        self._outdated = False  # before the answer, which may be older than what is written meanwhile
        nodes = {node.uuid: node for node in self._nodes()}
        self._generations |= {uuid: node.generation for uuid, node in nodes.items()}
        return nodes

    def _take_once(self, step: diff.Step) -> None:
        client, generations = self._client, self._generations
        match step:
            case diff.Create(provider):
                generations[provider.uuid] = client.create(provider)
                self._known[provider.uuid] = Provider(provider.uuid, provider.name, provider.parent)
            case diff.SetInventories(uuid, inventories):
                try:
                    generations[uuid] = client.set_inventories(uuid, generations[uuid], inventories)
                except InUse:  # a class that is to go, and somebody has some of it
                    inventories = {**self._known[uuid].inventories, **inventories}
                    generations[uuid] = client.set_inventories(uuid, generations[uuid], inventories)
                self._known[uuid] = replace(self._known[uuid], inventories=inventories)
            case diff.SetTraits(uuid, traits):
                generations[uuid] = client.set_traits(uuid, generations[uuid], traits)
                self._known[uuid] = replace(self._known[uuid], traits=traits)
            case diff.SetAggregates(uuid, aggregates):
                generations[uuid] = client.set_aggregates(uuid, generations[uuid], aggregates)
                self._known[uuid] = replace(self._known[uuid], aggregates=aggregates)
            case diff.Remove(uuid):
                client.remove(uuid)
                self._known.pop(uuid, None)

    def _compare(self) -> None:
        """Settle each container whose row says something else than Placement, and what is left of others."""
        differing, nobodys, seen = self._differing()
        with self._guard:
            self._foreign = {uuid: taken for uuid, taken in self._foreign.items() if uuid in nobodys}
            self._refused = {uuid: reason for uuid, reason in self._refused.items() if uuid in differing}
            for uuid in differing | nobodys:
                self._written.pop(uuid, None)
            self._dirty |= differing | {uuid for uuid in nobodys if self._foreign.get(uuid) != seen[uuid]}

    def _differing(self) -> tuple[set[str], set[str], dict[str, dict[str, dict[str, int]]]]:
        """Return the answer of ``drift`` as of the last reading, and what each consumer had then."""
        seen: dict[str, dict[str, dict[str, int]]] = {}
        for provider, consumers in self._allocated.items():
            for consumer, taken in consumers.items():
                seen.setdefault(consumer, {})[provider] = taken
        rows = Container.list_by_host(admin_context(), self._host)
        wanted = {each.uuid: holding for each in rows if (holding := self._holding_of(each)) and holding.allocations}
        differing, nobodys = drift(wanted, seen, self._allocated)
        # Containers of the other hosts of the pool: their hosts compare them.
        others = {uuid for uuid in nobodys & self._pools.holders.keys() if seen[uuid].keys() == {self._pool_provider}}
        return differing, nobodys - others, seen

    def _settle_dirty(self) -> None:
        with self._guard:
            todo, self._dirty = self._dirty, set()
        try:
            while todo:
                some = set(itertools.islice(todo, TOGETHER))
                with self._alone(some, wait=False) as mine:  # the claims of the others note them once more
                    self._settle(mine)
                todo -= some
        except BaseException:
            with self._guard:
                self._dirty |= todo
            raise

    def _settle(self, uuids: Set[str]) -> None:
        """Let consumers have what the rows of their containers say. Other services' consumers are left alone."""
        rows = Container.list_by_uuids(admin_context(), sorted(uuids))
        wanted = {each.uuid: holding for each in rows if (holding := self._holding_of(each)) and holding.allocations}
        for uuid in uuids - self._write_together(uuids, wanted):
            try:
                if uuid in wanted:
                    self._write(uuid, wanted[uuid])
                else:
                    self._withdraw(uuid)
            except (CapacityExceeded, Refused, GenerationConflict) as exc:
                if uuid not in self._refused:
                    LOG.warning("Container %s: its allocation is not written, and tried again: %s", uuid, exc)
                with self._guard:
                    self._refused[uuid] = str(exc)
            else:
                with self._guard:
                    self._refused.pop(uuid, None)

    def _write_together(self, uuids: Set[str], wanted: Mapping[str, Holding]) -> Set[str]:
        """Write what needs no look at Placement before, in one request. Returns the consumers that are right then.

        Placement takes all or nothing; what it refuses is to be written one by one. What it refused before is left
        out, so that it does not hold up the others.
        """
        right, changes = set(), {}
        there = {consumer for consumers in self._allocated.values() for consumer in consumers}
        for uuid in uuids - self._refused.keys():
            before, generation = self._written.get(uuid, (None, None))
            if uuid in wanted and before == wanted[uuid]:
                right.add(uuid)
            elif uuid in wanted and (before is not None or uuid not in there):
                changes[uuid] = wanted[uuid], generation
            elif before is not None:
                changes[uuid] = replace(before, allocations={}), generation
        if not changes:
            return right
        self._outdated = True
        try:
            generations = self._client.allocate_together(changes)
        except (CapacityExceeded, Refused, GenerationConflict):
            return right
        for uuid, (holding, _) in changes.items():
            if holding.allocations:
                self._written[uuid] = holding, generations[uuid]
            else:
                self._written.pop(uuid, None)
        return right | changes.keys()

    def _write(self, uuid: str, holding: Holding) -> None:
        before, generation = self._written.get(uuid, (None, None))
        if before == holding:
            return
        for attempt in range(ATTEMPTS):
            self._outdated = True
            try:
                after = self._client.allocate(uuid, holding, generation)
                self._written[uuid] = holding, after
                return
            except GenerationConflict:
                self._written.pop(uuid, None)
                if attempt + 1 == ATTEMPTS:
                    raise
                found = self._client.consumer(uuid)
                if found.allocations == holding.allocations and found.kind == CONSUMER_TYPE:
                    self._written[uuid] = holding, found.generation
                    return
                # One that was made and never had anything shows no generation, which is 0.
                generation = 0 if found.generation is None and generation is None else found.generation

    def _withdraw(self, uuid: str) -> None:
        """Remove what the consumer has of this host, if it is a container."""
        for attempt in range(ATTEMPTS):
            before = self._written.pop(uuid, None)
            if before is None:
                found = self._client.consumer(uuid)
                ours = {provider: taken for provider, taken in found.allocations.items() if self._is_own(provider)}
                if ours.keys() != found.allocations.keys():  # it has something of another host: the disk is for that
                    ours.pop(self._pool_provider or "", None)
                if not ours:
                    return
                if found.kind != CONSUMER_TYPE:
                    with self._guard:
                        self._foreign[uuid] = ours
                    return
                left = {provider: taken for provider, taken in found.allocations.items() if provider not in ours}
                rest, generation = Holding(left, found.project_id, found.user_id), found.generation
            else:
                rest, generation = replace(before[0], allocations={}), before[1]
            self._outdated = True
            try:
                self._client.allocate(uuid, rest, generation)
                return
            except GenerationConflict:
                if attempt + 1 == ATTEMPTS:
                    raise

    def _is_own(self, provider: str) -> bool:
        return provider in self._known

    def _holding_of(self, container: Container) -> Holding | None:
        """Return what the row of a container says that it holds here; a capsule holds for its members."""
        if container.host != self._host or container.capsule_uuid is not None:
            return None
        plan = held_plan(container)
        return None if plan is None else self._held_with(container, plan)

    def _held_with(self, container: Container, plan: Plan) -> Holding:
        """Return what the container holds here with ``plan``."""
        pool = None if self._pools.mine is None else self._pools.mine.uuid
        allocations = allocations_of(self._host, plan, disk_promised(container), pool)
        return Holding(allocations, container.project_id, container.user_id or container.project_id)


def _names(node: Node, tree: Mapping[str, Node]) -> Iterator[str]:
    """Yield the name of a provider and those of its parents, up to the root of ``tree``, but without the root's."""
    while node.parent is not None and node.parent in tree:
        yield node.name
        node = tree[node.parent]
