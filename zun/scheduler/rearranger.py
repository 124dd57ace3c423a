# SPDX-License-Identifier: Apache-2.0
"""Find moves within a host for requests, and have containers moved for a request that no host could hold."""

import contextlib
import functools
import heapq
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.states import Status
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import moves as db_moves
from zun.messaging.compute_api import ComputeAPI
from zun.objects import Container
from zun.scheduler import moves, select
from zun.scheduler.filters import HostFilter
from zun.scheduler.filters.cpuset import CpuSetFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.host_table import HostTable
from zun.scheduler.request_spec import RequestSpec
from zun.topology import PlacementRequest
from zun.topology.nearer import nearer
from zun.topology.rearrange import STEPS

LOG = logging.getLogger(__name__)

NEVER, SUGGEST, IN_PLACE = "never", "suggest", "in-place"
"""The values of [scheduler] rearrange."""

MOVED_FOR = "moved_for"
"""The member of a container's ``request`` that says which others were moved for it: their ``movers``, the
``request_id`` of the moves, and ``until`` when, in seconds since 1970, the container waits for them."""

DEADLINE = 45
"""Seconds that a container waits for the moves of others. Less than lost_after, so that nobody places it meanwhile."""

HOSTS, REFUSED_STEPS = 4, 200
"""For a refused request: the most hosts that are asked for moves, and the most plans on each.

No clock limits the search, so that a dry run tells of the moves that the refusal of the create tells of.
"""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits for the moves of others."""

    context: RequestContext
    request_id: str
    """The id of the request that the moves belong to."""
    movers: tuple[str, ...]
    deadline: float


class Rearranger:
    """``use`` and ``by_default`` are the options ``rearrange`` and ``move_by_default``."""

    def __init__(
        self,
        table: HostTable,
        filters: Sequence[HostFilter],
        compute_api: ComputeAPI,
        *,
        use: str = NEVER,
        by_default: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._before = [each for each in filters if not isinstance(each, CpuSetFilter)]
        self._compute_api = compute_api
        self._use, self._by_default = use, by_default
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}

    def answer(self, spec: RequestSpec, seconds: float) -> dict[str, Any]:
        """Return the answer of the RPC message ``find_moves``."""
        hosts, refused = [], []
        for host in self._table.hosts():
            why = next((why for each in self._before if (why := each.reject(host, spec)) is not None), None)
            if why is None:
                hosts.append(host)
            else:
                refused.append(f"{host.hostname}: {why}")
        found = self._cheapest(hosts, spec, STEPS, seconds) if hosts else "; ".join(refused[:3]) or "there is no host"
        if isinstance(found, str):
            return _nothing(found)
        return found.to_dict()

    def nearer(self, hostname: str | None) -> dict[str, Any]:
        """Return the answer of the RPC message ``find_moves`` for moves after which claims of a host are nearer."""
        host = None if hostname is None else self._table.host(hostname)
        if host is None:
            return _nothing("schedulers do not know the host")
        names: dict[str, str] = {}
        answer = nearer(host.topology, host.usage, self._movable_on(host.hostname, names))
        return moves.Found(host.hostname, answer.moves, answer.proven, names).to_dict()

    def helping(self, spec: RequestSpec, answer: select.NoValidHost) -> moves.Found | None:
        """Return the cheapest moves after which a refused request fits, or None: there are none, or nobody wants any.

        Few plans are made, on the hosts with the most free CPUs among those that only CpuSetFilter refused.
        """
        if self._use == NEVER:
            return None
        refusing = {each.hostname for each in answer.rejections if each.filter == CpuSetFilter.__name__}
        hosts = (host for host in self._table.hosts() if host.hostname in refusing)
        most = heapq.nlargest(HOSTS, hosts, key=lambda host: host.room.dedicated_cpus)
        found = self._cheapest(most, spec, REFUSED_STEPS, math.inf)
        return None if isinstance(found, str) or not found.moves else found

    def begin(self, context: RequestContext, container: Container, found: moves.Found) -> bool:
        """Have the containers moved, if the operator wants that. Returns whether ``container`` now waits for them.

        It is done once for a container: the freed CPUs are anybody's.
        """
        if self._use != IN_PLACE or container.request.get(MOVED_FOR) or not self._compute_api.can_act("move"):
            return False
        mark = {
            "movers": sorted(found.owners),
            "request_id": context.request_id,
            "until": timeutils.utcnow_ts(microsecond=True) + DEADLINE,
        }
        marked = {**container.request, MOVED_FOR: mark}
        if not db.update_if(container.uuid, {"host": None, "status": Status.CREATING}, {"request": marked}):
            return False
        who = {"request_id": context.request_id, "user_id": context.user_id, "project_id": container.project_id}
        accepted, why = db_moves.accept(found.records(), **who, client_address=None)
        if why is not None:
            LOG.warning(
                "Container %s: %d of %d moves are made: %s", container.uuid, len(accepted), len(found.moves), why
            )
        for row in db.of_uuids(accepted):
            with contextlib.suppress(exceptions.HostUnavailable):  # the host finds it by itself
                self._compute_api.act(context, Container.from_row(context, row), "move", {})
        if accepted:
            LOG.info("Container %s waits for moves of %d others on %s", container.uuid, len(accepted), found.hostname)
            deadline = self._clock() + DEADLINE
            self._waiting[container.uuid] = _Waiting(context, context.request_id, tuple(accepted), deadline)
        return bool(accepted)

    def waits(self, context: RequestContext, container: Container) -> bool:
        """Return whether ``container`` waits for moves that a scheduler began before it was killed.

        If so, ``ready`` returns the container when the moves have ended or its time is over.
        """
        mark = container.request.get(MOVED_FOR)
        if not isinstance(mark, Mapping):
            return False
        left = min(mark["until"] - timeutils.utcnow_ts(microsecond=True), DEADLINE)
        waiting = _Waiting(context, mark["request_id"], tuple(mark["movers"]), self._clock() + left)
        if left <= 0 or not _under_way(waiting):
            return False
        self._waiting[container.uuid] = waiting
        return True

    def ready(self) -> list[tuple[RequestContext, str]]:
        """Return the uuids of containers for which others have moved, or were to. Each is returned once."""
        found = []
        for uuid, each in list(self._waiting.items()):
            if self._clock() >= each.deadline or not _under_way(each):
                del self._waiting[uuid]
                found.append((each.context, uuid))
        return found

    def _cheapest(self, hosts: Sequence[HostState], spec: RequestSpec, steps: int, seconds: float) -> moves.Found | str:
        request = spec.placement
        if not spec.dedicated or request.mixed or request.devices or spec.isolated or request.members:
            return "moves are made only for dedicated containers without devices and without isolated CPUs"
        names: dict[str, str] = {}
        movable_on = functools.partial(self._movable_on, names=names)
        deadline = self._clock() + seconds
        expired: Callable[[], bool] = lambda: self._clock() > deadline  # noqa: E731
        return moves.cheapest(hosts, movable_on, spec.placement, names, steps=steps, expired=expired)

    def _movable_on(self, hostname: str, names: dict[str, str]) -> Mapping[str, PlacementRequest]:
        """Return the requests of the containers that may be moved on a host, and put all names there into ``names``."""
        rows = db.claims([hostname], moves.COLUMNS)
        names.update({row["uuid"]: row["name"] for row in rows})
        return moves.movable(rows, by_default=self._by_default)


def _nothing(reason: str) -> dict[str, Any]:
    """Return the answer of ``find_moves`` that there are no moves."""
    return {"host": None, "moves": [], "proven": False, "reason": reason}


def _under_way(waiting: _Waiting) -> bool:
    """Return whether a move of the request has not ended."""
    return any(
        action["action"] == "move" and action["request_id"] == waiting.request_id
        for mover in waiting.movers
        for action in db_actions.wanted(mover)
    )
