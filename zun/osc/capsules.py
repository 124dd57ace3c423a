# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's commands of capsules: whole lists, and a microversion that knows their placement."""

import argparse
from typing import Any

from zunclient.common import template_utils
from zunclient.osc.v1 import capsules
from zunclient.v1.capsules import CapsuleManager

from zun.osc import filtered, versions


class CreateCapsule(capsules.CreateCapsule):
    """Create a capsule"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        template = template_utils.get_template_contents(parsed_args.file)
        spec = template.get("spec") if isinstance(template, dict) else None
        if not isinstance(spec, dict) or not spec.get("placement"):
            return super().take_action(parsed_args)
        client = self.app.client_manager.container
        stock = client.capsules
        client.capsules = CapsuleManager(versions.at_placement_version(client, "'placement' in the template"))
        try:
            return super().take_action(parsed_args)
        finally:
            client.capsules = stock


class ListCapsule(capsules.ListCapsule):
    """List available capsules"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        with filtered.pages(manager.container, "capsules"):
            return super().take_action(parsed_args)
