# SPDX-License-Identifier: Apache-2.0
"""The containers of a capsule: which come next, and what they come to together.

The capsule's own object at the runtime, made and started like any container's, keeps the network and holds the claim.
Its members join it, each on its part of that claim. Nothing here waits: a step is taken when something happened.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.log_lines import printable
from zun.common.mounts import memory_mib, mounts_of
from zun.common.naming import named
from zun.common.probes import Role, is_sidecar, probes_of
from zun.common.states import ALIVE, RUNS, Kind, Status
from zun.compute.container.device_rules import shared_out
from zun.compute.container.prober import Prober
from zun.compute.container.record import logged
from zun.compute.container.resize_rules import Resize
from zun.compute.container.runtime_objects import RuntimeObjects
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.container.driver.driver import ContainerDriver
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.placement import CONTAINERS, INITS, MEMBERS, VOLUMES, cpuset_record, held_plan
from zun.topology import HostTopology, Plan, amounts
from zun.topology.parting import beside, parted, resized_part

LOG = logging.getLogger(__name__)

ANEW = "Create the capsule anew with another template, and delete this one."

MOST_WORDS = 160
"""Characters of the last line of a log that the reason for a failure has."""

STARTS_UP = "The start-up probe of sidecar {} has not succeeded yet."

_RUNS = ALIVE | {Status.RESTARTING}


def rolled_up(statuses: Sequence[str]) -> Status:
    """Return the status of a capsule whose object runs. ``statuses`` are of its containers, without init containers and
    sidecars, none of them Error.
    """
    if any(status in _RUNS for status in statuses):
        return Status.RUNNING
    return Status.STOPPED


def of_members(
    topology: HostTopology,
    capsule: Container,
    plan: Plan,
    group: Sequence[Container],
    before: Sequence[Plan] | None = None,
) -> Sequence[Plan]:
    """Return the part of ``plan``, which the capsule holds, that each container of ``group`` gets with its devices.

    ``group`` are all containers and sidecars in order, or one init container. ``before`` are the parts of the sidecars
    that run beside the init container; None for the others.
    """
    records = (capsule.placement or {}).get(MEMBERS)
    if not records:
        return _divided(topology, plan, group, before)
    parts = zip(records, plan.parts, strict=True)
    if before is not None:
        return next(_divided(topology, part, group, before) for record, part in parts if record.get(INITS))
    found: dict[int, Plan] = {}
    for record, part in parts:
        some = [group[number] for number in record[CONTAINERS]]
        own = [part] if len(some) == 1 and not record.get(INITS) else _divided(topology, part, some)
        found |= dict(zip(record[CONTAINERS], own, strict=True))
    return [found[number] for number in range(len(group))]


def _divided(
    topology: HostTopology, plan: Plan, group: Sequence[Container], before: Sequence[Plan] | None = None
) -> Sequence[Plan]:
    """Divide ``plan`` among containers of one policy."""
    whole = plan if before is None else beside(plan, before)
    parts = parted(topology, whole, [(each.cpu, each.memory) for each in group])
    given = shared_out(plan, group) if before is None else [()] * len(group)
    return [replace(part, devices=devices) for part, devices in zip(parts, given, strict=True)]


def resized_member(
    topology: HostTopology, capsule: Container, group: Sequence[Container], member: Container, cpu: float, memory: int
) -> Plan:
    """Return a part of what the capsule holds with other amounts for ``member``, one of ``group``.

    ``group`` are all containers and sidecars in order. Raises Conflict, with what would be possible, and Invalid for
    what no container of its kind can have.
    """
    old, plan = Resize.of(member, cpu, memory, None).old, held_plan(capsule)
    if plan is None:
        raise exceptions.Conflict(f"Container {named(member)} holds no resources that could be changed.")
    claimed: Mapping[str, Any] = capsule
    mounts = mounts_of(capsule)
    if records := (capsule.placement or {}).get(MEMBERS):
        number = [each.uuid for each in group].index(member.uuid)
        claimed, plan = next(
            (record, part) for record, part in zip(records, plan.parts, strict=True) if number in record[CONTAINERS]
        )
        group = [group[each] for each in claimed[CONTAINERS]]
        mounts = [each for each in mounts if each.number in claimed.get(VOLUMES, ())]
    others = [each for each in group if each.uuid != member.uuid]
    most_cpu = amounts.exact(claimed["cpu"] - sum(each.cpu for each in others))
    most_memory = claimed["memory"] - memory_mib(mounts) - sum(each.memory for each in others)
    if cpu > most_cpu or memory > most_memory:
        raise exceptions.Conflict(
            f"Container {named(member)} can have {amounts.cpus(amounts.text(most_cpu))} and {most_memory} MiB at most: "
            "what its capsule claims, without what the containers beside it have. Make one of these smaller first, or "
            "create the capsule anew."
        )
    parts = [part for part in map(held_plan, others) if part is not None]
    try:
        part = resized_part(topology, plan, parts, old, cpu, memory)
    except ValueError as exc:  # CPUs of the claim are offline
        raise exceptions.Conflict(f"Container {named(member)} keeps its size: {exc}.") from exc
    return replace(part, devices=old.devices)


def _ended(member: Container) -> str:
    text = f"{member.name} ended with exit code {member.exit_code}"
    return f"{text}: {member.status_reason}" if member.status_reason else text


class CapsuleMembers:
    """The members of the capsules of one host. Whoever calls this works on the capsule alone."""

    def __init__(
        self,
        hostname: str,
        tracker: ComputeNodeTracker,
        driver: ContainerDriver,
        objects: RuntimeObjects,
        prober: Prober,
    ) -> None:
        self._hostname = hostname
        self._tracker = tracker
        self._driver = driver
        self._objects = objects
        self._prober = prober

    def advance(self, context: RequestContext, capsule: Container, plan: Plan) -> bool:
        """Take every step towards a running capsule that can be taken now. Returns whether it has come that far.

        If not, the capsule's ``status_reason`` says what it waits for.

        Safe to repeat. Raises CapsuleFailed when an init container failed, and what making and starting raise.
        """
        members = Container.list_by_capsule(context, capsule.uuid)
        self._part(capsule, members, plan)
        for member in members:  # in their order of starting
            if member.kind == Kind.INIT:
                if not self._has_ended(context, member):
                    capsule.status_reason = f"Init container {member.name} has not ended yet."
                    return False
                continue
            if member.status == Status.CREATING:
                self._run(context, member)
            if is_sidecar(member) and not self._has_started(member):
                capsule.status_reason = STARTS_UP.format(member.name)
                return False
        return True

    def _has_started(self, sidecar: Container) -> bool:
        """Return whether the containers after a sidecar may start. They wait for its start-up probe, if it has one."""
        if Role.STARTUP not in probes_of(sidecar.request):
            return True
        state = self._prober.seen(sidecar, self._driver.show(sidecar))
        return state is not None and state.health is not None and state.health.started

    def awaited(self, context: RequestContext, member: Container) -> str | None:
        """Return the uuid of the sidecar that must start up before a member is started. None: it need not wait.

        Nobody waits for a sidecar that somebody has stopped or paused, or that failed. A member that runs does not wait
        to be restarted.
        """
        if is_sidecar(member):
            return None
        for each in Container.list_by_capsule(context, str(member.capsule_uuid)):
            waits = is_sidecar(each) and each.request.get("run", True) and each.status in RUNS | {Status.STOPPED}
            try:
                if waits and not self._has_started(each):
                    state = self._driver.show(member)
                    return None if state is None or state.pid else each.uuid
            except exceptions.ZunError as exc:
                LOG.info("Container %s could not be asked for: %s", each.uuid, exceptions.first_line(exc))
                return None  # the start fails for the same reason
        return None

    def forget(self, context: RequestContext, capsule: Container) -> None:
        """Ask no probes of a capsule that is deleted: processes that are told to end need not answer."""
        for member in Container.list_by_capsule(context, capsule.uuid):
            self._prober.forget(member.uuid)

    def serves_nobody(self, context: RequestContext, member: Container) -> bool:
        """Return whether ``member`` is a sidecar of containers that have all ended, and are not started again.

        It serves all containers, and the sidecars that start after it. A container with a task state waits for its
        sidecars to start up.
        """
        if not is_sidecar(member):
            return False
        everybody = Container.list_by_capsule(context, str(member.capsule_uuid))
        after = list(dropwhile(lambda each: each.uuid != member.uuid, everybody))[1:]
        if any(is_sidecar(each) and each.status in _RUNS for each in after):
            return False
        served = [each for each in everybody if each.kind == Kind.MEMBER and not is_sidecar(each)]
        return bool(served) and all(each.status == Status.STOPPED and not each.task_state for each in served)

    def seen(self, context: RequestContext, capsule: Container, state: RuntimeState) -> RuntimeState:
        """``state`` of a capsule's object, which runs, with the status that its members come to, and why.

        Members that joined its network before it was started again are in a network without a way out: they join anew,
        but those that somebody has stopped.
        """
        members = [each for each in Container.list_by_capsule(context, capsule.uuid) if each.kind == Kind.MEMBER]
        served = [each for each in members if not is_sidecar(each)]
        if capsule.started_at is not None and capsule.started_at.replace(tzinfo=None) != state.started_at:
            for member in members:
                self._rejoin(member, state)
        failed = [each for each in members if each.status == Status.ERROR]
        status = Status.ERROR if failed else rolled_up([each.status for each in served])
        reasons = [f"{each.name}: {each.status_reason}" for each in failed]
        if status == Status.STOPPED:
            reasons = [_ended(each) for each in served if each.exit_code]
        return replace(state, status=status, error="; ".join(reasons) or None)

    def _rejoin(self, member: Container, capsule: RuntimeState) -> None:
        state, part = self._driver.show(member), held_plan(member)
        if state is None or state.started_at is None or capsule.started_at is None or part is None:
            return
        wished = member.request.get("run", True) and member.task_state is None  # else it waits for its sidecars
        always = wished and (member.restart_policy or {}).get("Name") == "always"
        if state.started_at < capsule.started_at and (state.pid or always):
            LOG.warning("The network of capsule %s is a new one; member %s joins it", member.capsule_uuid, member.uuid)
            try:
                self._objects.reboot(member, part, 0)
            except exceptions.PinningMismatch as exc:
                member.status, member.status_reason = Status.ERROR, str(exc)
                member.save()

    def _part(self, capsule: Container, members: Sequence[Container], plan: Plan) -> None:
        """Settle which CPUs and memory nodes each member runs on, once. Init containers come one after the other.

        Raises Conflict when CPUs of ``plan`` are not there any more.
        """
        topology = self._tracker.topology
        others = [each for each in members if each.kind == Kind.MEMBER]
        groups: list[list[Container]] = [others, *([each] for each in members if each.kind == Kind.INIT)]
        for group in groups:
            if all(each.cpuset for each in group):
                continue
            if gone := plan.cpus - topology.cpus:
                raise exceptions.Conflict(
                    f"CPUs {gone} went offline on the host while the capsule was made. Create it anew to be given "
                    "others, or ask the operator of the host to bring them online."
                )
            before = None if group is others else self._before(members, group[0])
            parts = of_members(topology, capsule, plan, group, before)
            for member, part in zip(group, parts, strict=True):
                member.cpuset = cpuset_record(part, topology)
                member.host = self._hostname
                member.save()
        for member in members:
            self._tracker.admit(member.uuid, str(member.capsule_uuid))

    @staticmethod
    def _before(members: Sequence[Container], init: Container) -> list[Plan]:
        """Return the parts of the sidecars that run when the init container does. They are in order of starting."""
        sidecars = [each for each in members[: members.index(init)] if is_sidecar(each)]
        return [part for part in map(held_plan, sidecars) if part is not None]

    def _run(self, context: RequestContext, member: Container) -> None:
        part = held_plan(member)
        assert part is not None  # it was parted
        self._objects.make(context, member, part)
        self._objects.start(member, part)
        member.save()
        LOG.info("Container %s of capsule %s is %s", member.uuid, member.capsule_uuid, member.status)

    def _has_ended(self, context: RequestContext, init: Container) -> bool:
        """Start an init container unless started. Return whether it has succeeded. Raises CapsuleFailed."""
        if init.status == Status.STOPPED and init.exit_code == 0:
            return True
        state = self._driver.show(init)
        if state is None or state.never_started:
            self._run(context, init)
            state = self._driver.show(init)
        if state is None or state.status != Status.STOPPED:  # it runs, or is started again after a failure
            return False
        init.status, init.started_at, init.finished_at = Status.STOPPED, state.started_at, state.finished_at
        init.exit_code = state.exit_code
        init.save()
        if state.exit_code != 0:
            raise exceptions.CapsuleFailed(container=init.name, code=state.exit_code, told=self._last_words(init))
        return True

    def _last_words(self, init: Container) -> str:
        """Return the end of a sentence with the last line of the log, which is deleted with the container."""
        with logged("read the log of", init.uuid):
            lines = self._driver.logs(init, tail=10).split("\n")
            if last := next(filter(None, (printable(line) for line in reversed(lines))), None):
                return f", and its log with: {last[:MOST_WORDS]}"
        return ""
