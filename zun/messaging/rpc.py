# SPDX-License-Identifier: Apache-2.0
"""RPC between the services: topics, serialization, clients, servers, and the translation of errors."""

import contextlib
import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import oslo_messaging
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_messaging import opts
from oslo_messaging.rpc import server as rpc_server
from oslo_versionedobjects import base as ovo

from zun.common import exceptions, metrics, outages
from zun.common.context import RequestContext
from zun.messaging import senders, waiting
from zun.objects import base

LOG = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., object])

SCHEDULER_TOPIC = senders.SCHEDULER_TOPIC
COMPUTE_TOPIC = senders.COMPUTE_TOPIC
CONDUCTOR_TOPIC = senders.CONDUCTOR_TOPIC + ".{host}"
"""The topic to which ``host`` sends its calls for the conductors. The broker lets no other host send to it."""
CONDUCTORS_TOPIC = CONDUCTOR_TOPIC.format(host="#")
"""The topic, and the name of the queue, of all conductors. As the pattern of a topic exchange it matches each of the
hosts' topics."""
AGENT = "agent"  # name of the only server of a host's topic

oslo_messaging.set_transport_defaults(control_exchange="zun")


class ObjectSerializer(ovo.VersionedObjectSerializer):
    """Serialize the versioned objects of ``zun.objects``."""

    OBJ_BASE_CLASS = base.ZunObject


_OBJECT_NAME = f"{base.ZunObject.OBJ_SERIAL_NAMESPACE}.name"
_OBJECT_DATA = f"{base.ZunObject.OBJ_SERIAL_NAMESPACE}.data"


