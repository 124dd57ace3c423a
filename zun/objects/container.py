# SPDX-License-Identifier: Apache-2.0
"""The container object, which the services send to each other and which reads and writes its row."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

from oslo_utils import timeutils

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.departures import departed
from zun.common.mounts import mounts_of, volume_names
from zun.db import capsules as db_capsules
from zun.db import containers as db
from zun.db import departures as db_departures
from zun.db import evacuations as db_evacuations
from zun.nouns import container as nouns
from zun.objects import base
from zun.objects.arguments import Layer, Prose
from zun.objects.placement import disk_promised
from zun.topology import CpuSet

#: Member of ``request``: the default limits at the time of the request, for charges that only the claim knows.
QUOTA = "quota"

Claimed = db.Claimed


def withheld_cpus(cpuset: Mapping[str, Any] | None) -> int:
    """Return the number of CPUs that a claim keeps idle, from the column ``cpuset``."""
    return sum(len(CpuSet(share.get("withheld", ""))) for share in (cpuset or {}).get("cells", ()))


def published_ports(exposed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the published entries of ``exposed_ports``, by exposed port: ``{"80/tcp": {"host_port": 40000, ...}}``.

    Malformed entries, which somebody wrote into the row by hand, are left out: one must not hide every other row.
    """
    return {
        port: where
        for port, where in (exposed or {}).items()
        if isinstance(where, dict) and isinstance(number := where.get("host_port"), int) and number
    }


class Claiming(NamedTuple):
    """A container whose changed fields are the claim of a host, with the other arguments of ``save_claim``."""

    container: "Container"
    step: tuple[str, str, str] | None = None
    disk_pool: str | None = None
    permit: str | None = None

    def wanted(self) -> db.Wanted:
        it = self.container
        changed = it.columns(it.obj_what_changed() - {"host"})
        return db.Wanted(
            uuid=it.uuid,
            values=changed,
            group_uuid=it.group_uuid,
            step=self.step,
            volumes=(it.project_id, volume_names(mounts_of(it))),
            added_disk=(it.project_id, changed.get("disk", 0)),
            withheld=withheld_cpus(it.cpuset),
            quota=it.request.get(QUOTA),
            disk_pool=None if self.disk_pool is None else (self.disk_pool, disk_promised(it)),
        )


def claim_rows(hostname: str, claims: Sequence[Claiming]) -> list[Claimed | exceptions.ZunError]:
    """Do ``Container.save_claims`` in the database of this process."""
    outcomes = db.claim_many(hostname, [each.wanted() for each in claims])
    _note_claims(hostname, claims, outcomes)
    return outcomes


def _note_claims(
    hostname: str, claims: Sequence[Claiming], outcomes: Sequence[Claimed | exceptions.ZunError]
) -> None:
    """Let the objects of written claims be as their rows are."""
    for each, outcome in zip(claims, outcomes, strict=True):
        if not isinstance(outcome, exceptions.ZunError):
            each.container.host = hostname
            each.container.obj_reset_changes()


def _set(statuses: Collection[str] | None) -> frozenset[str] | None:
    return None if statuses is None else frozenset(statuses)


