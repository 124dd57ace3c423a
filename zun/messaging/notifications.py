# SPDX-License-Identifier: Apache-2.0
"""Send notifications about containers and hosts through oslo.messaging.

None are sent unless ``[oslo_messaging_notifications] driver`` is set: ``log`` writes them to the log, ``messagingv2``
sends them. The event type ``container.<status in lower case>`` follows each committed change of a status. The event
type ``host.audit`` follows each audit of a host, with its findings and the totals since the start of its agent.
"""

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from zun.common.context import RequestContext
from zun.objects import Container


class Notifier:
    """Sends the notifications of one ``publisher``, for example ``zun-compute.host-1``."""

    def __init__(self, conf: cfg.ConfigOpts, publisher: str) -> None:
        transport = oslo_messaging.get_notification_transport(conf)
        self._notifier = oslo_messaging.Notifier(transport, publisher_id=publisher)
        self._enabled = bool(conf.oslo_messaging_notifications.driver)

    def status_changed(self, context: RequestContext, container: Container) -> None:
        """Send the event of the container's present status."""
        if self._enabled:
            payload = {
                "uuid": container.uuid,
                "project_id": container.project_id,
                "host": container.host,
                "status": container.status,
                "status_reason": container.status_reason,
            }
            self._notifier.info(context.to_dict(), f"container.{container.status.lower()}", payload)

    def audited(self, context: RequestContext, answer: Mapping[str, Any]) -> None:
        """Send the result of an audit: the members host, findings, containers and totals of ``answer``."""
        if self._enabled:
            self._notifier.info(context.to_dict(), "host.audit", dict(answer))
