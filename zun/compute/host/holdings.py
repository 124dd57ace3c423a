# SPDX-License-Identifier: Apache-2.0
"""Tell schedulers and the shared pool when containers take resources or give them back."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.departures import uuid_of_left
from zun.compute.container.record import logged
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.shared_pool import SharedPool
from zun.compute.kept.records import Records
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container
from zun.placement.ledger import Ledger
from zun.topology import Plan


@dataclass(frozen=True, slots=True)
class Holdings:
    """Tells the schedulers, Placement and the shared pool about the claims of one host's containers."""

    _hostname: str
    _tracker: ComputeNodeTracker
    _pool: SharedPool
    _scheduler_api: SchedulerAPI
    _ledger: Ledger
    _records: Records

    def claiming(self, container: Container, plan: Plan) -> AbstractContextManager[None]:
        """For the block that commits ``plan`` to the row. Raises ClaimRefused where Placement is asked and refuses."""
        return self._ledger.claiming(container, plan)

    def claiming_many(
        self, claims: Sequence[tuple[Container, Plan]]
    ) -> AbstractContextManager[Mapping[str, exceptions.ClaimRefused]]:
        """For the block that commits several claims. Yields the claims that it must not commit, by container's uuid:
        Placement was asked and refuses them.
        """
        return self._ledger.claiming_many(claims)

    def tell(self, context: RequestContext, container: Container, generation: int) -> None:
        """Tell others about the claim of a container, which is in its row since ``generation`` of the host."""
        self._ledger.note(container.uuid)
        self._records.keep(container)
        members = ("cpuset", "cpu", "memory", "disk", "volume_disk", "group_uuid", "image")
        held = {name: container[name] for name in members} if container.cpuset else None
        self._scheduler_api.host_changed(
            context, host=self._hostname, generation=generation, uuid=container.uuid, held=held
        )

    def made(self, context: RequestContext, container: Container) -> None:
        """The container exists at the runtime now: keep a record of the whole row."""
        self._records.keep_whole(context, container)

    def departed(self, context: RequestContext, uuid: str, left: Container, generation: int) -> None:
        """The container has departed for another host: what it holds here is held by what it ``left``."""
        self._tracker.pass_on(uuid, left.uuid)
        self._ledger.note(uuid)
        self._pool.leave(uuid)
        self.tell(context, left, generation)
        self._scheduler_api.host_changed(context, host=self._hostname, generation=generation, uuid=uuid, held=None)

    def returned(self, context: RequestContext, container: Container) -> None:
        """The container may have come back from its way to another host: it holds what it had left."""
        left = uuid_of_left(container.uuid, self._hostname)
        if self._tracker.usage.claim(left) is not None:
            self._tracker.pass_on(left, container.uuid)
            self._ledger.note(left)
            self.tell(context, container, self._tracker.generation)

    def released(self, context: RequestContext, uuid: str, generation: int | None, *, failed: bool = False) -> None:
        """The container holds nothing any more: count on it here, tell the schedulers, widen the shared pool.

        In this order: its row says so already, so a claim may come any moment, and the pool may wait for the runtime.
        """
        self._tracker.release(uuid)
        self._ledger.note(uuid)
        self._pool.leave(uuid)
        if generation is not None:
            self._scheduler_api.host_changed(
                context, host=self._hostname, generation=generation, uuid=uuid, held=None, failed=failed
            )
        with logged("widen the shared pool after", uuid):
            self._pool.settle()
