# SPDX-License-Identifier: Apache-2.0
"""A small Cinder in memory, behind real HTTP, and a machine in memory that connects and mounts its volumes."""

import re
import uuid

from zun.common import exceptions
from zun.common.mounts import Kind
from zun.tests.functional.fake_service import PATIENCE, FakeService
from zun.volume import filesystems
from zun.volume.fake import InMemoryVolumeDriver
from zun.volume.volumes import Volumes


class FakeCinder(FakeService):
    """``volumes`` and ``attachments`` by id. A volume has the host and the connector of each of its attachments.

    ``usual`` are fields of all new volumes. A list has at most ``page`` volumes.
    """

    def __init__(self):
        self.volumes, self.attachments, self.usual = {}, {}, {}
        self.page = 1000
        super().__init__()

    def options(self):
        """The group ``[cinder]`` of a service that asks this Cinder."""
        return {
            "enabled": True, "auth_type": "none", "endpoint_override": self.url, "timeout": PATIENCE,
            "connect_retries": 0, "status_code_retries": 0, "wait_timeout": 1,
        }  # fmt: skip

    def volume(self, project="demo", **fields):
        made = str(uuid.uuid4())
        usual = {"id": made, "name": "", "status": "available", "multiattach": False, "availability_zone": "nova"}
        usual |= {"os-vol-tenant-attr:tenant_id": project, "metadata": {}, "size": 1}
        self.volumes[made] = {**usual, "created_at": "2026-01-01T00:00:00.000000", **self.usual, **fields}
        return made

    def owned(self, owner, **fields):
        """Make a volume that is deleted with the container ``owner``."""
        made = self.volume(**fields)
        self.volumes[made]["metadata"] = {"zun": "container", "zun_container": owner, "zun_volume": made}
        return made

    def server(self, volume, host, mode="rw", instance=None):
        """Attach the volume to a server of Nova, or to the given ``instance``."""
        made, instance = str(uuid.uuid4()), instance or str(uuid.uuid4())
        self.attachments[made] = {
            "id": made, "volume_id": volume, "instance": instance, "status": "attached", "attach_mode": mode,
            "connector": {"host": host}, "connection_info": {},
        }  # fmt: skip
        self._settle(volume)

    def path(self, given):
        return re.sub("^/v3/[^/]+/", "", given)

    def of(self, volume):
        return [each for each in self.attachments.values() if each["volume_id"] == volume]

    def found(self, method, path, query, body):
        collection, ident, action = (*path.split("/"), "", "")[:3]
        kept = {"volumes": self.volumes, "attachments": self.attachments}[collection]
        member = collection.removesuffix("s")
        if ident not in ("", "detail") and ident not in kept:
            return 404, {"itemNotFound": {"code": 404, "message": f"{member} {ident} could not be found."}}
        if ident in ("", "detail") and method == "GET":
            wanted = {"volume_id": "volume_id", "instance_id": "instance", "name": "name"}
            given = {wanted[name]: value for name, value in query.items() if name in wanted}
            if "metadata" in query:
                given["metadata.zun"] = "container"
            found = [self._shown(each) for each in kept.values() if _matches(each, given)]
            return 200, self._paged(collection, found, query) if collection == "volumes" else {collection: found}
        if method == "GET":
            return 200, {member: self._shown(kept[ident])}
        return getattr(self, f"_{method.lower()}_{member}")(ident, action, body.get(member) or body)

    def _paged(self, collection, found, query):
        start = [each["id"] for each in found].index(query["marker"]) + 1 if "marker" in query else 0
        shown = found[start : start + self.page]
        more = [{"rel": "next", "href": f"http://elsewhere/v3/{collection}"}] if len(shown) == self.page else []
        return {collection: shown, **({f"{collection}_links": more} if more else {})}

    def _shown(self, record):
        if "attach_mode" in record:
            return record
        attached = [each for each in self.of(record["id"]) if each["status"] == "attached"]
        shown = [
            {"attachment_id": each["id"], "server_id": each["instance"], "host_name": each["connector"]["host"]}
            for each in attached
        ]
        return {**record, "attachments": shown}

    def _post_volume(self, ident, action, body):
        if action:
            self.volumes[ident]["metadata"] = {**self.volumes[ident]["metadata"], **body["metadata"]}
            return 200, {"metadata": self.volumes[ident]["metadata"]}
        made = self.volume(**{"availability_zone": "nova", **body})
        return 202, {"volume": self._shown(self.volumes[made])}

    def _delete_volume(self, ident, action, body):
        if self.volumes[ident]["status"] not in ("available", "error"):
            return _bad("Volume status must be available or error")
        del self.volumes[ident]
        return 202, ""

    def _post_attachment(self, ident, action, body):
        if action:
            self.attachments[ident]["status"] = "attached"
            self.volumes[self.attachments[ident]["volume_id"]]["status"] = "in-use"
            return 204, ""
        volume, instance = self.volumes[body["volume_uuid"]], body["instance_uuid"]
        if volume["status"] == "available" or (volume["status"] == "in-use" and volume["multiattach"]):
            volume["status"] = "reserved"
        elif volume["status"] not in ("in-use", "reserved") or instance not in self._instances(volume["id"]):
            return _bad("status must be available or downloading to reserve")
        made = str(uuid.uuid4())
        self.attachments[made] = {
            "id": made, "volume_id": volume["id"], "instance": instance, "status": "reserved",
            "attach_mode": body["mode"], "connector": None, "connection_info": {},
        }  # fmt: skip
        return 200, {"attachment": self.attachments[made]}

    def _put_attachment(self, ident, action, body):
        attachment = self.attachments[ident]
        info = {"driver_volume_type": "local", "device_path": f"/dev/{attachment['volume_id']}"}
        info |= {"auth_password": "tell-nobody", "access_mode": attachment["attach_mode"], "encrypted": False}
        attachment |= {"connector": body["connector"], "status": "attaching", "connection_info": info}
        self.volumes[attachment["volume_id"]]["status"] = "attaching"
        return 200, {"attachment": {**attachment, "status": "reserved"}}

    def _delete_attachment(self, ident, action, body):
        volume = self.attachments.pop(ident)["volume_id"]
        self._settle(volume)
        return 200, {"attachments": []}

    def _instances(self, volume):
        return {each["instance"] for each in self.of(volume)}

    def _settle(self, volume):
        """Set the status when an attachment is gone: the remaining one that is furthest counts."""
        states = {each["status"] for each in self.of(volume)}
        words = {"attached": "in-use", "attaching": "attaching", "reserved": "reserved"}
        self.volumes[volume]["status"] = next((word for each, word in words.items() if each in states), "available")


