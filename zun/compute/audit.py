# SPDX-License-Identifier: Apache-2.0
"""What it means when a container does not run where the ledger says: decisions only, no I/O.

The layers are looked at from the top (the runtime's configuration, the control group, the threads, their pages), and
what a layer merely takes over from the one above is not reported again: one cause, one finding.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zun.common.units import MIB
from zun.compute.reconcile import other_cpu
from zun.container.driver import ContainerView, Intruder, ParentGroup, PinningView, RuntimeState, ThreadGroup
from zun.topology import CpuSet
from zun.topology.cpuset import NO_CPUS, union

# A page or two elsewhere says nothing: the kernel may have filled a shared page before the container was made.
REMOTE_PERCENT = 1.0
EXAMPLES = 3  # of many things that are alike; an operator needs one to begin with


class Verdict(StrEnum):
    """What is said of a container. Each but the first two is also the code of a finding; the worst is last."""

    SKIPPED = "skipped"  # an operation is at work on it, or it does not exist at the runtime
    OK = "ok"
    SELF_PINNED = "self-pinned"
    REMOTE_PAGES = "remote-pages"
    LEFTOVER = "leftover"
    FOREIGN = "foreign"
    CGROUP_HOLE = "cgroup-hole"
    DRIFTED = "drifted"
    UNREADABLE = "unreadable"


CODES = tuple(verdict for verdict in Verdict if verdict not in (Verdict.SKIPPED, Verdict.OK))
_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


class Layer(StrEnum):
    """Where it was seen."""

    CLAIM = "claim"
    CONFIG = "config"
    LIMIT = "limit"
    CGROUP = "cgroup"
    THREAD = "thread"
    PAGES = "pages"
    PARENT = "parent"
    CONTAINER = "container"
    PROCESS = "process"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Planned:
    """What the ledger says of a container: the CPUs it may run on now and the nodes its memory comes from.

    ``memory`` is in MiB, 0 where none is promised. ``cpu`` limits its time on them; None where they are its own.
    """

    uuid: str
    name: str
    cpus: CpuSet
    mems: CpuSet
    memory: int = 0
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as planned.

    ``detail`` tells what is seen, ``repair`` what repairing does or who has to do what. ``repairable``: one update
    through the runtime should end it. ``subject`` distinguishes findings that are alike otherwise.
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
        """Equal for what is the same thing, seen again."""
        return (self.code, self.container, self.layer, self.subject)

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": str(self.code),
            "container": self.container,
            "name": self.name,
            "layer": str(self.layer),
            "detail": self.detail,
            "repair": self.repair,
            "repaired": self.repaired,
        }


@dataclass(frozen=True, slots=True)
class Isolated:
    """How isolated a dedicated container is: grades ``asked`` and ``reached``, and what the hardware still sends.

    ``whole_cores`` is whether it has its cores to itself, None where its thread policy does not ask for that.
    ``interrupts`` of devices came to its CPUs since the machine started; ``irqs`` are the numbers of those that may.
    """

    container: str
    name: str
    cpus: CpuSet
    asked: str
    reached: str | None
    whole_cores: bool | None
    interrupts: int
    irqs: CpuSet

    def to_dict(self) -> dict[str, Any]:
        return {
            "container": self.container,
            "name": self.name,
            "cpus": str(self.cpus),
            "asked": self.asked,
            "reached": self.reached,
            "whole_cores": self.whole_cores,
            "interrupts": self.interrupts,
            "irqs": str(self.irqs),
        }


def examine(planned: Planned, state: RuntimeState, view: PinningView | None) -> tuple[Finding, ...]:
    """What is wrong with one container. ``view`` is None while it has no process: then only its configuration is."""
    if view is None:
        return (*_drift(planned, state, None, hole=False), *_limit(planned, state))
    holes = tuple(_holes(planned, view.parents))
    return (
        *holes,
        *_drift(planned, state, view, hole=bool(holes)),
        *_limit(planned, state),
        *_threads(planned, view),
        *_pages(planned, view.pages),
    )


def unreadable(planned: Planned, reason: str) -> Finding:
    """For a container of which the kernel or the runtime does not tell: never taken for a good one."""
    return _finding(
        planned,
        Verdict.UNREADABLE,
        Layer.KERNEL,
        f"where it runs could not be read: {reason}",
        "nothing can be repaired before it can be read",
    )


def unwritten(container: ContainerView, wrong: str, repair: str, *, repairable: bool, repaired: bool) -> Finding:
    """For a container that holds what its row does not say."""
    name = container.name or ""
    return Finding(
        Verdict.DRIFTED, container.uuid, name, Layer.CLAIM, wrong, repair, repairable=repairable, repaired=repaired
    )


def left_over(container: ContainerView, objects: Sequence[str]) -> Finding:
    """For a container that was deleted and of which something is left all the same.

    ``objects`` are the ids of what the runtime has of it, or of a capsule's members.
    """
    left = f"of it the runtime still has {_some(objects)}" if objects else "the runtime has nothing of it any more"
    return Finding(
        code=Verdict.LEFTOVER,
        container=container.uuid,
        name=container.name or "",
        layer=Layer.CONTAINER,
        detail=f"it was deleted by force and could not be removed: {left}. It keeps what it holds on the host until "
        "it is gone with its mounts",
        repair="its removal is tried again with each comparison, and the log of zun-compute says why it fails: "
        "'docker rm -f ID', or a restart of the runtime or the host, may help",
    )


def trespasses(owners: Mapping[str, tuple[str, CpuSet]], intruders: Sequence[Intruder]) -> tuple[Finding, ...]:
    """One finding a dedicated container and kind of intruder. ``owners``: uuid -> name and CPUs nobody else may use."""
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
    return Finding(
        code=Verdict.FOREIGN,
        container=owner.uuid,
        name=owner.name,
        layer=layer,
        detail=detail,
        repair=f"not repaired, since it is not this service's: {remedy}",
        subject=" ".join(sorted(each.id for each in inside)),
    )


def verdicts(containers: Iterable[str], skipped: Iterable[str], findings: Iterable[Finding]) -> dict[str, int]:
    """How many containers got which verdict; one with several findings counts for the worst."""
    worst = dict.fromkeys(containers, Verdict.OK) | dict.fromkeys(skipped, Verdict.SKIPPED)
    for finding in findings:
        before = worst.get(finding.container)
        if before is not None and _RANK[finding.code] > _RANK[before]:
            worst[finding.container] = finding.code
    counted = Counter(str(verdict) for verdict in worst.values())
    return {"ok": 0, **counted}


def _holes(planned: Planned, parents: Sequence[ParentGroup]) -> Iterable[Finding]:
    """From the top down: a group below one that lacks a CPU lacks it for that reason."""
    cpus, mems = planned.cpus, planned.mems
    for parent in reversed(parents):
        lacking = []
        if no_cpus := cpus - parent.cpus:
            lacking.append(f"CPUs {no_cpus}")
        if no_mems := mems - parent.mems:
            lacking.append(f"memory nodes {no_mems}")
        if lacking:
            yield _finding(
                planned,
                Verdict.CGROUP_HOLE,
                Layer.PARENT,
                f"the parent control group {parent.path} lacks {' and '.join(lacking)} of its plan (CPUs "
                f"{planned.cpus}, memory nodes {planned.mems}), so the kernel cannot give them",
                "not repaired, since the group is not this service's: bring a CPU that is offline online again, write "
                f"the full list to that group from the top down, then repair the container. It has CPUs "
                f"{parent.cpus or 'none'} and memory nodes {parent.mems or 'none'}",
                subject=f"{parent.path} {no_cpus} {no_mems}",
            )
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


def _limit(planned: Planned, state: RuntimeState) -> Iterable[Finding]:
    if state.memory != (planned.memory or None):
        limit = "no limit of memory" if state.memory is None else f"a limit of {state.memory} MiB"
        yield _finding(
            planned,
            Verdict.DRIFTED,
            Layer.LIMIT,
            f"the runtime is configured for {limit}, it holds {planned.memory} MiB",
            f"one update through the runtime sets {planned.memory} MiB again",
            repairable=planned.memory > 0,
            subject=limit,
        )
    if planned.cpu is None and state.cap is not None and state.cap <= len(planned.cpus):
        yield _finding(
            planned,
            Verdict.DRIFTED,
            Layer.LIMIT,
            f"the runtime is configured for {state.cap:g} CPUs of time on its {len(planned.cpus)} dedicated CPUs, of "
            "which it has all",
            "one update through the runtime lifts the limit",
            repairable=True,
            subject=f"at most {state.cap:g} CPUs",
        )
    if planned.cpu is not None and other_cpu(state.cpu, planned.cpu):
        limit = "no limit or weight of CPUs" if state.cpu is None else f"a limit or weight of {state.cpu:g} CPUs"
        yield _finding(
            planned,
            Verdict.DRIFTED,
            Layer.LIMIT,
            f"the runtime is configured for {limit}, it holds {planned.cpu:g}",
            f"one update through the runtime sets {planned.cpu:g} again",
            repairable=True,
            subject=limit,
        )


def _what_parents_leave(sets: tuple[CpuSet, CpuSet], view: PinningView) -> tuple[CpuSet, CpuSet]:
    cpus, mems = sets
    for parent in view.parents:
        cpus, mems = cpus & parent.cpus, mems & parent.mems
    return cpus, mems


def _drifted(planned: Planned, layer: Layer, what: str, cpus: CpuSet, mems: CpuSet, *, repairable: bool) -> Finding:
    sets = f"CPUs {planned.cpus} and memory nodes {planned.mems}"
    return _finding(
        planned,
        Verdict.DRIFTED,
        layer,
        f"{what} CPUs {cpus or 'none'} and memory nodes {mems or 'none'}, the plan is {sets}",
        f"one update through the runtime sets {sets} again"
        if repairable
        else "cannot be repaired before its parent control group has what is planned",
        repairable=repairable,
        subject=f"{cpus}/{mems}",
    )


def _threads(planned: Planned, view: PinningView) -> Iterable[Finding]:
    outside, narrower = [], []
    for group in view.threads:
        if not (group.cpus <= view.cgroup_cpus and group.mems <= view.cgroup_mems):
            outside.append(group)
        elif (group.cpus, group.mems) != (view.cgroup_cpus, view.cgroup_mems):
            narrower.append(group)
    if outside:
        yield _finding(
            planned,
            Verdict.DRIFTED,
            Layer.THREAD,
            f"{_count(outside)} may run outside of its control group: {_told(outside)}; the plan is CPUs "
            f"{planned.cpus} and memory nodes {planned.mems}",
            "an update does not reach a thread that was moved to another control group: restart the container",
            subject=_masks(outside),
        )
    if narrower:
        yield _finding(
            planned,
            Verdict.SELF_PINNED,
            Layer.THREAD,
            f"{_count(narrower)} narrowed themselves inside of CPUs {view.cgroup_cpus}: {_told(narrower)}",
            "nothing to repair: a program may choose among its own CPUs",
            subject=_masks(narrower),
        )


def _pages(planned: Planned, pages: Mapping[int, int]) -> Iterable[Finding]:
    total = sum(pages.values())
    remote = {node: size for node, size in pages.items() if size and node not in planned.mems}
    away = sum(remote.values())
    if not total or 100 * away < REMOTE_PERCENT * total:
        return
    where = ", ".join(f"{size // MIB} MiB on node {node}" for node, size in sorted(remote.items()))
    yield _finding(
        planned,
        Verdict.REMOTE_PAGES,
        Layer.PAGES,
        f"{100 * away / total:.0f} % of its memory is outside of memory nodes {planned.mems}: {where}",
        f"not repaired, since moving pages stalls the program: 'migratepages PID {_nodes(remote)} {planned.mems}' "
        "moves them, a restart takes new ones",
        subject=_nodes(remote),
    )


def _finding(
    planned: Planned,
    code: Verdict,
    layer: Layer,
    detail: str,
    repair: str,
    *,
    repairable: bool = False,
    subject: str = "",
) -> Finding:
    return Finding(code, planned.uuid, planned.name, layer, detail, repair, repairable, subject=subject)


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


def _nodes(nodes: Iterable[int]) -> str:
    return str(CpuSet(nodes))


def _some(words: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    told = list(words)
    more = f" and {len(told) - EXAMPLES} more" if len(told) > EXAMPLES else ""
    return "; ".join(told[:EXAMPLES]) + more
