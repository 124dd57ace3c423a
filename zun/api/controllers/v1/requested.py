# SPDX-License-Identifier: Apache-2.0
"""Turn a checked request for a container into the fields of a container, with everything it names looked up.

Create, dry run and capacity share these functions, so that a question has the answer that a create would have.
"""

from collections.abc import Mapping
from typing import Any

from oslo_utils import uuidutils

from zun.api import creation, devices, image_properties, images, microversion, traits
from zun.api.cinder import CinderVolumes, NoCinder
from zun.api.microversion import Version
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.settings import Settings
from zun.common import exceptions, hints
from zun.common.context import RequestContext
from zun.common.mounts import mounts_of, volume_names
from zun.db import compute_nodes as db_nodes
from zun.db import containers as db_containers
from zun.db import groups as db_groups
from zun.db import quotas as db_quotas
from zun.db import registries as db_registries
from zun.db import volumes as db_volumes
from zun.image.driver import ImageService, ServiceImage
from zun.objects.container import QUOTA
from zun.objects.image import OF_GLANCE
from zun.policies.containers import RUNTIME
from zun.topology import CPUPolicy, Isolation


def fields(
    call: Call,
    given: Mapping[str, Any],
    *,
    run: bool,
    settings: Settings,
    service: ImageService | None,
    volumes: CinderVolumes | NoCinder,
) -> dict[str, Any]:
    """Return the fields of the requested container, without its owner and without a generated name.

    ``given`` has passed the schema of the request's version. ``service`` has the images of the driver glance. Raises
    Invalid, naming the field, PolicyNotAuthorized, RegistryNotFound, Conflict if its image and volumes are on different
    hosts, and the errors of ``ImageService.find`` and ``CinderVolumes.look_up``.
    """
    context = call.context
    creation.check_gates(given, call.version)
    if given.get("hints"):
        given = {**given, "hints": _known_hints(given["hints"], call.version)}
    _check_policies(call.access, given)
    driver = given.get("image_driver") or settings.default_image_driver
    found = images.of_service(service, context, driver, given["image"]) if "image" in given else None
    if found is not None:
        given = image_properties.joined(given, found)
    with image_properties.blamed(found):
        made = _fields(call, given, found, run=run, settings=settings)
    volumes.look_up(context, made)
    return made


def _fields(
    call: Call, given: Mapping[str, Any], found: ServiceImage | None, *, run: bool, settings: Settings
) -> dict[str, Any]:
    context, wanted = call.context, given.get("hints") or {}
    made = creation.container_fields(given, run=run, version=call.version, settings=settings)
    made["placement"] = traits.resolved(made["placement"])
    registry = given.get("registry")
    if registry:
        made["registry_id"] = db_registries.find(context, registry)["uuid"]
    request = made["request"]
    request |= _host_of(given)
    request |= host_of_volumes(context, made)
    request["hints"] = _resolved_hints(context, wanted) | creation.host_hints(settings, made["healthcheck"])
    if found is not None:
        request[OF_GLANCE] = found.uuid
    elif "image" in given:
        request |= images.committed_request(context.project_id, given["image"], registry=registry, host=request["host"])
    made["group_uuid"] = request["hints"].get(hints.GROUP)
    return made


def _check_policies(access: Access, given: Mapping[str, Any]) -> None:
    """Raise PolicyNotAuthorized for a field that policy denies to the caller."""
    if given.get("runtime") is not None:
        access.require(f"{RUNTIME}:{given['runtime']}")
    if "privileged" in given:
        access.require("container:create:privileged")
    for name in given.get("capabilities") or ():
        access.require(f"container:create:capability:{name}")
    if given.get("image_pull_policy"):
        access.require("container:create:image_pull_policy")
    if given.get("host") is not None:
        access.require("container:create:requested_destination")


def check_isolation(access: Access, placement: Mapping[str, Any]) -> None:
    """Raise PolicyNotAuthorized if the caller may not create a container or capsule with this isolation.

    Questions skip this check: they hold no CPUs, so they keep none from others.
    """
    if placement.get("cpu_isolation") in _WIDE:
        access.require("container:create:cpu_isolation")


_WIDE = (Isolation.L3, Isolation.NODE)  # beyond the cores of its own CPUs


