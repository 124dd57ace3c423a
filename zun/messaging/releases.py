# SPDX-License-Identifier: Apache-2.0
"""What each release understands, so that a service can send to services of the release before."""

from collections.abc import Mapping
from dataclasses import dataclass

from zun.common import exceptions


@dataclass(frozen=True)
class Release:
    """RPC versions of the services, and the versions of the objects that messages contain."""

    compute: str
    scheduler: str
    conductor: str
    objects: Mapping[str, str]


#: The last entry is the release under way. A test compares its versions with the code.
RELEASES: Mapping[str, Release] = {
    "1.0": Release(compute="1.5", scheduler="1.2", conductor="1.0", objects={"Container": "1.3"}),
    "1.1": Release(compute="1.7", scheduler="1.4", conductor="1.1", objects={"Container": "1.7"}),
}


def pinned(option: str, name: str | None) -> Release | None:
    """Return the release ``name`` of ``[upgrade_levels] option``, or None without a pin. Raise Misconfigured."""
    if not name:
        return None
    if name not in RELEASES:
        known = ", ".join(RELEASES)
        raise exceptions.Misconfigured(
            f"[upgrade_levels] {option} must be a release ({known}), got {name!r}. Remove it if every service runs "
            "the same release."
        )
    return RELEASES[name]
