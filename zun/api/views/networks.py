# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, times

NOUN = "networks"


def show(row: Mapping[str, Any], version: Version, base_url: str | None = None) -> dict[str, Any]:
    """A network. Links only with a ``base_url``: a list has none.

    Where there is no Neutron, its own uuid is the id that clients expect Neutron to have given.
    """
    shown: dict[str, Any] = {
        "uuid": row["uuid"],
        "name": row["name"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "network_id": row["uuid"],
        "neutron_net_id": row["neutron_net_id"] or row["uuid"],
    }
    if version < microversion.NETWORKS:
        return shown
    shown |= {
        "shared": bool(row["shared"]),
        "subnets": row["subnets"],
        "created_at": times.of_resource(row["created_at"]),
        "updated_at": times.of_resource(row["updated_at"]),
    }
    if base_url is not None:
        shown["links"] = links.item(base_url, NOUN, row["uuid"])
    return shown
