# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's container commands with placement."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from zunclient.osc.v1 import containers

from zun.osc import placement, versions


@contextlib.contextmanager
def _asked(client: Any, parsed_args: argparse.Namespace) -> Iterator[None]:
    """Within the block, ``client`` creates containers as the options of ours ask; without one it is as it was."""
    fields = placement.fields(parsed_args)
    options = ["--" + name.replace("_", "-") for name in fields]
    version = versions.PLACEMENT_VERSION
    hints = placement.hints(parsed_args)
    if hints:
        fields["hints"] = hints
        version = versions.GROUPS_VERSION
        options += ["--group"] if parsed_args.group else ["--hint"]
    if not fields:
        yield
        return
    with versions.placed(client, fields, ", ".join(options), version):
        yield


class CreateContainer(containers.CreateContainer):
    """Create a container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        placement.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with _asked(self.app.client_manager.container, parsed_args):
            return super().take_action(parsed_args)


class RunContainer(containers.RunContainer):
    """Create and run a new container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        placement.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        with _asked(self.app.client_manager.container, parsed_args):
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
        options = ", ".join("--" + name.replace("_", "-") for name in fields)
        if not any((parsed_args.cpu, parsed_args.memory, parsed_args.name)):
            # The stock command refuses when none of its own options is given. The size it has changes nothing.
            shown = self.app.client_manager.container.containers.get(parsed_args.container)
            parsed_args.memory = shown.memory
        with versions.placed(self.app.client_manager.container, fields, options):
            return super().take_action(parsed_args)
