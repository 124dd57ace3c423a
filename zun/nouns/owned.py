# SPDX-License-Identifier: Apache-2.0
"""The nouns of a project beside containers: groups, sets, images, networks and their ports, registries, volumes."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from zun.nouns import (
    KEY,
    LINKS,
    OPTIONAL,
    PROSE,
    SECRET,
    SERVER_DEFAULT,
    UNIQUE,
    UNSENT,
    UNSTORED,
    UUID,
    WRITTEN,
    Noun,
    Sent,
    Shown,
    Text,
)

_NAME, _ID = Text(255), Text(36)
_NETWORKS = Shown(since=42)


class Group(Noun):
    """A group of containers, whose rules say which hosts its members may share."""

    id: Annotated[int, KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    name: Annotated[str, "The name, once in a project.", _NAME, Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    user_id: Annotated[str | None, "The user who created it.", _NAME, Shown()]
    policy: Annotated[str, "Where its members may be: affinity, anti-affinity or a soft form.", Text(32), Shown()]
    rules: Annotated[dict[str, int], "max_per_host, the most members of one host.", Shown()]
    members: Annotated[list[str], "The uuids of its containers, oldest first.", UNSTORED, Shown()]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, Shown()]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", Shown()]


class ContainerSet(Noun):
    """A set of equal containers, which were asked for and placed together."""

    id: Annotated[int, KEY, UNSENT]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    name: Annotated[str, "The name; its members are called NAME-0, NAME-1 and so on.", _NAME, Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    user_id: Annotated[str | None, "The user who created it.", _NAME, UNSENT, Shown()]
    count: Annotated[int, "How many members were asked for.", UNSENT, Shown()]
    min_count: Annotated[int, "How many members must find a place; with fewer, none is placed.", UNSENT, Shown()]
    rules: Annotated[
        dict[str, Any], "spread, pack and max_per_host: which hosts and cells members may share.", UNSENT, Shown()
    ]
    status_reason: Annotated[str | None, "Why members have no place.", PROSE, UNSENT, Shown()]
    members: Annotated[
        list[dict[str, Any]], "The uuid, name and status of its containers, by number.", UNSTORED, Shown()
    ]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, UNSENT, Shown()]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", UNSENT, Shown()]
    template: Annotated[dict[str, Any], "The fields of a member, with which lost members are replaced.", UNSENT]


class Volume(Noun):
    """A volume that a project named in ``mounts``. It is on the host of the first container that claimed with it."""

    id: Annotated[int, KEY, UNSENT]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    name: Annotated[str, "The name, once in a project.", _NAME, Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    status: Annotated[str, "In-use while a container mounts it, Available, or Deleting.", UNSTORED, Shown()]
    host: Annotated[
        str, "The host that it is on; null for a caller who may not see hosts.", _NAME, UNSENT, Shown(str | None)
    ]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, UNSENT, Shown()]
    deleting: Annotated[bool, "Whether its host has still to remove it.", UNSENT]


class Image(Noun):
    """An image that was pulled to a host, or made from one of its containers."""

    id: Annotated[int, KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    image_id: Annotated[str | None, "The id of the engine, once the image is there.", _NAME, Shown()]
    repo: Annotated[str, "The name without its tag.", _NAME, Shown()]
    tag: Annotated[str, "The tag, or a digest.", _NAME, Shown()]
    size: Annotated[str | None, "Bytes, once the image is there.", Text(32), Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    host: Annotated[str, "The host that it is on.", _NAME, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    status: Annotated[str, "Pulling, Available or Error.", Text(16), _NETWORKS]
    status_detail: Annotated[str | None, "How far the pull is, or why it failed.", _NAME, _NETWORKS]
    pulled: Annotated[
        str | None,
        "A digest of host, repo and tag, unique among pulled images; null for one made from a container.",
        Text(64),
        UNIQUE,
        UNSENT,
    ]
    local_name: Annotated[
        str, "The name at the engine of one made from a container; empty for a pulled one.", Text(64), SERVER_DEFAULT
    ] = ""
    created_at: Annotated[datetime.datetime | None, "When it was asked for.", WRITTEN]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last."]


class Registry(Noun):
    """A registry at which a project has an account."""

    id: Annotated[int, KEY, UNSENT]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    name: Annotated[str | None, "The name.", _NAME, UNSENT, Shown()]
    domain: Annotated[str, "The host of the registry, with its port if it is not 443.", _NAME, Shown()]
    username: Annotated[str | None, "The name of the account.", _NAME, Shown()]
    password: Annotated[str | None, "*** for a registry with a password, which is never shown.", SECRET, Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    user_id: Annotated[str | None, "The user who created it.", _NAME, UNSENT, Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, OPTIONAL, Shown()]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, UNSENT]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", UNSENT]


class Network(Noun):
    """A network. Its subnets overlap with those of no other network, because any host may have both."""

    id: Annotated[int, KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    name: Annotated[str | None, "The name.", _NAME, Shown()]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, Shown()]
    user_id: Annotated[str | None, "The user who created it.", _NAME, Shown()]
    network_id: Annotated[str, "The uuid.", UNSTORED, Shown()]
    neutron_net_id: Annotated[str | None, "The id that its creator gave it, or else the uuid.", _NAME, Shown(str)]
    shared: Annotated[bool, "Whether other projects may use it.", _NETWORKS] = False
    subnets: Annotated[list[dict[str, str]], "The uuid, cidr and gateway of each subnet.", _NETWORKS]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, _NETWORKS]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", _NETWORKS]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, OPTIONAL, Shown()]


class NetworkPort(Noun):
    """The place of a container in a network, with the addresses there, until the container leaves the network."""

    id: Annotated[int, KEY, UNSENT]
    uuid: Annotated[str, "The id, which is Neutron's for a port of Neutron.", UUID, UNIQUE]
    network_uuid: Annotated[str, "The network.", UUID]
    container_uuid: Annotated[str, "The container.", UUID]
    ipv4: Annotated[str | None, "The address of IPv4.", Text(15)]
    ipv6: Annotated[str | None, "The address of IPv6.", Text(45)]
    leaving: Annotated[bool, "Whether its host has still to unplug it."] = False
    fixed_ips: Annotated[
        Sequence[Mapping[str, str]] | None, "The addresses of a port of Neutron, which has none above.", Sent("1.2")
    ]
    preserve: Annotated[bool, "Whether its user made it at Neutron, and keeps it.", SERVER_DEFAULT, Sent("1.2")] = False
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, UNSENT]
