# SPDX-License-Identifier: Apache-2.0
"""Look up and make the volumes of Cinder that a request about a container mounts.

Volumes are looked up and made with the caller's token, so Cinder itself checks the caller's rights and quotas. The
container's host reserves and connects them later. An API process that dies between making a volume and writing the
container's row leaves the volume to ``zun.volume.cinder``, which deletes such volumes.
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from zun.cinder.client import ATTACHING, ITSELF, NEW, OWNED, OWNER, CinderClient, Record
from zun.common import exceptions, hints, naming, traits
from zun.common.context import RequestContext
from zun.common.mounts import Kind
from zun.common.units import MIB_PER_GIB
from zun.db import compute_nodes, containers

LOG = logging.getLogger(__name__)

UNDO_SECONDS = 5  # for a volume that is still being made, which Cinder does not delete

Fields = dict[str, Any]


class CinderVolumes:
    """``client`` asks as the service user. ``cross_az_attach`` is the option of this name."""

    def __init__(self, client: CinderClient, *, cross_az_attach: bool) -> None:
        self._service = client
        self._cross_az_attach = cross_az_attach

    def look_up(self, context: RequestContext, fields: Fields) -> None:
        """Write the ids of the volumes that ``fields`` of a container or capsule mount, and where it must run.

        Raises VolumeNotFound, VolumeNotUsable, VolumeInUse, Conflict, Forbidden, CinderUnavailable.
        """
        records = _records(fields)
        if not records:
            return
        client, request = self._service.of_user(context), fields["request"]
        found = [(each, self._volume(client, context, each["source"])) for each in records if each.get("source")]
        for record, volume in found:
            _check_usable(volume)
            record["source"] = volume["id"]
        request["hints"] = {**request["hints"], f"{hints.IMAGE_TRAIT}{traits.CINDER}": "required"}
        for record, volume in found:
            if volume["status"] != "available" and not record.get("read_only"):
                self._stay_with_others(volume["id"], request)
        if not self._cross_az_attach:
            _restrict_zone([volume for _, volume in found], request)

    @contextlib.contextmanager
    def made(self, context: RequestContext, fields: Fields, *members: Fields) -> Iterator[None]:
        """Make the new volumes of container ``fields["uuid"]`` and write their ids, also into ``members`` of a capsule.

        If the block raises an error, the volumes are deleted.
        """
        client, request, new = self._service.of_user(context), fields["request"], []
        try:
            for record in _records(fields):
                if record.get("source"):
                    continue
                volume = client.create_volume(**self._wanted(fields, record))
                new.append(volume["id"])
                _check_plain(volume)  # the default volume type decides
                record["source"] = volume["id"]
                if record.get("owned"):
                    client.mark_volume(volume["id"], {ITSELF: volume["id"]})
                if not self._cross_az_attach:
                    _restrict_zone([volume], request)
            known = {each.get("number"): each["source"] for each in _records(fields)}
            for each in (each for member in members for each in _records(member)):
                each["source"] = known[each["number"]]
            yield
        except Exception:
            for uuid in new:
                _undo(client, uuid)
            raise

    def _wanted(self, fields: Fields, record: Mapping[str, Any]) -> Record:
        owner, zone = fields["uuid"], fields["request"].get("availability_zone")
        wanted: Fields = {"size": record["size_mib"] // MIB_PER_GIB, "name": f"zun-{owner}"}
        if record.get("owned"):
            wanted["metadata"] = {**OWNED, OWNER: owner, ITSELF: NEW}
        if zone and not self._cross_az_attach:
            wanted["availability_zone"] = zone
        return wanted

    def released(self, mounts: Sequence[Mapping[str, Any]] | None) -> None:
        """Delete the new volumes of a container that was removed before a host had it. Raises nothing."""
        for each in mounts or ():
            if each["type"] == Kind.CINDER and each.get("owned") and each.get("source"):
                try:
                    self._service.delete_volume(each["source"])
                except exceptions.ZunError as exc:
                    LOG.warning("Volume %s stays at Cinder for now: %s", each["source"], exc)

    @staticmethod
    def _volume(client: CinderClient, context: RequestContext, ident: str) -> Record:
        """Return the volume of the context's project that a uuid or a name means."""
        missing = exceptions.VolumeNotFound(
            f"Volume {ident[:255]} could not be found in Cinder. List them with 'openstack volume list'."
        )
        if uuidutils.is_uuid_like(ident):
            try:
                found = [client.volume(ident)]
            except exceptions.NotFound:
                raise missing from None
        else:
            found = [each for each in client.volumes(name=ident) if each.get("name") == ident]
        project = str(context.project_id)  # an administrator sees the volumes of others
        mine = [each for each in found if each.get("os-vol-tenant-attr:tenant_id", project) == project]
        if not mine:
            raise missing
        if len(mine) > 1:
            ids = naming.listed(str(each["id"]) for each in mine)
            raise exceptions.Conflict(
                f"mounts: {len(mine)} volumes are called {ident[:255]}. Name one by its id: {ids}."
            )
        return mine[0]

    def _stay_with_others(self, volume: str, request: Fields) -> None:
        """Ask for the host where the volume is attached: a file system that two hosts write to is damaged."""
        attached = self._service.volume(volume).get("attachments") or ()
        servers = {each["server_id"] for each in attached if each.get("server_id")}
        if servers - {row["uuid"] for row in containers.of_uuids(servers)}:
            raise exceptions.Conflict(
                f"mounts: volume {volume} is attached to a server that is no container, and a file system that two "
                "mount is damaged. Detach it there first."
            )
        hosts = {each["host_name"] for each in attached if each.get("host_name")}
        asked = request.get("host")
        if not hosts or hosts == {asked}:
            return
        host = hosts.pop()
        if hosts or asked or not _is_host(host):
            raise exceptions.Conflict(
                f"mounts: volume {volume} is attached on another host, and a file system that two hosts write to is "
                "damaged. Mount it read_only everywhere, or run the containers on one host."
            )
        request["host"] = host


