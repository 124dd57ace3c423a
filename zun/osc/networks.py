# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer network ...`` that manage networks. zun.osc.each has attach and detach."""

import argparse
from typing import Any

from osc_lib.cli import parseractions
from osc_lib.command import command

from zun.osc import resources, tables

COLUMNS = ("uuid", "name", "project_id", "shared", "subnets", "created_at")
LISTED = ("uuid", "name", "project_id", "shared", "subnets")


def _networks(app: Any, action: str) -> resources.Collection:
    return resources.Collection(app, "networks", f"appcontainer network {action}")


def _row(network: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    subnets = [subnet["cidr"] for subnet in network["subnets"]]
    return resources.row({**network, "subnets": subnets}, names)


class CreateNetwork(tables.One, command.ShowOne):
    """Create a network"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the network.")
        parser.add_argument("--project", metavar="<project-id>", help="Project that it is for; your own unless given.")
        parser.add_argument("--share", action="store_true", help="Let every project use it.")
        parser.add_argument(
            "--subnet",
            metavar="cidr=<cidr>[,gateway=<address>]",
            action=parseractions.MultiKeyValueAction,
            required_keys=["cidr"],
            optional_keys=["gateway"],
            help="Addresses of its containers. May be used for IPv4 and for IPv6. Unless given, the service chooses.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        body: dict[str, Any] = {"name": parsed_args.name}
        if parsed_args.project is not None:
            body["project_id"] = parsed_args.project
        if parsed_args.share:
            body["shared"] = True
        if parsed_args.subnet:
            body["subnets"] = parsed_args.subnet
        return COLUMNS, _row(_networks(self.app, "create").create(body), COLUMNS)


class DeleteNetwork(resources.DeleteEach):
    """Delete networks that have no containers"""

    noun = "network"


class ShowNetwork(tables.One, command.ShowOne):
    """Show a network"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("network", metavar="<network>", help="Name or uuid of the network.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return COLUMNS, _row(_networks(self.app, "show").get(parsed_args.network), COLUMNS)


class ListNetworks(tables.List, command.Lister):
    """List the networks of a container, or without one those that may be used"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("container", metavar="<container>", nargs="?", help="Name or uuid of a container.")
        parser.add_argument("--all-projects", action="store_true", help="List the networks of every project.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if parsed_args.container is None:
            query = {"all_projects": "true"} if parsed_args.all_projects else {}
            return LISTED, [_row(dict(each), LISTED) for each in _networks(self.app, "list").all(**query)]
        # The columns of python-zunclient's command, which fails when it prints them.
        app: Any = self.app
        found = app.client_manager.container.containers.network_list(parsed_args.container)
        return ("net_id", "port_id", "fixed_ips"), [(each.net_id, each.port_id, _addresses(each)) for each in found]


def _addresses(port: Any) -> str:
    """Return the addresses of a port, for example ``10.0.0.2, fd00::2``. Below microversion 1.18 a port has one."""
    listed = getattr(port, "fixed_ips", None) or [{"ip_address": getattr(port, "ip_address", "")}]
    return ", ".join(each["ip_address"] for each in listed)
