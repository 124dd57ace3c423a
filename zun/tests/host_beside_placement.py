# SPDX-License-Identifier: Apache-2.0
"""One host as the reporter of claims sees it: its rows and what its tracker holds, beside a Placement."""

from collections.abc import Collection

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import containers as db
from zun.objects import Container
from zun.objects.placement import cpuset_record
from zun.placement.client import PlacementClient
from zun.placement.enforce import Enforced
from zun.placement.reporter import Reporter
from zun.placement.tree import Disk, Provider, tree
from zun.tests.fixtures import new_container
from zun.tests.unit.topology.build import holding
from zun.topology import HostTopology, Plan, Usage

STRICT = Enforced(wait=0, go_on=False)


class HostBesidePlacement:
    """A host without an agent. ``told`` counts how often the reporter told of other services."""

    def __init__(self, context: RequestContext, host: str, machine: HostTopology, client: PlacementClient) -> None:
        self._context, self._host, self._machine, self._client = context, host, machine, client
        self.usage = Usage()
        self.told = 0

    def reporter(self, enforced: Enforced | None = None) -> Reporter:
        return Reporter(self._host, self._client, self._providers, enforced, self._tell)

    def _tell(self) -> None:
        self.told += 1

    def _providers(self, name: str, groups: Collection[str]) -> tuple[Provider, ...]:
        return tree(self._host, self._machine, self.usage, Disk(10), name=name, aggregates=groups)

    def claim(self, cpus: str) -> tuple[Container, Plan]:
        """Take ``cpus`` as the tracker does. Returns a container whose row says nothing of it, and its plan."""
        container, plan = new_container(self._context), holding(cpus, self._machine, memory_mib=64)
        self.usage = self.usage.with_claim(container.uuid, plan)
        return container, plan

    def commit(self, container: Container, plan: Plan) -> None:
        db.update(container.uuid, {"host": self._host, "cpuset": cpuset_record(plan, self._machine)})

    def hold(self, cpus: str) -> str:
        """Let a container hold ``cpus``, as its row says. Returns its uuid."""
        container, plan = self.claim(cpus)
        self.commit(container, plan)
        return str(container.uuid)

    def release(self, uuid: str) -> None:
        db.update(uuid, {"cpuset": None})
        self.usage = self.usage.without(uuid)

    def enforce(self, ledger: Reporter, cpus: str) -> str:
        """Claim ``cpus`` in mode enforce and commit them. Returns the uuid. Raises ClaimRefused."""
        container, plan = self.claim(cpus)
        try:
            with ledger.claiming(container, plan):
                self.commit(container, plan)
        except exceptions.ClaimRefused:
            self.usage = self.usage.without(container.uuid)
            raise
        return str(container.uuid)

    def enforce_many(self, ledger: Reporter, *each: str) -> list[bool]:
        """Claim CPUs for several containers at once, and commit those that Placement takes. Return which it takes."""
        claims = [self.claim(cpus) for cpus in each]
        with ledger.claiming_many(claims) as refused:
            for container, plan in claims:
                if container.uuid in refused:
                    self.usage = self.usage.without(container.uuid)
                else:
                    self.commit(container, plan)
        return [container.uuid not in refused for container, _ in claims]
