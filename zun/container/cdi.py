# SPDX-License-Identifier: Apache-2.0
"""Read files of the Container Device Interface: names of devices, and the edits of a container that give them to it.

Source of the rules: the CDI specification 1.1.0 (SPEC.md of github.com/cncf-tags/container-device-interface) and what
the library of this project checks when an engine loads a file. A name is ``vendor.com/class=name``. A file in a later
folder replaces the names of earlier folders. A name that two files of one folder describe is in conflict: no container
gets its device.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from zun.topology.devices import Device, DeviceType

FOLDERS = ("/etc/cdi", "/var/run/cdi")  # the lowest priority first

#: Versions of the specification whose files engines load, the oldest first.
_VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
#: Permissions of a device file that is in the container and that its control group does not let it use.
_NO_PERMISSIONS = "none"

_STRING = {"type": "string"}
_TEXT = {"type": "string", "minLength": 1}
_FILE = {"type": "string", "pattern": "^/"}
_STRINGS = {"type": "array", "items": _STRING}
_ENVIRONMENT = {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}}
_UINT32 = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_ANNOTATIONS = {"type": "object", "additionalProperties": _STRING, "since": "0.6.0"}


def _record(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object. ``since`` of a property is the version of the specification that brought it."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _records(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _record(required, **properties)}


_NODE = {
    "path": _FILE,
    "hostPath": {**_FILE, "since": "0.5.0"},
    "type": {"enum": ["", "b", "c", "u", "p"]},
    "major": _INT64,
    "minor": _INT64,
    "fileMode": _UINT32,
    "permissions": {"type": "string", "pattern": rf"^([rwm]*|{_NO_PERMISSIONS})\Z"},
    "uid": _UINT32,
    "gid": _UINT32,
}
_RDT = {
    "closID": {"type": "string", "maxLength": 4095, "pattern": r"^(/|(?!\.{1,2}\Z)[^/\n]*)\Z"},
    "l3CacheSchema": _STRING,
    "memBwSchema": _STRING,
    "schemata": {**_STRINGS, "since": "1.1.0"},
    "enableMonitoring": {"type": "boolean", "since": "1.1.0"},
    "enableCMT": {"type": "boolean", "until": "1.0.0"},
    "enableMBM": {"type": "boolean", "until": "1.0.0"},
}
_MOUNT = {
    "hostPath": _TEXT,
    "containerPath": _TEXT,
    "options": _STRINGS,
    "type": {**_STRING, "since": "0.4.0"},
}
_HOOK = {
    "hookName": {"enum": list(_HOOKS)},
    "path": _FILE,
    "args": _STRINGS,
    "env": _ENVIRONMENT,
    "timeout": {"type": "integer", "minimum": 1},
}
_EDITS = _record(
    [],
    env=_ENVIRONMENT,
    deviceNodes=_records(["path"], **_NODE),
    mounts=_records(["hostPath", "containerPath"], **_MOUNT),
    hooks=_records(["hookName", "path"], **_HOOK),
    additionalGids={"type": "array", "items": _UINT32, "since": "0.7.0"},
    intelRdt={**_record([], **_RDT), "since": "0.7.0"},
    netDevices={
        **_records(["hostInterfaceName", "name"], hostInterfaceName=_TEXT, name=_TEXT),
        "since": "1.1.0",
    },
)
_NAME = "[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
_PREFIX, _CLASS = (f"[A-Za-z](?:[A-Za-z0-9_.-]{{0,{longest - 2}}}[A-Za-z0-9])?" for longest in (253, 63))
_DEVICE = {
    "name": {"type": "string", "pattern": rf"^{_NAME}\Z"},
    "annotations": _ANNOTATIONS,
    "containerEdits": _EDITS,
}
_SPEC = _record(
    ["cdiVersion", "kind", "devices"],
    cdiVersion=_STRING,
    kind={"type": "string", "pattern": rf"^{_PREFIX}/{_CLASS}\Z"},
    annotations=_ANNOTATIONS,
    devices={**_records(["name", "containerEdits"], **_DEVICE), "minItems": 1},
    containerEdits=_EDITS,
)
_VALIDATOR = jsonschema.Draft202012Validator(_SPEC)


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
    """Changes of a container. ``others`` names in words every change that needs the runtime's own CDI.

    ``interfaces`` are network interfaces of the host that the container gets.
    """

    nodes: tuple[DeviceNode, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    mounts: tuple[CdiMount, ...] = ()
    gids: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()


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
            Device(
                name,
                type=DeviceType.CDI,
                nodes=tuple(node.host_path for node in found.edits.nodes),
                interfaces=(*found.edits.interfaces, *found.common.interfaces),
            )
            for name, found in sorted(self.by_name.items())
        )


def load(root: str | Path = "/", folders: Collection[str] = FOLDERS) -> CdiDevices:
    """Return the devices that the files of ``folders`` below ``root`` describe.

    A file that engines refuse is left out. So is a name in conflict, also where a later folder has the name once.
    """
    found: dict[str, CdiDevice] = {}
    notes: list[str] = []
    left_out: set[str] = set()
    for folder in folders:
        here: dict[str, CdiDevice] = {}
        conflicts: dict[str, list[str]] = {}
        for device in _of_folder(Path(root), folder, notes):
            if device.name in here:
                conflicts.setdefault(device.name, [here[device.name].file]).append(device.file)
            else:
                here[device.name] = device
        for name, files in conflicts.items():
            notes.append(f"CDI device {name} is left out: {' and '.join(files)} describe it; keep one of them")
        found |= here
        left_out |= conflicts.keys()
    return CdiDevices({name: device for name, device in found.items() if name not in left_out}, tuple(notes))


def parse(content: Any, file: str) -> tuple[CdiDevice, ...]:
    """Return the devices of a file's ``content``, decoded from JSON or YAML. ValueError for what engines refuse."""
    content = _spelled(content, _SPEC)
    error = next(iter(sorted(_VALIDATOR.iter_errors(content), key=lambda each: list(map(str, each.path)))), None)
    if error is not None:
        raise ValueError(f"{error.json_path}: {error.message[:200]}")
    _check_version(content)
    names = [device["name"] for device in content["devices"]]
    if twice := _twice(names):
        raise ValueError(f"$.devices: two devices have the name {twice!r}")
    for place, edits in _all_edits(content):
        for member in ("hostInterfaceName", "name"):
            if twice := _twice(each[member] for each in edits.get("netDevices", ())):
                raise ValueError(f"{place}.netDevices: two have the {member} {twice!r}")
        if place != "$.containerEdits" and not any(value or name == "intelRdt" for name, value in edits.items()):
            raise ValueError(f"{place} is empty: each device needs edits of its own")
    common = _edits(content.get("containerEdits", {}))
    return tuple(
        CdiDevice(f"{content['kind']}={device['name']}", file, _edits(device["containerEdits"]), common)
        for device in content["devices"]
    )