def charged_later(context: RequestContext, fields: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the members of ``request`` from which a claim charges withheld CPUs and new volumes, known only there.

    Raises OverQuota if the project cannot have as many volumes.
    """
    names, project_id = volume_names(mounts_of(fields)), str(context.project_id)
    if not names and fields["cpu_policy"] == CPUPolicy.SHARED:
        return {}
    if names:
        new = len(names) - len(db_volumes.hosts(project_id, names))
        db_quotas.check(project_id, {"volumes": new}, settings.quota)
    return {QUOTA: {name: settings.quota[name] for name in ("cpu", "volumes")}}


def _host_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return ``host`` of the request if it names one. Raises RequestedHostNotFound for an unknown host."""
    host = given.get("host")
    if host is None:
        return {}
    try:
        return {"host": str(db_nodes.find(host)["hostname"])}
    except exceptions.ComputeNodeNotFound:
        raise exceptions.RequestedHostNotFound(host=host) from None


def host_of_volumes(context: RequestContext, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the host of the named volumes that the container mounts: the container must run there.

    Raises Conflict if the volumes are on different hosts, or on another host than the request names.
    """
    found = db_volumes.hosts(str(context.project_id), volume_names(mounts_of(fields)))
    asked = fields["request"].get("host")
    hosts = {*found.values(), *([asked] if found and asked else ())}
    if len(hosts) > 1:
        raise exceptions.Conflict(
            f"mounts: volumes {', '.join(sorted(found))} and the container cannot be on one host: each volume stays on "
            "the host of the container that first mounted it."
        )
    return {"host": hosts.pop()} if hosts else {}


_NEIGHBOURS = (hints.SAME_HOST, hints.DIFFERENT_HOST)


def _known_hints(asked: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return the hints that mean something at the request's version.

    In Zun's own versions these names are hints of other services, which orchestration sends along. Above, raise
    InvalidParamInVersion for a hint that is newer than the version.
    """
    if version < microversion.GROUPS:
        return {name: value for name, value in asked.items() if not _is_later_hint(name)}
    for name in asked:
        if name.startswith(hints.IMAGE_TRAIT):
            microversion.require_for(f"hints.{name[:64]}", version, microversion.TRAITS)
        if devices.is_hint(name):
            microversion.require_for(f"hints.{name}", version, microversion.DEVICE_REQUESTS)
    return dict(asked)


def _is_later_hint(name: str) -> bool:
    return name in (hints.GROUP, *_NEIGHBOURS) or name.startswith(hints.IMAGE)


def _resolved_hints(context: RequestContext, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints with the uuid of ``group`` and lists of uuids for ``same_host`` and ``different_host``.

    A hint that names nothing would place a container as nobody asked, so InvalidValue is raised for a group that the
    project does not have and for a container that it may not see. Nulls are dropped. Hints with other names pass
    unchanged, for filters that know them.
    """
    found = {name: value for name, value in asked.items() if name not in (hints.GROUP, *_NEIGHBOURS)}
    if asked.get(hints.GROUP) is not None:
        found[hints.GROUP] = _group(context, asked[hints.GROUP])
    for name in _NEIGHBOURS:
        if asked.get(name) is not None:
            found[name] = _neighbours(context, name, asked[name])
    return found


def no_group(ident: Any) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"hints.group: this project has no group '{str(ident)[:255]}'. List its groups with 'openstack appcontainer "
        "group list'."
    )


def _group(context: RequestContext, ident: Any) -> str:
    if not isinstance(ident, str) or not ident:
        raise exceptions.InvalidValue("hints.group must be the uuid or the name of a group.")
    try:
        return str(db_groups.find_for(context.project_id, ident)["uuid"])
    except exceptions.GroupNotFound:
        raise no_group(ident) from None


def _neighbours(context: RequestContext, name: str, value: Any) -> list[str]:
    uuids = value if isinstance(value, list) else [value]
    if not all(isinstance(uuid, str) and uuidutils.is_uuid_like(uuid) for uuid in uuids):
        raise exceptions.InvalidValue(f"hints.{name} must be the uuid of a container or a list of such uuids.")
    wanted = list(dict.fromkeys(uuids))
    missing = set(wanted) - db_containers.visible(context, wanted)
    if missing:
        raise exceptions.InvalidValue(
            f"hints.{name}: container {min(missing)} could not be found. Name another one, or leave it out."
        )
    return wanted
