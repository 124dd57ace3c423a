# SPDX-License-Identifier: Apache-2.0
"""Read files of the Container Device Interface: names of devices, and the edits of a container that give them to it.

Source of the rules: the CDI specification, github.com/cncf-tags/container-device-interface (SPEC.md). A name is
``vendor.com/class=name``. A file in a later folder replaces the names of earlier folders. A name that two files of one
folder describe is in conflict: no container gets its device.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from zun.topology.devices import Device, DeviceType

FOLDERS = ("etc/cdi", "var/run/cdi")  # the lowest priority first

_READERS = {".json": json.loads, ".yaml": yaml.safe_load}
_TEXT = {"type": "string", "minLength": 1}
_FILE = {"type": "string", "pattern": "^/"}
_TEXTS = {"type": "array", "items": _TEXT}


def _records(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": list(required)}}


_EDITS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}},
        "deviceNodes": _records(
            ["path"], path=_FILE, hostPath=_FILE, permissions={"type": "string", "pattern": "^[rwm]{0,3}$"}
        ),
        "mounts": _records(
            ["hostPath", "containerPath"], hostPath=_FILE, containerPath=_FILE, options=_TEXTS, type={"type": "string"}
        ),
        "hooks": _records(["hookName", "path"], hookName=_TEXT, path=_FILE),
        "additionalGids": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    },
}
_DEVICE_NAME = {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$"}
_VALIDATOR = jsonschema.Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "cdiVersion": _TEXT,
            "kind": {
                "type": "string",
                "pattern": "^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?$",
            },
            "devices": _records(["name", "containerEdits"], name=_DEVICE_NAME, containerEdits=_EDITS),
            "containerEdits": _EDITS,
        },
        "required": ["cdiVersion", "kind", "devices"],
    }
)


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: ``path`` in the container, ``host_path`` on the host."""

    path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class CdiMount:
    host_path: str
    path: str
    options: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes of a container. ``others`` names in words every change that needs the runtime's own CDI."""

    nodes: tuple[DeviceNode, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    mounts: tuple[CdiMount, ...] = ()
    gids: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiDevice:
    """One device of a file. ``common`` are the edits for any device of the file, ``edits`` its own."""

    name: str
    file: str
    edits: Edits
    common: Edits = Edits()


@dataclass(frozen=True, slots=True)
class CdiDevices:
    """All devices by their names. ``notes`` say in words which files and names are left out, and why."""

    by_name: Mapping[str, CdiDevice] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices for an inventory, in order of their names. Their cells are unknown."""
        return tuple(
            Device(name, type=DeviceType.CDI, nodes=tuple(node.host_path for node in found.edits.nodes))
            for name, found in sorted(self.by_name.items())
        )


def load(root: str | Path = "/") -> CdiDevices:
    """Return the devices that the files below ``root`` describe. A file that cannot be read is left out."""
    found: dict[str, CdiDevice] = {}
    notes: list[str] = []
    for folder in FOLDERS:
        here: dict[str, CdiDevice] = {}
        conflicts: dict[str, list[str]] = {}
        for device in _of_folder(Path(root), folder, notes):
            if device.name in here:
                conflicts.setdefault(device.name, [here[device.name].file]).append(device.file)
            else:
                here[device.name] = device
        for name, files in conflicts.items():
            notes.append(f"CDI device {name} is left out: {' and '.join(files)} describe it; keep one of them")
        found = {name: device for name, device in {**found, **here}.items() if name not in conflicts}
    return CdiDevices(found, tuple(notes))


def parse(content: Any, file: str) -> tuple[CdiDevice, ...]:
    """Return the devices of a file's ``content``, decoded from JSON or YAML. ValueError for other content."""
    error = next(iter(sorted(_VALIDATOR.iter_errors(content), key=lambda each: list(map(str, each.path)))), None)
    if error is not None:
        raise ValueError(f"{error.json_path}: {error.message[:200]}")
    common = _edits(content.get("containerEdits") or {})
    return tuple(
        CdiDevice(f"{content['kind']}={device['name']}", file, _edits(device["containerEdits"]), common)
        for device in content["devices"]
    )


def _of_folder(root: Path, folder: str, notes: list[str]) -> Iterator[CdiDevice]:
    try:
        paths = sorted(path for path in (root / folder).iterdir() if path.suffix in _READERS)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        notes.append(f"/{folder} cannot be listed, so its CDI devices are left out: {exc.strerror}")
        return
    for path in paths:
        file = f"/{folder}/{path.name}"
        try:
            yield from parse(_READERS[path.suffix](path.read_text()), file)
        except (OSError, ValueError, yaml.YAMLError) as exc:
            words = " ".join(str(exc).split())
            notes.append(f"CDI file {file} is left out, since it is not understood: {words}")


def _edits(record: Mapping[str, Any]) -> Edits:
    nodes = (
        DeviceNode(each["path"], each.get("hostPath") or each["path"], each.get("permissions") or "rwm")
        for each in record.get("deviceNodes", ())
    )
    mounts = (
        CdiMount(each["hostPath"], each["containerPath"], tuple(each.get("options", ())), each.get("type", ""))
        for each in record.get("mounts", ())
    )
    hooks = (f"hook {each['hookName']} ({each['path']})" for each in record.get("hooks", ()))
    unknown = sorted(name for name, value in record.items() if name not in _EDITS["properties"] and value)
    return Edits(
        nodes=tuple(nodes),
        environment=dict(each.split("=", 1) for each in record.get("env", ())),
        mounts=tuple(mounts),
        gids=tuple(record.get("additionalGids", ())),
        others=(*hooks, *unknown),
    )
