# SPDX-License-Identifier: Apache-2.0
"""The actions of the crash table, and its cells."""

import base64
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.db.capsules import members
from zun.tests.functional.crashes.effects import Effect, Fault, Part, nothing_more
from zun.tests.functional.crashes.world import CrashWorld, Snapshot

BODY: dict[str, Any] = {
    "image": "zun-demo",
    "command": ["sleep", "1000"],
    "cpu": 2,
    "cpu_policy": "dedicated",
    "memory": 64,
    "mounts": [{"type": "bind", "source": base64.b64encode(b"text").decode(), "destination": "/data"}],
}
NEIGHBOUR = {"image": "zun-demo", "command": ["sleep", "1000"], "cpu": 1, "memory": 64, "name": "neighbour"}
_MEMBER = {"image": "zun-demo", "command": ["sleep", "1000"], "resources": {"requests": {"cpu": 1, "memory": 64}}}
CAPSULE = {
    "template": {
        "kind": "capsule",
        "metadata": {"name": "pod"},
        "spec": {"containers": [_MEMBER, _MEMBER], "restartPolicy": "OnFailure"},
    }
}

ON_FAILURE = {"Name": "on-failure", "MaximumRetryCount": "1"}

Do = Callable[[CrashWorld], object]


def post(path: str) -> Do:
    return lambda world: world.request("POST", f"containers/{world.subject}/{path}")


def delete(query: str = "", what: str = "containers") -> Do:
    return lambda world: world.request("DELETE", f"{what}/{world.subject}{query}")


def create(*, run: bool, **more: Any) -> Do:
    def do(world: CrashWorld) -> None:
        body = {**BODY, "nets": [{"network": world.nets[0]}], **more}
        world.subject_of(world.request("POST", f"containers?run={run}", body))

    return do


def create_capsule(world: CrashWorld) -> None:
    world.subject_of(world.request("POST", "capsules", CAPSULE))


def move(world: CrashWorld) -> None:
    world.request("POST", "placement/defragment", {"cpu": 4, "memory": 64}, version="1.49")


def leaves(*, has_room: bool) -> Do:
    """Move to another host. The schedulers look meanwhile, and the host hears of it."""

    def do(world: CrashWorld) -> None:
        world.has_room = has_room
        world.request("POST", f"containers/{world.subject}/move?discard_layer=true", version="1.49")
        for _ in range(4):
            world.work()
            with contextlib.suppress(Exception), nothing_more(world.effects):
                world.carry_on()

    return do


def exits(code: int) -> Do:
    return lambda world: world.driver.exit(world.subject, code)


def vanishes(world: CrashWorld) -> None:
    found = world.driver.runtime.objects[world.subject]
    with world.driver.runtime.lock:
        found.pid = 0
        world.driver.runtime.remove(found)


def compares(world: CrashWorld) -> None:
    with contextlib.suppress(Exception):  # as whoever calls it again and again does
        world.compare()


@dataclass(frozen=True, slots=True)
class Action:
    """``before`` names the action after which this one begins, None for the empty host. ``again``: another action takes
    the same road, and this one is there for those that begin after it. ``failed`` is a status, beside the one before,
    in which an error may leave the container. ``member``: it is about the first container of the capsule before it.
    """

    name: str
    before: str | None
    do: Do = field(repr=False)
    again: bool = False
    failed: str = ""
    member: bool = False


