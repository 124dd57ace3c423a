# SPDX-License-Identifier: Apache-2.0
"""Helpers that the calls on one container share."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from oslo_utils import timeutils

from zun.api import microversion, numa, tags
from zun.api.controllers.v1 import host_up
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.schemas import containers as schemas
from zun.api.schemas.devices import FIELDS
from zun.api.settings import Settings
from zun.api.views import containers as views
from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.exceptions import on_failure
from zun.common.naming import named
from zun.common.states import Status
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import quotas as db_quotas
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container

Given = Mapping[str, Any]

UNREACHABLE = "The scheduler could not be reached. Delete it and try again."


def schedule(scheduler: SchedulerAPI, context: RequestContext, container: Container) -> None:
    """Send a container or capsule to the scheduler. If that fails, write so into its row, which clients may find by
    name.
    """
    with on_failure(db.end_unplaced, container.uuid, UNREACHABLE):
        scheduler.create(context, container)


@contextlib.contextmanager
def recorded(call: Call, container: Container, action: str) -> Iterator[None]:
    """Note an action before its message is sent, and its failure if the block raises an error."""
    context = call.context
    db_actions.start(
        container.uuid,
        action,
        request_id=context.request_id,
        user_id=context.user_id,
        project_id=context.project_id,
        client_address=call.client_address,
    )
    with on_failure(db_actions.fail, container.uuid, context.request_id, action):
        yield


@contextlib.contextmanager
def accessed(call: Call, container: Container, action: str) -> Iterator[None]:
    """Note who gets access to the container and from where before access is given, and a failure of the block."""
    context = call.context
    db_actions.access(
        container.uuid,
        action,
        request_id=context.request_id,
        user_id=context.user_id,
        project_id=context.project_id,
        client_address=call.client_address,
    )
    with on_failure(db_actions.fail, container.uuid, context.request_id, action):
        yield


def found(call: Call) -> Container:
    return Container.get_by_ident(call.context, call.parameters["ident"])


def visible(access: Access, row: Mapping[str, Any] | None = None) -> frozenset[str]:
    """Return the restricted fields that the caller may see: of ``row``, or of every row of a list."""
    return frozenset(name for name in views.RESTRICTED if access.allows(f"container:get_one:{name}", row))


def state(visible: Collection[str], *revisions: Any) -> Any:
    """Return the state of an answer about containers of these ``revisions`` whose ``visible`` fields are shown."""
    return sorted(visible), revisions, tags.minute(timeutils.utcnow_ts())


def shown(row: Mapping[str, Any], call: Call, *, fresh: bool = False) -> views.Container:
    return views.show(
        row,
        call.version,
        now=timeutils.utcnow(),
        visible=visible(call.access, row),
        base_url=call.base_url,
        fresh=fresh,
    )


def new_size(container: Container, given: Given, call: Call, settings: Settings) -> dict[str, Any]:
    """Return the changed members of ``cpu``, ``memory`` (MiB) and ``cpu_policy``, and the CPUs to keep (``keep_cpus``).

    Null in the request changes nothing. Raises Conflict for a change of devices.
    """
    names = ("cpu", "memory", "cpu_policy", "keep_cpus")
    size = {name: given[name] for name in names if given.get(name) is not None}
    for name, since in schemas.UPDATE_SINCE.items():
        if given.get(name) is not None:
            microversion.require_for(name, call.version, since)
    for name in FIELDS:
        if given.get(name) is not None:
            raise exceptions.Conflict(
                f"{name}: container {named(container)} keeps the devices that it was created with: the runtime gives "
                "devices to a container only when it makes it. Nothing was changed. Create another container with "
                "the devices that you need, and delete this one."
            )
    if size:
        numa.check_resized(container, **size)
        # The host checks again when it writes: this spares it the work, and tells those who do not wait for it.
        growth = {name: float(size[name] - container[name]) for name in size.keys() & {"cpu", "memory"}}
        db_quotas.check(container.project_id, growth, settings.quota)
    return size


def describe(container: Container, given: Given, settings: Settings) -> None:
    """Save the changed fields that only the row has: name and auto_heal."""
    name = given.get("name")
    if name is not None and name != container.name:
        container.rename(name, settings.unique_names)
    if given.get("auto_heal") is not None:
        container.auto_heal = given["auto_heal"]
    container.save()


def save_status(container: Container, status: Status, action: str, allowed: str | None = None) -> None:
    """Save the status that an action brings. Raises InvalidStateException if another request changed the status first.

    ``allowed`` is the action's key in the table of statuses, if it differs from the action's name.
    """
    container.status = status
    try:
        container.save(only_from=states.ALLOWED[allowed or action])
    except exceptions.IllegalTransition:
        now = db.get(container.uuid)["status"]
        raise states.refusal(allowed or action, container, now) from None


def require_host(container: Container) -> str:
    """Return the container's host. Raises Conflict if the container was never placed."""
    if container.host is None:
        raise exceptions.Conflict(
            f"Container {named(container)} was never placed on a host, its status is {container.status}. Delete "
            "it and create it again."
        )
    return container.host


def require_host_up(container: Container, settings: Settings) -> None:
    """Raise HostUnavailable if the container's host is known to be down, instead of waiting for it."""
    host_up.require(require_host(container), settings)
