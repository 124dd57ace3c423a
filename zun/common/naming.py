# SPDX-License-Identifier: Apache-2.0
"""Names of things in texts for users."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class Named(Protocol):
    """A thing with a uuid and a name from users, such as ``zun.objects.Container``."""

    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str | None: ...


def named(thing: Mapping[str, Any]) -> str:
    """Return the name and the uuid of a row or an object, ``web (5f0c...)``; the uuid alone if it has no name."""
    return called(thing["name"], thing["uuid"])


def called(name: str | None, uuid: str) -> str:
    """Return ``web (5f0c...)`` for a thing of this name and uuid, or the uuid if the name is empty or None."""
    return f"{name} ({uuid})" if name else uuid


MOST = 10  # ids in one error


def listed(uuids: Iterable[str]) -> str:
    """Return the ids of things that share a name, for an error: ``one, two``. More than MOST end in dots."""
    some = list(uuids)
    return ", ".join([*some[:MOST], *(["..."] if len(some) > MOST else [])])


def of(thing: Named) -> str:
    """Return the name and the uuid of an object with such attributes, as ``named`` does for a row."""
    return called(thing.name, thing.uuid)