@base.register
class Container(nouns.Container, base.ZunObject):
    """One container. ``memory`` is in MiB, ``disk`` and ``volume_disk`` (of its local mounts) in GiB, times are UTC.

    - ``placement`` has the NUMA fields of the request under the API's names. Its ``devices`` are records of
      ``DeviceRequest``: they have the conditions of each alias, which no other service reads from configuration.
    - ``cpuset`` is the claim: a plan in its wire form with ``cpuset_cpus`` and ``cpuset_mems``, or None without a
      claim. The plan has the given devices. A capsule has the claim of all its members; ``cpuset`` of a member is its
      part of the capsule's claim.
    - ``request`` has the other fields for the scheduler, for example hints and ``availability_zone``.
    """

    VERSION = "1.7"  # 1.1: restore, 1.2: capabilities, 1.3: permit of save_claim, 1.4: save_healing
    # 1.5: evacuated, 1.6: depart, 1.7: set_uuid

    @base.remotable
    def create(
        self,
        quota: Mapping[str, int] | None = None,
        nets: Sequence[Mapping[str, Any]] = (),
        unique_name: str | None = None,
    ) -> None:
        """Add the row, with defaults for the fields that are not set.

        ``quota`` are the default limits of projects. With ``quota``, OverQuota if the container exceeds the project's
        limits. ``nets`` are the wanted ports (``zun.db.network_ports``). ``unique_name`` is the scope in which the name
        must be unique (``zun.db.containers.Scope``), else ContainerAlreadyExists.
        """
        self.obj_set_defaults()
        self.refresh_from(db.insert(self.columns(), quota, nets, db.Scope(unique_name) if unique_name else None))

    @base.remotable
    def save(self, only_from: Collection[str] | None = None) -> None:
        """Write the changed fields. Raises IllegalTransition and ContainerNotFound.

        If ``only_from`` is given and the row's status is not in it, StatusChanged is raised and nothing is written.
        """
        changed = self.obj_what_changed()
        if changed:
            db.update(self.uuid, self.columns(changed), only_from=_set(only_from))
            self.updated_at = timeutils.utcnow()
        self.obj_reset_changes()

    @base.remotable
    def rename(self, name: str, unique_name: str | None = None) -> None:
        """Write a new name, and no other field. Raises ContainerNotFound, and ContainerAlreadyExists as ``create``."""
        db.rename(self.uuid, name, self.project_id, db.Scope(unique_name) if unique_name else None)
        self.name, self.updated_at = name, timeutils.utcnow()
        self.obj_reset_changes(["name", "updated_at"])

    @base.remotable
    def save_step(self, event_id: int, last: bool) -> None:
        """Write the changed fields and the success of the step ``event_id``, with ``last`` also that of its action."""
        db.update(self.uuid, self.columns(self.obj_what_changed()), step_done=event_id, last=last)
        self.updated_at = timeutils.utcnow()
        self.obj_reset_changes()

    @base.remotable
    def save_healing(self, only_from: Collection[str]) -> None:
        """Write the changed fields, and record the rebuild that no user asked for, in one transaction.

        From now on it is wanted. Raises ContainerNotFound, and StatusChanged if the row's status is not in
        ``only_from``; then nothing is written.
        """
        who = {"request_id": self._context.request_id, "user_id": None, "project_id": self.project_id}
        changed = self.columns(self.obj_what_changed())
        allowed = frozenset(only_from)
        db.accept(self.uuid, "rebuild", allowed=allowed, values=changed, arguments={}, client_address=None, **who)
        self.updated_at = timeutils.utcnow()
        self.obj_reset_changes()

    @base.remotable
    def save_claim(
        self,
        hostname: str,
        step: tuple[str, str, str] | None = None,
        disk_pool: str | None = None,
        permit: str | None = None,
    ) -> Claimed:
        """Write the changed fields as the claim of ``hostname``. ``step`` (request id, action, event) begins with it.

        A changed disk is the host's default disk for a container without one. The disk is claimed from ``disk_pool``,
        the uuid of the host's pool. A conductor asks for the scheduler's ``permit`` (``zun.db.permits``).

        Raises ContainerNotFound or Conflict if the container no longer waits for this host, ClaimRefused if the disk
        pool has too little left, GroupRuleBroken if the group must not have another member on the host,
        VolumeElsewhere if a mounted volume is on another host, and ClaimOverQuota if the CPUs kept idle or the new
        volumes exceed the project's limits.
        """
        [outcome] = claim_rows(hostname, [Claiming(self, step, disk_pool, permit)])
        if isinstance(outcome, exceptions.ZunError):
            raise outcome
        return outcome

    @classmethod
    def save_claims(
        cls, context: RequestContext, hostname: str, claims: Sequence["Claiming"]
    ) -> list[Claimed | exceptions.ZunError]:
        """Do ``save_claim`` for several containers in one transaction.

        Returns for each of ``claims`` the result, or the error that ``save_claim`` raises. A conductor of an older
        release knows only the single one.
        """
        conductor: Any = cls.indirection_api
        if conductor is None:
            return claim_rows(hostname, claims)
        if len(claims) == 1:
            [(container, step, disk_pool, permit)] = claims
            try:
                return [container.save_claim(hostname, step, disk_pool, permit)]
            except exceptions.Unavailable:
                raise
            except exceptions.ZunError as exc:
                return [exc]
        outcomes: list[Claimed | exceptions.ZunError] = conductor.save_claims(context, hostname, claims)
        _note_claims(hostname, claims, outcomes)
        return outcomes

    @base.remotable
    def save_changed_claim(
        self, hostname: str, quota: Mapping[str, int] | None = None, only_from: Collection[str] | None = None
    ) -> int:
        """Write the changed fields, which change the claim on ``hostname``, and return the host's new generation.

        ``quota`` are the default limits of projects. With ``quota``, OverQuota if the added resources exceed the
        project's limits. ``only_from`` has the same meaning as for ``save``.
        """
        changed = self.columns(self.obj_what_changed())
        if "cpuset" in changed and (self.cpuset or departed(self.request) is None):  # it may come back to such CPUs
            changed["withheld_cpu"] = withheld_cpus(self.cpuset)
        generation = db.change_claim(self.uuid, hostname, changed, quota, only_from=_set(only_from))
        self.obj_reset_changes()
        return generation

    @base.remotable
    def restore(self, ports: Sequence[Mapping[str, Any]] = (), networks: Sequence[Mapping[str, Any]] = ()) -> int:
        """Add the row that the database has lost, and return the host's new generation.

        ``ports`` and ``networks`` are rows of its host's record. Raises the errors of ``zun.db.containers.restore``.
        """
        self.obj_set_defaults()
        generation = db.restore(
            self.columns(),
            withheld=withheld_cpus(self.cpuset),
            volumes=volume_names(mounts_of(self)),
            ports=ports,
            own_networks=networks,
        )
        self.refresh_from(db.get(self.uuid))
        return generation

    @base.remotable
    def destroy(self) -> int | None:
        """Remove the row, and return the new generation of its host, or None if it had no host."""
        return db.destroy(self.uuid)

    @base.remotable
    def depart(self, hostname: str, step: int, run: bool, layer: Layer | None = None) -> tuple[int, Self]:
        """Let the container wait for another host: for the end of the step ``step`` of its action ``leave``.

        ``run`` says whether it is started there, with its ``layer`` in base64. Returns the host's new generation, and
        what the container leaves: a row with its claim. Raises the errors of ``zun.db.departures.depart``.
        """
        generation, left = db_departures.depart(self.uuid, hostname, step=step, run=run, layer=layer)
        self.refresh_from(db.get(self.uuid))
        return generation, type(self).from_row(self._context, left)

    @base.remotable
    def layer(self) -> str | None:
        """Return what the container, on its way to another host, has written: a tar in base64, or None."""
        return db_departures.layer_of(self.uuid)

    @base.remotable
    def abandon(self) -> int:
        """Turn the container into a leftover and return its host's new generation. Raises ContainerNotFound."""
        generation = db.abandon(self.uuid)
        self.refresh_from(db.get(self.uuid))
        return generation

    @classmethod
    @base.remotable
    def get_by_uuid(cls, context: RequestContext, uuid: str) -> Self:
        """Return the container of any project, for services. Raises ContainerNotFound."""
        return cls.from_row(context, db.get(uuid))

    @classmethod
    @base.remotable
    def get_by_ident(cls, context: RequestContext, ident: str, all_projects: bool = False) -> Self:
        """Return the container that ``context`` means. ContainerNotFound and Conflict as ``zun.db.containers.find``."""
        return cls.from_row(context, db.find(context, ident, all_projects=all_projects))

    @classmethod
    @base.remotable
    def list_by_host(cls, context: RequestContext, hostname: str) -> list[Self]:
        return [cls.from_row(context, row) for row in db.of_host(hostname)]

    @classmethod
    @base.remotable
    def list_by_uuids(cls, context: RequestContext, uuids: Collection[str]) -> list[Self]:
        """Return the containers of any project that exist of ``uuids``, for services."""
        return [cls.from_row(context, row) for row in db.of_uuids(uuids)]

    @classmethod
    @base.remotable
    def evacuated(cls, context: RequestContext, hostname: str, uuids: Collection[str]) -> list[str]:
        """Return those of ``uuids`` that were taken from ``hostname`` while it was down, and are not there."""
        return db_evacuations.of_others(hostname, uuids)

    @classmethod
    @base.remotable
    def list_by_capsule(cls, context: RequestContext, uuid: str) -> list[Self]:
        """Return the members of a capsule in their order of starting."""
        return [cls.from_row(context, row) for row in db_capsules.members([uuid])[uuid]]

    @base.remotable
    def end_members(self, reason: Prose, removed: bool = True) -> None:
        """End the members of this failed capsule in Error. Unless ``removed``, they keep their resources."""
        db_capsules.end_members(self.uuid, reason, removed)
