# SPDX-License-Identifier: Apache-2.0
"""The inventory of a compute host. Free resources are derived from the containers of the host."""

from typing import Any

from zun.common import disk_pools
from zun.common.context import RequestContext
from zun.common.disk_pools import DiskPool, PoolUse
from zun.db import aggregates as db_aggregates
from zun.db import compute_nodes as db
from zun.db import containers as db_containers
from zun.objects import allocation_ratios, base


@base.register
class ComputeNode(base.ZunObject):
    """The row of a compute host. Services only write it over RPC, so the object has no fields."""

    VERSION = "1.1"  # 1.1: allocation_ratios

    @classmethod
    @base.remotable
    def put(cls, context: RequestContext, hostname: str, values: dict[str, Any]) -> int:
        """Write the inventory of ``hostname``, adding the node the first time. Returns its generation.

        ``values`` are columns; ``topology`` among them is a HostTopology in its dict form.
        """
        generation: int = db.put(hostname, values)["generation"]
        return generation

    @classmethod
    @base.remotable
    def topology(cls, context: RequestContext, hostname: str) -> dict[str, Any]:
        """Return the HostTopology in the row of ``hostname`` in its dict form, empty if there is no such row."""
        return db.topology(hostname)

    @classmethod
    @base.remotable
    def aggregates(cls, context: RequestContext, hostname: str) -> dict[str, bool]:
        """Return the uuid of every host aggregate, and whether ``hostname`` is in it."""
        return {each["uuid"]: hostname in each["hosts"] for each in db_aggregates.all_aggregates()}

    @classmethod
    @base.remotable
    def allocation_ratios(cls, context: RequestContext, hostname: str) -> dict[str, float]:
        """Return the allocation ratios that the aggregates of ``hostname`` name in place of the host's own."""
        mine = (each["metadata"] for each in db_aggregates.all_aggregates() if hostname in each["hosts"])
        return allocation_ratios.of_aggregates(mine)

    @classmethod
    @base.remotable
    def disk_pool(cls, context: RequestContext, hostname: str) -> DiskPool | None:
        """Return the disk pool of ``hostname``, or None if containers take the host's own disk."""
        return disk_pools.pool_of(hostname, db_aggregates.all_aggregates())

    @classmethod
    @base.remotable
    def pool_use(cls, context: RequestContext, hostname: str) -> PoolUse:
        """Return the disk pool of ``hostname``, who holds disk of it, and which aggregates are no pool in use."""
        rows = db_aggregates.all_aggregates()
        mine = disk_pools.pool_of(hostname, rows)
        hosts = [host for row in rows if mine is not None and row["uuid"] == mine.uuid for host in row["hosts"]]
        unused = frozenset(row["uuid"] for row in rows if not row["hosts"] or disk_pools.pool(row) is None)
        return PoolUse(mine, db_containers.disk_holders(hosts) if hosts else {}, unused)
