# SPDX-License-Identifier: Apache-2.0
"""The RPC endpoint of zun-scheduler: its messages, and the work behind each."""

import contextlib
import datetime
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import oslo_messaging
from oslo_utils import timeutils

from zun.common import exceptions, hints, metrics, outages
from zun.common.context import RequestContext, admin_context
from zun.common.groups import Group
from zun.common.mounts import mounts_of, volume_names
from zun.db import bounds, compute_nodes, groups, session, volumes
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db.permits import Permits
from zun.messaging import rpc
from zun.messaging.compute_api import ComputeAPI, Request
from zun.objects import Container
from zun.objects.arguments import LONGEST, misfit
from zun.objects.service import COMPUTE_BINARY
from zun.scheduler import capacity, dry_run, explain, filters, select, weighers
from zun.scheduler.batches import Batches
from zun.scheduler.columns import Columns
from zun.scheduler.departures import Departures
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.filters.retry import RetryFilter
from zun.scheduler.host_state import Held
from zun.scheduler.host_table import HostTable
from zun.scheduler.peers import Peers
from zun.scheduler.rearranger import Rearranger
from zun.scheduler.request_spec import RequestSpec
from zun.scheduler.set_placer import SetPlacer
from zun.topology import Plan

LOG = logging.getLogger(__name__)


def _refusing(arguments: Mapping[str, Any]) -> list[str]:
    """Return the host that refuses a claim. Raise TypeError if it shows no permit."""
    if not isinstance(arguments["permit"], str):
        raise TypeError("permit must be a string")
    return [arguments["host"]]


def complete(host_filters: Sequence[filters.HostFilter]) -> list[filters.HostFilter]:
    """Return the filters with those without which no request ends, unless they or derived ones are there.

    RetryFilter drops a host that has refused, else it would be asked for ever. CpuSetFilter makes the plan of a choice.
    """
    retry = [] if any(isinstance(each, RetryFilter) for each in host_filters) else [RetryFilter()]
    exact = [] if any(isinstance(each, CpuSetFilter) for each in host_filters) else [CpuSetFilter()]
    return [*retry, *host_filters, *exact]


