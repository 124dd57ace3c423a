# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer aggregate ...`` for administrators, with the options of ``openstack aggregate``."""

import argparse
from typing import Any

from osc_lib.cli import parseractions
from osc_lib.command import command

from zun.osc import resources, tables

COLUMNS = ("uuid", "name", "availability_zone", "hosts", "metadata", "created_at", "updated_at")
LISTED = ("uuid", "name", "availability_zone", "hosts", "metadata")


def _aggregates(app: Any, action: str) -> resources.Collection:
    return resources.Collection(app, "aggregates", f"appcontainer aggregate {action}")


def _add_property(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--property",
        metavar="<key=value>",
        action=parseractions.KeyValueAction,
        default={},
        help="Metadata of the aggregate. May be used multiple times.",
    )


class CreateAggregate(command.ShowOne):
    """Create a host aggregate"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the aggregate, unique.")
        parser.add_argument("--zone", metavar="<zone>", help="Availability zone of its hosts.")
        _add_property(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        body: dict[str, Any] = {"name": parsed_args.name}
        if parsed_args.zone is not None:
            body["availability_zone"] = parsed_args.zone
        if parsed_args.property:
            body["metadata"] = parsed_args.property
        return COLUMNS, resources.row(_aggregates(self.app, "create").create(body), COLUMNS)


class DeleteAggregate(resources.DeleteEach):
    """Delete host aggregates that have no hosts"""

    noun = "aggregate"


class ListAggregates(tables.List, command.Lister):
    """List the host aggregates"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return LISTED, [resources.row(each, LISTED) for each in _aggregates(self.app, "list").all()]


class OneAggregate(command.ShowOne):
    """Base of commands that change or show one aggregate and print it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("aggregate", metavar="<aggregate>", help="Name or uuid of the aggregate.")
        return parser


class ShowAggregate(OneAggregate):
    """Show a host aggregate"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return COLUMNS, resources.row(_aggregates(self.app, "show").get(parsed_args.aggregate), COLUMNS)


class SetAggregate(OneAggregate):
    """Change name, zone or metadata of a host aggregate"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--name", metavar="<name>", help="New name.")
        zone = parser.add_mutually_exclusive_group()
        zone.add_argument("--zone", metavar="<zone>", help="Availability zone of its hosts.")
        zone.add_argument(
            "--no-zone", action="store_true", help="Leave its hosts in the zones that they say themselves."
        )
        _add_property(parser)
        parser.add_argument(
            "--remove-property",
            metavar="<key>",
            action="append",
            default=[],
            help="Metadata to remove. May be used multiple times.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        aggregates = _aggregates(self.app, "set")
        changes: dict[str, Any] = {} if parsed_args.name is None else {"name": parsed_args.name}
        if parsed_args.zone is not None or parsed_args.no_zone:
            changes["availability_zone"] = parsed_args.zone
        metadata = {**parsed_args.property, **dict.fromkeys(parsed_args.remove_property)}
        found = aggregates.get(parsed_args.aggregate)  # its uuid stays when its name changes
        if metadata:
            found = aggregates.act(found["uuid"], "set_metadata", {"metadata": metadata})
        if changes:
            found = aggregates.update(found["uuid"], changes)
        return COLUMNS, resources.row(found, COLUMNS)


class AddHost(OneAggregate):
    """Add a host to an aggregate"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name of the compute host.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        answer = _aggregates(self.app, "add host").act(parsed_args.aggregate, "add_host", {"host": parsed_args.host})
        return COLUMNS, resources.row(answer, COLUMNS)


class RemoveHost(AddHost):
    """Remove a host from an aggregate"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        answer = _aggregates(self.app, "remove host").act(
            parsed_args.aggregate, "remove_host", {"host": parsed_args.host}
        )
        return COLUMNS, resources.row(answer, COLUMNS)
