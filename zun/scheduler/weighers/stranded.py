# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from collections.abc import Sequence

from zun.scheduler.host_table import HostState
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.weighers import HostWeigher
from zun.topology import HostTopology, Usage
from zun.topology.holes import Demand, Hole, Shape, holes, shapes, stranded, usual


class StrandedWeigher(HostWeigher):
    """Prefer hosts where a dedicated container leaves the most room for others like those the cloud has.

    Shared containers strand nothing and are left to the other weighers.
    """

    def __init__(self) -> None:
        # What was worked out of each host, for as long as its values are the same objects.
        self._known: dict[str, tuple[HostTopology, Usage, tuple[Hole, ...], Counter[Shape]]] = {}
        self._held: Counter[Shape] = Counter()

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        return self.weigh_all([host], spec)[0]

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[float]:
        """A host that probably cannot hold the request comes after all that can."""
        if not spec.dedicated:
            return [0.0] * len(hosts)
        free = [self._holes(host) for host in hosts]
        demand = self._demand(hosts, spec)
        lost = [stranded(host.topology, each, spec.placement, demand) for host, each in zip(hosts, free, strict=True)]
        worst = max((loss for loss in lost if loss is not None), default=0.0)
        return [-(worst + 1.0) if loss is None else -loss for loss in lost]

    def _holes(self, host: HostState) -> tuple[Hole, ...]:
        known = self._known.get(host.hostname)
        if known is not None:
            topology, usage, found, held = known
            if topology is host.topology and usage is host.usage:
                return found
            self._held.subtract(held)
        found, held = holes(host.topology, host.usage), shapes(host.usage)
        self._known[host.hostname] = (host.topology, host.usage, found, held)
        self._held.update(held)
        return found

    def _demand(self, hosts: Sequence[HostState], spec: RequestSpec) -> Demand:
        cpus = sum(len(host.topology.cpus) for host in hosts)
        mib = sum(host.topology.memory_mib for host in hosts)
        return usual(+self._held, spec.placement, mib / cpus if cpus and mib else 1.0)
