# SPDX-License-Identifier: Apache-2.0
"""Judge whether containers run where their claims say, and have the devices of these. Decisions only, no I/O.

The layers are checked from the top: the runtime's configuration, the control group, the threads, their pages. A
layer that only inherits a deviation from the layer above adds no finding: one cause, one finding.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from zun.common.units import MIB
from zun.compute.audit.last_minute import LastMinute
from zun.compute.container.observed import other_cpu
from zun.container.driver.audit import DeviceAccess, Intruder, ParentGroup, PinningView, ThreadGroup
from zun.container.driver.container import ContainerView
from zun.container.driver.hugepages import HUGE_PAGES_TARGET, HugePageView, PageStock
from zun.container.driver.inspector import inherited
from zun.container.driver.state import RuntimeState
from zun.container.weights import weight_of
from zun.placement.ledger import Differences
from zun.topology import CpuSet, amounts
from zun.topology.cpuset import NO_CPUS, union

# Percent of remote pages that are normal, because a shared page may have been filled before the container was made.
REMOTE_PERCENT = 1.0
EXAMPLES = 3  # examples that a text lists of many similar things


class Verdict(StrEnum):
    """The verdict on a container, the worst last. Each but the first two is also the code of a finding."""

    SKIPPED = "skipped"  # an operation on the container is running, or the runtime does not know the container
    OK = "ok"
    SELF_PINNED = "self-pinned"
    REMOTE_PAGES = "remote-pages"
    LEFTOVER = "leftover"
    FOREIGN = "foreign"
    CGROUP_HOLE = "cgroup-hole"
    DEVICE_LOST = "device-lost"
    DRIFTED = "drifted"
    UNREADABLE = "unreadable"


CODES = tuple(verdict for verdict in Verdict if verdict not in (Verdict.SKIPPED, Verdict.OK))
_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


class Layer(StrEnum):
    """The layer at which a finding was seen."""

    CLAIM = "claim"
    CONFIG = "config"
    LIMIT = "limit"
    CGROUP = "cgroup"
    THREAD = "thread"
    PAGES = "pages"
    DEVICE = "device"
    PARENT = "parent"
    CONTAINER = "container"
    PROCESS = "process"
    PLACEMENT = "placement"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation from the plan.

    ``detail`` describes the deviation. ``repair`` describes the effect of a repair, or the steps for the operator.
    ``repairable`` is True if one update through the runtime should remove the deviation. ``subject`` distinguishes
    findings that are equal in code, container and layer.
    """

    code: Verdict
    container: str
    name: str
    layer: Layer
    detail: str
    repair: str
    repairable: bool = False
    repaired: bool = False
    subject: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """The key of the deviation. Two audits that see the same deviation give equal keys."""
        return (self.code, self.container, self.layer, self.subject)

    def to_dict(self) -> dict[str, Any]:
        told = {name: value for name, value in asdict(self).items() if name not in ("repairable", "subject")}
        return {**told, "code": str(self.code), "layer": str(self.layer)}


@dataclass(frozen=True, slots=True)
class Planned:
    """The claim of a container: the CPUs where it may run now, and the nodes of its memory.

    ``memory`` is the limit of ordinary memory in MiB, 0 if none is promised. ``pages`` is the number of huge pages by
    memory node and size in KiB, for example ``{0: {2048: 4}}``. ``cpu`` limits the CPU time of a shared container, and
    is the weight of a mixed one; it is None for a dedicated container. ``dedicated`` are the CPUs of its own.
    """

    uuid: str
    name: str
    cpus: CpuSet
    mems: CpuSet
    memory: int = 0
    cpu: float | None = None
    pages: Mapping[int, Mapping[int, int]] = field(default_factory=dict, hash=False)
    dedicated: CpuSet = NO_CPUS

    @property
    def page_bytes(self) -> dict[int, int]:
        """Bytes in huge pages of all nodes together, by size in KiB."""
        total = Counter[int]()
        for sizes in self.pages.values():
            total.update({size: count * size * 1024 for size, count in sizes.items()})
        return dict(total)

    def found(
        self, code: Verdict, layer: Layer, detail: str, repair: str, *, repairable: bool = False, subject: str = ""
    ) -> Finding:
        return Finding(code, self.uuid, self.name, layer, detail, repair, repairable, subject=subject)

    def drifted(
        self, layer: Layer, detail: str, repair: str, *, repairable: bool = False, subject: str = ""
    ) -> Finding:
        return self.found(Verdict.DRIFTED, layer, detail, repair, repairable=repairable, subject=subject)


