# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host containers may get: the operator's ``device_spec``, in the JSON form of Nova's option."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from zun.topology.devices import Device, DeviceType
from zun.topology.ranges import SHARES

_BY_NAME = (DeviceType.PATH, DeviceType.CDI)
_PARTS = ("domain", "bus", "slot", "function")
_ANY = ("", "*")
_OF_PCI = ("vendor_id", "product_id", "class", "address", "devname")
_MATCHING = (*_OF_PCI, "part", "path", "cdi")
_TAGS_OF_PCI = ("physical_network", "trusted")
_TAGS = ("physical_network", "trusted", "resource_class", "traits", "allow_in_use", "shared")
#: Tags of Nova without a meaning here: drivers are not changed, and containers do not migrate.
_IDLE_TAGS = ("managed", "live_migratable")
#: Tags of Nova that ask for what this service does not do.
_REFUSED_TAGS = {
    "remote_managed": "ports of a DPU's own switch are not for containers",
    "one_time_use": "a device is given again after its container",
}


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Conditions on a device, and the tags of the devices that meet them. A condition that is None holds for all.

    With ``path``, ``cdi`` or ``part`` the spec is for devices of this type only, and else for whole PCI devices only.
    The other conditions on a part are conditions on its GPU.
    """

    vendor_id: str | None = None
    product_id: str | None = None
    class_id: str | None = None
    """First digits of the class: ``03`` is every display controller, ``0302`` every 3D controller."""
    address: tuple[str, str, str, str] | None = None
    """Regular expressions for domain, bus, slot and function. They also select the virtual functions of a match."""
    devname: str | None = None
    """Name of a network interface of the device. It also selects the virtual functions of a match."""
    part: str | None = None
    """Pattern of the profile of a part of a GPU: ``1g.10gb``, ``cpx_*``. ``*`` also is a part of unknown profile."""
    path: str | None = None
    """Pattern of a file under ``/dev``, as of a shell: ``/dev/loop[0-9]*``. A star does not match a slash."""
    cdi: str | None = None
    """Pattern of a CDI name: ``vendor.com/class=*``."""
    physical_network: str | None = None
    trusted: bool = False
    resource_class: str | None = None
    traits: tuple[str, ...] = ()
    allow_in_use: bool = False
    """True if containers may get a device that the host itself uses."""
    shared: int = 1
    """Number of containers that may have a device at the same time."""

    def matches(self, device: Device) -> bool:
        """Return whether the device meets every condition."""
        if self.path is not None:
            return device.type is DeviceType.PATH and PurePosixPath(device.address).match(self.path)
        if self.cdi is not None:
            return device.type is DeviceType.CDI and fnmatch.fnmatchcase(device.address, self.cdi)
        if device.type in (DeviceType.PATH, DeviceType.CDI) or not self._has_size(device):
            return False
        addresses = (device.address if device.type is not DeviceType.PART else None, device.physical)
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and (self.class_id is None or device.class_id.startswith(self.class_id))
            and (self.devname is None or self.devname in (*device.interfaces, *device.physical_interfaces))
            and any(map(self._has_address, filter(None, addresses)))
        )

    @property
    def conditions(self) -> str:
        """Return the conditions for people: ``vendor_id 10de, class 03``."""
        given = {"vendor_id": self.vendor_id, "product_id": self.product_id, "class": self.class_id}
        given |= {"address": self.address and "{}:{}:{}.{}".format(*self.address)}
        given |= {"devname": self.devname, "part": self.part, "path": self.path, "cdi": self.cdi}
        return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None) or "any PCI device"

    def tagged(self, device: Device) -> Device:
        """Return the device with the tags of this spec. A part keeps the class of its profile if the spec has none."""
        return replace(
            device,
            physical_network=self.physical_network,
            trusted=self.trusted,
            resource_class=self.resource_class or device.resource_class,
            traits=self.traits,
            in_use=None if self.allow_in_use else device.in_use,
            shared=self.shared,
        )

    def _has_size(self, device: Device) -> bool:
        """Return whether the device is a part of the wanted profile, or a whole device if no part is wanted."""
        if self.part is None or device.type is not DeviceType.PART:
            return self.part is None and device.type is not DeviceType.PART
        return fnmatch.fnmatchcase(device.profile or "", self.part.lower())

    def _has_address(self, address: str) -> bool:
        if self.address is None:
            return True
        return all(map(re.fullmatch, self.address, re.split("[:.]", address)))


def given(devices: Iterable[Device], specs: Iterable[DeviceSpec]) -> tuple[Device, ...]:
    """Return the devices that match a spec, each with the tags of the first spec that it matches."""
    specs = tuple(specs)
    pairs = ((device, next((spec for spec in specs if spec.matches(device)), None)) for device in devices)
    return tuple(spec.tagged(device) for device, spec in pairs if spec is not None)


def without_used(devices: Iterable[Device], held: Collection[str]) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices without those that the host itself uses, and a note on each that is left out.

    ``held`` are addresses of devices that containers hold. These stay, because a container may do with a disk of its
    own what looks like a use of the host.
    """
    kept, notes = [], []
    for device in devices:
        if device.in_use is None or device.address in held:
            kept.append(replace(device, in_use=None))
        else:
            notes.append(
                f"device {device.address} is not offered, because the host uses it: {device.in_use}. To offer it all "
                'the same, add "allow_in_use": "true" to its line of device_spec'
            )
    return tuple(kept), tuple(notes)


