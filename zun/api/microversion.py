# SPDX-License-Identifier: Apache-2.0
"""The microversion of the API that one request speaks.

A request names it in ``OpenStack-API-Version: container X.Y``; without that header it speaks 1.1. A request may say
``application-container`` instead: the official service type, of which ``container`` is an alias. A route declares its
window of versions, and a request's field the version that introduced it.
"""

import re
from dataclasses import dataclass
from typing import Any

from zun.api import errors
from zun.common import exceptions

SERVICE = "container"
SERVICES = (SERVICE, "application-container")  # the usual alias, and OpenStack's official service type
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
MAX = v1(51)
STRICT = v1(41)  # lists and health checks refuse names that they do not know
PLACEMENT = v1(41)  # NUMA placement: fields of create, members of a container, topology of a host
GROUPS = v1(42)  # host aggregates, groups of containers, hints that name a group or other containers
MOUNTS = v1(42)  # mounts of type tmpfs, sizes of mounts in MiB
QUESTIONS = v1(42)  # why a container found no host, where one would go, and how many
PULL_STATUS = v1(42)  # how far the pull of an image is
NETWORKS = v1(42)  # networks with subnets, that can be listed and shown; where exposed ports are published
QUOTAS = v1(43)  # limits of everything that a project can create
VOLUMES = v1(43)  # named volumes can be listed, shown and deleted
DEVICES = v1(44)  # topology of a host shows the devices that it offers
FOREIGN = v1(44)  # topology of a host shows what other services have of it
TRAITS = v1(44)  # traits of hosts, and fields of create that ask for traits and aggregates
DEVICE_REQUESTS = v1(45)  # containers ask for devices
CAPABILITIES = v1(46)  # containers ask for Linux capabilities
DEVICE_QUOTAS = v1(46)  # limits of devices by alias
DEVICE_CHANGES = v1(46)  # a new size says why the devices of a container stay
CAPSULE_DEVICES = v1(46)  # containers of a capsule ask for devices
CINDER = v1(46)  # read-only mounts, and mounts of type local beside Cinder
MIXED = v1(46)  # containers with CPUs of their own and a share of the pool
DEVICE_LINKS = v1(47)  # devices that GPU links join, of hosts and for containers
DEVICE_SHARES = v1(47)  # topology of a host shows how many containers may have each device, and how many have it
MAP = v1(48)  # hosts show zone, aggregates, traits and free amounts; their topology sockets, and devices of claims
MOVES = v1(49)  # containers are moved within their host: field movable, defragmentation
SETS = v1(50)  # many containers of one request: fields count and set, and the sets that they make
POD_MEMBERS = v1(51)  # names, probes, grace periods, sidecars and empty volumes of the containers of a capsule
MEMBER_PLACEMENT = v1(51)  # containers of a capsule have a placement of their own, and something in common
QUIET = v1(51)  # wishes about interrupts, partition, power and signal; audits and stats tell what disturbs containers
EVERY = tuple(v1(minor) for minor in range(MIN.minor, MAX.minor + 1))


class UnsupportedVersion(errors.RoutingError):
    """A well-formed version that this service does not speak. ``version`` is the requested one."""

    code = 406

    def __init__(self, message: str, version: Version) -> None:
        super().__init__(message, title="Requested microversion is unsupported")
        self.version = version


def negotiate(header: str | None) -> Version:
    """Return the version that a request with this header speaks.

    Raises VersionNotAcceptable for a malformed header and UnsupportedVersion for a version out of range. The service
    word before ``latest`` is not checked, because the reference does not check it either.
    """
    if header is None:
        return MIN
    words = header.split()
    if len(words) == 2 and words[1].lower() == "latest":
        return MAX
    if len(words) != 2 or words[0] not in SERVICES:
        raise errors.VersionNotAcceptable(
            f"Invalid service type for {HEADER} header '{header}': send '{SERVICE} X.Y' or '{SERVICES[1]} X.Y', for "
            f"example '{SERVICE} {MAX}'."
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


def service(header: str | None) -> str:
    """Return the name by which a request with this header calls the service: the response uses the same name."""
    word = (header or SERVICE).split(maxsplit=1)[0:1]
    return word[0] if word and word[0] in SERVICES else SERVICE


def response_headers(version: Version, name: str = SERVICE) -> list[tuple[str, str]]:
    """Return the headers of every response to a request with a readable version. ``name`` is the service's."""
    lowest, highest = RANGE_HEADERS
    return [
        (HEADER, f"{name} {version}"),
        (lowest, f"{name} {MIN}"),
        (highest, f"{name} {MAX}"),
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
