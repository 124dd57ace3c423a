# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's commands of capsules, with complete lists, placement and published ports."""

import argparse
import json
import logging
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from cliff.columns import FormattableColumn
from osc_lib import exceptions
from osc_lib.command import command
from zunclient import api_versions
from zunclient.osc.v1 import capsules
from zunclient.v1.capsules import CapsuleManager

from zun.osc import compose, documents, filtered, pods, tables, versions
from zun.osc.translation import Translated

LOG = logging.getLogger(__name__)


def _at(client: Any, feature: str, version: api_versions.APIVersion) -> AbstractContextManager[None]:
    """Return a context in which ``client.capsules`` speaks microversion ``version``."""
    return versions.managed(client, "capsules", CapsuleManager(versions.http_at(client, feature, version)))


def _add_lenient(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="Create the capsule although it does not keep everything of the file, and tell what is lost.",
    )


class _Members(FormattableColumn[list[dict[str, Any]]]):
    """The containers of a capsule. A person sees a line for each; the other formats have all members."""

    def human_readable(self) -> str:
        return "\n".join(
            " ".join(str(each[name]) for name in ("uuid", "name", "status", "status_detail") if each.get(name))
            for each in self._value
        )


class _One(tables.One):
    """Mixin for a command that prints one capsule."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        values = [
            _Members(value) if name in ("containers", "init_containers") and value else value
            for name, value in zip(column_names, data, strict=True)
        ]
        return super().produce_output(parsed_args, column_names, values)


class CreateCapsule(_One, capsules.CreateCapsule):
    """Create a capsule"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        _add_lenient(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        def translate() -> Translated:
            found = documents.read(parsed_args.file)
            if any(map(pods.is_manifest, found)):
                return pods.of_documents(found)
            template = documents.one(found)
            if isinstance(template, dict) and "services" in template and "kind" not in template:
                raise ValueError("it is a compose file, which 'openstack appcontainer compose up' takes")
            return Translated(template, ())

        return self._create_from(parsed_args, "manifest of Kubernetes", translate)

    def _create_from(
        self, parsed_args: argparse.Namespace, what: str, translate: Callable[[], Translated]
    ) -> tuple[Any, Any]:
        """Create the capsule for a file. Raise CommandError unless the file is ``what`` or a template, and for what is
        lost unless that is allowed.
        """
        try:
            template, lost = translate()
        except ValueError as exc:
            raise exceptions.CommandError(f"{parsed_args.file} cannot become a capsule: {exc}.") from None
        if lost:
            told = "\n".join(f"  {each}" for each in lost)
            words = f"{parsed_args.file} is a {what}, and a capsule does not keep:\n{told}"
            if not parsed_args.lenient:
                raise exceptions.CommandError(f"{words}\nTake this out, or give --lenient to create it without.")
            LOG.warning("%s", words)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # the command of the library reads a file
            json.dump(template, file)
            file.flush()
            return self._create(argparse.Namespace(**{**vars(parsed_args), "file": file.name}), template)

    def _create(self, parsed_args: argparse.Namespace, template: Any) -> tuple[Any, Any]:
        spec = template.get("spec") if isinstance(template, dict) else None
        needs = _needs(spec) if isinstance(spec, dict) else None
        if needs is None:
            return capsules.CreateCapsule.take_action(self, parsed_args)
        member, version = needs
        with _at(self.app.client_manager.container, f"'{member}' in the template", version):
            return capsules.CreateCapsule.take_action(self, parsed_args)


class ComposeUp(CreateCapsule):
    """Create a capsule from the services of a compose file"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = command.ShowOne.get_parser(self, prog_name)
        parser.add_argument("file", metavar="<file>", help="Path to the compose file.")
        parser.add_argument(
            "--project-name",
            metavar="<name>",
            help="Name of the capsule. Default: 'name' of the file, else the name of its folder.",
        )
        _add_lenient(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        folder = pathlib.Path(parsed_args.file).resolve().parent

        def read(name: str) -> str:
            return (folder / pathlib.Path(name).expanduser()).read_text("utf-8-sig")

        def translate() -> Translated:
            document = documents.one(documents.read(parsed_args.file, documents.Compose))
            if not isinstance(document, dict):
                raise ValueError("it is no mapping")
            if "kind" in document:
                raise ValueError("it is no compose file: 'openstack appcontainer capsule create --file' takes it")
            values: Mapping[str, str] = os.environ
            if (folder / ".env").is_file():
                values = {**compose.variables_of(read(".env"), ".env", os.environ), **os.environ}
            return compose.of_document(document, values, read, folder.name, parsed_args.project_name)

        return self._create_from(parsed_args, "compose file", translate)


def _needs(spec: dict[str, Any]) -> tuple[str, api_versions.APIVersion] | None:
    """Return the newest member of the template and its version, or None for a template of the stock client."""
    parts = (spec.get(part) for part in ("containers", "initContainers"))
    containers = [each for part in parts if isinstance(part, list) for each in part if isinstance(each, dict)]
    new = [name for each in containers for name in ("name", "restartPolicy", *pods.PROBES) if each.get(name)]
    new += ["terminationGracePeriodSeconds"] if spec.get("terminationGracePeriodSeconds") is not None else []
    volumes = spec.get("volumes")
    listed = [each for each in volumes if isinstance(each, dict)] if isinstance(volumes, list) else []
    new += ["emptyDir" for each in listed if "emptyDir" in each]
    if new and new != ["name"] * len(new):  # a name alone is ignored by older services
        return next(name for name in new if name != "name"), versions.POD_MEMBERS_VERSION
    placed = spec.get("placement")
    if any(each.get("placement") for each in containers):
        return "placement of a container", versions.MEMBER_PLACEMENT_VERSION
    if isinstance(placed, dict) and placed.get("same"):
        return "same", versions.MEMBER_PLACEMENT_VERSION
    if any(each.get("devices") for each in containers):
        return "devices", versions.CAPSULE_DEVICES_VERSION
    return ("placement", versions.PLACEMENT_VERSION) if placed else None


class ShowCapsule(_One, capsules.ShowCapsule):
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
