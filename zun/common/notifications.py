# SPDX-License-Identifier: Apache-2.0
"""Tells the outside what happened to a container, through oslo.messaging notifications.

Off unless ``[oslo_messaging_notifications] driver`` names one; ``log`` writes them to the log, ``messagingv2`` sends
them. Event types are ``container.<status in lower case>``, sent after the status was committed, and ``host.audit``,
sent after each audit of a host with its findings and the totals since the start of its agent.
"""

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from zun.common.context import RequestContext
from zun.objects import Container


class Notifier:
    def __init__(self, conf: cfg.ConfigOpts, publisher: str) -> None:
        transport = oslo_messaging.get_notification_transport(conf)
        self._notifier = oslo_messaging.Notifier(transport, publisher_id=publisher)
        self._enabled = bool(conf.oslo_messaging_notifications.driver)

    def status_changed(self, context: RequestContext, container: Container) -> None:
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
        """``answer`` is that of the API: host, findings, containers, totals."""
        if self._enabled:
            self._notifier.info(context.to_dict(), "host.audit", dict(answer))
