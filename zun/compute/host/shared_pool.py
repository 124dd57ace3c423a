# SPDX-License-Identifier: Apache-2.0
"""Keep shared containers off the CPUs that dedicated containers hold.

A mixed container is both: nobody else runs on its own CPUs, and beside these it runs on the pool like a shared one.

The order matters. Before a dedicated container starts, shared containers are moved off its CPUs, and the kernel must
confirm that they left. Shared containers get the CPUs back only after the last process of the dedicated container is
gone.
"""

import collections
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from zun.common import exceptions, metrics
from zun.common.states import Kind, Status
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.cpuset_files import CpusetFiles, Told
from zun.compute.quiet.quiet import NoQuiet, Quiet
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.lifecycle import RuntimeMount
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.topology import CPUPolicy, CpuSet, HostTopology, Plan, Usage
from zun.topology.cpuset import NO_CPUS

LOG = logging.getLogger(__name__)
T = TypeVar("T")

MOVED_TOGETHER = 8  # members; more are not faster, because the runtime starts a process for each
LEAVING_SECONDS = 30  # limit of the wait for the removal of a member that blocks CPUs of a dedicated container


@dataclass(frozen=True, slots=True)
class Member:
    """A shared or mixed container that exists at the runtime. The runtime was last told to run it on ``cpus``."""

    container: Container
    plan: Plan
    cpus: CpuSet
    unsure: bool = False
    """True if the kernel did not confirm that the member left CPUs, or if the runtime answered with an error."""
    perhaps: CpuSet = NO_CPUS
    """More CPUs where the member may run, because the runtime's answer to an update was lost."""
    leaving: bool = False
    """True while the member is being removed. The runtime then accepts no updates."""


@dataclass(frozen=True, slots=True)
class Move:
    """The CPUs where a member is to run, and the CPUs that it leaves."""

    wanted: CpuSet
    given_up: CpuSet


def pool_of(topology: HostTopology, others: Usage, plan: Plan) -> CpuSet:
    """Return the CPUs of a shared container with ``plan`` beside ``others``: the pool of its cells.

    The result includes CPUs that the container holds as its own, because it may be changing between dedicated and
    shared. If its cells have no pool CPUs left, the container runs on the pool of the whole host, far from its memory.
    If the host has no pool CPUs left, the container runs on the CPUs that nobody holds.
    """

    def on(host: HostTopology) -> CpuSet:
        return others.shared_pool(host, plan.cpu_cells) or others.shared_pool(host)

    return on(topology) or on(topology.without_shared_set())


