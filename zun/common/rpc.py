# SPDX-License-Identifier: Apache-2.0
"""Messages between the services: topics, what travels in them, and who answers."""

import contextlib
import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import oslo_messaging
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_messaging import opts
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers import common as driver_common
from oslo_messaging.rpc import dispatcher as rpc_dispatcher
from oslo_messaging.rpc import server as rpc_server
from oslo_versionedobjects import base as ovo

from zun.common import exceptions, outages
from zun.common.context import RequestContext
from zun.objects import base

LOG = logging.getLogger(__name__)

try:
    from zun.common import broker as broker  # makes messages cheaper
except (AttributeError, ImportError) as exc:
    LOG.warning("Messages cost more than they need, as oslo.messaging, kombu or amqp has changed: %s", exc)

F = TypeVar("F", bound=Callable[..., object])

SCHEDULER_TOPIC = "zun.scheduler"
COMPUTE_TOPIC = "zun.compute"

oslo_messaging.set_transport_defaults(control_exchange="zun")

LISTEN_SECONDS = 0.25
"""A listener without messages looks again after so long, then after twice that and so on. The library begins with a
millisecond, to acknowledge what its threads have finished; RPC messages are acknowledged when they are read, so that
those looks, a dozen after each message, find nothing to do."""
amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = LISTEN_SECONDS


def _known_already(record: logging.LogRecord) -> bool:
    """Say in a line what the library has a traceback for: a message that came again, as its sender heard nothing of it.

    That is so when a broker or the way to it was slow. The message is dealt with once.
    """
    if record.exc_info and isinstance(record.exc_info[1], driver_common.DuplicateMessageError):
        record.levelno, record.levelname, record.exc_info = logging.INFO, "INFO", None
        record.msg, record.args = "A message came again and is ignored", ()
    return True


logging.getLogger(amqpdriver.__name__).addFilter(_known_already)


class ObjectSerializer(ovo.VersionedObjectSerializer):
    """Carries the versioned objects of ``zun.objects``."""

    OBJ_BASE_CLASS = base.ZunObject


_OBJECT_NAME = base.ZunObject._obj_primitive_key("name")


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """Objects as above, and the request's context with them.

    An argument is an object or has none in it, so that the library need not look for objects in plans, for each of
    their numbers.
    """

    def __init__(self) -> None:
        self._objects = ObjectSerializer()

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        return self._objects.serialize_entity(ctxt, entity) if isinstance(entity, base.ZunObject) else entity

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        is_object = isinstance(entity, dict) and _OBJECT_NAME in entity
        return self._objects.deserialize_entity(ctxt, entity) if is_object else entity

    def serialize_context(self, ctxt: RequestContext) -> dict[str, Any]:
        return ctxt.to_message()

    def deserialize_context(self, ctxt: dict[str, Any]) -> RequestContext:
        return RequestContext.from_dict(ctxt)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register oslo.messaging's own options now, so that their defaults can be set; it does so itself only later."""
    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)


def get_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.Transport:
    """Open the transport of ``[DEFAULT] transport_url``. Call it after any fork, never before."""
    transport = oslo_messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[exceptions.__name__])
    hosts = oslo_messaging.TransportURL.parse(conf, url).hosts
    if hosts:  # when its first connection fails, the library does not tell to where
        LOG.info("Messages go over %s", ", ".join(f"{each.hostname}:{each.port or 5672}" for each in hosts))
    return transport


def get_client(
    transport: oslo_messaging.Transport, topic: str, version: str, retries: int | None = None
) -> oslo_messaging.RPCClient:
    """``retries`` of reaching a broker that is away, then one of ``outages.UNDELIVERED``; None: for ever."""
    if retries is not None:
        _limit_first_call(transport._driver, retries)
    target = oslo_messaging.Target(topic=topic, version=version)
    return oslo_messaging.get_rpc_client(transport, target, serializer=ContextSerializer(), retry=retries)


def _limit_first_call(driver: Any, retries: int) -> None:
    """For its first call a client makes the queue of its answers, and the library waits for ever for that.

    The clients of a transport have the queue in common, so the first of them decides for all.
    """
    make = getattr(driver, "_get_reply_q", None)
    if make is None or "_get_reply_q" in vars(driver):
        return

    def reply_queue() -> str:
        if driver._reply_q is None:
            driver._get_connection(retry=retries).close()
        return str(make())

    driver._get_reply_q = reply_queue


def quick(method: F) -> F:
    """An endpoint's method that waits for nothing: it runs where messages are read, in the order in which they came.

    Handing a message to another thread costs more than such a method itself.
    """
    method.is_quick = True  # type: ignore[attr-defined]
    return method


_FAMILIES = (
    exceptions.NotFound,
    exceptions.Conflict,
    exceptions.Invalid,
    exceptions.Forbidden,
    exceptions.Unavailable,
    exceptions.ZunError,
)


