# SPDX-License-Identifier: Apache-2.0
"""What a message to or from RabbitMQ need not cost: importing this changes oslo.messaging, kombu and py-amqp.

Above all, system calls: during each another thread takes the interpreter, and to get it back costs more than the call.
The page ``decisions/a-cheaper-message`` of the contributor guide says what is replaced, and why here.
"""

import math
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import orjson
from amqp.transport import TCPTransport
from kombu import serialization
from kombu.transport import pyamqp
from oslo_messaging._drivers import common, impl_rabbit
from oslo_serialization import jsonutils
from oslo_versionedobjects import base as ovo

READ_BYTES = 16384
"""Read at once: a message with its three frames, or the few that came meanwhile."""

JSON_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


class _Socket(socket.socket):
    """A connection whose timeout the kernel keeps, so that a call is one system call: Python's own polls before each.

    What takes too long is a BlockingIOError.
    """

    _kept: float | None = None
    _read_limit: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        self._kept = seconds
        self._limit(socket.SO_SNDTIMEO, seconds)
        self.limit_reads(seconds)

    def gettimeout(self) -> float | None:
        return self._kept

    def limit_reads(self, seconds: float | None) -> None:
        """Let reads wait so long from now on."""
        if seconds != self._read_limit:
            self._limit(socket.SO_RCVTIMEO, seconds)
            self._read_limit = seconds

    def _limit(self, option: int, seconds: float | None) -> None:
        microseconds = 0 if seconds is None else max(1, math.ceil(1_000_000 * seconds))
        self.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", *divmod(microseconds, 1_000_000)))


class _Transport(TCPTransport):  # type: ignore[misc]
    """Reads what there is. The library reads the header and the rest of each frame by themselves, and buffers both."""

    sock: Any

    def _setup_transport(self) -> None:
        self.sock = _Socket(fileno=self.sock.detach())
        super()._setup_transport()
        receive, send = self.sock.recv, self.sock.sendall

        def read(_wanted: int) -> bytes:
            try:
                return receive(READ_BYTES)
            except BlockingIOError as exc:
                raise TimeoutError from exc

        def write(data: Any) -> None:
            try:
                send(data)
            except BlockingIOError as exc:
                raise TimeoutError from exc

        self._quick_recv, self._write = read, write


class _Publisher(threading.local):
    """``limited``: this thread publishes for somebody who does not wait for the broker as long as it takes."""

    limited = False


_publisher = _Publisher()


class Blocked(Exception):
    """The broker takes no messages, and whoever publishes does not wait until it does."""


class _Connection(pyamqp.Connection):  # type: ignore[misc]
    def Transport(self, host: str, connect_timeout: float, ssl: Any = False, *timeouts: Any, **more: Any) -> Any:
        if ssl:
            return super().Transport(host, connect_timeout, ssl, *timeouts, **more)
        return _Transport(host, connect_timeout, *timeouts, **more)

    def _on_blocked(self) -> None:
        """As the library's, which then waits for the confirmation: until the broker has memory and disk again.

        It reads nothing more from this connection, not even that it is closed.
        """
        super()._on_blocked()
        if _publisher.limited:
            self.collect()
            raise Blocked("it takes no messages, as its memory or disk runs out; see 'rabbitmq-diagnostics alarms'")

    def blocking_read(self, timeout: float | None = None) -> Any:
        """As the library's, which changes the socket's timeout and changes it back for each frame.

        Here it stays until another read wants another.
        """
        transport = self.transport
        if not isinstance(transport, _Transport):
            return super().blocking_read(timeout)
        transport.sock.limit_reads(transport.sock.gettimeout() if timeout is None else timeout)
        return self.on_inbound_frame(transport.read_frame())

    def drain_events(self, timeout: float | None = None) -> None:
        """As the library's, but for the look without waiting that it takes before it publishes.

        It is for news such as that the broker takes no messages now. The wait for the confirmation reads them.
        """
        if timeout == 0:
            raise TimeoutError
        super().drain_events(timeout)


_set_default = serialization.registry._set_default_serializer
_ensure = impl_rabbit.Connection.ensure
_set_timeout = impl_rabbit.Connection.set_transport_socket_timeout


def _ensured(self: impl_rabbit.Connection, method: Callable[[], Any], *arguments: Any, **named: Any) -> Any:
    """As ``Connection.ensure``, which makes a class and calls through ten functions, for when nothing goes wrong.

    What does go wrong is raised again inside the library's own, as if it had made the first attempt.
    """
    failures: list[Exception] = []

    def attempt() -> Any:
        if failures:
            raise failures.pop()
        return method()

    retry = named.get("retry")
    _publisher.limited = retry is not None and retry >= 0  # -1 is without end, too
    try:
        if self.channel is not None:
            try:
                return method()
            except Exception as exc:
                failures.append(exc)
        return _ensure(self, attempt, *arguments, **named)
    finally:
        _publisher.limited = False


def _set_timeout_once(self: impl_rabbit.Connection, timeout: float | None = None) -> None:
    """As ``Connection.set_transport_socket_timeout``, unless this connection has that timeout already."""
    now = (self.channel, timeout)
    if getattr(self, "_zun_timeout", None) != now:
        _set_timeout(self, timeout)
        self._zun_timeout = now


def _primitive(value: Any) -> Any:
    if isinstance(value, ovo.VersionedObject):  # it would arrive as a dictionary, of some of its fields
        raise TypeError(f"a {type(value).__name__} is inside an argument: a message has objects only as arguments")
    return jsonutils.to_primitive(value)


class _Json:
    """The two functions of ``jsonutils`` that oslo.messaging calls, four times a message, in a faster language."""

    @staticmethod
    def dumps(value: Any) -> str:
        try:
            return orjson.dumps(value, _primitive, JSON_OPTIONS).decode()
        except TypeError as exc:
            if exc.__cause__ is not None:
                raise
            return jsonutils.dumps(value)  # half a character, as the output of a program may have

    @staticmethod
    def loads(text: Any) -> Any:
        try:
            return orjson.loads(text)
        except ValueError:
            return jsonutils.loads(bytes(text) if isinstance(text, memoryview) else text)


pyamqp.Transport.Connection = _Connection
impl_rabbit.Connection.ensure = _ensured
impl_rabbit.Connection.set_transport_socket_timeout = _set_timeout_once
common.jsonutils = _Json
serialization.register("json", _Json.dumps, _Json.loads, "application/json", "utf-8")
_set_default("json")  # who names no serializer, as oslo.messaging, would have the one that was there before
