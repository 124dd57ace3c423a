# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from zun.api import microversion
from zun.api.microversion import Version
from zun.api.views import links, members
from zun.nouns import owned

NOUN = "networks"
Network = Annotated[members.Shown, members.Answer(owned.Network)]


class NetworkList(TypedDict):
    networks: list[Network]
    next: str | None


def show(row: Mapping[str, Any], version: Version, base_url: str | None = None) -> Network:
    """Return a network, from version 1.42 on with links if ``base_url`` is given: a list has none.

    Clients expect the id of a Neutron network. Without Neutron the network's own uuid stands there.
    """
    uuid = row["uuid"]
    found = ... if base_url is None or version < microversion.NETWORKS else links.item(base_url, NOUN, uuid)
    own = row["neutron_net_id"] or uuid
    return members.show(owned.Network, row, version, network_id=uuid, neutron_net_id=own, links=found)