@dataclass(frozen=True, slots=True)
class Isolated:
    """The isolation of a dedicated container: grades ``asked`` and ``reached``, and interrupts on its CPUs.

    ``whole_cores`` tells whether the container has its cores alone; it is None if its thread policy does not ask for
    whole cores. ``interrupts`` counts device interrupts on its CPUs since the machine started. ``irqs`` are the numbers
    of the device interrupts that may arrive there. ``network_softirqs`` counts soft interrupts for packets there.
    ``stuck`` are those of ``irqs`` that the kernel did not let move, with device and reason. ``last_minute`` is what
    disturbed it since an earlier audit, None without one or without a process. ``problem`` is what is wrong with its
    partition or its part of the caches.
    """

    container: str
    name: str
    cpus: CpuSet
    asked: str
    reached: str | None
    whole_cores: bool | None
    interrupts: int
    irqs: CpuSet
    network_softirqs: int
    stuck: Mapping[int, str] = field(default_factory=dict, hash=False)
    last_minute: LastMinute | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        stuck = {str(irq): why for irq, why in self.stuck.items()}
        recent = None if self.last_minute is None else self.last_minute.to_dict()
        told = {"cpus": str(self.cpus), "irqs": str(self.irqs), "stuck": stuck, "last_minute": recent}
        return {**asdict(self), **told}


def examine(planned: Planned, state: RuntimeState, view: PinningView | None) -> tuple[Finding, ...]:
    """Return the findings on one container. ``view`` is None without a process: check only the configuration then."""
    if view is None:
        return (*_drift(planned, state, None, hole=False), *_limit(planned, state, None))
    holes = tuple(_holes(planned, view.parents))
    return (
        *holes,
        *_drift(planned, state, view, hole=bool(holes)),
        *_limit(planned, state, view),
        *_threads(planned, view),
        *_pages(planned, view.pages),
    )


def examine_pages(planned: Planned, view: HugePageView) -> Iterator[Finding]:
    """Yield the findings on the huge pages of a running container: their limits, their mount, and their nodes."""
    wanted = planned.page_bytes
    limits = {} if view.limits is None else view.limits
    wrong = {size: limit for size, limit in limits.items() if limit != wanted.get(size, 0)}
    if wrong:
        told = ", ".join(
            f"{_bytes(limit)} in pages of {size} KiB, it holds {_bytes(wanted.get(size, 0))}"
            for size, limit in sorted(wrong.items())
        )
        detail, repair = f"its control group allows {told}", "the limits are written again"
        yield planned.drifted(Layer.LIMIT, detail, repair, repairable=True, subject=f"huge pages {told}")
    size = max(wanted, default=None)
    if size is not None and view.mounted != size:
        there = "nothing" if view.mounted is None else f"pages of {view.mounted} KiB"
        detail = f"it has {there} mounted at {HUGE_PAGES_TARGET}, it holds pages of {size} KiB"
        repair = "not repaired, since mounts are made with the container: rebuild it"
        yield planned.drifted(Layer.PAGES, detail, repair, subject=HUGE_PAGES_TARGET)
    beyond = [
        f"{count} pages of {size} KiB on memory node {node}, {planned.pages.get(node, {}).get(size, 0)} are its own"
        for node, sizes in sorted((view.used or {}).items())
        for size, count in sorted(sizes.items())
        if count > planned.pages.get(node, {}).get(size, 0)
    ]
    if beyond:
        repair = (
            "not repaired, since the kernel limits huge pages of all nodes together: restart the container, and let "
            "its program take the pages of each node from a thread there"
        )
        detail, subject = f"it uses {_some(beyond)}", " ".join(beyond)
        yield planned.found(Verdict.REMOTE_PAGES, Layer.PAGES, detail, repair, subject=subject)