ACTIONS = (
    Action("create", None, create(run=False)),
    Action("run", None, create(run=True)),
    Action("run-auto-remove", None, create(run=True, auto_remove=True), again=True),
    Action("run-on-failure", None, create(run=True, restart_policy=ON_FAILURE), again=True),
    Action("run-auto-heal", None, create(run=True, auto_heal=True), again=True),
    Action("start", "create", post("start")),
    Action("stop", "run", post("stop")),
    Action("reboot", "run", post("reboot")),
    Action("rebuild", "run", post("rebuild")),
    Action("rebuild-image", "run", post("rebuild?image=other")),
    Action("pause", "run", post("pause")),
    Action("unpause", "pause", post("unpause")),
    Action("kill", "run", post("kill")),
    Action("signal", "run", post("kill?signal=SIGHUP")),
    Action("commit", "run", post("commit?repository=mine&tag=1")),
    Action("attach-network", "run", lambda world: post(f"network_attach?network={world.nets[1]}")(world)),
    Action("detach-network", "run", lambda world: post(f"network_detach?network={world.nets[0]}")(world)),
    Action("grow", "run", post("resize_container?cpu=3")),
    Action("shrink", "run", post("resize_container?cpu=1")),
    Action("more-memory", "run", post("resize_container?memory=96")),
    Action("move", "run", move),
    Action("leave", "run", leaves(has_room=True)),
    Action("leave-and-back", "run", leaves(has_room=False), failed="Stopped"),  # if its start on the old host fails
    Action("update", "run", lambda world: world.request("PATCH", f"containers/{world.subject}", {"cpu": 1})),
    Action("delete", "stop", delete()),
    Action("delete-force", "run", delete("?force=true")),
    Action("delete-stop", "run", delete("?stop=true")),
    Action("exit", "run", exits(0)),
    Action("exit-auto-remove", "run-auto-remove", exits(0)),
    Action("exit-on-failure", "run-on-failure", exits(1)),
    Action("vanish", "run", vanishes),
    Action("vanish-auto-heal", "run-auto-heal", vanishes),
    Action("create-capsule", None, create_capsule),
    Action("delete-capsule", "create-capsule", delete("", "capsules")),
    Action("stop-member", "create-capsule", post("stop"), member=True),
    Action("start-member", "stop-member", post("start"), member=True),
    Action("reboot-member", "create-capsule", post("reboot"), member=True),
    Action("pause-member", "create-capsule", post("pause"), member=True),
    Action("kill-member", "create-capsule", post("kill"), member=True),
    Action("commit-member", "create-capsule", post("commit?repository=mine&tag=1"), member=True),
    Action("agent-starts", "run", lambda world: world.start_agent()),
    Action("comparison", "run", compares),
)


@dataclass(frozen=True, slots=True)
class Cell:
    action: str
    at: int
    effect: Effect
    fault: Fault

    def __str__(self) -> str:
        return f"{self.action}: {self.effect}, {self.fault}"


@dataclass(frozen=True, slots=True)
class Trace:
    """An action without a fault: its effects, the changes that it makes at the runtime, and what it leads to."""

    effects: tuple[Effect, ...]
    done: tuple[str, ...]
    before: Any
    outcome: Any
    snapshot: Snapshot

    def cells(self, action: str) -> Iterator[Cell]:
        for at, effect in enumerate(self.effects):
            for fault in effect.faults:
                yield Cell(action, at, effect, fault)


