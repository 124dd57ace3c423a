# SPDX-License-Identifier: Apache-2.0
"""A compute host: what it has. What it has left is derived from its containers."""

import datetime
from typing import Any, Self

from oslo_versionedobjects import fields

from zun.common.context import RequestContext
from zun.db import compute_nodes as db
from zun.objects import base
from zun.topology import HostTopology


@base.register
class ComputeNode(base.ZunObject):
    """``topology`` is a HostTopology in its dict form, the operator's settings included. MiB and GiB."""

    VERSION = "1.0"

    fields = {
        "id": fields.IntegerField(),
        "uuid": fields.UUIDField(),
        "hostname": fields.StringField(),
        "created_at": base.TimeField(nullable=True),
        "updated_at": base.TimeField(nullable=True),
        "generation": fields.IntegerField(),
        "topology": base.JsonField(),
        "cpus": fields.IntegerField(),
        "mem_total": fields.IntegerField(),
        "disk_total": fields.IntegerField(),
        "disk_quota_supported": fields.BooleanField(),
        "disk_allocation_ratio": fields.FloatField(),
        "enable_cpu_pinning": fields.BooleanField(),
        "availability_zone": fields.StringField(nullable=True),
        "labels": base.JsonField(),
        "runtimes": base.JsonField(),
        "architecture": fields.StringField(nullable=True),
        "os_type": fields.StringField(nullable=True),
        "os": fields.StringField(nullable=True),
        "kernel_version": fields.StringField(nullable=True),
    }

    id: int
    uuid: str
    hostname: str
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    generation: int
    topology: dict[str, Any]
    cpus: int
    mem_total: int
    disk_total: int
    disk_quota_supported: bool
    disk_allocation_ratio: float
    enable_cpu_pinning: bool
    availability_zone: str | None
    labels: dict[str, str]
    runtimes: list[str]
    architecture: str | None
    os_type: str | None
    os: str | None
    kernel_version: str | None

    @property
    def host_topology(self) -> HostTopology:
        return HostTopology.from_dict(self.topology)

    @base.remotable_classmethod
    def put(cls, context: RequestContext, hostname: str, values: dict[str, Any]) -> Self:
        """Write the inventory of ``hostname``, adding the node the first time."""
        return cls.from_row(context, db.put(hostname, values))

    @base.remotable_classmethod
    def get_by_ident(cls, context: RequestContext, ident: str) -> Self:
        """By uuid or host name. Raises ComputeNodeNotFound."""
        return cls.from_row(context, db.find(ident))

    @base.remotable_classmethod
    def page(
        cls,
        context: RequestContext,
        limit: int,
        marker: str | None = None,
        sort_key: str = "hostname",
        sort_dir: str = "asc",
    ) -> list[Self]:
        rows = db.page(limit=limit, marker=marker, sort_key=sort_key, sort_dir=sort_dir)
        return [cls.from_row(context, row) for row in rows]