def unlimited_pages(host: str) -> Finding:
    """Return the finding for a host that has huge pages and whose kernel does not limit them for containers."""
    detail = (
        "the control groups of containers have no hugetlb controller, so that any container can use the huge pages "
        "that are promised to others"
    )
    repair = (
        "not repaired, since the controller is not this service's: mount it (version 1), or add hugetlb to "
        "cgroup.subtree_control of the groups above (version 2), then restart the containers"
    )
    return Finding(Verdict.CGROUP_HOLE, "", host, Layer.LIMIT, detail, repair)


def taken_pages(
    holders: Iterable[tuple[Planned, Mapping[int, Mapping[int, int]] | None]],
    stock: Mapping[int, Mapping[int, PageStock]],
) -> tuple[Finding, ...]:
    """Return a finding for each container whose huge pages are in use by others.

    ``holders`` are the containers with huge pages, each with the pages that it uses by memory node and size, None if
    the kernel does not tell: then it counts as using all. A container has a claim on the pages that it does not use
    yet; the free pages of the node must cover all of these claims.
    """
    waiting: dict[tuple[int, int], list[tuple[Planned, int]]] = {}
    for planned, used in holders:
        for node, sizes in planned.pages.items():
            for size, count in sizes.items():
                left = 0 if used is None else count - used.get(node, {}).get(size, 0)
                if left > 0:
                    waiting.setdefault((node, size), []).append((planned, left))
    found = []
    for (node, size), those in sorted(waiting.items(), key=lambda each: each[0]):
        has, wanted = stock.get(node, {}).get(size, PageStock(0, 0)), sum(left for _, left in those)
        if has.free >= wanted:
            continue
        repair = (
            "not repaired, since it is not this service's: 'grep HugetlbPages: /proc/[0-9]*/status' shows the "
            "processes that use huge pages, and 'mount -t hugetlbfs' where files may keep them; end those, or "
            f"reserve {wanted - has.free} pages more on the node"
        )
        for planned, left in those:
            detail = (
                f"of the huge pages of {size} KiB on memory node {node}, {left} are its own and not in use yet; the "
                f"node has {has.free} free for {wanted} that containers still wait for, and {has.total} in all"
            )
            subject = f"huge pages {size} {node}"
            found.append(planned.found(Verdict.FOREIGN, Layer.PAGES, detail, repair, subject=subject))
    return tuple(found)


def _bytes(amount: int | None) -> str:
    return "any amount" if amount is None else f"{amount // MIB} MiB" if amount % MIB == 0 else f"{amount} bytes"


def unreadable(planned: Planned, reason: str) -> Finding:
    """Return the finding for a container whose placement the kernel or the runtime does not tell."""
    detail, repair = f"where it runs could not be read: {reason}", "nothing can be repaired before it can be read"
    return planned.found(Verdict.UNREADABLE, Layer.KERNEL, detail, repair)


def device_lost(planned: Planned, reason: str) -> Finding:
    """Return the finding for a container that cannot be given its devices now, for ``reason``."""
    repair = (
        "not repaired: bring the device back, or select it again in [devices] device_spec, then restart the container; "
        "or delete the container. Other containers are not touched"
    )
    return planned.found(Verdict.DEVICE_LOST, Layer.DEVICE, reason, repair, subject=reason)