def _matches(record, given):
    flat = {**record, "metadata.zun": (record.get("metadata") or {}).get("zun")}
    return all(flat.get(name) == value for name, value in given.items())


def _bad(message):
    return 400, {"badRequest": {"code": 400, "message": message}}


class FakeMachine:
    """A Connector and the file systems of a host. What is on a device outlives a disconnection.

    ``contents`` is what blkid finds by device, ``made`` how often a file system was made there. ``damaged`` are devices
    with data and without a signature.
    """

    def __init__(self, host="one"):
        self.host = host
        self.connected, self.mounts, self.contents, self.made = {}, {}, {}, {}
        self.failures, self.damaged = set(), set()

    def properties(self):
        return {"host": self.host, "ip": "127.0.0.1"}

    def connect(self, info):
        self._may("connect")
        path = info["device_path"]
        self.connected[path] = True
        return {"type": "local", "path": path}

    def disconnect(self, info, device):
        self._may("disconnect")
        assert info["device_path"] not in self.mounts.values(), "disconnected while it is mounted"
        self.connected.pop(info["device_path"], None)

    def content(self, device, *, begun=False):
        self._may("content")
        assert device in self.connected
        if device in self.damaged:
            if begun:
                return None
            raise exceptions.VolumeError("the volume holds data without a known signature")
        return self.contents.get(device)

    def make(self, device):
        self._may("make")
        self.made[device] = self.made.get(device, 0) + 1
        self.contents[device] = filesystems.Content("ext4", "zun")

    def mount(self, device, target, kind, *, read_only):
        self._may("mount")
        assert device in self.connected and target not in self.mounts
        self.mounts[target] = device

    def mounted(self, target):
        return target in self.mounts

    def unmount(self, target):
        self._may("unmount")
        self.mounts.pop(target, None)

    def add_data(self, target):
        assert target in self.mounts

    def reboot(self):
        self.connected, self.mounts = {}, {}

    def _may(self, step):
        if step in self.failures:
            raise exceptions.VolumeError(f"{step} failed")


class Drivers:
    """Stands for the volumes of a host of ``Cloud``, with the driver of Cinder."""

    def __init__(self, driver):
        self._driver = driver

    def as_volumes(self):
        return Volumes(dict.fromkeys(Kind, InMemoryVolumeDriver()), self._driver)
