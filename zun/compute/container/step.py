# SPDX-License-Identifier: Apache-2.0
"""Decide what is next for one container. No I/O.

``RULES`` is the whole decision: the first rule that applies says the step. The page order-of-work is made of it. The
shell in ``road`` performs the step and asks again, until nothing is next.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Self

from zun.common.probes import grace_of
from zun.common.states import ALLOWED, RUNS, TRANSITIONAL, Kind, Status, TaskState, awaits_reboot
from zun.compute.container.observed import never_made, not_restarted, observed
from zun.container.driver.state import RuntimeState
from zun.objects.placement import held_plan


class Do(StrEnum):
    """The kinds of steps. The values are their names in the log and on the page order-of-work."""

    NOTHING = "nothing"
    ASK = "ask the runtime"
    CREATE = "go on with the creation"
    DELETE = "delete"
    REBUILD = "rebuild"
    REBOOT = "reboot"
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    KILL = "kill"
    COMMIT = "commit"
    RESIZE = "resize"
    MOVE = "move"
    LEAVE = "leave for another host"
    ATTACH = "network attach"
    DETACH = "network detach"
    KEEP_STILL = "stop it if the runtime has started it"
    WAKE = "start what it needs, and wait for its sidecars"
    HASTEN = "end its processes, so that its stop ends"
    END = "end the action, which was done"
    REFUSE = "end the action in an error"
    SETTLE_CLAIM = "hold what its row says"
    SETTLE_NETWORKS = "plug it into the networks of its ports"
    RENEW = "restart it, or end it if its restart policy is no"
    DISMISS = "stop it, as nobody needs it"
    GIVE_BACK = "give back what it holds"
    START_AGAIN = "start it as the runtime tried to"
    COMPARE = "write what the runtime shows"


@dataclass(frozen=True, slots=True)
class _Way:
    """How one action is done.

    - ``own``: the status that the API gives a container when it accepts the action. None: the status stays as it is.
    - ``begun``: the task state while a host does it. With it, an action that was half done is taken up.
    - ``done``: the statuses in which an action that a host has begun is done, though its end was not written.
    - ``needs``: the arguments without which it cannot be done. They are missing if a message of the release before is.
    - ``anywhere``: any status allows it.
    """

    do: Do
    own: Status | None = None
    begun: TaskState | None = None
    done: Set[Status] = frozenset()
    needs: Set[str] = frozenset()
    anywhere: bool = False


_RUNNING = frozenset({Status.RUNNING})
_MADE = frozenset({Status.CREATED, Status.RUNNING})
_WAYS = {
    "create": _Way(Do.CREATE, own=Status.CREATING, done=_MADE | {Status.STOPPED}),
    "delete": _Way(Do.DELETE, own=Status.DELETING),
    "rebuild": _Way(Do.REBUILD, own=Status.REBUILDING, done=_MADE),
    "reboot": _Way(Do.REBOOT, own=Status.RESTARTING, done=_RUNNING),
    "start": _Way(Do.START, begun=TaskState.STARTING, done=_RUNNING),
    "stop": _Way(Do.STOP, begun=TaskState.STOPPING, done={Status.STOPPED}),
    "pause": _Way(Do.PAUSE, begun=TaskState.PAUSING, done={Status.PAUSED}),
    "unpause": _Way(Do.UNPAUSE, begun=TaskState.UNPAUSING, done=_RUNNING),
    "kill": _Way(Do.KILL, begun=TaskState.KILLING, needs={"signal"}),
    "commit": _Way(Do.COMMIT, needs={"image"}),
    "resize_container": _Way(Do.RESIZE),
    "move": _Way(Do.MOVE, needs={"cpuset"}),
    "leave": _Way(Do.LEAVE, begun=TaskState.STOPPING, needs={"discard_layer"}),
    "network_attach": _Way(Do.ATTACH, needs={"port"}, anywhere=True),
    "network_detach": _Way(Do.DETACH, needs={"port"}, anywhere=True),
}
"""Each action that a host knows. Any other one, of a later release, ends in an error."""

WAITS = frozenset({Do.STOP, Do.REBOOT, Do.LEAVE, Do.RENEW, Do.DISMISS})
"""Steps that wait for processes to end. A kill and a forced deletion are heard meanwhile. A deletion that stops its
container before is one, too.
"""
LOOKS = frozenset({Do.COMPARE, Do.END, Do.REFUSE})
"""Steps that are quick, for threads that look."""
LONG_SECONDS = 10  # of a stop: what runtimes, and clients, wait by default


@dataclass(frozen=True, slots=True)
class Wanted:
    """An accepted action that has not ended, with its arguments."""

    id: int
    action: str
    request_id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    user_id: str | None = None
    project_id: str | None = None
    begun: bool = False
    """A host has begun it."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        named = ("id", "action", "request_id", "arguments", "user_id", "project_id")
        return cls(**{name: row[name] for name in named}, begun=bool(row.get("begun")))  # a conductor of 1.0 lacks it


