# SPDX-License-Identifier: Apache-2.0
"""Read the traits and aggregates that a request asks of its host.

``zun.api.schemas.traits`` has checked each field's form. Aggregates are looked up when the request comes and stored as
uuids. A name without an aggregate is an error, because no host could match.
"""

from collections.abc import Mapping
from typing import Any

from zun.api.schemas.traits import FIELDS
from zun.common import exceptions, hints, traits
from zun.db import aggregates

REQUIRED, FORBIDDEN = "required", "forbidden"


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which something is asked, as they are stored on a container.

    Raises InvalidValue for traits that no host can have and lack, among the fields and the hints about the image.
    """
    found = {name: given[name] for name in FIELDS if given.get(name)}
    of_image = of_hints(given.get("hints") or {})
    required = {*found.get("required_traits", ()), *of_image[REQUIRED]}
    forbidden = {*found.get("forbidden_traits", ()), *of_image[FORBIDDEN]}
    for name in sorted(required & forbidden):
        raise exceptions.InvalidValue(
            f"forbidden_traits: {name} is required and forbidden, which no host can satisfy; leave out one of the two."
        )
    for names in found.get("any_traits", ()):
        if forbidden.issuperset(names):
            raise exceptions.InvalidValue(
                f"any_traits: each of {', '.join(names)} is forbidden as well; name one that is not."
            )
    return found


def of_hints(given: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the traits that hints ``image:trait:NAME`` say the image requires and forbids. Raises InvalidValue."""
    found: dict[str, set[str]] = {REQUIRED: set(), FORBIDDEN: set()}
    for hint, value in given.items():
        if hint.startswith(hints.IMAGE_TRAIT):
            name = hint.removeprefix(hints.IMAGE_TRAIT)
            if wrong := traits.problem(name):
                raise exceptions.InvalidValue(f"hints.{hint[:64]}: {wrong}.")
            if value not in (REQUIRED, FORBIDDEN):
                raise exceptions.InvalidValue(
                    f"hints.{hint}: it must be {REQUIRED} or {FORBIDDEN}, got {str(value)[:64]!r}."
                )
            found[value].add(name)
    return found


def resolved(placement: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``placement`` with the uuids of the aggregates of ``member_of``. Raises InvalidValue for one of none."""
    if "member_of" not in placement:
        return dict(placement)
    return {**placement, "member_of": [[_uuid(ident) for ident in idents] for idents in placement["member_of"]]}


def _uuid(ident: str) -> str:
    try:
        return str(aggregates.find(ident)["uuid"])
    except exceptions.AggregateNotFound:
        raise exceptions.InvalidValue(
            f"member_of: there is no aggregate '{ident}'. Ask an administrator for the names, or leave it out."
        ) from None
