# SPDX-License-Identifier: Apache-2.0
"""Messages to zun-scheduler. The names and arguments are those of ``SchedulerEndpoint``."""

from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging

from zun.common import exceptions, rpc
from zun.common.context import RequestContext, admin_context
from zun.common.outbox import Outbox
from zun.objects import Container

VERSION = "1.0"

TOGETHER_SECONDS = 0.01
"""Claims wait so long for others to travel with. Schedulers know them later by that, which costs nothing: their own
choices are booked."""


class SchedulerAPI:
    """Casts return at once. Calls wait ``timeout`` seconds for any scheduler and raise SchedulerUnavailable then."""

    def __init__(
        self, transport: oslo_messaging.Transport, timeout: float = 60, *, retries: int | None = None
    ) -> None:
        """``retries`` as of ``rpc.get_client``."""
        self._client = rpc.get_client(transport, rpc.SCHEDULER_TOPIC, VERSION, retries)
        self._timeout = timeout
        self._changes = Outbox(self._hosts_changed, TOGETHER_SECONDS)

    def close(self) -> None:
        """Send what waits to be sent with more."""
        self._changes.close()

    def _call(self, context: RequestContext, method: str, **arguments: Any) -> Any:
        try:
            with rpc.answers_from("scheduler"):
                return self._client.prepare(timeout=self._timeout).call(context, method, **arguments)
        except exceptions.HostUnavailable as exc:
            raise exceptions.SchedulerUnavailable(seconds=self._timeout) from exc

    def create(self, context: RequestContext, container: Container) -> None:
        """Cast: find a host for an accepted container and hand it over."""
        self._client.cast(context, "create", container=container)

    def hand_over(
        self, context: RequestContext, container: Container, *, to: str, tried: Mapping[str, str], passed: Sequence[str]
    ) -> None:
        """Cast to the scheduler ``to``, which keeps the best host: place it. Those in ``passed`` had it before."""
        client = self._client.prepare(server=to)
        with rpc.answers_from(to):
            client.cast(context, "create", container=container, tried=dict(tried), passed=list(passed))

    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None:
        """Cast to every scheduler: ``name`` is there, or is about to stop."""
        with rpc.answers_from("schedulers"):
            self._client.prepare(fanout=True).cast(context, "scheduler_seen", name=name, leaving=leaving)

    def dry_run(self, context: RequestContext, container: Container, *, count: int) -> dict[str, Any]:
        """Call: where ``count`` containers like this one would go.

        ``placed`` has host, cpuset (a plan in its wire form) and alternates of each that has a place, ``refusal`` the
        record of ``zun.scheduler.explain`` for the first that has none. The container needs no row.
        """
        answer: dict[str, Any] = self._call(context, "dry_run", container=container, count=count)
        return answer

    def capacity(self, context: RequestContext, container: Container, *, limit: int) -> dict[str, Any]:
        """Call: ``total``, ``complete`` and by host ``host``, ``count``, ``code`` and ``reason`` of how many would fit.

        It is counted for half the time a call may take.
        """
        seconds = self._timeout / 2
        answer: dict[str, Any] = self._call(context, "capacity", container=container, limit=limit, seconds=seconds)
        return answer

    def claim_refused(
        self,
        context: RequestContext,
        container: Container,
        *,
        host: str,
        reason: str,
        tried: Mapping[str, str],
        alternates: Sequence[Mapping[str, Any]],
    ) -> None:
        """Cast: ``host`` cannot hold the container after all; try the ``alternates``, then any other host."""
        self._client.cast(
            context,
            "claim_refused",
            container=container,
            host=host,
            reason=reason,
            tried=dict(tried),
            alternates=list(alternates),
        )

    def host_changed(
        self,
        context: RequestContext,
        *,
        host: str,
        generation: int,
        uuid: str | None = None,
        held: Mapping[str, Any] | None = None,
        failed: bool = False,
    ) -> None:
        """Tell every scheduler: since ``generation`` the container ``uuid`` holds ``held`` there, None for nothing.

        ``held`` has the row's members cpuset, cpu, memory, disk, group_uuid and image. Without ``uuid`` the host's
        inventory changed. ``failed``: the host could not make or start it, or could not have. Claims of a few
        milliseconds travel together, everything else at once; what is lost is found in the database.
        """
        self._changes.put({"host": host, "generation": generation, "uuid": uuid, "held": held, "failed": failed})
        if held is None:  # the next request may need what has become free, or a refused one must not come again
            self._changes.flush()

    def _hosts_changed(self, changes: Sequence[Mapping[str, Any]]) -> None:
        client = self._client.prepare(fanout=True, version="1.1")
        # A host's changes make sense in their order, and were put in by threads.
        ordered = sorted(changes, key=lambda change: (change["host"], change["generation"]))
        client.cast(admin_context(), "hosts_changed", changes=ordered)
