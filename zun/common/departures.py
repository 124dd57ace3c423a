# SPDX-License-Identifier: Apache-2.0
"""Names of what a container on its way to another host is known by. ``zun.db.departures`` explains the way."""

import uuid as uuids
from collections.abc import Mapping
from typing import Any

DEPARTED = "departed"
"""The member of a container's ``request`` while it is on its way: ``from`` and ``to``, host names, ``to`` may be None,
and ``sent``, whether a scheduler has sent it to a host."""

LEFT_BY = "left_by"
"""The member of ``request`` of what a container left: the ``uuid`` of the container, its ``status`` when it comes back,
whether it ``run``, and the ``request_id`` and ``user_id`` of who had it moved."""

MOVABLE = "movable"
"""The member of ``placement`` by which a user allows moves of the container, or forbids them."""

_NAMESPACE = uuids.UUID("9b5c3a52-7f0e-4a43-9d36-5c0c2f3f1a8e")


def uuid_of_left(uuid: str, host: str) -> str:
    """Return the uuid of what the container ``uuid`` leaves at ``host``."""
    return str(uuids.uuid5(_NAMESPACE, f"{uuid} {host}"))


def departed(request: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the member ``DEPARTED`` of ``request``, or None if the container is not on its way."""
    found = (request or {}).get(DEPARTED)
    if not isinstance(found, Mapping) or not isinstance(found.get("from"), str):
        return None
    return found if "sent" in found and isinstance(found.get("to"), str | None) else None


def owner_of(request: Mapping[str, Any] | None) -> str | None:
    """Return the uuid of the container that left the row with this ``request``, or None for another row."""
    found = (request or {}).get(LEFT_BY)
    return str(found["uuid"]) if isinstance(found, Mapping) and "uuid" in found else None
