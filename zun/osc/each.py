# SPDX-License-Identifier: Apache-2.0
"""Commands that send one request for each name on the command line.

python-zunclient's commands print that a request failed and exit with 0, so scripts do not notice. These commands print
failures on the error stream, go on with the next name, and exit with 1 if a request failed.
"""

import argparse
import functools
import logging
import operator
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from osc_lib import exceptions
from osc_lib.command import command
from zunclient.osc.v1 import capsules, containers, images, quotas, registries, services

from zun.osc import versions, waiting

LOG = logging.getLogger(__name__)

End = Callable[[], str | None]

SECURITY_GROUPS_END = "1.14"  # the last microversion that has the routes


def one_by_one(
    names: Sequence[str], wish: str, ask: Callable[[str], Any], told: Callable[[str, Any], None] | None = None
) -> int:
    """Call ``ask`` for each name and return the exit status: 1 if a call failed, else 0.

    After each success ``told`` is called with the name and the result of ``ask``. ``wish`` completes "Request to", for
    example ``stop container {}``, where ``{}`` is the name.
    """
    failures = 0
    for name in names:
        wanted = wish.format(name)
        try:
            more = ask(name)
        except Exception as exc:  # whatever the error, go on with the next name
            LOG.debug("Request to %s failed", wanted, exc_info=True)
            failures += 1
            print(f"Request to {wanted} failed: {exc}", file=sys.stderr)
        else:
            if told is not None:
                told(wanted, more)
    return 1 if failures else 0


class Each(command.Command):
    """Mixin for a command of python-zunclient: keeps its options and sends one request for each name.

    With ``--wait`` all requests are sent before the first is waited for, so that their work goes on side by side.
    """

    names: ClassVar[str] = "container"
    """The parsed argument that has one name, or a list of names."""

    wish: ClassVar[str]
    """The argument ``wish`` of ``one_by_one``."""

    request: ClassVar[str]
    """The method of the client that ``act`` calls with each name, for example ``containers.start``."""

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> str | End | None:
        """Send the request for ``name``. Any error is this name's failure.

        Return a further text for the user, or a function that returns when the request has been carried out, and may
        return such a text.
        """
        operator.attrgetter(self.request)(client)(name)
        return None

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        manager: Any = self.app.client_manager
        client = manager.container  # an unreachable service fails the whole command, not a name
        given = getattr(parsed_args, self.names)
        under_way: list[tuple[str, End]] = []

        def ask(name: str) -> str | End | None:
            more = self.act(client, name, parsed_args)
            if callable(more):
                under_way.append((name, more))
            return more

        def accepted(wish: str, more: str | End | None) -> None:
            if not callable(more):
                print(f"Request to {wish} has been accepted." + (f" {more}" if more else ""), file=self.app.stdout)

        def carried_out(wish: str, more: str | None) -> None:
            print(f"Request to {wish} has been carried out." + (f" {more}" if more else ""), file=self.app.stdout)

        names = [given] if isinstance(given, str) else given
        statuses = [one_by_one(names, self.wish, ask, accepted)]
        for name, end in under_way:
            statuses.append(one_by_one([name], self.wish, lambda _, end=end: end(), carried_out))  # type: ignore[misc]
        return max(statuses)


class StartContainer(Each, containers.StartContainer):
    """Start specified container"""

    wish = "start container {}"
    request = "containers.start"


class StopContainer(Each, containers.StopContainer):
    """Stop specified containers"""

    wish = "stop container {}"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--wait", action="store_true", help="Wait until the containers have stopped.")
        return parser

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> End | None:
        client.containers.stop(name, parsed_args.timeout)
        if not parsed_args.wait:
            return None
        # A container with --auto-remove is gone after its end.
        look = waiting.until(client, name, "Stopped", "Dead", waiting.GONE)
        return functools.partial(waiting.wait, look, f"Stopping {name}")


class RestartContainer(Each, containers.RestartContainer):
    """Restart specified container"""

    wish = "restart container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        client.containers.restart(name, parsed_args.timeout)


class PauseContainer(Each, containers.PauseContainer):
    """Pause specified container"""

    wish = "pause container {}"
    request = "containers.pause"


class UnpauseContainer(Each, containers.UnpauseContainer):
    """Unpause specified container"""

    wish = "unpause container {}"
    request = "containers.unpause"


class KillContainer(Each, containers.KillContainer):
    """Kill one or more running container(s)"""

    names = "containers"
    wish = "send a signal to container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        client.containers.kill(name, parsed_args.signal)