def crowded(planned: Planned, address: str, holders: int, most: int) -> Finding:
    """Return the finding for a container with a device that ``holders`` containers hold and ``most`` may have."""
    repair = (
        "not repaired: delete some of these containers, or let more share the device ([devices] device_spec). Nobody "
        "else gets the device before"
    )
    detail = f"{holders} containers hold device {address}, which is for {most}"
    return planned.drifted(Layer.CLAIM, detail, repair, subject=address)


def devices(planned: Planned, access: DeviceAccess) -> Iterator[Finding]:
    """Yield the findings on the devices of one container, one for each way in which ``access`` is not the claim."""
    restart = "restart the container, which gives it its devices anew"

    def found(detail: str, repair: str) -> Finding:
        return planned.drifted(Layer.DEVICE, detail, repair, subject=detail)

    if access.configured != access.wanted:
        has, needs = (_some(sorted(each)) or "none" for each in (access.configured, access.wanted))
        yield found(
            f"the runtime is configured for devices {has}, its claim needs {needs}",
            "bind the device to the driver that it had before if that was changed; else rebuild the container, since "
            "the runtime cannot change the devices of a container",
        )
    if access.missing:
        yield found(f"its file system lacks {_some(access.missing)}, or has another device there", restart)
    if access.denied:
        yield found(f"its control group refuses {_some(access.denied)}", restart)
    if access.lacking:
        yield found(
            f"its network lacks the interface of {_some(access.lacking)}",
            "look for the interface with 'ip netns' and 'lsns --type net' on the host, and move it back to the host; "
            "zun-compute moves it into the container with its next comparison",
        )
    if access.allowed:
        yield found(f"its control group gives it devices that it does not hold: {_some(access.allowed)}", restart)


def unwritten(container: ContainerView, wrong: str, repair: str, *, repairable: bool, repaired: bool) -> Finding:
    """Return the finding for a container that holds resources which its row does not say."""
    name = container.name or ""
    return Finding(
        Verdict.DRIFTED, container.uuid, name, Layer.CLAIM, wrong, repair, repairable=repairable, repaired=repaired
    )


def left_over(container: ContainerView, objects: Sequence[str]) -> Finding:
    """Return the finding for a deleted container that could not be removed completely.

    ``objects`` are the ids of the runtime's containers that are left, of the container or of a capsule's members.
    """
    left = f"of it the runtime still has {_some(objects)}" if objects else "the runtime has nothing of it any more"
    detail = (
        f"it was deleted by force and could not be removed: {left}. It keeps what it holds on the host until it is "
        "gone with its mounts"
    )
    repair = (
        "its removal is tried again with each comparison, and the log of zun-compute says why it fails: 'docker rm -f "
        "ID', or a restart of the runtime or the host, may help"
    )
    return Finding(Verdict.LEFTOVER, container.uuid, container.name or "", Layer.CONTAINER, detail, repair)


def trespasses(owners: Mapping[str, tuple[str, CpuSet]], intruders: Sequence[Intruder]) -> tuple[Finding, ...]:
    """Return one finding per dedicated container and kind of intruder. ``owners`` maps uuid to name and own CPUs."""
    found = []
    for uuid, (name, own) in owners.items():
        for kind, layer in (("container", Layer.CONTAINER), ("process", Layer.PROCESS)):
            inside = [each for each in intruders if each.kind == kind and each.cpus & own]
            if inside:
                found.append(_trespass(Planned(uuid, name, own, NO_CPUS), layer, inside))
    return tuple(found)


