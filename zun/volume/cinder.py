# SPDX-License-Identifier: Apache-2.0
"""The driver of Cinder's volumes: reserves, connects, mounts and gives back volumes for the containers of one host.

A volume is connected and mounted once on a host, however many containers use it. Everything that is needed to go on or
to undo is written to a file before the next step::

    VOLUME/connection.json     how the volume is connected, with secrets; only root can read the file
    VOLUME/users/OWNER.json    the attachment at Cinder of one container or capsule

So each method can be repeated after a crash at any step, and ``sweep`` undoes what nobody repeats.
"""

import contextlib
import glob
import json
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from oslo_config import cfg
from oslo_utils import timeutils

from zun.cinder.client import ATTACHING, ITSELF, NEW, OWNER, CinderClient, Record
from zun.common import exceptions, metrics
from zun.common.mounts import Mount
from zun.container.driver.lifecycle import RuntimeMount
from zun.volume import filesystems
from zun.volume.brick import Brick, Connector, masked

LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.5
#: How often a host looks for volumes of containers that do not exist, and the age from which a volume is one of these.
ORPHANS_SECONDS = 3600
_REFUSALS = (
    exceptions.VolumeRefused,
    exceptions.Invalid,
    exceptions.Forbidden,
    exceptions.NotFound,
    exceptions.Conflict,
)
ENCRYPTED = "the volume is encrypted, and containers cannot use encrypted volumes"
_WAITING = ("creating", "downloading", "detaching")


class FileSystems(Protocol):
    """The functions of ``zun.volume.filesystems``."""

    def content(self, device: str, *, begun: bool = False) -> filesystems.Content | None: ...
    def make(self, device: str) -> None: ...
    def mount(self, device: str, target: Path, kind: str, *, read_only: bool) -> None: ...
    def mounted(self, target: Path) -> bool: ...
    def unmount(self, target: Path) -> None: ...
    def add_data(self, target: Path) -> None: ...