def _is_object(entity: Any) -> bool:
    return isinstance(entity, dict) and _OBJECT_NAME in entity


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """Serialize the arguments and the context of a message.

    An argument is an object, a list of objects, or contains none. So the serializer of objects need not visit each
    number of a plan.
    """

    def __init__(self, objects: Mapping[str, str] | None = None) -> None:
        """``objects`` has the versions in which objects are sent, by name. Other objects are sent as they are."""
        self._sent_as = objects or {}
        self._objects = ObjectSerializer()

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        if isinstance(entity, list) and entity and isinstance(entity[0], base.ZunObject):
            return [self.serialize_entity(ctxt, each) for each in entity]
        if not isinstance(entity, base.ZunObject):
            return entity
        return entity.obj_to_primitive(target_version=self._sent_as.get(entity.obj_name()))

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        if isinstance(entity, list) and entity and _is_object(entity[0]):
            return [self.deserialize_entity(ctxt, each) for each in entity]
        return self._objects.deserialize_entity(ctxt, entity) if _is_object(entity) else entity

    def serialize_context(self, ctxt: RequestContext) -> dict[str, Any]:
        return ctxt.to_message()

    def deserialize_context(self, ctxt: dict[str, Any]) -> RequestContext:
        return RequestContext.from_dict(ctxt)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.messaging now, so that a program can set their defaults."""
    for group, options in _library_options():
        conf.register_opts(options, group=group)


@functools.cache
def _library_options() -> Sequence[tuple[str | None, Sequence[cfg.Opt]]]:
    """Return the options of oslo.messaging by group. The library copies each of them for each caller."""
    return tuple(opts.list_opts())


def get_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.Transport:
    """Open the transport of ``[DEFAULT] transport_url``. Call it after any fork, never before."""
    transport = oslo_messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[exceptions.__name__])
    hosts = oslo_messaging.TransportURL.parse(conf, url).hosts
    if hosts:  # the library does not log the address when its first connection fails
        LOG.info("Messages go over %s", ", ".join(f"{each.hostname}:{each.port or 5672}" for each in hosts))
    return transport


class Client:
    """Sends messages to the servers of a topic."""

    def __init__(self, client: Any, retries: int | None) -> None:
        self._client = client
        self._retries = retries

    def prepare(self, **settings: Any) -> "Client":
        """Return a client with other ``settings``, which are those of ``oslo_messaging.RPCClient.prepare``."""
        return Client(self._client.prepare(**settings), self._retries)

    def can_send(self, version: str) -> bool:
        """Return whether the pin of the client lets messages of ``version`` through."""
        return bool(self._client.can_send_version(version))

    def cast(self, context: RequestContext, method: str, **arguments: Any) -> None:
        """Send a message and return when the broker has it."""
        with waiting.at_most(self._retries):
            self._client.cast(context, method, **arguments)

    def call(self, context: RequestContext, method: str, **arguments: Any) -> Any:
        """Send a message and return the answer to it."""
        with waiting.at_most(self._retries):
            return self._client.call(context, method, **arguments)


def get_client(
    transport: oslo_messaging.Transport,
    topic: str,
    version: str,
    retries: int | None = None,
    *,
    cap: str | None = None,
    objects: Mapping[str, str] | None = None,
    exchange: str | None = None,
) -> Client:
    """Return a client that tries ``retries`` times more to reach a broker that is away, or for ever if None.

    Then a message raises one of ``outages.UNDELIVERED``. A message of a newer version than ``cap`` raises
    RPCVersionCapError. ``objects`` as of ContextSerializer. ``exchange`` replaces ``[DEFAULT] control_exchange``.
    """
    target = oslo_messaging.Target(exchange=exchange, topic=topic, version=version)
    client = oslo_messaging.get_rpc_client(
        transport, target, version_cap=cap, serializer=ContextSerializer(objects), retry=retries
    )
    return Client(client, retries)


def exchange_of_hosts(conf: cfg.ConfigOpts) -> str:
    """Return the exchange that leads to hosts. Hosts read from it and cannot publish to it."""
    return str(conf.control_exchange) + senders.HOSTS_SUFFIX


def topic_of_host(host: str | None) -> str:
    """Return the topic of one host: all names of its queues begin with it."""
    return f"{COMPUTE_TOPIC}.{host}"


def from_hosts(speaks_for: Callable[[Mapping[str, Any]], Iterable[str]]) -> Callable[[F], F]:
    """Mark an endpoint's method that hosts may send. All others are refused to users of hosts.

    ``speaks_for`` gets the arguments of the message and returns the hosts of which the message tells something.
    """

    def mark(method: F) -> F:
        method.speaks_for = speaks_for  # type: ignore[attr-defined]
        return method

    return mark


def quick(method: F) -> F:
    """Mark an endpoint's method that never blocks.

    Quick methods of a server run one after the other, in the order in which their messages arrived.
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
    """Mark an endpoint's method whose ``ZunError`` is raised again at the caller, without a traceback in this log.

    An error travels as its family, for example ``Conflict``, with its own name as a field. A caller of an earlier
    release may not know the class itself.
    """

    @functools.wraps(method)
    def telling(*args: Any, **kwargs: Any) -> object:
        try:
            return method(*args, **kwargs)
        except exceptions.ZunError as exc:
            family = next(each for each in _FAMILIES if isinstance(exc, each))
            sent = family(str(exc), original=type(exc).__name__)
            sent.kwargs = sent.fields  # type: ignore[attr-defined]  # the library rebuilds the error with these
            raise sent from None

    marked = oslo_messaging.expected_exceptions(exceptions.ZunError)(telling)
    return cast(F, functools.wraps(method)(marked))  # the library drops name and signature


_OF_ANOTHER_KIND = re.compile(r"PRECONDITION_FAILED - (.+) for (queue|exchange) '(.+)' in vhost '(.+)': (.+)")


def _another_kind(what: str, noun: str, name: str, vhost: str, how: str) -> str:
    """Return the error for a queue or exchange that exists in the broker with other settings."""
    remove = f"rabbitmqctl delete_queue -p {vhost} {name}"
    if noun == "exchange":  # rabbitmqctl has no command for exchanges, and rabbitmqadmin needs a plugin that is off
        resource = f'rabbit_misc:r(<<"{vhost}">>, exchange, <<"{name}">>)'
        remove = f"rabbitmqctl eval 'rabbit_exchange:delete({resource}, false, <<>>).'"
    return (
        f"RabbitMQ has {noun} {name} in vhost {vhost}, made with other settings or by another release ({what}: {how}). "
        "Give [oslo_messaging_rabbit] of every service the same settings as then; or stop all services, remove it, and "
        f"start them again. To remove it: {remove}"
    )


