# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer group ...``."""

import argparse
from typing import Any

from osc_lib.command import command

from zun.osc import placement, resources

COLUMNS = ("uuid", "name", "policy", "rules", "members", "project_id", "user_id", "created_at", "updated_at")
LISTED = ("uuid", "name", "policy", "rules", "members")


def _groups(app: Any, action: str) -> resources.Collection:
    return resources.Collection(app, "groups", f"appcontainer group {action}")


class CreateGroup(command.ShowOne):
    """Create a group of containers"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the group, unique in the project.")
        parser.add_argument(
            "--policy",
            required=True,
            choices=("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"),
            help="affinity: all containers of the group on one host. anti-affinity: each on another. "
            "soft-...: the same where it can be done.",
        )
        parser.add_argument(
            "--max-per-host",
            metavar="<n>",
            type=placement.at_least_one,
            help="With anti-affinity: how many containers of the group one host may have (default 1).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        body = {"name": parsed_args.name, "policy": parsed_args.policy}
        if parsed_args.max_per_host is not None:
            body["rules"] = {"max_per_host": parsed_args.max_per_host}
        return COLUMNS, resources.row(_groups(self.app, "create").create(body), COLUMNS)


class DeleteGroup(resources.DeleteEach):
    """Delete groups that have no containers"""

    noun = "group"


class ListGroups(resources.ListAll):
    """List groups of containers"""

    noun = "group"
    listed = LISTED


class ShowGroup(resources.ShowNamed):
    """Show a group of containers and its members"""

    noun = "group"
    columns = COLUMNS
