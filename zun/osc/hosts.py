# SPDX-License-Identifier: Apache-2.0
"""Commands of ``openstack appcontainer host``: ``list``, ``show``, ``topology show``, ``trait ...`` and ``audit``."""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from osc_lib.command import command
from zunclient.osc.v1 import hosts

from zun.osc import filtered, host_map, versions
from zun.osc.explanation import count

SELF_PINNED = "self-pinned"  # the code of a finding that needs no repair


class ShowHostTopology(command.Lister):
    """Show the cells of a host, their CPUs and memory, and who holds them"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        shown = parser.add_mutually_exclusive_group()
        shown.add_argument(
            "--map",
            action="store_true",
            help="Draw the host core by core instead of the table (-f and -c do not apply).",
        )
        shown.add_argument(
            "--devices",
            action="store_true",
            help="List the devices that the host offers instead: where they are, and what joins them. A server before "
            "microversion 1.47 tells neither links nor nearest cells nor memory nodes, one before 1.44 no devices.",
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
        host = self._host(parsed_args.host)
        if parsed_args.devices:
            return host_map.DEVICE_COLUMNS, host_map.device_table(host)
        return host_map.COLUMNS, host_map.table(host)

    def _host(self, name: str) -> host_map.HostMap:
        manager: Any = self.app.client_manager  # its attribute "container" is python-zunclient's plugin
        known = (versions.QUIET_VERSION, versions.LINKS_VERSION, versions.MIXED_VERSION, versions.DEVICES_VERSION)
        version = versions.newest_offered(manager.container, *known)
        http = versions.http_at(manager.container, "appcontainer host topology show", version)
        _, document = http.json_request("GET", f"/v1/hosts/{versions.segment(name)}/topology")
        return host_map.HostMap.from_dict(document)


class ListHostTraits(command.Lister):
    """List the traits of a host, and who said that it has them"""

    feature = "appcontainer host trait list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="<host>", help="Name or uuid of the host.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return self._rows("GET", parsed_args.host)

    def _rows(self, method: str, host: str, **more: Any) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        http = versions.http_at(manager.container, self.feature, versions.TRAITS_VERSION)
        _, answer = http.json_request(method, f"/v1/hosts/{versions.segment(host)}/traits", **more)
        added = frozenset(answer["added"])
        return ("Trait", "Source"), [
            (name, "administrator" if name in added else "host") for name in answer["traits"]
        ]


class SetHostTraits(ListHostTraits):
    """Set the traits that administrators add to those of a host

    The traits that the host found itself, or has from its options, stay. Without traits nothing is added any more.
    """

    feature = "appcontainer host trait set"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "traits",
            metavar="<trait>",
            nargs="*",
            help="Trait of os-traits, or one of your own such as CUSTOM_HALL_2. Those that were added before and are "
            "not named are removed.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        return self._rows("PUT", parsed_args.host, body={"traits": parsed_args.traits})


class AuditHost(command.Lister):
    """Look whether the containers of a host really run where they are planned

    Exits with 1 when something is found that was not repaired, and with 0 otherwise. Threads that pinned themselves
    inside of their container's CPUs are listed and do not count.
    """

    _unrepaired = False
    _no_rows = ""

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
            "it has, the interrupts of devices that came to its CPUs since the host started, which may come, the "
            "soft interrupts for packets there, and, with thread policy isolate or require, whether it has its cores "
            "to itself.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or int(self._unrepaired)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print a sentence in the place of an empty table. Other formats, for programs, stay empty lists."""
        if parsed_args.formatter != "table" or data:
            return super().produce_output(parsed_args, column_names, data)
        self.app.stdout.write(self._no_rows + "\n")
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        newer = (versions.QUIET_VERSION,) if parsed_args.isolation else ()
        version = versions.newest_offered(manager.container, *newer)
        http = versions.http_at(manager.container, "appcontainer host audit", version)
        path = f"/v1/hosts/{versions.segment(parsed_args.host)}/audit"
        _, answer = http.json_request("POST", path, body={"repair": parsed_args.repair})
        findings = answer["findings"]
        self._unrepaired = any(not each["repaired"] and each["code"] != SELF_PINNED for each in findings)
        self._no_rows = _no_isolation(answer) if parsed_args.isolation else _all_well(answer)
        names: tuple[str, ...]
        columns: tuple[str, ...]
        if parsed_args.isolation:
            names = ("container", "name", "cpus", "asked", "reached", "interrupts", "irqs", "network_softirqs",
                     "whole_cores", "stuck", "last_minute", "problem")  # fmt: skip
            columns = ("Container", "Name", "CPUs", "Asked", "Reached", "Interrupts", "IRQs", "Network softirqs",
                       "Whole cores", "Stuck", "Last minute", "Problem")  # fmt: skip
            found = answer.get("isolation", ())
            rows = (
                {
                    **each,
                    "stuck": _stuck(each),
                    "last_minute": _last_minute(each),
                    "problem": each.get("problem") or "",
                }
                for each in found
            )
            return columns, [tuple(each.get(name, "") for name in names) for each in rows]
        names = ("code", "container", "name", "layer", "detail", "repair", "repaired")
        columns = ("Code", "Container", "Name", "Layer", "Detail", "Repair", "Repaired")
        return columns, [tuple(each.get(name, "") for name in names) for each in findings]


