# SPDX-License-Identifier: Apache-2.0
"""Compares where this host's containers run with their plans, and repairs the differences.

A first look takes no lock, so that it disturbs nobody. What seems wrong in it is looked at again while no operation
works on the container, since a resize in its middle looks just like drift; only that second look is believed.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.departures import owner_of
from zun.common.states import STEADY, Kind
from zun.compute.audit import audit_rules
from zun.compute.audit.audit_rules import CODES, Finding, Isolated, Layer, Planned, Verdict
from zun.compute.audit.cache_misses import CacheMisses
from zun.compute.audit.last_minute import Counts, LastMinute, kept, last_minute
from zun.compute.container.device_rules import given_to
from zun.compute.container.operations import PATIENCE, Operations
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.shared_pool import SharedPool
from zun.compute.kept.recovery_rules import is_lost, told_of
from zun.compute.quiet.quiet import Quiet
from zun.compute.quiet.resctrl import CacheUse
from zun.container.driver.audit import Activity, PinningView, Throttling
from zun.container.driver.devices import ContainerDevices
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.hugepages import PageStock
from zun.container.driver.state import RuntimeState
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.objects.placement import cpuset_record, held_plan
from zun.placement.ledger import Ledger
from zun.topology import CpuSet, Plan, grade_of, has_whole_cores
from zun.topology.cpuset import union
from zun.topology.interrupts import interrupts

LOG = logging.getLogger(__name__)

# What a look without locks can be wrong about.
_DOUBTFUL = frozenset({Verdict.DRIFTED, Verdict.CGROUP_HOLE, Verdict.UNREADABLE})


@dataclass(slots=True)
class _Seen:
    containers: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    isolation: list[Isolated] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of a running container at the last audit.

    ``remote_kib`` is its ordinary memory outside of its memory nodes, None without memory nodes of its own.
    ``activity`` is that of a container with CPUs of its own. ``last_minute`` needs an earlier audit; a shared container
    has it if the host counts the use of its caches. ``caches`` are what a container uses of these.
    """

    remote_kib: int | None
    throttling: Throttling | None
    activity: Activity | None = None
    last_minute: LastMinute | None = None
    caches: CacheUse | None = None


