# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of zun-conductor: calls a remotable method for a host, if the rules allow it."""

import contextlib
import datetime
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

import oslo_messaging
from oslo_db import exception as db_exc

from zun import objects
from zun.common import exceptions, metrics
from zun.common.context import RequestContext
from zun.common.secrets import Cipher
from zun.conductor import rules
from zun.conductor.facts import Facts
from zun.conductor.rules import Call, refusal
from zun.db import bounds, containers, images, session
from zun.messaging import remote_values as values
from zun.messaging import rpc
from zun.objects import base
from zun.objects.arguments import misfit
from zun.objects.container import Claiming, claim_rows

LOG = logging.getLogger(__name__)

_ROWS: Mapping[str, Callable[[str], session.Row]] = {"Container": containers.get, "Image": images.get}
_OF_NOBODY = frozenset({"destroy", "end_members", "restore"})  # methods that need no row
_NOT_THERE: Mapping[str, type[exceptions.ZunError]] = {
    "Container": exceptions.ContainerNotFound,
    "Image": exceptions.ImageNotFound,
    "Registry": exceptions.RegistryNotFound,
}
"""The error for a row of another host. The host learns the same as if there were no such row."""


M = TypeVar("M", bound=Callable[..., Any])


def _typed(method: M) -> M:
    """Refuse messages with arguments of other types than ``method`` declares, and such contexts."""

    @functools.wraps(method)
    def checked(self: "ConductorEndpoint", context: RequestContext, **arguments: Any) -> Any:
        asked_by = {"request_id": context.request_id, "user_id": context.user_id}
        reason = _too_large(arguments) or misfit(method, arguments) or misfit(_asked_by, asked_by)
        if reason is not None:
            name, function = (str(arguments.get(each, method.__name__))[:80] for each in ("name", "function"))
            _refuse(_host(arguments["address"]), name, function, reason)
        return method(self, context, **arguments)

    return cast(M, checked)


def _too_large(arguments: Mapping[str, Any]) -> str | None:
    """Return which argument of a message is too deep, too long or has a number that nothing can hold, or None."""
    found = ((name, bounds.excess(value)) for name, value in arguments.items())
    return next((f"{name} {reason}" for name, reason in found if reason is not None), None)


def _asked_by(*, request_id: str, user_id: str | None) -> None:
    """Declare the types of what methods use of a context."""


