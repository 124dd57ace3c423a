# SPDX-License-Identifier: Apache-2.0
"""RPC surface of zun-compute. It routes messages and decides nothing."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import oslo_messaging

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.processes import selection
from zun.compute.audit.auditor import Auditor
from zun.compute.container.creation import Order
from zun.compute.container.operations import PATIENCE, key_of
from zun.compute.host_parts import HostParts
from zun.compute.images.images import Images
from zun.compute.images.sessions import Archives, TerminalDesk
from zun.compute.kept.recovery import Outcome
from zun.compute.work.errands import Errands
from zun.compute.work.queue import Queue
from zun.container.driver.console import Console
from zun.messaging import rpc
from zun.messaging.compute_api import Size
from zun.objects import Container, ContainerActionEvent

LOG = logging.getLogger(__name__)


class ComputeEndpoint:
    """Casts put something into the queue and return; calls block for the answer."""

    target = oslo_messaging.Target(version="1.7")

    def __init__(
        self,
        parts: HostParts,
        queue: Queue,
        errands: Errands,
        *,
        console: Console,
        execute_timeout: float,
        auditor: Auditor,
        terminals: TerminalDesk,
        images: Images,
        archives: Archives,
        recover: Callable[..., list[Outcome]],
    ) -> None:
        self._parts = parts
        self._queue = queue
        self._errands = errands
        self._console = console
        self._execute_timeout = execute_timeout
        self._auditor = auditor
        self._terminals = terminals
        self._images = images
        self._archives = archives
        self._recover = recover

    @rpc.quick
    def create(
        self,
        context: RequestContext,
        *,
        container: Container,
        limits: Mapping[str, Any],
        alternates: Sequence[Mapping[str, Any]],
        tried: Mapping[str, str],
    ) -> None:
        self._parts.road.propose([Order(context, container, limits, alternates, tried)])

    @rpc.quick
    def create_many(
        self, context: RequestContext, *, containers: Sequence[Container], orders: Sequence[Mapping[str, Any]]
    ) -> None:
        """Create several containers. Each order has the other arguments of ``create`` for the container at its place.

        An order has a context if it is not that of the message.
        """
        pairs = zip(containers, orders, strict=True)
        self._parts.road.propose([Order.of(context, container, order) for container, order in pairs])

    @rpc.quick
    def look(self, context: RequestContext, *, uuid: str) -> None:
        """Something is wanted of the container, or was. What it is, the database knows."""
        self._queue.put(key_of(uuid))

    # The messages of the release before, which have the arguments of an action.

    @rpc.quick
    def delete(self, context: RequestContext, *, container: Container, force: bool, stop_timeout: int | None) -> None:
        self._act(context, container, "delete", force=force, stop_timeout=stop_timeout)

    @rpc.quick
    def start(self, context: RequestContext, *, container: Container) -> None:
        self._act(context, container, "start")

    @rpc.quick
    def stop(self, context: RequestContext, *, container: Container, timeout: int | None) -> None:
        self._act(context, container, "stop", timeout=timeout)

    @rpc.quick
    def reboot(self, context: RequestContext, *, container: Container, timeout: int | None) -> None:
        self._act(context, container, "reboot", timeout=timeout)

    @rpc.quick
    def rebuild(self, context: RequestContext, *, container: Container) -> None:
        self._act(context, container, "rebuild")

    @rpc.quick
    def pause(self, context: RequestContext, *, container: Container) -> None:
        self._act(context, container, "pause")

    @rpc.quick
    def unpause(self, context: RequestContext, *, container: Container) -> None:
        self._act(context, container, "unpause")

    @rpc.quick
    def kill(self, context: RequestContext, *, container: Container, signal: str | None) -> None:
        self._act(context, container, "kill", signal=signal)

    @rpc.quick
    def resize(self, context: RequestContext, *, container: Container, **size: Unpack[Size]) -> None:
        self._act(context, container, "resize_container", **size)

    @rpc.expected
    def update(self, context: RequestContext, *, container: Container, **size: Unpack[Size]) -> Container:
        # Whoever asks waits in one of few threads, and a stop that is under way may take an hour.
        return self._parts.resizer.update(context, container, **size, patience=PATIENCE)

    @rpc.expected
    def logs(
        self,
        context: RequestContext,
        *,
        container: Container,
        stdout: bool,
        stderr: bool,
        timestamps: bool,
        tail: str,
        since: str | None,
    ) -> str:
        return self._console.logs(
            container, stdout=stdout, stderr=stderr, timestamps=timestamps, tail=tail, since=since
        )

    @rpc.expected
    def execute(self, context: RequestContext, *, container: Container, command: list[str]) -> tuple[str, int]:
        return self._console.execute(container, command, self._execute_timeout)

    @rpc.expected
    def top(self, context: RequestContext, *, container: Container, ps_args: str | None) -> dict[str, Any]:
        try:
            wanted = selection(ps_args)
        except ValueError as exc:  # an API that knows other forms asks
            raise exceptions.InvalidValue(f"ps_args: {exc}") from exc
        return wanted.of(self._console.top(container))

    @rpc.expected
    def stats(self, context: RequestContext, *, container: Container) -> dict[str, Any]:
        return {**self._console.stats(container), "last_minute": self._auditor.last_minute(container.uuid)}

    @rpc.expected
    def attach(self, context: RequestContext, *, container: Container) -> str:
        return self._terminals.attach(context, container)

    @rpc.expected
    def prepare_exec(
        self, context: RequestContext, *, container: Container, command: list[str], interactive: bool
    ) -> tuple[str, str]:
        return self._terminals.prepare_exec(context, container, command, interactive=interactive)

    @rpc.expected
    def resize_terminal(
        self, context: RequestContext, *, container: Container, exec_id: str | None, width: int, height: int
    ) -> None:
        self._terminals.resize(container, exec_id, width=width, height=height)

    @rpc.expected
    def audit(self, context: RequestContext, *, repair: bool) -> dict[str, Any]:
        return self._auditor.audit(context, repair=repair)

    @rpc.expected
    def recover(self, context: RequestContext, *, dry_run: bool) -> list[Outcome]:
        return self._recover(context, dry_run=dry_run)

    @rpc.expected
    def archive_open_get(self, context: RequestContext, *, container: Container, path: str) -> dict[str, Any]:
        return self._archives.open_get(container, path)

    @rpc.expected
    def archive_pull(self, context: RequestContext, *, transfer: str) -> str:
        return self._archives.pull(transfer)

    @rpc.expected
    def archive_open_put(self, context: RequestContext, *, container: Container, path: str) -> str:
        return self._archives.open_put(container, path)

    @rpc.expected
    def archive_push(self, context: RequestContext, *, transfer: str, piece: str) -> None:
        self._archives.push(transfer, piece)

    @rpc.expected
    def archive_finish(self, context: RequestContext, *, transfer: str) -> None:
        self._archives.finish(transfer)

    def archive_close(self, context: RequestContext, *, transfer: str) -> None:
        self._archives.close(transfer)

    @rpc.quick
    def network_attach(self, context: RequestContext, *, container: Container, port: str) -> None:
        self._act(context, container, "network_attach", port=port)

    @rpc.quick
    def network_detach(self, context: RequestContext, *, container: Container, port: str) -> None:
        self._act(context, container, "network_detach", port=port)

    @rpc.quick
    def image_pull(self, context: RequestContext, *, image: str) -> None:
        self._errands.put(context, image, "pull", functools.partial(self._images.pull, context, image))

    @rpc.quick
    def image_delete(self, context: RequestContext, *, image: str) -> None:
        self._errands.put(context, image, "delete", functools.partial(self._images.delete, context, image))

    @rpc.quick
    def remove_volumes(self, context: RequestContext) -> None:
        remove = functools.partial(self._parts.named_volumes.remove, context)
        self._errands.put(context, "named volumes", "named volumes", remove)

    @rpc.quick
    def commit(self, context: RequestContext, *, container: Container, image: str) -> None:
        self._act(context, container, "commit", image=image)

    @rpc.expected
    def image_search(self, context: RequestContext, *, name: str, exact: bool) -> list[Mapping[str, Any]]:
        return self._images.search(context, name, exact=exact)

    def _act(self, context: RequestContext, container: Container, action: str, **arguments: Any) -> None:
        """Note the arguments of an action that the release before has accepted, then look. Returns at once."""
        uuid = container.uuid

        def note() -> None:
            ContainerActionEvent.note_arguments(context, uuid, container.project_id, action, arguments)
            self._queue.put(key_of(uuid))

        self._errands.put(context, f"arguments for {uuid}", f"{action} of {context.request_id}", note)
