# SPDX-License-Identifier: Apache-2.0
"""The containers of a capsule that do not all have one placement: what each asks for, and what is planned for them.

Containers without a placement of their own follow ``spec.placement`` together, as they do without such others. Those
of the shared pool are one part of the plan, whoever they follow. Every other container with a placement is a part.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zun.api import image_properties, microversion, numa
from zun.api.microversion import Version
from zun.api.schemas import capsules as schemas
from zun.common import exceptions
from zun.common.mounts import Mount, memory_mib
from zun.common.states import Kind
from zun.image.driver import ServiceImage
from zun.objects.placement import CONTAINERS, INITS, MEMBER_SAME, MEMBERS, TITLE, VOLUMES, placement_request
from zun.topology import CPUPolicy, amounts
from zun.topology.request import MemberSame

Fields = dict[str, Any]
Placements = Mapping[str, Fields]
"""By the place of a container in the template (``spec.containers.0``), its own placement with ``cpu_policy``."""

Most = Callable[[Sequence[Fields], str], Any]
"""Returns the most that containers, in order of starting, have of ``cpu`` or ``memory`` at one time."""


def own_placements(
    containers: Mapping[str, Mapping[str, Any]],
    placed: Mapping[str, Any],
    version: Version,
    images: Mapping[str, ServiceImage],
) -> tuple[Placements, Fields]:
    """Return the own placements with what the images ask, and ``placed`` with the hints of these images.

    Unless the container or its image names a ``cpu_policy``, it is that of ``placed``, the placement of the capsule.
    """
    found: dict[str, Fields] = {}
    hints = placed.get("hints") or {}
    for where, given in containers.items():
        if not given.get("placement"):
            continue
        microversion.require_for(f"template.{where}.placement", version, microversion.MEMBER_PLACEMENT)
        if not where.startswith("spec.containers."):
            raise wrong(f"{where}.placement: init containers follow spec.placement. Leave it out")
        try:
            mine = schemas.MEMBER_PLACEMENT(given["placement"])
        except exceptions.SchemaValidationError as exc:
            raise exceptions.SchemaValidationError(detail=f"template: {where}.placement: {exc}") from None
        if where in images:
            mine = _with_image(where, {**mine, "hints": hints}, images[where])
            hints = mine.pop("hints", None) or {}
        found[where] = {"cpu_policy": placed.get("cpu_policy", CPUPolicy.SHARED), **mine}
    return found, {**placed, "hints": hints} if hints else dict(placed)


def _with_image(where: str, mine: Fields, image: ServiceImage) -> Fields:
    try:
        fields, sources = image_properties.asks(image)
        for field, value in fields.items():
            if field not in schemas.MEMBER_FIELDS:
                raise exceptions.InvalidValue(
                    f"its property {sources[field]} asks for {value}, which no container with a placement of its own "
                    "in a capsule can have"
                )
        return image_properties.joined(mine, image)
    except exceptions.InvalidValue as exc:
        raise wrong(f"{where}.image: {str(exc).rstrip('.')}") from None


def _stored_placement(where: str, mine: Mapping[str, Any], member: Mapping[str, Any]) -> Fields:
    """Return the placement to store on a container with one of its own. ``member`` has its checked amounts."""
    try:
        return numa.placement({**mine, "cpu": member["cpu"], "memory": member["memory"]})
    except exceptions.InvalidValue as exc:
        raise wrong(f"{where}.placement.{str(exc).rstrip('.')}") from None


def planned(
    placed: Mapping[str, Any], own: Placements, rows: Mapping[str, Fields], volumes: Sequence[Mount], most: Most
) -> Fields:
    """Return ``cpu``, ``memory``, ``cpu_policy`` and ``placement`` of a capsule whose containers differ.

    ``rows`` are those of the containers by their place in the template, in order of starting. The own placements are
    added to them. Init containers run in the place of those that follow ``placed``, so that these have enough for both,
    as ``most`` says. Of ``volumes``, each in memory is claimed with a container that writes it.
    """
    for where, mine in own.items():
        rows[where]["placement"] |= _stored_placement(where, mine, rows[where])
    policy, records = placed.get("cpu_policy", CPUPolicy.SHARED), []
    if policy != CPUPolicy.DEDICATED:
        numa.placement(placed)  # refuses what is about dedicated CPUs
    elif own.keys() == rows.keys() and (named := [name for name in schemas.PLACED if placed.get(name) is not None]):
        raise wrong(f"spec.placement.{named[0]}: no container follows it, because each has a placement of its own")
    follow = [where for where in rows if where not in own]
    pooled = [where for where, row in rows.items() if row["cpu_policy"] == CPUPolicy.SHARED]
    groups = [[where] for where in own if where not in pooled]
    together = [follow, pooled] if policy == CPUPolicy.DEDICATED else [pooled]
    places = [*groups, *filter(None, together)]
    for group in places:
        records.append(_record(rows, group, most))
    _add_volumes(records, [[rows[where] for where in group] for group in places], volumes)
    if policy == CPUPolicy.DEDICATED and follow:
        record = records[len(groups)]
        record["placement"] |= numa.placement({**placed, **record})
    request: Fields = {MEMBERS: records}
    if placed.get(MEMBER_SAME) not in (None, MemberSame.NONE):
        request[MEMBER_SAME] = str(placed[MEMBER_SAME])
    policies = {record["cpu_policy"] for record in records}
    whole: Fields = {
        "cpu": amounts.exact(sum(record["cpu"] for record in records)),
        "memory": sum(record["memory"] for record in records),
        "cpu_policy": policies.pop() if len(policies) == 1 else CPUPolicy.MIXED,
        "placement": request,
    }
    try:
        placement_request(whole)
    except ValueError as exc:
        raise wrong(f"spec.placement: {str(exc).replace('member_same', 'same')}") from None
    return whole


def _record(rows: Mapping[str, Fields], group: Sequence[str], most: Most) -> Fields:
    """Return the record of what is planned for the containers at the places ``group``."""
    serving = [where for where, row in rows.items() if row["kind"] == Kind.MEMBER]
    some = [rows[where] for where in group]
    devices = [each for row in some for each in row["placement"].get("devices", ())]
    own = some[0]["placement"] if len(some) == 1 else {}
    record: Fields = {
        "cpu_policy": some[0]["cpu_policy"],
        "cpu": most(some, "cpu"),
        "memory": most(some, "memory"),
        "placement": {**own, **({"devices": devices} if devices else {})},
        TITLE: _title([row["name"] for row in some]),
        CONTAINERS: [serving.index(where) for where in group if where in serving],
    }
    return {**record, INITS: True} if len(record[CONTAINERS]) < len(group) else record


def _title(names: Sequence[str]) -> str:
    """Return the name of containers planned together, for messages. Example: ``capsule-web-log and 2 more``."""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _add_volumes(records: Sequence[Fields], groups: Sequence[Sequence[Fields]], volumes: Sequence[Mount]) -> None:
    """Add each volume in memory to the record of containers that write it, since its pages are on their memory nodes.

    ``groups`` are the containers of each record. Of several the first record takes it: containers with a placement of
    their own come first. Huge pages cannot be a volume's, so the record must be in ordinary pages. If nobody in such a
    record writes the volume, those who read it take it, else the first.
    """
    ordinary = [
        (record, group)
        for record, group in zip(records, groups, strict=True)
        if record["placement"].get("mem_page_size") in (None, "small")
    ]
    for volume in volumes:
        if mib := memory_mib([volume]):
            if not ordinary:
                raise wrong("spec.volumes: a volume in memory needs a container whose memory is in ordinary pages")
            target, _ = max(ordinary, key=lambda each: _use(each[1], volume))
            target["memory"] += mib
            target[VOLUMES] = [*target.get(VOLUMES, ()), volume.number]


def _use(group: Sequence[Fields], volume: Mount) -> int:
    """Return 2 if one of the containers writes the volume, 1 if they only read it, and 0 if none mounts it."""
    mounts = [each for row in group for each in row["mounts"] or () if each.get("number") == volume.number]
    return 0 if not mounts else 1 if all(each.get("read_only") for each in mounts) else 2


def wrong(reason: str) -> exceptions.InvalidValue:
    """Return the error for a template. ``reason`` begins with the path of the member."""
    return exceptions.InvalidValue(f"template: {reason}.")
