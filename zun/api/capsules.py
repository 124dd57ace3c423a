# SPDX-License-Identifier: Apache-2.0
"""Turn the checked template of a capsule into the fields of its row and of the rows of its containers. No I/O."""

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from zun.api import capsule_members, creation, devices, image_properties, microversion, mounts, numa, traits
from zun.api.capsule_members import wrong
from zun.api.microversion import Version
from zun.api.schemas import Schema, scalars
from zun.api.schemas import capsules as schemas
from zun.api.schemas.devices import FIELDS as DEVICE_FIELDS
from zun.api.schemas.devices import MOST_KINDS
from zun.api.settings import Range, Settings
from zun.common import exceptions
from zun.common.mounts import Kind as MountKind
from zun.common.mounts import Mount, disk_gib, memory_mib
from zun.common.probes import GRACE, MEMBERS, PROBES, SIDECAR, Probe
from zun.common.states import Kind, Status
from zun.common.units import MIB_PER_GIB
from zun.image.driver import DOCKER, ServiceImage
from zun.objects.placement import MEMBER_SAME
from zun.topology import CPUPolicy, amounts
from zun.topology.request import MemberSame

INIT_RETRIES = "10"  # of init containers in a capsule that is always restarted: they must end some time
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows that a template asks for. ``members`` are in the order in which they are started."""

    capsule: Fields
    members: tuple[Fields, ...]


def asked(
    template: Mapping[str, Any],
    uuid: str,
    *,
    version: Version,
    settings: Settings,
    pull_policy: bool,
    choose: random.Random,
    images: Mapping[str, ServiceImage] = MappingProxyType({}),
) -> Asked:
    """Return the fields of capsule ``uuid``, without its owner, and of its containers. Raises InvalidValue, naming the
    field.

    ``pull_policy`` says whether the caller may choose when images are pulled; otherwise the choice is ignored.
    ``images`` are the images of the image service, by the place of their container: ``spec.containers.0``.
    """
    containers = containers_of(template)
    following = {where: image for where, image in images.items() if not containers[where].get("placement")}
    placed = _joined(_placement(template["spec"].get("placement"), version), following)
    own, placed = capsule_members.own_placements(containers, placed, version, images)
    asking = next((image for image in images.values() if image_properties.asks(image)[0]), None)
    with image_properties.blamed(asking):
        return _asked(
            template, uuid, placed, own, version=version, settings=settings, pull_policy=pull_policy, choose=choose
        )


def containers_of(template: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the containers of the template by their place in it, in the order in which they are started."""
    return {
        f"spec.{part}.{number}": given
        for part in ("initContainers", "containers")
        for number, given in enumerate(template["spec"].get(part) or ())
    }


