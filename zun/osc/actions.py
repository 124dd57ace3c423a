# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's list of actions, with the client address of each action."""

import argparse
from typing import Any

from osc_lib import utils
from zunclient.osc.v1 import containers
from zunclient.v1 import actions

from zun.osc import tables, versions


class ListActions(tables.List, containers.ActionList):
    """List actions on a container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--client-address",
            action="store_true",
            help="Show from which address each was asked for (needs a server with microversion 1.42).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        parsed_args.container = versions.segment(parsed_args.container)  # python-zunclient does not quote it
        if not parsed_args.client_address:
            columns, rows = super().take_action(parsed_args)
            return columns, rows
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, "--client-address", versions.CLIENTS_VERSION)
        found = actions.ActionManager(http).list(parsed_args.container)
        columns = ("user_id", "client_address", "request_id", "action", "message", "start_time")
        return columns, [utils.get_item_properties(each, columns) for each in found]
