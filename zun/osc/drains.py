# SPDX-License-Identifier: Apache-2.0
"""Commands that move containers to other hosts: ``appcontainer move``, ``host drain`` and ``host undrain``."""

import argparse
import re
import sys
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command
from zunclient import exceptions as zun_exceptions

from zun.osc import each, moves, placement, versions, waiting
from zun.osc.waiting import Seen

PAUSE = 1.0  # seconds between two looks at a drain

_CLASS = re.compile(r"[\w.]+: ")  # before the message in the last line of a traceback


class MoveContainer(each.Each):
    """Move a container to another host

    It is stopped, made on the other host, and started there if it ran. If the other host fails, it comes back. With
    --wait, exits with 1 if it did not move, and says why.
    """

    wish = "move container {}"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("container", metavar="<container>", help="Name or uuid of the container.")
        parser.add_argument(
            "host", metavar="<host>", nargs="?", help="Name of the host to move to (default: the scheduler chooses)."
        )
        parser.add_argument(
            "--discard-layer",
            action="store_true",
            help="Move the container although what it has written into its own file system is lost.",
        )
        parser.add_argument(
            "--wait", action="store_true", help="Wait until the container is on another host, or back on its own."
        )
        return parser

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> each.End | None:
        http = versions.http_at(client, "appcontainer move", versions.MOVES_VERSION)
        ident, left = versions.segment(name), None
        if parsed_args.wait:
            _, shown = http.json_request("GET", f"/v1/containers/{ident}")
            ident, left = shown["uuid"], shown.get("host")
        query: dict[str, str] = {"host": parsed_args.host} if parsed_args.host else {}
        if parsed_args.discard_layer:
            query["discard_layer"] = "true"
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        response, _ = http.json_request("POST", f"/v1/containers/{ident}/move{asked}")
        if not parsed_args.wait:
            return None
        way = Way(http, ident, left, response.headers.get("x-openstack-request-id"))

        def end() -> str:
            waiting.wait(way.look, f"Moving {name}")
            return way.where

        return end


@dataclass(slots=True)
class Way:
    """The way of a container from the host ``left``, which is None if the user may not see hosts.

    ``request`` is the id of the request. The actions ``leave``, ``create`` and, if the container came back, ``start``
    have this id.
    """

    http: Any
    uuid: str
    left: str | None
    request: str | None
    _shown: Mapping[str, Any] = field(default_factory=dict, init=False)

    def look(self) -> Seen:
        """Return how far the container is. It has failed if it could not leave, is back or was deleted."""
        # Container before actions: a container that has just come back still has an open action, its start.
        path = f"/v1/containers/{self.uuid}"
        try:
            _, self._shown = self.http.json_request("GET", path)
            _, listed = self.http.json_request("GET", f"{path}/container_actions")
        except zun_exceptions.NotFound:
            return Seen(False, failed="the container was deleted")
        mine = [action for action in listed["containerActions"] if action["request_id"] == self.request]
        status, reason = self._shown["status"], self._shown["status_reason"] or ""
        text = self._shown.get("status_detail") or f"status {status}"
        if any(action["finish_time"] is None for action in mine):
            return Seen(False, text=text)
        leave = next((action for action in mine if action["action"] == "leave"), None)
        if leave is not None and leave["message"]:  # it could not leave, or came back
            return Seen(False, failed=self._stays(self._why()))
        if status == "Error":  # for a second or two, if it comes back
            return Seen(False, text=text, stuck=f"the container is in status Error: {reason or 'no reason is given'}")
        if status in ("Creating", "Deleting"):
            return Seen(False, text=text)
        host = self._shown.get("host")
        return Seen(leave is not None and (host is None or host != self.left), busy=False, text=text)

    @property
    def where(self) -> str:
        """Return a sentence that tells the status and the host at the last look."""
        host = self._shown.get("host")
        return f"It is {self._shown['status']}{f' on {host}' if host else ''}."

    def _stays(self, reason: str) -> str:
        return f"{reason.rstrip('.')}. {self.where}"

    def _why(self) -> str:
        """Return the reason in the steps of ``leave``, or which command tells it to an operator."""
        path = f"/v1/containers/{self.uuid}/container_actions/{self.request}"
        _, action = self.http.json_request("GET", path)
        told = [event["traceback"] for event in action["events"] if event["traceback"]]
        return _message(told[-1]) if told else moves.says_why(self.uuid, self.request)


