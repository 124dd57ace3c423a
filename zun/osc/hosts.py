# SPDX-License-Identifier: Apache-2.0
"""``openstack appcontainer host list``, ``host topology show`` and ``host audit``."""

import argparse
import os
import shutil
import sys
from typing import Any

from osc_lib.command import command
from zunclient.osc.v1 import hosts

from zun.osc import filtered, host_map, versions

SELF_PINNED = "self-pinned"  # a code of a finding that asks nothing of anybody


class ShowHostTopology(command.Lister):
    """Show the memory nodes and CPUs of a host, and who holds them"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        parser.add_argument(
            "--map",
            action="store_true",
            help="Draw the host core by core instead of the table (-f and -c do not apply).",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.map:
            return super().run(parsed_args)
        out = self.app.stdout
        lines = host_map.picture(
            self._host(parsed_args.host),
            width=shutil.get_terminal_size().columns,
            border=host_map.BOX if _can_encode(out, "─│┌┬┐└┴┘") else host_map.ASCII,
            colour=out.isatty() and "NO_COLOR" not in os.environ,
        )
        out.write("\n".join(lines) + "\n")
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return host_map.COLUMNS, host_map.table(self._host(parsed_args.host))

    def _host(self, name: str) -> host_map.HostMap:
        manager: Any = self.app.client_manager  # its attribute "container" is python-zunclient's plugin
        http = versions.http_at(manager.container, "appcontainer host topology show")
        _, document = http.json_request("GET", f"/v1/hosts/{versions.segment(name)}/topology")
        return host_map.HostMap.from_dict(document)


class AuditHost(command.Lister):
    """Look whether the containers of a host really run where they are planned

    Exits with 1 when something is found that was not repaired, and with 0 otherwise. Threads that pinned themselves
    inside of their container's CPUs are listed and do not count.
    """

    _unrepaired = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        parser.add_argument(
            "--repair",
            action="store_true",
            help="Set drifted containers to their plan again, and say what cannot be repaired.",
        )
        parser.add_argument(
            "--isolation",
            action="store_true",
            help="Show, instead of findings, how isolated each dedicated container is: the grade it asked for, the one "
            "it has, the interrupts of devices that came to its CPUs since the host started, which may come, and, with "
            "thread policy isolate or require, whether it has its cores to itself.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self._unrepaired)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, "appcontainer host audit")
        path = f"/v1/hosts/{versions.segment(parsed_args.host)}/audit"
        _, answer = http.json_request("POST", path, body={"repair": parsed_args.repair})
        findings = answer["findings"]
        self._unrepaired = any(not each["repaired"] and each["code"] != SELF_PINNED for each in findings)
        names: tuple[str, ...]
        columns: tuple[str, ...]
        if parsed_args.isolation:
            names = ("container", "name", "cpus", "asked", "reached", "interrupts", "irqs", "whole_cores")
            columns = ("Container", "Name", "CPUs", "Asked", "Reached", "Interrupts", "IRQs", "Whole cores")
            return columns, [tuple(each.get(name, "") for name in names) for each in answer.get("isolation", ())]
        names = ("code", "container", "name", "layer", "detail", "repair", "repaired")
        columns = ("Code", "Container", "Name", "Layer", "Detail", "Repair", "Repaired")
        return columns, [tuple(each.get(name, "") for name in names) for each in findings]


def _can_encode(stream: Any, text: str) -> bool:
    """Tell whether ``stream`` can show ``text``; a stream of str without an encoding can."""
    try:
        text.encode(getattr(stream, "encoding", None) or sys.getdefaultencoding())
    except UnicodeEncodeError:
        return False
    return True


class ListHost(filtered.Whole, hosts.ListHost):
    """List available hosts"""

    noun = "hosts"
