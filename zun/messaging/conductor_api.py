# SPDX-License-Identifier: Apache-2.0
"""The database calls of one host, as messages to any zun-conductor. The names are those of ``ConductorEndpoint``.

``reach_database`` makes this the way of all remotable methods of the process.
"""

import logging
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_utils import timeutils
from oslo_versionedobjects import base as ovo

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.messaging import remote_values as values
from zun.messaging import rpc, waiting
from zun.objects.base import ZunObject
from zun.objects.container import Claiming

LOG = logging.getLogger(__name__)

VERSION = "1.0"
VERSIONS = {"save_claims": "1.1"}
"""The versions of messages that are newer than ``VERSION``."""
TIMEOUT = 60.0
"""Seconds for one call, with all its repetitions."""
SIGN_SECONDS = 4
"""A conductor at work sends signs of life. After so long without one the call is sent again, to any conductor."""
WRITES_NOTHING = frozenset({"end_members"})
"""Methods of an object that write none of its changes, and after which it is used on."""
PAUSE_SECONDS = (0.2, 1.0)
"""Shortest and longest time between the sendings of a call. At random, so that hosts do not come back together."""


class ConductorAPI(ovo.VersionedObjectIndirectionAPI):  # type: ignore[misc]
    """The way to the database of ``host``.

    A call whose answer is lost is sent again, with the time of the first one: by this the database's functions see
    whether it was done. If no conductor answers in time, or the database does not answer the conductor,
    DBConnectionError is raised, as without a conductor.
    """

    def __init__(
        self, transport: oslo_messaging.Transport, host: str, *, timeout: float = TIMEOUT, sign: float = SIGN_SECONDS
    ) -> None:
        self._timeout = timeout
        topic = rpc.CONDUCTOR_TOPIC.format(host=host)
        client = rpc.get_client(transport, topic, VERSION, retries=2)
        self._client = client.prepare(timeout=timeout, call_monitor_timeout=sign)

    def object_action(
        self, context: RequestContext, objinst: Any, objmethod: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Call a method of an object. Return the fields that it set, and its result."""
        changed = objinst.obj_what_changed()
        if objmethod == "save" and not changed:
            return {}, None
        if objmethod == "restore":
            objinst.obj_set_defaults()
            changed = {name for name in objinst.fields if objinst.obj_attr_is_set(name)}
        primitives = _primitives(objinst, changed)
        key = getattr(objinst, values.key_field(type(objinst)))
        answer = self._ask(
            context, "object_action",
            name=objinst.obj_name(), function=objmethod, key=key, changes=primitives,
            args=values.encode(list(args)), kwargs=values.encode(dict(kwargs)),
        )  # fmt: skip
        updates = dict(answer["updates"])
        if objmethod in WRITES_NOTHING:  # else the library forgets the changes, which are to be saved yet
            updates["obj_what_changed"] = sorted(changed)
        return updates, values.decode(answer["result"], context)

    def object_class_action_versions(
        self,
        context: RequestContext,
        objname: str,
        objmethod: str,
        object_versions: Mapping[str, str],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Call a class method. Return its result."""
        answer = self._ask(
            context, "object_class_action",
            name=objname, function=objmethod, args=values.encode(list(args)), kwargs=values.encode(dict(kwargs)),
        )  # fmt: skip
        return values.decode(answer, context)

    def save_claims(self, context: RequestContext, hostname: str, claims: Sequence[Claiming]) -> list[Any]:
        """Do ``Container.save_claims``. Since version 1.1."""
        sent = [
            {
                "key": each.container.uuid,
                "changes": _primitives(each.container, each.container.obj_what_changed()),
                "step": each.step,
                "disk_pool": each.disk_pool,
                "permit": each.permit,
            }
            for each in claims
        ]
        answer: list[Any] = values.decode(self._ask(context, "save_claims", hostname=hostname, claims=sent))
        return answer

    def _ask(self, context: RequestContext, message: str, **arguments: Any) -> Any:
        deadline = time.monotonic() + self._timeout
        arguments |= {"time": timeutils.utcnow().isoformat(), "again": False}
        while True:
            began = time.monotonic()
            try:
                with rpc.answers_from("zun-conductor"):
                    newer = VERSIONS.get(message)
                    client = self._client if newer is None else self._client.prepare(version=newer)
                    return client.call(context, message, **arguments)
            except exceptions.DatabaseUnavailable as exc:
                raise db_exc.DBConnectionError(exc) from exc
            except exceptions.HostUnavailable as exc:
                what = f"{arguments['name']}.{arguments['function']}" if "name" in arguments else message
                if time.monotonic() >= deadline or waiting.is_leaving():
                    raise db_exc.DBConnectionError(
                        exceptions.Unavailable(f"No zun-conductor answers to {what}. Check that one runs.")
                    ) from exc
            # Not where the exception is handled: its text, which the line would get, is about zun-compute.
            LOG.warning("No zun-conductor answers to %s; asking again. Check that one runs.", what)
            arguments["again"] = True
            waiting.pause(max(0.0, random.uniform(*PAUSE_SECONDS) - (time.monotonic() - began)))


def _primitives(made: Any, names: Collection[str]) -> dict[str, Any]:
    """Return the fields ``names`` of an object as they travel."""
    return {name: made.fields[name].to_primitive(made, name, getattr(made, name)) for name in names}


def reach_database(
    conf: cfg.ConfigOpts, transport: oslo_messaging.Transport, direct: Callable[[cfg.ConfigOpts], None]
) -> None:
    """Make ``[compute] database`` the way to the database of all objects of this process."""
    if conf.compute.database == "direct":
        direct(conf)
        return
    ZunObject.indirection_api = ConductorAPI(transport, conf.host)
    LOG.info("The database of host %s is reached through zun-conductor", conf.host)
