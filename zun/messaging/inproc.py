# SPDX-License-Identifier: Apache-2.0
"""``inproc://``: an oslo.messaging transport between the threads of one process, for the all-in-one and for tests.

The transport behaves as a broker does: every message is copied through JSON, calls honour their timeout, a queue
outlives its readers, and a full queue refuses messages. Readers sleep on a condition variable and never poll.
``inproc:///NAME`` names an exchange of its own.

oslo.messaging has no public base class for drivers: every driver derives from ``_drivers.base``. The page
``doc/source/contributor/decisions/messages-in-one-process.rst`` compares the library's own transports.
"""

import collections
import queue
import threading
import time
from typing import Any

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_serialization import jsonutils

QUEUE_LIMIT = 10_000  # messages; a sender to a full queue gets MessageDeliveryFailure

_exchanges: dict[str, "_Exchange"] = {}
_exchanges_lock = threading.Lock()


class _Exchange:
    """Named queues: ``zun.compute`` is shared by the servers of a topic, ``zun.compute@host-1`` is of one server."""

    def __init__(self) -> None:
        self.arrived = threading.Condition()
        self.queues: dict[str, collections.deque[tuple[str, Any, str]]] = {}

    def declare(self, names: tuple[str, ...]) -> None:
        with self.arrived:
            for name in names:
                self.queues.setdefault(name, collections.deque())

    def put(self, names: list[str], body: str, reply_to: Any, address: str) -> None:
        with self.arrived:
            if any(len(self.queues.get(name, ())) >= QUEUE_LIMIT for name in names):
                raise oslo_messaging.MessageDeliveryFailure(f"queue {names[0]} holds {QUEUE_LIMIT} messages")
            for name in names:
                self.queues.setdefault(name, collections.deque()).append((body, reply_to, address))
            self.arrived.notify_all()

    def queues_for(self, name: str) -> list[str]:
        """Return the queue ``name``, or a queue such as ``zun.conductor.#`` that has all names of this beginning."""
        with self.arrived:
            wide = [each for each in self.queues if each.endswith(".#") and name.startswith(each[:-1])]
        return wide or [name]

    def servers_of(self, topic: str) -> list[str]:
        """Return the queues of the topic's servers. A full queue, whose reader may be gone, is left out."""
        own = f"{topic}@"
        with self.arrived:
            return [name for name, kept in self.queues.items() if name.startswith(own) and len(kept) < QUEUE_LIMIT]


class _Incoming(base.RpcIncomingMessage):
    def __init__(self, ctxt: dict[str, Any], message: dict[str, Any], reply_to: Any, address: str) -> None:
        super().__init__(ctxt, message)
        self.address = address
        self._reply_to = reply_to

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if self._reply_to is not None:
            self._reply_to.put((jsonutils.dumps(reply), failure[1] if failure else None))

    def requeue(self) -> None:
        raise NotImplementedError("inproc messages are taken once")

    def heartbeat(self) -> None:
        """Do nothing: a caller in the same process needs no sign of life."""


class _Listener(base.PollStyleListener):
    def __init__(self, exchange: _Exchange, names: tuple[str, ...]) -> None:
        super().__init__()
        self._exchange = exchange
        self._names = names
        self._stopped = False
        exchange.declare(names)

    @base.batch_poll_helper
    def poll(self, timeout: float | None = None) -> _Incoming | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._exchange.arrived:
            while True:
                for name in self._names:
                    if waiting := self._exchange.queues[name]:
                        body, reply_to, address = waiting.popleft()
                        ctxt, message = jsonutils.loads(body)
                        return _Incoming(ctxt, message, reply_to, address)
                left = None if deadline is None else deadline - time.monotonic()
                if self._stopped or (left is not None and left <= 0):
                    return None
                self._exchange.arrived.wait(left)

    def stop(self) -> None:
        with self._exchange.arrived:
            self._stopped = True
            self._exchange.arrived.notify_all()


class InprocDriver(base.BaseDriver):
    """The oslo.messaging driver behind ``inproc://``."""

    def __init__(self, conf: Any, url: Any, default_exchange: Any = None, allowed_remote_exmods: Any = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        with _exchanges_lock:
            self._exchange = _exchanges.setdefault(url.virtual_host or "", _Exchange())

    def require_features(self, requeue: bool = False) -> None:
        """Accept: RPC needs no feature that this driver lacks."""

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: dict[str, Any],
        message: dict[str, Any],
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: Any = None,
    ) -> Any:
        if target.fanout:
            names = self._exchange.servers_of(target.topic)
        else:
            names = [f"{target.topic}@{target.server}"] if target.server else self._exchange.queues_for(target.topic)
        answers: queue.SimpleQueue[Any] | None = queue.SimpleQueue() if wait_for_reply else None
        if names:
            self._exchange.put(names, jsonutils.dumps([ctxt, message]), answers, target.topic)
        if answers is None:
            return None
        try:
            reply, failure = answers.get(timeout=timeout)
        except queue.Empty:
            raise oslo_messaging.MessagingTimeout(f"no answer from {names} in {timeout} s") from None
        if failure is not None:
            raise failure
        return jsonutils.loads(reply)

    def send_notification(
        self, target: oslo_messaging.Target, ctxt: Any, message: Any, version: Any, retry: Any = None
    ) -> None:
        self.send(target, ctxt, message)

    def listen(self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float) -> base.Listener:
        names = (f"{target.topic}@{target.server}", target.topic)
        return base.PollStyleListenerAdapter(_Listener(self._exchange, names), batch_size, batch_timeout)

    def listen_for_notifications(
        self, targets_and_priorities: Any, pool: Any, batch_size: int, batch_timeout: float
    ) -> base.Listener:
        names = tuple(f"{target.topic}.{priority}" for target, priority in targets_and_priorities)
        return base.PollStyleListenerAdapter(_Listener(self._exchange, names), batch_size, batch_timeout)

    def cleanup(self) -> None:
        """Do nothing: queues end with the process."""