class Table:
    """Runs actions in one world, each from the snapshot after the action before it."""

    def __init__(self, world: CrashWorld) -> None:
        self._world = world
        self._traces: dict[str, Trace] = {}
        self._seconds: dict[str, float] = {}
        world.request("POST", "containers?run=True", NEIGHBOUR)
        world.drain()
        world.effects.end()
        self._empty = world.save()

    def trace(self, action: Action) -> Trace:
        """Do the action without a fault, unless it was done before."""
        if action.name not in self._traces:
            world, before = self._world, self._begin(action)
            world.effects.begin()
            action.do(world)
            world.work()
            effects, done = tuple(world.effects.happened), tuple(world.effects.done)
            world.effects.end()
            snapshot = world.save()
            world.heal()
            wrong = [*world.disagreements()]
            assert not wrong, (action.name, wrong, effects)
            outcome = world.outcome(world.subject)
            self._traces[action.name] = Trace(effects, done, before, outcome, snapshot)
        return self._traces[action.name]

    def _begin(self, action: Action) -> Any:
        """Restore what is before the action; return the part of the container's row that the action changes."""
        world = self._world
        if action.before is None:
            world.restore(self._empty)
            world.subject = ""
            return None
        trace = self.trace(next(each for each in ACTIONS if each.name == action.before))
        world.restore(trace.snapshot)
        world.subject = trace.snapshot.subject
        if action.member:
            world.subject = next((each["uuid"] for each in members([world.subject])[world.subject]), world.subject)
        return world.outcome(world.subject)

    def run_all(self, action: Action, only: str = "") -> dict[str, list[str]]:
        """Run the cells of an action that match ``only``. Return in words what is wrong in the end, by cell."""
        began, wrong = time.process_time(), dict[str, list[str]]()
        for cell in self.trace(action).cells(action.name):
            if re.search(only, str(cell)) and (found := self.run(action, cell)):
                wrong.setdefault(str(cell), []).extend(f"at effect {cell.at}: {each}" for each in found)
                print(f"\n{cell}: {found[0]}", flush=True)
        self._seconds[action.name] = time.process_time() - began
        self._print(action.name)
        return wrong

    def print(self) -> None:
        """Print how many cells the actions had by fault, and the CPU time that they took."""
        cells = [cell for name in self._seconds for cell in self._traces[name].cells(name)]
        effects = sum(len(self._traces[name].effects) for name in self._seconds)
        _print("all", cells, effects, sum(self._seconds.values()))

    def _print(self, name: str) -> None:
        trace = self._traces[name]
        if len(self._seconds) == 1:
            print("\n" + _line("action", Fault, "effects", "cells", "CPU s"))
        _print(name, [*trace.cells(name)], len(trace.effects), self._seconds[name])

    def run(self, action: Action, cell: Cell) -> list[str]:
        """Do the action with the fault of the cell. Return in words what is wrong in the end."""
        world, trace = self._world, self.trace(action)
        before = self._begin(action)
        world.effects.begin(cell.at, cell.fault)
        action.do(world)
        world.work()
        found = world.effects.happened[cell.at : cell.at + 1]
        done = list(world.effects.done)
        try:
            world.heal()
            led = [*_outcome(world, action, trace, before, cell)]
            if cell.fault is Fault.AWAY and cell.effect.part in (Part.RUNTIME, Part.NETWORK):
                world.delete_failed_capsule()
            wrong = [*world.disagreements()]
        except AssertionError as exc:
            wrong = [str(exc)]
        if [(each.part, each.name) for each in found] != [(cell.effect.part, cell.effect.name)]:
            wrong.append(f"the effect {cell.at} is {found} this time")
        if not wrong:
            wrong += led
        if cell.fault is Fault.DOUBLED and sorted(done) != sorted(trace.done):
            wrong.append(f"it did {done} at the runtime, and {list(trace.done)} would do")
        return wrong


def _line(name: str, faults: Iterable[object], *more: object) -> str:
    return f"{name:18}" + "".join(f"{each!s:>11}" for each in [*faults, *more])


def _print(name: str, cells: Sequence[Cell], effects: int, seconds: float) -> None:
    count = Counter(cell.fault for cell in cells)
    print(_line(name, [count[each] for each in Fault], effects, len(cells), f"{seconds:.1f}"), flush=True)


def _outcome(world: CrashWorld, action: Action, trace: Trace, before: Any, cell: Cell) -> Iterator[str]:
    """Yield in words why the action neither was done nor ended in an error with what was before."""
    subject = world.subject or world.newest()
    if not subject:
        if cell.effect.part is not Part.API:
            yield "the container was never there"
        return
    found, message = world.outcome(subject), world.message_of(subject)
    if cell.effect.part is Part.MESSAGE and message is not None:
        yield f"a message was {cell.fault}, and the action ended with: {message}"
    elif found == trace.outcome or (world.refused and found == before):
        return
    elif found is not None and found["status"] == "Error":
        return  # with a reason, as ``disagreements`` has seen
    elif found is None or message is None or found["status"] not in ((before or found)["status"], action.failed):
        yield f"it is {found}, was {before}, and the action ({message}) leads to {trace.outcome}"
