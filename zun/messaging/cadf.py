# SPDX-License-Identifier: Apache-2.0
"""CADF notifications: where they go, and those of terminal sessions. ``zun.api.audit`` has those of requests."""

from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging import opts

from zun.objects import ConsoleToken

TERMINAL = "service/compute/container/containers/container/terminal"
OPENED, CLOSED = "audit.terminal.opened", "audit.terminal.closed"
RETRIES = 1
"""Attempts to reach the broker, which a request waits for. [oslo_messaging_notifications] retry has another number."""


def settle(conf: cfg.ConfigOpts) -> bool:
    """Return whether ``[audit] enabled`` is set; register the options of the notifications if it is.

    Raises SystemExit if it is set and the notifications have nowhere to go.
    """
    if not conf.audit.enabled:
        return False
    from keystonemiddleware import audit

    for group, options in [*audit.list_opts(), *opts.list_opts()]:
        conf.register_opts(options, group=group)
    # By default the library tries for ever, and so would the request.
    conf.set_default("retry", RETRIES, group="oslo_messaging_notifications")
    own = conf.audit_middleware_notifications
    if own.use_oslo_messaging and not (own.driver or conf.oslo_messaging_notifications.driver):
        raise SystemExit(
            "[audit] enabled needs [audit_middleware_notifications] driver, for example messagingv2 or log. Set it, or "
            "set [audit] enabled = false."
        )
    return True


class Sessions:
    """Sends the notifications of terminal sessions, if they are on, for the websocket proxy of a host."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._notifier = None
        if settle(conf):
            own = conf.audit_middleware_notifications
            transport = oslo_messaging.get_notification_transport(conf, url=own.transport_url)
            publisher = f"zun-wsproxy.{conf.host}"
            self._notifier = oslo_messaging.Notifier(transport, publisher, driver=own.driver, topics=own.topics)

    def opened(self, grant: ConsoleToken, address: str | None, failure: str | None) -> None:
        """Send the event of a session; ``failure`` says why it could not be opened."""
        self._send(OPENED, grant, address, failure)

    def closed(self, grant: ConsoleToken, address: str | None) -> None:
        self._send(CLOSED, grant, address, None)

    def _send(self, event_type: str, grant: ConsoleToken, address: str | None, failure: str | None) -> None:
        if self._notifier is not None:
            self._notifier.info({}, event_type, _event(event_type, grant, address, failure))


def _event(event_type: str, grant: ConsoleToken, address: str | None, failure: str | None) -> dict[str, Any]:
    """Return a CADF event. The name of the target is the id of the command; the container's own terminal has none."""
    from pycadf import cadftaxonomy, cadftype, eventfactory, host, reason, resource

    event = eventfactory.EventFactory().new_event(
        eventType=cadftype.EVENTTYPE_ACTIVITY,
        outcome=cadftaxonomy.OUTCOME_FAILURE if failure else cadftaxonomy.OUTCOME_SUCCESS,
        action="start/terminal" if event_type == OPENED else "stop/terminal",
        initiator=resource.Resource(
            typeURI=cadftaxonomy.ACCOUNT_USER,
            id=grant.user_id or cadftaxonomy.UNKNOWN,
            host=host.Host(address=address),
        ),
        target=resource.Resource(typeURI=TERMINAL, id=grant.container_uuid, name=grant.exec_id),
        observer=resource.Resource(id="target"),
    )
    if failure:
        event.reason = reason.Reason(reasonType="zun", reasonCode=failure)
    told: dict[str, Any] = event.as_dict()
    return told
