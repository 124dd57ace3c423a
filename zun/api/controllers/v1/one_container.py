# SPDX-License-Identifier: Apache-2.0
"""What calls on one container have in common."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_utils import timeutils

from zun.api import microversion, placement
from zun.api.controllers.v1 import host_up
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.schemas import containers as schemas
from zun.api.settings import Settings
from zun.api.views import containers as views
from zun.common import exceptions, states
from zun.common.context import RequestContext
from zun.common.states import Status
from zun.common.undo import on_failure
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import quotas as db_quotas
from zun.objects import Container
from zun.scheduler.rpcapi import SchedulerAPI

Given = Mapping[str, Any]

UNREACHABLE = "The scheduler could not be reached. Delete it and try again."


def schedule(scheduler: SchedulerAPI, context: RequestContext, container: Container) -> None:
    """Hand a container or a capsule to the scheduler. When that fails its row says so, as a client may look for it
    by name.
    """
    with on_failure(db.end_unplaced, container.uuid, UNREACHABLE):
        scheduler.create(context, container)


@contextlib.contextmanager
def recorded(call: Call, container: Container, action: str) -> Iterator[None]:
    """Note that the action was asked for, before the message whose work is noted under it, and its failure here."""
    context = call.context
    db_actions.start(
        container.uuid,
        action,
        request_id=context.request_id,
        user_id=context.user_id,
        project_id=context.project_id,
    )
    with on_failure(db_actions.fail, container.uuid, context.request_id, action):
        yield


def found(call: Call) -> Container:
    return Container.get_by_ident(call.context, call.parameters["ident"])


def visible(access: Access, row: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The restricted fields that the caller may see: of ``row``, or of every row of a list."""
    return frozenset(name for name in views.RESTRICTED if access.allows(f"container:get_one:{name}", row))


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
    """What of ``cpu``, ``memory`` (MiB) and ``cpu_policy`` to change, and which CPUs stay (``keep_cpus``).

    Null in the request is nothing asked.
    """
    names = ("cpu", "memory", "cpu_policy", "keep_cpus")
    size = {name: given[name] for name in names if given.get(name) is not None}
    for name, since in schemas.UPDATE_SINCE.items():
        if name in size:
            microversion.require_for(name, call.version, since)
    if size:
        placement.check_resized(container, **size)
        # The host checks again when it writes: this spares it the work, and tells those who do not wait for it.
        growth = {name: float(size[name] - container[name]) for name in size.keys() & {"cpu", "memory"}}
        db_quotas.check(container.project_id, growth, settings.quota)
    return size


def describe(container: Container, given: Given, settings: Settings) -> None:
    """Save what is written in the row and nowhere else."""
    name = given.get("name")
    if name is not None and name != container.name:
        container.rename(name, settings.unique_names)
    if given.get("auto_heal") is not None:
        container.auto_heal = given["auto_heal"]
    container.save()


def save_status(container: Container, status: Status, action: str, allowed: str | None = None) -> None:
    """Save a status that the action brings. Somebody may have been quicker since the row was read: 409.

    ``allowed`` is the action's row in the table of statuses, where that has another name.
    """
    container.status = status
    try:
        container.save(only_from=states.ALLOWED[allowed or action])
    except exceptions.IllegalTransition:
        now = db.get(container.uuid)["status"]
        raise states.refusal(action, container, now, allowed or "") from None


def require_host(container: Container) -> str:
    """The container's host. Conflict when it was never placed: there is nobody to send a message to."""
    if container.host is None:
        raise exceptions.Conflict(
            f"Container {container.uuid} was never placed on a host, its status is {container.status}. Delete "
            "it and create it again."
        )
    return container.host


def require_host_up(container: Container, settings: Settings) -> None:
    """Raise HostUnavailable when the container's host is known to be down, instead of waiting for it."""
    host_up.require(require_host(container), settings)
