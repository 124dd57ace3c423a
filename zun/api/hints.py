# SPDX-License-Identifier: Apache-2.0
"""Hints of create that name a group or other containers: looked up when the request comes, stored as uuids.

A hint that names nothing would be a placement that nobody asked for, so it is refused. Hints of other names pass as
they are, for filters that know them.
"""

from collections.abc import Mapping
from typing import Any

from oslo_utils import uuidutils

from zun.api import microversion
from zun.api.microversion import Version
from zun.common import exceptions
from zun.common.context import RequestContext
from zun.common.hints import DIFFERENT_HOST, GROUP, SAME_HOST
from zun.db import containers, groups

NEIGHBOURS = (SAME_HOST, DIFFERENT_HOST)


def check_gates(hints: Mapping[str, Any], version: Version) -> None:
    """Raise InvalidParamInVersion for a hint that is newer than the request's version."""
    for name in (GROUP, *NEIGHBOURS):
        if hints.get(name) is not None:
            microversion.require_for(f"hints.{name}", version, microversion.GROUPS)


def resolved(context: RequestContext, hints: Mapping[str, Any]) -> dict[str, Any]:
    """``hints`` with the group's uuid, and lists of uuids for ``same_host`` and ``different_host``. Nulls are left out.

    Raises InvalidValue for a group that is not of the context's project and for containers that it may not see.
    """
    found = {name: value for name, value in hints.items() if name not in (GROUP, *NEIGHBOURS)}
    if hints.get(GROUP) is not None:
        found[GROUP] = _group(context, hints[GROUP])
    for name in NEIGHBOURS:
        if hints.get(name) is not None:
            found[name] = _neighbours(context, name, hints[name])
    return found


def no_group(ident: Any) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"hints.group: this project has no group '{str(ident)[:255]}'. List its groups with 'openstack appcontainer "
        "group list'."
    )


def _group(context: RequestContext, ident: Any) -> str:
    if not isinstance(ident, str) or not ident:
        raise exceptions.InvalidValue("hints.group: the uuid or the name of a group is wanted.")
    try:
        return str(groups.find(context, ident)["uuid"])
    except exceptions.GroupNotFound:
        raise no_group(ident) from None


def _neighbours(context: RequestContext, name: str, value: Any) -> list[str]:
    uuids = value if isinstance(value, list) else [value]
    if not all(isinstance(uuid, str) and uuidutils.is_uuid_like(uuid) for uuid in uuids):
        raise exceptions.InvalidValue(f"hints.{name}: the uuid of a container, or a list of them, is wanted.")
    wanted = list(dict.fromkeys(uuids))
    missing = set(wanted) - containers.visible(context, wanted)
    if missing:
        raise exceptions.InvalidValue(
            f"hints.{name}: container {min(missing)} could not be found. Leave it out, or name one that is there."
        )
    return wanted
