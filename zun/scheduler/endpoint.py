# SPDX-License-Identifier: Apache-2.0
"""RPC surface of zun-scheduler, and the work behind each message."""

import contextlib
import datetime
import logging
import random
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import oslo_messaging
from oslo_utils import timeutils

from zun.common import exceptions, hints, rpc
from zun.common.context import RequestContext, admin_context
from zun.common.groups import Group
from zun.common.mounts import mounts_of, volume_names
from zun.compute.rpcapi import ComputeAPI
from zun.db import compute_nodes, groups, volumes
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.objects import Container
from zun.objects.service import COMPUTE_BINARY
from zun.scheduler import capacity, dry_run, explain, filters, select, weighers
from zun.scheduler.columns import Columns
from zun.scheduler.host_state import Held
from zun.scheduler.host_table import HostTable
from zun.scheduler.peers import Peers
from zun.scheduler.request_spec import RequestSpec
from zun.topology import Plan

LOG = logging.getLogger(__name__)


class SchedulerEndpoint:
    """Finds hosts for containers. ``max_attempts`` bounds the hosts tried for one, ``alternates`` the spare choices.

    Each choice is drawn among the best ``host_subset_size`` hosts.
    """

    target = oslo_messaging.Target(version="1.1")

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
    ) -> None:
        self._table = table
        self._filters = host_filters
        self._weighers = host_weighers
        self._compute_api = compute_api
        self._peers = peers or Peers("")
        self._max_attempts = max_attempts
        self._alternates = alternates
        self._subset = host_subset_size
        self._draw = draw

    def create(
        self,
        context: RequestContext,
        *,
        container: Container,
        tried: Mapping[str, str] | None = None,
        passed: Sequence[str] = (),
    ) -> None:
        """Cast: find a host and hand the container over, or end it in Error with the reasons.

        ``passed`` are the schedulers that gave the request to the keeper of its best host, which this one was.
        """
        self._place(context, container, tried or {}, (), passed)

    @rpc.quick
    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None:
        """Cast to all schedulers: this one is there, or is about to stop."""
        self._peers.seen(name, leaving=leaving)

    def claim_refused(
        self,
        context: RequestContext,
        *,
        container: Container,
        host: str,
        reason: str,
        tried: Mapping[str, str],
        alternates: Sequence[Mapping[str, Any]],
    ) -> None:
        """Cast: try elsewhere, or end the container in Error once ``max_attempts`` hosts refused it."""
        tried = {**tried, host: reason}
        LOG.info("Container %s was refused by %s: %s", container.uuid, host, reason)
        self._table.unbook(container.uuid)
        if not db.is_unplaced(container.uuid):
            LOG.info("Container %s needs no host any more", container.uuid)
            return
        if len(tried) >= self._max_attempts:
            message = f"No valid host was found: {len(tried)} hosts refused. {_reasons(tried)}"
            self._fail(context, container, explain.refused_claims(RequestSpec.of(container, tried), tried, message))
        else:
            self._place(context, container, tried, alternates)

    def dry_run(self, context: RequestContext, *, container: Container, count: int) -> dict[str, Any]:
        """Call: where ``count`` containers like this one, which has no row, would go. Nothing is booked."""
        self._table.refresh()
        answer = dry_run.dry_run(
            self._table.hosts(),
            RequestSpec.of(container, group=_group(container)),
            self._filters,
            self._weighers,
            count=count,
            choices=1 + self._alternates,
        )
        return answer.to_dict()

    def capacity(
        self, context: RequestContext, *, container: Container, limit: int, seconds: float
    ) -> dict[str, Any]:
        """Call: how many more containers like this one, which has no row, would find a host.

        The counting stops at ``limit`` containers, or after ``seconds``.
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

    @rpc.quick
    def hosts_changed(self, context: RequestContext, *, changes: Sequence[Mapping[str, Any]]) -> None:
        """Cast to all schedulers: keep the host table current. Each of ``changes`` is as for ``host_changed``."""
        for change in changes:
            self.host_changed(context, **change)

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
        """One of ``hosts_changed``; a message of its own from the agents of version 1.0."""
        if failed:
            self._table.failed(host)
        if uuid is not None and not held:
            self._table.unbook(uuid)  # also where that is no news: a host may say that it did not take a container
        self._table.changed(host, generation, uuid, Held.of(held) if held else None)

    def sweep(self, lost_after: float) -> None:
        """Schedule again what was accepted and then lost: no host, and no sign of work for ``lost_after`` seconds."""
        now = timeutils.utcnow()
        for row in db.unplaced():
            touched = row["updated_at"] or row["created_at"]
            # Either way: what was touched in the future was so before somebody set the clock back.
            if abs(now - touched) < datetime.timedelta(seconds=lost_after) or self._table.is_booked(row["uuid"]):
                continue
            # The first scheduler to touch the row has it; the others see a changed updated_at.
            if db.update_if(row["uuid"], {"host": None, "updated_at": row["updated_at"]}, {}):
                LOG.warning("Container %s was accepted and lost; scheduling it again", row["uuid"])
                context = admin_context()
                # Who keeps its best host may be who loses it: one that cannot reach the database, say, still speaks.
                self._place(context, Container.from_row(context, row), {}, (), may_hand_over=False)

    def abandon(self) -> None:
        """End what waits to be deleted by no host, or by one whose compute service an administrator has removed."""
        for uuid in db.stranded(COMPUTE_BINARY):
            if db.destroy_unplaced(uuid):
                LOG.info("Container %s is deleted; its host had given it up", uuid)
                continue
            with contextlib.suppress(exceptions.ContainerNotFound):
                db.abandon(uuid)
                LOG.warning("Container %s is deleted without its host, which has no compute service any more", uuid)

    def retire(self, silent_seconds: float) -> None:
        """Remove hosts where nobody has a container and whose compute service an administrator has removed.

        One that still writes its inventory, or did so in the last ``silent_seconds``, is about to have a service again.
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
        try:
            spec = RequestSpec.of(container, tried, group=_group(container))
        except (AttributeError, TypeError, ValueError) as exc:  # a row that no version of this code wrote
            message = f"The request cannot be understood: {exc}. Delete it and create it again."
            self._fail(context, container, explain.Explanation(message, {}))
            return
        except exceptions.GroupNotFound as exc:
            self._fail(context, container, explain.Explanation(str(exc), {}))
            return
        self._table.refresh()
        if tried:
            spec = self._known_better(spec, container)
        answer, keeper = self._select_and_book(spec, alternates, passed, may_hand_over)
        if isinstance(answer, select.NoValidHost):
            for rejection in answer.rejections:
                LOG.debug("%s: %s: %s: %s", spec.uuid, rejection.hostname, rejection.filter, rejection.reason)
            said = f" Of the hosts that refused: {_reasons(tried)}" if tried else ""
            self._fail(context, container, explain.extended(answer.explanation, said))
            return
        best, spare = answer[0], answer[1:]
        try:
            if keeper is not None:
                LOG.info("Container %s goes to scheduler %s, which keeps host %s", spec.uuid, keeper, best.hostname)
                self._peers.hand_over(context, container, to=keeper, tried=tried, passed=passed)
                return
            LOG.info("Container %s goes to host %s", spec.uuid, best.hostname)
            self._compute_api.create(
                context,
                best.hostname,
                container,
                limits=best.limits,
                alternates=[{"host": choice.hostname, "limits": choice.limits} for choice in spare],
                tried=tried,
            )
        except exceptions.HostUnavailable as exc:
            # Not answered is not refused: the message may have arrived. The sweep looks again after the deadline.
            LOG.warning("Container %s could not be handed to host %s: %s", spec.uuid, best.hostname, exc)

    def _known_better(self, spec: RequestSpec, container: Container) -> RequestSpec:
        """``spec`` with what a refused claim may have been refused for, although there was room: where its volumes are,
        and where its group is. Else each of the other hosts refuses it as well, but for the one.

        What the hosts have and hold is read as well: what this scheduler has not heard of one it may not have heard of
        others, and a request is tried on few.
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
        """The hosts, best first; and which other scheduler keeps the best, so that nothing is booked here."""
        answer: list[select.Choice] | select.NoValidHost = []
        keeper: str | None = None
        generations = 0

        def choose(hosts: Columns) -> tuple[str, Held] | None:
            nonlocal answer, keeper, generations
            shares = self._peers.shares()
            # The members of a soft group look for each other everywhere.
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
        """The alternates of an earlier choice from the first one on whose plan can still be carried out."""
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

    def _fail(self, context: RequestContext, container: Container, why: explain.Explanation) -> None:
        """End the container in Error. Who sees that finds the explanation already there."""
        if db.end_unplaced(container.uuid, why.message, why.record):
            db_actions.fail(container.uuid, context.request_id, "create")
            LOG.info("Container %s has no host: %s", container.uuid, why.message)


def _reasons(tried: Mapping[str, str]) -> str:
    """Why hosts refused, each reason once and without their names, for the user."""
    # As a word: there are hosts called "one", and reasons that speak of none.
    return "; ".join(dict.fromkeys(re.sub(rf"\b{re.escape(name)}\b", "a host", why) for name, why in tried.items()))


def _group(container: Container) -> Group | None:
    """Raises GroupNotFound when it was deleted meanwhile."""
    uuid = (container.request.get("hints") or {}).get(hints.GROUP)
    return Group.of(groups.get(uuid)) if uuid else None
