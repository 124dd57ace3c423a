# SPDX-License-Identifier: Apache-2.0
"""``appcontainer capsule logs``: the logs of all containers of a capsule as one, ordered by time.

The service has a log of each container and no stream. To follow, the command asks again every ``PERIOD`` seconds: for
the capsule, and for what each of its containers has written since its last line. So a capsule of three containers costs
two requests a second, as long as somebody follows it.
"""

import argparse
import datetime
import heapq
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command
from zunclient import exceptions as zun_exceptions

PERIOD = 2.0  # seconds between two rounds of requests
PART = 16 * 1024  # bytes: Docker keeps longer lines in parts of this size, and writes the time before each part
MOST = 1000  # lines that are asked for of a container that wrote more than an answer holds
WRITES = frozenset({"Creating", "Created", "Running", "Paused", "Restarting", "Unknown"})
"""Statuses of a container that may write more."""
_STAMP = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) "
_TIME, _TIME_IN_BYTES = re.compile(_STAMP, re.ASCII), re.compile(_STAMP.encode())


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log. ``at`` is its time in nanoseconds since 1970, ``stamp`` the same as the service wrote it."""

    at: int
    stamp: str
    text: str


def lines_of(log: str) -> list[Line]:
    """Return the lines of a log with timestamps. A line without one has the time of the line before.

    The times never decrease: the order of a log is that of its container, whatever the clock of its host did.
    """
    found: list[Line] = []
    for raw in log.removesuffix("\n").split("\n") if log else ():
        before = found[-1] if found else Line(0, "", "")
        stamp = _TIME.match(raw)
        if stamp is None:
            found.append(Line(before.at, before.stamp, raw.removesuffix("\r")))
            continue
        second = datetime.datetime.fromisoformat(stamp[1] + stamp[3].replace("Z", "+00:00"))
        at = int(second.timestamp()) * 10**9 + int((stamp[2] or "0").ljust(9, "0"))
        found.append(Line(max(at, before.at), stamp[0].rstrip(), _joined(raw[stamp.end() :]).removesuffix("\r")))
    return found


def _joined(text: str) -> str:
    """Return the text of a line without the times between its parts."""
    parts, rest = [], text.encode()
    while len(rest) > PART and (stamp := _TIME_IN_BYTES.match(rest, PART)):
        parts.append(rest[:PART])
        rest = rest[stamp.end() :]
    return b"".join([*parts, rest]).decode(errors="replace")


class Log:
    """The log of one container as far as it was read. ``tail`` is the most lines of the first answer, None for all."""

    def __init__(self, tail: int | None = None, since: str | None = None) -> None:
        self._tail, self._since = tail, since
        self._last = -1  # the time of the last line
        self._seen = 0  # lines of this time

    @property
    def question(self) -> dict[str, str]:
        """The query for what is new. As long as there was no line, it is that of the user."""
        if self._last < 0:
            tail = "all" if self._tail is None else str(max(self._tail, 1))  # the last line says what is new
            return {"tail": tail} | ({"since": self._since} if self._since else {})
        moment = datetime.datetime.fromtimestamp(self._last // 10**9, datetime.UTC)
        return {"tail": "all", "since": f"{moment:%Y-%m-%d %H:%M:%S},{self._last // 10**6 % 1000:03}"}

    def new(self, found: Sequence[Line]) -> Sequence[Line]:
        """Return those lines of an answer that no answer before had. Lines of one time always come in one order."""
        first = self._last < 0
        found = [line for line in found if line.at >= self._last]
        fresh = found[min(self._seen, sum(line.at == self._last for line in found)) :]
        if found:
            self._last = found[-1].at
            self._seen = sum(line.at == self._last for line in found)
        return fresh[len(fresh) - min(self._tail, len(fresh)) :] if first and self._tail is not None else fresh


def merged(logs: Iterable[tuple[str, Sequence[Line]]]) -> Iterator[tuple[str, Line]]:
    """Yield the lines of all containers by time, those of one time in the order of the containers."""
    named = ([(name, line) for line in lines] for name, lines in logs)
    return iter(heapq.merge(*named, key=lambda each: each[1].at))


def short_name(capsule: Any, member: Mapping[str, Any]) -> str:
    """Return the name of a container without what all containers of its capsule have: ``alpha-1``."""
    name = str(member.get("name") or member["uuid"])
    return name.removeprefix(f"capsule-{_called(capsule)}-") or name


def _called(capsule: Any) -> str:
    return getattr(capsule, "name", None) or getattr(capsule, "meta_name", None) or str(capsule.uuid)


class Logs(command.Command):
    """Show the logs of all containers of a capsule, ordered by time"""

    pause: Callable[[float], None] = staticmethod(time.sleep)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("capsule", metavar="<capsule>", help="Name or UUID of the capsule.")
        parser.add_argument(
            "--container",
            metavar="<name>",
            action="append",
            help="Show the log of this container alone: its name, the name before its lines, or its UUID. Repeat it "
            "for several.",
        )
        parser.add_argument(
            "--follow",
            action="store_true",
            help=f"Show new lines too, until all containers have ended or Ctrl-C. They are asked for every "
            f"{PERIOD:.0f} seconds.",
        )
        parser.add_argument("--timestamps", action="store_true", help="Show the time of each line.")
        parser.add_argument(
            "--tail", metavar="<lines>", type=_count, help="Show at most this many lines of the end of each log."
        )
        parser.add_argument(
            "--since",
            metavar="<time>",
            help="Show lines since a time: seconds since 1970, or 'YYYY-MM-DD HH:MM:SS,mmm' in UTC.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        try:
            self._show(parsed_args)
        except KeyboardInterrupt:
            if not parsed_args.follow:
                raise
        except BrokenPipeError:  # whoever read has seen enough; nobody is left to tell when the interpreter flushes
            if self.app.stdout is sys.stdout:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _show(self, parsed_args: argparse.Namespace) -> None:
        manager: Any = self.app.client_manager
        client = manager.container
        logs: dict[str, Log] = {}
        told: set[str] = set()
        ident, first = parsed_args.capsule, True
        while True:
            try:
                capsule = client.capsules.get(ident)
            except zun_exceptions.NotFound as exc:
                if first:
                    raise exceptions.CommandError(str(exc)) from None
                self._tell(f"Capsule {parsed_args.capsule} was deleted.")
                return
            ident = capsule.uuid  # its name may be another capsule's by the next round
            members = _chosen(capsule, parsed_args.container)
            width = max((len(short_name(capsule, each)) for each in members), default=0)
            found, unread = [], 0
            for each in members:
                name = short_name(capsule, each)
                log = logs.setdefault(each["uuid"], Log(parsed_args.tail, parsed_args.since))
                lines, why = self._read(client, each, log)
                if why is not None and f"{name}: {why}" not in told and not self._is_leaving(client, ident):
                    told.add(f"{name}: {why}")
                    self._tell(f"{name}: {why}")
                unread += lines is None
                found.append((name, lines or ()))
            for name, line in merged(found):
                stamp = f"{line.stamp} " if parsed_args.timestamps else ""
                print(f"{name:{width}} | {stamp}{line.text}", file=self.app.stdout)
            self.app.stdout.flush()
            if not parsed_args.follow or not any(each["status"] in WRITES for each in members):
                break
            first = False
            self.pause(PERIOD)
        if unread == len(members):
            raise exceptions.CommandError("No log could be read. 'openstack appcontainer capsule show' says why.")

    @staticmethod
    def _read(client: Any, member: Mapping[str, Any], log: Log) -> tuple[Sequence[Line] | None, str | None]:
        """Return what the container has written since it was asked last, or None, and what is wrong with that."""
        if member["status"] == "Creating":
            return (), None
        asked = {"id": member["uuid"], "stdout": True, "stderr": True, "timestamps": True}
        try:
            try:
                answer = client.containers.logs(**asked, **log.question)
            except zun_exceptions.Conflict as exc:
                if "larger than" not in str(exc):
                    raise
                answer = client.containers.logs(**asked, **{**log.question, "tail": str(MOST)})
                return log.new(lines_of(str(answer or ""))), f"{exc} Its last {MOST} lines are shown."
            return log.new(lines_of(str(answer or ""))), None
        except zun_exceptions.NotFound:
            return (), None  # deleted a moment ago, which the next round tells
        except zun_exceptions.BadRequest as exc:  # the question is wrong, for every container
            raise exceptions.CommandError(str(exc)) from None
        except (zun_exceptions.ClientException, zun_exceptions.ConnectionError) as exc:
            return None, f"its log cannot be read: {exc}"

    @staticmethod
    def _is_leaving(client: Any, ident: str) -> bool:
        """Return whether the capsule is deleted: then its logs go one by one, and the next round tells its end."""
        try:
            return str(client.capsules.get(ident).status) == "Deleting"
        except zun_exceptions.NotFound:
            return True

    @staticmethod
    def _tell(text: str) -> None:
        print(text, file=sys.stderr)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of lines from 0 on")
    return int(text)


def _chosen(capsule: Any, wanted: Sequence[str] | None) -> list[Mapping[str, Any]]:
    """Return the containers of the capsule, init containers first, or those that are ``wanted``.

    Raises CommandError for a name that no container has.
    """
    members = [*(getattr(capsule, "init_containers", None) or ()), *(capsule.containers or ())]
    if not wanted:
        return members
    called = {each["uuid"]: {each["uuid"], each.get("name"), short_name(capsule, each)} for each in members}
    for name in wanted:
        if not any(name in names for names in called.values()):
            known = ", ".join(short_name(capsule, each) for each in members)
            raise exceptions.CommandError(f"Capsule {_called(capsule)} has no container {name}. It has {known}.")
    return [each for each in members if called[each["uuid"]] & set(wanted)]