def _all_well(answer: Mapping[str, Any]) -> str:
    """Return a sentence that the audit found nothing, with the number of containers that were audited."""
    counts = dict(answer["containers"])
    skipped = counts.pop("skipped", 0)
    left_out = f" {count(skipped, 'container')} could not be looked at now: the next audit does." if skipped else ""
    looked_at = count(sum(counts.values()), "container")
    return f"Host {answer['host']}: all is well. {looked_at} looked at, nothing found.{left_out}"


def _stuck(isolated: Mapping[str, Any]) -> str:
    return "; ".join(f"{irq} {why}" for irq, why in isolated.get("stuck", {}).items())


def _last_minute(isolated: Mapping[str, Any]) -> str:
    """Return what disturbed a container as ``12 switches, 3 interrupts in 60 s``. Amounts of 0 are left out."""
    found = isolated.get("last_minute")
    if not found:
        return ""
    told = [
        f"{value} {name.replace('_', ' ')}"
        for name, value in found.items()
        if value and name not in ("seconds", "interrupts_by_cpu")
    ]
    return f"{', '.join(told) or 'nothing'} in {found['seconds']:.0f} s"


def _no_isolation(answer: Mapping[str, Any]) -> str:
    return f"Host {answer['host']}: no container with dedicated CPUs is there."


def _can_encode(stream: Any, text: str) -> bool:
    """Return whether ``stream`` can encode ``text``. A stream without an encoding counts as one of Python's default."""
    try:
        text.encode(getattr(stream, "encoding", None) or sys.getdefaultencoding())
    except UnicodeEncodeError:
        return False
    return True


class ListHost(filtered.Whole, hosts.ListHost):
    """List available hosts"""

    noun = "hosts"


class ShowHost(hosts.ShowHost):
    """Show a host

    A server from microversion 1.47 on also tells the container engine of the host, and why the host cannot use it.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        manager: Any = self.app.client_manager
        if not versions.offers(manager.container, versions.ENGINES_VERSION):
            return super().take_action(parsed_args)
        http = versions.http_at(manager.container, "appcontainer host show", versions.ENGINES_VERSION)
        _, host = http.json_request("GET", f"/v1/hosts/{versions.segment(parsed_args.host)}")
        engine = host.pop("engine")
        shown = {**host, **{f"engine_{name}": value for name, value in (engine or {}).items()}}
        return tuple(shown), tuple(shown.values())