def _asked(
    template: Mapping[str, Any],
    uuid: str,
    placed: Mapping[str, Any],
    own: capsule_members.Placements,
    *,
    version: Version,
    settings: Settings,
    pull_policy: bool,
    choose: random.Random,
) -> Asked:
    """Do as ``asked``. ``placed`` is what the template and the images say of the place, ``own`` what they say of the
    place of single containers.
    """
    spec, metadata = template["spec"], template["metadata"]
    policy = placed.get("cpu_policy", CPUPolicy.SHARED)
    restart = schemas.RESTART_POLICIES[spec.get("restartPolicy", "Always")]
    _check_versions(spec, version)
    volumes = _volumes(spec.get("volumes") or (), settings)
    name, seconds = metadata.get("name"), spec.get("terminationGracePeriodSeconds")
    grace = {} if seconds is None else {GRACE: seconds}

    used = {given.get("name") for given in containers_of(template).values()}

    def called(given: Mapping[str, Any]) -> str:
        end = given.get("name") if version >= microversion.POD_MEMBERS else None  # the reference ignores it
        if end is None:
            while (end := creation.generated_name(choose).removesuffix("-container")) in used:
                pass
            used.add(end)
        return f"capsule-{name or uuid}-{end}"[:255]

    def members_of(part: str) -> list[Fields]:
        return [
            {
                **_member(where, given, own.get(where, {"cpu_policy": policy}), volumes, settings),
                "placement": _devices(where, given, kind, version, settings),
                "kind": kind,
                "name": called(given),
                "image_pull_policy": scalars.PULL.convert(given.get("imagePullPolicy")) if pull_policy else None,
                "restart_policy": _restart_of(kind, schemas.RESTART_POLICIES[again] if again else restart),
                "request": {"run": True, **grace, **_watched(where, given, kind)},
            }
            for number, given in enumerate(spec.get(part) or ())
            for where, again in ((f"spec.{part}.{number}", given.get("restartPolicy")),)
            for kind in (_kind(part, again),)
        ]

    members = [*members_of("initContainers"), *members_of("containers")]
    _check_names(members, version)
    _check_mounted(volumes, members)
    mounted = list(volumes.values())
    whole: Fields = {"cpu_policy": policy, "cpu": _most(members, "cpu")}
    whole["memory"] = _most(members, "memory") + memory_mib(mounted)
    if own or placed.get(MEMBER_SAME) not in (None, MemberSame.NONE):
        rows = dict(zip(containers_of(template), members, strict=True))
        whole = capsule_members.planned(placed, own, rows, mounted, _most)
    else:
        whole["placement"] = numa.placement({**placed, **whole})
    serving = [each for each in members if each["kind"] == Kind.MEMBER]
    exposed: dict[str, Any] | None = {port: {} for each in serving for port in each["exposed_ports"] or ()} or None
    for where, field, value in (
        ("metadata.labels", "labels", metadata.get("labels")),
        ("metadata.annotations", "annotations", metadata.get("annotations")),
        ("spec.containers: ports", "exposed_ports", exposed),
    ):
        _check_bytes(where, field, value)
    capsule = {
        "uuid": uuid,
        "name": name or "",
        "image": settings.sandbox_image,
        "image_driver": DOCKER,
        "command": list(settings.sandbox_command) or None,
        **whole,
        "disk": 0,
        "placement": {**whole["placement"], **traits.asked(placed), **_all_devices(members)},
        "volume_disk": disk_gib(mounted),
        "mounts": [mount.to_dict() for mount in mounted] or None,
        "exposed_ports": exposed,
        "labels": scalars.LABELS.convert(metadata.get("labels")),
        "annotations": metadata.get("annotations"),
        "restart_policy": {"Name": restart, "MaximumRetryCount": "0"},
        "status": Status.CREATING,
        "request": {
            "run": True,
            **grace,
            "hints": {**(placed.get("hints") or {}), **creation.host_hints(settings)},
            "availability_zone": template.get("availabilityZone") or settings.default_schedule_zone,
            "host": None,
        },
    }
    return Asked(capsule, tuple(members))


def _kind(part: str, restart_policy: str | None) -> Kind:
    """Return the kind of a container. An init container that is always restarted is a sidecar: it goes on."""
    return Kind.INIT if part == "initContainers" and restart_policy != "Always" else Kind.MEMBER


def _most(members: Sequence[Fields], what: str) -> Any:
    """Return the most that ``members``, in their order of starting, have of ``what`` at one time.

    An init container runs beside the sidecars that were started before it, and beside nothing else.
    """
    before: Any = 0
    most: list[Any] = [0]
    for member in members:
        if member["kind"] == Kind.INIT:
            most.append(before + member[what])
        else:
            before += member[what]
    return amounts.exact(max(*most, before))


def _check_versions(spec: Mapping[str, Any], version: Version) -> None:
    """Raise InvalidParamInVersion for a part of the template that is newer than ``version``."""
    new = ["spec.terminationGracePeriodSeconds"] if spec.get("terminationGracePeriodSeconds") is not None else []
    new += [f"spec.volumes.{at}.emptyDir" for at, each in enumerate(spec.get("volumes") or ()) if "emptyDir" in each]
    for part in ("initContainers", "containers"):
        for number, given in enumerate(spec.get(part) or ()):
            new += [
                f"spec.{part}.{number}.{name}"
                for name in ("restartPolicy", *MEMBERS)
                if given.get(name) is not None
            ]
    for path in new:
        microversion.require_for(f"template.{path}", version, microversion.POD_MEMBERS)


