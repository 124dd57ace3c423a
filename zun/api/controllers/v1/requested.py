# SPDX-License-Identifier: Apache-2.0
"""What a create request, and a question about one, may ask for only under conditions."""

from collections.abc import Mapping
from typing import Any

from zun.api.policy import Access
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import mounts_of, volume_names
from zun.db import compute_nodes as db_nodes
from zun.db import volumes as db_volumes


def check_policies(access: Access, given: Mapping[str, Any]) -> None:
    """Some fields are not for everybody, whatever else the request says."""
    if given.get("runtime") is not None:
        access.require("container:create:runtime")
    if "privileged" in given:
        access.require("container:create:privileged")
    if given.get("image_pull_policy"):
        access.require("container:create:image_pull_policy")
    if given.get("host") is not None:
        access.require("container:create:requested_destination")


def host_of(given: Mapping[str, Any]) -> dict[str, str]:
    """``host`` of the request, by its name, when it asks for one. Raises RequestedHostNotFound for none of ours."""
    host = given.get("host")
    if host is None:
        return {}
    try:
        return {"host": str(db_nodes.find(host)["hostname"])}
    except exceptions.ComputeNodeNotFound:
        raise exceptions.RequestedHostNotFound(host=host) from None


def host_of_volumes(context: RequestContext, fields: Mapping[str, Any]) -> dict[str, str]:
    """``host`` of the request when a volume that it mounts is on one: the container must go there, whoever asks.

    Raises Conflict when its volumes are on different hosts, or not on the one that it asks for.
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