@dataclass(slots=True, eq=False)
class Auditor:
    """One audit at a time. ``host_processes``: ``placed``, ``all`` or ``none``, see the option of that name."""

    _hostname: str
    _tracker: ComputeNodeTracker
    _pool: SharedPool
    _driver: ContainerDriver
    _operations: Operations
    _notifier: Notifier
    _ledger: Ledger
    _host_processes: str
    _quiet: Quiet
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: dict[tuple[str, ...], Finding] = field(default_factory=dict)
    _readings: dict[str, Reading] = field(default_factory=dict)
    _counts: dict[str, tuple[Counts, ...]] = field(default_factory=dict)
    """Uuid -> the readings of earlier audits, oldest first, for containers with a process at the last audit."""
    misses: CacheMisses = field(default_factory=CacheMisses)
    _tasks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Uuid -> the threads of each shared container at the last audit."""
    clock: Callable[[], float] = time.monotonic
    _totals: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(("audits", "repaired", *map(str, CODES)), 0))
    )

    def audit(self, context: RequestContext, *, repair: bool) -> dict[str, Any]:
        """Examine every container of this host, repair with ``repair``, and return the answer of the API.

        Raises Unavailable or DockerError when the runtime does not tell what it has.
        """
        with self._lock:
            seen = self._look(context, repair)
            self._account(seen.findings)
            answer = {
                "host": self._hostname,
                "findings": [finding.to_dict() for finding in seen.findings],
                "containers": audit_rules.verdicts(seen.containers, seen.skipped, seen.findings),
                "totals": dict(self._totals),
                "isolation": [each.to_dict() for each in seen.isolation],
            }
        self._notifier.audited(context, answer)
        return answer

    def open_findings(self) -> dict[str, int]:
        """Return how many findings of each code the last audit had, zero included."""
        counts = Counter(str(finding.code) for finding in tuple(self._open.values()))
        return {str(code): counts[str(code)] for code in CODES}

    def readings(self) -> dict[str, Reading]:
        """Return the figures of the last audit, by uuid. Containers without a process have no reading."""
        return dict(self._readings)

    def last_minute(self, uuid: str) -> dict[str, Any] | None:
        """Return what disturbed a container in about the minute before the last audit, None if that is not known."""
        reading = self._readings.get(uuid)
        return None if reading is None or reading.last_minute is None else reading.last_minute.to_dict()

    def _look(self, context: RequestContext, repair: bool) -> _Seen:
        seen = _Seen()
        self._tasks = {}
        containers = Container.list_by_host(context, self._hostname)
        told, states = self._pool.current(), self._driver.list()
        for container in containers:
            if owner_of(container.request) is not None:  # it is not left over before it is at its new host
                seen.skipped.append(container.uuid)
                continue
            if container.kind == Kind.LEFTOVER:
                seen.containers.append(container.uuid)
                seen.findings.append(audit_rules.left_over(container, _objects_of(container, containers, states)))
                continue
            state = states.get(container.uuid)
            found = self._examined(container, told, state)
            doubtful = found is not None and any(finding.code in _DOUBTFUL for finding in found)
            if doubtful or is_lost(container, state):
                found = self._second_look(context, container, repair)
            if found is None:
                seen.skipped.append(container.uuid)
            else:
                seen.containers.append(container.uuid)
                seen.findings += found
        for uuid in self._readings.keys() - set(seen.containers):
            del self._readings[uuid]
        names = {container.uuid: container.name for container in containers}
        seen.findings += self._trespasses(names)
        seen.findings += self._taken_pages(containers)
        seen.findings += audit_rules.at_placement(self._ledger.differences(), names)
        self._count_caches()
        seen.isolation += self._isolation(names)
        return seen

    def _count_caches(self) -> None:
        """Tell what shared containers used of the caches since an earlier audit, and go on counting."""
        for uuid in self._tasks:
            if (reading := self._readings.get(uuid)) is not None and reading.caches is not None:
                self._last_minute(uuid, None)
        self._quiet.monitor_tasks(self._tasks)

    def _isolation(self, names: Mapping[str, str]) -> Iterator[Isolated]:
        dedicated = [(uuid, plan) for uuid, plan in self._tracker.usage if plan.dedicated and uuid in names]
        for uuid in self._counts.keys() - self._tasks.keys() - {uuid for uuid, _ in dedicated}:
            del self._counts[uuid]
        if not dedicated:
            self.misses.close()
            return
        seen, stuck = interrupts(), self._quiet.stuck
        misses = self.misses.counted(union(plan.dedicated_cpus for _, plan in dedicated))
        for uuid, plan in dedicated:
            cpus = plan.dedicated_cpus
            came, irqs = seen.on(cpus)
            topology = self._tracker.topology
            whole_cores = has_whole_cores(topology, plan) if plan.whole_cores else None
            reached = grade_of(topology, plan)
            yield Isolated(
                uuid, names[uuid], cpus, plan.isolation, reached, whole_cores, came, irqs, seen.network_on(cpus),
                {irq: stuck[irq] for irq in irqs if irq in stuck},
                self._last_minute(
                    uuid,
                    {cpu: seen.counted[cpu] for cpu in cpus if cpu in seen.counted},
                    None if misses is None else {cpu: misses[cpu] for cpu in cpus},
                ),
                self._quiet.problem(uuid),
            )  # fmt: skip

    def _last_minute(
        self, uuid: str, came: Mapping[int, int] | None, misses: Mapping[int, int] | None = None
    ) -> LastMinute | None:
        """Return what disturbed a container since an earlier audit; None without one, or without a process.

        ``came`` are the interrupts, and ``misses`` those of the last cache, by its own CPUs.
        """
        reading = self._readings.get(uuid)
        if reading is None:
            self._counts.pop(uuid, None)
            return None
        now = Counts(
            self.clock(), came, reading.remote_kib, reading.throttling, reading.activity, misses, reading.caches
        )
        earlier = kept(self._counts.get(uuid, ()), now)
        self._counts[uuid] = (*earlier, now)
        found = last_minute(earlier[0], now) if earlier else None
        self._readings[uuid] = replace(reading, last_minute=found)
        return found

    def _examined(
        self, container: Container, told: Mapping[str, CpuSet], state: RuntimeState | None
    ) -> tuple[Finding, ...] | None:
        """Return the findings on a container; None during an operation or without an object at the runtime."""
        if state is None or (planned := self._planned(container, told)) is None:
            return None
        try:
            view = self._driver.pinning_view(container, state) if state.pid else None
            pages = self._driver.huge_pages(container, state) if state.pid else None
        except exceptions.ZunError as exc:
            self._readings.pop(container.uuid, None)
            return (audit_rules.unreadable(planned, str(exc)),)
        self._note(planned, view)
        found = (*audit_rules.examine(planned, state, view), *self._device_findings(container, planned, state))
        return found if pages is None else (*found, *audit_rules.examine_pages(planned, pages))

    def _note(self, planned: Planned, view: PinningView | None) -> None:
        if view is None:
            self._readings.pop(planned.uuid, None)
            return
        remote = audit_rules.remote(planned, view.pages) if planned.mems else None
        kib = None if remote is None else sum(remote.values()) // 1024
        caches = self._quiet.cache_use(planned.uuid)
        self._readings[planned.uuid] = Reading(kib, view.throttling, view.activity, caches=caches)
        if not planned.dedicated:
            self._tasks[planned.uuid] = view.tids

    def _device_findings(self, container: Container, planned: Planned, state: RuntimeState) -> Sequence[Finding]:
        plan = held_plan(container)
        given = () if plan is None else given_to(container, plan)
        if not given and not state.devices:
            return ()
        topology, usage = self._tracker.topology, self._tracker.usage
        devices, crowded = ContainerDevices(given, topology.devices), usage.crowded(topology)
        found = [
            audit_rules.crowded(planned, each.address, usage.holders(each.address), crowded[each.address])
            for each in given if each.address in crowded
        ]  # fmt: skip
        try:
            return (*found, *audit_rules.devices(planned, self._driver.device_access(container, state, devices)))
        except exceptions.DeviceUnusable as exc:
            return (audit_rules.device_lost(planned, str(exc)),)
        except exceptions.ZunError as exc:
            return (audit_rules.unreadable(planned, str(exc)),)

    def _second_look(self, context: RequestContext, seen: Container, repair: bool) -> tuple[Finding, ...] | None:
        turn = self._operations.undisturbed(context, seen.uuid, PATIENCE, capsule=seen.capsule_uuid)
        try:
            with turn as container:
                if container is None or container.host != self._hostname:
                    return None
                with self._pool.steady_for(container) as told:
                    state = self._driver.show(container)
                    lost = self._recovered(context, container, state, repair)
                    found = self._examined(container, told, state)
                    if found is None:
                        return lost or None
                    if repair and any(finding.repairable for finding in found):
                        found = self._repaired(container, told, found)
                    return (*lost, *found)
        except exceptions.ContainerBusy:
            return None

    def _recovered(
        self, context: RequestContext, container: Container, state: RuntimeState | None, repair: bool
    ) -> tuple[Finding, ...]:
        """Recover the claim that a row has lost: in the tracker, and with ``repair`` in the row."""
        if state is None or not is_lost(container, state):
            return ()
        plan, why_not = self._tracker.recover(container, state)
        container.cpuset = cpuset_record(plan, self._tracker.topology)  # for the looks that follow
        repaired = repair and why_not is None
        if repaired:
            self._operations.save(context, container)
        wrong, step = told_of(self._hostname, state, why_not)
        return (audit_rules.unwritten(container, wrong, step, repairable=why_not is None, repaired=repaired),)

    def _repaired(
        self, container: Container, told: Mapping[str, CpuSet], found: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """Set the whole plan once and audit again. Return ``found`` with the outcome of each, and new findings."""
        planned = self._planned(container, told)
        assert planned is not None  # it was examined
        try:
            cpus, mems = str(planned.cpus), str(planned.mems)
            limits = any(each.layer is Layer.LIMIT for each in found)
            memory, cpu = (planned.memory or None, container.cpu) if limits else (None, None)
            self._driver.update(container, cpu=cpu, memory=memory, cpuset_cpus=cpus, cpuset_mems=mems)
            if limits and (plan := held_plan(container)) is not None:
                self._pool.limit_pages(container, plan, self._driver.show(container))
            left = self._examined(container, told, self._driver.show(container)) or ()
        except exceptions.ZunError as exc:
            return tuple(
                replace(each, detail=f"{each.detail}; the repair failed: {exc}") if each.repairable else each
                for each in found
            )
        still = {(finding.code, finding.layer) for finding in left}
        unread = any(finding.code is Verdict.UNREADABLE for finding in left)

        def judged(each: Finding) -> Finding:
            if not each.repairable:
                return each
            if (each.code, each.layer) not in still and not unread:
                return replace(each, repaired=True)
            return replace(each, detail=f"{each.detail}; it is still so after one update")

        known = {(finding.code, finding.layer) for finding in found}
        return (*map(judged, found), *(finding for finding in left if (finding.code, finding.layer) not in known))

    def _trespasses(self, names: Mapping[str, str]) -> tuple[Finding, ...]:
        usage = self._tracker.usage
        own = usage.held_cpus
        if not own:
            return ()
        intruders = self._driver.intruders(
            own,
            # Asked after the runtime was: a claim is there before its object and goes after it.
            self._tracker.may_run,
            processes=self._host_processes != "none",
            unplaced=self._host_processes == "all",
        )
        owners = {
            uuid: (names[uuid], plan.dedicated_cpus | plan.withheld)
            for uuid, plan in usage
            if uuid in names and plan.dedicated and self._tracker.usage.claim(uuid) == plan
        }
        return audit_rules.trespasses(owners, intruders)

    def _taken_pages(self, containers: Sequence[Container]) -> Iterator[Finding]:
        """Yield the findings on huge pages that others use, and on a kernel that cannot limit them."""
        holders = [each for each in containers if (plan := held_plan(each)) is not None and plan.pages]
        if not holders:
            return
        before, unlimited = self._driver.page_stock(), False
        used: dict[str, Mapping[int, Mapping[int, int]] | None] = {}
        for container in holders:
            try:
                state = self._driver.show(container)
                view = self._driver.huge_pages(container, state) if state is not None and state.pid else None
            except exceptions.ZunError:
                used[container.uuid] = None  # reported with the container itself
                continue
            used[container.uuid] = {} if view is None else view.used
            unlimited |= view is not None and view.limits is None
        # Pages that a program took or gave back meanwhile must not look like pages of others.
        stock = _most_free(before, self._driver.page_stock())
        claims = ((each, self._held(each)) for each in holders)
        still = [(_pages_of(each, plan), used[each.uuid]) for each, plan in claims if plan is not None]
        yield from audit_rules.taken_pages(still, stock)
        if unlimited:
            yield audit_rules.unlimited_pages(self._hostname)

    def _held(self, container: Container) -> Plan | None:
        """Return what a container holds: of its own, or as a part of its capsule's claim."""
        if container.capsule_uuid is None:
            return self._tracker.usage.claim(container.uuid)
        return held_plan(container) if self._tracker.may_run(container.uuid) else None

    def _planned(self, container: Container, told: Mapping[str, CpuSet]) -> Planned | None:
        plan = held_plan(container)
        if plan is None or container.status not in STEADY or container.task_state:
            return None
        cpus = told.get(container.uuid) if plan.uses_pool else plan.cpus
        if cpus is None:
            return None
        memory = self._pool.ordinary_memory(plan, container.memory)
        return replace(
            _pages_of(container, plan),
            cpus=cpus,
            memory=memory,
            cpu=container.cpu if plan.uses_pool else None,
            dedicated=plan.dedicated_cpus,
        )

    def _account(self, findings: list[Finding]) -> None:
        """Count the findings and log the new ones. The log has the others since an earlier audit."""
        still = {finding.identity: finding for finding in findings if not finding.repaired}
        for finding in findings:
            new = finding.identity not in self._open
            self._totals[str(finding.code)] += new
            self._totals["repaired"] += finding.repaired
            if new or finding.repaired:
                _log(finding)
        for identity, finding in self._open.items():
            if identity not in still:
                LOG.info("%s %s at %s: it is over", finding.container, finding.code, finding.layer)
        self._open = still
        self._totals["audits"] += 1


