# SPDX-License-Identifier: Apache-2.0
"""The inventory and the claims of this host. No other module hands out its CPUs and memory.

The usage lives here in memory and in the containers' rows; the rows are the truth after a restart. A claim is taken in
memory first, under the lock, so that no two threads can take the same CPU; the caller then commits it to the row.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.compute.container.claims import Claim, Resources, Wanted
from zun.compute.container.resize_rules import increase, resized
from zun.compute.kept import recovery_rules
from zun.compute.quiet.rules import Claimed
from zun.container.driver.state import RuntimeState
from zun.objects import ComputeNode, Container, allocation_ratios
from zun.objects.placement import disk_promised, held_plan, placement_request
from zun.objects.wishes import NO_WISHES, Wishes
from zun.topology import CpuSet, HostTopology, PlacementRequest, Plan, Refusal, Usage, amounts, kept_up
from zun.topology.cpuset import NO_CPUS

LOG = logging.getLogger(__name__)

_GROWTH = "+"  # behind the uuid of a container: the owner of what it takes more while it is resized


class ComputeNodeTracker:
    """One host's inventory and claims. Thread-safe; its lock is never held over I/O."""

    def __init__(self, hostname: str, *, enable_cpu_pinning: bool = True, default_disk: int = 0) -> None:
        self._hostname = hostname
        self._enable_cpu_pinning = enable_cpu_pinning
        self._default_disk = default_disk
        self._limits_disk = False
        self._lock = threading.Lock()
        self._own = self._topology = HostTopology()
        """The host with its own allocation ratios, and with those that its aggregates name in place of them."""
        self._ratios: allocation_ratios.Ratios = {}
        self._usage = Usage()
        self._disk_limit = 0.0
        self._disks: dict[str, int] = {}
        self._wishes: dict[str, Wishes] = {}
        """By uuid, as ``_disks``."""
        self._generation = 0
        self._members: dict[str, str] = {}
        self._guessed: set[str] = set()
        """Containers whose rows have lost their claims and whose claims here are a guess."""

    @property
    def topology(self) -> HostTopology:
        return self._topology

    @property
    def usage(self) -> Usage:
        return self._usage

    def others(self, uuid: str) -> Usage:
        """Return the usage without the CPUs of ``uuid`` and without those that its resize adds."""
        usage = self._usage.without(_growth(uuid))
        claim = usage.claim(uuid)
        return usage if claim is None or not claim.dedicated else usage.without(uuid)  # a shared one holds no CPUs

    @property
    def generation(self) -> int:
        """The host's generation, as far as this agent knows."""
        return self._generation

    @property
    def disk_held(self) -> int:
        """GiB that containers hold."""
        with self._lock:
            return sum(self._disks.values())

    def wishes(self, uuid: str) -> Wishes:
        """Return what a container wishes of its CPUs."""
        return self._wishes.get(uuid, NO_WISHES)

    def claimed(self) -> list[Claimed]:
        """Return the own CPUs of each container, with those that its resize adds, and what it wishes of them."""
        with self._lock:
            usage, wishes = self._usage, self._wishes
            return [
                Claimed(
                    plan.dedicated_cpus,
                    wishes.get(owner.removesuffix(_GROWTH), NO_WISHES),
                    tuple(device.address for device in plan.devices),
                    owner.removesuffix(_GROWTH),
                    plan.withheld,
                    plan.cache.ways,
                    plan.cache.bandwidth,
                )
                for owner, plan in usage
                if plan.dedicated
            ]

    @property
    def default_disk(self) -> int:
        """The disk in GiB of a container that names none: 0 if the runtime does not limit disks."""
        return self._default_disk if self._limits_disk else 0

    def update_inventory(self, context: RequestContext, topology: HostTopology, inventory: Mapping[str, Any]) -> int:
        """Take ``topology`` and ``inventory`` into account and write them to the row. Returns the host's generation.

        ``inventory`` holds the columns of the compute node besides topology and host name. In this order: whoever reads
        of more in the row may ask for it at once. The row has the allocation ratios of the host itself.
        """
        self._read_ratios(context)
        with self._lock:
            self._own, self._topology = topology, self.promised(topology)
            promised = inventory["disk_total"] * inventory["disk_allocation_ratio"]
            self._disk_limit = amounts.exact(promised - topology.foreign.disk)
            self._limits_disk = bool(inventory["disk_quota_supported"])
        generation = ComputeNode.put(context, self._hostname, {**inventory, "topology": topology.to_dict()})
        with self._lock:
            self._generation = max(self._generation, generation)
        return generation

    def promised(self, topology: HostTopology) -> HostTopology:
        """Return this host's ``topology`` with the allocation ratios that its aggregates named last."""
        return allocation_ratios.promised(topology, self._ratios)

    def _read_ratios(self, context: RequestContext) -> None:
        """Read the allocation ratios that the aggregates of the host name."""
        ratios = ComputeNode.allocation_ratios(context, self._hostname)
        with self._lock:
            self._ratios = ratios
            self._topology = self.promised(self._own)

    def keep_up(self, uuid: str) -> tuple[Plan, Plan] | None:
        """Withhold for ``uuid`` the CPUs that came online since its claim and that its cores, or its isolation, keep.

        Returns its plan before and from now on; None when they are the same, or a resize is under way.
        """
        with self._lock:
            plan = self._usage.claim(uuid)
            if plan is None or self._usage.claim(_growth(uuid)) is not None:
                return None
            new = kept_up(self._topology, self._usage, plan)
            if new is plan:
                return None
            self._usage = self._usage.without(uuid).with_claim(uuid, new)
            return plan, new

    def rebuild(self, containers: list[Container]) -> None:
        """Take the claims of ``containers`` as the whole truth: after a start.

        Two services of one host, or a hand in the database, can have given a CPU or a device twice. That keeps no
        agent from starting, and its other containers from being served.
        """
        held = _claims(containers)
        usage = Usage(held, overlapping=True)
        for cpu in usage.held_twice:
            LOG.error(
                "CPU %d belongs to containers %s: delete all but one of them. It is given to nobody else before.",
                cpu,
                ", ".join(uuid for uuid, plan in held.items() if cpu in plan.dedicated_cpus | plan.withheld),
            )
        for address, most in usage.crowded(self._topology).items():
            uuids = [uuid for uuid, plan in held.items() if any(each.address == address for each in plan.devices)]
            LOG.error(
                "Device %s is for %d container%s and %d hold it: %s. Delete some of them, or let more containers share "
                "it ([devices] device_spec). It is given to nobody else before.",
                address,
                most,
                "" if most == 1 else "s",
                len(uuids),
                ", ".join(uuids),
            )
        with self._lock:
            self._members = {each.uuid: each.capsule_uuid for each in containers if each.capsule_uuid in held}
            self._usage, self._guessed = usage, set()
            self._disks = {each.uuid: disk_promised(each) for each in containers if each.uuid in held}
            self._wishes = {each.uuid: Wishes.of(each.placement) for each in containers if each.uuid in held}

    def recover_lost(self, containers: list[Container], runtime: Mapping[str, RuntimeState]) -> dict[str, Plan]:
        """After ``rebuild``: hold what rows of ``containers`` do not say and ``runtime`` shows. Returns it by uuid."""
        lost = {}
        for container in containers:
            state = runtime.get(container.uuid)
            if state is not None and recovery_rules.is_lost(container, state):
                lost[container.uuid], why_not = self.recover(container, state)
                wrong = recovery_rules.told_of(self._hostname, state, why_not)
                LOG.error("Container %s (%s): %s. Next: %s", container.uuid, container.name, *wrong)
            elif state is None and container.cpuset is not None and held_plan(container) is None:
                LOG.error(
                    "Container %s (%s): its row does not say what it holds of host %s: cpuset cannot be read. The "
                    "runtime has nothing of it, so that it holds nothing. Next: delete it, and create it anew",
                    container.uuid,
                    container.name,
                    self._hostname,
                )
        with self._lock:
            self._members |= {each.uuid: each.capsule_uuid for each in containers if each.capsule_uuid in lost}
        return lost

    def recover(self, container: Container, state: RuntimeState) -> tuple[Plan, str | None]:
        """Hold for ``container`` the claim that its row has lost. Returns the plan, and why it is a guess if it is one.

        What it holds here already is known better than from the runtime, unless that is where it is from.
        """
        uuid = container.uuid
        with self._lock:
            held = self._usage.claim(uuid)
            if held is not None and uuid not in self._guessed:
                return held, None
            others = self._usage.without(_growth(uuid)).without(uuid)
            answer = recovery_rules.recovered(self._topology, others, container, state)
            if isinstance(answer, str):
                plan = held or recovery_rules.seen(self._topology, container, state)
                self._guessed.add(uuid)
            else:
                plan = answer
                self._guessed.discard(uuid)
            self._usage = Usage([*others, (uuid, plan)], overlapping=True)
            self._note(uuid, disk_promised(container), Wishes.of(container.placement))
        return plan, answer if isinstance(answer, str) else None

    def container_claim(
        self, container: Container, limits: Mapping[str, Any] | None = None, *, own_disk: bool = True
    ) -> Claim:
        """Claim the plan of ``limits`` for ``container``, or another plan that fits. Raises ClaimRefused.

        Without ``own_disk`` the container takes its disk from a pool, and the host's own does not count.

        Nothing is persisted: commit ``claim.plan`` with the container, or let the claim abort. Raises Conflict for a
        container that holds something here already.

        A scheduler may have heard of a change of the host's aggregates before. A message can tell anything, so they are
        read, before a claim is refused.
        """
        [claim] = self.container_claims([(container, limits or {})], own_disk=own_disk)
        if isinstance(claim, Claim):
            return claim
        raise claim

    def container_claims(
        self, asked: Sequence[tuple[Container, Mapping[str, Any]]], *, own_disk: bool = True
    ) -> list[Claim | exceptions.Conflict]:
        """Claim for several containers with their limits, one after the other, before anybody else claims.

        Returns for each the claim, or the error that ``container_claim`` raises.
        """
        requests = [
            (Wanted(each.uuid, placement_request(each), disk_promised(each), Wishes.of(each.placement)), limits)
            for each, limits in asked
        ]
        before = self._topology
        claims = self._claims(requests, own_disk)
        refused = [number for number, each in enumerate(claims) if isinstance(each, exceptions.ClaimRefused)]
        if refused:
            self._read_ratios(admin_context())
            if self._topology != before:
                again = self._claims([requests[number] for number in refused], own_disk)
                for number, claim in zip(refused, again, strict=True):
                    claims[number] = claim
        return claims

    def _claims(
        self, requests: Sequence[tuple[Wanted, Mapping[str, Any]]], own_disk: bool
    ) -> list[Claim | exceptions.Conflict]:
        claims: list[Claim | exceptions.Conflict] = []
        with self._lock:
            for wanted, limits in requests:
                try:
                    claims.append(self._claim(wanted, limits, own_disk))
                except exceptions.Conflict as exc:  # ClaimRefused is one
                    claims.append(exc)
        return claims

    def _claim(self, wanted: Wanted, limits: Mapping[str, Any], own_disk: bool) -> Claim:
        if self._usage.claim(wanted.uuid) is not None:
            raise exceptions.Conflict(f"Container {wanted.uuid} holds resources of {self._hostname} already.")
        resources = Resources(
            hostname=self._hostname,
            topology=self._topology,
            usage=self._usage,
            generation=self._generation,
            disk_limit=self._disk_limit if own_disk else None,
            disk_used=sum(self._disks.values()),
            enable_cpu_pinning=self._enable_cpu_pinning,
        )
        claim = Claim(resources, wanted, limits, self.release)
        self._usage = self._usage.with_claim(wanted.uuid, claim.plan)
        self._note(wanted.uuid, wanted.disk, wanted.wishes)
        return claim

    def _note(self, uuid: str, disk: int, wishes: Wishes) -> None:
        """Note what a container has beside its plan: its disk in GiB, and its wishes."""
        self._disks[uuid] = disk
        self._wishes[uuid] = wishes

    def resize(self, uuid: str, request: PlacementRequest, keep: CpuSet = NO_CPUS) -> Plan:
        """Plan ``request`` on the cells that ``uuid`` uses, and hold the additional part until ``hold`` is called.

        It may hold more than its row says: a CPU that has come online. The CPUs of ``keep`` are in the new plan as they
        are in the old one. Raises ClaimRefused, and Conflict when it holds nothing.
        """
        with self._lock:
            old = self._usage.claim(uuid)
            if old is None:
                raise exceptions.Conflict(f"Container {uuid} holds no resources of {self._hostname}.")
            usage = self._usage.without(_growth(uuid))  # of one that could be neither done nor undone
            if twice := usage.held_twice & (old.dedicated_cpus | old.withheld):
                raise exceptions.Conflict(
                    f"Container {uuid} cannot be resized: CPUs {twice} of {self._hostname} belong to another one as "
                    "well. Delete one of the two; the log of zun-compute named them when it started."
                )
            answer = resized(self._topology, usage.without(uuid), old, request, keep)
            if isinstance(answer, Refusal):
                raise exceptions.ClaimRefused(host=self._hostname, reason=answer.message)
            self._usage = usage.with_claim(_growth(uuid), increase(old, answer))
            return answer

    def move(self, uuid: str, new: Plan) -> None:
        """Hold ``new`` for ``uuid`` beside its claim until ``hold`` is called. Raises ClaimRefused if it is taken."""
        with self._lock:
            usage = self._usage.without(_growth(uuid))
            refusal = usage.fits(self._topology, new)
            if refusal is not None:
                raise exceptions.ClaimRefused(host=self._hostname, reason=refusal.message)
            self._usage = usage.with_claim(_growth(uuid), new)

    def hold(self, uuid: str, plan: Plan, container: Container | None = None) -> None:
        """Let ``uuid`` hold exactly ``plan`` from now on. Raises ClaimConflict when somebody else holds a CPU of it.

        ``container`` is given for one that may hold nothing yet.
        """
        with self._lock:
            usage = self._usage.without(_growth(uuid))
            self._usage = usage if usage.claim(uuid) == plan else usage.without(uuid).with_claim(uuid, plan)
            self._guessed.discard(uuid)
            if container is not None:
                self._note(uuid, disk_promised(container), Wishes.of(container.placement))

    def pass_on(self, old: str, new: str) -> None:
        """Let ``new`` hold what ``old`` holds. Nothing happens if ``old`` holds nothing."""
        with self._lock:
            plan = self._usage.claim(old)
            if plan is not None:
                self._usage = self._usage.without(_growth(old)).without(old).without(new).with_claim(new, plan)
                self._guessed.discard(old)
                self._note(new, self._disks.pop(old, 0), self._wishes.pop(old, NO_WISHES))

    def disagrees(self, uuid: str, plan: Plan | None) -> bool:
        """Return whether ``uuid`` holds anything but ``plan``. In the middle of a resize it does."""
        usage = self._usage
        return usage.claim(uuid) != plan or usage.claim(_growth(uuid)) is not None

    def disagreeing(self, containers: Iterable[Container]) -> set[str]:
        """Return the uuids of owners whose claim here is not the claim in the rows of ``containers``."""
        rows = _claims(containers)
        holders = {owner.removesuffix(_GROWTH) for owner in self._usage.owners}
        return {uuid for uuid in holders | rows.keys() if self.disagrees(uuid, rows.get(uuid))}

    def admit(self, member: str, capsule: str) -> None:
        """Note that the container ``member`` runs on the claim of ``capsule``, until the capsule is released."""
        with self._lock:
            self._members[member] = capsule

    def may_run(self, uuid: str) -> bool:
        """Return whether the container holds something of this host, or belongs to a capsule that does."""
        return self._usage.claim(self._members.get(uuid, uuid)) is not None

    def release(self, uuid: str) -> None:
        """Release the claim of ``uuid``. Doing so twice is harmless."""
        with self._lock:
            self._members = {member: capsule for member, capsule in self._members.items() if capsule != uuid}
            self._usage = self._usage.without(_growth(uuid)).without(uuid)
            self._guessed.discard(uuid)
            self._disks.pop(uuid, None)
            self._wishes.pop(uuid, None)


def _claims(containers: Iterable[Container]) -> dict[str, Plan]:
    """Return the claims in the rows by uuid. A capsule's claim stands for its members too."""
    return {each.uuid: plan for each in containers if each.capsule_uuid is None and (plan := held_plan(each))}


def _growth(uuid: str) -> str:
    """The owner of the additional CPUs and memory during the resize of a container."""
    return uuid + _GROWTH