class Unseen(Enum):
    """Why there is no answer of the runtime."""

    UNASKED = "unasked"
    AWAY = "away"


Seen = RuntimeState | None | Unseen
"""The state of the container at the runtime, None if the runtime does not have it, or why nobody knows."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that decides about one container.

    - ``row`` is its row, None if the row is gone or of another host.
    - ``agrees``: what this host counts as its claim is what its row says.
    - ``plugged``: its networks are those of its ports, as far as somebody looked.
    - ``first``: nobody has looked at it since the service started.
    - ``compared``: in this look, the row and the runtime have been compared.
    - ``stopping``: at this moment a step of it waits for processes to end. ``ending``: they end for its deletion.
    - ``over``: it is a sidecar, and the containers that it serves have ended.
    - ``back``: it left for another host and has come back, and this host counts its claim as that of what it left.
    - ``awaits``: the uuid of the sidecar that must start up before the container is started. None: it need not wait.
    """

    row: Mapping[str, Any] | None
    wanted: Sequence[Wanted] = ()
    seen: Seen = Unseen.UNASKED
    agrees: bool = True
    plugged: bool = True
    first: bool = False
    compared: bool = False
    stopping: bool = False
    ending: bool = False
    over: bool = False
    back: bool = False
    awaits: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``action`` is the accepted action that it carries out, if there is one."""

    do: Do
    action: Wanted | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """For COMPARE: the columns of the row that differ from the runtime, with the values of the runtime. For RENEW: the
    ``reason``. For RENEW and DISMISS: the ``seconds`` that the processes have to end, None for those of the runtime.
    For WAKE: the ``sidecar``.
    """

    @property
    def arguments(self) -> Mapping[str, Any]:
        return {} if self.action is None else self.action.arguments

    @property
    def waits(self) -> bool:
        """Whether the step waits for processes to end."""
        return self.do in WAITS or (self.do is Do.DELETE and self.arguments.get("stop_timeout") is not None)

    @property
    def long(self) -> bool:
        """Whether the step may wait for hours."""
        seconds = self.arguments.get("stop_timeout" if self.do is Do.DELETE else "timeout", self.values.get("seconds"))
        return self.waits and (seconds or 0) > LONG_SECONDS


@dataclass(frozen=True, slots=True)
class Rule:
    """``when`` is the condition in words. ``then`` is the step, or makes what ``what`` says."""

    when: str
    applies: Callable[[Case, Mapping[str, Any]], object]
    then: Do | Callable[[Case, Mapping[str, Any]], Step]
    what: str = ""


def allowed(action: Wanted, row: Mapping[str, Any]) -> bool:
    """Return whether ``row`` is in a status for the action.

    An action that an interruption left half done is taken up whatever the runtime has made of the container since. A
    stop or a kill does not end an accepted reboot, which is still to come.
    """
    way, status = _WAYS.get(action.action), row["status"]
    if way is None:
        return False
    if way.own is not None:
        return bool(status == way.own) and (way.do is not Do.REBOOT or awaits_reboot(row))
    if way.anywhere:
        return True
    if awaits_reboot(row):
        return False
    half = way.begun is not None and row["task_state"] == way.begun
    if half and status not in (TRANSITIONAL - {Status.RESTARTING}) | {Status.DELETED}:
        return True
    return status in ALLOWED[action.action]


def starts(row: Mapping[str, Any], wanted: Sequence[Wanted]) -> bool:
    """Return whether what is done next for the container is to start it."""
    return awaits_reboot(row) or any(each.action == "start" for each in wanted[:1])


def _oldest(case: Case, do: Do) -> Wanted | None:
    """Return the oldest wanted action that is done by ``do``."""
    return next((each for each in case.wanted if each.action in _WAYS and _WAYS[each.action].do is do), None)


def _beside(case: Case, row: Mapping[str, Any]) -> Step:
    """Return what may be done while a stop waits: what makes its end come sooner."""
    deletion, kill = _oldest(case, Do.DELETE), _oldest(case, Do.KILL)
    if case.ending:  # by the oldest deletion, and somebody may be in a hurry since
        later = [each for each in case.wanted if each.action in _WAYS and _WAYS[each.action].do is Do.DELETE][1:]
        hurried = [each for each in later if each.arguments.get("stop_timeout") is None]
        return Step(Do.HASTEN, hurried[0]) if hurried else NOTHING
    if row["status"] == Status.DELETING:
        asked = {} if deletion is None else deletion.arguments
        hurry = deletion is None or asked.get("force") or asked.get("stop_timeout") is not None
        return Step(Do.HASTEN, deletion) if hurry else NOTHING
    if kill is None:
        return NOTHING
    return Step(Do.REFUSE if _impossible(kill, row) else Do.KILL, kill)


def _differences(case: Case, row: Mapping[str, Any]) -> Mapping[str, Any]:
    left = {"task_state": None} if row["task_state"] is not None else {}  # its action has ended
    return {**left, **observed(row, _state(case))}


def _refused(case: Case, row: Mapping[str, Any]) -> bool:
    return bool(case.wanted) and _impossible(case.wanted[0], row)


def _impossible(action: Wanted, row: Mapping[str, Any]) -> bool:
    return not allowed(action, row) or not _WAYS[action.action].needs <= action.arguments.keys()


def _done(case: Case, row: Mapping[str, Any]) -> bool:
    if not case.wanted or row["task_state"] is not None or allowed(case.wanted[0], row):
        return False
    first = case.wanted[0]
    return first.begun and first.action in _WAYS and row["status"] in _WAYS[first.action].done


def _state(case: Case) -> RuntimeState | None:
    assert not isinstance(case.seen, Unseen)  # rules before say what is done without an answer
    return case.seen


def _failed_probe(case: Case) -> str | None:
    state = _state(case)
    return None if state is None or state.health is None else state.health.failed


def _has_devices(row: Mapping[str, Any]) -> bool:
    plan = held_plan(row)
    return plan is not None and bool(plan.devices)


def _is(status: Status) -> Callable[[Case, Mapping[str, Any]], bool]:
    return lambda case, row: bool(row["status"] == status)


NOTHING = Step(Do.NOTHING)
_BY_CAPSULE = (TRANSITIONAL - {Status.RESTARTING}) | {Status.DELETED}

RULES = (
    Rule(
        "a step of it waits for processes to end",
        lambda case, row: case.stopping,
        _beside,
        "kill, or end its processes for a forced deletion; else nothing",
    ),
    Rule(
        "it belongs to a capsule, and is in a status that the steps of the capsule end",
        lambda case, row: row["capsule_uuid"] is not None and row["status"] in _BY_CAPSULE,
        Do.NOTHING,
    ),
    Rule("it has come back from its way to another host", lambda case, row: case.back, Do.SETTLE_CLAIM),
    Rule(
        "the oldest wanted action was begun, and its status is what comes of it",
        _done,
        Do.END,
    ),
    Rule(
        "the oldest wanted action is not allowed in its status, or lacks an argument",
        _refused,
        Do.REFUSE,
    ),
    Rule(
        "it is what a container left here, which is on its way to another host",
        lambda case, row: row["kind"] == Kind.LEFTOVER and row["status"] != Status.DELETING,
        Do.KEEP_STILL,
    ),
    Rule("its status is Creating", _is(Status.CREATING), Do.CREATE),
    Rule("its status is Deleting", _is(Status.DELETING), Do.DELETE),
    Rule(
        "its status is Deleted, since this look",
        lambda case, row: row["status"] == Status.DELETED and case.compared,
        Do.NOTHING,
    ),
    Rule("its status is Deleted", _is(Status.DELETED), Do.DELETE),
    Rule("its status is Rebuilding", _is(Status.REBUILDING), Do.REBUILD),
    Rule(
        "its start or reboot is wanted, and a sidecar that serves it has not started up",
        lambda case, row: case.awaits and starts(row, case.wanted),
        lambda case, row: Step(Do.WAKE, values={"sidecar": case.awaits}),
        Do.WAKE,
    ),
    Rule("a reboot was accepted", lambda case, row: awaits_reboot(row), Do.REBOOT),
    Rule(
        "an action is wanted",
        lambda case, row: case.wanted,
        lambda case, row: Step(_WAYS[case.wanted[0].action].do, case.wanted[0]),
        "the oldest one",
    ),
    Rule("this host counts another claim than its row says", lambda case, row: not case.agrees, Do.SETTLE_CLAIM),
    Rule("its networks are not those of its ports", lambda case, row: not case.plugged, Do.SETTLE_NETWORKS),
    Rule("the row and the runtime agree since this look", lambda case, row: case.compared, Do.NOTHING),
    Rule("nobody has asked the runtime", lambda case, row: case.seen is Unseen.UNASKED, Do.ASK),
    Rule("the runtime does not answer", lambda case, row: case.seen is Unseen.AWAY, Do.NOTHING),
    Rule(
        "it belongs to a capsule, and its start-up or liveness probe has failed",
        lambda case, row: _failed_probe(case),
        lambda case, row: Step(Do.RENEW, values={"reason": _failed_probe(case), "seconds": grace_of(row)}),
        Do.RENEW,
    ),
    Rule(
        "it is a sidecar, runs, and the containers that it serves have ended",
        lambda case, row: case.over and row["status"] in RUNS,
        lambda case, row: Step(Do.DISMISS, values={"seconds": grace_of(row)}),
        Do.DISMISS,
    ),
    Rule(
        "its creation failed, the runtime shows nothing of it, and it holds its claim yet",
        lambda case, row: case.seen is None and never_made(row),
        Do.GIVE_BACK,
    ),
    Rule(
        "the runtime tried to start it again while this service was away, and could not",
        lambda case, row: case.first and row["capsule_uuid"] is None and not_restarted(row, _state(case)),
        Do.START_AGAIN,
    ),
    Rule(
        "its row does not say what the runtime shows, or it has devices, which may come and go",
        lambda case, row: _differences(case, row) or _has_devices(row),
        lambda case, row: Step(Do.COMPARE, values=_differences(case, row)),
        Do.COMPARE,
    ),
)
"""The first rule that applies says the step. With none that applies, nothing is left to do."""


def next_step(case: Case) -> Step:
    """Return the next step of the container. Each may be done twice: after a crash for example."""
    if case.row is None:
        return NOTHING if case.agrees else Step(Do.SETTLE_CLAIM)
    for rule in RULES:
        if rule.applies(case, case.row):
            if not isinstance(rule.then, Do):
                return rule.then(case, case.row)
            ends = rule.then in (Do.END, Do.REFUSE)
            return Step(rule.then, case.wanted[0] if ends else _oldest(case, rule.then))
    return NOTHING