class CinderDriver:
    """Keeps its records below ``root``, and mounts volumes below ``mount_root``. Needs root."""

    def __init__(
        self,
        root: Path,
        mount_root: Path,
        client: CinderClient,
        connector: Connector,
        *,
        host: str,
        wait_seconds: float,
        disks: FileSystems = filesystems,
    ) -> None:
        """``host`` is the name of this host at Cinder."""
        self._root, self._mount_root = root, mount_root
        self._client, self._connector, self._disks = client, connector, disks
        self._host, self._wait_seconds = host, wait_seconds
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._looked_for_orphans: float | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, host: str, root: Path) -> Self:
        """Return the driver of group ``[cinder]``. Raises Misconfigured."""
        options = conf.cinder
        return cls(
            root,
            Path(options.mount_directory) / host,
            CinderClient.from_conf(conf),
            Brick(conf, host, str(root / "nfs")),
            host=host,
            wait_seconds=options.wait_timeout,
        )

    # The interface of a volume driver.

    def prepare(self, owner: str, project_id: str, number: int, mount: Mount, *, again: bool = False) -> RuntimeMount:
        volume = mount.source or ""
        with self._one_at_a_time(volume, mount):
            user, connection = self._user(volume, owner), self._connection(volume)
            if not (user.get("complete") and self._disks.mounted(self._target(volume))):
                with metrics.timed(metrics.VOLUME_SECONDS, "attach"):
                    connection = self._attach(volume, owner, mount, again=again)
            self._check_mode(connection, mount)
            return RuntimeMount("bind", self._source(volume, connection), mount.destination, read_only=mount.read_only)

    def restore(self, owner: str, number: int, mount: Mount) -> None:
        """Connect and mount the volume again, as its records say. Cinder is not asked."""
        volume = mount.source or ""
        with self._one_at_a_time(volume, mount):
            connection = self._connection(volume)
            if not self._user(volume, owner).get("complete") or "info" not in connection:
                raise exceptions.VolumeError("the host has no record of its connection")
            if not self._disks.mounted(self._target(volume)):
                connection = self._plugged(volume, {**connection, "device": None})
                self._mount(volume, connection, None)

    def remove(self, owner: str, number: int, mount: Mount) -> None:
        """Unmount and disconnect the volume if nobody else on this host uses it, and give it back.

        If only Cinder fails, the volume is given back by a sweep.
        """
        volume = mount.source or ""
        with self._one_at_a_time(volume, mount):
            user = self._user(volume, owner)
            if user or mount.owned:
                with metrics.timed(metrics.VOLUME_SECONDS, "detach"):
                    self._leave(volume, owner, {**user, "owned": mount.owned})

    def detach(self, owner: str, mount: Mount) -> None:
        """Unmount and disconnect the volume, and detach it at Cinder, so that another host can have it with its data.

        Raises VolumeError also if only Cinder fails.
        """
        volume = mount.source or ""
        with self._one_at_a_time(volume, mount):
            user = self._user(volume, owner)
            if user:
                with metrics.timed(metrics.VOLUME_SECONDS, "detach"):
                    self._leave(volume, owner, {**user, "owned": False})
                if self._user(volume, owner):
                    raise exceptions.VolumeError("Cinder has not detached the volume")

    # Leftovers.

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Give back the volumes of owners that are gone, and of those that left while Cinder was away.

        ``known`` returns those of the uuids that exist, on any host. A record is written when its owner exists, so an
        owner that does not exist after the records were read is gone.
        """
        found = sorted(glob.glob(f"{self._root}/*/users/*.json"))  # passes over a folder that goes meanwhile
        users = [(Path(path).parent.parent.name, Path(path).stem) for path in found]
        existing = set(known({owner for _, owner in users})) if users else set()
        for volume, owner in users:
            with self._logged(volume, owner), self._one_at_a_time(volume):
                user = self._user(volume, owner)
                if user.get("leaving") or (user and owner not in existing):
                    self._leave(volume, owner, user)
        if self._looked_for_orphans is None or time.monotonic() - self._looked_for_orphans > ORPHANS_SECONDS:
            self._looked_for_orphans = time.monotonic()
            self._sweep_orphans(known)

    def _sweep_orphans(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Delete volumes that were made for containers that do not exist: zun-api was killed, or Cinder was away.

        A volume that is attached is kept: the database may have lost the row of its container.
        """
        try:
            found = {each["id"]: each for each in self._client.owned_volumes() if _is_orphan(each)}
            owners = {uuid: str(each["metadata"][OWNER]) for uuid, each in found.items()}
            existing = set(known(set(owners.values()))) if owners else set()
        except exceptions.ZunError as exc:
            LOG.warning("Volumes of containers that do not exist stay for now: %s", exc)
            return
        for uuid, owner in sorted(owners.items()):
            if owner not in existing:
                with self._logged(uuid, owner):
                    self._client.delete_volume(uuid)
                    LOG.warning("Volume %s is deleted: it was made for container %s, which is gone", uuid, owner)

    @contextlib.contextmanager
    def _logged(self, volume: str, owner: str) -> Iterator[None]:
        try:
            yield
        except exceptions.ZunError as exc:
            LOG.warning("Volume %s of container %s stays for now: %s", volume, owner, exc)

    # To attach.

    def _attach(self, volume: str, owner: str, mount: Mount, *, again: bool) -> dict[str, Any]:
        """Reserve, connect, plug, complete, mount. Return the connection's record."""
        user = self._reserved(volume, owner, mount)
        properties = {**self._connector.properties(), "mountpoint": mount.destination}
        info = self._client.connect(user["attachment"], properties)
        if info.get("encrypted"):
            raise exceptions.VolumeRefused(ENCRYPTED)
        connection = self._connection(volume)
        if connection.get("device") is None or not self._disks.mounted(self._target(volume)):
            read_only = mount.read_only or info.get("access_mode") == "ro"
            connection = self._save_connection(
                volume, {**connection, "info": info, "device": None, "read_only": read_only}
            )
        connection = self._plugged(volume, connection)
        self._check_mode(connection, mount)
        self._client.complete(user["attachment"])
        # Another host may have completed since the first check. The later of two always sees the other one, and both
        # may: then both give the volume back.
        found = self._client.volume(volume)
        self._check_others(found, owner, mount)
        attached = [each["attachment_id"] for each in found.get("attachments") or ()]
        connection = self._mount(volume, connection, None if again else user["attachment"], attached)
        self._save_user(volume, owner, {**user, "complete": True})
        LOG.info("Volume %s is attached to container %s", volume, owner)
        return connection

    def _plugged(self, volume: str, connection: dict[str, Any]) -> dict[str, Any]:
        if connection["device"] is not None:
            return connection
        device = self._connector.connect(connection["info"])
        return self._save_connection(volume, {**connection, "device": device})

    def _reserved(self, volume: str, owner: str, mount: Mount) -> dict[str, Any]:
        """Reserve the volume for the owner, unless it is already, and return the owner's record."""
        deadline = time.monotonic() + self._wait_seconds
        user = {"attachment": self._user(volume, owner).get("attachment"), "owned": mount.owned}
        while True:
            found = self._ready(volume, owner, deadline)
            self._check_others(found, owner, mount)
            self._save_user(volume, owner, user)
            if user["attachment"] is not None:
                return user
            ours = self._client.attachments(volume, owner)
            try:
                mode = "ro" if mount.read_only else "rw"
                user["attachment"] = ours[0] if ours else self._client.reserve(volume, owner, mode)
            except exceptions.Invalid:  # somebody else was faster
                if not found.get("multiattach") or time.monotonic() >= deadline:
                    raise
                time.sleep(POLL_SECONDS)
                continue
            return self._save_user(volume, owner, user)

    def _ready(self, volume: str, owner: str, deadline: float) -> Record:
        """Wait until the volume can be reserved for the owner, or is already, and return Cinder's record.

        While somebody attaches a volume Cinder reserves it for nobody else, whatever its type.
        """
        while True:
            found = self._client.volume(volume)
            if found.get("encrypted"):
                raise exceptions.VolumeRefused(ENCRYPTED)
            status, shared = str(found.get("status")), found.get("multiattach")
            if status == "available" or (status == "in-use" and shared):
                return found
            if status in (*ATTACHING, "in-use") and self._client.attachments(volume, owner):
                return found
            waits = status in _WAITING or (status in ATTACHING and shared)
            if not waits or time.monotonic() >= deadline:
                waited = f" after {self._wait_seconds} s" if waits else ""
                raise exceptions.VolumeRefused(f"volume {volume} is {status}{waited}, and must be available")
            time.sleep(POLL_SECONDS)

    def _check_others(self, found: Record, owner: str, mount: Mount) -> None:
        """Raise VolumeRefused if somebody else mounts the file system and one of the two writes.

        On this host only the containers in the records share a connection. Any other server here is refused even if
        both only read: its device would go with the last container.
        """
        ours = {owner, *self._owners(str(found["id"]))}
        for each in found.get("attachments") or ():
            host, server = each.get("host_name"), each.get("server_id")
            if host in (None, self._host):
                if server in ours:
                    continue
                raise exceptions.VolumeRefused(
                    f"volume {found['id']} is attached to server {server}, which is no container of this host, and "
                    "they cannot share its connection. Detach it there first, or run the container on another host and "
                    "mount it read-only everywhere"
                )
            others = self._client.attachment(each["attachment_id"]).get("attach_mode")
            if not mount.read_only or others != "ro":
                raise exceptions.VolumeRefused(
                    f"volume {found['id']} is attached on another host, and a file system that one of two hosts writes "
                    "to is damaged. Mount it read-only everywhere, or run the containers on one host"
                )

    @staticmethod
    def _check_mode(connection: Mapping[str, Any], mount: Mount) -> None:
        if connection.get("read_only") and not mount.read_only:
            raise exceptions.VolumeRefused(
                "the volume is connected read-only to this host, by a read-only container or because Cinder says so. "
                "Ask for read_only"
            )

    def _mount(
        self, volume: str, connection: dict[str, Any], attachment: str | None, attached: Collection[str] = ()
    ) -> dict[str, Any]:
        """Mount the volume, on which a file system is made only if it holds nothing.

        ``attachment`` is that of a container that has the volume for the first time, ``attached`` are all of the
        volume. Without ``attachment`` the volume must hold its file system already.
        """
        target, device = self._target(volume), str(connection["device"]["path"])
        if self._disks.mounted(target) and "folder" in connection:
            return connection
        # A volume that was mounted once may hold data, whatever an interrupted attempt left in the record. So may one
        # that was taken from this host meanwhile: its attachment of that attempt is gone.
        begun = connection.get("making") in attached and "folder" not in connection
        content = self._disks.content(device, begun=begun)
        if content is None:
            if attachment is None or "folder" in connection:
                raise exceptions.VolumeError(
                    "the volume is empty and was mounted before, with the data of the container. Nothing was changed. "
                    "Tell the operator: does its storage give this host the right volume?"
                )
            if connection["read_only"]:
                raise exceptions.VolumeRefused("the volume is empty: mount it once without read_only")
            connection = self._save_connection(volume, {**connection, "making": attachment})
            self._disks.make(device)
            content = filesystems.Content(filesystems.NEW, filesystems.LABEL)
            connection = self._save_connection(volume, {**connection, "making": False})
        if not self._disks.mounted(target):
            self._disks.mount(device, target, content.kind, read_only=connection["read_only"])
        ours = content.label == filesystems.LABEL
        if ours and not connection["read_only"]:
            self._disks.add_data(target)
        return self._save_connection(volume, {**connection, "folder": filesystems.DATA if ours else ""})

    # To detach.

    def _leave(self, volume: str, owner: str, user: dict[str, Any]) -> None:
        user = self._save_user(volume, owner, {**user, "leaving": True, "complete": False})
        if not user.get("released"):
            if not self._others(volume, owner):
                self._unplug(volume)
            user = self._save_user(volume, owner, {**user, "released": True})
        try:
            self._give_back(volume, owner, user)
        except exceptions.ZunError as exc:
            LOG.warning("Volume %s of container %s is given back later: %s", volume, owner, exc)
            return
        self._path(volume, owner).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others use it
            (self._root / volume / "users").rmdir()
            (self._root / volume).rmdir()

    def _others(self, volume: str, owner: str) -> bool:
        """Return whether another container of this host uses the volume, as the records say."""
        others = [each for each in self._owners(volume) if each != owner]
        return any(not self._user(volume, each).get("released") for each in others)

    def _unplug(self, volume: str) -> None:
        self._disks.unmount(self._target(volume))
        connection = self._connection(volume)
        if "info" in connection:
            self._connector.disconnect(connection["info"], connection["device"])
        (self._root / volume / "connection.json").unlink(missing_ok=True)

    def _give_back(self, volume: str, owner: str, user: Mapping[str, Any]) -> None:
        """Delete the attachments at Cinder, and the volume if it is the owner's own."""
        if "attachment" in user:
            ours = {*self._client.attachments(volume, owner), *([user["attachment"]] if user["attachment"] else ())}
            for each in sorted(ours):
                self._client.delete_attachment(each)
            LOG.info("Volume %s is detached from container %s", volume, owner)
        if user.get("owned"):
            self._client.delete_volume(volume)
            LOG.info("Volume %s is deleted with container %s", volume, owner)

    # Records.

    def _target(self, volume: str) -> Path:
        return self._mount_root / volume

    def _source(self, volume: str, connection: Mapping[str, Any]) -> str:
        return str(self._target(volume) / connection["folder"])

    def _path(self, volume: str, owner: str) -> Path:
        return self._root / volume / "users" / f"{owner}.json"

    def _owners(self, volume: str) -> list[str]:
        """Return the containers and capsules that have a record of the volume."""
        try:
            names = os.listdir(self._root / volume / "users")  # a glob would be empty too if the disk fails
        except FileNotFoundError:
            return []
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def _user(self, volume: str, owner: str) -> dict[str, Any]:
        return _read(self._path(volume, owner))

    def _save_user(self, volume: str, owner: str, record: dict[str, Any]) -> dict[str, Any]:
        return _write(self._path(volume, owner), record)

    def _connection(self, volume: str) -> dict[str, Any]:
        return _read(self._root / volume / "connection.json")

    def _save_connection(self, volume: str, record: dict[str, Any]) -> dict[str, Any]:
        return _write(self._root / volume / "connection.json", record)

    @contextlib.contextmanager
    def _one_at_a_time(self, volume: str, mount: Mount | None = None) -> Iterator[None]:
        """Hold the lock of the volume, and raise a VolumeError that names the mount for whatever fails inside."""
        name = volume if mount is None else mount.destination
        if volume in ("", ".", "..") or "/" in volume:
            raise exceptions.VolumeError(mount=name, reason="its record names no volume")
        with self._locks[volume]:
            try:
                yield
            except (exceptions.ZunError, OSError) as exc:
                info = self._connection(volume).get("info") or {}
                error = exceptions.VolumeRefused if isinstance(exc, _REFUSALS) else exceptions.VolumeError
                raise error(mount=name, reason=masked(str(exc), info)) from None


def _is_orphan(volume: Record) -> bool:
    """Return whether a volume was made for a container, is old enough and attached to nothing.

    Its request makes the volume before its container. A volume with the metadata of another one is a user's: it was
    restored from a backup, perhaps because the container is gone.
    """
    if volume.get("attachments") or volume.get("status") not in ("available", "error"):
        return False
    try:
        made = timeutils.normalize_time(timeutils.parse_isotime(str(volume.get("created_at"))))
    except ValueError:
        return False
    marks = volume.get("metadata") or {}
    return (
        bool(marks.get(OWNER))
        and marks.get(ITSELF) in (NEW, volume["id"])
        and (timeutils.utcnow() - made).total_seconds() > ORPHANS_SECONDS
    )


def _read(path: Path) -> dict[str, Any]:
    """Return a record, empty if there is none. One that cannot be read raises VolumeError."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except ValueError as exc:
        raise exceptions.VolumeError(f"the record {path.name} cannot be read: {exc}") from None


def _write(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Write a record that only root can read, as a whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    return record
