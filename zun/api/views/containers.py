# SPDX-License-Identifier: Apache-2.0
"""A container as clients see it."""

import datetime
from collections.abc import Mapping, Set
from typing import Any

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.schemas.placement import FIELDS as PLACEMENT_FIELDS
from zun.api.views import links, times
from zun.api.views.status_detail import status_detail

NOUN = "containers"

# Shown only to whom policy ``container:get_one:<name>`` allows it; absent for others.
RESTRICTED = ("host", "runtime", "image_pull_policy", "privileged")


def show(
    row: Mapping[str, Any],
    version: Version,
    *,
    now: datetime.datetime,
    visible: Set[str],
    base_url: str | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """The representation of a row at ``now`` (UTC). ``visible`` are the RESTRICTED members to show.

    Links only with a ``base_url``: a list has none. A container just created is ``fresh``: what it was not
    given is null and becomes an empty list or object later.
    """
    memory = row["memory"]
    shown = {
        "uuid": row["uuid"],
        "name": row["name"],
        "image": row["image"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "cpu": row["cpu"],
        "cpu_policy": row["cpu_policy"],
        "memory": None if memory is None else str(memory),
        "disk": row["disk"] or 0,
        "command": row["command"] or (None if fresh else []),
        "entrypoint": row["entrypoint"] or (None if fresh else []),
        "environment": row["environment"] or (None if fresh else {}),
        "labels": row["labels"] or (None if fresh else {}),
        "addresses": row["addresses"] or (None if fresh else {}),
        "ports": row["ports"] or (None if fresh else []),
        "security_groups": row["security_groups"] or (None if fresh else []),
        "restart_policy": row["restart_policy"] or (None if fresh else {}),
        "healthcheck": row["healthcheck"] or (None if fresh else {}),
        "status": row["status"],
        "task_state": row["task_state"],
        "status_reason": row["status_reason"],
        "status_detail": status_detail(row, now),
        "workdir": row["workdir"],
        "hostname": row["hostname"],
        "interactive": bool(row["interactive"]),
        "tty": bool(row["tty"]),
        "auto_remove": bool(row["auto_remove"]),
        "auto_heal": bool(row["auto_heal"]),
        "image_driver": row["image_driver"],
        "registry_id": row["registry_id"],
        "created_at": times.of_resource(row["created_at"]),
        "updated_at": times.of_resource(row["updated_at"]),
    }
    for name in RESTRICTED:
        if name in visible:
            shown[name] = row[name]
    if version >= microversion.PLACEMENT:
        shown |= placement(row)
    if version >= microversion.GROUPS:
        shown["group_uuid"] = row["group_uuid"]
    if version >= microversion.NETWORKS:
        shown["published_ports"] = published_ports(row)
    if base_url is not None:
        shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown


def published_ports(row: Mapping[str, Any]) -> dict[str, Any]:
    """Exposed port -> where on its host it is reached, of those that are published."""
    return {port: where for port, where in (row["exposed_ports"] or {}).items() if where.get("host_port")}


def placement(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of NUMA and what is held; null where nothing was asked or is held."""
    asked, held = row["placement"] or {}, row["cpuset"] or {}
    return {
        **{name: asked.get(name) for name in PLACEMENT_FIELDS},
        "cpuset_cpus": held.get("cpuset_cpus"),
        "cpuset_mems": held.get("cpuset_mems"),
        "cpuset_isolation": held.get("cpuset_isolation"),
    }


def networks(addresses: Mapping[str, Any], version: Version) -> list[dict[str, Any]]:
    """The ``addresses`` of a container as its list of networks: one item a port, below 1.18 one an address."""
    if version < microversion.v1(18):
        return [
            {
                "net_id": network,
                "subnet_id": each["subnet_id"],
                "port_id": each["port"],
                "version": each["version"],
                "ip_address": each["addr"],
            }
            for network, items in addresses.items()
            for each in items
        ]
    return [
        {
            "net_id": network,
            "port_id": items[0]["port"],
            "fixed_ips": [
                {"subnet_id": each["subnet_id"], "version": each["version"], "ip_address": each["addr"]}
                for each in items
            ],
        }
        for network, items in addresses.items()
        if items
    ]