class SharedPool:
    """The shared and mixed containers of this host that exist at the runtime, and the CPUs each may run on now.

    One lock keeps changes in order until the runtime has answered. Otherwise an older, wider CPU set could arrive after
    a newer, narrower set.
    """

    def __init__(
        self,
        tracker: ComputeNodeTracker,
        driver: ContainerDriver,
        huge_page_base_mib: int = 256,
        quiet: Quiet | None = None,
        files: CpusetFiles | None = None,
    ) -> None:
        """``huge_page_base_mib`` is the ordinary memory of a container whose memory is in huge pages.

        ``quiet`` keeps the own CPUs of containers quiet from the moment when others have left them. ``files`` tell
        containers with CPUs of their own where they run.
        """
        self._tracker = tracker
        self._driver = driver
        self._huge_page_base_mib = huge_page_base_mib
        self._quiet = quiet or NoQuiet()
        self.cpuset_files = files or CpusetFiles(None, driver)
        self._lock = threading.Condition()  # notified when a member has left
        self._members: dict[str, Member] = {}

    def enter(self, container: Container, plan: Plan, cpus: CpuSet) -> None:
        """Add a container that the runtime made to run on ``cpus``, before its start."""
        with self._lock:
            self._members[container.uuid] = Member(container, plan, cpus)
            self._settle(container.uuid)
            if plan.dedicated:
                self._tell()

    @contextlib.contextmanager
    def entering(self, container: Container, plan: Plan) -> Iterator[CpuSet]:
        """Yield the CPUs on which the body makes the container. After the body, a container of the pool is a member.

        If the container is a member already, it may be running. Then the lock is held during the body, so that no other
        container takes CPUs of the pool meanwhile.
        """
        with self._lock if container.uuid in self._members else contextlib.nullcontext():
            cpus = self.cpus_for(container.uuid, plan)
            try:
                yield cpus
            except BaseException:
                if (before := self._members.get(container.uuid)) is not None:
                    self._members[container.uuid] = replace(before, unsure=True, perhaps=before.perhaps | cpus)
                raise
            if plan.uses_pool:
                self.enter(container, plan, cpus)

    def ready(self, container: Container, plan: Plan) -> None:
        """Prepare a start: move a container of the pool there, and other containers off a container's own CPUs.

        A shared container whose create failed halfway is no member yet, and may be configured for any CPUs.
        """
        with self._lock:
            if plan.dedicated:
                self.settle()
                self.told(container, plan, plan.cpus)  # its object cannot start without the folder
            if not plan.uses_pool:
                return
            if container.uuid not in self._members:
                self.cpus_for(container.uuid, plan)  # raises Conflict if the host has no CPUs for it
                self._members[container.uuid] = Member(container, plan, NO_CPUS)
            self._settle(container.uuid)
            if plan.dedicated:
                self._tell()

    @contextlib.contextmanager
    def leaving(self, uuid: str) -> Iterator[None]:
        """Mark the member as leaving while the body removes the container. If the body fails, the member stays."""
        with self._lock:
            self._mark_leaving(uuid, True)
        try:
            yield
        except BaseException:
            with self._lock:
                self._mark_leaving(uuid, False)
            raise
        # Leave now, before the claim is released: the container that replaces this one may never be made.
        self.leave(uuid)

    def leave(self, uuid: str) -> None:
        """Remove a container that the runtime no longer has."""
        with self._lock:
            self._members.pop(uuid, None)
            self._lock.notify_all()

    def settle(self) -> None:
        """Move every member to the present pool, and check in the kernel that members left the CPUs they gave up.

        After that, interrupts and what else disturbs leave the own CPUs of containers too, and containers are told
        what has changed for them. Raise PinningMismatch if a member did not leave.
        """
        with self._lock:
            try:
                moves = [(each, move) for each in self._members.values() if (move := self._move(each)) is not None]
                _together(lambda due: self._carry_out(*due), [due for due in moves if not due[0].leaving])
                for member, _ in moves:
                    if member.leaving:
                        self._settle(member.container.uuid)
                self._quiet.settle()
            finally:
                self._tell()

    def told(self, container: Container, plan: Plan, cpus: CpuSet) -> list[RuntimeMount]:
        """Tell a container, before its start, that it runs on ``cpus``. Return the mount in which it reads that.

        Shared containers, and those of capsules, have none.
        """
        if not plan.dedicated or container.kind != Kind.CONTAINER or container.capsule_uuid is not None:
            return []
        return self.cpuset_files.prepare(container.uuid, Told.of(plan, cpus))

    def _tell(self) -> None:
        """Tell each container that has a file what it holds now, and on which CPUs of the pool it runs."""
        self.cpuset_files.settle(list(self._now_told()))

    def _now_told(self) -> Iterator[tuple[str, Told, str | None]]:
        usage = self._tracker.usage
        for uuid in self.cpuset_files.uuids():
            plan, member = usage.claim(uuid), self._members.get(uuid)
            if plan is not None and not plan.uses_pool:
                yield uuid, Told.of(plan, plan.cpus), self._tracker.wishes(uuid).cpuset_signal
            elif plan is not None and member is not None and member.cpus:
                yield uuid, Told.of(plan, member.cpus), self._tracker.wishes(uuid).cpuset_signal

    def cpus_for(self, uuid: str, plan: Plan) -> CpuSet:
        """Return the present CPUs of ``uuid``. On return, other containers have left the CPUs that are its own.

        Raise Conflict if the host has no CPUs for a shared container, because a runtime takes an empty set for all
        CPUs.
        """
        if plan.dedicated:
            self.settle()
            return plan.dedicated_cpus | self._pool_beside(plan) if plan.uses_pool else plan.cpus
        cpus = self._now(uuid, plan)
        if not cpus:
            raise exceptions.Conflict(
                "The container's host has no CPUs for shared containers now. The operator can bring those of [compute] "
                "cpu_shared_set online, or set others."
            )
        return cpus

    def _pool_beside(self, plan: Plan) -> CpuSet:
        """Return the CPUs of the pool on which a mixed container runs beside its own: none that anybody holds."""
        return pool_of(self._tracker.topology, self._tracker.usage, plan)

    def _now(self, uuid: str, plan: Plan) -> CpuSet:
        """Return where the container is to run now, no CPUs if the host has none for a shared one.

        Of its own CPUs, a container gets those that are online: a runtime refuses the others, and the container must
        not stay on CPUs of others. If none is online, return all, which the runtime refuses.
        """
        if not plan.dedicated:
            return pool_of(self._tracker.topology, self._tracker.others(uuid), plan)
        online = plan.dedicated_cpus & self._tracker.topology.cpus or plan.dedicated_cpus
        return online | self._pool_beside(plan) if plan.uses_pool else online

    def broken_partition(self, uuid: str) -> str | None:
        """Return what is wrong with the partition or the caches of a container, or None."""
        return self._quiet.problem(uuid)

    def ordinary_memory(self, plan: Plan, memory: int) -> int:
        """Return the limit in MiB of the ordinary memory of a container with ``plan`` that asked for ``memory``."""
        return self._huge_page_base_mib if plan.pages else memory

    def limit_pages(self, container: Container, plan: Plan, state: RuntimeState | None) -> None:
        """Limit a running container to the huge pages of ``plan``. Conflict if the container uses more."""
        if state is not None and state.pid:
            self._driver.limit_pages(container, state, plan.pages)

    def change(self, container: Container, plan: Plan, *, cpu: float, memory: int, back: bool = False) -> None:
        """Move a container at the runtime to ``plan``, which is claimed already, and set its limits.

        ``container.cpu_policy`` is the policy of the plan. The lock is held while other containers leave the CPUs and
        the container moves. ``back`` returns the container to a plan that it held all the while, so no other container
        is on its CPUs.
        """
        uuid = container.uuid
        with self._lock:
            before = self._members.pop(uuid, None)
            try:
                cpus = self._cpus_back(uuid, plan, before) if back else self.cpus_for(uuid, plan)
                self._driver.update(
                    container,
                    cpu=cpu,
                    memory=self.ordinary_memory(plan, memory),
                    cpuset_cpus=str(cpus),
                    cpuset_mems=str(plan.mems),
                )
                held = self._tracker.usage.claim(uuid)
                if plan.pages or (held is not None and held.pages):
                    self.limit_pages(container, plan, self._driver.show(container))
            except BaseException:
                if before is not None:  # the container stays a member
                    self._members[uuid] = replace(before, unsure=True)
                raise
            if plan.uses_pool:
                self._members[uuid] = Member(container, plan, cpus)

    def _cpus_back(self, uuid: str, plan: Plan, member: Member | None) -> CpuSet:
        """Return the CPUs like ``cpus_for``, but move no other container. On a host without a pool, a member stays."""
        stays = NO_CPUS if member is None else member.cpus - self._tracker.others(uuid).held_cpus
        return self._now(uuid, plan) or stays or self.cpus_for(uuid, plan)

    def current(self) -> Mapping[str, CpuSet]:
        """Return uuid -> the CPUs of the last update at the runtime, for each member."""
        with self.steady() as told:
            return told

    @contextlib.contextmanager
    def steady(self) -> Iterator[Mapping[str, CpuSet]]:
        """Yield the mapping of ``current``. No member is moved during the body."""
        with self._lock:
            yield {uuid: member.cpus for uuid, member in self._members.items()}

    @contextlib.contextmanager
    def steady_for(self, container: Container) -> Iterator[Mapping[str, CpuSet]]:
        """Yield the mapping of ``steady`` for a container of the pool, and an empty mapping for a dedicated one."""
        if container.cpu_policy == CPUPolicy.DEDICATED:
            yield {}
        else:
            with self.steady() as told:
                yield told

    def _mark_leaving(self, uuid: str, leaving: bool) -> None:
        if uuid in self._members:
            self._members[uuid] = replace(self._members[uuid], leaving=leaving)

    def _settle(self, uuid: str) -> None:
        member = self._members.get(uuid)
        move = None if member is None else self._move(member)
        if member is None or move is None:
            return
        if not member.leaving:
            self._carry_out(member, move)
        elif move.given_up:
            self._wait_until_left(uuid, move.given_up)

    def _move(self, member: Member) -> Move | None:
        """Return the move of a member, or None if the member need not move."""
        wanted = self._now(member.container.uuid, member.plan)
        if wanted == member.cpus and not member.unsure:
            return None
        given_up = (member.cpus | member.perhaps) - wanted
        if not wanted and not given_up & self._tracker.usage.held_cpus:
            return None  # the host lost its pool, and no container holds the member's CPUs
        return Move(wanted, given_up)

    def _carry_out(self, member: Member, move: Move) -> None:
        """Move one member at the runtime. Several members may be moved at the same time, under one lock."""
        uuid, wanted, given_up = member.container.uuid, move.wanted, move.given_up
        if not wanted:
            raise exceptions.Conflict(
                f"A shared container ({uuid}) may run on CPUs {given_up}, and the host has no others for it. The "
                "operator can set CPUs in [compute] cpu_shared_set that are online and neither reserved nor isolated."
            )
        try:
            self._driver.update(member.container, cpuset_cpus=str(wanted))
        except exceptions.Conflict:
            state = self._driver.show(member.container)
            if state is not None and (state.pid or state.status not in (None, Status.DEAD)):
                raise  # a stopped container may start again, also by the runtime
            del self._members[uuid]  # the runtime removes the dead container; it never runs again
            return
        except BaseException:  # after a timeout, the runtime may still carry out the update
            self._members[uuid] = replace(member, unsure=True, perhaps=member.perhaps | wanted)
            raise
        if given_up:
            self._members[uuid] = replace(member, unsure=True)
            self._check_left(member.container, given_up)
        self._members[uuid] = replace(member, cpus=wanted, unsure=False, perhaps=NO_CPUS)
        metrics.POOL_MOVES.inc()
        LOG.info("Container %s of the pool runs on CPUs %s instead of %s", uuid, wanted, member.cpus)

    def _wait_until_left(self, uuid: str, cpus: CpuSet) -> None:
        if not self._lock.wait_for(lambda: uuid not in self._members, LEAVING_SECONDS):
            raise exceptions.PinningMismatch(
                reason=f"shared container {uuid} is being removed and may still run on CPUs {cpus}"
            )

    def _check_left(self, container: Container, given_up: CpuSet) -> None:
        state = self._driver.show(container)
        view = None if state is None else self._driver.kernel_view(container, state)
        if view is not None and (still := (view.cgroup_cpus | view.cpus) & given_up):
            raise exceptions.PinningMismatch(
                reason=f"shared container {container.uuid} was told to leave CPUs {still} and may still run there"
            )


def _together(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Run ``work`` on all items in threads. After a failure, start no further item and raise the error."""
    failed = threading.Event()

    def one(item: T) -> None:
        if not failed.is_set():
            try:
                work(item)
            except BaseException:
                failed.set()
                raise

    if len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(MOVED_TOGETHER, thread_name_prefix="pool") as executor:
        collections.deque(executor.map(one, items), maxlen=0)
