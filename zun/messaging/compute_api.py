# SPDX-License-Identifier: Apache-2.0
"""Messages to the zun-compute of one host. Names and arguments are as in ``ComputeEndpoint``."""

import base64
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import oslo_messaging

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.messaging import rpc
from zun.messaging.releases import Release
from zun.objects import Container

VERSION = "1.0"
LOOK = "1.6"
"""The version since which hosts read what is wanted from the database."""
MANY = "1.7"
"""The version since which hosts read ``create_many``."""
MESSAGES: Mapping[str, tuple[str, str]] = {
    **{name: (name, VERSION) for name in ("start", "stop", "reboot", "pause", "unpause", "kill", "delete")},
    **{name: (name, "1.2") for name in ("rebuild", "commit")},
    "resize_container": ("resize", "1.2"),
    **{name: (name, "1.3") for name in ("network_attach", "network_detach")},
}
"""Accepted action -> its message to hosts of the release before, which has the arguments, and the message's version."""
UNPACK_SECONDS = 3600  # the longest that a host may take to unpack an archive


class Request(TypedDict):
    """The creation of one container. ``limits`` has the plan in ``cpuset`` and what else a claim must keep to.

    ``context`` is of whoever asked for the container. ``alternates`` are further hosts with their limits, ``tried`` the
    hosts that refused it, with their reasons.
    """

    context: RequestContext
    container: Container
    limits: Mapping[str, Any]
    alternates: Sequence[Mapping[str, Any]]
    tried: Mapping[str, str]


class Size(TypedDict, total=False):
    """The part of a container's size that a resize changes: a member that is None or absent stays as it is.

    ``memory`` is in MiB. ``keep_cpus`` names the CPUs that the container must keep, as ``0-3,8``. ``quota``
    has the default limits of projects; the host raises OverQuota if the change would exceed them.
    """

    cpu: float | None
    memory: int | None
    cpu_policy: str | None
    keep_cpus: str
    quota: Mapping[str, int] | None


