# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's list of registries, with its filters beside ``--limit``."""

import argparse
from typing import Any

from zunclient.osc.v1 import registries

from zun.osc import filtered


class ListRegistry(registries.ListRegistry):
    """List available registries"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        with filtered.pages(manager.container, "registries"):
            return super().take_action(parsed_args)
