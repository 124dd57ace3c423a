# SPDX-License-Identifier: Apache-2.0
"""Bound how long a thread waits for RabbitMQ where no option of oslo.messaging does.

oslo.messaging 18 waits without end, or does not wait at all, in five places:

* A listener, and a sender without ``retry``, reconnects for ever. ``MessageHandlingServer.stop`` and
  ``Transport.cleanup`` wait for these threads, so a program cannot end while the broker is away.
* The first call of a transport opens a connection for the answers. That connection ignores ``retry`` and the timeout
  of the call (``AMQPDriverBase._get_reply_q``).
* A RabbitMQ with a memory or disk alarm stops reading from publishers, as
  https://www.rabbitmq.com/docs/connection-blocked says. py-amqp then waits for the confirmation of the message without
  a timeout, because oslo.messaging passes none to ``Producer.publish``.
* The thread that reads answers tries again at once, with a traceback, after a connection that kombu does not try again
  itself: one that RabbitMQ refuses because the user was removed or has a new password.
* Each step of a stop waits for a RabbitMQ that is silent as long as two heartbeats take, a minute by default.

``install`` gives kombu a transport for RabbitMQ that raises ``GaveUp`` in these places. The transport is a subclass of
kombu's own and overrides public methods only. ``test_waiting.py`` fails as soon as the library needs one of them no
longer.
"""

import contextlib
import logging
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import kombu.transport
import oslo_messaging
from amqp import exceptions as amqp_exc
from kombu.transport import pyamqp

from zun.messaging.channels import Channel

LOG = logging.getLogger(__name__)

TOGETHER = 20
"""Most events of RabbitMQ that a listener reads at once. oslo.messaging builds classes and closures for each reading,
which takes as long as the event itself."""
SILENT_SECONDS = 5
"""Longest wait for one answer of RabbitMQ after ``leave``."""
PAUSE_SECONDS = 0.5
"""Time between two refusals to connect after ``leave``: a thread of the library tries again at once, for ever."""

_leaving = threading.Event()
_accepted = threading.Event()
_told = threading.Event()


class GaveUp(oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """RabbitMQ did not answer while somebody was willing to wait. It is one of ``outages.UNDELIVERED``."""


class Refused(ConnectionError):
    """RabbitMQ, which let this process in before, refuses its user now. As an OSError it is tried again with pauses."""


class _Patience(threading.local):
    """``attempts``: how often this thread may still try to connect; None for as often as it takes."""

    attempts: int | None = None


_patience = _Patience()


@contextlib.contextmanager
def at_most(retries: int | None) -> Iterator[None]:
    """Let this thread connect to a broker 1 + ``retries`` times inside the block, or without a bound if None.

    With a bound, a broker that takes no messages because of an alarm is not waited for either.
    """
    before = _patience.attempts
    _patience.attempts = None if retries is None else 1 + retries
    try:
        yield
    finally:
        _patience.attempts = before


def leave() -> None:
    """Let every thread that waits for a broker give up at its next attempt to connect.

    The attempts are at most ``[oslo_messaging_rabbit] rabbit_interval_max`` seconds apart. A RabbitMQ that takes the
    connection but is silent is given up after ``SILENT_SECONDS``.
    """
    _leaving.set()


def is_leaving() -> bool:
    """Return whether this program ends: what is not answered now is taken up again by the next start."""
    return _leaving.is_set()


def pause(seconds: float) -> None:
    """Wait ``seconds``, or until this program ends."""
    _leaving.wait(seconds)


def _tell(reason: str) -> None:
    """Log once why this program ends without RabbitMQ."""
    if not _told.is_set():
        _told.set()
        LOG.warning("Ending without the message queue: %s. The next start takes up what is left to do", reason)


class Connection(pyamqp.Connection):  # type: ignore[misc]
    """A connection whose publishers wait for the end of an alarm only where patience is without a bound.

    ``user`` is its user at the broker, or None if a certificate decides (EXTERNAL).
    """

    Channel = Channel

    def __init__(self, *arguments: Any, on_blocked: Callable[[str], object] | None = None, **named: Any) -> None:
        self.user: str | None = named.get("userid") if named.get("login_method") != "EXTERNAL" else None

        def blocked(reason: str) -> None:
            if on_blocked is not None:
                on_blocked(reason)
            if _patience.attempts is not None:
                self.collect()  # the broker reads nothing more, not even that the connection is closed
                raise GaveUp("it takes no messages, as its memory or disk runs out; see 'rabbitmq-diagnostics alarms'")

        super().__init__(*arguments, on_blocked=blocked, **named)

    def drain_events(self, timeout: float | None = None) -> Any:
        """Read what RabbitMQ sends. Without ``timeout`` somebody waits for an answer, as to a message or a close."""
        if timeout is not None:
            return self._drain_arrived(timeout)
        since, most = time.monotonic(), self.sock.gettimeout()
        while True:
            waited = time.monotonic() - since
            with contextlib.suppress(TimeoutError):
                return super().drain_events(timeout=1.0)
            if _leaving.is_set() and waited >= SILENT_SECONDS:
                _tell(f"it has not answered for {SILENT_SECONDS} s")
                self.collect()  # an orderly close would wait again
            elif most is None or waited < most:
                continue
            raise TimeoutError("the message queue does not answer")

    def _drain_arrived(self, timeout: float) -> None:
        """Read one event, and then those that have arrived already."""
        super().drain_events(timeout=timeout)
        for _ in range(TOGETHER - 1):
            if not self.connected or not select.select([self.sock], [], [], 0)[0]:
                return
            with contextlib.suppress(TimeoutError):  # only a part of the event has arrived
                super().drain_events(timeout=timeout)


class Transport(pyamqp.Transport):  # type: ignore[misc]
    """kombu's transport for RabbitMQ, with bounded attempts to connect."""

    Connection = Connection

    def establish_connection(self) -> Any:
        if _leaving.is_set():
            _tell("it is away, or has closed the connection")
            time.sleep(PAUSE_SECONDS)
            raise GaveUp("the message queue is away, and this program ends")
        try:
            made = self._connected()
        except self.recoverable_connection_errors as exc:
            if _patience.attempts is None:
                raise
            _patience.attempts -= 1
            if _patience.attempts > 0:
                raise
            raise GaveUp(f"the message queue does not answer: {exc}") from exc
        _accepted.set()
        return made

    def _connected(self) -> Any:
        """Return a new connection. A user that is refused at its first one has a wrong configuration: that ends it."""
        try:
            return super().establish_connection()
        except (amqp_exc.AccessRefused, amqp_exc.NotAllowed) as exc:
            if not _accepted.is_set():
                raise
            raise Refused(str(exc)) from exc


def install() -> None:
    """Use ``Transport`` for every connection to RabbitMQ that this process opens from now on."""
    kombu.transport.TRANSPORT_ALIASES["amqp"] = f"{__name__}:{Transport.__name__}"
