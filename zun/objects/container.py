# SPDX-License-Identifier: Apache-2.0
"""A container as it travels between the services, and as its row is read and written."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from oslo_utils import timeutils
from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.common.kinds import Kind
from zun.common.mounts import mounts_of, volume_names
from zun.common.states import Status
from zun.db import capsules as db_capsules
from zun.db import containers as db
from zun.objects import base
from zun.topology import CPUPolicy

Claimed = db.Claimed


def _text() -> fields.StringField:
    return fields.StringField(nullable=True)


def _json() -> base.JsonField:
    return base.JsonField(nullable=True)


def _time() -> base.TimeField:
    return base.TimeField(nullable=True)


def _set(statuses: Collection[str] | None) -> frozenset[str] | None:
    return None if statuses is None else frozenset(statuses)


@base.register
class Container(base.ZunObject):
    """One container. ``memory`` is in MiB, ``disk`` and ``volume_disk`` (of its local mounts) in GiB, times are UTC.

    ``placement`` is what was asked of NUMA (the API's field names), ``cpuset`` what is held: a plan in its wire form
    with ``cpuset_cpus`` and ``cpuset_mems`` beside it, None while nothing is held. A capsule holds for all of its
    members, and what stands in ``cpuset`` of a member is its part of that. ``request`` says how to schedule it.
    """

    VERSION = "1.0"

    fields = {
        "id": fields.IntegerField(),
        "uuid": fields.UUIDField(),
        "kind": fields.StringField(default=str(Kind.CONTAINER)),
        "capsule_uuid": _text(),
        "name": fields.StringField(),
        "project_id": fields.StringField(),
        "user_id": _text(),
        "created_at": _time(),
        "updated_at": _time(),
        "image": fields.StringField(),
        "image_driver": _text(),
        "image_pull_policy": _text(),
        "registry_id": _text(),
        "cpu": fields.FloatField(),
        "cpu_policy": fields.StringField(default=str(CPUPolicy.SHARED)),
        "memory": fields.IntegerField(),
        "disk": fields.IntegerField(default=0),
        "volume_disk": fields.IntegerField(default=0),
        "placement": base.JsonField(default={}),
        "request": base.JsonField(default={}),
        "group_uuid": _text(),
        "command": _json(),
        "entrypoint": _json(),
        "workdir": _text(),
        "environment": _json(),
        "labels": _json(),
        "annotations": _json(),
        "hostname": _text(),
        "restart_policy": _json(),
        "interactive": fields.BooleanField(default=False),
        "tty": fields.BooleanField(default=False),
        "auto_remove": fields.BooleanField(default=False),
        "auto_heal": fields.BooleanField(default=False),
        "privileged": fields.BooleanField(default=False),
        "healthcheck": _json(),
        "runtime": _text(),
        "security_groups": _json(),
        "exposed_ports": _json(),
        "addresses": _json(),
        "ports": _json(),
        "mounts": _json(),
        "status": fields.StringField(default=str(Status.CREATING)),
        "status_reason": _text(),
        "status_detail": _text(),
        "task_state": _text(),
        "container_id": _text(),
        "started_at": _time(),
        "finished_at": _time(),
        "exit_code": fields.IntegerField(nullable=True),
        "host": _text(),
        "cpuset": _json(),
    }

    id: int
    uuid: str
    kind: str
    capsule_uuid: str | None
    name: str
    project_id: str
    user_id: str | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    image: str
    image_driver: str | None
    image_pull_policy: str | None
    registry_id: str | None
    cpu: float
    cpu_policy: str
    memory: int
    disk: int
    volume_disk: int
    placement: dict[str, Any]
    request: dict[str, Any]
    group_uuid: str | None
    command: list[str] | None
    entrypoint: list[str] | None
    workdir: str | None
    environment: dict[str, str] | None
    labels: dict[str, str] | None
    annotations: dict[str, Any] | None
    hostname: str | None
    restart_policy: dict[str, str] | None
    interactive: bool
    tty: bool
    auto_remove: bool
    auto_heal: bool
    privileged: bool
    healthcheck: dict[str, Any] | None
    runtime: str | None
    security_groups: list[str] | None
    exposed_ports: dict[str, Any] | None
    addresses: dict[str, Any] | None
    ports: list[int] | None
    mounts: list[Any] | None
    status: str
    status_reason: str | None
    status_detail: str | None
    task_state: str | None
    container_id: str | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    exit_code: int | None
    host: str | None
    cpuset: dict[str, Any] | None

    @base.remotable
    def create(
        self,
        quota: Mapping[str, int] | None = None,
        nets: Sequence[Mapping[str, Any]] = (),
        unique_name: str | None = None,
    ) -> None:
        """Add the row. What was not set gets its default.

        ``quota`` are the default limits of projects; with them, OverQuota when the project may not have it. ``nets``
        are the networks it joins, as ``zun.db.network_ports`` has them. ``unique_name`` is where its name must be there
        once (``zun.db.containers.Scope``): else ContainerAlreadyExists.
        """
        self.obj_set_defaults()
        self.refresh_from(db.insert(self.columns(), quota, nets, db.Scope(unique_name) if unique_name else None))

    @base.remotable
    def save(self, only_from: Collection[str] | None = None) -> None:
        """Write what changed. Raises IllegalTransition, ContainerNotFound.

        With ``only_from`` only while the status is one of these: else StatusChanged, and nothing is written.
        """
        changed = self.obj_what_changed()
        if changed:
            db.update(self.uuid, self.columns(changed), only_from=_set(only_from))
            self.updated_at = timeutils.utcnow()
        self.obj_reset_changes()

    @base.remotable
    def rename(self, name: str, unique_name: str | None = None) -> None:
        """Write a new name, and nothing else. Raises ContainerNotFound, and ContainerAlreadyExists as ``create``."""
        db.rename(self.uuid, name, self.project_id, db.Scope(unique_name) if unique_name else None)
        self.name, self.updated_at = name, timeutils.utcnow()
        self.obj_reset_changes(["name", "updated_at"])

    @base.remotable
    def save_step(self, event_id: int, last: bool) -> None:
        """Write what changed, and that the step ``event_id`` of an action has ended well, the action with the last."""
        db.update(self.uuid, self.columns(self.obj_what_changed()), step_done=event_id, last=last)
        self.updated_at = timeutils.utcnow()
        self.obj_reset_changes()

    @base.remotable
    def save_claim(self, hostname: str, step: tuple[str, str, str] | None = None) -> Claimed:
        """Write what changed as the claim of ``hostname``; ``step`` (request id, action, event) begins with it.

        A disk that changed is the host's default, of a container that had none.

        Raises ContainerNotFound or Conflict when the container no longer waits for this host, GroupRuleBroken when
        its group must not have one more member there, and VolumeElsewhere when a volume that it mounts is not there.
        """
        changed = self.columns(self.obj_what_changed() - {"host"})
        volumes = (self.project_id, volume_names(mounts_of(self)))
        added_disk = (self.project_id, changed.get("disk", 0))
        claimed = db.claim(
            self.uuid, hostname, changed, group_uuid=self.group_uuid, step=step, volumes=volumes, added_disk=added_disk
        )
        self.host = hostname
        self.obj_reset_changes()
        return claimed

    @base.remotable
    def save_changed_claim(
        self, hostname: str, quota: Mapping[str, int] | None = None, only_from: Collection[str] | None = None
    ) -> int:
        """Write what changed, the held resources of ``hostname`` among it, and return its new generation.

        ``quota`` are the default limits of projects; with them, OverQuota when the project may not have what is added.
        ``only_from`` is as for ``save``.
        """
        changed = self.columns(self.obj_what_changed())
        generation = db.change_claim(self.uuid, hostname, changed, quota, only_from=_set(only_from))
        self.obj_reset_changes()
        return generation

    @base.remotable
    def destroy(self) -> int | None:
        """Remove the row. Returns the new generation of the host that had it, if any."""
        return db.destroy(self.uuid)

    @base.remotable
    def abandon(self) -> int:
        """Make a leftover of it. Returns its host's new generation. Raises ContainerNotFound."""
        generation = db.abandon(self.uuid)
        self.refresh_from(db.get(self.uuid))
        return generation

    @classmethod
    @base.remotable
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Whoever owns it: for the services themselves. Raises ContainerNotFound."""
        return cls.from_row(context, db.get(uuid))

    @classmethod
    @base.remotable
    def get_by_ident(cls, context: RequestContext, ident: str) -> Self:
        """By uuid or name, among what ``context`` may see. Raises ContainerNotFound, Conflict."""
        return cls.from_row(context, db.find(context, ident))

    @classmethod
    @base.remotable
    def list_by_host(cls, context: RequestContext, hostname: str) -> list[Self]:
        return [cls.from_row(context, row) for row in db.of_host(hostname)]

    @classmethod
    @base.remotable
    def list_by_capsule(cls, context: RequestContext, uuid: str) -> list[Self]:
        """The members of a capsule, in the order in which they are started."""
        return [cls.from_row(context, row) for row in db_capsules.members([uuid])[uuid]]

    @base.remotable
    def end_members(self, reason: str, removed: bool = True) -> None:
        """This capsule ends in Error: so do its members, which keep what they have unless they are ``removed``."""
        db_capsules.end_members(self.uuid, reason, removed)
