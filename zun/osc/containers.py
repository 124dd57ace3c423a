# SPDX-License-Identifier: Apache-2.0
"""python-zunclient's container commands, with placement options and without their faults."""

import argparse
import io
import shlex
import sys
import tarfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from zunclient import exceptions as zun_exceptions
from zunclient.common import utils as zun_utils
from zunclient.common.websocketclient import websocketclient
from zunclient.osc.v1 import containers

from zun import nouns
from zun.nouns.container import Container
from zun.osc import (
    ended,
    explanation,
    filtered,
    healthcheck,
    mounts,
    placement,
    sets,
    tables,
    terminal,
    versions,
    waiting,
)
from zun.osc.pairs import pairs

_NEWER = {
    each.name: (each, asked.since)
    for each in nouns.members(Container)
    if each.is_stored and each.name != "capabilities" and (asked := each.mark(nouns.Asked))
    if asked.since > versions.KNOWN
}
"""The members of create that python-zunclient does not know, and that need no option of their own kind."""
_SETTINGS: Mapping[Any, dict[str, Any]] = {bool: {"action": "store_true", "default": None}, list: {"action": "append"}}


def _asked(client: Any, parsed_args: argparse.Namespace, more: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which ``client`` creates containers with the placement options and the members ``more``."""
    fields = placement.fields(parsed_args)
    options = placement.options(fields)
    version = versions.PLACEMENT_VERSION
    hints = placement.hints(parsed_args)
    if hints:
        fields["hints"] = hints
        version = versions.GROUPS_VERSION
        options += ["--group"] if parsed_args.group else ["--hint"]
    mounted = mounts.newer(parsed_args.mount)
    if mounted is not None:
        fields["mounts"] = mounted
        parsed_args.mount = []
        version = versions.MOUNTS_VERSION
        options += ["--mount"]
    if parsed_args.capabilities:
        fields["capabilities"] = parsed_args.capabilities
        options += ["--capability"]
    for name in (*_NEWER, "movable"):
        if (value := getattr(parsed_args, name)) is not None:
            fields[name] = value
            options += [explanation.option(name)]
    many = sets.fields(parsed_args)
    if many:
        fields |= many
        version = max(version, versions.SETS_VERSION)
        options += ["--count"]
    if not fields:
        return versions.creating(client, more)
    version = placement.version_for(fields, version)
    return versions.placed(client, {**fields, **more}, ", ".join(options), version)


def _add_movable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--movable",
        action=argparse.BooleanOptionalAction,
        help="Whether the service may move the container to other CPUs and cells of its host while it runs. If nobody "
        "says so, the operator decides (needs a server with microversion 1.49).",
    )


class _New(tables.One):
    """Mixin for python-zunclient's create and run: adds placement options, and waits for the statuses ``wanted``."""

    app: Any
    wanted: ClassVar[tuple[str, ...]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)  # type: ignore[misc]
        placement.add_options(parser)
        parser.add_argument(
            "--capability",
            metavar="<name>",
            dest="capabilities",
            action="append",
            type=lambda text: text.upper().removeprefix("CAP_"),
            help="Linux capability that the container has beside the default ones, for example NET_RAW. May be "
            "repeated (needs a server with microversion 1.46).",
        )
        _add_movable(parser)
        sets.add_options(parser)
        for member, minor in _NEWER.values():
            told = f"{member.meaning.rstrip('.')} (needs a server with microversion 1.{minor})."
            settings = _SETTINGS.get(member.base, {"type": member.kind})
            parser.add_argument(explanation.option(member.name), dest=member.name, help=told, **settings)
        for action in parser._actions:
            if action.dest == "healthcheck":
                action.help = (
                    "Test of the container's health: cmd=<command>, which a shell runs, and interval, timeout and "
                    "start_period in seconds or with s, m or h, and retries, with commas between. Failures during "
                    "start_period do not count."
                )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        client = self.app.client_manager.container
        more: dict[str, Any] = {}
        if parsed_args.healthcheck:
            more["healthcheck"] = healthcheck.parse(parsed_args.healthcheck[0])
        if parsed_args.environment:
            more["environment"] = pairs("--environment", parsed_args.environment)
        if parsed_args.label:
            more["labels"] = pairs("--label", parsed_args.label)
        if parsed_args.hint:
            more["hints"] = placement.all_hints(parsed_args)
        interactive = parsed_args.interactive
        if interactive and parsed_args.count is not None:
            raise exceptions.CommandError("--interactive is for one container: leave out --count, or --interactive.")
        if interactive:
            more["interactive"] = True
            if client.http_client.api_version >= versions.TTY_VERSION:
                more["tty"] = True
        waiting_for_it = parsed_args.wait or (interactive and "Created" not in self.wanted)
        # Hide these options from python-zunclient. It would wait for ever if the container ended at once, exit with 0
        # if the container failed, and cut health check, variables, labels and hints at commas.
        hidden: dict[str, Any] = {"healthcheck": [], "environment": [], "label": []}
        stock = argparse.Namespace(**{**vars(parsed_args), "wait": False, "interactive": False, **hidden})
        with _asked(client, stock, more):
            stock.hint = []
            columns, values = super().take_action(stock)  # type: ignore[misc]
            if parsed_args.count is not None:
                return self._many(client, dict(zip(columns, values, strict=True))["set_uuid"], parsed_args)
            if not waiting_for_it:
                return columns, values
            uuid = dict(zip(columns, values, strict=True))["uuid"]
            try:
                waiting.wait(waiting.until(client, uuid, *self.wanted), f"Waiting for {parsed_args.name or uuid}")
            except waiting.Stuck as exc:
                raise exceptions.CommandError(
                    f"{exc}\n{ended.log_of(client, uuid)}\nEnd it with 'openstack appcontainer stop {uuid}' or "
                    f"'openstack appcontainer delete --stop {uuid}'."
                ) from None
            if interactive:
                self._attach(client, uuid)
            else:
                self._tell_failure(client, uuid)
            return self._shown(client, uuid, (columns, values))

    def _many(self, client: Any, uuid: str, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        """Return the set, with ``--wait`` once each member has a status in ``wanted``."""
        http = versions.http_at(client, "--count", versions.SETS_VERSION)
        if parsed_args.wait:
            wanted = [status for status in self.wanted if status != waiting.GONE]
            waiting.wait(sets.until(http, uuid, *wanted), f"Waiting for {parsed_args.name or uuid}")
        _, item = http.json_request("GET", f"/v1/sets/{uuid}")
        return sets.COLUMNS, sets.shown(item)

    def _tell_failure(self, client: Any, uuid: str) -> None:
        """Tell of a command that failed. A container that is only created has run none, so this does nothing."""

    def _attach(self, client: Any, uuid: str) -> None:
        """Attach the user's terminal. A container that is only created has no process, so this does nothing."""

    @staticmethod
    def _shown(client: Any, uuid: str, before: tuple[Any, Any]) -> tuple[Any, Any]:
        try:
            container = client.containers.get(uuid)
        except zun_exceptions.NotFound:  # it removed itself
            return before
        zun_utils.format_container_addresses(container)  # in the form of "show"
        shown = container.to_dict()
        return tuple(shown), tuple(shown.values())


class CreateContainer(_New, containers.CreateContainer):
    """Create a container"""

    wanted = ("Created",)


class RunContainer(_New, containers.RunContainer):
    """Create and run a new container"""

    wanted = ("Running", "Stopped", "Dead", waiting.GONE)  # a command may have ended before we look
    _failed = False

    def run(self, parsed_args: argparse.Namespace) -> int:
        status: int = super().run(parsed_args)
        return status or int(self._failed)

    def _tell_failure(self, client: Any, uuid: str) -> None:
        """Print the exit code and the end of the log of a command that failed, and let this command exit with 1."""
        code = ended.exit_code(client, uuid)
        if code:
            self._failed = True
            print(f"Container {uuid} ended with exit code {code}.\n{ended.log_of(client, uuid)}", file=sys.stderr)

    def _attach(self, client: Any, uuid: str) -> None:
        try:
            if client.containers.get(uuid).status == "Running":
                link = client.containers.attach(uuid)
                websocketclient.do_attach(client, link, uuid, "~", 0.5)
                return
            print(client.containers.logs(uuid, stdout=True, stderr=True), end="", file=self.app.stdout)
        except (zun_exceptions.NotFound, zun_exceptions.Conflict) as exc:
            print(f"The container ended before its terminal was there: {exc}", file=sys.stderr)


class ListContainer(filtered.Whole, containers.ListContainer):
    """List available containers"""

    noun = "containers"


class TopContainer(containers.TopContainer):
    """Display the running processes inside the container"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        asked = [" ".join(parsed_args.pid)] if parsed_args.pid else []
        output = self.app.client_manager.container.containers.top(parsed_args.container, *asked)
        rows = [output["Titles"], *(output["Processes"] or [])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip(), file=self.app.stdout)


class CopyContainer(containers.CopyContainer):
    """Copy files between a container and this machine"""

    # python-zunclient's command exits with 0 if neither path is in a container, and follows ``../`` and links in the
    # archive of a container.

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        manager: Any = self.app.client_manager
        source, destination = parsed_args.source, parsed_args.destination
        if ":" not in source + destination:
            raise exceptions.CommandError(
                "Neither side is a container's. Write CONTAINER:PATH for that one, as in "
                "'openstack appcontainer cp web:/etc/hosts .' or 'openstack appcontainer cp hosts web:/etc'."
            )
        if ":" not in source:
            super().take_action(parsed_args)
            return
        container, path = source.split(":", 1)
        archive = manager.container.containers.get_archive(id=container, path=path)["data"]
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                if hasattr(tarfile, "data_filter"):  # some releases of Python 3.11 lack it
                    tar.extraction_filter = _inside  # type: ignore[assignment]
                tar.extractall(destination)
        except tarfile.TarError as exc:
            raise exceptions.CommandError(f"{path} of container {container} cannot be written: {exc}") from exc


def _inside(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Filter members for tarfile: nothing is written outside of ``path``, nor through a link that leads out of it.

    A symbolic link itself may point anywhere, as links in containers do.
    """
    return tarfile.data_filter(member, path) if member.islnk() else tarfile.tar_filter(member, path)


class _FloatingAddress:
    """Mixin for commands that ask Neutron: adds the cause to the error of a cloud without Neutron."""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        try:
            return super().take_action(parsed_args)  # type: ignore[misc]
        except (sdk_exceptions.SDKException, auth_exceptions.ClientException) as exc:
            raise exceptions.CommandError(
                f"Floating addresses are Neutron's, which answered: {exc} Where networks are bridges of the hosts, "
                "'openstack appcontainer create --expose-port' publishes a port of a container at its host."
            ) from exc


class AddFloatingIP(_FloatingAddress, containers.AddFloatingIP):
    """Add floating IP address to container"""


class RemoveFloatingIP(_FloatingAddress, containers.RemoveFloatingIP):
    """Remove floating IP address from container"""


class ExecContainer(containers.ExecContainer):
    """Execute command in a running container"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        client = self.app.client_manager.container
        command = shlex.join(parsed_args.command)  # the server splits it as a shell does
        name = parsed_args.container
        if parsed_args.interactive:
            begun = client.containers.execute(name, command=command, interactive=True, run=False)
            return terminal.run(client, begun["proxy_url"], name, begun["exec_id"])
        result = client.containers.execute(name, command=command)
        print(result["output"] or "", end="", file=self.app.stdout)  # without an added newline, for output into a file
        return int(result["exit_code"] or 0)


_MORE: Mapping[str, tuple[int, str]] = {
    "placement": (41, "Show what was asked of CPUs and cells, and what the container holds"),
    "traits": (44, "Show as well which traits and aggregates were asked of the host"),
    "devices": (45, "Show as well which devices were asked for and given"),
    "capabilities": (46, "Show as well which Linux capabilities were asked for"),
    "published_ports": (42, "Show where exposed ports are reached"),
    **{each.name: (since, f"Show as well: {each.meaning.rstrip('.')}") for each, since in _NEWER.values()},
}
"""The options of ``show`` beside those of python-zunclient: name, minor microversion, help."""


class ShowContainer(tables.One, containers.ShowContainer):
    """Show a container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for name, (minor, text) in _MORE.items():
            told = f"{text} (needs a server with microversion 1.{minor})."
            parser.add_argument(explanation.option(name), action="store_true", help=told)
        parser.add_argument(
            "--last-minute",
            action="store_true",
            help="Show as well what disturbed its CPUs in about the last minute. The host of the container is asked "
            "(needs a server with microversion 1.51).",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        names, values = self._shown(parsed_args)
        if not parsed_args.last_minute:
            return names, values
        client = self.app.client_manager.container
        with versions.placed(client, {}, "--last-minute", versions.QUIET_VERSION):
            told = client.containers.stats(parsed_args.container)
        return (*names, "last_minute"), (*values, told["last_minute"])

    def _shown(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        wanted = [(minor, name) for name, (minor, _) in _MORE.items() if getattr(parsed_args, name)]
        if not wanted:
            return super().take_action(parsed_args)
        minor, name = max(wanted)
        client = self.app.client_manager.container
        with versions.placed(client, {}, explanation.option(name), versions.of(minor)):
            return super().take_action(parsed_args)


class UpdateContainer(tables.One, containers.UpdateContainer):
    """Update one or more attributes of the container"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--cpu-policy",
            choices=("dedicated", "shared"),
            help="Give the running container CPUs of its own, or let it back into the host's shared pool "
            "(needs a server with microversion 1.41).",
        )
        parser.add_argument(
            "--keep-cpus",
            metavar="<cpus>",
            help="CPUs of the container that must stay among its CPUs, for example 2-3,8 "
            "(needs a server with microversion 1.41).",
        )
        _add_movable(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        names = ("cpu_policy", "keep_cpus", "movable")
        fields = {name: value for name in names if (value := getattr(parsed_args, name)) is not None}
        if not fields:
            return super().take_action(parsed_args)
        options = ", ".join(map(explanation.option, fields))
        if not any((parsed_args.cpu, parsed_args.memory, parsed_args.name)):
            # The stock command requires one of its own options. The current memory changes nothing.
            shown = self.app.client_manager.container.containers.get(parsed_args.container)
            parsed_args.memory = shown.memory
        version = placement.version_for(fields, versions.PLACEMENT_VERSION)
        with versions.placed(self.app.client_manager.container, fields, options, version):
            return super().take_action(parsed_args)
