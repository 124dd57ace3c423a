# SPDX-License-Identifier: Apache-2.0
"""A capsule as clients see it, with its containers."""

import datetime
from collections.abc import Mapping, Sequence, Set
from typing import Any

from zun.api import microversion
from zun.api.microversion import Version, v1
from zun.api.views import containers, links, times
from zun.common.kinds import Kind

NOUN = "capsules"
_RENAMED = v1(32)


def show(
    row: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    version: Version,
    *,
    now: datetime.datetime,
    host: bool,
    visible: Set[str],
    base_url: str,
) -> dict[str, Any]:
    """``host``: show where it is. ``visible`` are the restricted members of containers to show."""
    shown = {
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
    }
    if host:
        shown["host"] = row["host"]
    name, labels, restart = row["name"] or None, row["labels"] or {}, row["restart_policy"] or {}
    if version < _RENAMED:
        shown |= {"meta_name": name, "meta_labels": labels, "restart_policy": restart.get("Name")}
        shown |= {"volumes_info": {}, "containers_uuids": [], "init_containers_uuids": [], "capsule_version": ""}
    else:
        shown |= {"name": name, "labels": labels, "restart_policy": restart}
    if version >= microversion.PLACEMENT:
        shown |= {"cpu_policy": row["cpu_policy"], **containers.placement(row)}
    if version >= microversion.NETWORKS:
        shown["published_ports"] = containers.published_ports(row)
    return shown


def _containers(
    members: Sequence[Mapping[str, Any]], kind: Kind, version: Version, now: datetime.datetime, visible: Set[str]
) -> list[dict[str, Any]]:
    return [containers.show(row, version, now=now, visible=visible) for row in members if row["kind"] == kind]