def _watched(where: str, given: Mapping[str, Any], kind: Kind) -> Fields:
    """Return what ``request`` of a container says of its probes, and whether it is a sidecar."""
    asked = {name: given[name] for name in MEMBERS if given.get(name) is not None}
    for name, probe in asked.items():
        if kind is Kind.INIT:
            raise wrong(f"{where}.{name}: an init container runs to its end and has no probes. With restartPolicy "
                         "Always it is a sidecar, which may have them")
        try:
            Probe.of(MEMBERS[name], probe)
        except ValueError as exc:
            raise wrong(f"{where}.{name}: {exc}") from None
    found: Fields = {PROBES: {str(MEMBERS[name]): probe for name, probe in asked.items()}} if asked else {}
    return {**found, SIDECAR: True} if kind is Kind.MEMBER and where.startswith("spec.initContainers") else found


def _check_names(members: Sequence[Fields], version: Version) -> None:
    if version < microversion.POD_MEMBERS:
        return
    names = [member["name"] for member in members]
    for name in names:
        if names.count(name) > 1:
            raise wrong(f"two containers would be called {name}. Give each a name of its own")


def _placement(given: Mapping[str, Any] | None, version: Version) -> dict[str, Any]:
    if not given:
        return {}
    microversion.require_for("template.spec.placement", version, microversion.PLACEMENT)
    if given.get("same") is not None:
        microversion.require_for("template.spec.placement.same", version, microversion.MEMBER_PLACEMENT)
    for name in traits.FIELDS:
        if given.get(name) is not None:
            microversion.require_for(f"template.spec.placement.{name}", version, microversion.TRAITS)
    try:
        return schemas.PLACEMENT(given)
    except exceptions.SchemaValidationError as exc:
        raise exceptions.SchemaValidationError(detail=f"template: spec.placement: {exc}") from None


def _joined(placed: Mapping[str, Any], images: Mapping[str, ServiceImage]) -> dict[str, Any]:
    """Return the placement with what the images ask of the one place that all containers share.

    Raises InvalidValue for a contradiction, and for what capsules cannot have.
    """
    found = {**placed}
    for where, image in images.items():
        try:
            found = image_properties.joined(found, image)
            fields, sources = image_properties.asks(image)
        except exceptions.InvalidValue as exc:
            before = "spec.placement and the images before"
            raise wrong(f"{where}.image, joined with {before}: {str(exc).rstrip('.')}") from None
        for field, value in fields.items():
            if field == "mem_page_size" or value == CPUPolicy.MIXED:
                asks = f"its property {sources[field]} asks for {value}"
                raise wrong(f"{where}.image: {asks}, which no capsule can have without placement of the container")
    return found


def _devices(where: str, given: Mapping[str, Any], kind: Kind, version: Version, settings: Settings) -> dict[str, Any]:
    """Return the devices that one container asks for, as they are stored on a container."""
    if not given.get("devices"):
        return {}
    microversion.require_for(f"template.{where}.devices", version, microversion.CAPSULE_DEVICES)
    if kind is Kind.INIT:
        raise wrong(f"{where}.devices: an init container gets no devices. Ask for them in spec.containers")
    try:
        entries = DEVICE_FIELDS["devices"].convert(given["devices"])
        return devices.asked({"devices": entries}, settings.device_aliases)
    except (ValueError, exceptions.InvalidValue) as exc:
        raise wrong(f"{where}.{str(exc).rstrip('.')}") from None


