# SPDX-License-Identifier: Apache-2.0
"""Send notifications about containers and hosts through oslo.messaging.

None are sent unless ``[oslo_messaging_notifications] driver`` is set: ``log`` writes them to the log, ``messagingv2``
sends them. The event type ``container.<status in lower case>`` follows each committed change of a status, and
``container.moved`` a move within the host. The event type ``host.audit`` follows each audit of a host, with its
findings and the totals since the start of its agent.

Each payload has its ``version``. A new member raises the minor number, a removed or changed one the major number.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from zun.common.context import RequestContext
from zun.objects import Container

VERSION = "1.0"

#: Members of the payload of a container's event that are fields of the container. One that is not set is null.
CONTAINER_FIELDS = (
    "uuid",
    "name",
    "kind",
    "capsule_uuid",
    "project_id",
    "user_id",
    "host",
    "image",
    "cpu",
    "cpu_policy",
    "memory",
    "disk",
    "status",
    "status_reason",
    "exit_code",
    "created_at",
    "started_at",
    "finished_at",
)


class Notifier:
    """Sends the notifications of one ``publisher``, for example ``zun-compute.host-1``."""

    def __init__(self, conf: cfg.ConfigOpts, publisher: str) -> None:
        transport = oslo_messaging.get_notification_transport(conf)
        self._notifier = oslo_messaging.Notifier(transport, publisher_id=publisher)
        self._enabled = bool(conf.oslo_messaging_notifications.driver)

    def status_changed(self, context: RequestContext, container: Container) -> None:
        """Send the event of the container's present status."""
        if self._enabled:
            event = f"container.{container.status.lower()}"
            self._notifier.info(context.to_dict(), event, container_payload(container))

    def moved(self, context: RequestContext, container: Container) -> None:
        """Send that the container has moved within its host, to the CPUs and memory nodes that it has now."""
        if self._enabled:
            self._notifier.info(context.to_dict(), "container.moved", container_payload(container))

    def audited(self, context: RequestContext, answer: Mapping[str, Any]) -> None:
        """Send the result of an audit: the members host, findings, containers and totals of ``answer``."""
        if self._enabled:
            self._notifier.info(context.to_dict(), "host.audit", {"version": VERSION, **answer})


def container_payload(container: Container) -> dict[str, Any]:
    """Return the payload of a container's event. Times are UTC in ISO 8601; ``cpuset_cpus`` is a kernel list."""
    told = {name: container[name] if container.obj_attr_is_set(name) else None for name in CONTAINER_FIELDS}
    for name, value in told.items():
        if isinstance(value, datetime.datetime):
            told[name] = value.isoformat()
    cpuset = (container.cpuset if container.obj_attr_is_set("cpuset") else None) or {}
    return {"version": VERSION, **told, **{name: cpuset.get(name) for name in ("cpuset_cpus", "cpuset_mems")}}
