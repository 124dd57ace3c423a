# SPDX-License-Identifier: Apache-2.0
"""Responses about capsules, with their containers."""

import datetime
from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, TypedDict

from zun.api.microversion import Version, v1
from zun.api.views import containers, links, members
from zun.common.states import Kind
from zun.nouns import container as noun
from zun.objects.container import published_ports

NOUN = "capsules"
_RENAMED = v1(32)
_BEFORE = ("meta_name", "meta_labels", "volumes_info", "capsule_version", "containers_uuids", "init_containers_uuids")


Capsule = Annotated[
    members.Shown,
    members.Answer(noun.Capsule, containers=list[containers.Container], init_containers=list[containers.Container]),
]


class Capsules(TypedDict):
    capsules: list[Capsule]
    next: str | None


def show(
    row: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    version: Version,
    *,
    now: datetime.datetime,
    host: bool,
    visible: Set[str],
    base_url: str,
) -> Capsule:
    """Return the representation of a capsule. ``host``: include its host. ``visible`` are the restricted members of
    containers.
    """
    name, labels, restart = row["name"] or None, row["labels"] or {}, row["restart_policy"] or {}
    before: dict[str, Any] = dict.fromkeys(_BEFORE, ...)
    if version < _RENAMED:
        before = dict(zip(_BEFORE, (name, labels, {}, "", [], []), strict=True))
    return members.show(
        noun.Capsule,
        row,
        version,
        links=links.item(base_url, NOUN, row["uuid"]),
        addresses=row["addresses"] or {},
        annotations=row["annotations"] or {},
        memory=str(row["memory"]),
        containers=_containers(rows, Kind.MEMBER, version, now, visible),
        init_containers=_containers(rows, Kind.INIT, version, now, visible),
        restart_policy=restart.get("Name") if version < _RENAMED else restart,
        host=row["host"] if host else ...,
        name=name,
        labels=labels,
        published_ports=published_ports(row["exposed_ports"]),
        **before,
    )


def _containers(
    rows: Sequence[Mapping[str, Any]], kind: Kind, version: Version, now: datetime.datetime, visible: Set[str]
) -> list[containers.Container]:
    own = [row for row in rows if row["kind"] == kind]
    return containers.page(containers.columns(own, visible), version, now=now, visible=visible)
