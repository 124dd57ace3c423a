# SPDX-License-Identifier: Apache-2.0
"""Keep the records of this host's containers, and give containers that the database has lost their rows back.

A record is no truth of its own: as long as a container has a row, the row counts. Without a row nothing happens to a
container by itself, except that nobody else gets its dedicated CPUs and its devices. An administrator's ``recover``
writes the row.
"""

import datetime
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.departures import uuid_of_left
from zun.common.naming import named
from zun.compute.container.operations import Operations
from zun.compute.container.reconciler import Reconciler
from zun.compute.container.runtime_objects import at_runtime
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.host.holdings import Holdings
from zun.compute.kept.records import Record, Records
from zun.compute.kept.recovery_rules import NO_RECORD, row_of, why_not
from zun.container.driver.inspector import Inspector
from zun.container.driver.state import RuntimeState
from zun.objects import Container
from zun.objects.placement import held_plan
from zun.topology import Plan
from zun.topology.usage import ClaimConflict

LOG = logging.getLogger(__name__)


class Outcome(TypedDict):
    """A container that ``recover`` found: its name if known, and the reason if not taken back."""

    uuid: str
    name: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Thread-safe. A container is taken back in its own turn."""

    _hostname: str
    _records: Records
    _tracker: ComputeNodeTracker
    _driver: Inspector
    _operations: Operations
    _holdings: Holdings
    _reconciler: Reconciler

    def keep(self, context: RequestContext, containers: Iterable[Container]) -> None:
        """Write the records of ``containers`` as their rows are now, with their ports and networks."""
        for each in containers:
            if each.host == self._hostname:
                self._records.keep_whole(context, each)

    def plans_without_row(self, context: RequestContext) -> list[Plan]:
        """Return the plans of containers that this host runs and the database does not know.

        Nobody else may have their own CPUs and their devices until the container is taken back or removed. Records of
        containers that are gone are removed on the way.
        """
        lost = self._without_row(context, self._records.uuids())
        gone = lost - self._driver.list().keys() if lost else lost
        for uuid in gone:
            self._records.drop(uuid)
        records = [record for uuid in lost - gone if (record := self._records.read(uuid)) is not None]
        plans = (held_plan(each.container) for each in records if not each.container.get("capsule_uuid"))
        return [plan for plan in plans if plan is not None]

    def ports_without_row(self, context: RequestContext) -> set[str]:
        """Return the ports of containers that this host runs and the database does not know."""
        lost = self._without_row(context, self._records.uuids())
        lost &= self._driver.list().keys() if lost else lost
        records = (self._records.read(uuid) for uuid in lost)
        return {port["uuid"] for record in records if record is not None for port in record.ports}

    def recover(self, context: RequestContext, *, dry_run: bool = False) -> list[Outcome]:
        """Write the rows of all containers that this host runs and the database does not know.

        The containers go on running. With ``dry_run`` nothing is written. Capsules come before their members.
        """
        runtime = self._driver.list()
        records = {uuid: self._records.read(uuid) for uuid in self._without_row(context, runtime)}

        def order(uuid: str) -> tuple[bool, str]:
            return ((record := records[uuid]) is not None and record.container.get("capsule_uuid") is not None, uuid)

        outcomes: list[Outcome] = []
        back: list[Container] = []
        for uuid in sorted(records, key=order):
            record = records[uuid]
            made = NO_RECORD if record is None else self._take_back(context, record, runtime[uuid], dry_run=dry_run)
            reason = made if isinstance(made, str) else None
            back += [] if isinstance(made, str) else [made]
            name = str((record.container.get("name") if record else None) or "")
            outcomes.append({"uuid": uuid, "name": name, "reason": reason})
            if reason is not None and not dry_run:
                LOG.warning("Container %s has no row: %s", uuid, reason)
        if back and not dry_run:
            self._reconciler.restore(back, runtime, {})
            self.keep(context, back)
        return outcomes

    def _without_row(self, context: RequestContext, uuids: Iterable[str]) -> set[str]:
        wanted = set(uuids)
        if not wanted:
            return wanted
        found = Container.list_by_uuids(context, wanted | {uuid_of_left(each, self._hostname) for each in wanted})
        # Of a container without a host, a conductor tells no more than that it exists.
        return wanted - {at_runtime(each).uuid if each.host == self._hostname else each.uuid for each in found}

    def _take_back(
        self, context: RequestContext, record: Record, state: RuntimeState, *, dry_run: bool
    ) -> Container | str:
        """Hold the claim of a record and write its row. Return the container, or why it has no row."""
        uuid = record.container["uuid"]
        with self._operations.undisturbed(context, uuid) as current:
            if current is not None:
                return "somebody else took it back meanwhile"
            try:
                row = row_of(record, state)
            except (TypeError, ValueError) as exc:
                return f"its record cannot be used: {exc}. If nobody needs it, remove it with 'docker rm -f'"
            if (reason := why_not(self._hostname, row, state, self._tracker.others(uuid))) is not None:
                return reason
            container = Container(context, **row)
            member_of = container.capsule_uuid
            if dry_run:
                return container
            if member_of is not None and not self._tracker.may_run(member_of):
                return f"its capsule {member_of} was not taken back. Remove it with 'docker rm -f'"
            return self._write(context, container, record)

    def _write(self, context: RequestContext, container: Container, record: Record) -> Container | str:
        uuid, plan = container.uuid, held_plan(container)
        try:
            if container.capsule_uuid is not None:
                self._tracker.admit(uuid, container.capsule_uuid)
            elif plan is not None:
                self._tracker.hold(uuid, plan, container)
            ports, networks = ([_times(each) for each in rows] for rows in (record.ports, record.networks))
            generation = container.restore(ports, networks)
        except ClaimConflict as exc:
            return f"{exc}. Delete one of the two"
        except exceptions.ZunError as exc:
            self._tracker.release(uuid)
            return str(exc)
        except BaseException:
            self._tracker.release(uuid)
            raise
        if container.capsule_uuid is None:
            self._holdings.tell(context, container, generation)
        cpus = "those of its capsule" if plan is None else plan.cpus
        LOG.info("Container %s has its row again, with CPUs %s", named(container), cpus)
        return container


def _times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a record with its times as times."""
    return {
        name: datetime.datetime.fromisoformat(value) if name.endswith("_at") and value is not None else value
        for name, value in row.items()
    }
