# SPDX-License-Identifier: Apache-2.0
"""Messages that wait until a test delivers them, in the place of oslo.messaging.

``zun.messaging`` is the real one down to ``rpc.get_client``: contexts, objects and arguments are serialized when a
message is sent, and read when it is delivered.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
import oslo_messaging

from zun.common.context import RequestContext
from zun.messaging import rpc

_SERIALIZER = rpc.ContextSerializer()


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it is on the wire."""

    topic: str
    method: str
    context: Any
    arguments: bytes

    def run(self, endpoint: Any, **more: Any) -> Any:
        """Call the endpoint's method, and return its answer as it would be on the wire."""
        context = _SERIALIZER.deserialize_context(self.context)
        sent = {**orjson.loads(self.arguments), **more}
        arguments = {name: _SERIALIZER.deserialize_entity(context, value) for name, value in sent.items()}
        try:
            answer = getattr(endpoint, self.method)(context, **arguments)
        except oslo_messaging.ExpectedException as exc:
            raise exc.exc_info[1] from None
        return _SERIALIZER.serialize_entity(context, answer)

    def __str__(self) -> str:
        about = orjson.loads(self.arguments).get("container", {})
        return f"{self.method} {about.get('zun_object.data', {}).get('uuid', '')}"


@dataclass(frozen=True, slots=True)
class Wire:
    """Stands for a transport. ``cast`` and ``call`` get each message that is sent over it."""

    conf: Any
    cast: Callable[[Message], None]
    call: Callable[[Message], Any]


@dataclass(frozen=True, slots=True)
class WireClient:
    """Stands for ``rpc.Client``."""

    wire: Wire
    topic: str

    def prepare(self, *, topic: str | None = None, **_: Any) -> "WireClient":
        return replace(self, topic=topic or self.topic)

    def can_send(self, _version: str) -> bool:
        return True

    def cast(self, context: RequestContext, method: str, **arguments: Any) -> None:
        self.wire.cast(self._message(context, method, arguments))

    def call(self, context: RequestContext, method: str, **arguments: Any) -> Any:
        answer = self.wire.call(self._message(context, method, arguments))
        return _SERIALIZER.deserialize_entity(context, orjson.loads(orjson.dumps(answer)))

    def _message(self, context: RequestContext, method: str, arguments: dict[str, Any]) -> Message:
        sent = {name: _SERIALIZER.serialize_entity(context, value) for name, value in arguments.items()}
        return Message(self.topic, method, _SERIALIZER.serialize_context(context), orjson.dumps(sent))


def get_client(transport: Wire, topic: str, *_: Any, **__: Any) -> WireClient:
    """Stand for ``rpc.get_client``."""
    return WireClient(transport, topic)
