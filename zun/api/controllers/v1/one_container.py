# SPDX-License-Identifier: Apache-2.0
"""Helpers that the calls on one container share."""

import contextlib
import logging
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
from zun.common.states import Kind
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import quotas as db_quotas
from zun.messaging.compute_api import ComputeAPI
from zun.messaging.scheduler_api import SchedulerAPI
from zun.objects import Container

LOG = logging.getLogger(__name__)

Given = Mapping[str, Any]

_BY_CAPSULE = {
    "delete": "It is deleted with its capsule: 'openstack appcontainer capsule delete {capsule}'. Stop it to end it "
    "alone.",
    "network_attach": "Its networks are those of its capsule, and were chosen when that was created.",
    "network_detach": "Its networks are those of its capsule, and were chosen when that was created.",
    "move": "A capsule stays on its host. Create it anew where it is to run, and delete this one.",
}
_ANEW = "Create the capsule anew with another template, and delete this one."
_ONCE = frozenset({"start", "reboot", "update", "resize_container"})
_READS = frozenset({*db_actions.ACCESSES, "execute_resize", "resize", "explain", "network_list"})

UNREACHABLE = "The scheduler could not be reached. Delete it and try again."


def schedule(scheduler: SchedulerAPI, context: RequestContext, container: Container) -> None:
    """Send a container or capsule to the scheduler. If that fails, write so into its row, which clients may find by
    name.
    """
    with on_failure(db.end_unplaced, container.uuid, UNREACHABLE):
        scheduler.create(context, container)


@contextlib.contextmanager
def creation_recorded(call: Call, container: Container) -> Iterator[None]:
    """Note the creation before its message is sent, and its failure if the block raises an error."""
    db_actions.start(container.uuid, "create", **who(call))
    with on_failure(db_actions.fail, container.uuid, call.context.request_id, "create"):
        yield


def accept(
    call: Call,
    container: Container,
    action: str,
    arguments: Mapping[str, Any],
    *,
    rule: str | None,
    **values: Any,
) -> None:
    """Write that ``action`` is wanted of the container, with the ``values`` that its acceptance brings.

    Raises InvalidStateException if another request changed the status since it was checked by ``rule``, a key of
    ``states.ALLOWED``. Without a rule any status will do.
    """
    allowed = None if rule is None else states.ALLOWED[rule]
    try:
        db.accept(container.uuid, action, allowed=allowed, values=values, arguments=arguments, **who(call))
    except exceptions.StatusChanged:
        if rule is None:
            raise
        now = Container.get_by_uuid(call.context, container.uuid)
        states.check_action(rule, now)
        raise states.refusal(rule, container, now.status) from None
    for name, value in values.items():
        setattr(container, name, value)
    if values:  # an empty list would reset every change
        container.obj_reset_changes(list(values))


def tell(compute: ComputeAPI, call: Call, container: Container, action: str, arguments: Mapping[str, Any]) -> None:
    """Tell the host that ``action`` was accepted. If the message is lost, the host finds the action by itself."""
    try:
        compute.act(call.context, container, action, arguments)
    except exceptions.ZunError as exc:
        LOG.warning("Host %s will find %s of container %s later: %s", container.host, action, container.uuid, exc)


@contextlib.contextmanager
def accessed(call: Call, container: Container, action: str) -> Iterator[None]:
    """Note who gets access to the container and from where before access is given, and a failure of the block."""
    db_actions.access(container.uuid, action, **who(call))
    with on_failure(db_actions.fail, container.uuid, call.context.request_id, action):
        yield


def who(call: Call) -> dict[str, Any]:
    """Return who sent the request and from where, as actions have it."""
    context = call.context
    return {
        "request_id": context.request_id,
        "user_id": context.user_id,
        "project_id": context.project_id,
        "client_address": call.client_address,
    }


def found(call: Call, *, all_projects: bool = False) -> Container:
    """Return the container that the caller means: by its uuid also one of a capsule, for ``check_member``."""
    row = db.find(call.context, call.parameters["ident"], all_projects=all_projects, members=True)
    return Container.from_row(call.context, row)


def check_member(container: Container, action: str, *, allowed: bool, compute: ComputeAPI) -> None:
    """Raise Conflict, with what to do instead, if the container belongs to a capsule and ``action`` is not for it.

    ``allowed``: members have the action, unless their capsule is being deleted, they are init containers or the hosts
    are of the release before.
    """
    if container.capsule_uuid is None or action in _READS:
        return
    capsule = container.capsule_uuid
    whose = f"Container {named(container)} belongs to capsule {capsule}."
    if not allowed:
        raise exceptions.Conflict(f"{whose} {_BY_CAPSULE.get(action, _ANEW).format(capsule=capsule)}")
    if container.kind == Kind.INIT and action in _ONCE:
        raise exceptions.Conflict(f"{whose} It is an init container, which runs once, before the others. {_ANEW}")
    if Container.get_by_uuid(container.obj_context, capsule).status == states.Status.DELETING:
        raise exceptions.Conflict(f"{whose} The capsule is being deleted, and the container with it.")
    if not compute.can_act(action, member=True):
        raise exceptions.Conflict(
            f"{whose} Hosts of the release before know no action on a container of a capsule. Ask the operator to "
            "upgrade all hosts and to remove [upgrade_levels] compute."
        )


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
    if container.capsule_uuid is not None:
        return _new_size_of_member(container, given)
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


def _new_size_of_member(container: Container, given: Given) -> dict[str, Any]:
    """Return the changed ``cpu`` and ``memory`` of a container of a capsule. Raises Conflict for any other change.

    The quota counts what the capsule claims, which stays.
    """
    size = {name: value for name, value in given.items() if value is not None}
    if others := sorted(size.keys() - {"cpu", "memory"}):
        raise exceptions.Conflict(
            f"{others[0]}: container {named(container)} belongs to capsule {container.capsule_uuid}. Only its cpu and "
            f"memory can be changed, within what the capsule claims. {_ANEW}"
        )
    if size:
        numa.check_resized(container, **size)
    return size


def describe(container: Container, given: Given, settings: Settings) -> None:
    """Save the changed fields that only the row has: name, auto_heal and movable."""
    name = given.get("name")
    if name is not None and name != container.name:
        container.rename(name, settings.unique_names)
    if given.get("auto_heal") is not None:
        container.auto_heal = given["auto_heal"]
    if given.get("movable") is not None:
        container.placement = {**(container.placement or {}), "movable": given["movable"]}
    container.save()


def require_host(container: Container) -> str:
    """Return the container's host. Raises Conflict if the container is on none."""
    if container.host is None and container.capsule_uuid is not None:
        raise exceptions.Conflict(
            f"Container {named(container)} is on no host, its status is {container.status}. Delete its "
            f"capsule, {container.capsule_uuid}, and create it again."
        )
    if container.host is None:
        raise exceptions.Conflict(
            f"Container {named(container)} is on no host, its status is {container.status}. Delete "
            "it and create it again."
        )
    return container.host


def require_host_up(container: Container, settings: Settings) -> None:
    """Raise HostUnavailable if the container's host is known to be down, instead of waiting for it."""
    host_up.require(require_host(container), settings)
