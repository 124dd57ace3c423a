# SPDX-License-Identifier: Apache-2.0
"""Keeps shared containers off the CPUs that dedicated ones hold.

The order is what makes dedicated CPUs dedicated: before a dedicated container starts, running shared containers are
narrowed and the kernel is asked whether they left; only after its last process is gone are they widened again.
"""

import collections
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from zun.common import exceptions
from zun.common.states import Status
from zun.compute.compute_node_tracker import ComputeNodeTracker
from zun.container.driver import ContainerDriver
from zun.objects import Container
from zun.topology import CPUPolicy, CpuSet, HostTopology, Plan, Usage
from zun.topology.cpuset import NO_CPUS

LOG = logging.getLogger(__name__)
T = TypeVar("T")

MOVED_TOGETHER = 8  # members; more gain nothing, as the runtime starts a process for each
LEAVING_SECONDS = 30  # for a member that is being removed from CPUs that somebody waits for


@dataclass(frozen=True, slots=True)
class Member:
    """A shared container that exists at the runtime. ``cpus`` are those it was last told to run on."""

    container: Container
    plan: Plan
    cpus: CpuSet
    unsure: bool = False
    """It was told to leave CPUs and has not been seen to have done so, or the runtime's answer was an error."""
    perhaps: CpuSet = NO_CPUS
    """CPUs it may run on beside ``cpus``: it was told to, and whether it does is not known."""
    leaving: bool = False
    """It is being removed: the runtime takes no more orders for it."""


@dataclass(frozen=True, slots=True)
class Move:
    """The CPUs where a member is to run, and those that it leaves."""

    wanted: CpuSet
    given_up: CpuSet


def pool_of(topology: HostTopology, others: Usage, plan: Plan) -> CpuSet:
    """Where a shared container with ``plan`` may run beside ``others``: the pool of its cells.

    CPUs that it holds itself are among them: it may be on its way from dedicated to shared, or back. A container whose
    cells have lost all their CPUs runs far from its memory, on the pool of the whole host: somewhere it must. Where
    that has lost all of its own, it is on the CPUs that nobody holds.
    """

    def on(host: HostTopology) -> CpuSet:
        return others.shared_pool(host, plan.cpu_cells) or others.shared_pool(host)

    return on(topology) or on(topology.without_shared_set())


