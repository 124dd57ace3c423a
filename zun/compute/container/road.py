# SPDX-License-Identifier: Apache-2.0
"""The one road of a container: read its row and what is wanted, decide, perform one step, ask again.

A message, an event of the runtime, the start of the service and the periodic comparison all put the container's uuid
into the queue, and nothing else. ``step`` decides; this performs.
"""

import contextlib
import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.common.departures import uuid_of_left
from zun.common.probes import is_sidecar
from zun.common.states import Kind, Status, awaits_reboot
from zun.compute.container.capsules import CapsuleMembers
from zun.compute.container.creation import Creation, Order
from zun.compute.container.departures import Departures
from zun.compute.container.lifecycle import Lifecycle
from zun.compute.container.network_attachments import NetworkAttachments
from zun.compute.container.operations import TOO_LATE, key_of, row_of
from zun.compute.container.reconciler import Reconciler
from zun.compute.container.record import event_of, recorded, unexpected
from zun.compute.container.resizer import Resizer
from zun.compute.container.step import LOOKS, Case, Do, Seen, Step, Unseen, Wanted, next_step, starts
from zun.compute.host.compute_node_tracker import ComputeNodeTracker
from zun.compute.work.queue import Instead, Lane, Move, Next, Queue
from zun.objects import Container, ContainerActionEvent
from zun.objects.base import naive
from zun.objects.placement import held_plan

LOG = logging.getLogger(__name__)

STEPS = 20
"""The most steps of one look. What needs more goes on in the next look."""

ARGUMENTS_SECONDS = 10  # within which the message of an API of the release before brings the arguments of an action
_AFTER: Mapping[Do, Mapping[str, Any]] = {
    Do.SETTLE_CLAIM: {"agrees": True},
    Do.SETTLE_NETWORKS: {"plugged": True},
    Do.START_AGAIN: {"first": False},
    Do.COMPARE: {"compared": True},
}
"""What the rest of a look takes for true after a step, even if the step failed. The next look tries the step again."""