class SchedulerEndpoint:
    """Finds hosts for containers.

    A container is tried on at most ``max_attempts`` hosts. Each choice has up to ``alternates`` further hosts, and is
    drawn among the best ``host_subset_size`` hosts.
    """

    target = oslo_messaging.Target(version="1.4")

    def __init__(
        self,
        table: HostTable,
        host_filters: Sequence[filters.HostFilter],
        host_weighers: Sequence[weighers.Weighted],
        compute_api: ComputeAPI,
        *,
        peers: Peers | None = None,
        max_attempts: int = 5,
        alternates: int = 2,
        host_subset_size: int = 1,
        draw: Callable[[int], int] = random.randrange,
        rearranger: Rearranger | None = None,
    ) -> None:
        self._table = table
        self._filters = complete(host_filters)
        self._weighers = host_weighers
        self._compute_api = compute_api
        self._peers = peers or Peers("")
        self._max_attempts = max_attempts
        self._alternates = alternates
        self._subset = host_subset_size
        self._draw = draw
        self._permits = Permits()
        self._batches = Batches(self._send, lambda request: f"Container {request['container'].uuid}")
        self._departures = Departures(compute_api, lambda context, container: self._place(context, container, {}, ()))
        self._sets = SetPlacer(
            table, self._filters, host_weighers, compute_api, self._batches, self._permits, _group
        )
        self._rearranger = rearranger or Rearranger(table, self._filters, compute_api)

    def create(
        self,
        context: RequestContext,
        *,
        container: Container,
        tried: Mapping[str, str] | None = None,
        passed: Sequence[str] = (),
    ) -> None:
        """Cast: find a host and send the container to it, or set the container to Error with the reasons.

        ``passed`` are the schedulers that handed the request on, because another scheduler kept the best host.
        """
        self._place(context, container, tried or {}, (), passed)

    def create_set(self, context: RequestContext, *, uuid: str) -> None:
        """Cast: find hosts for the waiting members of a set and send them there, or set them to Error."""
        self._sets.place(context, uuid)

    @rpc.quick
    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None:
        """Cast to all schedulers: scheduler ``name`` is running, or ``leaving``: it is about to stop."""
        self._peers.seen(name, leaving=leaving)

    @rpc.from_hosts(_refusing)
    def claim_refused(
        self,
        context: RequestContext,
        *,
        container: Container,
        host: str,
        reason: str,
        tried: Mapping[str, str],
        alternates: Sequence[Mapping[str, Any]],
        permit: str | None = None,
    ) -> None:
        """Cast: try another host, or set the container to Error once ``max_attempts`` hosts refused it.

        ``permit`` shows that a scheduler sent the container to ``host`` with these ``tried`` and ``alternates``. Agents
        of RPC version 1.1 send none. From a host with a user of RabbitMQ of its own, ``_refusing`` asks for one.
        """
        if permit is not None and not self._permits.allows_refusal(permit, host, container.uuid, [tried, alternates]):
            LOG.warning("Host %s refuses container %s, which was not sent there so", host, container.uuid)
            return
        tried = {**tried, host: reason}
        metrics.RETRIES.inc()
        LOG.info("Container %s was refused by %s: %s", container.uuid, host, reason)
        self._table.unbook(container.uuid)
        if not db.is_unplaced(container.uuid):
            LOG.info("Container %s needs no host any more", container.uuid)
            return
        # The host may say no more than that it refuses: what the next host makes is in the row.
        container = Container.from_row(context, db.get(container.uuid))
        if len(tried) >= self._max_attempts:
            message = f"No valid host was found: {len(tried)} hosts refused. {_reasons(tried)}"
            why = explain.refused_claims(RequestSpec.of(container, tried), tried, message)
            if container.set_uuid is not None:
                self._sets.give_up(context, container, message, why.record)
                return
            self._fail(context, container.uuid, why)
        else:
            self._place(context, container, tried, alternates)

    def dry_run(self, context: RequestContext, *, container: Container, count: int) -> dict[str, Any]:
        """Call: return the hosts that ``count`` containers like ``container`` would get. Book nothing.

        ``container`` has no row in the database.
        """
        self._table.refresh()
        spec = RequestSpec.of(container, group=_group(container))
        answer = dry_run.dry_run(
            self._table.hosts(), spec, self._filters, self._weighers, count=count, choices=1 + self._alternates
        )
        told = answer.to_dict()
        # With containers placed before it, the hosts of the table are not those that refused.
        moves = None if answer.refusal is None or answer.placed else self._rearranger.helping(spec, answer.refusal)
        if answer.refusal is not None and moves is not None:
            explained = explain.extended(answer.refusal.explanation, moves.told(spec.placement))
            told["refusal"] = dict(explained.record)
        return told

    def capacity(self, context: RequestContext, *, container: Container, limit: int, seconds: float) -> dict[str, Any]:
        """Call: return how many more containers like ``container`` would find a host.

        ``container`` has no row in the database. The counting stops at ``limit`` containers, or after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        self._table.refresh()
        answer = capacity.capacity(
            self._table.hosts(),
            RequestSpec.of(container, group=_group(container)),
            self._filters,
            self._weighers,
            limit=limit,
            expired=lambda: time.monotonic() > deadline,
        )
        return answer.to_dict()

    def find_moves(
        self, context: RequestContext, *, container: Container, seconds: float, near: bool = False
    ) -> dict[str, Any]:
        """Call: return the cheapest moves on one host after which a container like ``container`` fits there.

        With ``near``, moves after which the claims of the host that its request names are less remote.

        ``container`` has no row in the database; its request may name the host. No further host is asked after
        ``seconds``.
        """
        self._table.refresh()
        if near:
            return self._rearranger.nearer(container.request.get("host"))
        return self._rearranger.answer(RequestSpec.of(container, group=_group(container)), seconds)

    def find_places(
        self, context: RequestContext, *, uuids: Sequence[str], leaving: str, to: str | None = None
    ) -> dict[str, Any]:
        """Call: return the host that each of the containers would get if it left the host ``leaving``. Book nothing.

        The containers are placed one after the other, the biggest first. With ``to``, only this host counts.
        """
        self._table.refresh()
        specs: list[RequestSpec] = []
        answer: dict[str, Any] = {uuid: {"host": None, "reason": "it was deleted"} for uuid in uuids}
        for row in db.of_uuids(uuids):
            try:
                container = Container.from_row(context, row)
                spec = RequestSpec.of(container, group=_group(container))
                specs.append(replace(spec, requested_host=to or spec.requested_host))
            except bounds.MALFORMED as exc:  # the row was edited by hand
                answer[row["uuid"]] = {"host": None, "reason": f"its row cannot be read: {_problem(exc)}"}
            except exceptions.GroupNotFound as exc:
                answer[row["uuid"]] = {"host": None, "reason": str(exc)}
        found = dry_run.places(self._table.hosts(), leaving, specs, self._filters, self._weighers)
        return answer | found.to_dict()

    def place_after_moves(self) -> None:
        """Place the containers for which others were moved, once these have moved or their time is over."""
        for context, uuid in self._rearranger.ready():
            try:
                if db.is_unplaced(uuid):
                    self._table.catch_up()
                    self._place(context, Container.from_row(context, db.get(uuid)), {}, ())
            except outages.OUTAGES:  # the others would meet the same; the search for lost requests finds them
                raise
            except Exception:  # the next container is placed, whatever is wrong with this one
                LOG.exception("Container %s could not be placed after the moves of others", uuid)

    def carry_on(self) -> None:
        """Do what is next for the containers that are on their way from one host to another."""
        self._departures.look()

    @rpc.from_hosts(lambda arguments: [change["host"] for change in arguments["changes"]])
    @rpc.quick
    def hosts_changed(self, context: RequestContext, *, changes: Sequence[Mapping[str, Any]]) -> None:
        """Cast to all schedulers: update the host table. Each entry has the arguments of ``host_changed``."""
        for change in changes:
            host = change.get("host") if isinstance(change, Mapping) else None
            try:
                wrong = bounds.excess(change) or misfit(type(self).host_changed, dict(change))
                if wrong is not None:
                    raise ValueError(wrong)
                self.host_changed(context, **change)
            except bounds.MALFORMED as exc:
                LOG.warning("A change of host %.80s is left out: it cannot be read: %.200r", host, exc)
                if isinstance(host, str) and len(host) <= LONGEST:
                    self._table.outdated(host)

    @rpc.quick
    def host_changed(
        self,
        context: RequestContext,
        *,
        host: str,
        generation: int,
        uuid: str | None,
        held: Mapping[str, Any] | None,
        failed: bool = False,
    ) -> None:
        """Note one change of ``hosts_changed``. Agents of RPC version 1.0 send it as a message of its own."""
        known = Held.of(held) if held else None  # raises for a malformed one before anything is noted
        if failed:
            self._table.failed(host)
        if uuid is not None and not held:
            self._table.unbook(uuid)  # even for a known generation: a host may report that it refused a container
        self._table.changed(host, generation, uuid, known)

    def sweep(self, lost_after: float) -> None:
        """Schedule lost containers again: accepted, without a host, and not touched for ``lost_after`` seconds."""
        lost_sets: dict[str, None] = {}
        for row in db.unplaced():
            if session.touched_within(row, lost_after) or self._table.is_booked(row["uuid"]):
                continue
            if row["set_uuid"] is not None:
                lost_sets[row["set_uuid"]] = None
                continue
            # The first scheduler to touch the row schedules the container; the others see a changed updated_at.
            if db.update_if(row["uuid"], {"host": None, "updated_at": row["updated_at"]}, {}):
                LOG.warning("Container %s was accepted and lost; scheduling it again", row["uuid"])
                context = admin_context()
                # Do not hand over: the keeper of the best host may lose the container again, for example because it
                # cannot reach the database but still sends heartbeats.
                try:
                    container = Container.from_row(context, row)
                except bounds.MALFORMED as exc:
                    self._end_malformed(context, row["uuid"], exc)
                    continue
                try:
                    self._place(context, container, {}, (), may_hand_over=False)
                except outages.OUTAGES:  # the other containers would meet the same
                    raise
                except Exception:  # the next container is looked at, whatever is wrong with this one
                    LOG.exception("Container %s could not be scheduled again", row["uuid"])
        for uuid in lost_sets:
            self._sets.place_lost(uuid, lost_after)

    def abandon(self) -> None:
        """Delete containers that wait for deletion without a host, or by a host without a compute service.

        A host has no compute service after an administrator removed it.
        """
        for uuid in db.stranded(COMPUTE_BINARY):
            if db.destroy_unplaced(uuid):
                LOG.info("Container %s is deleted; its host had given it up", uuid)
                continue
            with contextlib.suppress(exceptions.ContainerNotFound):
                db.abandon(uuid)
                LOG.warning("Container %s is deleted without its host, which has no compute service any more", uuid)

    def end_lost(self, lost_seconds: float) -> None:
        """End in an error what was asked of containers without a host ``lost_seconds`` ago and will not end by itself.

        For example its host gave the container up before the message came. Hosts end what was asked of their own.
        """
        for lost in db_actions.end_lost(None, timeutils.utcnow() - datetime.timedelta(seconds=lost_seconds)):
            LOG.warning(
                "Container %s has no host: %s of request %s is ended; whoever asked for it must look",
                lost["container_uuid"],
                lost["action"],
                lost["request_id"],
            )

    def retire(self, silent_seconds: float) -> None:
        """Remove hosts without containers whose compute service an administrator has removed.

        A host that wrote its inventory in the last ``silent_seconds`` stays, because its service is about to return.
        """
        before = timeutils.utcnow() - datetime.timedelta(seconds=silent_seconds)
        for hostname in compute_nodes.deserted(COMPUTE_BINARY, before):
            if compute_nodes.destroy(hostname, before):
                LOG.info("Host %s is removed: it has neither a compute service nor containers", hostname)

    def _place(
        self,
        context: RequestContext,
        container: Container,
        tried: Mapping[str, str],
        alternates: Sequence[Mapping[str, Any]],
        passed: Sequence[str] = (),
        *,
        may_hand_over: bool = True,
    ) -> None:
        if container.set_uuid is not None:
            self._sets.place(context, container.set_uuid, tried)
            return
        try:
            spec = RequestSpec.of(container, tried, group=_group(container))
        except bounds.MALFORMED as exc:  # the row was edited by hand
            self._end_malformed(context, container.uuid, exc)
            return
        except exceptions.GroupNotFound as exc:
            self._fail(context, container.uuid, explain.Explanation(str(exc), {}))
            return
        self._table.refresh()
        if tried:
            spec = self._known_better(spec, container)
        with metrics.DECISION_SECONDS.time():
            answer, keeper = self._select_and_book(spec, alternates, passed, may_hand_over)
        if isinstance(answer, select.NoValidHost):
            if self._rearranger.waits(context, container):
                return
            moves = self._rearranger.helping(spec, answer)
            if moves is not None and self._rearranger.begin(context, container, moves):
                metrics.DECISIONS.labels("rearranged").inc()
                return
            metrics.DECISIONS.labels("refused").inc()
            for name, count in Counter(rejection.filter for rejection in answer.rejections).items():
                metrics.REJECTED_HOSTS.labels(name).inc(count)
            for rejection in answer.rejections:
                LOG.debug("%s: %s: %s: %s", spec.uuid, rejection.hostname, rejection.filter, rejection.reason)
            said = f" Of the hosts that refused: {_reasons(tried)}" if tried else ""
            if moves is not None:
                said += moves.told(spec.placement)
            self._fail(context, container.uuid, explain.extended(answer.explanation, said))
            return
        best, spare = answer[0], [{"host": choice.hostname, "limits": choice.limits} for choice in answer[1:]]
        metrics.DECISIONS.labels("placed" if keeper is None else "handed_over").inc()
        if keeper is not None:
            LOG.info("Container %s goes to scheduler %s, which keeps host %s", spec.uuid, keeper, best.hostname)
            try:
                self._peers.hand_over(context, container, to=keeper, tried=tried, passed=passed)
            except exceptions.HostUnavailable as exc:
                LOG.warning("Container %s could not be handed to scheduler %s: %s", spec.uuid, keeper, exc)
            return
        LOG.info("Container %s goes to host %s", spec.uuid, best.hostname)
        request: Request = {
            "context": context,
            "container": container,
            "limits": best.permitted(self._permits, spec.uuid, tried, spare),
            "alternates": spare,
            "tried": tried,
        }
        self._batches.put(best.hostname, [request])

    def _send(self, host: str, requests: Sequence[Request]) -> None:
        """Send the containers to the host, for which they are booked."""
        try:
            self._compute_api.create_many(host, requests)
        except exceptions.HostUnavailable as exc:
            # The message may have arrived, so this is no refusal. The sweep checks the containers after the deadline.
            for each in requests:
                LOG.warning("Container %s could not be handed to host %s: %s", each["container"].uuid, host, exc)

    def _known_better(self, spec: RequestSpec, container: Container) -> RequestSpec:
        """Return ``spec`` with the host of its volumes, and read the changes of all hosts from the database.

        A host with enough room refuses a claim if the volumes or the group of the container are on another host. Then
        every other host would refuse the claim too. Hosts are read again because an unknown change on one host makes
        unknown changes on others likely, and a request is tried on few hosts.
        """
        self._table.catch_up()
        found = volumes.hosts(container.project_id, volume_names(mounts_of(container)))
        return replace(spec, requested_host=spec.requested_host or min(found.values(), default=None))

    def _select_and_book(
        self,
        spec: RequestSpec,
        alternates: Sequence[Mapping[str, Any]],
        passed: Collection[str],
        may_hand_over: bool,
    ) -> tuple[list[select.Choice] | select.NoValidHost, str | None]:
        """Return the hosts, best first, and the other scheduler that keeps the best host, or None.

        Book the best host only if this scheduler keeps it.
        """
        answer: list[select.Choice] | select.NoValidHost = []
        keeper: str | None = None
        generations = 0

        def choose(hosts: Columns) -> tuple[str, Held] | None:
            nonlocal answer, keeper, generations
            shares = self._peers.shares()
            # A soft group prefers hosts by the members on them, so it is searched on the hosts of all schedulers.
            anywhere = len(shares.names) == 1 or (spec.group is not None and spec.group.is_soft and not passed)
            answer = self._still_good(hosts, spec, alternates) or select.select(
                hosts,
                spec,
                self._filters,
                self._weighers,
                1 + self._alternates,
                subset=self._subset,
                draw=self._draw,
                own=None if anywhere else shares.mine,
            )
            if isinstance(answer, select.NoValidHost):
                generations = hosts.generations
                return None
            best = answer[0]
            row = hosts.row(best.hostname)
            keeper = shares.other_keeper(row, passed) if may_hand_over and row is not None else None
            return None if keeper is not None else (best.hostname, best.held(spec))

        self._table.choose_and_book(spec.uuid, choose)
        if isinstance(answer, select.NoValidHost) and self._table.catch_up(generations):
            self._table.choose_and_book(spec.uuid, choose)
        return answer, keeper

    def _still_good(
        self, hosts: Columns, spec: RequestSpec, alternates: Sequence[Mapping[str, Any]]
    ) -> list[select.Choice]:
        """Return the alternates of an earlier choice, from the first one whose plan still fits."""
        spec = select.informed(spec, hosts)
        choices = [select.Choice(each["host"], each["limits"]) for each in alternates if each["host"] not in spec.tried]
        for index, choice in enumerate(choices):
            host = hosts.find(choice.hostname)
            if host is None or any(each.reject(host, spec) for each in self._filters):
                continue
            proposed = Plan.from_dict(choice.limits["cpuset"])
            if host.usage.fits(host.topology, proposed) is None:
                return choices[index:]
        return []

    def _end_malformed(self, context: RequestContext, uuid: str, exc: Exception) -> None:
        """Set a container to Error whose row cannot be read. No service writes such a row."""
        reason = _problem(exc)
        LOG.warning("Container %s gets no host: its row in the database cannot be read: %s", uuid, reason)
        message = f"The request cannot be understood: {reason}. Delete it and create it again."
        self._fail(context, uuid, explain.Explanation(message, {}))

    def _fail(self, context: RequestContext, uuid: str, why: explain.Explanation) -> None:
        """Set the container to Error, together with the explanation."""
        if db.end_unplaced(uuid, why.message, why.record):
            db_actions.fail(uuid, context.request_id, "create")
            LOG.info("Container %s has no host: %s", uuid, why.message)


def _reasons(tried: Mapping[str, str]) -> str:
    """Return the reasons of refusals for the user: each reason once, without host names."""
    # Replace whole words only: a host may be called "one", and a reason may contain "none".
    return "; ".join(dict.fromkeys(re.sub(rf"\b{re.escape(name)}\b", "a host", why) for name, why in tried.items()))


def _problem(exc: Exception) -> str:
    """Return what is wrong with a row that cannot be read, from one of ``bounds.MALFORMED``."""
    return f"{exc} is missing" if isinstance(exc, KeyError) else exceptions.first_line(exc)


def _group(container: Container) -> Group | None:
    """Return the group that the container's hint names, or None. Raise GroupNotFound if the group was deleted."""
    uuid = (container.request.get("hints") or {}).get(hints.GROUP)
    return Group.of(groups.get(uuid)) if uuid else None