def shareable(devices: Iterable[Device], held: Collection[str]) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices without those that the operator shares and that one container alone can have, with notes.

    Of those, the devices that containers hold (``held``, addresses) stay, and no further container gets one.
    """
    devices = tuple(devices)
    whole = {device.counted_as for device in devices if device.shared == 1}
    kept, notes = [], []
    for device in devices:
        reason = _why_alone(device) if device.shared > 1 else None
        if device.shared > 1 and device.counted_as in whole:
            reason = f"whole devices have its resource_class {device.counted_as} too"
        if reason is None:
            kept.append(device)
        else:
            notes.append(
                f"device {device.address} is not offered: containers cannot share it, because {reason}. Remove shared "
                "from its line of device_spec, and give the line another resource_class or none"
            )
            kept += [replace(device, shared=1)] if device.address in held else []
    return tuple(kept), tuple(notes)


def _why_alone(device: Device) -> str | None:
    """Return why only one container at a time can have the device, or None if containers can share it."""
    if device.disk is not None or device.class_id.startswith("01"):
        return f"{device.disk or 'it'} is a disk, and containers that write to one disk destroy each other's data"
    if device.interfaces or device.class_id.startswith("02"):
        return "its network interfaces are moved into one container"
    if device.for_one_program:
        return f"VFIO ({device.driver or device.nodes[0]}) gives it to one program at a time"
    return None


def check_classes(specs: Iterable[DeviceSpec]) -> None:
    """Raise ValueError if a resource class is for shared and for whole devices: nobody gets a share by accident."""
    specs = tuple(specs)
    whole = {spec.resource_class: spec for spec in specs if spec.shared == 1 and spec.resource_class is not None}
    for spec in specs:
        if spec.shared > 1 and spec.resource_class in whole:
            other = whole[spec.resource_class]
            raise ValueError(
                f"resource_class {spec.resource_class} is for shared devices ({spec.conditions}) and for whole ones "
                f"({other.conditions}): give the shared ones a class of their own, such as {spec.resource_class}_SHARED"
            )


def without_doubles(
    devices: Iterable[Device], held: Iterable[Device] = ()
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices without those that give what other devices give, and a note on each that is left out.

    Names of CDI that share a file are several devices as long as each has another file of its own: every name of an AMD
    GPU has ``/dev/kfd``. A name or a file is left out in three cases: it has a file of a PCI device, it has all files
    of another name, or others have all its files. Names with fewer files go first, so single devices win over their
    sum: ``vendor.com/gpu=0`` and ``gpu=1`` over ``gpu=all``.

    PCI devices, and parts of them, all stay. Two of them may share a file: an IOMMU group has one.

    ``held`` are devices that containers hold, as the machine has them. The operator may have changed the lines since:
    what a container holds by one name is not offered by another. So held devices go before all others, also a name of
    CDI before the GPU that has its files.
    """
    devices, holds = tuple(devices), {each.address: each for each in held}
    left_out: dict[str, str] = {}
    by_held_names = {node: each for each in holds.values() if each.type in _BY_NAME for node in each.nodes}
    for device in devices:
        file = next((node for node in device.nodes if node in by_held_names), None)
        if device.type not in _BY_NAME and device.address not in holds and file is not None:
            left_out[device.address] = _double(device, by_held_names[file], file, holds)
    others = [each for each in devices if each.address not in holds and each.address not in left_out]
    known = (*holds.values(), *others)
    holders = {node: each for each in reversed(known) if each.type not in _BY_NAME for node in each.nodes}
    holders = {**by_held_names, **holders}
    by_name = [each for each in others if each.type in _BY_NAME]
    for device in sorted(by_name, key=lambda each: (each.type is DeviceType.CDI, len(each.nodes))):
        file = _given_already(device, holders)
        if file is None:
            holders = {**dict.fromkeys(device.nodes, device), **holders}
        else:
            left_out[device.address] = _double(device, holders[file], file, holds)
    kept = tuple(each for each in devices if each.address not in left_out)
    return kept, tuple(left_out[each.address] for each in devices if each.address in left_out)


