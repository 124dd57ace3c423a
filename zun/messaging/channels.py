# SPDX-License-Identifier: Apache-2.0
"""Channels to RabbitMQ that suit users with few permissions.

oslo.messaging needs more rights than a host should have: answers go over the default exchange, which leads to every
queue, and who publishes declares the exchange, with a right that also removes it. It also loses messages when a server
stops. ``Channel`` overrides public methods of kombu's own channel:

* Each message names its sender, which RabbitMQ checks.
* A message to a server expires after ``LATE_SECONDS``. A call expires earlier, with its timeout.
* A host sends its answers to the exchange ``zun.replies``, to which every other service binds its queues for answers.
* A host only looks whether exchanges of other services exist.
* Where all services share one user, the exchange to hosts also leads to the one of schedulers: agents of before 1.0
  read their messages there. RabbitMQ puts a message once into a queue that is bound to both.
* Nobody waits for the removal of a queue. oslo.messaging 18 removes one when it closes the connection of a server that
  has stopped: while it waits for RabbitMQ's answer, it acknowledges messages of the server's other queues, and nobody
  deals with these. Unacknowledged ones go to the next server.
"""

from typing import Any

import amqp
from kombu.transport import pyamqp

from zun.messaging import senders

LATE_SECONDS = 600
"""Time after which the user has been told that a message was lost."""


class Channel(pyamqp.Channel):  # type: ignore[misc]
    """A channel of ``zun.messaging.waiting.Connection``."""

    def basic_publish(self, msg: Any, exchange: str = "", routing_key: str = "", **named: Any) -> Any:
        return super().basic_publish(self._marked(msg, routing_key), self._outlet(exchange), routing_key, **named)

    def basic_publish_confirm(self, msg: Any, exchange: str = "", routing_key: str = "", **named: Any) -> Any:
        return super().basic_publish_confirm(
            self._marked(msg, routing_key), self._outlet(exchange), routing_key, **named
        )

    def exchange_declare(self, exchange: str, type: str, passive: bool = False, **named: Any) -> Any:
        foreign = self._host is not None and exchange != f"{senders.COMPUTE_TOPIC}.{self._host}_fanout"
        declared = super().exchange_declare(exchange, type, passive=passive or foreign, **named)
        if exchange.endswith(senders.HOSTS_SUFFIX) and self._is_shared:
            former = exchange.removesuffix(senders.HOSTS_SUFFIX)
            super().exchange_declare(former, type, **named)
            self.exchange_bind(former, exchange, f"{senders.COMPUTE_TOPIC}.#")
        return declared

    def queue_declare(self, queue: str = "", **named: Any) -> Any:
        declared = super().queue_declare(queue, **named)
        if queue.startswith("reply_") and self._host is None:
            super().exchange_declare(senders.REPLIES, "topic", durable=True, auto_delete=False)
            self.queue_bind(queue, senders.REPLIES, queue)
        return declared

    def queue_delete(
        self, queue: str = "", if_unused: bool = False, if_empty: bool = False, nowait: bool = False
    ) -> Any:
        return super().queue_delete(queue, if_unused, if_empty, nowait=True)

    @property
    def _user(self) -> str | None:
        return getattr(self.connection, "user", None)

    @property
    def _host(self) -> str | None:
        return senders.host_of_user(self._user)

    @property
    def _is_shared(self) -> bool:
        return self._user is not None and not senders.is_of_one_service(self._user)

    def _outlet(self, exchange: str) -> str:
        return senders.REPLIES if self._host is not None and not exchange else exchange

    def _marked(self, msg: amqp.Message, routing_key: str) -> amqp.Message:
        if self._user is not None:
            msg.properties["user_id"] = self._user
        if routing_key.startswith("zun."):
            msg.properties.setdefault("expiration", str(LATE_SECONDS * 1000))
        return msg
