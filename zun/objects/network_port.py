# SPDX-License-Identifier: Apache-2.0
"""A container's place in a network, as the container's host knows it."""

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Self

from zun import nouns
from zun.common import subnets
from zun.common.context import RequestContext
from zun.db import network_ports as db
from zun.db import networks
from zun.nouns import owned
from zun.objects import base


@base.register
class NetworkPort(owned.NetworkPort, base.ZunObject):
    """``subnets`` (uuid, cidr, gateway of each), ``network_name`` and ``project_id`` are those of the network."""

    VERSION = "1.2"  # 1.1: recorded; 1.2: fixed_ips, preserve and known

    network_name: str | None
    project_id: str
    subnets: Sequence[Mapping[str, Any]]
    slot: Annotated[str | None, nouns.UNSENT] = None
    """The host of the container sets it from the container's claim."""

    def addresses(self) -> list[dict[str, Any]]:
        """Return the addresses for a container's record. Raises RowUnreadable if the subnets' row is malformed."""
        if self.fixed_ips is not None:
            return [
                {
                    "addr": each["ip_address"],
                    "version": ipaddress.ip_address(each["ip_address"]).version,
                    "port": self.uuid,
                    "subnet_id": each["subnet_id"],
                    "preserve_on_delete": self.preserve,
                }
                for each in self.fixed_ips
            ]
        with networks.readable_subnets(self.network_uuid):
            return [
                {
                    "addr": self[f"ipv{version}"],
                    "version": version,
                    "port": self.uuid,
                    "subnet_id": subnet["uuid"],
                    "preserve_on_delete": False,
                }
                for subnet in self.subnets
                if self[f"ipv{(version := subnets.version(subnet))}"] is not None
            ]

    @base.remotable
    def destroy(self) -> None:
        """Remove the port, which frees its addresses."""
        db.destroy(self.uuid)

    @classmethod
    @base.remotable
    def list_by_container(cls, context: RequestContext, container_uuid: str) -> list[Self]:
        """Return the container's ports in the order in which it joined the networks."""
        return [cls.from_row(context, row) for row in db.of_container(container_uuid)]

    @classmethod
    @base.remotable
    def list_by_host(cls, context: RequestContext, hostname: str) -> list[Self]:
        """Return the ports of all containers of the host, in the order in which the containers joined."""
        return [cls.from_row(context, row) for row in db.of_host(hostname)]

    @classmethod
    @base.remotable
    def recorded(
        cls, context: RequestContext, container_uuid: str
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of the container's ports and of their networks, for the records of its host."""
        return db.recorded(container_uuid)

    @base.remotable
    def save(self) -> None:
        """Write ``leaving``."""
        db.set_leaving(self.uuid, self.leaving)
        self.obj_reset_changes()

    @classmethod
    @base.remotable
    def known(cls, context: RequestContext, uuids: Collection[str]) -> list[str]:
        """Return those of ``uuids`` that are ports of a container."""
        return sorted(db.known(uuids))

    @classmethod
    @base.remotable
    def networks_of_host(cls, context: RequestContext, hostname: str) -> list[str]:
        """Return the uuids of the networks that have containers on the host."""
        return sorted(db.networks_of_host(hostname))
