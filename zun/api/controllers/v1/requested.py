# SPDX-License-Identifier: Apache-2.0
"""What a create request comes to, and a question about one: the fields of a container, under the same conditions."""

from collections.abc import Mapping
from typing import Any

from zun.api import committed, creation, hints
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.settings import Settings
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.mounts import mounts_of, volume_names
from zun.db import compute_nodes as db_nodes
from zun.db import registries as db_registries
from zun.db import volumes as db_volumes


def fields(call: Call, given: Mapping[str, Any], *, run: bool, settings: Settings) -> dict[str, Any]:
    """The fields of the container that is asked for, but for its owner and its name if it has none.

    ``given`` has passed the schema of the request's version. Raises Invalid, naming the field, PolicyNotAuthorized,
    RegistryNotFound, and Conflict for what is in different places.
    """
    context, wanted = call.context, given.get("hints") or {}
    creation.check_gates(given, call.version)
    hints.check_gates(wanted, call.version)
    _check_policies(call.access, given)
    made = creation.container_fields(given, run=run, version=call.version, settings=settings)
    registry = given.get("registry")
    if registry:
        made["registry_id"] = db_registries.find(context, registry)["uuid"]
    request = made["request"]
    request |= _host_of(given)
    request |= host_of_volumes(context, made)
    request["hints"] = hints.resolved(context, wanted)
    if "image" in given:
        request |= committed.wanted(context.project_id, given["image"], registry=registry, host=request["host"])
    made["group_uuid"] = request["hints"].get(hints.GROUP)
    return made


def _check_policies(access: Access, given: Mapping[str, Any]) -> None:
    """Some fields are not for everybody, whatever else the request says."""
    if given.get("runtime") is not None:
        access.require("container:create:runtime")
    if "privileged" in given:
        access.require("container:create:privileged")
    if given.get("image_pull_policy"):
        access.require("container:create:image_pull_policy")
    if given.get("host") is not None:
        access.require("container:create:requested_destination")


def _host_of(given: Mapping[str, Any]) -> dict[str, str]:
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
