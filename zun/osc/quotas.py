# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer quota get|default|update`` with every resource that the service counts."""

import argparse
from typing import Any

from zunclient.osc.v1 import quotas
from zunclient.v1 import quotas as stock

from zun.osc import versions

#: Resource -> the counted things, for the help. python-zunclient has options for cpu, memory, disk and containers.
COUNTED = {
    "ports": "exposed ports of containers",
    "images": "images made of containers",
    "groups": "groups of containers",
    "networks": "networks",
    "volumes": "named volumes",
    "registries": "accounts at registries",
    "terminals": "open terminals, with permissions for one that were not used yet",
}


def _device_limit(text: str) -> tuple[str, str]:
    """Return resource and limit. Example: ("device:gpu", "4") for ``gpu=4``."""
    name, equals, limit = text.partition("=")
    if not name or not equals or not limit:
        raise argparse.ArgumentTypeError(f"'{text}' is not <alias>=<number>, for example gpu=4")
    return f"device:{name}", limit


class _Limits(stock.QuotaManager):
    """Quotas at the microversion of ``api``. ``more`` are limits that python-zunclient does not know."""

    def __init__(self, api: Any, more: dict[str, str] | None = None) -> None:
        super().__init__(api)
        self._more = more or {}

    def update(self, project_id: str, **limits: str | None) -> Any:
        given = {name: limit for name, limit in limits.items() if limit is not None}
        return self._update(self._path(project_id), {**given, **self._more}, method="PUT")


class _Everything:
    """Mixin that shows every resource of a new service, and python-zunclient's four resources of an older service."""

    app: Any

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = self.app.client_manager.container
        newest = (versions.DEVICE_QUOTAS_VERSION, versions.VOLUMES_VERSION)
        version = next((each for each in newest if versions.offers(client, each)), None)
        manager = client.quotas if version is None else _Limits(versions.http_at(client, "this command", version))
        with versions.managed(client, "quotas", manager):
            return super().take_action(parsed_args)  # type: ignore[misc]


class GetQuota(_Everything, quotas.GetQuota):
    """Get quota of the project"""


class GetDefaultQuota(_Everything, quotas.GetDefaultQuota):
    """Get default quota of the project"""


class UpdateQuota(quotas.UpdateQuota):
    """Update the quotas of the project"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for resource, what in COUNTED.items():
            parser.add_argument(
                f"--{resource}", metavar=f"<{resource}>", help=f"Most {what} that the project may have; -1: no limit."
            )
        parser.add_argument(
            "--device",
            metavar="<alias>=<number>",
            action="append",
            default=[],
            type=_device_limit,
            help="Most devices of this alias or resource class that the project may have; -1: no limit. May be "
            "repeated (needs a server with microversion 1.46).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        more = {name: limit for name in COUNTED if (limit := getattr(parsed_args, name)) is not None}
        if not more and not parsed_args.device:
            return super().take_action(parsed_args)
        client = self.app.client_manager.container
        feature = ", ".join([*(f"--{name}" for name in more), *(["--device"] if parsed_args.device else [])])
        version = versions.DEVICE_QUOTAS_VERSION if parsed_args.device else versions.VOLUMES_VERSION
        manager = _Limits(versions.http_at(client, feature, version), more | dict(parsed_args.device))
        with versions.managed(client, "quotas", manager):
            return super().take_action(parsed_args)
