# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's image commands: whole lists, names with a slash, and waiting for a pull."""

import argparse
import urllib.parse
from collections.abc import Callable
from typing import Any

from osc_lib import exceptions
from zunclient.osc.v1 import images
from zunclient.v1 import images as image_managers

from zun.osc import filtered, versions, waiting


class SearchImage(images.SearchImage):
    """Search specified image"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        parsed_args.image_name = urllib.parse.quote(parsed_args.image_name, safe="")  # it goes into a path as it is
        return super().take_action(parsed_args)


class PullImage(images.PullImage):
    """Pull specified image into a host"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Wait until the image is on the host (needs a server with microversion 1.42).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        if not parsed_args.wait:
            return super().take_action(parsed_args)
        manager: Any = self.app.client_manager
        http = versions.at_placement_version(manager.container, "--wait", versions.PULL_STATUS_VERSION)
        columns, values = super().take_action(parsed_args)
        uuid = dict(zip(columns, values, strict=True))["uuid"]
        pulled = image_managers.ImageManager(http)
        waiting.wait(_pulled(pulled, uuid), f"Pulling {parsed_args.image}")
        shown = pulled.get(uuid).to_dict()
        return tuple(shown), tuple(shown.values())


def _pulled(manager: image_managers.ImageManager, uuid: str) -> Callable[[], waiting.Seen]:
    def look() -> waiting.Seen:
        image = manager.get(uuid)
        if image is None:
            raise exceptions.CommandError(f"image {uuid} is gone")
        text = image.status_detail or ""
        failed = (text or "no reason is given") if image.status == "Error" else None
        return waiting.Seen(image.status == "Available", image.status == "Pulling", failed, text)

    return look


class ListImage(filtered.Whole, images.ListImage):
    """List available images"""

    noun = "images"