def _double(device: Device, other: Device, file: str, held: Mapping[str, Device]) -> str:
    """Return the note on a device that is left out because ``other`` has its file. ``held`` are devices by address."""
    why = "which a container holds" if other.address in held else "which is"
    return f"device {device.address} is not offered: device {other.address}, {why}, has its file {file} too"


def _given_already(device: Device, holders: Mapping[str, Device]) -> str | None:
    """Return a file by which the device gives what another device gives, or None. ``holders`` are devices by file."""
    held = [node for node in device.nodes if node in holders]
    for node in held:
        other = holders[node]
        if other.type not in _BY_NAME or set(other.nodes) <= set(device.nodes):
            return node
    return held[0] if held and len(held) == len(device.nodes) else None


def parse_values(text: str) -> tuple[DeviceSpec, ...]:
    """Return the specs of one value of the option: a JSON object, or a list of JSON objects as Nova takes it.

    Raise ValueError as ``parse``, with the number of the object in the list.
    """
    value = _json(text)
    if not isinstance(value, list):
        return (_spec(value),)
    specs = []
    for number, each in enumerate(value, 1):
        try:
            specs.append(_spec(each))
        except ValueError as error:
            raise ValueError(f"object {number} of the list: {error}") from None
    return tuple(specs)


def parse(text: str) -> DeviceSpec:
    """Return the spec of a JSON object. Raise ValueError, with the member, for what is no spec.

    Example: ``{"vendor_id": "10de", "address": "0000:81:*.*", "resource_class": "CUSTOM_GPU"}``. An address is a text
    whose parts are hexadecimal numbers, ``*`` or empty; or an object with a regular expression for each of ``domain``,
    ``bus``, ``slot`` and ``function``.
    """
    return _spec(_json(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _spec(members: Any) -> DeviceSpec:
    if not isinstance(members, dict):
        raise ValueError("it must be a JSON object")
    members = _without_other_tags(members)
    if unknown := sorted(set(members) - {*_MATCHING, *_TAGS}):
        raise ValueError(f"{unknown[0]} is not known; the members are {', '.join((*_MATCHING, *_TAGS))}")
    if not set(members) & set(_MATCHING):
        raise ValueError(f"it selects nothing; give at least one of {', '.join(_MATCHING)}")
    if "address" in members and "devname" in members:
        raise ValueError("give address or devname, not both")
    _check_kind(members)
    _check_shared(members)
    return DeviceSpec(
        vendor_id=_digits(members, "vendor_id", "[0-9a-f]{4}", "four hexadecimal digits or *"),
        product_id=_digits(members, "product_id", "[0-9a-f]{4}", "four hexadecimal digits or *"),
        class_id=_digits(members, "class", "([0-9a-f]{2}){1,3}", "two, four or six hexadecimal digits or *"),
        address=_address(members["address"]) if "address" in members else None,
        devname=_text(members, "devname"),
        part=_text(members, "part"),
        path=_path(_text(members, "path")),
        cdi=_cdi_name(_text(members, "cdi")),
        physical_network=_text(members, "physical_network"),
        trusted=_boolean(members, "trusted"),
        resource_class=_resource_class(_text(members, "resource_class")),
        traits=_traits(members.get("traits", "")),
        allow_in_use=_boolean(members, "allow_in_use"),
        shared=_number_of_shares(members),
    )


def _without_other_tags(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members without tags of Nova that change nothing here. Raise ValueError for one that would."""
    for name in members.keys() & {*_IDLE_TAGS, *_REFUSED_TAGS}:
        value = str(members[name]).lower()
        if value not in (*_YES, *_NO):
            raise ValueError(f"{name} must be yes or no, got {members[name]!r}")
        if name in _REFUSED_TAGS and value in _YES:
            raise ValueError(f"{name} cannot be served: {_REFUSED_TAGS[name]}. Remove it, or set it to no")
    return {name: value for name, value in members.items() if name not in (*_IDLE_TAGS, *_REFUSED_TAGS)}


_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def _check_kind(members: Mapping[str, Any]) -> None:
    """Check that a spec for files or CDI names has the members of this kind only, and a class to ask for them by."""
    for kind in ("path", "cdi"):
        if kind in members:
            if others := sorted(set(members) & {*_MATCHING, *_TAGS_OF_PCI} - {kind}):
                raise ValueError(f"give {kind} or {others[0]}, not both")
            if "resource_class" not in members:
                raise ValueError(f"{kind} needs a resource_class: containers ask for the devices by it")


def _check_shared(members: Mapping[str, Any]) -> None:
    """Check that a spec of shared devices has a class of its own, and is not for what one container alone can have."""
    if "shared" not in members:
        return
    if "resource_class" not in members:
        raise ValueError("shared needs a resource_class: only containers that ask for this class get a share")
    if _OF_WHOLE_DEVICES.match(resource_class(str(members["resource_class"]))):
        raise ValueError(
            f"shared needs a resource_class of its own, got {members['resource_class']!r}: whole devices have such ones"
        )
    if network := next((name for name in ("devname", "physical_network") if name in members), None):
        raise ValueError(f"give shared or {network}, not both: the interfaces of a card are moved into one container")
    for digits, reason in (("01", "disk has one writer"), ("02", "network card has interfaces for one container")):
        if str(members.get("class", "")).lower().removeprefix("0x").startswith(digits):
            raise ValueError(f"shared cannot be served for class {members['class']}: a {reason}. Remove shared")


#: The resource classes of devices whose spec names none (``Device.counted_as``, ``gpu_parts.part_class``).
_OF_WHOLE_DEVICES = re.compile(r"CUSTOM_(PCI_|DEVICE_|MIG(_\d|$)|XCP(_[A-Z]PX|$))")


def _number_of_shares(members: Mapping[str, Any]) -> int:
    value = members.get("shared", 1)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    number = int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
    if "shared" in members and not 2 <= number <= SHARES.most:
        raise ValueError(
            f"shared must be a number of containers from 2 to {SHARES.most}, got {value!r}. Without shared a container "
            "has a device alone"
        )
    return number


def _path(pattern: str | None) -> str | None:
    if pattern is not None and (not pattern.startswith("/dev/") or ".." in pattern.split("/")):
        raise ValueError(f"path must be a file under /dev, such as /dev/hwrng or /dev/loop[0-9]*, got {pattern!r}")
    return pattern


def _cdi_name(pattern: str | None) -> str | None:
    if pattern is not None and not re.fullmatch(r"[^/=]+/[^/=]+=[^/=]+", pattern):
        raise ValueError(f"cdi must look like vendor.com/class=name or vendor.com/class=*, got {pattern!r}")
    return pattern


def _text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise ValueError(f"{name} must be a text, got {value!r}")
    return value


def _digits(members: Mapping[str, Any], name: str, pattern: str, wanted: str) -> str | None:
    value = members.get(name)
    if value is None or value == "*":
        return None
    digits = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    if not re.fullmatch(pattern, digits):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return digits


def _boolean(members: Mapping[str, Any], name: str) -> bool:
    value = str(members.get(name, False)).lower()
    if value not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, got {members[name]!r}")
    return value == "true"


def _resource_class(name: str | None) -> str | None:
    return None if name is None else resource_class(name)


def resource_class(name: str) -> str:
    """Return a class of Placement for any name, as Nova does: ``gpu-a100`` is CUSTOM_GPU_A100."""
    normal = re.sub("[^A-Z0-9_]", "_", name.upper())
    return normal if normal.startswith("CUSTOM_") or normal in _STANDARD_CLASSES else f"CUSTOM_{normal}"


_STANDARD_CLASSES = ("PCI_DEVICE", "PGPU", "VGPU", "FPGA", "SRIOV_NET_VF")


def _traits(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"traits must be names between commas, got {value!r}")
    found = tuple(sorted({name.strip().upper() for name in names} - {""}))
    if wrong := next((name for name in found if not re.fullmatch("[A-Z0-9_]{1,255}", name)), None):
        raise ValueError(f"traits must have letters, digits and underscores only, got {wrong!r}")
    return found


def _address(value: Any) -> tuple[str, str, str, str]:
    """Return regular expressions for the four parts of an address."""
    if isinstance(value, dict):
        if unknown := sorted(set(value) - set(_PARTS)):
            raise ValueError(f"address has {', '.join(_PARTS)}, not {unknown[0]}")
        parts = [value.get(name, ".*") for name in _PARTS]
        for name, part in zip(_PARTS, parts, strict=True):
            try:
                re.compile(part)
            except (re.error, TypeError):
                raise ValueError(f"address: {name} must be a regular expression, got {part!r}") from None
    elif isinstance(value, str):
        parts = [".*" if part in _ANY else part for part in _parts_of_text(value)]
    else:
        raise ValueError(f"address must be a text or an object, got {value!r}")
    domain, bus, slot, function = parts
    return domain, bus, slot, function


def _parts_of_text(text: str) -> list[str]:
    """Return domain, bus, slot and function of an address, each in full width, ``*`` or empty.

    Parts may be missing at the front, and so may the function: ``81:00.0``, ``.1`` and ``5:0`` for bus 05, slot 00.
    """
    if text in _ANY:
        return ["*"] * 4
    place, dot, function = text.lower().partition(".")
    numbers = place.split(":") if place else []
    if len(numbers) > 3 or "." in function or not (dot or len(numbers) > 1):
        raise ValueError(f"address must look like 0000:81:00.0 or *:81:*.*, got {text!r}")
    parts = ["*"] * (3 - len(numbers)) + numbers + [function if dot else "*"]
    for index, (name, width, most) in enumerate(zip(_PARTS, (4, 2, 2, 1), (0xFFFFFFFF, 0xFF, 0x1F, 7), strict=True)):
        part = parts[index]
        if part in _ANY:
            continue
        if not re.fullmatch("[0-9a-f]{1,8}", part):
            raise ValueError(f"address: {name} must be hexadecimal digits or *, got {part!r}")
        if int(part, 16) > most:
            raise ValueError(f"address: {name} must be at most {most:x}, got {part!r}")
        parts[index] = f"{int(part, 16):0{width}x}"
    return parts
