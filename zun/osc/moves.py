# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer host defragment`` and ``host evacuate``."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command
from zunclient import exceptions as zun_exceptions

from zun.osc import placement, versions
from zun.osc.explanation import count

PAUSE = 0.2  # seconds between two looks of --wait
QUIET = 60.0  # seconds without the end of a move after which --wait gives up


class Report(command.Lister):
    """A table, after which the command exits with 1 if ``failed`` is set."""

    failed = False

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self.failed)


class DefragmentHost(Report):
    """Move containers within a host so that a container of a size fits there, or that they are on fewer cells

    The processes of the containers go on. Exits with 1 when no moves help, and says why. With --wait also when a move
    failed: then the containers that were moved before stay where they are now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("host", metavar="<host>", nargs="?", help="Name or uuid of the host.")
        where.add_argument("--all", action="store_true", help="The host where the moves cost least.")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--near",
            action="store_true",
            help="Bring the containers of the host onto as few and near cells as they asked for.",
        )
        what.add_argument(
            "--for",
            dest="size",
            metavar="<cpus>[:<MiB>]",
            type=_size,
            help="Dedicated CPUs and memory of the container that shall fit, for example 8:4096. Without memory, it "
            "has the least that the cloud allows a container.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Show the moves, and move nothing.")
        parser.add_argument("--wait", action="store_true", help="Wait until the containers have moved.")
        placement.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager  # its attribute "container" is python-zunclient's plugin
        http = versions.http_at(manager.container, "appcontainer host defragment", versions.MOVES_VERSION)
        if parsed_args.near and parsed_args.all:
            raise exceptions.CommandError("--near needs the name of a host, not --all.")
        size = {"near": True} if parsed_args.near else {**parsed_args.size, "cpu_policy": "dedicated"}
        body = {**size, **placement.fields(parsed_args)}
        if parsed_args.host:
            body["host"] = parsed_args.host
        if parsed_args.dry_run:
            body["dry_run"] = True
        response, answer = http.json_request("POST", "/v1/placement/defragment", body=body)
        self._tell(answer, parsed_args)
        if parsed_args.wait and not parsed_args.dry_run:
            request = response.headers.get("x-openstack-request-id")
            for reason in _wait(http, answer["moves"][: answer["accepted"]], request):
                self.failed = True
                sys.stderr.write(f"{reason}\n")
        columns = ("Container", "Name", "CPUs", "Memory Nodes", "New CPUs", "New Memory Nodes", "MiB")
        names = ("container", "name", "old_cpuset_cpus", "old_cpuset_mems", "cpuset_cpus", "cpuset_mems", "mib")
        return columns, [tuple(each[name] for name in names) for each in answer["moves"]]

    def _tell(self, answer: Mapping[str, Any], parsed_args: argparse.Namespace) -> None:
        """Say on stderr what comes of the request. The table is for the moves."""
        if answer["host"] is None:
            self.failed = True
            told = f"No moves help: {answer['reason']}"
        elif not answer["moves"] and parsed_args.near:
            told = "no claim is remote" if answer["proven"] else "no moves were found that bring a remote claim nearer"
            told = f"Host {answer['host']}: {told}."
        elif not answer["moves"]:
            told = f"Host {answer['host']} has room already: nothing is moved."
        elif parsed_args.dry_run and parsed_args.near:
            then = "no claim would be remote" if answer["proven"] else "some claims would stay remote"
            told = f"Host {answer['host']}: after {count(len(answer['moves']), 'move')} {then}."
        elif parsed_args.dry_run:
            best = "no others are cheaper" if answer["proven"] else "others may be cheaper"
            told = f"Host {answer['host']}: {count(len(answer['moves']), 'move')} would make room; {best}."
        else:
            told = f"Host {answer['host']}: {count(answer['accepted'], 'move')} of {len(answer['moves'])} under way."
            if answer["reason"]:
                self.failed = True
                told = f"{told} {answer['reason']}"
        sys.stderr.write(f"{told}\n")


class EvacuateHost(Report):
    """Have the containers of a host that is down placed on other hosts

    The command of each container starts anew there; what it had written into its own file system is lost. Exits with 1
    if a container stays, and says why.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--host-is-down",
            action="store_true",
            help="Your word that no container runs on the host any more: it is switched off, or cut off from networks "
            "and storage. Refused while its compute service sends heartbeats.",
        )
        which.add_argument("--dry-run", action="store_true", help="Show the containers, and take none.")
        parser.add_argument("--wait", action="store_true", help="Wait until the containers are placed, or in Error.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, "appcontainer host evacuate", versions.MOVES_VERSION)
        body = {"dry_run": True} if parsed_args.dry_run else {"host_is_down": True}
        path = f"/v1/hosts/{versions.segment(parsed_args.host)}/evacuate"
        _, answer = http.json_request("POST", path, body=body)
        stay = [each for each in answer["containers"] if each["reason"] is not None]
        self.failed = bool(stay)
        rows = []
        for each in answer["containers"]:
            if each["reason"] is not None:
                now = f"stays: {each['reason']}"
            elif parsed_args.wait and not parsed_args.dry_run:
                now = self._placed(http, each["container"])
            else:
                now = "can be taken elsewhere" if parsed_args.dry_run else "is taken elsewhere"
            rows.append((each["container"], each["name"], now))
        return ("Container", "Name", "Result"), rows

    def _placed(self, http: Any, uuid: str) -> str:
        """Wait until the container is placed or in Error, and return its host or the reason."""
        while True:
            _, shown = http.json_request("GET", f"/v1/containers/{uuid}?all_projects=true")
            if shown["status"] == "Error":
                self.failed = True
                return f"Error: {shown['status_reason']}"
            if shown["status"] != "Creating":
                return f"{shown['status']} on {shown['host']}"
            time.sleep(PAUSE)


def says_why(uuid: str, request: str | None) -> str:
    """Return which command shows the reason of a failed action."""
    return f"'openstack appcontainer action show {uuid} {request}' says why"


def _size(text: str) -> dict[str, int]:
    """Parse ``CPUS`` or ``CPUS:MiB``, as a type of argparse, to members of the request."""
    cpus, colon, memory = text.partition(":")
    return {"cpu": placement.at_least_one(cpus), **({"memory": placement.at_least_one(memory)} if colon else {})}


def _wait(http: Any, moves: list[Mapping[str, Any]], request: str | None) -> Iterator[str]:
    """Wait for the end of the moves, and yield the failures."""
    since = time.monotonic()
    left = [each["container"] for each in moves]
    while left:
        for uuid in list(left):
            reason: str | None = "it was deleted"
            try:
                _, listed = http.json_request("GET", f"/v1/containers/{uuid}/container_actions")
            except zun_exceptions.NotFound:
                pass
            else:
                mine = [action for action in listed["containerActions"] if action["request_id"] == request]
                if any(action["finish_time"] is None for action in mine):
                    continue
                failed = any(action["message"] for action in mine)
                reason = says_why(uuid, request) if failed else None
            since = time.monotonic()
            left.remove(uuid)
            if reason is not None:
                yield f"Container {uuid} was not moved: {reason}."
        if left and time.monotonic() - since > QUIET:
            raise exceptions.CommandError(f"No move has ended for {QUIET:.0f} seconds. Left: {', '.join(sorted(left))}")
        if left:
            time.sleep(PAUSE)