def _trespass(owner: Planned, layer: Layer, inside: Sequence[Intruder]) -> Finding:
    shared = union(each.cpus for each in inside) & owner.cpus
    if layer is Layer.CONTAINER:
        told = _some(f"{each.name} ({each.id}, CPUs {each.cpus})" for each in inside)
        detail = f"its dedicated CPUs {shared} are also allowed to containers that are not of this service: {told}"
        remedy = "narrow each with 'docker update --cpuset-cpus LIST ID', or remove it"
    else:
        told = _some(
            f"{each.name} of {each.id}, CPUs {each.cpus}" + (f", {each.count} alike" if each.count > 1 else "")
            for each in inside
        )
        detail = f"its dedicated CPUs {shared} are also allowed to processes of the host: {told}"
        remedy = "move each with 'taskset -apc LIST PID' or its unit's CPUAffinity= or AllowedCPUs="
    repair = f"not repaired, since it is not this service's: {remedy}"
    return owner.found(Verdict.FOREIGN, layer, detail, repair, subject=" ".join(sorted(each.id for each in inside)))


def at_placement(differences: Differences, names: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return a finding for each consumer of others on providers of this host, and for each allocation not taken."""
    found = []
    for consumer, allocations in sorted(differences.foreign.items()):
        total = sum((Counter(taken) for taken in allocations.values()), Counter[str]())
        told = ", ".join(f"{amount} {name}" for name, amount in sorted(total.items()))
        detail = f"a consumer of another service has {told} of this host's cells at Placement"
        repair = (
            "not repaired, since it is not this service's: 'openstack resource provider allocation show "
            f"{consumer}' tells its project; whoever made it deletes it"
        )
        found.append(Finding(Verdict.FOREIGN, consumer, "", Layer.PLACEMENT, detail, repair, subject=told))
    repair = "it is written again with each sweep; a foreign consumer on the same cell must go first"
    for uuid, reason in sorted(differences.refused.items()):
        detail = f"Placement does not have what the container holds: {reason}"
        found.append(Finding(Verdict.DRIFTED, uuid, names.get(uuid, ""), Layer.PLACEMENT, detail, repair))
    return tuple(found)


def verdicts(containers: Iterable[str], skipped: Iterable[str], findings: Iterable[Finding]) -> dict[str, int]:
    """Count containers by verdict. A container with several findings counts for the worst."""
    worst = dict.fromkeys(containers, Verdict.OK) | dict.fromkeys(skipped, Verdict.SKIPPED)
    for finding in findings:
        before = worst.get(finding.container)
        if before is not None and _RANK[finding.code] > _RANK[before]:
            worst[finding.container] = finding.code
    counted = Counter(str(verdict) for verdict in worst.values())
    return {"ok": 0, **counted}


def _holes(planned: Planned, parents: Sequence[ParentGroup]) -> Iterable[Finding]:
    """Yield the control groups that lack CPUs or nodes of the plan, from the top down.

    A group below inherits the lack, so each lacking CPU is reported once.
    """
    cpus, mems = planned.cpus, planned.mems
    for parent in reversed(parents):
        lacking = []
        if no_cpus := cpus - parent.cpus:
            lacking.append(f"CPUs {no_cpus}")
        if no_mems := mems - parent.mems:
            lacking.append(f"memory nodes {no_mems}")
        if lacking:
            detail = (
                f"the parent control group {parent.path} lacks {' and '.join(lacking)} of its plan (CPUs "
                f"{planned.cpus}, memory nodes {planned.mems}), so the kernel cannot give them"
            )
            repair = (
                "not repaired, since the group is not this service's: bring a CPU that is offline online again, write "
                "the full list to that group from the top down, then repair the container. It has CPUs "
                f"{parent.cpus or 'none'} and memory nodes {parent.mems or 'none'}"
            )
            subject = f"{parent.path} {no_cpus} {no_mems}"
            yield planned.found(Verdict.CGROUP_HOLE, Layer.PARENT, detail, repair, subject=subject)
        cpus, mems = cpus - no_cpus, mems - no_mems


def _drift(planned: Planned, state: RuntimeState, view: PinningView | None, *, hole: bool) -> Iterable[Finding]:
    plan = (planned.cpus, planned.mems)
    config = (CpuSet(state.cpuset_cpus), CpuSet(state.cpuset_mems))
    if config != plan:
        yield _drifted(planned, Layer.CONFIG, "the runtime is configured for", *config, repairable=not hole)
    if view is None:
        return
    group = (view.cgroup_cpus, view.cgroup_mems)
    if group not in [plan, config] and group not in (_what_parents_leave(each, view) for each in (plan, config)):
        yield _drifted(planned, Layer.CGROUP, "its control group allows", *group, repairable=not hole)


def _limit(planned: Planned, state: RuntimeState, view: PinningView | None) -> Iterable[Finding]:
    def found(limit: str, holds: str, effect: str, subject: str, *, repairable: bool = True) -> Finding:
        detail, repair = f"the runtime is configured for {limit}, {holds}", f"one update through the runtime {effect}"
        return planned.drifted(Layer.LIMIT, detail, repair, repairable=repairable, subject=subject)

    if state.memory != (planned.memory or None):
        limit = "no limit of memory" if state.memory is None else f"a limit of {state.memory} MiB"
        holds = f"{planned.memory} MiB"
        yield found(limit, f"it holds {holds}", f"sets {holds} again", limit, repairable=planned.memory > 0)
    if (planned.cpu is None or planned.dedicated) and state.cap is not None and state.cap <= len(planned.cpus):
        cap, owned = f"{amounts.text(state.cap)} CPUs", len(planned.dedicated or planned.cpus)
        limit = f"{cap} of time on its {owned} dedicated CPUs"
        yield found(limit, "of which it has all", "lifts the limit", f"at most {cap}")
    if planned.cpu is None:
        return
    # A cap of a mixed container hides its weight; without the cap the next audit sees the weight.
    if not (planned.dedicated and state.cap is not None) and other_cpu(state, planned.cpu):
        limit = "no limit or weight of CPUs"
        if state.cpu is not None:
            limit = f"a limit or weight of {amounts.text(state.cpu)} CPUs"
        holds = amounts.text(planned.cpu)
        yield found(limit, f"it holds {holds}", f"sets {holds} again", limit)
    elif state.cap is None and view is not None and view.weight is not None:
        yield from _weight(planned, planned.cpu, view.weight)


def _weight(planned: Planned, cpu: float, weight: int) -> Iterable[Finding]:
    """Yield a finding if the kernel's weight of a container is out of proportion to its CPUs, beyond rounding."""
    if abs(weight - weight_of(cpu)) > 1:
        detail = (
            f"its control group has the CPU weight {weight}, in proportion to its {amounts.text(cpu)} CPUs it is "
            f"{weight_of(cpu)}"
        )
        repair = (
            "one update through the runtime sets the weight again: the runtime was upgraded since the container "
            "started, or somebody wrote the weight"
        )
        yield planned.drifted(Layer.LIMIT, detail, repair, repairable=True, subject=f"weight {weight}")


def _what_parents_leave(sets: tuple[CpuSet, CpuSet], view: PinningView) -> tuple[CpuSet, CpuSet]:
    cpus, mems = sets
    for parent in view.parents:
        cpus, mems = cpus & parent.cpus, mems & parent.mems
    return cpus, mems


def _drifted(planned: Planned, layer: Layer, what: str, cpus: CpuSet, mems: CpuSet, *, repairable: bool) -> Finding:
    sets = f"CPUs {planned.cpus} and memory nodes {planned.mems}"
    detail = f"{what} CPUs {cpus or 'none'} and memory nodes {mems or 'none'}, the plan is {sets}"
    repair = "cannot be repaired before its parent control group has what is planned"
    if repairable:
        repair = f"one update through the runtime sets {sets} again"
    return planned.drifted(layer, detail, repair, repairable=repairable, subject=f"{cpus}/{mems}")


def self_pinned(view: PinningView) -> str | None:
    """Return in words the threads that narrowed themselves inside of their control group, or None without such."""
    narrower = _by_mask(view)[1]
    return f"{_count(narrower)}: {_told(narrower)}" if narrower else None


def _by_mask(view: PinningView) -> tuple[list[ThreadGroup], list[ThreadGroup], list[ThreadGroup]]:
    """Return the threads outside of their control group, those that narrowed themselves, and those that inherited."""
    outside, narrower, inheriting = [], [], []
    for group in view.threads:
        if not (group.cpus <= view.cgroup_cpus and group.mems <= view.cgroup_mems):
            outside.append(group)
        elif inherited(group.cpus, view.cgroup_cpus, view.engine):
            inheriting.append(group)
        elif (group.cpus, group.mems) != (view.cgroup_cpus, view.cgroup_mems):
            narrower.append(group)
    return outside, narrower, inheriting


def _threads(planned: Planned, view: PinningView) -> Iterable[Finding]:
    outside, narrower, inheriting = _by_mask(view)
    if outside:
        detail = (
            f"{_count(outside)} may run outside of its control group: {_told(outside)}; the plan is CPUs "
            f"{planned.cpus} and memory nodes {planned.mems}"
        )
        repair = "an update does not reach a thread that was moved to another control group: restart the container"
        yield planned.drifted(Layer.THREAD, detail, repair, subject=_masks(outside))
    if inheriting:
        detail = (
            f"{_count(inheriting)} may use less than CPUs {view.cgroup_cpus} of the control group, as the runtime "
            f"itself may only run on CPUs {view.engine}: {_told(inheriting)}"
        )
        repair = (
            "an update does not change what a thread inherited: let the runtime use all CPUs (CPUAffinity of its "
            "units), and restart the container"
        )
        yield planned.drifted(Layer.THREAD, detail, repair, subject=_masks(inheriting))
    if narrower:
        detail = f"{_count(narrower)} narrowed themselves inside of CPUs {view.cgroup_cpus}: {_told(narrower)}"
        repair = "nothing to repair: a program may choose among its own CPUs"
        yield planned.found(Verdict.SELF_PINNED, Layer.THREAD, detail, repair, subject=_masks(narrower))


def remote(planned: Planned, pages: Mapping[int, int]) -> dict[int, int]:
    """Return the part of ``pages`` (bytes by memory node) that is outside of the planned memory nodes."""
    return {node: size for node, size in pages.items() if size and node not in planned.mems}


def _pages(planned: Planned, pages: Mapping[int, int]) -> Iterable[Finding]:
    total = sum(pages.values())
    elsewhere = remote(planned, pages)
    away = sum(elsewhere.values())
    if not total or 100 * away < REMOTE_PERCENT * total:
        return
    where = ", ".join(f"{size // MIB} MiB on memory node {node}" for node, size in sorted(elsewhere.items()))
    nodes = CpuSet(elsewhere)
    detail = f"{100 * away / total:.0f} % of its memory is outside of memory nodes {planned.mems}: {where}"
    repair = (
        f"not repaired, since moving pages stalls the program: 'migratepages PID {nodes} {planned.mems}' moves them, a "
        "restart takes new ones"
    )
    yield planned.found(Verdict.REMOTE_PAGES, Layer.PAGES, detail, repair, subject=str(nodes))


def _count(groups: Sequence[ThreadGroup]) -> str:
    number = sum(group.count for group in groups)
    return f"{number} thread{'s' if number > 1 else ''}"


def _told(groups: Sequence[ThreadGroup]) -> str:
    return _some(
        f"{group.name} ({group.tid}){f' and {group.count - 1} more' if group.count > 1 else ''} on CPUs {group.cpus}"
        for group in groups
    )


def _masks(groups: Sequence[ThreadGroup]) -> str:
    return " ".join(sorted(f"{group.cpus}/{group.mems}" for group in groups))


def _some(words: Iterable[str]) -> str:
    """Return the first texts and the number of further ones: ``a; b; c and 2 more``."""
    told = list(words)
    more = f" and {len(told) - EXAMPLES} more" if len(told) > EXAMPLES else ""
    return "; ".join(told[:EXAMPLES]) + more
