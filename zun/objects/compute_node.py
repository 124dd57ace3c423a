# SPDX-License-Identifier: Apache-2.0
"""A compute host: what it has. What it has left is derived from its containers."""

from typing import Any

from zun.common.context import RequestContext
from zun.db import compute_nodes as db
from zun.objects import base


@base.register
class ComputeNode(base.ZunObject):
    """It is written and never read over RPC, so it has no fields of its own."""

    VERSION = "1.0"
    fields: dict[str, Any] = {}

    @classmethod
    @base.remotable
    def put(cls, context: RequestContext, hostname: str, values: dict[str, Any]) -> int:
        """Write the inventory of ``hostname``, adding the node the first time. Returns its generation.

        ``values`` are columns; ``topology`` among them is a HostTopology in its dict form.
        """
        generation: int = db.put(hostname, values)["generation"]
        return generation
