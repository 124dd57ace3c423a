# SPDX-License-Identifier: Apache-2.0
"""Messages to zun-scheduler. The names and arguments are those of ``SchedulerEndpoint``."""

from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging

from zun.common import exceptions
from zun.common.context import RequestContext, admin_context
from zun.messaging import rpc
from zun.messaging.outbox import Outbox
from zun.messaging.releases import Release
from zun.objects import Container

VERSION = "1.0"
SETS = "1.4"
"""The version since which schedulers place sets."""

TOGETHER_SECONDS = 0.01
"""Time that a claim waits for others, to be sent in one message. The delay is harmless, because the scheduler has
booked its choice."""


class SchedulerAPI:
    """Messages to any scheduler. Casts return at once, calls raise SchedulerUnavailable after ``timeout`` seconds."""

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
            rpc.SCHEDULER_TOPIC,
            VERSION,
            retries,
            cap=pin.scheduler if pin else None,
            objects=pin.objects if pin else None,
        )
        self._timeout = timeout
        self._changes = Outbox(self._hosts_changed, TOGETHER_SECONDS)

    def close(self) -> None:
        """Send the claims that still wait."""
        self._changes.close()

    def _call(self, context: RequestContext, method: str, version: str = VERSION, **arguments: Any) -> Any:
        try:
            with rpc.answers_from("scheduler"):
                return self._client.prepare(timeout=self._timeout, version=version).call(context, method, **arguments)
        except exceptions.HostUnavailable as exc:
            raise exceptions.SchedulerUnavailable(seconds=self._timeout) from exc

    def create(
        self, context: RequestContext, container: Container, *, tried: Mapping[str, str] | None = None
    ) -> None:
        """Cast: find a host for an accepted container and hand it over. ``tried`` are hosts that it does not get."""
        more = {} if tried is None else {"tried": dict(tried)}
        self._client.cast(context, "create", container=container, **more)

    def check_sets(self) -> None:
        """Raise Conflict if the pin is of a release whose schedulers know no sets. Since version 1.4."""
        if not self._client.can_send(SETS):
            raise exceptions.Conflict(
                "Schedulers of the release before place no sets. Upgrade them, and remove [upgrade_levels] scheduler."
            )

    def create_set(self, context: RequestContext, uuid: str) -> None:
        """Cast: find hosts for the waiting members of a set and hand them over. Since version 1.4."""
        self._client.prepare(version=SETS).cast(context, "create_set", uuid=uuid)

    def hand_over(
        self, context: RequestContext, container: Container, *, to: str, tried: Mapping[str, str], passed: Sequence[str]
    ) -> None:
        """Cast to the scheduler ``to``, which keeps the best host. Those in ``passed`` had the request before."""
        client = self._client.prepare(server=to)
        with rpc.answers_from(to):
            client.cast(context, "create", container=container, tried=dict(tried), passed=list(passed))

    def scheduler_seen(self, context: RequestContext, *, name: str, leaving: bool) -> None:
        """Cast to every scheduler: ``name`` is there, or is about to stop."""
        with rpc.answers_from("schedulers"):
            self._client.prepare(fanout=True).cast(context, "scheduler_seen", name=name, leaving=leaving)

    def dry_run(self, context: RequestContext, container: Container, *, count: int) -> dict[str, Any]:
        """Call: return where ``count`` containers like this one would go. The container needs no row.

        ``placed`` has host, cpuset (a plan in its wire form) and alternates for each container that finds a host.
        ``refusal`` is the record of ``zun.scheduler.explain`` for the first container that finds none.
        """
        answer: dict[str, Any] = self._call(context, "dry_run", container=container, count=count)
        return answer

    def capacity(self, context: RequestContext, container: Container, *, limit: int) -> dict[str, Any]:
        """Call: return how many containers like this one would fit: ``total``, ``complete`` and a record by host.

        A record has ``host``, ``count``, ``code`` and ``reason``. The scheduler counts for half of the call's timeout.
        """
        seconds = self._timeout / 2
        answer: dict[str, Any] = self._call(context, "capacity", container=container, limit=limit, seconds=seconds)
        return answer

    def find_moves(self, context: RequestContext, container: Container, *, near: bool = False) -> dict[str, Any]:
        """Call: return the cheapest moves on one host after which a container like this one fits there.

        With ``near``, moves after which the claims on the host that its request names are less remote.

        The answer has ``host``, ``moves`` and ``proven``, or the ``reason`` why there are none. A move has ``uuid`` and
        ``name`` of its container, the plans ``held`` and ``cpuset`` in their wire form, ``mib`` to copy, and ``after``:
        containers that must move before. The container needs no row. Since version 1.3.
        """
        seconds = self._timeout / 2
        answer: dict[str, Any] = self._plan(context, "find_moves", container=container, seconds=seconds, near=near)
        return answer

    def find_places(
        self, context: RequestContext, uuids: Sequence[str], leaving: str, to: str | None = None
    ) -> dict[str, Any]:
        """Call: return where the containers of these ``uuids`` would go if they left the host ``leaving``.

        With ``to``, only this host counts. The answer has ``host`` and ``reason`` by uuid; one of both is None. The
        containers need rows. Since version 1.3.
        """
        answer: dict[str, Any] = self._plan(context, "find_places", uuids=list(uuids), leaving=leaving, to=to)
        return answer

    def _plan(self, context: RequestContext, method: str, **arguments: Any) -> Any:
        """Call a method of version 1.3, which plans moves. Raise Conflict if the pin is of an older release."""
        if not self._client.can_send("1.3"):
            raise exceptions.Conflict(
                "Schedulers of the release before plan no moves. Upgrade them, and remove [upgrade_levels] scheduler."
            )
        return self._call(context, method, "1.3", **arguments)

    def claim_refused(
        self,
        context: RequestContext,
        container: Container,
        *,
        host: str,
        reason: str,
        tried: Mapping[str, str],
        alternates: Sequence[Mapping[str, Any]],
        permit: str | None,
    ) -> None:
        """Cast: ``host`` cannot hold the container after all; try the ``alternates``, then any other host.

        ``permit`` is the one that came with ``tried`` and ``alternates``.
        """
        self._client.prepare(version="1.2").cast(
            context,
            "claim_refused",
            container=container,
            host=host,
            reason=reason,
            tried=dict(tried),
            alternates=list(alternates),
            permit=permit,
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
        """Tell every scheduler that ``host`` changed: since ``generation`` the container ``uuid`` holds ``held``.

        ``held`` has the members cpuset, cpu, memory, disk, group_uuid and image of the container's row, or is None if
        the container holds nothing. Without ``uuid`` the inventory changed. ``failed`` says that the host could not
        make or start the container. Claims wait ``TOGETHER_SECONDS`` for each other, other changes are sent at once.
        Schedulers find a lost message's change in the database.
        """
        self._changes.put({"host": host, "generation": generation, "uuid": uuid, "held": held, "failed": failed})
        if held is None:  # the next request may need the freed resources
            self._changes.flush()

    def _hosts_changed(self, changes: Sequence[Mapping[str, Any]]) -> None:
        client = self._client.prepare(fanout=True, version="1.1")
        # A host's changes make sense in their order, and were put in by threads.
        ordered = sorted(changes, key=lambda change: (change["host"], change["generation"]))
        client.cast(admin_context(), "hosts_changed", changes=ordered)