def _message(told: str) -> str:
    """Return the reason of a failed step: of a traceback, the message in its last line."""
    if not told.startswith("Traceback"):
        return told.strip()
    return _CLASS.sub("", told.strip().splitlines()[-1], count=1)


class DrainHost(moves.Report):
    """Have the containers of a host move to other hosts

    Each is stopped, made on another host, and started there if it ran. The drain goes on by itself, also without
    --wait. The same command again tries the containers again that stayed. Exits with 1 if a container stays, and says
    why.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        only = parser.add_mutually_exclusive_group()
        only.add_argument(
            "--dry-run", action="store_true", help="Show where each container would go now, and move none."
        )
        only.add_argument("--show", action="store_true", help="Show how far the drain is, and change nothing.")
        parser.add_argument(
            "--parallel",
            metavar="<n>",
            type=placement.at_least_one,
            help="How many containers may be on their way at the same time.",
        )
        parser.add_argument(
            "--discard-layer",
            action="store_true",
            help="Move containers although what they have written into their own file systems is lost.",
        )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Wait until each container has moved or stays, and say on the error stream when one has moved.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, "appcontainer host drain", versions.MOVES_VERSION)
        wanted = {name: getattr(parsed_args, name) for name in ("dry_run", "parallel", "discard_layer")}
        path, body = _path(parsed_args.host), {name: value for name, value in wanted.items() if value}
        _, drain = http.json_request("GET", path) if parsed_args.show else http.json_request("POST", path, body=body)
        if not parsed_args.dry_run and not drain["done"]:
            if parsed_args.wait:
                drain = _ended(http, path, drain)
            else:
                sys.stderr.write("The drain goes on. The same command with --show says how far it is.\n")
        self.failed = any(one["state"] == "stays" for one in drain["containers"])
        rows = [(one["container"], one["name"], _result(one, parsed_args.dry_run)) for one in drain["containers"]]
        return ("Container", "Name", "Result"), rows


class UndrainHost(command.Command):
    """End the drain of a host, so that containers may be placed there again

    The containers that have moved stay on their new hosts.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, "appcontainer host undrain", versions.MOVES_VERSION)
        http.json_request("DELETE", _path(parsed_args.host))


def _path(host: str) -> str:
    return f"/v1/hosts/{versions.segment(host)}/drain"


def _ended(http: Any, path: str, drain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the drain when it is done. Each container that moves meanwhile is a line on stderr."""
    told = _moved(drain).keys()
    while not drain["done"]:
        time.sleep(PAUSE)
        try:
            _, drain = http.json_request("GET", path)
        except zun_exceptions.NotFound:
            raise exceptions.CommandError(
                f"Host {drain['host']} is not being drained any more: 'host undrain' was asked for."
            ) from None
        moved = _moved(drain)
        news = [one for uuid, one in moved.items() if uuid not in told]
        for number, one in enumerate(news, len(moved) - len(news) + 1):
            sys.stderr.write(f"{number} of {len(drain['containers'])}: {one['name']} is on {one['to']}\n")
        told = moved.keys()
    return drain


def _moved(drain: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the containers that have moved, by uuid."""
    return {one["container"]: one for one in drain["containers"] if one["state"] == "moved"}


def _result(one: Mapping[str, Any], dry_run: bool) -> str:
    """Return what becomes of a container, for example ``moved to node-b`` or ``stays: it mounts volumes``."""
    word = "would move" if dry_run and one["state"] == "waits" else one["state"]
    where = f" to {one['to']}" if one["to"] and word in ("would move", "moves", "moved") else ""
    return f"{word}{where}" + (f": {one['reason']}" if one["reason"] else "")