class ComputeAPI:
    """Messages to any host. A cast returns at once, and the container's status shows its outcome. A call raises
    HostUnavailable if the answer does not arrive within ``timeout`` seconds."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        timeout: float = 60,
        *,
        retries: int | None = None,
        pin: Release | None = None,
    ) -> None:
        """``retries`` as of ``rpc.get_client``. ``pin`` is the release whose messages are sent, else the present."""
        self._client = rpc.get_client(
            transport,
            rpc.COMPUTE_TOPIC,
            VERSION,
            retries,
            cap=pin.compute if pin else None,
            objects=pin.objects if pin else None,
            exchange=rpc.exchange_of_hosts(transport.conf),
        )
        self._timeout = timeout

    def _cast(
        self, context: RequestContext, container: Container, method: str, version: str = VERSION, **arguments: Any
    ) -> None:
        self._tell(context, container.host, method, version, container=container, **arguments)

    def _tell(
        self, context: RequestContext, host: str | None, method: str, version: str = VERSION, **arguments: Any
    ) -> None:
        with rpc.answers_from(host):
            self._client.prepare(topic=rpc.topic_of_host(host), version=version).cast(context, method, **arguments)

    def _call(
        self, context: RequestContext, container: Container, method: str, version: str = VERSION, **arguments: Any
    ) -> Any:
        return self._ask(context, container.host, method, version, container=container, **arguments)

    def _ask(
        self, context: RequestContext, host: str | None, method: str, version: str = VERSION, **arguments: Any
    ) -> Any:
        with rpc.answers_from(host):
            client = self._client.prepare(topic=rpc.topic_of_host(host), timeout=self._timeout, version=version)
            return client.call(context, method, **arguments)

    def create(
        self,
        context: RequestContext,
        host: str,
        container: Container,
        *,
        limits: Mapping[str, Any],
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> None:
        """Cast: claim the plan in ``limits`` and create the container. Start it if its request says run."""
        asked = Request(context=context, container=container, limits=limits, alternates=alternates, tried=tried)
        self.create_many(host, [asked])

    def create_many(self, host: str, requests: Sequence[Request]) -> None:
        """Cast: create the containers of ``requests``, whose claims ``host`` commits together.

        A container that the host refuses comes back alone. Several in one message since version 1.7; a host of an
        older release gets a message for each. An order has its context if it is not that of the message.
        """
        orders: list[dict[str, Any]] = [
            {"limits": dict(each["limits"]), "alternates": list(each["alternates"]), "tried": dict(each["tried"])}
            for each in requests
        ]
        if len(requests) > 1 and self._client.can_send(MANY):
            context, containers = requests[0]["context"], [each["container"] for each in requests]
            for each, order in zip(requests, orders, strict=True):
                if each["context"] is not context:
                    order["context"] = each["context"].to_message()
            self._tell(context, host, "create_many", version=MANY, containers=containers, orders=orders)
            return
        for each, order in zip(requests, orders, strict=True):
            self._tell(each["context"], host, "create", container=each["container"], **order)

    def can_act(self, action: str, *, member: bool = False) -> bool:
        """Return whether hosts of the pinned release know the action, or would not even look for it.

        Those of the release before know no action on a ``member`` of a capsule.
        """
        return bool(self._client.can_send(LOOK)) or (action in MESSAGES and not member)

    def act(self, context: RequestContext, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
        """Cast: look at the container, of which ``action`` is wanted since its acceptance. Since version 1.6.

        The message is a hint: the host reads from the database what is wanted, also without any message. With a pin to
        a release whose hosts need the arguments, those are sent in the action's own message.
        """
        if self._client.can_send(LOOK):
            self.look(context, container.host, container.uuid)
        else:
            message, version = MESSAGES[action]
            self._cast(context, container, message, version=version, **arguments)

    def look(self, context: RequestContext, host: str | None, uuid: str) -> None:
        """Cast: look at the container, or at what it left there. Since version 1.6."""
        self._tell(context, host, "look", version=LOOK, uuid=uuid)

    def update(self, context: RequestContext, container: Container, **size: Unpack[Size]) -> Container:
        """Call: change the container's size and return the changed container. Raise ClaimRefused if it does not fit.

        ``keep_cpus`` and ``quota`` since version 1.2.
        """
        changed: Container = self._call(context, container, "update", version="1.2", **whole(size))
        return changed

    def logs(
        self,
        context: RequestContext,
        container: Container,
        *,
        stdout: bool = True,
        stderr: bool = True,
        timestamps: bool = False,
        tail: str = "all",
        since: str | None = None,
    ) -> str:
        text: str = self._call(
            context,
            container,
            "logs",
            stdout=stdout,
            stderr=stderr,
            timestamps=timestamps,
            tail=tail,
            since=since,
        )
        return text

    def execute(self, context: RequestContext, container: Container, command: list[str]) -> tuple[str, int]:
        """Call: the output and the exit code. Conflict when it takes longer than the host's execute_timeout."""
        output, exit_code = self._call(context, container, "execute", command=command)
        return output, exit_code

    def top(self, context: RequestContext, container: Container, ps_args: str | None = None) -> dict[str, Any]:
        listing: dict[str, Any] = self._call(context, container, "top", ps_args=ps_args)
        return listing

    def stats(self, context: RequestContext, container: Container) -> dict[str, Any]:
        figures: dict[str, Any] = self._call(context, container, "stats")
        return figures

    def attach(self, context: RequestContext, container: Container) -> str:
        """Call: return the URL of the container's terminal, token included. Since version 1.2."""
        url: str = self._call(context, container, "attach", version="1.2")
        return url

    def prepare_exec(
        self, context: RequestContext, container: Container, command: list[str], *, interactive: bool
    ) -> tuple[str, str]:
        """Call: return the id of a command that is not started yet, and the URL that starts it. Since version 1.2."""
        exec_id, url = self._call(
            context, container, "prepare_exec", version="1.2", command=command, interactive=interactive
        )
        return exec_id, url

    def resize_terminal(
        self, context: RequestContext, container: Container, *, width: int, height: int, exec_id: str | None = None
    ) -> None:
        """Call: set the size in characters of the container's terminal, or of a command's. Since version 1.2."""
        self._call(context, container, "resize_terminal", version="1.2", exec_id=exec_id, width=width, height=height)

    def audit(self, context: RequestContext, host: str, *, repair: bool = False) -> dict[str, Any]:
        """Call: compare where the containers of ``host`` run with their plans. With ``repair``, correct drift.

        The answer has the members host, findings, containers (by verdict) and totals. Since version 1.1.
        """
        answer: dict[str, Any] = self._ask(context, host, "audit", version="1.1", repair=repair)
        return answer

    def recover(self, context: RequestContext, host: str, *, dry_run: bool = False) -> list[dict[str, Any]]:
        """Call: write the rows of containers that ``host`` runs and the database has lost. Since version 1.5.

        The answer has the members uuid, name and reason of each; reason is None if it has its row back.
        """
        found: list[dict[str, Any]] = self._ask(context, host, "recover", version="1.5", dry_run=dry_run)
        return found

    def image_pull(self, context: RequestContext, host: str, image: str) -> None:
        """Cast: pull the image with this uuid at ``host``. Since version 1.2."""
        self._tell(context, host, "image_pull", version="1.2", image=image)

    def image_delete(self, context: RequestContext, host: str, image: str) -> None:
        """Cast: remove the image with this uuid from ``host``, then its row. Since version 1.2."""
        self._tell(context, host, "image_delete", version="1.2", image=image)

    def remove_volumes(self, context: RequestContext, host: str) -> None:
        """Cast: remove the volumes of ``host`` that are marked for deletion, and their rows. Since version 1.4."""
        self._tell(context, host, "remove_volumes", version="1.4")

    def image_search(self, context: RequestContext, host: str, name: str, *, exact: bool) -> list[dict[str, Any]]:
        """Call: return the images that ``host`` finds in registries under ``name``. Since version 1.2."""
        found: list[dict[str, Any]] = self._ask(context, host, "image_search", version="1.2", name=name, exact=exact)
        return found

    def get_archive(
        self, context: RequestContext, container: Container, path: str
    ) -> tuple[dict[str, Any], Iterator[bytes]]:
        """Call: return the facts about ``path``, and its tar in pieces with one call each. Since version 1.2."""
        opened = self._call(context, container, "archive_open_get", version="1.2", path=path)
        return opened["stat"], self._pieces(context, container.host, opened["id"])

    def _pieces(self, context: RequestContext, host: str | None, transfer: str) -> Iterator[bytes]:
        try:
            while piece := self._ask(context, host, "archive_pull", version="1.2", transfer=transfer):
                yield base64.b64decode(piece)
        except GeneratorExit:
            self._close(context, host, transfer)
            raise

    def put_archive(self, context: RequestContext, container: Container, path: str, pieces: Iterable[bytes]) -> None:
        """Send the ``pieces`` of a tar with one call each, then unpack it at ``path``. Since version 1.2."""
        host = container.host
        transfer = self._call(context, container, "archive_open_put", version="1.2", path=path)
        try:
            for piece in pieces:
                text = base64.b64encode(piece).decode()
                self._ask(context, host, "archive_push", version="1.2", transfer=transfer, piece=text)
            with rpc.answers_from(host):
                # Unpacking may take long: wait as long as the host sends signs of life.
                client = self._client.prepare(
                    topic=rpc.topic_of_host(host),
                    timeout=UNPACK_SECONDS,
                    call_monitor_timeout=int(self._timeout),
                    version="1.2",
                )
                client.call(context, "archive_finish", transfer=transfer)
        except BaseException:
            self._close(context, host, transfer)
            raise

    def _close(self, context: RequestContext, host: str | None, transfer: str) -> None:
        """Break a transfer off. Ignore a failure: the host ends an idle transfer by itself."""
        with contextlib.suppress(exceptions.ZunError):
            self._tell(context, host, "archive_close", version="1.2", transfer=transfer)


def whole(size: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``size`` with every member, as hosts of an older release need it."""
    return {"cpu": None, "memory": None, "cpu_policy": None, "keep_cpus": "", "quota": None, **size}
