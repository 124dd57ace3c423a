# SPDX-License-Identifier: Apache-2.0
"""The version of the API that one request speaks.

A request names it in ``OpenStack-API-Version: container X.Y``; without that header it speaks 1.1. What a
version adds is said where it is added: a route has a window of versions, a field of a request the version it
arrived with.
"""

import re
from dataclasses import dataclass
from typing import Any

from zun.api import errors
from zun.common import exceptions

SERVICE = "container"
HEADER = "OpenStack-API-Version"
RANGE_HEADERS = ("OpenStack-API-Minimum-Version", "OpenStack-API-Maximum-Version")
_FORM = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def v1(minor: int) -> Version:
    return Version(1, minor)


MIN = v1(1)
MAX = v1(42)
PLACEMENT = v1(41)  # NUMA placement: fields of create, members of a container, topology of a host
GROUPS = v1(42)  # host aggregates, groups of containers, hints that name a group or other containers
MOUNTS = v1(42)  # mounts of type tmpfs, sizes of mounts in MiB
QUESTIONS = v1(42)  # why a container found no host, where one would go, and how many
PULL_STATUS = v1(42)  # how far the pull of an image is
NETWORKS = v1(42)  # networks with subnets, that can be listed and shown; where exposed ports are published
EVERY = tuple(v1(minor) for minor in range(MIN.minor, MAX.minor + 1))


class UnsupportedVersion(errors.RoutingError):
    """A version that reads well and that this service does not speak. ``version`` is what was asked for."""

    code = 406

    def __init__(self, message: str, version: Version) -> None:
        super().__init__(message, title="Requested microversion is unsupported")
        self.version = version


def negotiate(header: str | None) -> Version:
    """The version that a request with this header speaks.

    Raises VersionNotAcceptable for a header that cannot be read and UnsupportedVersion for a version out of range.
    The service word is not looked at before ``latest``: clients of the reference rely on nothing there, so it
    is not refused either.
    """
    if header is None:
        return MIN
    words = header.split()
    if len(words) == 2 and words[1].lower() == "latest":
        return MAX
    if len(words) != 2 or words[0] != SERVICE:
        raise errors.VersionNotAcceptable(
            f"Invalid service type for {HEADER} header '{header}': send '{SERVICE} X.Y', for example '{SERVICE} {MAX}'."
        )
    found = _FORM.fullmatch(words[1])
    if found is None:
        raise errors.VersionNotAcceptable(
            f"Invalid value for {HEADER} header '{header}': send '{SERVICE} X.Y' with two whole numbers, or "
            f"'{SERVICE} latest'."
        )
    version = Version(int(found[1]), int(found[2]))
    if version.major != MIN.major:
        raise UnsupportedVersion(
            f"API version {version} is mutually exclusive with this endpoint, which speaks {MIN.major}.x only, from "
            f"{MIN} to {MAX}.",
            version,
        )
    if not MIN <= version <= MAX:
        raise UnsupportedVersion(
            f"Version {version} is not supported by the API. Minimum is {MIN} and maximum is {MAX}.",
            version,
        )
    return version


def response_headers(version: Version) -> list[tuple[str, str]]:
    """What every response says whose request named a readable version."""
    lowest, highest = RANGE_HEADERS
    return [
        (HEADER, f"{SERVICE} {version}"),
        (lowest, f"{SERVICE} {MIN}"),
        (highest, f"{SERVICE} {MAX}"),
        ("vary", HEADER),
    ]


def require(version: Version, since: Version, until: Version, what: Any) -> None:
    """Raise VersionNotAcceptable unless ``version`` is in the window in which ``what`` exists."""
    if not since <= version <= until:
        window = f"from version {since}" if until == MAX else f"from version {since} to {until}"
        raise errors.VersionNotAcceptable(
            f"Version {version} is not supported by this API: {what} exists {window}. Send the header "
            f"'{HEADER}: {SERVICE} {until}'."
        )


def require_for(param: str, version: Version, since: Version) -> None:
    """Raise InvalidParamInVersion for a parameter of a request that is newer than its ``version``."""
    if version < since:
        raise exceptions.InvalidParamInVersion(param=param, req_version=version, min_version=since)