def _all_devices(members: Sequence[Fields]) -> dict[str, Any]:
    """Return the devices of all containers, for the one claim of the capsule: in the order of ``members``."""
    every = [each for member in members for each in member["placement"].get("devices", ())]
    if len(every) > MOST_KINDS:
        raise wrong(f"spec.containers: {len(every)} entries of devices are too many; a capsule may have {MOST_KINDS}")
    return {"devices": every} if every else {}


def _restart_of(kind: Kind, policy: str) -> dict[str, str]:
    if kind is Kind.INIT and policy == "always":
        return {"Name": "on-failure", "MaximumRetryCount": INIT_RETRIES}
    return {"Name": policy, "MaximumRetryCount": "0"}


def _member(
    where: str, given: Mapping[str, Any], placed: Mapping[str, Any], volumes: Mapping[str, Mount], settings: Settings
) -> Fields:
    requests = (given.get("resources") or {}).get("requests") or {}
    ports = [
        (_port(f"{where}.ports.{number}", each), each.get("protocol", "TCP").lower())
        for number, each in enumerate(given.get("ports") or ())
    ]
    mounted = [_mount(where, each, volumes) for each in given.get("volumeMounts") or ()]
    targets = [mount.destination for mount in mounted]
    if len(set(targets)) < len(targets):
        raise wrong(f"{where}.volumeMounts: a mountPath is given twice")
    words = [word or "" for word in (*(given.get("command") or ()), *(given.get("args") or ()))]
    exposed: dict[str, Any] | None = {f"{number}/{protocol}": {} for number, protocol in ports} or None
    _check_bytes(f"{where}.command and args", "command", words)
    _check_bytes(f"{where}.env", "environment", given.get("env"))
    _check_bytes(f"{where}.ports", "exposed_ports", exposed)
    return {
        "image": given["image"],
        "image_driver": settings.default_image_driver,
        "command": words or None,
        "environment": given.get("env"),
        "workdir": given.get("workDir"),
        **_size(where, requests, placed["cpu_policy"], settings),
        "disk": 0,
        "cpu_policy": placed["cpu_policy"],
        "exposed_ports": exposed,
        "ports": sorted({number for number, _ in ports}) or None,
        "mounts": [mount.to_dict() for mount in mounted] or None,
        "interactive": scalars.B3.convert(given.get("stdin", False)),
        "tty": scalars.B3.convert(given.get("tty", False)),
        "status": Status.CREATING,
    }


def _size(where: str, requests: Mapping[str, Any], policy: str, settings: Settings) -> dict[str, Any]:
    """Return ``cpu`` and ``memory`` of one container. A dedicated container must name both."""
    label = f"{where}.resources.requests"
    try:
        given = _requests(settings.cpu, settings.memory)(requests)
    except exceptions.SchemaValidationError as exc:
        raise wrong(f"{label}.{exc}") from None
    if policy != CPUPolicy.SHARED:
        for name in ("cpu", "memory"):
            if name not in given:
                raise wrong(f"{label}.{name}: it is missing, and a container of dedicated CPUs needs it")
        if policy == CPUPolicy.DEDICATED and given["cpu"] != int(given["cpu"]):
            raise wrong(f"{label}.cpu: {amounts.text(given['cpu'])} is not a whole number, which dedicated CPUs need")
    return {"cpu": settings.default_cpu, "memory": settings.default_memory, **given}


@functools.cache
def _requests(cpu: Range, memory: Range) -> Schema:
    """Convert ``requests`` by the same rules as the size of a single container."""
    return Schema({"cpu": scalars.cpus(cpu), "memory": scalars.amount(memory, "MiB")})


def _port(where: str, given: Mapping[str, Any]) -> int:
    number = int(given["containerPort"])
    if not 1 <= number <= 65535:
        raise wrong(f"{where}.containerPort: it must be a whole number from 1 to 65535, got {number}")
    return number