class _Dispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc]
    """Runs ``quick`` methods where it is called, and every other method in one of ``threads``.

    oslo.messaging has one thread call ``dispatch``, so that quick methods run in the order of their messages. For a
    method that runs elsewhere the early return is no answer: the thread that ran the method answers.
    """

    def __init__(
        self,
        endpoints: Sequence[object],
        threads: ThreadPoolExecutor,
        topic: str,
        *,
        addressed: bool = False,
        named: bool = False,
        host: str | None = None,
    ) -> None:
        """``named``: messages must name their senders. ``host``: containers of other hosts are none of its business."""
        super().__init__(list(endpoints), ContextSerializer(), oslo_messaging.DefaultRPCAccessPolicy)
        self._threads = threads
        self._under_way = metrics.MESSAGES.labels(topic)
        self._addressed = addressed
        self._named = named
        self._host = host
        methods = [member for endpoint in endpoints for member in inspect.getmembers(type(endpoint))]
        self._quick = {name for name, method in methods if getattr(method, "is_quick", False)}
        self._from_hosts = {name: method.speaks_for for name, method in methods if hasattr(method, "speaks_for")}

    def dispatch(self, incoming: Any) -> Any:
        delivery = _delivery(incoming)
        if self._addressed:  # whatever the sender wrote there
            incoming.message.setdefault("args", {})["address"] = delivery.address
        refusal = self._refusal(delivery.sender, incoming.message)
        if refusal is not None:
            LOG.warning("Message %s is refused: %s", incoming.message.get("method"), refusal)
            raise oslo_messaging.ExpectedException() from exceptions.Forbidden(f"The message is refused: {refusal}.")
        if incoming.message.get("method") in self._quick:
            return self._run(incoming)
        answer, incoming.reply = incoming.reply, _no_answer_yet
        self._under_way.inc()
        self._threads.submit(self._run_and_answer, incoming, answer)
        return None

    def _refusal(self, sender: str | None, message: Mapping[str, Any]) -> str | None:
        """Return why the message must not be acted on, or None."""
        arguments = message.get("args") or {}
        speaks_for = None
        if senders.host_of_user(sender) is not None and message.get("method") in self._from_hosts:
            try:
                speaks_for = set(self._from_hosts[message["method"]](arguments))
            except (AttributeError, KeyError, TypeError, IndexError):
                return "its arguments do not say which host speaks"
        refused = senders.refusal(sender, named=self._named, speaks_for=speaks_for)
        if refused is not None or self._host is None:
            return refused
        many = arguments.get("containers")
        for container in (arguments.get("container"), *(many if isinstance(many, list) else ())):
            data = container.get(_OBJECT_DATA) if isinstance(container, dict) else None
            whose = data.get("host") if isinstance(data, dict) else None
            if whose not in (None, self._host):
                return f"its container is on host {whose}"
        return None

    def _run(self, incoming: Any) -> Any:
        """Run the method. If something else is down, log a line instead of the library's traceback."""
        try:
            return super().dispatch(incoming)
        except outages.OUTAGES as exc:
            LOG.warning("Message %s failed: %s", incoming.message["method"], exceptions.first_line(exc))
            raise oslo_messaging.ExpectedException() from exc

    def _run_and_answer(self, incoming: Any, answer: Callable[..., object]) -> None:
        method = incoming.message.get("method")
        try:
            try:
                result = self._run(incoming)
            except oslo_messaging.ExpectedException as exc:
                answer(failure=exc.exc_info)
            except Exception:
                LOG.exception("Message %s failed", method)
                answer(failure=sys.exc_info())
            else:
                answer(result)
        except Exception as exc:
            LOG.warning("The answer to %s could not be sent: %s", method, exceptions.first_line(exc))
        finally:
            self._under_way.dec()


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Where a message comes from and goes to. The broker says so, so no sender can write it.

    ``sender`` is the user of the broker, ``address`` the topic of the message.
    """

    sender: str | None = None
    address: str | None = None


def _delivery(incoming: Any) -> _Delivery:
    """Return what the broker says of a message. A value is None if the transport does not tell.

    oslo.messaging gives neither to endpoints, dispatchers or serializers. Its RabbitMQ driver keeps kombu's message,
    which has both, under a private name. If a release of the library changes that, a test fails, and a service whose
    hosts have users of their own refuses every message.
    """
    raw = getattr(incoming.message, "_raw_message", None)
    if raw is None:  # inproc
        return _Delivery(address=getattr(incoming, "address", None))
    return _Delivery(raw.properties.get("user_id"), raw.delivery_info.get("routing_key"))


def _no_answer_yet(*_arguments: Any, **_named: Any) -> None:
    """Stand in for an incoming message's ``reply`` until its method has run."""


