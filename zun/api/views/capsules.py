# SPDX-License-Identifier: Apache-2.0
"""Responses about capsules, with their containers."""

import datetime
from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.microversion import Version, v1
from zun.api.views import containers, links, members, times
from zun.common.states import Kind
from zun.nouns import container as noun
from zun.objects.container import published_ports

NOUN = "capsules"
_RENAMED = v1(32)


class _Capsule(TypedDict):
    uuid: str
    links: list[links.Link]
    user_id: str | None
    project_id: str | None
    created_at: str | None
    updated_at: str | None
    addresses: dict[str, Any]
    status: str | None
    status_reason: str | None
    annotations: dict[str, Any]
    cpu: float | None
    memory: str
    containers: list[containers.Container]
    init_containers: list[containers.Container]
    restart_policy: str | dict[str, str] | None
    host: NotRequired[str | None]
    name: NotRequired[Annotated[str | None, _RENAMED]]
    labels: NotRequired[Annotated[dict[str, str], _RENAMED]]
    # Until then:
    meta_name: NotRequired[str | None]
    meta_labels: NotRequired[dict[str, str]]
    volumes_info: NotRequired[dict[str, Any]]
    containers_uuids: NotRequired[list[str]]
    init_containers_uuids: NotRequired[list[str]]
    capsule_version: NotRequired[str]
    cpu_policy: NotRequired[Annotated[str | None, microversion.PLACEMENT]]
    published_ports: NotRequired[Annotated[dict[str, dict[str, Any]], microversion.NETWORKS]]


Capsule = Annotated[
    members.Shown, members.Answer(noun.Container, "Capsule", only=containers.PLACED | containers.TRAITS, own=_Capsule)
]


class Capsules(TypedDict):
    capsules: list[Capsule]
    next: str | None


def show(
    row: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
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
    shown: dict[str, Any] = {
        "uuid": row["uuid"],
        "links": links.item(base_url, NOUN, row["uuid"]),
        "user_id": row["user_id"],
        "project_id": row["project_id"],
        "created_at": times.of_resource(row["created_at"]),
        "updated_at": times.of_resource(row["updated_at"]),
        "addresses": row["addresses"] or {},
        "status": row["status"],
        "status_reason": row["status_reason"],
        "annotations": row["annotations"] or {},
        "cpu": row["cpu"],
        "memory": str(row["memory"]),
        "containers": _containers(members, Kind.MEMBER, version, now, visible),
        "init_containers": _containers(members, Kind.INIT, version, now, visible),
        "restart_policy": restart.get("Name") if version < _RENAMED else restart,
    }
    if host:
        shown["host"] = row["host"]
    if version < _RENAMED:
        shown["meta_name"], shown["meta_labels"] = name, labels
        shown["volumes_info"], shown["capsule_version"] = {}, ""
        shown["containers_uuids"], shown["init_containers_uuids"] = [], []
    else:
        shown["name"], shown["labels"] = name, labels
    if version >= microversion.PLACEMENT:
        shown["cpu_policy"] = row["cpu_policy"]
        shown |= containers.inside(row, containers.PLACED)
    if version >= microversion.TRAITS:
        shown |= containers.inside(row, containers.TRAITS)
    if version >= microversion.NETWORKS:
        shown["published_ports"] = published_ports(row["exposed_ports"])
    return shown


def _containers(
    members: Sequence[Mapping[str, Any]], kind: Kind, version: Version, now: datetime.datetime, visible: Set[str]
) -> list[containers.Container]:
    own = [row for row in members if row["kind"] == kind]
    return containers.page(containers.columns(own, visible), version, now=now, visible=visible)
