# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer set ...``, and the options of create and run that make a set."""

import argparse
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from osc_lib import exceptions
from osc_lib.command import command
from zunclient import exceptions as zun_exceptions

from zun.osc import each, placement, resources, versions, waiting
from zun.osc.waiting import BUSY, Seen

COLUMNS = (
    *("uuid", "name", "count", "min_count", "rules", "statuses", "status_reason", "members"),
    *("project_id", "user_id", "created_at", "updated_at"),
)
LISTED = ("uuid", "name", "count", "rules", "statuses")

_RULES = ("spread", "pack", "max_per_host", "min_count")


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "sets", "Many equal containers in one request, NAME-0, NAME-1 and so on (needs microversion 1.50)."
    )
    group.add_argument(
        "--count", metavar="<n>", type=placement.at_least_one, help="How many containers to make, at most 1000."
    )
    group.add_argument(
        "--spread",
        metavar="<domain>",
        help="At most one container in each: cell, host, or the name of a property of aggregates such as rack. "
        "none: any number (default).",
    )
    group.add_argument(
        "--pack",
        metavar="<domain>",
        help="All containers in one: host, or the name of a property of aggregates such as rack. none: in any "
        "(default).",
    )
    group.add_argument(
        "--max-per-host", metavar="<n>", type=placement.at_least_one, help="The most containers of one host."
    )
    group.add_argument(
        "--min-count",
        metavar="<n>",
        type=placement.at_least_one,
        help="How many containers must find a place; with fewer none is placed (default: all).",
    )


def fields(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the members ``count`` and ``set`` of the request. Raises CommandError for rules without ``--count``."""
    rules = {name: value for name in _RULES if (value := getattr(parsed_args, name)) is not None}
    if parsed_args.count is None:
        if rules:
            given = ", ".join(f"--{name.replace('_', '-')}" for name in rules)
            raise exceptions.CommandError(f"{given}: rules of a set need --count, the number of its containers.")
        return {}
    return {"count": parsed_args.count, **({"set": rules} if rules else {})}


def shown(item: Mapping[str, Any], columns: tuple[str, ...] = COLUMNS) -> tuple[Any, ...]:
    """Return a set as a row of a table."""
    told = dict(sorted(Counter(member["status"] for member in item["members"]).items()))
    members = [f"{member['name']} ({member['status']})" for member in item["members"]]
    return resources.row({**item, "statuses": told, "members": members}, columns)


def until(http: Any, uuid: str, *wanted: str) -> Callable[[], Seen]:
    """Return a look at a set: done when each member is in one of the statuses ``wanted``, failed if one is in Error."""

    def look() -> Seen:
        try:
            _, item = http.json_request("GET", f"/v1/sets/{uuid}")
        except zun_exceptions.NotFound:
            return Seen(False, failed=f"set {uuid} was deleted")
        statuses = Counter(member["status"] for member in item["members"])
        done = sum(statuses[each_] for each_ in wanted)
        left = {status: count for status, count in statuses.items() if status not in wanted}
        if not left:
            return Seen(True)
        busy = bool(BUSY & left.keys())
        if "Error" in left and not busy:
            reason = item["status_reason"] or "see the status_reason of its members"
            return Seen(False, failed=f"{left['Error']} of {item['count']} members are in status Error: {reason}")
        return Seen(False, busy, text=f"{done} of {item['count']}")

    return look


class ListSets(resources.ListAll):
    """List sets of containers"""

    noun = "set"
    listed = LISTED

    def _row(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return shown(item, LISTED)


class ShowSet(resources.ShowNamed):
    """Show a set of containers and its members"""

    noun = "set"
    columns = COLUMNS

    def _row(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return shown(item)


class DeleteSet(command.Command):
    """Delete sets with their containers"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("sets", metavar="<set>", nargs="+", help="Name or uuid of the set.")
        parser.add_argument("--stop", action="store_true", help="Stop the containers that run, then delete them.")
        parser.add_argument("--force", action="store_true", help="Delete the containers whatever their status is.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        client: Any = self.app.client_manager
        http = versions.http_at(client.container, "appcontainer set delete", versions.SETS_VERSION)
        query = {name: "true" for name in ("stop", "force") if getattr(parsed_args, name)}
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""

        def delete(ident: str) -> None:
            http.json_request("DELETE", f"/v1/sets/{versions.segment(ident)}{asked}")

        return each.one_by_one(parsed_args.sets, "delete set {}", delete)


class _Act(command.ShowOne):
    """Base of the commands that do something with the members of a set."""

    action: ClassVar[str]
    wanted: ClassVar[tuple[str, ...]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("set", metavar="<set>", help="Name or uuid of the set.")
        parser.add_argument("--wait", action="store_true", help="Wait until it is done with each container.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        client: Any = self.app.client_manager
        http = versions.http_at(client.container, f"appcontainer set {self.action}", versions.SETS_VERSION)
        _, item = http.json_request("POST", f"/v1/sets/{versions.segment(parsed_args.set)}/{self.action}")
        if parsed_args.wait:
            waiting.wait(until(http, item["uuid"], *self.wanted), f"Waiting for {item['name']}")
            _, item = http.json_request("GET", f"/v1/sets/{item['uuid']}")
        return COLUMNS, shown(item)


class StartSet(_Act):
    """Start the containers of a set"""

    action, wanted = "start", ("Running", "Stopped")


class StopSet(_Act):
    """Stop the containers of a set"""

    action, wanted = "stop", ("Stopped", "Created", "Error", "Dead")


class ReplaceSet(_Act):
    """Create the lost containers of a set anew

    A container is lost that was deleted, or is in status Error or Dead. The new ones have the old names, and places by
    the rules of the set.
    """

    action, wanted = "replace", ("Running", "Created", "Stopped")