class RebuildContainer(Each, containers.RebuildContainer):
    """Rebuild one or more running container(s)"""

    names = "containers"
    wish = "rebuild container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> End | None:
        given = {name: getattr(parsed_args, name) for name in ("image", "image_driver")}
        client.containers.rebuild(name, **{name: value for name, value in given.items() if value})
        if not parsed_args.wait:
            return None
        look = waiting.until(client, name, "Created", "Running", "Stopped")
        return functools.partial(waiting.wait, look, f"Rebuilding {name}")


class DeleteContainer(Each, containers.DeleteContainer):
    """Delete specified container(s)"""

    wish = "delete container {}"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for action in parser._actions:
            if action.dest == "wait":  # python-zunclient speaks of a create here
                action.help = "Wait until the containers are gone."
        return parser

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> End | None:
        whose = {"all_projects": True} if parsed_args.all_projects else {}
        # Wait for the uuid: another container may take the name as soon as this one is gone.
        uuid = client.containers.get(name, **whose).uuid if parsed_args.wait else name
        client.containers.delete(
            name, force=parsed_args.force, stop=parsed_args.stop, all_projects=parsed_args.all_projects
        )
        if not parsed_args.wait:
            return None
        return functools.partial(waiting.wait, waiting.until(client, uuid, waiting.GONE, **whose), f"Deleting {name}")


class CommitContainer(Each, containers.CommitContainer):
    """Create a new image from a container's changes"""

    wish = "commit container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> str:
        repository, _, tag = parsed_args.repository.rpartition(":")
        if not repository or "/" in tag:  # no tag, or the colon belongs to a registry's port
            repository, tag = parsed_args.repository, ""
        answer = client.containers.commit(name, repository, tag or None)
        return f"The image is {answer['uuid']}."


class AddSecurityGroup(Each, containers.AddSecurityGroup):
    """Add security group for specified container."""

    wish = "add a security group to container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        versions.containers_at_most(client, SECURITY_GROUPS_END).add_security_group(name, parsed_args.security_group)


class RemoveSecurityGroup(Each, containers.RemoveSecurityGroup):
    """Remove security group for specified container."""

    wish = "remove a security group from container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        versions.containers_at_most(client, SECURITY_GROUPS_END).remove_security_group(name, parsed_args.security_group)


class _Network(Each):
    def asked(self, parsed_args: argparse.Namespace, *names: str) -> dict[str, str]:
        given = {name: value for name in names if (value := getattr(parsed_args, name)) is not None}
        if not given.keys() & {"network", "port"}:
            raise exceptions.CommandError("name the network with --network, or a port with --port")
        return given


class NetworkAttach(_Network, containers.NetworkAttach):
    """Attach neutron network to specified container."""

    wish = "attach a network to container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        client.containers.network_attach(name, **self.asked(parsed_args, "network", "port", "fixed_ip"))


class NetworkDetach(_Network, containers.NetworkDetach):
    """Detach neutron network from specified container."""

    wish = "detach a network from container {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        client.containers.network_detach(name, **self.asked(parsed_args, "network", "port"))


class DeleteCapsule(Each, capsules.DeleteCapsule):
    """Delete specified capsule(s)"""

    names = "capsule"
    wish = "delete capsule {}"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--force",
            action="store_true",
            help="Do not wait for its containers to end, also if a deletion waits for them already (needs a server "
            "with microversion 1.51).",
        )
        parser.add_argument(
            "--all-projects", action="store_true", help="Delete capsules of any project, by uuid. For administrators."
        )
        return parser

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        query = "&".join(f"{each}=true" for each in ("force", "all_projects") if getattr(parsed_args, each))
        path = f"{urllib.parse.quote(name, safe='')}?{query}".removesuffix("?")
        if not parsed_args.force:
            client.capsules.delete(path)
            return
        http = versions.http_at(client, "--force", versions.POD_MEMBERS_VERSION)
        http.json_request("DELETE", f"/v1/capsules/{path}")


class DeleteImage(Each, images.DeleteImage):
    """Delete specified image from a host"""

    names = "uuid"
    wish = "delete image {}"
    request = "images.delete"


class DeleteQuota(Each, quotas.DeleteQuota):
    """Delete quotas of the project"""

    names = "project_id"
    wish = "delete the quotas of project {}"
    request = "quotas.delete"


class DeleteRegistry(Each, registries.DeleteRegistry):
    """Delete specified registry(s)"""

    names = "registry"
    wish = "delete registry {}"
    request = "registries.delete"


class DeleteService(Each, services.DeleteService):
    """Delete the Zun binaries/services."""

    names = "binary"
    wish = "delete service {}"

    def act(self, client: Any, name: str, parsed_args: argparse.Namespace) -> None:
        client.services.delete(parsed_args.host, name)