class ConductorEndpoint:
    """Every argument is the host's word but ``address``, which is the broker's."""

    target = oslo_messaging.Target(version="1.1")

    def __init__(self, facts: Facts, cipher: Cipher) -> None:
        """``cipher`` decrypts passwords of registries, so that hosts need no key."""
        self._facts = facts
        self._cipher = cipher

    @rpc.from_hosts(lambda arguments: [str(_host(arguments["address"]))])
    @rpc.expected
    @_typed
    def object_action(
        self,
        context: RequestContext,
        *,
        address: str | None,
        name: str,
        function: str,
        key: str,
        changes: Mapping[str, Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        time: str,
        again: bool,
    ) -> dict[str, Any]:
        """Call ``function`` of the object ``key`` with ``changes`` of its fields. Return its result and changes."""
        host = _host(address)
        cls = _class(name, function, host=host)
        written = _values(cls, changes, host, function) if rules.writes(name, function) else {}
        original = getattr(cls, function).original_fn
        arguments = _bound(original, (None,), args, kwargs, host=host, call=(name, function))
        with _for(time, again), metrics.CONDUCTOR_CALL_SECONDS.time():
            subject, facts = _subject(context, cls, key, function), self._facts
            row = subject if subject is not None and name in _ROWS and function != "restore" else None
            if row is not None and name == "Container":
                facts = facts.knowing(row)
            self._check(host, Call(name, function, arguments, key, written, row, context.request_id), facts)
            if subject is None:
                return {"result": None, "updates": {}}
            for field, value in written.items():
                setattr(subject, field, value)
            before = _set_values(subject)
            with _readable(host, name, function):
                result = original(subject, **arguments)
        found = {field: value for field, value in _set_values(subject).items() if value != before.get(field, _UNSET)}
        updates = {field: cls.fields[field].to_primitive(subject, field, value) for field, value in found.items()}
        return {"result": values.encode(result), "updates": updates}

    @rpc.from_hosts(lambda arguments: [str(_host(arguments["address"]))])
    @rpc.expected
    @_typed
    def object_class_action(
        self,
        context: RequestContext,
        *,
        address: str | None,
        name: str,
        function: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        time: str,
        again: bool,
    ) -> Any:
        """Call the class method ``function``. Return its result."""
        host = _host(address)
        cls = _class(name, function, host=host)
        original = getattr(cls, function).original_fn
        arguments = _bound(original, (None, context), args, kwargs, host=host, call=(name, function))
        call = Call(name, function, arguments, request_id=context.request_id)
        with _for(time, again), metrics.CONDUCTOR_CALL_SECONDS.time():
            self._check(host, call, self._facts)
            with _readable(host, name, function):
                result = original(cls, context, **arguments)
            if (name, function) == rules.OWN_ONLY:
                result = [each if each.host == host else _known(each) for each in result if each.host in (None, host)]
            if (name, function) == rules.OWN_TOKEN_ONLY and result is not None:
                owner = self._facts.token(result.token_hash)
                result = result if owner is not None and owner.host == host else None
            if (name, function) == rules.DECRYPTED and result.password is not None:
                result.password = self._cipher.decrypt(result.password, result.owner)
        return values.encode(result)

    @rpc.from_hosts(lambda arguments: [str(_host(arguments["address"]))])
    @rpc.expected
    @_typed
    def save_claims(
        self,
        context: RequestContext,
        *,
        address: str | None,
        hostname: str,
        claims: Sequence[Mapping[str, Any]],
        time: str,
        again: bool,
    ) -> list[Any]:
        """Call ``Container.save_claim`` for several containers in one transaction.

        A claim has the uuid of its container as ``key``, the ``changes`` of its fields, and the other arguments of
        ``save_claim``. Returns the results. A claim that is refused has the error's class and text instead.
        """
        host = _host(address)
        keys = [str(each.get("key")) for each in claims]
        if host is None or len(set(keys)) != len(claims):
            _refuse(host, "Container", "save_claims", "each claim must be of another container")
        outcomes: dict[str, containers.Claimed | exceptions.ZunError] = {}
        allowed: dict[str, Claiming] = {}
        with _for(time, again), metrics.CONDUCTOR_CALL_SECONDS.time():
            rows = {row["uuid"]: row for row in containers.of_uuids(keys)}
            for key, claim in zip(keys, claims, strict=True):
                try:
                    allowed[key] = self._claiming(context, host, hostname, key, claim, rows.get(key))
                except exceptions.ZunError as exc:
                    outcomes[key] = exc
            with _readable(host, "Container", "save_claims"):
                written = claim_rows(hostname, list(allowed.values())) if allowed else []
            outcomes |= dict(zip(allowed, written, strict=True))
        return [values.encode_outcome(outcomes[key]) for key in keys]

    def _claiming(
        self,
        context: RequestContext,
        host: str,
        hostname: str,
        key: str,
        claim: Mapping[str, Any],
        row: session.Row | None,
    ) -> Claiming:
        """Return a claim of several as the rules of a single one allow it. Raises the error that the host gets."""
        method = "save_claim"
        if row is None:
            raise exceptions.ContainerNotFound(container=key)
        named = {name: claim.get(name) for name in ("step", "disk_pool", "permit")}
        original = objects.Container.save_claim.original_fn  # type: ignore[attr-defined]
        arguments = _bound(original, (None, hostname), (), named, host=host, call=("Container", method))
        with _readable(host, "Container", method):
            changes = _values(objects.Container, claim["changes"], host, method)
        call = Call("Container", method, arguments, key, changes, row, context.request_id)
        self._check(host, call, self._facts.knowing(row))
        container = objects.Container.from_row(context, row)
        for field, value in changes.items():
            setattr(container, field, value)
        return Claiming(container, *(arguments[name] for name in named))

    def _check(self, host: str | None, call: Call, facts: Facts) -> None:
        reason = refusal(host, call, facts)
        if reason is not None:
            _refuse(host, call.name, call.method, reason, call.key or call.arguments.get("uuid"))
        metrics.CONDUCTOR_CALLS.labels(host).inc()


_UNSET = object()
_signature = functools.cache(inspect.signature)  # takes 45 us


def _values(cls: Any, primitives: Mapping[str, Any], host: str | None, method: str) -> dict[str, Any]:
    """Return the values of the fields that a host has changed. Fields of a newer release are left out."""
    blank, found = cls(), {}
    for name in primitives.keys() & cls.fields.keys():
        field = cls.fields[name]
        try:
            found[name] = field.coerce(blank, name, field.from_primitive(blank, name, primitives[name]))
        except bounds.MALFORMED as exc:
            _refuse(host, cls.__name__, method, f"{name}: {exc!s:.200}")
    return found


def _set_values(made: base.ZunObject) -> dict[str, Any]:
    return {field: getattr(made, field) for field in made.fields if made.obj_attr_is_set(field)}


def _host(address: str | None) -> str | None:
    """Return the host that may send to ``address``, or None if that is no host's topic."""
    prefix = rpc.CONDUCTOR_TOPIC.format(host="")
    return address.removeprefix(prefix) if address is not None and address.startswith(prefix) else None


def _known(container: objects.Container) -> objects.Container:
    """Return that the container exists, and nothing else of it. The reader sees a container without a host."""
    return objects.Container(uuid=container.uuid, host=None)


def _refuse(host: str | None, name: str, method: str, reason: str, key: Any = None) -> NoReturn:
    """Log a refusal with the host, and raise the error that the host gets."""
    metrics.REFUSED_CALLS.labels(host or "", method if (name, method) in rules.RULES else "other").inc()
    LOG.warning("Refused host %s %s.%s: %s", host, name, method, reason)
    missing = _NOT_THERE.get(name)
    if missing is not None and isinstance(key, str) and method != "restore":  # which never depends on a row
        raise missing(**{name.lower(): key})
    raise exceptions.Forbidden(f"zun-conductor refused {name}.{method} of host {host}: {reason}.")


def _class(name: str, method: str, *, host: str | None) -> Any:
    """Return the class of a remotable method that has rules."""
    if (name, method) not in rules.RULES or host is None:
        _refuse(host, name, method, "no rule allows it" if host else "the message does not say from which host it is")
    return getattr(objects, name)


def _bound(
    function: Callable[..., Any],
    before: tuple[Any, ...],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    host: str | None,
    call: tuple[str, str],
) -> dict[str, Any]:
    """Return the arguments by name, without ``before``: the object or class, and the context."""
    try:
        decoded = [values.decode_argument(each) for each in args]
        named = {name: values.decode_argument(each) for name, each in kwargs.items()}
    except (TypeError, ValueError) as exc:
        _refuse(host, *call, f"an argument cannot be read: {exc}")
    try:
        bound = _signature(function).bind(*before, *decoded, **named).arguments
    except TypeError as exc:
        raise exceptions.Invalid(f"{function.__qualname__}: {exc}") from exc
    arguments = {name: value for name, value in bound.items() if name not in ("self", "cls", "context")}
    reason = misfit(function, arguments)
    if reason is not None:
        _refuse(host, *call, reason)
    return arguments


def _subject(context: RequestContext, cls: Any, key: str, method: str) -> base.ZunObject | None:
    """Return the object as its row is, or None if it is gone and the method has nothing to do then."""
    read = _ROWS.get(cls.__name__)
    if read is None or method == "restore":
        made: base.ZunObject = cls(context, **{values.key_field(cls): key})
        made.obj_reset_changes()
        return made
    try:
        return cls.from_row(context, read(key))  # type: ignore[no-any-return]
    except (exceptions.NotFound, exceptions.ImageNotFound):
        if method in _OF_NOBODY:
            return None
        raise


@contextlib.contextmanager
def _readable(host: str | None, name: str, method: str) -> Iterator[None]:
    """Refuse a call whose values the block cannot use, for example a record without a member."""
    try:
        yield
    except (*bounds.MALFORMED, NotImplementedError) as exc:  # the latter for a field that the host did not send
        LOG.exception("%s.%s of host %s broke down", name, method, host)
        _refuse(host, name, method, f"its values cannot be used: {exc!r:.200}")


@contextlib.contextmanager
def _for(time: str, again: bool) -> Iterator[None]:
    """Do the block for one request of a host. An outage of the database is told to the host as one."""
    try:
        moment = datetime.datetime.fromisoformat(time)
    except ValueError as exc:
        raise exceptions.Invalid(f"time must be a time, got {time!r}") from exc
    if moment.tzinfo is not None:
        raise exceptions.Invalid(f"time must have no zone, got {time!r}")
    try:
        with session.asked_by(session.Request(moment, again)):
            yield
    except db_exc.DBConnectionError as exc:
        raise exceptions.DatabaseUnavailable(reason=exceptions.first_line(exc)) from exc