class NoCinder:
    """A cloud whose containers have no volumes of Cinder."""

    def look_up(self, context: RequestContext, fields: Fields) -> None:
        return

    @contextlib.contextmanager
    def made(self, context: RequestContext, fields: Fields, *members: Fields) -> Iterator[None]:
        yield

    def released(self, mounts: Sequence[Mapping[str, Any]] | None) -> None:
        return


def _records(fields: Mapping[str, Any]) -> list[Fields]:
    return [each for each in fields["mounts"] or () if each["type"] == Kind.CINDER]


def _check_usable(volume: Record) -> None:
    _check_plain(volume)
    status = volume.get("status")
    taken = status in ("in-use", *ATTACHING)
    if status == "available" or (taken and volume.get("multiattach")):
        return
    if taken:
        raise exceptions.VolumeInUse(volume=volume["id"], reason=f"it is {status}, and its type is not multiattach.")
    raise exceptions.VolumeNotUsable(volume=volume["id"], reason=f"it is {status}, and must be available.")


def _check_plain(volume: Record) -> None:
    if volume.get("encrypted"):
        raise exceptions.VolumeNotUsable(
            volume=volume["id"],
            reason="it is encrypted, and containers cannot use encrypted volumes. Choose a volume type without "
            "encryption.",
        )


def _restrict_zone(volumes: Sequence[Record], request: Fields) -> None:
    """Ask for the zone of the volumes. Raises Conflict if they are in several, or in another than was asked for."""
    for zone in sorted({each["availability_zone"] for each in volumes if each.get("availability_zone")}):
        asked = request.get("availability_zone")
        if asked not in (None, zone):
            raise exceptions.Conflict(
                f"mounts: a volume is in availability zone {zone}, and the container or another of its volumes in "
                f"{asked}. In this cloud they must be in one: choose the zone, or other volumes."
            )
        request["availability_zone"] = zone


def _is_host(name: str) -> bool:
    try:
        compute_nodes.find(name)
    except exceptions.ComputeNodeNotFound:
        return False
    return True


def _undo(client: CinderClient, volume: str) -> None:
    """Delete a volume that was made a moment ago. A failure is logged; a host deletes such volumes later."""
    deadline = time.monotonic() + UNDO_SECONDS
    while True:
        try:
            return client.delete_volume(volume)
        except exceptions.ZunError as exc:
            if not isinstance(exc, exceptions.Invalid) or time.monotonic() >= deadline:
                LOG.warning("Volume %s stays at Cinder for now: %s", volume, exc)
                return None
        time.sleep(0.5)
