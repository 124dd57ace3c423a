# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's container commands with placement."""

import argparse
from typing import Any

from zunclient.osc.v1 import containers

from zun.osc import placement, versions


def _options(fields: dict[str, Any]) -> str:
    """Return the option names behind ``fields``, as the user typed them."""
    return ", ".join("--" + name.replace("_", "-") for name in fields)


class CreateContainer(containers.CreateContainer):
    """Create a container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        placement.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        fields = placement.fields(parsed_args)
        if not fields:
            return super().take_action(parsed_args)
        with versions.placed(self.app.client_manager.container, fields, _options(fields)):
            return super().take_action(parsed_args)


class RunContainer(containers.RunContainer):
    """Create and run a new container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        placement.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        fields = placement.fields(parsed_args)
        if not fields:
            return super().take_action(parsed_args)
        with versions.placed(self.app.client_manager.container, fields, _options(fields)):
            return super().take_action(parsed_args)


class ShowContainer(containers.ShowContainer):
    """Show a container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--placement",
            action="store_true",
            help="Show what was asked of CPUs and memory nodes, and what the container holds "
            "(needs a server with microversion 1.41).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if not parsed_args.placement:
            return super().take_action(parsed_args)
        with versions.placed(self.app.client_manager.container, {}, "--placement"):
            return super().take_action(parsed_args)


class UpdateContainer(containers.UpdateContainer):
    """Update one or more attributes of the container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--cpu-policy",
            choices=("dedicated", "shared"),
            help="Give the running container CPUs of its own, or let it back into the host's shared pool "
            "(needs a server with microversion 1.41).",
        )
        parser.add_argument(
            "--keep-cpus",
            metavar="<cpus>",
            help="CPUs of the container that must stay among its CPUs, for example 2-3,8 "
            "(needs a server with microversion 1.41).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        names = ("cpu_policy", "keep_cpus")
        fields = {name: value for name in names if (value := getattr(parsed_args, name)) is not None}
        if not fields:
            return super().take_action(parsed_args)
        if not any((parsed_args.cpu, parsed_args.memory, parsed_args.name)):
            # The stock command refuses when none of its own options is given. The size it has changes nothing.
            shown = self.app.client_manager.container.containers.get(parsed_args.container)
            parsed_args.memory = shown.memory
        with versions.placed(self.app.client_manager.container, fields, _options(fields)):
            return super().take_action(parsed_args)
