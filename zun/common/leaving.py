# SPDX-License-Identifier: Apache-2.0
"""Lets a program end that waits for a broker which is away: importing this changes kombu.

oslo.messaging waits for ever, in whichever threads have something to send, and a stop waits for these.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import kombu
import oslo_messaging
from oslo_messaging._drivers import common

PAUSE_SECONDS = 0.5  # who reads messages asks again at once, until it is stopped

_leaving = threading.Event()
_connect: Callable[..., Any] | None = getattr(kombu.Connection, "_ensure_connection", None)


class Left(common.Timeout, oslo_messaging.MessageDeliveryFailure):  # type: ignore[misc]
    """One of ``outages.UNDELIVERED`` for who sends. For the library's readers nothing came, which they do not tell."""


def leave() -> None:
    """From now on nobody waits for a broker: who does gets Left, two seconds later at most if refused."""
    _leaving.set()


def _go_on() -> None:
    if _leaving.is_set():
        time.sleep(PAUSE_SECONDS)
        raise Left("the message queue is away, and this program ends")


def _connected(self: kombu.Connection, *arguments: Any, **named: Any) -> Any:
    """As the library's, which calls ``callback`` after each attempt and then every second until the next."""
    assert _connect is not None
    return _connect(self, *arguments, callback=_go_on, **named)


if _connect is not None:  # else the library has changed, and a second signal is needed
    kombu.Connection._ensure_connection = _connected  # type: ignore[method-assign]
