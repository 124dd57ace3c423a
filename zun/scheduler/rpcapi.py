# SPDX-License-Identifier: Apache-2.0
"""Messages to zun-scheduler. The names and arguments are those of ``SchedulerEndpoint``."""

from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging

from zun.common import rpc
from zun.common.context import RequestContext
from zun.objects import Container

VERSION = "1.0"


class SchedulerAPI:
    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._client = rpc.get_client(transport, rpc.SCHEDULER_TOPIC, VERSION)

    def create(self, context: RequestContext, container: Container) -> None:
        """Cast: find a host for an accepted container and hand it over."""
        self._client.cast(context, "create", container=container)

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
        """Cast to every scheduler: since ``generation`` the container ``uuid`` holds ``held`` there, None for nothing.

        ``held`` has the row's members cpuset, cpu, memory, disk, group_uuid and image. Without ``uuid`` the host's
        inventory changed. ``failed``: it holds nothing because the host could not make or start it.
        """
        self._client.prepare(fanout=True).cast(
            context, "host_changed", host=host, generation=generation, uuid=uuid, held=held, failed=failed
        )
