# SPDX-License-Identifier: Apache-2.0
"""What the kernel of the in-memory driver tells an audit, beyond the sets it was given: tests write it down here."""

from collections.abc import Callable
from dataclasses import dataclass, field

from zun.common.units import MIB
from zun.container.driver import Intruder, KernelView, ParentGroup, PinningView, ThreadGroup
from zun.topology import CpuSet


@dataclass(slots=True)
class AuditedKernel:
    """``narrowed``: uuid -> CPUs that one more thread chose for itself. ``pages``: uuid -> MiB by memory node.

    ``parents`` are above every container, the nearest first. ``intruders`` are told whatever they are.
    """

    narrowed: dict[str, CpuSet] = field(default_factory=dict)
    pages: dict[str, dict[int, int]] = field(default_factory=dict)
    parents: list[ParentGroup] = field(default_factory=list)
    intruders: list[Intruder] = field(default_factory=list)

    def view(self, uuid: str, pid: int, seen: KernelView) -> PinningView:
        """The container as an audit sees it; a thread that narrowed itself stays inside of its group."""
        threads = [ThreadGroup(seen.cpus, seen.mems, 1, pid, "main")]
        if uuid in self.narrowed:
            chosen = self.narrowed[uuid] & seen.cgroup_cpus
            threads.append(ThreadGroup(chosen or seen.cgroup_cpus, seen.mems, 1, pid + 1, "worker"))
        return PinningView(
            cgroup_cpus=seen.cgroup_cpus,
            cgroup_mems=seen.cgroup_mems,
            threads=tuple(threads),
            parents=tuple(self.parents),
            pages={node: size * MIB for node, size in self.pages.get(uuid, {}).items()},
        )

    def found(self, cpus: CpuSet, known: Callable[[str], bool], *, processes: bool) -> list[Intruder]:
        """Those on ``cpus``. An intruder whose id is the uuid of a known container is none."""
        return [
            each
            for each in self.intruders
            if each.cpus & cpus and (processes or each.kind == "container") and not known(each.id)
        ]
