# SPDX-License-Identifier: Apache-2.0
"""A container as clients see it."""

import datetime
from collections.abc import Mapping, Set
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, times
from zun.api.views.status_detail import status_detail

NOUN = "containers"

# Shown only to whom policy ``container:get_one:<name>`` allows it; absent for others.
RESTRICTED = ("host", "runtime", "image_pull_policy", "privileged")

_Text = str | None
_Placed = Annotated[str | None, microversion.PLACEMENT]
_Amount = Annotated[int | None, microversion.PLACEMENT]
_Amounts = Annotated[list[int] | None, microversion.PLACEMENT]


class Placement(TypedDict):
    """What was asked of NUMA and what is held; null where nothing was asked or is held."""

    cpu_thread_policy: NotRequired[_Placed]
    cpu_isolation: NotRequired[_Placed]
    numa_nodes: NotRequired[_Amount]
    numa_affinity: NotRequired[_Placed]
    numa_cpus: NotRequired[_Amounts]
    numa_mem: NotRequired[_Amounts]
    numa_mempolicy: NotRequired[_Placed]
    mem_page_size: NotRequired[Annotated[str | int | None, microversion.PLACEMENT]]
    cpuset_cpus: NotRequired[_Placed]
    cpuset_mems: NotRequired[_Placed]
    cpuset_isolation: NotRequired[_Placed]


class Container(Placement):
    uuid: str
    name: _Text
    image: _Text
    project_id: _Text
    user_id: _Text
    cpu: float | None
    cpu_policy: _Text
    memory: _Text
    disk: int
    command: list[str] | None
    entrypoint: list[str] | None
    environment: dict[str, str] | None
    labels: dict[str, str] | None
    addresses: dict[str, Any] | None
    ports: list[int] | None
    security_groups: list[str] | None
    restart_policy: dict[str, str] | None
    healthcheck: dict[str, Any] | None
    status: _Text
    task_state: _Text
    status_reason: _Text
    status_detail: _Text
    workdir: _Text
    hostname: _Text
    interactive: bool
    tty: bool
    auto_remove: bool
    auto_heal: bool
    image_driver: _Text
    registry_id: _Text
    created_at: _Text
    updated_at: _Text
    host: NotRequired[str | None]
    runtime: NotRequired[str | None]
    image_pull_policy: NotRequired[str | None]
    privileged: NotRequired[bool]
    group_uuid: NotRequired[Annotated[str | None, microversion.GROUPS]]
    published_ports: NotRequired[Annotated[dict[str, dict[str, Any]], microversion.NETWORKS]]
    links: NotRequired[list[links.Link]]


class Containers(TypedDict):
    containers: list[Container]
    next: str | None


class Executed(TypedDict):
    """Output and exit code, or where to open a terminal."""

    output: str | None
    exit_code: int | None
    exec_id: str | None
    proxy_url: str | None


class Processes(TypedDict):
    Titles: list[str]
    Processes: list[list[str]]


Stats = TypedDict(
    "Stats",
    {
        "CONTAINER": str,
        "CPU %": float,
        "MEM USAGE(MiB)": float,
        "MEM LIMIT(MiB)": float,
        "MEM %": float,
        "BLOCK I/O(B)": str,
        "NET I/O(B)": str,
    },
)


class Archive(TypedDict):
    stat: dict[str, Any]
    data: str


class Committed(TypedDict):
    uuid: str


class Networks(TypedDict):
    """What an item has differs by version: below 1.18 it is one of an address, from there on one of a port."""

    networks: list[dict[str, Any]]


# What ``show`` looks at in a row, besides the RESTRICTED members that are visible.
COLUMNS = (
    *("uuid", "name", "image", "project_id", "user_id", "cpu", "cpu_policy", "memory", "disk", "command", "entrypoint"),
    *("environment", "labels", "addresses", "ports", "security_groups", "restart_policy", "healthcheck", "status"),
    *("task_state", "status_reason", "status_detail", "started_at", "finished_at", "exit_code", "workdir", "hostname"),
    *("interactive", "tty", "auto_remove", "auto_heal", "image_driver", "registry_id", "created_at", "updated_at"),
    *("placement", "cpuset", "group_uuid", "exposed_ports"),
)


def show(
    row: Mapping[str, Any],
    version: Version,
    *,
    now: datetime.datetime,
    visible: Set[str],
    base_url: str | None = None,
    fresh: bool = False,
) -> Container:
    """The representation of a row at ``now`` (UTC). ``visible`` are the RESTRICTED members to show.

    Links only with a ``base_url``: a list has none. A container just created is ``fresh``: what it was not
    given is null and becomes an empty list or object later.
    """
    memory = row["memory"]
    shown: Container = {
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
    if "host" in visible:
        shown["host"] = row["host"]
    if "runtime" in visible:
        shown["runtime"] = row["runtime"]
    if "image_pull_policy" in visible:
        shown["image_pull_policy"] = row["image_pull_policy"]
    if "privileged" in visible:
        shown["privileged"] = row["privileged"]
    if version >= microversion.PLACEMENT:
        shown.update(placement(row))
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


def placement(row: Mapping[str, Any]) -> Placement:
    asked, held = row["placement"] or {}, row["cpuset"] or {}
    return {
        "cpu_thread_policy": asked.get("cpu_thread_policy"),
        "cpu_isolation": asked.get("cpu_isolation"),
        "numa_nodes": asked.get("numa_nodes"),
        "numa_affinity": asked.get("numa_affinity"),
        "numa_cpus": asked.get("numa_cpus"),
        "numa_mem": asked.get("numa_mem"),
        "numa_mempolicy": asked.get("numa_mempolicy"),
        "mem_page_size": asked.get("mem_page_size"),
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