def expected(method: F) -> F:
    """An endpoint's method whose caller gets our own errors as themselves, without a traceback in the log over here.

    They travel as their families with their own names beside. A caller of an earlier release lacks the class of a new
    one, and all it would have is a name.
    """

    @functools.wraps(method)
    def telling(*args: Any, **kwargs: Any) -> object:
        try:
            return method(*args, **kwargs)
        except exceptions.ZunError as exc:
            family = next(each for each in _FAMILIES if isinstance(exc, each))
            sent = family(str(exc), original=type(exc).__name__)
            sent.kwargs = sent.fields  # type: ignore[attr-defined]  # with which the library makes it anew
            raise sent from None

    return cast(F, oslo_messaging.expected_exceptions(exceptions.ZunError)(telling))


_OF_ANOTHER_KIND = re.compile(r"PRECONDITION_FAILED - (.+) for (queue|exchange) '(.+)' in vhost '(.+)': (.+)")


def _another_kind(what: str, noun: str, name: str, vhost: str, how: str) -> str:
    """What to do where the broker keeps a queue that other settings or another release made. It never gives way."""
    remove = {
        "queue": f"rabbitmqctl delete_queue -p {vhost} {name}",
        "exchange": f"rabbitmqadmin --vhost={vhost} delete exchange name={name}",
    }[noun]
    return (
        f"RabbitMQ has {noun} {name} in vhost {vhost}, made with other settings or by another release ({what}: {how}). "
        "Give [oslo_messaging_rabbit] of every service the same settings as then; or stop all services, remove it with "
        f"'{remove}', and start them again."
    )


def _in_one_line(dispatch: Callable[[Any], object]) -> Callable[[Any], object]:
    """``dispatch``, without the library's traceback where something else is down. Who asked gets the error."""

    def run(incoming: Any) -> object:
        try:
            return dispatch(incoming)
        except outages.OUTAGES as exc:
            LOG.warning("Message %s failed: %s", incoming.message["method"], exceptions.first_line(exc))
            raise rpc_dispatcher.ExpectedException() from exc

    return run


class _Server(rpc_server.RPCServer):
    """Runs what is ``quick`` at once and everything else on its threads."""

    def __init__(self, transport: oslo_messaging.Transport, target: Any, dispatcher: Any, executor: Any = None) -> None:
        super().__init__(transport, target, dispatcher, executor)
        dispatcher.dispatch = _in_one_line(dispatcher.dispatch)
        self._executor_cls = ThreadPoolExecutor  # to hand a message over with the library's costs twice as much
        self._quick = {
            name
            for endpoint in dispatcher.endpoints
            for name, method in inspect.getmembers(type(endpoint))
            if getattr(method, "is_quick", False)
        }

    def _create_listener(self) -> Any:
        try:
            return super()._create_listener()
        except oslo_messaging.MessageDeliveryFailure as exc:
            other = _OF_ANOTHER_KIND.search(str(exc))
            if other is None:
                raise
            raise exceptions.Misconfigured(_another_kind(*other.groups())) from exc

    def _on_incoming(self, incoming: list[Any]) -> None:
        if incoming[0].message.get("method") in self._quick:
            self._process_incoming(incoming)
        else:
            super()._on_incoming(incoming)


def get_server(
    transport: oslo_messaging.Transport, topic: str, server: str, endpoints: Sequence[object]
) -> oslo_messaging.MessageHandlingServer:
    return oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic=topic, server=server),
        list(endpoints),
        executor="threading",
        serializer=ContextSerializer(),
        access_policy=oslo_messaging.DefaultRPCAccessPolicy,
        server_cls=_Server,
    )


@contextlib.contextmanager
def answers_from(host: str | None) -> Iterator[None]:
    """Turn what can go wrong with a call to ``host`` into our own errors, rebuilt as raised over there."""
    try:
        yield
    except outages.UNDELIVERED as exc:
        raise exceptions.HostUnavailable(host=host) from exc
    except exceptions.ZunError as exc:
        # oslo.messaging rebuilds a remote error as a class of its own whose text ends in the remote traceback.
        names = (exc.fields.get("original", ""), type(exc).__name__.removesuffix("_Remote"))
        found = next(filter(None, map(exceptions.by_name, names)), exceptions.ZunError)
        raise found(exc.args[0]) from None
    except oslo_messaging.UnsupportedVersion:  # from a server in this process
        raise _older_release(host) from None
    except oslo_messaging.RemoteError as exc:
        if exc.exc_type == oslo_messaging.UnsupportedVersion.__name__:
            raise _older_release(host) from None
        if exc.exc_type == db_exc.DBConnectionError.__name__:
            raise exceptions.Unavailable(
                "The database does not answer the service that was asked. Try again; tell the operator if it stays so."
            ) from None
        raise exceptions.ZunError(f"Host {host} failed: {exc.exc_type}: {exc.value}") from None


def _older_release(host: str | None) -> exceptions.Unavailable:
    text = f"Host {host} runs an older release that cannot do this. Try again when it is upgraded."
    return exceptions.Unavailable(text)