class Road:
    """The containers of one host. ``look`` and ``beside`` are handlers of the queue."""

    def __init__(
        self,
        hostname: str,
        queue: Queue,
        tracker: ComputeNodeTracker,
        creation: Creation,
        lifecycle: Lifecycle,
        resizer: Resizer,
        departures: Departures,
        attachments: NetworkAttachments,
        reconciler: Reconciler,
        members: CapsuleMembers,
        uploading: Callable[[], set[str]],
    ) -> None:
        """``uploading`` returns uuids, among them those of the images that are on their way to Glance."""
        self._hostname = hostname
        self._queue = queue
        self._tracker = tracker
        self._creation = creation
        self._lifecycle = lifecycle
        self._attachments = attachments
        self._reconciler = reconciler
        self._members = members
        self._uploading = uploading
        self._lock = threading.Lock()
        self._proposals: dict[str, tuple[RequestContext, Callable[[], bool]]] = {}
        self._unplugged: set[str] = set()
        self._first: set[str] = set()
        self._ending: dict[str, Do] = {}  # container -> the step of it that waits for its processes now
        self._until: dict[str, float] = {}  # container -> when the processes, told to end for its deletion, are killed
        self._followers: dict[str, set[str]] = {}  # container -> those whose moves wait for its move
        self._performs: dict[Do, Callable[[RequestContext, Container, Step], object]] = {
            Do.CREATE: lambda context, each, step: creation.resume(context, each.uuid),
            Do.DELETE: self._delete,
            Do.REBUILD: lambda context, each, step: lifecycle.rebuild(context, each),
            Do.REBOOT: lambda context, each, step: lifecycle.reboot(context, each, **step.arguments),
            Do.START: lambda context, each, step: lifecycle.start(context, each),
            Do.STOP: lambda context, each, step: lifecycle.stop(context, each, **step.arguments),
            Do.PAUSE: lambda context, each, step: lifecycle.pause(context, each),
            Do.UNPAUSE: lambda context, each, step: lifecycle.unpause(context, each),
            Do.KILL: lambda context, each, step: lifecycle.kill(context, each, **step.arguments),
            Do.COMMIT: lambda context, each, step: lifecycle.commit(context, each, step.arguments["image"]),
            Do.RESIZE: lambda context, each, step: resizer.resize(context, each, **step.arguments),
            Do.MOVE: lambda context, each, step: resizer.move(context, each, step.arguments["cpuset"]),
            Do.LEAVE: lambda context, each, step: departures.leave(context, each, **step.arguments),
            Do.KEEP_STILL: lambda context, each, step: departures.keep_still(each),
            Do.ATTACH: lambda context, each, step: attachments.attach(context, each, **step.arguments),
            Do.DETACH: lambda context, each, step: attachments.detach(context, each, **step.arguments),
            Do.END: lambda context, each, step: self._end(context, each.uuid, step.action, None),
            Do.REFUSE: self._refuse,
            Do.SETTLE_NETWORKS: lambda context, each, step: attachments.settle(context, each),
            Do.RENEW: lambda context, each, step: lifecycle.renew(context, each, step.values["reason"]),
            Do.DISMISS: lambda context, each, step: lifecycle.dismiss(context, each),
            Do.GIVE_BACK: lambda context, each, step: creation.give_back(context, each.uuid),
            Do.START_AGAIN: lambda context, each, step: lifecycle.start_again(context, each),
            Do.WAKE: self._wake,
            Do.HASTEN: self._hasten,
        }
        self._settle_claim = resizer.settle

    def propose(self, orders: Sequence[Order]) -> None:
        """Have containers created here with the plans of a scheduler. Returns at once.

        The first one's turn is that of the claims of all; then each is created in its own turn.
        """
        contexts = {each.container.uuid: each.context for each in orders}
        first, *others = contexts

        def later(uuid: str, work: Callable[[], bool]) -> None:
            self._propose(contexts[uuid], uuid, work)

        def create() -> bool:
            try:
                return self._creation.create(orders, later)
            except BaseException:
                for each in others:  # nobody else knows whether their claims are committed
                    self._queue.put(key_of(each))
                raise

        self._propose(contexts[first], first, create)

    def _propose(self, context: RequestContext, uuid: str, create: Callable[[], bool]) -> None:
        """Have ``create`` run in the turn of the container. If it returns False, the container is looked at then."""
        with self._lock:
            self._proposals[uuid] = context, create
        self._queue.put(key_of(uuid))

    def look_soon(self, uuid: str, *, unplugged: bool = False, first: bool = False) -> None:
        """Have the container looked at when nobody waits for something else. Returns at once.

        ``unplugged``: somebody saw that its networks are not those of its ports. ``first``: since the service started.
        """
        with self._lock:
            self._unplugged |= {uuid} if unplugged else set()
            self._first |= {uuid} if first else set()
        self._queue.put(key_of(uuid), Lane.LOOK)

    def look(self, uuid: str) -> Next | None:
        """Do what is next for the container, step by step, until nothing is."""
        context = admin_context()
        context.update_store()
        lane = self._queue.lane_of(key_of(uuid)) or Lane.OPERATION
        with self._lock:
            proposal = None if lane is Lane.LOOK else self._proposals.pop(uuid, None)
        if proposal is not None:
            asked, create = proposal
            asked.update_store()  # log lines of this thread bear the request's id
            if create():
                return None  # what was accepted meanwhile, and what the runtime did, has put it into the queue again
        row = row_of(context, uuid)
        if row is not None and row.capsule_uuid is not None:
            return Instead(key_of(row.capsule_uuid))
        later: Next | None = None
        if row is not None and row.kind == Kind.CAPSULE and row.status != Status.DELETING:
            members = Container.list_by_capsule(context, uuid)
            served = [each for each in members if not is_sidecar(each)]
            for member in [*served, *filter(is_sidecar, reversed(members))]:  # sidecars end after those they serve
                later = self._go(context, member.uuid, member, lane) or later
            row = row_of(context, uuid)
        try:
            return self._go(context, uuid, row, lane) or later
        finally:
            self._wake_followers(uuid)

    def beside(self, uuid: str) -> None:
        """Do what makes a stop end sooner, while the stop waits for processes: of the container, or of a member."""
        for each in self._family(admin_context(), uuid):
            self._beside(each)

    def _family(self, context: RequestContext, uuid: str) -> list[str]:
        """Return the uuids that have one turn: of the members of a capsule and the capsule, or of one container."""
        row = row_of(context, uuid)
        capsule = row is not None and row.kind == Kind.CAPSULE
        return [*(each.uuid for each in Container.list_by_capsule(context, uuid)), uuid] if capsule else [uuid]

    def _beside(self, uuid: str) -> None:
        context, before = admin_context(), None
        for _ in range(STEPS):
            row = self._mine(row_of(context, uuid))
            if row is None:
                return
            with self._lock:
                ending = self._ending.get(uuid) is Do.DELETE or uuid in self._until
            step = next_step(Case(row, self._wanted(context, uuid), stopping=True, ending=ending))
            if step.do is Do.NOTHING or step == before:
                return
            context = self._context_of(step)
            if step.do is Do.KILL:
                self._lifecycle.kill_beside(context, row, **step.arguments)
            else:
                self._performs[step.do](context, row, step)
            before = step

    def gave_up(self, uuid: str, error: BaseException) -> None:
        """End what is wanted first of a container that failed again and again, with the reason in its row.

        Of a capsule, what is wanted first of a member comes before.
        """
        context, reason = admin_context(), unexpected(error)
        wanting = (each for each in self._family(context, uuid) if self._wanted(context, each))
        failed = next(wanting, uuid)
        row = self._mine(row_of(context, failed))
        if row is None:
            return
        for each in self._wanted(context, failed)[:1]:
            self._end(context, failed, each, reason)
        row.status_reason, row.task_state = reason, None
        if row.status == Status.REBUILDING:  # which nothing else ends
            row.status = Status.ERROR
        row.save()
        self._wake_followers(uuid)

    def _wake_followers(self, uuid: str) -> None:
        """Have the containers looked at whose moves wait for the move of this one."""
        with self._lock:
            followers = self._followers.pop(uuid, ())
        for each in followers:
            self._queue.put(key_of(each))

    def _go(self, context: RequestContext, uuid: str, row: Container | None, lane: Lane) -> Next | None:
        """Perform the steps that are next. ``row`` is the container's row as it was read just now."""
        with self._lock:
            known: dict[str, Any] = {"plugged": uuid not in self._unplugged, "first": uuid in self._first}
        before: Step | None = None
        for _ in range(STEPS):
            case = self._case(context, uuid, row, known)
            step = next_step(case)
            if step.do in (Do.END, Do.REFUSE):  # the row may be older than the action and its status
                row = row_of(context, uuid)
                case = self._case(context, uuid, row, known)
                step = next_step(case)
            if step.do is Do.ASK and row is not None:
                case = replace(case, seen=self._ask(context, row))
                step = next_step(case)
            if step.do is Do.NOTHING or step == before:  # what changed nothing is not repeated at once
                self._forget(uuid, self._first)
                return None
            if lane is Lane.LOOK and step.do not in LOOKS:
                return Move(Lane.OPERATION)
            if lane is not Lane.LONG and step.long:
                return Move(Lane.LONG)
            if step.do is Do.SETTLE_NETWORKS:
                self._forget(uuid, self._unplugged)  # what somebody sees from now on counts again
            self._perform(uuid, row, step, case)
            known |= _AFTER.get(step.do, {})
            if step.action is not None and step.do not in (Do.END, Do.REFUSE) and len(case.wanted) == 1:
                return None  # whatever was accepted meanwhile has put it into the queue again
            before, row = step, row_of(context, uuid)
        return None

    def _forget(self, uuid: str, those: set[str]) -> None:
        with self._lock:
            those.discard(uuid)

    def _case(self, context: RequestContext, uuid: str, row: Container | None, known: Mapping[str, Any]) -> Case:
        mine = self._mine(row)
        wanted = () if mine is None else self._wanted(context, uuid)
        if row is not None and row.capsule_uuid is not None:  # what it holds is its capsule's
            capsule = row_of(context, row.capsule_uuid) if wanted else None
            leaves = capsule is not None and capsule.status == Status.DELETING  # and everything of it, wanted or not
            if mine is None or leaves:
                return Case(None, wanted, **known)
            over = self._members.serves_nobody(context, mine)
            awaits = self._members.awaited(context, mine) if starts(mine, wanted) else None
            return Case(mine, wanted, over=over, awaits=awaits, **known)
        agrees = not self._tracker.disagrees(uuid, None if mine is None else held_plan(mine))
        back = mine is not None and self._tracker.usage.claim(uuid_of_left(uuid, self._hostname)) is not None
        return Case(mine, wanted, back=back, **{"agrees": agrees, **known})

    def _mine(self, row: Container | None) -> Container | None:
        return row if row is not None and row.host == self._hostname else None

    def _wanted(self, context: RequestContext, uuid: str) -> tuple[Wanted, ...]:
        """Return what is wanted of the container now.

        Without an action whose arguments are yet to come with the message of an API of the release before, without a
        commit whose image is on its way, and without a move that others of its request must come before.
        """
        found = ContainerActionEvent.wanted(context, uuid)
        early = naive(timeutils.utcnow()) - datetime.timedelta(seconds=ARGUMENTS_SECONDS)
        here = [
            each
            for each in found
            if (not each["bare"] or each["action"] == "create" or naive(each["start_time"]) < early)
            and not self._follows(context, uuid, each)
        ]
        uploading = self._uploading() if here else set()
        return tuple(Wanted.of(each) for each in here if each["arguments"].get("image") not in uploading)

    def _follows(self, context: RequestContext, uuid: str, action: Mapping[str, Any]) -> bool:
        """Return whether the action is a move that waits for the moves of other containers. If so, look again then."""
        for first in action["arguments"].get("after") or ():
            with self._lock:  # before the question: else the end of that move could be missed
                self._followers.setdefault(first, set()).add(uuid)
            open_moves = (each for each in ContainerActionEvent.wanted(context, first) if each["action"] == "move")
            if any(each["request_id"] == action["request_id"] for each in open_moves):
                return True
        return False

    def _ask(self, context: RequestContext, row: Container) -> Seen:
        try:
            return self._reconciler.seen(context, row)
        except exceptions.ZunError as exc:
            LOG.warning("Container %s could not be looked at: %s", row.uuid, exceptions.first_line(exc))
            return Unseen.AWAY

    def _perform(self, uuid: str, row: Container | None, step: Step, case: Case) -> None:
        context = self._context_of(step)
        if step.do is Do.SETTLE_CLAIM:
            self._settle_claim(context, uuid)
            return
        assert row is not None  # without a row nothing else is next
        if step.do is Do.COMPARE:
            assert not isinstance(case.seen, Unseen)
            self._reconciler.compare(context, row, case.seen, step.values)
            return
        LOG.debug("Container %s: %s", uuid, step.do)
        if not step.waits:
            self._performs[step.do](context, row, step)
            return
        turn = row.capsule_uuid or uuid
        with self._ends(uuid, step.do), self._queue.waiting(key_of(turn)):
            others = [each for each in self._family(context, turn) if each != uuid]
            if len(case.wanted) > 1 or any(self._wanted(context, each) for each in others):
                self._queue.put(key_of(turn))  # what is wanted already may end the step sooner
            self._performs[step.do](context, row, step)

    def _delete(self, context: RequestContext, container: Container, step: Step) -> None:
        """Delete it. What was accepted is deleted, whatever the runtime says, if nothing says how."""
        if container.kind == Kind.CAPSULE:
            self._members.forget(context, container)
        how = dict(step.arguments or {"force": True})
        with self._lock:
            until = self._until.pop(container.uuid, None)
        if until is not None and how.get("stop_timeout") is not None:  # all of them were told to end before
            how["stop_timeout"] = max(0, round(until - time.monotonic()))
        self._lifecycle.delete(context, container, **how)

    def _wake(self, context: RequestContext, member: Container, step: Step) -> None:
        """Start what a member needs before it is started. If that fails, its start fails with the same reason."""
        failure = self._lifecycle.wake(context, member, step.values["sidecar"])
        if failure is not None:
            asked = self._context_of(Step(step.do, next(iter(self._wanted(context, member.uuid)), None)))
            end = self._lifecycle.reboot if awaits_reboot(member) else self._lifecycle.start
            end(asked, member, failure=failure)

    @contextlib.contextmanager
    def _ends(self, uuid: str, do: Do) -> Iterator[None]:
        with self._lock:
            self._ending[uuid] = do
        try:
            yield
        finally:
            with self._lock:
                del self._ending[uuid]

    def _hasten(self, context: RequestContext, container: Container, step: Step) -> None:
        """End the processes of what is to be deleted, of a capsule those of all its containers. If they have time to
        end, another thread waits for them: whoever is in a hurry is heard meanwhile.
        """
        seconds = step.arguments.get("stop_timeout")
        if seconds is None:
            for each in Container.list_by_capsule(context, container.uuid) or [container]:
                self._lifecycle.end(each)
            return
        work = self._lifecycle.end_within
        threading.Thread(target=work, args=(context, container, seconds), name="end", daemon=True).start()
        with self._lock:
            self._until[container.uuid] = time.monotonic() + seconds

    @staticmethod
    def _context_of(step: Step) -> RequestContext:
        """Return the context of whoever asked for the step. Log lines of this thread bear its request id."""
        asked = step.action
        if asked is None:
            context = admin_context()
        else:
            who = {"user_id": asked.user_id, "project_id": asked.project_id, "request_id": asked.request_id}
            context = RequestContext(**who, overwrite=False)
        context.update_store()
        return context

    @staticmethod
    def _end(context: RequestContext, uuid: str, action: Wanted | None, reason: str | None) -> None:
        assert action is not None
        ContainerActionEvent.end(context, uuid, action.id, event_of(action.action), reason)

    def _refuse(self, context: RequestContext, container: Container, step: Step) -> None:
        """End an action that the container's status does not allow, and undo what was accepted with it."""
        assert step.action is not None
        action, given = step.action.action, step.arguments
        LOG.info("Container %s is %s by now: no %s", container.uuid, container.status, action)
        with recorded(context, container.uuid, action) as noted:
            reason = container.status_reason if step.action.begun and container.status == Status.ERROR else None
            noted.failed(reason or TOO_LATE)
            if action == "commit" and "image" in given:
                self._lifecycle.refuse_commit(context, given["image"])
            elif action in ("network_attach", "network_detach") and "port" in given:
                self._attachments.withdraw(context, container, given["port"], leaving=action == "network_attach")