def _pages_of(container: Container, plan: Plan) -> Planned:
    pages = {node: share.pages for node, share in plan.cells.items() if share.pages and not plan.parts}
    return Planned(container.uuid, container.name, plan.cpus, plan.mems, pages=pages)


def _most_free(
    before: Mapping[int, Mapping[int, PageStock]], after: Mapping[int, Mapping[int, PageStock]]
) -> dict[int, dict[int, PageStock]]:
    """Return the stock ``after`` with the larger number of free pages of both."""
    return {
        node: {
            size: replace(stock, free=max(stock.free, before.get(node, {}).get(size, stock).free))
            for size, stock in sizes.items()
        }
        for node, sizes in after.items()
    }


def _objects_of(container: Container, containers: Sequence[Container], states: Mapping[str, RuntimeState]) -> list[str]:
    """The ids of the runtime's objects of the container and of its members."""
    family = (each.uuid for each in containers if container.uuid in (each.uuid, each.capsule_uuid))
    return [state.container_id for uuid in family if (state := states.get(uuid)) is not None]


def _log(finding: Finding) -> None:
    # A program that chooses among its own CPUs asks nothing of the operator.
    level = logging.INFO if finding.code is Verdict.SELF_PINNED else logging.WARNING
    outcome = "repaired" if finding.repaired else finding.repair
    told = (finding.container, finding.code, finding.layer, finding.name, finding.detail, outcome)
    LOG.log(level, "%s %s at %s: container %s: %s (%s)", *told)