def _volumes(given: Sequence[Mapping[str, Any]], settings: Settings) -> dict[str, Mount]:
    """Return the capsule's volumes by name in the template, in the form in which the sandbox mounts them."""
    found: dict[str, Mount] = {}
    for number, each in enumerate(given):
        name, where = each["name"], f"spec.volumes.{number}"
        if name in found:
            raise wrong(f"{where}: the name {name} is given twice")
        sources = [source for source in ("cinder", "local", "emptyDir", "volume") if source in each]
        if sources == ["cinder"] and not settings.cinder:
            raise wrong(
                f"{where}.cinder: this installation has no Cinder. Use 'local' with a size, or 'volume' with the name "
                "of a volume of the project"
            )
        if len(sources) != 1:
            raise wrong(f"{where}: it needs one of cinder, local, emptyDir, volume")
        if sources == ["local"]:
            mount = _sized(f"{where}.local.size", MountKind.LOCAL, name, each["local"]["size"], settings)
        elif sources == ["emptyDir"]:
            empty = each["emptyDir"] or {}
            if "sizeLimit" not in empty:
                raise wrong(f"{where}.emptyDir.sizeLimit: it is missing. Give GiB, or MiB as in '64M'")
            kind = MountKind.MEMORY if empty.get("medium") == "Memory" else MountKind.LOCAL
            mount = _sized(f"{where}.emptyDir.sizeLimit", kind, name, empty["sizeLimit"], settings)
        elif sources == ["cinder"]:
            mount = _cinder(f"{where}.cinder", f"/volumes/{name}", each["cinder"])
        else:
            mount = Mount(MountKind.VOLUME, f"/volumes/{name}", source=each["volume"]["name"])
        found[name] = replace(mount, number=number)
    return found


def _sized(where: str, kind: MountKind, name: str, size: Any, settings: Settings) -> Mount:
    """Return a new volume of a fixed size, on disk or in memory."""
    highest = int(settings.disk.highest) * MIB_PER_GIB if kind is MountKind.LOCAL else int(settings.memory.highest)
    try:
        return Mount(kind, f"/volumes/{name}", size_mib=mounts.size_mib(size, 1, highest, suffixes=True))
    except ValueError as exc:
        raise wrong(f"{where}: '{str(size)[:32]}' {exc}") from None


def _cinder(where: str, target: str, given: Mapping[str, Any]) -> Mount:
    ident, size = given.get("volumeID"), given.get("size")
    if (ident is None) == (size is None):
        raise wrong(f"{where}: it needs either volumeID or size")
    owned = scalars.B3.convert(given.get("autoRemove", False))
    if size is None:
        if owned:
            raise wrong(f"{where}.autoRemove: only a new volume, one with a size, is deleted with the capsule")
        return Mount(MountKind.CINDER, target, source=ident)
    if size != int(size) or size < 1:
        raise wrong(f"{where}.size: it must be a whole number of GiB, at least 1, got {size}")
    return Mount(MountKind.CINDER, target, size_mib=int(size) * MIB_PER_GIB, owned=owned)


def _mount(where: str, given: Mapping[str, Any], volumes: Mapping[str, Mount]) -> Mount:
    volume = volumes.get(given["name"])
    if volume is None:
        raise wrong(f"{where}.volumeMounts: spec.volumes has no volume {given['name'][:64]}")
    try:
        destination = mounts.destination(given["mountPath"])
        return replace(volume, destination=destination, read_only=scalars.B3.convert(given.get("readOnly", False)))
    except ValueError as exc:
        raise wrong(f"{where}.volumeMounts: mountPath: {exc}") from None


def _check_mounted(volumes: Mapping[str, Mount], members: Sequence[Fields]) -> None:
    used = {record.get("number") for member in members for record in member["mounts"] or ()}
    for name, volume in volumes.items():
        if volume.number not in used:
            raise wrong(f"spec.volumes: no container mounts {name}. Mount it or leave it out")


def _check_bytes(where: str, field: str, value: Any) -> None:
    try:
        scalars.check_bytes(field, value)
    except ValueError as exc:
        raise wrong(f"{where}: {exc}") from None
