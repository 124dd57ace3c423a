# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's commands of capsules, with complete lists, placement and published ports."""

import argparse
from contextlib import AbstractContextManager
from typing import Any

from zunclient import api_versions
from zunclient.common import template_utils
from zunclient.osc.v1 import capsules
from zunclient.v1.capsules import CapsuleManager

from zun.osc import filtered, versions


def _at(client: Any, feature: str, version: api_versions.APIVersion) -> AbstractContextManager[None]:
    """Return a context in which ``client.capsules`` speaks microversion ``version``."""
    return versions.managed(client, "capsules", CapsuleManager(versions.http_at(client, feature, version)))


class CreateCapsule(capsules.CreateCapsule):
    """Create a capsule"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        template = template_utils.get_template_contents(parsed_args.file)
        spec = template.get("spec") if isinstance(template, dict) else None
        if not isinstance(spec, dict) or not spec.get("placement"):
            return super().take_action(parsed_args)
        with _at(self.app.client_manager.container, "'placement' in the template", versions.PLACEMENT_VERSION):
            return super().take_action(parsed_args)


class ShowCapsule(capsules.ShowCapsule):
    """Show a capsule"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--published-ports",
            action="store_true",
            help="Show where the ports of its containers are reached (needs a server with microversion 1.42).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if not parsed_args.published_ports:
            return super().take_action(parsed_args)
        with _at(self.app.client_manager.container, "--published-ports", versions.NETWORKS_VERSION):
            return super().take_action(parsed_args)


class ListCapsule(filtered.Whole, capsules.ListCapsule):
    """List available capsules"""

    noun = "capsules"