class Server:
    """Reads the messages of a topic, and those for one server of it, and has ``endpoints`` deal with them."""

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        target: oslo_messaging.Target,
        endpoints: Sequence[object],
        threads: int,
        *,
        addressed: bool = False,
        host: str | None = None,
    ) -> None:
        """``host`` is the host whose containers the messages are about, if they are about those of one host only."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="rpc")
        named = senders.is_of_one_service(own_user(transport.conf))
        dispatcher = _Dispatcher(endpoints, self._threads, target.topic, addressed=addressed, named=named, host=host)
        self._server = rpc_server.RPCServer(transport, target, dispatcher)

    def start(self) -> None:
        """Read messages from now on. Raise Misconfigured if the broker has a queue of another kind."""
        try:
            self._server.start(override_pool_size=1)
        except oslo_messaging.MessageDeliveryFailure as exc:
            other = _OF_ANOTHER_KIND.search(str(exc))
            if other is None:
                raise
            raise exceptions.Misconfigured(_another_kind(*other.groups())) from exc

    def stop(self) -> None:
        """Read no more messages."""
        self._server.stop()

    def wait(self) -> None:
        """Return when every message that was read has been dealt with."""
        self._server.wait()
        self._threads.shutdown()


def get_server(
    transport: oslo_messaging.Transport,
    topic: str,
    server: str,
    endpoints: Sequence[object],
    threads: int = 0,
    *,
    addressed: bool = False,
) -> Server:
    """Return a server with that many ``threads``, or with ``[DEFAULT] executor_thread_pool_size`` if 0.

    If ``addressed``, methods get the topic that the broker says the message was sent to as ``address``.
    """
    register_opts(transport.conf)
    target = oslo_messaging.Target(topic=topic, server=server)
    threads = threads or transport.conf.executor_thread_pool_size
    return Server(transport, target, endpoints, threads, addressed=addressed)


def get_host_server(
    transport: oslo_messaging.Transport, host: str, endpoints: Sequence[object], threads: int = 0
) -> Server:
    """Return the server of the messages to ``host``. ``threads`` as of ``get_server``."""
    conf = transport.conf
    register_opts(conf)
    target = oslo_messaging.Target(exchange=exchange_of_hosts(conf), topic=topic_of_host(host), server=AGENT)
    return Server(transport, target, endpoints, threads or conf.executor_thread_pool_size, host=host)


def own_user(conf: cfg.ConfigOpts) -> str | None:
    """Return the user of ``[DEFAULT] transport_url``."""
    hosts = oslo_messaging.TransportURL.parse(conf).hosts
    return hosts[0].username if hosts else None


@contextlib.contextmanager
def answers_from(host: str | None) -> Iterator[None]:
    """Translate the errors of a message to ``host`` into ``ZunError``. Errors of the host are raised as over there."""
    try:
        yield
    except outages.UNDELIVERED as exc:
        raise exceptions.HostUnavailable(host=host) from exc
    except exceptions.ZunError as exc:
        # oslo.messaging rebuilds a remote error as a class of its own whose text ends in the remote traceback.
        names = (exc.fields.get("original", ""), type(exc).__name__.removesuffix("_Remote"))
        found = next(filter(None, map(exceptions.by_name, names)), exceptions.ZunError)
        raise found(exc.args[0]) from None
    except oslo_messaging.RPCVersionCapError as exc:
        raise exceptions.Unavailable(
            "The services are being upgraded, and this is possible only after that. Try again later; the operator then "
            f"removes [upgrade_levels] ({exc})."
        ) from None
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
