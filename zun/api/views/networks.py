# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, times

NOUN = "networks"


class Network(TypedDict):
    uuid: str
    name: str | None
    project_id: str
    user_id: str | None
    network_id: str
    neutron_net_id: str
    shared: NotRequired[Annotated[bool, microversion.NETWORKS]]
    subnets: NotRequired[Annotated[list[dict[str, str]], microversion.NETWORKS]]
    created_at: NotRequired[Annotated[str | None, microversion.NETWORKS]]
    updated_at: NotRequired[Annotated[str | None, microversion.NETWORKS]]
    links: NotRequired[list[links.Link]]


class NetworkList(TypedDict):
    networks: list[Network]
    next: str | None


def show(row: Mapping[str, Any], version: Version, base_url: str | None = None) -> Network:
    """Return a network, with links if ``base_url`` is given: a list has none.

    Clients expect the id of a Neutron network. Without Neutron the network's own uuid stands there.
    """
    shown: Network = {
        "uuid": row["uuid"],
        "name": row["name"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "network_id": row["uuid"],
        "neutron_net_id": row["neutron_net_id"] or row["uuid"],
    }
    if version < microversion.NETWORKS:
        return shown
    shown["shared"] = bool(row["shared"])
    shown["subnets"] = row["subnets"]
    shown["created_at"] = times.of_resource(row["created_at"])
    shown["updated_at"] = times.of_resource(row["updated_at"])
    if base_url is not None:
        shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown
