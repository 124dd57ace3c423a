# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's image commands, with complete lists, names with a slash, and the progress of a pull."""

import argparse
from collections.abc import Callable
from typing import Any

from osc_lib import exceptions
from zunclient.osc.v1 import images
from zunclient.v1 import images as image_managers

from zun.osc import filtered, tables, versions, waiting


class SearchImage(tables.List, images.SearchImage):
    """Search specified image"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        parsed_args.image_name = versions.segment(parsed_args.image_name)  # python-zunclient does not quote it
        return super().take_action(parsed_args)


class PullImage(tables.One, images.PullImage):
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
        telling = _telling_status(manager.container, "--wait")
        columns, values = super().take_action(parsed_args)
        uuid = dict(zip(columns, values, strict=True))["uuid"]
        waiting.wait(_pulled(telling, uuid), f"Pulling {parsed_args.image}")
        return _shown(telling.get(uuid))


class ShowImage(tables.One, images.ShowImage):
    """Describe a specific image"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--status",
            action="store_true",
            help="Show how far its pull is, or why it failed (needs a server with microversion 1.42).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        parsed_args.uuid = versions.segment(parsed_args.uuid)  # python-zunclient does not quote it
        if not parsed_args.status:
            return super().take_action(parsed_args)
        return _shown(_telling_status(manager.container, "--status").get(parsed_args.uuid))


def _telling_status(client: Any, feature: str) -> image_managers.ImageManager:
    return image_managers.ImageManager(versions.http_at(client, feature, versions.PULL_STATUS_VERSION))


def _shown(image: Any) -> tuple[Any, Any]:
    members = image.to_dict()
    return tuple(members), tuple(members.values())


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
