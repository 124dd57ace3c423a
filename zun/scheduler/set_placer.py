# SPDX-License-Identifier: Apache-2.0
"""Place the members of container sets: read the set, decide once, book, and send each host its members.

A look places whatever waits, so it is right for a new set, for members that a host refused, for lost members that were
replaced, for a member on its way from one host to another, and for a set whose scheduler was killed.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from zun.common import exceptions, metrics, outages
from zun.common.context import RequestContext, admin_context
from zun.common.departures import departed
from zun.common.groups import Group
from zun.common.sets import BY_FORCE, SetRules
from zun.common.states import Status
from zun.db import bounds, session
from zun.db import sets as db_sets
from zun.db.evacuations import TAKEN_FROM
from zun.db.permits import Permits
from zun.messaging.compute_api import ComputeAPI, Request
from zun.objects import Container
from zun.objects.placement import held_plan
from zun.scheduler import select, sets, weighers
from zun.scheduler.batches import Batches
from zun.scheduler.columns import Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import Held
from zun.scheduler.host_table import HostTable
from zun.scheduler.request_spec import RequestSpec
from zun.topology import CpuSet, Plan
from zun.topology.cpuset import NO_CPUS
from zun.topology.together import cells_used

LOG = logging.getLogger(__name__)

Row = Mapping[str, Any]


class SetPlacer:
    """Places members of sets. ``group_of`` returns the group of a container, or raises GroupNotFound."""

    def __init__(
        self,
        table: HostTable,
        filters: Sequence[HostFilter],
        weights: Sequence[weighers.Weighted],
        compute_api: ComputeAPI,
        batches: Batches[Request],
        permits: Permits,
        group_of: Callable[[Container], Group | None],
    ) -> None:
        self._table = table
        self._filters = filters
        self._weights = weights
        self._compute_api = compute_api
        self._batches = batches
        self._permits = permits
        self._group_of = group_of

    def place(self, context: RequestContext, uuid: str, tried: Mapping[str, str] | None = None) -> None:
        """Send the waiting members of the set to hosts, or set them to Error with the reason.

        No member goes to a host in ``tried``, which has the reasons of hosts that refused. Members that this scheduler
        has sent to a host, which has not answered yet, stay there.
        """
        rows = db_sets.members(uuid)
        booked = self._table.booked([row["uuid"] for row in rows])
        waiting = [row for row in rows if _waits(row) and row["uuid"] not in booked]
        if not waiting:
            return
        try:
            found = db_sets.get(uuid)
        except exceptions.ContainerSetNotFound:
            LOG.info("Set %s was deleted: its members need no host any more", uuid)
            return
        rules = SetRules.of(found["count"], {**found["rules"], "min_count": found["min_count"]})
        containers = [Container.from_row(context, row) for row in waiting]
        try:
            spec = RequestSpec.of(containers[0], tried, group=self._group_of(containers[0]))
        except exceptions.GroupNotFound as exc:
            self._fail(context, found, rows, containers, str(exc), None)
            return
        except bounds.MALFORMED as exc:  # the row was edited by hand
            message = f"The request cannot be understood: {exc!r:.200}. Delete the set and create it again."
            self._fail(context, found, rows, containers, message, None)
            return
        self._table.refresh()
        with metrics.DECISION_SECONDS.time():
            choices = self._decide(spec, rules, containers, rows)
        if len(choices) < len(containers):
            self._table.catch_up()
            choices = self._decide(spec, rules, containers, rows)
        sent = {row["uuid"] for row in waiting}
        others = [row for row in _living(rows) if row["uuid"] not in sent]
        enough = len(others) + len(choices) >= rules.min_count or not _is_one_request(waiting, others)
        if not enough:
            for container in containers:
                self._table.unbook(container.uuid)
        if len(choices) < len(containers):
            metrics.DECISIONS.labels("refused").inc()
            left = containers[len(choices) :] if enough else containers
            message, record = self._explained(spec, rules, len(choices), len(containers))
            self._fail(context, found, rows, left, message, record)
        if enough:
            self._send(context, list(zip(containers, choices, strict=False)), tried or {})

    def place_lost(self, uuid: str, lost_after: float) -> None:
        """Place the waiting members of a set again that nobody has looked at for ``lost_after`` seconds."""
        try:
            found = db_sets.get(uuid)
        except exceptions.ContainerSetNotFound:
            return  # the members are deleted by whoever deleted the set
        if session.touched_within(found, lost_after):
            return
        if db_sets.touch(uuid, found["updated_at"]):  # the first of several schedulers
            LOG.warning("Set %s has lost members; placing them again", uuid)
            try:
                self.place(admin_context(), uuid)
            except outages.OUTAGES:  # the others would meet the same
                raise
            except Exception:  # the next set is looked at, whatever is wrong with this one
                LOG.exception("Set %s could not be placed again", uuid)

    def give_up(
        self, context: RequestContext, container: Container, message: str, record: Mapping[str, Any] | None
    ) -> None:
        """Set a member that too many hosts have refused to Error, with what this means for its set."""
        try:
            found = db_sets.get(str(container.set_uuid))
        except exceptions.ContainerSetNotFound:
            return
        self._fail(context, found, db_sets.members(found["uuid"]), [container], message, record)

    def _decide(
        self, spec: RequestSpec, rules: SetRules, containers: Sequence[Container], rows: Sequence[Row]
    ) -> list[select.Choice]:
        """Return the places of the first of ``containers``, and book them."""
        choices: list[select.Choice] = []

        def choose(hosts: Columns) -> list[tuple[str, str, Held]]:
            nonlocal choices
            present = self._present(rows, {container.uuid for container in containers})
            choices = sets.place(hosts, spec, rules, len(containers), self._filters, self._weights, present)
            chosen = zip(containers, choices, strict=False)
            return [(container.uuid, choice.hostname, choice.held(spec)) for container, choice in chosen]

        self._table.choose_and_book_all([container.uuid for container in containers], choose)
        return choices

    def _present(self, rows: Sequence[Row], waiting: Collection[str]) -> sets.Present:
        """Return the members that have a place: in their rows, or booked by this scheduler."""
        others = [row for row in _living(rows) if row["uuid"] not in waiting]
        plans: list[tuple[str, Plan]] = [
            (row["host"], plan) for row in others if row["host"] is not None and (plan := held_plan(row)) is not None
        ]
        plans += [(host, held.plan) for host, held in self._table.booked([row["uuid"] for row in others]).values()]
        counts: dict[str, int] = {}
        cells: dict[str, CpuSet] = {}
        for host, plan in plans:
            counts[host] = counts.get(host, 0) + 1
            cells[host] = cells.get(host, NO_CPUS) | cells_used(plan)
        return sets.Present(counts, cells)

    def _send(
        self,
        context: RequestContext,
        placed: Sequence[tuple[Container, select.Choice]],
        tried: Mapping[str, str],
    ) -> None:
        """Send each host the members that it is to make, in one message."""
        by_host: dict[str, list[Request]] = {}
        for container, choice in placed:
            request: Request = {
                "context": context,
                "container": container,
                "limits": choice.permitted(self._permits, container.uuid, tried, []),
                "alternates": [],
                "tried": tried,
            }
            by_host.setdefault(choice.hostname, []).append(request)
        metrics.DECISIONS.labels("placed").inc(len(placed))
        for host, requests in by_host.items():
            LOG.info("%d members of set %s go to host %s", len(requests), requests[0]["container"].set_uuid, host)
            self._batches.put(host, requests)

    def _explained(
        self, spec: RequestSpec, rules: SetRules, fitting: int, wanted: int
    ) -> tuple[str, Mapping[str, Any] | None]:
        """Return the reason for the user, and the explanation of one member if none fits."""
        under = f" with {rules.told()}" if rules.told() else ""
        members = f"{wanted} member{'s' * (wanted > 1)}"
        message = f"No valid host was found: {fitting} of {members} of the set would fit{under}."
        if rules.min_count > fitting and wanted > 1:
            message += f" At least {min(rules.min_count, wanted)} must fit, else none is placed."
        if fitting:
            return f"{message} Ask for at most {fitting}, for smaller members, or for other rules.", None
        one = select.select(self._table.hosts(), spec, self._filters, self._weights, 1)
        if isinstance(one, select.NoValidHost):
            return f"{message} {one.explanation.message}", one.explanation.record
        return f"{message} Without these rules one member would fit.", None

    def _fail(
        self,
        context: RequestContext,
        found: Row,
        rows: Sequence[Row],
        left: Sequence[Container],
        message: str,
        record: Mapping[str, Any] | None,
    ) -> None:
        """Set the members that have no place to Error. If too few members are left then, give back what they hold."""
        uuids = [container.uuid for container in left]
        ended = db_sets.end_waiting(found["uuid"], uuids, message, record)
        LOG.info("%d members of set %s have no host: %s", len(ended), found["uuid"], message)
        others = [row for row in _living(rows) if row["uuid"] not in uuids]
        failed = [row for row in rows if row["uuid"] in uuids]
        if others and len(others) < found["min_count"] and _is_one_request(failed, others):
            self._give_back(context, found, others, message)

    def _give_back(self, context: RequestContext, found: Row, others: Sequence[Row], message: str) -> None:
        """End the other members of a set that has fewer places than it must have."""
        LOG.info("Set %s has too few places: its %d members are given back", found["uuid"], len(others))
        for uuid in db_sets.end_waiting(found["uuid"], [row["uuid"] for row in others], message, None):
            self._table.unbook(uuid)
        who = {
            "request_id": context.request_id,
            "user_id": context.user_id,
            "project_id": found["project_id"],
            "client_address": None,
        }
        values = {"status": Status.DELETING}
        every = list(Status)
        gone = db_sets.accept(found["uuid"], "delete", allowed=every, values=values, arguments=BY_FORCE, who=who)
        for row in gone:
            self._compute_api.look(context, row["host"], row["uuid"])


def _living(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not db_sets.is_lost(row)]


def _is_one_request(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    """Return whether all these members were created by one request, and none is on its way from another host.

    Only then they are placed together or not at all: what runs since an earlier request goes on running.
    """
    moving = any(row["request"].get(TAKEN_FROM) or departed(row["request"]) is not None for row in rows)
    return not moving and len({row["created_at"] for row in (*rows, *others)}) == 1


def _waits(row: Row) -> bool:
    """Return whether the member with this row was accepted and has no host yet."""
    return bool(row["status"] == Status.CREATING and row["host"] is None)