def _spelled(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value as the schema spells it.

    The library's decoder takes the name of a member in any case, null for an unset member, and a number for a text:
    ``{"additionalGIDs": null, "NAME": 0}`` is ``{"name": "0"}``.
    """
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties") or {}
        names = {name.lower(): name for name in properties}
        given = [(names.get(str(name).lower(), str(name)), each) for name, each in value.items()]
        members = ((name, each) for name, each in _once(given).items() if each is not None)
        return {name: _spelled(each, properties.get(name, others)) for name, each in members}
    if isinstance(value, list):
        return [_spelled(each, schema.get("items", {})) for each in value]
    if schema.get("type") == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def _check_version(content: Mapping[str, Any]) -> None:
    """Raise ValueError if the version is unknown, or does not have a member or a name that the file uses."""
    version = content["cdiVersion"].removeprefix("v")
    if version not in _VERSIONS:
        raise ValueError(f"$.cdiVersion: {content['cdiVersion']!r} is not known; known are {', '.join(_VERSIONS)}")
    used = [*_used(content, _SPEC, "$")]
    needs = [(schema["since"], path) for path, schema in used if "since" in schema]
    if "." in content["kind"].partition("/")[2]:
        needs.append(("0.6.0", "$.kind: a class with a dot"))
    needs += [("0.5.0", f"device name {each['name']!r}") for each in content["devices"] if each["name"][0].isdigit()]
    age = _VERSIONS.index
    least, what = max(needs, key=lambda need: age(need[0]), default=(version, ""))
    if age(least) > age(version):
        raise ValueError(f"{what} needs cdiVersion {least} or later, got {version}")
    if gone := [path for path, schema in used if "until" in schema and age(schema["until"]) < age(version)]:
        raise ValueError(f"{gone[0]} is not a member of cdiVersion {version}")


def _used(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the schema of each member that is set. An empty list or text is unset."""
    inner: list[tuple[str, Any, Mapping[str, Any]]] = []
    if isinstance(value, dict):
        inner = [(f"{path}.{name}", each, schema.get("properties", {}).get(name, {})) for name, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{index}]", each, schema.get("items", {})) for index, each in enumerate(value)]
    for place, each, its in inner:
        if each or "properties" in its:
            yield place, its
        yield from _used(each, its, place)


def _all_edits(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "$.containerEdits", content.get("containerEdits", {})
    for index, device in enumerate(content["devices"]):
        yield f"$.devices[{index}].containerEdits", device["containerEdits"]


def _twice(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _of_folder(root: Path, folder: str, notes: list[str]) -> Iterator[CdiDevice]:
    try:
        paths = sorted((root / folder.lstrip("/")).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        notes.append(f"{folder} cannot be listed, so its CDI devices are left out: {exc.strerror}")
        return
    for path in paths:
        if not path.name.endswith((".json", ".yaml")) or path.is_dir():
            continue
        file = f"{folder}/{path.name}"
        try:
            yield from parse(_decoded(path.read_text()), file)
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as exc:
            words = " ".join(str(exc).split())
            notes.append(f"CDI file {file} is left out, since it is not understood: {words}")


def _decoded(text: str) -> Any:
    """Return the content of a JSON or YAML text. The library reads each file as YAML, whatever its name says."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        return next(yaml.load_all(text, _Loader), None)  # the library reads the first document


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if twice := _twice(name for name, _ in pairs):
        raise ValueError(f"{twice} is given twice")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """A loader that refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if twice := _twice(str(key.value) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"):
            raise ValueError(f"{twice} is given twice")
        return super().construct_mapping(node, deep)


def _edits(record: Mapping[str, Any]) -> Edits:
    nodes = [
        DeviceNode(each["path"], each.get("hostPath") or each["path"], each.get("permissions") or "rwm")
        for each in record.get("deviceNodes", ())
    ]
    mounts = (
        CdiMount(each["hostPath"], each["containerPath"], tuple(each.get("options", ())), each.get("type", ""))
        for each in record.get("mounts", ())
    )
    return Edits(
        nodes=tuple(nodes),
        environment=dict(each.split("=", 1) for each in record.get("env", ())),
        mounts=tuple(mounts),
        gids=tuple(gid for gid in record.get("additionalGids", ()) if gid),  # the specification ignores 0
        others=tuple(_others(record)),
        interfaces=tuple(each["hostInterfaceName"] for each in record.get("netDevices") or ()),
    )


def _others(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words each edit that Docker's request for a container has no member for."""
    for node in record.get("deviceNodes", ()):
        if node.get("type") == "p":
            yield f"the pipe {node['path']}"
        if node.get("permissions") == _NO_PERMISSIONS:
            yield f"permissions none of {node['path']}"
        yield from (f"{name} of {node['path']}" for name in ("fileMode", "uid", "gid") if name in node)
    yield from (f"hook {each['hookName']} ({each['path']})" for each in record.get("hooks", ()))
    yield from (name for name in ("intelRdt", "netDevices") if record.get(name) or record.get(name) == {})