class SharedPool:
    """The shared containers of this host that exist at the runtime, and the CPUs each may run on now.

    One lock keeps changes in order, over the runtime's answers as well: a later, wider set must not overtake a
    narrower one.
    """

    def __init__(self, tracker: ComputeNodeTracker, driver: ContainerDriver) -> None:
        self._tracker = tracker
        self._driver = driver
        self._lock = threading.Condition()  # notified when a member has left
        self._members: dict[str, Member] = {}

    def enter(self, container: Container, plan: Plan, cpus: CpuSet) -> None:
        """Note, before it starts, that the runtime has the container, made to run on ``cpus``."""
        with self._lock:
            self._members[container.uuid] = Member(container, plan, cpus)
            self._settle(container.uuid)

    @contextlib.contextmanager
    def entering(self, container: Container, plan: Plan) -> Iterator[CpuSet]:
        """Inside the block the runtime makes the container, to run on the CPUs given here; then it has entered.

        A member is there already, and may run: nobody may want CPUs of the pool while it is set to run on those of a
        moment ago.
        """
        with self._lock if container.uuid in self._members else contextlib.nullcontext():
            cpus = self.cpus_for(container.uuid, plan)
            try:
                yield cpus
            except BaseException:
                if (before := self._members.get(container.uuid)) is not None:
                    self._members[container.uuid] = replace(before, unsure=True, perhaps=before.perhaps | cpus)
                raise
            if not plan.dedicated:
                self.enter(container, plan, cpus)

    def ready(self, container: Container, plan: Plan) -> None:
        """Before its process starts: bring it to the pool as it is now, or others off the CPUs that it has for itself.

        A shared one that could not be made to its end is no member yet, and may be set to run anywhere.
        """
        with self._lock:
            if plan.dedicated:
                self.settle()
                return
            if container.uuid not in self._members:
                self.cpus_for(container.uuid, plan)  # without any it would start wherever it is set to run
                self._members[container.uuid] = Member(container, plan, NO_CPUS)
            self._settle(container.uuid)

    @contextlib.contextmanager
    def leaving(self, uuid: str) -> Iterator[None]:
        """Inside the block the runtime removes the container, then it is no member. When the block fails it stays."""
        with self._lock:
            self._mark_leaving(uuid, True)
        try:
            yield
        except BaseException:
            with self._lock:
                self._mark_leaving(uuid, False)
            raise
        # Now, and not once its claim is given back: what was to be made instead of it may never come.
        self.leave(uuid)

    def leave(self, uuid: str) -> None:
        """Note that the runtime has it no more."""
        with self._lock:
            self._members.pop(uuid, None)
            self._lock.notify_all()

    def settle(self) -> None:
        """Bring every member to the pool as it is now; where one had to give up CPUs, see in the kernel that it did.

        Raises PinningMismatch when one did not.
        """
        with self._lock:
            moves = [(each, move) for each in self._members.values() if (move := self._move(each)) is not None]
            _together(lambda due: self._carry_out(*due), [due for due in moves if not due[0].leaving])
            for member, _ in moves:
                if member.leaving:
                    self._settle(member.container.uuid)

    def cpus_for(self, uuid: str, plan: Plan) -> CpuSet:
        """Where ``uuid`` may run now. When this returns, others have left what a dedicated one has for itself.

        Raises Conflict for a shared one while the host has no CPU for such: no CPUs mean all there are to a runtime.
        """
        if plan.dedicated:
            self.settle()
            return plan.cpus
        cpus = pool_of(self._tracker.topology, self._tracker.others(uuid), plan)
        if not cpus:
            raise exceptions.Conflict(
                "The container's host has no CPUs for shared containers now. The operator can bring those of [compute] "
                "cpu_shared_set online, or set others."
            )
        return cpus

    def change(self, container: Container, plan: Plan, *, cpu: float, memory: int, back: bool = False) -> None:
        """Move a container at the runtime to ``plan``, which it holds already, and give it other limits.

        ``container.cpu_policy`` is the plan's. Emptying the CPUs and moving the container is one step for everybody
        else who wants CPUs of the pool. ``back``: to what it has held all the while, so that nobody is there.
        """
        uuid = container.uuid
        with self._lock:
            before = self._members.pop(uuid, None)
            try:
                cpus = self._cpus_back(uuid, plan, before) if back else self.cpus_for(uuid, plan)
                self._driver.update(
                    container, cpu=cpu, memory=memory, cpuset_cpus=str(cpus), cpuset_mems=str(plan.mems)
                )
            except BaseException:
                if before is not None:  # it goes on following the pool
                    self._members[uuid] = replace(before, unsure=True)
                raise
            if not plan.dedicated:
                self._members[uuid] = Member(container, plan, cpus)

    def _cpus_back(self, uuid: str, plan: Plan, member: Member | None) -> CpuSet:
        """As ``cpus_for``, without asking others to leave. Where the host has no pool, a member stays where it was.

        Runtimes refuse CPUs that are offline, and a dedicated one must not stay on others': it goes back to the rest.
        """
        if plan.dedicated:
            return plan.cpus & self._tracker.topology.cpus or plan.cpus
        others = self._tracker.others(uuid)
        stays = NO_CPUS if member is None else member.cpus - others.held_cpus
        return pool_of(self._tracker.topology, others, plan) or stays or self.cpus_for(uuid, plan)

    def current(self) -> Mapping[str, CpuSet]:
        """Member -> the CPUs it was last told to run on."""
        with self.steady() as told:
            return told

    @contextlib.contextmanager
    def steady(self) -> Iterator[Mapping[str, CpuSet]]:
        """As ``current``; inside the block no member is moved."""
        with self._lock:
            yield {uuid: member.cpus for uuid, member in self._members.items()}

    @contextlib.contextmanager
    def steady_for(self, container: Container) -> Iterator[Mapping[str, CpuSet]]:
        """As ``steady`` if the container is a shared one. Nobody moves a dedicated one."""
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
        """What is to be done with it, None when it is where it is to be."""
        others = self._tracker.others(member.container.uuid)
        wanted = pool_of(self._tracker.topology, others, member.plan)
        if wanted == member.cpus and not member.unsure:
            return None
        given_up = (member.cpus | member.perhaps) - wanted
        if not wanted and not given_up & self._tracker.usage.held_cpus:
            return None  # the host has lost its whole pool: the member is in nobody's way where it is
        return Move(wanted, given_up)

    def _carry_out(self, member: Member, move: Move) -> None:
        """Changes nothing but this member: others may be moved meanwhile, by whoever holds the lock."""
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
                raise  # one that has only ended may be started again, also by the runtime
            del self._members[uuid]  # the runtime removes it by itself; it will not run again
            return
        except BaseException:  # a timeout, say: it may have been done, or be done any time now
            self._members[uuid] = replace(member, unsure=True, perhaps=member.perhaps | wanted)
            raise
        if given_up:
            self._members[uuid] = replace(member, unsure=True)
            self._check_left(member.container, given_up)
        self._members[uuid] = replace(member, cpus=wanted, unsure=False, perhaps=NO_CPUS)
        LOG.info("Shared container %s runs on CPUs %s instead of %s", uuid, wanted, member.cpus)

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


def _together(work: Callable[[T], None], items: Iterable[T]) -> None:
    """Do ``work`` with all of them, some at a time. After a failure, which is raised, none is begun any more."""
    left = collections.deque(items)
    threads = min(len(left), MOVED_TOGETHER)

    def some() -> None:
        while True:
            try:
                item = left.popleft()
            except IndexError:
                return
            try:
                work(item)
            except BaseException:
                left.clear()
                raise

    if threads < 2:
        some()
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="pool") as executor:
        for done in [executor.submit(some) for _ in range(threads)]:
            done.result()
