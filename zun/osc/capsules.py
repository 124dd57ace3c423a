# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's commands of capsules, with complete lists, placement and published ports."""

import argparse
import json
import logging
import tempfile
from contextlib import AbstractContextManager
from typing import Any

from osc_lib import exceptions
from zunclient import api_versions
from zunclient.common import template_utils
from zunclient.osc.v1 import capsules
from zunclient.v1.capsules import CapsuleManager

from zun.osc import filtered, pods, tables, versions

LOG = logging.getLogger(__name__)


def _at(client: Any, feature: str, version: api_versions.APIVersion) -> AbstractContextManager[None]:
    """Return a context in which ``client.capsules`` speaks microversion ``version``."""
    return versions.managed(client, "capsules", CapsuleManager(versions.http_at(client, feature, version)))


class CreateCapsule(tables.One, capsules.CreateCapsule):
    """Create a capsule"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--lenient",
            action="store_true",
            help="Create a capsule from a Kubernetes Pod although it does not keep everything, and tell what is lost.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        template = template_utils.get_template_contents(parsed_args.file)
        if not pods.is_manifest(template):
            return self._create(parsed_args, template)
        capsule = _capsule_of(template, parsed_args.file, lenient=parsed_args.lenient)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # the command of the library reads a file
            json.dump(capsule, file)
            file.flush()
            return self._create(argparse.Namespace(**{**vars(parsed_args), "file": file.name}), capsule)

    def _create(self, parsed_args: argparse.Namespace, template: Any) -> tuple[Any, Any]:
        spec = template.get("spec") if isinstance(template, dict) else None
        needs = _needs(spec) if isinstance(spec, dict) else None
        if needs is None:
            return super().take_action(parsed_args)
        member, version = needs
        with _at(self.app.client_manager.container, f"'{member}' in the template", version):
            return super().take_action(parsed_args)


def _capsule_of(manifest: dict[str, Any], file: str, *, lenient: bool) -> dict[str, Any]:
    """Return the capsule for a Pod. Raise CommandError for what is no Pod, and unless ``lenient`` for what is lost."""
    try:
        capsule, lost = pods.translated(manifest)
    except ValueError as exc:
        raise exceptions.CommandError(f"{file} is no Pod that can become a capsule: {exc}.") from None
    if lost:
        told = "\n".join(f"  {each}" for each in lost)
        words = f"{file} is a manifest of Kubernetes, and a capsule does not keep:\n{told}"
        if not lenient:
            raise exceptions.CommandError(f"{words}\nTake this out, or give --lenient to create it without.")
        LOG.warning("%s", words)
    return capsule


def _needs(spec: dict[str, Any]) -> tuple[str, api_versions.APIVersion] | None:
    """Return the newest member of the template and its version, or None for a template of the stock client."""
    parts = (spec.get(part) for part in ("containers", "initContainers"))
    containers = [each for part in parts if isinstance(part, list) for each in part if isinstance(each, dict)]
    if any(each.get("devices") for each in containers):
        return "devices", versions.CAPSULE_DEVICES_VERSION
    return ("placement", versions.PLACEMENT_VERSION) if spec.get("placement") else None


class ShowCapsule(tables.One, capsules.ShowCapsule):
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
