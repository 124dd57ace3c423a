# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack appcontainer explain``, ``placement dry run`` and ``placement capacity``."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from osc_lib.command import command

from zun.osc import explanation, mounts, placement, versions
from zun.topology import amounts


class ExplainContainer(command.ShowOne):
    """Tell why a container found no host, and what would have fitted"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("container", metavar="<container>", help="Name or uuid of the container.")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print lines of text, unless the user asks for another format or for columns."""
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().run(parsed_args)
        self.app.stdout.write("\n".join(explanation.lines(self._document(parsed_args.container))) + "\n")
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        document = self._document(parsed_args.container)
        return tuple(document), tuple(document.values())

    def _document(self, ident: str) -> Mapping[str, Any]:
        http = _http(self, "appcontainer explain")
        _, document = http.json_request("GET", f"/v1/containers/{versions.segment(ident)}/explain")
        return dict(document)


class PlacementDryRun(command.Lister):
    """Show where containers would go, without creating them

    Exits with 1 when there is no place for one of them, and says why.
    """

    _refused = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_shape(parser)
        parser.add_argument("--count", metavar="<n>", type=int, help="How many, one after the other (default 1).")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self._refused)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        body = _shape(parsed_args, "count")
        http = _http(self, "appcontainer placement dry run", body)
        _, answer = http.json_request("POST", "/v1/placement/dry_run", body=body)
        if answer["refusal"] is not None:
            self._refused = True
            sys.stderr.write("\n".join(explanation.lines(answer["refusal"])) + "\n")
        columns = ("Container", "Host", "CPUs", "Memory Nodes", "Cells", "Alternates")
        return columns, list(_placements(answer["placements"]))


class PlacementCapacity(command.Lister):
    """Count how many more containers of a shape would find a host

    The last row is the whole cloud. A + behind its number: the counting stopped there, and there may be room for more.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_shape(parser)
        parser.add_argument("--limit", metavar="<n>", type=int, help="Stop counting there (default 1000).")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        body = _shape(parsed_args, "limit")
        http = _http(self, "appcontainer placement capacity", body)
        _, answer = http.json_request("POST", "/v1/placement/capacity", body=body)
        rows = [(each["host"], str(each["count"]), each["code"], each["reason"]) for each in answer.get("hosts", ())]
        total = f"{answer['total']}{'' if answer['complete'] else '+'}"
        return ("Host", "Count", "Code", "Reason"), [*rows, ("(all)", total, "", "")]


def _http(asking: command.Command, feature: str, body: Mapping[str, Any] = MappingProxyType({})) -> Any:
    manager: Any = asking.app.client_manager  # its attribute "container" is python-zunclient's plugin
    version = placement.version_for(body, versions.QUESTIONS_VERSION)
    return versions.http_at(manager.container, feature, version)


def _add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the options of create that decide on which hosts a container fits."""
    parser.add_argument("--cpu", metavar="<cpu>", help="The number of virtual cpus.")
    parser.add_argument("--memory", metavar="<memory>", help="The container memory size in MiB.")
    parser.add_argument("--disk", metavar="<disk>", type=int, help="The disk size in GiB.")
    parser.add_argument("--image", metavar="<image>", help="The image: one made by commit is on one host only.")
    parser.add_argument(
        "--mount",
        metavar="<mount>",
        action="append",
        default=[],
        help="A mount as of create: a named volume is on one host only, and a new one takes disk. May be repeated.",
    )
    parser.add_argument("--runtime", metavar="<runtime>", help="The runtime to use.")
    parser.add_argument("--availability-zone", metavar="<zone>", help="The availability zone.")
    parser.add_argument("--host", metavar="<host>", help="The host, for administrators.")
    parser.add_argument(
        "--hint", metavar="<key=value>", action="append", default=[], help="Hint for the scheduler; may be repeated."
    )
    placement.add_options(parser)


def _shape(parsed_args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """Return the body of the request, with the given options alone."""
    names = ("cpu", "memory", "disk", "image", "runtime", "availability_zone", "host", *more)
    given = {name: getattr(parsed_args, name) for name in names}
    body = {name: value for name, value in given.items() if value is not None}
    if parsed_args.mount:
        body["mounts"] = mounts.parse(parsed_args.mount)
    hints = placement.all_hints(parsed_args)
    if hints:
        body["hints"] = hints
    return {**body, **placement.fields(parsed_args)}


def _placements(placements: list[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for number, placed in enumerate(placements, start=1):
        cells = "; ".join(_cell(cell) for cell in placed["cells"])
        names = ("host", "cpuset_cpus", "cpuset_mems")
        yield number, *(placed.get(name, "") for name in names), cells, ", ".join(placed.get("alternates", ()))


def _cell(cell: Mapping[str, Any]) -> str:
    which = f"cell {cell['node']}: " if "node" in cell else ""
    kept = f" ({cell['withheld']} kept idle)" if cell["withheld"] else ""
    pages = "".join(f" in {count} pages of {size} KiB" for size, count in cell["pages"].items())
    return f"{which}{amounts.cpus(amounts.text(cell['cpus']))}{kept}, {cell['memory_mib']} MiB{pages}"
